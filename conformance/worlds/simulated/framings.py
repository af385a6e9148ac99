"""One simulated connection whose frames travel as bytes: the framings that agents and server use, one at each end.

What leaves one end is encoded there and decoded at once as the other end will read it, so that both worlds go through
the same codecs and translations, and a history is the same whether frames are encoded or not. Nor does it matter
whether a STOMP client writes as libraries do or as freely as the protocol allows (``loose``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from brokerproof.reference_broker.openwire.framing import ClientFraming, OpenWireFraming
from brokerproof.reference_broker.session.framing import FramingError, Limits
from brokerproof.reference_broker.stomp.frames import V12
from brokerproof.reference_broker.stomp.framing import StompFraming

if TYPE_CHECKING:
    from collections.abc import Sequence

    from brokerproof.reference_broker.session.framing import Framing

_LIMITS: Final = Limits()


class Framings:
    """Both ends of one connection; ``connection_id`` is the client's, in OpenWire."""

    def __init__(self, protocol: str, connection_id: str, slice_bytes: int = 0, *, loose: bool = False) -> None:
        self._slice_bytes = slice_bytes
        self._loose = loose
        self._written = 0
        self._client: Framing
        self._broker: Framing
        if protocol == "openwire":
            self._client, self._broker = ClientFraming(_LIMITS, connection_id), OpenWireFraming(_LIMITS)
        else:
            self._client, self._broker = StompFraming(), StompFraming(_LIMITS)

    def to_broker(self, frame: object) -> Sequence[object]:
        """What the broker reads of a client's frame. Raises ``FramingError`` if it cannot."""
        data = self._client.encode(frame)
        if self._loose and isinstance(self._client, StompFraming) and self._client.version == V12:
            self._written += 1
            data = rewritten(data, self._written)
        return self._fed(self._broker, data)

    def write(self, frame: object) -> bytes:
        """The bytes of a frame of the broker's. Raises ``FramingError`` if its protocol cannot say it."""
        return self._broker.encode(frame)

    def to_client(self, data: bytes) -> Sequence[object]:
        """What the client reads of them. Raises ``FramingError`` if it cannot."""
        return self._fed(self._client, data)

    def _fed(self, framing: Framing, data: bytes) -> Sequence[object]:
        """What is read of them, in slices if the link makes some."""
        if not self._slice_bytes:
            return framing.feed(data)
        found: list[object] = []
        for begin in range(0, len(data), self._slice_bytes):
            try:
                found += framing.feed(data[begin : begin + self._slice_bytes])
            except FramingError as error:
                error.frames = [*found, *error.frames]  # what was read of earlier slices, too
                raise
        return found


def rewritten(data: bytes, number: int) -> bytes:
    """Another way to write a frame of STOMP 1.2, by its number: lines that end in CR LF; a header again, of which the
    first counts; behind ends of lines, which may stand between frames; as it is. (A length says that a body is binary,
    to brokers with both kinds: it stays.)
    """
    head, end, body = data.partition(b"\n\n")
    if not end or number % 5 == 0:
        return data
    if number % 5 == 1:
        return head.replace(b"\n", b"\r\n") + b"\r\n\r\n" + body
    if number % 5 == 3:
        return b"\n" + data
    if number % 5 == 4:
        return b"\r\n\n" + data
    first = head.split(b"\n", 2)[1:2]
    again = b"".join(b"\n" + line.partition(b":")[0] + b":again" for line in first)
    return head + again + end + body
