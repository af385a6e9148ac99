"""Redelivery by the broker: a message that a client gave up comes again after a pause (ActiveMQ's redeliveryPlugin).

* Off unless a policy entry has a ``redelivery`` policy. Then a POISON acknowledgement (a NACK, a JMS client that has
  rolled back too often) of a queue's message puts it back on its queue, behind everything, after a pause, with its
  count raised by one: dequeued + 1, and enqueued + 1 when it is due. Meanwhile it is scheduled: invisible, and it may
  expire.
* At most ``maximum_redeliveries`` times (-1: for ever), by the message's count. Then it becomes a dead letter as
  without the plug-in, or vanishes, if ``send_to_dlq_if_max_retries_exceeded`` is off.
* The first pause is ``initial_redelivery_delay_ms``, each later one ``redelivery_delay_ms``; with
  ``use_exponential_back_off`` it is the one before, times ``back_off_multiplier``, at most
  ``maximum_redelivery_delay_ms`` (-1: the longest delay that there is). The pause is remembered as the property
  ``redeliveryDelay``.
* What expires, by the broker's clock or a client's, is not tried again.

Exceptions: ActiveMQ sends a durable subscription's message to the whole topic again; here topics are left out. ActiveMQ
stamps the message anew on its way through the plug-ins; here it keeps its expiration. There is no collision avoidance,
because nothing is random here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import mypyc_attr

from brokerproof.reference_broker.core.delay import MAX_DELAY_MS
from brokerproof.reference_broker.core.matching import policy_for

if TYPE_CHECKING:
    from brokerproof.reference_broker.core.config import BrokerConfig, BrokerRedelivery
    from brokerproof.reference_broker.core.message import Message

#: What becomes of the message, where it is no pause.
DEAD: Final = -1
VANISHES: Final = -2

PROPERTY: Final = "redeliveryDelay"


@mypyc_attr(allow_interpreted_subclasses=True)
class RedeliveryPlugin:
    """Policy ``redelivery_plugin``."""

    def __init__(self, config: BrokerConfig) -> None:
        self._entries = config.destinations
        #: Nobody asked for it anywhere.
        self.idle = all(entry.redelivery is None for entry in config.destinations)

    def pause_ms(self, message: Message, source: str) -> int:
        """How long a message that was given up there waits before it comes again; ``DEAD`` or ``VANISHES`` if not."""
        if self.idle:
            return DEAD
        policy = policy_for(source, self._entries).redelivery
        if policy is None:
            return DEAD
        count = message.redelivery_count
        if policy.maximum_redeliveries >= 0 and count >= policy.maximum_redeliveries:
            return DEAD if policy.send_to_dlq_if_max_retries_exceeded else VANISHES
        if count == 0:
            return policy.initial_redelivery_delay_ms
        return self.next_ms(policy, message)

    def next_ms(self, policy: BrokerRedelivery, message: Message) -> int:
        """The pause after the one that the message remembers."""
        before_ms = message.properties.get(PROPERTY)
        if not policy.use_exponential_back_off or not isinstance(before_ms, int) or before_ms <= 0:
            return policy.redelivery_delay_ms
        pause_ms = min(int(before_ms * policy.back_off_multiplier), MAX_DELAY_MS)
        most_ms = policy.maximum_redelivery_delay_ms
        return max(most_ms, policy.redelivery_delay_ms) if 0 <= most_ms < pause_ms else pause_ms
