"""Dead letters: which messages get a copy, on which queue, and what the copy looks like.

Rules (ActiveMQ's three strategies; each policy entry may have one, ``config.DeadLetterStrategy``):
* ``shared`` (default): one queue, ``ActiveMQ.DLQ``. ``individual``: a destination per source, named by prefix, source
  and suffix (``ActiveMQ.DLQ.Queue.orders``); with ``destination_per_durable_subscriber`` one per subscriber, too.
  ``discarding``: none.
* An expired or poisoned message of a queue, and one that expires on a topic, gets a copy if it is persistent or the
  strategy says ``process_non_persistent``, and, if it expired, ``process_expired``. Poison on a non-durable topic is
  consumed silently.
* ``enable_audit``: a message id gets one copy on each dead-letter queue. So, where the queue is shared, a composite
  destination or several subscriptions make one dead letter. The last ``AUDIT_IDS`` ids are remembered. An operator who
  moves one lets it be dead-lettered again (``forget``).
* A message that dies on its own dead-letter queue disappears: no loop. Sending to that queue is an ordinary send.
* The copy: same id, timestamp, priority, body, headers and properties; persistent, redelivery count 0, no delay, and
  the source as original destination. It never expires, or, with ``expiration_ms``, that much later. It carries
  ``originalExpiration`` (unless the message has one, or the strategy gives them an expiration),
  ``originalDeliveryMode`` if it was not persistent, and the cause as ``dlqDeliveryFailureCause`` if there is one to
  tell: a NACK has none.
* The copy does not pass the time-stamping plug-in or the arrival expiry check.

Exceptions: ActiveMQ marks an id as seen before it asks whether the message gets a copy at all, and asks its own clock
whether it expired; here the reason counts, also if it was a client that saw it expired. Whatever the audit says, a
queue holds no two messages with one id.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from mypy_extensions import mypyc_attr

from brokerproof.reference_broker.core.config import DISCARDING, INDIVIDUAL_STRATEGY, DeadLetterStrategy
from brokerproof.reference_broker.core.matching import fault, is_queue, policy_for, split
from brokerproof.reference_broker.core.message import QUEUE, TOPIC, Message

if TYPE_CHECKING:
    from brokerproof.reference_broker.core.config import BrokerConfig

LOGGER = "org.apache.activemq.broker.region.RegionBroker"
#: ActiveMQ's window: 2048 ids of 64 producers.
AUDIT_IDS: Final = 131_072


def expiry_cause(message: Message) -> str:
    """The text with which ActiveMQ explains that a message expired."""
    return f"java.lang.Throwable: Message Expired. Expiration:{message.expiration_ms}"


def poison_cause(text: str) -> str:
    """The text with which ActiveMQ passes on what a client said about poison; "" stays ""."""
    return f"java.lang.Throwable: {text}" if text else ""


@mypyc_attr(allow_interpreted_subclasses=True)
class DeadLetter:
    """Policy ``dead_letter``."""

    def __init__(self, config: BrokerConfig) -> None:
        self._entries = config.destinations
        self._default = DeadLetterStrategy(process_non_persistent=config.dead_letter_non_persistent)
        #: source -> its strategy
        self._strategies: dict[str, DeadLetterStrategy] = {}
        #: dead-letter queue -> ids that have been there, oldest first
        self._audits: dict[str, OrderedDict[str, None]] = {}

    def strategy(self, source: str) -> DeadLetterStrategy:
        """The strategy of the policy entry that applies to the source."""
        known = self._strategies.get(source)
        if known is None:
            known = policy_for(source, self._entries).dead_letter or self._default
            self._strategies[source] = known
        return known

    def target(self, source: str, subscriber: str = "") -> str:
        """Where the copy goes; "" is nowhere. ``subscriber``: the durable subscription that lost the message."""
        strategy = self.strategy(source)
        if strategy.strategy == DISCARDING:
            return ""
        if strategy.strategy != INDIVIDUAL_STRATEGY:
            return QUEUE + strategy.dead_letter_queue
        name = split(source)[1]
        if is_queue(source):
            kind = QUEUE if strategy.use_queue_for_queue_messages else TOPIC
            prefix, suffix = strategy.queue_prefix, strategy.queue_suffix
        else:
            kind = QUEUE if strategy.use_queue_for_topic_messages else TOPIC
            prefix, suffix = strategy.topic_prefix, strategy.topic_suffix
        if name.startswith(prefix):
            return source  # it is a dead-letter queue itself
        if subscriber and strategy.destination_per_durable_subscriber:
            suffix = f".{subscriber}{suffix}"
        return kind + prefix + name + suffix

    def loops(self, source: str, target: str) -> bool:
        """Whether the message died where its copy would go: then there is none."""
        return target == source

    def eligible(self, message: Message, source: str, expired: bool) -> bool:
        """Whether a message that died there gets a copy at all, if it has not had one."""
        strategy = self.strategy(source)
        if expired and not strategy.process_expired:
            return False
        return message.persistent or strategy.process_non_persistent

    def per_subscriber(self, source: str) -> bool:
        """Whether each durable subscription gets a copy of its own."""
        strategy = self.strategy(source)
        return strategy.strategy == INDIVIDUAL_STRATEGY and strategy.destination_per_durable_subscriber

    def first(self, message: Message, source: str, target: str) -> bool:
        """Whether the message has had no copy there yet, as far as is remembered. To be asked once for each copy."""
        if not self.strategy(source).enable_audit:
            return True
        audit = self._audits.setdefault(target, OrderedDict())
        if message.message_id in audit:
            return False
        audit[message.message_id] = None
        if len(audit) > AUDIT_IDS:
            audit.popitem(last=False)
        return True

    def forget(self, copy: Message) -> None:
        """An operator takes a dead letter off its queue to try again: should it die again, it gets a copy again."""
        audit = self._audits.get(copy.destination)
        if audit is not None:
            audit.pop(copy.message_id, None)

    def copy(self, message: Message, source: str, cause: str, target: str, wall_ms: int) -> Message:
        """The dead letter. ``cause`` is "" when there is none to tell."""
        expiration_ms = self.strategy(source).expiration_ms
        properties = dict(message.properties)
        if expiration_ms <= 0:
            properties.setdefault("originalExpiration", message.expiration_ms)
        if not message.persistent:
            properties["originalDeliveryMode"] = "NON_PERSISTENT"
        if cause:
            properties["dlqDeliveryFailureCause"] = cause
        copy = Message(
            message.message_id,
            target,
            message.body,
            timestamp_ms=message.timestamp_ms,
            expiration_ms=wall_ms + expiration_ms if expiration_ms > 0 else 0,
            persistent=True,
            priority=message.priority,
            properties=properties,
            correlation_id=message.correlation_id,
            reply_to=message.reply_to,
            jms_type=message.jms_type,
            group_id=message.group_id,
            group_sequence=message.group_sequence,
            form=message.form,
            packed=message.packed,
            extra=message.extra,
            path=message.path,
        )
        copy.original_destination = source
        return copy


def fault_of_strategy(strategy: DeadLetterStrategy) -> str:
    """What is wrong with the names of dead-letter queues in a configuration; "" if nothing."""
    for name in (strategy.dead_letter_queue, strategy.queue_prefix, strategy.topic_prefix):
        if split(name)[0]:
            return f"{name!r} has a prefix of its own; write the name alone"
    for name in (
        strategy.dead_letter_queue,
        f"{strategy.queue_prefix}NAME{strategy.queue_suffix}",
        f"{strategy.topic_prefix}NAME{strategy.topic_suffix}",
    ):
        wrong = fault(QUEUE + name)
        if wrong:
            return wrong
    return ""
