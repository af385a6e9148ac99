"""A bridge's host in the simulation: the reference broker's bridge, between two broker hosts.

It runs beside the near broker and has one link that matters, to the far one. It is observed as two clients, one of each
broker, by what passes on its two connections.

Rules
* What a bridge sends is told when it is confirmed, or, if that is not to be expected any more, when the world is at
  rest or the run ends: with the first attempt as its beginning, and ``again`` if it was sent more than once.
* A bridge that ends comes back after ``RETRY_NS``, then after twice as long, and so on up to ``RETRY_MAX_NS``, until
  both brokers have let it in; ``rejoin`` does not wait.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

import msgspec

from brokerproof.conformance.agents.message import LIFE, arrival_of, number_in, read_body
from brokerproof.conformance.experiment import traits
from brokerproof.conformance.experiment.history import (
    Ack,
    Arrive,
    Closed,
    Connect,
    Consume,
    Crash,
    Event,
    Leave,
    Nack,
    Send,
    Subscribe,
)
from brokerproof.conformance.worlds.simulated.agenda import Action, Agenda, Party
from brokerproof.conformance.worlds.simulated.framings import Framings
from brokerproof.conformance.worlds.simulated.link import SOME, Ended, Link, Opened
from brokerproof.reference_broker.core.instant import Now
from brokerproof.reference_broker.openwire.bridge import (
    FAR,
    NEAR,
    Bridge,
    Confirmed,
    GivenUp,
    Listening,
    PassedOn,
    Settled,
)
from brokerproof.reference_broker.openwire.consumer import as_delivered
from brokerproof.reference_broker.openwire.requests import DELIVERY_TIME

if TYPE_CHECKING:
    from collections.abc import Callable

    from brokerproof.conformance.brokers.translation import Names
    from brokerproof.conformance.experiment.configuration import HostSpec
    from brokerproof.conformance.experiment.history import Result
    from brokerproof.conformance.experiment.state import ClientState
    from brokerproof.conformance.mutants import Build
    from brokerproof.conformance.worlds.port import Recorder
    from brokerproof.conformance.worlds.simulated.broker import BrokerHost
    from brokerproof.reference_broker.openwire.client import ClientSession
    from brokerproof.reference_broker.session.notice import Delivered, Notice

RETRY_NS: Final = 1_000_000_000
RETRY_MAX_NS: Final = 3600 * RETRY_NS
#: Between the near broker and the bridge beside it.
NEAR_LATENCY_US: Final = 10
#: Messages of one queue that may be on their way at once.
PREFETCH: Final = 10


class Redial(Action):
    """A bridge may try again, or has tried long enough."""

    __slots__ = ("_bridge", "_life")

    def __init__(self, bridge: BridgeHost) -> None:
        self._bridge = bridge
        self._life = bridge.life

    def happen(self) -> None:
        self._bridge.redial(self._life)

    def party(self) -> Party:
        return self._bridge


class Gone(Action):
    """The broker has seen the end of a connection that a bridge gave up."""

    __slots__ = ("_end", "_since_ns")

    def __init__(self, end: BridgeEnd) -> None:
        self._end = end
        self._since_ns = end.link.agenda.now_ns

    def happen(self) -> None:
        self._end.left(self._since_ns)

    def party(self) -> Party:
        return self._end


class Attempt:
    """A message that was sent to the far broker, once or more often; ``sent`` is as it was first sent."""

    __slots__ = ("begun_ns", "fields", "times")

    def __init__(self, begun_ns: int, fields: dict[str, object]) -> None:
        self.begun_ns = begun_ns
        self.fields = fields
        self.times = 1


class BridgeEnd:
    """One of the two clients that a bridge is."""

    def __init__(self, bridge: BridgeHost, side: str, name: str, link: Link, broker: BrokerHost) -> None:
        self.bridge = bridge
        self.side = side
        self.name = name
        self.link = link
        self.broker = broker
        self.connection = 0
        self.connected = False
        link.client_end = self

    def receive(self, connection: int, item: object) -> None:
        """Something came from the broker."""
        if connection != self.connection:
            return
        if isinstance(item, Ended):
            now_ns = self.link.agenda.now_ns
            self.put(Closed, now_ns, who="broker", reason=item.reason, link=self.name)
            if self.connected:
                self.put(Leave, item.at_ns, result="ok", how="drop")
            self.connection = 0
            self.bridge.end(f"{self.side}: {item.reason}")
        elif item is not SOME:
            self.bridge.heard(self, item)

    def hang_up(self) -> None:
        """Its socket vanishes."""
        if self.connection:
            self.link.to_broker(self.connection, Ended("bridge gone", self.link.agenda.now_ns))
            self.link.agenda.plan(self.link.agenda.now_ns + self.link.latency_ns, Gone(self))
            self.connection = 0

    def left(self, since_ns: int) -> None:
        """The broker must have noticed by now, unless the link holds that back."""
        self.put(Leave, since_ns, result="unknown" if self.link.stalled_up else "ok", how="drop")

    def fail(self, how: str, evidence: str) -> None:
        self.bridge.fail(how, evidence)

    def put(self, kind: type[Event], since_ns: int, **fields: object) -> None:
        """Record something that began then and ends now."""
        self.bridge.recorder.put(kind, since_ns, self.link.agenda.now_ns, self.name, **fields)


class BridgeHost:
    """See the module's header."""

    def __init__(
        self,
        agenda: Agenda,
        recorder: Recorder,
        spec: HostSpec,
        state: ClientState,
        *,
        near: BrokerHost,
        far: BrokerHost,
        parts: Build,
        names: Names,
        queues: list[str],
        number: Callable[[], int],
    ) -> None:
        """``state`` is that of the far end; ``queues`` are those to be carried, by the suite's names; ``number`` gives
        the numbers of new connections.
        """
        self.agenda = agenda
        self.recorder = recorder
        self.name = spec.name
        near_link = Link(agenda, near, spec.name, NEAR_LATENCY_US)
        far_link = Link(agenda, far, state.name, state.link.latency_us, state.link.bytes_per_second)
        self.near = BridgeEnd(self, NEAR, spec.name, near_link, near)
        self.far = BridgeEnd(self, FAR, state.name, far_link, far)
        self.encoded = state.link.encoded
        self._parts = parts
        self._names = names
        self._queues = queues
        self._number = number
        #: How many times it was begun; 0: not yet.
        self.life = 0
        self.bridge: Bridge | None = None
        self._begun_ns = self._open_ns = 0
        self._pause_ns = RETRY_NS
        #: Consumers of the near session -> their names in the history.
        self._consumers: dict[str, str] = {}
        self._numbers = 0
        #: What was sent and not confirmed: (queue, message) -> attempts; acknowledgements that are under way.
        self._attempts: dict[tuple[str, str], Attempt] = {}
        self._telling: dict[str, tuple[int, type[Ack | Nack]]] = {}

    # -- connections

    def _dial(self, connections: tuple[int, int]) -> None:
        """Begin, over two new sockets."""
        self.life += 1
        self._consumers.clear()
        self._begun_ns = self.agenda.now_ns
        sessions: list[ClientSession] = []
        for end, connection in zip((self.near, self.far), connections, strict=True):
            end.connection = connection
            end.link.clear()
            monitor = self._parts.client_monitor("documented", f"tcp://broker:{connection}", self.agenda.now_ns)
            name = f"{end.name}-{connection}"
            settings: dict[str, Any] = {"max_inactivity_ms": 0, "initial_delay_ms": 0, "connection_id": f"ID:{name}"}
            sessions.append(self._parts.jms_client(name, monitor, consumer_expiry_check=False, **settings))
        ids = {"near_id": f"ID:{self.near.broker.name}", "far_id": f"ID:{self.far.broker.name}"}
        queues = [self._names.physical(queue) for queue in self._queues]
        self.bridge = self._parts.bridge(sessions[0], sessions[1], queues, prefetch=PREFETCH, **ids)
        for end in (self.near, self.far):
            self._encode(end)
            end.link.to_broker(end.connection, Opened("openwire"))
        self._flush()
        self._await()

    def _encode(self, end: BridgeEnd) -> None:
        if self.encoded:
            end.link.framings[end.connection] = Framings("openwire", f"ID:{end.name}-{end.connection}")

    def _await(self) -> None:
        """Look again in a while whether it is open."""
        self.agenda.plan(self.agenda.now_ns + self._pause_ns, Redial(self))
        self._pause_ns = min(2 * self._pause_ns, RETRY_MAX_NS)

    def redial(self, life: int) -> None:
        """Try again, unless it is open, or another attempt was made since."""
        if life == self.life and not self.is_open:
            self.end("not let in")
            self.begin()

    def begin(self) -> None:
        """Open two sockets."""
        self._dial((self._number(), self._number()))

    @property
    def is_open(self) -> bool:
        """Whether messages may cross."""
        return self.bridge is not None and self.bridge.is_open

    def rejoin(self) -> None:
        """Do not wait."""
        if not self.is_open:
            self.end("not let in")
            self._pause_ns = RETRY_NS
            self.begin()

    def cut(self) -> int:
        """Both sockets vanish; how many messages were in doubt."""
        doubtful = len(self.bridge.in_doubt()) if self.bridge is not None else 0
        self.end("cut")
        return doubtful

    def end(self, reason: str) -> None:
        """This life is over: what was not confirmed is in doubt."""
        bridge, self.bridge = self.bridge, None
        if bridge is None:
            return
        bridge.lost(FAR, reason)
        for message, (since_ns, kind) in self._telling.items():
            consumer, name = message.split(" ", 1)
            self.near.put(kind, since_ns, result="unknown", consumer=consumer, messages=[name], **_mode(kind))
        self._telling.clear()
        for notice in bridge.wanted():
            self._subscribed(notice, "unknown")
        for end in (self.near, self.far):
            if not end.connected and end.connection:
                end.put(Connect, self._begun_ns, result="unknown", via="jms", traits=_TRAITS)
            end.hang_up()
            end.connected = False
        self.agenda.plan(self.agenda.now_ns + self._pause_ns, Redial(self))

    def fail(self, how: str, evidence: str) -> None:
        """Its process ends over what it was sent."""
        now_ns = self.agenda.now_ns
        self.recorder.put(Crash, now_ns, now_ns, self.name, target=self.name, how=how, evidence=evidence)
        self.end("crashed")

    # -- what the links bring

    def now(self) -> Now:
        """It has the clock of the near broker's machine."""
        return self.near.broker.now()

    def heard(self, end: BridgeEnd, item: object) -> None:
        """A command from one of the brokers."""
        bridge = self.bridge
        if bridge is None:
            return
        before = bridge.is_open
        (bridge.near if end.side == NEAR else bridge.far).bytes_received(self.agenda.now_ns)
        notices = bridge.receive(end.side, item, self.now())
        if bridge.is_open and not before:
            self._pause_ns = RETRY_NS
            self._open_ns = self.agenda.now_ns  # only now it asks for its consumers
            for one in (self.near, self.far):
                one.connected = True
                one.put(Connect, self._begun_ns, result="ok", via="jms", traits=_TRAITS)
        for notice in notices:
            self._heed(notice)
        self._flush()
        if bridge.failure:
            self.end(bridge.failure)

    def _flush(self) -> None:
        bridge, now_ns = self.bridge, self.agenda.now_ns
        if bridge is None:
            return
        for end, session in ((self.near, bridge.near), (self.far, bridge.far)):
            while (frame := session.next_output(now_ns)) is not None:
                end.link.to_broker(end.connection, frame)

    def _heed(self, notice: Notice) -> None:
        now_ns = self.agenda.now_ns
        if isinstance(notice, Listening):
            self._subscribed(notice, "ok")
        elif isinstance(notice, Settled):
            consumer, message = self._where(notice)
            since_ns, kind = self._telling.pop(f"{consumer} {message}", (now_ns, Ack))
            self.near.put(kind, since_ns, result="ok", consumer=consumer, messages=[message], **_mode(kind))
        elif isinstance(notice, Confirmed | GivenUp):
            self._answered(notice)
            consumer, message = self._where(notice)
            self._telling[f"{consumer} {message}"] = now_ns, Nack if isinstance(notice, GivenUp) else Ack
        elif isinstance(notice, PassedOn):
            self._passed_on(notice)

    def _subscribed(self, notice: Listening, result: Result) -> None:
        """A consumer is there, or may be."""
        name = self._named(notice.consumer)
        options = {"dest": self._names.logical(notice.queue), "prefetch": PREFETCH, "ack": "individual"}
        self.near.put(Subscribe, self._open_ns, result=result, consumer=name, dispatch="async", **options)

    def _named(self, consumer: str) -> str:
        """What the history calls a consumer of the near session; messages may come before it is known to be there."""
        found = self._consumers.get(consumer)
        if found is None:
            self._numbers += 1
            found = self._consumers[consumer] = f"{self.name}/{self._numbers}"
        return found

    def _where(self, notice: PassedOn) -> tuple[str, str]:
        """The consumer's name in the history, and the message's."""
        dispatch = notice.dispatch
        return self._named(dispatch.consumer_id), read_body(dispatch.body)

    def _passed_on(self, notice: PassedOn) -> None:
        consumer, message = self._where(notice)
        delivered = as_delivered(notice.dispatch, notice.dispatch.message_id)
        told = arrival_of(delivered)
        del told["reply_to"]
        dest = told["dest"] = self._names.logical(delivered.destination)
        told["original_dest"] = self._names.logical(delivered.original_destination) or None
        told["message_kind"] = told.pop("kind")
        now_ns = self.agenda.now_ns
        self.near.put(Arrive, now_ns, consumer=consumer, message=message, **told)
        self.near.put(Consume, now_ns, consumer=consumer, message=message)
        attempt = self._attempts.get((dest, message))
        if attempt is None:
            self._attempts[dest, message] = Attempt(now_ns, _sent(notice, delivered, told))
        else:
            attempt.times += 1

    def _answered(self, notice: PassedOn) -> None:
        """The far broker has said what becomes of a message."""
        dest, message = self._names.logical(notice.dispatch.destination), self._where(notice)[1]
        attempt = self._attempts.pop((dest, message), None)
        if attempt is not None:
            refusal = notice.text if isinstance(notice, GivenUp) else None
            self._tell(attempt, dest, message, result="ok" if refusal is None else "fail", refusal=refusal)

    def _tell(self, attempt: Attempt, dest: str, message: str, **fields: object) -> None:
        fields |= attempt.fields
        self.far.put(Send, attempt.begun_ns, dest=dest, message=message, again=attempt.times > 1, **fields)

    def is_at_rest(self) -> bool:
        """Whether no cut is in force and nothing waits for a confirmation. What an earlier life left in doubt, and the
        near broker has not given again by now, is told.
        """
        if self.bridge is None or not self.bridge.is_open or self.bridge.in_doubt():
            return False
        self.tell_doubts()
        return True

    def tell_doubts(self) -> None:
        """What was never confirmed may be there or not."""
        for (dest, message), attempt in self._attempts.items():
            self._tell(attempt, dest, message, result="unknown")
        self._attempts.clear()


#: A bridge looks at no expiration.
_TRAITS: Final = msgspec.structs.replace(traits.JMS, checks_expiry=False)


def _mode(kind: type[Ack | Nack]) -> dict[str, object]:
    return {"mode": "individual"} if kind is Ack else {}


def _sent(notice: PassedOn, delivered: Delivered, told: dict[str, object]) -> dict[str, object]:
    """What a history tells of a message as the bridge sends it."""
    message = notice.message
    return {
        "expiration_ms": message.expiration_ms,
        "timestamp_ms": message.timestamp_ms,
        "persistent": message.persistent,
        "priority": message.priority,
        "size": len(message.body),
        "message_kind": told["message_kind"] or "",
        "group": message.group_id,
        "life_ms": number_in(delivered.properties, LIFE) or 0,
        "body": crc32(message.body),
        "network": True,
        "delivery_time_ms": number_in(delivered.properties, DELIVERY_TIME),
        "headers": told["headers"] or {},
    }
