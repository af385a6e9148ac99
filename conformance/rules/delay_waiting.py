"""Delivery delay: what surrounds a message while it waits, and what it is like when it comes (DLY-010 to DLY-012,
DLY-015, DLY-017 to DLY-019, DLY-026, DLY-028, DLY-037).
"""

from __future__ import annotations

from bisect import bisect_right

from brokerproof.conformance.experiment.history import Browse, Discard, Poll
from brokerproof.conformance.facts import marks
from brokerproof.conformance.facts.absence import GONE, ended, would_be_dead_letter
from brokerproof.conformance.facts.dead_letters import names_another
from brokerproof.conformance.facts.deaths import letter_is_due
from brokerproof.conformance.facts.delays import Awaited
from brokerproof.conformance.facts.due import Due
from brokerproof.conformance.facts.expiration import dead, may_die
from brokerproof.conformance.facts.facts import Facts
from brokerproof.conformance.facts.marks import KINDS, but
from brokerproof.conformance.facts.presence import maybe_elsewhere
from brokerproof.conformance.facts.rows import Copy, Delivery, Destination, Reading, Send
from brokerproof.conformance.facts.spans import NEVER, NS_PER_MS, ms, t0_of
from brokerproof.conformance.rules.delay import FAULTS, delayed, in_time, not_early, queue_waits
from brokerproof.conformance.rules.rule import Findings, broken, held, rule

#: A difference between clocks that shows that a consumer's clock was another one.
SKEW_NS = 50 * NS_PER_MS


def _waited(facts: Facts, dest: Destination, t0: int, t1: int) -> Due | None:
    """A message that waited for its delivery time all the while."""
    due = facts.delays.backlog(dest).waiting(t0, t1)
    if due is None or facts.marks.on(dest.name, (due.send.event.t0, t1)) & marks.OPERATOR:
        return None
    return due


# -- onlookers


def browses(facts: Facts) -> list[Browse]:
    """What browsers of queues with delayed messages were shown."""
    return [event for event in facts.browses if facts.delays.backlog(facts.destination(event.dest)).waits]


@rule("DLY-010", over=browses, faults=FAULTS)
def not_shown_early(facts: Facts, browse: Browse) -> Findings:
    """Before its delivery time a browser does not show a message; afterwards it does."""
    for message in browse.messages:
        send = facts.sends.get(message)
        due = facts.delays.due(send) if send is not None and browse.dest in send.copies else None
        if send is None or due is None or not due.delayed:
            continue
        if browse.t1 < due.span[0]:
            early_ns = due.span[0] - browse.t1
            yield broken("shown-early", send, browse, why=f"shown {ms(early_ns)} early", slack_ns=-early_ns)
            return
        if browse.t0 > due.visible[1]:
            yield held("shown-when-due", "looked at after its delivery time")
    if browse.complete and _waited(facts, facts.destination(browse.dest), browse.t0, browse.t1) is not None:
        yield held("shown-when-due", "looked for before its delivery time")


Pull = tuple[Delivery, list[Poll]]


def pulls(facts: Facts) -> list[Poll | Pull]:
    """What consumers asked for one by one in vain, and the delayed messages that they got, with all that they asked."""
    rows: list[Poll | Pull] = []
    asked: dict[str, list[Poll]] = {}
    for poll in facts.polls:
        asked.setdefault(poll.consumer, []).append(poll)
    for name, polls in asked.items():
        session = facts.sessions.get(name)
        if session is None:
            continue
        rows += [poll for poll in polls if poll.message is None and poll.answered]
        for delivery in session.deliveries:
            due = facts.delays.due(delivery.send)
            if due is not None and due.delayed and delivery in delivery.copy.deliveries[:1]:
                rows.append((delivery, polls))
    return rows


@rule("DLY-011", over=pulls, handles=KINDS)
def pulled_in_vain(facts: Facts, row: Poll | Pull) -> Findings:
    """A synchronous poll before the delivery time returns nothing and takes no credit."""
    if isinstance(row, Poll):
        dest = facts.sessions[row.consumer].dest
        if _waited(facts, dest, row.t0, row.t1) is not None:
            yield held("nothing", "a delayed message waited")
        return
    delivery, polls = row
    arrival, due = delivery.event, facts.delays.due(delivery.send)
    if due is not None and arrival.t1 < due.span[0]:
        yield broken("early", delivery.send, delivery, why=f"{ms(due.span[0] - arrival.t1)} early")
    asked = polls[: bisect_right(polls, arrival.t1, key=t0_of)]
    if not any(arrival.t0 <= poll.t1 or not poll.answered for poll in reversed(asked)):
        yield broken("unasked", delivery, why="its consumer asked for nothing")


# -- order


def equals(facts: Facts) -> list[tuple[Delivery, Delivery]]:
    """First arrivals, at one consumer, of two messages that one producer sent to one queue with equal delays."""
    rows: list[tuple[Delivery, Delivery]] = []
    newest: dict[tuple[object, ...], Delivery] = {}
    for copy in facts.rows(queue_waits):
        send, event = copy.send, copy.send.event
        if not event.delay_ms or event.result != "ok" or event.tx is not None or event.group or not copy.deliveries:
            continue
        # A library need not wait until a non-persistent message is accepted, so a new connection may overtake it.
        connection = send.connection if not event.persistent and not send.client.traits.awaits_receipt else 0
        key = (copy.holder, event.host, event.delay_ms, event.priority, event.persistent, connection)
        before, first = newest.get(key), copy.deliveries[0]
        newest[key] = first
        if before is not None and before.session is first.session and before.send.event.t1 <= event.t0:
            rows.append((before, first))
    return rows


@rule("DLY-012", over=equals, faults=FAULTS)
def equal_delays_keep_order(facts: Facts, row: tuple[Delivery, Delivery]) -> Findings:
    """Messages of one producer with equal delays arrive in the order of their sends."""
    earlier, later = row
    if earlier.event.seq < later.event.seq:
        yield held("in-order", "two messages of one producer with equal delays")
    elif not (earlier.marks | later.marks) & (marks.OPERATOR | marks.MQSC) and not maybe_elsewhere(facts, earlier):
        yield broken("out-of-order", earlier.send, later.send, later, earlier)


# -- what it is like


def arrivals(facts: Facts) -> list[Delivery]:
    """All arrivals of messages that were to wait."""
    return [delivery for send in facts.rows(delayed) for copy in send.copies.values() for delivery in copy.deliveries]


@rule("DLY-015", over=arrivals, handles=KINDS, faults=FAULTS)
def waiting_changes_nothing(facts: Facts, delivery: Delivery) -> Findings:
    """Waiting leaves timestamp, id, priority, properties and body unchanged."""
    sent, came = delivery.send.event, delivery.event
    if delivery.send.marks & marks.RESOLVED:
        return  # an operator may have moved it from a queue that it left its priority to
    stamped = facts.declared.timestamping is not None or not sent.timestamp_ms  # who sends none may be given one
    if not stamped and came.timestamp_ms != sent.timestamp_ms:
        why = f"its timestamp was {sent.timestamp_ms} and is {came.timestamp_ms}"
        yield broken("changed", delivery.send, delivery, why=why)
        return
    for name, was, is_now in (
        ("priority", sent.priority, came.priority),
        ("kind", sent.message_kind, came.message_kind),
        ("group", sent.group, came.group),
        ("body", sent.body, came.body),
    ):
        if is_now is not None and was is not None and is_now != was:
            yield broken("changed", delivery.send, delivery, why=f"its {name} was {was!r} and is {is_now!r}")
            return
    yield held("unchanged", "" if stamped else "its timestamp was compared")


def settled_arrivals(facts: Facts) -> list[Delivery]:
    """Arrivals of messages that had to wait and cannot die, of which the application or the library took notice."""
    return [d for d in facts.rows(arrivals) if (d.consumed or d.settlements) and not may_die(facts, d.send)]


@rule("DLY-028", over=settled_arrivals, handles=KINDS, faults=FAULTS)
def no_clock_drops_it(facts: Facts, delivery: Delivery) -> Findings:
    """The consumer's clock neither hides nor drops a due message."""
    discards = [event for event in delivery.settlements if isinstance(event, Discard)]
    if discards and not delivery.copy.called_expired:
        yield broken("dropped", delivery.send, discards[0], why=f"it was discarded: {discards[0].reason}")
    consumed = delivery.consumed
    if consumed is None:
        return
    theirs, brokers = facts.clock(consumed.host), facts.broker_clock
    situation = ""
    if theirs.known and brokers.known:
        mine = theirs.bounds_ns(consumed.t0, consumed.t1, consumed.seq, consumed.seq)
        other = brokers.bounds_ns(consumed.t0, consumed.t1, consumed.seq, consumed.seq)
        if mine[0] > other[1] + SKEW_NS:
            situation = "the consumer's clock was ahead of the broker's"
        elif mine[1] < other[0] - SKEW_NS:
            situation = "the consumer's clock was behind the broker's"
    yield held("not-dropped", situation)


# -- death


def mortals(facts: Facts) -> list[Copy]:
    """Confirmed copies on queues of messages that had to wait and were sent with an end."""
    return [copy for copy in facts.rows(queue_waits) if copy.send.confirmed and copy.send.mortal]


def _letters(copy: Copy) -> list[Delivery]:
    """Its dead letters but for those that may have come again: the last holder left it unused, a mark says so, or this
    broker marks none.
    """
    found: list[Delivery] = []
    for place, one in enumerate(copy.dead_letters):
        unused = place > 0 and copy.dead_letters[place - 1].state in GONE
        if not (unused or one.event.redelivered or (place > 0 and one.event.redelivered is None)):
            found.append(one)
    return found


@rule("DLY-017", over=mortals, handles=but("operator", "repeated"), faults=FAULTS, absence=True)
def one_death(facts: Facts, copy: Copy) -> Findings:
    """A message that expires while it waits has exactly one expiry outcome, which shows the original message."""
    due, death = facts.delays.due(copy.send), facts.death(copy.send)
    if due is None or death is None or death.dead_at_first or not would_be_dead_letter(facts, copy):
        return
    if not dead(facts, death, due.span[0], facts.end_ns):
        return
    letters = _letters(copy)
    # What came all the same is another requirement's affair: ActiveMQ gives it a new expiration when it is due.
    if not letters and (copy.deliveries or not letter_is_due(facts, copy)):
        return
    if not letters:
        yield broken("unseen", copy, why="it died while it waited, and is no dead letter")
    elif len(letters) > 1:
        if not facts.restarted(letters[0].event.t0, letters[1].event.t1):
            yield broken("several", copy, *letters[:2], why=f"it has {len(letters)} dead letters")
    elif letters[0].event.original_dest is None or names_another(letters[0]):
        yield broken("disguised", copy, letters[0], why=f"its dead letter does not name {copy.dest.name}")
    else:
        yield held("once", "it died while it waited")


# -- transactions


def awaited_in_transactions(facts: Facts) -> list[Awaited]:
    """Delayed messages of committed transactions for which somebody waited."""
    return [row for row in facts.delays.awaited() if row.due.delayed and row.due.send.transaction is not None]


@rule("DLY-018", over=awaited_in_transactions, faults=FAULTS)
def counts_from_the_send(_facts: Facts, row: Awaited) -> Findings:
    """In a transaction the delay counts from the send, not from the commit."""
    over = row.due.span[1] < row.due.send.accepted[0]
    situation = "the delay was over before the commit" if over else "committed early"
    return in_time(row, "from-the-send", situation, late="from-the-commit")


def in_transactions(facts: Facts) -> list[Send]:
    """Delayed messages that were sent in transactions."""
    return [send for send in facts.rows(delayed) if send.transaction is not None and send.event.result == "ok"]


@rule("DLY-019", over=in_transactions, handles=KINDS, faults=FAULTS)
def not_before_the_commit(facts: Facts, send: Send) -> Findings:
    """Nothing is visible before the commit, even when the delivery time has passed; a rollback removes it."""
    transaction, due, seen = send.transaction, facts.delays.due(send), send.seen
    if transaction is None or due is None:
        return
    if transaction.committed is False:
        if seen is not None:
            yield broken("in-spite-of-rollback", send, transaction, seen)
        elif ended(facts):
            yield held("as-committed", "rolled back")
    elif transaction.end is not None and seen is not None and seen.t1 < transaction.end.t0:
        why = f"{ms(transaction.end.t0 - seen.t1)} before its commit"
        yield broken("before-commit", send, seen, transaction, why=why)
    elif transaction.committed and transaction.end is not None and seen is not None:
        over = due.span[1] < transaction.end.t0
        yield held("as-committed", "the delay was over before the commit" if over else "committed")


# -- absolute times


def absolutes(facts: Facts) -> list[Delivery]:
    """First arrivals of messages with an absolute delivery time."""
    sends = [s for s in facts.rows(delayed) if s.event.deliver_at_ms is not None and not s.event.delay_ms]
    return [copy.deliveries[0] for send in sends for copy in send.copies.values() if copy.deliveries]


@rule("DLY-026", over=absolutes, handles=KINDS, faults=FAULTS)
def by_the_brokers_clock(facts: Facts, delivery: Delivery) -> Findings:
    """An absolute delivery time becomes a remaining delay by the declared clock, the client's or the broker's."""
    due = facts.delays.due(delivery.send)
    if due is None:
        return
    for finding in not_early(facts, due, delivery, "by-the-brokers-clock"):
        if finding.holds:
            finding.situation = "in the future" if due.span[1] > delivery.send.event.t1 else "in the past"
        yield finding


# -- counters


def scheduled(facts: Facts) -> list[Reading]:
    """Figures of waiting messages at rest."""
    found = [one for one in facts.readings if one.at_rest and one.dest is not None and one.event.scheduled is not None]
    return [reading for reading in found if not reading.destination.topic or reading.destination.kind == "topic"]


@rule("DLY-037", over=scheduled, handles=KINDS, faults=FAULTS, absence=True)
def counters_add_up(facts: Facts, reading: Reading) -> Findings:
    """Whether a waiting message counts in the depth of its queue is declared, and the figures always add up."""
    dest, count = reading.dest, reading.event.scheduled
    if dest is None or count is None or dest.virtual:
        return
    operations = [event for event in dest.purges if event.t0 <= reading.event.t1]
    low, high = facts.delays.scheduled(dest, reading.span, operations[-1].t1 if operations else -1)
    if dest.applied.entry.redelivery is not None or any(event.to == dest.name for event in operations):
        high = NEVER  # what the broker tries again waits, too, and what was brought here may
    low = 0 if dest.topic else low  # a topic keeps nothing for nobody
    if not low <= count <= high:
        yield broken("does-not-add-up", reading, why=f"{low} to {high} messages can have been waiting")
    elif 0 < high < NEVER:
        yield held("adds-up", "messages waited" if low else "")
