"""Opening a broker for somebody's own tests and machines: in virtual time, or a process in real time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from brokerproof.conformance.brokers import make_adapter
from brokerproof.conformance.experiment.exits import UsageError
from brokerproof.conformance.experiment.program import Program
from brokerproof.conformance.experiment.results import REFERENCE
from brokerproof.conformance.running.under_test import BrokerUnderTest, NotOffered
from brokerproof.conformance.worlds.live.world import LiveWorld
from brokerproof.conformance.worlds.simulated.world import SimulatedWorld

if TYPE_CHECKING:
    from brokerproof.conformance.worlds.live.laboratory import Laboratory


@contextmanager
def opened(
    broker: str, tier: str, program: Program, laboratory: Callable[[], Laboratory], *, mutant: str | None = None
) -> Iterator[BrokerUnderTest]:
    """The broker, with the hosts and destinations of a program, stopped at the end.

    Any broker but the embedded one is real, whatever the tier. Raises ``UsageError`` for a broker that does not exist,
    ``NotOffered`` for one that cannot have this experiment, and ``ToolMissing``.
    """
    if tier == "both":
        raise UsageError("tier 'both' means two runs; a test has one world: choose simulated or live")
    if broker == REFERENCE and tier == "simulated":
        under_test = BrokerUnderTest(SimulatedWorld(mutant=mutant), program)
        try:
            yield under_test
        finally:
            under_test.shut()
        return
    adapter = make_adapter(broker, mutant=mutant)
    try:
        refusal = adapter.refusal(adapter.cast(program))
        if refusal:
            raise NotOffered(refusal)
        under_test = BrokerUnderTest(LiveWorld(adapter, laboratory(), mutant=mutant, proxied=True), program, adapter)
        try:
            yield under_test
        finally:
            under_test.shut()
    finally:
        adapter.close()
