"""Every planted defect dies, by the requirement that must catch it, within a bounded number of programs."""

from __future__ import annotations

import pytest

from brokerproof.conformance.commands.mutants import CANARY
from brokerproof.conformance.mutants import MUTANTS
from brokerproof.conformance.requirements.catalogue import AREAS, default_catalogue
from brokerproof.conformance.running.failure import failure_text
from brokerproof.conformance.running.hunt import hunt
from tests.metamorphic import losing as metamorphic

#: Programs within which a mutant must be found; the seeds are fixed, so this is no lottery.
BUDGET = 2000


@pytest.mark.parametrize("name", list(MUTANTS))
def test_mutant_dies(name: str) -> None:
    kill = hunt(MUTANTS[name], programs_max=BUDGET, likely_first=True)
    assert kill is not None, f"{name} survived {BUDGET} programs: {MUTANTS[name].requirement} cannot fail"
    assert MUTANTS[name].requirement in kill.killers
    # What has nothing to do with a program takes no violation away; other names and clocks change none.
    plain = metamorphic.Kill(name, kill.result.name, kill.result.program, kill.result.seed)
    assert list(metamorphic.lost(plain, first=True)) == []
    assert list(metamorphic.changed(plain)) == []


def test_every_judged_requirement_names_a_mutant_that_targets_it() -> None:
    targets = {mutant.requirement for mutant in MUTANTS.values()}
    untested = [
        r.id for r in default_catalogue().judged() if r.id not in targets and not any(m in MUTANTS for m in r.mutants)
    ]
    assert untested == []


def test_three_mutants_are_off_by_one_millisecond() -> None:
    assert len([name for name in MUTANTS if "1ms" in name]) >= 3


def test_at_least_one_mutant_per_area_dies_in_the_live_world_too() -> None:
    live = {mutant.requirement[:3] for mutant in MUTANTS.values() if mutant.live}
    assert live == set(AREAS), f"no live mutant for {sorted(set(AREAS) - live)}"


def test_the_canary_tells_its_story() -> None:
    kill = hunt(MUTANTS[CANARY], programs_max=200)
    assert kill is not None
    verdict = next(v for v in kill.result.verdicts if v.requirement == MUTANTS[CANARY].requirement)
    text = failure_text(kill.result, verdict, default_catalogue())
    for part in (
        "acceptable:",
        "observed:",
        "slack:",
        "program:",
        "clocks",
        "replay:",
        f"--mutant {CANARY}",
        "culprit:    broker",
    ):
        assert part in text
