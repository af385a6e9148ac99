"""Java's modified UTF-8: how OpenWire writes texts.

Rules (openwire.md 5.2)
* Each UTF-16 code unit is encoded by itself: U+0000 as ``C0 80``, characters above U+FFFF as two surrogates of three
  bytes each. So a byte 0 and a four-byte sequence never occur.
* A lone surrogate is encoded as it is and comes back as it was: a broker hands texts on, it does not mend them.
"""

from __future__ import annotations

from typing import Final

from brokerproof.reference_broker.openwire.wire.errors import WireError

#: The first and the last one: a compiler of modules refuses them between quotation marks.
_SURROGATES: Final = (chr(0xD800), chr(0xDFFF))


def encode_text(text: str) -> bytes:
    """The bytes of a text."""
    if text.isascii() and "\0" not in text:
        return text.encode("ascii")
    if all(character <= "\uffff" for character in text):
        return text.encode("utf-8", "surrogatepass").replace(b"\0", b"\xc0\x80")
    units = text.encode("utf-16-be", "surrogatepass")
    pieces = [units[at : at + 2].decode("utf-16-be", "surrogatepass") for at in range(0, len(units), 2)]
    return b"".join(piece.encode("utf-8", "surrogatepass") for piece in pieces).replace(b"\0", b"\xc0\x80")


def decode_text(data: bytes) -> str:
    """The text of bytes. Plain UTF-8 of four bytes is understood too: other writers use it. Raises ``WireError``."""
    if data.isascii():
        return data.decode("ascii")
    try:
        text = data.replace(b"\xc0\x80", b"\0").decode("utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        raise WireError(f"text of {len(data)} bytes is not modified UTF-8 at byte {error.start}") from None
    if any(_SURROGATES[0] <= character <= _SURROGATES[1] for character in text):
        return text.encode("utf-16-be", "surrogatepass").decode("utf-16-be", "surrogatepass")
    return text
