"""Strangers in the live world: bare sockets of the observer, beside all agents.

Rules
* Instants are the observer's. What it wrote is an interval from before the first byte was offered to the kernel until
  after the last one was taken; what it heard is when it looked, never before it came.
* A deaf stranger never reads; that the broker has hung up it learns from its own writing.
* Many strangers come in groups of ``GROUP_MAX``, because every one of them is a file of this process.

Known exception: strangers go straight to the broker, past any proxy.
"""

from __future__ import annotations

import select
import socket
import time
from typing import TYPE_CHECKING

from brokerproof.chaos.ports import LOOPBACK
from brokerproof.conformance.agents.stranger import Broken, Part, Stranger
from brokerproof.conformance.brokers.base import NotApplicableError
from brokerproof.conformance.worlds.base import STRANGER, NotOfferedError
from brokerproof.reference_broker.openwire.framing import ClientFraming
from brokerproof.reference_broker.session.framing import Framing, FramingError, Limits
from brokerproof.reference_broker.stomp.frames import HEARTBEAT, Frame
from brokerproof.reference_broker.stomp.framing import StompFraming

if TYPE_CHECKING:
    from brokerproof.conformance.experiment.history import Visit
    from brokerproof.conformance.experiment.steps.visit import Visit as Step
    from brokerproof.conformance.worlds.live.observer import Observer

NS_PER_MS = 1_000_000
GROUP_MAX = 250
READ_BYTES = 1 << 16
#: How often the agents are listened to meanwhile.
PUMP_MS = 100
#: How long the broker may take to forget those who went, and to write its log.
FORGET_MS = 2000


class Visitor:
    """One stranger and its socket. Times are nanoseconds since the start of the run."""

    def __init__(self, step: Step, port: int, start_ns: int) -> None:
        self.stranger = Stranger(step, STRANGER)
        self._start_ns = start_ns
        self._framing: Framing = StompFraming() if step.via == "stomp" else ClientFraming(Limits(), "ID:stranger-1")
        self._out = bytearray()
        self._out_since_ns = 0
        self._hello = True
        self.socket = socket.create_connection((LOOPBACK, port), timeout=FORGET_MS / 1000)
        self.socket.setblocking(False)
        self.port = int(self.socket.getsockname()[1])

    def begin(self) -> None:
        """Say what is said first."""
        self._put(self.stranger.start(self.now_ns()))
        self.flush()

    def now_ns(self) -> int:
        """Now."""
        return time.monotonic_ns() - self._start_ns

    def wants(self) -> int:
        """What to wait for on its socket."""
        deaf = self.stranger.step.deaf and self.stranger.welcome_ns is not None
        return (0 if deaf else select.POLLIN) | (select.POLLOUT if self._out else 0)

    def _put(self, items: list[object]) -> None:
        if not items:
            return
        if not self._out:
            self._out_since_ns = self.now_ns()
        for item in items:
            self._out += item.data if isinstance(item, Part | Broken) else self._framing.encode(item)

    def speak(self) -> None:
        """Say what is due."""
        due_ns = self.stranger.next_due_ns()
        now_ns = self.now_ns()
        if due_ns is not None and due_ns <= now_ns:
            self._put(self.stranger.speak(now_ns))
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
            self.stranger.end(self.now_ns())
            return
        if not self._out:
            now_ns = self.now_ns()
            self.stranger.wrote(self._out_since_ns, now_ns, hello=self._hello)
            self._hello = False
            if self.stranger.welcome_ns is not None and not self.stranger.flooded_ns:
                self.stranger.flooded_ns = now_ns

    def ready(self, events: int) -> None:
        """Its socket has something to tell."""
        if events & select.POLLOUT:
            self.flush()
        if events & select.POLLIN:
            self._read()
        elif events & (select.POLLERR | select.POLLHUP | select.POLLNVAL):
            self.stranger.end(self.now_ns())

    def _read(self) -> None:
        now_ns = self.now_ns()
        try:
            data = self.socket.recv(READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.stranger.end(now_ns)
            return
        try:
            items = self._framing.feed(data)
        except FramingError as error:
            items = error.frames
        before: object = None
        for item in items:
            # An end of line right behind a frame belongs to it: ActiveMQ ends every frame so.
            if not (item is HEARTBEAT and isinstance(before, Frame)):
                self._put(self.stranger.hear(item, now_ns))
            before = item
        self.flush()


def visit(world: Observer, step: Step) -> Visit:
    """Let strangers come and go; what the first of them saw. Raises ``NotOfferedError``."""
    try:
        port = world.endpoint.port("stomp" if step.via == "stomp" else "jms")
    except NotApplicableError as error:
        raise NotOfferedError(str(error)) from None
    rounds = -(-step.times // GROUP_MAX)
    if world.over_budget(step.ms * rounds):
        raise NotOfferedError(f"{rounds} x {step.ms} ms are more than the run may take")
    before = world.endpoint.resources() if step.times > 1 else None
    t0 = world.true_ns()
    visitors: list[Visitor] = []
    for number in range(rounds):
        size = min(GROUP_MAX, step.times - number * GROUP_MAX)
        group: list[Visitor] = []
        try:
            for _ in range(size):
                group.append(Visitor(step, port, world.start_ns))  # one by one: all that are there are closed
                group[-1].begin()
            _attend(world, group, step.ms)
        finally:
            for visitor in group:
                visitor.socket.close()
        visitors += group
    t1 = world.true_ns()
    left = None if before is None else _left(world, before)
    first = visitors[0]
    reports = _reports(world, first)
    closed = sum(visitor.stranger.ended_ns is not None for visitor in visitors)
    return first.stranger.event(world.recorder.next_seq(), t0, t1, reports=reports, closed=closed, left=left)


def _attend(world: Observer, visitors: list[Visitor], ms: int) -> None:
    """Let them speak and listen until their time is over, or the broker has hung up on all."""
    poll = select.poll()
    by_file = {visitor.socket.fileno(): visitor for visitor in visitors}
    wanted: dict[int, int] = {}
    end_ns = world.true_ns() + ms * NS_PER_MS
    pump_ns = 0
    while by_file:
        now_ns = world.true_ns()
        if now_ns >= end_ns:
            return
        if now_ns >= pump_ns:
            world.pump(0)
            pump_ns = world.true_ns() + PUMP_MS * NS_PER_MS
        wake_ns = min(end_ns, pump_ns)
        for file, visitor in list(by_file.items()):
            visitor.speak()
            if visitor.stranger.ended_ns is not None:
                if file in wanted:  # it may have ended before it was listened to
                    poll.unregister(file)
                del by_file[file]
                continue
            if wanted.get(file) != visitor.wants():
                wanted[file] = visitor.wants()
                poll.register(file, wanted[file])
            due_ns = visitor.stranger.next_due_ns()
            wake_ns = wake_ns if due_ns is None else min(wake_ns, due_ns)
        wait_ms = max(0, (wake_ns - world.true_ns()) / NS_PER_MS)
        for file, events in poll.poll(wait_ms):
            by_file[file].ready(events)


def _left(world: Observer, before: dict[str, int]) -> dict[str, int] | None:
    """What the broker has more than before, as soon as that is nothing, or after a while."""
    deadline_ns = world.true_ns() + FORGET_MS * NS_PER_MS
    while True:
        after = world.endpoint.resources()
        if after is None:
            return None
        left = {what: after[what] - before[what] for what in before}
        if all(more <= 0 for more in left.values()) or world.true_ns() > deadline_ns:
            return left
        world.pump(time.monotonic_ns() + PUMP_MS * NS_PER_MS)


def _reports(world: Observer, visitor: Visitor) -> int | None:
    """How often the broker said that it gave the first one up; its log may come a little later."""
    deadline_ns = world.true_ns() + FORGET_MS * NS_PER_MS
    while True:
        reports = world.endpoint.reports(visitor.port)
        gave_up = visitor.stranger.ended_ns is not None and not visitor.stranger.was_refused()
        if reports is None or reports > 0 or not gave_up or world.true_ns() > deadline_ns:
            return reports
        world.pump(time.monotonic_ns() + PUMP_MS * NS_PER_MS)
