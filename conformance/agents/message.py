"""What a message of the suite looks like: its body, its properties, and what is told of one that arrives.

A message's token is the first line of its body, then come as many dots as its size asks for: so a broker that renames,
copies or dead-letters a message cannot confuse them. Before the dots of a longer one stand octets that end frames and
lines, or that some way of storing texts escapes: a body is octets.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

from brokerproof.conformance.experiment.wire_names import HEADERS, LIFE
from brokerproof.reference_broker.core.message import TEMP_QUEUE
from brokerproof.reference_broker.openwire.requests import DELIVERY_TIME

if TYPE_CHECKING:
    from brokerproof.conformance.experiment.operations import Send
    from brokerproof.reference_broker.session.notice import Delivered

#: The property by which an advisory names a message; the spelling is ActiveMQ's.
ORIGINAL_ID: Final = "orignalMessageId"
#: How often a message was delivered before.
DELIVERIES: Final = HEADERS["delivery_count"]
#: The last instant of the calendar of clients and brokers: milliseconds since 1970.
LAST_MS: Final = 2**63 - 1
#: Headers of ``operations.Headers`` that are no properties.
FIELDS: Final = frozenset({"correlation-id", "type"})
#: Properties that the suite's programs may have put on a message, and what a queue manager writes on dead letters and
#: reports.
_OURS: Final = re.compile("(?!brokerproof_)[a-z]+_[A-Za-z0-9_]*|(?:JMS_IBM|MQDLH)_[A-Za-z_]+")
#: What a client calls its temporary queue, which is made on its connection when it is first named; others know it by
#: the name that ``reply_to`` tells. The spelling is STOMP's.
OWN_TEMPORARY: Final = "/temp-queue/own"


#: What stands before the dots of bodies that are so long.
_TELLING: Final = "\0\r\n\\n:\t\N{LATIN SMALL LETTER E WITH ACUTE}\0".encode()
_TELLING_BYTES: Final = 200


def make_body(message: str, size: int) -> bytes:
    """The body of a message: its token, an end of line, what tells octets from text, dots up to ``size`` bytes."""
    head = message.encode() + b"\n" + (_TELLING if size >= _TELLING_BYTES else b"")
    return head + b"." * (size - len(head))


def read_body(body: bytes) -> str:
    """The token in a body; empty if the suite did not write it."""
    token, end, rest = body.partition(b"\n")
    if not end or rest.strip(b"." + _TELLING) or not token or not token.isascii() or b" " in token:
        return ""
    return token.decode("ascii")


def properties_of(operation: Send) -> dict[str, str | bool | int | float]:
    """The properties of a message. ``forged``: STOMP headers pretend that delivery count."""
    properties = {name: value for name, value in operation.headers.items() if name not in FIELDS}
    if operation.kind:
        properties["kind"] = operation.kind
    if operation.life_ms:
        properties[LIFE] = operation.life_ms
    if operation.forged:
        properties |= {"JMSXDeliveryCount": str(operation.forged), "JMSRedelivered": "true"}
    return properties


#: What an arrival does not tell where the broker has no word for it; there is no value that means the same.
UNTOLD = frozenset({"persistent", "priority", "redelivered"})


def arrival_of(item: Delivered) -> dict[str, Any]:
    """What is told of a message that reached its consumer's host, in the words of an agent's ``arrive``."""
    dead = item.properties if item.original_destination else {}
    before = number_in(item.properties, DELIVERIES)  # where a broker has a word for it over STOMP
    return {
        "redelivered": item.redelivered,
        "delivery_count": item.delivery_count or (None if before is None else before + 1),
        "expiration_ms": item.expiration_ms,
        "timestamp_ms": item.timestamp_ms,
        "original_dest": item.original_destination or None,
        "dest": item.destination or None,
        "kind": str(item.properties.get("kind", "")) or None,
        "group": item.group or None,
        "priority": item.priority,
        "body": crc32(item.body),
        "persistent": item.persistent,
        "properties": sorted(name for name in item.properties if name != DELIVERIES),
        "original_expiration_ms": number_in(dead, "originalExpiration"),
        "cause": str(dead.get("dlqDeliveryFailureCause", "")) or None,
        "delivery_time_ms": number_in(item.properties, DELIVERY_TIME),
        "headers": _headers_of(item),
        "original_id": str(item.properties.get(ORIGINAL_ID, "")) or None,
        "reply_to": item.reply_to if item.reply_to.startswith(TEMP_QUEUE) else None,
    }


def _headers_of(item: Delivered) -> dict[str, str | bool | int | float]:
    """What applications alone read; where answers are asked for is told as a kind, since names of queues differ."""
    fields = {"correlation-id": item.correlation_id, "type": item.jms_type, "reply-to": item.reply_to}
    if item.reply_to.startswith((TEMP_QUEUE, "/temp-queue/")):
        fields["reply-to"] = "temporary"
    return read_by_applications(item.properties, fields)


def read_by_applications(
    properties: Mapping[str, Any], fields: Mapping[str, str | None]
) -> dict[str, str | bool | int | float]:
    """Properties that the suite may have sent, and the fields that have a value."""
    ours = {name: _plain(value) for name, value in properties.items() if _OURS.fullmatch(name)}
    return ours | {name: value for name, value in fields.items() if value}


def _plain(value: str | bool | int | float) -> str | bool | int | float:
    """Without the width that the wire gave a number: a sum has none, where a compiled ``int`` may leave it."""
    return value if isinstance(value, str | bool) else value + 0 if isinstance(value, int) else float(value)


def number_in(properties: Mapping[str, object], name: str) -> int | None:
    """A property that is a whole number, or the text of one; None if it is not there, or is none."""
    value = properties.get(name)
    if isinstance(value, str) and value.removeprefix("-").isdecimal():
        return int(value)
    return value + 0 if isinstance(value, int) and not isinstance(value, bool) else None
