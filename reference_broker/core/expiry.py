"""Expiry: when a message is dead by the broker's clock, what a client's claim that it is dead means, and when the
broker looks for dead ones.

* A message is expired iff ``expiration_ms > 0`` and ``wall_ms > expiration_ms``: at that very millisecond it is alive.
  Only the broker's wall clock counts.
* It is looked at on arrival, before it is assigned to a consumer, when its delivery delay ends, and by the periodic
  sweep. Never while it is in flight: acknowledging an expired message consumes it.
* The sweep of a destination runs on elapsed time, on a grid of ``expire_period_ms`` that starts when the destination
  was created; a period of 0 or less switches it off. It is armed only while messages with an expiration wait (or a
  queue starves, see ``memory.py``), so that an idle broker asks for no ticks.
* What a step of the wall clock does: forward, waiting messages expire at the next look; backward, they live again until
  the clock has caught up. A message that was expired stays expired.
* The client's expired-ack (OpenWire type 6), by generation: ``classic-5.14`` believes the client, the message is
  expired whatever the broker's clock says. ``documented``: the client has only discarded it; if the broker's clock
  agrees it expires, otherwise it leaves that consumer's window and stays on the queue, for another consumer or until
  the broker's clock agrees.
* Counting: expired + 1, dequeued + 1, size - 1, once per message. On arrival: a queue counts nothing, a topic expired +
  1. A delayed message that expires while it waits was never visible, but counts as enqueued, expired and dequeued, so
  that the counts stay balanced.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

from mypy_extensions import mypyc_attr

from brokerproof.reference_broker.core.instant import NS_PER_MS

if TYPE_CHECKING:
    from brokerproof.reference_broker.core.destination import Destination

NOT_ON_HEAP = -1


@mypyc_attr(allow_interpreted_subclasses=True)
class Expiry:
    """Policy ``expiry``, generation ``classic-5.14``."""

    #: A client's word is enough; otherwise the broker's clock must agree.
    trusts_client = True

    def is_expired(self, expiration_ms: int, wall_ms: int) -> bool:
        """The predicate."""
        return 0 < expiration_ms < wall_ms

    def believes_client(self, expiration_ms: int, wall_ms: int) -> bool:
        """Whether a client's expired-ack makes the broker expire the message."""
        return self.trusts_client or self.is_expired(expiration_ms, wall_ms)

    def next_sweep_ns(self, created_ns: int, period_ms: int, mono_ns: int) -> int:
        """The first point after ``mono_ns`` of the destination's grid."""
        period_ns = period_ms * NS_PER_MS
        return created_ns + ((mono_ns - created_ns) // period_ns + 1) * period_ns


@mypyc_attr(allow_interpreted_subclasses=True)
class DocumentedExpiry(Expiry):
    """Policy ``expiry``, generation ``documented``: the broker's clock has the last word."""

    trusts_client = False


class ExpirySweeps:
    """The armed sweeps, at most one per destination, earliest first; ties go by the destinations' age.

    A destination that is disarmed leaves its entry behind; it is skipped when it comes to the top, or used again when
    the destination is armed for the same grid point. So asking for the next due time changes nothing that matters.
    """

    __slots__ = ("heap",)

    def __init__(self) -> None:
        self.heap: list[tuple[int, int, Destination]] = []

    def arm(self, destination: Destination, due_ns: int) -> None:
        """Ask for a sweep."""
        destination.sweep_armed = True
        if destination.sweep_due_ns != due_ns:
            destination.sweep_due_ns = due_ns
            heapq.heappush(self.heap, (due_ns, destination.number, destination))

    def disarm(self, destination: Destination) -> None:
        """Nothing is left to look for."""
        destination.sweep_armed = False

    def next_due_ns(self) -> int | None:
        """When the next sweep is wanted."""
        heap = self.heap
        while heap:
            due_ns, _, destination = heap[0]
            if destination.sweep_armed and destination.sweep_due_ns == due_ns:
                return due_ns
            self._drop()
        return None

    def take_due(self, mono_ns: int) -> Destination | None:
        """The next destination to sweep, disarmed; None when nothing is due."""
        due_ns = self.next_due_ns()
        if due_ns is None or due_ns > mono_ns:
            return None
        destination = self._drop()
        destination.sweep_armed = False
        return destination

    def _drop(self) -> Destination:
        due_ns, _, destination = heapq.heappop(self.heap)
        if destination.sweep_due_ns == due_ns:
            destination.sweep_due_ns = NOT_ON_HEAP
        return destination
