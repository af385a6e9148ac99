"""OpenWire's end of a socket: frames, what both ends have agreed on, and the translation.

Rules (openwire.md 2, 3)
* The first frame in each direction is a WireFormatInfo with every option off. When both are known, everything that is
  written or read afterwards follows the agreement; a second one of the peer changes nothing.
* What the session offers for the monitor is put into the WireFormatInfo that is written; the rest of the offer stands
  in ``mine``.
* A frame that cannot be read, or written (another protocol's headers may be longer than a text of OpenWire), ends the
  connection; a message that is well written and refused does not: its command carries the refusal to the session
  (``RefusedCommand``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from brokerproof.reference_broker.openwire.commands import Command, RefusedCommand, WireFormatInfo
from brokerproof.reference_broker.openwire.translation import tables
from brokerproof.reference_broker.openwire.translation.context import ClientContext, Context
from brokerproof.reference_broker.openwire.translation.messages import RefusedMessage
from brokerproof.reference_broker.openwire.translation.names import flag, number
from brokerproof.reference_broker.openwire.wire.codec import Codec, FrameDecoder
from brokerproof.reference_broker.openwire.wire.connections import WIRE_FORMAT_INFO
from brokerproof.reference_broker.openwire.wire.errors import WireError
from brokerproof.reference_broker.openwire.wire.negotiation import Agreement, Offer, read_offer
from brokerproof.reference_broker.session.framing import Framing, FramingError

if TYPE_CHECKING:
    from brokerproof.reference_broker.openwire.wire.kinds import Data
    from brokerproof.reference_broker.session.framing import Limits

_PLAIN: Final = Codec()


class OpenWireFraming(Framing):
    """The broker's end. See ``session/framing.py``."""

    __slots__ = ("_codec", "_context", "_decoder", "_said", "mine", "theirs")

    def __init__(self, limits: Limits, mine: Offer | None = None) -> None:
        self.mine = (
            mine
            if mine is not None
            else Offer(frame_max=limits.max_frame_bytes, tight=limits.tight_encoding, cache_size=limits.cache_size)
        )
        #: None until the peer has said it.
        self.theirs: Offer | None = None
        self._decoder = FrameDecoder(self.mine.frame_max)
        self._codec = _PLAIN
        #: The peer was told ``mine``; before that it can read nothing but the plain encoding.
        self._said = False
        self._context = self._make_context()

    def _make_context(self) -> Context:
        return Context()

    def feed(self, data: bytes) -> list[Command]:
        commands: list[Command] = []
        try:
            for frame in self._decoder.feed(data):
                found = self._codec.decode(frame)
                if found is not None:
                    commands.append(self._read(found))
        except WireError as error:
            failure = FramingError(str(error))
            failure.frames = commands
            raise failure from None
        return commands

    def encode(self, frame: object) -> bytes:
        if isinstance(frame, WireFormatInfo):
            self.mine.read_ms = frame.max_inactivity_duration_ms or 0
            self.mine.initial_delay_ms = frame.max_inactivity_duration_initial_delay_ms or 0
            self._said = True
            return _PLAIN.encode(self.mine.info())
        if not isinstance(frame, Command):
            raise TypeError(f"OpenWire writes commands, not {frame!r}")
        codec = self._codec if self._said else _PLAIN
        try:
            return codec.encode(tables.write(self._context, frame))
        except WireError as error:
            raise FramingError(f"{type(frame).__name__} cannot be written on this connection: {error}") from None

    def _read(self, data: Data) -> Command:
        if data.kind is WIRE_FORMAT_INFO:
            return self._agree(read_offer(data))
        try:
            return tables.read(self._context, data)
        except RefusedMessage as refusal:
            return RefusedCommand(str(refusal), number(data["commandId"]), flag(data["responseRequired"]))

    def _agree(self, theirs: Offer) -> Command:
        if self.theirs is None:
            self.theirs = theirs
            agreement = Agreement(self.mine, theirs)
            self._codec = agreement.codec()
            self._context.version = agreement.version
            self._decoder.limit = min(self.mine.frame_max, agreement.frame_max)
        return WireFormatInfo(theirs.read_ms, theirs.initial_delay_ms, theirs.version)


class ClientFraming(OpenWireFraming):
    """A client's end: its own names become numbers of its connection."""

    __slots__ = ("_connection_id",)

    def __init__(self, limits: Limits, connection_id: str, mine: Offer | None = None) -> None:
        self._connection_id = connection_id
        super().__init__(limits, mine)

    def _make_context(self) -> Context:
        return ClientContext(self._connection_id)
