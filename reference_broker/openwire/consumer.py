"""One consumer of the JMS client: what has arrived, what its application has taken, and what a rollback brings back.

* ``buffer`` is the prefetch buffer, oldest first. A message is in ``buffer``, in ``taken``, in one open transaction's
  list, or settled.
* What a rollback brings back goes to the front of the buffer, in the order in which it was acknowledged, with its
  redelivery count one higher: the broker does not dispatch it again (openwire.md 10.8). ``redelivery_policy.py`` says
  what is given up instead, and for how long from the ROLLBACK on the application gets nothing.
* An acknowledgement names a message by its ack id: the message's id, unless the consumer has taken another copy of that
  message already (a consumer of several destinations may get one from each).
* A pull (prefetch 0) whose message is thrown away by the expiry check is repeated with what is left of its time.
"""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Final

from brokerproof.reference_broker.core.instant import NS_PER_MS
from brokerproof.reference_broker.core.message import TEMP_TOPIC, TOPIC
from brokerproof.reference_broker.openwire.redelivery_policy import Delivered as Gone
from brokerproof.reference_broker.openwire.redelivery_policy import Redeliveries, RedeliveryPolicy
from brokerproof.reference_broker.session.notice import Delivered

if TYPE_CHECKING:
    from brokerproof.reference_broker.openwire.commands import MessageDispatch

CONSUMER_LOGGER: Final = "org.apache.activemq.ActiveMQMessageConsumer"
AUTO: Final = "auto"
CLIENT: Final = "client"
INDIVIDUAL_MODE: Final = "individual"
TRANSACTED: Final = "transacted"
ACK_MODES: Final = (AUTO, CLIENT, INDIVIDUAL_MODE, TRANSACTED)


class PrefetchPolicy:
    """What the client asks for unless told otherwise (ActiveMQPrefetchPolicy). Each counts messages; 0: it pulls."""

    __slots__ = ("browser", "durable", "queue", "topic")

    #: ActiveMQ's option -> the field here.
    OPTIONS: Final[dict[str, tuple[str, ...]]] = {
        "all": ("queue", "topic", "durable", "browser"),
        "queuePrefetch": ("queue",),
        "topicPrefetch": ("topic",),
        "durableTopicPrefetch": ("durable",),
        "queueBrowserPrefetch": ("browser",),
    }

    def __init__(self) -> None:
        self.queue = 1000
        self.topic = 32767
        self.durable = 100
        self.browser = 500

    def set(self, option: str, count: int) -> bool:
        """Set an option by ActiveMQ's name; whether there is one."""
        fields = self.OPTIONS.get(option, ())
        for field in fields:
            setattr(self, field, count)
        return bool(fields)

    def prefetch(self, destination: str, *, durable: bool, browser: bool) -> int:
        """For a consumer."""
        if browser:
            return self.browser
        if durable:
            return self.durable
        return self.topic if destination.startswith((TOPIC, TEMP_TOPIC)) else self.queue


class JmsConsumer:
    """See the module's header."""

    __slots__ = ("ack_mode", "browser", "buffer", "delivered_pending", "destination", "name", "newest", "pause_ms",
                 "prefetch", "pull_deadline_ns", "pull_ms", "redeliveries", "resume_ns", "returned",
                 "shuffled", "taken")  # fmt: skip

    def __init__(
        self,
        name: str,
        destination: str,
        prefetch: int,
        ack_mode: str,
        policy: RedeliveryPolicy,
        *,
        browser: bool = False,
    ) -> None:
        self.name = name
        self.destination = destination
        self.prefetch = prefetch
        self.ack_mode = ack_mode
        self.browser = browser
        self.buffer: deque[MessageDispatch] = deque()
        #: Ack id -> what was taken and not settled, oldest first.
        self.taken: dict[str, MessageDispatch] = {}
        #: Taken, and not yet covered by a DELIVERED acknowledgement.
        self.delivered_pending: list[MessageDispatch] = []
        self.redeliveries = Redeliveries(policy)
        #: A rollback has brought back older messages than some that are taken, or that wait before them: what is taken
        #: from now on, until that is over, is no range of the broker's list.
        self.shuffled = False
        #: Messages at the front of the buffer that the application has had before.
        self.returned = 0
        #: How many have arrived here.
        self.newest = 0
        #: Nothing is handed out before this instant; 0: there is no pause.
        self.resume_ns = 0
        #: A pause that begins with the next command that is written.
        self.pause_ms = 0
        #: The open pull's timeout as asked (-1: none is open that waits), and when it ends.
        self.pull_ms = -1
        self.pull_deadline_ns = 0

    def next(self) -> MessageDispatch:
        """Take the oldest message off the buffer; there must be one."""
        self.returned = max(self.returned - 1, 0)
        return self.buffer.popleft()

    def last_delivered(self, held: list[list[MessageDispatch]]) -> int:
        """The broker's number of the message, of those that its application has seen and that are not settled, that
        arrived last; -1: none. ``held`` is what it has acknowledged in open transactions.
        """
        seen = [one for messages in held for one in messages]
        seen += list(self.buffer)[: self.returned]
        seen += self.taken.values()
        return max(seen, key=_place_of).sequence if seen else -1

    def arrived(self, message: MessageDispatch) -> None:
        """It waits for the application. A broker tells what was seen by how far it got in the order of arrival, which a
        rollback does not change.
        """
        self.newest += 1
        message.place = self.newest
        self.buffer.append(message)

    def paused(self, now_ns: int) -> bool:
        """Whether the application gets nothing, because of a rollback."""
        return self.pause_ms > 0 or now_ns < self.resume_ns

    def ack_id(self, message: MessageDispatch) -> str:
        """How an acknowledgement will name a message that is being taken."""
        message_id = message.message_id
        return message_id if message_id not in self.taken else f"{message_id} from {message.destination}"

    def roll_back(self, messages: list[MessageDispatch]) -> tuple[list[tuple[MessageDispatch, str]], int]:
        """The application did not want these. Returns what is given up, with the causes, and how many come again."""
        decision = self.redeliveries.roll_back([Gone(one.message_id, one.redelivery_count) for one in messages])
        causes = {one.message_id: one.cause for one in decision.given_up}
        again = [message for message in messages if message.message_id not in causes]
        for message in reversed(again):
            message.redelivery_count += 1
            self.buffer.appendleft(message)
        self.returned += len(again)
        self.shuffled = bool(self.taken) or self._is_shuffled_after(0)
        if again:
            self.pause_ms = decision.pause_ms
        return [(one, causes[one.message_id]) for one in messages if one.message_id in causes], len(again)

    def acknowledged(self, messages: list[MessageDispatch]) -> None:
        """All that was taken is settled; what waits here may still be in another order than the broker's."""
        self.shuffled = self.shuffled and self._is_shuffled_after(max(one.place for one in messages))

    def _is_shuffled_after(self, place: int) -> bool:
        for message in self.buffer:
            if message.place < place:
                return True
            place = message.place
        return False

    def ranges(self, count: int, *, mixed: bool) -> list[tuple[MessageDispatch, MessageDispatch, int]]:
        """The first so many of the buffer, as ranges of the broker's list: (first, last, how many). ``mixed``: they may
        stand there in another order, with others between.
        """
        messages = list(islice(self.buffer, count))
        if mixed:
            return [(one, one, 1) for one in messages]
        return [(messages[0], messages[-1], count)] if messages else []

    def pulled(self, timeout_ms: int, now_ns: int) -> None:
        """The application has asked the broker for a message."""
        self.pull_ms = timeout_ms
        self.pull_deadline_ns = now_ns + timeout_ms * NS_PER_MS if timeout_ms > 0 else 0

    def remaining_pull_ms(self, now_ns: int) -> int:
        """The timeout with which an open pull is repeated. A wait that is over asks for what is there (-1), never for
        ever (0).
        """
        if self.pull_ms <= 0:
            return self.pull_ms
        return max((self.pull_deadline_ns - now_ns) // NS_PER_MS, 0) or -1


def _place_of(message: MessageDispatch) -> int:
    return message.place


class TakenMessages:
    """What one consumer has acknowledged in an open transaction. ``mixed``: perhaps in another order than the broker's:
    one by one, or after a rollback that put a message behind others.
    """

    __slots__ = ("consumer", "messages", "mixed")

    def __init__(self, consumer: JmsConsumer, messages: list[MessageDispatch]) -> None:
        self.consumer = consumer
        self.messages = messages
        self.mixed = consumer.ack_mode == INDIVIDUAL_MODE or consumer.shuffled


def as_delivered(dispatch: MessageDispatch, ack_id: str) -> Delivered:
    """What the application is given."""
    return Delivered(
        dispatch.consumer_id,
        dispatch.message_id,
        dispatch.destination,
        dispatch.body,
        expiration_ms=dispatch.expiration_ms,
        timestamp_ms=dispatch.timestamp_ms,
        priority=dispatch.priority,
        persistent=dispatch.persistent,
        redelivered=dispatch.redelivery_count > 0,
        delivery_count=dispatch.redelivery_count + 1,
        original_destination=dispatch.original_destination,
        properties=dispatch.properties,
        ack_id=ack_id,
        correlation_id=dispatch.correlation_id or "",
        reply_to=dispatch.reply_to,
        jms_type=dispatch.jms_type,
        group=dispatch.group_id,
        group_sequence=dispatch.group_sequence,
    )
