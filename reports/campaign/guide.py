"""What a guided campaign knows: plain data in the store, made round by round.

Rules:

* Each part leaves its lesson before its manifest; the guide of a round is what all parts of the rounds before it have
  learned, in the order of their seeds. Both follow from the seeds alone, so of two attempts the second changes nothing,
  and whoever resumes a campaign finds, or makes, the same.
* A guide is as large as what was ever met, not as the number of runs.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec

from brokerproof.conformance.generate.guidance import Drawn, Guidance, Lesson
from brokerproof.conformance.running.engine import run_program, run_seed
from brokerproof.reports.campaign.plan import Plan, part_name
from brokerproof.reports.store.files import StoreError
from brokerproof.reports.store.manifests import Store

if TYPE_CHECKING:
    from brokerproof.conformance.experiment.program import Program
    from brokerproof.conformance.experiment.results import RunResult


def keep_lesson(store: Store, plan: Plan, part: int, lesson: Lesson) -> None:
    """Write down what the runs of a part have taught."""
    store.files.create(_place(plan, part_name(part)), msgspec.json.encode(lesson))


def make_guide(store: Store, plan: Plan, round_: int) -> None:
    """Write down what is known before a round, unless it is there. All parts of the rounds before it must be made."""
    name = _guide(round_)
    if not plan.guided or round_ == 0 or store.files.read(_place(plan, name)) is not None:
        return
    make_guide(store, plan, round_ - 1)
    guidance = guide_of(store, plan, round_ - 1)
    for part in range(plan.parts):
        if plan.round_of(part) == round_ - 1:
            guidance.take(_read(store, plan, part_name(part)))
    store.files.create(_place(plan, name), msgspec.json.encode(guidance.lesson()))


def guide_of(store: Store, plan: Plan, round_: int) -> Guidance:
    """What is known before a round. Raises ``StoreError`` where nobody has written that down."""
    guidance = Guidance()
    if round_:
        guidance.take(_read(store, plan, _guide(round_)))
    return guidance


class SeedRuns:
    """Runs the seeds of a campaign, with the programs that they mean in it; called with a seed and a mutant."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def drawn(self, seed: int) -> Drawn:
        """The program of a seed of a guided campaign, and where it comes from."""
        return _known(self._plan, self._plan.round_at(seed)).draw(seed)

    def program(self, seed: int) -> Program:
        """The program of a seed."""
        from brokerproof.conformance.generate.programs import program_for_seed

        return self.drawn(seed).program if self._plan.guided else program_for_seed(seed)

    def __call__(self, seed: int, mutant: str | None) -> RunResult:
        """Its run."""
        if not self._plan.guided or not (drawn := self.drawn(seed)).child:
            return run_seed(seed, mutant)
        result = run_program(drawn.program, f"guided-{seed}", mutant=mutant)
        result.parent = drawn.parent
        return result


@lru_cache(maxsize=2)
def _known(plan: Plan, round_: int) -> Guidance:
    """An executor runs many seeds of a round."""
    return guide_of(Store(plan.store), plan, round_)


def _read(store: Store, plan: Plan, name: str) -> Lesson:
    place = _place(plan, name)
    try:
        return msgspec.json.decode(store.files.read(place) or b"", type=Lesson)
    except msgspec.DecodeError as error:
        text = f"{store.files.where}: {place} is missing or no lesson ({error})"
        raise StoreError(f"{text}; start a new campaign") from None


def _guide(round_: int) -> str:
    return f"round-{round_:06d}"


def _place(plan: Plan, name: str) -> str:
    return f"guidance/{plan.campaign}/{name}.json"
