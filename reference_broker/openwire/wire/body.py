"""What is inside a message: its body by kind, compressed or not, and its properties (openwire.md 9.1).

* A compressed body is a zlib stream of the plain one, except that of a BytesMessage, which has its plain length in
  front. Nothing inflates beyond ``limit``.
* A broker need not look inside; a client must understand both forms.
"""

from __future__ import annotations

import zlib
from typing import Final

from brokerproof.reference_broker.openwire.wire.buffers import Reader, Writer
from brokerproof.reference_broker.openwire.wire.errors import WireError
from brokerproof.reference_broker.openwire.wire.kinds import Data, Kind
from brokerproof.reference_broker.openwire.wire.messages import (
    BYTES_MESSAGE,
    MAP_MESSAGE,
    MESSAGE,
    OBJECT_MESSAGE,
    STREAM_MESSAGE,
    TEXT_MESSAGE,
)
from brokerproof.reference_broker.openwire.wire.primitives import Value, decode_map, encode_map, read_value, write_value
from brokerproof.reference_broker.openwire.wire.text import decode_text, encode_text

#: The largest inflated body.
INFLATED_MAX: Final = 104_857_600


def encode_body(kind: Kind, body: Value, *, compress: bool = False) -> bytes | None:
    """The ``content`` of a message: ``str`` for text, ``bytes`` for bytes and objects, ``dict`` for maps, ``list`` for
    streams, None for none. Raises ``WireError``.
    """
    if body is None:
        return None
    plain = _plain(kind, body)
    if not compress:
        return plain
    if kind is BYTES_MESSAGE:
        return len(plain).to_bytes(4, "big") + zlib.compress(plain)
    return zlib.compress(plain)


def decode_body(message: Data, limit: int = INFLATED_MAX) -> Value:
    """The body of a message, in the same types. Raises ``WireError``."""
    content = message["content"]
    if not isinstance(content, bytes):
        return None
    kind = message.kind
    if message["compressed"]:
        content = _inflate(content[4:] if kind is BYTES_MESSAGE else content, limit)
    if kind is TEXT_MESSAGE:
        reader = Reader(content)
        size = reader.i32()
        return None if size == -1 else decode_text(reader.take(size, "a text"))
    if kind is MAP_MESSAGE:
        return decode_map(content)
    if kind is STREAM_MESSAGE:
        reader = Reader(content)
        items = []
        while reader.left():
            items.append(read_value(reader))
        return items
    return content


def _plain(kind: Kind, body: Value) -> bytes:
    if kind is TEXT_MESSAGE and isinstance(body, str):
        data = encode_text(body)
        return len(data).to_bytes(4, "big") + data
    if kind in (BYTES_MESSAGE, OBJECT_MESSAGE) and isinstance(body, bytes):
        return body
    if kind is MAP_MESSAGE and isinstance(body, dict):
        return encode_map(body)
    if kind is STREAM_MESSAGE and isinstance(body, list):
        writer = Writer()
        for item in body:
            write_value(writer, item)
        return bytes(writer.data)
    if kind is MESSAGE:
        raise WireError(f"{kind.name} has no body; choose another kind for {body!r:.40}")
    raise WireError(f"{body!r:.40} ({type(body).__name__}) is no body of {kind.name}")


def _inflate(content: bytes, limit: int) -> bytes:
    inflater = zlib.decompressobj()
    try:
        plain = inflater.decompress(content, limit + 1)
    except zlib.error as error:
        raise WireError(f"a compressed body of {len(content)} bytes cannot be inflated: {error}") from None
    if len(plain) > limit:
        raise WireError(f"a compressed body of {len(content)} bytes inflates to more than {limit}")
    if not inflater.eof:
        raise WireError(f"a compressed body of {len(content)} bytes is cut off")
    return plain
