"""What a topic remembers for subscribers that come late (ActiveMQ's retroactive consumers and recovery policies).

* A topic remembers only if its policy entry says so: ``recovery`` ``last-image`` (one message), ``fixed-count``,
  ``fixed-size`` (bytes of bodies; the newest message is never too large) or ``timed`` (so long by elapsed time).
* A subscriber that asks for it (``retroactive``) gets what the topic remembers, oldest first, before anything new: what
  is alive, and what it wants. It is published to that subscriber again, which counts no publication.
* What is remembered costs no memory in the usage tree: the entry bounds it. It does not outlive the process.
* On a queue ``retroactive`` means nothing. A durable subscription cannot have it (``retroactive-durable``): its backlog
  must outlive the process, and what is remembered does not.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from mypy_extensions import mypyc_attr

from brokerproof.reference_broker.core.config import ConfigError
from brokerproof.reference_broker.core.instant import NS_PER_MS

if TYPE_CHECKING:
    from brokerproof.reference_broker.core.instant import Now
    from brokerproof.reference_broker.core.message import Message

LAST_IMAGE: Final = "last-image"
FIXED_COUNT: Final = "fixed-count"
FIXED_SIZE: Final = "fixed-size"
TIMED: Final = "timed"


RECOVERIES: Final = (LAST_IMAGE, FIXED_COUNT, FIXED_SIZE, TIMED)


class Recovery:
    """A policy entry's subscriptionRecoveryPolicy: what a topic remembers for retroactive subscribers."""

    __slots__ = ("duration_ms", "maximum_bytes", "maximum_messages", "policy")

    def __init__(
        self, policy: str, *, maximum_messages: int = 100, maximum_bytes: int = 65536, duration_ms: int = 60_000
    ) -> None:
        if policy not in RECOVERIES:
            raise ConfigError(f"recovery policy {policy!r} is unknown; one of {', '.join(RECOVERIES)}")
        self.policy = policy
        self.maximum_messages = maximum_messages
        self.maximum_bytes = maximum_bytes
        self.duration_ms = duration_ms


class Archive:
    """What one topic remembers, oldest first, and when each was published."""

    __slots__ = ("kept", "recovery", "total_bytes")

    def __init__(self, recovery: Recovery) -> None:
        self.recovery = recovery
        self.kept: deque[tuple[int, Message]] = deque()
        self.total_bytes = 0

    def forget_oldest(self) -> None:
        """There is one."""
        self.total_bytes -= len(self.kept.popleft()[1].body)


@mypyc_attr(allow_interpreted_subclasses=True)
class Retention:
    """Policy ``retention``."""

    def keep(self, archive: Archive, message: Message, now: Now) -> None:
        """A message was published."""
        archive.kept.append((now.mono_ns, message))
        archive.total_bytes += len(message.body)
        while self.is_too_much(archive, now):
            archive.forget_oldest()

    def is_too_much(self, archive: Archive, now: Now) -> bool:
        """Whether the oldest must go."""
        recovery, kept = archive.recovery, archive.kept
        if recovery.policy == LAST_IMAGE:
            return len(kept) > 1
        if recovery.policy == FIXED_COUNT:
            return len(kept) > recovery.maximum_messages
        if recovery.policy == FIXED_SIZE:
            return len(kept) > 1 and archive.total_bytes > recovery.maximum_bytes
        return bool(kept) and kept[0][0] < now.mono_ns - recovery.duration_ms * NS_PER_MS

    def recall(self, archive: Archive, now: Now) -> list[Message]:
        """What a subscriber that comes now is to get."""
        while self.is_too_much(archive, now):
            archive.forget_oldest()
        return [message for _, message in archive.kept]
