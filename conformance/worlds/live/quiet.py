"""When a live run is at rest.

Rules
* All of this is about machines: real time, whatever the program's rate.
* Where brokers tell figures, they have not changed for ``QUIET_MS``, and nothing has arrived.
* Figures by which something is on its way, in flight to nobody or less than nothing, waiting beside a consumer who has
  nothing, with more consumers than there are, or dispatched more often than anything arrived (in flight, where that is
  not told), may be those of a broker that miscounts, or of a machine that is late: they stand still for
  ``DOUBTFUL_MS``.
* Where nobody counts, nobody has been asked for anything, nor heard anything, for ``SILENT_MS``: what has been waited
  for already is not waited for again. Behind a slow link that time begins when rest is asked for.
* A machine that is late may make a broker stand still in the middle, and a delay may end then: figures that are others
  when they are read than they were at rest, or beside which something arrived (``has_moved``), are not those of rest.
* Of a topic nobody tells figures: once, when all is healed, is waited for as long as what was published may be late
  at a consumer that is still without it. Whether its selector wanted that is not asked.
* Where others use the broker, too, what it counts in all, and in the queue of all dead letters, says nothing of a run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from brokerproof.conformance.agents.kinds import STOMP
from brokerproof.conformance.experiment.destinations import DEAD_LETTERS
from brokerproof.conformance.experiment.history import Arrive, Send, Subscribe
from brokerproof.conformance.worlds.live.clocks import NS_PER_MS

if TYPE_CHECKING:
    from collections.abc import Callable

    from brokerproof.conformance.experiment.state import WorldState
    from brokerproof.conformance.worlds.live.bridge import LiveBridge
    from brokerproof.conformance.worlds.live.hosts import Hosts

Figures = dict[tuple[str, str], dict[str, int] | None]
#: Figures that do not change for so long are taken to be at rest.
QUIET_MS = 40
#: A broker without figures, or behind a slow link, is at rest when nothing arrives for so long.
SILENT_MS = 200
#: Figures that may change although they stand still.
DOUBTFUL_MS = 600
_POLL_MS = 10
#: Beyond what a broker may be late.
_MARGIN_MS = 50


class Quiet:
    """One run's."""

    def __init__(self, hosts: Hosts, state: WorldState, bridges: dict[str, LiveBridge]) -> None:
        self._hosts = hosts
        self._state = state
        self._bridges = bridges
        #: (Broker, queue) -> its figures when it was last at rest.
        self._rested: Figures = {}
        #: How many messages had arrived by then.
        self._arrived = 0

    def rest(self, deadline_ms: int) -> bool:
        """Wait until nothing moves; False: something still did at the deadline."""
        deadline_ns = self._hosts.rate.now_ns() + self._hosts.rate.span_ns(deadline_ms)
        seen = self._figures(), self._passed()
        slow = any(client.link.rate() or client.link.jitter_us for client in self._state.clients)
        span_ns = self._hosts.rate.span_ns
        quiet_ns = span_ns(SILENT_MS if slow or seen[0] is None else QUIET_MS)
        # Where nobody counts, it is quiet since something was last heard of.
        since_ns = self._hosts.stirred_ns if seen[0] is None and not slow else self._hosts.rate.now_ns()
        bridges = self._bridges.values()
        while True:
            self._hosts.pump_for(_POLL_MS * self._hosts.rate.times)
            now = self._figures(), self._passed()
            now_ns = self._hosts.rate.now_ns()
            if now != seen:
                seen, since_ns = now, now_ns
            wanted_ns = max(quiet_ns, span_ns(DOUBTFUL_MS)) if self._is_on_its_way(now[0]) else quiet_ns
            if now_ns - max(since_ns, self._hosts.last_arrival_ns) >= wanted_ns:
                at_rest = [bridge.is_at_rest() for bridge in bridges]
                for bridge in bridges if all(at_rest) else ():
                    bridge.tell_doubts()
                # Behind a stalled link nothing more is to be expected.
                if all(at_rest) or any(bridge.state.stalled for bridge in bridges):
                    self._rested, self._arrived = now[0] or {}, self._hosts.arrivals
                    return all(at_rest)
            if now_ns > deadline_ns:
                return False

    def await_published(self, late_ms: int, is_over: Callable[[], bool]) -> None:
        """Wait while what was published may still be on its way, ``late_ms`` at most; ``is_over``: no longer."""
        hosts = self._hosts
        while (last_ns := self._published_ns()) and not is_over():
            if hosts.run_ns(hosts.rate.now_ns()) >= last_ns + (late_ms + _MARGIN_MS * hosts.rate.times) * NS_PER_MS:
                return
            hosts.pump_for(_MARGIN_MS * hosts.rate.times)

    def _published_ns(self) -> int:
        """When the last message was sent that an open consumer of its topic is without; 0: there is none."""
        kind, events = self._state.destinations.kind, self._hosts.recorder.events
        open_ = {one.name: one.dest for one in self._state.consumers()}
        topics = {name: dest for name, dest in open_.items() if kind(dest) == "topic"}
        if not topics:
            return 0
        arrived = {(event.consumer, event.message) for event in events if isinstance(event, Arrive)}
        since_ns = {event.consumer: event.t1 for event in events if isinstance(event, Subscribe)}
        sent = [event for event in events if isinstance(event, Send) and event.result == "ok" and event.tx is None]
        lacks = [
            send.t1
            for send in sent
            for name, dest in topics.items()
            if dest == send.dest
            and not send.delay_ms
            and since_ns.get(name, send.t0) < send.t0
            and (name, send.message) not in arrived
        ]
        return max(lacks, default=0)

    def has_moved(self, dest: str | None, broker: str, figures: dict[str, int] | None) -> bool:
        """Whether these, just read, are not the figures that were at rest, or something arrived meanwhile."""
        others = dest is not None and self._rested.get((broker, dest), figures) != figures
        return others or self._hosts.arrivals != self._arrived

    def _is_on_its_way(self, figures: Figures | None) -> bool:
        """Whether the figures say that there is more to come."""
        told = {key: one for key, one in (figures or {}).items() if one is not None and "in_flight" in one}
        flying = [one for one in told.values() if one["in_flight"] > 0]
        dispatched = sum(one.get("dispatched", one["in_flight"]) for one in flying)
        waits = [one for one in told.values() if one["in_flight"] == 0 < one.get("size", 0)]
        swings = any(one["in_flight"] < 0 for one in told.values())
        deserted = any(one.get("consumers", 1) == 0 for one in flying)
        consumers = self._state.consumers()
        ghosts = any(
            one.get("consumers", 0) > self._consumers_of(name, figures or {}) for (_, name), one in told.items()
        )
        # What clients have acknowledged the broker may not have read yet: many write it and wait for no answer. What
        # those had who left is on its way to others. What an ``auto`` consumer got over STOMP is in flight no more.
        held = sum(self._hosts.held[one.name] for one in consumers if one.ack != "auto" or one.client.via != STOMP)
        more = dispatched > self._hosts.arrivals or sum(one["in_flight"] for one in flying) > held
        return swings or deserted or ghosts or more or any(one.get("consumers", 0) > 0 for one in waits)

    def _consumers_of(self, queue: str, figures: Figures) -> int:
        """How many consumers a queue may have: those of patterns and of several queues are perhaps its own, and in a
        network those of all, because brokers are consumers, too.
        """
        used = [self._hosts.names.physical(one.dest) for one in self._state.consumers()]
        others = {name for _, name in figures} - {queue} if len(self._state.brokers) == 1 else set()
        return sum(name not in others for name in used)

    def _figures(self) -> Figures | None:
        """What the brokers count for every queue; None if they cannot be asked."""
        shared = {DEAD_LETTERS} if self._hosts.mailbox is not None else set()
        names = [self._hosts.names.physical(dest) for dest in self._state.left_behind() if dest not in shared]
        asked = [(broker.name, name) for broker in self._state.brokers for name in names]
        found = {(broker, name): self.counters(name, broker) for broker, name in asked}
        return None if all(figures is None for figures in found.values()) else found

    def counters(self, dest: str | None, broker: str) -> dict[str, int] | None:
        """A broker's figures of a destination, or of itself; None: it cannot be asked."""
        if dest is None and self._hosts.mailbox is not None:
            return None
        endpoint = self._hosts.endpoints[broker]
        return self._hosts.of_broker(lambda: endpoint.counters(dest), None, broker)

    def _passed(self) -> list[int]:
        """What has come out of every link: a slow one may be all that moves."""
        return [path.passed() for path in self._hosts.paths.values()]
