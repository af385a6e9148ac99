"""Stamped: arrivals with what the broker's clock can have shown when it took the message over, and what the rule of
``stamping.py`` makes of that at both ends.

Delayed messages (a scheduler may stamp again when it releases) and lives by the broker's clock are no instances, nor
is what an operator may have moved.
"""

from __future__ import annotations

from brokerproof.conformance.experiment.configuration import TimeStampingSpec
from brokerproof.conformance.experiment.history import Event
from brokerproof.conformance.facts.deliveries import at_home, is_beside_another, moves
from brokerproof.conformance.facts.marks import RESOLVED
from brokerproof.conformance.facts.policy import stamping_of
from brokerproof.conformance.facts.rows import Delivery, Send
from brokerproof.conformance.facts.spans import Span
from brokerproof.conformance.facts.stamping import Stamps, divided, skew_of, stamps_of
from brokerproof.conformance.facts.tables import Tables


class Taken:
    """A message when the broker took it over: bounds of the broker's clock (ms), the rule's answer at both ends, how
    the producer's clock stood to it (a situation).
    """

    __slots__ = ("high", "high_ms", "low", "low_ms", "skew")

    def __init__(self, send: Send, spec: TimeStampingSpec, span_ms: Span) -> None:
        event = send.event
        self.low_ms, self.high_ms = span_ms
        self.low: Stamps = stamps_of(spec, event.timestamp_ms, event.expiration_ms, self.low_ms)
        self.high: Stamps = stamps_of(spec, event.timestamp_ms, event.expiration_ms, self.high_ms)
        self.skew = skew_of(event.timestamp_ms, self.low_ms, self.high_ms)

    def acts(self) -> bool | None:
        """Whether the rule touches the message; None if that depends on the instant."""
        return self.low.acted if self.low.acted is self.high.acted else None

    def shown(self, timestamp_ms: int) -> bool:
        """Whether the broker's clock can have shown this then."""
        return self.low_ms <= timestamp_ms <= self.high_ms

    def text(self) -> str:
        """For verdicts."""
        return f"the broker's clock read {self.low_ms} to {self.high_ms}"


class Stamped:
    """One arrival of such a message. ``before``: the latest arrival before it that was no dead letter."""

    __slots__ = ("before", "delivery", "send", "spec", "taken")

    def __init__(self, delivery: Delivery, spec: TimeStampingSpec, taken: Taken, before: Delivery | None) -> None:
        self.delivery = delivery
        self.send = delivery.send
        self.spec = spec
        self.taken = taken
        self.before = before

    def divided(self) -> bool:
        """Whether the two readings of ``future_only`` may differ for it."""
        event = self.send.event
        return event.timestamp_ms is not None and divided(self.spec, event.timestamp_ms, event.expiration_ms)

    def unborn(self) -> bool:
        """Dead for its own producer: its expiration is not later than its timestamp."""
        event = self.send.event
        return event.timestamp_ms is not None and 0 < event.expiration_ms <= event.timestamp_ms


def is_scheduled(send: Send) -> bool:
    """Whether it is delayed, or lives by the broker's clock."""
    return send.delayed or send.event.life_ms != 0


def is_plain(tables: Tables, delivery: Delivery) -> bool:
    """Whether its stamps are those of one acceptance."""
    spec, send = tables.declared.timestamping, delivery.send
    if is_scheduled(send) or send.marks & RESOLVED or (send.event.network and len(send.copies) > 1):
        return False
    if delivery.is_dead_letter:
        copy = delivery.copy
        return spec is None or not spec.restamp_moved or not (moves(copy) or is_beside_another(copy))
    return at_home(delivery)


def taken_ms(tables: Tables, send: Send, proof: Event) -> Span:
    """What the broker's clock can have shown when it took a message over. ``proof``: it had by the end of that."""
    event = send.event
    return tables.broker_clock.bounds_ms(event.t0, max(event.t0, proof.t1), event.seq, proof.seq)


def stamped(tables: Tables) -> list[Stamped]:
    """Arrivals that show what a time-stamping broker did, in order; none if its clock was never read."""
    spec = tables.declared.timestamping
    if spec is None or not tables.broker_clock.known:
        return []
    found: list[Stamped] = []
    known: dict[str, Taken] = {}
    latest: dict[str, Delivery] = {}
    for delivery in tables.deliveries:
        send = delivery.send
        if not is_plain(tables, delivery) or stamping_of(spec, send.event) is None:
            continue
        taken = known.get(send.message)
        if taken is None:
            proof = send.event if send.event.result == "ok" else delivery.event
            taken = known[send.message] = Taken(send, spec, taken_ms(tables, send, proof))
        found.append(Stamped(delivery, spec, taken, latest.get(send.message)))
        if not delivery.is_dead_letter:
            latest[send.message] = delivery
    return found
