"""Fate: what is certain about the life and death of one message, by the broker's clock.

Rules:

* A message is dead when the broker's clock, in whole milliseconds, is *greater* than its expiration; in that
  millisecond itself it lives. An expiration <= 0 never comes.
* *Dead* and *alive* are certainties: dead over an interval means at every instant of it, whatever the instants and
  clocks within their bounds. What is neither is open, and a claim that needs one of the two has no instance there.
* A time to live by the broker's clock counts from acceptance, whatever expiration arrives.
* Otherwise the expiration in force is the one that was sent, unless the broker time-stamps; then it is the one that an
  arrival shows, or else what the rule of ``stamp.py`` allows.
* The broker took a message over between the writing of the send and its receipt; for a send of unknown result, before
  it turned up anywhere.

Must change together: ``stamp.py``, ``dial.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from brokerproof.conformance.oracles.dial import NO_EVENT, NS_PER_MS, Dial
from brokerproof.conformance.oracles.stamp import Force, force_of, relative_force, skew_of, spec_for

if TYPE_CHECKING:
    from brokerproof.conformance.experiment.configuration import TimeStampingSpec
    from brokerproof.conformance.experiment.history import Event
    from brokerproof.conformance.oracles.life import Life

#: More arrivals than this, and a client library may have given the message up without saying so (redelivery limit of 6
#: in ActiveMQ's client).
ARRIVALS_MAX = 5


class Fate:
    """One message. Thresholds are wall times at which it may be (``low``) and must be (``high``) dead; times are true
    nanoseconds.
    """

    __slots__ = (
        "accepted",
        "alive_at_first",
        "dead_at_first",
        "high_ns",
        "life",
        "low_ms",
        "low_ns",
        "mortal",
        "skew",
    )

    def __init__(self, life: Life, accepted: Event, force: Force, skew: str) -> None:
        self.life = life
        #: By the end of this event the broker had taken it over.
        self.accepted = accepted
        self.mortal = force.high_ms > 0
        self.low_ms = force.low_ms
        self.low_ns = (force.low_ms + 1) * NS_PER_MS
        self.high_ns = (force.high_ms + 1) * NS_PER_MS
        self.skew = skew
        #: Certain on its arrival at the broker.
        self.dead_at_first = False
        self.alive_at_first = not self.mortal

    def given_up(self) -> bool:
        """Whether it may be a dead letter for another reason than expiry."""
        life = self.life
        return bool(life.nacks) or max(len(life.arrivals), len(life.consumes)) > ARRIVALS_MAX


class Mortality:
    """Makes fates and answers whether they are sealed."""

    __slots__ = ("dial", "spec")

    def __init__(self, dial: Dial, spec: TimeStampingSpec | None) -> None:
        self.dial = dial
        self.spec = spec

    def fate_of(self, life: Life) -> Fate | None:
        """The fate of a message; None when it is not known that the broker took it over."""
        accepted = life.accepted()
        return None if accepted is None else self.sent(life, accepted)

    def sent(self, life: Life, accepted: Event) -> Fate:
        """The fate of a message that reached the broker by the end of ``accepted``, if it did."""
        send = life.send
        spec = spec_for(self.spec, send)
        if not send.mortal() and (spec is None or spec.zero_expiration_override_ms <= 0):
            return Fate(life, accepted, Force(0, 0), "")
        low_ns, high_ns = self.dial.bounds_ns(send.t0, accepted.t1, send.seq, accepted.seq)
        low_ms, high_ms = low_ns // NS_PER_MS, high_ns // NS_PER_MS
        if send.life_ms > 0:
            force = relative_force(spec, send.life_ms, low_ms, high_ms)
        elif spec is None:
            force = Force(send.expiration_ms, send.expiration_ms)
        elif life.arrivals:
            force = Force(life.arrivals[0].expiration_ms, life.arrivals[0].expiration_ms)
        else:
            force = force_of(spec, send, low_ms, high_ms)
        fate = Fate(life, accepted, force, skew_of(send.timestamp_ms, low_ms, high_ms))
        if fate.mortal:
            fate.dead_at_first = low_ns >= fate.high_ns
            fate.alive_at_first = high_ns < fate.low_ns
        return fate

    def dead(self, fate: Fate, t0: int, t1: int, seq: int = NO_EVENT, end_seq: int = NO_EVENT) -> bool:
        """Certainly dead at every instant of ``[t0, t1]``."""
        return fate.mortal and self.dial.bounds_ns(t0, t1, seq, end_seq)[0] >= fate.high_ns

    def alive(self, fate: Fate, t0: int, t1: int, seq: int = NO_EVENT, end_seq: int = NO_EVENT) -> bool:
        """Certainly alive at every instant of ``[t0, t1]``."""
        return not fate.mortal or self.dial.bounds_ns(t0, t1, seq, end_seq)[1] < fate.low_ns
