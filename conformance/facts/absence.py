"""Absence: whether a copy that nobody has seen for good is unaccounted for, whatever the excuses.

What is left is taken in the drain: one consumer per destination, when nothing is due any more. A copy that was accepted
and was neither settled, nor drained, nor found among dead letters is missing, unless it may have expired, may have been
written to a consumer that settles on writing and never got it, or an operator or a restart may have taken it.
"""

from __future__ import annotations

from typing import Final

from brokerproof.conformance.experiment.destinations import DEAD_LETTERS
from brokerproof.conformance.experiment.history import Operate
from brokerproof.conformance.facts import marks
from brokerproof.conformance.facts.deliveries import may_be_given_up, rested_first
from brokerproof.conformance.facts.due import due_of
from brokerproof.conformance.facts.expiration import Death, dead, death_of, maybe_timed_out
from brokerproof.conformance.facts.managed import DISCARD, cancels, is_queue_manager, may_be_held_up
from brokerproof.conformance.facts.presence import departed_ns, gone_ns, kept_connection, rest_after, settles_unseen
from brokerproof.conformance.facts.pressure import began_ns, scarce
from brokerproof.conformance.facts.rows import (
    LATE,
    RETURNED,
    Copy,
    Destination,
    Reading,
    Send,
    Session,
)
from brokerproof.conformance.facts.spans import NEVER, NS_PER_MS, Span
from brokerproof.conformance.facts.tables import Tables

#: Fates of what its session no longer has, unsettled.
GONE: Final = (RETURNED, LATE)


def ended(tables: Tables) -> bool:
    """The run came to its end, and what was left had been taken: absence may be judged."""
    drain, end = tables.phases.get("drain"), tables.phases.get("end")
    if drain is None or end is None:
        return False
    return tables.simulated or (bool(tables.rests_ns) and tables.rests_ns[-1] >= drain.t0)


def drained(tables: Tables, dest: Destination) -> bool:
    """Whether somebody took what was left on this destination, to the very end, and nobody who may not have gone keeps
    any of it.
    """
    if not ended(tables):
        return False
    since, there = tables.drain_seq, dest.open.values()
    if any(not session.known for session in there):
        return False
    return any(s.known and s.event is not None and s.event.seq > since for s in there)


def missing(tables: Tables, copy: Copy) -> bool:
    """Whether a confirmed copy of a drained queue is unaccounted for, whatever the excuses."""
    return copy.send.confirmed and absent(tables, copy)


def absent(tables: Tables, copy: Copy) -> bool:
    """The same for a copy of which somebody else knows that its queue has accepted it."""
    if copy.dead_letters:
        return False
    for delivery in copy.deliveries:
        if delivery.state not in GONE:
            return False
        # What was acknowledged is as before after the rollback of its transaction, unless a library gave it up.
        if len(delivery.settlements) > delivery.rollbacks + delivery.requeued or (
            delivery.rollbacks > 0 and may_be_given_up(copy)
        ):
            return False
        if delivery.event.seq > tables.drain_seq or (delivery.state == LATE and delivery.session.ack == "auto"):
            return False
    return unexplained(tables, copy) and not maybe_timed_out(tables, copy, tables.end_ns)


def unexplained(tables: Tables, copy: Copy, death: Death | None = None, *, rejected: bool = False) -> bool:
    """Whether a copy can have left its drained queue in no way that nobody sees, by its expiry apart: no rejection,
    operator, restart, consumer that settles unseen (but while it was dead, by ``death``), starvation, delay.
    ``rejected``: a rejection is no excuse.
    """
    event, dest = copy.send.event, copy.dest
    if dest.topic or (copy.rejected and not rejected) or not drained(tables, dest):
        return False
    if is_queue_manager(tables) and _may_be_withheld(tables, copy.send, dest):
        return False
    kept = event.persistent and tables.remembers
    if tables.restarts and not kept and tables.restarted(event.t0, NEVER):
        return False
    taken = [one for one in dest.purges if one.dest == dest.name and event.t0 <= one.t1]
    if not all(_is_found_there(tables, one) for one in taken):
        return False
    if is_stuck(tables, dest) or not _is_due(tables, copy) or _thrown_away(tables, copy):
        return False
    return not maybe_swallowed(tables, copy, death)


def _is_found_there(tables: Tables, operation: Operate) -> bool:
    """Whether an operator moved messages to a queue where all that was left was found."""
    if operation.op != "move" or operation.result != "ok":
        return False
    target = tables.destination(operation.to)
    if target.kind != "queue" or any(one.dest == target.name for one in target.purges):
        return False
    sure = drained(tables, target) and not is_stuck(tables, target) and not is_queue_manager(tables)
    return sure and not any(settles_unseen(session) for session in target.sessions)


def _may_be_withheld(tables: Tables, send: Send, dest: Destination) -> bool:
    """Whether a queue manager's operator may have taken a message away, or keeps it from its queue to the end, or its
    sender wants it thrown away where it cannot be put; or it may be a dead letter that starves.
    """
    if send.event.headers.get(DISCARD) or not send.delayed:
        return send.delayed
    taken = any(send.event.t0 <= one.t1 for one in cancels(tables))
    letters = tables.destination(dest.applied.own_dead_letters() or DEAD_LETTERS)
    return taken or may_be_held_up(tables, dest.name, send.event.size) or is_stuck(tables, letters)


def would_be_dead_letter(tables: Tables, copy: Copy) -> bool:
    """Whether a copy that expired on its queue must have become a dead letter, which the drain must have found."""
    dest, event = copy.dest, copy.send.event
    if dest.topic or not dest.applied.keeps_dead_letter(persistent=event.persistent, expired=True):
        return False
    if tables.restarted(event.t0, NEVER) and not (event.persistent and tables.remembers):
        return False
    if dest.kind == "temporary":
        owner = tables.client(tables.names.owner(dest.name))
        if not kept_connection(tables, owner, event.t0, tables.end_ns):
            return False  # it goes with its owner's connection, with all that it has
    return cleared(tables, tables.destination(dest.applied.own_dead_letters() or DEAD_LETTERS))


def cleared(tables: Tables, letters: Destination) -> bool:
    """Whether whatever lay on a dead-letter queue was found."""
    if letters.purges or is_stuck(tables, letters) or not drained(tables, letters):
        return False
    return not any(settles_unseen(session) and session.end for session in letters.sessions)


def _is_due(tables: Tables, copy: Copy) -> bool:
    """Whether its delay was certainly over when the run ended."""
    if not copy.send.delayed:
        return True
    due = due_of(tables, copy.send)
    if due is None or (due.restarted and due.jump_ms):
        return False  # a broker that kept the due time by its wall clock may still be waiting: late, not lost
    # So may one whose clock was set back and forth: it waits for what was still missing when it looked.
    back_ns = 0 if tables.simulated else tables.broker_clock.set_back_ns(copy.send.event.t0, tables.end_ns)
    return due.visible[1] + back_ns + tables.declared.lateness_ms * NS_PER_MS <= tables.end_ns


def is_stuck(tables: Tables, dest: Destination) -> bool:
    """The broker says that something is still there; where memory was scarce, that is starvation and not loss."""
    if not scarce(tables, began_ns(dest)):
        return False
    found = dest.readings or tables.broker_readings  # nobody reads the figures of a dead-letter queue
    event = found[-1].event if found else None
    return event is not None and event.seq > tables.drain_seq and bool(event.size)


def _thrown_away(tables: Tables, copy: Copy) -> bool:
    """Whether a library may have thrown it away and what a client calls expired leaves no dead letter."""
    if tables.simulated:
        return False
    lettered = copy.dest.applied.keeps_dead_letter(persistent=copy.send.event.persistent, expired=True)
    if lettered and "dead-letter" in tables.header.capabilities:
        return False
    death = death_of(tables, copy.send)
    return death is not None and maybe_discarded_unseen(tables, copy, death)


def maybe_discarded_unseen(tables: Tables, copy: Copy, death: Death) -> bool:
    """Whether a library may have thrown it away without anybody seeing it."""
    if not death.mortal or copy.send.event.life_ms > 0:
        return False
    return any(_may_discard_unseen(tables, copy, death, session) for session in copy.dest.sessions)


def _may_discard_unseen(tables: Tables, copy: Copy, death: Death, session: Session) -> bool:
    traits = session.traits
    if traits.known and not traits.checks_expiry:
        return False
    if tables.simulated and not session.uncertain and session.end in {"", "close"}:
        return False  # there each library says what it throws away, unless it vanishes
    low_ns, high_ns = max(copy.send.event.t0, session.opened[0]), min(session.ended_ns, tables.end_ns or NEVER)
    clock = tables.clock(session.client.name)
    if not clock.known or high_ns >= NEVER:
        return True
    return low_ns <= high_ns and clock.bounds_ns(low_ns, high_ns)[1] >= death.low_ns


def maybe_swallowed(tables: Tables, copy: Copy, death: Death | None = None) -> bool:
    """Whether the broker may have settled it by writing it to a session that settles on writing and never got it;
    ``death``: what is known of its death, after which nobody is written it.
    """
    due = due_of(tables, copy.send) if copy.send.delayed else None
    visible = due.visible if due is not None else copy.send.accepted
    for session in copy.dest.sessions:
        if not settles_unseen(session) or (session.known and not session.end):
            continue
        low_ns, high_ns = max(visible[0], session.opened[0]), gone_ns(tables, session)
        if death is not None and low_ns <= high_ns < NEVER and dead(tables, death, low_ns, high_ns):
            continue
        if _may_have_taken(tables, copy, session, visible):
            return True
    return False


def _may_have_taken(tables: Tables, copy: Copy, session: Session, visible: Span) -> bool:
    departed = departed_ns(session) + tables.declared.lateness_ms * NS_PER_MS
    if min(departed, gone_ns(tables, session)) < visible[0]:
        return False
    # At rest its window was open: what was free by then had reached it, or somebody else.
    selective = tables.marks.on(copy.dest.name, (visible[0], NEVER)) & marks.CHOOSING
    if session.event is None or not session.known or scarce(tables, visible[0]) or selective:
        return True
    returned = [delivery.session.ended_ns + 1 for delivery in copy.deliveries if delivery.session.end]
    rest_ns = rest_after(tables, max(visible[1], session.event.t1, *returned))
    return rest_ns > session.lost_ns or (rest_ns == session.lost_ns and not rested_first(tables, session, rest_ns))


def waiting(tables: Tables, reading: Reading) -> Copy | None:
    """A copy that waits on its queue for certain, at a reading at rest at which somebody has room."""
    return next((copy for copy in reading.waiting if not pauses(copy) and not maybe_swallowed(tables, copy)), None)


def pauses(copy: Copy) -> bool:
    """Whether it was rejected, to come again: how long a broker pauses before that is its own affair."""
    return any(delivery.requeued for delivery in copy.deliveries)
