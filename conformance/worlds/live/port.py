"""LivePort: a program with real processes, sockets and clocks.

Every client host is an agent process under its own faked clock, the broker is whatever an adapter opens.

Rules
* A fault is told with what was seen through another channel (the process's own clock, bytes at both ends of a link), or
  without evidence.
* A program whose durations bear it lives at the broker's rate (``Adapter.rate``): all instants and durations are the
  program's, what is said of machines is real.
* What an agent does not offer is not asked of it, and what would take longer than the budget of real time is not begun:
  the step is skipped.

Known exceptions: a link's latency is the machine's own, ``latency_us`` is not imitated. What a JMS library throws away
is known only if its statistics tell (``agents/jms_agent.py``).
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from brokerproof.chaos.ports import LOOPBACK
from brokerproof.conformance.agents.kinds import JMS, STOMP
from brokerproof.conformance.agents.protocol import AgentError
from brokerproof.conformance.experiment import operations as ops
from brokerproof.conformance.experiment.configuration import stomp_beat_ms
from brokerproof.conformance.experiment.steps.fault import Reset, Stall
from brokerproof.conformance.experiment.traits import Traits
from brokerproof.conformance.worlds.live.clocks import NS_PER_MS, HostClock
from brokerproof.conformance.worlds.live.connector import bridge_of, opened
from brokerproof.conformance.worlds.live.faults import Faults
from brokerproof.conformance.worlds.live.hosts import Hosts
from brokerproof.conformance.worlds.live.links import Path
from brokerproof.conformance.worlds.live.offers import check_asked, needs
from brokerproof.conformance.worlds.live.ordering import put_in_order
from brokerproof.conformance.worlds.live.quiet import Quiet
from brokerproof.conformance.worlds.live.raw_peers import GROUP_MAX, probe
from brokerproof.conformance.worlds.naming import address
from brokerproof.conformance.worlds.port import NotOfferedError, Outcome

if TYPE_CHECKING:
    from collections.abc import Callable

    from brokerproof.conformance.brokers.base import Adapter, Endpoint
    from brokerproof.conformance.experiment.configuration import DeclaredSpec
    from brokerproof.conformance.experiment.history import Event
    from brokerproof.conformance.experiment.program import Program
    from brokerproof.conformance.experiment.state import ClientState, WorldState
    from brokerproof.conformance.worlds.live.bridge import LiveBridge
    from brokerproof.conformance.worlds.live.laboratory import Laboratory
    from brokerproof.conformance.worlds.port import Recorder, Waiting

#: Real time that the steps of one program may take.
BUDGET_MS = 60_000
#: What an agent answers that has a connection already; how often it is asked to leave that and to connect again.
_CONNECTED, _CONNECT_TRIES = "connected: ", 3
#: A reading may go back by a millisecond (``agents/stamps.py``), so the first one after a jump waits this long.
_CLEAR_MS = 2
_TURN_MS = 20


class LivePort:
    """See the header. ``proxied`` None: links get a proxy when a step stalls or resets one. ``is_over``: nobody
    has time for further steps.
    """

    kind = "live"

    def __init__(
        self,
        adapter: Adapter,
        laboratory: Laboratory,
        *,
        proxied: bool | None = None,
        budget_ms: int = BUDGET_MS,
        is_over: Callable[[], bool] = lambda: False,
    ) -> None:
        self._adapter = adapter
        self._laboratory = laboratory
        self._proxied = proxied
        self._budget_ns = budget_ms * NS_PER_MS
        self._is_over = is_over
        #: Hosts whose last connection may have come about after all: nobody waited any longer.
        self._doubted: set[str] = set()

    # -- the run

    def open(self, program: Program, state: WorldState, recorder: Recorder) -> None:
        self._program = program
        self._state = state
        self._rate = self._adapter.rate(program)
        #: The program as this broker really is: decides how monitors are asked for and what the header declares.
        self._effective = self._adapter.effective(program)
        self.hosts = Hosts(self._laboratory, state, recorder, self._adapter, self._rate)
        self._bridges: dict[str, LiveBridge] = {}
        self._faults = Faults(self.hosts, state, self._bridges)
        self._quiet = Quiet(self.hosts, state, self._bridges)
        #: When the drain began.
        self._draining_ns = 0
        self.start()

    def start(self) -> None:
        """Start side by side what can be, then wait for all."""
        hosts, program, clients = self.hosts, self._program, self._state.clients
        for client in clients:
            if self._adapter.library(client.via) == STOMP:
                clock = client.spec.clock
                hosts.agents[client.name] = self._laboratory.hire(
                    STOMP, clock.offset_ms, (), clock.zone_hours, self._rate
                )
        for spec, bridge in zip(program.bridges(), self._state.bridges, strict=True):
            one = bridge_of(self._adapter, hosts, spec, bridge, program.at(spec))
            hosts.bridges[bridge.name] = self._bridges[bridge.name] = one
            one.start()
        for place in program.brokers():
            hosts.endpoints[place.name] = opened(self._adapter, program, place, hosts)
        hosts.mailbox = self._laboratory.mailbox(
            hosts.endpoint, hosts.names.run, beats="monitor" in self.capabilities()
        )
        self._state.nack_ranges = hosts.endpoint.nack_ranges and self._adapter.library(STOMP) == STOMP
        for client in clients:
            if client.name not in hosts.agents:
                hosts.hire(client, client.spec.clock.offset_ms)
        for client in self._state.linked():
            hosts.paths[client.name] = self._path(client)
        for client in clients:
            hosts.settle_in(client, hosts.paths[client.name])
        for broker in self._state.brokers:
            file = hosts.endpoints[broker.name].clock_file
            hosts.clocks[broker.name] = HostClock(broker.spec.clock, file, self._rate.now_ns())
        for agent in hosts.agents.values():
            agent.greet()
        for host in self._state.hosts:
            hosts.check_skew(host)
        for one in self._bridges.values():
            one.begin()

    def _path(self, client: ClientState) -> Path:
        """A client's, or a bridge's, to its broker."""
        proxied = self._proxied
        if proxied is None:
            proxied = any(isinstance(step, Stall | Reset) for step in self._program.steps)
        spec = client.link
        if not proxied and not spec.bytes_per_second and not spec.modes():
            return Path(None)
        access = self.hosts.endpoints[self.hosts.broker_of(client)].access(client.via)
        line = self._laboratory.link(client.name, access.port, access.host)
        line.limit(spec.bytes_per_second)
        if spec.modes():
            line.shape(jitter_us=spec.jitter_us, slice_bytes=spec.slice_bytes)
        return Path(line)

    def receive_guest(self, client: ClientState) -> None:
        agent = self.hosts.hire(client, 0)
        self.hosts.settle_in(client, Path(None))
        agent.greet()

    def shut(self, *, finished: bool) -> None:
        if not hasattr(self, "hosts"):
            return
        hosts = self.hosts
        for bridge in self._bridges.values() if finished else ():
            bridge.tell_doubts()
        self._faults.lift()
        endpoints, hosts.endpoints = hosts.endpoints, {}
        try:
            hosts.shut()
        finally:
            for name, endpoint in endpoints.items():
                # A run that broke off may have left anything behind.
                endpoint.dispose(spoilt=name in [*self._faults.spoilt, *hosts.crashed] or not finished)

    @property
    def endpoint(self) -> Endpoint:
        """The open broker, the first of several."""
        return self.hosts.endpoint

    def in_order(self, events: list[Event]) -> list[Event]:
        return put_in_order(events)

    def label(self) -> str:
        return self.endpoint.label

    def capabilities(self) -> list[str]:
        return self._adapter.capabilities()

    def declared(self) -> DeclaredSpec:
        adapter = self._adapter
        return msgspec.structs.replace(
            self._effective.declared(), default_prefetch=adapter.default_prefetch, delay_begins=adapter.delay_begins,
            heart_beat_grace=adapter.heart_beat_grace, lateness_ms=adapter.lateness_ms * self._rate.times,
        )  # fmt: skip

    def rates(self) -> dict[str, int]:
        if self._rate.times == 1:
            return {}
        for host in self._state.hosts:
            self.hosts.check_skew(host)
        return {host.name: self._rate.times for host in self._state.hosts}

    def true_ns(self) -> int:
        return self.hosts.now_ns()

    def sample(self, host: str) -> None:
        self.hosts.sample(host)

    def _is_over_budget(self, ms: int) -> bool:
        """Whether so much more real time would be too much."""
        return self.true_ns() + ms * NS_PER_MS > self._budget_ns * self._rate.times

    # -- what is possible

    def spent(self) -> bool:
        return self._is_over_budget(0) or self._is_over()

    def check(self, operation: ops.Operation) -> None:
        if not isinstance(operation, ops.ClientOperation):
            self._faults.check(operation)
        if isinstance(operation, ops.Advance | ops.Pause | ops.Probe):
            rounds = -(-operation.times // GROUP_MAX) if isinstance(operation, ops.Probe) else 1
            if self._is_over_budget(operation.ms * rounds):
                raise NotOfferedError(f"{rounds} x {operation.ms} ms are more than the run may take")
        elif isinstance(operation, ops.ClockJump | ops.Freeze | ops.Thaw):
            if self.hosts.clocks[operation.host].file is None:
                raise NotOfferedError(f"the clock of {operation.host} cannot be skewed")
            if operation.host not in self.hosts.endpoints:
                agent = self.hosts.agent_of(self._state.client(operation.host))
                if isinstance(operation, ops.Freeze) and agent.via == JMS:
                    raise NotOfferedError("its library waits by the wall clock")
        elif isinstance(operation, ops.ClientOperation):
            client = self._state.client(operation.host)
            offered = self.hosts.agent_of(client).capabilities
            lacking = [
                word
                for word, asked in needs(operation, self._state.destinations).items()
                if asked and word not in offered
            ]
            if lacking:
                raise NotOfferedError(f"the {client.via} agent of {client.name} does not offer {', '.join(lacking)}")
            if isinstance(operation, ops.Take) and operation.consumer == client.transacting:
                raise NotOfferedError("its session would settle what it takes with what it has acknowledged")
            if isinstance(operation, ops.Send | ops.Subscribe):
                self._addressed(operation)
            if isinstance(operation, ops.Send):
                self._check_send(operation)

    def _check_send(self, operation: ops.Send) -> None:
        if operation.life_ms and "broker-ttl" not in self.capabilities():
            raise NotOfferedError("the broker knows no time to live by its own clock")

    def _addressed(self, operation: ops.Send | ops.Subscribe) -> str:
        return address(self._state, operation.host, operation.dest, self.hosts.names)

    # -- what clients do

    def is_connected(self, client: ClientState) -> bool:
        agent = self.hosts.agents.get(client.name)
        return agent is not None and agent.connected

    def connect(self, client: ClientState) -> Waiting[Outcome]:
        hosts, spec = self.hosts, client.spec
        agent = hosts.agent_of(client)
        access = hosts.endpoints[hosts.broker_of(client)].access(client.via)
        path = hosts.paths[client.name]
        hosts.spare(client.name)
        port = path.port(access.port)
        host = access.host if path.proxy is None else LOOPBACK
        monitor = client.link.monitor
        # The same on every connection if durable subscriptions hang on it; the run's, so that brokers may be shared.
        client_id = f"{hosts.names.run}-{client.name}" if self._state.durable and client in self._state.clients else ""
        options: dict[str, Any] = {"client_id": client_id, **ops.shared(access, ops.Connect, "host", "url")}
        if spec.user:
            options["login"], options["passcode"] = spec.user, ""
        options |= {"versions": (spec.version,)} if spec.version else {}
        if "durable-names" in agent.capabilities:
            options["durables"] = {name: self._on_wire(one).dest for name, one in client.durables.items()}
        if client.via == JMS:
            options["monitor_ms"] = (0, 0) if monitor is None else (monitor.read_ms, monitor.initial_delay_ms)
            options |= {"expiry_check": spec.expiry_check, "transacts": self._state.transacts}
        elif monitor is not None:
            beat_ms = stomp_beat_ms(monitor, self._effective.monitor_generation())
            options["heartbeat_ms"] = (beat_ms, beat_ms)
        request = ops.Connect(url=access.url.replace("{host}", host).replace("{port}", str(port)), **options)
        for _ in range(_CONNECT_TRIES):
            if client.name in self._doubted:
                drop = ops.Leave(host=client.name, how="drop")
                yield from hosts.ask(client.name, drop, hosts.patience_ms(client, drop))
                self._doubted.discard(client.name)
            outcome, told = yield from hosts.ask_broker(client, request)
            if not (outcome.refusal or "").startswith(_CONNECTED):
                break
            self._doubted.add(client.name)  # an earlier one has come about after all, and only now
        check_asked(outcome)
        agent.connected = outcome.result == "ok"
        if outcome.result == "unknown":
            self._doubted.add(client.name)
        outcome.traits = msgspec.convert(told.get("traits"), Traits | None)
        outcome.heart_beat_ms = msgspec.convert(told.get("heart_beat_ms"), tuple[int, int] | None)
        return outcome

    def ask(self, operation: ops.ClientOperation) -> Waiting[Outcome]:
        outcome = yield from self._asked(operation)
        if not isinstance(operation, ops.Take) or outcome.message is not None:
            self.hosts.stir()
        return outcome

    def _asked(self, operation: ops.ClientOperation) -> Waiting[Outcome]:
        client = self._state.client(operation.host)
        if isinstance(operation, ops.Take):
            return (yield from self._take(client, operation))
        if isinstance(operation, ops.Leave):
            return (yield from self._leave(client, operation))
        if isinstance(operation, ops.Subscribe):
            self.hosts.dest_of[operation.consumer] = operation.dest
            self.hosts.inboxes[operation.consumer] = deque()
        if self.hosts.mailbox is not None and isinstance(operation, ops.Subscribe | ops.Ack):
            collected = yield from self.hosts.mailbox.ask(self._on_wire(operation), self.true_ns)
            if collected is not None:
                return collected
        outcome, told = yield from self.hosts.ask_broker(client, self._on_wire(operation))
        if isinstance(operation, ops.Ack | ops.Nack) and outcome.result == "ok":
            self.hosts.held[operation.consumer] -= 0 if operation.tx else len(operation.messages)
        if isinstance(operation, ops.Nack | ops.Send):
            check_asked(outcome)
        if isinstance(operation, ops.Send):
            outcome.stamps = told  # of a refused one, too, if they are told: was it expired?
            if outcome.result == "fail":
                return outcome
            if not told:
                # It may arrive, and then nobody could say what it should look like.
                raise AgentError(self.hosts.agents[client.name].name, "does not tell the stamps of a message")
            delay_ms = told.get("delay_ms", operation.delay_ms)
            if delay_ms and not self._is_over_budget(delay_ms):
                # What cannot become due in this run is not waited for.
                outcome.due_ns = outcome.t1 + delay_ms * NS_PER_MS
        return outcome

    def _on_wire(self, operation: ops.ClientOperation) -> Any:
        """An operation with the names that its agent and the broker know."""
        on_wire = self.hosts.names.on_wire
        if isinstance(operation, ops.Send):
            names = {"dest": self._addressed(operation), "message": on_wire(operation.message)}
            return msgspec.structs.replace(operation, **names)
        if isinstance(operation, ops.Subscribe):
            return msgspec.structs.replace(operation, dest=self._addressed(operation))
        if isinstance(operation, ops.Ack | ops.Nack | ops.Acknowledge):
            return msgspec.structs.replace(operation, messages=[on_wire(message) for message in operation.messages])
        return operation

    def _take(self, client: ClientState, operation: ops.Take) -> Waiting[Outcome]:
        hosts, consumer = self.hosts, operation.consumer
        since_ns = self.true_ns()
        if "take" in hosts.agents[client.name].capabilities:
            # The library decides (JMS: it may throw an expired message away and go on waiting).
            reply = yield from hosts.ask(client.name, operation, operation.deadline_ms)
            if reply is None:
                return Outcome(t0=since_ns, t1=self.true_ns(), since_ns=since_ns)
            told = reply.ok or {}
            outcome = Outcome(t0=hosts.run_ns(reply.t0), t1=hosts.run_ns(reply.t1), since_ns=since_ns)
            token = told.get("message")
            outcome.message = hosts.names.ours(token) if isinstance(token, str) else None
            state = client.consumer(consumer)
            if state is None:
                outcome.message = None
            elif state.pulls and "answered" in told:
                outcome.answered = bool(told["answered"])
            return outcome
        inbox = hosts.inboxes[consumer]
        until_ns = since_ns + operation.deadline_ms * NS_PER_MS
        # What is there already is not waited for.
        while not inbox and client.consumer(consumer) is not None and (yield until_ns):
            pass
        now_ns = self.true_ns()
        message = inbox.popleft() if inbox and client.consumer(consumer) is not None else None
        return Outcome(t0=now_ns, t1=now_ns, message=message, since_ns=since_ns)

    def _leave(self, client: ClientState, operation: ops.Leave) -> Waiting[Outcome]:
        hosts = self.hosts
        said = True
        agent = hosts.agent_of(client)
        outcome = Outcome(t0=self.true_ns(), t1=0)
        if operation.consumer is not None:
            hosts.inboxes.pop(operation.consumer, None)
            # Only a library that waits for the broker can be late here; then the goodbye may or may not have been
            # heard.
            reply = yield from hosts.ask(client.name, operation, hosts.patience_ms(client, operation))
            said = reply is not None and reply.ok is not None
            outcome.t0 = outcome.t0 if reply is None else hosts.run_ns(reply.t0)
        else:
            hosts.pump(0)
            outcome.t0 = self.true_ns()
            if operation.how == "kill":
                hosts.kill(client)
            else:
                if (yield from hosts.ask(client.name, operation, 0)) is None:
                    hosts.kill(client)  # that ends its connection, too
                agent.connected = False
        outcome.t1 = self.true_ns()
        outcome.result = "ok" if said and client.stalled not in {"broker", "both"} else "unknown"
        return outcome

    # -- what the environment does

    def enact(self, operation: ops.Operation) -> Outcome:
        outcome = Outcome(t0=self.true_ns(), t1=0)
        self._carry_out(operation, outcome)
        outcome.t1 = outcome.t1 or self.true_ns()
        if not isinstance(operation, ops.ReadCounters):
            self.hosts.stir()
        return outcome

    def _carry_out(self, operation: ops.Operation, outcome: Outcome) -> None:
        hosts = self.hosts
        match operation:
            case ops.ReadCounters():
                dest = operation.dest
                name = None if dest is None else hosts.names.physical(dest)
                broker = operation.broker or self._state.broker.name
                outcome.counters = found = self._quiet.counters(name, broker)
                outcome.moved = operation.at_rest and self._quiet.has_moved(name, broker, found)
            case ops.ClockJump():
                outcome.evidence = self._faults.jump(operation)
                outcome.t1 = self.true_ns()
                hosts.pump_for(_CLEAR_MS)
            case ops.Freeze():
                outcome.evidence = self._faults.freeze(operation.host)
            case ops.Thaw():
                outcome.evidence = self._faults.thaw(operation.host)
                outcome.t1 = self.true_ns()
                hosts.pump_for(_CLEAR_MS)
            case ops.Stall() | ops.Resume() | ops.Reset() | ops.Exhaust() | ops.Relieve():
                self._faults.disturb(operation, outcome)
            case ops.Restart():
                self._faults.restart(operation.how, operation.host or self._state.broker.name, outcome)
            case ops.Cut() | ops.Rejoin():
                how = operation.how if isinstance(operation, ops.Cut) else ""
                outcome.evidence = self._bridges[operation.bridge].enact(how)
            case ops.Pause():
                if not hosts.of_broker(lambda: self.endpoint.stand_still(paused=True), otherwise=False):
                    raise NotOfferedError("this broker is not ours to stop")
                try:
                    hosts.pump_for(operation.ms)
                finally:
                    self.endpoint.stand_still(paused=False)
            case ops.Operate():
                self._operate(operation, outcome)
            case ops.Probe():
                probe(hosts, operation, outcome)

    def _operate(self, operation: ops.Operate, outcome: Outcome) -> None:
        name = self.hosts.names.physical
        dest, to = operation.dest and name(operation.dest), operation.to and name(operation.to)
        ask = partial(self.endpoint.operate, operation.op, dest, to or operation.command, operation.limit_bytes)
        answer = self.hosts.of_broker(ask, None)
        if self._state.broker.name in self.hosts.crashed:
            outcome.result = "unknown"
            return
        if answer is None:
            raise NotOfferedError(f"nobody can ask this broker to {operation.op} {operation.dest}")
        outcome.count, outcome.refusal, outcome.shown = answer.count, answer.refusal or None, answer.shown
        outcome.result = "fail" if answer.refusal else "ok"

    # -- waiting

    def heal(self) -> None:
        self._faults.heal()
        self._quiet.await_published(self.declared().lateness_ms, lambda: self._is_over_budget(0))

    def turn(self, until_ns: int) -> bool:
        return self.hosts.turn(until_ns)

    def wait(self, until_ns: int) -> bool:
        return self.turn(until_ns)

    def moving(self) -> bool:
        return False

    def pump(self) -> None:
        self.hosts.pump(0)

    def has_nothing(self, client: ClientState, consumer: str) -> bool:  # noqa: ARG002 - what is on its way, nobody knows
        return False

    def rest(self, deadline_ms: int) -> bool:
        return self._quiet.rest(deadline_ms)

    def wait_for_more(self, due_ns: int, missing: Callable[[], bool]) -> bool:
        """Nothing is waited for longer than it can still come: delayed messages until they are due (within the budget
        of real time), everything else for the declared lateness, and only while a message is missing.
        """
        now_ns = self.true_ns()
        self._draining_ns = self._draining_ns or now_ns
        last_ns = max(due_ns, self._draining_ns) + self.declared().lateness_ms * NS_PER_MS
        if self._is_over_budget(0) or now_ns > last_ns or (now_ns > due_ns and not missing()):
            return False
        self.hosts.pump_for(_TURN_MS * self._rate.times)
        return True
