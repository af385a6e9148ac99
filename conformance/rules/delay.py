"""Delivery delay: never early, in time, not lost, not beyond its time to live (DLY-001 to DLY-009)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from brokerproof.conformance.facts.absence import missing, unexplained
from brokerproof.conformance.facts.clock import RATE_PPM
from brokerproof.conformance.facts.credit import arrived_ns
from brokerproof.conformance.facts.deaths import letter_is_due
from brokerproof.conformance.facts.delays import Awaited
from brokerproof.conformance.facts.due import Due
from brokerproof.conformance.facts.expiration import alive, dead, may_die
from brokerproof.conformance.facts.facts import Facts
from brokerproof.conformance.facts.managed import may_be_capped
from brokerproof.conformance.facts.marks import KINDS, MQSC, PAUSE
from brokerproof.conformance.facts.presence import departed_ns, first_from, kept_connection, roomy_ns
from brokerproof.conformance.facts.pressure import scarce_ns
from brokerproof.conformance.facts.publishing import taken
from brokerproof.conformance.facts.relief import fits, relieved_ns
from brokerproof.conformance.facts.rows import Copy, Delivery, Destination, Send, Session
from brokerproof.conformance.facts.selectors import surely_wants
from brokerproof.conformance.facts.spans import NEVER, NS_PER_MS, ms
from brokerproof.conformance.rules.rule import Findings, broken, held, rule, unsure

FAULTS: Final = ("clock", "stall")
FORWARD = "the broker's clock stepped forward while a message was waiting"
BACK = "the broker's clock stepped back while a message was waiting"
IDLE = "a consumer was idle at the due time"


def delayed(facts: Facts) -> list[Send]:
    """Messages that were to wait."""
    return facts.delayed


def first_arrivals(facts: Facts) -> list[Delivery]:
    """The first arrival of each copy of a message that had to wait, at a broker that knows delays."""
    dues = facts.delays.waits() if facts.declared.delay_support else []
    return [copy.deliveries[0] for due in dues for copy in due.send.copies.values() if copy.deliveries]


def queue_waits(facts: Facts) -> list[Copy]:
    """Copies on queues of messages that had to wait."""
    return [copy for due in facts.delays.waits() for copy in due.send.copies.values() if not copy.dest.topic]


# -- too early


@rule("DLY-001", over=first_arrivals, handles=KINDS, faults=FAULTS)
def never_early(facts: Facts, delivery: Delivery) -> Findings:
    """A message sent with delivery delay D reaches no consumer before D has elapsed since its producer began to send
    it, on true elapsed time.
    """
    due = facts.delays.due(delivery.send)
    if due is None:
        return
    for finding in not_early(facts, due, delivery, "on-or-after"):
        yield finding
        if finding.holds:
            steps = facts.clock_steps
            if any(due.send.event.t0 <= step.t1 <= due.span[1] and (step.jump_ms or 0) > 0 for step in steps):
                yield held("on-or-after", "a clock stepped forward while a message was waiting")
            idle = delivery.session.opened[1] <= due.span[0]
            situation = "a consumer was attached at the due time" if idle else "a consumer came after the due time"
            yield held("on-or-after", situation)


def not_early(facts: Facts, due: Due, delivery: Delivery, outcome: str) -> Findings:
    """Whether a message arrived after its delay."""
    send, arrival, low = due.send, delivery.event, due.span[0]
    if arrival.t1 < low and _is_unseen(facts, low - arrival.t1):
        yield unsure(send, delivery, why="it is less than a millisecond", width_ns=low - arrival.t1)
    elif arrival.t1 < low:
        yield broken("early", send, delivery, why=f"{ms(low - arrival.t1)} early", slack_ns=arrival.t1 - low)
    elif arrival.t0 < low:
        yield unsure(send, delivery, width_ns=low - arrival.t0)
    elif due.restarted and due.jump_ms and arrival.t0 < due.asked[0]:
        return  # nobody promises by which clock a delay goes on after that
    elif send.event.result == "ok" and due.span[1] - arrival.t0 > facts.declared.lateness_ms * NS_PER_MS:
        why = "the broker may have taken it over much later"
        yield unsure(send, delivery, why=why, width_ns=due.span[1] - arrival.t0)
    else:
        yield held(outcome, situation_of(facts, due), slack_ns=arrival.t0 - low)


def _is_unseen(facts: Facts, short_ns: int) -> bool:
    """Whether a real broker may not see that so much of a delay is left: its clock shows whole milliseconds."""
    return not facts.simulated and short_ns < NS_PER_MS


def situation_of(facts: Facts, due: Due) -> str:
    """What the broker's clock did meanwhile, or how its producer's stood to it."""
    if due.jump_ms:
        return FORWARD if due.jump_ms > 0 else BACK
    death = facts.death(due.send)
    return death.skew if death is not None else ""


@rule("DLY-003", over=first_arrivals, handles=KINDS, faults=FAULTS)
def not_before_the_brokers_clock(facts: Facts, delivery: Delivery) -> Findings:
    """A delayed message does not arrive before the broker's wall clock has advanced by the delay since acceptance."""
    due, clock = facts.delays.due(delivery.send), facts.broker_clock
    send, event, arrival = delivery.send, delivery.send.event, delivery.event
    if due is None or not clock.known:
        return
    taken_ns = min(arrival.t1, event.t1 if event.result == "ok" else NEVER)
    begin = clock.bounds_ns(event.t0, taken_ns, event.seq, event.seq if taken_ns == event.t1 else arrival.seq)
    end = clock.bounds_ns(arrival.t0, arrival.t1, arrival.seq, arrival.seq)
    least = most = (event.deliver_at_ms or 0) * NS_PER_MS
    if event.delay_ms:
        least, most = begin[0] + event.delay_ms * NS_PER_MS, begin[1] + event.delay_ms * NS_PER_MS
    slack = end[1] - least
    if slack >= 0:
        late = most - end[0] > facts.declared.lateness_ms * NS_PER_MS
        if late and event.result == "ok" and not due.jump_ms:
            yield unsure(send, delivery, why="the broker's clock may have been short of it", width_ns=most - end[0])
        else:
            yield held("on-or-after", situation_of(facts, due), slack_ns=slack)
    elif clock.jump_between(event.t0, arrival.t1) < 0:
        yield held("early-by-a-clock-that-went-back", BACK)
    elif -slack <= (arrival.t1 - event.t0) * RATE_PPM // 1_000_000 and arrival.t1 >= due.span[0]:
        yield held("early-by-a-slow-clock", "the broker's clock runs slow")
    elif _is_unseen(facts, -slack):
        yield unsure(send, delivery, why="by less than its clock shows", width_ns=-slack)
    else:
        why = f"the broker's clock had advanced by {ms(end[1] - begin[0])} at most"
        yield broken("early", send, delivery, why=why, slack_ns=slack)


# -- too late


def awaited(facts: Facts) -> list[Awaited]:
    """Delayed messages for which somebody waited, where the broker's clock did not jump."""
    return [row for row in facts.rows(_awaited) if row.due.delayed and not row.due.jump_ms]


def behind_longer(facts: Facts) -> list[Awaited]:
    """Messages that were sent after one that waits longer, and for which somebody waited."""
    return [row for row in facts.rows(_awaited) if row.longer is not None and not row.due.jump_ms]


def _awaited(facts: Facts) -> list[Awaited]:
    return facts.delays.awaited() if facts.declared.delay_support else []


def in_time(row: Awaited, outcome: str, situation: str = IDLE, *, late: str = "late") -> Findings:
    """Whether what somebody waited for arrived within the declared lateness."""
    send, until_ns = row.due.send, row.until_ns
    low, high = arrived_ns(send, row.dest, row.sessions)
    if high <= until_ns:
        yield held(outcome, situation, slack_ns=until_ns - high)
        return
    rows = [row.longer.send, send] if row.longer is not None else [send]
    copy = send.copies.get(row.dest.name)
    arrivals = copy.deliveries[:1] if copy is not None else []
    waited = f"{', '.join(session.name for session in row.sessions)} waited with an open window"
    if low > until_ns:
        when = f"{ms(low - row.due.visible[1])} after it was due" if low < NEVER else "never"
        slack = until_ns - low if low < NEVER else None
        yield broken(late, *rows, *arrivals, why=f"it arrived {when}, while {waited}", slack_ns=slack)
    else:
        yield unsure(*rows, *arrivals, why=waited, width_ns=high - until_ns)


@rule("DLY-002", over=awaited, faults=FAULTS)
def on_time(_facts: Facts, row: Awaited) -> Findings:
    """A delayed message arrives within the declared lateness after its due time while a consumer with an open window is
    waiting for it.
    """
    return in_time(row, "on-time")


@rule("DLY-004", over=behind_longer, faults=FAULTS)
def plain_is_not_held_up(_facts: Facts, row: Awaited) -> Findings:
    """A message without delay is not held behind one that is waiting for its delivery time."""
    if not row.due.delayed:
        yield from in_time(row, "not-held-up")


@rule("DLY-007", over=behind_longer, faults=FAULTS)
def shorter_is_not_held_up(_facts: Facts, row: Awaited) -> Findings:
    """A later send with an earlier due time is not blocked by one that has to wait longer."""
    if row.due.delayed:
        yield from in_time(row, "not-held-up")


@rule("DLY-009", over=behind_longer, faults=FAULTS)
def waiting_takes_no_slot(_facts: Facts, row: Awaited) -> Findings:
    """A message that waits for its delivery time takes no place in any consumer's prefetch window."""
    sent_ns, until_ns = row.due.send.event.t0, row.until_ns
    there = [s for s in row.dest.sessions if s.opened[0] <= until_ns and departed_ns(s) >= sent_ns]
    if row.ahead >= sum(session.prefetch for session in there):
        yield from in_time(row, "no-slot-taken")


def over_jumps(facts: Facts) -> list[Delivery | Awaited]:
    """The same rows as of DLY-001 and DLY-002, where the broker's clock jumped while the message waited."""
    rows: list[Delivery | Awaited] = [row for row in facts.rows(_awaited) if row.due.delayed and row.due.jump_ms]
    for delivery in facts.rows(first_arrivals) if facts.clock_steps else []:
        due = facts.delays.due(delivery.send)
        if due is not None and due.jump_ms:
            rows.append(delivery)
    return rows


@rule("DLY-008", over=over_jumps, handles=KINDS, faults=FAULTS)
def steps_change_nothing(facts: Facts, row: Delivery | Awaited) -> Findings:
    """A step of the broker's wall clock while a message waits neither releases it early nor strands it."""
    if isinstance(row, Awaited):
        yield from in_time(row, "undisturbed", FORWARD if row.due.jump_ms > 0 else BACK)
        return
    due = facts.delays.due(row.send)
    if due is not None:
        yield from not_early(facts, due, row, "undisturbed")


# -- never


def due_to(facts: Facts, session: Session) -> Iterator[tuple[Send, int]]:
    """What was published with a delay and is a subscriber's who was there all the time, each with an instant by which
    it had come: nothing moved, there was room, and memory had not been scarce, or was free again for long enough.
    """
    dest, late_ns = session.dest, facts.declared.lateness_ms * NS_PER_MS
    waits, rests = facts.delays.backlog(dest).waits, roomy_ns(facts, session)
    if not waits or dest.applied.entry.pending_message_limit is not None:
        return
    until_ns = scarce_ns(facts, dest)
    free = relieved_ns(facts, session, late_ns) if until_ns < NEVER else []
    for due in waits:
        send, rest_ns = due.send, first_from(rests, due.visible[1] + late_ns)
        if until_ns <= rest_ns:
            rest_ns = first_from(free, due.visible[1] + late_ns) if fits(dest, send) else NEVER
        asked_ns = send.accepted[0] if send.event.tx is None else send.event.t0  # not every broker looks at a commit
        there = session.opened[1] < asked_ns and rest_ns < NEVER
        if there and _is_kept_to(facts, send, dest, rest_ns) and surely_wants(session, send):
            yield send, rest_ns


def _is_kept_to(facts: Facts, send: Send, dest: Destination, rest_ns: int) -> bool:
    """Whether nothing but a subscriber can have taken a publication from its broker by then."""
    held_up = facts.marks.on(dest.name, (send.event.t0, rest_ns)) & (MQSC | PAUSE)
    if held_up or may_die(facts, send) or facts.restarted(send.event.t0, rest_ns):
        return False
    return taken(send) or kept_connection(facts, send.client, send.event.t0, rest_ns)


def listeners(facts: Facts) -> list[Session]:
    """Subscribers of topics for certain, who are not durable."""
    found = [one for one in facts.sessions.values() if one.known and one.dest.topic and not one.wild]
    return [one for one in found if one.dest.kind != "advisory" and not one.durable()]


def queued(facts: Facts) -> list[Copy]:
    """Copies on queues of messages that had to wait, at a broker that knows delays."""
    return facts.rows(queue_waits) if facts.declared.delay_support else []


def owed(facts: Facts) -> list[Copy | Session]:
    """The same, and the subscribers of topics with delayed publications."""
    return [*facts.rows(queued), *(facts.rows(listeners) if facts.declared.delay_support and facts.delayed else [])]


@rule("DLY-005", over=owed, handles=KINDS, faults=FAULTS)
def not_lost(facts: Facts, row: Copy | Session) -> Findings:
    """A delayed message is not lost: when everything that is due has been taken it was delivered, or it expired and is
    accounted for.
    """
    yield from _published(facts, row) if isinstance(row, Session) else _put(facts, row)


def _put(facts: Facts, copy: Copy) -> Findings:
    """On a queue."""
    # Of all copies of a message the first that dies may be the only one that leaves a letter.
    if copy.deliveries or any(one.dead_letters for one in copy.send.copies.values()):
        yield held("accounted-for", "it was delivered" if copy.deliveries else "it died while it waited")
        return
    died = copy.send.confirmed and not copy.marks & MQSC and letter_is_due(facts, copy)
    if missing(facts, copy) or (died and unexplained(facts, copy)):
        yield broken("lost", copy, why="it was neither delivered nor dead-lettered")


def _published(facts: Facts, session: Session) -> Findings:
    """On a topic: what is a subscriber's has come to somebody."""
    for send, rest_ns in due_to(facts, session):
        if send.arrivals():
            yield held("accounted-for", "it was delivered")
        else:
            yield broken("lost", send, session, why=f"it had come to nobody at rest at {ms(rest_ns)}")
            return


def mortal_waits(facts: Facts) -> list[Delivery | Send]:
    """Arrivals of messages that had to wait and can die, and messages that never arrived."""
    rows: list[Delivery | Send] = []
    for due in facts.delays.waits() if facts.declared.delay_support else []:
        if may_die(facts, due.send):
            arrivals = [delivery for copy in due.send.copies.values() for delivery in copy.deliveries]
            rows += arrivals or [due.send]
    return rows


@rule("DLY-006", over=mortal_waits, handles=KINDS, faults=FAULTS)
def life_counts_from_the_send(facts: Facts, row: Delivery | Send) -> Findings:
    """The time to live of a delayed message counts from its send: its expiration is not moved by waiting, and a message
    that expired while it waited is not delivered.
    """
    send = row if isinstance(row, Send) else row.send
    due, death = facts.delays.due(send), facts.death(send)
    if due is None or death is None or not death.mortal:
        return
    if isinstance(row, Send):
        end_ns = facts.end_ns
        if "drain" in facts.phases and due.span[1] <= end_ns and dead(facts, death, due.span[0], end_ns):
            yield held("counted-from-send", "the time to live ended before the delay")
        return
    arrival = row.event
    from_ns = min(arrival.t1, max(due.span[0], row.assigned[0]))
    low = facts.broker_clock.bounds_ns(from_ns, arrival.t1, end_seq=arrival.seq)[0]
    asked_ms = send.event.expiration_ms
    # Only JMS says that a message tells its expiration.
    told = arrival.expiration_ms > 0 or facts.promises("jms-semantics")
    kept = told and facts.declared.timestamping is None and not may_be_capped(facts, send.event)
    if kept and asked_ms > 0 and arrival.expiration_ms != asked_ms:
        yield broken("restarted", send, row, why="its time to live was counted anew")
    elif low >= death.high_ns:
        why = f"it was released when the broker's clock read {low // NS_PER_MS} or more"
        yield broken("delivered-dead", send, row, why=why, slack_ns=death.high_ns - 1 - low)
    elif alive(facts, death, from_ns, arrival.t1, end_seq=arrival.seq):
        yield held("counted-from-send", "it lived until it was delivered", slack_ns=death.low_ns - low)
