"""Raw peers in the live world: bare sockets of the observer, beside all agents.

Rules
* Instants are the observer's. What it wrote is an interval from before the first byte was offered to the kernel until
  after the last one was taken; what it heard is when it looked, never before it came.
* A deaf one never reads; that the broker has hung up it learns from its own writing.
* Many come in groups of ``GROUP_MAX``, because every one of them is a file of this process.

Known exception: they go straight to the broker, past any proxy.
"""

from __future__ import annotations

import select
import socket
from typing import TYPE_CHECKING

from brokerproof.conformance.agents.dialogue import WayIn
from brokerproof.conformance.agents.kinds import JMS, STOMP
from brokerproof.conformance.agents.raw_peer import Broken, Part, RawPeer, Words
from brokerproof.conformance.brokers.base import Access, NotApplicableError
from brokerproof.conformance.experiment.wire_names import WireNames
from brokerproof.conformance.worlds.live.hosts import END_MS
from brokerproof.conformance.worlds.port import NotOfferedError, Outcome
from brokerproof.reference_broker.openwire.framing import ClientFraming
from brokerproof.reference_broker.session.framing import Framing, FramingError, Limits
from brokerproof.reference_broker.stomp.frames import HEARTBEAT, Frame
from brokerproof.reference_broker.stomp.framing import StompFraming

if TYPE_CHECKING:
    from collections.abc import Callable

    from brokerproof.conformance.experiment.operations import Probe
    from brokerproof.conformance.worlds.live.hosts import Hosts

NS_PER_MS = 1_000_000
GROUP_MAX = 250
READ_BYTES = 1 << 16
#: How often the agents are listened to meanwhile.
PUMP_MS = 100
#: How long the broker may take to forget those who went, and to write its log.
FORGET_MS = 2000
#: An end of line that comes so soon after a frame may be the frame's.
BEHIND_NS = 100_000_000


class PeerSocket:
    """One raw peer and its socket. ``now_ns``: the time since the start of the run."""

    def __init__(self, probe: Probe, address: tuple[str, int], way: WayIn, now_ns: Callable[[], int]) -> None:
        self.peer = RawPeer(probe, way)
        self.now_ns = now_ns
        self._framing: Framing = StompFraming() if probe.via == "stomp" else ClientFraming(Limits(), "ID:raw-peer-1")
        self._out = bytearray()
        self._out_since_ns = 0
        self._hello = True
        self._framed_ns = -BEHIND_NS
        self.socket = socket.create_connection(address, timeout=FORGET_MS / 1000)
        self.socket.setblocking(False)
        self.port = int(self.socket.getsockname()[1])

    def begin(self) -> None:
        """Say what is said first."""
        self._put(self.peer.start(self.now_ns()))
        self.flush()

    def wants(self) -> int:
        """What to wait for on its socket."""
        deaf = self.peer.probe.deaf and self.peer.welcome_ns is not None
        return (0 if deaf else select.POLLIN) | (select.POLLOUT if self._out else 0)

    def _put(self, items: list[object]) -> None:
        if not items:
            return
        if not self._out:
            self._out_since_ns = self.now_ns()
        for item in items:
            self._out += item.data if isinstance(item, Part | Broken | Words) else self._framing.encode(item)

    def speak(self) -> None:
        """Say what is due."""
        due_ns = self.peer.next_due_ns()
        now_ns = self.now_ns()
        if due_ns is not None and due_ns <= now_ns:
            self._put(self.peer.speak(now_ns))
            self.flush()

    def flush(self) -> None:
        """Write as much as the kernel takes."""
        if not self._out:
            return
        try:
            del self._out[: self.socket.send(self._out)]
        except BlockingIOError:
            return
        except OSError:
            self.peer.end(self.now_ns())
            return
        if not self._out:
            now_ns = self.now_ns()
            self.peer.wrote(self._out_since_ns, now_ns, hello=self._hello)
            self._hello = False
            if self.peer.welcome_ns is not None and not self.peer.flooded_ns:
                self.peer.flooded_ns = now_ns

    def ready(self, events: int) -> None:
        """Its socket has something to tell."""
        if events & select.POLLOUT:
            self.flush()
        if events & select.POLLIN:
            self._read()
        elif events & (select.POLLERR | select.POLLHUP | select.POLLNVAL):
            self.peer.end(self.now_ns())

    def _read(self) -> None:
        now_ns = self.now_ns()
        try:
            data = self.socket.recv(READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.peer.end(now_ns)
            return
        if self.peer.conversation is not None:
            self._put(self.peer.hear_bytes(data, now_ns))
            self.flush()
            return
        try:
            items = self._framing.feed(data)
        except FramingError as error:
            items = error.frames
        for item in items:
            # Ends of lines behind a frame belong to it: ActiveMQ ends every frame so. The network may cut before them.
            if item is HEARTBEAT and now_ns < self._framed_ns + BEHIND_NS:
                self.peer.hear_end_of_line(now_ns)
                continue
            if isinstance(item, Frame):
                self._framed_ns = now_ns
            self._put(self.peer.hear(item, now_ns))
        self.flush()


def probe(hosts: Hosts, operation: Probe, outcome: Outcome) -> None:
    """Let raw peers come and go; what the first of them saw, unless the broker's process ends over it. Raises
    ``NotOfferedError``.
    """
    try:
        _probe(hosts, operation, outcome)
    except OSError:
        if not hosts.has_crashed(END_MS):
            raise


def _probe(hosts: Hosts, operation: Probe, outcome: Outcome) -> None:
    via = STOMP if operation.via == "stomp" else JMS
    try:
        access = hosts.endpoint.access(via)
    except NotApplicableError as error:
        raise NotOfferedError(str(error)) from None
    way, address = _way_in(hosts.endpoint.library(via), access, operation), (access.host, access.port)
    before = hosts.endpoint.resources() if operation.times > 1 else None
    outcome.t0 = hosts.now_ns()
    peers: list[PeerSocket] = []
    while len(peers) < operation.times:
        group: list[PeerSocket] = []
        try:
            # One by one: whatever happens, all that are there are closed.
            for _ in range(min(GROUP_MAX, operation.times - len(peers))):
                group.append(PeerSocket(operation, address, way, hosts.now_ns))
                group[-1].begin()
            _attend(hosts, group, operation.ms)
        finally:
            for peer in group:
                peer.socket.close()
        peers += group
    outcome.t1 = hosts.now_ns()
    left = None if before is None else _left(hosts, before)
    reports = _reports(hosts, peers[0])
    closed = sum(peer.peer.ended_ns is not None for peer in peers)
    outcome.seen = peers[0].peer.saw(outcome.t1, reports=reports, closed=closed, left=left)


def _way_in(library: str, access: Access, operation: Probe) -> WayIn:
    """Raises ``NotOfferedError`` for what is not spoken there."""
    if operation.via == "stomp" and library != STOMP:
        raise NotOfferedError(f"what is spoken there is {library}")
    if operation.dialogues and access.versions and operation.version not in access.versions:
        raise NotOfferedError(f"STOMP {operation.version} is not among the versions of the endpoint: {access.versions}")
    if access.secure:
        raise NotOfferedError("a raw peer speaks no TLS")
    names = access.names or WireNames()
    topic = (names.topic or names.queue).replace("{name}", "raw-peers-{me}-{n}")
    queue = names.queue.replace("{name}", "raw-peers-queue-{me}-{n}")
    host = access.virtual_host or "localhost"
    return WayIn(topic=topic, queue=queue, host=host, login=access.login, passcode=access.passcode)


def _attend(hosts: Hosts, peers: list[PeerSocket], ms: int) -> None:
    """Let them speak and listen until their time is over, or the broker has hung up on all."""
    poll = select.poll()
    by_file = {peer.socket.fileno(): peer for peer in peers}
    wanted: dict[int, int] = {}
    end_ns = hosts.now_ns() + ms * NS_PER_MS
    pump_ns = 0
    while by_file:
        now_ns = hosts.now_ns()
        if now_ns >= end_ns:
            return
        if now_ns >= pump_ns:
            hosts.pump(0)
            pump_ns = hosts.now_ns() + hosts.rate.span_ns(PUMP_MS)
        wake_ns = min(end_ns, pump_ns)
        for file, peer in list(by_file.items()):
            peer.speak()
            if peer.peer.is_over():
                if file in wanted:  # it may have ended before it was listened to
                    poll.unregister(file)
                del by_file[file]
                continue
            if wanted.get(file) != peer.wants():
                wanted[file] = peer.wants()
                poll.register(file, wanted[file])
            due_ns = peer.peer.next_due_ns()
            wake_ns = wake_ns if due_ns is None else min(wake_ns, due_ns)
        wait_ms = max(0, (wake_ns - hosts.now_ns()) / hosts.rate.span_ns(1))
        for file, events in poll.poll(wait_ms):
            by_file[file].ready(events)


def _left(hosts: Hosts, before: dict[str, int]) -> dict[str, int] | None:
    """What the broker has more than before, as soon as that is nothing, or after a while."""
    deadline_ns = hosts.now_ns() + hosts.rate.span_ns(FORGET_MS)
    while True:
        after = hosts.endpoint.resources()
        if after is None:
            return None
        left = {what: after[what] - before[what] for what in before}
        if all(more <= 0 for more in left.values()) or hosts.now_ns() > deadline_ns:
            return left
        hosts.pump_for(PUMP_MS * hosts.rate.times)


def _reports(hosts: Hosts, peer: PeerSocket) -> int | None:
    """How often the broker said that it gave the first one up; its log may come a little later."""
    deadline_ns = hosts.now_ns() + hosts.rate.span_ns(FORGET_MS)
    while True:
        reports = hosts.endpoint.reports(peer.port)
        gave_up = peer.peer.ended_ns is not None and not peer.peer.was_refused()
        if reports is None or reports > 0 or not gave_up or hosts.now_ns() > deadline_ns:
            return reports
        hosts.pump_for(PUMP_MS * hosts.rate.times)
