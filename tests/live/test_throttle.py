"""Producer flow control over a real socket: a producer whose bytes nobody reads, and then everything that it wrote.

Method: the queue's memory holds ten messages. The producer writes more than the sockets' buffers hold while nobody
consumes, so that a write times out if, and only if, the server has stopped reading.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from brokerproof.reference_broker.stomp.codec import encode
from brokerproof.reference_broker.stomp.frames import V12, Frame
from tests.live.test_server import Client, Server

pytestmark = pytest.mark.live

CONFIGURATION = """
[broker.generation]
memory = "G3"
[[broker.destinations]]
match = "q"
memory_limit_bytes = 20480
high_water_percent = 100
"""
BODY_BYTES = 1024
#: More than what the sockets of both ends can hold.
MESSAGES = 15_000


def fill(producer: Client, stream: bytes) -> int:
    """Write until the socket takes no more; returns how much that was."""
    producer.socket.settimeout(1.0)
    written = 0
    with contextlib.suppress(TimeoutError):
        while written < len(stream):
            written += producer.socket.send(stream[written : written + 65536])
    return written


def test_a_producer_is_not_read_while_memory_is_full_and_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "broker.toml"
    path.write_text(CONFIGURATION)
    # Each time that memory is full again is a line of the log, which nobody reads here.
    server = Server("--config", str(path), "--log-level", "WARN")
    try:
        producer = Client(server)
        headers = {"destination": "/queue/q", "persistent": "true"}
        bodies = [b"%06d" % number + b"." * (BODY_BYTES - 6) for number in range(MESSAGES)]
        stream = b"".join(encode(Frame("SEND", headers, body), V12) for body in bodies)
        written = fill(producer, stream)
        assert written < len(stream), "the server has gone on reading"
        assert (server.counters()["enqueued"], server.counters()["blocked_sends"]) == (10, 1)

        consumer = Client(server)
        consumer.send("SUBSCRIBE", {"id": "s", "destination": "/queue/q"})
        producer.socket.setblocking(False)
        seen = []
        while len(seen) < MESSAGES:
            with contextlib.suppress(BlockingIOError):
                written += producer.socket.send(stream[written : written + 65536])
            seen.append(int(consumer.frame().body[:6]))
        assert seen == list(range(MESSAGES))
    finally:
        server.stop()
