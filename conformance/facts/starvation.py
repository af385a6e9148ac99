"""Starvation: whether, at rest, a message waits on a queue beside a consumer that would take it."""

from __future__ import annotations

from typing import Final

from brokerproof.conformance.facts.absence import maybe_swallowed, pauses
from brokerproof.conformance.facts.marks import RESOLVED
from brokerproof.conformance.facts.rows import Copy, Reading, Session
from brokerproof.conformance.facts.tables import Tables

#: So many of the messages that wait are looked at, the latest first: it is them that least can have happened to.
TRIES: Final = 8


def held_up(reading: Reading) -> bool:
    """Whether consumers of the queue hold messages, or may, so that they themselves may keep others waiting."""
    windows = (*reading.windows, *reading.wild)
    return any(window.held or window.doubted or not window.session.known for window in windows)


def server(reading: Reading) -> Session | None:
    """A consumer with room that takes any message, where all that are there are such consumers; else None."""
    windows = (*reading.windows, *reading.wild)
    if any(window.session.selective or not window.session.known for window in windows):
        return None
    return next((window.session for window in windows if window.room()), None)


def waits(tables: Tables, reading: Reading) -> Copy | None:
    """A message that waits on the queue for certain, and needs nobody in particular."""
    for copy in reversed(reading.waiting[-TRIES:]):
        elsewhere = copy.marks & RESOLVED or _maybe_taken(copy, reading) or maybe_swallowed(tables, copy)
        if not copy.send.event.group and not elsewhere and not pauses(copy):
            return copy
    return None


def _maybe_taken(copy: Copy, reading: Reading) -> bool:
    """Whether an operator may have taken it from its queue."""
    dest, sent_ns, read_ns = copy.dest, copy.send.event.t0, reading.event.t1
    return any(o.dest == dest.name and o.t1 >= sent_ns and o.t0 <= read_ns for o in dest.purges)
