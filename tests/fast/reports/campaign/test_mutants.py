"""Trials of planted defects, and what the command makes of them, without Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from brokerproof.conformance.mutants import MUTANTS
from brokerproof.conformance.requirements.catalogue import default_catalogue
from brokerproof.conformance.running.hunt import hunt
from brokerproof.reports.campaign import mutants
from brokerproof.reports.campaign.driver import begun_campaign
from brokerproof.reports.campaign.mutants import KIND, Trials, resumed_trials, run_trials
from brokerproof.reports.commands.campaign_mutants import told
from brokerproof.reports.store.manifests import START, Store
from brokerproof.reports.store.provenance import provenance
from tests.fast.reports.store.test_tables import need_pyarrow

QUICK, SLOW = "delay-1ms-early", "prefetch-off-by-one"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """An empty one."""
    need_pyarrow()
    return Store(str(tmp_path / "store"), make=True)


def test_a_trial_ends_with_the_requirement_that_the_defect_names(store: Store) -> None:
    plan = Trials(store.files.where, "one", 0, 40, 2, (QUICK,), "")
    run_trials(plan, QUICK)
    made = store.manifest("one", QUICK)
    assert made is not None
    rows = store.rows(made, "trials")
    assert [row["seed"] for row in rows] == [0, 40], "no trial has the programs of another"
    for row in rows:
        kill = hunt(MUTANTS[QUICK], row["seed"], 40, random_only=True)
        assert (row["killed"], row["programs"]) == ((True, kill.programs) if kill else (False, 40))
        assert (MUTANTS[QUICK].requirement in row["killers"]) is row["killed"]
    before = made
    run_trials(plan, QUICK)
    assert store.manifest("one", QUICK) == before, "what was made is not made again"


def test_who_resumes_has_the_same_plan(store: Store) -> None:
    origin = provenance(default_catalogue())
    plan = Trials(store.files.where, "one", 7, 40, 2, (QUICK, "other"), origin.code)
    mutants.put(store, plan, START, plan.row(origin, "brokerproof campaign mutants", "running"))
    assert resumed_trials(store, begun_campaign(store, "", origin, KIND)) == plan


def test_what_is_told_counts_survivors_as_alive_and_no_longer() -> None:
    rows = [
        {"mutant": name, "requirement": "R", "programs": programs, "killed": killed}
        for name, programs, killed in (("a", 1, True), ("a", 100, False), ("b", 10, True), ("c", 100, False))
    ]
    text = "\n".join(told(rows, 100))
    assert "3 planted defects, 4 trials of at most 100 random programs each" in text
    assert "2 defects were found in at least one trial, 1 in none" in text
    assert "        1   75.0%  (" in text
    assert "       10   50.0%  (" in text
    assert "found in no trial: c" in text
