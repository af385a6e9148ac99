"""The search for a break-even skew (``stories/break_even.py``): halving the interval, one run each."""

from __future__ import annotations

from typing import Final

from brokerproof.conformance.experiment.exits import SuiteProblem
from brokerproof.conformance.experiment.history import Arrive, History, Send
from brokerproof.conformance.running.measures import before_drain
from brokerproof.conformance.running.outcomes import CONSUMED, outcomes
from brokerproof.conformance.running.telling import Runner
from brokerproof.conformance.stories.break_even import WIDEST, BreakEven, Policy

NS_PER_MS: Final = 1_000_000


def search(policy: Policy, run: Runner, resolution_ms: int) -> BreakEven:
    """Halve the interval until it is as narrow as asked. Raises ``SuiteProblem`` for what could not be run."""
    way_ms = 0.0

    def borne(skew_ms: int) -> bool:
        nonlocal way_ms
        name = f"break-even-{policy.name.replace(' ', '-').replace(',', '')}-{skew_ms}"
        (result,) = run([(name, policy.program(skew_ms))])
        if result.history is None:
            raise SuiteProblem(result.problem or f"not run: {result.not_run}")
        way_ms = max(way_ms, _way_ms(result.history))
        return set(outcomes(result.history).values()) == {CONSUMED}

    low, high = 0, WIDEST
    if borne(high):
        return BreakEven(policy, high, None, way_ms)
    while high - low > resolution_ms:
        middle = (low + high) // 2
        if borne(middle):
            low = middle
        else:
            high = middle
    return BreakEven(policy, low, high, way_ms)


def _way_ms(history: History) -> float:
    """From the send to its consumer; to the end of the send where nothing arrived."""
    sent = next(before_drain(history, Send))
    arrived = next((event.t1 for event in before_drain(history, Arrive)), sent.t1)
    return (max(arrived, sent.t1) - sent.t0) / NS_PER_MS
