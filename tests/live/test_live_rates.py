"""Accelerated time on real processes: the reference broker, ActiveMQ, and a profile that promises to bear it."""

from __future__ import annotations

import contextlib
import json
import time
from pathlib import Path

import msgspec
import pytest

from brokerproof.chaos.tools import ToolFailed, ToolMissing
from brokerproof.conformance.brokers import HERE, make_adapter
from brokerproof.conformance.brokers.profile import Located, read_profile
from brokerproof.conformance.brokers.profiled import ProfileAdapter
from brokerproof.conformance.brokers.proving import prove
from brokerproof.conformance.cli import main
from brokerproof.conformance.experiment.exits import OK, UsageError
from brokerproof.conformance.experiment.history import ClockSample
from brokerproof.conformance.experiment.verdict import VerdictKind
from brokerproof.conformance.requirements.catalogue import default_catalogue
from brokerproof.conformance.running.live import run_all
from brokerproof.conformance.stories import stories
from tests.live.served import Server
from tests.tools import not_run

pytestmark = pytest.mark.live

#: As shipped: 30 s without a byte, and 10 s more at first.
STORY = "001-defaults"


def test_the_server_lives_as_fast_as_it_is_told() -> None:
    server = Server("--rate", "20")
    try:
        first, begun = server.ask(do="now")["wall_ms"], time.monotonic()
        while time.monotonic() < begun + 0.5:
            last = server.ask(do="now")["wall_ms"]
        assert 9000 <= last - first <= 20_000 * (time.monotonic() - begun + 0.1)
    finally:
        server.stop()


def test_a_program_lives_as_fast_as_it_is_told(tmp_path: Path) -> None:
    program = stories()[STORY].halves()["sick"].program
    (tmp_path / "program.json").write_bytes(msgspec.json.encode(program))
    words = ["--tier", "live", "--speed", "20", "--out", str(tmp_path / "out")]
    begun = time.monotonic()
    assert main(["replay", str(tmp_path / "program.json"), *words]) == OK
    assert time.monotonic() < begun + 60
    header = json.loads((tmp_path / "out" / "history.jsonl").read_text().splitlines()[0])
    assert header["rates"] == {"b": 20, "p0": 20, "c0": 20}


def test_activemq_closes_a_silent_link_after_the_time_that_it_ships_with() -> None:
    try:
        adapter = make_adapter("activemq", speed=20)
    except (ToolMissing, ToolFailed) as error:
        not_run(str(error))
    wanted = tuple(requirement.id for requirement in default_catalogue().judged())
    halves = {name: adapter.cast(half.program) for name, half in stories()[STORY].halves().items()}
    results = {result.name: result for result in run_all(adapter, list(halves.items()), wanted)}
    for name, requirement in (("sick", "INA-001"), ("cured", "INA-002")):
        result = results[name]
        assert not result.problem
        assert result.history is not None
        verdicts = {verdict.requirement: verdict.verdict for verdict in result.verdicts}
        assert verdicts[requirement] is VerdictKind.SATISFIED
        assert VerdictKind.VIOLATED not in verdicts.values()
        # True time and the wall clocks go on together, by hundreds of seconds in some of the machine's.
        samples = [event for event in result.history.events if isinstance(event, ClockSample) and event.host == "b"]
        shown_ms = samples[-1].wall_ms - samples[0].wall_ms
        assert abs(shown_ms - (samples[-1].t0 - samples[0].t0) / 1e6) < 1000
        assert shown_ms > 100_000


@pytest.mark.night
def test_a_profile_that_bears_it_is_proven() -> None:
    located = read_profile(HERE / "artemis.toml")
    start = located.profile.start
    assert start is not None
    rated = msgspec.structs.replace(located.profile, start=msgspec.structs.replace(start, speed=10))
    try:
        adapter = ProfileAdapter(Located(rated, located.place, located.here))
        with contextlib.closing(adapter):
            (proof,) = [one for one in prove(adapter) if one.line == "start.speed"]
    except (ToolMissing, ToolFailed) as error:
        not_run(str(error))
    assert proof.state == "ok", proof.text
    real = msgspec.structs.replace(rated, start=msgspec.structs.replace(start, speed=10, clock="none"))
    with pytest.raises(UsageError, match="libfaketime"):
        ProfileAdapter(Located(real, located.place, located.here))
