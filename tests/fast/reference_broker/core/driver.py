"""Drives one broker core by hand in the tests of this folder: short words for events, two clocks, an outbox per
broker, and the audit after every event.
"""

from __future__ import annotations

from brokerproof.reference_broker.core.broker import Broker
from brokerproof.reference_broker.core.config import BrokerConfig
from brokerproof.reference_broker.core.effects import Accepted, Dispatch, Effect, Journalled, Logged, Refused
from brokerproof.reference_broker.core.events import (
    STANDARD,
    Ack,
    Begin,
    Commit,
    Connect,
    Disconnect,
    Event,
    Purge,
    Rollback,
    Send,
    Subscribe,
    Tick,
    Transmitted,
    Unsubscribe,
)
from brokerproof.reference_broker.core.instant import NS_PER_MS, Now
from brokerproof.reference_broker.core.message import DEAD_LETTER_QUEUE, DEFAULT_PRIORITY, Message, Property
from brokerproof.reference_broker.core.policies import Policies
from brokerproof.reference_broker.core.recovery import Recovered

START_MS = 1_700_000_000_000
START_NS = 5_000_000_000
Q = "queue://q"
T = "topic://t"
DLQ = DEAD_LETTER_QUEUE


class Driver:
    """A broker, its clocks, and what it did. Connection 1 sends; each consumer has a connection of its own unless
    told otherwise.
    """

    def __init__(self, config: BrokerConfig | None = None, policies: Policies | None = None) -> None:
        config = config if config is not None else BrokerConfig()
        self.persistent = config.persistent
        #: Long runs are checked at their end only.
        self.checks_invariants = True
        self.broker = Broker(config, policies)
        self.mono_ns = START_NS
        self.wall_ms = START_MS
        #: What the journal of a persistent broker would give back.
        self.journal = Recovered()
        self.outbox: list[Dispatch] = []
        #: Synchronous dispatches are not written at once either.
        self.stalled = False
        self.dispatches: list[Dispatch] = []
        self.effects: list[Effect] = []
        self.messages = 0
        self.requests = 0
        self.connections: dict[str, int] = {}
        self.connect(1)

    # -- events

    def handle(self, event: Event) -> list[Effect]:
        """Handle an event, and what it makes the transport write at once: synchronous dispatches."""
        effects: list[Effect] = []
        events = [event]
        for one in events:
            caused = self.broker.handle(one, Now(self.mono_ns, self.wall_ms))
            for effect in caused:
                if isinstance(effect, Journalled):
                    self.journal.feed(effect.record)
            if self.checks_invariants:
                self.broker.check(self.journal if self.persistent else None)
            effects += caused
            for effect in caused:
                if isinstance(effect, Dispatch):
                    self.dispatches.append(effect)
                    if effect.asynchronous or self.stalled:
                        self.outbox.append(effect)
                    else:
                        events.append(Transmitted(effect))
        self.effects += effects
        return effects

    def connect(self, connection: int) -> None:
        self.handle(Connect(connection, f"client-{connection}"))

    def ask(self, event: Event) -> str:
        """Handle a request and give "" if it was accepted, else the code of its refusal."""
        answers = [e for e in self.handle(event) if isinstance(e, Accepted | Refused)]
        assert len(answers) == 1
        assert answers[0].request == self.requests
        return answers[0].code if isinstance(answers[0], Refused) else ""

    def request(self) -> int:
        self.requests += 1
        return self.requests

    def send(
        self,
        destination: str = Q,
        message_id: str = "",
        *,
        ttl_ms: int = 0,
        expiration_ms: int = 0,
        timestamp_ms: int = START_MS,
        delay_ms: int = 0,
        deliver_at_ms: int = 0,
        persistent: bool = True,
        size: int = 0,
        network: bool = False,
        properties: dict[str, Property] | None = None,
        connection: int = 1,
        transaction: str = "",
        priority: int = DEFAULT_PRIORITY,
        group: str = "",
        sequence: int = 0,
    ) -> Message:
        self.messages += 1
        message = Message(
            message_id or f"m{self.messages}",
            destination,
            b"x" * size,
            timestamp_ms=timestamp_ms,
            expiration_ms=expiration_ms or (self.wall_ms + ttl_ms if ttl_ms else 0),
            delay_ms=delay_ms,
            deliver_at_ms=deliver_at_ms,
            persistent=persistent,
            properties=properties,
            priority=priority,
            group_id=group,
            group_sequence=sequence,
        )
        assert (
            self.ask(Send(connection, message, network=network, transaction=transaction, request=self.request())) == ""
        )
        return message

    def subscribe(
        self,
        consumer: str = "c",
        destination: str = Q,
        prefetch: int = 10,
        *,
        connection: int = 0,
        sync: bool = False,
        auto: bool = False,
        selector: str = "",
        no_local: bool = False,
        exclusive: bool = False,
        priority: int = 0,
        browser: bool = False,
        durable: str = "",
    ) -> None:
        if not connection:
            connection = len(self.connections) + 100
            self.connect(connection)
        self.connections[consumer] = connection
        event = Subscribe(
            connection,
            consumer,
            destination,
            prefetch,
            dispatch_async=not sync,
            auto_ack=auto,
            selector=selector,
            no_local=no_local,
            exclusive=exclusive,
            priority=priority,
            browser=browser,
            durable=durable,
            request=self.request(),
        )
        assert self.ask(event) == ""

    def ack(self, last: str, consumer: str = "c", kind: int = STANDARD, first: str = "", transaction: str = "") -> str:
        connection = self.connections[consumer]
        return self.ask(
            Ack(connection, consumer, kind, last, first=first, transaction=transaction, request=self.request())
        )

    def begin(self, name: str = "t", connection: int = 1) -> str:
        return self.ask(Begin(connection, name, request=self.request()))

    def commit(self, name: str = "t", connection: int = 1) -> str:
        return self.ask(Commit(connection, name, request=self.request()))

    def rollback(self, name: str = "t", connection: int = 1) -> str:
        return self.ask(Rollback(connection, name, request=self.request()))

    def leave(self, consumer: str = "c", last_delivered: int = -2) -> None:
        event = Unsubscribe(self.connections[consumer], consumer, last_delivered=last_delivered, request=self.request())
        assert self.ask(event) == ""

    def drop(self, consumer: str = "c") -> None:
        """The consumer's connection is lost."""
        self.handle(Disconnect(self.connections[consumer]))

    def transmit(self, count: int = -1, *, failed: bool = False) -> None:
        """The transport writes what stands in the outbox, all of it or ``count`` messages."""
        while self.outbox and count != 0:
            self.handle(Transmitted(self.outbox.pop(0), failed))
            count -= 1

    def purge(self, destination: str = Q) -> None:
        self.handle(Purge(destination))

    # -- time

    def step_wall(self, delta_ms: int) -> None:
        """The wall clock jumps; no time passes."""
        self.wall_ms += delta_ms

    def advance(self, delta_ms: int) -> None:
        """Time passes on both clocks; the broker gets every tick that it asks for, at the time that it asks for."""
        end_ns = self.mono_ns + delta_ms * NS_PER_MS
        while True:
            due_ns = self.broker.next_due_ns()
            if due_ns is None or due_ns > end_ns:
                break
            self._move(max(due_ns, self.mono_ns))
            self.handle(Tick())
        self._move(end_ns)

    def _move(self, mono_ns: int) -> None:
        before_ms = (self.mono_ns - START_NS) // NS_PER_MS
        self.mono_ns = mono_ns
        self.wall_ms += (mono_ns - START_NS) // NS_PER_MS - before_ms

    # -- what can be seen

    def got(self, consumer: str = "c") -> list[str]:
        """Ids dispatched to the consumer so far, in order."""
        return [d.message.message_id for d in self.dispatches if d.consumer == consumer]

    def counter(self, name: str, destination: str = Q) -> int:
        found = self.broker.counters(destination, Now(self.mono_ns, self.wall_ms))
        return 0 if found is None else found[name]

    def counters(self, *names: str, destination: str = Q) -> tuple[int, ...]:
        return tuple(self.counter(name, destination) for name in names)

    def logged(self, text: str) -> int:
        return sum(1 for e in self.effects if isinstance(e, Logged) and text in e.text)

    def dead_letters(self) -> list[Message]:
        """What a consumer of the dead-letter queue gets; it leaves again and puts nothing on record."""
        self.subscribe("dlq", DLQ, 1000)
        self.leave("dlq", -1)
        dead_letters = [d.message for d in self.dispatches if d.consumer == "dlq"]
        self.outbox = [d for d in self.outbox if d.consumer != "dlq"]
        return dead_letters


def config_of(**settings: object) -> BrokerConfig:
    """A ``BrokerConfig``; spares the tests the keyword names that a type checker cannot follow through tables."""
    return BrokerConfig(**settings)  # type: ignore[arg-type]
