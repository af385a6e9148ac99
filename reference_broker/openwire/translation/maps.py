"""Maps that the broker itself sends (answers to requests for statistics), as MapMessages."""

from __future__ import annotations

from typing import Final

from brokerproof.reference_broker.core.statistics import LONG, Encoder, Entry
from brokerproof.reference_broker.openwire.wire.messages import MAP_MESSAGE
from brokerproof.reference_broker.openwire.wire.primitives import Long, Value, encode_map

#: ``Message.form`` of a MapMessage that is not compressed.
MAP: Final = MAP_MESSAGE.number


class MapEncoder(Encoder):
    """Entries in OpenWire's primitive map."""

    def form(self) -> int:
        return MAP

    def encode(self, entries: list[Entry]) -> bytes:
        values: dict[str, Value] = {}
        for entry in entries:
            is_long = entry.kind == LONG and isinstance(entry.value, int)
            values[entry.name] = Long(entry.value or 0) if is_long else entry.value
        return encode_map(values)
