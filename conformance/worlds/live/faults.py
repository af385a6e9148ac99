"""Faults of a live run: how each is carried out, and what is seen of it through another channel.

A broker that ends while it has too little of something ends the run with it: no requirement is about that.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from brokerproof.chaos.processes import ProcessDiedAtStart
from brokerproof.chaos.scarcity import Descriptors, Disk, Memory, Processor
from brokerproof.conformance.experiment import operations as ops
from brokerproof.conformance.experiment.history import Fault
from brokerproof.conformance.worlds.live import clocks
from brokerproof.conformance.worlds.live.clocks import NS_PER_MS, TOLERANCE_MS
from brokerproof.conformance.worlds.port import NotOfferedError

if TYPE_CHECKING:
    from brokerproof.conformance.experiment.state import WorldState
    from brokerproof.conformance.worlds.live.bridge import LiveBridge
    from brokerproof.conformance.worlds.live.hosts import Hosts
    from brokerproof.conformance.worlds.port import Outcome

#: How long a clock may take to follow its file, and hosts to see the end of their connections.
CLOCK_MS = 2000
NOTICE_MS = 2000
_POLL_MS = 10
#: A clock stops a little ahead of what it shows, so that nobody has read a later time; how far two readings of it must
#: be apart to prove that it stands still.
AHEAD_US = 2000
STANDING_MS = 20
#: What is not done to a broker that has too little of something: it would prove nothing of either.
_LIMITS: Final[dict[str, type[Descriptors] | type[Disk] | type[Memory]]] = {
    "descriptors": Descriptors,
    "disk": Disk,
    "memory": Memory,
}
_NOT_MEANWHILE = (ops.Restart, ops.Pause, ops.Probe, ops.Operate)


class Faults:
    """One run's. ``spoilt``: brokers that a later run must not use again."""

    def __init__(self, hosts: Hosts, state: WorldState, bridges: dict[str, LiveBridge]) -> None:
        self.hosts = hosts
        self._state = state
        self._bridges = bridges
        self.spoilt: list[str] = []
        #: Of what the first broker has too little.
        self._scarce: dict[str, Descriptors | Disk | Memory | Processor] = {}

    def heal(self) -> None:
        """Links are as good as new, and tell what they were."""
        for name, path in self.hosts.paths.items():
            self.hosts.spare(name)
            link = self._state.client(name).link
            for mode in link.modes():
                now_ns, evidence = self.hosts.rate.now_ns(), path.evidence_of(mode, link)
                self.hosts.put(Fault, now_ns, now_ns, "", fault=mode, link=name, evidence=evidence)

    def check(self, operation: ops.Operation) -> None:
        """Raises ``NotOfferedError`` for what cannot be done to the broker's process now."""
        scarce = self._state.broker.scarce
        if scarce and isinstance(operation, _NOT_MEANWHILE):
            raise NotOfferedError(f"the broker has too little of {', '.join(scarce)}")
        if isinstance(operation, ops.Restart) and any(broker.frozen for broker in self._state.brokers):
            raise NotOfferedError("a process that starts on a clock that stands still may wait for ever")
        if isinstance(operation, ops.Exhaust) and self.hosts.endpoint.process() is None:
            raise NotOfferedError("this broker's process is not ours")

    def disturb(
        self, operation: ops.Stall | ops.Resume | ops.Reset | ops.Exhaust | ops.Relieve, outcome: Outcome
    ) -> None:
        """A link is stalled, flows again, or is cut; the broker has too little of something, or enough again."""
        if isinstance(operation, ops.Exhaust | ops.Relieve):
            outcome.evidence = self._change_supply(operation)
            return
        link = operation.link
        if isinstance(operation, ops.Reset):
            outcome.evidence = self._reset(operation)
        elif isinstance(operation, ops.Resume):
            outcome.stall, outcome.evidence = self.hosts.paths[link].resume(alive=self._is_alive(link))
        else:
            self.hosts.paths[link].stall(operation.toward)
            if link in self._bridges:
                self._bridges[link].stalled_in = self._bridges[link].life

    def _reset(self, asked: ops.Reset) -> dict[str, int] | None:
        agent, proxy = self.hosts.agents.get(asked.link), self.hosts.paths[asked.link].proxy
        if agent is None or not agent.connected or proxy is None:
            raise NotOfferedError(f"{asked.link} has no connection through a proxy")
        self.hosts.pump(0)
        return self.hosts.sever(asked) if asked.after_bytes else self.hosts.reset(asked.link, NOTICE_MS)

    def _is_alive(self, link: str) -> bool:
        """Whether the connection on which bytes were held back is still wanted."""
        bridge = self._bridges.get(link)
        if bridge is None:
            agent = self.hosts.agents.get(link)
            return agent is not None and agent.connected
        return bridge.dialled and bridge.stalled_in == bridge.life

    def _change_supply(self, operation: ops.Exhaust | ops.Relieve) -> dict[str, int] | None:
        """The first broker's process has too little of something, or enough again; None: nothing shows it."""
        hosts, what = self.hosts, operation.what
        process = hosts.endpoint.process()
        assert process is not None, "it was asked for"
        if isinstance(operation, ops.Relieve):
            return self._scarce.pop(what).end()
        try:
            if what == "processor":
                self._scarce[what] = Processor(process, operation.left, hosts.laboratory.supervisor)
            else:
                self._scarce[what] = _LIMITS[what](process, operation.left)
        except OSError as error:
            raise NotOfferedError(f"{what}: {error}") from None
        self.spoilt.append(self._state.broker.name)
        hosts.strained = what if hosts.strained in ("", "processor") else hosts.strained
        found = self._scarce[what].evidence()
        return None if found is None else {"left": operation.left, **found}

    def lift(self) -> None:
        """Let nothing be scarce any more; safe to call twice."""
        while self._scarce:
            self._scarce.popitem()[1].end()

    def jump(self, operation: ops.ClockJump) -> dict[str, int] | None:
        """Step a clock, and read it until it has jumped; None if it does not in time."""
        hosts, host, jump_ms = self.hosts, operation.host, operation.jump_ms
        if host in hosts.endpoints and jump_ms < 0:
            # Timers of a JVM stand still for the length of a step back: no later run may inherit that.
            self.spoilt.append(host)
        before = hosts.read_wall(host)
        hosts.clocks[host].step(jump_ms, time.monotonic_ns())
        if before is None:
            return None
        real_ns = clocks.real_offset_ns()
        wanted_ms = before.offset_ms(real_ns) + jump_ms
        deadline_ns = time.monotonic_ns() + CLOCK_MS * NS_PER_MS
        while time.monotonic_ns() < deadline_ns:
            found = hosts.read_wall(host)
            if found is not None and abs(found.offset_ms(real_ns) - wanted_ms) <= TOLERANCE_MS:
                return {"before_ms": before.wall_ms, "after_ms": found.wall_ms}
            hosts.pump_for(_POLL_MS)
        return None

    def freeze(self, host: str) -> dict[str, int] | None:
        """Let a clock stand still, and read it twice; None if it goes on."""
        hosts = self.hosts
        before = hosts.read_wall(host)
        clock = hosts.clocks[host]
        wall_us = (time.time_ns() // 1000) + clock.now_offset_ms() * 1000 + AHEAD_US
        clock.freeze(wall_us, time.monotonic_ns())
        hosts.pump_for(_POLL_MS)
        first = hosts.read_wall(host)
        hosts.pump_for(STANDING_MS)
        second = hosts.read_wall(host)
        if before is None or first is None or second is None or second.t0_ns - first.t1_ns < STANDING_MS * NS_PER_MS:
            return None
        if second.wall_ms - first.wall_ms > 1:
            return None
        return {
            "before_ms": first.wall_ms,
            "after_ms": second.wall_ms,
            "apart_us": (second.t0_ns - first.t1_ns) // 1000,
        }

    def thaw(self, host: str) -> dict[str, int] | None:
        """Let it go on, and read it until it shows what it should; None if it does not in time."""
        hosts = self.hosts
        before = hosts.read_wall(host)
        clock = hosts.clocks[host]
        clock.thaw(time.monotonic_ns())
        if before is None:
            return None
        deadline_ns = time.monotonic_ns() + CLOCK_MS * NS_PER_MS
        while time.monotonic_ns() < deadline_ns:
            found = hosts.read_wall(host)
            if found is not None and abs(found.offset_ms(clocks.real_offset_ns()) - clock.offset_ms) <= TOLERANCE_MS:
                return {"before_ms": before.wall_ms, "after_ms": found.wall_ms}
            hosts.pump_for(_POLL_MS)
        return None

    def restart(self, how: str, broker: str, outcome: Outcome) -> None:
        """A broker's process ends and is there again. A connector that dials by itself is let in when that is over for
        certain: what came to be meanwhile could be of the time before.
        """
        bridges = [one for one in self._bridges.values() if one.is_at(broker)]
        for bridge in bridges:
            bridge.hold()
        try:
            outcome.evidence = self._restarted(how, broker)
            outcome.t1 = self.hosts.now_ns()
        finally:
            for bridge in bridges:
                bridge.release()

    def _restarted(self, how: str, broker: str) -> dict[str, int]:
        hosts = self.hosts
        there = [name for name in hosts.agents if hosts.broker_of(self._state.client(name)) == broker]
        connected = [hosts.agents[name] for name in there if hosts.agents[name].connected]
        before = hosts.endpoints[broker].process()
        try:
            evidence = hosts.endpoints[broker].restart(how)
        except ProcessDiedAtStart:
            # What it finds there is what it had left.
            after = hosts.endpoints[broker].process()
            if before is None or after is None or after.pid == before.pid or not hosts.has_crashed(0, broker):
                raise
            return {"pid_before": before.pid, "pid_after": after.pid}
        if evidence is None:
            raise NotOfferedError("this broker is not ours to restart")
        hosts.crashed = [name for name in hosts.crashed if name != broker]
        # Their sockets tell them; one behind a stalled link learns it later.
        until_ns = hosts.rate.now_ns() + hosts.rate.span_ns(NOTICE_MS)
        hosts.pump(until_ns, lambda: not any(agent.connected for agent in connected))
        return evidence
