"""Accelerated time: instants and spans of a clock that is faster than the machine's, and who is told of it."""

from __future__ import annotations

import time

import pytest

from brokerproof.chaos.clocks import RatedClock
from brokerproof.chaos.preload import library_path
from brokerproof.chaos.rates import REAL, VARIABLE, Rate, rate_of, told
from brokerproof.chaos.tools import ToolFailed, ToolMissing
from brokerproof.conformance.agents import own_time
from brokerproof.reference_broker.core.config import ConfigError
from brokerproof.reference_broker.server import clocks


def test_instants_go_there_and_back() -> None:
    rate = Rate(10, 5_000)
    assert [rate.of_ns(at_ns) for at_ns in (5_000, 6_000, 4_000)] == [5_000, 15_000, -5_000]
    assert [rate.machine_ns(at_ns) for at_ns in (5_000, 15_000, 15_001, -5_000)] == [5_000, 6_000, 6_001, 4_000]
    assert rate.span_ns(3) == 30_000_000
    before_ns = time.monotonic_ns()
    assert rate.of_ns(before_ns) <= rate.now_ns() <= rate.of_ns(time.monotonic_ns())


def test_at_rate_one_it_is_the_machine() -> None:
    assert (REAL.of_ns(7), REAL.machine_ns(7), REAL.ahead_ns(), REAL.environment()) == (7, 7, 0, {})
    assert rate_of(1) is REAL
    assert rate_of(20) is rate_of(20)  # one anchor for all who live as fast


def test_a_child_is_told_by_its_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    rate = Rate(10, time.monotonic_ns() - 1_000_000_000)
    assert told(rate.environment()) == rate
    assert told({}) == REAL
    monkeypatch.setenv(VARIABLE, rate.environment()[VARIABLE])
    own_time.follow()
    try:
        assert own_time.rate() == rate
        assert 9_000_000_000 <= own_time.wall_ns() - time.time_ns() <= 9_500_000_000
        assert own_time.real_s(2_000_000_000) == 0.2
    finally:
        monkeypatch.delenv(VARIABLE)
        own_time.follow()
    assert own_time.rate() == REAL


def test_a_jvm_that_starts_later_is_put_where_the_others_are() -> None:
    try:
        library_path()
    except (ToolMissing, ToolFailed) as error:
        pytest.skip(str(error))
    clock = RatedClock(Rate(10, time.monotonic_ns() - 3_000_000_000), offset_ms=60_000, zone_hours=2)
    told = clock.environment()
    offset, times = told["FAKETIME"].split()
    assert 87 <= float(offset) < 88
    assert (times, told["TZ"]) == ("x10", "Etc/GMT-2")
    assert "FAKETIME_DONT_FAKE_MONOTONIC" not in told


def test_the_reference_brokers_clocks_run_at_its_rate() -> None:
    anchor_ns = time.monotonic_ns() - 1_000_000_000
    clocks.run_at(f"10@{anchor_ns}")
    try:
        now = clocks.read_clocks()
        assert 10_000_000_000 <= now.mono_ns - anchor_ns < 15_000_000_000
        assert 9_000 <= now.wall_ms - time.time_ns() // 1_000_000 < 14_000
        assert clocks.real_s(2_000_000_000) == 0.2
        assert clocks.loop_s(anchor_ns + 10_000_000_000) == pytest.approx((anchor_ns + 1_000_000_000) / 1e9)
    finally:
        clocks.run_at("1")
    assert abs(clocks.read_clocks().mono_ns - time.monotonic_ns()) < 1_000_000_000


@pytest.mark.parametrize("rate", ["", "0", "101", "fast", "10@", "10@then", "-1"])
def test_a_rate_that_is_none_is_refused_by_its_value(rate: str) -> None:
    with pytest.raises(ConfigError, match="1 to 100"):
        clocks.run_at(rate)
