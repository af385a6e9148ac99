"""Connections whose ends only keep each other alive: their monitors are asked, and nothing else is played.

While nothing moves and the core waits for nothing, all that happens is that timers come and beats go. Then the same
monitors get the same calls at the same instants as on the agenda, without sessions, writers and links; histories are
equal (``tests/fast/conformance/worlds/test_keep_alives.py``). Whatever else is the matter (a stall, a slow link, a
stopped producer, a raw peer, a planted defect of the node, a monitor that gives up) is played as ever.

A beat that is under way is never skipped: each connection goes on to the last instant at which none is.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Final

from brokerproof.conformance.worlds.simulated.broker import WRITE_NS
from brokerproof.reference_broker.inactivity import FAIL, KEEP_ALIVE, DocumentedMonitor
from brokerproof.reference_broker.node import Node

if TYPE_CHECKING:
    from collections.abc import Iterable

    from brokerproof.conformance.worlds.simulated.broker import BrokerHost
    from brokerproof.conformance.worlds.simulated.host import ClientHost
    from brokerproof.reference_broker.inactivity import Monitor
    from brokerproof.reference_broker.session.connection_state import ConnectionState

NEVER_NS: Final = 2**62


class End:
    """One end: a copy of its monitor, and how long a beat takes from it to the other."""

    __slots__ = ("coming", "delay_ns", "monitor")

    def __init__(self, monitor: Monitor, delay_ns: int) -> None:
        self.monitor = copy.copy(monitor)
        self.delay_ns = delay_ns
        #: When beats from the other end will arrive.
        self.coming: list[int] = []

    def due_ns(self) -> int:
        """When the monitor wants to be asked."""
        due_ns = self.monitor.next_due_ns()
        return NEVER_NS if due_ns is None else due_ns

    def hear(self, until_ns: int, *, commands: bool) -> None:
        """Beats arrive that come before ``until_ns``."""
        while self.coming and self.coming[0] < until_ns:
            now_ns = self.coming.pop(0)
            self.monitor.bytes_received(now_ns)
            if commands:
                self.monitor.frame_received(now_ns)


def skip_beats(broker: BrokerHost, hosts: Iterable[ClientHost], until_ns: int) -> None:
    """Let beats go to and fro, at most up to ``until_ns``, before which nothing else is going to happen."""
    node, connected = broker.node, [host for host in hosts if host.connected]
    if type(node) is not Node or not broker.has_only(len(connected)):
        return
    monitors: list[tuple[ClientHost, ConnectionState, Monitor, Monitor]] = []
    for host in connected:
        state = node.connection_state(host.connection)
        if state is None or not _only_beats(host, state):
            return
        played = _play(host, state, until_ns)
        if played is None:
            return
        monitors.append((host, state, *played))
    for host, state, client_monitor, broker_monitor in monitors:
        host.keep(client_monitor)
        state.monitor = broker_monitor
    broker.plan_again()


def _only_beats(host: ClientHost, state: ConnectionState) -> bool:
    """Whether nothing but timers of monitors concerns this connection."""
    library, link, session = host.library, host.link, state.session
    assert library is not None, "who is connected has one"
    client = library.session
    return (
        link.is_straight()
        and not (state.closed or state.blocked or state.refusing or state.held or session.outbox or client.outbox)
        and session.is_idle(client.keep_alive)
        and client.next_due_ns() == client.monitor.next_due_ns()
    )


def _play(host: ClientHost, state: ConnectionState, until_ns: int) -> tuple[Monitor, Monitor] | None:
    """The two monitors as they are at the last quiet instant; None: it has to be played."""
    assert host.library is not None
    latency_ns = host.link.latency_ns
    while True:
        client, broker = End(host.library.session.monitor, latency_ns), End(state.monitor, latency_ns + WRITE_NS)
        quiet_ns = _beat(client, broker, until_ns, commands=state.session.beat is None)
        if quiet_ns == until_ns:
            return client.monitor, broker.monitor
        if quiet_ns is None:
            return None
        until_ns = quiet_ns


def _beat(client: End, broker: End, until_ns: int, *, commands: bool) -> int | None:
    """Ask both monitors whenever one is due before ``until_ns``; ``commands``: a beat is one. The instant before which
    nothing is under way: ``until_ns`` or an earlier one. None: more happens than beats.
    """
    quiet_ns = until_ns
    while True:
        client_ns, broker_ns = client.due_ns(), broker.due_ns()
        end, other = (client, broker) if client_ns <= broker_ns else (broker, client)
        due_ns = min(client_ns, broker_ns)
        for one in (client, broker):
            one.hear(min(due_ns, until_ns), commands=commands)
        quiet = not (client.coming or broker.coming)
        if due_ns >= until_ns:
            return until_ns if quiet else quiet_ns
        if quiet:
            quiet_ns = due_ns
        # A check comes before a beat of the same instant; whoever remembers no more than when it heard the last one
        # does not mind.
        if end.coming and end.coming[0] == due_ns and not isinstance(end.monitor, DocumentedMonitor):
            return None
        while end.due_ns() <= due_ns:
            action = end.monitor.tick(due_ns)
            if action.kind == FAIL:
                return None
            if action.kind == KEEP_ALIVE:
                other.coming.append(due_ns + end.delay_ns)
