"""The two client libraries as hosts: STOMP, whose consumers never look at an expiration, and JMS, whose consumers
discard what their own clock calls expired.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from brokerproof.conformance.agents.protocol import LAST_MS, OWN_TEMPORARY, number_in, properties_of, stomp_stamps
from brokerproof.conformance.brokers.translation import logical
from brokerproof.conformance.experiment.configuration import stomp_beat_ms
from brokerproof.conformance.experiment.history import Ack
from brokerproof.conformance.experiment.policies import UNASKED
from brokerproof.conformance.experiment.steps.protocol import ACK_TYPES, ends_of, settled_by
from brokerproof.conformance.worlds.simulated.host import ClientHost, Stamps, body_of, suite_id
from brokerproof.reference_broker.openwire.requests import DELIVERY_TIME
from brokerproof.reference_broker.session.notice import Delivered, Discarded, Notice
from brokerproof.reference_broker.stomp.client import ClientSession as StompSession

if TYPE_CHECKING:
    from brokerproof.conformance.experiment.state import ConsumerState
    from brokerproof.conformance.experiment.steps.consume import Subscribe
    from brokerproof.conformance.experiment.steps.protocol import Acknowledge
    from brokerproof.conformance.experiment.steps.send import Send
    from brokerproof.reference_broker.session.session import Client

STOMP_ACKS = {"auto": "auto", "client": "client", "individual": "client-individual"}


class StompHost(ClientHost):
    """A STOMP 1.2 client."""

    protocol = "stomp"

    def make_session(self) -> Client:
        generation = self.world.program.monitor_generation()
        now_ns = self.world.agenda.now_ns
        monitor = self.world.parts.client_monitor(generation, f"tcp://broker:{self.connection}", now_ns)
        session = StompSession(monitor, generation)
        wanted = self.state.link.monitor
        beat_ms = stomp_beat_ms(wanted, generation) if wanted is not None else 0
        session.connect(heart_beat_ms=(beat_ms, beat_ms), client_id=self.client_id())
        self.stomp = session
        self.inboxes: dict[str, deque[tuple[Delivered, str]]] = {}
        self.taken: dict[str, Delivered] = {}
        return session

    def library(self) -> Client:
        return self.stomp

    def feed(self, frame: object) -> list[Notice]:
        return self.stomp.receive(frame, self.world.agenda.now_ns)

    def keep(self, notice: Delivered, message: str) -> None:
        inbox = self.inboxes.get(notice.consumer)
        if inbox is not None:
            inbox.append((notice, message))

    def let_go(self, notice: Delivered) -> None:
        """Nothing is kept."""

    def ask(self, consumer: ConsumerState, deadline_ms: int) -> None:
        """STOMP knows no pull."""

    def suite_id_of(self, message_id: str) -> str:
        raise AssertionError(f"a STOMP client discards nothing, but it discarded {message_id}")

    def forget_consumers(self) -> None:
        self.inboxes = {}
        self.taken = {}

    def send(self, destination: str, message: str, step: Send) -> tuple[str, Stamps]:
        wall_ms = self.now().wall_ms
        expiration_ms, timestamp_ms = stomp_stamps(wall_ms, step.ttl_ms, step.stamp, endless=step.endless)
        body = body_of(message, step.size)
        receipt = self.stomp.send(
            destination,
            body,
            expiration_ms=expiration_ms,
            timestamp_ms=timestamp_ms,
            persistent=step.persistent,
            priority=step.priority,
            delay_ms=step.delay_ms,
            transaction=self.state.transaction,
            group=step.group,
            reply_to=OWN_TEMPORARY if step.reply else "",
            properties=properties_of(step.kind, step.life_ms, step.forged),
            receipt=True,
        )
        self.flush()
        return receipt, Stamps(expiration_ms, timestamp_ms, body)

    def subscribe(self, consumer: str, destination: str, step: Subscribe) -> str:
        if step.browser:
            self.browsing[consumer] = logical(destination)
        else:
            self.inboxes[consumer] = deque()
        receipt = self.stomp.subscribe(
            consumer,
            destination,
            ack=STOMP_ACKS[step.ack],
            prefetch=None if step.prefetch == UNASKED else step.prefetch,
            dispatch_async=step.dispatch == "async",
            selector=step.selector,
            durable=step.durable,
            no_local=step.no_local,
            exclusive=step.exclusive,
            priority=step.priority,
            browser=step.browser,
            receipt=True,
        )
        self.flush()
        return receipt

    def unsubscribe(self, consumer: str) -> None:
        self.inboxes.pop(consumer, None)
        self.stomp.unsubscribe(consumer)
        self.flush()

    def take(self, consumer: ConsumerState) -> str | None:
        inbox = self.inboxes.get(consumer.name)
        if not inbox:
            return None
        notice, message = inbox.popleft()
        if consumer.ack != "auto":
            self.taken[_key(consumer, message)] = notice
        return message

    def ack(self, consumer: ConsumerState, upto: int) -> tuple[str, list[str]]:
        unsettled = consumer.unsettled
        covered = unsettled[: upto + 1] if consumer.ack == "client" else [unsettled[upto]]
        transaction = self.state.transaction
        receipt = self.stomp.ack(self.taken[_key(consumer, covered[-1])], transaction=transaction, receipt=True)
        if transaction:
            self.flush()  # a rollback makes them acknowledgeable again
        else:
            self._settled(consumer, covered)
        return receipt, covered

    def nack(self, consumer: ConsumerState, message: str) -> str:
        receipt = self.stomp.nack(self.taken[_key(consumer, message)], receipt=True)
        self._settled(consumer, [message])
        return receipt

    def _settled(self, consumer: ConsumerState, messages: list[str]) -> None:
        for message in messages:
            self.taken.pop(_key(consumer, message), None)
        self.flush()


class JmsHost(ClientHost):
    """A JMS client over OpenWire's commands."""

    protocol = "openwire"

    def make_session(self) -> Client:
        generation = self.world.program.monitor_generation()
        monitor = self.world.parts.client_monitor(
            generation, f"tcp://broker:{self.connection}", self.world.agenda.now_ns
        )
        wanted = self.state.link.monitor
        session = self.world.parts.jms_client(
            self.client_id(),
            monitor,
            max_inactivity_ms=wanted.read_ms if wanted is not None else 0,
            initial_delay_ms=wanted.initial_delay_ms if wanted is not None else 0,
            consumer_expiry_check=self.state.spec.expiry_check,
            connection_id=f"ID:{self.state.name}-{self.named_after}",
        )
        session.fault_tolerant = True
        session.connect()
        self.jms = session
        #: Broker message id -> suite id, and per consumer suite id -> ack id of what was taken.
        self.names: dict[str, str] = {}
        self.taken: dict[str, str] = {}
        #: Consumers without a prefetch.
        self.pulling: dict[str, bool] = {}
        return session

    def named(self, destination: str) -> str:
        """A destination by the name that the broker knows."""
        return self.jms.own_queue() if destination == OWN_TEMPORARY else destination

    def library(self) -> Client:
        return self.jms

    def feed(self, frame: object) -> list[Notice]:
        return self.jms.receive(frame, self.now())

    def keep(self, notice: Delivered, message: str) -> None:
        self.names[notice.message_id] = message
        self.asking.pop(notice.consumer, None)

    def let_go(self, notice: Delivered) -> None:
        self.jms.take(notice.consumer, self.now())

    def ask(self, consumer: ConsumerState, deadline_ms: int) -> None:
        name = consumer.name
        if name in self.pulling and name not in self.asking and not self.jms.waiting(name):
            self.asking[name] = True
            self.jms.pull(name, deadline_ms or -1, self.now())
            self.flush()

    def pulls(self, consumer: ConsumerState) -> bool:
        return consumer.name in self.pulling

    def record_discard(self, notice: Discarded) -> None:
        super().record_discard(notice)
        if notice.consumer in self.pulling:
            self.asking[notice.consumer] = True  # the library asks again by itself

    def suite_id_of(self, message_id: str) -> str:
        return self.names[message_id]

    def forget_consumers(self) -> None:
        self.taken = {}

    def send(self, destination: str, message: str, step: Send) -> tuple[str, Stamps]:
        body = body_of(message, step.size)
        properties = dict(properties_of(step.kind, step.life_ms) or {})
        if step.preset_in_ms:
            properties[DELIVERY_TIME] = self.now().wall_ms + step.preset_in_ms
        sent = self.jms.send(
            self.named(destination),
            body,
            self.now(),
            ttl_ms=LAST_MS - self.now().wall_ms if step.endless else step.ttl_ms,
            persistent=step.persistent,
            priority=step.priority,
            delay_ms=step.delay_ms,
            deliver_at_ms=self.now().wall_ms + step.deliver_in_ms if step.deliver_in_ms else 0,
            disable_timestamp=step.stamp == "zero",
            transaction=self.state.transaction,
            group=step.group,
            properties=properties or None,
            network=step.network,
            reply_to=self.jms.own_queue() if step.reply else "",
            numbered=step.again,
            receipt=True,
        )
        if step.again:
            # The broker changes what it has got.
            self.sent_last = (sent.copy_to(sent.destination), self.jms)
        stamps = Stamps(sent.expiration_ms, sent.timestamp_ms, body, number_in(sent.properties, DELIVERY_TIME))
        receipt = self.jms.last_command
        self.flush()
        return receipt, stamps

    def repeat(self) -> str:
        return self._asked(self.jms.repeat(*self.sent_last))

    def subscribe(self, consumer: str, destination: str, step: Subscribe) -> str:
        if step.browser:
            self.browsing[consumer] = logical(destination)
        if step.prefetch == 0:
            self.pulling[consumer] = True
        receipt = self.jms.subscribe(
            consumer,
            self.named(destination),
            prefetch=None if step.prefetch == UNASKED else step.prefetch,
            dispatch_async=step.dispatch == "async",
            ack=step.ack,
            selector=step.selector,
            durable=step.durable,
            no_local=step.no_local,
            exclusive=step.exclusive,
            priority=step.priority,
            browser=step.browser,
            receipt=True,
        )
        self.flush()
        return receipt

    def unsubscribe(self, consumer: str) -> None:
        self.jms.close_consumer(consumer)
        self.flush()

    def take(self, consumer: ConsumerState) -> str | None:
        delivered, notices = self.jms.take(consumer.name, self.now())
        for notice in notices:
            if isinstance(notice, Discarded):
                self.record_discard(notice)
        self.flush()
        if delivered is None:
            return None
        message = suite_id(delivered.body)
        if consumer.ack == "auto":
            self._record_auto_ack(consumer, message)
        else:
            self.taken[_key(consumer, message)] = delivered.ack_id
        return message

    def _record_auto_ack(self, consumer: ConsumerState, message: str) -> None:
        """The library acknowledges without waiting: whether and when the broker hears of it is not known here."""
        now_ns = self.world.agenda.now_ns
        recorder = self.world.recorder
        recorder.record(
            Ack(recorder.next_seq(), now_ns, now_ns, self.state.name, "unknown", consumer.name, [message], "auto")
        )

    def ack(self, consumer: ConsumerState, upto: int) -> tuple[str, list[str]]:
        transaction = self.state.transaction
        if consumer.ack == "client":
            # JMS: Message.acknowledge() settles everything that the session has delivered, whichever message it is
            # called on.
            covered = list(consumer.unsettled)
            self.jms.acknowledge(consumer.name, transaction=transaction, receipt=True)
        else:
            covered = [consumer.unsettled[upto]]
            ack_id = self.taken[_key(consumer, covered[0])]
            self.jms.acknowledge_one(consumer.name, ack_id, transaction=transaction, receipt=True)
        return self._settled(consumer, covered), covered

    def nack(self, consumer: ConsumerState, message: str) -> str:
        self.jms.poison(consumer.name, self.taken[_key(consumer, message)], receipt=True)
        return self._settled(consumer, [message])

    def acknowledge(self, consumer: ConsumerState, step: Acknowledge) -> tuple[str, list[str]]:
        covered = consumer.unsettled[step.first : step.upto + 1]
        ids = [self.taken[_key(consumer, message)] for message in covered]
        settled = settled_by(step.type, covered, wrong_end=step.wrong_end)
        first, last = ends_of(ids, open_start=step.open_start, wrong_end=step.wrong_end)
        kind = ACK_TYPES.index(step.type)
        self.jms.acknowledge_as(consumer.name, kind, first, last, ids[: len(settled)], count=len(ids), receipt=True)
        return self._settled(consumer, settled), covered

    def _settled(self, consumer: ConsumerState, messages: list[str]) -> str:
        receipt = self.jms.last_command
        for message in messages:
            self.taken.pop(_key(consumer, message), None)
        self.flush()
        return receipt


def _key(consumer: ConsumerState, message: str) -> str:
    return f"{consumer.name} {message}"
