"""Pressure: when memory may have been so scarce that a broker may rightly hold messages back.

An upper bound of what may have been in memory at a time is set against half of a limit; below that nothing can be
scarce. A limit that an operator changed says nothing any more.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from brokerproof.conformance.experiment.history import Ack, Operate
from brokerproof.conformance.experiment.history import Send as SendEvent
from brokerproof.conformance.facts import marks
from brokerproof.conformance.facts.epochs import OVERHEAD_MAX_BYTES
from brokerproof.conformance.facts.policy import PRESSURE_PERCENT, gets_expiration
from brokerproof.conformance.facts.rows import Copy, Destination, Reading, Send
from brokerproof.conformance.facts.spans import NEVER
from brokerproof.conformance.facts.tables import Tables

#: What a raw peer that reads nothing sends itself, at most.
FLOOD_MAX_BYTES: Final = 32 * 1024 * 1024


def may_block(tables: Tables, sends: Iterable[SendEvent], changes: bool) -> bool:
    """Whether so much is sent in a run that a limit may be half reached, so that a producer may wait for room;
    ``changes``: an operator changes limits.
    """
    declared = tables.declared
    if declared.limits_disk:
        return True
    if changes or not tables.throttles:
        return tables.throttles
    limits = [declared.memory_limit_bytes, *(entry.memory_limit_bytes or 0 for entry in declared.policies)]
    least = min((limit for limit in limits if limit > 0), default=0)
    most_copies = 1 + max((len(one.of) for one in tables.names.declared), default=0)
    sent_bytes = sum(most_copies * (event.size + OVERHEAD_MAX_BYTES) for event in sends)
    return 0 < least * PRESSURE_PERCENT < sent_bytes * 100


def mark_pressure(tables: Tables) -> None:
    """Put marks ``memory`` where a limit may have been half reached."""
    limit = tables.declared.memory_limit_bytes
    if 0 < limit * PRESSURE_PERCENT < tables.sent_bytes * 100:
        _mark(tables, "", limit, tables.sends.values())
    for probe in tables.probes:
        flooded_bytes = probe.said.times * FLOOD_MAX_BYTES if probe.said.deaf else 0
        if flooded_bytes and 0 < limit * PRESSURE_PERCENT < (flooded_bytes + tables.sent_bytes) * 100:
            tables.marks.put(marks.MEMORY, "", (probe.t0, probe.t1))
        if 0 < limit < FLOOD_MAX_BYTES and probe.said.dialogues:  # whose messages are anybody's guess
            tables.marks.put(marks.MEMORY, "", (probe.t0, NEVER))
    for dest in list(tables.destinations.values()):
        own = dest.applied.memory_limit_bytes
        if own > 0:
            others = _brought(tables, dest)
            brought_bytes = sum(send.event.size + OVERHEAD_MAX_BYTES for send in others)
            if own * PRESSURE_PERCENT < (dest.sent_bytes + brought_bytes) * 100:
                _mark(tables, dest.name, own, [*dest.sends, *others])


def _brought(tables: Tables, dest: Destination) -> list[Send]:
    """What may have come from where it was sent to: virtual topics of which nobody knows, operators who moved some,
    brokers nearby that had copied it before, and dead letters.
    """
    if dest.kind == "dead-letters":
        return [send for send in tables.sends.values() if send.dest is not dest and _may_leave_letters(tables, send)]
    sources = [one.dest for one in dest.purges if one.op == "move" and one.to == dest.name]
    if dest.virtual and dest.virtual != dest.name:
        sources.append(dest.virtual)
    here = {send.message for send in dest.sends}
    found = {copy.message: copy.send for copy in dest.copies}
    found |= {send.message: send for name in sources for send in tables.destination(name).sends}
    return [send for message, send in found.items() if message not in here]


def _may_leave_letters(tables: Tables, send: Send) -> bool:
    """Whether it may have died."""
    ends = send.mortal or gets_expiration(tables.declared)
    return ends or any(copy.dead_letters or copy.rejected for copy in send.copies.values())


def _mark(tables: Tables, place: str, limit: int, sends: Iterable[Send]) -> None:
    """From the send by which more may be there than the limit's half, until enough has certainly gone."""
    changes: list[tuple[int, int]] = []
    for send in sends:
        times = max(1, len(send.copies)) if send.dest.kind in {"composite", "virtual"} and not place else 1
        charge = times * (send.event.size + OVERHEAD_MAX_BYTES)
        changes.append((send.event.t0, -charge))
        free_ns = freed_ns(send)
        if free_ns < NEVER:
            changes.append((free_ns, charge))
    changes.sort()
    room, since_ns = limit * PRESSURE_PERCENT // 100, -1
    for at_ns, freed in changes:
        room += freed
        if room < 0 and since_ns < 0:
            since_ns = at_ns
        elif room >= 0 and since_ns >= 0:
            tables.marks.put(marks.MEMORY, place, (since_ns, at_ns))
            since_ns = -1
    if since_ns >= 0:
        tables.marks.put(marks.MEMORY, place, (since_ns, NEVER))


def freed_ns(send: Send) -> int:
    """By when a message was certainly in nobody's memory: refused, or acknowledged where it had been sent to."""
    if send.refused:  # or rolled back, and charged until then
        return send.event.t1 if send.event.tx is None or send.event.result == "fail" else NEVER
    if send.dest.kind not in {"queue", "temporary"} or len(send.copies) != 1 or send.copy is None:
        return NEVER
    return _acknowledged_ns(send.copy)


def _acknowledged_ns(copy: Copy) -> int:
    bound = NEVER
    for delivery in copy.deliveries:
        if delivery.dest is not copy.dest or copy.message in delivery.session.twins:
            return NEVER
        if delivery.session.auto:
            bound = min(bound, delivery.event.t1)
        for event in delivery.settlements:
            if isinstance(event, Ack) and event.result == "ok" and event.tx is None:
                bound = min(bound, event.t1)
    return NEVER if copy.dead_letters else bound


def began_ns(dest: Destination) -> int:
    """When a destination can have been used first; 0 of one that others than its senders may have brought messages."""
    moved = any(one.op == "move" and one.to == dest.name for one in dest.purges)
    if not dest.sends or dest.kind == "dead-letters" or moved:
        return 0
    first_ns = dest.sends[0].event.t0
    return min([first_ns, *(session.opened[0] for session in dest.sessions[:1])])


def scarce(tables: Tables, since_ns: int = 0, until_ns: int = NEVER) -> bool:
    """Whether the broker's memory may have been scarce at any time between, or an operator had changed its limit."""
    if tables.limits and tables.limits[0].t0 <= until_ns:
        return True
    return bool(tables.marks.on("", (since_ns, until_ns)) & marks.MEMORY)


def pressed(tables: Tables, dest: Destination, reading: Reading) -> bool:
    """Whether memory may have been scarce when a destination was read, or before."""
    changed = bool(tables.limits) and tables.limits[0].t0 <= reading.event.t1
    return changed or scarce_ns(tables, dest) <= reading.event.t1


def exceedable(tables: Tables) -> bool:
    """Whether so much was ever sent that a memory limit that was declared may have been exceeded."""
    return 0 < tables.declared.memory_limit_bytes < tables.sent_bytes or any(
        0 < dest.applied.memory_limit_bytes < dest.sent_bytes for dest in tables.destinations.values()
    )


def surely_has_room(tables: Tables, dest: Destination, event: SendEvent) -> bool:
    """Whether all that anybody had sent before cannot have filled memory: below a limit no producer has to wait where
    the rules of ActiveMQ's memory are declared. A real one counts a message twice while its store is busy with it.
    """
    told = any(one.kind == "advisory" and one.sessions for one in tables.destinations.values())
    if not tables.paged or tables.limits or told:
        return False
    room, own = tables.declared.memory_limit_bytes, dest.applied.memory_limit_bytes
    used = _charged_before(tables, tables.sends.values(), event) if room > 0 else 0
    used += sum(probe.said.times * FLOOD_MAX_BYTES for probe in tables.probes if probe.said.deaf)
    used_here = _charged_before(tables, (*dest.sends, *_brought(tables, dest)), event) if own > 0 else 0
    return (room <= 0 or used < room) and (own <= 0 or used_here < own)


def _charged_before(tables: Tables, sends: Iterable[Send], event: SendEvent) -> int:
    charges = [_charge_before(send, event) for send in sends]
    return sum(charges) + (0 if tables.simulated else max(charges, default=0))


def _charge_before(send: Send, event: SendEvent) -> int:
    """The most that a message costs by the time of another send, each of its copies by itself."""
    if send.event is event or send.event.t0 > event.t1:
        return 0
    times = max(1, len(send.copies), len(send.dest.sessions) if send.dest.topic else 0)
    return times * (send.event.size + OVERHEAD_MAX_BYTES)


def limit_at(tables: Tables, reading: Reading) -> int:
    """The broker's limit when something was read; 0: there is none, -1: nobody knows."""
    return _told(tables, reading, "", tables.declared.memory_limit_bytes)


def own_limit_at(tables: Tables, reading: Reading) -> int:
    """The own limit of the destination that was read; 0: it has none, -1: nobody knows."""
    dest = reading.dest
    return 0 if dest is None else _told(tables, reading, dest.name, dest.applied.memory_limit_bytes)


def governing_limit(tables: Tables, reading: Reading) -> int:
    """What was read has that limit: its own, or the broker's; 0: none, -1: nobody knows."""
    return own_limit_at(tables, reading) or limit_at(tables, reading)


def own_limits(tables: Tables, dest: Destination) -> list[Operate]:
    """What operators made of a destination's own limit."""
    return [one for one in tables.limits if one.dest == dest.name]


def _told(tables: Tables, reading: Reading, place: str, declared_bytes: int) -> int:
    """The limit that an operator set last there; ``place`` "": of the broker."""
    event, limits = reading.event, [one for one in tables.limits if one.dest == place]
    changes = [one for one in limits if one.t0 < event.t1 or (one.t0 == event.t1 and one.seq < event.seq)]
    if not changes:
        return declared_bytes
    last = changes[-1]
    if last.result != "ok" or last.seq > event.seq or last.t1 > event.t0 or tables.restarted(last.t0, event.t1):
        return -1
    return last.limit_bytes if last.limit_bytes is not None else -1


def scarce_ns(tables: Tables, dest: Destination) -> int:
    """From when on a broker may rightly hold a destination's messages back for want of memory; ``NEVER``: never. What
    was over before it was used does not matter.
    """
    first_ns = began_ns(dest)
    spans = tables.marks.spans(marks.MEMORY, dest.name) + tables.marks.spans(marks.LIMIT, dest.name)
    return min([low for low, high in spans if high >= first_ns], default=NEVER)
