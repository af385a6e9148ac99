"""``compare`` and ``trends``: what a store says of two campaigns, and of all of them."""

from __future__ import annotations

import importlib.util
import json

import msgspec
import pytest

from brokerproof.conformance.experiment.exits import OK, USAGE, VIOLATED, guarded
from brokerproof.conformance.experiment.verdict import Verdict
from brokerproof.reports.commands import compare
from brokerproof.reports.store.manifests import END, START, Store
from brokerproof.reports.store.writer import PartWriter
from tests.fast.reports.store import samples
from tests.fast.reports.store.test_tables import need_pyarrow
from tests.tools import not_run

REPLACE = msgspec.structs.replace


def campaign(store: Store, name: str, verdicts: list[list[Verdict]], code: str = "sha256:1") -> None:
    """A campaign whose run number n has these verdicts, and program number n."""
    start = PartWriter(store, name, START)
    start.put("campaigns", [{"campaign": name, "kind": "campaign", "state": "running", "at_ms": 1, "code": code}])
    start.commit()
    writer = PartWriter(store, name, "part-000000", "reference")
    for seed, of in enumerate(verdicts):
        writer.add(samples.result(f"seed-{seed}", of, seed=seed), 1000, seed)
    writer.commit()
    PartWriter(store, name, END).commit()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Before: DLY-003 holds, EXP-001 is violated, GEN-001 met. After: the other way round, GEN-001 untried, later."""
    need_pyarrow()
    if importlib.util.find_spec("duckdb") is None:
        not_run("duckdb is not installed (extra 'sql')")
    folder = str(tmp_path_factory.mktemp("compare"))
    store = Store(folder, make=True)
    kept, early = samples.kept("DLY-003"), samples.early()
    near = REPLACE(samples.kept("INA-001"), slack_ns=2_000_000)
    far = REPLACE(near, slack_ns=9_000_000)
    broken, mended = REPLACE(early, requirement="EXP-001"), REPLACE(kept, requirement="EXP-001")
    gone = REPLACE(kept, requirement="GEN-001", situations=[])
    campaign(store, "a1", [[kept, broken, near, gone]] * 30)
    campaign(store, "b1", [[early, mended, far]] + [[kept, mended, far]] * 30)
    return folder


def test_what_changed_is_told_by_kind(place: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert compare.main(["a1", "b", "--store", place, "--json"]) == VIOLATED
    found = json.loads(capsys.readouterr().out)
    (worse,) = found["newly_violated"]
    assert worse.startswith("DLY-003: 1 of 31 runs, in none of 30 runs before (so in fewer than 10.00%): ")
    (fixed,) = found["fixed"]
    assert fixed.startswith("EXP-001: 30 of 30 runs before, in none of 31 runs now")
    assert "GEN-001: exercised in 30 runs, now in none" in found["coverage_lost"]
    drift = {line[:7]: line for line in found["drifting"]}
    assert set(drift) == {"DLY-003", "EXP-001", "INA-001"}
    assert drift["INA-001"].startswith("INA-001: half of the runs come within 2.000 ms before, 9.000 ms now")
    assert any(line.startswith("DLY-003: satisfied and violated of program sha256:") for line in found["flaky"])


def test_nothing_is_told_of_what_did_not_change(place: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert compare.main(["a1", "a1", "--store", place]) == OK
    assert capsys.readouterr().out.startswith("nothing: newly violated, fixed, flaky")
    assert compare.main(["a1", "b1", "--store", place, "--broker", "another"]) == OK
    assert capsys.readouterr().out.startswith("nothing: ")


def test_a_campaign_that_is_not_there_is_named(place: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert guarded("compare", compare.main, ["a1", "x", "--store", place]) == USAGE
    assert "'x' is the beginning of 0 campaigns" in capsys.readouterr().err


def test_trends_have_a_line_per_campaign(place: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert compare.trends_main(["--store", place, "--json"]) == OK
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(row["campaign"], row["runs"], row["requirements"], row["violated"]) for row in rows] == [
        ("a1", 30, 4, 1),
        ("b1", 31, 3, 1),
    ]
    assert compare.trends_main(["--store", place]) == OK
    assert len(capsys.readouterr().out.splitlines()) == 3
    assert compare.trends_main(["--store", place, "--broker", "another"]) == OK
    assert capsys.readouterr().out.startswith("no runs in ")
