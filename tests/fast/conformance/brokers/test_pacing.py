"""Which programs live faster than the machine, and how fast."""

from __future__ import annotations

import msgspec
import pytest

from brokerproof.chaos.rates import REAL
from brokerproof.conformance.brokers import make_adapter
from brokerproof.conformance.brokers.pacing import LEAST_MS, LONG_MS, real_ms, times_of
from brokerproof.conformance.experiment.configuration import BrokerSpec, ClockSpec, LinkSpec, MonitorSpec, PolicySpec
from brokerproof.conformance.experiment.exits import UsageError
from brokerproof.conformance.experiment.program import Program
from brokerproof.conformance.experiment.steps import Advance, AnyStep, Clock, Freeze, Pause, Probe, Send
from brokerproof.conformance.experiment.steps.scarcity import Exhaust
from brokerproof.conformance.running.under_test import experiment


def waits(*steps: AnyStep, ms: int = 60_000) -> Program:
    return experiment().with_steps([*steps, Advance(ms=ms)])


def test_it_waits_long_and_asks_for_nothing_short() -> None:
    assert times_of(waits(), 10) == 10
    assert times_of(waits(), 30) == 30
    assert times_of(waits(), 1) == 1
    assert times_of(waits(ms=LONG_MS - 1), 10) == 1
    assert times_of(waits(Send(ttl_ms=10 * LEAST_MS)), 30) == 10
    assert times_of(waits(Send(delay_ms=10 * LEAST_MS - 1)), 30) == 5
    assert times_of(waits(Send(ttl_ms=1)), 30) == 1


@pytest.mark.parametrize(
    "step", [Clock(jump_ms=5), Freeze(), Exhaust(), Probe(ms=9000, dialogues=("destinations",))], ids=str
)
def test_some_steps_are_of_the_machines_time(step: AnyStep) -> None:
    assert times_of(waits(step), 10) == 1
    assert times_of(waits(Pause(ms=5000)), 10) == 10


def test_so_are_drift_and_links_that_are_shaped() -> None:
    program = waits()
    drifting = [msgspec.structs.replace(host, clock=ClockSpec(drift_ppm=100)) for host in program.hosts]
    assert times_of(msgspec.structs.replace(program, hosts=drifting), 10) == 1
    for shaped in (
        LinkSpec("c0", bytes_per_second=9000),
        LinkSpec("c0", jitter_us=9000),
        LinkSpec("c0", slice_bytes=9),
    ):
        assert times_of(msgspec.structs.replace(program, links=[shaped]), 10) == 1
    watched = LinkSpec("c0", monitor=MonitorSpec(30_000, 10_000))
    assert times_of(msgspec.structs.replace(program, links=[watched]), 100) == 100


def test_settings_are_durations_too() -> None:
    program = msgspec.structs.replace(waits(), broker=BrokerSpec(policies=[PolicySpec(expire_period_ms=500)]))
    assert times_of(program, 10) == 5


def test_many_connections_take_their_time() -> None:
    one, many = (waits(Probe(ms=60_000, times=times)) for times in (1, 200))
    assert (times_of(one, 10), times_of(many, 10)) == (10, 1)


def test_its_steps_take_less_real_time() -> None:
    assert real_ms(waits()) == 60_000
    assert real_ms(waits(), 10) == 6000


def test_only_what_bears_it_is_hastened() -> None:
    assert make_adapter("reference", speed=50).rate(waits()).times == 50
    assert make_adapter("reference").rate(waits()) == REAL
    assert make_adapter("reference", speed=50, client="openwire").speed == 50
    with pytest.raises(UsageError, match="leave it out"):
        make_adapter("coilmq", speed=2)
    with pytest.raises(UsageError, match="1 to 100"):
        make_adapter("reference", speed=101)
    assert make_adapter("reference", speed=50, client="openwire").chosen[-4:] == (
        "--speed",
        "50",
        "--client",
        "openwire",
    )
