"""Due: when a message with a delay may be visible.

Rules
* A delay runs on elapsed time and counts from the send; where a broker documents that, from the commit.
* An absolute delivery time is one from what the broker's clock read when it took the message over; where both are given
  the delay counts. A negative one is none.
* In a transaction a message is visible when its delay and the commit are over.
* A broker that was restarted meanwhile computes what is left from stored wall times, in whole milliseconds, and waits
  never longer than at first: where its clock jumped before, the bounds are wide.
"""

from __future__ import annotations

from brokerproof.conformance.facts.clock import RATE_PPM
from brokerproof.conformance.facts.marks import MQSC
from brokerproof.conformance.facts.rows import Send
from brokerproof.conformance.facts.spans import NEVER, NS_PER_MS, Span
from brokerproof.conformance.facts.tables import Tables


class Due:
    """One message. ``asked``: when its delay is over on elapsed time; ``span``: the same, restarts considered;
    ``visible``: and its transaction committed. ``jump_ms``: how far the broker's clock jumped while it waited; 0: it
    did not. ``restarted``: the broker was, while it waited.
    """

    __slots__ = ("asked", "delayed", "jump_ms", "restarted", "send", "span", "visible")

    def __init__(self, tables: Tables, send: Send, began: int, span: Span, delay_ns: int) -> None:
        self.send = send
        self.asked = span
        self.delayed = span[0] > began
        until_ns = NEVER if tables.marks.on(send.event.dest, span) & MQSC else span[1]  # it may be held back
        self.restarted = bool(tables.restarts) and tables.restarted(began, until_ns)
        self.span = _stored(tables, (began, until_ns), span, delay_ns) if self.restarted and self.delayed else span
        low, high = send.accepted
        self.visible = max(self.span[0], low), max(self.span[1], high)
        self.jump_ms = tables.broker_clock.jump_between(began, until_ns)


def due_of(tables: Tables, send: Send) -> Due | None:
    """When a message is due, if it was taken at all; None if an absolute time cannot be related to the broker's
    clock.
    """
    event = send.event
    began, taken_ns = send.accepted
    if event.tx is not None and tables.declared.delay_begins == "send":
        began, taken_ns = event.t0, event.t1 if event.result == "ok" else taken_ns
    low_ms = high_ms = max(0, event.delay_ms)
    if event.deliver_at_ms is not None and not event.delay_ms:
        clock = tables.broker_clock
        if not clock.known or taken_ns >= NEVER:
            return None
        seq = send.seen.seq if send.seen is not None and taken_ns < event.t1 else event.seq
        wall_low, wall_high = clock.bounds_ms(event.t0, taken_ns, event.seq, seq)
        low_ms, high_ms = max(0, event.deliver_at_ms - wall_high), max(0, event.deliver_at_ms - wall_low)
    span = min(NEVER, began + low_ms * NS_PER_MS), min(NEVER, taken_ns + high_ms * NS_PER_MS)
    return Due(tables, send, began, span, high_ms * NS_PER_MS)


def _stored(tables: Tables, waited: Span, span: Span, delay_ns: int) -> Span:
    """The same, of a broker that was restarted while the message waited."""
    (began, until_ns), (low, high) = waited, span
    found = [event for event in tables.restarts if event.t1 >= began and event.t0 <= until_ns]
    slack = delay_ns * RATE_PPM // 1_000_000
    jump_ms = tables.broker_clock.jump_between(began, found[-1].t1)
    low = min(low, found[0].t0) if jump_ms else max(began, low - slack)
    # Stored times have lost what was beyond their millisecond, which makes nothing early.
    high = found[-1].t1 + delay_ns if jump_ms < 0 else max(high + slack + NS_PER_MS, found[-1].t1)
    return low, min(NEVER, high)
