"""One OpenWire connection as somebody hears it who stands between its ends: bytes of both directions in, commands out.

Rules
* The ends agree as ``framing.py`` says: each direction is plain until both offers are known. An end writes nothing but
  its offer before it has read the other's, so the offers are always heard first.
* Both directions must be fed in the order in which they are passed on, and all of them: caches are filled by what is
  heard.
* Commands that mean nothing between a client and a broker are left out, and so are messages that a broker would refuse.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from brokerproof.reference_broker.openwire.translation import tables
from brokerproof.reference_broker.openwire.translation.context import Context
from brokerproof.reference_broker.openwire.translation.messages import RefusedMessage
from brokerproof.reference_broker.openwire.wire.codec import Codec, FrameDecoder
from brokerproof.reference_broker.openwire.wire.connections import WIRE_FORMAT_INFO
from brokerproof.reference_broker.openwire.wire.negotiation import Agreement, Offer, read_offer

if TYPE_CHECKING:
    from brokerproof.reference_broker.openwire.commands import Command

#: The two directions.
TO_BROKER: Final = 0
TO_CLIENT: Final = 1


class Overheard:
    """See the module's header."""

    __slots__ = ("_codecs", "_contexts", "_decoders", "_offers")

    def __init__(self) -> None:
        self._decoders = FrameDecoder(), FrameDecoder()
        self._contexts = Context(), Context()
        self._codecs = [Codec(), Codec()]
        #: By direction: what its writer offers.
        self._offers: dict[int, Offer] = {}

    def feed(self, direction: int, data: bytes) -> list[Command]:
        """The commands that are complete now. Raises ``WireError``; then nothing more can be understood."""
        found: list[Command] = []
        for frame in self._decoders[direction].feed(data):
            said = self._codecs[direction].decode(frame)
            if said is None:
                continue
            if said.kind is WIRE_FORMAT_INFO:
                self._agree(direction, read_offer(said))
            elif tables.has_meaning(said):
                try:
                    found.append(tables.read(self._contexts[direction], said))
                except RefusedMessage:
                    continue
        return found

    def _agree(self, direction: int, offer: Offer) -> None:
        self._offers.setdefault(direction, offer)
        if len(self._offers) == 2:
            agreement = Agreement(self._offers[TO_BROKER], self._offers[TO_CLIENT])
            self._codecs = [agreement.codec(), agreement.codec()]
            for context in self._contexts:
                context.version = agreement.version
