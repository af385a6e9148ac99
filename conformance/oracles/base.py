"""Oracle: a fold over one history that judges one behaviour.

Rules:

* An oracle sees events only. It imports no broker and no world, so it judges histories written by anybody.
* Interval logic: a claim is *violated* only if it is violated for every choice of instants within the recorded
  intervals and clock bounds, *satisfied* only if it is satisfied for every choice; else it is *inconclusive*, with the
  width that would have decided it.
* ``feed`` is called only for the kinds that the oracle names; state grows with the messages of one run, never with its
  length in time.
* Absence is judged in the ``drain`` phase only.

One module per behaviour. To add one: a module with a subclass, its entry in ``conformance/oracles/__init__.py``,
requirements in the catalogue that name it, and a mutant that makes each of them fail.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

from brokerproof.conformance.experiment.verdict import Verdict, VerdictKind

if TYPE_CHECKING:
    from collections.abc import Callable

    from brokerproof.conformance.experiment.history import Event, Header
    from brokerproof.conformance.oracles.wall import WallClocks

NS_PER_MS = 1_000_000


class Claim:
    """What one run says about one requirement, collected instance by instance."""

    __slots__ = (
        "exercised",
        "grade",
        "outcome",
        "requirement",
        "situations",
        "slack_ns",
        "text",
        "unsure_text",
        "unsure_width_ns",
        "unsure_witness",
        "violated",
        "violated_slack_ns",
        "witness",
    )

    def __init__(self, requirement: str) -> None:
        self.requirement = requirement
        self.exercised = False
        self.violated = False
        self.outcome = ""
        self.grade = "ok"
        self.text = ""
        self.witness: list[int] = []
        self.situations: dict[str, None] = {}
        self.slack_ns: int | None = None
        self.violated_slack_ns: int | None = None
        self.unsure_text = ""
        self.unsure_width_ns = 0
        self.unsure_witness: list[int] = []

    def hold(self, situation: str = "", *, slack_ns: int | None = None, outcome: str = "", grade: str = "ok") -> None:
        """One instance held, whatever the instants. The outcome of the worst grade is kept."""
        self.exercised = True
        if situation:
            self.situations[situation] = None
        if slack_ns is not None and (self.slack_ns is None or slack_ns < self.slack_ns):
            self.slack_ns = slack_ns
        if outcome and not self.violated and (not self.outcome or grade == "acceptable"):
            self.outcome = outcome
            self.grade = grade

    def fail(self, text: str, witness: list[int], *, outcome: str = "violated", slack_ns: int | None = None) -> None:
        """One instance was violated for certain. The first one is the witness; a later one with a worse slack replaces
        it.
        """
        self.exercised = True
        worse = slack_ns is not None and self.violated_slack_ns is not None and slack_ns < self.violated_slack_ns
        if not self.violated or worse:
            self.text = text
            self.witness = witness
            self.outcome = outcome
            self.violated_slack_ns = slack_ns
        self.violated = True

    def doubt(self, text: str, witness: list[int], width_ns: int) -> None:
        """One instance could not be decided; ``width_ns`` narrower intervals would have decided it."""
        self.exercised = True
        if not self.unsure_text or width_ns > self.unsure_width_ns:
            self.unsure_text = text
            self.unsure_width_ns = width_ns
            self.unsure_witness = witness

    def verdict(self) -> Verdict:
        """The joined result of all instances."""
        situations = sorted(self.situations)
        if self.violated:
            return Verdict(
                self.requirement,
                VerdictKind.VIOLATED,
                self.outcome,
                "violated",
                situations,
                self.witness,
                self.violated_slack_ns,
                self.text,
            )
        if self.unsure_text:
            text = f"{self.unsure_text} (undecided by {self.unsure_width_ns / NS_PER_MS:.3f} ms)"
            return Verdict(
                self.requirement,
                VerdictKind.INCONCLUSIVE,
                "",
                "ok",
                situations,
                self.unsure_witness,
                self.slack_ns,
                text,
            )
        if not self.exercised:
            return Verdict(self.requirement, VerdictKind.NOT_EXERCISED)
        return Verdict(
            self.requirement, VerdictKind.SATISFIED, self.outcome, self.grade, situations, [], self.slack_ns, self.text
        )


class Oracle(ABC):
    """A fold: ``start``, ``feed`` every event of the named kinds, ``finish``."""

    #: Its name in the catalogue.
    name: ClassVar[str]
    #: Requirements that it judges.
    requirements: ClassVar[tuple[str, ...]]
    #: Event kinds (tags) that it wants to see.
    kinds: ClassVar[tuple[str, ...]]
    #: Whether it is shown, by ``feed_aside``, what happens at destinations that only the broker fills
    #: (``destinations.is_aside``); nobody's ``feed`` is.
    sees_aside: ClassVar[bool] = False
    #: What a history may be about beyond the common ground (``program.beyond``) for this oracle to judge it.
    knows: ClassVar[tuple[str, ...]] = ()
    #: Faults without evidence that make its verdicts *not run*.
    faults: ClassVar[tuple[str, ...]] = ()

    def __init__(self, clocks: WallClocks) -> None:
        #: Wall clocks of all hosts, fed by the judge before the oracles see an event.
        self.clocks = clocks
        self.claims: dict[str, Claim] = {requirement: Claim(requirement) for requirement in self.requirements}

    @abstractmethod
    def start(self, header: Header) -> None:
        """A new run begins."""

    @abstractmethod
    def feed(self, event: Event) -> None:
        """One event of a kind in ``kinds``."""

    def sink(self, kind: type[Event]) -> Callable[[Event], None] | None:  # noqa: ARG002 - most oracles have one for all
        """What is to be called with each event of a kind: ``feed``, something quicker, or a fold that oracles share;
        None: nothing.
        """
        return self.feed if self.is_concerned() else None

    def is_concerned(self) -> bool:
        """Whether there may be anything to judge, as far as the header says."""
        return True

    def feed_aside(self, event: Event) -> None:  # noqa: B027 - few look there
        """One event at a destination that only the broker fills."""

    def conclude(self) -> None:  # noqa: B027 - most oracles judge while they are fed
        """The history is complete: judge what could not be judged earlier. Default: nothing."""

    def finish(self) -> list[Verdict]:
        """One verdict per requirement of this oracle."""
        self.conclude()
        return [claim.verdict() for claim in self.claims.values()]


Part = TypeVar("Part")


class Shared(Generic[Part]):
    """What all oracles of one run share. A run is known by its clocks: the judge makes them anew for each, then its
    oracles one after the other, so that the latest is kept alone.
    """

    __slots__ = ("_clocks", "_make", "_part")

    def __init__(self, make: Callable[[WallClocks], Part]) -> None:
        self._make = make
        self._clocks: WallClocks | None = None
        self._part: Part | None = None

    def of(self, clocks: WallClocks) -> Part:
        """That of the run."""
        if self._part is None or self._clocks is not clocks:
            self._clocks = clocks
            self._part = self._make(clocks)
        return self._part
