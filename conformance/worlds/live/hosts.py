"""The hosts of a live run as their observer sees them: agents, paths to the broker, clocks; what is asked of agents and
what they tell unasked.

Rules
* The observer is this process: it is never faked, and it writes down what agents, links and the
  broker's own figures say.
* Every wait has a deadline. An agent says itself that the broker did not answer (*unknown*). One that says nothing at
  all stood still: that is recorded, with since when, and what it did is not known from then on.
* Events are recorded as they become known and put into the order of ``t1`` when the run is over (``ordering.py``).
"""

from __future__ import annotations

import time
from collections import Counter, deque
from typing import TYPE_CHECKING, Any, TypeVar

from brokerproof.chaos.rates import REAL, Rate
from brokerproof.conformance.agents import protocol
from brokerproof.conformance.agents.protocol import NOT_CONNECTED, AgentError, AnyAgentEvent, AnyOperation, Reply
from brokerproof.conformance.agents.provider import PROFILE
from brokerproof.conformance.brokers.base import NotApplicableError
from brokerproof.conformance.experiment import history as events
from brokerproof.conformance.experiment import operations as ops
from brokerproof.conformance.experiment.destinations import ADVISORIES, is_pattern
from brokerproof.conformance.experiment.exits import SuiteProblem
from brokerproof.conformance.worlds.live import clocks
from brokerproof.conformance.worlds.live.agent import OWN_MS, AgentHost, await_lines
from brokerproof.conformance.worlds.live.clocks import NS_PER_MS, TOLERANCE_MS, HostClock, Sample
from brokerproof.conformance.worlds.live.links import Path
from brokerproof.conformance.worlds.live.names import RunNames
from brokerproof.conformance.worlds.live.patience import BEHIND_MS, STALLED_MS, Patience
from brokerproof.conformance.worlds.port import Outcome
from brokerproof.conformance.worlds.scheduler import lock_step

if TYPE_CHECKING:
    from collections.abc import Callable

    from brokerproof.conformance.brokers.base import Adapter, Endpoint
    from brokerproof.conformance.experiment.history import Event
    from brokerproof.conformance.experiment.state import ClientState, HostState, WorldState
    from brokerproof.conformance.worlds.live.agent import Ticking
    from brokerproof.conformance.worlds.live.collector import Mailbox
    from brokerproof.conformance.worlds.live.laboratory import Laboratory
    from brokerproof.conformance.worlds.port import Recorder, Waiting

T = TypeVar("T")
#: How long a broker's log may lag behind what it does.
LOG_MS = 50
#: How long the end of a process may lag behind that of its sockets.
END_MS = 1000
#: How late a process may come to life on a fast clock, which begins with it.
START_MS = 200
#: Samples of a host that come by the way are recorded at most this often.
SAMPLE_EVERY_MS = 100


class Hosts:
    """One run's. Times are nanoseconds of the program's monotonic clock (``rate``) unless they are said to be the
    run's or the machine's.
    """

    def __init__(
        self,
        laboratory: Laboratory,
        state: WorldState,
        recorder: Recorder,
        adapter: Adapter,
        rate: Rate = REAL,
    ) -> None:
        self.laboratory = laboratory
        self.state = state
        self.recorder = recorder
        self.names = RunNames(state.destinations, alone=adapter.alone, separator=adapter.separator)
        self.rate = rate
        self.start_ns = rate.now_ns()
        #: Broker -> its process; bridge -> its host.
        self.endpoints: dict[str, Endpoint] = {}
        self.bridges: dict[str, Ticking] = {}
        self.agents: dict[str, AgentHost] = {}
        self.paths: dict[str, Path] = {}
        self.clocks: dict[str, HostClock] = {}
        #: Consumer -> messages that have arrived and that the application has not taken.
        self.inboxes: dict[str, deque[str]] = {}
        self.dest_of: dict[str, str] = {}
        #: Where dead letters come from if others use the broker, too.
        self.mailbox: Mailbox | None = None
        self.last_arrival_ns = self.start_ns
        self.arrivals = 0
        #: Consumer -> how many messages arrived that it has not acknowledged outside of transactions.
        self.held: Counter[str] = Counter()
        #: When anybody was last asked for something, was answered, or told of something.
        self.stirred_ns = self.start_ns
        #: Brokers whose process has ended, and nobody had asked it to.
        self.crashed: list[str] = []
        #: What the first broker has, or had, too little of.
        self.strained = ""
        #: Client -> when the broker ended its connection, where a tap saw it.
        self._ended_ns: dict[str, int] = {}
        self.patience = Patience(rate, laboratory.never)

    @property
    def endpoint(self) -> Endpoint:
        """The first broker's."""
        return self.endpoints[self.state.broker.name]

    def broker_of(self, client: ClientState) -> str:
        """The broker that a client uses."""
        return client.spec.at or self.state.broker.name

    def run_ns(self, at_ns: int) -> int:
        """A time of the run."""
        return max(0, at_ns - self.start_ns)

    def now_ns(self) -> int:
        """Now, as a time of the run."""
        return self.run_ns(self.rate.now_ns())

    def put(self, kind: type[Event], t0_ns: int, t1_ns: int, host: str, **fields: Any) -> None:
        """Record an event."""
        self.recorder.put(kind, self.run_ns(t0_ns), self.run_ns(t1_ns), host, **fields)

    # -- processes

    def hire(self, client: ClientState, offset_ms: int) -> AgentHost:
        """A process for a host, by the library that plays it on this broker."""
        endpoint = self.endpoints[self.broker_of(client)]
        agent = self.agents[client.name] = self.laboratory.hire(
            endpoint.library(client.via), offset_ms, endpoint.words(client.via), client.spec.clock.zone_hours, self.rate
        )
        return agent

    def settle_in(self, client: ClientState, path: Path) -> None:
        """A client's process has been hired: its way to the broker, and its clock."""
        agent = self.agents[client.name]
        self.paths[client.name] = path
        self.clocks[client.name] = HostClock(client.spec.clock, agent.clock, self.rate.now_ns())

    def agent_of(self, client: ClientState) -> AgentHost:
        """The client's process; a new one, on the same clock as before, if it was killed."""
        agent = self.agents.get(client.name)
        if agent is None:
            clock = self.clocks[client.name]
            agent = self.hire(client, clock.now_offset_ms())
            clock.move(agent.clock, self.rate.now_ns())
            agent.greet()
            self.sample(client.name)
        return agent

    def kill(self, client: ClientState) -> None:
        """The client's process dies. What it told of until then was, and a broker that had its acknowledgement may
        forget it.
        """
        for event in self.agents[client.name].kill():
            self._heard(client.name, event)
        del self.agents[client.name]

    def shut(self) -> None:
        """Give everything back; safe to call twice."""
        if self.mailbox is not None:
            self.mailbox.close()
        agents, self.agents = self.agents, {}
        paths, self.paths = self.paths, {}
        bridges, self.bridges = self.bridges, {}
        for bridge in bridges.values():
            bridge.shut()
        for path in paths.values():
            path.close()
        for agent in agents.values():
            try:
                self.laboratory.release(agent)
            except AgentError:
                agent.kill()

    # -- waiting and asking

    def turn(self, until_ns: int) -> bool:
        """Take in what agents say, once, waiting for it until a time of the run at most; whether that is still to
        come.
        """
        now_ns, until_ns = self.rate.now_ns(), self.start_ns + until_ns
        for bridge in self.bridges.values():
            bridge.drain()
            bridge.tick(now_ns)
        if now_ns < until_ns:
            wake_ns = min([until_ns, *(due for bridge in self.bridges.values() if (due := bridge.next_due_ns()))])
            for clock in self.clocks.values():
                clock.tick(now_ns)
                tick_ns = clock.next_tick_ns()
                wake_ns = wake_ns if tick_ns is None else min(wake_ns, tick_ns)
            await_lines([*self.agents.values(), *self.bridges.values()], self.rate.machine_ns(wake_ns))
        for name, agent in list(self.agents.items()):
            for event in agent.drain():
                self._heard(name, event)
        if self.mailbox is not None:
            for letter in self.mailbox.take():
                self._arrived(self.mailbox.host, letter)
        self._note_broker_ends()
        return self.rate.now_ns() < until_ns

    def pump(self, until_ns: int, done: Callable[[], bool] = lambda: False) -> None:
        """Take in what agents say until ``done`` or until a time."""
        while self.turn(until_ns - self.start_ns) and not done():
            pass

    def pump_for(self, ms: int) -> None:
        """The same for so long."""
        self.pump(self.rate.now_ns() + ms * NS_PER_MS)

    def ask(self, host: str, operation: AnyOperation, deadline_ms: int) -> Waiting[Reply | None]:
        """One request; None: no answer within the deadline and what an agent needs itself to keep it."""
        agent = self.agents[host]
        number = agent.post(operation, deadline_ms)
        waited_ms = deadline_ms + (BEHIND_MS if agent.silent else OWN_MS) * self.rate.times
        until_ns = self.now_ns() + waited_ms * NS_PER_MS
        there = True
        while (reply := agent.reply_to(number)) is None and there:
            there = yield until_ns
        if reply is None:
            agent.give_up(number)
            if not agent.silent:
                self._note_silence(host, agent, waited_ms)
        elif not isinstance(operation, protocol.Hello):
            self._sample_by_the_way(host, reply)
        return reply

    def _note_silence(self, host: str, agent: AgentHost, waited_ms: int) -> None:
        """An agent did not answer, which proves nothing of any broker."""
        agent.silent, now_ns, heard_ns = True, self.rate.now_ns(), self.rate.of_ns(agent.heard_ns)
        evidence = {"waited_ms": waited_ms, "silent_ms": (now_ns - heard_ns) // NS_PER_MS}
        self.put(events.Pause, heard_ns, now_ns, "", target=host, evidence=evidence)

    def ask_broker(self, client: ClientState, operation: AnyOperation) -> Waiting[tuple[Outcome, dict[str, Any]]]:
        """A request that the broker must answer; what it tells, beside its outcome."""
        t0_ns = self.now_ns()
        patience_ms = self.patience_ms(client, operation)
        if isinstance(operation, ops.Connect):
            self.patience.connects(client.name)
            self.paths[client.name].connects()
            self._ended_ns.pop(client.name, None)
            if self.state.broker.scarce:
                patience_ms = STALLED_MS
        reply = yield from self.ask(client.name, operation, patience_ms)
        if reply is None or (reply.ok is None and reply.fail is None):
            waited_ms = (self.now_ns() - t0_ns) // NS_PER_MS
            self.patience.unanswered(client, self.broker_of(client), operation, waited_ms)
        else:
            self.patience.answered(client.name, operation)
        if reply is None:
            return Outcome(t0=t0_ns, t1=self.now_ns(), result="unknown"), {}
        outcome = Outcome(t0=self.run_ns(reply.t0), t1=self.run_ns(reply.t1))
        if reply.fail is not None:
            if reply.fail.code.startswith(PROFILE):
                raise self.endpoints[self.broker_of(client)].blamed(
                    reply.fail.code.removeprefix(PROFILE), reply.fail.text
                )
            outcome.result, outcome.refusal = "fail", f"{reply.fail.code}: {reply.fail.text}"
            outcome.unsent = reply.fail.code == NOT_CONNECTED
        elif reply.ok is None:
            outcome.result = "unknown"
        told = reply.ok or dict(reply.stamps or {})
        if reply.called is not None:
            outcome.called = reply.called.calls
            told |= {"ttl_ms": reply.called.ttl_ms, "delay_ms": reply.called.delay_ms}
        return outcome, told

    def patience_ms(self, client: ClientState, operation: AnyOperation) -> int:
        """How long the broker's answer to a client may take."""
        return self.patience.ms(client, self.broker_of(client), operation)

    def stir(self) -> None:
        """Something happens."""
        self.stirred_ns = self.rate.now_ns()

    # -- what is told unasked

    def _heard(self, host: str, event: AnyAgentEvent) -> None:
        self.stir()
        if isinstance(event, protocol.Arrive):
            self._arrived(host, event)
        elif isinstance(event, protocol.Discard):
            message = self.names.ours(event.message)
            if message is not None:
                fields = {"consumer": event.consumer, "message": message, "reason": event.reason}
                self.put(events.Discard, event.t0, event.t1, host, **fields)
        elif isinstance(event, protocol.Browse):
            message = self.names.ours(event.message)
            if message is not None or event.complete:
                self.put(
                    events.Browse,
                    event.t0,
                    event.t1,
                    host,
                    dest=self.dest_of[event.consumer],
                    messages=[] if message is None else [message],
                    consumer=event.consumer,
                    complete=event.complete,
                )
        elif isinstance(event, protocol.Partial):
            self.last_arrival_ns = self.rate.now_ns()  # nothing is at rest while something arrives
        else:
            self._closed(host, event)

    def _closed(self, host: str, event: protocol.Closed) -> None:
        self.agents[host].connected = False
        self._note_broker_ends()
        relayed = self.paths[host].proxy is not None and event.reason == events.READ_TO_THE_END
        reason = events.RELAYED_END if relayed else event.reason
        fields = {"who": event.who, "reason": reason, "link": host, "idle_ns": event.idle_ns}
        self.put(events.Closed, event.t0, event.t1, host, **fields)
        client = self.state.client(host)
        if client.consumers:
            # Behind a stall the host learns late what the broker did long ago.
            since_ns = min(event.t0, self._ended_ns.get(host, event.t0))
            self.put(events.Leave, since_ns, event.t1, host, result="ok", how="drop")
        client.vanish()

    def _arrived(self, host: str, event: protocol.Arrive) -> None:
        dest = self.dest_of.get(event.consumer)
        if dest is None:
            raise SuiteProblem(f"the agent of {host} tells of an arrival at {event.consumer!r}, which never subscribed")
        message = self.names.ours(event.message)
        if message is None and (dest.startswith(ADVISORIES) or self.state.destinations.kind(dest) == "temporary"):
            message = ""  # advisories are nobody's messages, nor are reports without data; both come to this run alone
        if message is None:
            return
        self.last_arrival_ns = self.rate.now_ns()
        self.arrivals += 1
        self.held[event.consumer] += 1
        if event.reply_to:
            self.state.hear_of(message, event.reply_to)
        inbox = self.inboxes.get(event.consumer)
        if inbox is not None:
            inbox.append(message)
        told = ops.shared(event, events.Arrive, "t0", "t1")
        told["message"] = message
        told["dest"] = self.names.logical(event.dest) if is_pattern(dest) and event.dest else dest
        told["original_dest"] = self.names.logical(event.original_dest) if event.original_dest else None
        self.put(events.Arrive, event.t0, event.t1, host, **told, message_kind=event.kind)

    def _note_broker_ends(self) -> None:
        """Connections that the broker or the network ended, as the tap at the broker's end saw it."""
        self._note_severed()
        for client, path in self.paths.items():
            for end in path.broker_ends():
                at_ns = self._ended_ns[client] = self.rate.of_ns(end.at_ns)
                broker, idle_ns = self.broker_of(self.state.client(client)), path.idle_ns(end)
                idle_ns = None if idle_ns is None else idle_ns * self.rate.times
                fields = {"reason": self._closing_reason(broker) or end.how, "idle_ns": idle_ns}
                self.put(events.Closed, at_ns, at_ns, broker, who="broker", link=client, **fields)

    def reset(self, link: str, patience_ms: int) -> dict[str, int] | None:
        """The network ends a client's connection, which the broker sees at once, as its tap tells; wait until the
        client has noticed, too. The evidence; None: nothing was ended.
        """
        agent, proxy = self.agents[link], self.paths[link].proxy
        assert proxy is not None, "it was looked for"
        evidence = proxy.reset()
        if evidence is None:
            return None
        self._network_ended(link, evidence.t0_ns, evidence.t1_ns)
        self.pump(self.rate.now_ns() + self.rate.span_ns(patience_ms), lambda: not agent.connected)
        return evidence.as_dict()

    def sever(self, asked: ops.Reset) -> dict[str, int]:
        """The network will end a client's connection; what has passed it so far, at both ends."""
        path = self.paths[asked.link]
        path.sever(asked)
        bytes_in, bytes_out = path.traffic(asked.toward)
        return {"bytes_in": bytes_in, "bytes_out": bytes_out}

    def spare(self, link: str) -> None:
        """There is to be another connection, which the network shall not end; one that it is ending now is."""
        path, deadline_ns = self.paths[link], self.rate.now_ns() + self.rate.span_ns(END_MS)
        while path.half_severed and self.rate.now_ns() < deadline_ns:
            time.sleep(0.001)
        self._note_severed()
        path.spare()

    def _note_severed(self) -> None:
        """Connections that the network has ended when enough bytes had passed."""
        for link, path in self.paths.items():
            found = path.severed()
            if found is not None:
                asked, evidence = found
                self._network_ended(link, evidence.t0_ns, evidence.t1_ns)
                told = ops.shared(asked, events.Fault, "host") | {"fault": "reset", "evidence": evidence.as_dict()}
                of_ns = self.rate.of_ns
                self.put(events.Fault, of_ns(evidence.t0_ns), of_ns(evidence.t1_ns), "", **told)

    def _network_ended(self, link: str, t0_ns: int, t1_ns: int) -> None:
        """Write down what the broker's tap saw, between two instants of the machine."""
        t0_ns, t1_ns = self.rate.of_ns(t0_ns), self.rate.of_ns(t1_ns)
        self._ended_ns[link] = t0_ns
        fields = {"who": "unknown", "reason": events.NETWORK_ENDED, "link": link}
        self.put(events.Closed, t0_ns, t1_ns, self.broker_of(self.state.client(link)), **fields)

    def _closing_reason(self, broker: str) -> str:
        """What a broker says about the connection that it has just ended; its log may come a little later."""
        deadline_ns = self.rate.now_ns() + self.rate.span_ns(LOG_MS)
        while True:
            reasons = self.of_broker(self.endpoints[broker].closings, list[str](), broker)
            if reasons or self.rate.now_ns() > deadline_ns:
                return reasons[-1] if reasons else ""
            time.sleep(0.002)

    # -- the broker's process

    def of_broker(self, ask: Callable[[], T], otherwise: T, broker: str = "") -> T:
        """What a broker's side says, the first one's where none is named; ``otherwise`` where its process has ended by
        itself, or where it has no means to answer.
        """
        if (broker or self.state.broker.name) not in self.crashed:
            try:
                answer = ask()
            except Exception:
                if not self.has_crashed(END_MS, broker) and not self.strained:
                    raise
            else:
                if answer is not None or not self.has_crashed(0, broker):
                    return answer
        return otherwise

    def has_crashed(self, patience_ms: int = 0, broker: str = "") -> bool:
        """Whether a broker's process has ended by itself, which is written down once."""
        broker = broker or self.state.broker.name
        process = None if broker in self.crashed else self.endpoints[broker].process()
        if process is not None and process.wait(patience_ms) is not None:
            self.crashed.append(broker)
            if self.strained not in ("", "processor"):
                raise NotApplicableError(
                    f"{broker} ended when it had too little of {self.strained}: nobody promises more"
                )
            now_ns = self.rate.now_ns()
            self.put(events.Crash, now_ns, now_ns, broker, target=broker, how="exited", evidence=process.state())
        return broker in self.crashed

    # -- clocks

    def read_wall(self, host: str) -> Sample | None:
        """What a host's own clock shows now; None: it cannot be asked, or its process was killed."""
        if host in self.endpoints:
            found = self.of_broker(self.endpoints[host].read_clock, None, host)
            return None if found is None else clocks.of_reading(found, self.rate)
        if host not in self.agents:
            return None
        reply = lock_step(self.turn, self.ask(host, protocol.Hello(), 0))
        return None if reply is None else clocks.of_reply(reply)

    def sample(self, host: str) -> None:
        """Read and record it."""
        found = self.read_wall(host)
        if found is not None:
            self._record_sample(host, found)

    def _record_sample(self, host: str, found: Sample) -> None:
        """Record a reading, unless it began before the run."""
        clock = self.clocks[host]
        if found.t0_ns >= self.start_ns:
            error_ns = found.plus_minus_ns + clock.uncertainty_ns
            fields = {"wall_ms": found.wall_ms, "plus_minus_ns": error_ns, "beyond_ns": found.beyond_ns}
            self.put(events.ClockSample, found.t0_ns, found.t1_ns, host, **fields)
            clock.sampled_ns = self.rate.now_ns()

    def _sample_by_the_way(self, host: str, reply: Reply) -> None:
        clock = self.clocks.get(host)
        now_ns = self.rate.now_ns()
        if clock is not None and reply.wall_at is not None and now_ns - clock.sampled_ns > SAMPLE_EVERY_MS * NS_PER_MS:
            self._record_sample(host, clocks.of_reply(reply))

    def check_skew(self, host: HostState) -> None:
        """The clock must be where the program wants it: a preload that does nothing is silent."""
        clock = self.clocks[host.name]
        found = self.read_wall(host.name)
        if (clock.file is None and self.rate.times == 1) or found is None:
            return
        agent, hours = self.agents.get(host.name), 0 if clock.file is None else clock.file.zone_hours
        if hours and agent is not None and agent.zone_minutes not in {None, hours * 60}:
            raise SuiteProblem(
                f"host {host.name} is {agent.zone_minutes} minutes ahead of UTC, not {hours} h as asked; "
                "this machine does not know the zone (Debian: the package tzdata)"
            )
        offset_ms = found.offset_ms(clocks.real_offset_ns())
        width_ms = (found.t1_ns - found.t0_ns) // (2 * NS_PER_MS)
        real_ms = TOLERANCE_MS if self.rate.times == 1 else START_MS * self.rate.times
        if abs(offset_ms - clock.offset_ms) > real_ms + width_ms:
            why = "libfaketime has no effect on this process, `brokerproof doctor` tells why"
            if self.rate.times > 1:
                why = f"its process does not live {self.rate.times} times as fast, or began too late; lower --speed"
            raise SuiteProblem(
                f"the clock of host {host.name} is {offset_ms} ms from true time, "
                f"the program says {clock.offset_ms} ms; {why}"
            )
