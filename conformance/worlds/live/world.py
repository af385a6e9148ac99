"""LiveWorld: one program with real processes, sockets and clocks.

Every client host is an agent process under its own faked clock, the broker is whatever an adapter opens. The observer
is this process: it is never faked, it asks lock-step, and it writes down what agents, links and the broker's own
figures say.

Rules
* Everything physical is fresh per run: destinations are ``q0.RUN``, a message travels as ``RUN:p0/1``; so brokers may
  be shared and need no restart.
* Every wait has a deadline. A request whose answer does not come is *unknown* if the broker can be the reason, and the
  suite's failure if it cannot.
* Events are recorded as they become known and put into the order of ``t1`` when the run is over; their numbers are
  final only then (``ordering.py``).
* A fault is recorded with what was seen through another channel (the process's own clock, bytes at both ends of a
  link), or with null.
* Connections, transactions, durable subscriptions and operators are ``conduct.py``'s.
* What would take longer than the budget of real time is skipped and recorded as such.

Known exceptions: a link's latency is the machine's own, ``latency_us`` is not imitated. What a JMS library throws away
is known only if its statistics tell (``agents/jms_agent.py``).
"""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Literal

import msgspec

from brokerproof.conformance.agents import protocol
from brokerproof.conformance.agents.kinds import JMS
from brokerproof.conformance.agents.protocol import AgentError
from brokerproof.conformance.experiment.destinations import pattern_of
from brokerproof.conformance.experiment.history import (
    Ack,
    Consume,
    Counters,
    Fault,
    Leave,
    Nack,
    Pause,
    Poll,
    Send,
    Skipped,
    Subscribe,
)
from brokerproof.conformance.experiment.policies import UNASKED, window_of
from brokerproof.conformance.experiment.state import ClientState, ConsumerState, HostState
from brokerproof.conformance.experiment.steps.fault import Clock
from brokerproof.conformance.experiment.steps.passage import Advance
from brokerproof.conformance.worlds.base import NotOfferedError
from brokerproof.conformance.worlds.live import clocks
from brokerproof.conformance.worlds.live.agent import OWN_MS
from brokerproof.conformance.worlds.live.clocks import NS_PER_MS, TOLERANCE_MS, Sample
from brokerproof.conformance.worlds.live.conduct import Conduct
from brokerproof.conformance.worlds.live.ending import drain
from brokerproof.conformance.worlds.live.observer import OPEN_MS, Answer
from brokerproof.conformance.worlds.live.visiting import visit

if TYPE_CHECKING:
    from brokerproof.conformance.experiment.steps import AnyStep
    from brokerproof.conformance.experiment.steps.consume import Subscribe as SubscribeStep
    from brokerproof.conformance.experiment.steps.protocol import Acknowledge
    from brokerproof.conformance.experiment.steps.send import Send as SendStep
    from brokerproof.conformance.experiment.steps.visit import Visit as VisitStep

#: Figures that do not change for so long are taken to be at rest.
QUIET_MS = 40
#: A broker without figures is at rest when nothing arrives for so long.
SILENT_MS = 200
#: How long a clock may take to follow its file.
CLOCK_MS = 2000
#: A reading may go back by a millisecond (``agents/stamps.py``), so the first one after a jump waits this long.
_CLEAR_MS = 2
_POLL_MS = 10
_COUNTERS = frozenset(Counters.__struct_fields__)


class LiveWorld(Conduct):
    """See the module's header."""

    # -- sending and consuming

    def send(self, client: ClientState, dest: str, step: SendStep) -> None:
        self.require_words(client, dest, step)
        address = self.address(client, dest)
        message = client.next_message()
        tx = ""
        if self.connected(client):
            tx = client.transaction
            request = protocol.Send(
                id=0,
                deadline_ms=self.patience_ms(client),
                dest=address,
                message=self.wire_name(message),
                ttl_ms=step.ttl_ms,
                delay_ms=step.delay_ms,
                persistent=step.persistent,
                priority=step.priority,
                size=step.size,
                stamp=step.stamp,
                kind=step.kind,
                group=step.group,
                life_ms=step.life_ms,
                forged=step.forged,
                tx=tx,
                endless=step.endless,
                network=step.network,
                reply=step.reply,
            )
            answer = self.ask_broker(client, request)
            if step.delay_ms and answer.result != "fail":
                self.due_ns = max(self.due_ns, answer.t1_ns + step.delay_ms * NS_PER_MS)
                self.longest_ns = max(self.longest_ns, step.delay_ms * NS_PER_MS)
        else:
            answer = self.not_connected()
        expiration_ms, timestamp_ms, body = self._stamps(client, answer)
        self.put(
            Send,
            answer.t0_ns,
            answer.t1_ns,
            client.name,
            answer.result,
            message,
            dest,
            expiration_ms,
            timestamp_ms,
            step.delay_ms,
            None,
            step.persistent,
            step.priority,
            step.size,
            tx or None,
            answer.refusal,
            step.kind,
            step.group,
            step.life_ms,
            None if step.endless else step.ttl_ms,
            body,
            step.forged,
            step.network,
        )

    def _stamps(self, client: ClientState, answer: Answer) -> tuple[int, int | None, int | None]:
        """What the client put on a message, and what is known of its body."""
        if answer.result == "fail":
            return 0, None, None
        told = answer.reply and (answer.reply.ok or answer.reply.stamps)
        if not told:
            # It may arrive, and then nobody could say what it should look like.
            raise AgentError(self.agents[client.name].name, f"does not tell the stamps of a message: {answer.reply}")
        return int(told.get("expiration_ms") or 0), told.get("timestamp_ms"), told.get("body")

    def subscribe(self, client: ClientState, dest: str, step: SubscribeStep) -> None:
        self.require_options(client, dest, step)
        if step.wild:
            dest = pattern_of(dest)
        address = self.address(client, dest)
        name = client.next_consumer()
        if self.connected(client):
            self.dest_of[name] = dest
            self.inboxes[name] = deque()
            request = protocol.Subscribe(
                id=0,
                deadline_ms=self.patience_ms(client),
                dest=address,
                consumer=name,
                prefetch=None if step.prefetch == UNASKED else step.prefetch,
                dispatch=step.dispatch,
                ack=step.ack,
                selector=step.selector,
                durable=step.durable,
                browser=step.browser,
                exclusive=step.exclusive,
                no_local=step.no_local,
                priority=step.priority,
            )
            answer = self.ask_broker(client, request)
            if answer.result != "fail" and self.agents[client.name].connected:
                client.consumers.append(ConsumerState(name, client, dest, step))
            if answer.result != "fail" and step.durable:
                client.durables[step.durable] = (dest, step)
        else:
            answer = self.not_connected()
        self.put(
            Subscribe,
            answer.t0_ns,
            answer.t1_ns,
            client.name,
            answer.result,
            name,
            dest,
            window_of(self.effective.broker, dest, step.prefetch, durable=bool(step.durable), browser=step.browser),
            step.dispatch,
            step.ack,
            answer.refusal,
            step.selector,
            step.durable,
            step.browser,
            step.exclusive,
            step.no_local,
            step.priority,
            self.asked_for(dest, step),
        )

    def take(self, consumer: ConsumerState, deadline_ms: int) -> bool:
        client = consumer.client
        if "take" in self.agents[client.name].capabilities:
            return self._ask_to_take(consumer, deadline_ms)
        inbox = self.inboxes[consumer.name]
        gone = client.consumers
        self.pump(time.monotonic_ns() + deadline_ms * NS_PER_MS, lambda: bool(inbox) or consumer not in gone)
        if consumer not in client.consumers or not inbox:
            return False
        now_ns = time.monotonic_ns()
        self._consumed(consumer, inbox.popleft(), now_ns, now_ns)
        return True

    def _ask_to_take(self, consumer: ConsumerState, deadline_ms: int) -> bool:
        """The library decides (JMS: it may throw an expired message away and go on waiting)."""
        host = consumer.client.name
        request = protocol.Take(id=0, consumer=consumer.name, deadline_ms=deadline_ms)
        reply = self.ask_agent(host, request, deadline_ms + OPEN_MS)
        token = None if reply.ok is None else reply.ok.get("message")
        message = self.ours(token) if isinstance(token, str) else None
        if consumer.pulls and reply.ok is not None and "answered" in reply.ok:
            self.put(Poll, reply.t0, reply.t1, host, consumer.name, message, bool(reply.ok["answered"]))
        if message is None or consumer not in consumer.client.consumers:
            return False
        self._consumed(consumer, message, reply.t0, reply.t1)
        if consumer.ack == "auto":
            # The library acknowledges without waiting: whether and when the broker hears of it is not known here.
            self.put(Ack, reply.t1, reply.t1, host, "unknown", consumer.name, [message], "auto")
        return True

    def _consumed(self, consumer: ConsumerState, message: str, t0_ns: int, t1_ns: int) -> None:
        if consumer.ack != "auto":
            consumer.took(message)
        self.put(Consume, t0_ns, t1_ns, consumer.client.name, consumer.name, message)

    def ack(self, consumer: ConsumerState, upto: int) -> None:
        client = consumer.client
        if consumer.ack == "individual":
            covered = [consumer.unsettled[upto]]
        elif client.via == JMS:
            # JMS: Message.acknowledge() settles everything that the session has delivered.
            covered = list(consumer.unsettled)
        else:
            covered = consumer.unsettled[: upto + 1]
        tx = self.tx_of(client)
        if tx:
            consumer.settle(covered)
        else:
            consumer.unsettled = [message for message in consumer.unsettled if message not in covered]
        mode: Literal["cumulative", "individual"] = "cumulative" if consumer.ack == "client" else "individual"
        request = protocol.Ack(
            id=0,
            deadline_ms=self.patience_ms(client),
            consumer=consumer.name,
            messages=[self.wire_name(message) for message in covered],
            mode=mode,
            tx=tx,
        )
        answer = self.ask_broker(client, request)
        self.put(
            Ack,
            answer.t0_ns,
            answer.t1_ns,
            client.name,
            answer.result,
            consumer.name,
            covered,
            mode,
            tx or None,
            answer.refusal,
        )

    def nack(self, consumer: ConsumerState, upto: int) -> None:
        client = consumer.client
        message = consumer.unsettled.pop(upto)
        request = protocol.Nack(
            id=0,
            deadline_ms=self.patience_ms(client),
            consumer=consumer.name,
            messages=[self.wire_name(message)],
        )
        answer = self.ask_broker(client, request)
        self.put(
            Nack,
            answer.t0_ns,
            answer.t1_ns,
            client.name,
            answer.result,
            consumer.name,
            [message],
            None,
            answer.refusal,
        )

    def acknowledge(self, consumer: ConsumerState, step: Acknowledge) -> None:
        client = consumer.client
        self.require(client, "acknowledgements")
        covered = consumer.unsettled[step.first : step.upto + 1]
        request = protocol.Acknowledge(
            id=0,
            deadline_ms=self.patience_ms(client),
            consumer=consumer.name,
            messages=[self.wire_name(message) for message in covered],
            type=step.type,
            open_start=step.open_start,
            wrong_end=step.wrong_end,
        )
        answer = self.ask_broker(client, request)
        times = max(0, answer.t0_ns - self.start_ns), max(0, answer.t1_ns - self.start_ns)
        self.record_acknowledge(consumer, step, covered, times, answer.result, answer.refusal)

    # -- leaving

    def close_consumer(self, consumer: ConsumerState) -> None:
        client = consumer.client
        client.consumers.remove(consumer)
        del self.inboxes[consumer.name]
        # Only a library that waits for the broker can be late here; then the goodbye may or may not have been heard.
        reply = self.ask(client.name, protocol.Leave(id=0, consumer=consumer.name), self.patience_ms(client) + OWN_MS)
        now_ns = time.monotonic_ns()
        t0_ns, t1_ns = (now_ns, now_ns) if reply is None else (reply.t0, reply.t1)
        said = reply is not None and reply.ok is not None and client.stalled not in {"broker", "both"}
        self.put(Leave, t0_ns, t1_ns, client.name, "ok" if said else "unknown", "close", consumer.name)

    def lose_client(self, client: ClientState, how: str) -> None:
        agent = self.agent_of(client)
        client.vanish()
        self.pump(0)
        t0_ns = time.monotonic_ns()
        if how == "kill":
            agent.kill()
            del self.agents[client.name]
        else:
            self.ask_agent(client.name, protocol.Leave(id=0, how="drop"))
            agent.connected = False
        result = "unknown" if client.stalled in {"broker", "both"} else "ok"
        self.put(Leave, t0_ns, time.monotonic_ns(), client.name, result, how)

    # -- faults

    def jump_clock(self, host: HostState, jump_ms: int) -> None:
        clock = self.clocks[host.name]
        if clock.file is None:
            index = self.state.hosts.index(host)
            self._skip(Clock(host=index, jump_ms=jump_ms))
            return
        if isinstance(host, ClientState):
            self.agent_of(host)
        elif jump_ms < 0:
            # Timers of a JVM stand still for the length of a step back: no later run may inherit that.
            self.broker_spoilt = True
        before = self.sample(host.name)
        t0_ns = time.monotonic_ns()
        clock.step(jump_ms, t0_ns)
        evidence = None if before is None else self._prove_jump(host.name, before, jump_ms)
        self.record_fault("clock", t0_ns - self.start_ns, evidence, target=host.name, jump_ms=jump_ms)
        self.pump(time.monotonic_ns() + _CLEAR_MS * NS_PER_MS)
        self.sample(host.name)

    def _prove_jump(self, host: str, before: Sample, jump_ms: int) -> dict[str, int] | None:
        """Read the clock until it has jumped; None if it does not in time."""
        real_ns = clocks.real_offset_ns()
        wanted_ms = before.offset_ms(real_ns) + jump_ms
        deadline_ns = time.monotonic_ns() + CLOCK_MS * NS_PER_MS
        while time.monotonic_ns() < deadline_ns:
            found = self.read_wall(host)
            if found is not None and abs(found.offset_ms(real_ns) - wanted_ms) <= TOLERANCE_MS:
                return {"before_ms": before.wall_ms, "after_ms": found.wall_ms}
            self.pump(time.monotonic_ns() + _POLL_MS * NS_PER_MS)
        return None

    def visit(self, step: VisitStep) -> None:
        self.recorder.record(visit(self, step))

    def pause(self, ms: int) -> None:
        if self.over_budget(ms):
            raise NotOfferedError(f"{ms} ms are more than the run may take")
        t0_ns = time.monotonic_ns()
        if not self.endpoint.stand_still(paused=True):
            raise NotOfferedError("this broker is not ours to stop")
        try:
            self.pump(time.monotonic_ns() + ms * NS_PER_MS)
        finally:
            self.endpoint.stand_still(paused=False)
        self.put(Pause, t0_ns, time.monotonic_ns(), "", self.state.broker.name)

    def stall(self, client: ClientState, toward: str) -> None:
        path = self.paths[client.name]
        t0_ns = time.monotonic_ns()
        path.stall(toward)  # type: ignore[arg-type]  # one of the step's three literals
        client.stalled = toward
        fault = self.put(Fault, t0_ns, time.monotonic_ns(), "", "stall", client.name, toward)
        path.stalled = fault  # type: ignore[assignment]  # put returns what it was asked to make

    def resume(self, client: ClientState) -> None:
        t0_ns = time.monotonic_ns()
        toward, client.stalled = client.stalled, ""
        agent = self.agents.get(client.name)
        evidence = self.paths[client.name].resume(alive=agent is not None and agent.connected)
        self.record_fault("resume", t0_ns - self.start_ns, evidence, link=client.name, toward=toward)
        self.pump(0)

    # -- time and figures

    def advance(self, ms: int) -> None:
        if self.over_budget(ms):
            self._skip(Advance(ms=ms))
        else:
            self.pump(time.monotonic_ns() + ms * NS_PER_MS)

    def _skip(self, step: AnyStep) -> None:
        now_ns = time.monotonic_ns()
        self.put(Skipped, now_ns, now_ns, "", msgspec.to_builtins(step))

    def settle(self, deadline_ms: int) -> None:
        rested = self.rest(deadline_ms) and not any(client.stalled for client in self.state.clients)
        for dest in [*self.state.places(), None]:
            self.read_counters(dest, at_rest=rested)

    def rest(self, deadline_ms: int) -> bool:
        """Wait until figures stand still and nothing arrives; False at the deadline."""
        deadline_ns = time.monotonic_ns() + deadline_ms * NS_PER_MS
        seen = self._figures()
        quiet_ns = (SILENT_MS if seen is None else QUIET_MS) * NS_PER_MS
        since_ns = time.monotonic_ns()
        while True:
            self.pump(time.monotonic_ns() + _POLL_MS * NS_PER_MS)
            now = self._figures()
            now_ns = time.monotonic_ns()
            if now != seen:
                seen, since_ns = now, now_ns
            if now_ns - max(since_ns, self.last_arrival_ns) >= quiet_ns:
                return True
            if now_ns > deadline_ns:
                return False

    def _figures(self) -> list[dict[str, int] | None] | None:
        """What the broker counts for every queue; None if it cannot be asked."""
        found = [self.endpoint.counters(self.physical_name(dest)) for dest in self.state.left_behind()]
        return None if all(figures is None for figures in found) else found

    def read_counters(self, dest: str | None, *, at_rest: bool) -> None:
        t0_ns = time.monotonic_ns()
        figures = self.endpoint.counters(None if dest is None else self.physical_name(dest))
        if figures is None:
            return
        known = {name: value for name, value in figures.items() if name in _COUNTERS}
        self.put(Counters, t0_ns, time.monotonic_ns(), self.state.broker.name, dest, at_rest, **known)

    def drain(self) -> None:
        self.phase("drain")
        drain(self)
