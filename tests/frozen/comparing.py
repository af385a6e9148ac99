"""Both judges side by side: the recorded histories are judged again, and counted per requirement.

* Decided: of the runs on the sound broker of which the old judge said satisfied or violated, the new one does.
* Violated: of the mutants' runs that the old one says are violated, the new one does.
* An accusation is a violation on the sound broker that the old judge did not see: there must be none.

To be quick, a run is judged for the wanted requirements alone, and only if the old judge decided one of them (mutants:
found one violated); of the others each ``sample``-th.
"""

from __future__ import annotations

import gc
import multiprocessing
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from fnmatch import fnmatchcase
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

from tests.frozen.records import GROUPS, Missing, Record, files, read_records

#: Where this tree keeps its judge (called with a history and ``wanted``), its reader and its catalogue.
JUDGE = "brokerproof.conformance.rules.judge:judge_history"
PARSE = "brokerproof.conformance.experiment.history_file:parse_history"
CATALOGUE = "brokerproof.conformance.requirements.catalogue:default_catalogue"

DECIDED = frozenset({"satisfied", "violated"})
SILENT = "not exercised"
#: Kinds of differences.
ACCUSATION, LOST, UNDECIDED, NEW_ONLY = "ACCUSATION", "lost violation", "undecided", "new in mutant"


class Difference(msgspec.Struct, frozen=True):
    """A run of which the judges say different things about a requirement."""

    requirement: str
    kind: str
    key: str
    old: str
    new: str


class Tally(msgspec.Struct):
    """What was counted: per requirement and column (``counts``), runs as a whole (``runs``), and the first differences
    of each requirement and kind; ``failures`` are runs over which the judge raised, with the end of the trace.
    """

    counts: dict[str, Counter[str]] = {}
    runs: Counter[str] = msgspec.field(default_factory=Counter)
    differences: list[Difference] = []
    failures: list[str] = []

    def count(self, requirement: str, column: str) -> None:
        """One more run."""
        self.counts.setdefault(requirement, Counter())[column] += 1

    def add(self, other: Tally) -> None:
        """Take over what was counted of the next file."""
        for requirement, counter in other.counts.items():
            self.counts.setdefault(requirement, Counter()).update(counter)
        self.runs.update(other.runs)
        self.differences += other.differences
        self.failures += other.failures

    def first(self, requirement: str, number: int) -> Iterator[Difference]:
        """So many differences of each kind."""
        seen: Counter[str] = Counter()
        for one in self.differences:
            if one.requirement == requirement:
                seen[one.kind] += 1
                if seen[one.kind] <= number:
                    yield one


def load(place: str) -> Callable[..., Any]:
    """What ``MODULE:NAME`` names. Raises ``Missing``."""
    module, _, name = place.partition(":")
    try:
        return getattr(import_module(module), name)  # type: ignore[no-any-return]  # whatever it is, it is called
    except (ImportError, AttributeError, ValueError) as error:
        raise Missing(f"{place!r} cannot be loaded ({error}); name another with --judge MODULE:NAME") from None


def select(globs: list[str]) -> list[str]:
    """The judged requirements that match. Raises ``Missing`` if none does."""
    ids = [requirement.id for requirement in load(CATALOGUE)().judged()]
    wanted = [name for name in ids if any(fnmatchcase(name, glob) for glob in globs)]
    if not wanted:
        raise Missing(f"no judged requirement matches {' '.join(globs)!r}; they read like {ids[0]!r} or 'DLY-*'")
    return wanted


def chosen(path: Path, group: str, wanted: frozenset[str], key: str, sample: int) -> Iterator[Record]:
    """The runs of a file that are judged."""
    telling = frozenset({"violated"}) if group == "mutants" else DECIDED
    silent = 0
    for record in read_records(path):
        if not fnmatchcase(record.key, key):
            continue
        if any(verdict.requirement in wanted and verdict.verdict in telling for verdict in record.verdicts):
            yield record
            continue
        silent += 1
        if sample and silent % sample == 0:
            yield record


def compare_record(tally: Tally, record: Record, wanted: list[str], judge: Callable[..., Any], keep: int) -> None:
    """Judge one run and count."""
    mutant = record.key.startswith("mutants/")
    history = load(PARSE)(record.history.encode(), record.key)
    tally.runs["judged"] += 1
    tally.runs["events"] += len(history.events)
    new = {verdict.requirement: verdict for verdict in judge(history, wanted=wanted)}
    old = {verdict.requirement: verdict for verdict in record.verdicts}
    violated = {name: [False, False] for name in wanted}
    for name in wanted:
        was = old[name].verdict if name in old else SILENT
        now = str(new[name].verdict) if name in new else SILENT
        violated[name] = [was == "violated", now == "violated"]
        for column in _columns(was, now, mutant=mutant):
            tally.count(name, column)
        kind = _kind(was, now, mutant=mutant)
        if kind is None:
            continue
        tally.count(name, kind)
        if tally.counts[name][kind] <= keep:
            tally.differences.append(Difference(name, kind, record.key, old=_said(old, name), new=_said(new, name)))
    if mutant and any(was for was, _ in violated.values()):
        tally.runs["violated old"] += 1
        tally.runs["violated new"] += any(now for _, now in violated.values())


def _said(verdicts: dict[str, Any], name: str) -> str:
    if name not in verdicts:
        return SILENT
    one = verdicts[name]
    return f"{one.verdict} {one.outcome}: {one.text}"


def _columns(was: str, now: str, *, mutant: bool) -> Iterator[str]:
    if mutant and was == "violated":
        yield "violated old"
        if now == "violated":
            yield "violated new"
    if not mutant and was in DECIDED:
        yield "decided old"
        if now in DECIDED:
            yield "decided new"
    if not mutant and was not in DECIDED and now in DECIDED:
        yield "newly decided"


def _kind(was: str, now: str, *, mutant: bool) -> str | None:
    if now == "violated" and was != "violated":
        return NEW_ONLY if mutant else ACCUSATION
    if mutant:
        return LOST if was == "violated" != now else None
    return UNDECIDED if was in DECIDED and now not in DECIDED else None


def compare_file(
    work: tuple[Path, str, int | None], wanted: list[str], place: str, key: str, sample: int, keep: int
) -> Tally:
    """Judge the runs of one file, at most so many; runs in a worker process."""
    path, group, most = work
    judge = load(place)
    gc.set_threshold(100_000)  # nearly all that a run makes lives until its end
    tally = Tally()
    for number, record in enumerate(chosen(path, group, frozenset(wanted), key, sample)):
        if most is not None and number >= most:
            break
        try:
            compare_record(tally, record, wanted, judge, keep)
        except Exception:  # noqa: BLE001 - a judge under construction fails in any way; the others runs still count
            end = traceback.format_exc(limit=-2).strip().splitlines()
            tally.failures.append(f"{record.key}: " + " | ".join(line.strip() for line in end[1:]))
    return tally


def compare(
    folder: Path,
    wanted: list[str],
    *,
    group: str = "all",
    key: str = "*",
    limit: int | None = None,
    sample: int = 10,
    jobs: int = 1,
    keep: int = 1,
    place: str = JUDGE,
) -> Tally:
    """Judge the recorded runs with this tree's judge. Raises ``Missing`` without records, or without a judge."""
    load(place)
    work: list[tuple[Path, str, int | None]] = []
    for name in GROUPS if group == "all" else [group]:
        paths = [path for path in files(folder, name) if _may_hold(path, name, key)]
        most = None if limit is None else -(-limit // max(1, len(paths)))
        work += [(path, name, most) for path in paths]
    one = partial(compare_file, wanted=wanted, place=place, key=key, sample=sample, keep=max(1, keep))
    total = Tally()
    if jobs <= 1 or len(work) <= 1:
        for tally in map(one, work):
            total.add(tally)
        return total
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        for tally in pool.map(one, work):
            total.add(tally)
    return total


def _may_hold(path: Path, group: str, key: str) -> bool:
    """Whether a file may hold runs of such keys; saves reading all mutants for one."""
    if group != "mutants":
        return key == "*" or fnmatchcase(group, key.partition("/")[0])
    parts = key.split("/")
    return len(parts) < 3 or fnmatchcase(path.name.partition(".")[0], parts[1])
