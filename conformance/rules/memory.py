"""Who is served while memory is short (MEM-001, MEM-020 to MEM-022, MEM-025, MEM-026, MEM-031)."""

from __future__ import annotations

from bisect import bisect_left
from typing import NamedTuple

from brokerproof.conformance.facts.backlog import Kept, stays
from brokerproof.conformance.facts.credit import DISTURBED, arrived_ns
from brokerproof.conformance.facts.deliveries import settled
from brokerproof.conformance.facts.epochs import OVERHEAD_MAX_BYTES
from brokerproof.conformance.facts.facts import Facts
from brokerproof.conformance.facts.marks import KINDS, LIMIT
from brokerproof.conformance.facts.ordering import neighbours
from brokerproof.conformance.facts.policy import MARK_PERCENT, PRESSURE_PERCENT
from brokerproof.conformance.facts.presence import settles_unseen
from brokerproof.conformance.facts.pressure import exceedable, limit_at, own_limit_at, scarce
from brokerproof.conformance.facts.publishing import owed
from brokerproof.conformance.facts.rows import Copy, Delivery, Destination, Reading, Session, Subscription
from brokerproof.conformance.facts.selectors import surely_wants
from brokerproof.conformance.facts.spans import NEVER, NS_PER_MS, ms
from brokerproof.conformance.facts.starvation import held_up, server, waits
from brokerproof.conformance.rules.delivery import ORDERED, with_arrivals
from brokerproof.conformance.rules.rule import Findings, broken, held, rule, unsure
from brokerproof.conformance.rules.selecting import durables


def pressed_readings(facts: Facts) -> list[Reading]:
    """Readings at rest of queues with consumers, when others had been sent half of what the broker's limit holds."""
    if not facts.limits and facts.sent_bytes * 100 < facts.declared.memory_limit_bytes * PRESSURE_PERCENT:
        return []
    return [
        reading
        for reading in facts.queue_readings
        if (reading.windows or reading.wild)
        and 0 < limit_at(facts, reading) * PRESSURE_PERCENT <= (reading.sent_bytes - reading.sent_here_bytes) * 100
    ]


def _served(facts: Facts, reading: Reading) -> Findings:
    """A reading of a queue beside others that were sent much: its consumers have all that they can take, or not."""
    limit = limit_at(facts, reading)
    share = reading.charged_elsewhere * 100 // limit
    if held_up(reading) and not _hold_little(facts, reading, limit):
        if share < PRESSURE_PERCENT or not any(window.held for window in (*reading.windows, *reading.wild)):
            return
    elif reading.waiting:
        copy, session = waits(facts, reading), server(reading)
        if copy is None or session is None or reading.uncommitted or reading.unsure:
            return  # what open transactions sent there is in memory, and goes nowhere
        few = sum(window.held for window in reading.windows)
        why = f"consumers hold {few} messages, and others keep {reading.charged_elsewhere} of {limit} bytes"
        yield broken("starved", copy, session, reading, why=why)
        return
    elif share < PRESSURE_PERCENT or not reading.arrived:
        return
    kept = "70 % or more of the broker's memory" if share >= MARK_PERCENT else "half of the broker's memory or more"
    yield held("served", f"other destinations kept {kept}")


def _hold_little(facts: Facts, reading: Reading, limit: int) -> bool:
    """Whether all that consumers hold, anywhere, is less than half of the broker's memory, and a queue's own, and than
    what is loaded at once, for certain: then nothing but what waits can keep others from what there is.
    """
    dest, windows = reading.destination, (*reading.windows, *reading.wild)
    count = sum(window.held + window.doubted for window in windows)
    if facts.browsings or facts.probes or any(_may_hold(facts, one, reading) for one in facts.destinations.values()):
        return False
    own = own_limit_at(facts, reading)
    if reading.uncommitted or reading.unsure or own < 0 or not all(window.session.known for window in windows):
        return False
    least = min(limit, own or limit)
    return count < dest.applied.page and count * facts.epoch.largest * 100 < least * PRESSURE_PERCENT


def _may_hold(facts: Facts, dest: Destination, reading: Reading) -> bool:
    """Whether consumers elsewhere may hold something of another destination's."""
    if dest is reading.destination or all(one.opened[0] > reading.event.t1 for one in dest.sessions):
        return False
    gone = all(copy.deliveries and _is_gone(facts, copy.deliveries[-1], reading.event.t0) for copy in dest.copies)
    return dest.kind == "advisory" or not gone


def _is_gone(facts: Facts, delivery: Delivery, by_ns: int) -> bool:
    """Whether a message was settled by then for certain; who acknowledges nothing has settled what arrived."""
    end = delivery.settlement or (delivery.event if delivery.session.auto else None)
    return settled(facts, delivery) and end is not None and end.t1 <= by_ns


@rule("MEM-001", over=pressed_readings, handles=KINDS, absence=True)
def memory_of_others_starves_nobody(facts: Facts, reading: Reading) -> Findings:
    """A consumer with a free slot and a backlog is served, however much memory other destinations keep."""
    yield from _served(facts, reading)


@rule("MEM-020", over=pressed_readings, handles=KINDS, absence=True)
def small_backlogs_starve_nobody(facts: Facts, reading: Reading) -> Findings:
    """Many small backlogs starve nobody either."""
    limit = limit_at(facts, reading)
    if reading.most_elsewhere * 4 < limit and reading.charged_elsewhere * 100 >= limit * PRESSURE_PERCENT:
        yield from _served(facts, reading)


# -- relief


class Relief(NamedTuple):
    """A reading at rest of a queue with a consumer, when the broker has memory again that had been full at
    ``full_ns``. ``waited``: a message was seen waiting then; ``purged``: an operator purged another queue in between.
    """

    reading: Reading
    percent: int
    full_ns: int
    waited: bool
    purged: bool


def reliefs(facts: Facts) -> list[Relief]:
    """Of all queues, since the broker's last start."""
    found: list[Relief] = []
    full: dict[tuple[str, int], int] = {}
    waited: dict[tuple[str, int], bool] = {}
    purges = [o for o in facts.operations if o.result != "fail" and o.op in {"purge", "move"}]
    for total in facts.broker_readings:
        percent = total.event.memory_percent
        for reading in total.parts if percent is not None and (full or percent >= MARK_PERCENT) else ():
            dest, begin = reading.dest, reading.event.t0
            if percent is None or dest is None or dest.topic:
                continue
            key = (dest.name, reading.restarts)
            full_ns = full.get(key, NEVER)
            if percent >= MARK_PERCENT:
                full.setdefault(key, reading.event.t1)
                beside = any(window.open() and window.session.known for window in reading.windows)
                waited[key] = waited.get(key, False) or (beside and bool(reading.waiting))
            elif full_ns < begin and max(percent, reading.event.memory_percent or 0) < PRESSURE_PERCENT:
                purged = any(full_ns < o.t1 < begin and o.dest != dest.name for o in purges)
                found.append(Relief(reading, percent, full_ns, waited[key], purged))
    return found


def _had_gone(copy: Copy, reading: Reading) -> bool:
    """Whether somebody had settled it by then."""
    spans = [delivery.settled for delivery in copy.deliveries]
    return any(span is not None and span[1] <= reading.event.t0 for span in spans)


def _is_too_large(facts: Facts, relief: Relief, copy: Copy) -> bool:
    """Whether a message may not fit, or one before it, though there is room: in the broker's memory, in its queue's."""
    dest, limit = relief.reading.destination, limit_at(facts, relief.reading)
    there = [one for one in dest.copies if one is not copy and not _had_gone(one, relief.reading)]
    sizes = [one.send.event.size + OVERHEAD_MAX_BYTES for one in (copy, *there)]
    own = own_limit_at(facts, relief.reading)
    if own and own * PRESSURE_PERCENT < sum(sizes) * 100:
        return True
    return max(sizes) + limit * (relief.percent + 1) // 100 > limit


def _resumed(facts: Facts, relief: Relief) -> Findings:
    session = server(relief.reading)
    copy = waits(facts, relief.reading) if session is not None else None
    if session is not None and copy is not None:
        if _is_too_large(facts, relief, copy):
            return
        why = f"{relief.percent} % of the broker's memory are in use, which had been full at {ms(relief.full_ns)}"
        yield broken("asleep", copy, session, relief.reading, why=why)
    elif session is not None and relief.waited and not relief.reading.waiting:
        yield held("resumed", "a message had waited for memory")


@rule("MEM-022", over=reliefs, handles=KINDS)
def starved_consumers_resume(facts: Facts, relief: Relief) -> Findings:
    """A consumer that was starved resumes by itself when memory becomes free."""
    yield from _resumed(facts, relief)


@rule("MEM-026", over=reliefs, handles=KINDS)
def purges_relieve(facts: Facts, relief: Relief) -> Findings:
    """Purging the queue that holds the memory unstarves the others."""
    if relief.purged:
        yield from _resumed(facts, relief)


# -- interference


class Beside(NamedTuple):
    """A message that came to a queue beside others: ``kept`` bytes stayed on these until it was too late."""

    copy: Copy
    kept: int


def beside_others(facts: Facts) -> list[Beside]:
    """Plain messages on queues, sent while others kept half of the broker's limit."""
    limit, lateness_ns = facts.declared.memory_limit_bytes, facts.declared.lateness_ms * NS_PER_MS
    if limit <= 0 or facts.sent_bytes * 100 < limit * PRESSURE_PERCENT:
        return []
    kept = Kept(stays(facts), 2 * lateness_ns)
    found: list[Beside] = []
    for copy in facts.copies:
        event, dest = copy.send.event, copy.dest
        if dest.topic or dest.kind == "dead-letters" or event.tx is not None or not event.persistent:
            continue
        if not owed(facts, copy.send, event.t1):
            continue
        elsewhere = kept.elsewhere(dest.name, event.t0, event.t1 + lateness_ns)
        if elsewhere * 100 >= limit * PRESSURE_PERCENT and event.t1 - event.t0 < lateness_ns:
            found.append(Beside(copy, elsewhere))
    return found


@rule("MEM-021", over=beside_others, handles=KINDS, faults=("stall",))
def slow_consumers_slow_down_nobody(facts: Facts, beside: Beside) -> Findings:
    """A fast consumer is not slowed down to the speed of slow consumers of other destinations."""
    send, dest = beside.copy.send, beside.copy.dest
    begin, end = send.event.t0, send.event.t1
    until_ns = end + facts.declared.lateness_ms * NS_PER_MS
    if facts.credit.most(dest, begin, until_ns) > 1:
        return
    waiting = facts.credit.waiting(send, dest, (begin, end), excused=DISTURBED | LIMIT)
    waiting = [session for session in waiting if not session.wild]  # who may be a slow consumer of the others, too
    if not waiting:
        return
    low, high = arrived_ns(send, dest, waiting)
    limit = facts.declared.memory_limit_bytes
    if low > until_ns:
        slack_ns = None if low == NEVER else until_ns - low
        why = f"{ms(until_ns - end)} later other queues still kept at least {beside.kept} of {limit} bytes"
        yield broken("late", send, waiting[0], *beside.copy.deliveries[:1], why=why, slack_ns=slack_ns)
    elif high <= until_ns:
        kept = "70 % or more" if beside.kept * 100 >= limit * MARK_PERCENT else "half or more"
        yield held("in-time", f"other queues kept {kept}", slack_ns=until_ns - high)
    else:
        yield unsure(send, width_ns=high - until_ns)


# -- order


def served_beyond_memory(facts: Facts) -> list[Session]:
    """Consumers at which more than one message arrived, where more may have been accepted than a limit holds."""
    return facts.rows(with_arrivals) if exceedable(facts) else []


@rule("MEM-025", over=served_beyond_memory, handles=ORDERED)
def order_survives_paging(facts: Facts, session: Session) -> Findings:
    """Order survives caching, paging and caching again."""
    for before, delivery, overtaken in neighbours(facts, session):
        short = before.copy.accepted_beyond or delivery.copy.accepted_beyond
        if delivery.dest.topic or not delivery.send.event.persistent or not short:
            continue
        if overtaken:
            why = "by then more than a memory limit holds had been accepted"
            yield broken("overtaken", delivery.send, before, delivery, why=why)
            return
        yield held("in-order", "memory had been short")


# -- durable subscriptions


def durables_under_pressure(facts: Facts) -> list[Subscription]:
    """Durable subscriptions to topics, if memory may have been scarce."""
    if not scarce(facts):
        return []
    plain = [one for one in facts.rows(durables) if not one.doubtful and not one.sessions[0].wild]
    return [one for one in plain if one.sessions[0].dest.kind != "advisory"]


@rule("MEM-031", over=durables_under_pressure, handles=KINDS)
def durable_subscribers_are_served(facts: Facts, subscription: Subscription) -> Findings:
    """A durable subscriber with a free slot is served, however much memory other destinations keep."""
    begin, sessions = subscription.begin, subscription.sessions
    swallowed = any(_may_have_swallowed(session) for session in sessions)
    rests = [] if swallowed else sorted(_idle_ns(facts, session) for session in sessions)
    full_ns = _full_ns(facts)
    for send in facts.published(sessions[0].dest).between(begin.t1, facts.end_ns or NEVER) if begin is not None else ():
        copy = send.copies.get(subscription.name)
        arrived_ns = copy.deliveries[0].event.t0 if copy is not None and copy.deliveries else NEVER
        place = bisect_left(rests, send.accepted[1])
        rest_ns = rests[place] if place < len(rests) else NEVER
        if rest_ns < min(arrived_ns, subscription.sure_ns):
            kept = send.event.persistent and facts.declared.persistent
            lost = not kept and facts.restarted(send.event.t0, rest_ns)
            if not lost and owed(facts, send, rest_ns) and surely_wants(sessions[0], send):
                why = f"its subscriber had settled all it ever got at {ms(rest_ns)}"
                yield broken("starved", subscription, send, why=why)
        elif full_ns < arrived_ns < NEVER:
            yield held("served", "half of the broker's memory had been in use")


def _idle_ns(facts: Facts, session: Session) -> int:
    """The last rest that a subscriber saw, if it had settled all that it ever got by then; -1: that is not known."""
    place = bisect_left(facts.rests_ns, session.lost_ns) - 1
    rest_ns = facts.rests_ns[place] if place >= 0 else -1
    if not session.known or session.prefetch < 1 or rest_ns < session.opened[1]:
        return -1
    for delivery in session.deliveries:
        if delivery.settlement is None or delivery.settlement.t1 > rest_ns or not settled(facts, delivery):
            return -1
    return rest_ns


def _may_have_swallowed(session: Session) -> bool:
    """Whether the broker may have settled messages by writing them to it, which it never got."""
    return settles_unseen(session) and (not session.known or session.lost_ns != NEVER or bool(session.end))


def _full_ns(facts: Facts) -> int:
    """From when on half of the broker's memory is known to have been in use."""
    for reading in facts.broker_readings:
        if reading.at_rest and (reading.event.memory_percent or 0) >= PRESSURE_PERCENT:
            return reading.event.t1
    return NEVER
