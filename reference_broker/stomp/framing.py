"""STOMP's bytes behind the interface that all protocols share (``framing.py`` of the room above)."""

from __future__ import annotations

from collections.abc import Sequence

from brokerproof.reference_broker.session.framing import Framing, Limits
from brokerproof.reference_broker.stomp.codec import BEAT, FrameDecoder, encode
from brokerproof.reference_broker.stomp.frames import Frame, Heartbeat


class StompFraming(Framing):
    """One connection: what it writes has the version that the frames that it read have settled."""

    __slots__ = ("_decoder",)

    def __init__(self, limits: Limits | None = None) -> None:
        self._decoder = FrameDecoder(limits)

    @property
    def version(self) -> str:
        """As settled so far."""
        return self._decoder.version

    def feed(self, data: bytes) -> Sequence[Frame | Heartbeat]:
        return self._decoder.feed(data)

    def encode(self, frame: object) -> bytes:
        if isinstance(frame, Frame):
            return encode(frame, self._decoder.version)
        if isinstance(frame, Heartbeat):
            return BEAT
        raise TypeError(f"STOMP writes Frame or Heartbeat, not {frame!r}")
