"""What the SQL answers of a campaign amount to: a column, its cells, and what still has to be proved again.

Decides: how rows of ``reports/aggregate`` become the structs of ``store/schema.py``; the verdict digest; what counts as
a problem.

Rules:

* Cells are exactly what ``reports/store/collect.py`` makes of the same runs in one process (a test compares them).
* The digest is ``conformance.experiment.results.verdict_digest`` over all runs; verdicts that say the same share one
  object, so a hundred thousand runs fit.
* A seed that gave no result, a run that gives another verdict when it is run again, and a disagreement between the
  in-flight rule and its twin in SQL are problems of the suite: they never become verdicts.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from brokerproof.conformance.experiment.results import RunResult, verdict_digest
from brokerproof.conformance.experiment.verdict import Verdict, VerdictKind
from brokerproof.reports.campaign.worker import Plan, Runner
from brokerproof.reports.render.progress import Bar
from brokerproof.reports.store.collect import SHOWN
from brokerproof.reports.store.evidence import evidence_of, slug
from brokerproof.reports.store.merge import NewColumn
from brokerproof.reports.store.schema import Cell, Column, Example, Note, WorldCount

Rows = list[dict[str, Any]]
#: Problems listed by name; the rest is counted.
NOTES_MAX = 20


class InFlight:
    """The in-flight count judged twice.

    How many runs got which verdict from SQL, and where the rule says otherwise. ``beyond``: runs that use what the
    query leaves out.
    """

    def __init__(self, rows: Rows, runs: int) -> None:
        self.beyond = runs - len(rows)
        self.reads = sum(int(row["reads"]) for row in rows)
        self.counts: dict[str, int] = {}
        self.disagreements: list[Note] = []
        self.compared = 0
        for row in rows:
            mine, theirs = str(row["verdict"]), row["rule_verdict"]
            self.counts[mine] = self.counts.get(mine, 0) + 1
            if theirs in {None, "inconclusive"}:
                continue  # a rule that cannot tell says nothing against SQL
            self.compared += 1
            if theirs != mine:
                text = f"INF-001 is {theirs!r} by the rule and {mine!r} by aggregate/inflight.sql; one of them is wrong"
                self.disagreements.append(Note(str(row["run"]), text))

    def sentence(self) -> str:
        """For the terminal."""
        counts = ", ".join(f"{count:,} {verdict}" for verdict, count in sorted(self.counts.items()))
        if not self.compared:
            return f"in-flight consistency by SQL: {counts}; no rule judges INF-001, so nothing was compared"
        agree = "agrees with the rule" if not self.disagreements else f"DISAGREES in {len(self.disagreements):,} runs"
        beyond = f"; {self.beyond:,} runs use what the query leaves out" if self.beyond else ""
        reads = f"{self.reads:,} reads at rest"
        return f"in-flight consistency by SQL, {reads}: {counts}; {agree} ({self.compared:,} runs){beyond}"


class Outcome:
    """A finished campaign."""

    def __init__(self, plan: Plan, answers: dict[str, Rows]) -> None:
        row = answers["columns"][0]
        self.plan = plan
        self.broker = str(row["broker"])
        self.runs = int(row["runs"])
        self.events = int(row["events"])
        self.source = f"campaign of {plan.programs:,} programs from seed {plan.seed}"
        self.inflight = InFlight(answers["inflight"], self.runs)
        self.problems = [Note(note["run"], note["problem"]) for note in answers["notes"] if note["problem"]]
        self.problems += self.inflight.disagreements
        self.capabilities = sorted(str(item["capability"]) for item in answers["capabilities"])
        self.digest = digest_of(Path(plan.folder))
        self._matrix = answers["matrix"]
        self._cells = answers["cells"]
        self._situations = answers["situations"]
        self._examples = {str(item["requirement"]): item for item in answers["examples"]}

    def new_column(self, wanted: list[str], run: Runner, elapsed_ms: int) -> NewColumn:
        """The column with its cells; ``run`` runs a seed again for the evidence."""
        shown = self._run_again(run)
        cells = {str(row["requirement"]): self._cell(row, shown) for row in self._cells}
        for requirement in wanted:
            if requirement not in cells:
                text = "no run of this campaign spoke of it"
                cells[requirement] = Cell(self.broker, Verdict(requirement, VerdictKind.NOT_EXERCISED, text=text))
        used = {cell.example.evidence for cell in cells.values() if cell.example is not None}
        examples = [result for result in shown.values() if evidence_of(result).id in used]
        return NewColumn(self._column(elapsed_ms), [cells[name] for name in sorted(cells)], examples)

    def _run_again(self, run: Runner) -> dict[int, RunResult]:
        seeds = sorted({int(item["seed"]) for item in self._examples.values()})
        with Bar("evidence", len(seeds)) as bar:
            results = {}
            for seed in seeds:
                results[seed] = run(seed, self.plan.mutant)
                bar.advance()
        return results

    def _cell(self, row: dict[str, Any], shown: dict[int, RunResult]) -> Cell:
        requirement = str(row["requirement"])
        joined = Verdict(
            requirement,
            VerdictKind(row["verdict"]),
            row["outcome"],
            row["grade"],
            [str(item["situation"]) for item in self._situations if item["requirement"] == requirement],
            list(row["witness"]),
            row["slack_ns"],
            row["text"],
            int(row["decided"]),
            int(row["undecided"]),
        )
        return Cell(self.broker, joined, self._counts(requirement), self._example(joined, shown))

    def _counts(self, requirement: str) -> list[WorldCount]:
        by_world: dict[str, dict[VerdictKind, int]] = {}
        for row in self._matrix:
            if row["requirement"] == requirement:
                by_world.setdefault(str(row["world"]), {})[VerdictKind(row["verdict"])] = int(row["runs"])
        return [
            WorldCount(world, {kind: counts[kind] for kind in VerdictKind if kind in counts})
            for world, counts in sorted(by_world.items())
        ]

    def _example(self, joined: Verdict, shown: dict[int, RunResult]) -> Example | None:
        chosen = self._examples.get(joined.requirement)
        if chosen is None or joined.verdict not in SHOWN:
            return None
        result = shown[int(chosen["seed"])]
        verdict = next((item for item in result.verdicts if item.requirement == joined.requirement), None)
        if verdict is None or verdict.verdict is not joined.verdict:
            now = verdict.verdict.value if verdict is not None else "silent"
            text = f"{joined.requirement} was {joined.verdict.value!r} on the executor and is {now!r} when run again"
            self.problems.append(Note(result.run, f"{text}: the simulation is not deterministic"))
            return None
        return Example(evidence_of(result).id, verdict)

    def _column(self, elapsed_ms: int) -> Column:
        listed = self.problems[:NOTES_MAX]
        if len(self.problems) > NOTES_MAX:
            listed = [*listed, Note("…", f"and {len(self.problems) - NOTES_MAX:,} more problems, in the table `runs`")]
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
            problems=listed,
        )


def digest_of(folder: Path) -> str:
    """The verdict digest of all runs in the tables below ``folder``."""
    import pyarrow.parquet as pq  # an extra, and slow to import

    programs: dict[str, str] = {}
    for path in sorted((folder / "runs").glob("part-*.parquet")):
        for batch in pq.ParquetFile(path).iter_batches(columns=["run", "program"]):
            for row in batch.to_pylist():
                # A seed that raised has no program, and in one process it would have ended the run.
                if row["program"]:
                    programs[row["run"]] = row["program"]
    shared: dict[tuple[str, str, str, str], Verdict] = {}
    by_run: dict[str, list[Verdict]] = {run: [] for run in programs}
    names = ["requirement", "verdict", "outcome", "grade"]
    for path in sorted((folder / "verdicts").glob("part-*.parquet")):
        for batch in pq.ParquetFile(path).iter_batches(columns=["run", *names]):
            columns = [batch.column(name).to_pylist() for name in ("run", *names)]
            for run, *key in zip(*columns, strict=True):
                said = (key[0], key[1], key[2], key[3])
                verdict = shared.get(said)
                if verdict is None:
                    verdict = shared[said] = Verdict(said[0], VerdictKind(said[1]), said[2], said[3])
                if run in by_run:
                    by_run[run].append(verdict)
    return verdict_digest((run, programs[run], verdicts) for run, verdicts in by_run.items())
