"""The load generator of ``wire.py``, in a process of its own: as many messages as a broker passes on, or a steady rate
of them with the time that each takes.

Run by ``wire.py``: ``python benchmarks/wire_load.py --port N [--protocol openwire] [--connections N] [--persistent]
[--rate N]`` prints one JSON object.

Rules
* The same bytes for every broker (``wire_protocols.py``); bodies of 1,024 bytes, a queue per producer, a producer's
  connection and a consumer's for each.
* Frames are made once and only counted, so that the generator costs little beside what it measures.
* End to end: a message counts when its consumer has it. Without ``--rate`` each producer keeps a window of messages on
  the way. A persistent message asks for an answer, and a producer waits for answers as it waits for deliveries.
* With ``--rate`` a message is timed from the moment at which it was due, so that a broker that falls behind is not
  spared the wait (no coordinated omission).
"""

from __future__ import annotations

import argparse
import json
import re
import selectors
import socket
import sys
import time

from wire_protocols import PROTOCOLS

#: Frames that are handed to a socket at once, if the window is not smaller.
BATCH = 20
#: What is measured begins after this part of the time.
WARM = 0.2
_STAMP = re.compile(rb"@(\d{19})")
_STAMP_BYTES = 20
_READ = 1 << 18


class Line:
    """One connection."""

    def __init__(self, port: int, quick: bool) -> None:
        #: Acknowledge what arrives at once: a broker that leaves Nagle's algorithm on waits for it, and with a small
        #: window nothing else moves meanwhile.
        self.quick = quick
        self.socket = socket.create_connection(("127.0.0.1", port), 10)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.waiting = memoryview(b"")

    def write(self) -> bool:
        """Hand over what waits; False if some of it still waits."""
        while self.waiting:
            try:
                self.waiting = self.waiting[self.socket.send(self.waiting) :]
            except BlockingIOError:
                return False
        return True

    def add(self, data: bytes) -> None:
        """Hand over this as well."""
        self.waiting = memoryview(bytes(self.waiting) + data)
        self.write()

    def read(self) -> bytes:
        try:
            part = self.socket.recv(_READ)
            if self.quick:
                self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
        except BlockingIOError:
            return b""
        if not part:
            raise SystemExit("wire_load: the broker closed a connection")
        return part


class Pair:
    """A producer, its queue and its consumer."""

    def __init__(self, arguments: argparse.Namespace, number: int) -> None:
        queue = f"wire{number}.{arguments.run}"
        quick = arguments.window < BATCH
        self.protocol = PROTOCOLS[arguments.protocol](queue, arguments.persistent)
        self.producer = Line(arguments.port, quick)
        self.consumer = Line(arguments.port, quick)
        self.protocol.open(self.producer.socket, self.consumer.socket)
        self.window = arguments.window
        self.count = min(BATCH, self.window)
        self.sent = self.received = self.answers = 0
        self.persistent = arguments.persistent
        self.tail = b""
        for line in (self.producer, self.consumer):
            line.socket.setblocking(False)

    def fill(self) -> None:
        """Send as long as the window is open."""
        producer = self.producer
        while producer.write():
            way = self.sent - min(self.received, self.answers if self.persistent else self.received)
            if way + self.count > self.window:
                return
            producer.waiting = memoryview(self.protocol.messages(self.count))
            self.sent += self.count

    def stamped(self, due: range) -> None:
        """Add messages that were due at these times."""
        self.producer.add(b"".join(self.protocol.stamped(b"@%019d" % due_ns) for due_ns in due))
        self.sent += len(due)

    def hear(self) -> bytes:
        """What the consumer's connection brings: it is counted and acknowledged."""
        data = self.consumer.read()
        self.received += self.protocol.deliveries(data)
        owed = self.protocol.acknowledgement(self.received)
        if owed:
            self.consumer.add(owed)
        return data

    def stamps(self, data: bytes) -> list[int]:
        """The times in what has arrived."""
        data = self.tail + data
        self.tail = data[-_STAMP_BYTES + 1 :]
        return [int(found) for found in _STAMP.findall(data)]


def flood(pairs: list[Pair], poll: selectors.BaseSelector, seconds: float) -> dict[str, float]:
    """As many as it takes: messages per second."""
    start = time.perf_counter()
    begin, end = start + seconds * WARM, start + seconds
    counted, begun = 0, 0.0
    while (now := time.perf_counter()) < end:
        if not begun and now >= begin:
            begun, counted = now, sum(pair.received for pair in pairs)
        for pair in pairs:
            pair.fill()
        for key, _ in poll.select(0.05):
            pair, is_consumer = key.data
            if is_consumer:
                pair.hear()
            else:
                pair.answers += pair.protocol.answers(pair.producer.read())
    total = sum(pair.received for pair in pairs)
    return {"per_second": (total - counted) / (now - begun), "messages": total}


def steady(pairs: list[Pair], poll: selectors.BaseSelector, seconds: float, rate: float) -> dict[str, float]:
    """A rate: the time that messages take."""
    start_ns = time.perf_counter_ns()
    begin_ns, end_ns = start_ns + int(seconds * WARM * 1e9), start_ns + int(seconds * 1e9)
    taken: list[int] = []
    # Each pair has its own clockwork, one after the other.
    gap_ns = int(1e9 * len(pairs) / rate)
    due_ns = [start_ns + gap_ns * number // len(pairs) for number in range(len(pairs))]
    while (now_ns := time.perf_counter_ns()) < end_ns:
        for number, pair in enumerate(pairs):
            due = range(due_ns[number], now_ns + 1, gap_ns)
            if due:
                pair.stamped(due)
                due_ns[number] = due[-1] + gap_ns
            pair.producer.write()
        for key, _ in poll.select(max(0.0, (min(due_ns) - time.perf_counter_ns()) / 1e9)):
            pair, is_consumer = key.data
            if not is_consumer:
                pair.producer.read()
                continue
            stamps = pair.stamps(pair.hear())
            arrived_ns = time.perf_counter_ns()
            taken += [arrived_ns - stamp for stamp in stamps if stamp >= begin_ns]
    taken.sort()
    expected = (end_ns - begin_ns) / gap_ns * len(pairs)
    if len(taken) < expected / 2:
        return {"messages": 0}
    return {
        "messages": len(taken),
        "p50_ms": taken[len(taken) // 2] / 1e6,
        "p99_ms": taken[len(taken) * 99 // 100] / 1e6,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--protocol", choices=PROTOCOLS, default="stomp")
    parser.add_argument("--run", default="0", help="part of the queues' names")
    parser.add_argument("--window", type=int, default=200, help="messages of a producer on the way, without --rate")
    parser.add_argument("--connections", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--persistent", action="store_true")
    parser.add_argument("--rate", type=float, default=0.0, help="messages per second; 0: as many as possible")
    arguments = parser.parse_args()
    pairs = [Pair(arguments, number) for number in range(arguments.connections)]
    poll = selectors.DefaultSelector()
    for pair in pairs:
        poll.register(pair.producer.socket, selectors.EVENT_READ, (pair, False))
        poll.register(pair.consumer.socket, selectors.EVENT_READ, (pair, True))
    found = (
        steady(pairs, poll, arguments.seconds, arguments.rate)
        if arguments.rate
        else flood(pairs, poll, arguments.seconds)
    )
    sys.stdout.write(json.dumps(found) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
