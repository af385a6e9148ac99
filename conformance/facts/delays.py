"""Delays: what waits on a destination for its delivery time, and for which messages somebody waited with room."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import accumulate
from typing import Final

from brokerproof.conformance.facts import marks
from brokerproof.conformance.facts.credit import EXCUSES, Credit
from brokerproof.conformance.facts.due import Due, due_of
from brokerproof.conformance.facts.expiration import alive, death_of, may_die
from brokerproof.conformance.facts.rows import Destination, Send, Session
from brokerproof.conformance.facts.spans import NEVER, NS_PER_MS, Span
from brokerproof.conformance.facts.tables import Tables

#: How many of the delayed messages that were sent before are looked at.
LOOK_BACK: Final = 64


class Awaited:
    """A confirmed message and the sessions of one destination that waited for it with room in their windows, all the
    time until ``until_ns``, by when it was to have arrived. ``longer``: another one that was sent there before and was
    not due by then; ``ahead``: how many such there were, at least.
    """

    __slots__ = ("ahead", "dest", "due", "longer", "sessions", "until_ns")

    def __init__(self, due: Due, dest: Destination, until_ns: int) -> None:
        self.due = due
        self.dest = dest
        self.until_ns = until_ns
        self.sessions: list[Session] = []
        self.longer: Due | None = None
        self.ahead = 0


class Backlog:
    """The confirmed messages of one destination that had to wait, in order of acceptance."""

    def __init__(self, waits: list[Due]) -> None:
        self.waits = sorted(waits, key=_taken_ns)
        self._taken_ns = [_taken_ns(due) for due in self.waits]
        #: Of the first n, the one that waits longest.
        self._longest = list(accumulate(self.waits, _later))
        self._due_ns = sorted(due.span[0] for due in waits)

    def waiting(self, t0: int, t1: int) -> Due | None:
        """One that the broker had taken by ``t0`` and that was not due by ``t1``, for certain."""
        count = bisect_left(self._taken_ns, t0)
        longest = self._longest[count - 1] if count else None
        return longest if longest is not None and longest.span[0] > t1 else None

    def count(self, t0: int, t1: int) -> int:
        """At least so many had been taken by ``t0`` and were not due by ``t1``."""
        return bisect_left(self._taken_ns, t0) - bisect_right(self._due_ns, t1)


class Scheduled:
    """How many messages of a destination can have waited for their delivery time at an instant. ``waits``: its delayed
    sends, each with what is known of its time.
    """

    def __init__(self, tables: Tables, waits: list[tuple[Send, Due | None]]) -> None:
        may = [(send, due) for send, due in waits if not send.refused]
        #: From when on each may have waited, and by when it certainly did not any more.
        self._starts_high = sorted(send.event.t0 for send, _ in may)
        self._ends_high = sorted(_over_ns(send, due) for send, due in may)
        must = [(_taken_ns(due), _begin_ns(due)) for _, due in may if due is not None and _is_kept(tables, due.send)]
        #: From when until when each certainly waited.
        self._starts_low = sorted(start for start, end in must if start < end)
        self._ends_low = sorted(end for start, end in must if start < end)

    def bounds(self, span: Span, since_ns: int) -> Span:
        """Least and greatest number; of those that were taken by ``since_ns`` nobody knows."""
        t0, t1 = span
        least = bisect_left(self._starts_low, t0) - bisect_right(self._starts_low, since_ns)
        most = bisect_right(self._starts_high, t1) - bisect_right(self._ends_high, t0)
        return max(0, least - bisect_right(self._ends_low, t1)), most


def _is_kept(tables: Tables, send: Send) -> bool:
    """Whether nothing but its delivery time ends its wait."""
    stays = (send.event.persistent and tables.declared.persistent) or not tables.restarted(send.event.t0, NEVER)
    return send.confirmed and stays and not may_die(tables, send)


def _over_ns(send: Send, due: Due | None) -> int:
    seen_ns = send.seen.t1 if send.seen is not None else NEVER
    return min(due.visible[1] + 1, seen_ns) if due is not None else seen_ns


def _begin_ns(due: Due) -> int:
    seen = due.send.seen
    return min(due.span[0], seen.t0 if seen is not None else NEVER)


def _taken_ns(due: Due) -> int:
    return due.send.accepted[1]


def _later(one: Due, other: Due) -> Due:
    return other if other.span[0] > one.span[0] else one


class Delays:
    """Answers for one run."""

    def __init__(self, tables: Tables, credit: Credit) -> None:
        self._tables = tables
        self._credit = credit
        self._dues: dict[str, Due | None] = {}
        self._all: list[Due] | None = None
        self._awaited: list[Awaited] | None = None
        self._backlogs: dict[str, Backlog] = {}
        self._scheduled: dict[str, Scheduled] = {}

    def due(self, send: Send) -> Due | None:
        """When a message is due; see ``due_of``."""
        name = send.message
        if name not in self._dues:
            self._dues[name] = due_of(self._tables, send)
        return self._dues[name]

    def waits(self) -> list[Due]:
        """Messages that had to wait, for all that is known."""
        if self._all is None:
            dues = [self.due(send) for send in self._tables.delayed if not send.refused]
            self._all = [due for due in dues if due is not None and due.delayed]
        return self._all

    def backlog(self, dest: Destination) -> Backlog:
        """What had to wait on a destination."""
        found = self._backlogs.get(dest.name)
        if found is None:
            dues = [due for send, due in self._waits(dest) if due is not None and due.delayed and send.confirmed]
            found = self._backlogs[dest.name] = Backlog(dues)
        return found

    def scheduled(self, dest: Destination, span: Span, since_ns: int = -1) -> Span:
        """How many messages can have waited on a destination at an instant of ``span``: least, greatest. Of what was
        taken by ``since_ns`` nobody knows.
        """
        if not self._tables.delayed:
            return 0, 0
        found = self._scheduled.get(dest.name)
        if found is None:
            found = self._scheduled[dest.name] = Scheduled(self._tables, self._waits(dest))
        return found.bounds(span, since_ns)

    def _waits(self, dest: Destination) -> list[tuple[Send, Due | None]]:
        return [(send, self.due(send)) for send in dest.sends if send.delayed] if self._tables.delayed else []

    def awaited(self) -> list[Awaited]:
        """Delayed messages, and those that were sent after one that is due later, for which somebody waited."""
        if self._awaited is None:
            self._awaited = []
            for dest in self._tables.destinations.values() if self._tables.delayed else ():
                if self.backlog(dest).waits:
                    self._awaited += self._awaited_on(dest)
        return self._awaited

    def _awaited_on(self, dest: Destination) -> list[Awaited]:
        lateness_ns = self._tables.declared.lateness_ms * NS_PER_MS
        found: list[Awaited] = []
        ahead: list[Due] = []
        last_ns = 0
        for send in dest.sends:
            due = self.due(send) if send.confirmed else None
            if due is None:
                continue
            row = Awaited(due, dest, due.visible[1] + lateness_ns)
            if last_ns > row.until_ns:
                _look_back(ahead, row)
            if (due.delayed or row.longer is not None) and self.await_it(row):
                found.append(row)
            if due.delayed:
                ahead.append(due)
                last_ns = max(last_ns, due.span[0])
        return found

    def await_it(self, row: Awaited, span: Span | None = None, *, excused: int = EXCUSES) -> bool:
        """Note who waited for a message that was visible from some instant of ``span`` on, and was owed; whether
        anybody did.
        """
        send, dest = row.due.send, row.dest
        if self.is_owed(send, dest, row.until_ns):
            row.sessions = self._credit.waiting(send, dest, span or row.due.visible, excused=excused)
        return bool(row.sessions)

    def is_owed(self, send: Send, dest: Destination, until_ns: int) -> bool:
        """Whether a confirmed message lived, and was kept on a destination, to that time, if nobody settled it."""
        tables, event = self._tables, send.event
        if tables.may_page(dest) or dest.kind == "dead-letters":  # whose consumers hold what died elsewhere, too
            return False
        if dest.topic and dest.applied.entry.pending_message_limit is not None:
            return False  # of several that are due at once a slow subscriber need not get all
        if tables.marks.on(dest.name, (event.t0, until_ns)) & (marks.OPERATOR | marks.MQSC):
            return False
        kept = event.persistent and tables.declared.persistent
        if tables.restarts and not kept and tables.restarted(event.t0, until_ns):
            return False
        if not may_die(tables, send):
            return True
        death = death_of(tables, send)
        return death is not None and alive(tables, death, event.t0, until_ns, event.seq)


def _look_back(ahead: list[Due], row: Awaited) -> None:
    sent_ns = row.due.send.event.t0
    longer = [due for due in ahead[-LOOK_BACK:] if due.span[0] > row.until_ns and due.send.accepted[1] <= sent_ns]
    row.longer = longer[-1] if longer else None
    row.ahead = len(longer)
