"""The second stage of shrinking, whose time may be over at any candidate."""

from __future__ import annotations

import pytest

from brokerproof.conformance.experiment.program import Program
from brokerproof.conformance.experiment.steps import Advance, Send
from brokerproof.conformance.generate.polish import polish
from brokerproof.conformance.generate.programs import program_for_seed


@pytest.mark.parametrize("tries", [0, 1, 3, 10])
def test_what_was_found_in_time_is_kept(tries: int) -> None:
    program = program_for_seed(1).with_steps([Advance(ms=977), Send(ttl_ms=50), Advance(ms=4000), Send()])
    found: list[Program] = []

    def fails(candidate: Program) -> bool:
        if len(found) < tries and any(isinstance(step, Send) for step in candidate.steps):
            found.append(candidate)
            return True
        return False

    assert polish(program, fails) is (found[-1] if found else program)
