"""Expiry as counters and advisories tell of it: nothing counted too early, nothing left behind by the sweep, each death
once. What a reading may and must say: ``facts/expiries.py``.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import groupby, pairwise
from typing import Final

from brokerproof.conformance.experiment.destinations import expiries_of
from brokerproof.conformance.experiment.history import Arrive, Counters
from brokerproof.conformance.facts import marks
from brokerproof.conformance.facts.absence import ended
from brokerproof.conformance.facts.deaths import given_up, otherwise_dead
from brokerproof.conformance.facts.deliveries import repeated
from brokerproof.conformance.facts.expiration import Death, alive, may_die, surely_expired
from brokerproof.conformance.facts.expiries import Expiries
from brokerproof.conformance.facts.facts import Facts
from brokerproof.conformance.facts.marks import KINDS
from brokerproof.conformance.facts.presence import gone_ns
from brokerproof.conformance.facts.rows import SETTLED, Copy, Delivery, Destination, Reading, Send, Session
from brokerproof.conformance.facts.spans import NEVER, NS_PER_MS
from brokerproof.conformance.rules.expiry import CLOCKS, mortal_copies, unread
from brokerproof.conformance.rules.rule import Findings, broken, held, rule, unsure

STEPPED_FORWARD = "the broker's clock had stepped forward before"
STEPPED_BACK = "the broker's clock had stepped back before"
#: What an advisory is charged at most, with all that describes the message.
ADVISORY_BYTES: Final = 16 * 1024
#: How many arrivals of a consumer are looked at.
LOOK_AHEAD = 16


def topic_figures(facts: Facts) -> list[tuple[Reading, int]]:
    """What counters say of expiries on topics of which it is known who subscribes, and the most that they can say: each
    publication dies once for each subscription, or once for all of them when it comes.
    """
    if facts.beyond or any(session.wild for session in facts.sessions.values()):
        return []
    fanned = [send for send in facts.sends.values() if send.dest.kind not in {"queue", "topic"}]
    found: list[tuple[Reading, int]] = []
    for dest in facts.destinations.values():
        readings = [reading for reading in dest.readings if reading.event.expired is not None]
        sends = [*dest.sends, *fanned] if dest.kind == "topic" and not dest.virtual and readings else []
        dying = [send for send in sends if _can_be_counted(facts, send)]
        if not sends or any(send.event.again for send in dying):
            continue
        begun, times = sorted(send.event.t0 for send in dying), max(1, len(dest.subscriptions))
        found += [(reading, times * bisect_right(begun, reading.event.t1)) for reading in readings]
    return found


def _can_be_counted(facts: Facts, send: Send) -> bool:
    return may_die(facts, send) or any(copy.called_expired for copy in send.copies.values())


def living(facts: Facts) -> list[Copy | Expiries | tuple[Reading, int]]:
    """Copies that die, and what counters say of them."""
    return [*facts.rows(mortal_copies), *facts.expiries, *facts.rows(topic_figures)]


@rule("EXP-003", over=living, handles=KINDS, faults=CLOCKS, absence=True)
def alive_until_its_expiration(facts: Facts, row: Copy | Expiries | tuple[Reading, int]) -> Findings:
    """A message is alive while the broker's clock is not greater than its expiration: until then it is neither found
    among the dead letters nor counted as expired.
    """
    if isinstance(row, Expiries):
        yield from _counted_early(row)
        return
    if isinstance(row, tuple):
        yield from _more_than(*row)
        return
    death, clock = facts.death(row.send), facts.broker_clock
    if death is None:
        yield unread(facts, row.send)
        return
    for delivery in row.deliveries:
        event = delivery.event
        wall_ms = clock.bounds_ms(event.t0, event.t1, event.seq, event.seq)
        if death.low_ns == death.high_ns and wall_ms == (death.low_ms, death.low_ms):
            yield held(
                "alive-till-then", "a message was delivered in the very millisecond of its expiration", slack_ns=0
            )
    if row.dead_letters and not otherwise_dead(facts, row, death):
        yield from _found_early(facts, row, death)


def _found_early(facts: Facts, copy: Copy, death: Death) -> Findings:
    sent, letter, clock = copy.send.event, copy.dead_letters[0].event, facts.broker_clock
    ahead = _passed_over(facts, copy, death)
    if ahead is not None:
        why = "passed over while it lived by one that was sent after it, at the only consumer"
        yield broken("too-early", copy, ahead, copy.dead_letters[0], why=why)
        return
    high_ns = clock.bounds_ns(sent.t0, letter.t1, sent.seq, letter.seq)[1]
    found_ns = clock.bounds_ns(letter.t1, letter.t1, letter.seq, letter.seq)[0]
    jump_ms = clock.jump_between(sent.t0, letter.t1)
    if high_ns < death.low_ns:
        why = f"from its send on the broker's clock had not read more than {high_ns // NS_PER_MS}"
        yield broken("too-early", copy, copy.dead_letters[0], why=why, slack_ns=high_ns - death.low_ns)
    elif found_ns >= death.high_ns or (jump_ms < 0 and high_ns >= death.high_ns):
        way = "forward" if jump_ms > 0 else "back"
        stepped = f"the broker's clock stepped {way} while a message was waiting"
        yield held("alive-till-then", stepped if jump_ms else death.skew, slack_ns=high_ns - death.high_ns)
    elif death.low_ns == death.high_ns:
        why = "it was found about when it expired by the broker's clock"
        yield unsure(copy, copy.dead_letters[0], why=why, width_ns=death.high_ns - found_ns)


def _passed_over(facts: Facts, copy: Copy, death: Death) -> Delivery | None:
    """What shows that a copy, which nobody received, was gone while it lived: a queue is first in, first out, so it
    would have been assigned first, and over the same link.
    """
    send, dest = copy.send, copy.dest
    sent = send.event
    barred = marks.CHOOSING | marks.WILDCARD | marks.MEMORY | marks.LIMIT | marks.REDELIVERY
    if copy.deliveries or not send.confirmed or sent.tx is not None or dest.topic or copy.marks & barred:
        return None
    for session in dest.sessions:
        first = bisect_right(session.deliveries, send.accepted[1], key=lambda delivery: delivery.event.t1)
        for delivery in session.deliveries[first : first + LOOK_AHEAD]:
            if not alive(facts, death, sent.t0, delivery.event.t1, sent.seq, delivery.event.seq):
                break
            if _comes_after(copy, delivery) and _served_alone(facts, session, delivery):
                return delivery
    return None


def _comes_after(copy: Copy, delivery: Delivery) -> bool:
    one, other = copy.send.event, delivery.send.event
    alike = (one.host, one.persistent, one.priority) == (other.host, other.persistent, other.priority)
    waits = one.delay_ms or other.delay_ms or one.deliver_at_ms or other.deliver_at_ms
    again = delivery.event.redelivered is not False or delivery.copy.deliveries[0] is not delivery
    return alike and other.t0 >= one.t1 and not waits and not again and delivery.dest is copy.dest


def _served_alone(facts: Facts, session: Session, delivery: Delivery) -> bool:
    """Nobody but this consumer can have been given anything that waited when it came."""
    return all(
        one is session
        or (gone_ns(facts, one) <= session.opened[0] and not one.uncertain)
        or one.opened[0] > delivery.event.t1
        for one in delivery.dest.sessions
    )


def _counted_early(one: Expiries) -> Findings:
    event = one.reading.event
    if (event.expired or 0) > one.most:
        why = f"at most {one.most} of its messages can have been dead by the broker's clock"
        yield broken("too-early", one.reading, why=why)
    elif event.expired:
        yield held("alive-till-then", "the broker counted expired messages")
    lacking = one.lived - (event.enqueued if event.enqueued is not None else one.lived)
    if 0 < lacking <= one.suspects and one.suspect is not None:
        why = f"{lacking} of {one.suspects} that nobody received were taken for dead when they came: {one.lived} lived"
        yield broken("too-early", one.suspect, one.reading, why=why)


def _more_than(reading: Reading, most: int) -> Findings:
    if (reading.event.expired or 0) > most:
        yield broken("too-early", reading, why=f"its messages can have died {most} times by the broker's clock at most")
    elif reading.event.expired:
        yield held("alive-till-then", "the broker counted expired messages")


def counted(facts: Facts) -> list[Expiries]:
    """What counters say of expiries."""
    return facts.expiries


@rule("EXP-009", over=counted, handles=KINDS, faults=CLOCKS, absence=True)
def the_sweep_leaves_nothing_behind(facts: Facts, one: Expiries) -> Findings:
    """Expired messages that wait on a queue leave it within the period of the sweep, without any consumer."""
    event, first = one.reading.event, one.first_due
    if first is None:
        return
    why = f"{one.due} of its messages had waited dead for longer than a period of the sweep"
    if (event.expired or 0) < one.due:
        yield broken("left-behind", first, one.reading, why=why)
    elif event.size is not None and event.size > one.left:
        yield broken("left-behind", first, one.reading, why=f"{why}, so that no more than {one.left} can be left")
    else:
        back = facts.broker_clock.jump_between(0, event.t0) < 0
        yield held("swept", STEPPED_BACK if back else "nobody fetched them")


@rule("EXP-021", over=counted, handles=KINDS, faults=CLOCKS, absence=True)
def the_sweep_goes_on(facts: Facts, one: Expiries) -> Findings:
    """A step of the broker's wall clock, forward or back, does not stop the sweep."""
    event, first = one.reading.event, one.first_due
    jump_ms = facts.broker_clock.jump_between(0, event.t0)
    if first is None or not jump_ms:
        return
    if (event.expired or 0) >= one.due:
        yield held("goes-on", STEPPED_FORWARD if jump_ms > 0 else STEPPED_BACK)
    else:
        why = f"{one.due} messages had waited dead for longer than a period of the sweep after a step of {jump_ms} ms"
        yield broken("stopped", first, one.reading, why=why)


def idle(facts: Facts) -> list[tuple[Counters, Counters]]:
    """The first and the last of several readings of a queue at rest between which nothing happened but time."""
    found: list[tuple[Counters, Counters]] = []
    for dest in facts.destinations.values():
        rests = [reading for reading in dest.readings if reading.at_rest and reading.event.expired is not None]
        if dest.topic or dest.kind == "dead-letters" or len(rests) < 2:
            continue
        if _waits(dest, rests) or _is_awaited(facts, dest):
            continue
        for _, group in groupby(rests, key=lambda reading: reading.moved_seq):
            readings = [reading.event for reading in group]
            if not facts.simulated:  # a timer may act while counters are read
                readings = [one for one, other in pairwise(readings) if _counters(one) == _counters(other)]
            if len(readings) > 1 and not readings[0].scheduled and not readings[-1].scheduled:
                found.append((readings[0], readings[-1]))
    return found


def _is_awaited(facts: Facts, dest: Destination) -> bool:
    """Whether a message of unknown result may still wait for room, and come when some dies."""
    topic = facts.destinations.get(dest.virtual) if dest.virtual else None
    sends = (*dest.sends, *(topic.sends if topic is not None else ()))
    return any(send.event.result == "unknown" for send in sends)


def _waits(dest: Destination, rests: list[Reading]) -> bool:
    """Whether messages may be due of which the readings do not tell."""
    untold = any(reading.event.scheduled is None for reading in rests)
    return untold and any(send.event.delay_ms > 0 or send.event.deliver_at_ms is not None for send in dest.sends)


def _counters(event: Counters) -> tuple[int | None, ...]:
    return event.expired, event.dequeued, event.enqueued, event.size, event.in_flight, event.scheduled


@rule("EXP-013", over=idle)
def one_expiry_moves_all_counters(_facts: Facts, rests: tuple[Counters, Counters]) -> Findings:
    """One expiry moves a queue's counters by expired +1, dequeued +1, size -1 and in-flight 0."""
    one, other = rests
    died = (other.expired or 0) - (one.expired or 0)
    if died <= 0:
        return
    for name, wanted in (("dequeued", died), ("size", -died), ("in_flight", 0), ("enqueued", 0)):
        before, after = getattr(one, name), getattr(other, name)
        if before is not None and after is not None and after - before != wanted:
            why = f"{died} messages expired, and nothing else happened; {name} went from {before} to {after}"
            yield broken("unbalanced", one, other, why=why)
            return
    yield held("balanced", "nothing happened but time")


def counted_or_found(facts: Facts) -> list[Expiries | Copy]:
    """What counters say of expiries, and copies that were found dead more than once."""
    rests = [one for one in facts.expiries if one.reading.at_rest]
    return [*rests, *(copy for copy in facts.rows(mortal_copies) if len(copy.dead_letters) > 1)]


@rule("EXP-014", over=counted_or_found, handles=KINDS, absence=True)
def each_death_is_counted_once(facts: Facts, row: Expiries | Copy) -> Findings:
    """Concurrent sweep, dispatch and expired-acks give exactly one expired count and at most one dead letter per
    message.
    """
    if isinstance(row, Copy):
        for one, other in pairwise(row.dead_letters):
            if not row.dest.topic and not given_up(row) and repeated(facts, one, other):
                yield broken("two-dead-letters", row, one, other, why="it expired once")
                return
        return
    expired = row.reading.event.expired or 0
    if expired > row.most - row.settled:
        why = f"no more than {row.most - row.settled} of its messages can have expired"
        yield broken("counted-again", row.reading, why=why)
    elif row.witness is not None and ended(facts):
        if expired < row.least:
            why = f"{row.least} of its messages have dead letters because they expired there"
            yield broken("uncounted", row.reading, row.witness, why=why)
        else:
            told = any(copy.discards() for copy in row.witness.dest.copies)
            yield held("once", "a client had seen it expire" if told else "the broker found it")


def outlived(facts: Facts) -> list[Expiries | Delivery]:
    """What counters say of expiries, and deliveries to consumers whose library does not check."""
    found: list[Expiries | Delivery] = [one for one in facts.expiries if one.reading.at_rest]
    for copy in facts.rows(mortal_copies):
        for delivery in copy.deliveries:
            traits = delivery.session.traits
            if traits.known and not traits.checks_expiry and delivery.session.ack != "auto":
                found.append(delivery)
    return found


@rule("EXP-016", over=outlived, handles=KINDS)
def what_is_in_flight_is_not_taken_away(facts: Facts, row: Expiries | Delivery) -> Findings:
    """Consumers whose library does not check receive messages that expired after they were dispatched."""
    if isinstance(row, Delivery):
        settlement = row.settlement
        late_ns = settlement.t0 if settlement is not None else row.event.t1
        settled_late = row.consumed is not None and row.state == SETTLED
        if settled_late and surely_expired(facts, row.event.expiration_ms, late_ns, late_ns):
            yield held("received", "it was settled after it had expired")
        return
    most = row.most - row.settled
    if most - row.held < (row.reading.event.expired or 0) <= most:
        why = f"of the {most} messages that can have expired, {row.held} were with consumers that do not check"
        yield broken("taken-away", row.reading, why=why)


class Listener:
    """Who was told of a queue's expiries, from before anything was sent there."""

    def __init__(self, session: Session, dest: Destination) -> None:
        self.session = session
        self.dest = dest
        self.told: list[Arrive] = []


def listeners(facts: Facts) -> list[Listener]:
    """All listeners, and what they were told."""
    found: dict[str, Listener] = {}
    for dest in facts.destinations.values():
        heard = dest.sends and (not dest.topic or _has_one_backlog(dest))
        topic = facts.destinations.get(expiries_of(dest.name, topic=dest.topic)) if heard else None
        for session in topic.sessions if topic is not None else ():
            early = session.opened[1] <= min(s.event.t0 for s in dest.sends)
            if session.known and session.ack == "auto" and early and not session.selective:
                found[session.name] = Listener(session, dest)
    for advisory in facts.advisories if found else ():
        if advisory.consumer in found and not advisory.message:  # anybody may send there, too
            found[advisory.consumer].told.append(advisory)
    return list(found.values())


def _has_one_backlog(dest: Destination) -> bool:
    """Whether what is sent to a topic can die only once: in the backlog of the one subscription, a durable one."""
    return dest.kind == "topic" and len(dest.subscriptions) == 1 and bool(dest.subscriptions[0].durable)


@rule("EXP-020", over=listeners, handles=KINDS)
def expiries_are_told(facts: Facts, row: Listener) -> Findings:
    """An advisory with the original message id is published for every expiry."""
    dest, told = row.dest, row.told
    if not told and not dest.applied.entry.advisories:
        return  # nobody has promised any
    named: dict[str, Arrive] = {}
    for advisory in told:
        name = advisory.original_id or ""
        if not name or name in named:
            why = "an earlier one names the same message" if name else "it names no message"
            yield broken("nameless", *([named[name]] if name else []), advisory, why=why)
            return
        named[name] = advisory
    before = [reading for reading in dest.readings if reading.at_rest and _was_there(row.session, reading)]
    excuses = marks.MEMORY | marks.LIMIT | marks.OPERATOR | marks.RESTART
    silent = dest.applied.found and not dest.applied.entry.advisories
    if not before or silent or facts.marks.on(dest.name, before[-1].span) & excuses:
        return
    expired = before[-1].event.expired or 0
    heard = sum(advisory.seq < before[-1].event.seq for advisory in told)
    mortal = sum(not send.refused and (may_die(facts, send) or _was_called_expired(send)) for send in dest.sends)
    window, room_bytes = row.session.prefetch, row.session.dest.applied.entry.memory_limit_bytes or NEVER
    if row.session.traits.settles_on_write:
        window = room_bytes = NEVER
    if heard < expired and expired > min(window, room_bytes // ADVISORY_BYTES):
        return  # it may have to take some first
    if heard < expired or len(told) > mortal:
        why = f"it had got {heard} advisories then and {len(told)} in all, of {mortal} that can be"
        yield broken("incomplete", row.session, before[-1], why=why)
    elif heard:
        yield held("told", "several expired" if heard > 1 else "one expired")


def _was_called_expired(send: Send) -> bool:
    return any(copy.called_expired for copy in send.copies.values())


def _was_there(session: Session, reading: Reading) -> bool:
    """Whether its connection had been well from its coming to a reading."""
    client, span = session.client, (session.opened[0], reading.event.t1)
    broken_off = any(span[0] <= event.t1 and event.t0 <= span[1] for event in (*client.ends, *client.closes))
    return session.lost_ns > span[1] and not broken_off and not client.stalled(*span)
