"""What ``compare`` prints: a line per requirement, accusations, disagreements, and the totals with the exit code."""

from __future__ import annotations

import json
import shlex
import sys
import time
from pathlib import Path

from tests.frozen.comparing import ACCUSATION, LOST, NEW_ONLY, Tally, compare, select

#: What must hold at the end, in percent: violations of the old judge, decided runs of each requirement but so many.
VIOLATIONS_MIN = 98.0
DECIDED_MIN = 95.0
EXCEPTIONS_MAX = 10
#: Columns of numbers: title and what is counted.
COLUMNS = {
    "decided": "decided old",
    "by new": "decided new",
    "newly": "newly decided",
    "violated": "violated old",
    "by  new": "violated new",
    "ACCUSED": ACCUSATION,
    "mut only": NEW_ONLY,
}
SHARES = {"by new": "decided old", "by  new": "violated old"}


def main(  # the command's options
    *,
    dir: Path,  # noqa: A002 - the option's name
    group: str,
    requirement: list[str],
    key: str,
    limit: int | None,
    sample: int,
    jobs: int,
    show: int,
    json: bool,
    judge: str,
) -> int:
    """Compare and print. Exit code 0 or 1."""
    began = time.monotonic()
    wanted = select(requirement)
    tally = compare(
        dir, wanted, group=group, key=key, limit=limit, sample=sample, jobs=jobs, keep=show, place=judge
    )  # fmt: skip
    ok, last = totals(tally, time.monotonic() - began)
    lines = [*(as_json(tally) if json else table(tally, show)), last]
    sys.stdout.write("\n".join(lines) + "\n")
    if show and not json:
        folder = shlex.quote(str(dir))
        sys.stdout.write(f"look: python -m tests.frozen show KEY --dir {folder} --requirement ID\n")
    return 0 if ok else 1


def share(part: int, whole: int) -> float:
    """Percent; nothing of nothing is all."""
    return 100.0 * part / whole if whole else 100.0


def table(tally: Tally, show: int) -> list[str]:
    """A line per requirement of which anything was counted, its first accusation, and ``show`` differences."""
    lines = ["requirement " + " ".join(f"{title:>9}" for title in COLUMNS)]
    for name in sorted(tally.counts):
        counts = tally.counts[name]
        cells = []
        for title, column in COLUMNS.items():
            whole = counts[SHARES[title]] if title in SHARES else 0
            cell = f"{share(counts[column], whole):.1f}%" if whole else str(counts[column] or "")
            cells.append(f"{cell:>9}")
        lines.append(f"{name:<11} " + " ".join(cells))
        for one in tally.first(name, max(1, show)):
            if show or one.kind == ACCUSATION:
                lines += [f"    {one.kind} {one.key}", f"        old {one.old}", f"        new {one.new}"]
    return lines


def as_json(tally: Tally) -> list[str]:
    """The same, one JSON object per requirement."""
    return [
        json.dumps({"requirement": name, **tally.counts[name]}, ensure_ascii=False) for name in sorted(tally.counts)
    ]


def totals(tally: Tally, seconds: float) -> tuple[bool, str]:
    """Whether the thresholds hold, and the last lines."""
    summed = {column: sum(counts[column] for counts in tally.counts.values()) for column in (*COLUMNS.values(), LOST)}
    low = [
        name
        for name, counts in sorted(tally.counts.items())
        if share(counts["decided new"], counts["decided old"]) < DECIDED_MIN
    ]
    ok = (
        not tally.failures
        and not summed[ACCUSATION]
        and len(low) <= EXCEPTIONS_MAX
        and share(summed["violated new"], summed["violated old"]) >= VIOLATIONS_MIN
    )
    failures = [f"judge raised over {len(tally.failures)} runs, first {tally.failures[0]}"] if tally.failures else []
    below = [f"decided below {DECIDED_MIN:.0f} %: {' '.join(low)}"] if low else []
    runs = tally.runs
    last = (
        f"{'ok' if ok else 'NOT YET'}: decided {_of(summed, 'decided')}, {len(low)} requirements below"
        f" {DECIDED_MIN:.0f} %; violations {_of(summed, 'violated')}, in runs {_of(runs, 'violated')};"
        f" {summed[ACCUSATION]} accusations, {len(tally.failures)} failures;"
        f" {runs['judged']} runs, {runs['events']} events, {seconds:.0f} s"
    )
    return ok, "\n".join([*failures, *below, last])


def _of(counts: dict[str, int], what: str) -> str:
    old, new = counts[f"{what} old"], counts[f"{what} new"]
    return f"{new} of {old} ({share(new, old):.1f} %)"
