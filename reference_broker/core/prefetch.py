"""The consumer's window: how many messages may be on their way before the consumer must answer.

Rules (ActiveMQ's table of extension arithmetic):

* A consumer may be given a message iff ``|dispatched| - extension < prefetch``. So prefetch 0 gives nothing: such a
  consumer must pull, and there is no pull yet.
* DELIVERED widens the window by the messages that it reports for the first time. A settled message narrows it by one
  again, never below 0; a whole range that is poison or expired narrows it by one only.

Exception: ActiveMQ lets a client report the same message DELIVERED again and again and widens the window each time;
here each message counts once.

Change together: ``acknowledgement.py`` (which kind narrows by how much).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import mypyc_attr

if TYPE_CHECKING:
    from reference_broker.core.subscription import Consumer, Subscription


@mypyc_attr(allow_interpreted_subclasses=True)
class Prefetch:
    """Policy ``prefetch``."""

    def is_open(self, subscription: Subscription) -> bool:
        """Whether the broker may assign one more message."""
        consumer = subscription.consumer
        return len(consumer.dispatched.index) - consumer.extension < consumer.prefetch

    def widen(self, consumer: Consumer, count: int) -> None:
        """``count`` messages were reported DELIVERED for the first time."""
        consumer.extension += count

    def narrow(self, consumer: Consumer, count: int) -> None:
        """Settling took ``count`` off the extension."""
        extension = consumer.extension
        if extension:
            consumer.extension = extension - count if extension > count else 0
