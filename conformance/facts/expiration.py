"""Expiration: what is certain about the life and death of a message by the broker's clock.

Rules
* A message is dead when the broker's clock, in whole milliseconds, is *greater* than its expiration; in that
  millisecond itself it lives. An expiration <= 0 never comes.
* *Dead* and *alive* are certainties over every instant and reading within their bounds; what is neither is open.
* A time to live by the broker's clock counts from acceptance, whatever expiration arrives. Otherwise the expiration in
  force is the one that was sent, unless the broker stamps: then the one that an arrival shows, or what the rule allows.
  Where a queue manager caps lives, only what an arrival shows is known.
"""

from __future__ import annotations

from typing import Final

from brokerproof.conformance.facts.clock import NO_EVENT
from brokerproof.conformance.facts.deliveries import moves
from brokerproof.conformance.facts.managed import may_be_capped
from brokerproof.conformance.facts.policy import gets_expiration, stamping_of
from brokerproof.conformance.facts.rows import Copy, Send
from brokerproof.conformance.facts.spans import NEVER, NS_PER_MS, Span
from brokerproof.conformance.facts.stamping import Force, force_of, relative_force, skew_of
from brokerproof.conformance.facts.tables import Tables

SECOND_MS: Final = 1000


class Death:
    """When one message dies. Thresholds are wall times (ns) from which on it may be (``low_ns``) and must be
    (``high_ns``) dead; ``low_ms`` is the expiration itself. ``taken``: when the broker took it over, with the event by
    whose end it had. ``skew``: how its producer's clock stood to the broker's, as a situation.
    """

    __slots__ = ("alive_at_first", "dead_at_first", "high_ns", "low_ms", "low_ns", "mortal", "seq", "skew", "taken")

    def __init__(self, taken: Span, seq: int, force: Force, skew: str) -> None:
        self.taken = taken
        self.seq = seq
        self.mortal = force.high_ms > 0
        self.low_ms = force.low_ms
        self.low_ns = (force.low_ms + 1) * NS_PER_MS
        self.high_ns = (force.high_ms + 1) * NS_PER_MS
        self.skew = skew
        #: Certain on its arrival at the broker.
        self.dead_at_first = False
        self.alive_at_first = not self.mortal


def may_die(tables: Tables, send: Send) -> bool:
    """Whether it has an expiration, or the broker may give it one."""
    return send.mortal or gets_expiration(tables.declared) or may_be_capped(tables, send.event)


def death_of(tables: Tables, send: Send) -> Death | None:
    """What is known of a message's death; None where it is not known that the broker took it over, or when."""
    if send.refused or not (send.confirmed or send.seen is not None):
        return None
    proof = send.seen if send.seen is not None and send.seen.t1 < send.accepted[1] else None
    taken = (send.event.t0, proof.t1 if proof is not None else send.accepted[1])
    seq = proof.seq if proof is not None else send.event.seq if send.transaction is None else NO_EVENT
    return death_if(tables, send, taken, seq)


def death_if(tables: Tables, send: Send, taken: Span, seq: int) -> Death | None:
    """The same for a message that the broker took over in a span, if it did; ``seq``: the event at its end."""
    event = send.event
    if not may_die(tables, send):
        return Death(taken, seq, Force(0, 0), "")
    clock = tables.broker_clock
    if not clock.known or taken[1] >= NEVER:
        return None
    low_ns, high_ns = clock.bounds_ns(taken[0], taken[1], event.seq, seq)
    low_ms, high_ms = low_ns // NS_PER_MS, high_ns // NS_PER_MS
    spec = stamping_of(tables.declared.timestamping, event)
    shown = next((d.event.expiration_ms for copy in send.copies.values() for d in copy.deliveries[:1]), None)
    if event.life_ms > 0:
        late_ms = SECOND_MS if send.client.traits.whole_seconds else 0
        jms = tables.promises("jms-semantics")
        if send.delayed and not (tables.simulated or jms):  # a real broker may count from when it was due
            late_ms += max(0, event.delay_ms or (event.deliver_at_ms or 0) - low_ms)
        answered = event.result == "ok" and send.client.traits.awaits_receipt
        if send.transaction is not None and answered and jms:
            # In a transaction, too, it begins when the message is sent (JMS 2.0, 3.4.4), and that was answered.
            high_ms = min(high_ms, clock.bounds_ns(event.t0, event.t1, event.seq, event.seq)[1] // NS_PER_MS)
        force = relative_force(spec, event.life_ms, low_ms, high_ms + late_ms)
    elif spec is None and not may_be_capped(tables, send.event):
        force = Force(event.expiration_ms, event.expiration_ms)
    elif shown is not None:
        force = Force(shown, shown)
    elif spec is None:
        return None
    else:
        force = force_of(spec, event, low_ms, high_ms)
    death = Death(taken, seq, force, skew_of(event.timestamp_ms, low_ms, high_ms))
    if not tables.promises("jms-semantics"):
        death.low_ns -= NS_PER_MS  # it may be over when the expiration is read, not only when it has passed
    if death.mortal:
        death.dead_at_first = low_ns >= death.high_ns
        death.alive_at_first = high_ns < death.low_ns
    return death


def dead(tables: Tables, death: Death, t0: int, t1: int, seq: int = NO_EVENT, end_seq: int = NO_EVENT) -> bool:
    """Certainly dead at every instant of ``[t0, t1]``."""
    return death.mortal and tables.broker_clock.bounds_ns(t0, t1, seq, end_seq)[0] >= death.high_ns


def alive(tables: Tables, death: Death, t0: int, t1: int, seq: int = NO_EVENT, end_seq: int = NO_EVENT) -> bool:
    """Certainly alive at every instant of ``[t0, t1]``."""
    return not death.mortal or tables.broker_clock.bounds_ns(t0, t1, seq, end_seq)[1] < death.low_ns


def maybe_expired(tables: Tables, expiration_ms: int, t0: int, t1: int) -> bool:
    """Whether the broker's clock may have shown more than ``expiration_ms`` in ``[t0, t1]``; 0 never expires."""
    if expiration_ms <= 0:
        return False
    clock = tables.broker_clock
    return not clock.known or clock.bounds_ns(t0, t1)[1] > expiration_ms * NS_PER_MS


def surely_expired(tables: Tables, expiration_ms: int, t0: int, t1: int) -> bool:
    """Whether the broker's clock had passed ``expiration_ms``, for certain, at every instant of ``[t0, t1]``."""
    clock = tables.broker_clock
    if expiration_ms <= 0 or not clock.known:
        return False
    return clock.bounds_ns(t0, t1)[0] >= (expiration_ms + 1) * NS_PER_MS


def maybe_restamped(tables: Tables, send: Send) -> bool:
    """Whether the broker may have given a message another expiration than its sender did."""
    return tables.declared.timestamping is not None or send.event.life_ms > 0 or may_be_capped(tables, send.event)


def maybe_timed_out(tables: Tables, copy: Copy, until_ns: int) -> bool:
    """Whether a copy may have expired by then, by whatever expiration the broker may have given it."""
    event, spec = copy.send.event, tables.declared.timestamping
    if spec is not None and spec.restamp_moved and moves(copy):
        return may_die(tables, copy.send)  # it is another life, also for what came over a bridge
    if maybe_restamped(tables, copy.send):
        death = death_of(tables, copy.send)
        return may_die(tables, copy.send) and (death is None or not alive(tables, death, event.t0, until_ns))
    if maybe_expired(tables, event.expiration_ms, event.t0, until_ns):
        return True
    shown = [delivery.event.expiration_ms for delivery in copy.deliveries]
    return any(maybe_expired(tables, expiration_ms, event.t0, until_ns) for expiration_ms in shown)
