"""The stock Java client, unchanged, at the reference broker and at a real one: a JMS application sees the same.

Each scenario of ``java_client.py`` runs against both, with the encodings that a client can ask for; what must come out
is what the real broker gave.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from brokerproof.chaos.brokers.activemq import ActiveMQ
from brokerproof.chaos.brokers.beans import ActiveMQOptions
from brokerproof.chaos.brokers.jars import BrokerJars, obtain
from brokerproof.chaos.processes import Supervisor
from brokerproof.chaos.tools import ToolFailed, ToolMissing, find_java
from tests.guards.tree import ROOT
from tests.live.java_client import SCENARIOS
from tests.live.test_server import Server
from tests.tools import at_night, not_run

pytestmark = pytest.mark.live
#: ActiveMQ takes half a minute to refuse.
SLOW = {"a_transaction_with_a_refused_send"}
DEADLINE_S = 120.0
#: Name -> what the client asks for; its own default is tight with a cache.
ENCODINGS = {
    "tight, cached": "",
    "loose, cached": "?wireFormat.tightEncodingEnabled=false",
    "tight": "?wireFormat.cacheEnabled=false",
    "loose": "?wireFormat.tightEncodingEnabled=false&wireFormat.cacheEnabled=false",
    "version 9": "?wireFormat.version=9",
    "version 1": "?wireFormat.version=1&wireFormat.tightEncodingEnabled=false",
}
#: What every encoding plays; the default plays all. They differ in bytes, not in what the broker does.
SAMPLE = (
    "every_kind_of_body",
    "every_kind_of_body_compressed",
    "headers_of_a_message",
    "properties_of_every_type",
    "client_acknowledgement_and_recover",
    "a_rollback_brings_back",
    "request_and_reply_between_connections",
    "five_listeners_share_five_thousand",
)


class Player:
    """The process with the Java client."""

    def __init__(self, jars: BrokerJars, log: Path) -> None:
        class_path = os.pathsep.join(str(jar) for jar in jars.client_class_path)
        self._log = log.open("w")
        self._process = subprocess.Popen(
            [sys.executable, str(ROOT / "tests" / "live" / "java_client.py"), class_path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
        )
        self._played = 0

    def play(self, scenario: str, url: str) -> object:
        """The scenario's outcome. What the client throws fails the test."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._played += 1
        asked = {"scenario": scenario, "url": url, "tag": f"{scenario}-{self._played}"}
        self._process.stdin.write(json.dumps(asked).encode() + b"\n")
        self._process.stdin.flush()
        ready, _, _ = select.select([self._process.stdout], [], [], DEADLINE_S)
        assert ready, f"{scenario} did not end within {DEADLINE_S} s"
        answer = json.loads(self._process.stdout.readline())
        assert "error" not in answer, answer.get("trace")
        return answer["outcome"]

    def close(self) -> None:
        """End it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()


@pytest.fixture(scope="module")
def jars() -> BrokerJars:
    try:
        find_java()
        return obtain(None)
    except (ToolMissing, ToolFailed) as error:
        not_run(str(error))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("openwire")


@pytest.fixture(scope="module")
def player(jars: BrokerJars, folder: Path) -> Iterator[Player]:
    started = Player(jars, folder / "client.log")
    yield started
    started.close()


class Real:
    """A real broker, and what it has shown so far."""

    def __init__(self, player: Player, url: str) -> None:
        self._player = player
        self._url = url
        self._seen: dict[tuple[str, str], object] = {}

    def shows(self, scenario: str, encoding: str = "") -> object:
        """The outcome of a scenario there."""
        asked = (scenario, encoding)
        if asked not in self._seen:
            self._seen[asked] = self._player.play(scenario, self._url + encoding)
        return self._seen[asked]


@pytest.fixture(scope="module")
def real(jars: BrokerJars, folder: Path, player: Player) -> Iterator[Real]:
    with Supervisor(folder) as supervisor:
        options = ActiveMQOptions(scheduler=True, store="kahadb")
        broker = ActiveMQ(supervisor, jars, folder / "broker", management=False, options=options)
        broker.start()
        yield Real(player, f"tcp://127.0.0.1:{broker.openwire_port}")


@pytest.fixture(scope="module")
def ours() -> Iterator[str]:
    """The reference broker's address."""
    server = Server("--connector", "tcp://127.0.0.1:0")
    yield f"tcp://127.0.0.1:{server.port}"
    code, errors = server.stop()
    assert code == 0, errors
    assert "Traceback" not in errors, errors


@pytest.mark.parametrize("scenario", at_night(SCENARIOS, but={*SCENARIOS} - SLOW))
def test_an_application_sees_the_same(scenario: str, player: Player, real: Real, ours: str) -> None:
    expected = real.shows(scenario)
    assert expected  # a scenario that shows nothing would agree with every broker
    assert player.play(scenario, ours) == expected


@pytest.mark.parametrize("scenario", SAMPLE)
@pytest.mark.parametrize("encoding", list(ENCODINGS)[1:])
def test_whatever_the_encoding(encoding: str, scenario: str, player: Player, real: Real, ours: str) -> None:
    # A version may lack a field that matters; how the fields are written must not.
    version = ENCODINGS[encoding] if encoding.startswith("version") else ""
    assert player.play(scenario, ours + ENCODINGS[encoding]) == real.shows(scenario, version)
