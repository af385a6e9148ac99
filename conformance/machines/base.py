"""What the state machines share: a world, a rule per step of the registry, a model, and the judge at the end.

Theory: Hypothesis chooses the frame of a program (``initialize``) and then steps (rules). Each rule hands its step to a
``SimulatedWorld`` and shows the new events to the machine's *model*: a few lines that know one promise and nothing
else. The model speaks after every step (an invariant); at the end the run is healed, drained and judged by the oracles,
which are written independently. A defect must fool both.

Rules are made from the registry by ``machine_rules``, so a new step is in every machine that lists it. A failing
example prints its steps as data; the same list in a program file replays it without Hypothesis.

``mutant`` is a class attribute: the quality tests plant a defect and expect the machine to find it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import hypothesis.strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from brokerproof.conformance.experiment.history import Event
from brokerproof.conformance.experiment.program import Program
from brokerproof.conformance.experiment.results import RunResult
from brokerproof.conformance.experiment.steps import AnyStep
from brokerproof.conformance.experiment.verdict import VerdictKind
from brokerproof.conformance.generate.strategies import steps
from brokerproof.conformance.requirements.catalogue import default_catalogue
from brokerproof.conformance.rules.judge import judge_history
from brokerproof.conformance.running.failure import failure_text
from brokerproof.conformance.worlds.simulated.world import SimulatedWorld


class PromiseBroken(AssertionError):
    """The broker broke a promise; the message is the whole failure text (DESIGN section 8)."""


class WorldMachine(RuleBasedStateMachine):
    """Base of the machines. Subclasses name their promise, list their rules and implement ``observe``."""

    #: The requirement that the machine is about.
    promise: ClassVar[str]
    #: Planted defect, for tests of the machine itself.
    mutant: ClassVar[str | None] = None

    def __init__(self) -> None:
        super().__init__()
        self.world: SimulatedWorld | None = None
        self.taken_steps: list[AnyStep] = []

    def open_world(self, frame: Program) -> None:
        """Start a world for a frame."""
        self.frame = frame
        self.world = SimulatedWorld(mutant=self.mutant)
        self.world.open(frame)

    def perform(self, step: AnyStep) -> None:
        """Execute one step and show the model what happened."""
        assert self.world is not None
        self.taken_steps.append(step)
        for event in self.world.apply(step):
            self.observe(event)

    def observe(self, event: Event) -> None:
        """The model looks at one event; it raises ``PromiseBroken`` through ``broken``."""
        raise NotImplementedError

    def broken(self, text: str) -> None:
        """The model found a violation."""
        raise PromiseBroken(f"{self.promise}: {text}")

    def teardown(self) -> None:
        """Heal, drain, and let the oracles judge the whole run."""
        if self.world is None:
            return
        history = self.world.close()
        verdicts = judge_history(history)
        bad = [verdict for verdict in verdicts if verdict.verdict is VerdictKind.VIOLATED]
        if bad:
            program = self.frame.with_steps(self.taken_steps)
            result = RunResult("machine", "reference", "simulated", program, verdicts, history, mutant=self.mutant)
            raise PromiseBroken("\n" + failure_text(result, bad[0], default_catalogue()))


def machine_rules(kinds: Iterable[type[AnyStep]]) -> dict[str, Any]:
    """One rule per kind of step, by the step's name: the body of a machine class."""
    return {str(kind.__struct_config__.tag): _rule_of(kind) for kind in kinds}


def _rule_of(kind: type[AnyStep]) -> Callable[..., None]:
    def run(self: WorldMachine, step: AnyStep) -> None:
        self.perform(step)

    run.__name__ = str(kind.__struct_config__.tag)
    run.__qualname__ = run.__name__
    made: Callable[..., None] = rule(step=_strategy(kind))(run)
    return made


def _strategy(kind: type[AnyStep]) -> st.SearchStrategy[AnyStep]:
    return steps(kind)
