"""When the monitors of a node's connections want to be looked at: a heap with at most one entry per connection that
counts.

* An entry counts while it agrees with ``ConnectionState.due_ns``. Others are left in the heap and dropped when they
  come up, which is cheaper than to look for them.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping

from brokerproof.reference_broker.session.connection_state import ConnectionState


class MonitorTimers:
    """See the module's header. ``connections`` are the node's own, by number."""

    __slots__ = ("_connections", "_heap")

    def __init__(self, connections: Mapping[int, ConnectionState]) -> None:
        self._connections = connections
        self._heap: list[tuple[int, int]] = []

    def __len__(self) -> int:
        """How many entries there are that count."""
        return sum(state.due_ns >= 0 for state in self._connections.values())

    def plan(self, state: ConnectionState) -> None:
        """Put the monitor's next due time on the heap, unless it is there."""
        due_ns = state.monitor.next_due_ns()
        if due_ns is None:
            state.due_ns = -1
        elif due_ns != state.due_ns:
            state.due_ns = due_ns
            heapq.heappush(self._heap, (due_ns, state.number))

    def next_due_ns(self) -> int | None:
        """The next entry that counts; None: there is none."""
        heap = self._heap
        while heap:
            due_ns, number = heap[0]
            state = self._connections.get(number)
            if state is not None and state.due_ns == due_ns:
                return due_ns
            heapq.heappop(heap)
        return None

    def due(self, now_ns: int) -> Iterator[ConnectionState]:
        """The connections whose time has come, one after the other; whoever gets one plans it again."""
        heap = self._heap
        while heap and heap[0][0] <= now_ns:
            entry_ns, number = heapq.heappop(heap)
            state = self._connections.get(number)
            if state is not None and state.due_ns == entry_ns:
                state.due_ns = -1
                yield state
