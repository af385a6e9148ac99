"""A profile's JMS endpoint: what it offers, how programs are played over it, what its agent is told."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from brokerproof.conformance.agents.provider import Provider, address_in
from brokerproof.conformance.brokers.profile import parse_profile
from brokerproof.conformance.brokers.profiled import ProfileAdapter
from brokerproof.conformance.experiment.configuration import BrokerSpec, ClockSpec, HostSpec
from brokerproof.conformance.experiment.destinations import queues
from brokerproof.conformance.experiment.exits import UsageError
from brokerproof.conformance.experiment.program import FORMAT, Program
from brokerproof.conformance.experiment.steps import Nack, Parallel, Send, Subscribe, Take

TEXT = """
name = "b"
[endpoints.jms]
classpath = ["a.jar", "lib"]
factory = "F"
uri = "failover:(tcp://127.0.0.1:{port.x})?a=b"
login = "app"
passcode = "env:PASSCODE"
properties = { password = "env:PASSCODE" }
expiry_check = true
[names.jms]
headers = { life = "" }
[promises]
capabilities = ["browsers", "delay", "nack", "prefetch", "ttl"]
"""


def adapter(folder: Path, text: str = TEXT) -> ProfileAdapter:
    return ProfileAdapter(parse_profile(text.replace("{port.x}", "1234"), "b.toml", folder))


def test_consumers_ask_for_each_message(tmp_path: Path) -> None:
    found = adapter(tmp_path)
    assert found.capabilities() == [
        "browsers",
        "delay",
        "ends-durables",
        "expiry-check",
        "jms-semantics",
        "producers",
        "pull",
        "ttl",
    ]
    hosts = [HostSpec("b", "broker"), HostSpec("c", "client")]
    steps = [Subscribe(prefetch=10), Subscribe(browser=True), Send(delay_ms=5, ttl_ms=9), Nack()]
    played = found.cast(Program(FORMAT, BrokerSpec(), hosts, [], queues("q0"), list(steps)))
    assert [step.prefetch for step in played.steps if isinstance(step, Subscribe)] == [0, -1]
    assert played.steps[-2:] == [Send(delay_ms=5, ttl_ms=9), Parallel(((Take(deadline_ms=200, count=10),),))]
    assert {host.via for host in played.hosts if host.role == "client"} == {"jms"}


def test_a_life_needs_to_know_who_checks_it(tmp_path: Path) -> None:
    found = adapter(tmp_path, TEXT.replace("expiry_check = true\n", ""))
    assert found.capabilities() == ["browsers", "delay", "ends-durables", "jms-semantics", "producers", "pull"]
    assert found.lines()["ttl"].startswith("endpoints.jms.expiry_check is missing")


def test_a_delay_by_the_producers_clock_is_an_instant_where_clocks_are_wrong(tmp_path: Path) -> None:
    found = adapter(tmp_path, TEXT + 'delay_clock = "producer-wall"\n')
    for offset_ms, sent in ((0, Send(delay_ms=5)), (60_000, Send(deliver_in_ms=5))):
        hosts = [HostSpec("b", "broker"), HostSpec("c", "client", clock=ClockSpec(offset_ms))]
        program = Program(FORMAT, BrokerSpec(), hosts, [], queues("q0"), [Send(delay_ms=5)])
        assert found.cast(program).steps == [sent]


def test_what_its_agent_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Passwords are in no command line; those of a connection come with ``connect``."""
    monkeypatch.setenv("PASSCODE", "secret")
    (tmp_path / "lib").mkdir()
    for name in ("a.jar", "lib/b.jar"):
        (tmp_path / name).touch()
    found = adapter(tmp_path)
    words = found.words("stomp")
    assert words[:2] == ["--class-path", f"{tmp_path}/a.jar:{tmp_path}/lib/b.jar"]
    told = msgspec.json.decode(words[3], type=Provider)
    assert (told.factory, told.properties, told.expiry_check) == ("F", {"password": "env:PASSCODE"}, True)
    access = found.access("stomp", None)
    assert (access.url, access.port) == ("failover:(tcp://{host}:{port})?a=b", 1234)
    assert (access.login, access.passcode) == ("app", "secret")


@pytest.mark.parametrize(
    ("true", "false", "shows"),
    [
        ('["a.jar", "lib"]', '["gone.jar"]', "b.toml: endpoints.jms.classpath: 'gone.jar': there is no jar"),
        ('["a.jar", "lib"]', "[]", "endpoints.jms.classpath: it is empty; give jars"),
        ('["a.jar", "lib"]', '["maven:g:a"]', "'maven:g:a' is not maven:GROUP:ARTIFACT:VERSION"),
        ("failover:(tcp://127.0.0.1:{port.x})?a=b", "vm:b", "endpoints.jms.uri: 'vm:b' names no host and port"),
    ],
)
def test_what_is_wrong_is_told(true: str, false: str, shows: str, tmp_path: Path) -> None:
    found = adapter(tmp_path, TEXT.replace(true, false).replace("env:PASSCODE", "secret"))
    with pytest.raises(UsageError, match=re.escape(shows)):
        assert found.access("stomp", None) and found.words("stomp") is None  # noqa: PT018 - either may refuse


@pytest.mark.parametrize(
    ("uri", "address"),
    [
        ("amqp://127.0.0.1:5672?jms.x=1", ("127.0.0.1", 5672)),
        ("(tcp://u:p@b.example:61616,tcp://c:1)?x", ("b.example", 61616)),
        ("tcp://[::1]:61616", ("::1", 61616)),
        ("vm://localhost", None),
    ],
)
def test_an_address_is_found_in_a_providers_uri(uri: str, address: tuple[str, int] | None) -> None:
    assert address_in(uri) == address
