"""A bridge that is inside the near broker (ActiveMQ's network connector), as its observer sees it.

The broker is told that it finds itself and the other one at two ports of a process of ours (``relay_process.py``),
which passes both connections on, over the far end's link, and tells what it overhears.

Rules
* The connector dials by itself: at the start, and again when a connection has ended. Before ``begin`` nobody listens.
* A cut lets all sockets of the relay vanish; a kill ends its process, and ``RETRY_NS`` later there is another one at
  the same ports. The broker sees no more of either than of a bridge that has gone.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from brokerproof.chaos.channels import ChannelClosed
from brokerproof.conformance.agents.kinds import JMS
from brokerproof.conformance.agents.protocol import AgentError
from brokerproof.conformance.brokers.base import Connector
from brokerproof.conformance.worlds.crossings import PREFETCH
from brokerproof.conformance.worlds.live.agent import OWN_MS
from brokerproof.conformance.worlds.live.bridge import LiveBridge

if TYPE_CHECKING:
    from brokerproof.conformance.brokers.base import Adapter, Endpoint
    from brokerproof.conformance.experiment.configuration import HostSpec
    from brokerproof.conformance.experiment.program import Program
    from brokerproof.conformance.experiment.state import ClientState
    from brokerproof.conformance.worlds.live.hosts import Hosts


class ConnectorBridge(LiveBridge):
    """See the module's header."""

    module = "brokerproof.conformance.worlds.live.relay_process"

    def connector(self) -> Connector:
        """What the near broker is told. Its process must have been started."""
        near_port, far_port = (int(word) for word in self._words)
        carried = tuple(self._carried)
        return Connector(
            name=self.name, near_port=near_port, far_port=far_port, destinations=carried, prefetch=PREFETCH
        )

    def start(self) -> None:
        before = self._process
        super().start()
        process = self._process
        if process is not None and process is not before:
            try:
                told = process.channel.receive(OWN_MS)
            except ChannelClosed:
                raise AgentError(self.name, f"did not come up\n{process.log_tail()}") from None
            self._words = [str(told["near"]), str(told["far"])]

    def begin(self) -> None:
        """From now on the connector may reach both brokers."""
        self.start()
        hosts = self._hosts
        path = hosts.paths[self.state.name]
        near, far = (hosts.endpoints[name].access(JMS).port for name in (self.near, self._far))
        self._ask({"do": "dial", "near": near, "far": path.port(far)})
        self._due_ns = 0

    def hold(self) -> None:
        """Let its connector in no more; what is connected stays so."""
        if self._process is not None:
            self._ask({"do": "hold"})

    def release(self) -> None:
        self.begin()

    def tick(self, now_ns: int) -> None:
        if self._process is None and self._due_ns and now_ns >= self._due_ns:
            self.begin()

    def next_due_ns(self) -> int | None:
        return self._due_ns if self._process is None and self._due_ns else None

    def rejoin(self) -> None:
        self.drain()
        if self._process is None:
            self.begin()

    def is_at_rest(self) -> bool:
        return super().is_at_rest() and not self._log.is_telling()

    def _asked_ns(self, told_ns: int) -> int:
        return told_ns  # it does not wait for the far broker

    def _heard(self, told: dict[str, Any]) -> None:
        if told["event"] == "begun":
            self.life += 1
            self.dialled = True
            self._log.begun(self._hosts.run_ns(told["t0"]))
        else:
            super()._heard(told)

    def _about(self, event: str, told: dict[str, Any], message: str, t0: int, t1: int) -> None:
        log, logical = self._log, self._hosts.names.logical
        if event == "arrived":
            self._hosts.last_arrival_ns = time.monotonic_ns()
            log.arrived(told["consumer"], message, self._named(told["told"]), t0, t1)
        elif event == "sent":
            log.sent_on(message, logical(told["dest"]), told["sent"], t0)
        elif event == "answered":
            log.confirmed(message, logical(told["dest"]), t1, told["refusal"])
        elif event == "telling":
            log.telling(told["consumer"], message, t0)
        else:
            log.settled(told["consumer"], message, t1)


def bridge_of(adapter: Adapter, hosts: Hosts, spec: HostSpec, state: ClientState, near: str) -> LiveBridge:
    """The bridge of a kind of brokers."""
    kind = ConnectorBridge if adapter.connects else LiveBridge
    return kind(hosts, spec, state, near=near, mutant=adapter.mutant)


def opened(adapter: Adapter, program: Program, place: HostSpec, hosts: Hosts) -> Endpoint:
    """A broker of a program, with what connects it to others."""
    bridges = [one for one in hosts.bridges.values() if isinstance(one, ConnectorBridge) and one.near == place.name]
    here = program.seen_from(place)
    endpoint = adapter.open_beside(here, hosts.laboratory, [one.connector() for one in bridges])
    hosts.endpoints[place.name] = endpoint  # whatever comes now, it is disposed of
    endpoint.declare(here, hosts.names)
    return endpoint


__all__ = ["ConnectorBridge", "bridge_of", "opened"]
