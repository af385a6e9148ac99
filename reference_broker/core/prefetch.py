"""The consumer's window: how many messages may be on their way before the consumer must answer.

Rules (ActiveMQ's table of extension arithmetic):
* A consumer that asks for no prefetch (-1), or for exactly the default of its kind, gets what the policy entry of the
  destination that it names first says; one that asks for any other number gets that. The defaults are ActiveMQ's: queue
  1000, browser 500, topic 32767, durable subscription 100.
* A consumer may be given a message iff ``|dispatched| - extension < prefetch``; one with prefetch 0 iff it has pulled
  (``pull.py``): its extension is 1 then, and nothing else moves it.
* DELIVERED widens the window by the messages that it reports for the first time. A settled message narrows it by one
  again, never below 0; a whole range that is poison or expired narrows it by one only. An entry that says
  ``use_prefetch_extension`` false keeps the extension at 0.

Exception: ActiveMQ lets a client report the same message DELIVERED again and again and widens the window each time;
here each message counts once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import mypyc_attr

from brokerproof.reference_broker.core.config import (
    DURABLE_TOPIC_PREFETCH,
    QUEUE_BROWSER_PREFETCH,
    QUEUE_PREFETCH,
    TOPIC_PREFETCH,
)
from brokerproof.reference_broker.core.matching import is_queue

if TYPE_CHECKING:
    from brokerproof.reference_broker.core.config import DestinationPolicy
    from brokerproof.reference_broker.core.events import Subscribe
    from brokerproof.reference_broker.core.subscription import Consumer, Subscription

UNASKED: Final = -1


@mypyc_attr(allow_interpreted_subclasses=True)
class Prefetch:
    """Policy ``prefetch``."""

    def is_open(self, subscription: Subscription) -> bool:
        """Whether the broker may assign one more message."""
        consumer = subscription.consumer
        prefetch = consumer.prefetch
        if not prefetch:
            return consumer.extension > 0
        return len(consumer.dispatched.index) - consumer.extension < prefetch

    def granted(self, event: Subscribe, entry: DestinationPolicy) -> int:
        """The window of a consumer that comes; ``entry`` applies to its destination."""
        if event.browser:
            default, configured = QUEUE_BROWSER_PREFETCH, entry.queue_browser_prefetch
        elif is_queue(event.destination):
            default, configured = QUEUE_PREFETCH, entry.queue_prefetch
        elif event.durable:
            default, configured = DURABLE_TOPIC_PREFETCH, entry.durable_topic_prefetch
        else:
            default, configured = TOPIC_PREFETCH, entry.topic_prefetch
        return configured if event.prefetch in (UNASKED, default) else event.prefetch

    def widen(self, consumer: Consumer, count: int) -> None:
        """``count`` messages were reported DELIVERED for the first time."""
        if consumer.extends and consumer.prefetch:
            consumer.extension += count

    def narrow(self, consumer: Consumer, count: int) -> None:
        """Settling took ``count`` off the extension."""
        if consumer.prefetch:
            consumer.extension = max(consumer.extension - count, 0)
