"""Relief: when a topic that had been full has certainly got its memory back, and time to use it.

A topic's messages are in memory while a subscriber has them, or is to get them. Where everybody has settled all that
came, has room, and got nothing more for a while, nothing is left that a publication could rightly wait for.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import accumulate

from brokerproof.conformance.facts.epochs import OVERHEAD_MAX_BYTES
from brokerproof.conformance.facts.facts import Facts
from brokerproof.conformance.facts.presence import gone_ns, roomy_ns
from brokerproof.conformance.facts.pressure import scarce
from brokerproof.conformance.facts.rows import Delivery, Destination, Send, Session
from brokerproof.conformance.facts.spans import NEVER, touches


def relieved_ns(facts: Facts, session: Session, long_ns: int) -> list[int]:
    """Instants at rest, rising, during a subscriber's stay, by which nobody had had, got or settled anything of its
    topic for so long; it had room, then.
    """
    dest, rests = session.dest, facts.rests_ns
    durable = any(one.durable for one in dest.subscriptions)
    if dest.kind != "topic" or durable or facts.beyond or scarce(facts):
        return []
    if any(one.wild or not one.known for one in dest.sessions) or session.event is None:
        return []
    busy = sorted(span for session in dest.sessions for span in _busy(facts, session))
    began, over = [low for low, _ in busy], list(accumulate((high for _, high in busy), max))
    found: list[int] = []
    stay = rests[bisect_left(rests, session.event.t1) : bisect_left(rests, session.lost_ns)]
    for rest_ns in sorted({*stay, *roomy_ns(facts, session)}):
        place = bisect_right(began, rest_ns)
        if (place == 0 or over[place - 1] + long_ns <= rest_ns) and _is_free(dest, rest_ns):
            found.append(rest_ns)
    return found


def _busy(facts: Facts, session: Session) -> list[tuple[int, int]]:
    """When a subscriber may have had something, or may have left with it; a slow link may carry something all the
    time.
    """
    gone = gone_ns(facts, session)
    if not facts.simulated and touches(session.client.busy, (session.opened[0], NEVER)):
        return [(session.opened[0], gone)]
    spans = [(one.event.t0, min(gone, _freed_ns(one))) for one in session.deliveries]
    return [*spans, (session.lost_ns + 1, gone)] if session.end or session.lost_ns < NEVER else spans


def _freed_ns(delivery: Delivery) -> int:
    if delivery.session.auto:
        return delivery.event.t1
    settled = delivery.settled
    return settled[1] if settled is not None else NEVER


def _is_free(dest: Destination, rest_ns: int) -> bool:
    """Whether the broker itself, if it was asked, says that it keeps nothing of a topic then."""
    told = [reading.event for reading in dest.readings if reading.at_rest and reading.event.t0 <= rest_ns]
    return not told or not (told[-1].in_flight or told[-1].memory_bytes or told[-1].memory_percent)


def fits(dest: Destination, send: Send) -> bool:
    """Whether a message has room in the memory of its destination, if nothing else is there."""
    limit = dest.applied.memory_limit_bytes
    return limit <= 0 or send.event.size + OVERHEAD_MAX_BYTES <= limit
