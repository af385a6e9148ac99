"""Messages as bytes and back: what a storage writes of a message beside its names.

A head is a JSON object with the attributes that differ from their defaults; the body stands beside it, unchanged.

Rules:

* ``FIELDS`` is the whole list: an attribute of ``Message`` is in it, or in ``NOT_KEPT`` with its reason. A test
  compares both with the class, so that a new attribute cannot be forgotten.
* A head of a later release with an attribute that we do not know is refused, never half understood.
* Any text that a client could send survives, unpaired surrogates included: JSON escapes them, ``key`` stores a name
  that is not Unicode as bytes.

Change together: ``core/message.py``; ``sqlite.SCHEMA_VERSION`` when the meaning of a stored attribute changes.
"""

from __future__ import annotations

import json
from typing import Any, Final

from reference_broker.core.message import DEFAULT_PRIORITY, Message
from reference_broker.storage.journal import StorageError

#: attribute -> the value that is not written.
FIELDS: Final[dict[str, object]] = {
    "timestamp_ms": 0,
    "expiration_ms": 0,
    "delay_ms": 0,
    "deliver_at_ms": 0,
    "ttl_ms": 0,
    "priority": DEFAULT_PRIORITY,
    "properties": {},
    "correlation_id": "",
    "reply_to": "",
    "jms_type": "",
    "group_id": "",
    "group_sequence": 0,
    "original_destination": "",
    "sequence": 0,
}
#: attribute -> why the head has none.
NOT_KEPT: Final[dict[str, str]] = {
    "accepted_mono_ns": "elapsed time has no meaning in another process",
    "body": "stands beside the head",
    "destination": "stands beside the head",
    "message_id": "stands beside the head",
    "persistent": "everything that is stored is",
    "redelivery_count": "not known after a restart, as in ActiveMQ (persistJMSRedelivered is off)",
    "sender": "connections do not survive",
}
_ITEMS: Final = tuple(FIELDS.items())
_dump = json.JSONEncoder(separators=(",", ":")).encode


def encode_head(message: Message) -> str:
    """The attributes of a message, without names and body."""
    head: dict[str, Any] = {}
    for name, default in _ITEMS:
        value = getattr(message, name)
        if value != default:
            head[name] = value
    return _dump(head)


def decode(destination: str, message_id: str, head: str, body: bytes) -> Message:
    """The message again. Raises ``StorageError`` for a head that is not one of ours."""
    try:
        fields = json.loads(head)
        unknown = [name for name in fields if name not in FIELDS]
    except (ValueError, TypeError) as error:
        raise StorageError(f"message {message_id!r} on {destination} is damaged ({error}); restore a backup") from None
    if unknown:
        raise StorageError(
            f"message {message_id!r} on {destination} has unknown attributes {', '.join(unknown)}; "
            "open the storage with the release that wrote it"
        )
    message = Message(message_id, destination, body, persistent=True)
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
