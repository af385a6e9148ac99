"""Relief: when a topic that had been full has certainly got its memory back, and time to use it.

A topic's messages are in memory while a subscriber has them. Where everybody has settled all that came, and nothing
more came for a while, nothing is left that a publication could rightly wait for.
"""

from __future__ import annotations

from brokerproof.conformance.facts.epochs import OVERHEAD_MAX_BYTES
from brokerproof.conformance.facts.facts import Facts
from brokerproof.conformance.facts.presence import gone_ns
from brokerproof.conformance.facts.pressure import scarce
from brokerproof.conformance.facts.rows import Destination, Reading, Send
from brokerproof.conformance.facts.spans import touches


def relieved_ns(facts: Facts, dest: Destination, long_ns: int) -> list[int]:
    """Instants at rest, rising, by which nobody had had, got or settled anything of a topic for so long."""
    durable = any(one.durable for one in dest.subscriptions)
    if dest.kind != "topic" or durable or facts.beyond or scarce(facts):
        return []
    found: list[int] = []
    since_ns, before = 0, list[tuple[str, int, int]]()
    for reading in dest.readings:
        if not reading.at_rest or not _is_free(facts, reading):
            before = []
            continue
        told = [(one.session.name, one.arrived, one.tried) for one in reading.windows]
        if told != before:
            since_ns, before = reading.event.t0, told
        elif reading.event.t0 - since_ns >= long_ns:
            found.append(reading.event.t0)
    return found


def _is_free(facts: Facts, reading: Reading) -> bool:
    """Whether nobody has anything of a topic, as far as they and the broker know."""
    event, dest = reading.event, reading.destination
    if reading.wild or event.in_flight or event.memory_bytes or event.memory_percent:
        return False
    if any(one.held or one.doubted or not one.session.known for one in reading.windows):
        return False
    for session in dest.sessions:
        if session.opened[0] > event.t1:
            continue
        if session.end and session.ended_ns <= event.t0 < gone_ns(facts, session):
            return False  # the broker may not have noticed yet
        if not facts.simulated and touches(session.client.busy, reading.span):
            return False  # a slow link may carry something
    return True


def fits(dest: Destination, send: Send) -> bool:
    """Whether a message has room in the memory of its destination, if nothing else is there."""
    limit = dest.applied.memory_limit_bytes
    return limit <= 0 or send.event.size + OVERHEAD_MAX_BYTES <= limit
