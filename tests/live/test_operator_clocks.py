"""``brokerproof clocks`` on running brokers whose clocks libfaketime skews: the measured bounds hold the truth."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from brokerproof.chaos.brokers.beans import ActiveMQOptions, TimeStamping
from brokerproof.chaos.clocks import ClockFile
from brokerproof.chaos.processes import Supervisor
from brokerproof.conformance.cli import main
from brokerproof.conformance.experiment.exits import OK, SUITE, VIOLATED
from tests.live.bench import need_clocks
from tests.live.managed import Managed, activemq, reference

pytestmark = pytest.mark.live
FIVE_MINUTES_MS = 300_000
STAMPING = "[broker.timestamping]\nfuture_only = {}\n"

Start = Callable[..., Managed]


@pytest.fixture
def supervisor(tmp_path: Path) -> Iterator[Supervisor]:
    need_clocks()
    with Supervisor(tmp_path) as made:
        yield made


def start(supervisor: Supervisor, kind: str, offset_ms: int, mode: str) -> tuple[Managed, ClockFile]:
    clock = ClockFile(supervisor.folder / "clock", offset_ms)
    if kind == "activemq":
        stamping = None if mode == "absent" else TimeStamping(future_only=mode == "futureOnly")
        return activemq(supervisor, options=ActiveMQOptions(timestamping=stamping), clock=clock), clock
    config = supervisor.folder / "broker.toml"
    config.write_text("" if mode == "absent" else STAMPING.format("true" if mode == "futureOnly" else "false"))
    return reference(supervisor, "--config", str(config), clock=clock), clock


def measured(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, dict[str, Any], dict[str, str]]:
    code = main(["clocks", "--json", *argv])
    first, *rest = map(json.loads, capsys.readouterr().out.splitlines())
    return code, first, {row["id"]: row["answer"] for row in rest}


def check(row: dict[str, Any], offset_ms: int) -> None:
    assert abs(row["offset_ms"] - offset_ms) <= row["plus_minus_ms"] + 1, row
    assert row["plus_minus_ms"] < 500


@pytest.mark.parametrize("kind", ["activemq", "reference"])
def test_a_skewed_broker_is_measured_by_every_way(
    supervisor: Supervisor, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    broker, clock = start(supervisor, kind, FIVE_MINUTES_MS, "absent")
    url = f"stomp://127.0.0.1:{broker.stomp_port}"
    for argv in (["--broker", url], ["--broker", url, "--by", "expiry"], ["--broker", broker.url]):
        code, row, answers = measured(capsys, *argv)
        check(row, FIVE_MINUTES_MS)
        assert code == VIOLATED
        assert answers["clocks-differ"] == "yes"
    assert row["way"] == "management"
    code, row, answers = measured(capsys, "--broker", url, "--ttl-ms", "120000")
    assert (row["way"], row["restamps"], code) == ("stamp", "absent", VIOLATED), "scenario 1 of seed 000: 2 minutes"
    assert answers["dead-on-arrival"] == "yes"
    assert row["smallest_ttl_ms"]["absent"] >= FIVE_MINUTES_MS
    clock.set_offset_ms(0)
    code, row, answers = measured(capsys, "--broker", url)
    check(row, 0)
    assert (code, answers["clocks-differ"]) == (OK, "no")
    assert broker.jolokia.search("org.apache.activemq:destinationName=clock*,*") == [], "nothing is left behind"


@pytest.mark.parametrize("kind", ["activemq", "reference"])
@pytest.mark.parametrize("mode", ["always", "futureOnly"])
def test_the_plug_in_is_seen_on_a_broker_that_is_behind(
    supervisor: Supervisor, kind: str, mode: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Scenario 2 of seed 000."""
    broker, _ = start(supervisor, kind, -FIVE_MINUTES_MS, mode)
    url = f"stomp://127.0.0.1:{broker.stomp_port}"
    _, row, answers = measured(capsys, "--broker", url)
    check(row, -FIVE_MINUTES_MS)
    assert row["restamps"] == mode
    assert answers["discarded-by-consumers"] == ("yes" if mode == "always" else "no")
    assert main(["clocks", "--broker", url, "--by", "expiry"]) == SUITE
    assert "rewrites expirations" in capsys.readouterr().err


def test_openwire_is_enough(supervisor: Supervisor, capsys: pytest.CaptureFixture[str]) -> None:
    """A broker of which only OpenWire can be reached, ahead and with a plug-in."""
    broker, clock = start(supervisor, "activemq", FIVE_MINUTES_MS, "futureOnly")
    url = f"tcp://127.0.0.1:{broker.openwire_port}"
    _, row, answers = measured(capsys, "--broker", url)
    check(row, FIVE_MINUTES_MS)
    assert (row["way"], row["restamps"], answers["dead-on-arrival"]) == ("stamp", "futureOnly", "no")
    clock.set_offset_ms(0)
    _, row, _ = measured(capsys, "--broker", url)
    check(row, 0)
    deadline = time.monotonic() + 10  # the broker takes its time after the goodbye
    while broker.jolokia.search("org.apache.activemq:destinationType=TempQueue,*"):
        assert time.monotonic() < deadline, "nothing is left behind"
        time.sleep(0.05)
    assert main(["clocks", "--broker", f"tcp://127.0.0.1:{broker.stomp_port}"]) == SUITE
    assert "no OpenWire" in capsys.readouterr().err


@pytest.mark.parametrize("way", ["expiry", None])
def test_the_reference_broker_over_openwire(
    supervisor: Supervisor, way: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = ClockFile(supervisor.folder / "clock", -FIVE_MINUTES_MS)
    broker = reference(supervisor, "--connector", "tcp://127.0.0.1:0", clock=clock)
    argv = ["--broker", f"tcp://127.0.0.1:{broker.stomp_port}", *([] if way is None else ["--by", way])]
    _, row, answers = measured(capsys, *argv)
    check(row, -FIVE_MINUTES_MS)
    assert row["restamps"] == "absent"
    assert answers["discarded-by-consumers"] == "no"
