"""Brokers known by their URL alone: probing finds what they can do, whoever they are."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from brokerproof.chaos.brokers.activemq import ActiveMQ
from brokerproof.conformance.brokers import make_adapter
from brokerproof.conformance.brokers.base import Access
from brokerproof.conformance.brokers.probing import probe, read_clock
from brokerproof.conformance.brokers.profiled import ProfileAdapter
from brokerproof.conformance.brokers.reference import ReferenceAdapter
from brokerproof.conformance.cli import main
from brokerproof.conformance.corpus.stories import stories
from brokerproof.conformance.experiment.exits import OK, SuiteProblem
from brokerproof.conformance.experiment.history import ClockSample, Counters, Skipped
from brokerproof.conformance.experiment.steps import Clock
from brokerproof.conformance.experiment.steps import Send as SendStep
from brokerproof.conformance.experiment.verdict import VerdictKind
from brokerproof.conformance.rules.judge import judge_history
from brokerproof.conformance.running.live import plan_of, refused_by
from brokerproof.conformance.running.outcomes import outcomes
from brokerproof.conformance.worlds.live.laboratory import Laboratory
from brokerproof.conformance.worlds.live.world import LiveWorld
from brokerproof.reports.store.schema import read_report
from tests.live.bench import activemq, events, make_laboratory, program

pytestmark = pytest.mark.live
OFFERED = {
    "broker-ttl",
    "browsers",
    "dead-letter",
    "delay",
    "durables",
    "monitor",
    "nack",
    "numeric-selectors",
    "persistent",
    "prefetch",
    "selectors",
    "topics",
    "transactions",
    "ttl",
}


@pytest.fixture(scope="module")
def laboratory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Laboratory]:
    with make_laboratory(tmp_path_factory.mktemp("url")) as laboratory:
        yield laboratory


def of_url(port: int) -> ProfileAdapter:
    adapter = make_adapter(f"stomp://127.0.0.1:{port}")
    assert isinstance(adapter, ProfileAdapter)
    return adapter


@pytest.fixture(scope="module")
def running(laboratory: Laboratory) -> Iterator[ProfileAdapter]:
    """A reference server that somebody else started."""
    endpoint = ReferenceAdapter().open(program(), laboratory)
    yield of_url(endpoint.port("stomp"))
    endpoint.dispose()


def test_the_reference_server_can_all_that_stomp_can_show(running: ProfileAdapter) -> None:
    assert set(running.capabilities()) == OFFERED
    assert not running.found().stamps


def test_activemq_is_found_to_be_the_same(laboratory: Laboratory) -> None:
    """Without its scheduler, and it counts no life: what is not there is found out, too."""
    broker = ActiveMQ(laboratory.supervisor, activemq().jars, laboratory.folder / "plain", management=False)
    broker.start()
    try:
        assert set(probe(Access(port=broker.stomp_port)).capabilities) == OFFERED - {"broker-ttl", "delay"}
    finally:
        broker.stop()


def test_a_program_runs_and_is_judged_for_what_was_found(running: ProfileAdapter, laboratory: Laboratory) -> None:
    history = LiveWorld(running, laboratory).run(stories()["live-redelivery"].program)
    assert outcomes(history) == stories()["live-redelivery"].outcomes
    assert set(history.header.capabilities) == OFFERED
    assert history.header.broker == running.label
    figures = [one for one in events(history, Counters) if one.dest is not None or one.size is not None]
    assert figures == []  # that it was at rest is known all the same
    verdicts = {verdict.requirement: verdict for verdict in judge_history(history)}
    assert not [verdict for verdict in verdicts.values() if verdict.verdict is VerdictKind.VIOLATED]
    assert verdicts["INF-001"].verdict is VerdictKind.NOT_APPLICABLE
    assert verdicts["RDL-002"].verdict is VerdictKind.SATISFIED


def test_its_clock_is_read_and_never_set(running: ProfileAdapter, laboratory: Laboratory) -> None:
    history = LiveWorld(running, laboratory).run(program(SendStep(), Clock(host=0, jump_ms=5000)))
    assert events(history, ClockSample, "b")
    assert [skipped.step["do"] for skipped in events(history, Skipped)] == ["clock"]


def test_what_it_cannot_be_is_refused_with_the_reason(running: ProfileAdapter) -> None:
    assert "clock" in running.refusal(program(broker_ms=1000))
    assert "configured" in running.refusal(stories()["live-future-only"].program)
    assert running.refusal(stories()["live-delay"].program) == ""
    names = {name for name, _ in plan_of(running)}
    assert {"live-delay", "live-redelivery", "live-in-flight"} <= names
    assert "live-000-1-stomp" not in names


def test_a_quick_run_says_what_was_probed_and_how_to_see_more(
    running: ProfileAdapter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("brokerproof.reports.commands.run.QUICK_S", 12)
    url = running.located.profile.endpoints.stomp.url  # type: ignore[union-attr]
    assert main(["run", url, "--name", "mine-1", "--out", str(tmp_path)]) == OK
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("offers    broker-ttl, browsers, dead-letter, delay, durables, ")
    assert lines[3].startswith("first verdict after ")
    # One of many requirements: the summary names the largest groups, and a busy machine plays one program only.
    reason = "[counters] is missing: nobody tells figures"
    assert reason in " ".join(" ".join(lines).split())
    assert lines[-5:-2] == [
        f"  brokerproof run --broker {url} --name mine-1 --full",
        f"  brokerproof profile init {url} --out my-broker.toml",
        "  brokerproof run --broker my-broker.toml",
    ]
    report = read_report(tmp_path)
    lacking = "[start] with restart = true is missing: the broker cannot be stopped and started again"
    assert any(lacking in cell.verdict.text for cell in report.cells)
    (column,) = report.columns
    assert column.broker == "mine-1"
    assert column.about["programs"].startswith("a quick selection")
    assert 1 <= column.runs - len(refused_by(running)) < len(plan_of(running))


def test_nobody_listening_is_a_problem_with_a_remedy() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(SuiteProblem, match="is it running"):
        of_url(port)


def test_something_else_listening_is_no_broker() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            connection, _ = listener.accept()
            connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            connection.close()

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(SuiteProblem, match=r"begins no command.; is that the port of another protocol"):
            of_url(listener.getsockname()[1])
        thread.join(5)
    assert read_clock(Access(port=1)) is None
