"""Dead letters: who gets one, where, once, and what it says (RDL-004, -006, -017, -018, -021, -022, -030)."""

from __future__ import annotations

from itertools import pairwise

from brokerproof.conformance.experiment.destinations import DEAD_LETTERS
from brokerproof.conformance.experiment.history import Discard, Nack
from brokerproof.conformance.facts.absence import absent, drained
from brokerproof.conformance.facts.dead_letters import (
    collected,
    is_told,
    lacks_origin,
    letter_collected,
    maybe_rejected,
    names_another,
    owed,
    rejected_during,
    rejection,
    surely_expired_there,
)
from brokerproof.conformance.facts.deaths import may_come_twice
from brokerproof.conformance.facts.deliveries import moves, repeated
from brokerproof.conformance.facts.expiration import maybe_expired, maybe_timed_out
from brokerproof.conformance.facts.facts import Facts
from brokerproof.conformance.facts.marks import KINDS
from brokerproof.conformance.facts.policy import gets_expiration
from brokerproof.conformance.facts.publishing import owed as surely_there
from brokerproof.conformance.facts.rows import Copy, Delivery, Destination, Reading, Send, Session, Transaction
from brokerproof.conformance.facts.selectors import surely_wants
from brokerproof.conformance.facts.settling import failures, rejections
from brokerproof.conformance.facts.spans import NEVER, Span
from brokerproof.conformance.rules.redelivery import resurrected
from brokerproof.conformance.rules.rule import Findings, broken, held, rule, unsure
from brokerproof.conformance.rules.topics import is_steady, limited


def _leaves_letters(copy: Copy) -> bool:
    """Whether a rejection of it makes a dead letter: a subscription that is not durable makes none."""
    return not copy.dest.topic or (copy.subscription is not None and copy.subscription.durable != "")


def rejected(facts: Facts) -> list[Copy | Reading]:
    """Copies on queues and of durable subscriptions that somebody tried to reject, and readings at rest that must count
    dead letters of some.
    """
    found: list[Copy | Reading] = [copy for copy in facts.copies if copy.rejected and _leaves_letters(copy)]
    for reading in facts.destination(DEAD_LETTERS).readings if found else ():
        if reading.at_rest and reading.rejected and reading.event.size is not None:
            found += [reading]
    return found


@rule("RDL-004", over=rejected, handles=KINDS)
def rejected_is_dead_lettered(facts: Facts, row: Copy | Reading) -> Findings:
    """A rejected message (NACK, poison) is moved to the dead-letter queue at once, as one copy that never expires and
    names its origin, and is not delivered again.
    """
    if isinstance(row, Reading):
        yield from _counted(row)
        return
    twice = None if row.dest.topic else _twice(facts, row)
    if twice is not None and any(isinstance(one.settlement, Nack) for one in row.deliveries):
        yield broken("twice", *twice)
    found = rejection(facts, row)
    if found is None:
        return
    delivery, nack = found
    again = resurrected(facts, delivery, row.deliveries.index(delivery))
    if again is not None:
        yield broken("redelivered", nack, again)
    if not row.dest.applied.is_shared():
        return
    copies = row.send.copies.values() if row.dest.topic else (row,)  # nobody knows whose letter one of a topic is
    letters = [letter for copy in copies for letter in copy.dead_letters if letter.dest.name == DEAD_LETTERS]
    span = rejected_during(facts, nack)
    if not letters:
        if _is_kept(row) and owed(facts, row, span[1]) and collected(facts, row, DEAD_LETTERS, span):
            yield broken("no-dead-letter", delivery, nack)
    elif letters[0].event.expiration_ms > 0 and not gets_expiration(facts.declared):
        yield broken("expires", nack, letters[0])
    elif is_told(letters[0]) and names_another(letters[0]):
        yield broken("wrong-origin", delivery, nack, letters[0])
    elif is_told(letters[0]) and lacks_origin(facts, letters[0]):
        yield broken("wrong-origin", delivery, nack, letters[0], why="it does not say where it comes from")
    else:
        mortal = row.send.mortal
        yield held("dead-lettered", "the rejected message had an expiration" if mortal else "it never expires")


def transactions_that_reject(facts: Facts) -> list[Transaction]:
    """Transactions in which something on a queue was rejected, and whose end is known."""
    found = [one for one in facts.transactions.values() if one.committed is not None]
    return [one for one in found if any(not delivery.dest.topic for delivery, _ in rejections(one))]


@rule("RDL-030", over=transactions_that_reject, handles=KINDS)
def rejected_by_the_commit(facts: Facts, transaction: Transaction) -> Findings:
    """A rejection in a transaction takes effect at its commit, and not at all if it is rolled back."""
    end = transaction.end if transaction.committed else None
    undone = "rolled back" if transaction.lost is None else "its connection was lost"
    for delivery, nack in rejections(transaction):
        copy = delivery.copy
        if delivery.dest.topic or delivery.is_dead_letter or moves(copy) or len(copy.send.copies) > 1:
            continue
        early = [one for one in copy.dead_letters if end is None or one.event.t1 < end.t0]
        if early and _died_of(facts, copy, transaction):
            yield broken("too-early" if end is not None else "buried", delivery, nack, transaction, early[0])
            return
        again = None if end is None else resurrected(facts, delivery, copy.deliveries.index(delivery))
        if again is not None:
            yield broken("not-rejected", delivery, nack, transaction, again)
            return
        back = end is None or "requeue" in facts.header.capabilities
        if back and delivery.is_latest() and absent(facts, copy):
            yield broken("lost", delivery, nack, transaction)
            return
        if end is None and not copy.dead_letters:
            yield held("kept", undone)
        elif end is not None and (copy.dead_letters or not delivery.is_latest()):
            yield held("rejected", "committed")


def _died_of(facts: Facts, copy: Copy, transaction: Transaction) -> bool:
    """Whether nothing but that transaction can have made a dead letter of a copy."""
    if facts.redeliveries_max < failures(copy) or may_come_twice(facts, copy):
        return False
    settlements = [event for delivery in copy.deliveries for event in delivery.settlements]
    others = [one for one in settlements if isinstance(one, Nack) and one.tx != transaction.name]
    if others or any(isinstance(one, Discard) for one in settlements) or (copy.rejected and not transaction.committed):
        return False
    return not maybe_timed_out(facts, copy, facts.end_ns)


def _counted(reading: Reading) -> Findings:
    """The dead letters are there at rest."""
    dest = reading.dest
    assert dest is not None
    if dest.purges or any(session.ack == "auto" and session.end for session in dest.sessions):
        yield unsure(reading, why="some may have been taken, unseen")
    elif (reading.event.size or 0) < reading.rejected:
        yield broken("late", reading, why=f"{reading.rejected} rejected messages are dead letters that nobody took yet")
    else:
        yield held("dead-lettered", "counted at rest")


def dead_lettered(facts: Facts) -> list[Copy]:
    """Copies on queues of which dead letters arrived."""
    return [copy for copy in facts.copies if copy.dead_letters and not copy.dest.topic]


@rule("RDL-006", over=dead_lettered, handles=KINDS)
def dead_lettered_once(facts: Facts, copy: Copy) -> Findings:
    """A message is dead-lettered at most once."""
    twice = _twice(facts, copy)
    if twice is not None:
        yield broken("twice", copy, *twice, why="one dead letter cannot have made both")
    else:
        yield held("once", "after a rejection" if copy.rejected else "without a rejection")


def _twice(facts: Facts, copy: Copy) -> tuple[Delivery, Delivery] | None:
    """Two arrivals on a dead-letter queue that no single letter can have made; one that is rejected there may die once
    more.
    """
    for first, second in pairwise(copy.dead_letters):
        once_more = first.dest is second.dest and not isinstance(first.settlement, Nack) and is_told(first)
        if once_more and repeated(facts, first, second):
            return first, second
    return None


# -- strategies


def unshared(facts: Facts) -> list[Copy]:
    """Copies at destinations that put no dead letters on the shared queue."""
    found: list[Copy] = []
    for dest in facts.destinations.values():
        if dest.kind != "dead-letters" and not dest.applied.is_shared():
            found += [copy for copy in dest.copies if not _is_managed(facts, copy)]
    return found


@rule("RDL-017", over=unshared, handles=KINDS)
def nothing_on_the_shared_queue(facts: Facts, copy: Copy) -> Findings:
    """A destination whose dead-letter strategy discards, or has a queue for each source, puts no letter on the shared
    dead-letter queue.
    """
    own = copy.dest.applied.own_dead_letters()
    for letter in copy.dead_letters:
        if letter.dest.name == DEAD_LETTERS and is_told(letter):
            yield broken("dead-letter", copy, letter, why=f"its strategy is {copy.dest.applied.dead_letter.strategy}")
            return
        if letter.rollbacks or isinstance(letter.settlement, Nack):
            return  # it may have died once more, where it was then
    if maybe_rejected(copy) and drained(facts, facts.destination(DEAD_LETTERS)):
        yield held("no-dead-letter", "dead letters go elsewhere" if own else "dead letters are discarded")


def excluded(facts: Facts) -> list[Copy]:
    """Copies that their destination's strategy excludes, if they expire or whatever they die of."""
    found: list[Copy] = []
    for dest in facts.destinations.values():
        applied = dest.applied
        if dest.kind == "dead-letters" or applied.dead_letter.strategy == "discarding":
            continue
        if not applied.keeps_dead_letter(persistent=True, expired=True):
            found += dest.copies
        elif not applied.keeps_dead_letter(persistent=False, expired=True):
            found += [copy for copy in dest.copies if not copy.send.event.persistent]
    # What a queue manager cannot put to its target when the delay is over has a dead letter by rules of its own.
    return [copy for copy in found if not _is_managed(facts, copy)]


def _is_managed(facts: Facts, copy: Copy) -> bool:
    return copy.send.delayed and facts.declared.generation.get("delay") == "ibm-mq"


def excluded_from_shared(facts: Facts) -> list[Copy]:
    """Those whose dead letters would be on the shared queue."""
    return [copy for copy in facts.rows(excluded) if copy.dest.applied.is_shared()]


@rule("RDL-018", over=excluded_from_shared, handles=KINDS)
def excluded_gets_no_letter(facts: Facts, copy: Copy) -> Findings:
    """A message that its dead-letter strategy excludes gets no letter: an expired one without processExpired, a
    non-persistent one without processNonPersistent.
    """
    event = copy.send.event
    if copy.dead_letters:
        yield from _excluded(facts, copy)
    elif drained(facts, facts.destination(DEAD_LETTERS)):
        if not _is_kept(copy):
            if maybe_rejected(copy):
                yield held("no-dead-letter", "a non-persistent message was rejected")
        elif maybe_expired(facts, event.expiration_ms, event.t0, facts.end_ns):
            yield held("no-dead-letter", "a message expired")


def _is_kept(copy: Copy) -> bool:
    """Whether it gets a dead letter at least if it is rejected."""
    return copy.dest.applied.keeps_dead_letter(persistent=copy.send.event.persistent, expired=False)


def _excluded(facts: Facts, copy: Copy) -> Findings:
    """It has dead letters, perhaps on the queue on which it must not have any."""
    if may_come_twice(facts, copy):
        return
    kept, shared = _is_kept(copy), copy.dest.applied.is_shared()
    for letter in copy.dead_letters:
        limited = copy.dest.topic and copy.dest.applied.entry.pending_message_limit is not None
        died = kept and (maybe_rejected(copy) or limited)
        if (letter.dest.name == DEAD_LETTERS) is shared and is_told(letter) and not died:
            yield broken("dead-letter", copy, letter, why="nobody rejected it" if kept else "its strategy excludes it")
            return


def excluded_from_own(facts: Facts) -> list[Copy]:
    """Those whose dead letters would be on a queue of their own."""
    return [copy for copy in facts.rows(excluded) if copy.dest.applied.own_dead_letters()]


@rule("RDL-022", over=excluded_from_own, handles=KINDS)
def excluded_gets_no_letter_there(facts: Facts, copy: Copy) -> Findings:
    """What a dead-letter strategy excludes gets no letter on a queue of its own either."""
    if copy.dead_letters:
        yield from _excluded(facts, copy)
    elif drained(facts, facts.destination(copy.dest.applied.own_dead_letters())):
        if not _is_kept(copy) and rejection(facts, copy) is not None:
            yield held("no-dead-letter", "a non-persistent message was rejected")
        elif surely_expired_there(facts, copy):
            yield held("no-dead-letter", "a message expired")


def with_own_dead_letters(facts: Facts) -> list[Copy]:
    """Copies that have, or should have, dead letters on a queue of their own if they die."""
    found: list[Copy] = []
    for dest in facts.destinations.values():
        if dest.kind == "dead-letters":
            continue
        if dest.applied.own_dead_letters():
            found += [copy for copy in dest.copies if _is_kept(copy)]
        else:
            dead = [copy for copy in dest.copies if copy.dead_letters]
            found += [copy for copy in dead if any(letter.dest.name != DEAD_LETTERS for letter in copy.dead_letters)]
    return [copy for copy in found if not moves(copy)]


@rule("RDL-021", over=with_own_dead_letters, handles=KINDS)
def letter_on_its_own_queue(facts: Facts, copy: Copy) -> Findings:
    """Where a destination's strategy has a dead-letter queue for each source, a message that dies there leaves its one
    letter on the queue named after it, with its origin and without an expiration.
    """
    own = copy.dest.applied.own_dead_letters()
    letters = [letter for letter in copy.dead_letters if letter.dest.name != DEAD_LETTERS]
    if any((letter.event.original_dest or "").startswith(DEAD_LETTERS) for letter in letters):
        return  # it died once more as a dead letter
    for letter in letters:
        wrong = _misplaced(facts, copy, letter, letters[0]) if is_told(letter) else ""
        if wrong:
            yield broken("misplaced", copy, letter, why=wrong)
            return
    made = _death(facts, copy)
    if letters:
        yield held("on-its-own-queue", f"a message {'was rejected' if maybe_rejected(copy) else 'expired'}")
    elif made is not None and _leaves_letters(copy) and collected(facts, copy, own, made):
        yield broken("no-dead-letter", copy, *copy.deliveries[-1:], why="nobody found a dead letter of it")


def _death(facts: Facts, copy: Copy) -> Span | None:
    """When a dead letter was made of a copy that died for certain, for a reason that its strategy does not exclude."""
    found = rejection(facts, copy)
    if found is not None:
        span = rejected_during(facts, found[1])
        return span if owed(facts, copy, span[1]) else None
    expires = copy.dest.applied.dead_letter.process_expired and surely_expired_there(facts, copy)
    return (copy.send.event.t0, NEVER) if expires else None


def _misplaced(facts: Facts, copy: Copy, letter: Delivery, first: Delivery) -> str:
    """What is wrong with a dead letter on a queue of its own; "": nothing."""
    event, own = letter.event, copy.dest.applied.own_dead_letters()
    if event.dest != own:
        return f"the queue for its dead letters is {own}" if own else "there is no queue for its dead letters alone"
    if names_another(letter):
        return "it names another origin"
    if event.expiration_ms > 0 and not gets_expiration(facts.declared):
        return "it expires"
    once_more = letter is not first and event.redelivered is False and letter.session is first.session
    return "it came twice" if once_more and not copy.dest.topic else ""


@rule("RDL-027", over=limited)
def thrown_out_is_dead_lettered(facts: Facts, dest: Destination) -> Findings:
    """What a topic subscriber loses to its pending message limit becomes a dead letter, if its kind does."""
    applied = dest.applied
    place = DEAD_LETTERS if applied.is_shared() else applied.own_dead_letters()
    for session in dest.sessions:
        for send in _thrown_out(facts, session):
            kept = applied.keeps_dead_letter(persistent=send.event.persistent, expired=False)
            if any(copy.dead_letters for copy in send.copies.values()):
                yield held("dead-lettered", "" if send.event.persistent else "it was not persistent")
            elif kept and letter_collected(facts, send, place, (send.accepted[0], session.lost_ns)):
                yield broken("no-dead-letter", send, session)


def _thrown_out(facts: Facts, session: Session) -> list[Send]:
    """What came after a subscriber's window was full for the first time and before it settled anything, and as many
    others as may wait after it, for certain.
    """
    asked = {act.consumer for act in facts.acknowledges}  # perhaps for more
    size, limit = session.prefetch, session.dest.applied.entry.pending_message_limit or 0
    if not is_steady(session) or session.durable() or session.name in asked or not 0 < size <= len(session.deliveries):
        return []
    if not limit:  # nothing ever waits there, so that nothing is thrown out
        return []
    full_ns = session.deliveries[size - 1].event.t1
    ends = [event.t0 for delivery in session.deliveries for event in delivery.settlements]
    ends += session.freed_ns if session.traits.widens_window else []
    until_ns = min([session.lost_ns, facts.end_ns, *ends])
    sends = facts.published(session.dest).between(full_ns, until_ns)
    sure = [one for one in sends if surely_there(facts, one, until_ns) and surely_wants(session, one)]
    sure = [one for one in sure if not one.event.again]
    return [one for one in sure if sum(other.accepted[0] > one.accepted[1] for other in sure) >= limit]
