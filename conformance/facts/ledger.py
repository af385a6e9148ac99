"""Ledger: what is known of a destination's counters while a history is recorded: what is held from there, by whom it
may be, what came and went since its totals began.

Totals begin anew with the broker's start and with a reset. An operator who takes messages leaves nobody sure of what
was in flight then; that, too, begins a new stretch, whose first reading at rest is what later ones are compared with.
"""

from __future__ import annotations

from typing import NamedTuple

from brokerproof.conformance.experiment.history import Acknowledge, Event, Operate, Subscribe
from brokerproof.conformance.facts.spans import NEVER, Span


class Browser:
    """One browser. ``sure``: it is known whether it is there. ``holds``: it does not acknowledge what it sees, and the
    broker is known to count that. ``left_ns``: when it left, or may have; ``leave``: as it said, or its host or
    the broker did.
    """

    __slots__ = ("event", "holds", "leave", "left_ns", "shown", "sure")

    def __init__(self, event: Subscribe, *, holds: bool, sure: bool) -> None:
        self.event = event
        self.holds = holds
        self.sure = sure
        #: Messages that it was shown.
        self.shown = 0
        self.left_ns = NEVER
        self.leave: Event | None = None


class Purge(NamedTuple):
    """A purge that was carried out. ``held``: by consumers for certain, by then. What may have come after it: all but
    the first ``before`` that were sent, and ``loose`` ones of these.
    """

    event: Operate
    held: int
    loose: int
    before: int


class Ledger:
    """One destination's. Of open sessions: ``held`` for certain (``undone``: after a rollback), ``doubted`` perhaps
    (``pledged``: acknowledged in an open transaction, so held until its end). Since the broker's start: ``arrived``,
    ``ghosts`` (arrivals of what nobody sent), ``tardy`` ones (at sessions that had left), ``departed`` sessions, what
    they ``left`` unsettled, browsers that came (``browsed``) and what was ``shown`` to those that went.
    """

    # fmt: off
    __slots__ = ("act", "arrived", "browsed", "browsing", "conserved", "counting", "departed", "doubted", "from_start",
                 "ghosts", "held", "in_flight", "kept", "left", "loose", "pledged", "purge", "reset", "reset_held",
                 "sent", "shaken", "shown", "stirred", "stretch", "taken", "tardy", "unaccounted", "undone", "zeroed")
    # fmt: on

    def __init__(self) -> None:
        self.held = self.undone = self.doubted = self.pledged = 0
        #: Messages that anybody tried to send there; those that may come at any time later: delayed, of unknown result,
        #: in transactions.
        self.sent = self.loose = 0
        #: Since the last reading at rest: the one acknowledgement past the library, and whether anything else may have
        #: changed the counters but arrivals.
        self.act: Acknowledge | None = None
        self.stirred = True
        #: Rises whenever totals begin anew, or an operator takes something.
        self.stretch = 0
        self.restart()
        #: The size of this stretch began with 0, too.
        self.from_start = True
        # -- at a reading at rest
        #: Least and greatest in-flight count that agrees with what was seen; what browsers that are there hold of it.
        self.in_flight: Span = (0, NEVER)
        self.browsing = 0
        #: Acknowledged in transactions that are open or were rolled back, and in flight for certain.
        self.kept = 0
        #: Whether what came less what went is what is there; None: not known. ``counting``: how the broker can be
        #: counting what a scheduler keeps, as far as it was seen: 1 not as having come, 2 as having come, 3 either.
        self.conserved: bool | None = None
        self.counting = 3

    @property
    def disturbed(self) -> bool:
        """An operator did either while something was or may have been in flight."""
        return self.shaken or self.unaccounted

    def copy(self) -> Ledger:
        """As it is now."""
        found = Ledger()
        found.held, found.undone, found.doubted, found.pledged = self.held, self.undone, self.doubted, self.pledged
        found.sent, found.loose, found.act, found.stirred = self.sent, self.loose, self.act, self.stirred
        found.stretch, found.from_start, found.zeroed = self.stretch, self.from_start, self.zeroed
        found.arrived, found.ghosts, found.departed = self.arrived, self.ghosts, self.departed
        found.tardy = self.tardy
        found.left, found.browsed, found.shown, found.purge = self.left, self.browsed, self.shown, self.purge
        found.reset, found.reset_held = self.reset, self.reset_held
        found.shaken, found.unaccounted, found.taken = self.shaken, self.unaccounted, self.taken
        return found

    def restart(self) -> None:
        """The broker began anew: its totals are 0, its size is what it kept."""
        self.arrived = self.ghosts = self.tardy = self.departed = self.left = self.browsed = self.shown = 0
        self.stretch += 1
        self.from_start = False
        #: Totals of this stretch began with 0.
        self.zeroed = True
        self.stirred = True
        self.purge: Purge | None = None
        self.reset: Operate | None = None
        self.reset_held = 0
        #: An operator began the totals anew while something was or may have been in flight.
        self.shaken = False
        #: An operator took something while that was so: ``taken`` at most of what is held, which is in flight for some
        #: brokers until its holder settles it, and for others no more.
        self.unaccounted = False
        self.taken = 0

    def operate(self, event: Operate, late: int, *, busy: bool) -> None:
        """An operator purged it, moved messages, or reset its statistics; ``busy``: something may be in flight, and
        ``late`` of the messages that were sent may have come only afterwards.
        """
        self.stretch += 1
        self.from_start = self.zeroed = False
        self.stirred = True
        if event.op == "reset":
            self.shaken = self.shaken or busy
            self.reset = event if event.result == "ok" else self.reset
            self.reset_held = self.held
            return
        self.unaccounted = self.unaccounted or busy
        self.taken = max(self.taken, self.held) if busy else self.taken
        if event.op == "purge" and event.result == "ok":
            self.purge = Purge(event, self.held, self.loose, self.sent - late)
