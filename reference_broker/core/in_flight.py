"""In-flight counts: how many messages consumers have not acknowledged, as an operator reads it.

It decides when a destination's counters move because of dispatch, acknowledgement and departure. Nothing else touches
``in_flight``.

Rules (seed 003; ActiveMQ has kept them since 5.1):
* A message is *assigned* when it is put on a consumer's dispatched list, and *transmitted* when the transport has
  written it. Synchronous dispatch does both at once.
* ``in_flight`` rises at *transmitted* and falls when the message leaves the dispatched list: acknowledged, or because
  the consumer left. With T messages transmitted and R removed, ``in_flight == T - R`` always, and ``dispatched == T``.
* A consumer that leaves takes everything unsettled off the counts at once, also what is not written yet. So the count
  may be negative until the writer has reported the rest, and at rest (everything assigned is reported) it equals the
  number of messages on the dispatched lists.
* What a departure takes off is *wasted*: a dispatch that came to nothing, and is to be made again. ``removed`` =
  acknowledged + wasted, so ``dispatched / acknowledged`` is what churn costs.
* Resetting the statistics begins the totals anew; levels stay. What was in flight and on the queue then is remembered
  (``kept_in_flight``, ``kept_size``), so that ``in_flight == kept_in_flight + T - R`` and ``size == kept_size +
  enqueued - dequeued`` hold at all times. ActiveMQ sets ``in_flight`` to 0 as well, and is wrong by what was in flight
  from then on.
* A write that failed counts as transmitted too: the departure that follows has subtracted it already, or will.

Generation ``assigned`` counts a message when it is assigned, under the same lock that settlements and departures need,
so the count is never negative: a departure takes off only what was counted. ``dispatched`` is as before.

Exception: an in-flight message that is purged leaves ``size`` at once and ``in_flight`` only with its late
acknowledgement.
"""

from __future__ import annotations

from mypy_extensions import mypyc_attr


class Counters:
    """One destination's statistics. All are totals since the start or the last reset, except ``size``, ``scheduled``
    and ``in_flight``, which are levels.
    """

    __slots__ = ("assigned", "dequeued", "discarded", "dispatched", "enqueued", "expired", "in_flight",
                 "kept_in_flight", "kept_size", "removed", "scheduled", "size", "wasted")  # fmt: skip

    def __init__(self) -> None:
        #: Messages that became visible on the destination.
        self.enqueued = 0
        #: Messages that left it: acknowledged, expired, dead-lettered or purged.
        self.dequeued = 0
        self.expired = 0
        #: Topics: what slow subscribers lost to their pending limit, once per subscription.
        self.discarded = 0
        #: Messages on the queue, in flight or not; always 0 for a topic.
        self.size = 0
        #: Messages that wait for their delivery time; not part of ``size``.
        self.scheduled = 0
        #: T of the identity: dispatches that the transport has written or given up.
        self.dispatched = 0
        self.in_flight = 0
        #: Dispatches put on a consumer's list, written or not.
        self.assigned = 0
        #: R of the identity: messages taken off a consumer's list.
        self.removed = 0
        #: Messages taken off a list because the consumer left, part of ``removed``.
        self.wasted = 0
        #: The levels at the last reset of the totals.
        self.kept_in_flight = 0
        self.kept_size = 0


@mypyc_attr(allow_interpreted_subclasses=True)
class InFlight:
    """Policy ``in_flight``: the four movements. Generation ``exact``."""

    #: Whether what is assigned is in flight before it is written.
    early = False

    def assigned(self, counters: Counters, asynchronous: bool) -> None:
        """One message was put on a consumer's dispatched list."""
        counters.assigned += 1
        if not asynchronous:
            self.transmitted(counters)

    def transmitted(self, counters: Counters) -> None:
        """The transport has written one dispatch, or given it up."""
        counters.dispatched += 1
        counters.in_flight += 1

    def settled(self, counters: Counters, count: int) -> None:
        """An acknowledgement took ``count`` messages off a dispatched list."""
        counters.removed += count
        counters.in_flight -= count

    def left(self, counters: Counters, count: int) -> None:
        """A consumer left with ``count`` unsettled messages, written or not."""
        counters.removed += count
        counters.wasted += count
        counters.in_flight -= count

    def reset(self, counters: Counters) -> None:
        """The totals begin anew; what is assigned and not written yet will still be counted."""
        counters.assigned -= counters.dispatched
        counters.dispatched = 0
        counters.removed = 0
        counters.wasted = 0
        counters.enqueued = 0
        counters.dequeued = 0
        counters.expired = 0
        counters.discarded = 0
        counters.kept_in_flight = counters.in_flight
        counters.kept_size = counters.size


class AssignedInFlight(InFlight):
    """Generation ``assigned``."""

    early = True

    def assigned(self, counters: Counters, asynchronous: bool) -> None:
        counters.in_flight += 1
        super().assigned(counters, asynchronous)

    def transmitted(self, counters: Counters) -> None:
        counters.dispatched += 1

    def reset(self, counters: Counters) -> None:
        super().reset(counters)
        counters.kept_in_flight -= counters.assigned  # what is not written yet counts as assigned anew


GENERATIONS: dict[str, type[InFlight]] = {"exact": InFlight, "assigned": AssignedInFlight}
