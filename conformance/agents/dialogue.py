"""The mouth and ears of a raw peer that holds dialogues: bytes out, bytes in, with nothing in between that could mend
either. It reads STOMP by itself, so that what it writes down is what came.

Rules: the next turn is said when as much has come as the last one wants, or after ``PATIENCE_NS``. What is never an
answer (an end of line, a keep-alive, what a broker tells of itself) is not written down.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

import msgspec

from brokerproof.conformance.experiment.dialogues import (
    FATAL,
    HELLO,
    PATIENCE_NS,
    QUEUE,
    TOPIC,
    Turn,
    dialogues,
    filled,
)
from brokerproof.conformance.experiment.peers import Reply, Spoken
from brokerproof.reference_broker.openwire.wire.codec import Codec, FrameDecoder
from brokerproof.reference_broker.openwire.wire.connections import WIRE_FORMAT_INFO
from brokerproof.reference_broker.openwire.wire.errors import WireError
from brokerproof.reference_broker.openwire.wire.kinds import VERSION_MAX, Data, Throwable
from brokerproof.reference_broker.openwire.wire.primitives import Long, decode_map, encode_map
from brokerproof.reference_broker.openwire.wire.registry import KINDS

if TYPE_CHECKING:
    from brokerproof.conformance.experiment.operations import Probe

#: Characters of a body that are written down.
BODY_MAX: Final = 1000
#: Where the headers of a frame end: lines end in LF, or in CR LF as STOMP 1.2 allows.
_CRLF: Final = b"\r\n\r\n"
_BORDER: Final = re.compile(rb"\n\n|\r\n\r\n")
#: A byte that UTF-8 does not have; a line and lines that no broker has to take.
_BYTES: Final = {"ff": "\udcff", "long": "x" * 20_000, "many": "".join(f"x_{n}:y\n" for n in range(1001))}
_KINDS: Final = {kind.name: kind for kind in KINDS.values()}
_ASIDE: Final = ("BrokerInfo", "ConnectionControl", "KeepAliveInfo", "ConsumerControl")
_PROPERTIES: Final = "marshalledProperties"


class WayIn(msgspec.Struct, frozen=True, kw_only=True):
    """How a peer gets in, and which topics and queues it may use; ``{me}`` and ``{n}`` as in dialogues."""

    topic: str = TOPIC
    queue: str = QUEUE
    host: str = "localhost"
    login: str = ""
    passcode: str = ""


#: As nobody in particular, into a broker with ActiveMQ's names.
ANYBODY: Final = WayIn()


class StompWords:
    """STOMP as bytes and lines."""

    def __init__(self, way: WayIn = ANYBODY) -> None:
        self._buffer = b""
        login = f"\nlogin:{way.login}\npasscode:{way.passcode}" if way.login else ""
        words = {"user": way.login, "passcode": way.passcode, "cut": way.passcode[:-1]}
        self._unsaid = _BYTES | {"host": way.host, "login": login} | words

    def write(self, text: str, words: dict[str, str]) -> bytes:
        """The bytes of a turn."""
        data = filled(filled(text, words), self._unsaid).encode("utf-8", "surrogateescape")
        return data + b"\0" if data else b""

    def read(self, data: bytes) -> list[tuple[str, list[str], str, dict[str, str]]]:
        """What is complete now: command, lines, body, and headers of a message by name."""
        found = []
        self._buffer = (self._buffer + data).lstrip(b"\r\n")
        while (border := _BORDER.search(self._buffer)) is not None:
            head, rest = self._buffer[: border.start()], self._buffer[border.end() :]
            command, *lines = head.decode("utf-8", "replace").split("\r\n" if border[0] == _CRLF else "\n")
            headers = dict(line.partition(":")[::2] for line in reversed(lines))
            length = headers.get("content-length", "")
            end = int(length) if length.isdecimal() else rest.find(b"\0")
            if not 0 <= end < len(rest):
                break
            self._buffer = rest[end + 1 :].lstrip(b"\r\n")
            found.append(
                (command, lines, rest[:end].decode("utf-8", "replace"), headers if command == "MESSAGE" else {})
            )
        return found


class OpenWireWords:
    """OpenWire as structures, written plainly: no options are offered."""

    def __init__(self) -> None:
        self._codec = Codec()
        self._decoder = FrameDecoder()
        self._numbers = 0

    def write(self, text: str, words: dict[str, str]) -> bytes:
        """The bytes of a turn, a command a line."""
        out = b""
        for line in filled(text, words).splitlines():
            name, _, fields = line.partition(" ")
            data = _structure(name, json.loads(fields or "{}"))
            if data.kind is WIRE_FORMAT_INFO:
                out += Codec().encode(data)
                self._codec = Codec(VERSION_MAX)
                continue
            self._numbers += 1
            data.values[0] = self._numbers
            out += self._codec.encode(data)
        words["c"], words["c-1"] = str(self._numbers), str(self._numbers - 1)
        return out

    def read(self, data: bytes) -> list[tuple[str, list[str], str, dict[str, str]]]:
        """What is complete now. What cannot be read is a reply of its own."""
        found = []
        try:
            for frame in self._decoder.feed(data):
                said = (Codec() if frame[:1] == bytes((WIRE_FORMAT_INFO.number,)) else self._codec).decode(frame)
                if said is not None and said.kind.name not in _ASIDE:
                    found.append(_told(said))
        except WireError as error:
            found.append(("unreadable", [str(error)], "", {}))
        return found


def _structure(name: str, fields: dict[str, Any]) -> Data:
    data = _KINDS[name].make()
    if "responseRequired" in data.kind.index:
        data["responseRequired"] = True
    for field, value in fields.items():
        data[field] = _value(field, value)
    return data


def _value(field: str, value: Any) -> object:
    if field == _PROPERTIES:
        return encode_map({name: Long(one) if type(one) is int else one for name, one in value.items()})
    if field in {"content", "globalTransactionId", "branchQualifier"}:
        return bytes.fromhex(value)
    if isinstance(value, dict):
        return [_value("", one) for one in value["array"]]
    if isinstance(value, list) and value[0] == "Throwable":
        return Throwable(*value[1:])
    if isinstance(value, list):
        kind = _KINDS[value[0]]
        values = [_value(one.name, part) for one, part in zip(kind.fields, value[1:], strict=True)]
        return Data(kind, values)
    return value


def _told(data: Data) -> tuple[str, list[str], str, dict[str, str]]:
    lines, body, words = [], "", {}
    for field, value in zip(data.kind.fields, data.values, strict=True):
        if value == field.default:
            continue
        if field.name == "message" and isinstance(value, Data):
            what, more, body, _ = _told(value)
            lines += [f"message={what}", *more]
            words = dict(line.partition("=")[::2] for line in more)
        elif field.name == _PROPERTIES and isinstance(value, bytes):
            lines += [f"{name}={_shown(one)}" for name, one in decode_map(value).items()]
        elif field.name == "content" and isinstance(value, bytes):
            body = value.hex()
        else:
            lines.append(f"{field.name}={_shown(value)}")
    return data.kind.name, lines, body, words


def _shown(value: object) -> str:
    """As ``_value`` reads it."""
    if isinstance(value, Data):
        return json.dumps(_listed(value))
    if isinstance(value, Throwable):
        return str(value.type)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, list):
        return json.dumps({"array": [_listed(one) for one in value]})
    return json.dumps(value) if isinstance(value, bool) else str(value)


def _listed(value: object) -> object:
    return [value.kind.name, *map(_listed, value.values)] if isinstance(value, Data) else value


class Conversation:
    """One peer's dialogues, from the hello on. Times are its caller's."""

    def __init__(self, probe: Probe, way: WayIn = ANYBODY) -> None:
        known = dialogues(probe.via)
        chosen = [known[name] for name in probe.dialogues]
        if not chosen[0].greets:
            chosen.insert(0, known[HELLO])
        self._script: list[tuple[int, str, int, Turn]] = [
            (number, one.name, place, turn) for number, one in enumerate(chosen) for place, turn in enumerate(one.turns)
        ]
        self._words: StompWords | OpenWireWords = StompWords(way) if probe.via == "stomp" else OpenWireWords()
        places = (("topic", way.topic, TOPIC), ("queue", way.queue, QUEUE))
        self._written: dict[str, str] = {name: own for name, own, usual in places if own != usual}
        self._written["version"] = probe.version
        self._due_ns: int | None = None
        self._wanted = 0
        self.spoken: list[Spoken] = []

    def next_due_ns(self) -> int | None:
        """When it loses its patience; None: it has heard everything that it waited for."""
        return self._due_ns

    def speak(self, now_ns: int) -> bytes:
        """The next turn; nothing if there is none."""
        if not self._script:
            self._due_ns = None
            return b""
        number, dialogue, place, turn = self._script.pop(0)
        self._due_ns = now_ns + PATIENCE_NS
        words = self._written
        words["n"] = str(number)
        words.setdefault("me", str(now_ns))
        data = self._words.write(turn.says, words)
        self.spoken.append(Spoken(dialogue, place, (now_ns, now_ns), dict(words)))
        self._wanted = len(turn.hears)
        if turn.ends:
            self._script.clear()
        return data

    def wrote(self, t0_ns: int, t1_ns: int) -> None:
        """The last turn has been handed over."""
        if self.spoken:
            self.spoken[-1].at = (t0_ns, t1_ns)

    def hear(self, data: bytes, now_ns: int) -> bytes:
        """Bytes of the broker's; what is said to that at once."""
        for what, lines, body, words in self._words.read(data):
            self.spoken[-1].replies.append(Reply(now_ns, what, lines, body[:BODY_MAX]))
            former = {f"former-{name}": self._written[name] for name in words if name in self._written}
            self._written |= former | words
            if what in FATAL:
                self._script.clear()
        wanted = self._wanted
        return self.speak(now_ns) if self._script and 0 < wanted <= len(self.spoken[-1].replies) else b""
