"""Guided campaigns without Spark: parts on executors draw what one process draws, whoever makes them, in any order."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

import msgspec
import pytest

from brokerproof.conformance.experiment.results import verdict_digest
from brokerproof.conformance.generate import guidance
from brokerproof.conformance.generate.guidance import Guidance, Lesson, round_size
from brokerproof.conformance.requirements.catalogue import default_catalogue
from brokerproof.conformance.running.pool import run_guided
from brokerproof.reports.campaign import guide
from brokerproof.reports.campaign.guide import SeedRuns, guide_of, make_guide
from brokerproof.reports.campaign.plan import Plan, digest_of, guided_parts_for
from brokerproof.reports.campaign.worker import run_part
from brokerproof.reports.store.files import StoreError
from brokerproof.reports.store.manifests import Store
from tests.fast.reports.store.test_tables import need_pyarrow

SEED, PROGRAMS, ROUND = 3, 50, 20
JUDGED = tuple(requirement.id for requirement in default_catalogue().judged())


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    need_pyarrow()
    monkeypatch.setattr(guidance, "ROUND", ROUND)
    guide._known.cache_clear()
    return Store(str(tmp_path / "store"), make=True)


def planned(store: Store, parts: int) -> Plan:
    """Three rounds, the last of which is half as large."""
    return Plan(store.files.where, f"in-{parts}", SEED, PROGRAMS, parts, keep="failing", guided=True)


def run(store: Store, plan: Plan) -> None:
    """All parts, the last of each round first."""
    for round_, parts in groupby(range(plan.parts), plan.round_of):
        make_guide(store, plan, round_)
        for part in reversed(list(parts)):
            run_part(plan, part)


def test_parts_draw_what_one_process_draws(store: Store) -> None:
    here = list(run_guided(SEED, PROGRAMS, 1, None, JUDGED))
    children = {result.name: drawn.parent for drawn, result in here if drawn.child}
    assert 5 < len(children) < 25, "nearly half of those after the first round"
    for parts in (3, 9):
        plan = planned(store, parts)
        run(store, plan)
        manifests = store.manifests(plan.campaign)
        assert digest_of(plan, manifests) == verdict_digest(
            (result.run, result.program.digest(), result.verdicts) for _, result in here
        )
        rows = [row for made in manifests for row in store.rows(made, "runs")]
        assert sorted(row["seed"] for row in rows) == list(range(SEED, SEED + PROGRAMS))
        made_from = {row["program"]: row["parent"] for made in manifests for row in store.rows(made, "programs")}
        assert {row["name"]: made_from[row["program"]] for row in rows if "guided" in row["name"]} == children


def test_a_seed_means_the_same_program_when_it_is_run_again(store: Store) -> None:
    plan = planned(store, 3)
    run(store, plan)
    again = SeedRuns(plan)
    for made in store.manifests(plan.campaign):
        for row in store.rows(made, "runs"):
            assert again(row["seed"], None).program.digest() == row["program"] == again.program(row["seed"]).digest()


def test_a_guide_that_is_lost_is_made_again(store: Store) -> None:
    """From the lessons, which parts leave before they are made; without one nobody can go on."""
    plan = planned(store, 6)
    run(store, plan)
    place = f"guidance/{plan.campaign}"
    before = {name: store.files.read(f"{place}/{name}") for name in store.files.names(place)}
    for name in before:
        if name.startswith("round"):
            store.files.remove(f"{place}/{name}")
    with pytest.raises(StoreError, match=r"round-000002\.json is missing"):
        guide_of(store, plan, 2)
    make_guide(store, plan, 2)
    assert {name: store.files.read(f"{place}/{name}") for name in store.files.names(place)} == before
    lesson = msgspec.json.decode(before["round-000002.json"] or b"", type=Lesson)
    assert max(runs for _, runs in lesson.runs) <= 2 * ROUND * len(lesson.parents)
    assert guide_of(store, plan, 2).lesson() == lesson


def test_what_was_known_before_is_not_learned_again() -> None:
    known = Guidance()
    for drawn, result in run_guided(0, 3, 1, None, JUDGED):
        known.learn(drawn, result.verdicts)
    again = Guidance(known)
    for drawn, result in run_guided(0, 3, 1, None, JUDGED):
        again.learn(drawn, result.verdicts)
    assert again.lesson().parents == []
    assert again.lesson().runs == known.lesson().runs


@pytest.mark.parametrize(("programs", "slots"), [(1, 4), (249, 2), (250, 2), (251, 8), (20_000, 4), (1_000_003, 64)])
def test_rounds_depend_on_the_size_alone(programs: int, slots: int) -> None:
    """And each seed is in one part, in order."""
    parts = guided_parts_for(programs, slots)
    plan = Plan("s", "one", 5, programs, parts, guided=True)
    seeds = [plan.seeds(part) for part in range(parts)]
    assert [0, *(one.stop - 5 for one in seeds)] == [*(one.start - 5 for one in seeds), programs]
    for part, one in enumerate(seeds):
        assert {plan.round_at(seed) for seed in one} <= {plan.round_of(part)}
        assert plan.round_of(part) * round_size(programs) <= one.start - 5
