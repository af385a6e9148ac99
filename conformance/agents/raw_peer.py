"""A raw peer: one with full control of what it says, which writes down what it hears. No socket, no clock.

Both worlds use it for a ``probe``: they bring the time, carry its items to the broker and give it what comes back.
Items are frames (STOMP) or commands (OpenWire), ``Part`` (bytes that complete no frame), ``Broken`` (bytes that no
decoder accepts) and ``Words`` (bytes of a dialogue, to be read as the broker reads them).

Rules
* It says nothing more than it is told to: no keep-alive of its own, no answer.
* What it is told to say begins when the broker has welcomed it, or at once if its hello is none.
* Times are those of its caller; an interval is (before it was handed over, after).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from brokerproof.conformance.agents.dialogue import ANYBODY, Conversation, WayIn
from brokerproof.conformance.experiment.peers import Heard, Kind, Said
from brokerproof.reference_broker.openwire.commands import (
    Command,
    ConnectionFault,
    ExceptionResponse,
    KeepAliveInfo,
    Response,
    ShutdownInfo,
    WireFormatInfo,
)
from brokerproof.reference_broker.openwire.wire.codec import Codec
from brokerproof.reference_broker.openwire.wire.connections import WIRE_FORMAT_INFO
from brokerproof.reference_broker.openwire.wire.errors import WireError
from brokerproof.reference_broker.openwire.wire.negotiation import MAGIC, read_offer
from brokerproof.reference_broker.openwire.wire.primitives import Long, Value, encode_map
from brokerproof.reference_broker.stomp.frames import HEARTBEAT, Frame

if TYPE_CHECKING:
    from brokerproof.conformance.experiment.operations import Probe

NS_PER_MS = 1_000_000
#: What a deaf one sends itself: more than fits into the buffers between two sockets.
FLOOD = 96
FLOOD_BYTES = 256 * 1024

WELCOME: Final = "welcome"
BEAT: Final = "beat"
ANSWER: Final = "answer"
ERROR: Final = "error"
OTHER: Final = "other"


class Part(Struct, eq=False):
    """Bytes of a frame that stays incomplete."""

    data: bytes


class Broken(Struct, eq=False):
    """A first frame that the broker's decoder must refuse: its bytes, and why."""

    data: bytes
    text: str


class Words(Struct, eq=False):
    """Bytes of a dialogue, whatever they are."""

    data: bytes


class Tongue(ABC):
    """What a raw peer says in one protocol, and what it understands."""

    #: Names of the hellos that must be refused.
    bad: tuple[str, ...]
    #: Whether it may speak before it was welcomed.
    eager = False

    @abstractmethod
    def hello(self, offer_ms: tuple[int, int]) -> object:
        """As it should be."""

    @abstractmethod
    def bad_hello(self, name: str) -> object:
        """One of ``bad``."""

    @abstractmethod
    def half(self) -> Part:
        """Half a hello."""

    @abstractmethod
    def beat(self) -> object:
        """A keep-alive that wants no answer."""

    @abstractmethod
    def ask(self, number: int) -> object:
        """Something that wants an answer; ``number`` counts from 1."""

    @abstractmethod
    def frame(self, number: int) -> object:
        """Something that wants none, and is more than a keep-alive where there is such a thing."""

    @abstractmethod
    def part(self, number: int) -> Part:
        """More of a frame that is never finished; ``number`` counts from 1."""

    @abstractmethod
    def kind(self, item: object) -> Kind:
        """What the broker has said."""


class StompTongue(Tongue):
    """STOMP 1.2."""

    bad = ("heart-beat:soon,later", "accept-version:9.9", "no command")

    def __init__(self, way: WayIn = ANYBODY) -> None:
        self._way = way

    def hello(self, offer_ms: tuple[int, int]) -> Frame:
        return self._connect(f"{offer_ms[0]},{offer_ms[1]}", "1.0,1.1,1.2")

    def _connect(self, heart_beat: str, versions: str) -> Frame:
        headers = {"accept-version": versions, "host": self._way.host, "heart-beat": heart_beat}
        if self._way.login:
            headers |= {"login": self._way.login, "passcode": self._way.passcode}
        return Frame("CONNECT", headers)

    def bad_hello(self, name: str) -> Frame:
        return {
            self.bad[0]: self._connect("soon,later", "1.2"),
            self.bad[1]: self._connect("0,0", "9.9"),
            self.bad[2]: Frame("HELLO", {}),
        }[name]

    def half(self) -> Part:
        return Part(b"CONNECT\naccept-ver")

    def beat(self) -> object:
        return HEARTBEAT

    def ask(self, number: int) -> Frame:
        asked = self.frame(number)
        return Frame(asked.command, {**asked.headers, "receipt": str(number)})

    def frame(self, number: int) -> Frame:
        # A transaction is begun and ended in turn.
        return Frame("BEGIN" if number % 2 else "ABORT", {"transaction": f"t{(number + 1) // 2}"})

    def part(self, number: int) -> Part:
        return Part(b"SEND\ndestination:/topic/raw-peers\ncontent-length:1000000\n\n" if number == 1 else b"x")

    def flood(self) -> list[Frame]:
        """A subscription to a topic of its own, and messages to it."""
        topic = "/temp-topic/raw-peers"
        body = b"." * FLOOD_BYTES
        send = Frame("SEND", {"destination": topic, "content-length": str(FLOOD_BYTES)}, body)
        return [Frame("SUBSCRIBE", {"id": "0", "destination": topic, "ack": "auto"}), *([send] * FLOOD)]

    def kind(self, item: object) -> Kind:
        if item is HEARTBEAT:
            return BEAT
        command = item.command if isinstance(item, Frame) else ""
        return _STOMP_KINDS.get(command, OTHER)


_STOMP_KINDS: Final[dict[str, Kind]] = {"CONNECTED": WELCOME, "RECEIPT": ANSWER, "ERROR": ERROR}


class OpenWireTongue(Tongue):
    """OpenWire, as commands."""

    bad = ("negative initial delay", "wrong magic", "version 0", "MaxInactivityDuration:int")

    def hello(self, offer_ms: tuple[int, int]) -> Command:
        return WireFormatInfo(offer_ms[0], offer_ms[1])

    def bad_hello(self, name: str) -> object:
        if name == self.bad[0]:
            return WireFormatInfo(1000, -1)
        options: dict[str, Value] = {"MaxInactivityDuration": 1000 if name == self.bad[3] else Long(1000)}
        info = WIRE_FORMAT_INFO.make(
            magic=b"NotOurs!" if name == self.bad[1] else MAGIC,
            version=0 if name == self.bad[2] else 12,
            marshalledProperties=encode_map(options),
        )
        try:
            offer = read_offer(info)
        except WireError as error:
            return Broken(Codec().encode(info), str(error))
        return WireFormatInfo(offer.read_ms, offer.initial_delay_ms)

    def half(self) -> Part:
        return Part(b"\0\0\0\xf0\1ActiveMQ")

    def beat(self) -> Command:
        return KeepAliveInfo()

    def ask(self, number: int) -> Command:
        return KeepAliveInfo(number, response_required=True)

    def frame(self, number: int) -> Command:  # noqa: ARG002 - a keep-alive is a command as others are
        return self.beat()

    def part(self, number: int) -> Part:
        return Part(b"\0\x10\0\0" if number == 1 else b"x")

    def kind(self, item: object) -> Kind:
        if isinstance(item, KeepAliveInfo):
            return ANSWER if item.command_id and not item.response_required else BEAT
        if isinstance(item, ExceptionResponse | ConnectionFault | ShutdownInfo):
            return ERROR
        return WELCOME if isinstance(item, WireFormatInfo) else ANSWER if isinstance(item, Response) else OTHER


class RawPeer:
    """One probe. ``start`` it, then let it ``speak`` when ``next_due_ns`` has come, and ``hear`` and ``end``."""

    def __init__(self, probe: Probe, way: WayIn = ANYBODY) -> None:
        self.probe = probe
        self.conversation = Conversation(probe, way) if probe.dialogues else None
        self.tongue: Tongue = StompTongue(way) if probe.via == "stomp" else OpenWireTongue()
        self.fault = self.tongue.bad[probe.fault % len(self.tongue.bad)] if probe.hello == "bad" else ""
        self.hello_ns: tuple[int, int] | None = None
        self.last_ns: tuple[int, int] | None = None
        self.welcome_ns: int | None = None
        self.ended_ns: int | None = None
        self._opened_ns = 0
        #: When a deaf one had sent itself all its messages.
        self.flooded_ns = 0
        self._heart_beat = ""
        self._offer_ms: tuple[int, int] | None = None
        self._refused = ""
        self._beats = self._answers = self._asked = self._said = 0
        #: The first thing heard after the welcome, and the last thing at all.
        self._first_ns: int | None = None
        self._heard_ns: int | None = None
        self._last_heard: Kind = ""
        self._gap_ns: int | None = None
        self._closest_ns: int | None = None
        self._next_ns: int | None = None

    # -- speaking

    def start(self, now_ns: int) -> list[object]:
        """The socket is open: what to say first."""
        self._opened_ns = now_ns
        probe = self.probe
        if self.conversation is not None:
            return self._words(self.conversation.speak(now_ns))
        if probe.hello in {"none", "half", "early"}:
            self._begin_to_talk(now_ns)
        if probe.hello == "good":
            return [self.tongue.hello(probe.offer_ms)]
        if probe.hello == "half":
            return [self.tongue.half()]
        if probe.hello == "bad":
            return [self.tongue.bad_hello(self.fault)]
        return [self.tongue.beat()] if probe.hello == "early" else []

    def _words(self, data: bytes) -> list[object]:
        return [Words(data)] if data else []

    def _begin_to_talk(self, now_ns: int) -> None:
        # A half-finished hello must not be finished by what follows it.
        if self.probe.talk_ms and self.probe.hello != "half":
            self._talk_until_ns = now_ns + self.probe.talk_ms * NS_PER_MS
            self._plan(now_ns)

    def _plan(self, now_ns: int) -> None:
        next_ns = now_ns + self.probe.every_ms * NS_PER_MS
        self._next_ns = next_ns if next_ns <= self._talk_until_ns else None

    def next_due_ns(self) -> int | None:
        """When it wants to speak; None: it has said everything."""
        if self.ended_ns is not None:
            return None
        return self._next_ns if self.conversation is None else self.conversation.next_due_ns()

    def speak(self, now_ns: int) -> list[object]:
        """What it says now."""
        if self.conversation is not None:
            return self._words(self.conversation.speak(now_ns))
        self._plan(now_ns)
        self._said += 1
        says = self.probe.says
        if says == "beats":
            return [self.tongue.beat()]
        if says == "frames":
            return [self.tongue.frame(self._said)]
        if says == "part":
            return [self.tongue.part(self._said)]
        self._asked += 1
        return [self.tongue.ask(self._said)]

    def wrote(self, t0_ns: int, t1_ns: int, *, hello: bool = False) -> None:
        """Something that it said has been handed over."""
        self.last_ns = (t0_ns, t1_ns)
        if self.conversation is not None:
            self.conversation.wrote(t0_ns, t1_ns)
        if hello:
            self.hello_ns = (t0_ns, t1_ns)

    # -- hearing

    def hear(self, item: object, now_ns: int) -> list[object]:
        """An item from the broker; what it says to that at once (a deaf one: everything that it never reads)."""
        kind = self.tongue.kind(item)
        self._last_heard = kind
        if kind == WELCOME and self.welcome_ns is None:
            return self._welcomed(item, now_ns)
        if kind == BEAT:
            self._beats += 1
        elif kind == ANSWER:
            self._answers += 1
        elif kind == ERROR:
            headers = item.headers if isinstance(item, Frame) else {}
            self._refused = headers.get("message", "") or getattr(item, "text", "") or "goodbye"
        if self._first_ns is None:
            self._first_ns = now_ns
        pause_ns = self._alive(now_ns)
        if pause_ns is not None and kind == BEAT and (self._closest_ns is None or pause_ns < self._closest_ns):
            self._closest_ns = pause_ns
        return []

    def hear_end_of_line(self, now_ns: int) -> None:
        """One that belongs to the frame before it, and may come later: the broker is alive, but that is no beat."""
        if self._first_ns is not None:
            self._alive(now_ns)

    def _alive(self, now_ns: int) -> int | None:
        """How long the broker had been silent until now."""
        before_ns, self._heard_ns = self._heard_ns, now_ns
        if before_ns is None:
            return None
        self._gap_ns = max(self._gap_ns or 0, now_ns - before_ns)
        return now_ns - before_ns

    def hear_bytes(self, data: bytes, now_ns: int) -> list[object]:
        """Bytes from the broker, of who holds dialogues; what it says to that at once."""
        assert self.conversation is not None
        return self._words(self.conversation.hear(data, now_ns))

    def _welcomed(self, item: object, now_ns: int) -> list[object]:
        self.welcome_ns = now_ns
        if isinstance(item, Frame):
            self._heart_beat = item.headers.get("heart-beat", "0,0")
        elif isinstance(item, WireFormatInfo):
            offered = (item.max_inactivity_duration_ms, item.max_inactivity_duration_initial_delay_ms)
            self._offer_ms = (offered[0] or 0, offered[1] or 0)
        if self.probe.hello != "good":
            return []
        self._begin_to_talk(now_ns)
        return list(self.tongue.flood()) if self.probe.deaf and isinstance(self.tongue, StompTongue) else []

    def end(self, now_ns: int) -> None:
        """The broker has hung up."""
        if self.ended_ns is None:
            self.ended_ns = now_ns
            self._next_ns = None

    def is_over(self) -> bool:
        """Whether it has been hung up on, or has nothing more to say or to hear in its dialogues."""
        return self.ended_ns is not None or (self.conversation is not None and self.next_due_ns() is None)

    def was_refused(self) -> bool:
        """Whether the broker said why it hung up."""
        return bool(self._refused)

    def saw(self, t1: int, *, reports: int | None, closed: int, left: dict[str, int] | None) -> tuple[Said, Heard]:
        """What it said and heard, when it is over."""
        probe = self.probe
        until_ns = self.ended_ns if self.ended_ns is not None else t1
        gap_ns = self._gap_ns
        if self._heard_ns is not None:
            gap_ns = max(gap_ns or 0, until_ns - self._heard_ns)
        said = Said(
            via=probe.via,
            hello=probe.hello,
            offer_ms=probe.offer_ms,
            fault=self.fault,
            says=probe.says if probe.talk_ms else "nothing",
            every_ms=probe.every_ms,
            deaf=probe.deaf,
            times=probe.times,
            version=probe.version if probe.dialogues else "",
            dialogues=list(probe.dialogues),
            opened_ns=self._opened_ns,
            hello_ns=self.hello_ns,
            last_ns=self.last_ns,
            flooded_ns=self.flooded_ns,
            asked=self._asked,
        )
        heard = Heard(
            welcome_ns=self.welcome_ns,
            heart_beat=self._heart_beat,
            offer_ms=self._offer_ms,
            refused=self._refused,
            answers=self._answers,
            beats=self._beats,
            first_ns=self._first_ns,
            gap_ns=gap_ns,
            closest_ns=self._closest_ns,
            ended_ns=self.ended_ns,
            last=self._last_heard,
            reports=reports,
            closed=closed,
            left=left,
            turns=self.conversation.spoken if self.conversation is not None else [],
        )
        return said, heard
