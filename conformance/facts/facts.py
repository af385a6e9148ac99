"""Facts: what a rule gets: the tables of one run, tightened, and the questions that many rules ask."""

from __future__ import annotations

from brokerproof.conformance.experiment.history import History
from brokerproof.conformance.facts.credit import Credit
from brokerproof.conformance.facts.delays import Delays
from brokerproof.conformance.facts.expiration import Death, death_of
from brokerproof.conformance.facts.policy import Applied
from brokerproof.conformance.facts.recording import record
from brokerproof.conformance.facts.rows import Send
from brokerproof.conformance.facts.spans import Span
from brokerproof.conformance.facts.stamped import Stamped, stamped
from brokerproof.conformance.facts.tables import Tables
from brokerproof.conformance.facts.tally import Tally
from brokerproof.conformance.facts.tightening import tighten


class Facts(Tables):
    """The facts of one history."""

    __slots__ = ("_deaths", "_stamped", "credit", "delays", "tally")

    def __init__(self, history: History) -> None:
        super().__init__(history.header)
        record(history, self)
        tighten(self)
        #: Who had room for what (``credit.py``).
        self.credit = Credit(self)
        #: What waited for its delivery time, and who for it (``delays.py``).
        self.delays = Delays(self, self.credit)
        #: What counters can be (``tally.py``).
        self.tally = Tally(self)
        self._deaths: dict[str, Death | None] = {}
        self._stamped: list[Stamped] | None = None

    def applies(self, dest: str) -> Applied:
        """What the tester declares about a destination: the only resolution."""
        return self.destination(dest).applied

    def death(self, send: Send) -> Death | None:
        """What is known of a message's death (``expiration.py``)."""
        name = send.message
        if name not in self._deaths:
            self._deaths[name] = death_of(self, send)
        return self._deaths[name]

    def stamped(self) -> list[Stamped]:
        """Arrivals that show what a time-stamping broker did (``stamped.py``)."""
        if self._stamped is None:
            self._stamped = stamped(self)
        return self._stamped

    def wall(self, host: str, span: Span) -> Span | None:
        """Least and greatest wall time (ns since the epoch) of a host at some instant of a span: the extremes, because
        a jump makes wall time run back. None: its clock was never read.
        """
        clock = self.clock(host)
        return clock.bounds_ns(*span) if clock.known else None
