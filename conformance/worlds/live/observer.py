"""The observer: what every live run does, whatever its steps are.

It starts the hosts, waits, listens, keeps the clocks and stops.

``world.py`` builds the steps' operations on it and states the rules of the live world.
"""

from __future__ import annotations

import secrets
import time
from collections import deque
from typing import TYPE_CHECKING

import msgspec

from brokerproof.conformance.agents import protocol
from brokerproof.conformance.agents.kinds import JMS
from brokerproof.conformance.agents.protocol import AgentError, AnyAgentEvent, AnyRequest, Reply
from brokerproof.conformance.brokers.translation import logical, physical
from brokerproof.conformance.experiment.destinations import ADVISORIES, DEAD_LETTERS, is_composite, is_pattern, parts_of
from brokerproof.conformance.experiment.exits import SuiteProblem
from brokerproof.conformance.experiment.history import (
    Arrive,
    Browse,
    ClockSample,
    Closed,
    Discard,
    Event,
    Header,
    History,
    Leave,
    Result,
)
from brokerproof.conformance.experiment.program import Program
from brokerproof.conformance.experiment.state import ClientState, HostState
from brokerproof.conformance.experiment.steps.fault import Stall
from brokerproof.conformance.worlds.base import Recorder, World
from brokerproof.conformance.worlds.beginning import state_of
from brokerproof.conformance.worlds.live import clocks
from brokerproof.conformance.worlds.live.agent import OWN_MS, AgentHost, await_lines
from brokerproof.conformance.worlds.live.clocks import NS_PER_MS, TOLERANCE_MS, HostClock, Sample
from brokerproof.conformance.worlds.live.links import Path
from brokerproof.conformance.worlds.live.ordering import put_in_order

if TYPE_CHECKING:
    from collections.abc import Callable

    from brokerproof.conformance.brokers.base import Adapter, Endpoint
    from brokerproof.conformance.worlds.live.laboratory import Laboratory

#: How long an answer of the broker may take: on a stalled link as in the simulation, on an open one as slow machines
#: need.
STALLED_MS = 1000
OPEN_MS = 10_000
#: Real time that the steps of one program may take.
BUDGET_MS = 60_000
#: How long a broker's log may lag behind what it does.
LOG_MS = 50
#: Samples of a host that come by the way are recorded at most this often.
SAMPLE_EVERY_MS = 100


class Answer:
    """What became of a request: result, the broker's refusal, the agent's own words, when (machine's monotonic)."""

    __slots__ = ("refusal", "reply", "result", "t0_ns", "t1_ns")

    def __init__(self, result: Result, refusal: str | None, reply: Reply | None, t0_ns: int, t1_ns: int) -> None:
        self.result: Result = result
        self.refusal = refusal
        self.reply = reply
        self.t0_ns = t0_ns
        self.t1_ns = t1_ns


class Observer(World):
    """See the module's header. ``proxied`` None: links get a proxy when the program's steps stall one."""

    kind = "live"

    def __init__(
        self,
        adapter: Adapter,
        laboratory: Laboratory,
        *,
        seed: int | None = None,
        mutant: str | None = None,
        proxied: bool | None = None,
        budget_ms: int = BUDGET_MS,
        listener: Callable[[Event], None] | None = None,
    ) -> None:
        self.adapter = adapter
        self.laboratory = laboratory
        self._seed = seed
        self._mutant = mutant
        self._proxied = proxied
        self._budget_ns = budget_ms * NS_PER_MS
        self._listener = listener
        self._endpoint: Endpoint | None = None
        self.agents: dict[str, AgentHost] = {}
        self.paths: dict[str, Path] = {}
        self.clocks: dict[str, HostClock] = {}

    # -- the loop

    def open(self, program: Program) -> None:
        self.program = program
        self.state = state_of(program)
        self.recorder = Recorder(self._listener)
        self.start_ns = time.monotonic_ns()
        self.run_name = f"bp{secrets.token_hex(4)}"
        #: The program as this broker really is: decides how monitors are asked for and what the header declares.
        self.effective = self.adapter.effective(program)
        #: Consumer -> messages that have arrived and that the application has not taken.
        self.inboxes: dict[str, deque[str]] = {}
        self.dest_of: dict[str, str] = {}
        self.last_arrival_ns = self.start_ns
        self.broker_spoilt = False
        self._finished = False
        #: When the last delayed message that may have been accepted becomes due.
        self.due_ns = 0
        #: The longest delay of a message that was sent, which a restart may begin anew at most.
        self.longest_ns = 0
        #: Client -> when the broker ended its connection, where a tap saw it.
        self._ended_ns: dict[str, int] = {}
        try:
            self._start()
        except BaseException:
            self.shut()
            raise

    def _start(self) -> None:
        """Start side by side what can be, then wait for all."""
        clients = self.state.clients
        for client in clients:
            if client.via != JMS:
                self.agents[client.name] = self.laboratory.hire(client.via, client.spec.clock.offset_ms)
        self._endpoint = endpoint = self.adapter.open(self.program, self.laboratory)
        for client in clients:
            if client.via == JMS:
                self.agents[client.name] = self._hire(client, client.spec.clock.offset_ms)
        proxied = self._proxied
        if proxied is None:
            proxied = any(isinstance(step, Stall) for step in self.program.steps)
        now_ns = time.monotonic_ns()
        for client in clients:
            port = endpoint.port(client.via)
            self.paths[client.name] = Path(self.laboratory.link(client.name, port) if proxied else None)
            self.clocks[client.name] = HostClock(client.spec.clock, self.agents[client.name].clock, now_ns)
        broker = self.state.broker
        self.clocks[broker.name] = HostClock(broker.spec.clock, endpoint.clock_file, now_ns)
        for agent in self.agents.values():
            agent.greet()
        for host in self.state.hosts:
            self._check_skew(host)
        self.phase("work")

    def close(self) -> History:
        history = super().close()
        return History(history.header, put_in_order(history.events))

    def shut(self) -> None:
        agents, self.agents = self.agents, {}
        paths, self.paths = self.paths, {}
        endpoint, self._endpoint = self._endpoint, None
        for path in paths.values():
            path.close()
        try:
            for agent in agents.values():
                try:
                    self.laboratory.release(agent)
                except AgentError:
                    agent.kill()
        finally:
            if endpoint is not None:
                self._label = endpoint.label
                # A run that broke off may have left anything behind.
                endpoint.dispose(spoilt=self.broker_spoilt or not self._finished)

    @property
    def endpoint(self) -> Endpoint:
        """The open broker."""
        if self._endpoint is None:
            raise SuiteProblem("the live world was used while it was not open")
        return self._endpoint

    def header(self) -> Header:
        label = self._endpoint.label if self._endpoint is not None else self._label
        header = self.make_header(self.program, label, self.adapter.capabilities(), self._seed, self._mutant)
        return msgspec.structs.replace(header, declared=self.effective.declared())

    def true_ns(self) -> int:
        return time.monotonic_ns() - self.start_ns

    def phase(self, name: str) -> None:
        for host in self.state.hosts:
            self.sample(host.name)
        super().phase(name)
        self._finished = name == "end"

    def put(self, kind: type[Event], t0_ns: int, t1_ns: int, host: str, *fields: object, **named: object) -> Event:
        """Record an event; times are the machine's monotonic nanoseconds."""
        start_ns = self.start_ns
        seq = self.recorder.next_seq()
        event = kind(seq, max(0, t0_ns - start_ns), max(0, t1_ns - start_ns), host, *fields, **named)
        self.recorder.record(event)
        return event

    def over_budget(self, ms: int) -> bool:
        """Whether so much more real time would be too much."""
        return self.true_ns() + ms * NS_PER_MS > self._budget_ns

    # -- waiting

    def pump(self, until_ns: int, done: Callable[[], bool] = lambda: False) -> bool:
        """Take in what agents say until ``done`` or until a time (machine's monotonic); whether it is done."""
        while True:
            for name, agent in list(self.agents.items()):
                for event in agent.drain():
                    self._heard(name, event)
            self._note_broker_ends()
            if done():
                return True
            now_ns = time.monotonic_ns()
            if now_ns >= until_ns:
                return False
            wake_ns = until_ns
            for clock in self.clocks.values():
                clock.tick(now_ns)
                tick_ns = clock.next_tick_ns()
                wake_ns = wake_ns if tick_ns is None else min(wake_ns, tick_ns)
            await_lines(self.agents.values(), wake_ns)

    def ask(self, host: str, request: AnyRequest, deadline_ms: int) -> Reply | None:
        """One request, lock-step; None: no answer in time."""
        agent = self.agents[host]
        number = agent.post(request)
        replies: list[Reply] = []

        def answered() -> bool:
            reply = agent.reply_to(number)
            if reply is not None:
                replies.append(reply)
            return reply is not None

        if not self.pump(time.monotonic_ns() + deadline_ms * NS_PER_MS, answered):
            agent.give_up(number)
            return None
        if not isinstance(request, protocol.Hello):
            self._sample_by_the_way(host, replies[0])
        return replies[0]

    def ask_agent(self, host: str, request: AnyRequest, deadline_ms: int = OPEN_MS) -> Reply:
        """A request that needs no broker. Raises ``AgentError`` when it is not answered."""
        reply = self.ask(host, request, deadline_ms)
        if reply is None:
            text = f"no answer to {type(request).__name__.lower()} within {deadline_ms} ms"
            raise AgentError(self.agents[host].name, text)
        return reply

    def patience_ms(self, client: ClientState) -> int:
        """How long the broker's answer to a client may take."""
        return STALLED_MS if client.stalled else OPEN_MS

    def ask_broker(self, client: ClientState, request: AnyRequest) -> Answer:
        """A request that the broker must answer."""
        t0_ns = time.monotonic_ns()
        # The agent itself keeps the deadline; beyond it only a little is waited for its word.
        reply = self.ask(client.name, request, self.patience_ms(client) + OWN_MS)
        if reply is None:
            return Answer("unknown", None, None, t0_ns, time.monotonic_ns())
        if reply.fail is not None:
            return Answer("fail", f"{reply.fail.code}: {reply.fail.text}", reply, reply.t0, reply.t1)
        return Answer("unknown" if reply.ok is None else "ok", None, reply, reply.t0, reply.t1)

    def not_connected(self) -> Answer:
        """What becomes of a request that has no connection."""
        now_ns = time.monotonic_ns()
        return Answer("fail", "not connected", None, now_ns, now_ns)

    def agent_of(self, client: ClientState) -> AgentHost:
        """The client's process; a new one, on the same clock as before, if it was killed."""
        agent = self.agents.get(client.name)
        if agent is None:
            clock = self.clocks[client.name]
            agent = self._hire(client, clock.now_offset_ms())
            self.agents[client.name] = agent
            clock.move(agent.clock, time.monotonic_ns())
            agent.greet()
            self.sample(client.name)
        return agent

    def _hire(self, client: ClientState, offset_ms: int) -> AgentHost:
        """A process for a host, by the library that plays it on this broker."""
        library = self.endpoint.library(client.via)
        path = self.endpoint.client_class_path if library == JMS else ()
        return self.laboratory.hire(library, offset_ms, path)

    # -- what is told unasked

    def _heard(self, host: str, event: AnyAgentEvent) -> None:
        if isinstance(event, protocol.Arrive):
            self._arrived(host, event)
        elif isinstance(event, protocol.Discard):
            message = self.ours(event.message)
            if message is not None:
                self.put(Discard, event.t0, event.t1, host, event.consumer, message, event.reason)
        elif isinstance(event, protocol.Browse):
            self._browsed(host, event)
        else:
            self.agents[host].connected = False
            self._note_broker_ends()
            self.put(Closed, event.t0, event.t1, host, event.who, event.reason, host, event.idle_ns)
            client = next((one for one in self.state.clients if one.name == host), None)
            consumers = client is not None and bool(client.consumers)
            if client is not None:
                client.vanish()
            if consumers:
                # Behind a stall the host learns late what the broker did long ago.
                since_ns = min(event.t0, self._ended_ns.get(host, event.t0))
                self.put(Leave, since_ns, event.t1, host, "ok", "drop")

    def _browsed(self, host: str, event: protocol.Browse) -> None:
        message = self.ours(event.message)
        if message is not None or event.complete:
            shown = [] if message is None else [message]
            dest = self.dest_of[event.consumer]
            self.put(Browse, event.t0, event.t1, host, dest, shown, event.consumer, event.complete)

    def _arrived(self, host: str, event: protocol.Arrive) -> None:
        dest = self.dest_of[event.consumer]
        # Advisories are nobody's messages; their topics have the run's name.
        message = "" if dest.startswith(ADVISORIES) else self.ours(event.message)
        if message is None:
            return
        self.last_arrival_ns = time.monotonic_ns()
        if event.reply_to:
            self.state.hear_of(message, event.reply_to)
        if is_pattern(dest) and event.dest:
            dest = self.suite_name(event.dest)
        inbox = self.inboxes.get(event.consumer)
        if inbox is not None:
            inbox.append(message)
        self.put(
            Arrive,
            event.t0,
            event.t1,
            host,
            event.consumer,
            message,
            dest,
            event.redelivered,
            event.delivery_count,
            event.expiration_ms,
            event.timestamp_ms,
            self.suite_name(event.original_dest) if event.original_dest else None,
            event.kind,
            event.group,
            event.priority,
            event.body,
            event.original_expiration_ms,
            event.cause,
            event.original_id,
        )

    def _note_broker_ends(self) -> None:
        """Connections that the broker ended, as the tap at its end saw it."""
        for client, path in self.paths.items():
            for end in path.broker_ends():
                self._ended_ns[client] = end.at_ns
                reason = self._closing_reason() or end.how
                idle_ns = path.idle_ns(end.at_ns)
                self.put(Closed, end.at_ns, end.at_ns, self.state.broker.name, "broker", reason, client, idle_ns)

    def _closing_reason(self) -> str:
        """What the broker says about the connection that it has just ended; its log may come a little later."""
        deadline_ns = time.monotonic_ns() + LOG_MS * NS_PER_MS
        while True:
            reasons = self.endpoint.closings()
            if reasons or time.monotonic_ns() > deadline_ns:
                return reasons[-1] if reasons else ""
            time.sleep(0.002)

    # -- names

    def physical_name(self, dest: str) -> str:
        """``q0`` -> ``queue://q0.RUN``; the dead-letter queue is everybody's."""
        if is_composite(dest):
            return ",".join(self.physical_name(part) for part in parts_of(dest))
        return physical(dest) if dest == DEAD_LETTERS else f"{physical(dest)}.{self.run_name}"

    def suite_name(self, name: str) -> str:
        """``queue://q0.RUN`` -> ``q0``."""
        return ",".join(part.removesuffix(f".{self.run_name}") for part in parts_of(logical(name)))

    def wire_name(self, message: str) -> str:
        """How a message of this run is called on the wire."""
        return f"{self.run_name}:{message}"

    def ours(self, token: str) -> str | None:
        """The suite's id of a message, None if it is not of this run."""
        run, _, message = token.partition(":")
        return message if run == self.run_name and message else None

    # -- clocks

    def read_wall(self, host: str) -> Sample | None:
        """What a host's own clock shows now; None: it cannot be asked, or its process was killed."""
        if host == self.state.broker.name:
            found = self.endpoint.read_clock()
            return None if found is None else clocks.of_reading(found)
        if host not in self.agents:
            return None
        return clocks.of_reply(self.ask_agent(host, protocol.Hello(id=0)))

    def sample(self, host: str) -> Sample | None:
        """Read and record it."""
        found = self.read_wall(host)
        if found is not None:
            self.record_sample(host, found)
        return found

    def record_sample(self, host: str, found: Sample) -> None:
        """Record a reading, unless it began before the run."""
        clock = self.clocks[host]
        if found.t0_ns >= self.start_ns:
            error_ns = found.plus_minus_ns + clock.uncertainty_ns
            self.put(ClockSample, found.t0_ns, found.t1_ns, host, found.wall_ms, error_ns, found.beyond_ns)
            clock.sampled_ns = time.monotonic_ns()

    def _sample_by_the_way(self, host: str, reply: Reply) -> None:
        clock = self.clocks.get(host)
        now_ns = time.monotonic_ns()
        if clock is not None and reply.wall_at is not None and now_ns - clock.sampled_ns > SAMPLE_EVERY_MS * NS_PER_MS:
            self.record_sample(host, clocks.of_reply(reply))

    def _check_skew(self, host: HostState) -> None:
        """The clock must be where the program wants it: a preload that does nothing is silent."""
        clock = self.clocks[host.name]
        found = self.sample(host.name)
        if clock.file is None or found is None:
            return
        offset_ms = found.offset_ms(clocks.real_offset_ns())
        width_ms = (found.t1_ns - found.t0_ns) // (2 * NS_PER_MS)
        if abs(offset_ms - clock.offset_ms) > TOLERANCE_MS + width_ms:
            raise SuiteProblem(
                f"the clock of host {host.name} is {offset_ms} ms from real time, "
                f"the program says {clock.offset_ms} ms; libfaketime has no effect on this process, "
                "`brokerproof doctor` tells why"
            )
