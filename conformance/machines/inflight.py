"""Machine: eventual consistency of the in-flight count (seed 003, INF-001 and INF-002).

Model: per destination the messages that open consumers have received and not settled. Whenever the world has come to
rest, the broker's count must equal it; between rests it may be anything, even negative, but negative only where an
asynchronous consumer has ever attached.

Not modelled: topics, whose consumers settle nothing for others; automatic acknowledgement, whose instant an outsider
cannot see.
"""

from __future__ import annotations

import msgspec
from hypothesis.stateful import initialize

from brokerproof.conformance.experiment.destinations import is_topic
from brokerproof.conformance.experiment.history import Ack, Arrive, Counters, Discard, Event, Leave, Nack
from brokerproof.conformance.experiment.history import Subscribe as Subscribed
from brokerproof.conformance.experiment.program import Program
from brokerproof.conformance.experiment.steps import REGISTRY, Clock
from brokerproof.conformance.generate.strategies import frames
from brokerproof.conformance.machines.base import WorldMachine, machine_rules

_Rules = type("_Rules", (WorldMachine,), machine_rules(step for step in REGISTRY if step is not Clock))


class InFlightMachine(_Rules):  # type: ignore[misc, valid-type]  # its rules come from the registry, so the base is made at import
    """See the module's header."""

    promise = "INF-001"

    def __init__(self) -> None:
        super().__init__()
        #: Consumer -> (destination, messages that it holds).
        self.held: dict[str, tuple[str, dict[str, None]]] = {}
        self.hosts: dict[str, str] = {}
        self.asynchronous: dict[str, bool] = {}
        self.opaque: dict[str, bool] = {}

    @initialize(frame=frames())
    def start(self, frame: Program) -> None:
        """No client clock is skewed here: a discarded message is another machine's business."""
        hosts = [msgspec.structs.replace(host, expiry_check=False) for host in frame.hosts]
        self.open_world(msgspec.structs.replace(frame, hosts=hosts))

    def observe(self, event: Event) -> None:
        if isinstance(event, Subscribed):
            self._subscribed(event)
        elif isinstance(event, Arrive):
            holder = self.held.get(event.consumer)
            if holder is not None:
                holder[1][event.message] = None
        elif isinstance(event, Ack | Nack):
            self._settled(event.consumer, event.messages)
        elif isinstance(event, Discard):
            self._settled(event.consumer, [event.message])
        elif isinstance(event, Leave):
            gone = [event.consumer] if event.consumer else [c for c, host in self.hosts.items() if host == event.host]
            for consumer in gone:
                self.held.pop(consumer, None)
        elif isinstance(event, Counters):
            self._count(event)

    def _subscribed(self, event: Subscribed) -> None:
        if event.result == "fail":
            return
        self.held[event.consumer] = (event.dest, {})
        self.hosts[event.consumer] = event.host
        if event.dispatch == "async":
            self.asynchronous[event.dest] = True
        if event.ack == "auto" or event.result == "unknown":
            self.opaque[event.dest] = True

    def _settled(self, consumer: str, messages: list[str]) -> None:
        holder = self.held.get(consumer)
        for message in messages:
            if holder is not None:
                holder[1].pop(message, None)

    def _count(self, event: Counters) -> None:
        if event.dest is None or event.in_flight is None or is_topic(event.dest):
            return
        if event.in_flight < 0 and not self.asynchronous.get(event.dest, False):
            self.broken(
                f"in-flight count of {event.dest} is {event.in_flight}, but every consumer so far was synchronous"
            )
        if event.at_rest and not self.opaque.get(event.dest, False):
            held = sum(len(messages) for dest, messages in self.held.values() if dest == event.dest)
            if event.in_flight != held:
                self.broken(
                    f"at rest the in-flight count of {event.dest} is {event.in_flight}, but consumers hold {held}"
                )
