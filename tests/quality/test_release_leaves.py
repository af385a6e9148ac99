"""Random programs reach every ending of IBM MQ's delivery delay (core/mq/release.py), and none of them is red."""

from __future__ import annotations

import pytest

from brokerproof.conformance.experiment.chooser import SeededChooser
from brokerproof.conformance.experiment.verdict import VerdictKind
from brokerproof.conformance.generate.programs import program_for_seed
from brokerproof.conformance.generate.queue_managers import with_queue_manager
from brokerproof.conformance.running.engine import run_program
from brokerproof.reference_broker.core.mq.release import LEAVES
from brokerproof.reference_broker.core.mq.staging import Stage

#: Programs within which all are met; the seeds are fixed, so this is no lottery.
BUDGET = 2000


@pytest.mark.night
def test_random_programs_reach_every_ending(monkeypatch: pytest.MonkeyPatch) -> None:
    met: set[str] = set()
    monkeypatch.setattr(Stage, "log", lambda _, text: met.update(text.rpartition(" over: ")[2].split(", ")))
    for seed in range(BUDGET):
        program = program_for_seed(seed)
        if program.bridges():
            continue
        result = run_program(with_queue_manager(SeededChooser(seed + 77), program), str(seed))
        red = [one.text for one in result.verdicts if one.verdict is VerdictKind.VIOLATED]
        assert red == [], f"seed {seed}"
        if met >= set(LEAVES):
            return
    assert met >= set(LEAVES), f"never met: {set(LEAVES) - met}"
