"""Stalled links in the live world: with Toxiproxy proven by bytes, without it *not run*, never satisfied."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from brokerproof.chaos.tools import ToolMissing
from brokerproof.chaos.toxiproxy import find_toxiproxy
from brokerproof.conformance.brokers.reference import ReferenceAdapter
from brokerproof.conformance.corpus.stories import stories
from brokerproof.conformance.experiment.history import Arrive, Closed, Fault, Leave, Send
from brokerproof.conformance.experiment.steps import Advance, Resume, Stall, Subscribe
from brokerproof.conformance.experiment.steps import Send as SendStep
from brokerproof.conformance.experiment.verdict import VerdictKind
from brokerproof.conformance.running.live import run_live
from brokerproof.conformance.running.outcomes import outcomes
from brokerproof.conformance.worlds.live.laboratory import Laboratory
from brokerproof.conformance.worlds.live.world import LiveWorld
from tests.live.bench import events, make_laboratory, program
from tests.tools import not_run

pytestmark = pytest.mark.live
SILENT = stories()["live-silent-link"].program
QUIET = stories()["live-quiet-link"].program
WINDOW = ("INA-001",)


@pytest.fixture(scope="module")
def laboratory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Laboratory]:
    try:
        find_toxiproxy()
    except ToolMissing as error:
        not_run(str(error))
    with make_laboratory(tmp_path_factory.mktemp("links")) as laboratory:
        yield laboratory


def test_the_monitor_closes_a_silent_link_in_its_window(laboratory: Laboratory) -> None:
    result = run_live(ReferenceAdapter(), laboratory, SILENT, "live-silent-link", wanted=WINDOW)
    assert result.problem == ""
    assert result.verdicts[0].verdict is VerdictKind.SATISFIED, result.verdicts[0].text
    assert result.history is not None
    stall, resume = events(result.history, Fault)
    assert stall.evidence is not None
    assert stall.evidence["bytes_in"] > 0
    assert stall.evidence["bytes_out"] == 0
    assert resume.evidence is not None
    (closed,) = events(result.history, Closed, "b")
    assert (closed.who, closed.link) == ("broker", "c0")
    assert "inactive" in closed.reason
    assert closed.idle_ns is not None
    assert 1_000_000_000 <= closed.idle_ns <= 1_700_000_000


def test_the_same_program_without_the_stall_keeps_it_open(laboratory: Laboratory) -> None:
    history = LiveWorld(ReferenceAdapter(), laboratory, proxied=True).run(QUIET)
    assert events(history, Closed) == []
    assert outcomes(history) == {"p0/1": "consumed"}


def test_without_a_proxy_the_stall_is_not_run_never_satisfied(tmp_path: Path) -> None:
    with make_laboratory(tmp_path / "plain", plain_links=True) as plain:
        result = run_live(ReferenceAdapter(), plain, SILENT, "live-silent-link", wanted=WINDOW)
    assert result.problem == ""
    assert result.history is not None
    assert events(result.history, Fault)[0].evidence is None
    assert result.verdicts[0].verdict is VerdictKind.NOT_RUN
    assert "evidence" in result.verdicts[0].text


def test_what_a_stall_holds_back_comes_later_and_is_unknown_until_then(laboratory: Laboratory) -> None:
    steps = [
        Subscribe(host=1, prefetch=10),
        SendStep(),
        Advance(ms=100),
        Stall(link=0, toward="broker"),
        SendStep(),
        Resume(),
        Advance(ms=200),
    ]
    history = LiveWorld(ReferenceAdapter(), laboratory).run(program(*steps))
    assert [send.result for send in events(history, Send)] == ["ok", "unknown"]
    # It looks as it was told although its receipt never counted.
    unknown = events(history, Send)[1]
    arrival = next(arrive for arrive in events(history, Arrive, "c0") if arrive.message == "p0/2")
    assert arrival.timestamp_ms == unknown.timestamp_ms
    stall, resume = events(history, Fault)
    assert stall.evidence is not None
    assert resume.evidence is not None
    assert resume.evidence["held"] == stall.evidence["bytes_in"]
    assert arrival.t1 >= resume.t0


def test_a_stall_that_nobody_offers_a_byte_to_has_no_evidence(laboratory: Laboratory) -> None:
    history = LiveWorld(ReferenceAdapter(), laboratory).run(
        program(SendStep(), Stall(link=1, toward="client"), Advance(ms=50), Resume())
    )
    assert [fault.evidence for fault in events(history, Fault)] == [None, None]


def test_a_client_that_leaves_behind_a_stall_is_unknown(laboratory: Laboratory) -> None:
    from brokerproof.conformance.experiment.steps import Leave as LeaveStep

    steps = [
        Subscribe(host=1, prefetch=10),
        SendStep(),
        Advance(ms=50),
        Stall(link=1, toward="both"),
        LeaveStep(how="drop"),
    ]
    history = LiveWorld(ReferenceAdapter(), laboratory).run(program(*steps))
    assert [leave.result for leave in events(history, Leave, "c0")] == ["unknown"]
    assert outcomes(history) == {"p0/1": "drained"}
