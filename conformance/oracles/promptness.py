"""Promptness: whether a destination was so calm over an interval that the broker has no excuse for not handing over a
message at once. Part of the delay oracle.

A message that is visible from some instant of ``[from, to]`` on must arrive by ``to`` plus the declared lateness if
over ``[from, to + lateness]``

1. at least one consumer was attached for certain, and its window had room for certain: prefetch is not less than the
   number of messages that can have been visible and unsettled on the destination at any instant of it;
2. no other consumer of the destination could have swallowed it: none came or went unclearly, none left, no link of
   theirs was stalled;
3. no link was stalled at all if somebody consumes synchronously (the broker's dispatching thread may wait for it);
4. nothing else excuses the broker: no process was paused, memory limits play no part, no consumer chooses.

Anything less is no instance. On topics only consumers that were attached before the send count, and each must get it.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from brokerproof.conformance.experiment.destinations import is_topic
from brokerproof.conformance.oracles.life import NEVER_NS
from brokerproof.conformance.oracles.scene import NS_PER_MS

if TYPE_CHECKING:
    from brokerproof.conformance.oracles.life import Life, Visit
    from brokerproof.conformance.oracles.scene import Scene


class Traffic:
    """Messages of one destination over time, as sorted instants."""

    __slots__ = ("settled_ns", "visible_ns")

    def __init__(self, scene: Scene, lives: list[Life], topic: bool) -> None:
        #: From when on each message may have been visible.
        self.visible_ns: list[int] = []
        #: When messages had certainly left.
        self.settled_ns: list[int] = []
        for life in lives:
            send = life.send
            if send.result == "fail":
                continue
            delay_ms = send.delay_ms if send.deliver_at_ms is None else 0
            self.visible_ns.append(send.t0 + delay_ms * NS_PER_MS)
            if topic:
                continue  # it is settled when every subscriber has settled it: not followed here
            settled = [ack.t1 for ack in life.acks if ack.result == "ok"]
            settled += [nack.t1 for nack in life.nacks if nack.result == "ok"]
            settled += [letter.t1 for letter in life.letters]
            for arrival in life.arrivals:
                visit = scene.visit_of(arrival.consumer)
                if visit is not None and visit.settles_unseen:
                    settled.append(arrival.t1)
            if settled:
                self.settled_ns.append(min(settled))
        self.visible_ns.sort()
        self.settled_ns.sort()

    def most(self, t0: int, t1: int) -> int:
        """The most messages that can have been visible and unsettled at an instant of ``[t0, t1]``."""
        return bisect_right(self.visible_ns, t1) - bisect_right(self.settled_ns, t0)


class Promptness:
    """Answers for one run."""

    __slots__ = ("_scene", "_traffic", "lateness_ns", "whatever_memory")

    def __init__(self, scene: Scene, lateness_ns: int, *, whatever_memory: bool = False) -> None:
        #: Scarce memory is no excuse.
        self.whatever_memory = whatever_memory
        self._scene = scene
        self._traffic: dict[str, Traffic] = {}
        self.lateness_ns = lateness_ns

    def waiting(self, life: Life, from_ns: int, to_ns: int) -> list[Visit]:
        """The consumers that waited for it with room in their windows, if the destination was calm; else none."""
        scene = self._scene
        dest = life.send.dest
        until_ns = to_ns + self.lateness_ns
        if (
            scene.paused
            or (scene.tight and not self.whatever_memory)
            or until_ns > scene.last_ns
            or scene.lens.picky(dest)
        ):
            return []
        visits = scene.visits.get(dest)
        if not visits or (scene.sync_hosts and scene.any_stall(from_ns, until_ns)):
            return []
        attached: list[Visit] = []
        for visit in visits:
            if visit.subscribe.t0 > until_ns or visit.gone_ns < from_ns:
                continue
            if visit.uncertain or visit.subscribe.result != "ok" or scene.stalled(visit.host, from_ns, until_ns):
                return []
            if visit.leaving_ns <= until_ns:
                return []
            if visit.subscribe.t1 <= (life.send.t0 if is_topic(dest) else from_ns):
                attached.append(visit)
        if not attached:
            return []
        most = self._traffic_of(dest).most(from_ns, until_ns)
        return [visit for visit in attached if visit.subscribe.prefetch >= most or visit.settles_unseen]

    def most(self, dest: str, t0: int, t1: int) -> int:
        """The most messages that can have been visible and unsettled there at an instant of ``[t0, t1]``."""
        return self._traffic_of(dest).most(t0, t1)

    def _traffic_of(self, dest: str) -> Traffic:
        traffic = self._traffic.get(dest)
        if traffic is None:
            traffic = self._traffic[dest] = Traffic(self._scene, self._scene.dests.get(dest, []), is_topic(dest))
        return traffic

    def arrived_ns(self, life: Life, waiting: list[Visit]) -> tuple[int, int]:
        """Bounds of the time at which the message had arrived where it had to: at anybody (queue), at all who waited
        (topic); ``NEVER_NS`` if it did not.
        """
        if not is_topic(life.send.dest):
            if life.arrivals:
                return life.arrivals[0].t0, life.arrivals[0].t1
            return NEVER_NS, NEVER_NS
        low, high = 0, 0
        for visit in waiting:
            found = next((a for a in life.arrivals if a.consumer == visit.subscribe.consumer), None)
            if found is None:
                return NEVER_NS, NEVER_NS
            low, high = max(low, found.t0), max(high, found.t1)
        return low, high
