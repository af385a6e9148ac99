"""Messages as bytes and back: what a storage writes of a message beside its names.

A head is a JSON object with the attributes that differ from their defaults; the body stands beside it, unchanged.
Properties are in it by name, or, if a protocol packed them, as it wrote them (base 64).

* ``FIELDS`` is the whole list: an attribute of ``Message`` is in it, or in ``NOT_KEPT`` with its reason. A test
  compares both with the class, so that a new attribute cannot be forgotten.
* A message is written as it was when it joined its destination. So the count of redeliveries is that of the broker's
  own (``broker_redelivery.py``); the marks of departures come later, and are not known after a restart, as in ActiveMQ
  (persistJMSRedelivered is off).
* A head of a later release with an attribute that we do not know is refused, never half understood.
* Any text that a client could send survives, unpaired surrogates included: JSON escapes them, ``key`` stores a name
  that is not Unicode as bytes.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from json.encoder import encode_basestring_ascii as _quoted
from typing import Any, Final

from brokerproof.reference_broker.core.message import DEFAULT_PRIORITY, OCTETS, Message
from brokerproof.reference_broker.openwire.wire.packed import PackedProperties
from brokerproof.reference_broker.storage.journal import StorageError

#: attribute -> the value that is not written.
FIELDS: Final[dict[str, object]] = {
    "timestamp_ms": 0,
    "expiration_ms": 0,
    "delay_ms": 0,
    "deliver_at_ms": 0,
    "ttl_ms": 0,
    "priority": DEFAULT_PRIORITY,
    "form": OCTETS,
    "correlation_id": None,
    "reply_to": "",
    "jms_type": "",
    "group_id": "",
    "group_sequence": 0,
    "original_destination": "",
    "redelivery_count": 0,
    "sequence": 0,
}
#: attribute -> its name in the head, where the value is written in a way of its own.
SPECIAL: Final = {"opened": "properties", "packed": "packed", "extra": "extra", "path": "path"}
#: attribute -> why the head has none.
NOT_KEPT: Final[dict[str, str]] = {
    "body": "stands beside the head",
    "destination": "stands beside the head",
    "message_id": "stands beside the head",
    "persistent": "everything that is stored is",
    "sender": "connections do not survive",
}
_ITEMS: Final = tuple((name, default, f'"{name}":') for name, default in FIELDS.items())
_dump = json.JSONEncoder(separators=(",", ":")).encode


def encode_head(message: Message) -> str:
    """The attributes of a message, without names and body."""
    parts = []
    for name, default, label in _ITEMS:
        value = getattr(message, name)
        if value != default:
            # Written by hand: most heads are two numbers, and the encoder takes longer to begin than to write them.
            parts.append(label + (_quoted(value) if isinstance(value, str) else int.__repr__(value)))
    head: dict[str, Any] = {}
    packed = message.packed
    if message.opened is None:
        head["packed"] = b64encode(packed.data if packed is not None else b"").decode()
    elif isinstance(packed, PackedProperties):
        head["packed"] = b64encode(packed.repacked(message.opened)).decode()
    elif message.opened:
        head["properties"] = message.opened
    if message.extra:
        head["extra"] = b64encode(message.extra).decode()
    if message.path:
        head["path"] = message.path
    if head:
        parts.append(_dump(head)[1:-1])
    return "{" + ",".join(parts) + "}"


def decode(destination: str, message_id: str, head: str, body: bytes) -> Message:
    """The message again. Raises ``StorageError`` for a head that is not one of ours."""
    try:
        fields = json.loads(head)
        properties = fields.pop("properties", None)
        packed = PackedProperties(b64decode(fields.pop("packed"), validate=True)) if "packed" in fields else None
        extra = b64decode(fields.pop("extra", ""), validate=True)
        path = tuple(str(broker) for broker in fields.pop("path", ()))
        unknown = [name for name in fields if name not in FIELDS]
    except (ValueError, TypeError, AttributeError) as error:
        raise StorageError(f"message {message_id!r} on {destination} is damaged ({error}); restore a backup") from None
    if unknown:
        raise StorageError(
            f"message {message_id!r} on {destination} has unknown attributes {', '.join(unknown)}; "
            "open the storage with the release that wrote it"
        )
    kept: dict[str, Any] = {"properties": properties, "packed": packed, "extra": extra, "path": path}
    message = Message(message_id, destination, body, persistent=True, **kept)
    for name, value in fields.items():
        setattr(message, name, value)
    return message


def key(name: str) -> str | bytes:
    """A name as a column of SQLite takes it: text, or bytes if it is not Unicode."""
    if name.isascii():
        return name
    raw = name.encode("utf-8", "surrogatepass")
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw
    return name


def name(key: str | bytes) -> str:
    """The name behind a column."""
    return key if isinstance(key, str) else key.decode("utf-8", "surrogatepass")
