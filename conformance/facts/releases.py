"""Releases: what certainly becomes of a message whose delay ends on a queue manager, where its objects are known.

Known are the objects if no command may have changed them around the end of the delay; full is a queue for certain only
if nothing may be on it.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from brokerproof.conformance.experiment.history import Event, Leave
from brokerproof.conformance.facts.due import due_of
from brokerproof.conformance.facts.expiration import may_die
from brokerproof.conformance.facts.managed import DISCARD, EXCEPTION, MODEL, REPORT, cancels, states
from brokerproof.conformance.facts.mqsc import Objects, State
from brokerproof.conformance.facts.queue_managers import FULL, INHIBITED, TOO_BIG, UNKNOWN
from brokerproof.conformance.facts.rows import Copy, Destination, Send, Session
from brokerproof.conformance.facts.tables import Tables

#: What no program fills.
PLENTY: Final = 5000
#: MQRO_DISCARD_MSG, MQRO_EXCEPTION.
THROWN: Final = 0x08000000
ASKED: Final = 0x01000000
#: What the suite calls the dead-letter queue.
LETTERS: Final = "ActiveMQ.DLQ"
#: It is put to its target, is a dead letter, is thrown away, or stays where it is.
PUT, LETTER, GONE, STAYS = "put", "letter", "gone", "stays"


class Ending(NamedTuple):
    """``ends``: what becomes of it; ``reason``: why it cannot be put, 0: it can; ``told``: a report of that is put
    somewhere; ``until``: the next change of an object, None: there is none.
    """

    ends: str
    reason: int
    until: Event | None
    told: bool = False


def endings_of(tables: Tables, send: Send) -> list[Ending | None]:
    """What becomes of its copies; of a publication that nobody got, of those of who was there at the send and left."""
    if send.copies or not send.dest.topic:
        return [ending_of(tables, copy) for copy in send.copies.values()]
    due, found = due_of(tables, send), _released(tables, send, send.dest)
    there = [one for one in send.dest.sessions if one.opened[0] <= send.accepted[1] and one.gone_ns >= send.event.t0]
    left = [
        due is not None
        and one.known
        and not (one.wild or one.durable() or one.selective)
        and one.opened[1] < send.accepted[0]
        and send.accepted[1] <= one.lost_ns
        and _left_ns(tables, one) < due.span[0]
        for one in there
    ]
    return [None if found is None or not sure else _gone(tables, send, found[1]) for sure in left]


def _left_ns(tables: Tables, session: Session) -> int:
    """When the broker had heard a goodbye, for certain; here its host waits that long."""
    leave = session.leave
    heard = isinstance(leave, Leave) and leave.result == "ok" and not tables.pauses
    return leave.t1 if leave is not None and heard else session.gone_ns


def _released(tables: Tables, send: Send, dest: Destination) -> tuple[Objects, Event | None] | None:
    """The objects when a message is released to a destination, and what changes them next; None: that is open."""
    plain = dest is send.dest and dest.kind in {"queue", "topic"} and not tables.names.virtual_topic(dest.name)
    moved = tables.restarts or cancels(tables) or any(one.op != "mqsc" for one in tables.operations)
    if not plain or moved or not tables.simulated or not send.confirmed or send.event.tx or may_die(tables, send):
        return None
    due = due_of(tables, send)
    found = None if due is None else _at(tables, due.span)
    objects = None if found is None else found[0].objects
    if found is None or objects is None or not objects.running or any(kind == "QALIAS" for kind, _ in objects.objects):
        return None
    return objects, found[1]


def _gone(tables: Tables, send: Send, until: Event | None) -> Ending | None:
    """Of a subscriber who has left: a report, if one was asked for, and if it can be put."""
    told = number(send.event.headers.get(EXCEPTION)) & ASKED > 0
    put = "reply-to" in send.event.headers or takes_letters(tables, send.event.size)
    return Ending(GONE, UNKNOWN, until, told=told) if put or not told else None


def ending_of(tables: Tables, copy: Copy) -> Ending | None:
    """What becomes of a copy; None: that is open."""
    send, dest, subscription, due = copy.send, copy.dest, copy.subscription, due_of(tables, copy.send)
    found = _released(tables, send, dest)
    if found is None or due is None:
        return None
    if dest.topic and (subscription is None or subscription.doubtful or subscription.durable or len(send.copies) != 1):
        return None
    if dest.topic and not send.delayed:
        return None  # what is published at once passes no queue's attributes on its way
    if subscription is not None and all(_left_ns(tables, one) < due.span[0] for one in subscription.sessions):
        return _gone(tables, send, found[1])
    fault = _fault(tables, found[0], MODEL if dest.topic else dest.name, send.event.size)
    return None if fault is None else _ending(tables, found[0], copy, fault, found[1])


def _at(tables: Tables, span: tuple[int, int]) -> tuple[State, Event | None] | None:
    """The objects all through a span, and what changes them next."""
    all_ = states(tables)
    last = max(k for k, one in enumerate(all_) if one.event is None or one.event.t0 <= span[1])
    event = all_[last].event
    if event is not None and event.t1 >= span[0]:
        return None
    return all_[last], all_[last + 1].event if last + 1 < len(all_) else None


def _fault(tables: Tables, objects: Objects, name: str, size_bytes: int) -> int | None:
    """Why a queue takes nothing; 0: it does; None: it may be full."""
    row = objects.queue(name)
    if row["PUT"] == "DISABLED":
        return INHIBITED
    if size_bytes > int(row["MAXMSGL"]):
        return TOO_BIG
    depth = int(row["MAXDEPTH"])
    return 0 if depth >= PLENTY or depth >= _most(tables, name) else None if depth else FULL


def _most(tables: Tables, name: str) -> int:
    """What a queue never holds more of: messages that were sent there, or may become dead letters, and reports."""
    most = 0
    for send in tables.sends.values():
        parts, copies = tables.names.parts(send.event.dest), send.copies.values()
        plain = not send.timed and all(len(one.deliveries) < 2 and not one.rejected for one in copies)
        if name in parts or name == MODEL or (name == LETTERS and not (plain or send.refused)):
            most += max(len(parts), len(copies))
        most += sum(word.startswith(REPORT) for word in send.event.headers)
    return most


def _ending(tables: Tables, objects: Objects, copy: Copy, fault: int, until: Event | None) -> Ending | None:
    event = copy.send.event
    if not fault:
        return Ending(PUT, 0, until)
    letters = str(objects.qmgr["DEADQ"])
    full = _fault(tables, objects, letters, event.size) if letters else FULL
    if full is None or letters not in {"", LETTERS}:
        return None
    told = number(event.headers.get(EXCEPTION)) & ASKED > 0
    if number(event.headers.get(DISCARD)) & THROWN:
        if told and full:  # it depends on the reply queue, if there is one
            if "reply-to" in event.headers:
                return None
            return Ending(STAYS if event.persistent else GONE, fault, until)
        return Ending(GONE, fault, until, told=told)
    if not full:
        return Ending(LETTER, fault, until, told=told)
    return Ending(GONE if copy.dest.topic else STAYS, fault, until)


def takes_letters(tables: Tables, size_bytes: int) -> bool:
    """Whether the dead-letter queue takes everything of that size, all the time."""
    known = [state.objects for state in states(tables)]
    return all(
        one is not None and one.qmgr["DEADQ"] == LETTERS and _fault(tables, one, LETTERS, size_bytes) == 0
        for one in known
    )


def number(value: object) -> int:
    """What a header says; 0 if that is no number."""
    text = str(value)
    return int(text) if text.isdigit() else 0
