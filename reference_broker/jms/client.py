"""``MqClient``: a client of a queue manager in the same process, of JMS 2.0's shape, with both façades.

* ``MessageProducer`` raises ``JMSException``, ``JMSProducer`` (whose setters chain) ``JMSRuntimeException``; both carry
  the reason's name and number. Nothing else differs.
* A setter refuses what can be refused then, and changes nothing: a delay below command level 800, a time to live below
  the delay or a delay above the time to live, whichever is set last. ``send`` refuses the rest, and a time to live that
  it is given itself.
* Own uncommitted messages can be received in the same unit of work; delayed ones are not there yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from brokerproof.reference_broker.core.broker import Broker
from brokerproof.reference_broker.core.config import BrokerConfig
from brokerproof.reference_broker.core.effects import Counted, Dispatch, Effect, Journalled, Logged, Refused
from brokerproof.reference_broker.core.events import (
    STANDARD,
    Ack,
    Begin,
    Commit,
    Connect,
    Event,
    GetStaged,
    Mqsc,
    Pull,
    Rollback,
    Send,
    Subscribe,
    Tick,
    Transmitted,
    Unsubscribe,
)
from brokerproof.reference_broker.core.message import QUEUE, TOPIC, Message, Property
from brokerproof.reference_broker.core.mq.checks import TENTH_MS
from brokerproof.reference_broker.core.mq.mqsc import MqscError
from brokerproof.reference_broker.core.mq.reasons import known

if TYPE_CHECKING:
    from collections.abc import Callable

    from brokerproof.reference_broker.core.instant import Now
    from brokerproof.reference_broker.core.mq.staging import Stage, Staged
    from brokerproof.reference_broker.core.policies import Policies
    from brokerproof.reference_broker.core.records import Record

TRANSACTION = "uow"


class JMSException(Exception):
    """A call failed. ``reason`` is the number of ``code`` (MQRC_…); 0 if it is none of IBM MQ's."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.reason = known(code)


class JMSRuntimeException(JMSException):
    """The same, of the simplified façade."""


class QueueManager:
    """A broker of generation ``ibm-mq`` in this process; ``now`` is its clock. ``records`` restores one that died;
    ``journal`` collects its records, a list for each event.
    """

    def __init__(
        self,
        now: Callable[[], Now],
        mqsc: list[str] | None = None,
        *,
        persistent: bool = False,
        records: list[Record] | None = None,
        policies: Callable[[BrokerConfig], Policies] | None = None,
    ) -> None:
        config = BrokerConfig(generation={"delay": "ibm-mq"}, mqsc=mqsc or [], persistent=persistent, name="QM1")
        self.now = now
        self.broker = Broker(config, policies(config) if policies is not None else None)
        self.journal: list[list[Record]] = []
        self.log: list[str] = []
        #: consumer -> what has been dispatched to it and not been received.
        self.inbox: dict[str, list[Message]] = {}
        self._numbers = 0
        if records is not None:
            self._take(self.broker.restore(records, now()))

    @property
    def stage(self) -> Stage:
        """The staging queue and the objects."""
        stage = self.broker.region().stage
        assert stage is not None
        return stage

    def number(self) -> int:
        """A number that nothing else has."""
        self._numbers += 1
        return self._numbers

    def handle(self, event: Event, failure: type[JMSException] = JMSException) -> list[Effect]:
        """Handle one event. Raises ``failure`` if it is refused."""
        effects = self._take(self.broker.handle(event, self.now()))
        for effect in effects:
            if isinstance(effect, Refused):
                raise failure(effect.code, effect.text)
        return effects

    def _take(self, effects: list[Effect]) -> list[Effect]:
        self.journal.append([effect.record for effect in effects if isinstance(effect, Journalled)])
        for effect in effects:
            if isinstance(effect, Logged):
                self.log.append(effect.text)
            elif isinstance(effect, Dispatch):
                self.inbox.setdefault(effect.consumer, []).append(effect.message)
                self._take(self.broker.handle(Transmitted(effect), self.now()))
        return effects

    def mqsc(self, text: str) -> list[str]:
        """Carry out one command; what it shows. Raises ``MqscError``."""
        try:
            effects = self.handle(Mqsc(text, request=self.number()))
        except JMSException as error:
            raise MqscError(str(error)) from None
        count = sum(effect.count for effect in effects if isinstance(effect, Counted))
        return [effect.text for effect in effects if isinstance(effect, Logged)][-count:]

    def tick(self) -> None:
        """Do what is due now."""
        while (due_ns := self.broker.next_due_ns()) is not None and due_ns <= self.now().mono_ns:
            self.handle(Tick())


class Received:
    """A message as its receiver gets it. ``expiry`` is MQMD.Expiry: what is left, in tenths of a second; -1: no end."""

    def __init__(self, message: Message, wall_ms: int) -> None:
        self.message = message
        self.body = message.body
        left_ms = message.expiration_ms - wall_ms
        self.expiry = -1 if message.expiration_ms <= 0 else max(0, -(-left_ms // TENTH_MS))


class MqClient:
    """One connection, with the client id as its user."""

    def __init__(self, manager: QueueManager, user: str) -> None:
        self.manager = manager
        self.user = user
        self.connection = manager.number()
        self._consumers: dict[str, str] = {}
        self._transacted = False
        manager.handle(Connect(self.connection, user))

    def create_producer(self, destination: str) -> MessageProducer:
        """The classic façade; ``destination`` is ``queue://NAME`` or ``topic://NAME``."""
        return MessageProducer(self, destination)

    def create_context_producer(self) -> JMSProducer:
        """The simplified façade."""
        return JMSProducer(self)

    def begin(self) -> None:
        """Start a unit of work; what is sent from now on belongs to it."""
        self.manager.handle(Begin(self.connection, TRANSACTION, request=self.manager.number()))
        self._transacted = True

    def commit(self) -> None:
        """End it with effect. Raises ``JMSException``."""
        self.manager.handle(Commit(self.connection, TRANSACTION, request=self.manager.number()))
        self._transacted = False

    def rollback(self) -> None:
        """End it without effect."""
        self.manager.handle(Rollback(self.connection, TRANSACTION, request=self.manager.number()))
        self._transacted = False

    def subscribe(self, topic: str, durable: str = "") -> str:
        """Subscribe; gives the consumer's name, for ``received``."""
        name = f"{self.user}-{self.manager.number()}"
        event = Subscribe(self.connection, name, topic, 1000, durable=durable, request=self.manager.number())
        self.manager.handle(event)
        return name

    def close_consumer(self, consumer: str) -> None:
        """End a subscription that is not durable."""
        self.manager.handle(Unsubscribe(self.connection, consumer, request=self.manager.number()))

    def received(self, consumer: str) -> list[Message]:
        """What a subscriber has got so far."""
        return self.manager.inbox.get(consumer, [])

    def receive(self, queue: str) -> Received | None:
        """Get the oldest message of a queue, for good; None: there is none. Raises ``JMSException``."""
        manager = self.manager
        if self._transacted:
            own = manager.broker.get_own(self.connection, TRANSACTION, queue)
            if own is not None:
                return Received(own, manager.now().wall_ms)
        name = self._consumers.get(queue)
        if name is None:
            name = f"{self.user}-{manager.number()}"
            manager.handle(Subscribe(self.connection, name, queue, 0, request=manager.number()))
            self._consumers[queue] = name
        manager.handle(Pull(self.connection, name, -1, request=manager.number()))
        got = manager.inbox.pop(name, [])
        if not got:
            return None
        message = got[0].copy_to(got[0].destination)
        manager.handle(Ack(self.connection, name, STANDARD, message.message_id, request=manager.number()))
        return Received(message, manager.now().wall_ms)

    def browse_staged(self) -> list[Staged]:
        """What is on the staging queue. Raises ``JMSException``: administrators only."""
        (code, text), staged = self.manager.stage.browse(self.user)
        if code:
            raise JMSException(code, text)
        return staged

    def get_staged(self, correlation_id: str) -> None:
        """Cancel a delayed message. Raises ``JMSException``: not authorised, or not there."""
        self.manager.handle(GetStaged(self.user, correlation_id, request=self.manager.number()))

    def send(self, message: Message, failure: type[JMSException]) -> str:
        """Send one message; its id."""
        transaction = TRANSACTION if self._transacted else ""
        event = Send(self.connection, message, transaction=transaction, request=self.manager.number())
        self.manager.handle(event, failure)
        return message.message_id


class Producer:
    """A producer as both façades have it; ``check`` says what speaks against a delay and a time to live (code, text).
    It raises ``failure``. Its setters chain, of which callers of ``MessageProducer`` make no use.
    """

    def __init__(self, check: Callable[[int, int], tuple[str, str]], failure: type[JMSException]) -> None:
        self._check = check
        self.failure = failure
        self.delivery_delay_ms = 0
        self.time_to_live_ms = 0

    def set_delivery_delay(self, delay_ms: int) -> Self:
        """Milliseconds, 0 for none."""
        self._agree(delay_ms, self.time_to_live_ms)
        self.delivery_delay_ms = delay_ms
        return self

    def set_time_to_live(self, ttl_ms: int) -> Self:
        """Milliseconds, 0 for ever."""
        self._agree(self.delivery_delay_ms, ttl_ms)
        self.time_to_live_ms = ttl_ms
        return self

    def _agree(self, delay_ms: int, ttl_ms: int) -> None:
        code, text = self._check(delay_ms, ttl_ms)
        if code:
            raise self.failure(code, text)


class _Sender(Producer):
    """One of a client's."""

    def __init__(self, client: MqClient, failure: type[JMSException]) -> None:
        super().__init__(client.manager.stage.setting, failure)
        self._client = client
        self.persistent = True

    def _send(
        self,
        destination: str,
        body: bytes,
        properties: dict[str, Property] | None,
        *,
        ttl_ms: int | None,
        reply_to: str,
        group: str,
    ) -> str:
        manager = self._client.manager
        now_ms = manager.now().wall_ms
        life_ms = self.time_to_live_ms if ttl_ms is None else ttl_ms
        message = Message(
            f"ID:{self._client.user}:{manager.number()}",
            destination,
            body,
            timestamp_ms=now_ms,
            expiration_ms=now_ms + life_ms if life_ms else 0,
            delay_ms=self.delivery_delay_ms,
            persistent=self.persistent,
            properties=properties,
            reply_to=reply_to,
            group_id=group,
        )
        return self._client.send(message, self.failure)


class MessageProducer(_Sender):
    """JMS 1.1's producer of one destination, with JMS 2.0's delay."""

    def __init__(self, client: MqClient, destination: str) -> None:
        super().__init__(client, JMSException)
        if not destination.startswith((QUEUE, TOPIC)):
            raise JMSException("bad-destination", f"{destination!r} is no destination; write {QUEUE}NAME")
        self._destination = destination

    def send(
        self,
        body: bytes,
        properties: dict[str, Property] | None = None,
        *,
        ttl_ms: int | None = None,
        reply_to: str = "",
        group: str = "",
    ) -> str:
        """Send; ``ttl_ms`` None: the producer's. The message's id. Raises ``JMSException``."""
        return self._send(self._destination, body, properties, ttl_ms=ttl_ms, reply_to=reply_to, group=group)


class JMSProducer(_Sender):
    """JMS 2.0's producer: no destination of its own."""

    def __init__(self, client: MqClient) -> None:
        super().__init__(client, JMSRuntimeException)

    def send(
        self,
        destination: str,
        body: bytes,
        properties: dict[str, Property] | None = None,
        *,
        ttl_ms: int | None = None,
        reply_to: str = "",
        group: str = "",
    ) -> str:
        """Send. The message's id. Raises ``JMSRuntimeException``."""
        return self._send(destination, body, properties, ttl_ms=ttl_ms, reply_to=reply_to, group=group)
