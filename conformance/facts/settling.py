"""Settling: the only place where the state of a delivery, and what a queue is known to keep, changes while recording.

Rules
* A settlement moves a delivery from held to settled, or to doubtful where nobody knows; nothing moves it back but the
  rollback of its transaction, and a refusal that leaves it held.
* What a queue is known to keep is a lower bound: what may be gone is not counted.
"""

from __future__ import annotations

from brokerproof.conformance.experiment.history import Ack, Acknowledge, Discard, Nack
from brokerproof.conformance.facts.epochs import OVERHEAD_MIN_BYTES
from brokerproof.conformance.facts.marks import RESOLVED
from brokerproof.conformance.facts.policy import gets_expiration
from brokerproof.conformance.facts.presence import sessions_of
from brokerproof.conformance.facts.rows import (
    DOUBTFUL,
    HELD,
    LATE,
    RETURNED,
    SETTLED,
    Copy,
    Delivery,
    Send,
    Session,
    Transaction,
)
from brokerproof.conformance.facts.spans import NEVER, Span
from brokerproof.conformance.facts.tables import Tables


def accept(tables: Tables, send: Send, span: Span) -> None:
    """The broker has taken a message over, for certain, in that span."""
    event = send.event
    send.confirmed = True
    send.accepted = span
    for copy in send.copies.values():
        dest = copy.dest
        if dest.topic or copy.subscription is not None:
            continue
        awaited = event.persistent or send.client.traits.awaits_receipt or send.transaction is not None
        aliased = tables.marks.on(dest.name, span) & RESOLVED
        copy.steady = awaited and not (send.timed or aliased or gets_expiration(tables.declared))
        last = copy.deliveries[-1] if copy.deliveries else None
        # Frames can overtake the receipt: by now it may be held, or even be back.
        if copy.dead_letters or (last is not None and last.state not in {HELD, RETURNED}):
            continue
        # What somebody tried to settle may be gone from memory, and so may what is from before a restart.
        old = event.again or tables.restarted(event.t0, event.t1)
        if not (old or any(one.settlements for one in copy.deliveries)):
            copy.charged = event.size + OVERHEAD_MIN_BYTES
            dest.charged += copy.charged
            dest.kept += 1
            tables.charged += copy.charged
        note_volatile(tables, copy)
        limit, own = tables.declared.memory_limit_bytes, dest.applied.memory_limit_bytes
        copy.accepted_beyond = 0 < limit < tables.charged or 0 < own < dest.charged
        if copy.steady and (last is None or last.returned()) and not _taken(tables, copy):
            dest.waiting[copy.message] = copy


def note_volatile(tables: Tables, copy: Copy) -> None:
    """What is known of it ends with the broker's process, unless it is in a store."""
    if not (copy.send.event.persistent and tables.declared.persistent):
        tables.volatile.append(copy)


def no_longer_open(tables: Tables, send: Send, *, sure: bool) -> None:
    """What was sent in a transaction waits for its end no more; not ``sure``: perhaps it does."""
    for dest in tables.names.parts(send.event.dest):
        count, size = tables.uncommitted.get(dest, (0, 0))
        if count > 1:
            tables.uncommitted[dest] = (count - 1, size - send.event.size)
        else:
            tables.uncommitted.pop(dest, None)
        if not sure:
            tables.unsure[dest] = True


def _taken(tables: Tables, copy: Copy) -> bool:
    """An operator may have taken it, from its holder or from before its sender knew that it was there; or the broker
    has given it up.
    """
    return copy.send.accepted[0] <= copy.dest.taken_ns or (copy.rejected and tables.redeliveries_max < NEVER)


def hold(tables: Tables, delivery: Delivery) -> None:
    """It has just arrived."""
    copy = delivery.copy
    copy.dest.waiting.pop(copy.message, None)
    take(delivery)
    if delivery.state == SETTLED:
        delivery.dest.ledger.stirred = True
        release(tables, copy)


def take(delivery: Delivery) -> None:
    """Its session has it, or may have it."""
    session, ledger = delivery.session, delivery.dest.ledger
    if delivery.state == HELD:
        session.held += 1
        ledger.held += 1
    elif delivery.state == DOUBTFUL:
        session.doubted += 1
        ledger.doubted += 1


def release(tables: Tables, copy: Copy) -> None:
    """It is, or may be, no longer where it was."""
    dest = copy.dest
    dest.waiting.pop(copy.message, None)
    if copy.charged:
        dest.charged -= copy.charged
        dest.kept -= 1
        tables.charged -= copy.charged
        copy.charged = 0


def expect_no_dead_letter(tables: Tables, copy: Copy) -> None:
    """Its dead letter was seen, or need not be there."""
    tables.rejected -= copy.dead_letter_due
    copy.dead_letter_due = False


def settle(tables: Tables, delivery: Delivery, state: int) -> None:
    """Its session settled it (``SETTLED``) or may have (``DOUBTFUL``), perhaps after it was seen to leave."""
    session, was, ledger = delivery.session, delivery.state, delivery.dest.ledger
    _stir(delivery)
    unpledge(delivery)
    if was in {SETTLED, LATE}:
        return
    delivery.state = state
    if was == HELD:
        session.held -= 1
        session.undone -= delivery.rollbacks > 0
        session.doubted += state == DOUBTFUL
        ledger.held -= 1
        ledger.undone -= delivery.rollbacks > 0
        ledger.doubted += state == DOUBTFUL
    elif was == DOUBTFUL and state == SETTLED and not session.end:
        session.doubted -= 1
        ledger.doubted -= 1
    elif was == RETURNED and session.end:
        ledger.left = max(0, ledger.left - 1)
    elif was == RETURNED:  # taken back after a rollback, and perhaps settled as what it was
        session.doubted += state == DOUBTFUL
        ledger.doubted += state == DOUBTFUL
    release(tables, delivery.copy)


def _stir(delivery: Delivery) -> None:
    """Counters change by more than the one acknowledgement past the library, whose settlement has its times."""
    ledger, settlement = delivery.dest.ledger, delivery.settlements[-1] if delivery.settlements else None
    act = ledger.act
    own = act is not None and settlement is not None and (act.t0, act.t1) == (settlement.t0, settlement.t1)
    ledger.stirred = ledger.stirred or not own


def pledge(delivery: Delivery) -> None:
    """It was acknowledged in an open transaction, and stays with its session until that ends."""
    session = delivery.session
    if delivery.state == DOUBTFUL and session.known and not session.end and not delivery.pledged:
        delivery.pledged = True
        delivery.dest.ledger.pledged += 1


def unpledge(delivery: Delivery) -> None:
    """That is no longer certain."""
    if delivery.pledged:
        delivery.pledged = False
        delivery.dest.ledger.pledged -= 1


def undo(delivery: Delivery) -> None:
    """The transaction that settled it was rolled back: its session holds it as before."""
    session = delivery.session
    if delivery.state == DOUBTFUL and not session.end:
        delivery.state = HELD
        session.doubted -= 1
        session.held += 1
        session.undone += 1
        session.overdrawn = True
        ledger = delivery.dest.ledger
        ledger.doubted -= 1
        ledger.held += 1
        ledger.undone += 1
        ledger.stirred = True


def enlist(delivery: Delivery, transaction: Transaction, result: str) -> None:
    """It was acknowledged in a transaction, or somebody tried to."""
    if result != "ok":
        transaction.tried.append(delivery)
        return
    transaction.settled.append(delivery)
    delivery.transaction = transaction
    if transaction.end is None and transaction.lost is None and not transaction.mixed:
        pledge(delivery)


def roll_back(tables: Tables, delivery: Delivery, since_ns: int, *, mixed: bool = True) -> None:
    """It was acknowledged in a transaction that was rolled back. ``mixed``: as far as anybody knows."""
    delivery.rollbacks += 1
    spend(tables, delivery.copy)
    if tables.may_send_again(delivery.session):
        delivery.undone_ns = min(delivery.undone_ns, since_ns)
    if not may_have_given_up(delivery):
        undo(delivery)
        if delivery.session.end == "close" and delivery.state == DOUBTFUL and not mixed:
            delivery.state = RETURNED  # it stayed with the transaction when its consumer left
        if delivery.state == HELD and delivery.event.message in delivery.session.twins:
            settle(tables, delivery, DOUBTFUL)  # an acknowledgement may name either copy
        # The message may overtake the answer to the rollback.
        overtaken = not delivery.is_latest() and delivery.copy.deliveries[-1].event.t1 >= delivery.undone_ns
        if overtaken or delivery.session.traits.returns_rollbacks:
            take_back(delivery)


def take_back(delivery: Delivery) -> None:
    """Its broker took it back after the rollback, for it sends it again; its session may not know yet."""
    delivery.session.resent = True
    if delivery.state == HELD and not delivery.session.end:
        _return(delivery)


def _return(delivery: Delivery) -> None:
    """Its session does not hold it any more: the broker has it again."""
    session, ledger, undone = delivery.session, delivery.dest.ledger, delivery.rollbacks > 0
    delivery.state = RETURNED
    session.held -= 1
    session.undone -= undone
    ledger.held -= 1
    ledger.undone -= undone
    ledger.stirred = True


def leave_to(delivery: Delivery) -> None:
    """It comes, perhaps once more: what of this the broker took back before, or somebody else discarded who is not seen
    to have settled it by that, is not held there.
    """
    for before in delivery.copy.deliveries:
        session = before.session
        discarded = isinstance(before.settlement, Discard) and before.state == DOUBTFUL
        if before.undone_ns <= delivery.event.t1:
            take_back(before)
        elif discarded and session is not delivery.session and not (session.end or session.dest.topic):
            before.state = RETURNED
            session.doubted -= 1
            before.dest.ledger.doubted -= 1
            before.dest.ledger.stirred = True


def failures(copy: Copy) -> int:
    """How often at most it was delivered in vain, as the broker counts: to each session that may be gone, also unseen,
    and once more for each rollback and each rejection that puts it back.
    """
    since_ns, told = copy.send.event.t0, [delivery.event.delivery_count or 1 for delivery in copy.deliveries]
    moved = {delivery.dest.name: delivery.dest for delivery in copy.deliveries if delivery.dest is not copy.dest}
    sessions = [*sessions_of(copy), *(session for dest in moved.values() for session in dest.sessions)]
    gone = sum(since_ns <= one.ended_ns and (one.end != "" or one.lost_ns < NEVER) for one in sessions)
    again = len(copy.deliveries) - len({delivery.session.name for delivery in copy.deliveries})
    return max([gone + again, *told]) + sum(one.rollbacks + _was_rejected(one) for one in copy.deliveries)


def _was_rejected(delivery: Delivery) -> bool:
    return delivery.requeued or any(isinstance(event, Nack) and event.tx is None for event in delivery.settlements)


def spend(tables: Tables, copy: Copy) -> None:
    """It failed once more, perhaps: a broker that has delivered it as often as it will may reject it by itself."""
    if tables.redeliveries_max < NEVER and tables.redeliveries_max < failures(copy):
        copy.rejected = True
        release(tables, copy)


def gave_up(delivery: Delivery) -> bool:
    """Its library rejected it, which nobody sees: it was rolled back too often."""
    return _is_too_often(delivery, delivery.rollbacks)


def may_have_given_up(delivery: Delivery) -> bool:
    """The same where it began anew without an answer to each rollback."""
    return _is_too_often(delivery, rolled_back(delivery))


def _is_too_often(delivery: Delivery, rollbacks: int) -> bool:
    earlier = max(0, (delivery.event.delivery_count or 1) - 1)  # deliveries to others count, too
    return 0 < delivery.session.traits.gives_up_after <= rollbacks + earlier


def rolled_back(delivery: Delivery) -> int:
    """How often at most, as its client sees it: it asked for that, or began anew, without an answer."""
    return max(delivery.rollbacks, sum(getattr(event, "tx", None) is not None for event in delivery.settlements))


def give_back(tables: Tables, delivery: Delivery, transaction: Transaction) -> None:
    """The transaction that settled it was rolled back when their connection was lost."""
    if delivery.transaction is not transaction or delivery.state != DOUBTFUL or not delivery.session.end:
        return
    delivery.rollbacks += 1
    spend(tables, delivery.copy)
    if delivery.session.end == "close":
        delivery.state = RETURNED  # it stayed with the transaction when its consumer left
    else:
        delivery.state = HELD
        delivery.dest.ledger.held += 1
        delivery.dest.ledger.undone += 1
        come_back(tables, delivery)


def rejections(transaction: Transaction) -> list[tuple[Delivery, Nack]]:
    """What was rejected in it, for certain, and by which NACK."""
    found = []
    for delivery in transaction.settled:
        said = [one for one in delivery.settlements if isinstance(one, Nack) and one.tx == transaction.name]
        found += [(delivery, one) for one in said[:1]]
    return found


def reject(tables: Tables, transaction: Transaction) -> None:
    """It has ended, and unless it was rolled back for certain what it rejected may be rejected."""
    if transaction.committed is False:
        return
    for delivery, _ in rejections(transaction):
        if transaction.committed and "requeue" in tables.header.capabilities:
            # As after a rollback, it is the broker's again.
            delivery.rollbacks += 1
            delivery.undone_ns = min(delivery.undone_ns, transaction.end.t0 if transaction.end is not None else NEVER)
            spend(tables, delivery.copy)
        else:
            delivery.copy.rejected = delivery.copy.rejected or not delivery.is_dead_letter


def lose(tables: Tables, transaction: Transaction) -> None:
    """Its connection went: it is rolled back, unless its commit was asked for."""
    for delivery in transaction.settled:
        unpledge(delivery)
        if transaction.committed is False and not transaction.mixed:
            give_back(tables, delivery, transaction)
    reject(tables, transaction)


def come_back(tables: Tables, delivery: Delivery) -> None:
    """Its session is gone and left it unsettled."""
    ledger = delivery.dest.ledger
    unpledge(delivery)
    ledger.doubted -= delivery.state == DOUBTFUL
    if delivery.state != HELD:
        return
    delivery.state = RETURNED
    ledger.held -= 1
    ledger.undone -= delivery.rollbacks > 0
    # What was delivered once more had been settled before, though nobody may say which of the two a settlement meant.
    ledger.left += delivery.settlement is None and delivery.session.known and delivery.is_latest()
    _wait_again(tables, delivery)


def requeue(tables: Tables, delivery: Delivery, event: Nack) -> bool:
    """Whether a rejection puts it back for certain: then the broker delivers it again. Also one without an answer does,
    or else the end of its session; only how often the broker counts that is not known.
    """
    answered = event.result == "ok" and event.tx is None
    mine = delivery.state == HELD and not delivery.session.end and not delivery.is_dead_letter
    if "requeue" not in tables.header.capabilities:
        return False
    if event.tx is None:
        delivery.undone_ns = min(delivery.undone_ns, event.t0)
    if not answered or not mine:
        return False
    _stir(delivery)
    _return(delivery)
    delivery.requeued = delivery.session.traits.awaits_receipt
    spend(tables, delivery.copy)
    _wait_again(tables, delivery)
    return True


def _wait_again(tables: Tables, delivery: Delivery) -> None:
    """It is in its queue as before."""
    copy = delivery.copy
    # Where nobody saw the broker's end of the link close, somebody else may have got it long ago.
    known = delivery.session.known and delivery.is_latest() and not delivery.is_dead_letter
    elsewhere = any(one.state in {HELD, DOUBTFUL, SETTLED} and one is not delivery for one in copy.deliveries)
    if copy.steady and known and not elsewhere and not _taken(tables, copy):
        copy.dest.waiting[copy.message] = copy


def settled_by(session: Session, message: str, event: Ack | Nack) -> Delivery | None:
    """Which of a message's deliveries a session settled: the latest, or, if that may have arrived after this was
    written, the last before that that was not settled yet.
    """
    latest = session.seen.get(message)
    if latest is None or latest.event.t1 <= event.t0:
        return latest
    for delivery in reversed(latest.copy.deliveries):
        unsettled = len(delivery.settlements) <= delivery.rollbacks
        if delivery is not latest and delivery.session is session and delivery.event.t0 <= event.t1 and unsettled:
            return delivery
    return latest


def settled_after(copy: Copy, true_ns: int) -> bool:
    """Whether somebody tried to settle it then, or later."""
    return any(event.t1 >= true_ns for delivery in copy.deliveries for event in delivery.settlements)


def tell_apart(tables: Tables, before: Delivery | None, delivery: Delivery) -> None:
    """A session got a message that it had got before; of two copies nobody can say which one it settles."""
    if before is None or before.copy is delivery.copy:
        return
    delivery.session.twins[delivery.event.message] = True
    for twin in (before, delivery):
        if twin.state == HELD:
            settle(tables, twin, DOUBTFUL)


def is_unclear(tables: Tables, session: Session, event: Ack | Nack) -> bool:
    """Whether a range may be another: it begins or ends with one of two copies, or with what was sent again after a
    rollback. In front of that came whatever its session holds. (Also a NACK is of a range: STOMP 1.2, "NACK".)
    """
    ranged = event.mode == "cumulative" if isinstance(event, Ack) else session.ack == "client"
    if not ranged:
        return False
    for earlier in session.deliveries if session.resent else ():
        if earlier.state == HELD and earlier.event.message not in event.messages:
            settle(tables, earlier, DOUBTFUL)
            earlier.undone_ns = min(earlier.undone_ns, event.t0 if event.tx is not None else NEVER)
    return len(event.messages) > 1 and (session.resent or any(one in session.twins for one in event.messages))


def call_dead(tables: Tables, event: Acknowledge, meant: list[Delivery]) -> None:
    """What an acknowledgement of type EXPIRED or POISON means. One without a real end may be taken as one without an
    end, so for what lay before its application, too; what of that is POISON the application's own event leaves out.
    """
    endless = event.wrong_end and event.result != "fail"
    if endless:
        meant = [one for one in meant[0].session.deliveries if one.event.seq >= meant[0].event.seq]
    for delivery in meant:
        beyond = endless and delivery.state == HELD
        if event.type == "poison":
            beyond = beyond and delivery.consumed is None and delivery.event.message not in event.messages
            delivery.copy.rejected = delivery.copy.rejected or beyond
        else:
            delivery.copy.called_expired = True
        if beyond:
            ledger, stirred = delivery.dest.ledger, delivery.dest.ledger.stirred
            settle(tables, delivery, DOUBTFUL)
            ledger.stirred = stirred  # by nothing but the acknowledgement, which the ledger knows
