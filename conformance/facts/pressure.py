"""Pressure: when memory may have been so scarce that a broker may rightly hold messages back.

An upper bound of all that was ever sent is set against half of a limit; below that nothing can be scarce. A limit that
an operator changed says nothing any more.
"""

from __future__ import annotations

from brokerproof.conformance.facts import marks
from brokerproof.conformance.facts.epochs import OVERHEAD_MAX_BYTES
from brokerproof.conformance.facts.policy import PRESSURE_PERCENT
from brokerproof.conformance.facts.rows import Destination, Reading
from brokerproof.conformance.facts.spans import NEVER
from brokerproof.conformance.facts.tables import Tables


def mark_pressure(tables: Tables) -> None:
    """Put marks ``memory`` where a limit may have been half reached: from the send that did it to the end."""
    limit = tables.declared.memory_limit_bytes
    if 0 < limit * PRESSURE_PERCENT < tables.sent_bytes * 100:
        sent = 0
        for send in tables.sends.values():
            times = len(send.copies) if send.dest.kind in {"composite", "virtual"} else 1
            sent += max(1, times) * (send.event.size + OVERHEAD_MAX_BYTES)
            if sent * 100 > limit * PRESSURE_PERCENT:
                tables.marks.put(marks.MEMORY, "", (send.event.t0, NEVER))
                break
    for dest in tables.destinations.values():
        own = dest.applied.memory_limit_bytes
        if 0 < own * PRESSURE_PERCENT < dest.sent_bytes * 100:
            tables.marks.put(marks.MEMORY, dest.name, (dest.sends[0].event.t0, NEVER))


def scarce(tables: Tables, until_ns: int = NEVER) -> bool:
    """Whether the broker's memory may have been scarce at any time before."""
    if tables.limits and tables.limits[0].t0 <= until_ns:
        return True
    return any(low <= until_ns for low, _ in tables.marks.spans(marks.MEMORY, ""))


def pressed(tables: Tables, dest: Destination, reading: Reading) -> bool:
    """Whether memory may have been scarce when a destination was read."""
    limit, own = tables.declared.memory_limit_bytes, dest.applied.memory_limit_bytes
    return (
        (bool(tables.limits) and tables.limits[0].t0 <= reading.event.t1)
        or 0 < limit * PRESSURE_PERCENT < reading.sent_bytes * 100
        or 0 < own * PRESSURE_PERCENT < reading.sent_here_bytes * 100
    )


def exceedable(tables: Tables) -> bool:
    """Whether so much was ever sent that a memory limit that was declared may have been exceeded."""
    return 0 < tables.declared.memory_limit_bytes < tables.sent_bytes or any(
        0 < dest.applied.memory_limit_bytes < dest.sent_bytes for dest in tables.destinations.values()
    )


def limit_at(tables: Tables, reading: Reading) -> int:
    """The broker's limit when something was read; 0: there is none, -1: nobody knows."""
    event = reading.event
    changes = [one for one in tables.limits if one.t0 < event.t1 or (one.t0 == event.t1 and one.seq < event.seq)]
    if not changes:
        return tables.declared.memory_limit_bytes
    last = changes[-1]
    if last.result != "ok" or last.t1 > event.t0 or tables.restarted(last.t0, event.t1):
        return -1
    return last.limit_bytes if last.limit_bytes is not None else -1


def scarce_ns(tables: Tables, dest: Destination) -> int:
    """From when on a broker may rightly hold a destination's messages back for want of memory; ``NEVER``: never."""
    return min(
        [low for kind in (marks.MEMORY, marks.LIMIT) for low, _ in tables.marks.spans(kind, dest.name)], default=NEVER
    )
