"""World: what executes a program in any port and records its history, incrementally.

Rules
* ``apply(step)`` normalises, resolves, executes and returns the events that appeared meanwhile; an impossible step
  becomes ``skipped``.
* A host connects when it is first used and again after its connection was lost.
* Every run ends with ``heal``: faults lifted, links open, clocks as they are, open transactions rolled back,
  ``settle``; then ``drain``: the program's consumers leave, one new consumer per destination (and one for the dead
  letters) takes what is left until nothing is due any more.
* ``run(program)`` is only the loop over ``open``, ``apply`` and ``close``; a state machine calls the same three.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import msgspec
from mypy_extensions import mypyc_attr

from brokerproof.conformance.experiment import history as events
from brokerproof.conformance.experiment import operations as ops
from brokerproof.conformance.experiment.configuration import HostSpec, LinkSpec, drain_host, is_drain
from brokerproof.conformance.experiment.history import Event, Header, History
from brokerproof.conformance.experiment.initial_state import state_of
from brokerproof.conformance.experiment.state import ClientState
from brokerproof.conformance.experiment.steps.consume import Take, acknowledged
from brokerproof.conformance.experiment.steps.parallel import ClientStep, Parallel, chooser_of, host_of
from brokerproof.conformance.experiment.steps.send import Send
from brokerproof.conformance.experiment.steps.waiting import Counters
from brokerproof.conformance.worlds.port import NotOfferedError, Outcome, Port, Recorder
from brokerproof.conformance.worlds.recording import record, record_connect
from brokerproof.conformance.worlds.scheduler import TURN, interleave, lock_step

if TYPE_CHECKING:
    from typing import Literal

    from brokerproof.conformance.experiment.program import Program
    from brokerproof.conformance.experiment.state import WorldState
    from brokerproof.conformance.experiment.steps import AnyStep
    from brokerproof.conformance.worlds.port import Waiting

NS_PER_MS = 1_000_000
#: How long healing may take.
HEAL_MS = 5000
#: What a host without a connection connects for; the others are about what it has.
_CONNECTING = (ops.Send, ops.Subscribe, ops.Unsubscribe, ops.Begin)
#: How often that is tried: a connection may end while its host is about to use it.
_TRIES = 3
#: After so many acknowledgements that nobody answered a client of the drain leaves.
UNANSWERED_MAX = 2
#: Operations that wait.
_WAITING = (ops.ClientOperation, ops.Advance)
_ENDS_TRANSACTION = (ops.Commit, ops.Abort)
_CHANGES_CLOCK = (ops.ClockJump, ops.Freeze, ops.Thaw)


@mypyc_attr(allow_interpreted_subclasses=True)
class World:
    """One execution of one program. Create, ``open``, ``apply`` steps, ``close``."""

    def __init__(self, port: Port, *, seed: int | None = None, mutant: str | None = None) -> None:
        self.port = port
        self.kind = port.kind
        self._seed = seed
        self._mutant = mutant

    # -- the loop

    def open(self, program: Program) -> None:
        """Start broker, hosts and links as the program says (its steps are ignored)."""
        self.program = program
        self.state = state_of(program)
        self.recorder = Recorder()
        #: When the last delayed message that may have been accepted becomes due, and the longest delay of all: a
        #: restart may begin it anew.
        self._due_ns = 0
        self._longest_ns = 0
        #: Stalls in force: their evidence may come later.
        self._stalls: dict[str, events.Fault] = {}
        try:
            self.port.open(program, self.state, self.recorder)
            self._declared = self.port.declared()
            self._phase("work")
        except BaseException:
            self.shut()
            raise

    def apply(self, step: AnyStep) -> list[Event]:
        """Execute one step; the events that it (and whatever else happened meanwhile) made."""
        mark = len(self.recorder.events)
        if isinstance(step, Parallel):
            self._at_once(step)
        else:
            lock_step(self.port.wait, self._perform(step, self.state))
        return self.recorder.events[mark:]

    def _perform(self, step: AnyStep, state: WorldState) -> Waiting[bool]:
        """One step, by the ordinals of a state; whether all of it could be done."""
        concrete = step.normalise(state)
        try:
            if concrete is None:
                raise NotOfferedError(f"nothing to do {step} with")
            operation = concrete.resolve(state)
            for again in range(concrete.repeats()):
                if self.port.spent():
                    raise NotOfferedError("the run has taken its time")
                if again and isinstance(concrete, Counters):
                    yield from self._advance(concrete.every_ms)
                if not isinstance(operation, ops.Take):
                    operation = concrete.resolve(state)
                elif state.client(operation.host).consumer(operation.consumer) is None:
                    return False  # it has vanished meanwhile; the ordinals may mean somebody else
                outcome = yield from self._execute(operation)
                if isinstance(operation, ops.Take) and outcome.message is None:
                    return False
        except NotOfferedError:
            self._skip(step)
            return False
        return True

    def _skip(self, step: AnyStep) -> None:
        now_ns = self.port.true_ns()
        self.recorder.put(events.Skipped, now_ns, now_ns, "", step=msgspec.to_builtins(step))

    def _at_once(self, step: Parallel) -> None:
        """Several hosts' sequences."""
        concrete = step.normalise(self.state)
        if concrete is None:
            self._skip(step)
            return
        works: tuple[list[Waiting[None]], list[Waiting[None]]] = ([], [])
        for steps in concrete.of:
            works[host_of(steps) is None].append(self._sequence(steps))
        interleave(self.port, *works, chooser_of(concrete.interleave))

    def _sequence(self, steps: tuple[ClientStep, ...]) -> Waiting[None]:
        """One host's, or the observer's. What a step does several times may be interrupted in between."""
        state = self.state.alone(host_of(steps))
        for step in steps:
            one = msgspec.structs.replace(step, count=1) if isinstance(step, Send | Take | Counters) else step
            for again in range(step.repeats()):
                yield TURN
                if again and isinstance(step, Counters):
                    yield from self._advance(step.every_ms)
                if not (yield from self._perform(one, state)):
                    break

    def close(self) -> History:
        """Heal, drain, stop everything; the finished history."""
        finished = False
        try:
            self._heal()
            self._drain()
            self._phase("end")
            finished = True
            header = self._header()
        finally:
            self.shut(finished=finished)
        return History(header, self.port.in_order(self.recorder.events))

    def shut(self, *, finished: bool = False) -> None:
        """Stop everything at once, without healing; safe to call twice."""
        self.port.shut(finished=finished)

    def run(self, program: Program) -> History:
        """Execute a whole program."""
        self.open(program)
        try:
            for step in program.steps:
                self.apply(step)
        except BaseException:
            self.shut()
            raise
        return self.close()

    def _header(self) -> Header:
        program, port = self.program, self.port
        return Header(
            events.FORMAT,
            port.label(),
            world=port.kind,
            program=program.digest(),
            seed=self._seed,
            mutant=self._mutant,
            broker_host=program.broker_host().name,
            capabilities=port.capabilities(),
            declared=self._declared,
            destinations=self.state.destinations.declared,
            at=self._places() or msgspec.UNSET,
            users={host.name: host.user for host in program.hosts if host.user} or msgspec.UNSET,
            rates=port.rates() or msgspec.UNSET,
        )

    def _places(self) -> dict[str, str]:
        """Who is at another broker than the first, the drain's clients included."""
        program, state = self.program, self.state
        at = {broker.name: broker.name for broker in state.brokers[1:]}
        for spec in [*program.clients(), *program.bridges()]:
            at[spec.name] = program.at(spec)
        at |= {bridge.name: bridge.spec.at for bridge in state.bridges}
        at |= {drain_host(broker.name): broker.name for broker in state.brokers[1:]}
        return {host: broker for host, broker in at.items() if broker != state.broker.name}

    # -- operations

    def execute(self, operation: ops.Operation) -> Outcome:
        """Carry an operation out and record it, while nobody else does anything. Raises ``NotOfferedError``."""
        if isinstance(operation, _WAITING):
            return lock_step(self.port.wait, self._execute(operation))
        return self._execute_at_once(operation)

    def _execute(self, operation: ops.Operation) -> Waiting[Outcome]:
        if not isinstance(operation, _WAITING):
            return self._execute_at_once(operation)
        self.port.check(operation)
        if isinstance(operation, ops.ClientOperation):
            return (yield from self._ask(operation))
        return (yield from self._advance(operation.ms))

    def _execute_at_once(self, operation: ops.Operation) -> Outcome:
        """One that no client waits for."""
        self.port.check(operation)
        return self._settle(operation.deadline_ms) if isinstance(operation, ops.Settle) else self._enact(operation)

    def _advance(self, ms: int) -> Waiting[Outcome]:
        t0 = self.port.true_ns()
        while (yield t0 + ms * NS_PER_MS) and not self.port.spent():
            pass
        return Outcome(t0=t0, t1=self.port.true_ns())

    def _ask(self, operation: ops.ClientOperation) -> Waiting[Outcome]:
        """A client's."""
        state, port = self.state, self.port
        client = state.client(operation.host)
        state.begun(operation)
        for _ in range(_TRIES):
            if isinstance(operation, _CONNECTING) and not (yield from self._connected(client)):
                now_ns = port.true_ns()
                outcome = Outcome(t0=now_ns, t1=now_ns, result="fail", refusal="not connected")
                break
            outcome = yield from port.ask(operation)
            if not outcome.unsent or not isinstance(operation, _CONNECTING):
                break
        if outcome.result != "fail" or isinstance(operation, _ENDS_TRANSACTION):
            state.happened(operation, connected=port.is_connected(client))
        if outcome.due_ns:
            self._due_ns = max(self._due_ns, outcome.due_ns)
            self._longest_ns = max(self._longest_ns, outcome.due_ns - outcome.t1)
        elif isinstance(operation, ops.Commit) and self._declared.delay_begins == "commit" and self._longest_ns:
            self._due_ns = max(self._due_ns, outcome.t1 + self._longest_ns)
        record(self.recorder, self._declared, state, operation, outcome)
        return outcome

    def _connected(self, client: ClientState) -> Waiting[bool]:
        """Connect if necessary; whether there is a connection now."""
        if not self.port.is_connected(client):
            outcome = yield from self.port.connect(client)
            client.traits = outcome.traits or client.traits
            record_connect(self.recorder, client, outcome)
        return self.port.is_connected(client)

    def _enact(self, operation: ops.Operation) -> Outcome:
        """The environment's."""
        state, port = self.state, self.port
        clock = operation.host if isinstance(operation, _CHANGES_CLOCK) else ""
        if clock:
            port.sample(clock)
        outcome = port.enact(operation)
        state.begun(operation)
        event = record(self.recorder, self._declared, state, operation, outcome)
        if isinstance(operation, ops.Stall):
            assert isinstance(event, events.Fault)
            self._stalls[operation.link] = event
        elif isinstance(operation, ops.Resume):
            stall = self._stalls.pop(operation.link)
            stall.evidence = outcome.stall or stall.evidence
            port.pump()
        elif isinstance(operation, ops.Restart):
            clock = operation.host or state.broker.name
            if self._due_ns > outcome.t0:
                self._due_ns = max(self._due_ns, outcome.t1 + self._longest_ns)
        if clock:
            port.sample(clock)
        return outcome

    def _settle(self, deadline_ms: int) -> Outcome:
        t0 = self.port.true_ns()
        rested = self.port.rest(deadline_ms) and not any(client.stalled for client in self.state.linked())
        for broker in ["", *(other.name for other in self.state.brokers[1:])]:
            for dest in [*self.state.places(), None]:
                self.execute(ops.ReadCounters(dest=dest, at_rest=rested, broker=broker))
        return Outcome(t0=t0, t1=self.port.true_ns())

    # -- the end

    def _phase(self, name: Literal["work", "heal", "drain", "end"]) -> None:
        """The run enters a phase."""
        for host in self.state.hosts:
            self.port.sample(host.name)
        now_ns = self.port.true_ns()
        self.recorder.put(events.Phase, now_ns, now_ns, "", name=name)

    def _heal(self) -> None:
        """Lift every fault, wait until nothing moves, read all counters."""
        self._phase("heal")
        state = self.state
        for client in state.linked():
            if client.stalled:
                self.execute(ops.Resume(link=client.name, toward=client.stalled))
        for host in state.hosts:
            if host.frozen:
                self.execute(ops.Thaw(host=host.name))
        for what in list(state.broker.scarce):
            self.execute(ops.Relieve(what=what))
        self.port.heal()
        for bridge in self.state.bridges:
            self.execute(ops.Rejoin(bridge=bridge.name))
        for client in self.state.clients:
            if client.transaction:
                self.execute(ops.Abort(host=client.name, tx=client.transaction))
        self._settle(HEAL_MS)

    def _drain(self) -> None:
        """Everything leaves; what is left comes to light."""
        state, port = self.state, self.port
        self._phase("drain")
        for client in state.clients:
            self._close_consumers(client)
            if "counters" not in port.capabilities() and port.is_connected(client):
                # Where nobody tells what is in flight: some brokers give back only when the connection ends.
                self.execute(ops.Leave(host=client.name))
        port.rest(HEAL_MS)
        drainers = [self._drainer()]
        drainers += [self._drainer(broker.name) for broker in state.brokers[1:]]
        for client in state.clients:
            for name in client.idle_durables():
                # What a durable subscription that is left is owed.
                plain = {"consumer": client.next_consumer(), "prefetch": 1000, "ack": "individual", "dispatch": "async"}
                self.execute(msgspec.structs.replace(client.durables[name], **plain))
        drainers += state.clients
        self._take_all(drainers)
        while port.wait_for_more(self._due_ns, self._is_missing):
            self._take_all(drainers)
        for drainer in drainers[: len(state.brokers)]:
            port.sample(drainer.name)
        self._settle(HEAL_MS)
        # A broker that others use keeps nothing of this run.
        for client in state.clients:
            self._close_consumers(client)
            for name in client.idle_durables():
                self.execute(ops.Unsubscribe(host=client.name, durable=name))

    def _drainer(self, broker: str = "") -> ClientState:
        """A client of the world itself that consumes from whatever may hold something at one of the brokers."""
        name = drain_host(broker)
        drainer = ClientState(HostSpec(name, "client", at=broker), len(self.state.clients), LinkSpec(name, 0))
        self.state.receive_guest(drainer)
        self.port.receive_guest(drainer)
        self.port.sample(name)
        for dest in self.state.left_behind():
            self.execute(ops.Subscribe(host=name, dest=dest, consumer=drainer.next_consumer(), ack="individual"))
        return drainer

    def _close_consumers(self, client: ClientState) -> None:
        for consumer in list(client.consumers):
            self.execute(ops.Leave(host=client.name, consumer=consumer.name))

    def _take_all(self, drainers: list[ClientState]) -> None:
        """Take and acknowledge what is there, until nothing more comes. Who is not answered leaves, for each answer is
        waited for; what its queue still keeps nobody knows then.
        """
        unanswered: Counter[str] = Counter()
        progress = True
        while progress:
            self.port.rest(HEAL_MS)
            progress = False
            for consumer in [consumer for client in drainers for consumer in client.consumers]:
                client, name = consumer.client, consumer.name
                take = ops.Take(host=client.name, consumer=name)
                while not self.port.has_nothing(client, name) and self.execute(take).message is not None:
                    progress = True
                    unanswered[client.name] += self.execute(acknowledged(consumer, 0)).result == "unknown"
                    if unanswered[client.name] >= UNANSWERED_MAX:
                        self.execute(ops.Leave(host=client.name, consumer=name))
                        break

    def _is_missing(self) -> bool:
        """Whether any message of the run has neither been settled nor come to light here."""
        sent: dict[str, None] = {}
        uncommitted: dict[str, list[str]] = {}
        for event in self.recorder.events:
            if isinstance(event, events.Send):
                if event.result != "fail" and not self.state.destinations.is_topic(event.dest):
                    if event.tx is None:
                        sent[event.message] = None
                    else:
                        uncommitted.setdefault(event.tx, []).append(event.message)
            elif isinstance(event, events.Commit):
                if event.result != "fail":
                    sent.update(dict.fromkeys(uncommitted.pop(event.tx, ())))
            elif isinstance(event, events.Ack):
                if event.result == "ok" or event.mode == "auto":
                    for message in event.messages:
                        sent.pop(message, None)
            elif isinstance(event, events.Arrive) and is_drain(event.host):
                sent.pop(event.message, None)
        return bool(sent)
