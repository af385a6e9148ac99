"""A broker's process that ends by itself: the run goes on, and the verdict is about the broker."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from brokerproof.conformance.brokers import make_adapter
from brokerproof.conformance.brokers.reference import ReferenceAdapter
from brokerproof.conformance.experiment.configuration import BrokerSpec
from brokerproof.conformance.experiment.history import Crash, Send
from brokerproof.conformance.experiment.steps import AnyStep, Operate, Probe, Restart, Settle
from brokerproof.conformance.experiment.steps import Send as SendStep
from brokerproof.conformance.experiment.verdict import VerdictKind
from brokerproof.conformance.requirements.catalogue import default_catalogue
from brokerproof.conformance.rules.judge import judge_history
from brokerproof.conformance.running.live import run_all
from brokerproof.conformance.worlds.live.world import LiveWorld
from tests.live.bench import activemq, events, make_laboratory, program


@pytest.mark.parametrize(
    ("broker", "then"),
    [("activemq", Settle()), *(("reference", step) for step in (Settle(), SendStep(), Operate(), Probe(ms=10)))],
)
def test_a_process_that_ends_by_itself_is_a_crash(broker: str, then: AnyStep, tmp_path: Path) -> None:
    adapter = ReferenceAdapter() if broker == "reference" else activemq()
    with make_laboratory(tmp_path) as laboratory:
        world = LiveWorld(adapter, laboratory)
        world.open(program())
        world.apply(SendStep())
        process = world.port.endpoint.process()
        assert process is not None
        os.kill(process.pid, signal.SIGKILL)
        world.apply(then)
        history = world.close()
        adapter.close()
    (crash,) = events(history, Crash)
    assert (crash.target, crash.how) == (history.header.broker_host, "exited")
    assert "exit code -9" in crash.evidence
    assert events(history, Send)[0].result == "ok"
    verdicts = {verdict.requirement: verdict for verdict in judge_history(history)}
    assert verdicts["GEN-090"].verdict is VerdictKind.VIOLATED
    assert verdicts["GEN-090"].outcome == "crashed"
    assert verdicts["GEN-091"].verdict is not VerdictKind.VIOLATED


PROFILE = """
name = "mine"
[start]
command = ["sh", "-c", 'test -e "$0/again" && echo what is this && exit 3; touch "$0/again"; exec "$@"', "{data}",
  "{python}", "-m", "brokerproof.reference_broker.server", "--port", "{port.stomp}"]
ready = { log = "listening on stomp" }
restart = true
[endpoints]
stomp = { url = "stomp://127.0.0.1:{port.stomp}" }
[promises]
capabilities = ["persistent"]
"""


def test_a_broker_that_does_not_come_back_over_its_own_data_has_crashed(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(PROFILE, encoding="utf-8")
    adapter = make_adapter(str(tmp_path / "mine.toml"))
    played = program(SendStep(), Restart(how="kill"), SendStep(), Settle(), broker=BrokerSpec(persistent=True))
    (result,) = run_all(adapter, [("again", adapter.cast(played))], tuple(default_catalogue().select(None)))
    assert (result.problem, result.not_run) == ("", "")
    found = {verdict.requirement: verdict for verdict in result.verdicts}
    assert (found["GEN-090"].verdict, found["GEN-090"].outcome) == (VerdictKind.VIOLATED, "crashed")
    assert [one for one in found if found[one].verdict is VerdictKind.VIOLATED] == ["GEN-090"]
    assert result.history is not None
    (crash,) = events(result.history, Crash)
    assert "what is this" in crash.evidence
