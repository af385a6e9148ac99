"""STOMP with a broker's own words: destinations and headers renamed on their way out and back.

Rule: the library speaks as it always does; only here are its words another broker's. A header that does not exist there
is left out, both ways: what a broker hands on as it came, or calls by the same name, is not what the suite means.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from brokerproof.conformance.experiment.wire_names import HEADERS, Saying, WireNames
from brokerproof.reference_broker.stomp.frames import Frame, Heartbeat
from brokerproof.reference_broker.stomp.framing import StompFraming

#: A literal of a selector, which stays as it is, or a word.
_WORD = re.compile(r"'(?:[^']|'')*'|[A-Za-z_$][\w$]*")
#: Headers that hold a destination.
_PLACES = ("destination", "reply-to", "original-destination")
#: The header that names a durable subscription.
_DURABLE = HEADERS["durable"]
#: How the suite says each word.
_SAID = {word: Saying.of(word, header) for word, header in HEADERS.items()}


class Dialect:
    """``names``: a broker's words. ``client``: the client id, which a durable subscription is called after, too: only
    ActiveMQ is known to have each client's names apart.
    """

    def __init__(self, names: WireNames, client: str = "") -> None:
        self._names = names
        apart = names.headers.get("durable", _DURABLE) == _DURABLE
        self._before_durables = "" if apart or not client else f"{client}."
        said = {word: Saying.of(word, header) for word, header in names.headers.items() if header}
        self._out = {_SAID[word].header: one for word, one in said.items() if word != "browser_end"}
        self._in: dict[str, list[tuple[Saying, Saying]]] = {}
        for word, one in said.items():
            # That a browser browses its messages need not say.
            self._in.setdefault(one.header, []).extend([] if word == "browser" else [(_SAID[word], one)])
        self._none = {_SAID[word].header for word, header in names.headers.items() if not header}
        self._persistent = said.get("persistent", _SAID["persistent"])
        #: What this broker has no header for, in the suite's words.
        self.lacks = frozenset(word for word, header in names.headers.items() if not header)

    def outgoing(self, frame: Frame) -> Frame:
        """A frame of the library's in the broker's words."""
        plain = dict(frame.headers)
        if "selector" in plain:
            plain["selector"] = self._selector(plain["selector"])
        if _DURABLE in plain:
            plain[_DURABLE] = self._before_durables + plain[_DURABLE]
        if frame.command == "SEND" and self._persistent.both:
            plain.setdefault("persistent", "false")
        headers = dict(self._names.nack) if frame.command == "NACK" else {}
        if frame.command == "UNSUBSCRIBE" and _DURABLE in plain:
            headers |= self._names.unsubscribe
        for name, value in plain.items():
            one = self._out.get(name)
            text = value if one is None else one.written(value)
            if name not in self._none and (text or not value):
                headers[name if one is None else one.header] = text
        for name in _PLACES:
            if name in headers:
                headers[name] = self.address(headers[name])
        return Frame(frame.command, headers, frame.body)

    def incoming(self, frame: Frame) -> Frame:
        """A frame of the broker's in the library's words."""
        headers = {}
        for name, value in frame.headers.items():
            for own, one in self._in.get(name, ()):
                if (text := own.written(one.read(value))) or not value:
                    headers[own.header] = text
            if name not in self._in and name not in self._none:
                headers[name] = value
        for name in _PLACES:
            if name in headers:
                headers[name] = self._plain(headers[name])
        return Frame(frame.command, headers, frame.body)

    def _selector(self, text: str) -> str:
        words = self._names.identifiers
        return _WORD.sub(lambda found: words.get(found[0], found[0]), text) if words else text

    def address(self, destination: str) -> str:
        """``/queue/q0`` as the broker writes it."""
        for kind in ("queue", "topic"):
            if destination.startswith(f"/{kind}/"):
                return self._names.address(f"{kind}://{destination.removeprefix(f'/{kind}/')}")
        return destination

    def _plain(self, destination: str) -> str:
        kind, there, name = self._names.known(destination).partition("://")
        return f"/{kind}/{name}" if there else destination


class DialectFraming(StompFraming):
    """STOMP's bytes, for a broker with words of its own."""

    __slots__ = ("_dialect",)

    def __init__(self, dialect: Dialect) -> None:
        super().__init__()
        self._dialect = dialect

    def feed(self, data: bytes) -> Sequence[Frame | Heartbeat]:
        return [self._dialect.incoming(one) if isinstance(one, Frame) else one for one in super().feed(data)]

    def encode(self, frame: object) -> bytes:
        return super().encode(self._dialect.outgoing(frame) if isinstance(frame, Frame) else frame)
