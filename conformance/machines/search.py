"""Search: Hypothesis looks for a program that breaks a promise, in any world.

Hypothesis chooses the frame of a program (``initialize``) and then steps (a rule per kind). Each step goes to a
``World``, and the events that it makes to the machine's model; the end of a run is healed, drained and judged. Only a
MUST ends a search.

Hypothesis only finds: its own shrinking of a state machine takes minutes and often fails, delta debugging of the
program takes seconds (``failure.py``). A search repeats: the same seed tries the same programs, wherever it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.internal.conjecture.providers import AVAILABLE_PROVIDERS, HypothesisProvider
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from brokerproof.conformance.experiment.history import History
from brokerproof.conformance.experiment.program import Program
from brokerproof.conformance.experiment.results import RunResult
from brokerproof.conformance.experiment.steps import AnyStep
from brokerproof.conformance.experiment.verdict import Verdict, VerdictKind, concluded
from brokerproof.conformance.facts.collecting import seldom_collected
from brokerproof.conformance.generate.strategies import frames, steps
from brokerproof.conformance.known import apply_known
from brokerproof.conformance.machines.model import Model, contradiction
from brokerproof.conformance.requirements.catalogue import default_catalogue
from brokerproof.conformance.rules.judge import judge_history
from brokerproof.conformance.running.items import EXAMPLES
from brokerproof.conformance.running.live import explained
from brokerproof.conformance.worlds.executor import World
from brokerproof.conformance.worlds.live.world import LiveWorld
from brokerproof.conformance.worlds.simulated.world import SimulatedWorld

if TYPE_CHECKING:
    from brokerproof.conformance.brokers.base import Adapter
    from brokerproof.conformance.worlds.live.laboratory import Laboratory

#: Steps of each program, and the real time that they may take in the live world.
STEPS = 25
LIVE_MS = 3000

#: Makes an opened world for a frame; the steps follow one by one.
WorldFactory = Callable[[Program], World]


def simulated(mutant: str | None = None) -> WorldFactory:
    """The reference broker in virtual time, with a planted defect or without. Raises ``MutantError`` when it is used
    with an unknown one.
    """

    def opened(frame: Program) -> World:
        world = SimulatedWorld(mutant=mutant)
        world.open(frame)
        return world

    return opened


def live(adapter: Adapter, laboratory: Laboratory, budget_ms: int = LIVE_MS) -> WorldFactory:
    """A broker at hand, in real time, of which a program's steps may take ``budget_ms``; its links have proxies."""

    def opened(frame: Program) -> World:
        world = LiveWorld(adapter, laboratory, proxied=True, budget_ms=budget_ms)
        world.open(adapter.cast(frame))
        return world

    return opened


class Finding(NamedTuple):
    """A violated requirement, and who says so."""

    by: Literal["model", "judge"]
    verdict: Verdict


class Examined(NamedTuple):
    """A run with all that model and judge say of it, and what of that is a violated MUST."""

    result: RunResult
    findings: list[Finding]


class PromiseBroken(AssertionError):
    """Tells Hypothesis that this program fails."""


class Repeatable(HypothesisProvider):
    """Hypothesis' choices without the constants that it collects from whatever modules are loaded: the same seed must
    try the same programs alone, beside other tests and in any worker. The overridden name is private; where a version
    of Hypothesis lacks it, searches work but may differ (tests/quality/test_machines.py notices).
    """

    def _maybe_draw_constant(self, *_: object, **__: object) -> None:
        """Never one."""


AVAILABLE_PROVIDERS["brokerproof"] = f"{Repeatable.__module__}.{Repeatable.__name__}"


def profile(examples: int) -> settings:
    """How Hypothesis looks for a program, whatever its active profile is: no deadline, no shrinking, no database."""
    return settings(
        settings.get_profile("default"),
        backend="brokerproof",
        max_examples=examples,
        stateful_step_count=STEPS,
        phases=[Phase.generate],
        deadline=None,
        database=None,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )


class Search:
    """One machine at work: ``run`` returns the first failure. ``results`` are all its runs; only that one has its
    history.

    ``wanted`` are the requirements that count, for model and judge (default: all that are judged). ``adapter``: whose
    broker it is where the world is live: its known deviations are no failures, and how it was chosen is told.
    """

    def __init__(
        self,
        model: type[Model],
        open_world: WorldFactory,
        wanted: Sequence[str] | None = None,
        *,
        mutant: str | None = None,
        first_seed: int = 0,
        examples: int = EXAMPLES,
        adapter: Adapter | None = None,
    ) -> None:
        self.adapter = adapter
        self.wanted = tuple(wanted) if wanted is not None else tuple(default_catalogue().select(None))
        self.model = model
        self.open_world = open_world
        self.mutant = mutant
        self.seed = first_seed
        self.examples = examples
        self.results: list[RunResult] = []
        self.failure: Examined | None = None

    def run(self) -> Examined | None:
        """Try ``examples`` programs, or fewer if one fails."""
        factory: Any = seed(self.seed)(partial(machine_class(self.model), self))
        try:
            with seldom_collected():
                run_state_machine_as_test(factory, settings=profile(self.examples))
        except Exception:
            # Hypothesis runs what failed once more; whatever comes of that (live, anything may), it has failed.
            if self.failure is None:
                raise
        return self.failure

    def execute(self, program: Program) -> History:
        """Run a whole program in a world of this search."""
        world = self.open_world(program)
        try:
            for step in program.steps:
                world.apply(step)
        except BaseException:
            world.shut()
            raise
        return world.close()

    def contradiction(self, program: Program, history: History) -> Verdict | None:
        """What the model says of a run."""
        return contradiction(self.model, program, history, self.wanted)

    def examine(self, name: str, program: Program, history: History) -> Examined:
        """What model and judge say of a run; ``findings`` are the violated MUSTs, the machine's own promises first and
        the model before the judge.
        """
        catalogue = default_catalogue()
        own = self.contradiction(program, history)
        said = [Finding("model", own)] if own is not None else []
        said += [Finding("judge", verdict) for verdict in judge_history(history, wanted=self.wanted)]
        if self.adapter is not None:
            known = self.adapter.known()
            judged = [(by, explained(self.adapter, verdict)) for by, verdict in said]
            said = [Finding(by, apply_known(name, program, [verdict], known, history)[0][0]) for by, verdict in judged]
        findings = [
            finding
            for finding in said
            if concluded(finding.verdict, catalogue[finding.verdict.requirement].level).verdict is VerdictKind.VIOLATED
        ]
        findings.sort(key=lambda finding: finding.verdict.requirement not in self.model.promises)
        verdicts = [finding.verdict for finding in said]
        broker, world = history.header.broker, history.header.world
        chosen = () if self.adapter is None else self.adapter.chosen
        result = RunResult(name, broker, world, program, verdicts, history, mutant=self.mutant, chosen=chosen)
        return Examined(result, findings)

    def ended(self, program: Program, history: History) -> None:
        """A machine has finished a run. Raises ``PromiseBroken`` when something is violated in it."""
        if self.failure is None:
            name = f"machine-{self.model.name}-{self.seed}-{len(self.results)}"
            seen = self.examine(name, program, history)
            self.results.append(seen.result)
            if seen.findings:
                self.failure = seen
            else:
                seen.result.history = None
        if self.failure is not None:
            raise PromiseBroken


class Machine(RuleBasedStateMachine):
    """One run of a search. Its rules are made from the kinds of steps that its model names."""

    model: ClassVar[type[Model]]

    def __init__(self, search: Search) -> None:
        super().__init__()
        self.search = search
        self.world: World | None = None
        self.taken: list[AnyStep] = []

    @initialize(frame=frames())
    def start(self, frame: Program) -> None:
        """Open a world for the frame."""
        self.frame = self.model.fit(frame)
        self.watching = self.model(self.frame)
        self.world = self.search.open_world(self.frame)

    def perform(self, step: AnyStep) -> None:
        """Execute one step and show the model what happened; its word ends the run. Nothing happens after that."""
        if self.world is None:
            return
        self.taken.append(step)
        try:
            events = self.world.apply(step)
        except BaseException:
            self.world.shut()
            self.world = None
            raise
        said = [verdict for event in events if (verdict := self.watching.observe(event)) is not None]
        if any(verdict.requirement in self.search.wanted for verdict in said):
            self.teardown()

    def teardown(self) -> None:
        """Heal, drain, and look at the whole run, once."""
        if self.world is not None:
            world, self.world = self.world, None
            self.search.ended(self.frame.with_steps(self.taken), world.close())


@cache
def machine_class(model: type[Model]) -> type[Machine]:
    """The machine of a model: one rule per kind of step, by the step's name."""
    return type(f"{model.__name__}Machine", (Machine,), {"model": model, **machine_rules(model.kinds)})


def machine_rules(kinds: Sequence[type[AnyStep]]) -> dict[str, Any]:
    """Rules that hand a step of each kind to ``perform``: the body of a machine class."""
    return {str(kind.__struct_config__.tag): _rule_of(kind) for kind in kinds}


def _rule_of(kind: type[AnyStep]) -> Callable[..., None]:
    def run(self: Machine, step: AnyStep) -> None:
        self.perform(step)

    run.__name__ = run.__qualname__ = str(kind.__struct_config__.tag)
    made: Callable[..., None] = rule(step=steps(kind))(run)
    return made
