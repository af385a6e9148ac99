"""What the judge says fits what stores it."""

from __future__ import annotations

from brokerproof.conformance.experiment.configuration import BrokerSpec, HostSpec
from brokerproof.conformance.experiment.destinations import queues
from brokerproof.conformance.experiment.program import FORMAT, Program
from brokerproof.conformance.experiment.steps import Send, Subscribe, Take
from brokerproof.conformance.facts.spans import NEVER
from brokerproof.conformance.running.engine import run_program


def test_slack_fits_the_tables() -> None:
    """A life may end at the end of all clocks, after 2 ** 63 ms."""
    hosts = [HostSpec("b", "broker"), HostSpec("c0", "client", "jms")]
    program = Program(FORMAT, BrokerSpec(), hosts, [], queues("q0"), [Send(endless=True), Subscribe(), Take()])
    assert max(verdict.slack_ns or 0 for verdict in run_program(program, "endless").verdicts) == NEVER
