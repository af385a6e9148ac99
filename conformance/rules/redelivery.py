"""Deliveries after the first one, and that a first one looks like one (RDL-001 to -003, -005, -015)."""

from __future__ import annotations

from collections import Counter

from brokerproof.conformance.experiment.history import Abort, Discard, Nack
from brokerproof.conformance.facts.absence import missing
from brokerproof.conformance.facts.deliveries import at_home, came_back, departure, marks_departure, repeated, settled
from brokerproof.conformance.facts.facts import Facts
from brokerproof.conformance.facts.marks import KINDS, but
from brokerproof.conformance.facts.ordering import neighbours
from brokerproof.conformance.facts.presence import maybe_elsewhere
from brokerproof.conformance.facts.returning import Handover, handovers
from brokerproof.conformance.facts.rows import LATE, RETURNED, Copy, Delivery
from brokerproof.conformance.rules.rule import Findings, broken, held, rule


def firsts(facts: Facts) -> list[Delivery]:
    """The first delivery of each copy; where an operator may have moved it, if nobody can have had it before."""
    found = [copy.deliveries[0] for copy in facts.copies if copy.deliveries]
    return [delivery for delivery in found if at_home(delivery) or not _had_at_home(delivery)]


def _had_at_home(delivery: Delivery) -> bool:
    return any(session.opened[0] <= delivery.event.t1 for session in delivery.copy.dest.sessions)


def _looks_first(delivery: Delivery) -> bool:
    event = delivery.event
    return not event.redelivered and event.delivery_count in {None, 1}


def _says_so(delivery: Delivery) -> bool:
    """Whether this broker says of any message that it was delivered before, in a mark or a count."""
    return delivery.event.redelivered is not None or delivery.event.delivery_count is not None


def _had_before(facts: Facts, delivery: Delivery) -> bool:
    """Whether somebody may have had it before. Bytes for a session that had left say nothing: ActiveMQ marks what it
    takes back before it has written the rest (seen on 5.17.2), and no application is given it.
    """
    return delivery.state == LATE or maybe_elsewhere(facts, delivery)


@rule("RDL-001", over=firsts, handles=KINDS)
def first_is_unmarked(facts: Facts, delivery: Delivery) -> Findings:
    """The first delivery of a message is not marked as a redelivery, and its delivery count is 1."""
    if delivery.send.event.forged or not _says_so(delivery):
        return  # RDL-015
    if _looks_first(delivery):
        yield held("unmarked", "its consumer was the first of all" if len(delivery.dest.sessions) == 1 else "")
    elif delivery.send.event.network:
        return  # somebody may have had it at the near broker, and ActiveMQ passes its count on
    elif not _had_before(facts, delivery):
        yield broken("marked", delivery, why="nobody else can have been given it before")


def forged(facts: Facts) -> list[Delivery]:
    """First deliveries of messages whose headers pretended a delivery count."""
    return [delivery for delivery in facts.rows(firsts) if delivery.send.event.forged > 1]


@rule("RDL-015", over=forged, handles=KINDS)
def count_cannot_be_forged(facts: Facts, delivery: Delivery) -> Findings:
    """Headers of a STOMP SEND cannot forge the delivery count."""
    if _had_before(facts, delivery) or not _says_so(delivery):
        return
    if _looks_first(delivery):
        yield held("ignored", f"to a {'STOMP' if delivery.event.delivery_count is None else 'JMS'} consumer")
    else:
        yield broken("believed", delivery, why=f"its headers pretended delivery count {delivery.send.event.forged}")


def delivered(facts: Facts) -> list[Copy]:
    """Copies on queues that arrived."""
    return [copy for copy in facts.copies if copy.deliveries and not copy.dest.topic]


def given_back(facts: Facts) -> list[Copy]:
    """Those that arrived more than once, or at a session that left them."""
    return [copy for copy in facts.rows(delivered) if len(copy.deliveries) > 1 or copy.deliveries[0].state == RETURNED]


@rule("RDL-002", over=given_back, handles=KINDS)
def unsettled_comes_back(facts: Facts, copy: Copy) -> Findings:
    """A message that its consumer did not settle before it left comes back to the queue, and if the application had
    been given it, its next delivery is marked.
    """
    last = len(copy.deliveries) - 1
    for place, delivery in enumerate(copy.deliveries):
        if place < last and not settled(facts, delivery):
            yield from _marked(facts, delivery, copy.deliveries[place + 1])
        if came_back(delivery):
            if place < last or copy.dead_letters:
                yield held("came-back", departure(delivery.session))
            elif missing(facts, copy):
                yield broken("lost", copy, delivery, delivery.session, why="it was never seen again")


def _marked(facts: Facts, first: Delivery, second: Delivery) -> Findings:
    """The delivery after one that the application saw is marked, if it was made after it and this broker marks
    anything: a mark does not survive a restart, nor a move; an expired-ack says that no application has seen it; a
    broker may answer a rejection with another delivery; a consumer of several queues tells the last message of one of
    them alone.
    """
    refused, session = first.settlement, first.session
    if first.consumed is None or not (at_home(first) and at_home(second)):
        return
    if isinstance(refused, Discard) or (isinstance(refused, Nack) and refused.result != "fail"):
        return
    left = session.end in {"", "close"} or not session.known  # or may have said goodbye
    if session.wild and left and session.traits.tells_given:
        return
    if (
        second.event.redelivered is None
        or second.session.lost_ns <= first.event.t1
        or facts.restarted(first.assigned[0], second.event.t1)
    ):
        return
    if second.event.redelivered:
        yield held("marked", departure(first.session))
    elif marks_departure(facts, session):
        yield broken("unmarked", first, first.session, second, why="its application had been given it")


@rule("RDL-003", over=delivered, handles=KINDS)
def settled_never_comes_again(facts: Facts, copy: Copy) -> Findings:
    """A message whose settlement the broker confirmed is never delivered again."""
    last = len(copy.deliveries) - 1
    for place, delivery in enumerate(copy.deliveries):
        if not settled(facts, delivery):
            continue
        if place == last:
            yield held("never-again", "redelivered before" if place else "")
            return
        again = resurrected(facts, delivery, place)
        if again is not None:
            settlement = delivery.settlement
            witness = (delivery, again) if settlement is None else (settlement, again)
            yield broken("redelivered", *witness, why="it was settled before")
            return


def resurrected(facts: Facts, delivery: Delivery, place: int) -> Delivery | None:
    """A delivery that can only have been made after this one, the ``place``-th of its copy, had been settled."""
    settlement = delivery.settlement
    taken_ns = settlement.t0 if settlement is not None else delivery.event.t1
    for later in delivery.copy.deliveries[place + 1 :]:
        if later.event.t1 > taken_ns and repeated(facts, delivery, later):
            return later
    return None


@rule("RDL-005", over=handovers, handles=but("selective", "redelivery", "repeated"))
def returned_come_first(facts: Facts, row: Handover) -> Findings:
    """Messages that come back from a consumer are delivered before the backlog, in their original order."""
    kinds = {delivery.send.event.persistent for delivery in row.one.deliveries}
    fair = not facts.paged
    if len(kinds) > 1 and not fair:
        return  # such brokers keep what is persistent and what is not in two places
    found = [delivery for delivery in row.one.deliveries if delivery.dest is row.dest and at_home(delivery)]
    # Of what it rejected, or was given again, nobody knows which place is the original one.
    times = Counter(one.send.message for one in found)
    again = {one.send.message for one in found if times[one.send.message] > 1 or _was_put_back(facts, one)}
    back = {one.send.message: one for one in found if one.send.message not in again and _is_back(facts, row, one)}
    ahead = None
    came: dict[tuple[int, bool], list[Delivery]] = {}  # priority, brought by a rollback -> what has come back
    for delivery in row.other.deliveries if back else ():
        if delivery.state == LATE or delivery.event.t1 >= row.until_ns:
            break
        if delivery.dest is not row.dest or not at_home(delivery):
            continue
        earlier = back.pop(delivery.send.message, None)  # once: it may be rejected, and come again
        if earlier is None:
            apart = delivery.send.event.persistent not in kinds and not fair
            backlog = not _was_pledged(delivery) and not _came_with_its_connection(facts, delivery)
            backlog = backlog and not _came_due(facts, row, delivery) and not _was_had_unseen(delivery)
            if ahead is None and not apart and delivery.send.message not in row.one.seen and backlog:
                ahead = delivery
            continue
        undone = earlier.rollbacks > 0
        if ahead is not None and not undone and ahead.send.event.priority <= delivery.send.event.priority:
            yield broken("behind", row.one, ahead, delivery, why=f"{row.one.name} had not been given the former")
            return
        before = came.setdefault((delivery.send.event.priority, undone), [])
        # What came last had the last place so far, unless places are in doubt.
        if any(_was_behind(facts, one, earlier) for one in (before if facts.delayed else before[-1:])):
            yield broken("reordered", earlier, delivery, why="what came back arrived in another order")
            return
        before.append(earlier)
    if overtaken := _overtaken(facts, row):
        yield broken("reordered", *overtaken, why="whatever came back, the latter was sent earlier")
    elif came:
        yield held("first-and-in-order", departure(row.one))


def _was_put_back(facts: Facts, delivery: Delivery) -> bool:
    """Whether its consumer may have rejected it, by itself or in a transaction that was not rolled back for certain."""
    rejected = [event.tx for event in delivery.settlements if isinstance(event, Nack)]
    return any(name is None or facts.transactions[name].committed is not False for name in rejected)


def _was_behind(facts: Facts, one: Delivery, other: Delivery) -> bool:
    """Whether the former had its place behind the latter: it was delivered later; and, where one of them was delayed by
    a broker that may give it the place of its send instead, it was sent later as well.
    """
    if facts.simulated or not (one.send.delayed or other.send.delayed):
        return one.place > other.place
    return one.place > other.place and one.send.event.t0 >= other.send.event.t1


def _is_back(facts: Facts, row: Handover, delivery: Delivery) -> bool:
    """Whether it waited again when the other session came: nobody had tried to settle it, or in transactions alone that
    had been rolled back.
    """
    if delivery.state != RETURNED or len(delivery.settlements) != delivery.rollbacks:
        return came_back(delivery)
    ends = [facts.transactions[event.tx or ""].end for event in delivery.settlements if not isinstance(event, Discard)]
    return all(isinstance(end, Abort) and end.t1 <= row.other.opened[0] for end in ends)


def _overtaken(facts: Facts, row: Handover) -> tuple[Delivery, Delivery] | None:
    """What one producer sent later and the other session got earlier; all of it waited when that came."""
    for before, delivery, overtaken in neighbours(facts, row.other, anew=True):
        if overtaken and delivery.dest is row.dest and delivery.event.t1 < row.until_ns and delivery.state != LATE:
            return before, delivery
    return None


def _came_with_its_connection(facts: Facts, delivery: Delivery) -> bool:
    """Whether it may have come back later than its consumer unsubscribed, with its connection (RabbitMQ): no protocol
    says when, and here nobody counts what is in flight.
    """
    if "counters" in facts.header.capabilities:
        return False
    earlier = [one for one in delivery.copy.deliveries if one.event.seq < delivery.event.seq]
    return any(one.session.end == "close" and came_back(one) for one in earlier)


def _came_due(facts: Facts, row: Handover, delivery: Delivery) -> bool:
    """Whether its delay ended after the first session had come: nobody says which place in the queue it has then, the
    end (ActiveMQ), the head (Artemis), or that of its send.
    """
    if not delivery.send.delayed:
        return False
    due = facts.delays.due(delivery.send)
    return due is None or due.visible[1] > row.one.opened[0]


def _was_had_unseen(delivery: Delivery) -> bool:
    """Whether it was on its way to somebody who left before reading it: then it came back, too, nobody saw when."""
    return delivery.copy.deliveries[0] is delivery and not _looks_first(delivery)


def _was_pledged(delivery: Delivery) -> bool:
    """Whether a transaction may have held it, whose end brings it back whenever that is."""
    return any(getattr(one.settlement, "tx", None) for one in delivery.copy.deliveries)
