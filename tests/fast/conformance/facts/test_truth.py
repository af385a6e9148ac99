"""What the simulated broker really did lies within every span of the facts. ``python -m tests.truth`` looks at more."""

from __future__ import annotations

import pytest

from brokerproof.conformance.experiment.program import Program, parse_program
from brokerproof.conformance.facts.facts import Facts
from brokerproof.conformance.generate.programs import program_for_seed
from tests.truth.truth import compared, played

#: The broker restarts behind a stalled link; another consumer gets the message before the first delivery arrives.
STALLED = b"""{"format":"brokerproof/program/2","broker":{"policies":[{}],"persistent":true},
"hosts":[{"name":"b","role":"broker","clock":{}},{"name":"c0","role":"client","clock":{}},
         {"name":"c1","role":"client","clock":{}}],
"links":[{"client":"c0","latency_us":0},{"client":"c1","latency_us":0}],"destinations":[{"name":"q0","kind":"queue"}],
"steps":[{"do":"send","host":1},{"do":"stall","link":1,"toward":"client"},{"do":"subscribe","host":1},
         {"do":"restart"},{"do":"subscribe"},{"do":"take","deadline_ms":1}]}"""
#: The same over a slow link, from which the consumer has gone when the message arrives.
SLOW = b"""{"format":"brokerproof/program/2","broker":{"policies":[{}],"persistent":true},
"hosts":[{"name":"b","role":"broker","clock":{}},{"name":"c0","role":"client","clock":{}},
         {"name":"c1","role":"client","clock":{}},{"name":"c2","role":"client","clock":{}}],
"links":[{"client":"c0","latency_us":0},{"client":"c1","latency_us":0,"bytes_per_second":100000},
         {"client":"c2","latency_us":0}],"destinations":[{"name":"q0","kind":"queue"}],
"steps":[{"do":"subscribe"},{"do":"send","host":2,"size":20000},{"do":"take"},{"do":"subscribe","host":1},
         {"do":"leave"},{"do":"leave","host":1},{"do":"subscribe","host":2},{"do":"advance","ms":20},
         {"do":"leave","host":2},{"do":"advance","ms":500}]}"""
KINDS = {"accepted", "assigned", "settled", "opened", "closed"}


def outside(program: Program, seed: int, kinds: set[str]) -> list[tuple[int, str, str]]:
    """The true instants that lie outside of their spans; ``kinds`` gets the kinds that were compared."""
    history, truth = played(program, seed)
    rows = list(compared(Facts(history), truth))
    kinds.update(row[0] for row in rows)
    return [(seed, kind, row) for kind, (low, high), true_ns, row in rows if not low <= true_ns <= high]


@pytest.mark.parametrize("first", [0, 50])
def test_true_instants_lie_in_their_spans(first: int) -> None:
    kinds: set[str] = set()
    assert [one for seed in range(first, first + 25) for one in outside(program_for_seed(seed), seed, kinds)] == []
    assert kinds >= KINDS


@pytest.mark.parametrize("program", [STALLED, SLOW], ids=["stalled", "slow"])
def test_what_a_link_brings_late_may_have_been_assigned_before_another_delivery(program: bytes) -> None:
    assert outside(parse_program(program), 0, set()) == []
