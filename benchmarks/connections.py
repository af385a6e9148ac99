"""What many idle connections cost, and what readers that stop cost the broker and the others.

Run: ``python benchmarks/connections.py [--idle N] [--seconds N] [--rounds N]``. The reference broker as it is served;
clients are processes of their own; the rate of the others is ``wire_load.py``'s (four producers with a queue and a
consumer each, 1 KiB). All is compared in one run, and the last measurement is like the first, so that the neighbours'
noise shows.

* ``--idle`` connections (10,000) that have said hello and nothing more: memory per connection, rate of the others.
* Readers that stop, one each: a consumer of a queue, which then holds 32 MiB; a subscriber of a topic with a
  ``pending_message_limit``, to which 200 MiB are sent; a client that asks for receipts and never reads them. After that
  flood somebody goes on to send to them, 500 messages a second, while the rate of the others is measured.

The exit code is 1 when the others keep less than half of their rate, or when a stopped reader costs more than 128 MiB.
"""

from __future__ import annotations

import argparse
import contextlib
import resource
import select
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Final

from wire import Contender, load

from brokerproof.chaos.brokers.stomp import handshake
from brokerproof.chaos.ports import free_port
from brokerproof.chaos.processes import Supervisor

PAIRS: Final = 4
RATE_PERCENT_MIN: Final = 50
MIB: Final = 1024 * 1024
MEMORY_MAX: Final = 128 * MIB
#: What is sent to a reader that has stopped, at once and then every second.
FLOOD: Final = {"queue": 32 * MIB, "topic": 200 * MIB, "receipts": 200 * MIB}
PACE: Final = 500
SETTINGS: Final = """
[[broker.destinations]]
match = "topic://stopped.>"
pending_message_limit = 1000
"""
HELLO: Final = b"CONNECT\naccept-version:1.2\nhost:b\n\n\0"
BODY: Final = b"x" * 1024


def open_socket(port: int, receive_buffer: int = 0) -> socket.socket:
    """A connection that has said hello."""
    made = socket.socket()
    if receive_buffer:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    made.settimeout(60)
    made.connect(("127.0.0.1", port))
    made.sendall(HELLO)
    if not made.recv(4096).startswith(b"CONNECTED"):
        raise SystemExit("the broker does not let us in")
    return made


def hold(port: int, count: int) -> None:
    """Keep connections open until standard input ends."""
    kept = [open_socket(port) for _ in range(count)]
    print("ready", flush=True)
    sys.stdin.read()
    del kept


def stop_reading(port: int, what: str) -> None:
    """Stop to read, be flooded, say what got through, be sent some more until standard input ends."""
    reader = feeder = open_socket(port, receive_buffer=4096)
    if what == "receipts":
        frame = b"SEND\ndestination:/topic/nobody\nreceipt:" + b"r" * 512 + b"\n\n\0"
    else:
        destination = f"/{what}/stopped.{what}"
        reader.sendall(f"SUBSCRIBE\nid:s\ndestination:{destination}\nack:client\nreceipt:r\n\n\0".encode())
        reader.recv(4096)
        feeder = open_socket(port)
        frame = f"SEND\ndestination:{destination}\n\n".encode() + BODY + b"\0"
    sent = 0
    feeder.settimeout(5)
    with contextlib.suppress(TimeoutError):
        while sent < FLOOD[what]:
            feeder.sendall(frame * 20)
            sent += 20 * len(frame)
    print(sent, flush=True)
    feeder.setblocking(False)
    poll = select.poll()
    poll.register(sys.stdin, select.POLLIN | select.POLLHUP)
    while not poll.poll(100):
        with contextlib.suppress(BlockingIOError):  # it is not read; nothing may be written in part any more
            if what != "receipts":
                feeder.send(frame * (PACE // 10))


class Helper:
    """One of the functions above in a process of its own."""

    def __init__(self, port: int, *words: str) -> None:
        command = [sys.executable, __file__, "--port", str(port), *words]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        #: What it says when it is ready.
        self.line = self.process.stdout.readline().strip()

    def end(self) -> None:
        self.process.communicate()


def resident(contender: Contender) -> int:
    """Bytes of memory of the broker's process."""
    for line in Path(f"/proc/{contender.process.pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise SystemExit("the broker is gone")


class Others:
    """The rate of the others, with and without somebody beside them, in turn."""

    def __init__(self, contender: Contender, rounds: int, seconds: float) -> None:
        self._contender = contender
        self._rounds = rounds
        self._seconds = seconds
        self.alone: list[float] = []

    def measure(self) -> tuple[float, float]:
        """Messages a second, and the broker's processor time for each in microseconds."""
        runs = [load(self._contender, False, PAIRS, self._seconds) for _ in range(self._rounds)]
        return median(run["per_second"] for run in runs), median(run["processor_us"] for run in runs)

    def measure_alone(self) -> None:
        self.alone.append(self.measure()[0])


def start(supervisor: Supervisor, folder: Path) -> Contender:
    settings = folder / "broker.toml"
    settings.write_text(SETTINGS, encoding="utf-8")
    port = free_port()
    words = [sys.executable, "-m", "brokerproof.reference_broker.server", "--config", settings, "--port", str(port)]
    process = supervisor.spawn("reference", words, cwd=folder)
    return Contender(str(process.await_ready(lambda: handshake(port))), port, process)


def measure(contender: Contender, idle: int, rounds: int, seconds: float) -> list[str]:
    """All measurements; returns what was missed."""
    others = Others(contender, rounds, seconds)
    found: dict[str, tuple[float, float]] = {}
    missed = []
    others.measure_alone()
    before = resident(contender)
    began = time.monotonic()
    held = Helper(contender.port, "--hold", str(idle))
    took = time.monotonic() - began
    each = (resident(contender) - before) / idle
    print(f"{idle} idle connections in {took:.1f} s: {each / 1024:.1f} KiB each in the broker")
    found[f"beside {idle} idle connections"] = others.measure()
    held.end()
    for what in FLOOD:
        others.measure_alone()
        before = resident(contender)
        stopped = Helper(contender.port, "--stop", what)
        found[f"beside a reader that stops ({what})"] = others.measure()
        cost = resident(contender) - before
        sent = int(stopped.line)
        print(f"stopped reader, {what}: {cost / MIB:.1f} MiB in the broker for {sent / MIB:.0f} MiB that were sent")
        if cost > MEMORY_MAX:
            missed.append(f"a stopped reader ({what}) costs {cost / MIB:.1f} MiB")
        stopped.end()
    others.measure_alone()
    base = median(others.alone)
    print(f"alone: {', '.join(f'{value:.0f}' for value in others.alone)} messages a second; median {base:.0f}")
    for name, (value, processor_us) in found.items():
        share = 100 * value / base
        print(f"{name}: {value:.0f} messages a second, {share:.0f} %; {processor_us:.0f} us of the processor for each")
        if share < RATE_PERCENT_MIN:
            missed.append(f"{name} the others keep {share:.0f} %")
    return missed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--idle", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--hold", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--stop", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.idle < 1:
        parser.error(f"--idle {given.idle} is too few; give 1 or more")
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if given.hold is not None:
        hold(given.port, given.hold)
        return 0
    if given.stop:
        stop_reading(given.port, given.stop)
        return 0
    with tempfile.TemporaryDirectory() as name, Supervisor(Path(name)) as supervisor:
        folder = Path(name) / "broker"
        folder.mkdir()
        missed = measure(start(supervisor, folder), given.idle, given.rounds, given.seconds)
    for text in missed:
        print(f"missed: {text}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
