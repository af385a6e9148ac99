"""The reference broker as a foreign one: nothing of it is known but a profile."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from brokerproof.conformance.brokers import make_adapter
from brokerproof.conformance.brokers.profile import read_profile
from brokerproof.conformance.brokers.profiled import ProfileAdapter
from brokerproof.conformance.cli import main
from brokerproof.conformance.corpus import programs
from brokerproof.conformance.experiment.exits import OK, USAGE, VIOLATED
from brokerproof.conformance.experiment.history import Counters, Fault
from brokerproof.conformance.experiment.verdict import VerdictKind
from brokerproof.conformance.requirements.catalogue import default_catalogue
from brokerproof.conformance.running.live import run_all
from brokerproof.conformance.worlds.live.laboratory import Laboratory
from tests.live.bench import events, make_laboratory

pytestmark = pytest.mark.live
SERVER = '"{python}", "-m", "brokerproof.reference_broker.server", "--port", "{port.stomp}"'
PROFILE = f"""
name = "foreign"
version = "2.1"
[start]
command = [{SERVER}, "--config", "{{work}}/broker.toml", "--data", "{{data}}"]
restart = true
clock = "libfaketime"
files = {{ "broker.toml" = "broker.toml.j2" }}
[endpoints]
stomp = {{ url = "stomp://127.0.0.1:{{port.stomp}}" }}
[settings]
timestamping = []
expire_period_ms = []
[counters]
kind = "stomp-statistics"
at = "/queue/ActiveMQ.Statistics.Destination.{{name}}"
map = {{ size = "size", in_flight = "inflightCount", dispatched = "dispatchCount" }}
[promises]
profiles = ["core"]
reject = "dead-letter"
heart_beat_grace = 2.0
"""
TEMPLATE = """
[broker]
statistics = true
{% if settings.timestamping %}[broker.timestamping]
future_only = {{ settings.timestamping.future_only | tojson }}
{% endif %}
{% for policy in policies %}[[broker.destinations]]
match = "{{ policy.match }}"
expire_period_ms = {{ policy.expire_period_ms }}
{% endfor %}
"""


def written(folder: Path, text: str = PROFILE) -> Path:
    (folder / "broker.toml.j2").write_text(TEMPLATE, encoding="utf-8")
    (folder / "foreign.toml").write_text(text, encoding="utf-8")
    return folder / "foreign.toml"


@pytest.fixture(scope="module")
def laboratory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Laboratory]:
    with make_laboratory(tmp_path_factory.mktemp("profile")) as laboratory:
        yield laboratory


@pytest.fixture(scope="module")
def foreign(laboratory: Laboratory, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProfileAdapter]:
    adapter = make_adapter(str(written(tmp_path_factory.mktemp("foreign"))))
    assert isinstance(adapter, ProfileAdapter)
    yield adapter
    adapter.close()


def test_it_is_started_configured_skewed_restarted_and_asked(foreign: ProfileAdapter) -> None:
    assert foreign.label == "foreign 2.1"
    names = ("live-redelivery", "live-future-only", "live-000-1-stomp", "live-restart-kill")
    plan = [(name, foreign.cast(programs()[name])) for name in names]
    wanted = tuple(default_catalogue().select(None))
    results = {result.name: result for result in run_all(foreign, plan, wanted)}
    for result in results.values():
        assert not result.problem
        assert not result.not_run
        assert not [one for one in result.verdicts if one.verdict is VerdictKind.VIOLATED]
    history = results["live-redelivery"].history
    assert history is not None
    assert any(one.in_flight is not None for one in events(history, Counters))
    restarted = results["live-restart-kill"].history
    assert restarted is not None
    assert [one for one in events(restarted, Fault) if one.fault == "restart" and one.evidence]


def test_each_line_is_proven_and_a_lie_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", "check", str(written(tmp_path))]) == OK
    assert "ok          counters.map" in capsys.readouterr().out
    lie = (
        PROFILE.replace('"inflightCount"', '"inFlight"')
        .replace(', "--data", "{data}"', "")
        .replace("grace = 2.0", "grace = 3.0")
    )
    assert main(["profile", "check", str(written(tmp_path, lie))]) == VIOLATED
    told = capsys.readouterr().out
    assert "wrong       counters.map: " in told
    assert "in_flight the broker does not tell" in told
    assert "wrong       start.restart" in told
    assert "wrong       promises.heart_beat_grace: a silent client was given up after 1" in told


def test_a_figure_that_is_called_another_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lie = PROFILE.replace('"inflightCount"', '"expiredCount"').replace("grace = 2.0", "grace = 3.0")
    assert main(["profile", "check", str(written(tmp_path, lie))]) == VIOLATED
    (told,) = (line for line in capsys.readouterr().out.splitlines() if "counters.map" in line)
    assert told.startswith("wrong       counters.map: of 3 messages a consumer has acknowledged one and holds others")
    assert told.endswith("where they should be in_flight 1 to 2")


def test_words_that_say_something_else_are_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Priorities are not kept unless that is set, windows are of 1000, and a lost connection is not counted."""
    words = 'priority = "priority"\ndelivery_count = "redeliveryCounter"\n'
    for losses, state in (("", "not proven"), (', "losses-count"', "wrong")):
        lie = f'{PROFILE}prefetch = 3\ncapabilities = ["priorities"{losses}]\n[names.stomp.headers]\n{words}'
        assert main(["profile", "check", str(written(tmp_path, lie))]) == VIOLATED
        told = capsys.readouterr().out
        assert "wrong       names.stomp.headers.priority: of a message of priority 1 and a later one of 8" in told
        assert "wrong       promises.prefetch: of 5 messages a consumer" in told
        assert f"{state.ljust(11)} names.stomp.headers.delivery_count: a first delivery says nothing" in told


def test_a_first_profile_runs(laboratory: Laboratory, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    adapter = make_adapter(str(written(tmp_path)))
    assert isinstance(adapter, ProfileAdapter)
    try:
        from brokerproof.conformance.experiment.configuration import BrokerSpec, ClockSpec

        server = adapter.server(BrokerSpec(), ClockSpec(), alone=True)
        url = f"stomp://127.0.0.1:{server.launcher.ports['stomp']}"
        made = tmp_path / "made.toml"
        assert main(["profile", "init", url, "--out", str(made)]) == OK
        promises = read_profile(made).profile.promises
        assert {"ttl", "nack", "delay"} <= set(promises.capabilities or ())
        assert main(["profile", "init", url, "--out", str(made)]) == USAGE
        assert "exists already" in capsys.readouterr().err
        words = ["--tier", "live", "--broker", str(made), "--requirement", "RDL-*"]
        assert main(["replay", "live-redelivery", *words]) == OK
    finally:
        adapter.close()


@pytest.mark.parametrize(
    ("text", "shows"),
    [
        (PROFILE.replace('"{python}"', '"no-such-program"'), "start.command: 'no-such-program' cannot be started"),
        (PROFILE.replace("{data}", "{dta}"), "start.command: {dta} has no value"),
        (PROFILE.replace("broker.toml.j2", "none.j2"), "start.files.broker.toml"),
        (PROFILE.replace('"--data"', '"--dtaa"'), "--dtaa"),
    ],
)
def test_what_keeps_it_from_starting_is_told(
    text: str, shows: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["profile", "check", str(written(tmp_path, text))]) != OK
    assert shows in "".join(capsys.readouterr())
