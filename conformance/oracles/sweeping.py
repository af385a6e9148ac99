"""What the broker's counters say about expiry: nothing counted as expired too early (EXP-003), nothing left behind by
the sweep (EXP-009). Part of the expiry oracle.

Model of a queue's ``expired`` counter: it counts messages that were on the queue and died there, each once. Whether a
message that is dead on arrival counts differs between brokers, so it may or may not.

* Upper bound (EXP-003): at any reading, no more can have been counted than there are messages sent by then whose
  expiration the broker's clock can have passed by then, or that a client has discarded by then where the broker
  believes clients.
* ``enqueued`` (EXP-003): a message that is dead on arrival is not enqueued. So if fewer were enqueued than certainly
  lived when they came, some were taken for dead while they lived.
* Lower bound (EXP-009, EXP-021 after a step of the broker's clock): at a reading at rest, every message has been
  counted that was certainly alive when it came, then waited where nobody got it, and has certainly been dead for a
  period of the sweep and the declared lateness.
  ``size`` gives a second bound: the queue holds no more than what may still be there.

Not judged: topics; destinations without a sweep (period <= 0); queues with more messages than a sweep looks at
(``max_expire_page_size``); readings shortly after a consumer left or a link was stalled, because messages that came
back are only swept from then on.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from brokerproof.conformance.experiment.configuration import DestinationSpec
from brokerproof.conformance.experiment.destinations import is_topic
from brokerproof.conformance.oracles.decision import believes_client, may_be_swallowed
from brokerproof.conformance.oracles.dial import NS_PER_MS
from brokerproof.conformance.oracles.records import matches

if TYPE_CHECKING:
    from brokerproof.conformance.experiment.configuration import DeclaredSpec
    from brokerproof.conformance.experiment.history import Counters, Header
    from brokerproof.conformance.oracles.base import Claim
    from brokerproof.conformance.oracles.fate import Fate, Mortality
    from brokerproof.conformance.oracles.scene import Scene

#: More messages than any queue holds.
VERY_MANY = 1 << 20
STEPPED_FORWARD = "the broker's clock had stepped forward before"
STEPPED_BACK = "the broker's clock had stepped back before"


def period_of(declared: DeclaredSpec, dest: str) -> int:
    """Milliseconds between two sweeps of a destination; 0 or less: none. The entry that names it best counts."""
    if declared.expire_period_ms is not None:
        return declared.expire_period_ms
    best_length, period_ms = -1, 0
    for entry in declared.destinations:
        length = _closeness(entry.match.removeprefix("queue://"), dest)
        if length > best_length:
            best_length, period_ms = length, entry.expire_period_ms
    return period_ms


def page_of(declared: DeclaredSpec, dest: str) -> int:
    """How many messages of a destination a sweep looks at, at least; the entry that admits the fewest counts."""
    pages = [entry.max_expire_page_size for entry in declared.destinations if matches(entry.match, dest)]
    return min(pages, default=DestinationSpec().max_expire_page_size)


def _closeness(pattern: str, dest: str) -> int:
    """How exactly a pattern names a destination; -1: not at all."""
    if pattern == dest:
        return 1000
    asked, wanted = dest.split("."), pattern.split(".")
    if wanted[-1] == ">":
        wanted.pop()
        asked = asked[: len(wanted)]
    if len(asked) != len(wanted) or any(want not in ("*", have) for want, have in zip(wanted, asked, strict=True)):
        return -1
    return 2 * len(wanted) - wanted.count("*")


class Book:
    """What one queue must and may have counted."""

    __slots__ = ("fates", "lived_ns", "soonest_ns", "unknown", "waiting")

    def __init__(self) -> None:
        #: Messages that can expire, and those that a client said had.
        self.fates: list[Fate] = []
        #: When each of them may have been counted as expired, at the earliest.
        self.soonest_ns: list[int] = []
        #: Those that were alive when they came, and that a sweep has to meet.
        self.waiting: list[Fate] = []
        #: By when messages that were alive when they came had been accepted, those without expiration too.
        self.lived_ns: list[int] = []
        #: Messages of which nobody knows whether they came.
        self.unknown = 0


class Sweeping:
    """Judges the counters of one run: ``add`` the fate of every message, then ``judge``."""

    __slots__ = ("_believes", "_books", "_claims", "_header", "_mortality", "_scene", "_slack_ns")

    def __init__(self, claims: dict[str, Claim], scene: Scene, mortality: Mortality, header: Header) -> None:
        self._claims = claims
        self._scene = scene
        self._mortality = mortality
        self._header = header
        self._believes = believes_client(header.declared)
        self._slack_ns = header.declared.lateness_ms * NS_PER_MS
        self._books: dict[str, Book] = {}

    def add(self, fate: Fate) -> None:
        """One message that the broker took over."""
        send = fate.life.send
        book = self._books.get(send.dest)
        if book is None:
            book = self._books[send.dest] = Book()
        if fate.mortal or (self._believes and fate.life.discards):
            book.fates.append(fate)
        if fate.alive_at_first and send.result == "ok":
            if fate.mortal:
                book.waiting.append(fate)
            if not send.delay_ms and send.deliver_at_ms is None:
                book.lived_ns.append(send.t1)

    def judge(self) -> None:
        """All readings of all queues."""
        readings: dict[str, list[Counters]] = {}
        for event in self._scene.counters:
            if event.dest is not None and event.expired is not None and not is_topic(event.dest):
                readings.setdefault(event.dest, []).append(event)
        for dest, events in readings.items():
            book = self._books.get(dest)
            if book is None or not book.fates:
                continue
            lives = self._scene.dests.get(dest, [])
            for life in lives:
                book.unknown += life.send.result == "unknown" and life.accepted() is None
            for fate in book.fates:
                soonest = self._soonest_ns(fate)
                if soonest is not None:
                    book.soonest_ns.append(soonest)
            book.soonest_ns.sort()
            book.lived_ns.sort()
            self._judge_early(dest, events, book)
            if len(lives) <= page_of(self._header.declared, dest):
                self._judge_late(dest, events, book.waiting)

    def _judge_early(self, dest: str, readings: list[Counters], book: Book) -> None:
        """EXP-003."""
        claim = self._claims["EXP-003"]
        for event in readings:
            if event.expired is None:
                continue
            most = bisect_right(book.soonest_ns, event.t1) + book.unknown
            if event.expired > most:
                claim.fail(
                    f"{dest} counts {event.expired} expired messages at {event.t1 / NS_PER_MS:.3f} ms; by the "
                    "broker's clock at most "
                    f"{most} of those sent can have been dead",
                    [event.seq],
                    outcome="too-early",
                )
            elif event.expired:
                claim.hold("the broker counted expired messages", outcome="alive-till-then")
            self._judge_arrivals(dest, event, book)

    def _judge_arrivals(self, dest: str, event: Counters, book: Book) -> None:
        """EXP-003 on arrival: what was alive then must have been enqueued, or else it was taken for dead."""
        until_ns = event.t0 if event.at_rest else event.t0 - self._slack_ns
        lived = bisect_right(book.lived_ns, until_ns)
        if event.enqueued is None or event.enqueued >= lived:
            return
        missing = lived - event.enqueued
        suspects = [f for f in book.waiting if f.life.send.t1 <= until_ns and not f.life.arrivals and not f.given_up()]
        if missing <= len(suspects):
            first = suspects[0].life.send
            self._claims["EXP-003"].fail(
                f"{dest} counts {event.enqueued} enqueued messages at {event.t1 / NS_PER_MS:.3f} ms, but {lived} "
                "that lived "
                f"when they came had been accepted by then; {missing} of {len(suspects)} that nobody received "
                f"({first.message} first) were taken for dead",
                [first.seq, event.seq],
                outcome="too-early",
            )

    def _soonest_ns(self, fate: Fate) -> int | None:
        """The earliest true time at which the broker may have counted it."""
        life = fate.life
        soonest = self._mortality.dial.earliest_ns(life.send.t0, fate.low_ns) if fate.mortal else None
        if self._believes and life.discards:
            discarded_ns = min(event.t0 for event in life.discards)
            return discarded_ns if soonest is None else min(soonest, discarded_ns)
        return soonest

    # -- too late

    def _judge_late(self, dest: str, readings: list[Counters], waiting: list[Fate]) -> None:
        """EXP-009."""
        period_ns = period_of(self._header.declared, dest) * NS_PER_MS
        if period_ns <= 0 or not waiting:
            return
        reach_ns = period_ns + self._slack_ns
        disturbed = self._disturbances(dest)
        for event in readings:
            if not event.at_rest or event.expired is None:
                continue
            from_ns = event.t0 - reach_ns
            if self._is_disturbed(disturbed, from_ns, event.t1):
                continue
            due = [fate for fate in waiting if self._swept(fate, from_ns, event)]
            if due:
                self._judge_reading(dest, event, due, period_ns)

    def _swept(self, fate: Fate, from_ns: int, event: Counters) -> bool:
        """Whether a sweep has certainly met it, dead and waiting."""
        life = fate.life
        if life.send.t1 > from_ns or any(arrival.t0 <= event.t1 for arrival in life.arrivals):
            return False
        delay_ns = life.send.delay_ms * NS_PER_MS
        if life.send.deliver_at_ms is not None or life.send.t1 + delay_ns > from_ns:
            return False
        if not self._mortality.dead(fate, from_ns, event.t0):
            return False
        return not may_be_swallowed(self._scene, self._mortality, fate, event.t1)

    def _judge_reading(self, dest: str, event: Counters, due: list[Fate], period_ns: int) -> None:
        claim = self._claims["EXP-009"]
        jump_ms = self._mortality.dial.jump_between(0, event.t0)
        if jump_ms:
            self._judge_stepped(dest, event, due, jump_ms)
        count = event.expired if event.expired is not None else 0
        gone = len(due)
        first = due[0].life.send
        if count < gone:
            claim.fail(
                f"{dest} is swept every {period_ns // NS_PER_MS} ms; at {event.t1 / NS_PER_MS:.3f} ms {gone} of its "
                "messages "
                f"({first.message} first) had waited dead for longer than that and {self._slack_ns // NS_PER_MS} ms, "
                "but it counts "
                f"{count} expired",
                [first.seq, event.seq],
                outcome="left-behind",
            )
            return
        if event.size is not None and event.size > self._most_left(dest, event, due):
            claim.fail(
                f"{dest} holds {event.size} messages at {event.t1 / NS_PER_MS:.3f} ms; at most "
                f"{self._most_left(dest, event, due)} can be there, because {gone} ({first.message} first) died "
                "waiting, more than "
                f"{period_ns // NS_PER_MS} ms ago",
                [first.seq, event.seq],
                outcome="left-behind",
            )
            return
        claim.hold(STEPPED_BACK if jump_ms < 0 else "nobody fetched them", outcome="swept")

    def _judge_stepped(self, dest: str, event: Counters, due: list[Fate], jump_ms: int) -> None:
        """EXP-021."""
        claim = self._claims["EXP-021"]
        if (event.expired or 0) >= len(due):
            claim.hold(STEPPED_FORWARD if jump_ms > 0 else STEPPED_BACK, outcome="goes-on")
            return
        first = due[0].life.send
        claim.fail(
            f"the broker's clock had been stepped by {jump_ms} ms in all; at {event.t1 / NS_PER_MS:.3f} ms {len(due)} "
            f"messages of {dest} ({first.message} first) had waited dead for longer than a period of the sweep, but it "
            f"counts {event.expired} expired",
            [first.seq, event.seq],
            outcome="stopped",
        )

    def _most_left(self, dest: str, event: Counters, due: list[Fate]) -> int:
        """How many messages may be on the queue; very many when the reading contradicts what consumers settled, which
        is not our affair.
        """
        there = 0
        for life in self._scene.dests.get(dest, ()):
            if life.send.t0 > event.t1 or life.send.result == "fail":
                continue
            settled = any(ack.result == "ok" and ack.t1 <= event.t0 for ack in life.acks)
            settled = settled or any(nack.result == "ok" and nack.t1 <= event.t0 for nack in life.nacks)
            there += not settled
        return there - len(due) if event.size is not None and event.size <= there else VERY_MANY

    def _disturbances(self, dest: str) -> list[list[int]]:
        """Intervals in which messages of this queue may have been on their way to a consumer that never showed them."""
        found: list[list[int]] = []
        for visit in self._scene.visits.get(dest, ()):
            if visit.uncertain:
                found.append([visit.subscribe.t0, self._scene.last_ns])
            if visit.leave is not None:
                found.append([visit.leaving_ns, visit.gone_ns])
            found += self._scene.stalls.get(visit.host, [])
        return found

    def _is_disturbed(self, intervals: list[list[int]], t0: int, t1: int) -> bool:
        return any(begin <= t1 and end >= t0 for begin, end in intervals)
