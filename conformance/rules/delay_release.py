"""Delivery delay: how what waits is released among much else (DLY-020 to DLY-025, DLY-027, DLY-034 to DLY-036)."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from brokerproof.conformance.experiment.history import Discard, Fault, Pause
from brokerproof.conformance.facts import marks
from brokerproof.conformance.facts.absence import ended, maybe_swallowed, unexplained
from brokerproof.conformance.facts.backlog import Stay, full_spans, lies_in, stays
from brokerproof.conformance.facts.credit import EXCUSES
from brokerproof.conformance.facts.delays import Awaited
from brokerproof.conformance.facts.deliveries import may_be_given_up, repeated, settled
from brokerproof.conformance.facts.expiration import may_die
from brokerproof.conformance.facts.facts import Facts
from brokerproof.conformance.facts.managed import is_queue_manager
from brokerproof.conformance.facts.marks import KINDS, but
from brokerproof.conformance.facts.presence import departed_ns, leaving_ns
from brokerproof.conformance.facts.pressure import scarce
from brokerproof.conformance.facts.rows import LATE, RETURNED, Copy, Delivery, Destination, Send, Session, Subscription
from brokerproof.conformance.facts.spans import NEVER, NS_PER_MS, Span, ms
from brokerproof.conformance.facts.strains import strained
from brokerproof.conformance.rules.delay import FAULTS, due_to, in_time, listeners, queue_waits
from brokerproof.conformance.rules.rule import Findings, broken, held, rule
from brokerproof.conformance.rules.selecting import durables

#: So many waiting messages are a deep backlog.
DEEP: Final = 100
WAITING_RESTART: Final = "the broker was restarted while it waited"


# -- topics


def topic_arrivals(facts: Facts) -> list[Delivery]:
    """Arrivals of delayed publications at subscribers of whom it is known when they began."""
    copies = [copy for due in facts.delays.waits() for copy in due.send.copies.values() if copy.deliveries]
    return [copy.deliveries[0] for copy in copies if copy.subscription is not None and _began(copy.subscription)]


def _began(subscription: Subscription) -> bool:
    return subscription.begin is not None and not (subscription.durable and subscription.doubtful)


def _late_subscriber(facts: Facts, delivery: Delivery, *, again: bool) -> Findings:
    send, subscription = delivery.send, delivery.copy.subscription
    if subscription is None or subscription.begin is None:
        return
    # A queue manager finds out at the put who gets it, and its client hears when; others may do so at the commit.
    at_put = is_queue_manager(facts) and send.client.traits.awaits_receipt
    until_ns = send.event.t1 if at_put else send.accepted[1]
    if subscription.begin.t0 <= until_ns:
        if not again:
            yield held("those-at-the-send", "subscribed at the send")
    elif subscription.again is again and send.confirmed:
        late_ns = subscription.begin.t0 - until_ns
        why = f"the subscription began {ms(late_ns)} after the send was confirmed"
        yield broken("late-subscriber", send, subscription.begin, delivery, why=why)


def audience(facts: Facts) -> list[Delivery | Session]:
    """Arrivals of delayed publications, and those who were to get them while they were connected."""
    return [*facts.rows(topic_arrivals), *facts.rows(listeners)]


@rule("DLY-020", over=audience, handles=KINDS, faults=FAULTS)
def audience_at_the_send(facts: Facts, row: Delivery | Session) -> Findings:
    """The subscriptions that existed at the send receive a delayed publication, if they are still there, and no others
    do.
    """
    if isinstance(row, Delivery):
        yield from _late_subscriber(facts, row, again=False)
    else:
        yield from _missed(facts, row)


def _missed(facts: Facts, session: Session) -> Findings:
    """Whatever was published with a delay has come by the first rest after that at which there was room."""
    for send, rest_ns in due_to(facts, session):
        delivery = session.seen.get(send.message)
        if delivery is None or delivery.event.t0 > rest_ns:
            yield broken("missed", send, session, why=f"it had not come at rest at {ms(rest_ns)}")
            return


def names_again(facts: Facts) -> list[Delivery | tuple[Subscription, Subscription]]:
    """Arrivals of delayed publications, and durable subscriptions that ended, each with the next of its name."""
    rows: list[Delivery | tuple[Subscription, Subscription]] = [*facts.rows(topic_arrivals)]
    names: dict[tuple[str, str], Subscription] = {}
    for subscription in facts.rows(durables):
        key = (subscription.client.name, subscription.durable)
        if key in names:
            rows.append((names[key], subscription))
        names[key] = subscription
    return rows


@rule("DLY-022", over=names_again, handles=KINDS, faults=FAULTS, absence=True)
def nothing_for_the_removed(facts: Facts, row: Delivery | tuple[Subscription, Subscription]) -> Findings:
    """A subscription that is removed before the delivery time gets nothing, and no copy leaks."""
    if isinstance(row, Delivery):
        yield from _late_subscriber(facts, row, again=True)
        return
    first, second = row
    begin, end, again = first.begin, first.end, second.begin
    if begin is None or end is None or again is None or begin.dest != again.dest:
        return
    for due in facts.delays.backlog(facts.destination(begin.dest)).waits:
        there = begin.t1 <= due.send.event.t0 and due.send.accepted[1] <= end.t0
        if there and again.t1 < due.span[0] and due.visible[1] <= facts.end_ns and second.name not in due.send.copies:
            yield held("those-at-the-send", "its name began again")
            return


def absent_durables(facts: Facts) -> list[Subscription]:
    """Durable subscriptions that certainly existed, want everything, and had more than one consumer."""
    return [
        subscription
        for subscription in facts.rows(durables)
        if subscription.sessions[0].dest.kind != "advisory"  # nobody need keep these
        and len(subscription.sessions) > 1
        and not subscription.doubtful
        and all(map(_is_plain, subscription.sessions))
    ]


def _patient_ns(facts: Facts, session: Session) -> int:
    return session.opened[1] + facts.declared.lateness_ms * NS_PER_MS


def _stayed(facts: Facts, session: Session) -> bool:
    until_ns = _patient_ns(facts, session)
    return leaving_ns(session) >= until_ns and not session.client.stalled(session.opened[0], until_ns)


def _is_plain(session: Session) -> bool:
    event = session.event
    return event is not None and session.known and not (session.uncertain or event.selector or event.no_local)


@rule("DLY-021", over=absent_durables, handles=KINDS, faults=FAULTS)
def absent_get_it_on_return(facts: Facts, subscription: Subscription) -> Findings:
    """A durable subscription that is offline at the delivery time gets the message on return."""
    begin, sessions = subscription.begin, subscription.sessions
    end_ns = subscription.end.t0 if subscription.end is not None else NEVER
    if begin is None:
        return
    # Who only looks whether anything is left stays too short to say what is missing.
    stayed = [one for one in sessions[1:] if _stayed(facts, one)]
    back = stayed[-1] if stayed else sessions[-1]
    patient_ns = _patient_ns(facts, back)
    sure = min(end_ns, subscription.sure_ns) >= patient_ns
    judged = bool(stayed) and ended(facts) and sure and not scarce(facts, begin.t0)
    most = facts.credit.most(back.dest, begin.t0, patient_ns)
    for due in facts.delays.backlog(back.dest).waits:
        low, high = due.visible
        send = due.send
        if send.event.t0 < begin.t1 or high >= min(back.opened[0], end_ns):
            continue
        if any(session.opened[0] <= high and departed_ns(session) >= low for session in sessions):
            continue
        if subscription.name in send.copies:
            yield held("on-return", "it was offline")
        elif any(one.auto and low <= one.opened[1] < back.opened[1] for one in sessions):
            continue  # it may have been written to somebody who settles by that, and who left before it came
        elif judged and most <= back.least and facts.delays.is_owed(send, back.dest, patient_ns):
            yield broken("missed", send, back, subscription, why="it came back after the delay, and never got it")


# -- restarts


def _downs(facts: Facts, copy: Copy) -> list[Fault]:
    """The restarts that interrupted its wait, for certain."""
    due = facts.delays.due(copy.send)
    if due is None or not due.restarted:
        return []
    since_ns, until_ns = copy.send.accepted[1], due.asked[0]
    found = [event for event in facts.restarts if isinstance(event, Fault)]
    return [event for event in found if since_ns < event.t0 < until_ns]


def interrupted(facts: Facts) -> list[Copy]:
    """Confirmed, persistent messages on queues whose wait a restart interrupted."""
    if not facts.restarts or not facts.declared.persistent:
        return []
    copies = [copy for copy in facts.rows(queue_waits) if copy.send.confirmed and copy.send.event.persistent]
    return [copy for copy in copies if _downs(facts, copy)]


def _after_restart(facts: Facts, copy: Copy, *, overdue: bool) -> Findings:
    due, downs = facts.delays.due(copy.send), _downs(facts, copy)
    if due is None or any(due.asked[1] <= down.t1 for down in downs) is not overdue:
        return
    send, last = copy.send, downs[-1]
    how = f"the broker was {'killed' if last.how == 'kill' else 'stopped'}"
    first = copy.deliveries[0].event if copy.deliveries else None
    if first is None and not copy.dead_letters and not may_die(facts, send) and unexplained(facts, copy):
        yield broken("lost", send, last, why="it was never seen again")
    if first is None or facts.broker_clock.jump_between(send.event.t0, first.t1):
        return
    if first.t1 < due.span[0]:
        early_ns = due.span[0] - first.t1
        yield broken("early", send, last, first, why=f"{ms(early_ns)} early", slack_ns=-early_ns)
        return
    came = [s.opened[1] for s in copy.dest.sessions if s.opened[0] > last.t1 and s.prefetch]
    ready_ns = max(due.visible[1], min(came, default=facts.end_ns))
    lateness_ns = facts.declared.lateness_ms * NS_PER_MS
    if first.t0 <= ready_ns + lateness_ns:
        yield held("in-time", how)
    elif facts.credit.waited_for(copy.deliveries[0], ready_ns) or (
        facts.delays.is_owed(send, copy.dest, ready_ns + lateness_ns)
        and facts.credit.waiting(send, copy.dest, (ready_ns, ready_ns))
    ):
        why = f"it arrived {ms(first.t0 - ready_ns)} after it was due and somebody waited"
        yield broken("late", send, last, first, why=why, slack_ns=ready_ns + lateness_ns - first.t0)


@rule("DLY-023", over=interrupted, handles=KINDS, faults=FAULTS, absence=True)
def restart_changes_nothing(facts: Facts, copy: Copy) -> Findings:
    """A persistent waiting message survives a restart and a kill, once, with its delivery time unchanged."""
    return _after_restart(facts, copy, overdue=False)


@rule("DLY-024", over=interrupted, handles=KINDS, faults=FAULTS, absence=True)
def overdue_after_the_start(facts: Facts, copy: Copy) -> Findings:
    """A message whose delivery time passed while the broker was down is delivered promptly after the start, once."""
    return _after_restart(facts, copy, overdue=True)


def volatile(facts: Facts) -> list[Copy]:
    """Delayed messages that are not persistent, on queues from which nothing was moved."""
    copies = [
        copy for copy in facts.rows(queue_waits) if not copy.send.event.persistent and copy.send.transaction is None
    ]
    return [copy for copy in copies if all(operation.op != "move" for operation in copy.dest.purges)]


@rule("DLY-025", over=volatile, handles=but("redelivery", "repeated"), faults=("restart",))
def at_most_once(facts: Facts, copy: Copy) -> Findings:
    """A non-persistent waiting message is delivered at most once and may be lost on restart."""
    send, gone_ns = copy.send, NEVER
    for first, second in pairwise(copy.deliveries):
        settlement = first.settlement
        if settlement is not None and settled(facts, first):
            gone_ns = min(gone_ns, settlement.t1)
        again = gone_ns < second.event.t0 and second.state != LATE  # to who had left it was on its way before
        if again or repeated(facts, first, second):
            yield broken("twice", send, first, second, why="it can have come back in no way")
            return
    due = facts.delays.due(send)
    if not ended(facts) or send.event.result != "ok" or due is None:
        return
    restarted = any(send.accepted[1] <= event.t0 and event.t1 < due.asked[0] for event in facts.restarts)
    if copy.deliveries:
        yield held("at-most-once", WAITING_RESTART if restarted else "")
    elif restarted:
        yield held("lost", WAITING_RESTART)


# -- what does not hold it up


def over_pauses(facts: Facts) -> list[tuple[Copy, Pause]]:
    """Confirmed messages on queues that became due while the broker's process stood still."""
    pauses = [pause for pause in facts.pauses if pause.target == facts.broker]
    copies = [copy for copy in facts.rows(queue_waits) if copy.send.confirmed] if pauses else []
    return [(copy, pause) for copy in copies for pause in pauses if _within(facts, copy.send, pause)]


def _within(facts: Facts, send: Send, pause: Pause) -> bool:
    due = facts.delays.due(send)
    return due is not None and send.accepted[1] < pause.t0 <= due.visible[0] and due.visible[1] <= pause.t1


@rule("DLY-027", over=over_pauses, faults=FAULTS)
def on_time_after_a_pause(facts: Facts, row: tuple[Copy, Pause]) -> Findings:
    """Suspending the broker's process across the delivery time and resuming it delivers once, promptly."""
    copy, pause = row
    send, due = copy.send, facts.delays.due(copy.send)
    until_ns = pause.t1 + facts.declared.lateness_ms * NS_PER_MS
    others = any(p is not pause and p.t0 <= until_ns and p.t1 >= pause.t0 for p in facts.pauses)
    if due is None or others or strained(facts.strains, pause.t0, until_ns):
        return
    awaited = Awaited(due, copy.dest, until_ns)
    if not facts.delays.await_it(awaited, (due.visible[0], pause.t1), excused=EXCUSES & ~marks.PAUSE):
        return
    found = [delivery for delivery in copy.deliveries if delivery.event.t0 <= until_ns]
    if not found:
        why = "it did not arrive in time after the pause"
        yield broken("late", send, pause, *copy.deliveries[:1], *awaited.sessions[:1], why=why)
    elif len(found) > 1 and repeated(facts, found[0], found[1]):
        yield broken("twice", send, *found[:2], why="it was due while the broker's process stood still")
    else:
        yield held("once", "due while the process stood still", slack_ns=until_ns - found[0].event.t1)


def beside_full(facts: Facts) -> list[Awaited]:
    """Delayed messages for which somebody waited while another queue was over its own limit with due messages."""
    limited = [dest for dest in facts.destinations.values() if dest.applied.memory_limit_bytes and not dest.topic]
    if not limited or facts.limits or scarce(facts) or facts.paged:
        return []
    kept = stays(facts, delayed=True)
    due_ones = [stay for stay in kept if stay.copy.send.delayed]
    full = [_full(dest, kept) for dest in limited]
    with_due = [_full(dest, due_ones, bytes_min=1) for dest in limited]
    rows = []
    for copy in facts.rows(queue_waits) if any(full) else []:
        due = facts.delays.due(copy.send)
        if due is not None and copy.send.confirmed and not copy.dest.applied.memory_limit_bytes:
            row = Awaited(due, copy.dest, due.visible[1] + facts.declared.lateness_ms * NS_PER_MS)
            span = due.visible[0], row.until_ns
            if any(lies_in(one, span) and lies_in(other, span) for one, other in zip(full, with_due, strict=True)):
                rows.append(row)
    return [row for row in rows if facts.delays.await_it(row, excused=EXCUSES & ~marks.MEMORY)]


def _full(dest: Destination, kept: list[Stay], bytes_min: int = 0) -> list[Span]:
    here = [stay for stay in kept if stay.copy.dest is dest]
    return full_spans(here, bytes_min or dest.applied.memory_limit_bytes + 1)


@rule("DLY-034", over=beside_full, faults=FAULTS)
def not_held_up_by_a_full_one(_facts: Facts, row: Awaited) -> Findings:
    """A failing target does not hold up releases to other targets."""
    return in_time(row, "in-time", "another one was full")


def deep(facts: Facts) -> list[Awaited]:
    """Delayed messages for which somebody waited while many others had to wait longer."""
    rows = [row for row in facts.delays.awaited() if row.due.delayed]
    return [row for row in rows if facts.delays.backlog(row.dest).count(row.due.span[0], row.until_ns) >= DEEP]


@rule("DLY-035", over=deep, faults=FAULTS)
def in_time_among_many(_facts: Facts, row: Awaited) -> Findings:
    """The lateness of a release stays bounded with a deep backlog."""
    return in_time(row, "in-time", "many waited")


# -- again


def given_back(facts: Facts) -> list[tuple[Delivery, Delivery | None]]:
    """Deliveries of messages with a long delay that their consumer left unsettled, each with the next one."""
    least_ms = facts.declared.lateness_ms
    rows: list[tuple[Delivery, Delivery | None]] = []
    for copy in facts.rows(queue_waits):
        if copy.send.event.delay_ms <= least_ms:
            continue
        for place, delivery in enumerate(copy.deliveries):
            limit = delivery.session.traits.gives_up_after
            if not _gave_back(delivery) or 0 < limit <= place + 2:
                break
            rows.append((delivery, copy.deliveries[place + 1] if place + 1 < len(copy.deliveries) else None))
    return rows


def _gave_back(delivery: Delivery) -> bool:
    session = delivery.session
    if delivery.state != RETURNED or session.uncertain or not session.known or session.ack == "auto":
        return False
    tried = [event for event in delivery.settlements if isinstance(event, Discard) or event.tx is None]
    return delivery.event.t1 <= leaving_ns(session) and not tried


@rule("DLY-036", over=given_back, faults=FAULTS)
def again_at_once(facts: Facts, row: tuple[Delivery, Delivery | None]) -> Findings:
    """After a rollback or rejection a due message is delivered again without a new delay."""
    first, again = row
    send, dest = first.send, first.copy.dest
    from_ns = departed_ns(first.session) + 1
    if from_ns >= NEVER:
        return
    come = [session.opened[1] for session in dest.sessions if departed_ns(session) > from_ns]
    from_ns = max(from_ns, min(come, default=0))
    until_ns = from_ns + facts.declared.lateness_ms * NS_PER_MS
    if not facts.delays.is_owed(send, dest, until_ns):
        return
    waiting = facts.credit.waiting(send, dest, (from_ns, from_ns))
    if not waiting or (again is None and (may_be_given_up(first.copy) or maybe_swallowed(facts, first.copy))):
        return
    if again is not None and again.event.t1 <= until_ns:
        yield held("at-once", "after a rollback" if first.rollbacks else "its consumer had left")
    elif again is None or again.event.t0 > until_ns:
        when = "never" if again is None else f"{ms(again.event.t0 - from_ns)} later"
        why = f"somebody waited, and it came again {when}"
        yield broken("waited-again", send, first, first.session, *([again] if again is not None else []), why=why)
