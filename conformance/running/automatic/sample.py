"""A sample of automatic mutants, tried one by one in processes of their own, and the score.

Rules
* *Killed*: a promise was broken. *Crashed* and *hung*: a process did not go on, which is a verdict too, but says
  little of the suite. *Survived*: no verdict differs, whether any history does or not. *Not executed*: no program
  reaches it.
* The score is what was killed of what was killed or survived, equivalent ones left out. An equivalent mutant is one
  with a written reason whose histories are all those of the sound broker.
* *Defect*: the suite could not cope. There must be none.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import msgspec

from brokerproof.conformance.mutants.automatic.equivalent import equivalents
from brokerproof.conformance.mutants.automatic.mutations import Mutation
from brokerproof.conformance.running.automatic.comparing import program_named
from brokerproof.conformance.running.automatic.coverage import Coverage
from brokerproof.conformance.running.automatic.task import Outcome, Task
from brokerproof.conformance.running.engine import simulate

#: Real seconds that one mutant may take, as a last resort.
TRIAL_S = 1800
#: How much of a process's last words is kept.
WORDS_KEPT = 2000
KINDS = ("killed", "crashed", "hung", "survived", "equivalent", "not executed", "defect")


class Trial(msgspec.Struct):
    """What became of one mutant. ``kind``: one of ``KINDS``; ``by``: the violated requirements; ``program``: the one
    that decided, or, of a survivor, that with the shortest history that differs ("": none does); ``programs``: how many
    were run, of ``reached`` that execute the place. ``difference``: of a survivor, the first event that differs, on the
    sound broker and here. ``reason``: why it is equivalent, or what the suite failed over.
    """

    file: str
    line: int
    function: str
    operator: str
    key: str
    diff: str
    kind: str
    by: list[str] = []
    program: str = ""
    programs: int = 0
    reached: int = 0
    difference: tuple[str, str] = ("", "")
    reason: str = ""

    @property
    def changed(self) -> bool:
        """Of a survivor: whether any history differs."""
        return self.kind == "survived" and self.program != ""


def try_all(sample: list[Mutation], coverage: Coverage, jobs: int) -> Iterator[Trial]:
    """Try every mutant; the results come in the order of the sample."""
    with ThreadPoolExecutor(jobs) as pool:
        futures = [pool.submit(partial(_try, mutation, coverage)) for mutation in sample]
        try:
            for future in futures:
                yield future.result()
        finally:
            for future in futures:
                future.cancel()


def _try(mutation: Mutation, coverage: Coverage) -> Trial:
    edit, rows = mutation.edit, coverage.programs(mutation)
    trial = Trial(
        mutation.file,
        mutation.line,
        edit.function,
        edit.operator,
        mutation.key,
        mutation.diff(),
        "not executed",
        reached=len(rows),
    )
    if rows:
        told = [(row.name, row.history, row.violated) for row in rows]
        _judge(trial, _run(trial, {"module": mutation.module, "source": mutation.mutated(), "programs": told}))
    return trial


def _run(trial: Trial, task: Task) -> Outcome | None:
    """The outcome of a process of its own; None: it has none, and the trial says why."""
    command = [sys.executable, "-m", "brokerproof.conformance.running.automatic.trial"]
    try:
        ran = subprocess.run(
            command, input=json.dumps(task).encode(), capture_output=True, timeout=TRIAL_S, check=False
        )
    except subprocess.TimeoutExpired:
        trial.reason = f"no end within {TRIAL_S} s"
        return None
    if ran.returncode:
        trial.reason = f"exit code {ran.returncode}: {ran.stderr.decode(errors='replace')[-WORDS_KEPT:]}"
        return None
    outcome: Outcome = json.loads(ran.stdout)
    return outcome


def _judge(trial: Trial, outcome: Outcome | None) -> None:
    if outcome is None:
        trial.kind = "defect"
        return
    trial.kind, trial.by = outcome["kind"], outcome["by"]
    trial.program, trial.programs = outcome["program"], outcome["programs"]
    if trial.kind != "survived":
        return
    known = equivalents().get(trial.key)
    if trial.changed:
        trial.difference = _difference(trial.program, outcome["history"])
        trial.reason = "listed as equivalent, but this history differs" if known is not None else ""
    elif known is not None:
        trial.kind, trial.reason = "equivalent", known.reason


def _difference(program: str, history: str) -> tuple[str, str]:
    """The first line that differs, on the sound broker and on the other."""
    sound, other = simulate(program_named(program)).encode().decode().splitlines(), history.splitlines()
    for one, two in zip(sound, other, strict=False):
        if one != two:
            return one, two
    longer = sound if len(sound) > len(other) else other
    more = longer[min(len(sound), len(other))]
    return (more, "") if longer is sound else ("", more)


class Score:
    """Counts, of a file or of all."""

    def __init__(self) -> None:
        self.counts = dict.fromkeys(KINDS, 0)
        self.changed = 0

    def add(self, trial: Trial) -> None:
        """One more."""
        self.counts[trial.kind] += 1
        self.changed += trial.changed

    @property
    def rated(self) -> int:
        """How many the score is about."""
        return self.counts["killed"] + self.counts["survived"]

    @property
    def percent(self) -> float | None:
        """The score; None: there is nothing to rate."""
        return 100 * self.counts["killed"] / self.rated if self.rated else None
