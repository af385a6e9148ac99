"""Model: one promise of the broker, as the few lines that know nothing else.

A machine shows its model every event of a run, in order; a replay shows it those of a history. It speaks when what it
sees cannot be, whatever the broker is. The judge's rules are written independently: a defect must fool both.

A model must be sound on any program, not only on those that its machine draws: shrinking changes programs, and a saved
one may have been edited. What a model cannot follow it leaves alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Container
from typing import ClassVar

from brokerproof.conformance.experiment.history import Arrive, Event, History, Phase, Send
from brokerproof.conformance.experiment.program import Program
from brokerproof.conformance.experiment.steps import AnyStep, Parallel
from brokerproof.conformance.experiment.verdict import Verdict, VerdictKind

NS_PER_MS = 1_000_000


class Model(ABC):
    """Base of the models: one instance watches one run."""

    #: How options and files name the machine.
    name: ClassVar[str]
    #: The requirements that it watches.
    promises: ClassVar[tuple[str, ...]]
    #: The steps that its machine chooses from.
    kinds: ClassVar[tuple[type[AnyStep], ...]]
    #: Planted defects that its machine finds within its budget, by the model or by the judge (tests/quality).
    mutants: ClassVar[tuple[str, ...]]

    def __init__(self, program: Program) -> None:
        self.program = program

    @staticmethod
    def fit(frame: Program) -> Program:
        """A frame in which the promise applies, from any frame."""
        return frame

    @abstractmethod
    def observe(self, event: Event) -> Verdict | None:
        """Look at one event; a violated promise, if this event proves it."""

    def broken(self, requirement: str, event: Event, text: str) -> Verdict:
        """The verdict when an event cannot be."""
        return Verdict(
            requirement,
            VerdictKind.VIOLATED,
            grade="violated",
            witness=[event.seq],
            text=f"by the model of machine {self.name}, {text}",
        )


class MessageModel(Model):
    """A model that compares each message, where it arrives, with what its producer sent. Either can be recorded first;
    copies in other places (dead letters, moved ones) are not compared.
    """

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self._sent: dict[str, Send] = {}
        #: First arrivals that are recorded before the producer has its answer.
        self._arrived: dict[str, Arrive] = {}

    def observe(self, event: Event) -> Verdict | None:
        if isinstance(event, Send):
            self._sent[event.message] = event
            arrive = self._arrived.get(event.message)
            return None if arrive is None or arrive.dest != event.dest else self.compare(event, arrive)
        if isinstance(event, Arrive):
            self._arrived.setdefault(event.message, event)
            sent = self._sent.get(event.message)
            return None if sent is None or sent.dest != event.dest else self.compare(sent, event)
        return None

    @abstractmethod
    def compare(self, sent: Send, arrive: Arrive) -> Verdict | None:
        """A violated promise, if this message could not arrive like that."""


def contradiction(
    model: type[Model], program: Program, history: History, wanted: Container[str] | None = None
) -> Verdict | None:
    """What a model finds first in a whole run, among the ``wanted`` requirements (default: all). It looks away from the
    drain, whose consumers are not the program's, and from programs in which several hosts go on at once, or brokers: it
    follows one operation after another.
    """
    if program.bridges() or any(isinstance(step, Parallel) for step in program.steps):
        return None
    watching = model(program)
    for event in history.events:
        if isinstance(event, Phase) and event.name == "drain":
            return None
        verdict = watching.observe(event)
        if verdict is not None and (wanted is None or verdict.requirement in wanted):
            return verdict
    return None
