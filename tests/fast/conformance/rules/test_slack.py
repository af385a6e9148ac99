"""What the judge says fits what stores it."""

from __future__ import annotations

from brokerproof.conformance.facts.spans import NEVER
from brokerproof.conformance.generate.programs import program_for_seed
from brokerproof.conformance.running.engine import run_program


def test_slack_fits_the_tables() -> None:
    """A life may end at the end of all clocks: seed 12 has one, of 2 ** 63 ms."""
    slacks = [verdict.slack_ns or 0 for verdict in run_program(program_for_seed(12), "seed-12").verdicts]
    assert max(slacks) == NEVER
