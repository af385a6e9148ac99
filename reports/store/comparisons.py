"""What changed from one campaign to another, and how campaigns of a store went over time: in SQL, over the store.

Rules:

* Programs of two campaigns need not be the same, so shares are told with what they allow to say: of n runs without a
  violation, that fewer than 3/n violate it.
* Distances to a limit are compared where both have ``RUNS_MIN`` runs with one; they drift when the middle or the
  smallest percent of them moves by more than ``DRIFT`` of itself.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import msgspec

from brokerproof.reports.store.duck import asked_of, connect
from brokerproof.reports.store.estimates import violation_bound
from brokerproof.reports.store.manifests import Store

RUNS_MIN, DRIFT = 30, 0.25

_CELLS = """
WITH cells AS (
    SELECT
        campaign, requirement, COUNT(*) AS runs, COUNT(*) FILTER (verdict = 'violated') AS violated,
        COUNT(slack_ns) AS timed, MEDIAN(slack_ns) / 1e6 AS middle, QUANTILE_CONT(slack_ns, 0.01) / 1e6 AS least,
        ARG_MAX(text, verdict = 'violated') AS text
    FROM verdicts
    WHERE campaign IN ($before, $after) AND ($broker = '' OR broker = $broker)
    GROUP BY campaign, requirement
)
SELECT requirement, b.* EXCLUDE requirement, a.runs AS runs_after, a.violated AS violated_after, a.timed AS timed_after,
    a.middle AS middle_after, a.least AS least_after, a.text AS text_after
FROM (SELECT * FROM cells WHERE campaign = $before) b
FULL JOIN (SELECT * FROM cells WHERE campaign = $after) a USING (requirement)
ORDER BY requirement
"""
_SITUATIONS = """
SELECT requirement, UNNEST(situations) AS situation FROM verdicts
WHERE campaign = $before AND ($broker = '' OR broker = $broker)
EXCEPT
SELECT requirement, UNNEST(situations) FROM verdicts WHERE campaign = $after AND ($broker = '' OR broker = $broker)
ORDER BY ALL
"""
_FLAKY = """
SELECT requirement, r.program, LIST_SORT(LIST(DISTINCT verdict)) AS verdicts
FROM verdicts v
JOIN runs r USING (campaign, broker, run, world)
JOIN campaigns c USING (campaign)
WHERE campaign IN ($before, $after) AND ($broker = '' OR broker = $broker)
    AND r.program <> '' AND verdict IN ('violated', 'satisfied')
GROUP BY broker, requirement, r.program, c.code
HAVING COUNT(DISTINCT verdict) > 1
ORDER BY requirement, r.program
"""
_TRENDS = """
WITH met AS (
    SELECT campaign, broker, COUNT(DISTINCT requirement) AS requirements,
        COUNT(DISTINCT requirement) FILTER (verdict = 'violated') AS violated
    FROM verdicts GROUP BY ALL
), situations AS (
    SELECT campaign, broker, COUNT(DISTINCT (requirement, situation)) AS situations
    FROM (SELECT campaign, broker, requirement, UNNEST(situations) AS situation FROM verdicts) GROUP BY ALL
), ran AS (
    SELECT campaign, broker, COUNT(*) AS runs, SUM(processor_us) / COUNT(*) / 1000 AS ms FROM runs GROUP BY ALL
), new AS (
    SELECT campaign, broker, COUNT(DISTINCT signature) FILTER (campaign = first_campaign) AS new
    FROM failures GROUP BY ALL
)
SELECT campaign, broker, left(c.commit, 9) AS commit, ran.runs, requirements, situations, violated,
    COALESCE(new, 0) AS new_failures, ROUND(ms, 2) AS ms_per_program
FROM ran
JOIN campaigns c USING (campaign)
LEFT JOIN met USING (campaign, broker)
LEFT JOIN situations USING (campaign, broker)
LEFT JOIN new USING (campaign, broker)
WHERE $broker = '' OR broker = $broker
ORDER BY broker, campaign
"""


class Comparison(msgspec.Struct, frozen=True):
    """Sentences, by what they tell."""

    newly_violated: list[str]
    fixed: list[str]
    flaky: list[str]
    coverage_lost: list[str]
    drifting: list[str]


def compare(store: Store, before: str, after: str, broker: str = "") -> Comparison:
    """From one campaign to another; ``broker`` "": all of them."""
    chosen = {"before": before, "after": after, "broker": broker}
    with contextlib.closing(connect(store)) as connection:
        cells = asked_of(connection, _CELLS, chosen)
        lost = asked_of(connection, _SITUATIONS, chosen)
        flaky = asked_of(connection, _FLAKY, chosen)
    gone = [
        f"{row['requirement']}: exercised in {row['runs']:,} runs, now in none"
        for row in cells
        if not row["runs_after"]
    ]
    silent = {row["requirement"] for row in cells if not row["runs_after"]}
    gone += [f"{row['requirement']}: {row['situation']}" for row in lost if row["requirement"] not in silent]
    return Comparison(
        newly_violated=[_worse(row) for row in cells if row["violated_after"] and not row["violated"]],
        fixed=[_better(row) for row in cells if row["violated"] and row["violated_after"] == 0],
        flaky=[f"{row['requirement']}: {' and '.join(row['verdicts'])} of program {row['program']}" for row in flaky],
        coverage_lost=gone,
        drifting=[line for row in cells if (line := _drift(row))],
    )


def trends(store: Store, broker: str = "") -> list[dict[str, Any]]:
    """A row per campaign and broker, oldest first."""
    with contextlib.closing(connect(store)) as connection:
        return asked_of(connection, _TRENDS, {"broker": broker})


def _worse(row: dict[str, Any]) -> str:
    runs = row["runs"] or 0
    share = (
        f"in none of {runs:,} runs before (so in fewer than {violation_bound(runs):.2%})"
        if runs
        else "never tried before"
    )
    return (
        f"{row['requirement']}: {row['violated_after']:,} of {row['runs_after']:,} runs, {share}: {row['text_after']}"
    )


def _better(row: dict[str, Any]) -> str:
    bound = f"in none of {row['runs_after']:,} runs now (so in fewer than {violation_bound(row['runs_after']):.2%})"
    return f"{row['requirement']}: {row['violated']:,} of {row['runs']:,} runs before, {bound}"


def _drift(row: dict[str, Any]) -> str:
    if min(row["timed"] or 0, row["timed_after"] or 0) < RUNS_MIN:
        return ""
    moved = [
        f"{word} {row[name]:,.3f} ms before, {row[f'{name}_after']:,.3f} ms now"
        for name, word in (("middle", "half of the runs come within"), ("least", "one in a hundred within"))
        if abs(row[f"{name}_after"] - row[name]) > DRIFT * abs(row[name])
    ]
    return f"{row['requirement']}: {'; '.join(moved)} of the limit" if moved else ""


def lines(found: Comparison) -> Sequence[str]:
    """As text; what is empty is named in one line."""
    titles = {
        "newly_violated": "newly violated",
        "fixed": "fixed",
        "flaky": "flaky: one program, more than one verdict, with the same code",
        "coverage_lost": "no longer tried",
        "drifting": "distance to the limit has moved",
    }
    told: list[str] = []
    for name, title in titles.items():
        entries = getattr(found, name)
        told += [f"{title} ({len(entries)}):", *(f"  {entry}" for entry in entries)] if entries else []
    nothing = [title.partition(":")[0] for name, title in titles.items() if not getattr(found, name)]
    return [*told, f"nothing: {', '.join(nothing)}"] if nothing else told
