"""What memory counters say (MEM-002 to MEM-004, MEM-006 to MEM-008, MEM-010, MEM-011, MEM-013, MEM-014, MEM-017,
MEM-032, MEM-033).

A message in memory is charged to its destination and to the broker: its content, and ``OVERHEAD_MIN_BYTES`` to
``OVERHEAD_MAX_BYTES`` beyond. What is in the store only costs nothing.
"""

from __future__ import annotations

from brokerproof.conformance.experiment.history import Operate
from brokerproof.conformance.experiment.policies import entry_for, matches
from brokerproof.conformance.facts.epochs import OVERHEAD_MAX_BYTES, OVERHEAD_MIN_BYTES
from brokerproof.conformance.facts.facts import Facts
from brokerproof.conformance.facts.marks import KINDS, but
from brokerproof.conformance.facts.policy import MARK_PERCENT
from brokerproof.conformance.facts.presence import gone_ns
from brokerproof.conformance.facts.pressure import governing_limit, limit_at, own_limit_at, own_limits, pressed
from brokerproof.conformance.facts.rows import Destination, Reading, Send
from brokerproof.conformance.facts.tally import has_timed
from brokerproof.conformance.rules.rule import Finding, Findings, broken, held, rule
from brokerproof.conformance.rules.selecting import broker_readings

#: A limit that was lowered may be exceeded by what was there before.
UNCHANGED = but("limit")
#: A body names its message: one that was to be shorter than that is as long as the name.
NAMED_BYTES = 64
#: Of what applications alone read, what is no property.
FIELDS = ("correlation-id", "type", "reply-to")


def readings(facts: Facts) -> list[Reading]:
    """All readings of memory, of destinations and of the broker."""
    return [r for r in facts.readings if r.event.memory_bytes is not None or r.event.memory_percent is not None]


def _bounded(facts: Facts, reading: Reading, limit: int) -> Findings:
    event = reading.event
    used = event.memory_bytes
    if used is None:
        if event.memory_percent is None:
            return
        used = limit * event.memory_percent // 100
    largest = facts.epoch.largest if reading.dest is None else reading.dest.epoch.largest
    excess = used - limit - largest
    if excess > 0 and excess > _uncontrolled(facts, reading) + _came_due(facts, reading):
        yield broken("over", reading, why=f"{used} bytes of memory are in use; the limit is {limit} bytes")
    elif used > limit:
        yield held("one-message-over", "the limit was exceeded by one message")
    elif used * 10 > limit * 9:
        yield held("within", "more than nine tenths were used")
    elif used * 2 > limit:
        yield held("within", "more than half was used")


def _uncontrolled(facts: Facts, reading: Reading) -> int:
    """Bytes of open transactions, which are in memory until they end, where no producer is kept waiting for room."""
    dests = facts.destinations.values() if reading.dest is None else [reading.dest]
    if all(dest.applied.entry.producer_flow_control for dest in dests):
        return 0
    return reading.uncommitted_bytes + reading.uncommitted * OVERHEAD_MAX_BYTES


def _came_due(facts: Facts, reading: Reading) -> int:
    """Bytes of what was accepted with a delay, by a broker that need not charge it before it is due: then there is
    nobody left whom it might keep waiting, or refuse.
    """
    if not facts.declared.delay_support or "exact-charges" in facts.header.capabilities:
        return 0
    sends = facts.sends.values() if reading.dest is None else reading.dest.sends
    late = [send for send in sends if send.delayed and send.event.t0 <= reading.event.t1]
    return sum(send.event.size + OVERHEAD_MAX_BYTES for send in late)


@rule("MEM-002", over=broker_readings, handles=UNCHANGED)
def broker_within_limit(facts: Facts, reading: Reading) -> Findings:
    """The memory in use never exceeds the broker's limit."""
    if facts.declared.memory_limit_bytes > 0:
        yield from _bounded(facts, reading, facts.declared.memory_limit_bytes)


def limited_readings(facts: Facts) -> list[Reading]:
    """Readings of destinations that have a limit of their own, or had."""
    limited = {dest.name for dest in facts.destinations.values() if dest.applied.memory_limit_bytes > 0}
    limited.update(one.dest for one in facts.limits if one.dest)
    return [r for r in facts.readings if r.dest is not None and r.dest.name in limited] if limited else []


@rule("MEM-004", over=limited_readings, handles=KINDS)
def destination_within_limit(facts: Facts, reading: Reading) -> Findings:
    """A destination's own limit bounds its memory."""
    limit = _bound(facts, reading)
    if limit > 0:
        yield from _bounded(facts, reading, limit)


def _bound(facts: Facts, reading: Reading) -> int:
    """The own limit that bounds what was read, or 0. One that an operator lowered may be exceeded by what was there
    before.
    """
    limit, event, dest = own_limit_at(facts, reading), reading.event, reading.destination
    told = [one for one in own_limits(facts, dest) if one.t0 <= event.t1]
    if told and limit > 0 and any(send.event.t0 <= told[-1].t1 for send in facts.sends.values()):
        before = [dest.applied.memory_limit_bytes, *(one.limit_bytes or 0 for one in told)]
        return max(before) if all(before) else 0
    return limit


def drained_readings(facts: Facts) -> list[Reading]:
    """Readings at rest which say that nothing is left where something had been, of queues and of the broker."""
    return [
        r for r in facts.rows(readings) if r.at_rest and not r.uncommitted and not r.unsure and _is_drained(facts, r)
    ]


def _is_drained(facts: Facts, reading: Reading) -> bool:
    dest, event = reading.dest, reading.event
    if dest is None:
        return reading.empty and not event.in_flight and facts.sent_bytes > 0  # a topic's consumer may hold something
    # What waits to be due may stand in memory, and where nobody tells how much does, it may be there.
    later = has_timed(reading) if event.scheduled is None else event.scheduled > 0
    empty = event.size == 0 and event.in_flight == 0 and not later and reading.sent_here_bytes > 0
    return empty and (not dest.topic or _owes_nothing(dest, reading))


def _owes_nothing(dest: Destination, reading: Reading) -> bool:
    """Whether nobody has anything of a topic, or waits for it: no durable subscription, and every window is open."""
    windows = (*reading.windows, *reading.wild)
    idle = all(one.session.known and one.room() and not one.held + one.doubted for one in windows)
    away = any(one.durable() for one in dest.sessions)  # those of a pattern, too
    return dest.kind == "topic" and idle and not away


@rule("MEM-003", over=drained_readings, handles=KINDS)
def memory_is_released(_facts: Facts, reading: Reading) -> Findings:
    """When everything is drained, the memory in use is back at 0."""
    if reading.event.memory_bytes or reading.event.memory_percent:
        yield broken("leaked", reading, why="nothing is left, and memory is in use")
    else:
        yield held("released", "after the drain" if reading.drain else "between two bursts")


# -- sums and shares


def settles(facts: Facts) -> list[tuple[Reading | None, Reading]]:
    """The broker's own counters at rest, each with the ones before."""
    found = [r for r in facts.broker_readings if r.at_rest and r.event.memory_bytes is not None]
    if facts.declared.limits_disk and any(one.event.result == "unknown" for one in facts.sends.values()):
        return []  # what waits for the disk may be charged to the broker before its destination has it
    return list(zip([None, *found], found, strict=False))


def _parts(reading: Reading) -> tuple[list[int], bool, bool]:
    """What the destinations use, at the broker's own figure; whether these are all; whether they disagree. More on
    destinations is wrong even if some were not read.
    """
    used = {one.event.dest: one.event.memory_bytes for one in reading.parts if one.event.memory_bytes is not None}
    complete, total = len(used) + reading.idle == reading.event.destinations, sum(used.values())
    broker = reading.event.memory_bytes or 0
    return list(used.values()), complete, total > broker or (complete and total != broker)


@rule("MEM-006", over=settles)
def broker_is_the_sum(facts: Facts, settle: tuple[Reading | None, Reading]) -> Findings:
    """When nothing moves, the broker's usage equals the sum of its destinations' usage."""
    before, reading = settle
    used, complete, wrong = _parts(reading)
    if wrong:
        again = before is not None and before.event.memory_bytes == reading.event.memory_bytes
        if facts.simulated or (again and before is not None and sum(_parts(before)[0]) == sum(used)):
            why = f"destinations use {sum(used)} bytes together, the broker {reading.event.memory_bytes}"
            yield broken("different", reading, why=why)
    elif complete and reading.event.memory_bytes:
        yield held("equal", "several destinations used memory" if sum(map(bool, used)) > 1 else "")


def shares(facts: Facts) -> list[Reading]:
    """Readings at rest of both bytes and percentages."""
    return [r for r in facts.rows(readings) if r.at_rest and None not in {r.event.memory_bytes, r.event.memory_percent}]


@rule("MEM-007", over=shares, handles=KINDS)
def percentages_are_floors(facts: Facts, reading: Reading) -> Findings:
    """The displayed percentage is the floor of 100 times usage divided by limit."""
    event = reading.event
    limit = event.memory_limit_bytes if event.memory_limit_bytes is not None else governing_limit(facts, reading)
    used = event.memory_bytes or 0
    floor = 100 * used // limit if limit > 0 else 0
    if limit >= 0 and event.memory_percent != floor:
        yield broken("other", reading, why=f"the floor of its share of {limit} bytes is {floor} %")
    elif floor and 100 * used % limit:
        yield held("floor", "between two percentages")


@rule("MEM-011", over=readings, handles=KINDS)
def never_negative(_facts: Facts, reading: Reading) -> Findings:
    """Usage is never negative."""
    event = reading.event
    if (event.memory_bytes or 0) < 0 or (event.memory_percent or 0) < 0:
        yield broken("negative", reading)
    elif event.dequeued or event.size:
        yield held("not-negative", "" if event.size else "nothing was left")


# -- limits that are shown


def shown_limits(facts: Facts) -> list[Reading]:
    """Readings of destinations that show a limit."""
    return [r for r in facts.readings if r.dest is not None and r.event.memory_limit_bytes is not None]


def following(facts: Facts) -> list[Reading]:
    """The same once an operator has changed a limit: of those without one of their own, and of those that were given
    one.
    """
    if not facts.limits:
        return []
    seq, given = facts.limits[0].seq, {one.dest for one in facts.limits}
    later = [r for r in facts.rows(shown_limits) if r.event.seq > seq]
    return [r for r in later if r.destination.name in given or not r.destination.applied.memory_limit_bytes]


@rule("MEM-013", over=following, handles=KINDS)
def inherited_limits_follow(facts: Facts, reading: Reading) -> Findings:
    """A queue without a limit of its own follows the broker's limit, also when that changes; one that an operator gives
    it is its own.
    """
    limit, given = governing_limit(facts, reading), bool(own_limits(facts, reading.destination))
    if limit < 0:
        return
    if reading.event.memory_limit_bytes == limit:
        yield held("followed", "" if given else "the broker's limit had been changed")
    else:
        whose = "that which it was given" if given else "the broker's"
        shown = reading.event.memory_limit_bytes
        yield broken("left-behind", reading, why=f"it shows a limit of {shown} bytes, {whose} is {limit}")


def lowered(facts: Facts) -> list[Reading]:
    """Readings at rest of queues that follow the broker's limit, or one that they were given, once such a one was
    changed, of which nobody has anything, and whose messages all may go to the store.
    """
    if facts.paged:
        return []  # a cursor's page stays until it is consumed
    found = [one for one in facts.rows(following) if one.at_rest and one.destination.kind == "queue"]
    kept = {one.destination for one in found if not all(send.event.persistent for send in one.destination.sends)}
    found = [one for one in found if one.destination not in kept and not _is_taken(one)]
    return [one for one in found if one.event.dispatched == 0 or not _was_taken(facts, one)]


def _is_taken(reading: Reading) -> bool:
    """Whether a consumer, a browser, a transaction or a timer may keep some of what is there in memory."""
    event, windows = reading.event, (*reading.windows, *reading.wild)
    pending = reading.uncommitted or reading.unsure or has_timed(reading) or event.scheduled or event.in_flight
    held_there = any(one.held or one.doubted or not one.session.known for one in windows)
    return bool(pending or held_there or reading.ledger.browsed or reading.destination.grouped)


def _changes(facts: Facts, reading: Reading) -> list[Operate]:
    """What operators had made of the limits that govern it."""
    places = {"", reading.destination.name}
    return [one for one in facts.limits if one.dest in places and one.t0 <= reading.event.t1]


def _was_taken(facts: Facts, reading: Reading) -> bool:
    """Whether a consumer may have had some of what is there when a limit was changed: that stays when it comes back."""
    sessions = reading.destination.sessions
    return any(
        session.opened[0] <= change.t1 and gone_ns(facts, session) >= change.t0
        for change in _changes(facts, reading)
        for session in sessions
    )


@rule("MEM-032", over=lowered, handles=KINDS)
def memory_gives_way(facts: Facts, reading: Reading) -> Findings:
    """When a limit is lowered, messages that wait leave memory until the rest is within the limit."""
    limit, used, dest = governing_limit(facts, reading), reading.event.memory_bytes, reading.destination
    if limit <= 0 or used is None:
        return
    since_ns = max((one.t0 for one in _changes(facts, reading)), default=0)
    newer = any(send.event.t1 > since_ns or send.accepted[1] > since_ns for send in dest.sends)
    if used > limit + (dest.epoch.largest if newer else 0):
        yield broken("kept", reading, why=f"{used} bytes of memory are in use; the limit was lowered to {limit} bytes")
    elif used and not newer and reading.sent_here_bytes > limit:
        yield held("gave-way", "messages were waiting")


def disputed(facts: Facts) -> list[Reading]:
    """Readings that show a limit, of destinations for which policy entries with different limits compete."""
    entries = facts.declared.policies
    if len({one.memory_limit_bytes for one in entries}) < 2:
        return []
    several = {
        dest.name
        for dest in facts.destinations.values()
        if len({one.memory_limit_bytes or 0 for one in entries if matches(one.match, dest.name, topic=dest.topic)}) > 1
    }
    return [r for r in facts.rows(shown_limits) if r.dest is not None and r.dest.name in several] if several else []


@rule("MEM-017", over=disputed, handles=KINDS)
def most_specific_entry_decides(facts: Facts, reading: Reading) -> Findings:
    """The most specific policy entry decides a destination's limit."""
    dest = reading.dest
    entry = entry_for(facts.declared, dest.name, topic=dest.topic) if dest is not None else None
    wanted = 0 if entry is None else entry.memory_limit_bytes or limit_at(facts, reading)
    if dest is None or entry is None or wanted < 0 or own_limits(facts, dest):
        return
    if reading.event.memory_limit_bytes == wanted:
        exact = entry.match.rpartition("/")[2] == dest.name
        yield held("most-specific", "an exact name beside a wildcard" if exact else "two wildcards")
    else:
        why = f"it shows a limit of {reading.event.memory_limit_bytes} bytes; {entry.match!r} gives it {wanted}"
        yield broken("other-entry", reading, why=why)


# -- charges


def _charged(facts: Facts, reading: Reading, situation: str) -> Findings:
    """Whether the memory in use fits what the queue is known to have there; where memory may have been scarce, what
    nobody holds may be in the store, and one message of each consumer beyond the limit.
    """
    used, count = reading.event.memory_bytes or 0, reading.kept + reading.uncommitted
    bodies, windows = _bodies(reading), [one for one in reading.windows if one.session.known]
    least, most = max(bodies, OVERHEAD_MIN_BYTES * count), bodies + OVERHEAD_MAX_BYTES * count
    scarce = pressed(facts, reading.destination, reading)
    if scarce:
        least = OVERHEAD_MIN_BYTES * (sum(window.held for window in windows) - len(windows))
    if not least <= used <= most:
        yield _uncharged(reading, used, least, most)
    elif not scarce:
        yield held("charged", situation)


def _uncharged(reading: Reading, used: int, least: int, most: int) -> Finding:
    count, bodies = reading.kept + reading.uncommitted, _bodies(reading)
    why = f"{used} bytes are in use by {count} messages with bodies of {bodies}; {least} to {most} were expected"
    return broken("too-little" if used < least else "too-much", reading, why=why)


def _bodies(reading: Reading) -> int:
    return reading.charged - OVERHEAD_MIN_BYTES * reading.kept + reading.uncommitted_bytes


def charges(facts: Facts) -> list[Reading]:
    """Readings at rest of queues that say themselves that they hold as many messages as they are known to keep."""
    # It may have been written one that nobody saw, in whose place one of unknown result may stand.
    unseen = {d.name for d in facts.destinations.values() if any(s.auto and (s.end or not s.known) for s in d.sessions)}
    found: list[Reading] = []
    for reading in facts.queue_readings:
        event, dest = reading.event, reading.dest
        if dest is None or not reading.at_rest or event.memory_bytes is None or event.size != reading.kept:
            continue
        doubtful = has_timed(reading) or reading.unsure or reading.epoch.unclear or dest.name in unseen
        if not doubtful:
            found.append(reading)
    return found


def _transacted(reading: Reading) -> bool:
    return reading.uncommitted > 0 or reading.epoch.undone


@rule("MEM-008", over=charges, handles=KINDS)
def content_is_charged(facts: Facts, reading: Reading) -> Findings:
    """A message is charged its content and properties, at least the minimum size."""
    if reading.kept and not _transacted(reading) and not reading.epoch.touched:
        large = 2 * _bodies(reading) > OVERHEAD_MIN_BYTES * reading.kept
        yield from _charged(facts, reading, "bodies are larger than the minimum" if large else "")


@rule("MEM-010", over=charges, handles=KINDS)
def dispatch_releases_nothing(facts: Facts, reading: Reading) -> Findings:
    """Dispatch does not release memory; an acknowledgement releases exactly what the message was charged."""
    if reading.kept and not _transacted(reading) and reading.epoch.touched:
        for finding in _charged(facts, reading, "in flight" if reading.event.in_flight else "after acknowledgements"):
            if not finding.holds or reading.event.in_flight or reading.event.dequeued:
                yield finding


@rule("MEM-014", over=charges, handles=KINDS)
def open_transactions_are_charged(facts: Facts, reading: Reading) -> Findings:
    """Messages of open transactions are charged until they are committed or rolled back."""
    if not _transacted(reading):
        return
    most = _bodies(reading) + OVERHEAD_MAX_BYTES * (reading.kept + reading.uncommitted)
    limits = (facts.declared.memory_limit_bytes, reading.dest.applied.memory_limit_bytes if reading.dest else 0)
    if all(limit <= 0 or 100 * most < MARK_PERCENT * limit for limit in limits):  # beyond, they may be in the store
        yield from _charged(facts, reading, "a transaction was open" if reading.uncommitted else "after a rollback")


def extras(facts: Facts) -> list[tuple[Destination, int]]:
    """Queues of which it is known what their messages cost beside their bodies and 1024 bytes, each as much; not where
    a timer or a rejection may have left something on one, or an operator brought some from elsewhere.
    """
    if facts.paged:
        return []
    brought = {one.to for dest in facts.destinations.values() for one in dest.purges if one.op == "move"}
    known: dict[str, set[int | None]] = {}
    for copy in facts.copies:
        named = None if copy.rejected else _named_bytes(copy.send)
        known.setdefault(copy.dest.name, set()).add(named)
    found: list[tuple[Destination, int]] = []
    for dest in facts.destinations.values():
        costs = known.get(dest.name, {0})
        cost = next(iter(costs)) if len(costs) == 1 else None
        if dest.kind == "queue" and dest.name not in brought and cost is not None:
            found.append((dest, cost))
    return found


def _named_bytes(send: Send) -> int | None:
    """What the names and values of a message's properties cost; None: nobody knows. Over STOMP all are texts; in other
    protocols it depends on how they travel.
    """
    event = send.event
    if event.size < NAMED_BYTES or event.group or event.facade or event.delay_ms or event.deliver_at_ms:
        return None
    if event.life_ms or event.forged or event.network:
        return None
    texts = {name: value for name, value in event.headers.items() if name not in FIELDS}
    texts |= {"kind": event.message_kind} if event.message_kind else {}
    if texts and (send.client.via == "jms" or not all(isinstance(value, str) for value in texts.values())):
        return None
    return sum(len(name) + len(str(value)) for name, value in texts.items())


@rule("MEM-033", over=charges, handles=KINDS)
def charge_is_exact(facts: Facts, reading: Reading) -> Findings:
    """While memory is not short, a queue's message is charged its body, names and values of properties that are texts,
    and 1024 bytes.
    """
    dest, count = reading.destination, reading.kept + reading.uncommitted
    more = dict(facts.rows(extras)).get(dest)
    if more is None or pressed(facts, dest, reading):
        return
    used, exact = reading.event.memory_bytes or 0, _bodies(reading) + (OVERHEAD_MIN_BYTES + more) * count
    if used != exact:
        yield broken("other", reading, why=f"{used} bytes are in use by {count} messages that cost {exact}")
    elif count:
        yield held("exact", "in flight" if reading.event.in_flight else "waiting")
