"""The bytes of one connection: what every protocol gives to an edge that has a socket, and what it must not exceed.

* A framing belongs to one connection and to one end of it. It has no socket and no clock.
* ``feed`` takes any chunking of the same bytes; it raises ``FramingError`` and nothing else, whatever the bytes are,
  and is finished then.
* What both ends negotiate (a version, an encoding) it follows by itself from the frames that pass in both directions.
  So ``encode`` is called in the order of writing, and what it gives is written.
* The keep-alive object of the session (``session.py``) is a frame like any other.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence


class Limits:
    """What a peer may send. A line is one header without its end. OpenWire's are ``max_frame_bytes``, whether frames
    may be written tightly, and how many objects either end remembers (0: no caches).
    """

    __slots__ = ("cache_size", "max_body_bytes", "max_frame_bytes", "max_header_bytes", "max_headers", "tight_encoding")

    def __init__(
        self,
        *,
        max_headers: int = 1000,
        max_header_bytes: int = 10 * 1024,
        max_body_bytes: int = 16 * 1024 * 1024,
        max_frame_bytes: int = 100 * 1024 * 1024,
        tight_encoding: bool = True,
        cache_size: int = 1024,
    ) -> None:
        self.max_headers = max_headers
        self.max_header_bytes = max_header_bytes
        self.max_body_bytes = max_body_bytes
        self.max_frame_bytes = max_frame_bytes
        self.tight_encoding = tight_encoding
        self.cache_size = cache_size


class FramingError(Exception):
    """The *peer* sent bytes that are no frames of its protocol. The text shows the value and the remedy.

    ``frames`` are those that were complete before the broken one in the same bytes; ``receipt`` is the broken frame's,
    if it asked for one.
    """

    def __init__(self, text: str, *, receipt: str = "") -> None:
        super().__init__(text)
        self.text = text
        self.receipt = receipt
        self.frames: Sequence[object] = ()


class Framing(ABC):
    """See the module's header."""

    __slots__ = ()

    @abstractmethod
    def feed(self, data: bytes) -> Sequence[object]:
        """Take the next bytes and give the frames that they complete, keep-alives included."""

    @abstractmethod
    def encode(self, frame: object) -> bytes:
        """The bytes of a frame from the session's outbox."""
