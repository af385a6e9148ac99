"""Those who look on: browsers, and listeners of consumer advisories (GEN-026, GEN-028)."""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

from brokerproof.conformance.experiment.destinations import presence_of
from brokerproof.conformance.experiment.history import Browse, Event, Subscribe
from brokerproof.conformance.facts import marks
from brokerproof.conformance.facts.absence import maybe_swallowed
from brokerproof.conformance.facts.facts import Facts
from brokerproof.conformance.facts.presence import gone_ns, kept_connection
from brokerproof.conformance.facts.rows import Copy, Destination, Reading, Session
from brokerproof.conformance.facts.selectors import chosen_by
from brokerproof.conformance.facts.spans import NEVER, ms
from brokerproof.conformance.rules.rule import Findings, broken, held, rule

#: What real brokers show at most (maxBrowsePageSize).
BROWSED_MAX: Final = 400
#: The most that an advisory takes of memory.
ADVISORY_BYTES: Final = 4096
#: What may keep a message from a browser.
BLIND: Final = marks.OPERATOR | marks.MEMORY | marks.LIMIT | marks.RESTART | marks.REDELIVERY | marks.REPEATED


class Look:
    """One browser: how it came, what it was shown, and when it was told that this was all."""

    def __init__(self, subscribe: Subscribe) -> None:
        self.subscribe = subscribe
        self.shown: dict[str, int] = {}
        self.ended_ns = NEVER
        self.last: Event = subscribe

    def add(self, event: Browse) -> None:
        """It was shown more."""
        for message in event.messages:
            self.shown.setdefault(message, len(self.shown))
        self.last = event
        if event.complete:
            self.ended_ns = event.t1


def browsed(facts: Facts) -> list[tuple[Destination, list[Look]]]:
    """Queues with browsers that stayed until they had seen everything, and these, in the order of their coming."""
    left_ns = {browser.event.consumer: browser.left_ns for browser in facts.browsings}
    looks = {name: Look(event) for name, event in facts.browsers.items() if event.result == "ok"}
    for event in facts.browses:
        if event.consumer in looks:
            looks[event.consumer].add(event)
    found: dict[str, list[Look]] = {}
    for look in sorted(looks.values(), key=lambda look: look.subscribe.t0):
        if look.ended_ns < left_ns.get(look.subscribe.consumer, NEVER) and len(look.shown) < BROWSED_MAX:
            found.setdefault(look.subscribe.dest, []).append(look)
    return [(facts.destination(name), looks) for name, looks in found.items()]


@rule("GEN-026", over=browsed)
def shown_oldest_first(facts: Facts, row: tuple[Destination, list[Look]]) -> Findings:
    """A browser is shown all messages that are on the queue when it comes, oldest first."""
    dest, looks = row
    # What was delivered too often, perhaps unseen, the broker may have given up by itself.
    spent = facts.redeliveries_max < NEVER
    copies = [copy for copy in dest.copies if copy.steady and not copy.dead_letters and not (spent and copy.rejected)]
    copies.sort(key=lambda copy: copy.send.accepted[1])
    present: list[Copy] = []
    place = 0
    for look in looks:
        begin_ns = look.subscribe.t0
        while place < len(copies) and copies[place].send.accepted[1] <= begin_ns:
            present.append(copies[place])
            place += 1
        # What had left before this one came is of no concern to later ones either.
        present = [copy for copy in present if not _left(facts, copy, begin_ns)]
        yield from _look(facts, dest, look, [copy for copy in present if not _left(facts, copy, look.ended_ns)])


def _left(facts: Facts, copy: Copy, true_ns: int) -> bool:
    """Whether it may have left the queue by then, or be with a consumer where browsers do not see that."""
    unseen = not facts.promises("browses-in-flight")
    for delivery in copy.deliveries:
        if (unseen or delivery.session.ack == "auto") and delivery.assigned[0] <= true_ns:
            return True
        if delivery.settlement is not None and delivery.settlement.t0 <= true_ns:
            return True
    return False


def _look(facts: Facts, dest: Destination, look: Look, there: list[Copy]) -> Findings:
    asked, selector = look.subscribe, look.subscribe.selector
    if selector:
        wanted = [chosen_by(selector, copy.send) for copy in there]
        if None in wanted:
            return
        there = [copy for copy, wants in zip(there, wanted, strict=True) if wants]
    if asked.no_local:
        there = [copy for copy in there if copy.send.event.host != asked.host]
    end_ns = look.ended_ns
    if facts.marks.on(dest.name, (0, end_ns)) & BLIND:
        there = [copy for copy in there if not facts.marks.on(dest.name, (copy.send.event.t0, end_ns)) & BLIND]
    for copy in there:
        if copy.message not in look.shown and not maybe_swallowed(facts, copy):
            yield broken("missing", copy, asked, look.last, why=f"it was there until {ms(end_ns)}, and not shown")
            return
    fresh = [copy for copy in there if copy.message in look.shown and not _had(copy, look)]
    if _disorder(look, fresh):
        pair = _disorder(look, [copy for copy in fresh if not _touched(facts, copy, look)])
        if pair:
            yield broken("disordered", *pair, asked, look.last)
            return
    if there:
        yield held("shown", "messages waited")


def _had(copy: Copy, look: Look) -> bool:
    """Whether somebody had got it before the end."""
    return any(delivery.event.t0 <= look.ended_ns for delivery in copy.deliveries)


def _disorder(look: Look, copies: list[Copy]) -> tuple[Copy, Copy] | None:
    """Two of one priority that were shown in the wrong order."""
    newest: dict[int, Copy] = {}
    for copy in copies:
        before = newest.get(copy.send.event.priority)
        later = before is not None and before.send.accepted[1] <= copy.send.accepted[0]
        if before is not None and later and look.shown[before.message] > look.shown[copy.message]:
            return before, copy
        newest[copy.send.event.priority] = copy
    return None


def _touched(facts: Facts, copy: Copy, look: Look) -> bool:
    """Whether somebody may have been given it, and have lost it again, before the end."""
    lost = [s for s in copy.dest.sessions if s.opened[0] <= look.ended_ns and s.lost_ns < look.ended_ns]
    return any(gone_ns(facts, session) >= copy.send.event.t0 for session in lost)


def listeners(facts: Facts) -> list[tuple[Destination, Session, list[int]]]:
    """Who listened to the consumer advisories of which destination, and when (events) it was told anything. A bridge
    may bring those of another broker.
    """
    by_topic = {
        presence_of(dest.name, topic=dest.topic): dest
        for dest in facts.destinations.values()
        if dest.kind != "advisory"
    }
    every = [s for s in facts.sessions.values() if s.known and s.ack == "auto" and not s.selective]
    sessions = [s for s in every if s.dest.name in by_topic and not facts.marks.spans(marks.REPEATED, s.dest.name)]
    told: dict[str, list[int]] = {session.name: [] for session in sessions}
    for event in facts.advisories:
        if event.consumer in told and not event.message:  # anybody may send there, too
            told[event.consumer].append(event.seq)
    return [(by_topic[session.dest.name], session, told[session.name]) for session in sessions]


@rule("GEN-028", over=listeners)
def told_who_comes_and_goes(facts: Facts, row: tuple[Destination, Session, list[int]]) -> Findings:
    """Who listens to a destination's consumer advisories is told of each consumer that comes or goes, and first of
    those that are there.
    """
    dest, listener, told = row
    if any(not s.known or s.durable() or s.client.stalls for s in dest.sessions):
        return
    for reading in reversed(dest.readings):
        event = reading.event
        if not event.at_rest or event.t0 < listener.opened[1] or not _was_there(facts, listener, reading):
            continue
        if reading.marks & (marks.WILDCARD | marks.BROWSER | marks.MEMORY | marks.LIMIT):
            return
        owed = [_owed(facts, session, listener, reading) for session in dest.sessions]
        if None in owed:
            continue
        due, got = sum(count or 0 for count in owed), bisect_left(told, event.seq)
        if got < due and _may_be_full(facts, listener.dest, due):
            return
        if got < due <= len(told) and not facts.simulated:
            return  # what was missing may be what came when the queue had been at rest for a moment
        discarding = listener.dest.applied.entry.pending_message_limit is not None
        if got < due and due > listener.prefetch and (discarding or not listener.traits.settles_on_write):
            return  # it may have to settle some first, or was too slow for the rest
        if got != due:
            why = f"it was told {got} times, not {due} times"
            yield broken("untold" if got < due else "too-often", listener, dest, reading, why=why)
        elif due:
            before = any(session.opened[0] < listener.opened[0] for session in dest.sessions)
            yield held("told", "consumers were there before" if before else "")
        return


def _may_be_full(facts: Facts, dest: Destination, advisories: int) -> bool:
    """Whether so many of them, unsettled, may take all the memory that there is for them."""
    limits = (facts.declared.memory_limit_bytes, dest.applied.memory_limit_bytes)
    return any(0 < limit <= advisories * ADVISORY_BYTES for limit in limits)


def _was_there(facts: Facts, listener: Session, reading: Reading) -> bool:
    """Whether it stayed, and its connection was well, from its coming to a reading."""
    begin_ns, end_ns, client = listener.opened[0], reading.event.t1, listener.client
    stayed = listener.leave is None or listener.leave.t0 > end_ns
    return stayed and kept_connection(facts, client, begin_ns, end_ns) and not client.stalled(begin_ns, end_ns)


def _owed(facts: Facts, session: Session, listener: Session, reading: Reading) -> int | None:
    """How often a listener had to be told of one consumer before a reading; None: that cannot be said."""
    event, since = reading.event, listener.opened
    if session.opened[0] >= event.t1:
        return 0
    low_ns, high_ns = session.lost_ns, gone_ns(facts, session)
    if session.opened[1] > event.t0 or (not session.end and low_ns != NEVER):
        return None
    if session.opened[0] < since[1]:
        if session.opened[1] > since[0]:
            return None
        if high_ns <= since[0]:
            return 0
        if low_ns < since[1]:
            return None
    if low_ns >= event.t1:
        return 1
    told = high_ns <= event.t0 and (session.leave is None or session.leave.seq < event.seq)
    return 2 if told else None
