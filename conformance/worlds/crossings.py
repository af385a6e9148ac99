"""What a bridge is seen to do, as a history tells it: as two clients, one of each broker.

Rules
* What a bridge sends is told when it is confirmed, or, if that is not to be expected any more, when the world is at
  rest or the run ends: with the first attempt as its beginning, and ``again`` if it was sent more than once.
* Messages may come to a consumer before it is known to be there.
* Names of destinations and messages are the suite's, times are the run's, in true nanoseconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

import msgspec

from brokerproof.conformance.agents.message import arrival_of, number_in
from brokerproof.conformance.experiment import traits
from brokerproof.conformance.experiment.history import Ack, Arrive, Connect, Consume, Nack, Send, Subscribe
from brokerproof.conformance.experiment.wire_names import LIFE
from brokerproof.reference_broker.openwire.commands import as_dispatch
from brokerproof.reference_broker.openwire.consumer import as_delivered
from brokerproof.reference_broker.openwire.requests import DELIVERY_TIME

if TYPE_CHECKING:
    from brokerproof.conformance.experiment.history import Result
    from brokerproof.conformance.worlds.port import Recorder
    from brokerproof.reference_broker.core.message import Message
    from brokerproof.reference_broker.openwire.bridge import PassedOn
    from brokerproof.reference_broker.openwire.commands import MessageDispatch

RETRY_NS: Final = 1_000_000_000
RETRY_MAX_NS: Final = 3600 * RETRY_NS
#: Messages of one queue that may be on their way at once.
PREFETCH: Final = 10
#: A bridge looks at no expiration.
TRAITS: Final = msgspec.structs.replace(traits.JMS, checks_expiry=False)


class Attempt:
    """A message that was sent to the far broker, once or more often; ``sent`` is as it was first sent."""

    def __init__(self, begun_ns: int, fields: dict[str, Any]) -> None:
        self.begun_ns = begun_ns
        self.fields = fields
        self.times = 1


class Crossings:
    """The lives of one bridge; ``near`` and ``far`` are what its two ends are called."""

    def __init__(self, recorder: Recorder, near: str, far: str) -> None:
        self.near = near
        self.far = far
        self._recorder = recorder
        self._begun_ns = self._open_ns = 0
        #: Consumers of the near session -> their names in the history.
        self._consumers: dict[str, str] = {}
        self._numbers = 0
        #: What was sent and not confirmed: (queue, message) -> attempts; acknowledgements that are under way.
        self._attempts: dict[tuple[str, str], Attempt] = {}
        self._telling: dict[tuple[str, str], tuple[int, type[Ack | Nack]]] = {}
        #: Messages that this life has sent and that are not answered.
        self._under_way: dict[tuple[str, str], None] = {}
        #: The ends of which it is told already how this life's connection came about.
        self.joined: set[str] = set()

    def begun(self, now_ns: int) -> None:
        """A new life: two sockets are being opened."""
        self._consumers.clear()
        self.joined.clear()
        self._begun_ns = now_ns

    def opened(self, now_ns: int) -> None:
        """Both brokers have let it in; only now it asks for its consumers."""
        self._open_ns = now_ns
        for name in (self.near, self.far):
            self.connected(name, "ok", now_ns)

    def connected(self, name: str, result: Result, now_ns: int) -> None:
        """One end has a connection, or may have one; the first that is told of it counts."""
        if name not in self.joined:
            self.joined.add(name)
            self._recorder.put(Connect, self._begun_ns, now_ns, name, result=result, via="jms", traits=TRAITS)

    def subscribed(self, consumer: str, dest: str, result: Result, now_ns: int, since_ns: int | None = None) -> None:
        """A consumer is there, or may be; not before ``since_ns``, or else the end of the greetings."""
        options = {"consumer": self._named(consumer), "dest": dest, "prefetch": PREFETCH, "ack": "individual"}
        since_ns = self._open_ns if since_ns is None else since_ns
        if result == "ok":
            self.connected(self.near, "ok", now_ns)  # ActiveMQ's connector asks before the far broker has let it in
        self._recorder.put(Subscribe, since_ns, now_ns, self.near, result=result, dispatch="async", **options)

    def passed_on(
        self, consumer: str, message: str, told: dict[str, Any], sent: dict[str, Any], t0: int, t1: int
    ) -> None:
        """A message has come, within an interval, and is sent on after it; ``told`` and ``sent`` as below."""
        self.arrived(consumer, message, told, t0, t1)
        self.sent_on(message, told["dest"], sent, t1)

    def arrived(self, consumer: str, message: str, told: dict[str, Any], t0: int, t1: int) -> None:
        """A message has come, within an interval."""
        name = self._named(consumer)
        self._recorder.put(Arrive, t0, t1, self.near, consumer=name, message=message, **told)
        self._recorder.put(Consume, t1, t1, self.near, consumer=name, message=message)
        self._under_way[told["dest"], message] = None

    def sent_on(self, message: str, dest: str, sent: dict[str, Any], now_ns: int) -> None:
        """It is sent to the far broker, not before now."""
        attempt = self._attempts.get((dest, message))
        if attempt is None:
            self._attempts[dest, message] = Attempt(now_ns, sent)
        else:
            attempt.times += 1

    def answered(self, consumer: str, message: str, dest: str, now_ns: int, refusal: str | None = None) -> None:
        """The far broker has said what becomes of a message; the near one is told."""
        self.confirmed(message, dest, now_ns, refusal)
        self.telling(consumer, message, now_ns, Ack if refusal is None else Nack)

    def confirmed(self, message: str, dest: str, now_ns: int, refusal: str | None = None) -> None:
        """The far broker has said what becomes of a message."""
        self._under_way.pop((dest, message), None)
        attempt = self._attempts.pop((dest, message), None)
        if attempt is not None:
            result = "ok" if refusal is None else "fail"
            self._tell(attempt, dest, message, now_ns, result=result, refusal=refusal)

    def telling(self, consumer: str, message: str, now_ns: int, kind: type[Ack | Nack] = Ack) -> None:
        """The near broker is being told what has become of a message, not before now."""
        self._telling[self._named(consumer), message] = now_ns, kind

    def settled(self, consumer: str, message: str, now_ns: int) -> None:
        """The near broker knows what has become of it."""
        name = self._named(consumer)
        since_ns, kind = self._telling.pop((name, message), (now_ns, Ack))
        self._settled(kind, name, message, "ok", since_ns, now_ns)

    def _settled(self, kind: type[Ack | Nack], name: str, message: str, result: Result, t0: int, t1: int) -> None:
        mode = {"mode": "individual"} if kind is Ack else {}
        self._recorder.put(kind, t0, t1, self.near, result=result, consumer=name, messages=[message], **mode)

    def ended(self, now_ns: int) -> int:
        """This life is over: what was not confirmed is in doubt (how many messages), and so is what was not heard of
        again.
        """
        for (name, message), (since_ns, kind) in self._telling.items():
            self._settled(kind, name, message, "unknown", since_ns, now_ns)
        doubtful = len(self._under_way)
        self._telling.clear()
        self._under_way.clear()
        return doubtful

    def is_waiting(self) -> bool:
        """Whether the far broker owes this life an answer about a message."""
        return bool(self._under_way)

    def is_telling(self) -> bool:
        """Whether the near broker is not yet known to have been told of one."""
        return bool(self._telling)

    def tell_doubts(self, now_ns: int) -> None:
        """What was never confirmed may be there or not."""
        for (dest, message), attempt in self._attempts.items():
            self._tell(attempt, dest, message, now_ns, result="unknown")
        self._attempts.clear()

    def _named(self, consumer: str) -> str:
        """What the history calls a consumer of the near session."""
        found = self._consumers.get(consumer)
        if found is None:
            self._numbers += 1
            found = self._consumers[consumer] = f"{self.near}/{self._numbers}"
        return found

    def _tell(self, attempt: Attempt, dest: str, message: str, now_ns: int, **fields: object) -> None:
        fields |= attempt.fields
        fields |= {"dest": dest, "message": message, "again": attempt.times > 1}
        self._recorder.put(Send, attempt.begun_ns, now_ns, self.far, **fields)


def as_told(notice: PassedOn) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a history tells of a message as it came to the bridge, and as the bridge sends it; with the names that the
    brokers know.
    """
    told = told_of(notice.dispatch)
    return told, _sent(notice.message, told, notice.dispatch)


def told_of(dispatch: MessageDispatch) -> dict[str, Any]:
    """What a history tells of a message as it came to a bridge."""
    told = arrival_of(as_delivered(dispatch, dispatch.message_id))
    del told["reply_to"]
    told["message_kind"] = told.pop("kind")
    return told


def sent_of(message: Message) -> dict[str, Any]:
    """The same of one as it was overheard on its way from a bridge."""
    dispatch = as_dispatch(message)
    return _sent(message, told_of(dispatch), dispatch)


def _sent(message: Message, told: dict[str, Any], dispatch: MessageDispatch) -> dict[str, Any]:
    """``told`` and ``dispatch`` are what it is read from."""
    return {
        "expiration_ms": message.expiration_ms,
        "timestamp_ms": message.timestamp_ms,
        "persistent": message.persistent,
        "priority": message.priority,
        "size": len(message.body),
        "message_kind": told["message_kind"] or "",
        "group": message.group_id,
        "life_ms": number_in(dispatch.properties, LIFE) or 0,
        "body": crc32(message.body),
        "network": True,
        "delivery_time_ms": number_in(dispatch.properties, DELIVERY_TIME),
        "headers": told["headers"] or {},
    }
