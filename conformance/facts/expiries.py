"""Expiries: what a queue's counters ``expired`` and ``enqueued`` may and must say at each reading.

A queue counts each message that dies there, once; one that is dead on arrival is not enqueued, and may or may not count
as expired. Totals begin anew with the broker's process, and where an operator resets them.

* At most: the messages that the broker's clock may have called dead by then, or a client that the broker believes; less
  those that an acknowledgement had consumed, and those that a consumer had whose library does not check.
* At least: those that were alive when they came and then waited, dead for certain and with nobody who might have had
  them, for a period of the sweep and the declared lateness; and those whose dead letters were found.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from itertools import accumulate

from brokerproof.conformance.experiment.history import Discard
from brokerproof.conformance.facts import marks
from brokerproof.conformance.facts.absence import maybe_swallowed
from brokerproof.conformance.facts.credit import Traffic
from brokerproof.conformance.facts.deaths import consumed_ns, given_up, maybe_discarded
from brokerproof.conformance.facts.expiration import Death, may_die, maybe_restamped
from brokerproof.conformance.facts.policy import believes_clients
from brokerproof.conformance.facts.presence import departed_ns, leaving_ns
from brokerproof.conformance.facts.rows import LATE, Copy, Delivery, Destination, Reading, Send
from brokerproof.conformance.facts.spans import NEVER, NS_PER_MS, Span, touches
from brokerproof.conformance.facts.tables import Tables

Deaths = Callable[[Send], Death | None]


class Expiries:
    """The bounds at one reading of a queue, in messages."""

    # fmt: off
    __slots__ = ("due", "first_due", "held", "least", "left", "lived", "marks", "most", "reading", "settled",
                 "since_ns", "suspect", "suspects", "witness")
    # fmt: on

    def __init__(self, reading: Reading, since_ns: int) -> None:
        self.reading = reading
        self.marks = reading.marks
        #: The totals count what was sent after this; -1: everything.
        self.since_ns = since_ns
        #: What may have expired; of it, what had been consumed for certain, and what was with a consumer.
        self.most = 0
        self.settled = 0
        self.held = 0
        #: What a sweep has met for certain, and the first of it; so no more than this is left there. Where there is
        #: more than what consumers have left, it says nothing.
        self.due = 0
        self.first_due: Copy | None = None
        self.left = NEVER
        #: What expired there for certain, since its dead letters had been found; the first of it.
        self.least = 0
        self.witness: Copy | None = None
        #: What was alive when it came, and so was enqueued; of it, what may die and nobody got, and the last of that.
        self.lived = 0
        self.suspects = 0
        self.suspect: Copy | None = None


def expiries(tables: Tables, deaths: Deaths) -> list[Expiries]:
    """The bounds at all readings of the queues on which something can have expired, or was counted so."""
    found: list[Expiries] = []
    for dest in tables.destinations.values():
        readings = [reading for reading in dest.readings if reading.event.expired is not None]
        if not readings or dest.topic or dest.kind != "queue" or dest.virtual:
            continue
        mortal = any(may_die(tables, copy.send) or copy.called_expired for copy in dest.copies)
        moved = any(operation.op == "move" for operation in dest.purges)
        if moved or not (mortal or any(reading.event.expired for reading in readings)):
            continue
        queue = Queue(tables, deaths, dest)
        counted = [queue.at(reading) for reading in readings]
        queue.sweep(counted)
        found += counted
    return found


class Queue:
    """All copies of one queue, as sorted instants."""

    def __init__(self, tables: Tables, deaths: Deaths, dest: Destination) -> None:
        self.tables = tables
        self.deaths = deaths
        self.dest = dest
        #: What may have expired: when at the earliest, when consumed for certain, when with a consumer for certain.
        self.soonest_ns: list[int] = []
        self.consumed_ns: list[int] = []
        self.held_from_ns: list[int] = []
        self.held_until_ns: list[int] = []
        #: What was alive when it came: by when it had.
        self.lived_ns: list[int] = []
        self.suspects: list[Copy] = []
        #: What died there for certain, in order of finding; what a sweep may have to meet, in order of death.
        self.dead_letters: list[Copy] = []
        self.waiting: list[tuple[int, Copy]] = []
        #: The life of a delayed message may begin with its release.
        self.rebases = tables.declared.generation.get("delay", "jms") != "jms"
        #: When totals began anew, from the earliest on, and by when they had.
        anew = sorted((event.t0, event.t1) for event in (*tables.restarts, *tables.resets, *dest.purges))
        self.anew = [begin for begin, _ in anew]
        self.begun = list(accumulate((end for _, end in anew), max))
        for copy in dest.copies:
            if not copy.send.refused:
                self._add(copy)
        for instants in (self.soonest_ns, self.consumed_ns, self.held_from_ns, self.held_until_ns, self.lived_ns):
            instants.sort()
        self.suspects.sort(key=_accepted_ns)
        self.dead_letters.sort(key=_found_ns)
        self.waiting.sort(key=lambda one: one[0])

    def _add(self, copy: Copy) -> None:
        send = copy.send
        death = self.deaths(send)
        if death is None:
            self._suspect(send)
            return
        if death.alive_at_first and send.confirmed and _is_awaited(copy):
            self._await(copy, death)
        if not death.mortal and not (copy.deliveries and copy.discards()):
            return
        on_queue = death.alive_at_first or bool(copy.deliveries)
        if send.confirmed and death.mortal and on_queue and copy.dead_letters and not given_up(copy):
            self.dead_letters.append(copy)
        soonest_ns, consumed = self._soonest_ns(copy, death), consumed_ns(self.tables, copy)
        if soonest_ns >= consumed:
            return
        self.soonest_ns.append(soonest_ns)
        if consumed < NEVER:
            self.consumed_ns.append(consumed)
        for delivery in copy.deliveries:
            self._hold(delivery, soonest_ns)

    def _suspect(self, send: Send) -> None:
        """It may have come, at any time."""
        tables, event = self.tables, send.event
        soonest_ns: int | None = event.t0
        if not may_die(tables, send):
            return
        if tables.broker_clock.known and not maybe_restamped(tables, send):
            soonest_ns = tables.broker_clock.earliest_ns(event.t0, (event.expiration_ms + 1) * NS_PER_MS)
        if soonest_ns is not None:
            self.soonest_ns.append(soonest_ns)

    def _await(self, copy: Copy, death: Death) -> None:
        delayed = copy.send.event.delay_ms > 0
        if copy.send.event.deliver_at_ms is not None or (delayed and self.rebases):
            return
        if death.mortal:
            self.waiting.append((death.high_ns, copy))
        if not delayed:
            self.lived_ns.append(copy.send.accepted[1])
            if death.mortal and not copy.deliveries:
                self.suspects.append(copy)

    def _soonest_ns(self, copy: Copy, death: Death) -> int:
        """The earliest true time at which the broker may have counted it; ``NEVER``: it did not."""
        tables, sent_ns = self.tables, copy.send.event.t0
        sent_ns += copy.send.accepted[1] > sent_ns  # what took time was accepted later than it began
        soonest_ns = tables.broker_clock.earliest_ns(sent_ns, death.low_ns) if death.mortal else None
        if soonest_ns is None:
            soonest_ns = NEVER
        if not believes_clients(tables.declared) or not maybe_discarded(tables, copy, death):
            return soonest_ns
        discards = copy.discards()
        told_ns = min(event.t0 for event in discards) if discards and tables.simulated else sent_ns
        return min(told_ns, soonest_ns)

    def _hold(self, delivery: Delivery, soonest_ns: int) -> None:
        """A consumer whose library does not check had it, so that it cannot expire."""
        session = delivery.session
        if not session.known or session.ack == "auto" or not session.traits.known or session.traits.checks_expiry:
            return
        if delivery.rollbacks or delivery.state == LATE:
            return
        settlement = delivery.settlement
        until_ns = min(settlement.t0 if settlement is not None else NEVER, session.lost_ns - 1)
        from_ns = max(delivery.event.t1, soonest_ns)
        if from_ns <= until_ns:
            self.held_from_ns.append(from_ns)
            self.held_until_ns.append(until_ns)

    def at(self, reading: Reading) -> Expiries:
        """All bounds but those of the sweep."""
        event, tables = reading.event, self.tables
        begun = bisect_right(self.anew, event.t1)
        found = Expiries(reading, self.begun[begun - 1] if begun else -1)
        found.most = bisect_right(self.soonest_ns, event.t1)
        found.settled = bisect_right(self.consumed_ns, event.t0)
        found.held = bisect_right(self.held_from_ns, event.t0) - bisect_left(self.held_until_ns, event.t1)
        if not begun:
            until_ns = event.t0 if event.at_rest else event.t0 - tables.declared.lateness_ms * NS_PER_MS
            found.lived = bisect_right(self.lived_ns, until_ns)
            found.suspects = bisect_right(self.suspects, until_ns, key=_accepted_ns)
            found.suspect = self.suspects[found.suspects - 1] if found.suspects else None
        if event.seq > tables.drain_seq:
            letters = self.dead_letters[: bisect_right(self.dead_letters, event.t0, key=_found_ns)]
            least = [copy for copy in letters if copy.send.event.t0 > found.since_ns]
            found.least = len(least)
            found.witness = least[0] if least else None
        return found

    def sweep(self, counted: list[Expiries]) -> None:
        """Add what a sweep must have met by each reading at rest, if nothing may have been hidden from it."""
        tables, applied = self.tables, self.dest.applied
        reach_ns = (applied.expire_period_ms + tables.declared.lateness_ms) * NS_PER_MS
        if applied.expire_period_ms <= 0 or not self.waiting:
            return
        hidden, traffic = hidden_spans(tables, self.dest), Traffic(tables, self.dest)
        place, since_ns = 0, -1
        #: By when the broker's clock must show what, for those that were dead once: a clock that is put back undoes it.
        dead: list[tuple[int, Copy]] = []
        due: list[Copy] = []
        for one in counted:
            event = one.reading.event
            from_ns = event.t0 - reach_ns
            if one.since_ns > since_ns:
                since_ns = one.since_ns
                due = [copy for copy in due if copy.send.event.t0 > since_ns]
            if not event.at_rest or from_ns < 0 or touches(hidden, (from_ns, event.t1 - 1)):
                continue
            if traffic.most(from_ns, event.t1) > applied.entry.max_expire_page_size:
                continue
            least_ns = tables.broker_clock.bounds_ns(from_ns, event.t0)[0]
            while place < len(self.waiting) and self.waiting[place][0] <= least_ns:
                dead.append(self.waiting[place])
                place += 1
            later = []
            for dies, copy in dead:
                if dies > least_ns or self._came_ns(copy) > from_ns:
                    later.append((dies, copy))
                elif self._waited(copy, one, from_ns):
                    due.append(copy)
            dead = later
            one.due, one.first_due = len(due), due[0] if due else None
            there = traffic.most(event.t0, event.t1)
            if event.size is not None and there - len(due) < event.size <= there:
                back = applied.entry.redelivery is not None and any(copy.rejected for copy in self.dest.copies)
                one.left = NEVER if back else there - sum(_was_counted(copy, event.t0) for copy in due)

    def _came_ns(self, copy: Copy) -> int:
        """By when the sweep looked at it, for certain: in virtual time at what is not due yet, too."""
        return copy.send.accepted[1] if self.tables.simulated else _visible_ns(copy)

    def _waited(self, copy: Copy, one: Expiries, from_ns: int) -> bool:
        """Whether nobody had it from then until a reading, for certain, and its death is counted."""
        had = [delivery for delivery in copy.deliveries if delivery.event.t0 <= one.reading.event.t1]
        if copy.send.event.t0 <= one.since_ns or any(not self._is_aside(delivery, from_ns) for delivery in had):
            return False
        return not maybe_swallowed(self.tables, copy, self.deaths(copy.send))

    def _is_aside(self, delivery: Delivery, by_ns: int) -> bool:
        """Whether a client had discarded it by then, and the broker kept it, which judges by its own clock. A real one
        of that generation counts it as the client's until the next acknowledgement.
        """
        if not self.tables.simulated or believes_clients(self.tables.declared):
            return False
        last = delivery.settlements[-1] if delivery.settlements else None
        return isinstance(last, Discard) and last.t1 + self.tables.declared.lateness_ms * NS_PER_MS <= by_ns


def hidden_spans(tables: Tables, dest: Destination) -> list[Span]:
    """When messages of a queue may have been on their way to a consumer that never showed them, or the sweep stood
    still: spans apart from each other, rising.
    """
    spans = [*tables.marks.spans(marks.PAUSE, dest.name), *tables.marks.spans(marks.RESTART, dest.name)]
    # Beyond a limit that was lowered a sweep that reads pages reads nothing.
    spans += tables.marks.spans(marks.LIMIT, dest.name) if tables.paged else []
    for session in dest.sessions:
        if session.uncertain or not session.known:
            spans.append((session.opened[0], NEVER))
        if session.leave is not None:
            spans.append((leaving_ns(session), departed_ns(session)))
        spans += [stall.span() for stall in session.client.stalls]
    apart: list[Span] = []
    for low, high in sorted(spans):
        if apart and low <= apart[-1][1]:
            apart[-1] = (apart[-1][0], max(high, apart[-1][1]))
        else:
            apart.append((low, high))
    return apart


def _is_awaited(copy: Copy) -> bool:
    """Whether its sender's ``ok`` means that it reached its queue: not all that a lost connection sent need come."""
    client = copy.send.client
    return copy.send.event.persistent or client.traits.awaits_receipt or not (client.ends or client.closes)


def _accepted_ns(copy: Copy) -> int:
    return copy.send.accepted[1]


def _visible_ns(copy: Copy) -> int:
    """By when it could be seen, for certain."""
    return copy.send.accepted[1] + copy.send.event.delay_ms * NS_PER_MS


def _was_counted(copy: Copy, at_ns: int) -> bool:
    """Whether the messages that can have been there then include it, and not its dead letter instead."""
    return _visible_ns(copy) <= at_ns and (not copy.dead_letters or _found_ns(copy) > at_ns)


def _found_ns(copy: Copy) -> int:
    return copy.dead_letters[0].event.t1
