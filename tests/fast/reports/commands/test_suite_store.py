"""``run --store``: all runs of a suite are in the store, those of one that was killed as far as they were committed."""

from __future__ import annotations

from pathlib import Path

import pytest

from brokerproof.conformance.experiment.exits import INCONCLUSIVE, OK
from brokerproof.conformance.experiment.results import RunFinished, SuiteFinished, SuiteStarted
from brokerproof.conformance.generate.chaos import PROFILES
from brokerproof.reports.commands import run, suite_store
from brokerproof.reports.commands.suite_store import StoreWriter
from brokerproof.reports.store.manifests import END, START, Store
from tests.fast.reports.store import samples
from tests.fast.reports.store.test_tables import need_pyarrow


@pytest.fixture(autouse=True)
def pyarrow_is_here() -> None:
    """A store needs it."""
    need_pyarrow()


def runs_of(store: Store, campaign: str) -> list[str]:
    """The runs that a campaign has, in order."""
    return [row["run"] for made in store.manifests(campaign) for row in store.rows(made, "runs")]


def test_parts_are_committed_as_they_fill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suite_store, "PART_RUNS", 2)
    writer = StoreWriter(str(tmp_path / "store"), samples.catalogue(), "brokerproof run", 0)
    store = Store(str(tmp_path / "store"))
    writer.handle(SuiteStarted(["my broker"], ["DLY-003"], 3))
    for seed in range(3):
        one = samples.result(f"seed-{seed}", [samples.early()], broker="my broker", world="live", seed=seed)
        writer.handle(RunFinished(one))
    assert runs_of(store, writer.campaign) == ["my broker/live/seed-0", "my broker/live/seed-1"], "were it killed now"
    writer.handle(SuiteFinished("sha256:1", 1.5))
    assert len(runs_of(store, writer.campaign)) == 3
    told = [
        store.rows(made, "campaigns")[0] for part in (START, END) if (made := store.manifest(writer.campaign, part))
    ]
    assert [row["state"] for row in told] == ["running", "finished"]
    assert (told[1]["kind"], told[1]["runs"], told[1]["digest"]) == ("run", 3, "sha256:1")


def test_a_run_goes_to_the_store(tmp_path: Path) -> None:
    """With faults drawn into them there are random programs only."""
    few = ["--tier", "simulated", "--chaos", next(iter(PROFILES)), "--programs", "2", "--jobs", "1"]
    code = run.main([*few, "--out", str(tmp_path / "out"), "--store", str(tmp_path / "store")])
    assert code in {OK, INCONCLUSIVE}
    store = Store(str(tmp_path / "store"))
    (campaign,) = store.campaigns()
    assert len(runs_of(store, campaign)) == 2
