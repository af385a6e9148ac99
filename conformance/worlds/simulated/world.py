"""SimulatedWorld: one program in one process, in virtual time, deterministic to the byte (DESIGN section 6).

Everything happens on one agenda. The broker is the node that the server serves, the clients are the libraries that the
agents use; only clock and socket differ.

Rules:

* A request is lock-step: it is written, then virtual time runs until its answer has come or ``REQUEST_NS`` has passed
  (result ``unknown``).
* Clock samples are exact: in this world the observer owns the clocks.
* ``moving`` counts frames on their way and writers at work; the world is at rest when it is 0 and no link is stalled.
  Timers do not count: a keep-alive is no work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from conformance.history import (
    Ack,
    ClockSample,
    Connect,
    Consume,
    Counters,
    Event,
    Header,
    Leave,
    Nack,
    Result,
    Send,
    Subscribe,
)
from conformance.mutants import build
from conformance.program import HostSpec, LinkSpec, Program
from conformance.steps.consume import Subscribe as SubscribeStep
from conformance.worlds.base import DEAD_LETTERS, DRAIN_HOST, Recorder, World
from conformance.worlds.simulated.agenda import Agenda
from conformance.worlds.simulated.broker import BrokerHost
from conformance.worlds.simulated.clock import VirtualClock
from conformance.worlds.simulated.host import REQUEST_NS, ClientHost
from conformance.worlds.simulated.libraries import JmsHost, StompHost
from conformance.worlds.simulated.link import Ended, Link, Opened
from conformance.worlds.state import ClientState, ConsumerState, HostState, WorldState
from conformance.worlds.translation import CAPABILITIES, broker_config, physical

if TYPE_CHECKING:
    from collections.abc import Callable

    from conformance.steps.send import Send as SendStep

NS_PER_MS = 1_000_000
#: Evidence of a fault that this world itself enacts.
ENACTED = {"simulated": 1}


class SimulatedWorld(World):
    """See the module's header. ``mutant`` plants a defect in the broker; ``listener`` hears events as they are
    recorded.
    """

    kind = "simulated"

    def __init__(
        self, *, mutant: str | None = None, seed: int | None = None, listener: Callable[[Event], None] | None = None
    ) -> None:
        self._mutant = mutant
        self._seed = seed
        self._listener = listener
        self.moving = 0

    # -- the loop

    def open(self, program: Program) -> None:
        self.program = program
        self.state = WorldState(program)
        self.recorder = Recorder(self._listener)
        self.agenda = Agenda()
        self._connections = 0
        self.moving = 0
        #: When the last delayed message that was accepted becomes due.
        self._due_ns = 0
        self.broker_clock = VirtualClock(program.broker_host().clock)
        self.parts = build(self._mutant, broker_config(program))
        self.broker = BrokerHost(self, self.state.broker.name, self.parts.node())
        self._hosts: dict[str, ClientHost] = {client.name: _make_host(self, client) for client in self.state.clients}
        for host in self.state.hosts:
            self._sample(host.name)
        self.phase("work")

    def shut(self) -> None:
        """Nothing to stop: no process, no socket, no thread."""

    def header(self) -> Header:
        return self.make_header(self.program, "reference", CAPABILITIES, self._seed, self._mutant)

    def true_ns(self) -> int:
        return self.agenda.now_ns

    def phase(self, name: str) -> None:
        if name != "work":
            for host in self.state.hosts:
                self._sample(host.name)
        super().phase(name)

    def next_connection(self) -> int:
        """A connection number that was never used."""
        self._connections += 1
        return self._connections

    # -- what links bring

    def at_broker(self, link: Link, connection: int, item: object) -> None:
        """Something arrived at the broker's host."""
        if isinstance(item, Opened):
            self.broker.accept(connection, link, item.protocol)
        elif isinstance(item, Ended):
            self.broker.lose(connection)
        else:
            self.broker.receive(connection, item)

    def at_client(self, client: str, connection: int, item: object) -> None:
        """Something arrived at a client's host."""
        self._hosts[client].receive(connection, item)

    # -- waiting

    def _await_answer(self, host: ClientHost, connection: int, receipt: str) -> tuple[Result, str | None]:
        """Run until the receipt has come; (result, refusal)."""
        agenda = self.agenda
        deadline_ns = agenda.now_ns + REQUEST_NS
        answers = host.answers
        while receipt not in answers:
            if host.connection != connection:
                return "unknown", None
            if not agenda.step_by(deadline_ns):
                return "unknown", None
        refusal = answers.pop(receipt)
        return ("fail", refusal) if refusal else ("ok", None)

    def _connected(self, host: ClientHost) -> bool:
        """Connect if necessary; whether there is a connection now."""
        if host.connected:
            return True
        t0 = self.agenda.now_ns
        host.dial()
        connection = host.connection
        deadline_ns = t0 + REQUEST_NS
        while not host.connected and host.connection == connection:
            if not self.agenda.step_by(deadline_ns):
                break
        connected = host.connected
        if not connected:
            host.hang_up()
        spec = host.state.spec
        event = Connect(
            self.recorder.next_seq(),
            t0,
            self.agenda.now_ns,
            host.state.name,
            "ok" if connected else "unknown",
            spec.via,
            spec.via == "jms" and spec.expiry_check,
        )
        self.recorder.record(event)
        return connected

    # -- operations that steps call

    def send(self, client: ClientState, dest: str, step: SendStep) -> None:
        host = self._hosts[client.name]
        message = client.next_message()
        connected = self._connected(host)
        t0 = self.agenda.now_ns
        result: Result = "fail"
        refusal: str | None = "not connected"
        expiration_ms, timestamp_ms = 0, None
        if connected:
            receipt, stamps = host.send(physical(dest), message, step)
            expiration_ms, timestamp_ms = stamps.expiration_ms, stamps.timestamp_ms
            result, refusal = self._await_answer(host, host.connection, receipt)
            if step.delay_ms:
                self._due_ns = max(self._due_ns, self.agenda.now_ns + step.delay_ms * NS_PER_MS)
        event = Send(
            self.recorder.next_seq(),
            t0,
            self.agenda.now_ns,
            client.name,
            result,
            message,
            dest,
            expiration_ms,
            timestamp_ms,
            step.delay_ms,
            None,
            step.persistent,
            step.priority,
            step.size,
            None,
            refusal,
        )
        self.recorder.record(event)

    def subscribe(self, client: ClientState, dest: str, step: SubscribeStep) -> None:
        host = self._hosts[client.name]
        name = client.next_consumer()
        connected = self._connected(host)
        t0 = self.agenda.now_ns
        result: Result = "fail"
        refusal: str | None = "not connected"
        if connected:
            connection = host.connection
            receipt = host.subscribe(name, physical(dest), step)
            result, refusal = self._await_answer(host, connection, receipt)
            if result != "fail" and host.connection == connection:
                client.consumers.append(ConsumerState(name, client, dest, step.ack))
        event = Subscribe(
            self.recorder.next_seq(),
            t0,
            self.agenda.now_ns,
            client.name,
            result,
            name,
            dest,
            step.prefetch,
            step.dispatch,
            step.ack,
            refusal,
        )
        self.recorder.record(event)

    def take(self, consumer: ConsumerState, deadline_ms: int) -> bool:
        host = self._hosts[consumer.client.name]
        agenda = self.agenda
        t0 = agenda.now_ns
        deadline_ns = t0 + deadline_ms * NS_PER_MS
        while True:
            if consumer not in consumer.client.consumers:
                return False
            message = host.take(consumer)
            if message is not None:
                break
            if not agenda.step_by(deadline_ns):
                return False
        if consumer.ack != "auto":
            consumer.unsettled.append(message)
        self.recorder.record(
            Consume(
                self.recorder.next_seq(), agenda.now_ns, agenda.now_ns, consumer.client.name, consumer.name, message
            )
        )
        return True

    def ack(self, consumer: ConsumerState, upto: int) -> None:
        host = self._hosts[consumer.client.name]
        t0 = self.agenda.now_ns
        receipt, covered = host.ack(consumer, upto)
        consumer.unsettled = [message for message in consumer.unsettled if message not in covered]
        result, refusal = self._await_answer(host, host.connection, receipt)
        mode = "cumulative" if consumer.ack == "client" else "individual"
        event = Ack(
            self.recorder.next_seq(),
            t0,
            self.agenda.now_ns,
            consumer.client.name,
            result,
            consumer.name,
            covered,
            mode,  # type: ignore[arg-type]  # one of the two literals
            None,
            refusal,
        )
        self.recorder.record(event)

    def nack(self, consumer: ConsumerState, upto: int) -> None:
        host = self._hosts[consumer.client.name]
        message = consumer.unsettled.pop(upto)
        t0 = self.agenda.now_ns
        receipt = host.nack(consumer, message)
        result, refusal = self._await_answer(host, host.connection, receipt)
        event = Nack(
            self.recorder.next_seq(),
            t0,
            self.agenda.now_ns,
            consumer.client.name,
            result,
            consumer.name,
            [message],
            None,
            refusal,
        )
        self.recorder.record(event)

    def close_consumer(self, consumer: ConsumerState) -> None:
        client = consumer.client
        host = self._hosts[client.name]
        t0 = self.agenda.now_ns
        host.unsubscribe(consumer.name)
        client.consumers.remove(consumer)
        result = self._after_leaving(host)
        self.recorder.record(
            Leave(self.recorder.next_seq(), t0, self.agenda.now_ns, client.name, result, "close", consumer.name)
        )

    def lose_client(self, client: ClientState, how: str) -> None:
        host = self._hosts[client.name]
        t0 = self.agenda.now_ns
        host.hang_up()
        client.consumers.clear()
        host.forget_consumers()
        result = self._after_leaving(host)
        self.recorder.record(Leave(self.recorder.next_seq(), t0, self.agenda.now_ns, client.name, result, how))  # type: ignore[arg-type]  # a literal of the step

    def _after_leaving(self, host: ClientHost) -> Result:
        """Give the goodbye the time that it needs to reach the broker, and no more: what the broker still writes is
        still on its way.
        """
        self.agenda.run_until(self.agenda.now_ns + host.state.link.latency_us * 1000)
        return "unknown" if host.link.stalled_toward_broker() else "ok"

    def jump_clock(self, host: HostState, jump_ms: int) -> None:
        t0 = self.agenda.now_ns
        before_ms = self._sample(host.name)
        self._clock(host.name).jump(jump_ms)
        self.record_fault(
            "clock", t0, {"before_ms": before_ms, "after_ms": before_ms + jump_ms}, target=host.name, jump_ms=jump_ms
        )
        self._sample(host.name)

    def stall(self, client: ClientState, toward: str) -> None:
        client.stalled = toward
        self._hosts[client.name].link.stall(toward)
        self.record_fault("stall", self.agenda.now_ns, ENACTED, link=client.name, toward=toward)

    def resume(self, client: ClientState) -> None:
        host = self._hosts[client.name]
        toward = client.stalled
        client.stalled = ""
        t0 = self.agenda.now_ns
        held = host.link.held()
        self.record_fault("resume", t0, {"held": held}, link=client.name, toward=toward)
        host.link.resume()
        if host.connection:
            self.broker.resume(host.connection)

    def advance(self, ms: int) -> None:
        self.agenda.run_until(self.agenda.now_ns + ms * NS_PER_MS)

    def settle(self, deadline_ms: int) -> None:
        at_rest = self._rest(deadline_ms) and not any(client.stalled for client in self.state.clients)
        for dest in self.state.dests:
            self.read_counters(dest, at_rest=at_rest)
        self.read_counters(None, at_rest=at_rest)

    def _rest(self, deadline_ms: int) -> bool:
        """Run until nothing moves; False if something still did at the deadline."""
        agenda = self.agenda
        deadline_ns = agenda.now_ns + deadline_ms * NS_PER_MS
        while self.moving:
            next_ns = agenda.next_ns()
            if next_ns is None or next_ns > deadline_ns:
                return False
            agenda.step()
        return True

    def read_counters(self, dest: str | None, *, at_rest: bool) -> None:
        broker = self.broker.node.broker
        figures = broker.broker_counters() if dest is None else broker.counters(physical(dest), self.broker.now())
        now_ns = self.agenda.now_ns
        known = (
            {}
            if figures is None
            else {name: value for name, value in figures.items() if name in Counters.__struct_fields__}
        )
        event = Counters(self.recorder.next_seq(), now_ns, now_ns, self.broker.name, dest, at_rest, **known)
        self.recorder.record(event)

    # -- the end

    def drain(self) -> None:
        self.phase("drain")
        for client in self.state.clients:
            for consumer in list(client.consumers):
                self.close_consumer(consumer)
        self._rest(self.settle_deadline_ms())
        drainer = ClientState(HostSpec(DRAIN_HOST, "client"), len(self.state.clients), LinkSpec(DRAIN_HOST, 0))
        self._hosts[DRAIN_HOST] = _make_host(self, drainer)
        self._sample(DRAIN_HOST)
        step = SubscribeStep(prefetch=1000, ack="individual")
        for dest in [*(d for d in self.state.dests if not d.startswith("t")), DEAD_LETTERS]:
            self.subscribe(drainer, dest, step)
        self._take_all(drainer)
        while self.agenda.now_ns <= self._due_ns:
            next_ns = self.agenda.next_ns()
            if next_ns is None:
                break
            self.agenda.run_until(min(next_ns, self._due_ns + 1))
            self._take_all(drainer)
        self.advance(self.program.declared().lateness_ms)
        self._take_all(drainer)
        self._sample(DRAIN_HOST)
        self.settle(self.settle_deadline_ms())

    def _take_all(self, drainer: ClientState) -> None:
        """Take and acknowledge until nothing more comes."""
        progress = True
        while progress:
            self._rest(self.settle_deadline_ms())
            progress = False
            for consumer in drainer.consumers:
                while self.take(consumer, 0):
                    progress = True
                    self.ack(consumer, 0)

    # -- clocks

    def _clock(self, host: str) -> VirtualClock:
        return self.broker_clock if host == self.state.broker.name else self._hosts[host].clock

    def _sample(self, host: str) -> int:
        """Record an exact clock sample; returns the wall clock in milliseconds."""
        now_ns = self.agenda.now_ns
        wall_ms, beyond_ns = divmod(self._clock(host).wall_ns(now_ns), NS_PER_MS)
        recorder = self.recorder
        recorder.record(ClockSample(recorder.next_seq(), now_ns, now_ns, host, wall_ms, 0, beyond_ns))
        return wall_ms


def _make_host(world: SimulatedWorld, client: ClientState) -> ClientHost:
    return JmsHost(world, client) if client.via == "jms" else StompHost(world, client)
