"""Facts: what a rule gets: the tables of one run, tightened, and the questions that many rules ask."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from brokerproof.conformance.experiment.history import History
from brokerproof.conformance.facts.collecting import uncollected
from brokerproof.conformance.facts.credit import Credit
from brokerproof.conformance.facts.delays import Delays
from brokerproof.conformance.facts.expiration import Death, alive, dead, death_of
from brokerproof.conformance.facts.expiries import Expiries, expiries
from brokerproof.conformance.facts.policy import Applied, gets_expiration
from brokerproof.conformance.facts.publishing import Published
from brokerproof.conformance.facts.recording import record
from brokerproof.conformance.facts.rows import Destination, Send
from brokerproof.conformance.facts.spans import Span
from brokerproof.conformance.facts.tables import Tables
from brokerproof.conformance.facts.tally import Tally
from brokerproof.conformance.facts.tightening import tighten

Selected = TypeVar("Selected")


class Facts(Tables):
    """The facts of one history."""

    __slots__ = ("_deaths", "_dying", "_expiries", "_published", "_selected", "beyond", "credit", "delays", "tally")

    def __init__(self, history: History) -> None:
        super().__init__(history.header)
        #: Of a network of brokers: the facts of the others (``network.py``).
        self.beyond: list[Facts] = []
        with uncollected():
            record(history, self)
            tighten(self)
        #: Who had room for what (``credit.py``).
        self.credit = Credit(self)
        #: What waited for its delivery time, and who for it (``delays.py``).
        self.delays = Delays(self, self.credit)
        #: What counters can be (``tally.py``).
        self.tally = Tally(self)
        self._deaths: dict[str, Death | None] = {}
        self._expiries: list[Expiries] | None = None
        self._published: dict[str, Published] = {}
        self._dying: list[Send] | None = None
        self._selected: dict[Any, Any] = {}

    def applies(self, dest: str) -> Applied:
        """What the tester declares about a destination: the only resolution."""
        return self.destination(dest).applied

    def death(self, send: Send) -> Death | None:
        """What is known of a message's death (``expiration.py``)."""
        name = send.message
        if name not in self._deaths:
            self._deaths[name] = death_of(self, send)
        return self._deaths[name]

    def rows(self, over: Callable[[Facts], Selected]) -> Selected:
        """What a selection selects; it is asked once, whoever wants that."""
        found: Selected | None = self._selected.get(over)
        if found is None:
            found = self._selected[over] = over(self)
        return found

    @property
    def dying(self) -> list[Send]:
        """Messages that die, or may, because the broker's clock was never read; but for those sent straight to a
        dead-letter queue.
        """
        if self._dying is None:
            may_die = self.sends.values() if gets_expiration(self.declared) else self.mortal
            self._dying = [send for send in may_die if self._is_dying(send)]
        return self._dying

    def _is_dying(self, send: Send) -> bool:
        if send.dest.kind == "dead-letters" or send.refused or not (send.confirmed or send.seen is not None):
            return False
        death = self.death(send)
        return not self.broker_clock.known if death is None else death.mortal

    def dies(self, send: Send) -> Death:
        """The same of a message that is known to have been taken over, by a broker whose clock was read."""
        death = self.death(send)
        assert death is not None, f"nothing is known of the death of {send.message}"
        return death

    def dead_in_drain(self, send: Send) -> bool:
        """Whether it was dead when the drain came for it and from then on, for certain."""
        death, drain, end = self.death(send), self.phases.get("drain"), self.phases.get("end")
        return death is not None and drain is not None and end is not None and dead(self, death, drain.t0, end.t1)

    def outlives(self, send: Send) -> bool:
        """Whether it lived by the broker's clock from its send to the end of the run, for certain."""
        death, end, sent = self.death(send), self.phases.get("end"), send.event
        return death is not None and end is not None and alive(self, death, sent.t0, end.t1, sent.seq)

    @property
    def expiries(self) -> list[Expiries]:
        """What counters may and must say of expiry, at each reading (``expiries.py``)."""
        if self._expiries is None:
            self._expiries = expiries(self, self.death)
        return self._expiries

    def published(self, dest: Destination) -> Published:
        """What was published on a topic, in order (``publishing.py``)."""
        found = self._published.get(dest.name)
        if found is None:
            found = self._published[dest.name] = Published(dest)
        return found

    def wall(self, host: str, span: Span) -> Span | None:
        """Least and greatest wall time (ns since the epoch) of a host at some instant of a span: the extremes, because
        a jump makes wall time run back. None: its clock was never read.
        """
        clock = self.clock(host)
        return clock.bounds_ns(*span) if clock.known else None
