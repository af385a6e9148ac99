"""Names of destinations in programs and histories: what a name means by itself.

Rules
* A name that starts with ``t`` is a topic, any other a queue.
* ``q*`` stands for all queues of the program, ``t*`` for all its topics: what a wildcard consumer consumes from. Dead
  letters are not part of them.

What must change together: ``worlds/translation.py``, which writes them as a broker wants them.
"""

from __future__ import annotations

#: The shared dead-letter queue, in the suite's words; worlds translate it for their broker.
DEAD_LETTERS = "ActiveMQ.DLQ"
#: What a wildcard consumer consumes from.
ALL_QUEUES = "q*"
ALL_TOPICS = "t*"


def is_topic(dest: str) -> bool:
    """Whether a destination's name means a topic."""
    return dest.startswith("t")


def is_pattern(dest: str) -> bool:
    """Whether it stands for all queues or all topics of the program."""
    return dest in {ALL_QUEUES, ALL_TOPICS}


def pattern_of(dest: str) -> str:
    """The pattern that covers a destination and all others of its sort."""
    return ALL_TOPICS if is_topic(dest) else ALL_QUEUES
