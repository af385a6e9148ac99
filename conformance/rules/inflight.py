"""In-flight accounting: what a queue's counters say, at rest and while things move (INF-001 to INF-008,
INF-010 to INF-014, INF-018, INF-020, INF-022).

What each counter can be is asked of ``facts/tally.py``, which knows what restarts, operators, browsers and wildcards
mean to it; so no mark drops a reading here.
"""

from __future__ import annotations

from brokerproof.conformance.experiment.history import Operate
from brokerproof.conformance.facts.facts import Facts
from brokerproof.conformance.facts.marks import KINDS, LIMIT, MEMORY
from brokerproof.conformance.facts.rows import SETTLED, Copy, Destination, Reading, Session
from brokerproof.conformance.facts.tally import came_since_purge, dispatched, has_timed, is_wide
from brokerproof.conformance.rules.rule import Finding, Findings, broken, held, rule, unsure
from brokerproof.conformance.rules.selecting import queue_readings, queues_at_rest


def contradicted(outcome: str, reading: Reading, why: str) -> Finding:
    """A reading at rest says otherwise, unless a timer acted while it was made."""
    if is_wide(reading):
        return unsure(reading, why=why, width_ns=reading.event.t1 - reading.event.t0)
    return broken(outcome, reading, why=why)


@rule("INF-001", over=queues_at_rest, handles=KINDS)
def count_is_what_is_held(_facts: Facts, reading: Reading) -> Findings:
    """When nothing moves, the in-flight count of a queue equals the messages that were transmitted to open consumers
    and are not settled.
    """
    yield from _balanced(reading)


def topics_at_rest(facts: Facts) -> list[Reading]:
    """Counters at rest of topics that keep lists of what is in flight."""
    dests = [one for one in facts.destinations.values() if one.topic and one.kind in {"topic", "virtual"}]
    kept = [one for one in dests if one.applied.entry.topic_inflight_stats]
    return [reading for dest in kept for reading in dest.readings if reading.at_rest]


@rule("INF-022", over=topics_at_rest, handles=KINDS)
def topics_count_what_is_held(_facts: Facts, reading: Reading) -> Findings:
    """When nothing moves, the in-flight count of a topic equals the messages that its subscribers hold unsettled."""
    yield from _balanced(reading)


def _balanced(reading: Reading) -> Findings:
    count, (low, high) = reading.event.in_flight, reading.ledger.in_flight
    low -= reading.ledger.browsing  # whether what a browser sees counts is another requirement's affair
    wanted = str(low) if low == high else f"{low} to {high}"
    why = f"its {len(reading.windows) + len(reading.wild)} open consumers hold {wanted} unsettled messages"
    if count is None:
        return
    if reading.ledger.shaken:
        yield unsure(reading, why="an operator reset the statistics while messages were in flight")
    elif not max(0, low - reading.ledger.taken) <= count <= high:
        yield contradicted("unbalanced", reading, why)
    elif low < high:
        yield unsure(reading, why=why)
    else:
        yield held("balanced", "messages were in flight" if low else "nothing was in flight")
        if reading.ended:
            yield held("balanced", "a consumer had left")


def synchronous(facts: Facts) -> list[Reading]:
    """Counters of queues all of whose consumers so far had asked for synchronous dispatch."""
    found: list[Reading] = []
    for reading in facts.queue_readings:
        consumers = facts.tally.consumers(reading.destination)
        if consumers.sync_ns <= reading.event.t1 < consumers.async_ns and reading.event.in_flight is not None:
            found.append(reading)
    return found


@rule("INF-002", over=synchronous, handles=KINDS)
def synchronous_is_never_negative(_facts: Facts, reading: Reading) -> Findings:
    """While all consumers of a queue use synchronous dispatch, its in-flight count is never negative."""
    if reading.event.in_flight is None or reading.ledger.shaken:
        yield unsure(reading)
    elif reading.event.in_flight < 0:
        yield broken("negative", reading)
    else:
        left = reading.ended
        yield held(
            "never-negative", "a synchronous consumer had left" if left else "synchronous consumers were attached"
        )


def counted_when_assigned(facts: Facts) -> list[Reading]:
    """Counters of queues with a consumer, of a broker of the generation that counts dispatches early. Where all
    consumers are synchronous, it is another requirement's affair.
    """
    if facts.declared.generation.get("in-flight") != "assigned":
        return []
    rows = [one for one in facts.queue_readings if one.event.in_flight is not None]
    return [one for one in rows if facts.tally.consumers(one.destination).async_ns <= one.event.t1]


@rule("INF-007", over=counted_when_assigned, handles=KINDS)
def asynchronous_is_never_negative(_facts: Facts, reading: Reading) -> Findings:
    """With asynchronous dispatch, too, the in-flight count should never be negative: a departure takes off only what
    was counted.
    """
    count = reading.event.in_flight
    if count is None or reading.ledger.shaken:
        yield unsure(reading)
    elif count < 0:
        yield broken("negative", reading, why="a broker that counts what it assigns takes off nothing else")
    else:
        left = reading.ended
        yield held(
            "never-negative", "an asynchronous consumer had left" if left else "asynchronous consumers were attached"
        )


@rule("INF-003", over=queues_at_rest, handles=KINDS)
def what_came_went_or_is_there(_facts: Facts, reading: Reading) -> Findings:
    """When nothing moves, enqueued minus dequeued is the size of a queue."""
    event, conserved = reading.event, reading.ledger.conserved
    if event.enqueued is None or event.dequeued is None or event.size is None:
        return
    if conserved is None and not event.enqueued + event.dequeued:
        return
    base = reading.base
    doubtful = base is not None and is_wide(base) and not base.ledger.conserved  # torn, it would hardly add up
    if conserved is None or (doubtful and not conserved):
        yield unsure(reading, why="what was there when its totals began is not known")
    elif not conserved:
        yield contradicted("unbalanced", reading, f"{event.enqueued - event.dequeued} messages must be left")
    elif event.enqueued:
        yield held("conserved", "messages were left on the queue" if event.size else "the queue was empty again")


def arriving(facts: Facts) -> list[Reading]:
    """Counters of destinations; what arrives from advisories is no row."""
    return [one for one in facts.readings if one.dest is not None and one.dest.kind != "advisory"]


def counting_dispatches(facts: Facts) -> list[Reading]:
    """Counters of queues and topics with a count of dispatches, where no library throws away unseen what expires."""
    mortal = {copy.dest.name for copy in facts.copies if copy.send.event.expiration_ms > 0}
    hidden = {name for name in mortal if any(map(_hides_discards, facts.destinations[name].sessions))}
    counted = [reading for reading in facts.rows(arriving) if reading.event.dispatched is not None]
    return [reading for reading in counted if reading.event.dest not in hidden]


def _hides_discards(session: Session) -> bool:
    return session.traits.seen_when_taken and session.traits.checks_expiry


@rule("INF-004", over=counting_dispatches, handles=KINDS)
def each_dispatch_counts(_facts: Facts, reading: Reading) -> Findings:
    """The dispatched count never falls, and counts every transmission, redeliveries included."""
    count, before = reading.event.dispatched or 0, reading.before
    if before is not None and before.ledger.stretch == reading.ledger.stretch and before.event.t1 <= reading.event.t0:
        earlier = before.event.dispatched
        if earlier is not None and count < earlier:
            yield broken("fell", before, reading)
        elif earlier is not None and count > earlier:
            yield held("monotonic", "the count rose")
    if not reading.at_rest:
        return
    low, high = dispatched(reading)
    if not low <= count <= high:
        wanted = f"at least {low}" if low < high else str(low)
        yield broken("miscounted", reading, why=f"{wanted} must have been dispatched")
    elif reading.arrived and high > 0:
        again = "messages had been delivered again" if reading.again else "messages had been delivered once"
        yield held("monotonic", again)


@rule("INF-005", over=queues_at_rest, handles=KINDS)
def nothing_is_left_behind(_facts: Facts, reading: Reading) -> Findings:
    """When every consumer of a queue has left and nothing moves, its in-flight count is 0."""
    count = reading.event.in_flight
    if reading.windows or reading.wild or not reading.ended or reading.ledger.in_flight != (0, 0) or count is None:
        return
    if reading.ledger.shaken:
        yield unsure(reading, why="an operator reset the statistics while messages were in flight")
    elif count:
        yield contradicted("left-over", reading, "every consumer has left")
    else:
        yield held("zero", "every consumer had left")


@rule("INF-006", over=queue_readings, handles=KINDS)
def swing_is_bounded(facts: Facts, reading: Reading) -> Findings:
    """A negative in-flight count is never lower than what consumers that left had been assigned and not yet been
    transmitted, so no lower than their prefetch.
    """
    count = reading.event.in_flight
    if count is None:
        return
    if count >= 0:
        if reading.ended:
            yield held("bounded", "a consumer had left")
        return
    bound = facts.tally.consumers(reading.destination).swing(reading.event.t1)
    if count >= -bound:
        yield held("bounded", "the count was negative")
    elif reading.ledger.shaken:
        yield unsure(reading)
    else:
        yield broken("unbounded", reading, why=f"at most {bound} were assigned to who had left, and not transmitted")


def settled_by_the_broker(facts: Facts) -> list[Reading]:
    """Counters of queues whose consumers so far have all stayed, and leave the acknowledgement to the broker."""
    found: list[Reading] = []
    for reading in facts.queue_readings:
        dest = reading.destination
        first = dest.sessions[0].event if dest.sessions else None
        if first is not None and first.seq < reading.event.seq < facts.tally.consumers(dest).auto_seq:
            found.append(reading)
    return found


@rule("INF-008", over=settled_by_the_broker, handles=KINDS)
def unread_is_not_negative(facts: Facts, reading: Reading) -> Findings:
    """An auto-acknowledging STOMP consumer that does not read shows no negative in-flight count."""
    count, consumers = reading.event.in_flight, reading.destination.sessions
    if count is None or reading.ledger.shaken:
        return
    unread = [one.client.stalled(*reading.span) for one in consumers if one.opened[0] < reading.event.t1]
    # While a consumer reads, a real broker may count one message a moment after its frame, which settled it (INF-006).
    swing = 0 if facts.simulated or reading.at_rest else unread.count(False)
    if count < -swing:
        yield broken("negative", reading, *consumers[:3], why="no consumer has left")
    elif count >= 0 and any(unread):
        yield held("counted", "a consumer did not read")


def with_transactions(facts: Facts) -> list[Reading]:
    """Counters of queues at rest, whose consumers acknowledged in transactions that are open, or were rolled back."""
    return [reading for reading in facts.queue_rests if reading.ledger.pledged or reading.ledger.undone]


@rule("INF-010", over=with_transactions, handles=KINDS)
def uncommitted_changes_nothing(facts: Facts, reading: Reading) -> Findings:
    """Acknowledgements in a transaction change nothing before commit, and rollback changes nothing."""
    event, ledger = reading.event, reading.ledger
    least = ((event.in_flight, ledger.kept), (event.size, ledger.pledged + ledger.undone))
    counters = [(figure, wanted) for figure, wanted in least if figure is not None]
    windows = (*reading.windows, *reading.wild)
    unclear = [one for one in windows if not one.session.known and one.held + one.doubted]
    # What was rolled back may have gone back to its queue, and have expired there, or have been given up.
    again = any(one.undone and facts.may_send_again(one.session) for one in windows)
    gone = again and any(copy.rejected or copy.send.mortal for copy in reading.destination.copies)
    if ledger.disturbed or unclear or gone:
        yield unsure(reading)
    elif any(figure < wanted for figure, wanted in counters):
        why = f"acknowledged in open transactions: {ledger.pledged}, in some that were rolled back: {ledger.undone}"
        yield broken("took-effect", reading, why=why)
    elif counters:
        yield held("no-effect", "a transaction was open" if ledger.pledged else "")
        if ledger.undone:
            yield held("no-effect", "a transaction had been rolled back")


def beside_wildcards(facts: Facts) -> list[Reading]:
    """Counters at rest of destinations after a consumer of a wildcard over them has left."""
    wild = [session for session in facts.wild if session.end]
    if not wild:
        return []
    return [reading for reading in facts.readings if reading.at_rest and _gone(reading)]


def _gone(reading: Reading) -> list[Session]:
    """The consumers of wildcards that had left, and not because the broker stopped."""
    dest, seq = reading.dest, reading.event.seq
    if dest is None or reading.event.in_flight is None:
        return []
    gone = [one for one in dest.sessions if one.wild and one.leave is not None and one.leave.seq < seq]
    return [session for session in gone if session.end != "broker"]


def _left_alone(reading: Reading, *, durable: bool) -> Findings:
    gone, count = _gone(reading), reading.event.in_flight
    if count is None or durable is not all(session.durable() for session in gone):
        return
    least = reading.ledger.in_flight[0] - reading.ledger.browsing if not reading.destination.topic else 0
    if reading.ledger.disturbed:
        yield unsure(reading)
    elif count < least:
        yield broken("charged", reading, gone[-1], why=f"consumers hold {least}")
    elif any(delivery.settlement is None for session in gone for delivery in session.deliveries):
        yield held("left-alone", "it left messages unsettled")


@rule("INF-011", over=beside_wildcards, handles=KINDS)
def durable_wildcard_leaves_others_alone(_facts: Facts, reading: Reading) -> Findings:
    """Closing a durable subscription to a wildcard leaves the in-flight counts of other topics alone."""
    yield from _left_alone(reading, durable=True)


@rule("INF-018", over=beside_wildcards, handles=KINDS)
def wildcard_leaves_others_alone(_facts: Facts, reading: Reading) -> Findings:
    """A consumer of several destinations that leaves takes off each of them what was in flight from there, and no
    more.
    """
    yield from _left_alone(reading, durable=False)


def after_resets(facts: Facts) -> list[Reading]:
    """Counters at rest of destinations whose statistics were reset."""
    if not facts.resets:
        return []
    return [one for one in facts.readings if one.at_rest and one.ledger.reset is not None]


@rule("INF-012", over=after_resets, handles=KINDS)
def reset_keeps_levels(_facts: Facts, reading: Reading) -> Findings:
    """Resetting statistics with unsettled messages does not make the in-flight count negative later."""
    count, ledger = reading.event.in_flight, reading.ledger
    if count is None or ledger.reset is None or reading.event.t0 < ledger.reset.t1:
        return
    least = reading.ledger.in_flight[0] - reading.ledger.browsing if not reading.destination.topic else 0
    if count >= least:
        yield held("kept", "messages were in flight" if ledger.reset_held else "")
    elif ledger.unaccounted:
        yield unsure(reading)
    else:
        yield broken("forgotten", ledger.reset, reading, why=f"consumers hold {least}")


def fresh_resets(facts: Facts) -> list[Reading]:
    """Counters at rest of queues that only producers fill, whose statistics were reset while nothing was in flight, and
    of which nothing was heard since.
    """
    found: list[Reading] = []
    for reading in after_resets(facts):
        reset, dest, ledger = reading.ledger.reset, reading.destination, reading.ledger
        quiet = not (ledger.disturbed or ledger.loose or ledger.doubted or reading.uncommitted)
        if reset is None or reset.seq != reading.moved_seq or reading.event.t0 < reset.t1 or not quiet:
            continue
        if not dest.topic and _is_fed_by_producers(dest) and (not has_timed(reading) or _was_empty(reading)):
            found.append(reading)
    return found


def _was_empty(reading: Reading) -> bool:
    """Whether the reading before found nothing on the queue, for certain, and nobody has sent there since."""
    before, dest = reading.before, reading.destination
    if before is None or not before.at_rest or before.event.size != 0 or before.event.in_flight:
        return False
    hidden = before.event.scheduled != 0 and any(send.delayed for send in dest.sends)
    unsent = all(send.event.seq < before.event.seq for send in dest.sends[-1:])
    return not hidden and unsent


def _may_be_written(dest: Destination, reset: Operate) -> bool:
    """Whether somebody left shortly before a reset to whom a message was on its way: its dispatch counts when it is
    written, to nobody.
    """
    rests = [one.event.t0 for one in dest.readings if one.at_rest and one.event.t1 <= reset.t0]
    since_ns = max(rests, default=0)
    gone = [one for one in dest.sessions if one.end and one.opened[0] <= reset.t1 and one.ended_ns >= since_ns]
    return any(_may_be_unseen(copy, session) for session in gone for copy in dest.copies)


def _may_be_unseen(copy: Copy, session: Session) -> bool:
    """Whether a message may have been on its way to a session at which it never arrived."""
    if copy.send.accepted[0] > session.ended_ns or any(one.session is session for one in copy.deliveries):
        return False
    settled = [one.settlement for one in copy.deliveries if one.state == SETTLED and one.settlement is not None]
    return all(one.t1 >= session.opened[0] for one in settled)


@rule("INF-020", over=fresh_resets, handles=KINDS)
def totals_begin_anew(_facts: Facts, reading: Reading) -> Findings:
    """After a reset of statistics the totals of a queue begin with 0."""
    event, reset = reading.event, reading.ledger.reset
    totals = {"enqueued": event.enqueued, "dequeued": event.dequeued, "expired": event.expired}
    if reset is not None and not _may_be_written(reading.destination, reset):
        totals |= {"dispatched": event.dispatched, "acknowledged": event.acknowledged, "wasted": event.wasted}
    kept = {name: total for name, total in totals.items() if total}
    if kept:
        why = f"nothing has come since the reset; {', '.join(f'{name} {total}' for name, total in kept.items())}"
        yield broken("kept", *filter(None, (reset,)), reading, why=why)
    elif any(total is not None for total in totals.values()):
        yield held("anew", "messages were there" if event.size else "")


def after_purges(facts: Facts) -> list[Reading]:
    """Counters at rest of queues that were purged, and that only producers fill."""
    found = [reading for reading in facts.queue_rests if reading.ledger.purge is not None]
    return [reading for reading in found if _is_fed_by_producers(reading.destination)]


def _is_fed_by_producers(dest: Destination) -> bool:
    return dest.kind != "dead-letters" and not dest.virtual and dest.applied.entry.redelivery is None


def _is_out_of_reach(facts: Facts, dest: Destination, purge: Operate) -> bool:
    """Whether memory may have been so scarce that an older broker did not load all that it was to purge."""
    if not facts.paged:
        return False
    return bool(facts.marks.on(dest.name, (purge.t0, purge.t1)) & (MEMORY | LIMIT))


@rule("INF-013", over=after_purges, handles=KINDS)
def purge_empties(facts: Facts, reading: Reading) -> Findings:
    """Purging a queue with messages in flight empties it at once, and their later settlement is not counted again."""
    event, ledger, purge = reading.event, reading.ledger, reading.ledger.purge
    later = came_since_purge(reading)
    if purge is None or event.t0 < purge.event.t1 or event.size is None:
        return
    if event.size > later:
        if _is_out_of_reach(facts, reading.destination, purge.event):
            return
        why = "nothing can have come since" if not later else f"at most {later} can have come since"
        yield broken("left", purge.event, reading, why=why)
    elif ledger.reset is None and (event.dequeued or 0) > (event.enqueued or 0):
        yield broken("counted-again", purge.event, reading)
    elif not later:
        yield held("empty", "messages were in flight" if purge.held else "")
        if purge.held and not ledger.held:
            yield held("empty", "they were settled afterwards")


def beside_browsers(facts: Facts) -> list[Reading]:
    """Counters at rest of queues that somebody browsed."""
    return [reading for reading in facts.queue_rests if reading.ledger.browsed] if facts.browsers else []


@rule("INF-014", over=beside_browsers, handles=KINDS)
def browsing_is_in_flight_only(_facts: Facts, reading: Reading) -> Findings:
    """Browsing counts as dispatched and in flight until the browser closes, and never as dequeued."""
    count, ledger = reading.event.in_flight, reading.ledger
    low, high = ledger.in_flight
    if count is None or low != high or ledger.disturbed:
        return
    if count != low:
        why = f"consumers hold {low - ledger.browsing}, and browsers that are there were shown {ledger.browsing}"
        yield contradicted("otherwise", reading, why)
    elif ledger.conserved is False:
        yield contradicted("dequeued", reading, "somebody browsed it")
    elif ledger.browsing:
        yield held("while-it-looked", "a browser held what it had seen")
    elif ledger.shown:
        yield held("while-it-looked", "a browser had gone")
