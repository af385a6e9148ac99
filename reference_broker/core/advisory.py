"""Advisories: messages by which the broker tells subscribers what happens inside it (ActiveMQ's AdvisoryBroker).

* An advisory is published on ``topic://ActiveMQ.Advisory.<event>.<Queue|Topic>.<name>`` (``topic_about``), events about
  connections on a topic without a destination (``topic_of``). These are topics like any other: everybody may subscribe,
  wildcards match, nothing waits for who comes later. They exist from the first advisory or subscriber on.
* Here: ``Expired``, for every expiry that its destination reports (once per subscription on a topic), and
  ``MessageDLQd``, for every dead letter that was made. Both name the destination where the message was, not the
  dead-letter queue. They come after the dead letter itself, the dead letter's before the expiry's.
* What it holds: type ``Advisory``, not persistent, no expiration, default priority; which broker it was (``origin``);
  the command that it is about as ``data_structure``: here a copy of the message, without its body unless
  ``include_body``. ``Expired`` carries ``orignalMessageId`` (ActiveMQ spells it so).
* There are no advisories about advisories. They pass neither the time-stamping plug-in nor the arrival check.
* Off by default: ``advisory_support`` switches on what ActiveMQ always tells, a policy entry's ``advisories`` the two
  for its destinations. While nothing is switched on, an expiry costs one attribute test.

Exceptions: an expired-ack of a subscriber that is not durable makes none, as in ActiveMQ. ActiveMQ has no switch per
destination for these two.

To add an advisory: its event here, a method of the policy if a mutant should replace the decision, and a call of
``Region.advise`` where it happens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import mypyc_attr

from brokerproof.reference_broker.core.config import AdvisoryOptions
from brokerproof.reference_broker.core.matching import is_queue, policy_for, split
from brokerproof.reference_broker.core.message import QUEUE, TEMP_QUEUE, TEMP_TOPIC, TOPIC, Message

if TYPE_CHECKING:
    from brokerproof.reference_broker.core.config import BrokerConfig
    from brokerproof.reference_broker.core.message import Property

PREFIX: Final = TOPIC + "ActiveMQ.Advisory."
TYPE: Final = "Advisory"
# Events: the word after the prefix. ``connection_registry.py`` has those of comings and goings.
CONNECTION: Final = "Connection"
CONSUMER: Final = "Consumer"
PRODUCER: Final = "Producer"
#: Kind of a destination -> the event of one that is made or removed.
DESTINATIONS: Final = {QUEUE: "Queue", TOPIC: "Topic", TEMP_QUEUE: "TempQueue", TEMP_TOPIC: "TempTopic"}
EXPIRED: Final = "Expired"
DEAD_LETTERED: Final = "MessageDLQd"
#: The property that names the message which expired; the spelling is ActiveMQ's.
ORIGINAL_ID: Final = "orignalMessageId"


def origin(broker: str) -> dict[str, Property]:
    """Which broker tells it. Its address is the one inside its own process, as ActiveMQ has it without a connector."""
    return {"originBrokerId": f"ID:{broker}", "originBrokerName": broker, "originBrokerURL": f"vm://{broker}"}


def topic_of(event: str) -> str:
    """The topic of an event that concerns no destination: ``topic://ActiveMQ.Advisory.Connection``."""
    return PREFIX + event


def topic_about(event: str, destination: str) -> str:
    """The topic of an event at a destination: ``topic://ActiveMQ.Advisory.Expired.Queue.orders``."""
    return f"{PREFIX}{event}.{'Queue' if is_queue(destination) else 'Topic'}.{split(destination)[1]}"


def topic_of_destination(name: str) -> str:
    """The topic that tells of a destination which is made or removed: ``topic://ActiveMQ.Advisory.Queue``."""
    return topic_of(DESTINATIONS[split(name)[0]])


def subjects(event: str, topic: str) -> list[str]:
    """The destinations that ``topic_about`` may have made a topic of; none if it is about another event."""
    for kind, prefixes in (("Queue", (QUEUE, TEMP_QUEUE)), ("Topic", (TOPIC, TEMP_TOPIC))):
        head = f"{PREFIX}{event}.{kind}."
        if topic.startswith(head):
            return [prefix + topic[len(head) :] for prefix in prefixes]
    return []


def is_advisory(destination: str) -> bool:
    """Whether advisories are published there."""
    return destination.startswith(PREFIX)


class Advisory(Message):
    """What subscribers get. ``data_structure`` is the command that it is about: a message, or what a protocol's session
    says about a connection or a consumer. Protocols that have no place for it show the properties alone.
    """

    __slots__ = ("data_structure",)

    def __init__(
        self,
        message_id: str,
        topic: str,
        data_structure: object,
        *,
        timestamp_ms: int,
        properties: dict[str, Property],
    ) -> None:
        super().__init__(
            message_id, topic, b"", timestamp_ms=timestamp_ms, properties=properties, jms_type=TYPE, persistent=False
        )
        self.data_structure = data_structure


@mypyc_attr(allow_interpreted_subclasses=True)
class AdvisoryPolicy:
    """Policy ``advisories``: which deaths, comings and goings are told of, and how."""

    def __init__(self, config: BrokerConfig) -> None:
        self._entries = config.destinations
        self._default = AdvisoryOptions()
        self._supported = config.advisory_support
        #: Nobody asked for any.
        self.idle = not config.advisory_support and all(entry.advisories is None for entry in config.destinations)

    def options(self, source: str) -> AdvisoryOptions:
        """What the policy entry of a destination asks for."""
        return policy_for(source, self._entries).advisories or self._default

    def advises_presence(self, gone: bool) -> bool:  # noqa: ARG002 - a planted defect chooses
        """Whether who listens is told that somebody has come, or is ``gone``: always."""
        return True

    def advises_existing(self) -> bool:
        """Whether who begins to listen is told of those that are there: yes."""
        return True

    def advises_expired(self, source: str) -> bool:
        """Whether expiries at this destination are told of."""
        options = self.options(source)
        return not is_advisory(source) and (self._supported or options.expired)

    def advises_dead_lettered(self, source: str) -> bool:
        """Whether dead letters that come from this destination are told of."""
        options = self.options(source)
        return not is_advisory(source) and (self._supported or options.dead_letters)

    def content(self, message: Message, source: str) -> Message:
        """What an advisory shows of the message that it is about."""
        shown = message.copy_to(source)
        if not self.options(source).include_body:
            shown.body = b""
        return shown

    def original_id(self, message: Message) -> str:
        """How an advisory names the message that expired."""
        return message.message_id
