"""Credit: whether a session had room for a message, and nothing excuses a broker that does not give it one.

A message that is visible from some instant of ``[from, to]`` on must arrive by ``to`` plus the declared lateness if,
over that time,

1. at least one session was attached for certain, and its window had room for certain: its prefetch is not less than the
   number of messages that can have been visible and unsettled there at any instant of it, and half of it was free if it
   may have been full before, of a real broker;
2. no other session of the destination can have swallowed it: none came or went unclearly, none left, no stalled link;
3. nothing else excuses the broker: a process that stood still, a restart, scarce memory, a session that chooses.

On topics only sessions that were attached before the send count, and each must get it.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

from brokerproof.conformance.experiment.history import Nack
from brokerproof.conformance.facts import marks
from brokerproof.conformance.facts.deliveries import settled
from brokerproof.conformance.facts.due import due_of
from brokerproof.conformance.facts.presence import departed_ns, leaving_ns, rest_after
from brokerproof.conformance.facts.rows import SETTLED, Copy, Delivery, Destination, Send, Session
from brokerproof.conformance.facts.settling import gave_up
from brokerproof.conformance.facts.spans import NEVER, NS_PER_MS, Span
from brokerproof.conformance.facts.tables import Tables

#: What may rightly keep a message waiting on a destination that is otherwise calm.
DISTURBED: Final = marks.RESTART | marks.OPERATOR | marks.CHOOSING | marks.PAUSE
EXCUSES: Final = DISTURBED | marks.MEMORY | marks.LIMIT


class Traffic:
    """Messages of one destination over time, as sorted instants."""

    def __init__(self, tables: Tables, dest: Destination) -> None:
        #: From when on each may have been visible; when they had certainly left.
        self.visible_ns: list[int] = []
        self.settled_ns: list[int] = []
        for send in dest.sends:
            event = send.event
            if event.result == "fail":
                continue
            due = due_of(tables, send) if send.delayed else None
            copy = send.copies.get(dest.name)
            gone = _gone_ns(copy) if not dest.topic and copy is not None else NEVER
            # What left before it was due, because it died, was never both visible and unsettled.
            self.visible_ns.append(min(due.span[0] if due is not None else event.t0, gone))
            if gone < NEVER:
                self.settled_ns.append(gone)
        # A virtual topic's queue got what was sent before it had a consumer for certain, too.
        known = {send.message for send in dest.sends}
        late = [copy for copy in dest.copies if copy.message not in known] if not dest.topic else []
        for copy in (*late, *_brought(dest)):
            self.visible_ns.append(copy.send.event.t0)
            if (gone := _gone_ns(copy)) < NEVER:
                self.settled_ns.append(gone)
        self.visible_ns.sort()
        self.settled_ns.sort()

    def most(self, t0: int, t1: int) -> int:
        """The most messages that can have been visible and unsettled at an instant of ``[t0, t1]``."""
        return bisect_right(self.visible_ns, t1) - bisect_right(self.settled_ns, t0)


def _brought(dest: Destination) -> list[Copy]:
    """What arrived from where it had not been sent to: operators move messages, brokers dead-letter them."""
    found = {
        (delivery.copy.message, delivery.copy.holder): delivery.copy
        for session in dest.sessions
        for delivery in session.deliveries
        if delivery.dest is dest and delivery.copy.dest is not dest
    }
    return list(found.values())


def _gone_ns(copy: Copy) -> int:
    """By when a copy had certainly left its queue."""
    bound = NEVER
    for delivery in copy.deliveries:
        again = delivery.dest.applied.entry.redelivery is not None and gave_up(delivery)
        twin = copy.message in delivery.session.twins  # it may have been another copy that was settled
        for event in delivery.settlements:
            if again or twin or (isinstance(event, Nack) and delivery.state != SETTLED):
                continue  # the broker may try again
            if getattr(event, "result", "") == "ok" and getattr(event, "tx", None) is None:
                bound = min(bound, event.t1)
        if delivery.session.auto:
            bound = min(bound, delivery.event.t1)
    return min([bound, *(delivery.event.t1 for delivery in copy.dead_letters)])


class Load:
    """Messages of one session over time, as sorted instants."""

    def __init__(self, tables: Tables, session: Session) -> None:
        #: From when on each may have been in its window; when it had certainly left it.
        self._sent_ns = sorted([delivery.send.event.t0 for delivery in session.deliveries])
        self._freed_ns = sorted([_freed_ns(tables, delivery) for delivery in session.deliveries])

    def most(self, t0: int, t1: int) -> int:
        """The most messages that it can have held at an instant of ``[t0, t1]``."""
        return bisect_right(self._sent_ns, t1) - bisect_right(self._freed_ns, t0)


def _freed_ns(tables: Tables, delivery: Delivery) -> int:
    settlement = delivery.settlement
    if settlement is None or not (delivery.requeued or settled(tables, delivery)):
        return NEVER
    return settlement.t1 if delivery.session.traits.awaits_receipt else rest_after(tables, settlement.t1)


class Credit:
    """Answers for one run; keeps what it has counted per destination and session."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._traffic: dict[str, Traffic] = {}
        self._loads: dict[str, Load] = {}

    def surely_free(self, session: Session, t0: int, t1: int) -> bool:
        """Whether a session was there and had a free slot all the time of ``[t0, t1]``, for certain."""
        if session.event is None or not session.known or session.event.t1 > t0 or session.lost_ns <= t1:
            return False
        if session.prefetch == 0 or session.client.stalled(t0, t1) or rest_after(self._tables, t1) >= session.ended_ns:
            return False
        most = self._load(session).most(t0, t1)
        return most < session.least and self._is_refilled(session, most)

    def _is_refilled(self, session: Session, held: int) -> bool:
        """Whether a window that may have been full is given more: a real broker may wait until half of it is free."""
        return self._tables.simulated or 2 * held <= session.least

    def _load(self, session: Session) -> Load:
        load = self._loads.get(session.name)
        if load is None:
            load = self._loads[session.name] = Load(self._tables, session)
        return load

    def _is_filled(self, session: Session, message: str, t0: int, t1: int) -> bool:
        """Whether a session is given a message as soon as it has room."""
        own = message in session.seen
        if session.auto or len(session.deliveries) - own < session.least:
            return True
        return self._is_refilled(session, self._load(session).most(t0, t1) - own)

    def most(self, dest: Destination, t0: int, t1: int) -> int:
        """The most messages that can have been visible and unsettled there at an instant of ``[t0, t1]``."""
        traffic = self._traffic.get(dest.name)
        if traffic is None:
            traffic = self._traffic[dest.name] = Traffic(self._tables, dest)
        return traffic.most(t0, t1)

    def waiting(
        self, send: Send, dest: Destination, span: Span, *, excused: int = EXCUSES, slots: bool = False
    ) -> list[Session]:
        """The sessions that waited for a message with room in their windows, if the destination was calm from the
        beginning of ``span`` until the lateness after its end; else none. ``excused``: marks that excuse the broker.
        ``slots``: one free slot is enough, whoever comes first.
        """
        tables = self._tables
        from_ns, until_ns = span[0], span[1] + tables.declared.lateness_ms * NS_PER_MS
        end = tables.phases.get("end")
        if end is None or until_ns > end.t1 or not dest.sessions or dest.kind == "advisory":
            return []  # what arrives from advisories is no row
        if tables.marks.on(dest.name, (from_ns, until_ns)) & excused:
            return []
        attached: list[Session] = []
        for session in dest.sessions:
            if session.opened[0] > until_ns or departed_ns(session) < from_ns:
                continue
            stalled = session.client.stalled(from_ns, until_ns)
            if session.uncertain or not session.known or stalled or leaving_ns(session) <= until_ns:
                return []
            if session.opened[1] <= (send.event.t0 if dest.topic else from_ns):
                attached.append(session)
        if not attached:
            return []
        most = self.most(dest, from_ns, until_ns)
        roomy = [s for s in attached if s.auto or s.least >= (self._most_for(s, from_ns, until_ns) if s.wild else most)]
        roomy = [s for s in roomy if self._is_filled(s, send.message, from_ns, until_ns)]
        return roomy or [s for s in attached if slots and self.surely_free(s, from_ns, until_ns)]

    def waited_for(self, delivery: Delivery, from_ns: int) -> bool:
        """Whether the session at which a copy arrived first had room for it all the time from ``from_ns`` on, nothing
        excuses the broker, and nobody else can have had it meanwhile.
        """
        tables, session, until_ns = self._tables, delivery.session, delivery.event.t1
        if session.event is None or session.opened[1] > from_ns or session.client.stalled(from_ns, until_ns):
            return False
        if tables.marks.on(delivery.dest.name, (from_ns, until_ns)) & EXCUSES or session.wild:
            return False
        if tables.may_page(delivery.dest):  # what is in the store may wait for the next wake-up
            return False
        others = [other for other in delivery.dest.sessions if other is not session and other.opened[0] <= until_ns]
        if any(not other.known or leaving_ns(other) <= until_ns for other in others if departed_ns(other) >= from_ns):
            return False
        room = session.auto or session.least >= self.most(delivery.dest, from_ns, until_ns)
        return room and self._is_filled(session, delivery.event.message, from_ns, until_ns)

    def _most_for(self, session: Session, t0: int, t1: int) -> int:
        """The same on all destinations of a wildcard."""
        return sum(self.most(dest, t0, t1) for dest in self._tables.destinations.values() if session in dest.sessions)


def arrived_ns(send: Send, dest: Destination, waiting: list[Session]) -> Span:
    """Bounds of the time at which a message had arrived where it had to: at anybody (queue), at all who waited (topic);
    ``NEVER`` if it did not.
    """
    if not dest.topic:
        copy = send.copies.get(dest.name)
        if copy is None or not copy.deliveries:
            return NEVER, NEVER
        event = copy.deliveries[0].event
        return event.t0, event.t1
    low, high = 0, 0
    for session in waiting:
        found = next((d.event for d in session.deliveries if d.event.message == send.message), None)
        if found is None:
            return NEVER, NEVER
        low, high = max(low, found.t0), max(high, found.t1)
    return low, high
