"""SimulatedWorld: one program in one process, in virtual time, deterministic to the byte (DESIGN section 6).

Everything happens on one agenda. The broker is the node that the server serves, the clients are the libraries that the
agents use; only clock and socket differ.

Rules:

* How requests, answers and clocks work is ``stage.py``; here is what each step does.
* ``moving`` counts frames on their way and writers at work; the world is at rest when it is 0 and no link is stalled.
  Timers do not count: a keep-alive is no work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from brokerproof.conformance.brokers.translation import operation, physical
from brokerproof.conformance.experiment.configuration import HostSpec, LinkSpec
from brokerproof.conformance.experiment.destinations import pattern_of
from brokerproof.conformance.experiment.history import (
    Abort,
    Ack,
    Begin,
    Commit,
    Consume,
    Counters,
    Leave,
    Nack,
    Operate,
    Pause,
    Poll,
    Result,
    Send,
    Subscribe,
    Unsubscribe,
)
from brokerproof.conformance.experiment.policies import window_of
from brokerproof.conformance.experiment.state import ClientState, ConsumerState, HostState
from brokerproof.conformance.experiment.steps.consume import Subscribe as SubscribeStep
from brokerproof.conformance.worlds.base import DRAIN_HOST, STRANGER, NotOfferedError
from brokerproof.conformance.worlds.simulated.broker import DOWN_NS
from brokerproof.conformance.worlds.simulated.host import REQUEST_NS, ClientHost
from brokerproof.conformance.worlds.simulated.stage import NS_PER_MS, Stage, make_host
from brokerproof.conformance.worlds.simulated.visitor import visit

if TYPE_CHECKING:
    from brokerproof.conformance.experiment.steps.protocol import Acknowledge
    from brokerproof.conformance.experiment.steps.send import Send as SendStep
    from brokerproof.conformance.experiment.steps.visit import Visit as VisitStep

#: Evidence of a fault that this world itself enacts.
ENACTED = {"simulated": 1}


class SimulatedWorld(Stage):
    """See the module's header. ``mutant`` plants a defect in the broker; ``listener`` hears events as they are
    recorded.
    """

    # -- operations that steps call

    def send(self, client: ClientState, dest: str, step: SendStep) -> None:
        host = self.hosts[client.name]
        address = self.address(client, dest)
        message = client.next_message()
        connected = self.make_sure_connected(host)
        t0 = self.agenda.now_ns
        result: Result = "fail"
        refusal: str | None = "not connected"
        expiration_ms, timestamp_ms, body, tx = 0, None, None, ""
        delivery_ms = None
        preset_ms = host.now().wall_ms + step.preset_in_ms if step.preset_in_ms else None
        deliver_at_ms = host.now().wall_ms + step.deliver_in_ms if step.deliver_in_ms else None
        if connected:
            receipt, stamps = host.send(address, message, step)
            tx = client.transaction
            expiration_ms, timestamp_ms, body = stamps.expiration_ms, stamps.timestamp_ms, stamps.body
            delivery_ms = stamps.delivery_ms
            if step.again:
                receipt = self._come_back(host)
            result, refusal = self.await_answer(host, host.connection, receipt)
            self._will_be_due(step, deliver_at_ms)
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
            deliver_at_ms,
            step.persistent,
            step.priority,
            step.size,
            tx or None,
            refusal,
            step.kind,
            step.group,
            step.life_ms,
            None if step.endless else step.ttl_ms,
            body,
            step.forged,
            step.network,
            delivery_ms,
            preset_ms,
            step.again and connected,
        )
        self.recorder.record(event)

    def _come_back(self, host: ClientHost) -> str:
        """A message has reached the broker; before the answer is there, the host's socket is dead, and it comes back to
        send the message again. The name of the new receipt.
        """
        agenda, client = self.agenda, host.state
        agenda.run_until(agenda.now_ns + host.link.busy_ns() + client.link.latency_us * 1000)
        if not host.connected:
            return ""  # the broker has closed it
        t0 = agenda.now_ns
        host.redial()
        client.vanish()
        host.forget_consumers()
        connected = self.is_let_in(host)
        self.recorder.record(Leave(self.recorder.next_seq(), t0, agenda.now_ns, client.name, "ok", "drop"))
        self.record_connect(host, t0, connected=connected)
        return host.repeat() if connected else ""

    def _will_be_due(self, step: SendStep, deliver_at_ms: int | None) -> None:
        """The drain has to wait for it."""
        wait_ms = step.delay_ms
        if deliver_at_ms is not None and not wait_ms:
            wait_ms = deliver_at_ms - self.broker.now().wall_ms
        if wait_ms > 0:
            self.longest_ns = max(self.longest_ns, wait_ms * NS_PER_MS)
            self.due_ns = max(self.due_ns, self.agenda.now_ns + wait_ms * NS_PER_MS)

    def subscribe(self, client: ClientState, dest: str, step: SubscribeStep) -> None:
        host = self.hosts[client.name]
        if step.wild:
            dest = pattern_of(dest)
        address = self.address(client, dest)
        name = client.next_consumer()
        connected = self.make_sure_connected(host)
        t0 = self.agenda.now_ns
        result: Result = "fail"
        refusal: str | None = "not connected"
        if connected:
            connection = host.connection
            receipt = host.subscribe(name, address, step)
            result, refusal = self.await_answer(host, connection, receipt)
            if result != "fail" and host.connection == connection:
                client.consumers.append(ConsumerState(name, client, dest, step))
            if result != "fail" and step.durable:
                client.durables[step.durable] = (dest, step)
        event = Subscribe(
            self.recorder.next_seq(),
            t0,
            self.agenda.now_ns,
            client.name,
            result,
            name,
            dest,
            window_of(self.program.broker, dest, step.prefetch, durable=bool(step.durable), browser=step.browser),
            step.dispatch,
            step.ack,
            refusal,
            step.selector,
            step.durable,
            step.browser,
            step.exclusive,
            step.no_local,
            step.priority,
            self.asked_for(dest, step),
        )
        self.recorder.record(event)

    def take(self, consumer: ConsumerState, deadline_ms: int) -> bool:
        host = self.hosts[consumer.client.name]
        t0 = self.agenda.now_ns
        message = self._take(consumer, deadline_ms)
        if host.pulls(consumer):
            recorder, now_ns = self.recorder, self.agenda.now_ns
            name, answered = consumer.client.name, not host.asks(consumer)
            recorder.record(Poll(recorder.next_seq(), t0, now_ns, name, consumer.name, message, answered))
        return message is not None

    def _take(self, consumer: ConsumerState, deadline_ms: int) -> str | None:
        host = self.hosts[consumer.client.name]
        agenda = self.agenda
        t0 = agenda.now_ns
        deadline_ns = t0 + deadline_ms * NS_PER_MS
        host.ask(consumer, deadline_ms)
        while True:
            if consumer not in consumer.client.consumers:
                return None
            message = host.take(consumer)
            if message is not None:
                break
            # A pull is answered, with a message or without one.
            if not agenda.step_by(deadline_ns + REQUEST_NS if host.asks(consumer) else deadline_ns):
                return None
        if consumer.ack != "auto":
            consumer.took(message)
        self.recorder.record(
            Consume(
                self.recorder.next_seq(), agenda.now_ns, agenda.now_ns, consumer.client.name, consumer.name, message
            )
        )
        return message

    def ack(self, consumer: ConsumerState, upto: int) -> None:
        host = self.hosts[consumer.client.name]
        t0 = self.agenda.now_ns
        tx = consumer.client.transaction
        receipt, covered = host.ack(consumer, upto)
        consumer.settle(covered)
        result, refusal = self.await_answer(host, host.connection, receipt)
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
            tx or None,
            refusal,
        )
        self.recorder.record(event)

    def nack(self, consumer: ConsumerState, upto: int) -> None:
        host = self.hosts[consumer.client.name]
        message = consumer.unsettled.pop(upto)
        t0 = self.agenda.now_ns
        receipt = host.nack(consumer, message)
        result, refusal = self.await_answer(host, host.connection, receipt)
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

    def acknowledge(self, consumer: ConsumerState, step: Acknowledge) -> None:
        host = self.hosts[consumer.client.name]
        t0 = self.agenda.now_ns
        receipt, covered = host.acknowledge(consumer, step)
        result, refusal = self.await_answer(host, host.connection, receipt)
        self.record_acknowledge(consumer, step, covered, (t0, self.agenda.now_ns), result, refusal)

    def close_consumer(self, consumer: ConsumerState) -> None:
        client = consumer.client
        host = self.hosts[client.name]
        t0 = self.agenda.now_ns
        host.unsubscribe(consumer.name)
        client.consumers.remove(consumer)
        result = self._after_leaving(host)
        self.recorder.record(
            Leave(self.recorder.next_seq(), t0, self.agenda.now_ns, client.name, result, "close", consumer.name)
        )

    def lose_client(self, client: ClientState, how: str) -> None:
        host = self.hosts[client.name]
        t0 = self.agenda.now_ns
        host.hang_up()
        client.vanish()
        host.forget_consumers()
        result = self._after_leaving(host)
        self.recorder.record(Leave(self.recorder.next_seq(), t0, self.agenda.now_ns, client.name, result, how))  # type: ignore[arg-type]  # a literal of the step

    def _after_leaving(self, host: ClientHost) -> Result:
        """Give the goodbye the time that it needs to reach the broker, and no more: what the broker still writes is
        still on its way.
        """
        self.agenda.run_until(self.agenda.now_ns + host.state.link.latency_us * 1000)
        return "unknown" if host.link.stalled_toward_broker() else "ok"

    # -- transactions, durable subscriptions, operators

    def begin(self, client: ClientState) -> None:
        host = self.hosts[client.name]
        name = client.next_transaction()
        connected = self.make_sure_connected(host)
        t0 = self.agenda.now_ns
        result: Result = "fail"
        refusal: str | None = "not connected"
        if connected:
            connection = host.connection
            result, refusal = self.await_answer(host, connection, host.begin(name))
            if result != "fail" and host.connection == connection:
                client.transaction = name
        self.recorder.record(
            Begin(self.recorder.next_seq(), t0, self.agenda.now_ns, client.name, result, name, refusal)
        )

    def commit(self, client: ClientState) -> None:
        self._end_transaction(client, Commit)

    def rollback(self, client: ClientState) -> None:
        self._end_transaction(client, Abort)

    def _end_transaction(self, client: ClientState, kind: type[Commit | Abort]) -> None:
        host = self.hosts[client.name]
        name = client.transaction
        t0 = self.agenda.now_ns
        receipt = host.commit(name) if kind is Commit else host.rollback(name)
        result, refusal = self.await_answer(host, host.connection, receipt)
        # A library gives the application back what it acknowledged in vain.
        client.end_transaction(bring_back=kind is Abort and client.via == "stomp")
        self.recorder.record(kind(self.recorder.next_seq(), t0, self.agenda.now_ns, client.name, result, name, refusal))

    def unsubscribe(self, client: ClientState, durable: str) -> None:
        host = self.hosts[client.name]
        connected = self.make_sure_connected(host)
        t0 = self.agenda.now_ns
        result: Result = "fail"
        refusal: str | None = "not connected"
        if connected:
            result, refusal = self.await_answer(host, host.connection, host.unsubscribe_durable(durable))
            if result != "fail":
                del client.durables[durable]
        self.recorder.record(
            Unsubscribe(self.recorder.next_seq(), t0, self.agenda.now_ns, client.name, result, durable, refusal)
        )

    def operate(self, op: str, dest: str, to: str, limit_bytes: int = 0) -> None:
        t0 = self.agenda.now_ns
        try:
            answer = self.broker.operate(operation(op, dest and physical(dest), to and physical(to), limit_bytes))
        except TypeError as error:
            raise NotOfferedError(str(error)) from None  # this broker does not know the operation
        result: Result = "fail" if answer.code else "ok"
        count, refusal = (None, answer.text) if answer.code else (answer.count, None)
        seq, t1 = self.recorder.next_seq(), self.agenda.now_ns
        limit = limit_bytes if op == "limit" else None
        event = Operate(seq, t0, t1, self.broker.name, result, op, dest, to, count, refusal, limit)  # type: ignore[arg-type]  # one of the literals
        self.recorder.record(event)

    def restart(self, how: str) -> None:
        t0 = self.agenda.now_ns
        evidence = self.broker.go_down(how)
        self.agenda.run_until(t0 + DOWN_NS)
        self.broker.come_up(self.new_node())
        if self.due_ns > t0:
            self.due_ns = max(self.due_ns, self.agenda.now_ns + self.longest_ns)
        self.record_fault("restart", t0, evidence, target=self.broker.name, how=how)
        self.sample(self.broker.name)

    def visit(self, step: VisitStep) -> None:
        self.recorder.record(visit(self, step, STRANGER))

    def pause(self, ms: int) -> None:
        t0 = self.agenda.now_ns
        self.broker.stand_still()
        self.agenda.run_until(t0 + ms * NS_PER_MS)
        self.broker.go_on()
        self.recorder.record(Pause(self.recorder.next_seq(), t0, self.agenda.now_ns, "", self.broker.name))

    def jump_clock(self, host: HostState, jump_ms: int) -> None:
        t0 = self.agenda.now_ns
        before_ms = self.sample(host.name)
        self.clock_of(host.name).jump(jump_ms)
        self.record_fault(
            "clock", t0, {"before_ms": before_ms, "after_ms": before_ms + jump_ms}, target=host.name, jump_ms=jump_ms
        )
        self.sample(host.name)

    def stall(self, client: ClientState, toward: str) -> None:
        client.stalled = toward
        self.hosts[client.name].link.stall(toward)
        self.record_fault("stall", self.agenda.now_ns, ENACTED, link=client.name, toward=toward)

    def resume(self, client: ClientState) -> None:
        host = self.hosts[client.name]
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
        for dest in self.state.places():
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
        self.hosts[DRAIN_HOST] = make_host(self, drainer)
        self._drainers = [drainer, *self.state.clients]
        self.sample(DRAIN_HOST)
        step = SubscribeStep(prefetch=1000, ack="individual")
        for dest in self.state.left_behind():
            self.subscribe(drainer, dest, step)
        self.use_durables()
        self._take_all()
        while self.agenda.now_ns <= self.due_ns:
            next_ns = self.agenda.next_ns()
            if next_ns is None:
                break
            self.agenda.run_until(min(next_ns, self.due_ns + 1))
            self._take_all()
        self.advance(self.program.declared().lateness_ms)
        self._take_all()
        self.sample(DRAIN_HOST)
        self.settle(self.settle_deadline_ms())
        self.end_durables()

    def _take_all(self) -> None:
        """Take and acknowledge until nothing more comes."""
        progress = True
        while progress:
            self._rest(self.settle_deadline_ms())
            progress = False
            for consumer in [consumer for client in self._drainers for consumer in client.consumers]:
                while self.take(consumer, 0):
                    progress = True
                    self.ack(consumer, 0)
