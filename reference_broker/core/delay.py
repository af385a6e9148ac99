"""Delivery delay: a message is accepted now and becomes visible later (Jakarta Messaging 3.1, 7.9).

* A relative delay (``delay_ms``) runs on elapsed time from acceptance: a step of the broker's wall clock neither
  releases early nor strands. An absolute delivery time (``deliver_at_ms``) is turned into a remaining delay once, at
  acceptance, by the broker's wall clock; a time in the past means at once. If both are given the relative one counts,
  because it does not depend on whose clock is right.
* A negative value, or a delay above the configured maximum (``MAX_DELAY_MS`` at most), is refused: nothing is delivered
  wrapped or truncated. A broker without ``delay_support`` refuses every delay: delivering at once would be a lie.
* Until it is due the message is invisible: no consumer, no window, no part of ``size``; it counts in ``scheduled``. Due
  messages join at the tail, in the order of (due time, arrival number).
* Time to live counts from the send and is not touched by the release. A message that expires while it waits is found by
  the sweep or at its release, dead-lettered once, never delivered.
* A topic's audience is fixed at the send: only subscriptions that existed then, and still exist at the release, get the
  message.
* After a restart what is left is computed from stored wall times (``left_ms``).
* The delay is served once: a message that comes back from a consumer does not wait again.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

from mypy_extensions import mypyc_attr

from brokerproof.reference_broker.core.instant import NS_PER_MS

if TYPE_CHECKING:
    from brokerproof.reference_broker.core.destination import Destination
    from brokerproof.reference_broker.core.instant import Now
    from brokerproof.reference_broker.core.message import Message
    from brokerproof.reference_broker.core.subscription import Subscription

#: Declared maximum: ten years of 366 days.
MAX_DELAY_MS = 316_224_000_000

NEGATIVE = "delay-negative"
TOO_LONG = "delay-too-long"
UNSUPPORTED = "delay-unsupported"


class Scheduled:
    """A message that waits for its delivery time."""

    __slots__ = ("audience", "cancelled", "destination", "due_ns", "message")

    def __init__(
        self, message: Message, destination: Destination, due_ns: int, audience: list[Subscription] | None
    ) -> None:
        self.message = message
        self.destination = destination
        self.due_ns = due_ns
        #: Topics: the subscriptions at the time of the send. None for queues.
        self.audience = audience
        #: Expired or purged while it waited.
        self.cancelled = False


@mypyc_attr(allow_interpreted_subclasses=True)
class Delay:
    """Policy ``delay``."""

    #: What is taken at all, and the longest that is.
    supported: bool = True
    max_ms: int = MAX_DELAY_MS

    def refusal(self, message: Message, now: Now) -> str:
        """The code with which the send must be refused, or "" if the delay is acceptable."""
        if not self.supported:
            return UNSUPPORTED
        if message.delay_ms < 0 or message.deliver_at_ms < 0:
            return NEGATIVE
        return TOO_LONG if self.remaining_ms(message, now) > self.max_ms else ""

    def remaining_ms(self, message: Message, now: Now) -> int:
        """How long the message has to wait from now on; 0 or less is not at all."""
        if message.delay_ms != 0:
            return message.delay_ms
        if message.deliver_at_ms != 0:
            return message.deliver_at_ms - now.wall_ms
        return 0

    def due_ns(self, remaining_ms: int, now: Now) -> int:
        """The monotonic time of its release; ``now`` is the acceptance."""
        return now.mono_ns + remaining_ms * NS_PER_MS

    def left_ms(self, due_wall_ms: int, accepted_wall_ms: int, now: Now) -> int:
        """After a restart: how long a message has to wait that was accepted and due at these wall times. Never longer
        than at first, whatever became of the clock. The stored times have lost what was beyond their millisecond, so
        one is added: never early.
        """
        return max(0, min(due_wall_ms + 1 - now.wall_ms, due_wall_ms - accepted_wall_ms))

    def fixes_audience(self) -> bool:
        """Whether the subscribers of a topic at the send are the ones that count, not those at the release."""
        return True

    def is_due(self, due_ns: int, now: Now) -> bool:
        """Whether a release that was set for ``due_ns`` may happen now."""
        return due_ns <= now.mono_ns


def delay_policy(supported: bool, max_ms: int) -> Delay:
    """The policy that a configuration asks for; ``max_ms`` 0 is the longest there is."""
    policy = Delay()
    policy.supported = supported
    policy.max_ms = min(max_ms, MAX_DELAY_MS) if max_ms > 0 else MAX_DELAY_MS
    return policy


class DelayHeap:
    """All waiting messages of the broker, by (due time, arrival number)."""

    __slots__ = ("heap",)

    def __init__(self) -> None:
        self.heap: list[tuple[int, int, Scheduled]] = []

    def push(self, item: Scheduled) -> None:
        """Add one waiting message."""
        heapq.heappush(self.heap, (item.due_ns, item.message.sequence, item))

    def next_due_ns(self) -> int | None:
        """When the next release is wanted; cancelled ones are forgotten here."""
        heap = self.heap
        while heap and heap[0][2].cancelled:
            heapq.heappop(heap)
        return heap[0][0] if heap else None

    def take_due(self, policy: Delay, now: Now) -> Scheduled | None:
        """The next message to release, removed; None when nothing is due."""
        due_ns = self.next_due_ns()
        if due_ns is None or not policy.is_due(due_ns, now):
            return None
        return heapq.heappop(self.heap)[2]
