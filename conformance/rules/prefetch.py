"""Windows: how many messages a consumer may have, and gets (PRE-001 to PRE-004, PRE-006 to PRE-011, INF-016)."""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise
from typing import Final

from brokerproof.conformance.experiment.history import Abort, Ack, Discard, Nack
from brokerproof.conformance.experiment.policies import UNASKED, default_window, policy_window
from brokerproof.conformance.facts.absence import waiting
from brokerproof.conformance.facts.expiration import maybe_expired
from brokerproof.conformance.facts.facts import Facts
from brokerproof.conformance.facts.marks import KINDS
from brokerproof.conformance.facts.presence import maybe_elsewhere, rest_after
from brokerproof.conformance.facts.pressure import pressed, scarce
from brokerproof.conformance.facts.rows import LATE, Copy, Delivery, Destination, Reading, Session, Window
from brokerproof.conformance.facts.spans import NEVER, NS_PER_MS, ms
from brokerproof.conformance.facts.tally import has_timed, is_crowded, is_known
from brokerproof.conformance.rules.inflight import synchronous
from brokerproof.conformance.rules.rule import Findings, broken, held, rule, unsure
from brokerproof.conformance.rules.selecting import sessions

#: A message on a healthy link is never this late for the sake of another link.
ISOLATION_MS: Final = 1000
#: Who promises this counts what is acknowledged in a transaction against the prefetch until its commit.
_UNTIL_COMMIT: Final = "prefetch-until-commit"


def with_windows(facts: Facts) -> list[Session]:
    """Consumers that got a window full or more, whose library neither widens it nor settles at a moment of its own. How
    large a real broker makes the window of who asked for none is another requirement's affair (PRE-004).
    """
    known = [one for one in facts.rows(sessions) if one.known and not one.auto and not one.traits.widens_window]
    known = [one for one in known if one.ack != "auto" or not one.traits.settles_by_itself]
    asked = [one for one in known if facts.simulated or one.event is None or one.event.asked != UNASKED]
    asked = [one for one in asked if not one.resent]  # what was taken back after a rollback, its client cannot tell
    return [session for session in asked if 0 < session.prefetch <= len(session.deliveries)]


@rule("PRE-001", over=with_windows, handles=KINDS)
def window_is_kept(facts: Facts, session: Session) -> Findings:
    """A consumer has never more than its prefetch of messages that were delivered and not settled."""
    arrived = [delivery for delivery in session.deliveries if delivery.state != LATE]
    freed_ns = sorted(_frees_ns(facts, delivery) for delivery in arrived)
    mine: list[Delivery] = []
    for count, delivery in enumerate(arrived, start=1):
        at_ns = delivery.event.t1
        freed = bisect_right(freed_ns, at_ns)
        mine.append(delivery)
        if count - freed > session.prefetch:
            mine = [one for one in mine if _has(facts, one, at_ns) and not _maybe_meant(one, at_ns)]
            if len(mine) > session.prefetch:
                late = ", or not to commit" if _UNTIL_COMMIT in facts.header.capabilities else ""
                why = f"it had {len(mine)} messages that it had not begun to settle{late}"
                yield broken("exceeded", session, *mine, why=why)
                return
        if count - freed >= session.prefetch:
            yield held("within", "the window was full again after settlements" if freed else "the window was full")


def _has(facts: Facts, delivery: Delivery, at_ns: int) -> bool:
    """It had not begun to settle it, and the broker cannot have taken it back because it expired."""
    event = delivery.event
    return _frees_ns(facts, delivery) > at_ns and not maybe_expired(facts, event.expiration_ms, event.t0, at_ns)


def _frees_ns(facts: Facts, delivery: Delivery) -> int:
    """From when on its settlement may have made room."""
    settlement = delivery.settlement
    if settlement is None:
        return NEVER
    tx = getattr(settlement, "tx", None)
    transaction = facts.transactions.get(tx) if tx and _UNTIL_COMMIT in facts.header.capabilities else None
    if transaction is None or transaction.lost is not None:
        return settlement.t0
    return NEVER if transaction.end is None else transaction.end.t0


def _maybe_meant(delivery: Delivery, at_ns: int) -> bool:
    """Whether who settled one of two copies of a message may have settled this one by it, or with it in a range."""
    session = delivery.session
    twins = [one.settlement for one in session.deliveries if one.event.message in session.twins]
    return any(one is not None and delivery.event.t0 <= one.t1 and one.t0 <= at_ns for one in twins)


def with_consumers(facts: Facts) -> list[Reading]:
    """Counters of queues at rest that had consumers."""
    return [reading for reading in facts.queue_rests if reading.windows or reading.wild]


@rule("PRE-002", over=with_consumers, handles=KINDS)
def no_slot_is_idle(facts: Facts, reading: Reading) -> Findings:
    """When nothing moves and memory suffices, no consumer has a free slot while a message waits on its queue."""
    copy = waiting(facts, reading)
    if is_crowded(facts, reading):
        if copy is not None and not is_known(reading):
            yield unsure(reading, copy, why="somebody of whom it is not known whether he is there may hold it")
        return
    for window in (*reading.windows, *reading.wild):
        if not window.open():
            if window.held >= window.session.prefetch:
                yield held("filled", "the window was full")
        elif copy is not None and not _filled_soon(facts, window.session, copy, reading):
            why = f"{copy.message} waits on the queue, and {_described(window)}"
            yield broken("idle", window.session, copy, reading, why=why)
            return
        elif copy is None and window.arrived:
            yield held("filled", "the window was open and nothing waited")


def _filled_soon(facts: Facts, session: Session, copy: Copy, reading: Reading) -> bool:
    """Whether a real broker gave it something from there of itself a little later: some wait for more room, or are busy
    elsewhere, while nothing seems to move.
    """
    if facts.simulated:
        return False
    acts = [one for delivery in session.deliveries for one in delivery.settlements]
    since_ns = max([session.opened[1], copy.send.event.t1, *(one.t1 for one in acts if one.t1 <= reading.event.t0)])
    until_ns = min([one.t0 for one in acts if one.t1 > reading.event.t0], default=NEVER)
    until_ns = min(until_ns, since_ns + facts.declared.lateness_ms * NS_PER_MS)
    later = [one for one in session.deliveries if reading.event.t0 < one.event.t1 and one.event.t0 < until_ns]
    return any(one.dest is reading.destination and one.send.event.t1 <= reading.event.t0 for one in later)


def _described(window: Window) -> str:
    return f"{window.session.name} holds {window.held} unsettled messages after {window.tried} settlements"


@rule("PRE-003", over=with_consumers, handles=KINDS)
def settling_frees_slots(facts: Facts, reading: Reading) -> Findings:
    """Settling n messages frees exactly n slots."""
    for window in (*reading.windows, *reading.wild):
        session, prefetch = window.session, window.session.prefetch
        if not window.tried or session.auto or session.traits.widens_window or not session.known:
            continue
        if window.held > prefetch:
            expiring = any(one.event.expiration_ms > 0 for one in session.deliveries[: window.arrived])
            if not session.overdrawn and not expiring:
                yield broken("too-many", session, reading, why=_described(window))
        elif window.held == prefetch:
            yield held("exact", "settlements freed slots and they were filled")
        elif window.open() and not is_crowded(facts, reading):
            copy = waiting(facts, reading)
            if copy is not None and not _filled_soon(facts, session, copy, reading):
                why = f"{copy.message} waits on the queue, and {_described(window)}"
                yield broken("too-few", session, copy, reading, why=why)


def where_windows_count(facts: Facts) -> list[Reading]:
    """Counters at rest of destinations with a consumer of which is known what it asked for."""
    asked = [one for one in facts.rows(sessions) if one.event is not None and one.event.asked is not None and one.known]
    dests = {one.dest.name: one.dest for one in asked if not one.wild and one.dest.kind != "advisory"}
    found = [one for dest in dests.values() for one in dest.readings if one.at_rest and not has_timed(one)]
    return [reading for reading in found if not pressed(facts, reading.destination, reading)]


def _widths(facts: Facts, reading: Reading, *, ruled: bool) -> Findings:
    """Windows that a policy gives (``ruled``), or the protocol."""
    dest = reading.destination
    for window in reading.windows:
        session, event = window.session, window.session.event
        if event is None or event.asked is None or not session.known or session.auto or session.overdrawn:
            continue
        if event.selector or event.no_local or event.exclusive or event.priority or window.doubted:
            continue
        durable = bool(event.durable)
        said = policy_window(facts.declared, dest.name, topic=dest.topic, durable=durable, browser=False,
                             temporary=dest.kind == "temporary")  # fmt: skip
        default = default_window(topic=dest.topic, durable=durable, browser=False)
        if (said is not None) is not ruled or (said is None and event.asked not in {UNASKED, default}):
            continue
        asked = "nothing" if event.asked == UNASKED else str(event.asked)
        why = f"{session.name} asked for {asked}, the policy says {said or 'nothing'}; it holds {window.held}"
        if window.held > session.prefetch and not session.traits.widens_window:
            yield broken("other", session, reading, why=why)
        elif window.held == session.prefetch:
            yield held("as-defined", f"asked for {asked}" if ruled else "durable subscription" if durable else "queue")
        elif window.held < session.prefetch and _is_short(facts, reading, window):
            yield broken("other", session, reading, why=f"{why}, and more waits")


def _is_short(facts: Facts, reading: Reading, window: Window) -> bool:
    """It has less than its window although there is more for it. A broker may load one page for each wake-up."""
    dest = reading.destination
    there = (*reading.windows, *reading.wild)
    held_now = sum(one.held + one.doubted for one in there)
    pages = facts.paged and held_now >= dest.applied.page
    crowded = dest.grouped or any(
        one.session.event is None or one.session.event.exclusive or one.session.event.priority for one in there
    )
    return not pages and not crowded and facts.tally.waits(window.session, reading)


@rule("PRE-004", over=where_windows_count, handles=KINDS)
def defaults_are_the_protocols(facts: Facts, reading: Reading) -> Findings:
    """Default prefetch values are those of the protocol: queue 1000, browser 500, durable topic 100, topic 32767."""
    yield from _widths(facts, reading, ruled=False)


@rule("PRE-008", over=where_windows_count, handles=KINDS)
def policy_replaces_a_default(facts: Facts, reading: Reading) -> Findings:
    """A destination policy replaces only a prefetch that has the default value."""
    yield from _widths(facts, reading, ruled=True)


def pulling(facts: Facts) -> list[Session]:
    """Consumers that pull."""
    return [session for session in facts.rows(sessions) if session.prefetch == 0 and session.deliveries]


@rule("PRE-006", over=pulling, handles=KINDS)
def one_for_each_pull(_facts: Facts, session: Session) -> Findings:
    """With prefetch 0 a consumer gets one message for each pull."""
    for one, other in pairwise(session.deliveries):
        given = [event for event in (one.consumed, one.settlement) if event is not None and not isinstance(event, Ack)]
        # What was rolled back, though nobody knows, is given again.
        if not one.rollbacks and one.given < 2 and not any(event.seq < other.event.seq for event in given):
            yield broken("several", one, other, why=f"its application had not been given {one.event.message} yet")
            return
    if any(one.consumed is not None or isinstance(one.settlement, Discard) for one in session.deliveries):
        yield held("one", "a pull brought a message")


def synchronous_over_stomp(facts: Facts) -> list[Reading]:
    """Counters of queues all of whose consumers so far are STOMP's, and had asked for synchronous dispatch."""
    found = facts.rows(synchronous)
    return [one for one in found if facts.tally.consumers(one.destination).other_ns > one.event.t1]


@rule("PRE-007", over=synchronous_over_stomp, handles=KINDS)
def stomp_gets_synchronous_dispatch(_facts: Facts, reading: Reading) -> Findings:
    """A STOMP consumer that asks for synchronous dispatch gets it."""
    count = reading.event.in_flight
    if count is None or reading.ledger.shaken:
        return
    if count < 0:
        yield broken("asynchronous", reading, *reading.destination.sessions[:3])
    elif reading.ended and not reading.at_rest:
        yield held("synchronous", "a consumer had just left")


def served(facts: Facts) -> list[Session]:
    """Consumers whose subscription was confirmed and who got something, where instants are exact."""
    found = [session for session in facts.rows(sessions) if session.known and session.deliveries]
    return found if facts.simulated else []


@rule("PRE-009", over=served, handles=KINDS)
def receipt_comes_first(_facts: Facts, session: Session) -> Findings:
    """The receipt of a SUBSCRIBE precedes its first message."""
    event, first = session.event, session.deliveries[0]
    if event is None:
        return
    early_ns = event.t1 - first.event.t1
    if early_ns > 0:
        yield broken("message-first", session, first, why=f"it arrived {ms(early_ns)} before the receipt")
    else:
        yield held("receipt-first", "messages waited" if first.send.event.t1 < event.t0 else "")


def after_rollbacks(facts: Facts) -> list[Session]:
    """Consumers that acknowledged in transactions that were rolled back, in windows that no library widens, and that
    kept what they held.
    """
    known = [one for one in facts.rows(sessions) if one.known and not one.auto and not one.traits.widens_window]
    kept = [one for one in known if not one.resent and not facts.may_send_again(one)]
    return [session for session in kept if any(one.rollbacks for one in session.deliveries)]


@rule("PRE-010", over=after_rollbacks, handles=KINDS)
def rollback_leaves_the_window(facts: Facts, session: Session) -> Findings:
    """Acknowledging in transactions that are aborted does not widen the window."""
    events = {one.seq: one for delivery in session.deliveries for one in delivery.settlements}
    tries = [one for one in events.values() if isinstance(one, Ack | Nack)]
    aborts: dict[str, Abort] = {}
    for one in tries:
        end = facts.transactions[one.tx].end if one.tx is not None else None
        if (one.tx is not None and not (isinstance(end, Abort) and end.result == "ok")) or one.result != "ok":
            return  # what it holds is not known
        if isinstance(end, Abort) and one.tx is not None:
            aborts[one.tx] = end
    settled_ns = sorted(one.t0 for one in tries if one.tx is None for _ in one.messages)
    begun_ns = sorted(one.t0 for one in tries if one.tx is not None)
    for abort in aborts.values():
        later = bisect_right(begun_ns, abort.t1)
        until_ns = min(begun_ns[later] if later < len(begun_ns) else session.lost_ns, session.lost_ns)
        yield from _after_rollback(session, abort, settled_ns, (rest_after(facts, abort.t1), until_ns))


def _after_rollback(session: Session, abort: Abort, settled_ns: list[int], period: tuple[int, int]) -> Findings:
    """What arrived in a period after a rollback in which there was no other transaction."""
    arrived = [delivery for delivery in session.deliveries if delivery.state != LATE]
    for place, delivery in enumerate(arrived, start=1):
        at_ns = delivery.event.t1
        if delivery.event.t0 <= period[0] or at_ns >= period[1]:
            continue
        has = place - bisect_right(settled_ns, at_ns)
        if has > session.prefetch:
            yield broken("widened", session, abort, delivery, why=f"it was its {has}th that it had not settled")
            return
        if has == session.prefetch:
            yield held("as-before", "the window was full")


def with_deaf_consumers(facts: Facts) -> list[Destination]:
    """Queues with a consumer whose link was stalled, all of whose consumers are served asynchronously and take any
    message.
    """
    names = {one.dest.name: one.dest for one in facts.rows(sessions) if one.client.stalls}
    queues = [dest for dest in names.values() if dest.kind not in {"dead-letters", "pattern"} and not dest.topic]
    return [
        dest
        for dest in queues
        if not dest.grouped and not any(one.sync or one.selective or not one.known for one in dest.sessions)
    ]


@rule("PRE-011", over=with_deaf_consumers, handles=KINDS)
def deaf_connections_delay_nobody(facts: Facts, dest: Destination) -> Findings:
    """Under asynchronous dispatch a connection that does not read delays no other consumer."""
    for deaf in dest.sessions:
        for stall in deaf.client.stalls:
            to_ns = stall.end.t0 if stall.end is not None else facts.end_ns
            if stall.toward == "broker" or deaf.lost_ns <= to_ns:
                continue
            for session in dest.sessions:
                if session.client is not deaf.client and not session.client.stalls:
                    yield from _beside(facts, deaf, session, (stall.begin.t1, to_ns))


def _beside(facts: Facts, deaf: Session, session: Session, period: tuple[int, int]) -> Findings:
    bound_ns = ISOLATION_MS * NS_PER_MS
    for delivery in session.deliveries:
        send, event = delivery.send.event, delivery.event
        if delivery.dest is not deaf.dest or not delivery.send.confirmed or send.tx is not None:
            continue
        if send.t0 < period[0] or send.t1 + bound_ns > period[1] or send.delay_ms or send.deliver_at_ms is not None:
            continue
        if event.t1 <= send.t1 + bound_ns:
            yield held("isolated", "another connection did not read")
        elif event.t0 >= period[1] and event.t0 > send.t1 + bound_ns and _is_his(facts, delivery):
            yield broken("delayed", delivery.send, delivery, deaf, why=f"until {deaf.client.name} read again")
            return


def _is_his(facts: Facts, delivery: Delivery) -> bool:
    """Nobody can have had it before, it had room for it all the time, and memory was not scarce."""
    since_ns, until_ns = delivery.send.event.t0, delivery.event.t1
    if delivery.copy.deliveries[0] is not delivery or maybe_elsewhere(facts, delivery):
        return False
    taken = any(operation.t1 >= since_ns and operation.t0 <= until_ns for operation in delivery.dest.purges)
    own = delivery.dest.applied.memory_limit_bytes > 0
    return not (taken or own or scarce(facts, since_ns, until_ns)) and facts.credit.surely_free(
        delivery.session, since_ns, until_ns
    )


def without_lists(facts: Facts) -> list[Session]:
    """Subscribers to a wildcard over topics, all of which have no in-flight lists, that got something from several."""
    found: list[Session] = []
    for session in facts.wild:
        dests = {delivery.dest.name: delivery.dest for delivery in session.deliveries}
        listed = any(dest.applied.entry.topic_inflight_stats for dest in dests.values())
        plain = session.dest.topic and session.known and not session.durable() and not session.auto
        if plain and not listed and len(dests) > 1:
            found.append(session)
    return found


@rule("INF-016", over=without_lists, handles=KINDS)
def wildcard_flows_on(facts: Facts, session: Session) -> Findings:
    """A topic subscriber to a wildcard keeps flowing beyond its prefetch when in-flight lists are switched off."""
    got = len(session.deliveries)
    if got > session.prefetch:
        yield held("flows", "it got more than its prefetch")
        return
    sends = [send for send in facts.sends.values() if send.dest.topic and send.confirmed and not send.timed]
    owed = [send.event for send in sends if send.transaction is None and send.event.t0 >= session.opened[1]]
    done = [one.settlement for one in session.deliveries if one.settlement is not None]
    settled = all(isinstance(one, Ack) and one.result == "ok" and one.tx is None for one in done) and len(done) == got
    last_ns = max([event.t1 for event in (*done, *owed)], default=0)
    if not settled or scarce(facts, session.opened[0]) or session.selective:
        return
    if got == session.prefetch < len(owed) and rest_after(facts, last_ns) < session.lost_ns:
        yield broken("stalls", session, why=f"it has settled all {got}; {len(owed)} were published for it")
