"""A network bridge: takes messages from queues of one broker and sends them to another, which holds them from then on.

It is a client of both ends, without sockets, clock or storage of its own; whoever owns it brings both sessions.

* Store and forward: a message is acknowledged to the near broker when the far one has confirmed it, whatever its
  delivery mode (ActiveMQ's ``alwaysSyncSend``). What ends in between is taken up again by the next bridge: the near
  broker gives the message again, so it may cross twice and is never lost. The far broker knows what has crossed
  (``core/duplicate_detection.py``).
* It passes a message on as it is: id, body, properties, priority, both stamps. So an expiration stays the same instant,
  and means what the far broker's clock says of it; a far broker that stamps leaves it alone unless
  ``process_network_messages``. What is left of a relative time to live goes on there. A delay is served once, by the
  broker that was asked for it. The near broker's id is appended to the path.
* It looks at no expiration, because it has no clock that counts.
* What the far broker refuses becomes a dead letter of the near one; that it holds the message already is no refusal.
* Any end of one session ends the bridge; another one with new sessions begins anew.
* A topic among them has a proxy subscription, for whoever will be there on the far side: a delayed publication is
  matched with it at the send, and fanned out there when it has crossed.

Known exceptions: the queues and topics are named (ActiveMQ's ``staticallyIncludedDestinations``), no demand is looked
for; a proxy subscription lasts as long as its bridge; one message that has passed the far broker before becomes a
dead letter, instead of never being given (NetworkBridgeFilter).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import mypyc_attr

from brokerproof.reference_broker.core.message import Message
from brokerproof.reference_broker.openwire.commands import MessageDispatch
from brokerproof.reference_broker.openwire.consumer import INDIVIDUAL_MODE
from brokerproof.reference_broker.session.notice import Closed, Failed, Notice, Receipt

if TYPE_CHECKING:
    from collections.abc import Sequence

    from brokerproof.reference_broker.core.instant import Now
    from brokerproof.reference_broker.openwire.client import ClientSession

#: Where a session ends.
NEAR: Final = "near"
FAR: Final = "far"
#: ActiveMQ's networkConnector.prefetchSize.
PREFETCH: Final = 1000
#: The far broker's way to say that it holds the message.
HELD_ALREADY: Final = "duplicate-id"


class PassedOn(Notice):
    """A message has come from the near broker and is on its way to the far one, as ``message``."""

    __slots__ = ("dispatch", "message")

    def __init__(self, dispatch: MessageDispatch, message: Message) -> None:
        self.dispatch = dispatch
        self.message = message


class Confirmed(PassedOn):
    """The far broker has it; the near one is told."""

    __slots__ = ()


class Settled(PassedOn):
    """The near broker knows that it has crossed, or that it could not."""

    __slots__ = ()


class Listening(Notice):
    """The near broker gives what is on a queue to this consumer of the near session."""

    __slots__ = ("consumer", "queue")

    def __init__(self, consumer: str, queue: str) -> None:
        self.consumer = consumer
        self.queue = queue


class GivenUp(PassedOn):
    """It cannot cross, and becomes a dead letter of the near broker; ``text`` says why."""

    __slots__ = ("text",)

    def __init__(self, dispatch: MessageDispatch, message: Message, text: str) -> None:
        super().__init__(dispatch, message)
        self.text = text


def passed_on(dispatch: MessageDispatch, path: tuple[str, ...]) -> Message:
    """What a broker has given away, as its consumer sends it to another one."""
    return Message(
        dispatch.message_id,
        dispatch.destination,
        dispatch.body,
        timestamp_ms=dispatch.timestamp_ms,
        expiration_ms=dispatch.expiration_ms,
        persistent=dispatch.persistent,
        priority=dispatch.priority,
        properties=dispatch.opened,
        correlation_id=dispatch.correlation_id,
        reply_to=dispatch.reply_to,
        jms_type=dispatch.jms_type,
        group_id=dispatch.group_id,
        group_sequence=dispatch.group_sequence,
        form=dispatch.form,
        packed=dispatch.packed,
        extra=dispatch.extra,
        path=path,
    )


@mypyc_attr(allow_interpreted_subclasses=True)
class Bridge:
    """One life of a bridge. ``near_id`` and ``far_id`` are how the brokers are called in paths (``ID:name``)."""

    __slots__ = ("_asked", "_hellos", "_open", "_queues", "_sent", "_told", "failure", "far", "far_id",
                 "near", "near_id", "prefetch")  # fmt: skip

    def __init__(
        self,
        near: ClientSession,
        far: ClientSession,
        queues: Sequence[str],
        *,
        near_id: str,
        far_id: str,
        prefetch: int = PREFETCH,
    ) -> None:
        """``queues`` are written ``queue://NAME``, topics among them ``topic://NAME``. The sessions must be new, and
        look at no expiration; their client ids must be unique at their brokers.
        """
        self.near = near
        self.far = far
        self.near_id = near_id
        self.far_id = far_id
        self.prefetch = prefetch
        #: Why it must be ended; "" while it goes on.
        self.failure = ""
        self._queues = list(queues)
        #: The requests that ends were greeted with, until they are answered.
        self._hellos = {NEAR: near.connect(), FAR: far.connect()}
        self._open = False
        #: The near session's: consumers that it wants, and acknowledgements.
        self._asked: dict[str, Listening] = {}
        self._told: dict[str, PassedOn] = {}
        #: The far session's requests that are not answered, oldest first.
        self._sent: dict[str, PassedOn] = {}

    @property
    def is_open(self) -> bool:
        """Whether both brokers have let it in, so that messages may cross."""
        return self._open

    def receive(self, end: str, command: object, now: Now) -> list[Notice]:
        """One command from the broker at that end (``NEAR`` or ``FAR``)."""
        if self.failure:
            return []
        found: list[Notice] = []
        session = self.near if end == NEAR else self.far
        for notice in session.receive(command, now):
            if isinstance(notice, Receipt):
                found += self._answered(end, notice.receipt, None)
            elif isinstance(notice, Failed):
                found += self._answered(end, notice.receipt, notice)
        if end == NEAR and isinstance(command, MessageDispatch) and not self.failure:
            found.append(self._pass_on(command, now))
        return found

    def tick(self, now_ns: int) -> list[Notice]:
        """The sessions' timers may be due."""
        found = [*self.near.tick(now_ns), *self.far.tick(now_ns)]
        for notice in found:
            if isinstance(notice, Closed):
                self.failure = self.failure or notice.reason
        return found

    def next_due_ns(self) -> int | None:
        """When ``tick`` is wanted."""
        due = [due_ns for one in (self.near, self.far) if (due_ns := one.next_due_ns()) is not None]
        return min(due, default=None)

    def lost(self, end: str, reason: str) -> None:
        """The connection to that end is gone."""
        self.failure = self.failure or f"{end}: {reason}"

    def in_doubt(self) -> list[Message]:
        """What was sent to the far broker and not confirmed, oldest first: it may be there or not."""
        return [one.message for one in self._sent.values()]

    def wanted(self) -> list[Listening]:
        """Consumers that were asked for, and may be there or not."""
        return list(self._asked.values())

    # -- inside

    def _answered(self, end: str, receipt: str, refusal: Failed | None) -> list[Notice]:
        """A request of one end's session, granted or not."""
        if self._hellos.get(end) == receipt:
            del self._hellos[end]
            if refusal is not None:
                self.failure = f"{end}: {refusal.text}"
            elif not self._hellos:
                self._begin()
            return []
        if end == NEAR or receipt not in self._sent:
            if refusal is not None:
                self.failure = f"{end}: {refusal.text}"
                return []
            told: Notice | None = self._asked.pop(receipt, None) or self._told.pop(receipt, None)
            return [told] if told is not None else []
        crossing = self._sent.pop(receipt)
        dispatch, message = crossing.dispatch, crossing.message
        if refusal is None or refusal.code == HELD_ALREADY:
            self._acknowledge(crossing)
            return [Confirmed(dispatch, message)]
        return [self._give_up(crossing, refusal.text)]

    def _begin(self) -> None:
        self._open = True
        for number, queue in enumerate(self._queues, 1):
            consumer = f"bridge-{number}"
            receipt = self.near.subscribe(consumer, queue, self.prefetch, ack=INDIVIDUAL_MODE, receipt=True)
            self._asked[receipt] = Listening(consumer, queue)

    def _pass_on(self, dispatch: MessageDispatch, now: Now) -> Notice:
        self.near.take(dispatch.consumer_id, now)
        message = passed_on(dispatch, (*dispatch.path, self.near_id))
        crossing = PassedOn(dispatch, message)
        if self.far_id in dispatch.path:
            return self._give_up(crossing, f"it has passed {self.far_id} before: {', '.join(dispatch.path)}")
        self._send(crossing)
        return crossing

    def _send(self, crossing: PassedOn) -> None:
        self._sent[self.far.pass_on(crossing.message)] = crossing

    def _acknowledge(self, crossing: PassedOn) -> None:
        dispatch = crossing.dispatch
        self.near.acknowledge_one(dispatch.consumer_id, dispatch.message_id, receipt=True)
        self._told[self.near.last_command] = Settled(dispatch, crossing.message)

    def _give_up(self, crossing: PassedOn, text: str) -> GivenUp:
        dispatch = crossing.dispatch
        self.near.poison(dispatch.consumer_id, dispatch.message_id, receipt=True)
        self._told[self.near.last_command] = Settled(dispatch, crossing.message)
        return GivenUp(dispatch, crossing.message, text)
