"""A MapMessage for a STOMP consumer: ActiveMQ's ``jms-map-json``, whatever the consumer asked for.

Rules: an entry is its name and its value under the name of its Java type; a text has both names alike, so they stand in
a list. Of a map that cannot be read the body is empty. Half of a surrogate pair becomes ``?``, as everywhere in STOMP.

Known exception: maps inside maps, lists and bytes are written as texts.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from brokerproof.reference_broker.openwire.translation.maps import MAP
from brokerproof.reference_broker.openwire.wire.errors import WireError
from brokerproof.reference_broker.openwire.wire.primitives import Float, Long, decode_map

if TYPE_CHECKING:
    from brokerproof.reference_broker.core.message import Message

TRANSFORMATION: Final = "transformation"
MAP_JSON: Final = "jms-map-json"


def map_text(message: Message) -> bytes | None:
    """The body of a MapMessage as JSON; None: it is none, or cannot be read."""
    if message.form != MAP:
        return None
    try:
        values = decode_map(message.body)
    except WireError:
        return None
    entries = [_entry(name, value) for name, value in values.items()]
    return json.dumps({"map": {"entry": entries}}, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def _entry(name: str, value: object) -> dict[str, object]:
    if value is None:
        return {"string": name, "null": ""}
    if isinstance(value, bool):
        return {"string": name, "boolean": value}
    if isinstance(value, int):
        return {"string": name, "long" if isinstance(value, Long) else "int": int(value)}
    if isinstance(value, float):
        return {"string": name, "float" if isinstance(value, Float) else "double": float(value)}
    return {"string": [name, value if isinstance(value, str) else str(value)]}
