"""Producer flow control of the generations G0 to G3: what happens to a send while memory is full (6 of the notes).

Rules:

* Full: the destination's node, or the broker's, is at 100 % or above. The broker's concerns every destination, also
  topics and destinations that nobody has used yet.
* Of a destination whose policy entry has ``producer_flow_control``, a send is refused at once (code ``no-space``, if
  ``send_fail_if_no_space``; never for a network bridge), or it waits. Delayed messages and what the broker itself sends
  (dead letters, moved messages) never wait.
* Waiting: a confirmed send is answered later, and nothing else of its connection waits. An unconfirmed one stops its
  connection (``Throttled``): nothing more is read from it until the send went through.
* Waiting sends of a destination go through first come, first served, as soon as it is not full, at the beginning of its
  dispatch at the latest. They were stamped when they arrived. One that has expired meanwhile expires; one whose
  transaction has ended is refused; one whose message id was used meanwhile is refused.
* With ``send_fail_if_no_space_after_ms`` a send to a queue waits no longer than that; then it is refused.
* A sender that goes leaves its waiting sends behind, and they go through (as measured); in a transaction they fail.

Generation ``fair`` never holds a send: a message that arrives needs no memory.

Known exceptions: the store and temporary files are never full; no producer windows.

Change together: ``broker.py`` (``_send``, ``_tick``), ``region.py`` (``finish``), ``paging.py``, requirement MEM-027.
"""

from __future__ import annotations

import heapq
from collections import deque
from typing import TYPE_CHECKING

from reference_broker.core.effects import Logged, Refused, Throttled
from reference_broker.core.instant import NS_PER_MS
from reference_broker.core.matching import is_queue, policy_for

if TYPE_CHECKING:
    from reference_broker.core.config import DestinationPolicy
    from reference_broker.core.events import Send
    from reference_broker.core.memory import Usage
    from reference_broker.core.region import Region

NO_SPACE = "no-space"
FULL_PERCENT = 100
LOGGER = "org.apache.activemq.broker.region.Queue"


class Waiting:
    """A send that waits for memory."""

    __slots__ = ("ended", "event")

    def __init__(self, event: Send) -> None:
        self.event = event
        #: It went through or was refused.
        self.ended = False


class Flow:
    """All sends that wait."""

    __slots__ = ("_deadlines", "_region", "_serial", "stopped", "waiting")

    def __init__(self, region: Region) -> None:
        self._region = region
        self._serial = 0
        #: (due time, number, send)
        self._deadlines: list[tuple[int, int, Waiting]] = []
        #: By destination, oldest first; no empty ones.
        self.waiting: dict[str, deque[Waiting]] = {}
        #: Connection -> how many of its unconfirmed sends wait.
        self.stopped: dict[int, int] = {}

    # -- a send arrives

    def is_full(self, name: str) -> bool:
        """Whether a send to that destination finds no memory."""
        return self._full_node(name) is not None

    def refuses(self, event: Send) -> bool:
        """Whether a send fails at once."""
        name = event.message.destination
        policy = self._policy(name)
        return (
            policy.producer_flow_control and policy.send_fail_if_no_space and not event.network and self.is_full(name)
        )

    def holds(self, event: Send) -> bool:
        """Whether a send must wait. It does, then."""
        name = event.message.destination
        if not self._policy(name).producer_flow_control or not self.is_full(name):
            return False
        self._wait(event)
        return True

    def refusal(self, event: Send) -> Refused:
        """The answer to a send that fails for want of memory."""
        name = event.message.destination
        node = self._full_node(name)
        figures = "" if node is None else f" ({node.used_bytes} of {node.limit_bytes} bytes are used)"
        text = (
            f"javax.jms.ResourceAllocationException: no memory for a message to {name}{figures}; "
            "consume or purge what is there, or raise the limit"
        )
        return Refused(event.connection, event.request, NO_SPACE, text)

    def _wait(self, event: Send) -> None:
        region = self._region
        name = event.message.destination
        waiting = Waiting(event)
        line = self.waiting.get(name)
        if line is None:
            line = self.waiting[name] = deque()
            text = f"memory is full; producers of {name} will be throttled until messages have been consumed"
            region.effects.append(Logged("INFO", LOGGER, text))
        line.append(waiting)
        after_ms = self._policy(name).send_fail_if_no_space_after_ms
        if after_ms > 0 and is_queue(name):
            self._serial += 1
            heapq.heappush(self._deadlines, (region.now.mono_ns + after_ms * NS_PER_MS, self._serial, waiting))
        if not event.request:
            stopped = self.stopped.get(event.connection, 0)
            self.stopped[event.connection] = stopped + 1
            if not stopped:
                region.effects.append(Throttled(event.connection, True))

    # -- the wait ends

    def count(self, name: str) -> int:
        """How many sends wait for a destination."""
        line = self.waiting.get(name)
        return 0 if line is None else len(line)

    def is_any_ready(self) -> bool:
        """Whether a send waits that need not."""
        return any(not self.is_full(name) for name in self.waiting)

    def ready(self) -> Send | None:
        """The next send that can go through; it waits no longer. None: there is none."""
        for name, line in self.waiting.items():
            if not self.is_full(name):
                return self._end(line[0]).event
        return None

    def overdue(self) -> Send | None:
        """The next send that has waited too long; it waits no longer. None: there is none."""
        due_ns = self.next_due_ns()
        if due_ns is None or due_ns > self._region.now.mono_ns:
            return None
        return self._end(heapq.heappop(self._deadlines)[2]).event

    def next_due_ns(self) -> int | None:
        """When the next send will have waited too long."""
        deadlines = self._deadlines
        while deadlines:
            due_ns, _, waiting = deadlines[0]
            if not waiting.ended:
                return due_ns
            heapq.heappop(deadlines)
        return None

    def forget(self, connection: int) -> None:
        """The connection is gone: there is nobody to be started again."""
        self.stopped.pop(connection, None)

    def _end(self, waiting: Waiting) -> Waiting:
        event = waiting.event
        name = event.message.destination
        waiting.ended = True
        line = self.waiting[name]
        line.remove(waiting)
        if not line:
            del self.waiting[name]
        stopped = self.stopped.get(event.connection, 0)
        if not event.request and stopped:
            if stopped > 1:
                self.stopped[event.connection] = stopped - 1
            else:
                del self.stopped[event.connection]
                self._region.effects.append(Throttled(event.connection, False))
        return waiting

    # -- nodes

    def _full_node(self, name: str) -> Usage | None:
        """The node that is full for a destination; None: it has room."""
        known = self._region.destinations.get(name)
        if known is not None and not known.usage.is_below(FULL_PERCENT):
            return known.usage
        root = self._region.memory.root
        return None if root.is_below(FULL_PERCENT) else root

    def _policy(self, name: str) -> DestinationPolicy:
        known = self._region.destinations.get(name)
        return known.policy if known is not None else policy_for(name, self._region.config.destinations)
