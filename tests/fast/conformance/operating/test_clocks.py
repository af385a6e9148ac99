"""``brokerproof clocks``: bounds from readings, what they mean, and the command on a broker whose clock is made up."""

from __future__ import annotations

import json
import re
import socket
from typing import Any

import pytest

from brokerproof.conformance.brokers.line import ProbeError
from brokerproof.conformance.cli import main
from brokerproof.conformance.experiment.exits import INCONCLUSIVE, OK, SUITE, USAGE, VIOLATED
from brokerproof.conformance.operating import advice, clocks, measuring
from brokerproof.conformance.operating.measuring import ABSENT, ALWAYS, FUTURE_ONLY, CannotTell
from brokerproof.conformance.operating.offset import Offset, Reading, joined
from brokerproof.conformance.operating.openwire import OpenWireExchange

WALL_MS = 1_795_000_000_000.4


class Broker:
    """A broker whose clock is ``ahead_ms`` of this host's; an exchange takes ``trip_ms``."""

    def __init__(self, ahead_ms: float, *, trip_ms: float = 3.0, mode: str = ABSENT, stamps: bool = True) -> None:
        self.ahead_ms = ahead_ms
        self.trip_ms = trip_ms
        self.mode = mode
        self.stamps = stamps
        self.now_ms = WALL_MS
        self.asked = 0

    def wall(self) -> float:
        return self.now_ms

    def __call__(self, timestamp_ms: int | None, expiration_ms: int) -> tuple[int, int] | None:
        self.asked += 1
        self.now_ms += self.trip_ms / 2
        broker_ms = int(self.now_ms + self.ahead_ms)
        self.now_ms += self.trip_ms / 2
        if timestamp_ms is None:
            timestamp_ms = broker_ms if self.stamps else 0
        elif self.mode != ABSENT:
            fresh = broker_ms + (expiration_ms - timestamp_ms)
            if self.mode == ALWAYS or fresh > expiration_ms:
                timestamp_ms, expiration_ms = broker_ms, fresh
        return None if 0 < expiration_ms <= broker_ms else (timestamp_ms, expiration_ms)


@pytest.mark.parametrize("ahead_ms", [0.0, 0.7, 300_000.0, -300_000.0, 86_400_000.5, -40 * 365 * 86_400_000.0])
@pytest.mark.parametrize("way", [measuring.by_stamp, measuring.by_expiry])
def test_the_truth_is_within_the_bounds_and_they_are_narrow(way: Any, ahead_ms: float) -> None:
    broker = Broker(ahead_ms)
    offset = way(broker, broker.wall)
    assert offset.low_ms <= ahead_ms <= offset.high_ms
    assert offset.plus_minus_ms <= broker.trip_ms + 1
    assert offset.steady
    assert broker.asked <= measuring.MOST_PROBES


def test_what_a_broker_does_not_offer_is_said() -> None:
    silent = Broker(0, stamps=False)
    with pytest.raises(CannotTell, match="stamps no message"):
        measuring.by_stamp(silent, silent.wall)
    for answer, text in ((None, "never alive"), ((0, 0), "do not expire")):
        with pytest.raises(CannotTell, match=text):
            measuring.by_expiry(lambda _t, _e, answer=answer: answer, silent.wall)  # type: ignore[misc]


@pytest.mark.parametrize("mode", [ABSENT, ALWAYS, FUTURE_ONLY])
@pytest.mark.parametrize("ahead_ms", [0.0, 300_000.0, -300_000.0])
def test_the_plug_in_is_seen(mode: str, ahead_ms: float) -> None:
    broker = Broker(ahead_ms, mode=mode)
    assert measuring.plug_in(broker, measuring.by_stamp(broker, broker.wall), broker.wall) == mode


def test_readings_that_contradict_one_another_are_told() -> None:
    early, late = Reading(0, 1, 100, 101), Reading(10, 11, 500, 501)
    offset = joined([early, late], "stamp")
    assert not offset.steady
    assert (offset.low_ms, offset.high_ms) == (99, 491)
    found = {one.id: one for one in advice.answers(offset, ABSENT, 1000, None)}
    assert found["clocks-differ"].answer == "unknown"
    assert "a clock moved while it was measured" in found["clocks-differ"].values[0]


def bounds(low_ms: float, high_ms: float) -> Offset:
    return Offset(low_ms, high_ms, "stamp", 12, 1.0)


@pytest.mark.parametrize(
    ("offset", "mode", "answers"),
    [
        (bounds(-2, 2), ABSENT, {"clocks-differ": "no", "dead-on-arrival": "no", "discarded-by-consumers": "no"}),
        (bounds(-2, 60), ABSENT, {"clocks-differ": "no", "dead-on-arrival": "unknown"}),
        # Scenario 1 of the seed: the broker is five minutes ahead.
        (bounds(299_999, 300_001), ABSENT, {"clocks-differ": "yes", "dead-on-arrival": "yes"}),
        (bounds(299_999, 300_001), ALWAYS, {"dead-on-arrival": "no", "discarded-by-consumers": "no"}),
        # Scenario 2: the broker is five minutes behind.
        (bounds(-300_001, -299_999), ABSENT, {"dead-on-arrival": "no", "discarded-by-consumers": "no"}),
        (bounds(-300_001, -299_999), ALWAYS, {"dead-on-arrival": "no", "discarded-by-consumers": "yes"}),
        (bounds(-300_001, -299_999), FUTURE_ONLY, {"dead-on-arrival": "no", "discarded-by-consumers": "no"}),
        (bounds(-300_001, -299_999), None, {"discarded-by-consumers": "unknown", "plug-in": "unknown"}),
        (bounds(900, 1100), ABSENT, {"clocks-differ": "unknown", "dead-on-arrival": "yes"}),
    ],
)
def test_the_seeds_scenarios(offset: Offset, mode: str | None, answers: dict[str, str]) -> None:
    found = {one.id: one.answer for one in advice.answers(offset, mode, 1000, None)}
    assert {name: found[name] for name in answers} == answers


def test_the_advice_is_the_seeds() -> None:
    ahead = {one.id: one for one in advice.answers(bounds(299_999, 300_001), ABSENT, 1000, None)}
    assert "NTP" in ahead["clocks-differ"].remedy
    assert "send a time to live of at least 300003 ms" in ahead["dead-on-arrival"].remedy
    assert 'with futureOnly="true"' in ahead["plug-in"].remedy
    behind = {one.id: one for one in advice.answers(bounds(-300_001, -299_999), ALWAYS, 1000, None)}
    assert 'set futureOnly="true"' in behind["plug-in"].remedy
    assert "below 299999 ms" in behind["discarded-by-consumers"].values[0]
    without = {one.id: one for one in advice.answers(bounds(-300_001, -299_999), ABSENT, 1000, None)}
    assert 'do not add one without futureOnly="true"' in without["plug-in"].remedy


def told(monkeypatch: pytest.MonkeyPatch, broker: Broker) -> None:
    offset = measuring.by_stamp(broker, broker.wall)
    mode = measuring.plug_in(broker, offset, broker.wall)
    monkeypatch.setattr(clocks, "measure", lambda where, way: (offset, mode))


def test_the_exit_code_says_whether_messages_are_safe(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told(monkeypatch, Broker(5000))
    assert main(["clocks"]) == VIOLATED
    assert re.search(r"broker minus this host: \+(4999|5000)\.\d ms \+/- \d\.\d ms", capsys.readouterr().out)
    assert main(["clocks", "--tolerance-ms", "6000"]) == OK
    assert main(["clocks", "--tolerance-ms", "5000"]) == INCONCLUSIVE
    assert main(["clocks", "--ttl-ms", "6000"]) == OK
    assert main(["clocks", "--ttl-ms", "4000"]) == VIOLATED
    assert main(["clocks", "--ttl-ms", "5001"]) == INCONCLUSIVE
    assert main(["clocks", "--ttl-ms", "soon"]) == USAGE
    assert main(["clocks", "--ttl-ms", "0"]) == USAGE
    assert "never expires" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("written", "text"),
    [
        (b"\0\0\0\1\x7f", "cannot be read"),
        (b"\0\0\0\6\x0a\0\0\0\0\0", "begins with KeepAliveInfo"),
        (b"", "closed the connection"),
    ],
)
def test_who_speaks_no_openwire_is_told_and_left(monkeypatch: pytest.MonkeyPatch, written: bytes, text: str) -> None:
    mine, other = socket.socketpair()
    monkeypatch.setattr(socket, "create_connection", lambda *_, **__: mine)
    with other:
        other.sendall(written)
        other.shutdown(socket.SHUT_WR)
        with pytest.raises(ProbeError, match=text):
            OpenWireExchange("somewhere", 1)
    assert mine.fileno() == -1


def test_a_connection_that_breaks_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    mine, other = socket.socketpair()
    other.close()
    monkeypatch.setattr(socket, "create_connection", lambda *_, **__: mine)
    with pytest.raises(BrokenPipeError):
        OpenWireExchange("somewhere", 1)
    assert mine.fileno() == -1


def test_json_begins_with_the_measurement(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    told(monkeypatch, Broker(-5000, mode=FUTURE_ONLY))
    assert main(["clocks", "--json"]) == VIOLATED
    first, *rest = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert abs(first["offset_ms"] + 5000) <= first["plus_minus_ms"]
    assert first["restamps"] == FUTURE_ONLY
    assert first["smallest_ttl_ms"][ABSENT] < 10 < first["smallest_ttl_ms"][ALWAYS]
    assert [row["id"] for row in rest if row["problem"]] == ["clocks-differ"]


def test_nobody_there_and_ways_that_do_not_fit(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(_: object) -> Any:
        raise ProbeError("the broker does not answer CONNECT")

    monkeypatch.setattr(measuring, "stomp_exchange", refused)
    assert main(["clocks", "--broker", "stomp://u:secret@127.0.0.1:1"]) == SUITE
    error = capsys.readouterr().err
    assert "stomp://127.0.0.1:1: the broker does not answer CONNECT" in error
    assert "secret" not in error
    assert main(["clocks", "--broker", "reference", "--by", "management"]) == USAGE
    assert "stomp allows stamp or expiry" in capsys.readouterr().err
    assert main(["clocks", "--broker", "http://127.0.0.1:1", "--by", "stamp"]) == USAGE
