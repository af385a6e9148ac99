"""Figures beside those of queues: what operators are told, topics, the broker's own, and what no figure can be (GEN-140
to GEN-142, GEN-145, INF-019, INF-021, INF-023, INF-024).
"""

from __future__ import annotations

from bisect import bisect_right
from operator import attrgetter
from typing import Final

from brokerproof.conformance.experiment.history import Counters, Leave, Nack, Operate
from brokerproof.conformance.facts import marks
from brokerproof.conformance.facts.expiration import may_die
from brokerproof.conformance.facts.facts import Facts
from brokerproof.conformance.facts.managed import is_queue_manager
from brokerproof.conformance.facts.marks import KINDS, RESOLVED, WHOLE
from brokerproof.conformance.facts.policy import gets_expiration
from brokerproof.conformance.facts.presence import gone_ns, rest_after
from brokerproof.conformance.facts.pressure import pressed
from brokerproof.conformance.facts.publishing import taken
from brokerproof.conformance.facts.rows import SETTLED, Delivery, Destination, Reading, Session
from brokerproof.conformance.facts.spans import NEVER, NS_PER_MS
from brokerproof.conformance.facts.tables import looks_at
from brokerproof.conformance.facts.tally import has_timed, is_known
from brokerproof.conformance.rules.inflight import arriving, contradicted, counting_dispatches
from brokerproof.conformance.rules.rule import Findings, broken, held, rule

#: The in-flight count has rules of its own.
FIGURES: Final = ("size", "enqueued", "dequeued", "dispatched", "expired", "scheduled", "acknowledged", "wasted",
                  "consumers", "memory_bytes", "memory_percent")  # fmt: skip
_figures_of: Final = attrgetter(*FIGURES)


def measured(facts: Facts) -> list[tuple[Operate, Reading]]:
    """Purges and moves with a count, of queues that were read at rest just before."""
    return [
        (operation, reading)
        for operation, reading in facts.measured
        if operation.op in {"purge", "move"} and operation.count is not None and reading.event.size is not None
    ]


@rule("GEN-140", over=measured)
def operators_are_told(facts: Facts, row: tuple[Operate, Reading]) -> Findings:
    """An operator is told how many messages a purge or a move concerned."""
    operation, reading = row
    dest, size, in_flight = reading.destination, reading.event.size or 0, reading.event.in_flight or 0
    disturbing = marks.REDELIVERY | marks.RESTART
    if has_timed(reading) or gets_expiration(facts.declared) or reading.event.scheduled:
        return
    if facts.marks.on(dest.name, (0, operation.t1)) & disturbing:
        return
    if reading.uncommitted or reading.unsure:
        return
    theirs = sum(window.held + window.doubted for window in (*reading.windows, *reading.wild))
    if (operation.count or 0) > size + max(theirs, in_flight):  # not every broker counts what consumers hold as there
        if not _is_sent_to(facts, reading, operation):
            yield broken("miscounted", operation, reading, why=f"{operation.count} messages, but {size} were there")
        return
    if pressed(facts, dest, reading) or reading.windows or reading.wild or in_flight:
        return  # whether what a consumer holds is taken, nobody says
    sent = [copy.send for copy in dest.copies] if operation.op == "move" else []
    if any(copy.dest.name == operation.to for send in sent for copy in send.copies.values()):
        return  # what was sent to both is at the other one already, and stays
    if operation.count != size:
        yield broken("miscounted", operation, reading, why=f"{operation.count} of {size} messages, it was told")
    elif size:
        yield held("told", operation.op)


def _is_sent_to(facts: Facts, reading: Reading, operation: Operate) -> bool:
    """Whether a message may have come between: also one that had waited for the room that was made, or that died."""
    sends, letters = facts.sends.values(), reading.destination.kind == "dead-letters"
    late = any(send.event.t0 <= operation.t1 and send.event.seq > reading.event.seq for send in sends)
    return late or (letters and any(send.timed for send in sends))


def topic_readings(facts: Facts) -> list[Reading]:
    """Counters of topics at rest, before the broker was restarted or reset."""
    found: list[Reading] = []
    for dest in facts.destinations.values():
        if dest.topic and dest.kind in {"topic", "virtual"}:
            until_ns = facts.counted_until_ns(dest.name)
            found += [one for one in dest.readings if one.at_rest and one.event.t1 < until_ns]
    return found


@rule("GEN-141", over=topic_readings, handles=KINDS)
def publications_are_counted(facts: Facts, reading: Reading) -> Findings:
    """When nothing moves, the enqueued count of a topic is the number of messages that were published on it."""
    event, low, high = reading.event, 0, 0
    if event.enqueued is None:
        return
    for send in reading.destination.sends:
        low += taken(send) and send.accepted[1] <= event.t0 and not send.timed and not may_die(facts, send)
        high += not send.refused and send.event.t0 <= event.t1
    if not low <= event.enqueued <= high:
        yield broken("miscounted", reading, why=f"{low} to {high} messages were published")
    elif low:
        yield held("counted")


class Settlements:
    """What was settled on one topic: the times by which each was, for certain, and those from which each may have been;
    ``bounded``: nothing else can have been.
    """

    def __init__(self, dest: Destination, readings: list[Reading]) -> None:
        self.readings = readings
        unseen = any(session.auto and (session.end or not session.known) for session in dest.sessions)
        self.bounded = not unseen
        #: What dies may be counted as well.
        self.mortal = any(send.mortal for send in dest.sends)
        self.sure_ns: list[int] = []
        self.maybe_ns: list[int] = []
        for delivery in (one for copy in dest.copies for one in copy.deliveries if one.dest is dest):
            self._take(delivery)
        self.sure_ns.sort()
        self.maybe_ns.sort()

    def _take(self, delivery: Delivery) -> None:
        session, span, transaction = delivery.session, delivery.settled, delivery.transaction
        if session.auto:
            self.maybe_ns.append(delivery.assigned[0])
            self.sure_ns += [delivery.event.t1] if session.known and not session.end else []
        elif delivery.settlements or delivery.rollbacks:
            self.maybe_ns.append(delivery.event.t0)
            if span is not None and span[1] < NEVER:
                self.sure_ns.append(span[1])
            elif delivery.state == SETTLED and transaction is not None and transaction.committed and transaction.end:
                self.sure_ns.append(transaction.end.t1)


def settled_on_topics(facts: Facts) -> list[Settlements]:
    """Of topics that were read at rest, before the broker was restarted or reset."""
    found: dict[Destination, list[Reading]] = {}
    for reading in [] if gets_expiration(facts.declared) else facts.rows(topic_readings):
        found.setdefault(reading.destination, []).append(reading)
    return [Settlements(dest, rows) for dest, rows in found.items() if dest.applied.entry.topic_inflight_stats]


@rule("INF-023", over=settled_on_topics, handles=KINDS)
def settlements_are_counted(_facts: Facts, row: Settlements) -> Findings:
    """When nothing moves, the dequeued count of a topic is the number of messages that its subscribers have settled."""
    for reading in row.readings:
        event, count = reading.event, reading.event.dequeued
        if count is None:
            continue
        low, high = bisect_right(row.sure_ns, event.t0), bisect_right(row.maybe_ns, event.t1)
        if row.mortal:
            high = NEVER if event.expired is None else high + event.expired
        if count < low or (row.bounded and count > high):
            yield broken("miscounted", reading, why=f"{low} to {high} were settled")
            return
        if low:
            yield held("counted")


LEVELS: Final = ("size", "in_flight", "scheduled")
TOTALS: Final = ("enqueued", "dequeued", "dispatched", "expired")


def brokers_at_rest(facts: Facts) -> list[Reading]:
    """The broker's own counters at rest, of which all destinations that it has were read as well, or are empty; in the
    simulation also those beside which others were not read. Not those during which a timer may have acted.
    """
    if facts.marks.spans(RESOLVED, WHOLE):
        return []  # what an alias leads to may be a queue that nobody reads
    found = [one for one in facts.broker_readings if one.at_rest and one.event.destinations is not None]
    if facts.paged:  # memory may keep from consumers what is there
        found = [one for one in found if not one.idle]
    still = [one for one in found if not any(has_timed(p) and p.event.t0 < one.event.t1 for p in one.parts)]
    return [one for one in still if facts.simulated or _is_whole(one)]


def _is_whole(reading: Reading) -> bool:
    return len(_parts(reading)) + reading.idle == reading.event.destinations


def _parts(reading: Reading) -> dict[str | None, Counters]:
    """Of the destinations that were there; of others a broker tells nothing."""
    told = (part.event for part in reading.parts if any(getattr(part.event, name) is not None for name in LEVELS))
    return {event.dest: event for event in told}


@rule("INF-024", over=brokers_at_rest, handles=KINDS)
def broker_adds_up(_facts: Facts, reading: Reading) -> Findings:
    """When nothing moves, the broker's own counts are the sums of its destinations' counts."""
    parts, whole = _parts(reading).values(), _is_whole(reading)
    for name in (*LEVELS, *TOTALS) if whole else TOTALS:
        own, others = getattr(reading.event, name), [getattr(part, name) for part in parts]
        if own is None or None in others:
            continue
        if own < sum(others) or (name in LEVELS and own > sum(others)):  # totals may be of those that are gone, too
            yield broken("different", reading, why=f"{name} is {own}, and {sum(others)} on its destinations together")
        elif own and whole:
            yield held("equal", "of what is there" if name in LEVELS else "of what has been there")


def all_readings(facts: Facts) -> list[Reading]:
    """All counters."""
    return facts.readings


@rule("GEN-142", over=all_readings, handles=KINDS)
def no_figure_is_negative(_facts: Facts, reading: Reading) -> Findings:
    """No counter but the in-flight one is ever negative."""
    if min(filter(None, _figures_of(reading.event)), default=0) < 0:
        below = [name for name in FIGURES if (getattr(reading.event, name) or 0) < 0]
        yield broken("negative", reading, why=f"{', '.join(below)} below 0")
    else:
        yield held("not-negative", "of a topic" if reading.dest is not None and reading.dest.topic else "")


def attended(facts: Facts) -> list[Reading]:
    """Counters at rest that say how many consumers a queue has, or a topic without durable subscriptions: whether one
    counts whose consumer is away, every broker decides by itself. In a network the others' brokers are consumers, too.
    """
    found = [one for one in facts.readings if one.at_rest and one.event.consumers is not None]
    told = [] if facts.beyond else [one for one in found if one.dest is None or _is_plain(one.dest)]
    return told + _untold(facts) if found and facts.simulated and not is_queue_manager(facts) else told


def _untold(facts: Facts) -> list[Reading]:
    """Those of destinations with consumers that say nothing, of a broker that is asked, and not by a network, and that
    says something of others.
    """
    found = [one for one in facts.readings if one.at_rest and one.event.consumers is None and one.dest is not None]
    return [one for one in found if one.destination.kind in {"queue", "topic"} and one.destination.sessions]


def _is_plain(dest: Destination) -> bool:
    return dest.kind in {"queue", "topic"} and not dest.subscriptions


def of_several(facts: Facts) -> list[Session]:
    """Consumers of several names at once: they are ones of each."""
    return [session for session in facts.sessions.values() if "," in session.dest.name]


@rule("GEN-145", over=attended, handles=KINDS)
def consumers_are_counted(facts: Facts, reading: Reading) -> Findings:
    """When nothing moves, the number of consumers that statistics report is the number of those that are there."""
    event, dest, low, high = reading.event, reading.dest, 0, 0
    # Nobody waits for the answer to a goodbye: it may be on its way while nothing seems to move.
    late_ns = 0 if facts.simulated else facts.declared.lateness_ms * NS_PER_MS
    if dest is None and (facts.probes or not facts.simulated):
        return  # raw peers may consume, and others count a consumer once for each of its destinations
    for session in facts.sessions.values() if dest is None else dest.sessions:
        sure = session.known and not session.uncertain and session.opened[1] <= event.t0
        low += sure and not (session.wild and dest is not None) and event.t1 < session.lost_ns
        # Where producers may wait for room, a goodbye may stand behind a message that does.
        gone = session.gone_ns if facts.blocks else gone_ns(facts, session)
        end = session.leave  # a goodbye that was not answered may never have been said
        said = not (isinstance(end, Leave) and end.result == "unknown")
        left = end is not None and said and end.seq < event.seq and gone <= event.t0 and end.t1 + late_ns <= event.t0
        high += session.opened[0] <= event.t1 and not left
    for browser in facts.browsings:  # some brokers do not count them
        if (dest is None or looks_at(browser.event, dest)) and browser.event.t0 <= event.t1:
            goodbye = None if facts.blocks or not browser.sure else browser.leave
            left = goodbye is not None and goodbye.seq < event.seq and rest_after(facts, goodbye.t1) <= event.t0
            high += not left
    if dest is not None:
        high += sum(dest.name in session.dest.name.split(",") for session in facts.rows(of_several))
    seen = event.consumers or 0
    if event.consumers is None and not low:
        return
    if not low <= seen <= high:
        yield broken("miscounted", reading, why=f"{seen} were reported, and {low} to {high} were there")
    elif low == high and dest is not None:
        yield held("counted", "some had left" if len(dest.sessions) > high else "")


def counting_waste(facts: Facts) -> list[Reading]:
    """Counters at rest, of destinations with consumers, with a count of dispatches that came to nothing."""
    found = [one for one in facts.rows(arriving) if one.at_rest and one.event.wasted is not None]
    return [reading for reading in found if reading.destination.sessions and reading.ledger.zeroed]


_ends_of: Final = attrgetter("acknowledged", "wasted", "in_flight")


def telling_ends(facts: Facts) -> list[Reading]:
    """Counters at rest of destinations that say what became of their dispatches."""
    return [one for one in facts.rows(counting_dispatches) if one.at_rest and None not in _ends_of(one.event)]


@rule("INF-021", over=telling_ends, handles=KINDS)
def dispatches_come_to_an_end(facts: Facts, reading: Reading) -> Findings:
    """When nothing moves, every dispatch was acknowledged, came to nothing, or is in flight."""
    event, zeroed = reading.event, reading.ledger.zeroed
    base = None if zeroed else reading.base
    if not zeroed and (base is None or base.event.dispatched is None or None in _ends_of(base.event)):
        return
    before = 0 if base is None else (base.event.dispatched or 0) - sum(_ends_of(base.event))
    more = (event.dispatched or 0) - sum(_ends_of(event)) - before
    if more and not any(_undecided(facts, one) for one in (reading, base) if one is not None):
        yield contradicted("unaccounted", reading, f"{more} dispatches have no end, or have several")
    elif event.dispatched and not more:
        yield held("accounted", "of a topic" if reading.destination.topic else "of a queue")


def _undecided(facts: Facts, reading: Reading) -> bool:
    """Whether an open transaction decides about something that its consumer has left: no figure has a word for that."""
    at, dest = reading.event, reading.destination
    ends = [one for one in facts.transactions.values() if one.end is None or one.end.t1 >= at.t0]
    those = (delivery for one in ends for delivery in (*one.settled, *one.tried))
    return any(one.dest is dest and one.session.ended_ns <= at.t1 for one in those)


@rule("INF-019", over=counting_waste, handles=KINDS)
def waste_is_counted(_facts: Facts, reading: Reading) -> Findings:
    """Dispatches that came to nothing, because their consumer left before it settled them, are counted."""
    wasted, ledger = reading.event.wasted or 0, reading.ledger
    if wasted < ledger.left:
        yield broken("uncounted", reading, why=f"{ledger.left} were left behind by consumers that went")
    elif wasted and not ledger.departed and not ledger.browsed and is_known(reading):
        # What was rejected or rolled back has come to nothing, too: some brokers count it.
        came = [one for copy in reading.destination.copies for one in copy.deliveries]
        came = [one for one in came if one.event.t0 <= reading.event.t1]
        if not any(one.rollbacks or Nack in map(type, one.settlements) for one in came):
            yield broken("invented", reading, why="no consumer has left, and none rejected anything")
    else:
        yield held("counted", "consumers had left messages behind" if ledger.left else "")
