"""The agenda: what is going to happen, in order of virtual time, and how much is moving.

A binary heap of ``(true_ns, order, action)``. ``order`` counts up, so what was planned first at one instant happens
first: no tie is ever decided by an address or a hash. An action is any object with ``happen()``; cancelling is the
action's own business.

``moving`` counts frames on their way, writers at work and syncs of the storage; the world is at rest when it is 0 and
no link is stalled. Timers do not count: a keep-alive is no work.
"""

from __future__ import annotations

import heapq


class Action:
    """Something that is going to happen."""

    __slots__ = ()

    def happen(self) -> None:
        """It happens now."""
        raise NotImplementedError


class Agenda:
    """Virtual time and the heap. ``now_ns`` only moves forward."""

    __slots__ = ("_heap", "_order", "moving", "now_ns")

    def __init__(self) -> None:
        self.now_ns = 0
        self.moving = 0
        self._heap: list[tuple[int, int, Action]] = []
        self._order = 0

    def plan(self, at_ns: int, action: Action) -> None:
        """Let ``action`` happen at ``at_ns`` (never earlier than now)."""
        self._order += 1
        heapq.heappush(self._heap, (max(self.now_ns, at_ns), self._order, action))

    def next_ns(self) -> int | None:
        """When the next action happens; None when nothing is planned."""
        return self._heap[0][0] if self._heap else None

    def step(self) -> None:
        """Let the next action happen."""
        self.now_ns, _, action = heapq.heappop(self._heap)
        action.happen()

    def step_by(self, deadline_ns: int) -> bool:
        """Let the next action happen if it is due by ``deadline_ns``; otherwise it is ``deadline_ns``, and False."""
        heap = self._heap
        if not heap or heap[0][0] > deadline_ns:
            self.now_ns = max(self.now_ns, deadline_ns)
            return False
        self.now_ns, _, action = heapq.heappop(heap)
        action.happen()
        return True

    def rest(self, deadline_ns: int) -> bool:
        """Let things happen until nothing moves; False if something still did at ``deadline_ns``."""
        while self.moving:
            next_ns = self.next_ns()
            if next_ns is None or next_ns > deadline_ns:
                return False
            self.step()
        return True

    def run_until(self, end_ns: int) -> None:
        """Let everything happen that is due up to and including ``end_ns``; then it is ``end_ns``."""
        heap, take = self._heap, heapq.heappop
        while heap and heap[0][0] <= end_ns:
            self.now_ns, _, action = take(heap)
            action.happen()
        self.now_ns = max(self.now_ns, end_ns)
