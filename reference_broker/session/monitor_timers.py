"""When the monitors of a node's connections want to be looked at: a heap with at most one entry per connection that
counts.

Rules
* An entry counts while it says what its link says (``Link.due_ns``). Others are left in the heap and dropped when they
  come up, which is cheaper than to look for them.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping

from brokerproof.reference_broker.session.connection_state import Link


class Alarms:
    """See the module's header. ``links`` are the node's own, by number."""

    __slots__ = ("_heap", "_links")

    def __init__(self, links: Mapping[int, Link]) -> None:
        self._links = links
        self._heap: list[tuple[int, int]] = []

    def __len__(self) -> int:
        """How many entries there are, those that no longer count included."""
        return len(self._heap)

    def plan(self, link: Link) -> None:
        """Put the monitor's next due time on the heap, unless it is there."""
        due_ns = link.monitor.next_due_ns()
        if due_ns is None:
            link.due_ns = -1
        elif due_ns != link.due_ns:
            link.due_ns = due_ns
            heapq.heappush(self._heap, (due_ns, link.number))

    def next_due_ns(self) -> int | None:
        """The next entry that counts; None: there is none."""
        heap = self._heap
        while heap:
            due_ns, number = heap[0]
            link = self._links.get(number)
            if link is not None and link.due_ns == due_ns:
                return due_ns
            heapq.heappop(heap)
        return None

    def due(self, now_ns: int) -> Iterator[Link]:
        """The links whose time has come, one after the other; whoever gets one plans it again."""
        heap = self._heap
        while heap and heap[0][0] <= now_ns:
            entry_ns, number = heapq.heappop(heap)
            link = self._links.get(number)
            if link is not None and link.due_ns == entry_ns:
                link.due_ns = -1
                yield link
