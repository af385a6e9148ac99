"""A story: a named program and what must become of its messages; and what most stories need."""

from __future__ import annotations

from msgspec import Struct

from brokerproof.conformance.experiment.configuration import BrokerSpec, ClockSpec, HostSpec, LinkSpec
from brokerproof.conformance.experiment.destinations import queues
from brokerproof.conformance.experiment.program import FORMAT, Program
from brokerproof.conformance.experiment.steps import AnyStep

#: How long a consumer waits for a message that never comes.
VAIN_MS = 400
#: How long it waits for one that does come: a wait ends with the message, so a slow machine may have all of this.
SURE_MS = 10_000


class Story(Struct, eq=False):
    """A named program and what must become of its messages."""

    name: str
    telling: str
    program: Program
    outcomes: dict[str, str]


def told(name: str, telling: str, program: Program, **outcomes: str) -> Story:
    """Messages as keyword: ``p0_1`` is ``p0/1``."""
    return Story(name, telling, program, {key.replace("_", "/"): outcome for key, outcome in outcomes.items()})


def hosts(*clients: HostSpec, broker_ms: int = 0) -> list[HostSpec]:
    """The broker, ahead by so much, and the clients."""
    return [HostSpec("b", "broker", clock=ClockSpec(broker_ms)), *clients]


P0 = HostSpec("p0", "client")
C0 = HostSpec("c0", "client")


def stomp(steps: list[AnyStep], broker: BrokerSpec | None = None, links: list[LinkSpec] | None = None) -> Program:
    """One producer and one consumer over STOMP, all clocks right."""
    return Program(FORMAT, broker or BrokerSpec(), hosts(P0, C0), links or [], queues("q0"), steps)
