"""What a frame costs in the codecs: nanoseconds to write and to read, each encoding.

Run: ``python benchmarks/codec.py [--rounds N] [--profile]``. A message of 1 KiB with a few properties and a small
command without a body; STOMP in its versions, OpenWire loose and tight, with and without caches. Processor time, the
median of the rounds; reading is fed as a socket would, 64 KiB at a time.
"""

from __future__ import annotations

import argparse
import cProfile
import platform
import pstats
import sys
import time
from collections.abc import Callable
from statistics import median

from brokerproof.reference_broker.openwire.wire import codec as openwire
from brokerproof.reference_broker.openwire.wire.ids import MESSAGE_ID, PRODUCER_ID, QUEUE
from brokerproof.reference_broker.openwire.wire.kinds import Data
from brokerproof.reference_broker.openwire.wire.messages import BYTES_MESSAGE
from brokerproof.reference_broker.openwire.wire.responses import ANSWER as RESPONSE
from brokerproof.reference_broker.stomp import codec as stomp
from brokerproof.reference_broker.stomp.frames import VERSIONS, Frame

FRAMES = 2000
READ_BYTES = 65536
BODY = b"x" * 1024

SEND = Frame(
    "SEND",
    {
        "destination": "/queue/orders",
        "content-length": "1024",
        "persistent": "true",
        "expires": "1795219320000",
        "timestamp": "1795219200000",
        "receipt": "r17",
        "kind": "order",
    },
    BODY,
)
ACK = Frame("ACK", {"id": "12-345", "receipt": "r18"})
PRODUCER = PRODUCER_ID.make(connectionId="ID:host-40000-1795219200000-1:1", sessionId=1, value=1)
MESSAGE = BYTES_MESSAGE.make(
    producerId=PRODUCER,
    destination=QUEUE.make(physicalName="orders"),
    messageId=MESSAGE_ID.make(producerId=PRODUCER, producerSequenceId=17),
    persistent=True,
    expiration=1_795_219_320_000,
    timestamp=1_795_219_200_000,
    priority=4,
    content=BODY,
)
ANSWER = RESPONSE.make(correlationId=17)


def timed(work: Callable[[], object]) -> float:
    """Nanoseconds of one frame, of ``FRAMES`` that are worked on at once."""
    start = time.process_time_ns()
    work()
    return (time.process_time_ns() - start) / FRAMES


def fed(feed: Callable[[bytes], object], data: bytes) -> None:
    for start in range(0, len(data), READ_BYTES):
        feed(data[start : start + READ_BYTES])


def stomp_work(version: str, frame: Frame) -> tuple[Callable[[], object], Callable[[], object]]:
    """Writing and reading."""

    def write() -> None:
        for _ in range(FRAMES):
            stomp.encode(frame, version)

    data = stomp.encode(frame, version) * FRAMES
    decoder = stomp.FrameDecoder()
    decoder.version = version
    return write, lambda: fed(decoder.feed, data)


def openwire_work(command: Data, tight: bool, cache: int) -> tuple[Callable[[], object], Callable[[], object]]:
    """Writing and reading; both ends keep their caches from round to round."""
    writes, reads = (openwire.Codec(12, tight=tight, cache_size=cache) for _ in range(2))

    def write() -> None:
        for _ in range(FRAMES):
            writes.encode(command)

    def read() -> None:
        decoder = openwire.FrameDecoder()

        def take(part: bytes) -> None:
            for frame in decoder.feed(part):
                reads.decode(frame)

        fed(take, data)

    first = writes.encode(command)
    reads.decode(first[4:])
    data = writes.encode(command) * FRAMES
    return write, read


def cases() -> dict[str, tuple[Callable[[], object], Callable[[], object]]]:
    """By name: writing and reading."""
    found = {}
    for name, frame in (("message", SEND), ("small", ACK)):
        for version in reversed(VERSIONS):
            found[f"STOMP {version} {name}"] = stomp_work(version, frame)
    for name, command in (("message", MESSAGE), ("small", ANSWER)):
        for tight in (False, True):
            for cache in (0, 1024):
                how = f"{'tight' if tight else 'loose'}{', cache' if cache else ''}"
                found[f"OpenWire 12 {how} {name}"] = openwire_work(command, tight, cache)
    return found


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--profile", action="store_true", help="the three largest costs of each")
    options = parser.parse_args()
    print(f"{platform.machine()}, Python {platform.python_version()}; ns per frame")
    for name, both in cases().items():
        write_ns, read_ns = (median(timed(work) for _ in range(options.rounds)) for work in both)
        print(f"{name:36} write {write_ns:8,.0f}   read {read_ns:8,.0f}")
        if options.profile:
            for work in both:
                print_costs(work)
    return 0


def print_costs(work: Callable[[], object]) -> None:
    profile = cProfile.Profile()
    profile.runcall(work)
    rows = pstats.Stats(profile).stats.items()  # type: ignore[attr-defined]  # there since 2.5, not in the stubs
    for (file, _, name), row in sorted(rows, key=lambda item: -item[1][2])[:3]:
        print(f"    {1e9 * row[2] / FRAMES:8,.0f} ns  {name} ({file.rsplit('/', 1)[-1]}), {row[0] / FRAMES:.1f} calls")


if __name__ == "__main__":
    sys.exit(main())
