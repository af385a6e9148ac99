"""What a broker that was restarted still knows (GEN-007, GEN-080 to GEN-082, GEN-087)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import NamedTuple

from brokerproof.conformance.experiment.history import Ack, Counters, Event, Fault, Kill, Start
from brokerproof.conformance.facts import marks
from brokerproof.conformance.facts.absence import ended, missing
from brokerproof.conformance.facts.deliveries import settled
from brokerproof.conformance.facts.facts import Facts
from brokerproof.conformance.facts.managed import is_queue_manager
from brokerproof.conformance.facts.marks import KINDS
from brokerproof.conformance.facts.presence import rest_after
from brokerproof.conformance.facts.publishing import taken
from brokerproof.conformance.facts.rows import SETTLED, Copy, Delivery, Destination, Reading, Session
from brokerproof.conformance.facts.spans import NEVER, t0_of, t1_of
from brokerproof.conformance.rules.rule import Finding, Findings, broken, held, rule
from brokerproof.conformance.rules.selecting import queue_copies

#: Whatever an operator, the broker itself or a choosy consumer has a hand in has an order of its own.
BLIND = marks.OPERATOR | marks.CHOOSING | marks.REDELIVERY | marks.REPEATED


def down_after(facts: Facts, true_ns: int) -> Event | None:
    """The first time that the broker went down at or after an instant."""
    later = facts.restarts[bisect_left(facts.restarts, true_ns, key=t0_of) :]
    return next((event for event in later if not isinstance(event, Start)), None)


def is_kill(down: Event) -> bool:
    return isinstance(down, Kill) or (isinstance(down, Fault) and down.how == "kill")


def persistent(facts: Facts) -> list[Copy]:
    """Persistent copies on queues that were sent before the broker's last restart."""
    if not facts.restarts:
        return []
    last_ns = facts.restarts[-1].t0
    copies = [copy for copy in facts.rows(queue_copies) if copy.send.event.persistent and not copy.send.refused]
    return [copy for copy in copies if copy.send.event.t0 <= last_ns and not copy.marks & marks.REPEATED]


@rule("GEN-080", over=persistent, handles=KINDS, faults=("restart",), absence=True)
def confirmed_survives(facts: Facts, copy: Copy) -> Findings:
    """A persistent message whose sending was confirmed survives a restart of the broker, also after a kill at any
    instant.
    """
    down = down_after(facts, copy.send.accepted[1]) if copy.send.confirmed else None
    if down is None:
        return
    if missing(facts, copy):
        yield broken("lost", copy, down, why="nobody has seen it since")
    elif ended(facts) and (copy.deliveries or copy.dead_letters):
        waiting = all(delivery.event.t0 > down.t0 for delivery in copy.deliveries)
        how = "killed" if is_kill(down) else "stopped"
        yield held("survived", f"{how} while it was waiting" if waiting else f"{how} after it had been delivered")


@rule("GEN-081", over=persistent, handles=KINDS, faults=("restart",))
def settled_stays_away(facts: Facts, copy: Copy) -> Findings:
    """A message whose acknowledgement was confirmed does not come back after a restart of the broker."""
    return stays_away(facts, copy)


def stays_away(facts: Facts, copy: Copy) -> Findings:
    """The same for a copy of any kind."""
    for place, delivery in enumerate(copy.deliveries):
        down = _down_knowing(facts, delivery)
        if down is None:
            continue
        for later in copy.deliveries[place + 1 :]:
            if later.dest is delivery.dest and later.session.opened[0] >= down.t0:
                yield broken("came-back", delivery, *delivery.settlements, down, later)
                return
        if ended(facts):
            yield held("stays-away", f"the broker was {'killed' if is_kill(down) else 'stopped'}")


def _down_knowing(facts: Facts, delivery: Delivery) -> Event | None:
    """The first time that the broker went down after it had confirmed the acknowledgement; None: nobody knows of one.
    Our own has written down what it was told when nothing moves any more, confirmed or not. Another that confirms none
    has been told once its figures say that no more is there than what came later; a stop leaves it the time to write
    that down.
    """
    settlement = delivery.settlement
    if not isinstance(settlement, Ack) or settlement.result != "ok" or delivery.state != SETTLED:
        return None
    confirmed = delivery.session.traits.awaits_receipt
    if not (confirmed or facts.simulated or settlement.tx is not None):
        return _stop_after_counting(facts, delivery, settlement)
    if not settled(facts, delivery):
        return None
    if settlement.tx is not None:
        transaction = facts.transactions[settlement.tx]
        return down_after(facts, transaction.end.t1) if transaction.committed and transaction.end is not None else None
    return down_after(facts, settlement.t1 if confirmed else rest_after(facts, settlement.t1))


def _stop_after_counting(facts: Facts, delivery: Delivery, settlement: Ack) -> Event | None:
    rests = [one.event for one in delivery.dest.readings if one.event.at_rest and one.event.seq > settlement.seq]
    gone = next((one for one in rests if _is_counted_out(delivery, one)), None)
    down = None if gone is None else down_after(facts, gone.t1)
    return None if down is None or is_kill(down) else down


def _is_counted_out(delivery: Delivery, reading: Counters) -> bool:
    """Whether a broker shows no more messages than others that were there then for certain, for they came later."""
    if reading.size is None or reading.in_flight is None or reading.scheduled:
        return False
    others = [copy for copy in delivery.dest.copies if copy is not delivery.copy and copy.send.accepted[1] < reading.t0]
    waited = [copy for copy in others if copy.deliveries and copy.deliveries[-1].event.t0 > reading.t1]
    before = [[one for one in copy.deliveries if one.event.t0 <= reading.t1] for copy in waited]
    there = sum(not any(one.settlements or one.session.auto for one in found) for found in before)
    return reading.size + reading.in_flight <= there


def all_persistent(facts: Facts) -> list[list[Copy]]:
    """The same, as one row; but for what commands to a queue manager may have kept away."""
    return [[copy for copy in facts.rows(persistent) if not copy.marks & marks.MQSC]]


@rule("GEN-007", over=all_persistent, faults=("restart",))
def both_halves(facts: Facts, copies: list[Copy]) -> Findings:
    """Persistent messages survive a restart of the broker, settled ones do not come back."""
    survived: list[Finding] = []
    settled_once = False
    for copy in copies:
        stays = list(settled_stays_away(facts, copy))
        survives = list(confirmed_survives(facts, copy))
        survived += [finding for finding in survives if finding.holds]
        settled_once = settled_once or any(finding.holds for finding in stays)
        yield from (finding for finding in (*survives, *stays) if not finding.holds)
    if settled_once:
        for situation in dict.fromkeys(finding.situation for finding in survived):
            yield held("remembered", situation)


def returned(facts: Facts) -> list[Session]:
    """Consumers of queues that came after a restart."""
    first_ns = facts.restarts[0].t1 if facts.restarts else NEVER
    sessions = [s for s in facts.sessions.values() if len(s.deliveries) > 1 and s.opened[0] >= first_ns]
    return [s for s in sessions if not s.dest.topic and not s.wild and s.dest.kind != "dead-letters"]


@rule("GEN-082", over=returned, handles=KINDS, faults=("restart",))
def waiting_in_order(facts: Facts, session: Session) -> Findings:
    """Messages that were waiting when the broker was restarted are delivered in their order."""
    down = facts.restarts[bisect_right(facts.restarts, session.opened[0], key=t1_of) - 1]
    newest: dict[tuple[object, ...], Delivery] = {}
    for delivery in session.deliveries:
        send, event, copy = delivery.send, delivery.send.event, delivery.copy
        if not taken(send) or not event.persistent or event.delay_ms or event.deliver_at_ms is not None:
            continue
        if send.accepted[1] > down.t0 or delivery.dest is not copy.dest or copy.deliveries[0] is not delivery:
            continue
        key = (event.host, event.priority, event.group)
        before = newest.get(key)
        if before is None or before.send.accepted[0] <= send.accepted[0]:
            newest[key] = delivery
            if before is not None:
                yield held("in-order", "both were waiting")
        elif send.accepted[1] <= before.send.accepted[0] and not (copy.marks | before.copy.marks) & BLIND:
            since = [other for other in session.dest.sessions if other is not session and other.opened[0] >= down.t0]
            if not any(other.opened[0] <= delivery.event.t1 for other in since):
                yield broken("overtaken", send, before.send, down, before, delivery)
                return


class Emptied(NamedTuple):
    """A queue of which nothing was left before the broker went down, and that was read again when it was back."""

    before: Reading
    downs: list[Event]
    after: Reading


def emptied(facts: Facts) -> list[Emptied]:
    """All of them, where nobody sent anything in between, and no timer had anything left. A real broker that is killed
    may lose the last that it was told, and one that reads pages may have purged less than it showed.
    """
    if not facts.restarts or facts.beyond or is_queue_manager(facts):
        return []
    found: list[Emptied] = []
    for dest in facts.destinations.values():
        if dest.kind == "queue" and not dest.virtual and not _is_fed(dest):
            found += [row for row in _around(facts, dest) if _is_quiet(facts, row)]
    if facts.simulated:
        return [row for row in found if facts.declared.generation.get("purge") != "zeroed"]
    stopped = [row for row in found if not any(map(is_kill, row.downs))]
    return [row for row in stopped if all(one.op == "move" for one in row.before.destination.purges)]


def _is_fed(dest: Destination) -> bool:
    """Whether messages may come there that nobody sends."""
    again = dest.applied.entry.redelivery is not None and any(copy.rejected for copy in dest.copies)
    return again or dest.epoch.fed


def _around(facts: Facts, dest: Destination) -> list[Emptied]:
    """Readings at rest of a queue, the last before the broker went down and the first after it. Our own broker has no
    queue again of which nothing is left.
    """
    found: list[Emptied] = []
    before: Reading | None = None
    for reading in dest.readings:
        told = reading.event.size is not None
        if not reading.at_rest or not (told or facts.simulated):
            continue
        if before is not None and before.restarts < reading.restarts:
            found.append(Emptied(before, facts.restarts[before.restarts : reading.restarts], reading))
        before = reading if told else None
    return found


def _is_quiet(facts: Facts, row: Emptied) -> bool:
    event, began, end_ns = row.before.event, row.before.event.t0, row.after.event.t1
    if event.size or event.in_flight or event.scheduled or row.before.uncommitted or row.before.unsure:
        return False
    if row.before.ledger.pledged or (row.before.timed and event.scheduled is None):
        return False
    if any(one.t1 >= began and one.t0 <= end_ns for one in facts.operations):
        return False
    sends = (one for one in facts.sends.values() if not one.refused and one.event.t0 <= end_ns)
    return not any(one.accepted[1] >= began or one.event.again for one in sends)


@rule("GEN-087", over=emptied, handles=KINDS, faults=("restart",))
def nothing_comes_from_nowhere(facts: Facts, row: Emptied) -> Findings:
    """A queue that statistics showed empty, and that nobody has sent to since, is empty after a restart of the
    broker.
    """
    event = row.after.event
    there = event.size or event.scheduled
    if there or (facts.simulated and event.enqueued):  # what our own broker has restored counts as enqueued
        why = f"{there or event.enqueued} messages are there" + ("" if there else ", or were restored")
        yield broken("came-back", row.before, *row.downs, row.after, why=why)
    elif any(send.event.persistent for send in row.before.destination.sends):
        yield held("empty", f"the broker was {'killed' if any(map(is_kill, row.downs)) else 'stopped'}")
