"""One agent process as the live world sees it: requests out, replies and events in, each with a deadline.

Rules
* Requests are numbered and never wait here: ``post`` sends, ``drain`` takes in what has come. Who waits, and how long,
  is the world's business.
* A reply that nobody waits for any more (its request was given up as *unknown*) is dropped: the history has said so
  already.
* Whatever breaks the protocol is ``AgentError``: the suite's failure, never the broker's. So is a process that ends
  without being asked to.
* An agent serves one run at a time and may serve many one after the other: ``fresh`` after each ``leave``.
"""

from __future__ import annotations

import select
import signal
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from brokerproof.chaos.channels import ChannelError
from brokerproof.chaos.rates import REAL, Rate
from brokerproof.conformance.agents.protocol import (
    PROTOCOL,
    REQUIRED,
    AgentError,
    AnyAgentEvent,
    AnyOperation,
    Hello,
    Quit,
    Reply,
    Request,
    parse_answer,
)
from brokerproof.conformance.experiment.operations import Leave

if TYPE_CHECKING:
    from brokerproof.chaos.channels import Channel
    from brokerproof.chaos.clocks import ClockFile
    from brokerproof.chaos.processes import Process

NS_PER_MS = 1_000_000
#: How long an agent may take for what does not need the broker.
OWN_MS = 10_000
STOP_GRACE_MS = 2000


class AgentHost:
    """A host's process. ``clock`` is its clock file, None where clocks cannot be skewed; ``rate`` that of its time."""

    def __init__(
        self,
        name: str,
        via: str,
        process: Process,
        clock: ClockFile | None,
        words: tuple[str, ...] = (),
        rate: Rate = REAL,
    ) -> None:
        self.name = name
        self.via = via
        #: Of its command.
        self.words = words
        self.process = process
        self.clock = clock
        self.rate = rate
        #: What its process says of its time zone, in minutes east of Greenwich; None: nothing.
        self.zone_minutes: int | None = None
        self.connected = False
        self.capabilities: list[str] = []
        #: When it last said anything (the machine's monotonic clock); whether a request has been given up since then.
        self.heard_ns = time.monotonic_ns()
        self.silent = False
        self._last_id = 0
        #: Requests that somebody waits for.
        self._open: set[int] = set()
        self._replies: dict[int, Reply] = {}

    @property
    def channel(self) -> Channel:
        """To wait on several agents at once."""
        return self.process.channel

    def post(self, operation: AnyOperation, deadline_ms: int = OWN_MS) -> int:
        """Send a request under the next number, which is returned. Raises ``AgentError``."""
        self._last_id += 1
        try:
            self.channel.send(Request(self._last_id, operation, deadline_ms).fields())
        except ChannelError as error:
            raise self._broken(str(error)) from error
        self._open.add(self._last_id)
        return self._last_id

    def reply_to(self, number: int) -> Reply | None:
        """The reply to a request, once, if it has come."""
        reply = self._replies.pop(number, None)
        if reply is not None:
            self._open.discard(number)
        return reply

    def give_up(self, number: int) -> None:
        """Nobody waits for this reply any more."""
        self._open.discard(number)
        self._replies.pop(number, None)

    def drain(self) -> list[AnyAgentEvent]:
        """Take in everything that has come; events in their order. Raises ``AgentError``."""
        events: list[AnyAgentEvent] = []
        try:
            while self.channel.has_line():
                answer = parse_answer(self.channel.receive_line(time.monotonic_ns()), self.name)
                self.heard_ns, self.silent = time.monotonic_ns(), False
                if not isinstance(answer, Reply):
                    events.append(answer)
                elif answer.id in self._open:
                    self._replies[answer.id] = answer
                elif not 0 < answer.id <= self._last_id:
                    raise AgentError(self.name, f"answers request {answer.id}, which was never made")
        except ChannelError as error:
            if not events and not self._replies:  # what it said before it ended comes first
                raise self._broken(str(error)) from error
        return events

    def ask_alone(self, operation: AnyOperation, deadline_ms: int = OWN_MS) -> Reply:
        """A request that needs no broker, while no run is using the agent; events are thrown away."""
        number = self.post(operation)
        deadline_ns = time.monotonic_ns() + deadline_ms * NS_PER_MS
        while True:
            self.drain()
            reply = self.reply_to(number)
            if reply is not None:
                return reply
            if not await_lines([self], deadline_ns):
                raise self._broken(f"no answer to {type(operation).__name__.lower()} within {deadline_ms} ms")

    def greet(self) -> None:
        """Check that it speaks this protocol and can do what every agent must. Raises ``AgentError``."""
        reply = self.ask_alone(Hello(), deadline_ms=3 * OWN_MS)
        said = reply.ok or {}
        if said.get("protocol") != PROTOCOL or not isinstance(said.get("capabilities"), list):
            text = f"answered hello with {said}; protocol {PROTOCOL} and a list of capabilities are wanted ({REQUIRED})"
            raise AgentError(self.name, text)
        self.capabilities = [str(word) for word in said["capabilities"]]
        self.zone_minutes = said.get("zone_minutes")

    def fresh(self) -> None:
        """End its connection, so that another run can use it."""
        if self.connected:
            self.ask_alone(Leave())
            self.connected = False
        self.drain()
        self._open.clear()
        self._replies.clear()

    def quit(self) -> None:
        """Let it end; by force if it does not."""
        if self.process.poll() is not None:
            return
        try:
            self.post(Quit())
        except AgentError:
            self.process.kill()
            return
        if self.process.wait(STOP_GRACE_MS) is None:
            self.process.kill()

    def kill(self) -> list[AnyAgentEvent]:
        """SIGKILL; when the kernel says that it is dead, what it had told before and nobody had taken in."""
        self.process.signal(signal.SIGKILL)
        self.process.wait(STOP_GRACE_MS)
        try:
            told = self.drain()
        except AgentError:  # nothing: its end comes first
            told = []
        self.process.kill()
        self.connected = False
        return told

    def _broken(self, text: str) -> AgentError:
        code = self.process.poll()
        how = "" if code is None else f" (it ended with exit code {code})"
        return AgentError(self.name, f"{text}{how}\nend of its log:\n{self.process.log_tail().strip() or '(empty)'}")


class Telling(Protocol):
    """Somebody with a channel, or without one just now."""

    @property
    def channel(self) -> Channel | None:
        """Where its lines come from."""


class Ticking(Telling, Protocol):
    """A process beside the agents that tells what it does, and acts by itself: a bridge."""

    def drain(self) -> None:
        """Take in what it has told."""

    def tick(self, now_ns: int) -> None:
        """Act, if it is time to."""

    def next_due_ns(self) -> int | None:
        """When ``tick`` is wanted."""

    def shut(self) -> None:
        """End it; safe to call twice."""


def await_lines(agents: Iterable[Telling], deadline_ns: int) -> bool:
    """Wait until any of the agents has written something, or until the deadline (the machine's monotonic clock);
    whether one has.
    """
    poller = select.poll()
    for agent in agents:
        if (channel := agent.channel) is None:
            continue
        if channel.has_line():
            return True
        poller.register(channel, select.POLLIN)
    left_ns = deadline_ns - time.monotonic_ns()
    # Rounded up: a wait that ends just before its deadline would be called again and spin.
    return bool(poller.poll(max(0, -(-left_ns // NS_PER_MS))))
