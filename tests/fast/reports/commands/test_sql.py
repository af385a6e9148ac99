"""``ingest`` and ``sql``: what others ran comes into a store, and every question is answered from there."""

from __future__ import annotations

import builtins
import importlib.util
import io
from pathlib import Path
from typing import Any

import pytest

from brokerproof.conformance.experiment.exits import OK, SUITE, USAGE, guarded
from brokerproof.conformance.experiment.results import RunFinished, SuiteFinished, SuiteStarted
from brokerproof.conformance.experiment.verdict import Verdict, VerdictKind
from brokerproof.reports.commands import ingest, sql
from brokerproof.reports.commands.suite_report import ReportWriter
from brokerproof.reports.store.duck import connect, questions
from brokerproof.reports.store.manifests import Store
from tests.fast.reports.store import samples
from tests.fast.reports.store.test_tables import need_pyarrow
from tests.tools import not_run

ROOT = Path(__file__).parents[4]


@pytest.fixture(autouse=True)
def duckdb_is_here() -> None:
    """Everything below needs it and pyarrow."""
    need_pyarrow()
    if importlib.util.find_spec("duckdb") is None:
        not_run("duckdb is not installed (extra 'sql')")


def report(folder: Path, *, violated: bool) -> Path:
    """A report folder of two runs of a foreign broker, one of which failed."""
    writer = ReportWriter(folder, samples.catalogue())
    verdict = samples.early() if violated else samples.kept("DLY-003")
    lacking = Verdict("EXP-001", VerdictKind.NOT_APPLICABLE, text="no ttl")
    broken = samples.result("seed-2", [], broker="my/broker".replace("/", " "), world="live", seed=2)
    broken.problem = "agent c0 broke the protocol"
    writer.handle(SuiteStarted(["my broker"], ["DLY-003", "EXP-001"], 2))
    writer.handle(RunFinished(samples.result("seed-1", [verdict, lacking], broker="my broker", world="live", seed=1)))
    writer.handle(RunFinished(broken))
    writer.handle(SuiteFinished(f"sha256:{violated}", 1.5))
    return folder


def rows(store: Path, query: str) -> list[tuple[Any, ...]]:
    """The answer of a store."""
    return connect(Store(str(store))).sql(query).fetchall()


def test_reports_and_histories_become_campaigns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store, history = tmp_path / "store", tmp_path / "odd.jsonl"
    report(tmp_path / "nights/1", violated=False)
    past = samples.history("somebody's", seed=None)
    past.write(history)
    argv = [str(tmp_path / "nights"), str(history), "--store", str(store)]
    assert ingest.main(argv) == OK
    assert "my broker: 1 runs ingested" in capsys.readouterr().out
    assert ingest.main(argv) == OK
    assert capsys.readouterr().out.count("is in the store already") == 2
    assert rows(store, "SELECT kind, state, runs FROM campaigns ORDER BY runs") == [
        ("ingest", "finished", 1),
        ("ingest", "finished", 2),
    ]
    assert rows(store, "SELECT run, problem FROM runs WHERE broker = 'my broker' ORDER BY run") == [
        ("my broker/live/seed-1", ""),
        ("my broker/live/seed-2", "agent c0 broke the protocol"),
    ]
    told = rows(store, "SELECT requirement, verdict, slack_ns FROM verdicts WHERE broker = 'my broker'")
    assert told == [("DLY-003", "satisfied", 2_000_000)], "as reported, not judged again"
    assert rows(store, "SELECT not_applicable FROM runs WHERE seed = 1") == [(["EXP-001"],)]
    judged = rows(
        store, "SELECT verdict FROM verdicts WHERE run = 'somebody''s/simulated/odd' AND requirement = 'DLY-003'"
    )
    assert judged == [("satisfied",)], "judged as `judge` does"
    assert rows(store, "SELECT COUNT(*) FROM events") == [(2 * len(past.events),)]
    assert rows(store, "SELECT COUNT(*), COUNT(DISTINCT program) FROM programs") == [(1, 1)], "a history has none"


@pytest.mark.parametrize("name", questions())
def test_every_question_is_answered(tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    for night, violated in enumerate([False, True]):
        report(tmp_path / f"{night}", violated=violated)
    ingest.main([str(tmp_path / "0"), str(tmp_path / "1"), "--store", str(tmp_path / "store")])
    capsys.readouterr()
    assert sql.main([name, "--store", str(tmp_path / "store")]) == OK
    told = capsys.readouterr().out
    expected = {
        "changed": "violated",
        "violated": "early",
        "campaigns": "ingest",
        "flaky": "satisfied",
        "slack": "-1.1",
    }
    assert expected.get(name, "┌") in told
    question = questions()[name].splitlines()[0].removeprefix("-- ")
    assert f"| `{name}` | {question} |" in (ROOT / "docs/store.md").read_text(encoding="utf-8")


def test_there_are_ten_questions() -> None:
    assert len(questions()) == 10


@pytest.fixture
def store(tmp_path: Path) -> str:
    """An empty one."""
    Store(str(tmp_path), make=True)
    return str(tmp_path)


def test_statements_come_from_a_pipe(
    store: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("CREATE TABLE t AS\nSELECT 40 + 2 AS answer;\nSELECT * FROM t"))
    assert sql.main(["--store", store]) == OK
    assert "42" in capsys.readouterr().out
    monkeypatch.setattr("sys.stdin", io.StringIO("SELECT nonsense;\nSELECT 17;"))
    assert sql.main(["--store", store]) == USAGE
    told = capsys.readouterr()
    assert "nonsense" in told.err
    assert "17" in told.out


def test_the_prompt_knows_the_questions(
    store: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    typed = iter(["campaigns", "SELECT 40 +", "2;", KeyboardInterrupt, "oops;", EOFError])
    prompts = []

    def read(prompt: str) -> str:
        prompts.append(prompt)
        line = next(typed)
        if isinstance(line, str):
            return line
        raise line

    monkeypatch.setattr(builtins, "input", read)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    assert sql.main(["--store", store]) == OK
    told = capsys.readouterr()
    assert "violated     What is violated, in how many runs" in told.out
    assert "processor_s" in told.out
    assert "42" in told.out
    assert "oops" in told.err
    assert prompts == [sql.PROMPT, sql.PROMPT, sql.MORE, sql.PROMPT, sql.PROMPT, sql.PROMPT]


def test_bad_usage_names_the_remedy(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(command: Any, *argv: str) -> str:
        assert guarded("it", command, argv) == USAGE
        return capsys.readouterr().err

    assert "'violatd' is no question and no SQL; questions are campaigns, changed" in refused(sql.main, "violatd")
    assert "no store is here" in refused(sql.main, "violated", "--store", str(tmp_path / "elsewhere"))
    assert "no report.json and no *.jsonl is there" in refused(ingest.main, str(tmp_path / "none"), "--store", store)
    monkeypatch.setitem(__import__("sys").modules, "duckdb", None)
    assert guarded("sql", sql.main, ["violated", "--store", store]) == SUITE
    assert "pip install 'brokerproof[sql]'" in capsys.readouterr().err
