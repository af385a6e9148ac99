"""What is fuzzed: for each codec the frames to begin with and one function that takes any bytes.

Rules
* A target returns, whatever it is given. An exception that leaves it is a defect: the error of the protocol
  (``StompProtocolError``, ``WireError``, ``FramingError``) is expected and does not leave it.
* What could be read can be written, and is read back the same.
* The first byte of an input chooses what is around the frame: the version, the chunks, caches.

Three ways lead here: Hypothesis (``tests/quality/test_fuzz.py``), atheris and our own seeded mutator (``__main__.py``).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

from brokerproof.reference_broker.openwire.framing import OpenWireFraming
from brokerproof.reference_broker.openwire.wire.body import decode_body
from brokerproof.reference_broker.openwire.wire.codec import Codec
from brokerproof.reference_broker.openwire.wire.errors import WireError
from brokerproof.reference_broker.openwire.wire.kinds import Data
from brokerproof.reference_broker.openwire.wire.negotiation import Offer
from brokerproof.reference_broker.openwire.wire.primitives import decode_map
from brokerproof.reference_broker.session.framing import FramingError, Limits
from brokerproof.reference_broker.stomp.codec import FrameDecoder, encode
from brokerproof.reference_broker.stomp.frames import VERSIONS, Frame, Heartbeat, StompProtocolError
from tests.fast.reference_broker.openwire.wire_data import JavaMaker, Maker

LIMITS: Final = Limits(max_headers=20, max_header_bytes=256, max_body_bytes=4096)
WIRE_VERSIONS: Final = (1, 9, 10, 11, 12)
#: OpenWire frames to begin with, of each version.
_COMMANDS: Final = 150


class Target:
    """``run`` takes any bytes; ``samples`` are good ones; ``words`` are worth putting in somewhere."""

    def __init__(self, run: Callable[[bytes], bool], samples: list[bytes], words: list[bytes]) -> None:
        self.run = run
        self.samples = samples
        self.words = words


def stomp(data: bytes) -> bool:
    """A stream of frames in one of the versions; True if all of it could be read."""
    if not data:
        return True
    step = data[0] // 3 or len(data)
    decoder = FrameDecoder(LIMITS)
    decoder.version = VERSIONS[data[0] % 3]
    whole = True
    items: list[Frame | Heartbeat] = []
    try:
        for start in range(1, len(data), step):
            items += decoder.feed(data[start : start + step])
            assert decoder.buffered_bytes <= LIMITS.max_header_bytes + LIMITS.max_body_bytes + 1 + step
    except StompProtocolError as error:
        items += error.frames
        whole = False
    version = VERSIONS[data[0] % 3]
    for item in items:
        if isinstance(item, Frame):
            version = _write_again(item, version)
    return whole


def _write_again(frame: Frame, version: str) -> str:
    """Write what was read in a version, and read that; returns the version in which the next frame was read."""
    again = FrameDecoder()
    again.version = version
    (read,) = again.feed(encode(frame, version))
    headers = frame.headers
    if frame.body and "content-length" not in headers:
        headers = {**headers, "content-length": str(len(frame.body))}
    assert read == Frame(frame.command, headers, frame.body)
    return again.version


def _openwire(tight: bool) -> Callable[[bytes], bool]:
    def run(data: bytes) -> bool:
        """One frame without its size, to the codec and through the framing of a broker that has agreed with a peer."""
        if not data:
            return True
        version = WIRE_VERSIONS[data[0] % len(WIRE_VERSIONS)]
        cache = 1024 if data[0] // len(WIRE_VERSIONS) % 2 else 0
        frame = data[1:]
        whole = True
        found = None
        codec = Codec(version, tight=tight, cache_size=cache, stack_traces=True)
        try:
            found = codec.decode(frame)
            if found is not None:
                _look_inside(found)
        except WireError:
            whole = False
        if found is not None:
            again = Codec(version, tight=tight, stack_traces=True)
            written = again.encode(found)
            # The second time by what was learnt from the first; with a cache an index may mean something else by then.
            assert again.encode(found) == written
            reads = [again.decode(written[4:]), again.decode(written[4:])] + ([] if cache else [codec.decode(frame)])
            for read in reads:
                # What is not a number equals nothing, itself included.
                assert read == found or repr(read) == repr(found)
        framing = OpenWireFraming(Limits())
        try:
            framing.feed(_HELLOS[version, tight, cache])
            framing.feed(len(frame).to_bytes(4, "big") + frame)
        except FramingError:
            whole = False
        return whole

    return run


def _look_inside(found: Data) -> None:
    """Bodies and properties, which are read when somebody asks for them."""
    index = found.kind.index
    if "content" in index:
        decode_body(found, 4096)
        properties = found["marshalledProperties"]
        if isinstance(properties, bytes):
            decode_map(properties)


def _hello(version: int, tight: bool, cache: int) -> bytes:
    offer = Offer()
    offer.version = version
    offer.tight = tight
    offer.cache_size = cache
    return Codec().encode(offer.info())


_HELLOS: Final = {
    (version, tight, cache): _hello(version, tight, cache)
    for version in WIRE_VERSIONS
    for tight in (False, True)
    for cache in (0, 1024)
}


def _stomp_samples() -> list[bytes]:
    frames = [
        Frame("CONNECT", {"accept-version": "1.0,1.1,1.2", "host": "h", "heart-beat": "1000,1000"}),
        Frame("CONNECTED", {"version": "1.2", "heart-beat": "0,0"}),
        Frame("SEND", {"destination": "/queue/a", "content-length": "4", "receipt": "r"}, b"a\0b\n"),
        Frame("SEND", {"destination": "/queue/a", "kind": "é€\U0001f600", "expires": "1"}, b"text"),
        Frame("SUBSCRIBE", {"id": "1", "destination": "/topic/>", "ack": "client", "selector": "a = 'b'"}),
        Frame("MESSAGE", {"message-id": "m", "subscription": "1", "destination": "/queue/a"}, b"x" * 300),
        Frame("ACK", {"id": "1-1", "transaction": "t"}),
        Frame("ERROR", {"message": "no"}, b"because"),
        Frame("DISCONNECT", {"receipt": "bye"}),
    ]
    made = []
    for number, version in enumerate(VERSIONS):
        made += [bytes([number]) + encode(frame, version) for frame in frames]
        made.append(bytes([number + 3 * 7]) + b"\n".join(encode(frame, version) for frame in frames))
        made.append(bytes([number]) + b"\r\n\nSEND\r\na:b\r\n\r\nc\0\n")
    made.append(bytes([0]) + encode(Frame("SEND", {"a:b\n\\": "c\r:\\n"}, b"")))
    return made


def _openwire_samples(tight: bool) -> list[bytes]:
    made = []
    for number, version in enumerate(WIRE_VERSIONS):
        for seed in range(_COMMANDS):
            # One half is what Java's classes can hold, the other half anything that the encoding can say.
            maker = (JavaMaker if seed % 2 else Maker)(seed, version)
            frame = Codec(version, tight=tight, stack_traces=True).encode(maker.command())[4:]
            made.append(bytes([number + len(WIRE_VERSIONS) * (seed // 2 % 2)]) + frame)
    return made


_STOMP_WORDS: Final = [
    *(b"\0", b"\n", b"\n\n", b"\r\n", b":", b"\\", b"\\c", b"\\n", b"\\r", b"\\\\", b"\\t", b"\xff", b"\xc3"),
    *(b"content-length:", b"content-length:0\n", b"content-length:99999999999999999999\n", b"content-length:-1\n"),
    *(b"SEND\n", b"CONNECT\n", b"CONNECTED\nversion:1.0\n\n\0", b"MESSAGE\n\n\0", b"a:b\n" * 30, b"x" * 300),
]
_OPENWIRE_WORDS: Final = [
    *(b"\0", b"\1", b"\xff", b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\xff\xff\xff\xff", b"\0\0", b"\xff\xff"),
    *(b"\0\1", b"\xc0\x80", b"\xed\xa0\x80", b"\x08\0\0\0\5", b"\x09\0\5", b"\x0a", b"\1\x78\x9c", b"\x1f\x17"),
]


def target(name: str) -> Target:
    """By name. Samples are made here, not at import."""
    if name == "stomp":
        return Target(stomp, _stomp_samples(), _STOMP_WORDS)
    tight = name == "openwire-tight"
    return Target(_openwire(tight), _openwire_samples(tight), _OPENWIRE_WORDS)


NAMES: Final = ("stomp", "openwire-loose", "openwire-tight")


class Mutator:
    """Valid frames, damaged; the same ones for the same seed."""

    def __init__(self, of: Target, seed: int) -> None:
        self._samples = of.samples
        self._words = of.words
        self._random = random.Random(seed)  # noqa: S311 - no secrets here

    def next(self) -> bytes:
        draw = self._random
        data = bytearray(draw.choice(self._samples))
        for _ in range(draw.choice((0, 1, 1, 1, 2, 2, 3, 5))):
            self._damage(data)
        return bytes(data)

    def _damage(self, data: bytearray) -> None:
        draw = self._random
        kind = draw.randrange(7)
        at = draw.randrange(len(data) + 1)
        if kind == 0:
            data[at : at + 1] = bytes([draw.randrange(256)])
        elif kind == 1:
            data[at:at] = draw.choice(self._words)
        elif kind == 2:
            word = draw.choice(self._words)
            data[at : at + len(word)] = word
        elif kind == 3:
            del data[at : at + draw.choice((1, 1, 2, 4, 8, 50))]
        elif kind == 4:
            data[at:at] = data[at : at + draw.choice((1, 4, 20, 100))]
        elif kind == 5:
            del data[at:]
        else:
            other = draw.choice(self._samples)
            start = draw.randrange(len(other))
            data[at:] = other[start:]
