"""SimulatedPort: a program in one process, in virtual time, deterministic to the byte (DESIGN section 6).

Everything happens on one agenda. The broker is the node that the server serves, the clients are the libraries that the
agents use; only clock and socket differ.

Rules
* A request is written, then its host waits until its answer has come or ``REQUEST_NS`` has passed (result
  ``unknown``); virtual time runs meanwhile.
* Clock samples are exact: in this world the observer owns the clocks.
* A broker or a library that raises or hangs ends, as a process would, and the run goes on (``agenda.py``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from brokerproof.conformance.agents.openwire_library import OpenWireLibrary
from brokerproof.conformance.agents.stomp_library import StompLibrary
from brokerproof.conformance.brokers.translation import CAPABILITIES, Names, broker_config, operation
from brokerproof.conformance.experiment import operations as ops
from brokerproof.conformance.experiment.configuration import stomp_beat_ms
from brokerproof.conformance.experiment.history import ClockSample, Fault, Leave, Result
from brokerproof.conformance.mutants import Build, build, check_mutant
from brokerproof.conformance.worlds.naming import address
from brokerproof.conformance.worlds.port import NotOfferedError, Outcome
from brokerproof.conformance.worlds.recording import RAW_PEER, record_connect
from brokerproof.conformance.worlds.simulated.agenda import Agenda, fail
from brokerproof.conformance.worlds.simulated.bridge import BridgeEnd, BridgeHost
from brokerproof.conformance.worlds.simulated.broker import DOWN_NS, BrokerHost
from brokerproof.conformance.worlds.simulated.clock import NS_PER_MS, VirtualClock
from brokerproof.conformance.worlds.simulated.faults import ENACTED, change_clock, reset
from brokerproof.conformance.worlds.simulated.host import ClientHost
from brokerproof.conformance.worlds.simulated.link import Link
from brokerproof.conformance.worlds.simulated.producers import Calls
from brokerproof.conformance.worlds.simulated.raw_peer import PeerLink
from brokerproof.reference_broker.stomp.client import ClientSession as StompSession
from brokerproof.reference_broker.stomp.frames import VERSIONS

if TYPE_CHECKING:
    from collections.abc import Callable

    from brokerproof.conformance.agents.library import Library
    from brokerproof.conformance.experiment.configuration import DeclaredSpec, HostSpec
    from brokerproof.conformance.experiment.history import Event
    from brokerproof.conformance.experiment.program import Program
    from brokerproof.conformance.experiment.state import ClientState, WorldState
    from brokerproof.conformance.worlds.port import Recorder, Waiting

#: What a history calls this kind of world.
KIND: Final = "simulated"
#: How long a host waits for an answer before the result is unknown.
REQUEST_NS = 1_000_000_000
HOUR_MS = 3_600_000
#: Operations that name a destination.
_ADDRESSED = (ops.Send, ops.Subscribe)


class SimulatedPort:
    """See the module's header. ``mutant`` plants a defect in the broker."""

    kind = KIND

    def __init__(self, mutant: str | None = None) -> None:
        self._mutant = mutant

    # -- the run

    def open(self, program: Program, state: WorldState, recorder: Recorder) -> None:
        self._program = program
        self._state = state
        self._recorder = recorder
        self._names = Names(state.destinations)
        self.agenda = Agenda(sum(1 for _ in program.each_step()))
        self._connections = 0
        self._lingered = False
        #: Hosts whose link is not stalled any more, as soon as that is written down.
        self._resumed: list[ClientHost | BridgeEnd] = []
        #: What the broker was built of; None: it could not be.
        self._parts: Build | None = None
        check_mutant(self._mutant)
        self._brokers = {spec.name: self._make_broker(spec) for spec in program.brokers()}
        #: The first one.
        self.broker = self._brokers[state.broker.name]
        self._hosts: dict[str, ClientHost] = {}
        for client in state.clients:
            self.receive_guest(client)
        self._bridges: dict[str, BridgeHost] = {}
        for spec, bridge in zip(program.bridges(), state.bridges, strict=True):
            self._make_bridge(spec, bridge)

    def _make_broker(self, spec: HostSpec) -> BrokerHost:
        """A broker with its storage: what outlives its process, if anything does."""
        broker = BrokerHost(self.agenda, self._recorder, spec.name, self._program.broker, VirtualClock(spec.clock))
        try:
            self._parts = build(self._mutant, broker_config(self._program, spec.name))
            if self._parts.local_time:
                broker.clock.mistaken_ms = spec.clock.zone_hours * HOUR_MS
            broker.run(self._parts.node(broker.journal))
        except Exception as error:  # noqa: BLE001 - whatever the broker does wrong
            fail(broker, error)
        return broker

    def _make_bridge(self, spec: HostSpec, state: ClientState) -> None:
        if self._parts is None:
            return
        near, far = self._brokers[self._program.at(spec)], self._brokers[spec.to]
        carried = self._state.carried(spec)
        more: dict[str, Any] = {"names": self._names, "queues": carried, "number": self._next_connection}
        bridge = BridgeHost(self.agenda, self._recorder, spec, state, near=near, far=far, parts=self._parts, **more)
        self._bridges[state.name] = bridge
        bridge.begin()

    def _next_connection(self) -> int:
        self._connections += 1
        return self._connections

    def receive_guest(self, client: ClientState) -> None:
        broker = self._brokers[client.spec.at or self._state.broker.name]
        link = Link(self.agenda, broker, client.name, client.link)
        host = ClientHost(self.agenda, self._recorder, self._state, client, link, self._names)
        host.broker = broker
        link.client_end = self._hosts[client.name] = host

    def shut(self, *, finished: bool) -> None:
        """Nothing to stop: no process, no socket, no thread."""
        for bridge in self._bridges.values() if finished else ():
            bridge.tell_doubts()

    def in_order(self, events: list[Event]) -> list[Event]:
        return events

    def label(self) -> str:
        return "reference"

    def capabilities(self) -> list[str]:
        return [*CAPABILITIES, "network", "producers", "users"]

    def declared(self) -> DeclaredSpec:
        return self._program.declared()

    def spent(self) -> bool:
        return False

    def rates(self) -> dict[str, int]:
        return {}

    def true_ns(self) -> int:
        return self.agenda.now_ns

    def sample(self, host: str) -> None:
        now_ns = self.agenda.now_ns
        wall_ms, beyond_ns = divmod(self._clock_of(host).wall_ns(now_ns), NS_PER_MS)
        self._recorder.put(ClockSample, now_ns, now_ns, host, wall_ms=wall_ms, beyond_ns=beyond_ns)

    def _clock_of(self, host: str) -> VirtualClock:
        broker = self._brokers.get(host)
        return self._hosts[host].clock if broker is None else broker.clock

    # -- waiting

    def pump(self) -> None:
        resumed, self._resumed = self._resumed, []
        for host in resumed:
            host.link.resume()
            broker = host.broker
            if host.connection and not broker.down:
                broker.resume(host.connection)

    def heal(self) -> None:
        now_ns = self.agenda.now_ns
        for name, host in self._hosts.items():
            host.link.limit(None)
            for kind in host.state.link.modes():
                self._recorder.put(Fault, now_ns, now_ns, "", fault=kind, link=name, evidence=ENACTED)

    def rest(self, deadline_ms: int) -> bool:
        rested = self.agenda.rest(self.agenda.now_ns + deadline_ms * NS_PER_MS)
        at_rest = [bridge.is_at_rest() for bridge in self._bridges.values()]
        return rested and all(at_rest)

    def wait_for_more(self, due_ns: int, missing: Callable[[], bool]) -> bool:  # noqa: ARG002 - virtual time is free
        agenda, events = self.agenda, self._recorder.events
        mark, waited = len(events), False
        # Before something is recorded, nobody has anything to take.
        while len(events) == mark and agenda.now_ns <= due_ns and (next_ns := agenda.next_ns()) is not None:
            waited = True
            if agenda.moving:
                agenda.step()
            else:
                agenda.run_until(min(next_ns, due_ns + 1))
        if waited:
            return True
        if self._lingered:
            return False
        self._lingered = True
        agenda.run_until(agenda.now_ns + self._program.declared().lateness_ms * NS_PER_MS)
        return True

    def has_nothing(self, client: ClientState, consumer: str) -> bool:
        return self._hosts[client.name].has_nothing(consumer)

    def turn(self, until_ns: int) -> bool:
        return self.agenda.step_by(until_ns)

    def wait(self, until_ns: int) -> bool:
        return self.agenda.stir_by(until_ns)

    def moving(self) -> bool:
        return self.agenda.moving > 0

    def _await(self, host: ClientHost, receipt: str) -> Waiting[tuple[Result, str | None]]:
        """Wait until the receipt has come; (result, refusal)."""
        connection = host.connection
        deadline_ns = self.agenda.now_ns + REQUEST_NS + host.link.busy_ns()
        answers = host.answers
        while receipt not in answers:
            if host.connection != connection:
                return "unknown", None
            if not (yield deadline_ns):
                # What others do may have kept its link busy beyond what was known at first.
                busy_ns = 0 if host.state.stalled else host.link.busy_ns()
                if not busy_ns:
                    return "unknown", None
                deadline_ns += REQUEST_NS + busy_ns
        refusal = answers.pop(receipt)
        return ("fail", refusal) if refusal else ("ok", None)

    def _pass(self, until_ns: int) -> Waiting[None]:
        """Wait, whatever happens."""
        while (yield until_ns):
            pass

    # -- connections

    def is_connected(self, client: ClientState) -> bool:
        return self._hosts[client.name].connected

    def connect(self, client: ClientState) -> Waiting[Outcome]:
        host = self._hosts[client.name]
        t0 = self.agenda.now_ns
        if self._parts is None:
            return Outcome(t0=t0, t1=t0, result="fail", refusal="nothing listens")
        try:
            yield from self._dial(host)
        except Exception as error:  # noqa: BLE001 - whatever the library does wrong
            fail(host, error)
        return self._connected(host, t0)

    def _connected(self, host: ClientHost, t0: int) -> Outcome:
        result: Result = "ok" if host.connected else "fail" if host.refusal else "unknown"
        traits = None if host.library is None else host.library.traits  # None: it failed before it said hello
        return Outcome(t0=t0, t1=self.agenda.now_ns, result=result, refusal=host.refusal or None, traits=traits)

    def _dial(self, host: ClientHost, *, returning: bool = False) -> Waiting[None]:
        """Open a socket and wait until the broker has let the host in; ``returning``: under its former name."""
        self._connections += 1
        connection = self._connections
        host.dial(connection)
        if not returning:
            host.named_after = connection
        host.greet(self._library(host), "openwire" if host.state.via == "jms" else "stomp")
        deadline_ns = self.agenda.now_ns + REQUEST_NS
        while not host.connected and host.connection == connection and (yield deadline_ns):
            pass
        if not host.connected:
            host.hang_up()

    def _library(self, host: ClientHost) -> Library:
        """A new library session that has said hello."""
        generation, wanted = self._program.monitor_generation(), host.state.link.monitor
        parts = self._parts
        assert parts is not None, "who is built is dialled"
        monitor = parts.client_monitor(generation, f"tcp://broker:{host.connection}", self.agenda.now_ns)
        name, spec = host.state.name, host.state.spec
        login, passcode = host.broker.login or (spec.user, "")
        # The same on every connection if durable subscriptions hang on it.
        client_id = name if self._state.durable else f"{name}-{host.named_after}"
        library: Library
        if host.state.via == "jms":
            session = parts.jms_client(
                client_id,
                monitor,
                max_inactivity_ms=wanted.read_ms if wanted is not None else 0,
                initial_delay_ms=wanted.initial_delay_ms if wanted is not None else 0,
                consumer_expiry_check=spec.expiry_check,
                connection_id=f"ID:{name}-{host.named_after}",
            )
            session.fault_tolerant = True
            session.user_name, session.password = login, passcode
            library = OpenWireLibrary(session, expiry_check=spec.expiry_check)
        else:
            stomp = StompSession(monitor, generation)
            beats = (stomp_beat_ms(wanted, generation) if wanted is not None else 0,) * 2
            versions = (spec.version,) if spec.version else VERSIONS
            stomp.connect(heart_beat_ms=beats, client_id=client_id, login=login, passcode=passcode, versions=versions)
            library = StompLibrary(stomp)
        return library

    # -- what clients do

    def check(self, operation: ops.Operation) -> None:
        if isinstance(operation, ops.Exhaust):
            raise NotOfferedError(f"virtual time has no {operation.what} that could be scarce; this is for processes")
        if isinstance(operation, _ADDRESSED):
            self._addressed(operation)

    def _addressed(self, operation: ops.Send | ops.Subscribe) -> str:
        return address(self._state, operation.host, operation.dest, self._names)

    def ask(self, operation: ops.ClientOperation) -> Waiting[Outcome]:
        host, t0 = self._hosts[operation.host], self.agenda.now_ns
        try:
            if isinstance(operation, ops.Send) and operation.calls:
                calls = Calls(host.broker, operation)
                return calls.told((yield from self._ask(host, calls.said)))
            return (yield from self._ask(host, operation))
        except Exception as error:  # noqa: BLE001 - whatever the library does wrong
            fail(host, error)
            return Outcome(t0=t0, t1=self.agenda.now_ns, result="unknown")

    def _ask(self, host: ClientHost, operation: ops.ClientOperation) -> Waiting[Outcome]:
        if isinstance(operation, ops.Take):
            return (yield from self._take(host, operation))
        if isinstance(operation, ops.Leave):
            return (yield from self._leave(host, operation))
        assert host.library is not None
        t0 = self.agenda.now_ns
        if isinstance(operation, ops.Subscribe) and operation.browser:
            host.browsing[operation.consumer] = operation.dest
        said: ops.ClientOperation = operation
        if isinstance(operation, _ADDRESSED):
            said = msgspec.structs.replace(operation, dest=self._addressed(operation))
        receipt, stamps = host.library.ask(said, host.now())
        host.flush()
        if isinstance(operation, ops.Send) and operation.again:
            receipt = yield from self._come_back(host)
        result, refusal = yield from self._await(host, receipt)
        due_ns = self._due_ns(host, operation, stamps.get("deliver_at_ms")) if isinstance(operation, ops.Send) else 0
        return Outcome(t0=t0, t1=self.agenda.now_ns, result=result, refusal=refusal, stamps=stamps, due_ns=due_ns)

    def _due_ns(self, host: ClientHost, operation: ops.Send, deliver_at_ms: int | None) -> int:
        """When the drain may expect it; 0: at once."""
        wait_ms = operation.delay_ms
        if deliver_at_ms is not None and not wait_ms:
            wait_ms = deliver_at_ms - host.broker.now().wall_ms
        return self.agenda.now_ns + wait_ms * NS_PER_MS if wait_ms > 0 else 0

    def _come_back(self, host: ClientHost) -> Waiting[str]:
        """A message has reached the broker; before the answer is there, the host's socket is dead, which nobody else
        has noticed, and it comes back to send the message again. The name of the new receipt.
        """
        agenda, client, before = self.agenda, host.state, host.library
        yield from self._pass(agenda.now_ns + host.link.busy_ns() + host.link.longest_ns())
        if not self.is_connected(client):
            return ""  # the broker has closed it
        t0 = agenda.now_ns
        host.forget()
        client.vanish()
        yield from self._dial(host, returning=True)
        self._recorder.put(Leave, t0, agenda.now_ns, client.name, result="ok", how="drop")
        record_connect(self._recorder, client, self._connected(host, t0))
        if not self.is_connected(client):
            return ""
        assert host.library is not None
        assert before is not None
        receipt = host.library.again_after(before)
        host.flush()
        return receipt

    def _take(self, host: ClientHost, operation: ops.Take) -> Waiting[Outcome]:
        agenda, library = self.agenda, host.library
        assert library is not None
        consumer, t0 = operation.consumer, agenda.now_ns
        deadline_ns = t0 + operation.deadline_ms * NS_PER_MS
        if library.pulls(consumer):
            library.pull(consumer, operation.deadline_ms, host.now())
            host.flush()
        message = None
        while host.state.consumer(consumer) is not None:
            message, notices = library.take(consumer, host.now())
            for notice in notices:
                host.heed(notice)
            host.flush()
            # A pull is answered, with a message or without one.
            patience_ns = REQUEST_NS if library.is_owed(consumer) else 0
            if message is not None or not (yield deadline_ns + patience_ns):
                break
        answered = not library.is_owed(consumer) if library.pulls(consumer) else None
        now_ns = agenda.now_ns
        return Outcome(t0=now_ns, t1=now_ns, message=message, since_ns=t0, answered=answered)

    def _leave(self, host: ClientHost, operation: ops.Leave) -> Waiting[Outcome]:
        t0 = self.agenda.now_ns
        if operation.consumer is None:
            if operation.how == "close" and host.library is not None and host.connected:
                host.library.farewell()
                host.flush()
            host.hang_up()
        elif host.library is not None:
            host.library.detach(operation.consumer)
            host.flush()
        # Give the goodbye the time that it needs to reach the broker, and no more: what the broker still writes is
        # still on its way.
        yield from self._pass(t0 + host.link.busy_ns() + host.link.longest_ns())
        result: Result = "unknown" if host.link.stalled_up else "ok"
        return Outcome(t0=t0, t1=self.agenda.now_ns, result=result)

    # -- what the environment does

    def enact(self, operation: ops.Operation) -> Outcome:
        outcome = Outcome(t0=self.agenda.now_ns, t1=0)
        try:
            self._enact(operation, outcome)
        except NotOfferedError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever the broker does wrong
            fail(self.broker, error)
            outcome.result = "unknown"
        outcome.t1 = self.agenda.now_ns
        return outcome

    def _enact(self, operation: ops.Operation, outcome: Outcome) -> None:
        match operation:
            case ops.ReadCounters():
                outcome.counters = self._broker(operation.broker).counters(
                    operation.dest and self._names.physical(operation.dest)
                )
            case ops.ClockJump() | ops.Freeze() | ops.Thaw():
                outcome.evidence = change_clock(self._clock_of(operation.host), operation, outcome.t0)
            case ops.Stall():
                self._linked(operation.link).link.stall(operation.toward)
                outcome.evidence = ENACTED
            case ops.Resume():
                host = self._linked(operation.link)
                outcome.evidence = {"held": host.link.held()}
                self._resumed.append(host)
            case ops.Reset():
                outcome.evidence = reset(self._recorder, self._hosts[operation.link], operation)
            case ops.Restart():
                broker = self._broker(operation.host)
                outcome.evidence = broker.go_down(operation.how)
                self.agenda.run_until(outcome.t0 + DOWN_NS)
                self._parts = build(self._mutant, broker_config(self._program, broker.name))
                broker.come_up(self._parts.node(broker.journal))
            case ops.Cut():
                outcome.evidence = {"in_doubt": self._bridges[operation.bridge].cut()}
            case ops.Rejoin():
                if operation.bridge in self._bridges:
                    self._bridges[operation.bridge].rejoin()
            case ops.Pause():
                self.broker.stand_still()
                self.agenda.run_until(outcome.t0 + operation.ms * NS_PER_MS)
                self.broker.go_on()
            case ops.Operate():
                self._operate(operation, outcome)
            case ops.Probe():
                self._probe(operation, outcome)

    def _linked(self, name: str) -> ClientHost | BridgeEnd:
        """Who has that link."""
        bridge = self._bridges.get(name)
        return self._hosts[name] if bridge is None else bridge.far

    def _broker(self, name: str) -> BrokerHost:
        return self._brokers[name] if name else self.broker

    def _operate(self, asked: ops.Operate, outcome: Outcome) -> None:
        name = self._names.physical
        dest, to = asked.dest and name(asked.dest), asked.to and name(asked.to)
        answer = self.broker.operate(operation(asked.op, dest, to, asked.limit_bytes, asked.command), REQUEST_NS)
        if answer is None:
            outcome.result = "unknown"
        elif answer.code:
            outcome.result, outcome.refusal = "fail", answer.text
        else:
            outcome.count, outcome.shown = answer.count, answer.shown

    def _probe(self, probe: ops.Probe, outcome: Outcome) -> None:
        """Let raw peers come and go; what the first of them saw."""
        agenda, broker = self.agenda, self.broker
        before = broker.node.resources()
        peers = []
        for _ in range(probe.times):
            self._connections += 1
            peers.append(PeerLink(agenda, broker, probe, RAW_PEER, self._connections))
        for link in peers:
            link.arrive()
        end_ns = outcome.t0 + probe.ms * NS_PER_MS
        while not all(link.peer.is_over() for link in peers) and agenda.step_by(end_ns):
            pass
        closed = sum(link.peer.ended_ns is not None for link in peers)
        for link in peers:
            link.leave()
        after = broker.node.resources()
        left = {what: after[what] - before[what] for what in after} if probe.times > 1 else None
        reports = broker.reports(peers[0].connection)
        outcome.seen = peers[0].peer.saw(agenda.now_ns, reports=reports, closed=closed, left=left)
