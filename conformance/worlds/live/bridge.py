"""A bridge's host in the live world: a process between two brokers (``bridge_process.py``), as its observer sees it.

Rules
* What it did is what it told, with the instants that it told; ``worlds/crossings.py`` writes that down.
* A cut lets both of its sockets vanish; a kill ends its process, and what it told before is still taken in. The
  evidence is how many messages were in doubt then, and the exit code of what was killed.
* A consumer that was asked for, and of which nothing more was heard when the bridge ended, may have been there.
* A bridge that ends comes back after ``RETRY_NS``, then after twice as long, and so on up to ``RETRY_MAX_NS``, until
  both brokers have let it in; ``rejoin`` does not wait. Its host has the clock of this machine, which decides nothing.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import time
from typing import TYPE_CHECKING, Any

import msgspec

from brokerproof.chaos.channels import ChannelClosed
from brokerproof.chaos.ports import LOOPBACK
from brokerproof.conformance.agents.kinds import JMS
from brokerproof.conformance.agents.protocol import AgentError
from brokerproof.conformance.experiment import history as events
from brokerproof.conformance.experiment import operations as ops
from brokerproof.conformance.worlds.crossings import RETRY_MAX_NS, RETRY_NS, Crossings
from brokerproof.conformance.worlds.live.agent import OWN_MS, STOP_GRACE_MS

if TYPE_CHECKING:
    from brokerproof.chaos.channels import Channel
    from brokerproof.chaos.processes import Process
    from brokerproof.conformance.brokers.base import Endpoint
    from brokerproof.conformance.experiment.configuration import HostSpec
    from brokerproof.conformance.experiment.state import ClientState
    from brokerproof.conformance.worlds.live.hosts import Hosts

NS_PER_MS = 1_000_000


class LiveBridge:
    """See the module's header. ``state`` is that of its far end."""

    #: What its process is.
    module = "brokerproof.conformance.worlds.live.bridge_process"

    def __init__(self, hosts: Hosts, spec: HostSpec, state: ClientState, *, near: str, mutant: str | None) -> None:
        self._hosts = hosts
        self.name = spec.name
        self.state = state
        self.near = near
        self._far = spec.to
        self._words = [mutant] if mutant else []
        self._log = Crossings(hosts.recorder, spec.name, state.name)
        self._carried = [hosts.names.physical(name) for name in hosts.state.carried(spec)]
        self._process: Process | None = None
        self._pause_ns = RETRY_NS
        #: When to look again whether it is open; 0: not yet.
        self._due_ns = 0
        #: How often it was begun; it has sockets; both brokers have let it in.
        self.life = 0
        self.dialled = self.is_open = False
        #: Consumers that were asked for and are not known to be there: name -> (queue, when).
        self._asked: dict[str, tuple[str, int]] = {}
        #: Messages that were in doubt when the last life ended; the life in which its link was stalled.
        self._doubtful = self.stalled_in = 0

    @property
    def channel(self) -> Channel | None:
        """To wait on several processes at once; None: it has none."""
        return None if self._process is None else self._process.channel

    # -- lives

    def start(self) -> None:
        """Its process, which takes a moment to be there."""
        if self._process is None:
            laboratory = self._hosts.laboratory
            argv = [sys.executable, "-m", self.module, *self._words]
            _, env = laboratory.clock(name := laboratory.fresh_name("bridge"), 0)
            self._process = laboratory.supervisor.spawn(
                name, argv, env=env, cwd=laboratory.folder, channel=True, forked=True
            )

    def begin(self) -> None:
        """Open two sockets."""
        self.start()
        hosts = self._hosts
        self.life += 1
        self.dialled = True
        self._log.begun(hosts.now_ns())
        path = hosts.paths[self.state.name]
        near, far = hosts.endpoints[self.near], hosts.endpoints[self._far]
        names = {"name": f"{hosts.names.run}-{self.name}", "near_name": self.near, "far_name": self._far}
        ends = {"near": _connecting(near, None), "far": _connecting(far, None if path.proxy is None else path.port(0))}
        self._ask({"do": "dial", **ends, **names, "queues": self._carried})
        self._due_ns = time.monotonic_ns() + self._pause_ns
        self._pause_ns = min(2 * self._pause_ns, RETRY_MAX_NS)

    def _ask(self, request: dict[str, Any]) -> None:
        assert self._process is not None, "who is asked is there"
        try:
            self._process.channel.send(request)
        except ChannelClosed:
            self._fall()

    def is_at(self, broker: str) -> bool:
        """Whether one of its ends is there."""
        return broker in (self.near, self._far)

    def hold(self) -> None:
        """Do not begin anew until ``release``, where it would by itself."""

    def release(self) -> None:
        """It may again."""

    def tick(self, now_ns: int) -> None:
        """It may try again, or has tried long enough."""
        if self._due_ns and now_ns >= self._due_ns and not self.is_open:
            self._drop()
            self.begin()

    def next_due_ns(self) -> int | None:
        """When ``tick`` is wanted."""
        return None if self.is_open or not self._due_ns else self._due_ns

    def enact(self, how: str) -> dict[str, int] | None:
        """``cut`` or ``kill`` it, with the evidence; "": let it try again at once."""
        if how:
            return self.cut(how)
        self.rejoin()
        return None

    def rejoin(self) -> None:
        """Do not wait."""
        self.drain()
        if not self.is_open:
            self._drop()
            self._pause_ns = RETRY_NS
            self.begin()

    def cut(self, how: str) -> dict[str, int]:
        """Both sockets vanish, or the process ends; the evidence."""
        self.drain()
        self._doubtful = 0
        process = self._process
        if how == "kill" and process is not None:
            since_ns = self._hosts.now_ns()
            process.signal(signal.SIGKILL)
            process.wait(OWN_MS)
            self._process = None
            with contextlib.suppress(ChannelClosed):
                while True:
                    self._heard(process.channel.receive(OWN_MS))
            if self.dialled:
                self._over(since_ns)
            return {"in_doubt": self._doubtful, "exit_code": process.kill()}
        self._drop()
        return {"in_doubt": self._doubtful}

    def _drop(self) -> None:
        """Let both sockets vanish, and take in what was told before that."""
        process = self._process
        if process is None or not self.dialled:
            return
        since_ns = self._hosts.now_ns()
        self._ask({"do": "drop"})
        deadline_ns = time.monotonic_ns() + OWN_MS * NS_PER_MS
        try:
            while self._process is not None:
                told = process.channel.receive_until(deadline_ns)
                if told["event"] == "dropped":
                    break
                self._heard(told)
        except ChannelClosed:
            self._fall()
        if self.dialled:
            self._over(since_ns)

    def _over(self, since_ns: int, closed_by: str = "", until_ns: int | None = None) -> None:
        """This life has ended, within an interval; ``closed_by``: the end whose broker closed it, which is told."""
        self.dialled = self.is_open = False
        self._due_ns = time.monotonic_ns() + self._pause_ns
        hosts, log = self._hosts, self._log
        now_ns = hosts.now_ns() if until_ns is None else until_ns
        self._doubtful = log.ended(now_ns)
        self._tell_asked(now_ns)
        for name in (log.near, log.far):
            if name != closed_by:
                log.connected(name, "unknown", now_ns)
                held = name == log.far and self.state.stalled in {"broker", "both"}
                hosts.recorder.put(events.Leave, since_ns, now_ns, name, result="unknown" if held else "ok", how="drop")
        log.joined.clear()

    def _fall(self) -> None:
        """Its process has ended by itself."""
        process, hosts = self._process, self._hosts
        if process is None:
            return
        if process.wait(OWN_MS) is None:
            raise AgentError(self.name, f"tells nothing any more\n{process.log_tail()}")
        self._process = None
        now_ns = hosts.now_ns()
        hosts.recorder.put(
            events.Crash, now_ns, now_ns, self.name, target=self.name, how="exited", evidence=process.state()
        )
        if self.dialled:
            self._over(now_ns)

    # -- what it tells

    def drain(self) -> None:
        """Take in what it has told."""
        process = self._process
        try:
            while process is not None and process is self._process and process.channel.has_line():
                self._heard(process.channel.receive(0))
        except ChannelClosed:
            self._fall()

    def _heard(self, told: dict[str, Any]) -> None:
        hosts, log = self._hosts, self._log
        event, t0, t1 = told["event"], hosts.run_ns(told["t0"]), hosts.run_ns(told["t1"])
        if event == "open":
            self.is_open, self._pause_ns = True, RETRY_NS
            log.opened(t1)
        elif event == "asked":
            self._asked[told["consumer"]] = hosts.names.logical(told["dest"]), t0
        elif event == "listening":
            self._asked.pop(told["consumer"], None)
            log.subscribed(told["consumer"], hosts.names.logical(told["dest"]), "ok", t1, self._asked_ns(t0))
        elif event == "ended":
            self._ended(told, t0, t1)
        elif (message := hosts.names.ours(told.get("message", ""))) is not None:
            self._about(event, told, message, t0, t1)

    def _tell_asked(self, now_ns: int) -> None:
        """What was asked for may be there or not."""
        asked, self._asked = self._asked, {}
        for consumer, (dest, since_ns) in asked.items():
            self._log.subscribed(consumer, dest, "unknown", now_ns, self._asked_ns(since_ns))

    def _asked_ns(self, told_ns: int) -> int | None:
        """When a consumer was asked for at the earliest; None: when the bridge was open."""
        del told_ns
        return None

    def _ended(self, told: dict[str, Any], t0: int, t1: int) -> None:
        name = {"near": self._log.near, "far": self._log.far}.get(told["end"], "")
        self._tell_asked(t1)
        if name:
            put = self._hosts.recorder.put
            put(events.Closed, t0, t1, name, who="broker", reason=told["reason"], link=name)
            if name in self._log.joined:
                put(events.Leave, t0, t1, name, result="ok", how="drop")
        self._over(t0, name, t1)

    def _about(self, event: str, told: dict[str, Any], message: str, t0: int, t1: int) -> None:
        """What was done with a message of this run."""
        log, logical, consumer = self._log, self._hosts.names.logical, told["consumer"]
        if event == "passed":
            self._hosts.last_arrival_ns = time.monotonic_ns()
            log.passed_on(consumer, message, self._named(told["told"]), told["sent"], t0, t1)
        elif event == "answered":
            log.answered(consumer, message, logical(told["dest"]), t1, told["refusal"])
        else:
            log.settled(consumer, message, t1)

    def _named(self, came: dict[str, Any]) -> dict[str, Any]:
        """What is told of an arrival, with the program's names."""
        logical = self._hosts.names.logical
        came["dest"], came["original_dest"] = logical(came["dest"] or ""), logical(came["original_dest"] or "")
        came["original_dest"] = came["original_dest"] or None
        return came

    def is_at_rest(self) -> bool:
        """Whether messages can cross, and none waits for an answer in this life. What an earlier life left in doubt,
        and the near broker has not given again by now, is told by ``tell_doubts``.
        """
        return self.is_open and not self._log.is_waiting()

    def tell_doubts(self) -> None:
        """What was never confirmed may be there or not."""
        self._log.tell_doubts(self._hosts.now_ns())

    def shut(self) -> None:
        """Its process ends."""
        process, self._process = self._process, None
        if process is not None:
            process.stop(grace_ms=STOP_GRACE_MS)


def _connecting(endpoint: Endpoint, port: int | None) -> object:
    """How a bridge reaches a broker; ``port`` of its link, None: straight."""
    access = endpoint.access(JMS)
    host = access.host if port is None else LOOPBACK
    url = access.url.replace("{host}", host).replace("{port}", str(port or access.port))
    shared = ops.shared(access, ops.Connect, "host", "url")
    return msgspec.to_builtins(ops.Connect(url=url, **shared, monitor_ms=(0, 0), expiry_check=False))


__all__ = ["LiveBridge"]
