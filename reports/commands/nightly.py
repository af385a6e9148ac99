"""``brokerproof nightly``: a night of tests on one broker or several, within a budget of time, that remembers the
nights before: what is new is told from what was known, and what was found is tried again first.

Exit codes: 1 by ``--fail-on`` (``new``: what no night before was certain of; ``any``: whatever showed), 2 bad usage, 4
the suite or its environment failed, under ``CI=true`` also what could not be run; else 0.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from brokerproof.conformance.brokers import check_broker
from brokerproof.conformance.experiment.exits import OK, SUITE, VIOLATED, UsageError, reader_may_leave, under_ci
from brokerproof.conformance.experiment.results import REFERENCE, RunResult, combined_digest, run_digest
from brokerproof.conformance.experiment.verdict import VerdictKind
from brokerproof.conformance.generate.chaos import PROFILES, check_chaos
from brokerproof.conformance.mutants import check_mutant
from brokerproof.conformance.requirements.catalogue import default_catalogue
from brokerproof.conformance.running.about import about
from brokerproof.conformance.running.folder import make_folder
from brokerproof.conformance.running.options import SuiteOptions, seconds_of
from brokerproof.conformance.running.silence import Voices
from brokerproof.reports.commands.night import BrokerNight
from brokerproof.reports.commands.night_bench import Tonight, broker_key
from brokerproof.reports.commands.suite_report import new_columns
from brokerproof.reports.render.formats import write_reports
from brokerproof.reports.render.night import RED, NightReport, night_text, write_night
from brokerproof.reports.render.telling import write_pages
from brokerproof.reports.store.collect import ColumnCollector
from brokerproof.reports.store.evidence import slug
from brokerproof.reports.store.journal import Journal, Opening
from brokerproof.reports.store.merge import NewColumn, present_report
from brokerproof.reports.store.nights import Night, State, after, read_state, write_state
from brokerproof.reports.store.schema import Report, column_name

OUT = Path("brokerproof-out/nightly")
STATE = Path("brokerproof-nights")
#: The share of the budget after which no broker is tested any more: the pages take time, too.
WORK = 0.95
#: A night that was cut short goes on so many seconds after its start; after that another one begins.
GOES_ON_S = 12 * 3600


class Gathering:
    """Runs on their way into the report, a column for each broker."""

    def __init__(self, wanted: Sequence[str]) -> None:
        self.wanted = wanted
        self.columns: dict[str, ColumnCollector] = {}
        self._voices: dict[str, Voices] = {}
        self._digests: dict[str, list[str]] = {}

    def collect(self, result: RunResult) -> bool:
        """Take a run in; whether it is one that the report would show. What it did not exercise is left out."""
        result.verdicts = [one for one in result.verdicts if one.verdict is not VerdictKind.NOT_EXERCISED]
        name = column_name(result.broker, result.mutant)
        column = self.columns.setdefault(name, ColumnCollector(name, result.mutant))
        column.add(result)
        self._voices.setdefault(name, Voices()).hear(result)
        self._digests.setdefault(name, []).append(run_digest(result.run, result.program.digest(), result.verdicts))
        return result in column.examples()

    def finished(self, words: dict[str, str], seconds: float) -> list[NewColumn]:
        """The columns; ``words`` are what each says of its night."""
        found, now_ms = [], time.time_ns() // 1_000_000
        for name, column in sorted(self.columns.items()):
            column.silent, column.about = self._voices[name].silent(), words
            digest = combined_digest(self._digests[name])
            found += new_columns([column], self.wanted, digest, round(seconds * 1000), now_ms)
        return found


def main(argv: Sequence[str]) -> int:
    """Take up the night that was cut short, or begin one; report; decide."""
    options = _parse(argv)
    check_mutant(options.mutant)
    check_chaos(None if options.chaos == "none" else options.chaos)
    for broker in options.broker:
        check_broker(broker, mutant=options.mutant)
    present_report(options.out)
    make_folder(options.out)
    make_folder(options.state, "--state")
    with _alone(options.state):
        return _night(options)


def _night(options: argparse.Namespace) -> int:
    journal, state = _opened(options.state)
    assert journal.opening is not None, "a night is open"
    started_s = time.monotonic() - journal.spent_s
    if journal.units:
        _say(f"the night of {journal.opening.night} was cut short after {journal.spent_s / 60:.1f} min; it goes on")
    wanted, chaos = tuple(default_catalogue().select(None)), None if options.chaos == "none" else options.chaos
    gathering = Gathering(wanted)
    for unit in journal.units:
        for kept in unit.runs if unit.stage != "stories" else ():
            gathering.collect(journal.result(kept))

    def spent_s() -> float:
        return time.monotonic() - started_s

    tonight = Tonight(
        options.state, state, journal, wanted, spent_s, gathering.collect, _say, options.mutant, options.jobs, chaos
    )
    brokers = [BrokerNight(tonight, text) for text in options.broker]
    for number, broker in enumerate(brokers):
        begun_s = broker.begun_s()
        broker.run(begun_s + (WORK * options.budget - begun_s) / (len(brokers) - number))
    ended = _ended(journal, spent_s())
    state = after(state, ended, [one for unit in journal.units for one in unit.findings])
    report = _report(options, brokers, gathering, ended)
    missing = {broker.key: broker.missing for broker in brokers if broker.missing}
    told = NightReport(state, ended, [broker.key for broker in brokers], missing, RED[options.fail_on])
    write_night(options.out, told, os.environ.get("GITHUB_STEP_SUMMARY"))
    write_state(options.state, state)
    journal.remove()
    with reader_may_leave():
        where = options.out / ("night.md" if report is None else "index.html")
        sys.stdout.write(f"{night_text(told)}report: {where}\n")
    return _exit_code(told, report, gathering)


def _report(
    options: argparse.Namespace, brokers: list[BrokerNight], gathering: Gathering, night: Night
) -> Report | None:
    """The report of all columns, and the pages of the stories; None where nothing was run."""
    for broker in brokers:
        told = broker.told()
        if told:
            write_pages(options.out / slug(broker.key), told)
    words = about(SuiteOptions(broker=options.broker[0], tier="live"))
    words["night"] = f"{night.id}, {night.seconds / 60:.0f} min, seeds from {night.seed}"
    columns = gathering.finished(words, night.seconds)
    return write_reports(options.out, columns, default_catalogue()) if columns else None


def _exit_code(told: NightReport, report: Report | None, gathering: Gathering) -> int:
    columns = [one for one in report.columns if one.broker in gathering.columns] if report else []
    not_run = under_ci() and any(column.not_run for column in columns)
    if told.missing or not_run or any(column.problems for column in columns):
        return SUITE
    return VIOLATED if told.red() else OK


def _opened(folder: Path) -> tuple[Journal, State]:
    """The night that goes on, or a new one, and the state before it. What is too old to go on is closed as it is."""
    state, journal, now = read_state(folder), Journal(folder), datetime.now(UTC)
    opening = journal.opening
    if opening is not None and opening.night not in {night.id for night in state.nights}:
        if (now - datetime.fromisoformat(opening.night)).total_seconds() < GOES_ON_S:
            return journal, state
        _say(f"the night of {opening.night} was cut short long ago; what it found is kept")
        state = after(state, _ended(journal, journal.spent_s), [one for unit in journal.units for one in unit.findings])
        write_state(folder, state)
    if state.nights:  # a night is named by its second, and no two alike
        now = max(now, datetime.fromisoformat(state.nights[-1].id) + timedelta(seconds=1))
    journal.open(Opening(f"{now:%Y-%m-%dT%H:%M:%S}Z", state.seed_of(now.date())))
    return journal, state


def _ended(journal: Journal, seconds: float) -> Night:
    assert journal.opening is not None, "a night is open"
    programs: dict[str, int] = {}
    for unit in journal.units:
        name = f"{unit.broker} {unit.stage}"
        programs[name] = programs.get(name, 0) + unit.programs
    return Night(journal.opening.night, journal.opening.seed, programs, seconds)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Nobody else writes into the folder meanwhile. Raises ``UsageError``."""
    with (folder / ".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UsageError(
                f"{folder}: another night is running there; wait for it, or give another --state"
            ) from None
        yield


def _say(line: str) -> None:
    sys.stderr.write(f"{datetime.now(UTC):%H:%M:%S}Z {line}\n")
    sys.stderr.flush()


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="brokerproof nightly", description=__doc__)
    parser.add_argument(
        "--broker", nargs="+", action="extend", metavar="BROKER", help=f"as for `run`; several (default {REFERENCE})"
    )
    parser.add_argument("--budget", default="2h", metavar="TIME", help="for all brokers together (default 2h)")
    parser.add_argument(
        "--state", type=Path, default=STATE, metavar="DIR", help=f"what is kept between nights (default {STATE})"
    )
    parser.add_argument("--out", type=Path, default=OUT, metavar="DIR", help=f"where the report goes (default {OUT})")
    parser.add_argument(
        "--chaos",
        default="nightly",
        metavar="PROFILE",
        help=f"how wild the random faults are: {', '.join(PROFILES)}, or none (default nightly)",
    )
    parser.add_argument("--fail-on", choices=list(RED), default="new", help="what ends with exit code 1 (default new)")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="worker processes in virtual time (default 2)")
    parser.add_argument("--mutant", metavar="ID", help="plant this defect in the reference broker")
    options = parser.parse_args(argv)
    options.broker = options.broker or [REFERENCE]
    options.budget = seconds_of(options.budget)
    keys = [broker_key(text) for text in options.broker]
    twice = sorted({key for key in keys if keys.count(key) > 1})
    if twice:
        raise UsageError(f"--broker: {', '.join(twice)} is given twice; failures are filed under that name")
    if options.jobs < 1:
        raise UsageError(f"--jobs {options.jobs} must be at least 1")
    return options
