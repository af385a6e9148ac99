"""The judge: runs all oracles over one history and returns one verdict per judged requirement.

Rules:

* Oracles see only the event kinds that they name, in order; wall clocks are fed first.
* What happens at destinations that only the broker fills (advisory topics, dead-letter queues of one source) is shown
  to the oracles alone that ask for it, so that no other one takes a copy for the message.
* A history that goes beyond the common ground (``program.beyond``) is judged by those oracles alone that know it.
* A requirement whose capability the header does not list is *not applicable*, naming the capability; its oracle's
  opinion is dropped.
* A fault without evidence makes every verdict that depends on that kind of fault *not run*: trust nothing injected
  (DESIGN section 7).
* The judge knows no broker: a history written by anybody is judged by the same code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from brokerproof.conformance.experiment.configuration import beyond
from brokerproof.conformance.experiment.destinations import is_aside
from brokerproof.conformance.experiment.history import (
    Arrive,
    ClockSample,
    Counters,
    Event,
    Fault,
    Header,
    History,
    Send,
    Subscribe,
)
from brokerproof.conformance.experiment.verdict import Verdict, VerdictKind
from brokerproof.conformance.oracles import ORACLES
from brokerproof.conformance.oracles.base import Oracle
from brokerproof.conformance.oracles.wall import WallClocks
from brokerproof.conformance.requirements.catalogue import Catalogue, default_catalogue

Feed = Callable[[Event], None]
#: Kinds that name a destination.
_PLACED = frozenset({Arrive, Counters, Send, Subscribe})


class Judge:
    """All oracles on one history: ``feed`` every event, then ``finish``."""

    # fmt: off
    __slots__ = ("_aside", "_catalogue", "_clocks", "_dispatch", "_header", "_onlookers", "_oracles", "_unproved",
                 "_wanted")
    # fmt: on

    def __init__(self, header: Header, catalogue: Catalogue | None = None, wanted: Iterable[str] | None = None) -> None:
        self._catalogue = catalogue if catalogue is not None else default_catalogue()
        self._wanted = tuple(wanted) if wanted is not None else tuple(r.id for r in self._catalogue.judged())
        self._header = header
        self._clocks = WallClocks()
        unusual = beyond(header.declared)
        self._oracles: list[Oracle] = [
            make(self._clocks)
            for make in ORACLES
            if unusual.issubset(make.knows) and any(r in self._wanted for r in make.requirements)
        ]
        #: Consumers of destinations that only the broker fills, and who wants to know.
        self._aside: dict[str, bool] = {}
        self._onlookers = [oracle for oracle in self._oracles if oracle.sees_aside]
        #: Kinds of faults that were injected without evidence, with the first such event.
        self._unproved: dict[str, Fault] = {}
        self._dispatch: dict[type[Event], tuple[Feed, ...]] = {}
        for oracle in self._oracles:
            oracle.start(header)

    def feed(self, event: Event) -> None:
        """One event, in order."""
        kind = type(event)
        if kind is ClockSample:
            self._clocks.sample(event)  # type: ignore[arg-type]  # its type was just compared
        elif kind is Fault:
            self._note_fault(event)  # type: ignore[arg-type]  # its type was just compared
        elif (kind in _PLACED and self._is_aside(event)) or (self._aside and self._concerns_aside(event)):
            for oracle in self._onlookers:
                oracle.feed_aside(event)
            return
        feeds = self._dispatch.get(kind)
        if feeds is None:
            tag = str(kind.__struct_config__.tag)
            sinks = [oracle.sink(kind) for oracle in self._oracles if tag in oracle.kinds]
            wanted = dict.fromkeys(sink for sink in sinks if sink is not None)
            feeds = self._dispatch[kind] = tuple(wanted)
        for feed in feeds:
            feed(event)

    def _is_aside(self, event: Event) -> bool:
        """Whether it happened at a destination that only the broker fills."""
        dest: str | None = event.dest  # type: ignore[attr-defined]  # those in _PLACED have one
        if dest is None or not is_aside(dest):
            return False
        if isinstance(event, Subscribe):
            self._aside[event.consumer] = True
        return True

    def _concerns_aside(self, event: Event) -> bool:
        """Whether a consumer of such a destination did it."""
        return getattr(event, "consumer", None) in self._aside

    def _note_fault(self, event: Fault) -> None:
        self._clocks.fault(event)
        if event.evidence is None:
            self._unproved.setdefault(event.fault, event)

    def finish(self) -> list[Verdict]:
        """One verdict per wanted requirement, sorted by id."""
        verdicts: dict[str, Verdict] = {}
        for oracle in self._oracles:
            unproved = next((self._unproved[name] for name in oracle.faults if name in self._unproved), None)
            for verdict in oracle.finish():
                verdicts[verdict.requirement] = self._settle(verdict, unproved)
        missing = [requirement for requirement in self._wanted if requirement not in verdicts]
        for requirement in missing:
            verdicts[requirement] = Verdict(
                requirement, VerdictKind.NOT_EXERCISED, text="no oracle of this release judges it in such a history"
            )
        return [verdicts[requirement] for requirement in sorted(self._wanted)]

    def _settle(self, verdict: Verdict, unproved: Fault | None) -> Verdict:
        if verdict.requirement not in self._catalogue:
            return verdict
        lacking = [need for need in self._catalogue[verdict.requirement].needs if need not in self._header.capabilities]
        if lacking:
            text = f"the broker (or its transport) does not offer: {', '.join(lacking)}"
            return Verdict(verdict.requirement, VerdictKind.NOT_APPLICABLE, text=text)
        if unproved is not None and verdict.verdict is not VerdictKind.NOT_EXERCISED:
            text = f"fault {unproved.fault!r} (event {unproved.seq}) left no evidence that it took effect"
            return Verdict(verdict.requirement, VerdictKind.NOT_RUN, witness=[unproved.seq], text=text)
        return verdict


def judge_history(
    history: History, catalogue: Catalogue | None = None, wanted: Iterable[str] | None = None
) -> list[Verdict]:
    """Judge a finished history."""
    judge = Judge(history.header, catalogue, wanted)
    for event in history.events:
        judge.feed(event)
    return judge.finish()
