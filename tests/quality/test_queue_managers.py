"""Random programs on a queue manager: none is red, and between them they exercise what can be drawn."""

from __future__ import annotations

from brokerproof.conformance.experiment.chooser import SeededChooser
from brokerproof.conformance.experiment.steps import Operate, Send
from brokerproof.conformance.experiment.verdict import VerdictKind
from brokerproof.conformance.generate.programs import program_for_seed
from brokerproof.conformance.generate.queue_managers import FULL, with_queue_manager
from brokerproof.conformance.running.engine import run_program

MANAGED = tuple(f"DLY-0{number}" for number in range(45, 51))
WANTED = (*MANAGED, "DLY-005", "DLY-016", "DLY-032", "DLY-033", "DLY-039", "DLY-040", "DLY-042", "GEN-001", "GEN-101")


def test_a_release_that_fails_is_drawn_with_reports() -> None:
    """Options of reports, a target that takes nothing while messages wait, a dead-letter queue that is there or not."""
    asked, deadq, shut = set[str](), set[bool](), set[str]()
    for seed in range(200):
        program = with_queue_manager(SeededChooser(seed + 77), program_for_seed(seed))
        sends = [step for step in program.each_step() if isinstance(step, Send) and step.delay_ms]
        asked |= {" ".join(sorted(name for name in step.headers if "Report" in name)) for step in sends}
        deadq.add(any("DEADQ" in command for command in program.broker.mqsc))
        shut |= {step.command for step in program.steps if isinstance(step, Operate) and step.command}
    both = "JMS_IBM_Report_Discard_Msg JMS_IBM_Report_Exception"
    assert asked >= {"", *both.split(), both, "JMS_IBM_Report_COA JMS_IBM_Report_COD", "JMS_IBM_Report_Expiration"}
    assert deadq == {True, False}
    assert shut >= {on for on, _ in FULL}


def test_random_programs_on_a_queue_manager() -> None:
    exercised = set()
    for seed in range(150):
        program = with_queue_manager(SeededChooser(seed + 77), program_for_seed(seed))
        for verdict in run_program(program, str(seed), wanted=WANTED).verdicts:
            assert verdict.verdict is not VerdictKind.VIOLATED, f"seed {seed}: {verdict.requirement} {verdict.text}"
            if verdict.verdict is VerdictKind.SATISFIED:
                exercised.add(verdict.requirement)
    assert exercised >= {"DLY-016", "DLY-032", "DLY-033", "DLY-042", *MANAGED}
