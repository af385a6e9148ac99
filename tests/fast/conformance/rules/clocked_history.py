"""Hand-written histories for rules about time: a ``Builder`` whose hosts have clocks of their own.

A story reads from top to bottom. ``at(ms)`` sets the true time of what follows. Stamps are made as clients make them,
from the producer's clock: whole milliseconds, truncated. Requests take ``request_ms``, arrivals no time. Clocks are
sampled at the beginning and at the end, and on both sides of every jump, exactly, unless ``uncertainty_ms`` says
otherwise.
"""

from __future__ import annotations

from typing import Any, Self

from brokerproof.conformance.experiment.configuration import TimeStampingSpec
from brokerproof.conformance.experiment.history import ClockSample, Fault, Send
from tests.fast.conformance.rules.history_builder import DLQ, EPOCH_MS, NS_PER_MS, Builder

PLUGIN = TimeStampingSpec()
FUTURE_ONLY = TimeStampingSpec(future_only=True)


class Clocked(Builder):
    """``skews``: host -> how far its wall clock is ahead of the true time, in milliseconds. Other keywords are
    declared.
    """

    def __init__(self, *, uncertainty_ms: int = 0, **declared: Any) -> None:
        self.ahead_ms: dict[str, int] = {"b": 0, **declared.pop("skews", {})}
        self.uncertainty_ms = uncertainty_ms
        self.sampled = declared.pop("sampled", True)
        super().__init__(**declared)
        self.events.clear()
        self.now_ms = 0.0
        self.tick_ms = 0.0
        self.sample_all()

    # -- clocks

    def sample_all(self) -> Self:
        """Every host's clock is read."""
        for host in self.ahead_ms if self.sampled else ():
            self.sample(host)
        return self

    def sample(self, host: str) -> Self:
        """One host's clock is read."""
        t0 = round(self.now_ms * NS_PER_MS)
        wall_ms, beyond_ns = divmod(t0 + (EPOCH_MS + self.ahead_ms.get(host, 0)) * NS_PER_MS, NS_PER_MS)
        uncertainty_ns = self.uncertainty_ms * NS_PER_MS
        self.events.append(ClockSample(len(self.events) + 1, t0, t0, host, wall_ms, uncertainty_ns, beyond_ns))
        return self

    def step(self, host: str, jump_ms: int, *, evidence: bool = True) -> Self:
        """A clock jumps, sampled on both sides."""
        self.sample(host)
        self.ahead_ms[host] = self.ahead_ms.get(host, 0) + jump_ms
        t0 = round(self.now_ms * NS_PER_MS)
        proof = {"n": 1} if evidence else None
        self.events.append(
            Fault(len(self.events) + 1, t0, t0, "", "clock", target=host, jump_ms=jump_ms, evidence=proof)
        )
        return self.sample(host)

    def wall_ms(self, host: str = "b", at_ms: float | None = None) -> int:
        """What a host's clock shows, as a program reads it."""
        return EPOCH_MS + self.ahead_ms.get(host, 0) + int(self.now_ms if at_ms is None else at_ms)

    # -- messages

    def post(self, message: str, dest: str = "q0", ttl_ms: int = 0, *, stamp: bool = True, **fields: Any) -> Self:
        """The host in front of the slash sends, stamped by its clock; ``ttl_ms`` 0: no expiration."""
        wall_ms = self.wall_ms(message.partition("/")[0])
        fields.setdefault("timestamp_ms", wall_ms if stamp else None)
        fields.setdefault("expiration_ms", wall_ms + ttl_ms if ttl_ms else 0)
        self.send(message, dest, **fields)
        return self

    def sent(self, message: str) -> Send:
        """The send event of a message."""
        return next(event for event in self.events if isinstance(event, Send) and event.message == message)

    def deliver(self, consumer: str, message: str, **fields: Any) -> Self:
        """It arrives, with the stamps that it was sent with unless others are given."""
        send = self.sent(message)
        fields.setdefault("expiration_ms", send.expiration_ms)
        fields.setdefault("timestamp_ms", send.timestamp_ms or 0)
        self.arrive(consumer, message, **fields)
        return self

    def dead_letter(self, message: str, consumer: str = "drain/2", **fields: Any) -> Self:
        """Its dead letter arrives."""
        send = self.sent(message)
        fields.setdefault("timestamp_ms", send.timestamp_ms or 0)
        fields.setdefault("original_dest", send.dest)
        self.arrive(consumer, message, dest=DLQ, **fields)
        return self

    # -- the end

    def close(self, *, at_ms: float | None = None) -> Self:
        """Everything came to rest; the drain begins: ``drain/1`` on q0, ``drain/2`` on the dead letters."""
        if at_ms is not None:
            self.at(at_ms)
        self.ahead_ms.setdefault("drain", 0)
        self.drain("q0", DLQ)
        return self

    def finish(self) -> Self:
        """The run is over."""
        self.sample_all()
        self.rest(None).phase("end")
        return self
