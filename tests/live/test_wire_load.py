"""The load generator of ``benchmarks/wire.py``, and the brokers that only it starts.

Method: a short run of the generator against a broker that is served; what it counts is compared with the broker's own
books where it has some.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from brokerproof.chaos.brokers.rabbitmq import RabbitMQ
from brokerproof.chaos.brokers.stomp import Line
from brokerproof.chaos.processes import Supervisor
from brokerproof.chaos.tools import ToolFailed, ToolMissing
from tests.live.test_server import ROOT, Server
from tests.tools import not_run

pytestmark = pytest.mark.live


def run(port: int, *argv: str) -> dict[str, float]:
    words = [sys.executable, ROOT / "benchmarks" / "wire_load.py", "--port", str(port), "--seconds", "0.5", *argv]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60)
    found: dict[str, float] = json.loads(done.stdout)
    return found


@pytest.fixture(params=["stomp", "tcp"])
def served(request: pytest.FixtureRequest) -> Iterator[tuple[Server, str]]:
    server = Server("--connector", f"{request.param}://127.0.0.1:0")
    yield server, "openwire" if request.param == "tcp" else "stomp"
    server.stop()


@pytest.mark.parametrize("kind", [(), ("--persistent",), ("--rate", "200")])
def test_what_is_counted_has_been_delivered(served: tuple[Server, str], kind: tuple[str, ...]) -> None:
    server, protocol = served
    found = run(server.port, "--protocol", protocol, "--connections", "2", "--run", "x", *kind)
    assert found["messages"] > 20
    if "--rate" not in kind:
        delivered = sum(server.counters(f"queue://wire{number}.x")["dispatched"] for number in range(2))
        assert found["messages"] <= delivered
    else:
        assert 0 < found["p50_ms"] <= found["p99_ms"] < 500


def test_rabbitmq_starts_passes_messages_on_and_leaves_nothing(tmp_path: Path) -> None:
    with Supervisor(tmp_path) as supervisor:
        try:
            broker = RabbitMQ(supervisor, tmp_path / "rabbitmq")
        except (ToolMissing, ToolFailed) as error:
            not_run(str(error))
        broker.start(180_000)
        with Line(broker.stomp_port, 10_000) as line:
            line.send("CONNECT", {"accept-version": "1.2", "host": "localhost"})
            assert line.receive("CONNECTED")["server"].startswith("RabbitMQ/")
            line.send("SUBSCRIBE", {"id": "1", "destination": "/queue/a"})
            line.send("SEND", {"destination": "/queue/a"}, "x")
            assert line.receive("MESSAGE")["destination"] == "/queue/a"
        broker.stop()
        assert broker.process.poll() is not None
