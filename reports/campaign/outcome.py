"""What the SQL answers of a campaign amount to: a column, its cells, and what still has to be proved again.

Decides: how rows of ``reports/aggregate`` become the structs of ``store/schema.py``; what counts as a problem.

Rules:

* Cells are exactly what ``reports/store/collect.py`` makes of the same runs in one process (a test compares them).
* A seed that gave no result, a run that gives another verdict when it is run again, and a disagreement between the
  in-flight rule and its twin in SQL are problems of the suite: they never become verdicts.
"""

from __future__ import annotations

import time
from typing import Any

import msgspec

from brokerproof.conformance.experiment.results import RunResult
from brokerproof.conformance.experiment.verdict import Verdict, VerdictKind, join
from brokerproof.conformance.requirements.catalogue import Requirement
from brokerproof.reports.campaign.plan import Plan
from brokerproof.reports.campaign.worker import Runner
from brokerproof.reports.render.progress import Bar
from brokerproof.reports.store.collect import SHOWN
from brokerproof.reports.store.estimates import unseen_share
from brokerproof.reports.store.evidence import evidence_of, slug
from brokerproof.reports.store.merge import NewColumn
from brokerproof.reports.store.schema import Cell, Column, Example, Note, WorldCount

Rows = list[dict[str, Any]]


class InFlight:
    """The in-flight count judged twice, in the runs that kept their history.

    How many runs got which verdict from SQL, and where the rule says otherwise. ``beyond``: runs that use what the
    query leaves out; ``silent``: those of which it can tell nothing, where the rule can.
    """

    def __init__(self, rows: Rows, runs: int) -> None:
        self.beyond = runs - sum(int(row["runs"]) for row in rows)
        self.reads = sum(int(row["reads"]) for row in rows)
        self.counts: dict[str, int] = {}
        self.disagreements: list[Note] = []
        self.compared = self.disagreed = self.silent = 0
        for row in rows:
            mine, theirs, count = str(row["verdict"]), str(row["rule_verdict"]), int(row["runs"])
            self.counts[mine] = self.counts.get(mine, 0) + count
            if theirs == "inconclusive":
                continue  # a rule that cannot tell says nothing against SQL
            if mine == VerdictKind.NOT_EXERCISED.value and theirs != mine:
                self.silent += count
                continue
            self.compared += count
            if theirs != mine:
                self.disagreed += count
                text = f"INF-001 is {theirs!r} by the rule and {mine!r} by aggregate/inflight.sql; one of them is wrong"
                self.disagreements += [Note(str(run), text) for run in row["some"]]

    def sentence(self) -> str:
        """For the terminal."""
        if not self.reads:
            return (
                "in-flight consistency by SQL: no run of this campaign that it speaks of was kept with a read at rest"
            )
        counts = ", ".join(f"{count:,} {verdict}" for verdict, count in sorted(self.counts.items()))
        agree = f"DISAGREES in {self.disagreed:,} runs" if self.disagreed else "agrees with the rule"
        beyond = f"; {self.beyond:,} runs use what the query leaves out" if self.beyond else ""
        silent = f"; {self.silent:,} runs leave it in doubt" if self.silent else ""
        reads = f"{self.reads:,} reads at rest"
        return f"in-flight consistency by SQL, {reads}: {counts}; {agree} ({self.compared:,} runs){silent}{beyond}"


class Outcome:
    """A campaign that was run, of which ``digest`` is the verdict digest."""

    def __init__(self, plan: Plan, answers: dict[str, Rows], digest: str) -> None:
        columns, notes = answers["columns"], answers["notes"]
        self.plan = plan
        self.digest = digest
        self.broker = str(columns[0]["broker"])
        self.runs = sum(int(row["runs"]) for row in columns)
        self.events = sum(int(row["events"]) for row in columns)
        how = ", guided" if plan.guided else ""
        self.source = f"campaign {plan.campaign} of {plan.programs:,} programs from seed {plan.seed}{how}"
        self.inflight = InFlight(answers["opinions"], sum(int(row["kept"]) for row in columns))
        self.problems = [Note(note["run"], note["problem"]) for note in notes if note["problem"]]
        if notes and int(notes[0]["total"]) > len(notes):
            self.problems.append(Note("…", f"and {int(notes[0]['total']) - len(notes):,} more, in the table `runs`"))
        self.problems += self.inflight.disagreements
        self.capabilities = sorted({str(name) for row in columns for name in row["capabilities"]})
        self.judged = {str(row["world"]): int(row["judged"]) for row in columns}
        self.unseen = unseen_share([int(row["runs"]) for row in answers["situations"]])
        self._answers = answers
        self._cells = _by_requirement(answers["cells"])
        self._situations = _by_requirement(answers["situations"])
        self._inapplicable = _by_requirement(answers["inapplicable"])

    def violated(self) -> dict[str, int]:
        """Requirement -> the seed of the run to show, where any run violated it."""
        return {
            str(row["requirement"]): int(row["shown"]["seed"])
            for row in self._answers["cells"]
            if row["verdict"] == VerdictKind.VIOLATED.value
        }

    def new_column(self, wanted: list[Requirement], run: Runner, elapsed_ms: int) -> NewColumn:
        """The column with its cells; ``run`` runs a seed again for the evidence."""
        joined = {requirement.id: self._joined(requirement) for requirement in wanted}
        chosen = {name: shown for name, verdict in joined.items() if (shown := self._shown(verdict)) is not None}
        again = self._run_again(sorted({seed for _, seed in chosen.values()}), run)
        cells = [
            Cell(
                self.broker,
                verdict,
                self._counts(name),
                self._example(verdict, again[chosen[name][1]]) if name in chosen else None,
                self._slacks(name, verdict),
            )
            for name, verdict in sorted(joined.items())
        ]
        used = {cell.example.evidence for cell in cells if cell.example is not None}
        examples = [result for result in again.values() if evidence_of(result).id in used]
        return NewColumn(self._column(elapsed_ms), cells, examples)

    def _run_again(self, seeds: list[int], run: Runner) -> dict[int, RunResult]:
        with Bar("evidence", len(seeds)) as bar:
            results = {}
            for seed in seeds:
                results[seed] = run(seed, self.plan.mutant)
                bar.advance()
        return results

    def _joined(self, requirement: Requirement) -> Verdict:
        """The verdict of all runs, in which those that say nothing of their own give way to the others."""
        name = requirement.id
        joined = Verdict(name, VerdictKind.NOT_EXERCISED)
        if self._inapplicable.get(name):
            lacking = requirement.lacking(self.capabilities)
            text = f"the broker (or its transport) does not offer: {', '.join(lacking)}"
            joined = Verdict(name, VerdictKind.NOT_APPLICABLE, text=text)
        for row in self._cells.get(name, ()):
            first = row["strongest"]
            verdict = Verdict(
                name,
                VerdictKind(row["verdict"]),
                first["outcome"],
                first["grade"],
                [],
                list(first["witness"]),
                row["slack_ns"],
                first["text"],
                int(row["decided"]),
                int(row["undecided"]),
                list(row["unknown"]),
            )
            joined = join(joined, verdict)
        met = sorted(str(row["situation"]) for row in self._situations.get(name, ()))
        return msgspec.structs.replace(joined, situations=met)

    def _counts(self, requirement: str) -> list[WorldCount]:
        found = []
        for world, judged in sorted(self.judged.items()):
            counts = {row["verdict"]: int(row["runs"]) for row in self._of(world, self._cells, requirement)}
            for row in self._of(world, self._inapplicable, requirement):
                counts[VerdictKind.NOT_APPLICABLE.value] = int(row["runs"])
            if judged > sum(counts.values()):
                counts[VerdictKind.NOT_EXERCISED.value] = judged - sum(counts.values())
            if counts:
                found.append(
                    WorldCount(world, {kind: counts[kind.value] for kind in VerdictKind if kind.value in counts})
                )
        return found

    @staticmethod
    def _of(world: str, rows: dict[str, Rows], requirement: str) -> Rows:
        return [row for row in rows.get(requirement, ()) if row["world"] == world]

    def _slacks(self, requirement: str, joined: Verdict) -> list[int]:
        for row in self._cells.get(requirement, ()):
            if row["verdict"] == joined.verdict.value and row["slacks"]:
                return [int(slack) for slack in row["slacks"]]
        return []

    def _shown(self, joined: Verdict) -> tuple[tuple[int, int, str], int] | None:
        """The run to show, as its place in the order and its seed."""
        if joined.verdict not in SHOWN:
            return None
        rows = self._cells.get(joined.requirement, ())
        return min(_place(row["shown"]) for row in rows if row["verdict"] == joined.verdict.value)

    def _example(self, joined: Verdict, result: RunResult) -> Example | None:
        verdict = next((item for item in result.verdicts if item.requirement == joined.requirement), None)
        if verdict is None or verdict.verdict is not joined.verdict:
            now = verdict.verdict.value if verdict is not None else "silent"
            text = f"{joined.requirement} was {joined.verdict.value!r} on the executor and is {now!r} when run again"
            self.problems.append(Note(result.run, f"{text}: the simulation is not deterministic"))
            return None
        return Example(evidence_of(result).id, verdict)

    def _column(self, elapsed_ms: int) -> Column:
        unseen = f"{self.unseen:.2%} of what a further run meets was never met (Good-Turing)"
        return Column(
            broker=self.broker,
            slug=slug(self.broker),
            runs=self.runs,
            digest=self.digest,
            finished_ms=time.time_ns() // 1_000_000,
            elapsed_ms=elapsed_ms,
            source=self.source,
            mutant=self.plan.mutant,
            capabilities=self.capabilities,
            problems=self.problems,
            about={"situations": unseen},
        )


def _by_requirement(rows: Rows) -> dict[str, Rows]:
    found: dict[str, Rows] = {}
    for row in rows:
        found.setdefault(str(row["requirement"]), []).append(row)
    return found


def _place(shown: dict[str, Any]) -> tuple[tuple[int, int, str], int]:
    return (int(shown["met"]), int(shown["steps"]), str(shown["run"])), int(shown["seed"])
