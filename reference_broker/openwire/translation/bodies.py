"""Bodies between protocols: what an OpenWire message says to a protocol that knows octets and texts only, and back.

Rules (as ActiveMQ's STOMP translator)
* A TextMessage is its text in UTF-8, a BytesMessage its octets, compressed or not. All other kinds (stream, object,
  blob, none, and maps beyond what ``stomp/maps.py`` reads) have nothing to say there: an empty body.
* A text of another protocol becomes a TextMessage. What is not UTF-8 in it is replaced, as Java does.
* A body that cannot be read, or that would inflate beyond the limit, is empty there too: it harms nobody.
"""

from __future__ import annotations

from typing import Final

from brokerproof.reference_broker.openwire.wire import messages as kinds
from brokerproof.reference_broker.openwire.wire.body import INFLATED_MAX, decode_body
from brokerproof.reference_broker.openwire.wire.errors import WireError
from brokerproof.reference_broker.openwire.wire.text import encode_text

#: Added to a kind's number in a message's ``form``.
COMPRESSED: Final = 0x100
_READABLE: Final = {kind.number: kind for kind in (kinds.TEXT_MESSAGE, kinds.BYTES_MESSAGE)}


def plain_body(form: int, body: bytes, limit: int = INFLATED_MAX) -> bytes:
    """The octets or UTF-8 of a body in one of OpenWire's forms."""
    kind = _READABLE.get(form % COMPRESSED)
    if kind is None or not body:
        return b""
    try:
        found = decode_body(kind.make(content=body, compressed=form >= COMPRESSED), limit)
    except WireError:
        return b""
    if isinstance(found, str):
        return found.encode("utf-8", "replace")
    return found if isinstance(found, bytes) else b""


def text_content(body: bytes) -> bytes:
    """The content of a TextMessage for UTF-8."""
    if not body.isascii() or b"\0" in body:
        body = encode_text(body.decode("utf-8", "replace"))
    return len(body).to_bytes(4, "big") + body
