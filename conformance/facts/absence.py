"""Absence: whether a copy that nobody has seen for good is unaccounted for, whatever the excuses.

What is left is taken in the drain: one consumer per destination, when nothing is due any more. A copy that was accepted
and was neither settled, nor drained, nor found among dead letters is missing, unless it may have expired, may have been
written to a consumer that settles on writing and never got it, or an operator or a restart may have taken it.
"""

from __future__ import annotations

from brokerproof.conformance.facts import marks
from brokerproof.conformance.facts.deliveries import may_be_given_up
from brokerproof.conformance.facts.expiration import maybe_timed_out
from brokerproof.conformance.facts.presence import gone_ns, rest_after
from brokerproof.conformance.facts.pressure import scarce
from brokerproof.conformance.facts.rows import DOUBTFUL, HELD, LATE, SETTLED, Copy, Destination, Session
from brokerproof.conformance.facts.spans import NEVER, NS_PER_MS
from brokerproof.conformance.facts.tables import Tables


def ended(tables: Tables) -> bool:
    """The run came to its end, and what was left had been taken: absence may be judged."""
    drain, end = tables.phases.get("drain"), tables.phases.get("end")
    if drain is None or end is None:
        return False
    return tables.simulated or (bool(tables.rests_ns) and tables.rests_ns[-1] >= drain.t0)


def drained(tables: Tables, dest: Destination) -> bool:
    """Whether somebody took what was left on this destination, to the very end."""
    if not ended(tables):
        return False
    since = tables.drain_seq
    return any(s.known and s.event is not None and s.event.seq > since for s in dest.open.values())


def missing(tables: Tables, copy: Copy) -> bool:
    """Whether a confirmed copy of a drained queue is unaccounted for, whatever the excuses."""
    return copy.send.confirmed and absent(tables, copy)


def absent(tables: Tables, copy: Copy) -> bool:
    """The same for a copy of which somebody else knows that its queue has accepted it."""
    send, dest = copy.send, copy.dest
    event = send.event
    if copy.dead_letters or dest.topic or copy.rejected or not drained(tables, dest):
        return False
    kept = event.persistent and tables.remembers
    if tables.restarts and not kept and tables.restarted(event.t0, NEVER):
        return False
    if any(operation.dest == dest.name and event.t0 <= operation.t1 for operation in dest.purges):
        return False
    for delivery in copy.deliveries:
        # What was acknowledged is as before after the rollback of its transaction, unless a library gave it up.
        tried = len(delivery.settlements) > delivery.rollbacks or (delivery.rollbacks > 0 and may_be_given_up(copy))
        if delivery.fate in {SETTLED, DOUBTFUL, HELD} or tried:
            return False
        if delivery.event.seq > tables.drain_seq or (delivery.fate == LATE and delivery.session.ack == "auto"):
            return False
    return _is_due(tables, copy) and not (
        (scarce(tables) and _is_stuck(tables, dest))
        or maybe_timed_out(tables, copy, tables.end_ns)
        or maybe_swallowed(tables, copy)
    )


def _is_due(tables: Tables, copy: Copy) -> bool:
    """Whether its delay was certainly over when the run ended."""
    event = copy.send.event
    if event.deliver_at_ms is not None:
        return False
    if not event.delay_ms:
        return True
    if tables.restarts and any(step.target == tables.broker for step in tables.clock_steps):
        return False  # a broker that kept the due time by its wall clock may still be waiting: late, not lost
    due_ns = copy.send.accepted[1] + (event.delay_ms + tables.declared.lateness_ms) * NS_PER_MS
    return due_ns <= tables.end_ns


def _is_stuck(tables: Tables, dest: Destination) -> bool:
    """The broker says that something is still there; where memory was scarce, that is starvation and not loss."""
    event = dest.readings[-1].event if dest.readings else None
    return event is not None and event.seq > tables.drain_seq and bool(event.size)


def maybe_swallowed(tables: Tables, copy: Copy) -> bool:
    """Whether the broker may have settled it by writing it to a session that settles on writing and never got it."""
    event, dest = copy.send.event, copy.dest
    for session in dest.sessions:
        if session.ack != "auto" or session.traits.settles_by_itself or (session.known and not session.end):
            continue
        if _may_have_taken(tables, copy, session, event.t0 + event.delay_ms * NS_PER_MS):
            return True
    return False


def _may_have_taken(tables: Tables, copy: Copy, session: Session, available_ns: int) -> bool:
    if gone_ns(tables, session) < available_ns:
        return False
    # At rest its window was open: what was free by then had reached it, or somebody else.
    selective = tables.marks.on(copy.dest.name, (available_ns, NEVER)) & marks.SELECTIVE
    if copy.send.event.delay_ms or session.event is None or not session.known or scarce(tables) or selective:
        return True
    returned = [delivery.session.ended_ns for delivery in copy.deliveries if delivery.session.end]
    free_ns = max([copy.send.accepted[1], *returned])
    return rest_after(tables, max(free_ns, session.event.t1)) >= session.lost_ns
