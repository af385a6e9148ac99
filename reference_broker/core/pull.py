"""Pull consumers: prefetch 0, one message per request.

* A consumer with prefetch 0 is given nothing unless it has pulled. A pull opens its window for one message; that
  message, or the end of the wait, closes it. A pull while another waits takes its place.
* A pull waits for ever (0), not at all (below 0), or so many milliseconds of elapsed time. If it ends without a message
  the consumer is told so (``NoMessage``), which touches no counter. A pull that does not wait is answered within its
  own event, after everything that can be handed out was handed out.
* Messages that turn out to be expired do not use a pull up.
* A pull of a consumer that has a window is refused (``bad-pull``): it gets its messages without.
"""

from __future__ import annotations

import heapq
from itertools import count
from typing import TYPE_CHECKING

from mypy_extensions import mypyc_attr

from brokerproof.reference_broker.core.effects import NoMessage
from brokerproof.reference_broker.core.instant import NS_PER_MS

if TYPE_CHECKING:
    from brokerproof.reference_broker.core.region import Region
    from brokerproof.reference_broker.core.subscription import Consumer


@mypyc_attr(allow_interpreted_subclasses=True)
class Pulling:
    """Policy ``pulling``."""

    def quantity(self) -> int:
        """How many messages a pull is good for."""
        return 1

    def wait_ns(self, timeout_ms: int) -> int:
        """How long a pull with a timeout waits."""
        return timeout_ms * NS_PER_MS

    def reports_end(self) -> bool:
        """Whether a consumer learns that its pull has ended without a message."""
        return True


class PendingPull:
    """A pull that has neither been answered nor ended."""

    __slots__ = ("consumer",)

    def __init__(self, consumer: Consumer) -> None:
        self.consumer = consumer


class Pulls:
    """All pulls of the broker."""

    __slots__ = ("_heap", "_region", "_serial", "immediate", "waiting")

    def __init__(self, region: Region) -> None:
        self._region = region
        #: By name of the consumer.
        self.waiting: dict[str, PendingPull] = {}
        #: Those that end with the event in progress.
        self.immediate: list[PendingPull] = []
        self._heap: list[tuple[int, int, PendingPull]] = []
        self._serial = count()

    def ask(self, consumer: Consumer, timeout_ms: int) -> None:
        """A consumer pulls."""
        policy = self._region.policies.pulling
        due_ns = self._region.now.mono_ns + policy.wait_ns(timeout_ms) if timeout_ms > 0 else 0
        wait = PendingPull(consumer)
        self.waiting[consumer.name] = wait
        consumer.extension = policy.quantity()
        if timeout_ms < 0:
            self.immediate.append(wait)
        elif due_ns:
            heapq.heappush(self._heap, (due_ns, next(self._serial), wait))
        for subscription in consumer.in_turn():
            subscription.destination.window_opened(subscription)

    def served(self, consumer: Consumer) -> None:
        """A message goes to a consumer that pulls."""
        consumer.extension -= 1
        if not consumer.extension:
            self.waiting.pop(consumer.name, None)

    def forget(self, consumer: Consumer) -> None:
        """A consumer goes."""
        self.waiting.pop(consumer.name, None)

    def end_immediate(self) -> None:
        """Everything is handed out that can be: who does not wait is told."""
        ending = self.immediate
        self.immediate = []
        for wait in ending:
            self._end(wait)

    def next_due_ns(self) -> int | None:
        """When the next pull ends."""
        while self._heap and not self._waits(self._heap[0][2]):
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def expire(self) -> None:
        """Time has passed: the pulls whose time is over end with this event, unless it brings them a message."""
        now_ns = self._region.now.mono_ns
        while self._heap and self._heap[0][0] <= now_ns:
            self.immediate.append(heapq.heappop(self._heap)[2])

    def _waits(self, wait: PendingPull) -> bool:
        return self.waiting.get(wait.consumer.name) is wait

    def _end(self, wait: PendingPull) -> None:
        if not self._waits(wait):
            return
        consumer = wait.consumer
        del self.waiting[consumer.name]
        consumer.extension = 0
        for subscription in consumer.subscriptions:
            subscription.destination.window_closed(subscription)
        if self._region.policies.pulling.reports_end():
            self._region.effects.append(NoMessage(consumer.connection, consumer.name))
