"""What happens to a consumer's unsettled messages when it goes: which are marked as redelivered, and where they wait.

* Marked means: redelivery count + 1, and the next delivery carries the redelivered flag. ``last_delivered`` -2
  (unknown: STOMP, a lost connection) marks all of them, also those never written; n >= 0 marks the n oldest in dispatch
  order; -1 none.
* They go ahead of everything that was never dispatched, in the order in which they stood on the queue. That is dispatch
  order, except where a consumer got an older message after a newer one; then the order of the queue wins, so that
  departures in any order restore the sequence.
* Delivery delay does not apply again: it was served before the first delivery.
* Nothing is redelivered on a topic.
* What comes back to a queue and was marked more than ``redeliveries_max`` times is not redelivered but given up (not in
  ActiveMQ; as RabbitMQ's delivery-limit).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import mypyc_attr

if TYPE_CHECKING:
    from brokerproof.reference_broker.core.pending_list import PendingList
    from brokerproof.reference_broker.core.reference import Reference
    from brokerproof.reference_broker.core.subscription import Delivery

UNKNOWN = -2


def queue_order(reference: Reference) -> int:
    """Sort key: the place on the queue."""
    return reference.order


@mypyc_attr(allow_interpreted_subclasses=True)
class Redelivery:
    """Policy ``redelivery``: the marks, and their limit (-1: none)."""

    def __init__(self, most: int = -1) -> None:
        self.most = most

    def is_spent(self, count: int) -> bool:
        """Whether a message that has been marked so often, and comes back, is given up."""
        return 0 <= self.most < count

    def mark(self, deliveries: list[Delivery], last_delivered: int) -> None:
        """``deliveries`` are what the consumer leaves behind, oldest first."""
        count = len(deliveries) if last_delivered == UNKNOWN else max(0, last_delivered)
        for delivery in deliveries[:count]:
            delivery.reference.message.redelivery_count += 1


@mypyc_attr(allow_interpreted_subclasses=True)
class Ordering:
    """Policy ``ordering``: where messages that come back wait."""

    def put_back(self, line: PendingList, references: list[Reference]) -> None:
        """``references`` come back from one consumer, in dispatch order; merge them with those that came back before
        and still wait.
        """
        waiting = line.take_returned()
        waiting.extend(references)
        waiting.sort(key=queue_order)
        line.put_first(waiting)
