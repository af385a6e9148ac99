"""A bridge as a process of its own: ``python -m brokerproof.conformance.worlds.live.bridge_process [MUTANT]``.

It plays the reference broker's bridge between two brokers over real sockets, and tells what it does: requests on stdin,
events on stdout, one JSON object per line.

Requests: ``{"do": "dial", "near": …, "far": …, "name": …, "queues": […]}`` opens two sockets (``near`` and ``far`` are
``operations.Connect``, ``queues`` the names that the brokers know), ``{"do": "drop"}`` lets both vanish and is answered
by ``dropped``; the end of stdin ends the process.

Events, with ``t0`` and ``t1`` in nanoseconds of the machine's monotonic clock: ``open``, ``asked`` (for a consumer),
``listening``, ``passed``, ``answered``, ``settled``, ``ended`` (``end`` says which broker closed its connection; "" if
neither did), ``dropped``.

Rules
* What is done is told before the bytes of it are written: a process that is killed has told whatever a broker may have
  heard.
* A message came within the interval that the kernel's stamp gives (``agents/stamps.py``).
"""

from __future__ import annotations

import json
import os
import selectors
import socket
import sys
import time
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import msgspec

from brokerproof.conformance.agents.loop import CONNECT_TIMEOUT_S
from brokerproof.conformance.agents.message import read_body
from brokerproof.conformance.agents.protocol import jms_options, jms_url
from brokerproof.conformance.agents.stamps import (
    ANCILLARY_BYTES,
    Ancillary,
    ArrivalClock,
    Arrivals,
    ask_for_stamps,
    wall_reading,
)
from brokerproof.conformance.experiment import operations as ops
from brokerproof.conformance.worlds.crossings import PREFETCH, as_told
from brokerproof.reference_broker.core.instant import Now
from brokerproof.reference_broker.openwire.bridge import (
    FAR,
    NEAR,
    Bridge,
    Confirmed,
    GivenUp,
    Listening,
    PassedOn,
    Settled,
)
from brokerproof.reference_broker.openwire.broker_url import client_address
from brokerproof.reference_broker.session.framing import FramingError

if TYPE_CHECKING:
    from brokerproof.reference_broker.openwire.client import ClientSession
    from brokerproof.reference_broker.openwire.framing import ClientFraming
    from brokerproof.reference_broker.session.notice import Notice

_READ_BYTES: Final = 65536
#: Both sockets are looked at this often, so that an arrival without a kernel stamp is still known this closely.
_IDLE_S: Final = 0.02


class End:
    """One of its two connections."""

    def __init__(self, side: str, request: ops.Connect, connection_id: str) -> None:
        url = urlsplit(request.url)
        self.side = side
        self.socket = socket.create_connection((url.hostname or "", url.port or 0), timeout=CONNECT_TIMEOUT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        ask_for_stamps(self.socket)
        self.socket.setblocking(False)
        self.arrivals = Arrivals()
        target = client_address(jms_url(request, jms_options(request)))
        self.session: ClientSession = target.session(connection_id, connection_id, self.arrivals.earliest_ns)
        self.framing: ClientFraming = target.framing(connection_id)
        self.unsent = bytearray()


class BridgeProcess:
    """See the module's header."""

    def __init__(self, kind: type[Bridge]) -> None:
        self._kind = kind
        self._selector = selectors.DefaultSelector()
        self._selector.register(sys.stdin.fileno(), selectors.EVENT_READ)
        self._buffer = bytearray()
        self._clock = ArrivalClock()
        self._bridge: Bridge | None = None
        self._ends: list[End] = []
        self._lives = 0

    def run(self) -> None:
        """Serve until the end of the requests."""
        while True:
            events = self._selector.select(_IDLE_S if self._ends else None)
            if any(key.fd == sys.stdin.fileno() for key, _ in events) and not self._take_requests():
                return
            for end in list(self._ends):
                if end in self._ends:
                    self._read(end)
            self._write()

    def _take_requests(self) -> bool:
        part = os.read(sys.stdin.fileno(), _READ_BYTES)
        self._buffer += part
        while (place := self._buffer.find(b"\n")) >= 0:
            request = json.loads(self._buffer[:place])
            del self._buffer[: place + 1]
            if request["do"] == "dial":
                self._dial(request)
            else:
                self._forget()
                self._say("dropped")
        return bool(part)

    def _dial(self, request: dict[str, Any]) -> None:
        self._lives += 1
        name = f"ID:{request['name']}-{os.getpid()}-{self._lives}"
        try:
            for side in (NEAR, FAR):
                end = End(side, msgspec.convert(request[side], ops.Connect), f"{name}:{side}")
                self._ends.append(end)
                self._selector.register(end.socket, selectors.EVENT_READ)
        except OSError as error:
            self._end(f"nobody listens: {error}")
            return
        ids = {"near_id": f"ID:{request['near_name']}", "far_id": f"ID:{request['far_name']}"}
        near, far = (end.session for end in self._ends)
        self._bridge = self._kind(near, far, request["queues"], prefetch=PREFETCH, **ids)

    # -- what brokers say

    def _read(self, end: End) -> None:
        while end in self._ends:
            try:
                part, ancillary, _, _ = end.socket.recvmsg(_READ_BYTES, ANCILLARY_BYTES)
            except BlockingIOError:
                end.arrivals.nothing_there()
                return
            except OSError as error:
                self._end(f"connection lost: {error}", end)
                return
            read_ns = time.monotonic_ns()
            if not part:
                self._end("the broker closed the connection", end)
                return
            self._take_in(end, part, ancillary, read_ns)

    def _take_in(self, end: End, part: bytes, ancillary: Ancillary, read_ns: int) -> None:
        bridge = self._bridge
        assert bridge is not None, "ends have a bridge"
        first_ns, low_ns, high_ns = end.arrivals.read(self._clock, ancillary, read_ns)
        end.session.bytes_received(read_ns)
        try:
            frames = end.framing.feed(part)
        except FramingError as error:
            self._end(f"the broker breaks the protocol: {error.text}")
            return
        for number, frame in enumerate(frames, 1):
            # Only the last frame is known to have come with the stamped bytes.
            t0_ns = low_ns if number == len(frames) else first_ns
            before = bridge.is_open
            notices = bridge.receive(end.side, frame, Now(read_ns, wall_reading()[0]))
            if bridge.is_open and not before:
                self._say("open", t0_ns, high_ns)
                for one in bridge.wanted():
                    self._say("asked", consumer=one.consumer, dest=one.queue)
            for notice in notices:
                self._notice(notice, t0_ns, high_ns)
            if bridge.failure:
                self._end(bridge.failure)
                return

    def _notice(self, notice: Notice, t0_ns: int, t1_ns: int) -> None:
        if isinstance(notice, Listening):
            self._say("listening", t0_ns, t1_ns, consumer=notice.consumer, dest=notice.queue)
        elif isinstance(notice, PassedOn):
            dispatch = notice.dispatch
            which = {"consumer": dispatch.consumer_id, "message": read_body(dispatch.body)}
            if isinstance(notice, Settled):
                self._say("settled", t0_ns, t1_ns, **which)
            elif isinstance(notice, Confirmed | GivenUp):
                refusal = notice.text if isinstance(notice, GivenUp) else None
                self._say("answered", t0_ns, t1_ns, **which, dest=dispatch.destination, refusal=refusal)
            else:
                told, sent = as_told(notice)
                self._say("passed", t0_ns, t1_ns, **which, told=told, sent=sent)

    # -- what it says

    def _write(self) -> None:
        for end in list(self._ends):
            while (frame := end.session.next_output(time.monotonic_ns())) is not None:
                end.unsent += end.framing.encode(frame)
            try:
                while end.unsent:
                    del end.unsent[: end.socket.send(end.unsent)]
            except BlockingIOError:
                pass
            except OSError:
                # What the broker wrote before it closed is still to be read; the read finds the end of the stream.
                end.unsent.clear()
            wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if end.unsent else 0)
            if self._selector.get_key(end.socket).events != wanted:
                self._selector.modify(end.socket, wanted)

    def _end(self, reason: str, by: End | None = None) -> None:
        """This life is over."""
        earliest_ns = by.arrivals.earliest_ns if by is not None else None
        self._forget()
        self._say("ended", earliest_ns, end=by.side if by is not None else "", reason=reason)

    def _forget(self) -> None:
        for end in self._ends:
            self._selector.unregister(end.socket)
            end.socket.close()
        self._ends.clear()
        self._bridge = None

    def _say(self, event: str, t0_ns: int | None = None, t1_ns: int | None = None, **fields: object) -> None:
        now_ns = time.monotonic_ns()
        told = {"event": event, "t0": t0_ns or now_ns, "t1": t1_ns or now_ns, **fields}
        line = json.dumps(told, separators=(",", ":")).encode() + b"\n"
        while line:
            line = line[os.write(sys.stdout.fileno(), line) :]


def main() -> int:
    """Serve stdin and stdout."""
    kind = Bridge
    if len(sys.argv) > 1:
        from brokerproof.conformance.mutants import build
        from brokerproof.reference_broker.core.config import BrokerConfig

        kind = build(sys.argv[1], BrokerConfig()).bridge
    BridgeProcess(kind).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
