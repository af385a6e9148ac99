"""What is in memory, and what in the store only (MEM-009, MEM-015, MEM-016, MEM-019, MEM-023, MEM-024).

An arriving message stays in memory only below the high-water mark; what is in the store only is read a page at a time,
when a consumer comes or when the sweep looks for expired messages.
"""

from __future__ import annotations

from brokerproof.conformance.facts.epochs import OVERHEAD_MIN_BYTES
from brokerproof.conformance.facts.expiration import may_die
from brokerproof.conformance.facts.facts import Facts
from brokerproof.conformance.facts.managed import asking
from brokerproof.conformance.facts.marks import KINDS
from brokerproof.conformance.facts.policy import MARK_PERCENT
from brokerproof.conformance.facts.presence import gone_ns
from brokerproof.conformance.facts.pressure import governing_limit
from brokerproof.conformance.facts.rows import Destination, Reading, Send, Session
from brokerproof.conformance.facts.spans import NEVER, NS_PER_MS
from brokerproof.conformance.rules.memory_usage import UNCHANGED
from brokerproof.conformance.rules.rule import Findings, broken, held, rule, unsure


class Interval:
    """Two readings at rest of a queue, one after the other, since the broker's last start: its memory in use, and what
    governs it.
    """

    def __init__(self, facts: Facts, dest: Destination, before: Reading, after: Reading) -> None:
        self.dest = dest
        self.before, self.after = before, after
        self.was, self.used = before.event.memory_bytes or 0, after.event.memory_bytes or 0
        shown = after.event.memory_limit_bytes
        self.limit = shown if shown is not None else governing_limit(facts, after)
        self.mark = dest.applied.entry.high_water_percent or MARK_PERCENT
        self.marks = after.marks

    def arrivals(self) -> int:
        """How many messages somebody tried to send there in between."""
        return self.after.epoch.sent - self.before.epoch.sent

    def is_plain(self) -> bool:
        """Whether what it may do is known: a policy entry applies, and it only ever got plain persistent messages."""
        return self.dest.applied.found and not self.after.epoch.mixed

    def is_full(self, broker_limit: int) -> bool:
        """Whether it had reached the mark by itself."""
        full = 0 < self.limit * self.mark <= self.was * 100
        return full and (broker_limit <= 0 or self.limit <= broker_limit)

    def sweeps(self, t0: int, t1: int) -> int:
        """How many sweeps may have come in ``[t0, t1]``."""
        period_ns = self.dest.applied.expire_period_ms * NS_PER_MS
        return (t1 - t0) // period_ns + 1 if period_ns > 0 else 0

    def swept(self) -> int:
        """How many messages they may have loaded, from one reading to the other."""
        sweeps = self.sweeps(self.before.event.t0, self.after.event.t1)
        return sweeps * self.dest.applied.entry.max_expire_page_size

    def why(self) -> str:
        """The counters."""
        return f"its memory grew from {self.was} to {self.used} of {self.limit} bytes, the mark being {self.mark} %"


def intervals(facts: Facts, touched: int) -> list[Interval]:
    """Of all queues but dead-letter queues: those until the end of which somebody had come, or an operator had had a
    hand in, so often.
    """
    found: list[Interval] = []
    for dest in facts.destinations.values():
        before: Reading | None = None
        for reading in dest.readings if not dest.topic and dest.kind != "dead-letters" else ():
            if not reading.at_rest or reading.event.memory_bytes is None:
                continue
            if before is not None and before.restarts == reading.restarts and reading.epoch.touched == touched:
                found.append(Interval(facts, dest, before, reading))
            before = reading
    return found


def untouched(facts: Facts) -> list[Interval]:
    """Those of queues that nobody has consumed from, or browsed, or operated on yet."""
    return intervals(facts, 0)


def _freed(interval: Interval) -> bool:
    """Whether what expired meanwhile made room."""
    return (interval.after.event.expired or 0) > (interval.before.event.expired or 0)


def _stays_full(facts: Facts, interval: Interval) -> bool:
    return interval.is_full(facts.declared.memory_limit_bytes) and not _freed(interval)


@rule("MEM-009", over=untouched, handles=UNCHANGED)
def full_caches_take_nothing(facts: Facts, interval: Interval) -> Findings:
    """A persistent message that is accepted while caching is off adds no memory."""
    if not interval.is_plain() or not interval.arrivals() or not interval.is_full(facts.declared.memory_limit_bytes):
        return
    if _freed(interval):
        return  # and a message may have taken that room
    if interval.used > interval.was:
        yield broken("added", interval.before, interval.after, why=f"nobody consumed: {interval.why()}")
    else:
        yield held("nothing-added", "the mark had been reached")


@rule("MEM-016", over=untouched, handles=UNCHANGED)
def sweeps_load_a_page(facts: Facts, interval: Interval) -> Findings:
    """The expiry sweep loads at most a page, and nothing while there is no space."""
    if not interval.is_plain() or interval.arrivals():
        return
    before, after = interval.before, interval.after
    full = _stays_full(facts, interval)
    most = 0 if full else interval.swept()
    if interval.used - interval.was > most * after.epoch.largest:
        why = f"nobody consumed, nothing arrived, and sweeps may load {most} messages: {interval.why()}"
        yield broken("without-space" if full else "more-than-a-page", before, after, why=why)
        return
    stored = (after.event.size or 0) * OVERHEAD_MIN_BYTES > interval.was
    if stored and interval.sweeps(before.event.t1, after.event.t0) > 1:
        yield held("a-page-at-most", "memory was above the mark" if full else "messages were in the store only")


@rule("MEM-024", over=untouched, handles=KINDS)
def nothing_is_loaded_without_demand(facts: Facts, interval: Interval) -> Findings:
    """Without a consumer nothing is loaded from the store."""
    before, after = interval.before, interval.after
    still = before.event.enqueued == after.event.enqueued is not None and before.event.scheduled == 0
    if not still or after.event.scheduled is None or after.uncommitted or after.unsure:
        return
    started_ns = max([one.t0 for one in facts.restarts if one.t0 <= before.event.t0], default=0)
    idle = _stays_full(facts, interval) or interval.sweeps(started_ns, after.event.t1) <= 1  # the first comes later
    swept = 0 if idle else interval.swept() * after.epoch.largest  # MEM-016
    if interval.used > interval.was + swept:
        yield broken("loaded", before, after, why=f"nobody consumed and nothing arrived: {interval.why()}")
    elif before.charged > interval.was and after.event.size:
        yield held("left", "some messages were in the store only")


# -- the first consumer


def wakings(facts: Facts) -> list[tuple[Interval, Session]]:
    """Intervals in which somebody came to a queue of which all was in the store only, the first one, and settled
    nothing.
    """
    found: list[tuple[Interval, Session]] = []
    for interval in intervals(facts, 1):
        before, after = interval.before, interval.after
        if before.epoch.touched or interval.arrivals() or not interval.is_plain():
            continue
        if interval.was or not interval.used or (before.event.size or 0) <= interval.dest.applied.page:
            continue
        came = [s for s in interval.dest.sessions if s.event and before.event.seq < s.event.seq < after.event.seq]
        if len(came) == 1 and came[0].known and came[0].ack != "auto" and not _has_acted(came[0], after.event.seq):
            found.append((interval, came[0]))
    return found


def _has_acted(session: Session, seq: int) -> bool:
    """Whether a consumer had made room in its window, or had left."""
    if session.leave is not None and session.leave.seq < seq:
        return True
    for delivery in session.deliveries:
        consumed = delivery.consumed if session.traits.widens_window else None
        if any(event is not None and event.seq < seq for event in (consumed, *delivery.settlements)):
            return True
    return False


@rule("MEM-023", over=wakings)
def a_page_at_a_time(facts: Facts, waking: tuple[Interval, Session]) -> Findings:
    """One wake-up loads at most one page from the store."""
    interval, session = waking
    page, before, after = interval.dest.applied.page, interval.before.event, interval.after.event
    # What expires as it is about to be given makes room, which is a wake-up more.
    wakeups = 1 + max(0, (after.expired or 0) - (before.expired or 0))
    most = wakeups * page + (after.in_flight or 0) + interval.swept()
    moved = facts.gets_moved(interval.dest)  # from a queue whose messages may be larger
    largest = facts.epoch.largest if moved else interval.after.epoch.largest
    if interval.used > most * largest:
        why = f"{interval.used} bytes came into memory, more than {most} messages can cost"
        yield broken("more-than-a-page", interval.before, session, interval.after, why=why)
    else:
        paged = interval.used <= page * largest
        yield held("one-page" if paged else "a-window", "there was more than a page")


# -- the mark


def backlogs(facts: Facts) -> list[Reading]:
    """Readings at rest of queues that keep all they ever got, plain messages that nobody has consumed, as long as none
    was seen to be loaded from the store; of a broker with ActiveMQ's memory, also of topics that have nothing but a
    durable subscription whose consumer had been away ever since somebody published there.
    """
    found = _of_absent_durables(facts) if facts.paged else []
    for dest in facts.destinations.values():
        sent, was = -1, 0
        for reading in dest.readings if dest.applied.found and not dest.topic else ():
            epoch, used = reading.epoch, reading.event.memory_bytes
            if used is None or epoch.touched or epoch.mixed or epoch.unclear or reading.timed:
                continue
            if epoch.sent == sent and used > was:
                break
            sent, was = epoch.sent, used
            if reading.at_rest and reading.event.size == reading.kept > 0:
                found.append(reading)
    return found


def _of_absent_durables(facts: Facts) -> list[Reading]:
    found: list[Reading] = []
    for dest in facts.destinations.values():
        only = dest.subscriptions[0] if len(dest.subscriptions) == 1 else None
        if only is None or only.doubtful or not only.durable or dest.kind != "topic" or not dest.sends:
            continue
        session, first, begin = only.sessions[0], dest.sends[0].event, only.begin
        came = only.sessions[1].opened[0] if len(only.sessions) > 1 else only.sure_ns
        plain = begin is not None and not (session.wild or begin.selector or begin.no_local)
        away = plain and session.known and gone_ns(facts, session) < first.t0
        found += [one for one in dest.readings if away and one.at_rest and one.event.t1 < came]
    return [one for one in found if not one.epoch.mixed and not one.timed]


def _is_past(facts: Facts, reading: Reading) -> Findings:
    """What a durable subscription keeps is charged to its topic as long as the whole broker is below the mark."""
    dest, used = reading.destination, reading.event.memory_bytes or 0
    limit = facts.declared.memory_limit_bytes
    mark = (dest.applied.entry.high_water_percent or MARK_PERCENT) * limit
    kept = [send.event.size + OVERHEAD_MIN_BYTES for send in dest.sends if send.accepted[1] <= reading.event.t0]
    largest = 100 * reading.epoch.largest
    why = f"{len(kept)} messages wait for a durable subscription and use {used} bytes; the mark is {mark // 100} bytes"
    if 0 < mark < 100 * used - largest:
        yield broken("past-the-mark", reading, why=why)
    elif used < sum(kept) and reading.sent_bytes * 100 < mark - largest:
        yield broken("too-early", reading, why=why)
    elif 0 < mark <= 100 * used + largest:
        yield held("at-the-mark", "more had come than the mark admits")


@rule("MEM-019", over=backlogs, handles=UNCHANGED)
def caching_stops_at_the_mark(facts: Facts, reading: Reading) -> Findings:
    """Caching stops at the high-water mark and returns when the cursor has been emptied."""
    dest, used = reading.dest, reading.event.memory_bytes or 0
    broker_limit = facts.declared.memory_limit_bytes
    if dest is None or not dest.sends or may_die(facts, dest.sends[0]):
        return
    if dest.topic:
        yield from _is_past(facts, reading)
        return
    limit = dest.applied.memory_limit_bytes or broker_limit
    if limit <= 0 or 0 < broker_limit < limit:
        return
    mark = (dest.applied.entry.high_water_percent or MARK_PERCENT) * limit
    largest = 100 * reading.epoch.largest
    others = reading.sent_bytes - reading.sent_here_bytes
    why = f"{reading.kept} messages use {used * 100 // limit} % of {limit} bytes; the mark is {mark // limit} %"
    if used * 100 > mark + largest:
        if facts.paged and not facts.simulated and dest.applied.expire_period_ms > 0:
            yield unsure(reading, why=f"{why}; a sweep that looks for expired messages may have read them")
        else:
            yield broken("past-the-mark", reading, why=why)
    elif reading.charged * 100 >= mark + 2 * largest and 100 * limit - mark >= largest:
        if used * 100 >= mark - 2 * largest:
            yield held("at-the-mark", "more had come than the mark admits")
        elif (used + others) * 100 < mark - 2 * largest and not ((others and facts.subscriptions) or asking(facts)):
            yield broken("too-early", reading, why=why)


# -- after a restart


def after_restarts(facts: Facts) -> list[Reading | Send]:
    """What was read after a restart before anybody did anything there; messages that a restart must have destroyed."""
    if not facts.restarts:
        return []
    found: list[Reading | Send] = []
    delayed = {name: _first_delayed(dest) for name, dest in facts.destinations.items()}
    any_delayed = min(delayed.values(), default=0)
    for reading in facts.readings:
        dest, event = reading.dest, reading.event
        quiet = reading.restarts and not reading.epoch.sent and not reading.epoch.touched
        if not quiet or not reading.at_rest or event.memory_bytes is None:
            continue
        fed = dest is not None and (dest.kind == "dead-letters" or dest.epoch.fed)
        if not fed and event.seq < (any_delayed if dest is None else delayed[dest.name]):
            found.append(reading)
    return [*found, *(send for send in facts.sends.values() if _is_volatile(send))]


def _first_delayed(dest: Destination) -> int:
    """The event with which a delayed message was sent there, which may become visible at once; ``NEVER``: none was.
    What was rejected and is tried again may do so at any time.
    """
    if dest.applied.entry.redelivery is not None and any(copy.rejected for copy in dest.copies):
        return 0
    delayed = (s.event.seq for s in dest.sends if s.event.delay_ms > 0 or s.event.deliver_at_ms is not None)
    return next(delayed, NEVER)


def _is_volatile(send: Send) -> bool:
    """Confirmed, in memory only, sent once, and due at once: a scheduler may keep what is due later."""
    event = send.event
    return (
        send.confirmed and not (event.persistent or event.again) and event.delay_ms <= 0 and event.deliver_at_ms is None
    )


@rule("MEM-015", over=after_restarts, handles=KINDS, faults=("restart",), absence=True)
def restarts_leave_memory_empty(facts: Facts, row: Reading | Send) -> Findings:
    """After a restart usage is 0, persistent messages are there, non-persistent ones are gone."""
    if isinstance(row, Send):
        yield from _gone(facts, row)
        return
    event, restart = row.event, facts.restarts[row.restarts - 1]
    entries = facts.declared.policies
    periods = [row.dest.applied.expire_period_ms] if row.dest is not None else [one.expire_period_ms for one in entries]
    period_ms = min((period for period in periods if period > 0), default=0)
    if period_ms and event.t1 - restart.t0 >= period_ms * NS_PER_MS:
        return
    if event.memory_bytes:
        yield broken("in-use", restart, row, why=f"{event.memory_bytes} bytes are in use, and nobody has done anything")
    elif event.size:
        yield held("fresh", "messages were in the store")


def _gone(facts: Facts, send: Send) -> Findings:
    """A message that is not persistent, and the first restart after it."""
    restart = next((event for event in facts.restarts if event.t0 >= send.accepted[1]), None)
    if restart is None:
        return
    for copy in send.copies.values():
        for delivery in copy.deliveries:
            came = delivery.session.event
            if came is not None and came.seq > restart.seq and not delivery.event.original_dest:
                yield broken("came-back", send, restart, delivery)
                return
    yield held("fresh", "a message that is not persistent was lost")
