"""A message's properties as OpenWire writes them: opened only when the broker must look at one.

Rules: what JMS allows as a property is shown, with the wrappers of ``primitives.py``; a character is a text. What
ActiveMQ allows beyond that (maps, lists, byte arrays, null) is nobody's business but the consumer's: ``repacked`` puts
it back beside what the broker has changed. Bytes that are no map show nothing and are handed on as they are.
"""

from __future__ import annotations

from brokerproof.reference_broker.core.message import Packed, Property
from brokerproof.reference_broker.openwire.wire.errors import WireError
from brokerproof.reference_broker.openwire.wire.primitives import Value, decode_map, encode_map


class PackedProperties(Packed):
    """See the module's header."""

    __slots__ = ("_values",)

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        #: Everything in the map, once somebody has looked; the values themselves never change.
        self._values: dict[str, Value] | None = None

    def unpack(self) -> dict[str, Property]:
        return {name: value for name, value in self._all().items() if isinstance(value, str | bool | int | float)}

    def repacked(self, properties: dict[str, Property]) -> bytes:
        """These properties, in the order in which they were written, and those that only a consumer understands."""
        if self._are_mine(properties):
            return self.data
        values: dict[str, Value] = {}
        for name, value in self._all().items():
            if name in properties:
                values[name] = properties[name]
            elif not isinstance(value, str | bool | int | float):
                values[name] = value
        return encode_map({**values, **properties})

    def _are_mine(self, properties: dict[str, Property]) -> bool:
        """Whether nothing was changed, not even 1 to true, which are equal."""
        count = 0
        for name, value in self._all().items():
            if isinstance(value, str | bool | int | float):
                if properties.get(name) is not value:
                    return False
                count += 1
        return count == len(properties)

    def _all(self) -> dict[str, Value]:
        if self._values is None:
            try:
                self._values = decode_map(self.data)
            except WireError:
                self._values = {}
        return self._values
