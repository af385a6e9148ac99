"""Operating: what an operator's requests change of what is known: a part of the recording pass.

A purge or a move takes messages, nobody knows which; a reset begins the totals anew and leaves the levels; changed
limits mean that the declared ones say nothing any more. What a broker says to have concerned no message changed none.
"""

from __future__ import annotations

from brokerproof.conformance.experiment.destinations import DEAD_LETTERS, own_dead_letters_of
from brokerproof.conformance.experiment.history import Operate
from brokerproof.conformance.facts import marks
from brokerproof.conformance.facts.rows import Destination, Send
from brokerproof.conformance.facts.settling import expect_no_dead_letter, release, settled_after
from brokerproof.conformance.facts.spans import NEVER
from brokerproof.conformance.facts.tables import Tables, covers, looks_at


def operate(tables: Tables, event: Operate) -> None:
    """An operator asked for something."""
    tables.operations.append(event)
    tables.epoch.operate(event)
    if event.result == "fail":
        return
    if event.op == "limit":
        tables.limits.append(event)
        # Where producers wait for memory, what a raised limit lets go may exceed the broker's.
        place = event.dest if tables.simulated and not tables.paged else ""
        tables.marks.put(marks.LIMIT, place, (event.t0, NEVER))
        return
    if event.op == "mqsc":
        return  # marked beforehand: what it concerns depends on what is sent later
    source = tables.destination(event.dest)
    reading = source.rested
    if reading is not None and reading.moved_seq == tables.moved_seq:
        tables.measured.append((event, reading))
    _disturb(tables, source, event)
    source.epoch.operate(event)
    if event.op == "reset":
        tables.resets.append(event)
        return
    for name in (event.dest, event.to) if event.op == "move" else (event.dest,):
        dest = tables.destination(name)
        dest.purges.append(event)
        dest.taken_ns = max(dest.taken_ns, event.t1 if event.result == "ok" else NEVER)
        if dest is not source:
            _disturb(tables, dest, event)
            dest.epoch.operate(event)
        tables.marks.put(marks.OPERATOR, name, (event.t0, event.t1))
        if dest is not source and any(name in copy.send.copies for copy in source.copies):
            tables.marks.put(marks.REPEATED, name, (event.t0, NEVER))  # both copies of one message
        if source.grouped and not dest.grouped:
            dest.grouped = True
            tables.marks.put(marks.SELECTIVE, name, (event.t0, NEVER))
    _move_letters(tables, source, event)
    for copy in list(source.waiting.values()):
        release(tables, copy)
    for copy in source.copies if tables.rejected else ():
        if copy.dead_letter_due and settled_after(copy, event.t0):
            expect_no_dead_letter(tables, copy)


def _move_letters(tables: Tables, letters: Destination, event: Operate) -> None:
    """What died elsewhere may come to where dead letters are moved."""
    if event.op != "move" or letters.kind != "dead-letters" or (event.result == "ok" and event.count == 0):
        return
    for home in tables.destinations.values():
        theirs = letters.name in {DEAD_LETTERS, own_dead_letters_of(home.name, topic=home.topic)}
        if theirs and home.kind not in {"dead-letters", "advisory"} and home.name != event.to:
            home.purges.append(event)


def _disturb(tables: Tables, dest: Destination, event: Operate) -> None:
    """Totals begin anew, or something is gone."""
    nothing = event.result == "ok" and event.count == 0
    if event.op == "move" and nothing:
        return
    last, ledger = dest.rested, dest.ledger
    empty = last is not None and last.event.size == 0 and not ledger.loose and last.epoch.sent == dest.epoch.sent
    busy = bool(dest.open) or any(covers(session, dest) and not session.end for session in tables.wild)
    busy = busy or any(looks_at(browser.event, dest) for browser in tables.lookers.values())
    busy = busy and dest.name == event.dest  # where messages are moved to, nothing is taken
    late = 0
    while late < len(dest.sends) and dest.sends[-1 - late].event.t1 > event.t0:
        late += 1
    ledger.operate(event, late, busy=busy and not empty and not (event.op == "purge" and nothing))
    if event.op == "move" and event.to == dest.name:
        ledger.purge = None  # it is filled by others than producers


def moved_from(tables: Tables, send: Send, dest: Destination, by_ns: int) -> Destination | None:
    """From where an operator may have moved a message here: a queue of a virtual topic, a part of a composite."""
    if send.dest.kind not in {"composite", "virtual"} or dest.topic or is_copied(tables, send, dest):
        return None
    moved = moved_to(tables, send, dest, by_ns)
    for name in list(moved):  # what was moved may have been moved before
        moved.update(moved_to(tables, send, tables.destination(name), by_ns))
    queues = [*tables.virtual_queues.get(send.dest.name, ()), *tables.parts(send.event)]
    found = [queue for queue in queues if queue.name in moved and not queue.topic]
    fresh = [queue for queue in found if queue.name not in send.copies]
    return next(iter((*fresh, *found)), None)


def moved_to(tables: Tables, send: Send, dest: Destination, by_ns: int) -> dict[str, None]:
    """The queues from which an operator had begun to move a message here; the answer may have come later."""
    moves = [one for one in tables.moves if one.to == dest.name and send.event.t0 <= one.t1 and one.t0 <= by_ns]
    return dict.fromkeys(one.dest for one in moves if one.count != 0 or one.result != "ok")


def is_copied(tables: Tables, send: Send, dest: Destination) -> bool:
    """Whether what was sent to that name becomes a copy on this destination."""
    if send.dest.kind not in {"composite", "virtual"}:
        return False
    return any(part in {dest.name, dest.virtual} for part in tables.names.parts(send.dest.name))
