"""Names of destinations in programs and histories: what a name means by itself.

Rules
* A name that starts with ``t`` is a topic, any other a queue.
* ``ActiveMQ.Advisory.…`` are topics, too. What the broker itself fills (``is_aside``: advisory topics, and dead-letter
  queues that belong to one source) is no destination that producers use.
* Names joined by commas (``q0,q1``): what is sent there goes to each of them. ``tv0`` is a virtual topic, ``A.tv0`` a
  queue that consumes from it. Nobody consumes from several names at once.
* ``~c0`` is the temporary queue of host ``c0``: it makes one on each of its connections, and tells others of it by
  ``reply-to``.
* ``q*`` stands for all queues of the program, ``t*`` for all its topics: what a wildcard consumer consumes from. Dead
  letters are not part of them.
"""

from __future__ import annotations

#: The shared dead-letter queue, in the suite's words; worlds translate it for their broker.
DEAD_LETTERS = "ActiveMQ.DLQ"
#: How names of virtual topics begin.
VIRTUAL: str = "tv"
ADVISORIES: str = "ActiveMQ.Advisory."
#: What a wildcard consumer consumes from.
ALL_QUEUES = "q*"
ALL_TOPICS = "t*"


def is_topic(dest: str) -> bool:
    """Whether a destination's name means a topic."""
    return dest.startswith(("t", ADVISORIES))


def is_aside(dest: str) -> bool:
    """Whether only the broker puts messages there, and not on the shared dead-letter queue."""
    return dest.startswith("ActiveMQ.") and dest != DEAD_LETTERS


def own_letters_of(source: str) -> str:
    """The dead-letter queue of one source."""
    return f"{DEAD_LETTERS}.{'Topic' if is_topic(source) else 'Queue'}.{source}"


def expiries_of(dest: str) -> str:
    """The advisory topic that tells of what expires on a destination."""
    return f"{ADVISORIES}Expired.{'Topic' if is_topic(dest) else 'Queue'}.{dest}"


def presence_of(dest: str) -> str:
    """The advisory topic that tells which consumers of a destination come and go."""
    return f"{ADVISORIES}Consumer.{'Topic' if is_topic(dest) else 'Queue'}.{dest}"


def parts_of(dest: str) -> list[str]:
    """The names that a destination's name joins."""
    return dest.split(",")


def is_composite(dest: str) -> bool:
    """Whether it is several names."""
    return "," in dest


def virtual_topic_of(dest: str) -> str:
    """The virtual topic that a name is, or consumes from; "" for all others."""
    topic = dest.rpartition(".")[2]
    return topic if topic.startswith(VIRTUAL) and not is_composite(dest) and not is_aside(dest) else ""


def is_copied(dest: str) -> bool:
    """Whether a message that is sent there becomes several."""
    return is_composite(dest) or virtual_topic_of(dest) == dest


def is_temporary(dest: str) -> bool:
    """Whether it is a host's temporary queue."""
    return dest.startswith("~")


def temporary_of(host: str) -> str:
    """The temporary queue of a host."""
    return f"~{host}"


def is_pattern(dest: str) -> bool:
    """Whether it stands for all queues or all topics of the program."""
    return dest in {ALL_QUEUES, ALL_TOPICS}


def pattern_of(dest: str) -> str:
    """The pattern that covers a destination and all others of its sort."""
    return ALL_TOPICS if is_topic(dest) else ALL_QUEUES
