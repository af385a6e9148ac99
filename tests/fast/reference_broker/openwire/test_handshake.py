"""OpenWire's handshake and monitors, both ends: the shorter offer counts, silence ends a link, keep-alives do not."""

from __future__ import annotations

import pytest

from brokerproof.reference_broker.core.config import BrokerConfig, Monitor
from brokerproof.reference_broker.core.instant import NS_PER_MS
from brokerproof.reference_broker.inactivity import DocumentedMonitor
from brokerproof.reference_broker.openwire.client import ClientSession
from brokerproof.reference_broker.openwire.commands import (
    ConnectionFault,
    ExceptionResponse,
    KeepAliveInfo,
    WireFormatInfo,
)
from brokerproof.reference_broker.openwire.connections import BrokerInfo
from brokerproof.reference_broker.session.notice import Closed, Connected
from tests.fast.reference_broker.node.wire_pair import Pair
from tests.fast.reference_broker.openwire.test_openwire import inject, written


def test_the_broker_speaks_first_with_its_own_offer() -> None:
    pair = Pair(BrokerConfig(monitor=Monitor(read_ms=2000, initial_delay_ms=700)))
    pair.jms(inactivity_ms=(30_000, 10_000))
    info = pair.frames[1][0][1]
    assert isinstance(info, WireFormatInfo)
    assert (info.max_inactivity_duration_ms, info.max_inactivity_duration_initial_delay_ms) == (2000, 700)
    assert len(pair.of(1, Connected)) == 1


@pytest.mark.parametrize(("generation", "closes_ms"), [("documented", 500 + 1000), ("classic", 500 + 2000)])
def test_a_silent_peer_is_closed_by_the_shorter_offers(generation: str, closes_ms: int) -> None:
    """INA-01, INA-03."""
    pair = Pair(BrokerConfig(generation={"monitor": generation}, monitor=Monitor(read_ms=2000, initial_delay_ms=500)))
    pair.jms(inactivity_ms=(1000, 10_000))
    pair.frozen.add(1)
    pair.advance(20_000)
    ((at_ns, close),) = pair.closes
    assert at_ns == closes_ms * NS_PER_MS
    assert close.reason == "Channel was inactive for too (>1000) long: tcp://peer-1"
    assert not written(pair, ExceptionResponse)


@pytest.mark.parametrize("generation", ["documented", "classic"])
def test_healthy_idle_links_stay(generation: str) -> None:
    """INA-06: keep-alives from both sides, every W."""
    pair = Pair(BrokerConfig(generation={"monitor": generation}, monitor=Monitor(read_ms=3000, initial_delay_ms=0)))
    pair.jms(inactivity_ms=(3000, 0))
    pair.advance(60_000)
    assert (pair.closes, pair.of(1, Closed)) == ([], [])
    assert 58 <= len(written(pair, KeepAliveInfo)) <= 60


@pytest.mark.parametrize(("mine", "theirs"), [(0, 2000), (2000, 0), (2000, None), (-1, 2000)])
def test_0_on_either_side_switches_the_monitor_off(mine: int, theirs: int | None) -> None:
    """INA-02."""
    pair = Pair(BrokerConfig(monitor=Monitor(read_ms=mine, initial_delay_ms=0)))
    pair.node.connect(1, "openwire", pair.now())
    pair.node.receive(1, WireFormatInfo(theirs, 0), pair.now())
    assert pair.node.next_due_ns() is None


def answered(version: int) -> list[object]:
    """What a broker says to a peer with this version, before anything else."""
    pair, said = Pair(), list[object]()
    pair.node.connect(1, "openwire", pair.now())
    pair.node.receive(1, WireFormatInfo(30_000, 10_000, version), pair.now())
    while (frame := pair.node.next_output(1, pair.now())) is not None:
        said.append(frame)
    return said


@pytest.mark.parametrize("version", [2, 5, 8])
def test_a_version_that_nobody_speaks_is_refused_in_words(version: int) -> None:
    offer, fault = answered(version)
    assert isinstance(offer, WireFormatInfo)
    assert isinstance(fault, ConnectionFault)
    assert fault.text == f"OpenWire version {version} is not spoken here; use 1, or a client that speaks 9 or later"


@pytest.mark.parametrize("version", [1, 9, 12, 13])
def test_other_versions_are_welcome(version: int) -> None:
    assert [type(frame) for frame in answered(version)] == [WireFormatInfo, BrokerInfo]


def test_a_negative_initial_delay_ends_the_connection() -> None:
    """INA-19."""
    pair = Pair()
    pair.jms()
    pair.node.connect(5, "openwire", pair.now())
    pair.clients[5], pair.notices[5], pair.frames[5] = ClientSession("x", DocumentedMonitor("b", 0)), [], []
    inject(pair, WireFormatInfo(1000, -1), 5)
    assert "initial delay of the inactivity monitor is -1 ms" in pair.closes[0][1].reason
    with pytest.raises(ValueError, match="initial delay -1 ms is negative"):
        ClientSession("x", DocumentedMonitor("b", 0), initial_delay_ms=-1)


def test_a_second_wire_format_info_changes_nothing() -> None:
    """INA-37."""
    pair = Pair(BrokerConfig(monitor=Monitor(read_ms=2000, initial_delay_ms=0)))
    pair.jms(inactivity_ms=(2000, 0))
    inject(pair, WireFormatInfo(500, 0))
    pair.frozen.add(1)
    pair.advance(1999)
    assert pair.closes == []


def test_keep_alive_info_is_answered_when_asked_also_before_the_handshake() -> None:
    """INA-10, INA-11."""
    pair = Pair()
    pair.node.connect(1, "openwire", pair.now())
    pair.node.receive(1, KeepAliveInfo(7, response_required=True), pair.now())
    pair.node.receive(1, KeepAliveInfo(8), pair.now())
    answers = []
    while (frame := pair.node.next_output(1, pair.now())) is not None:
        if isinstance(frame, KeepAliveInfo):
            answers.append((frame.command_id, frame.response_required))
    assert answers == [(7, False)]


def test_the_client_answers_keep_alives_too() -> None:
    pair = Pair()
    client = pair.jms()
    client.receive(KeepAliveInfo(7, response_required=True), pair.now(1))
    (answer,) = client.outbox
    assert isinstance(answer, KeepAliveInfo)
    assert (answer.command_id, answer.response_required) == (7, False)


def test_a_peer_without_wire_format_info_is_closed() -> None:
    """INA-17: keep-alives do not count as a hello."""
    pair = Pair(BrokerConfig(monitor=Monitor(connect_timeout_ms=3000)))
    pair.node.connect(1, "openwire", pair.now())
    pair.node.receive(1, KeepAliveInfo(), pair.now())
    assert pair.node.next_due_ns() == 3000 * NS_PER_MS


@pytest.mark.parametrize("generation", ["documented", "classic"])
def test_the_client_notices_a_dead_broker(generation: str) -> None:
    pair = Pair(BrokerConfig(generation={"monitor": generation}, monitor=Monitor(read_ms=2000, initial_delay_ms=0)))
    pair.jms(inactivity_ms=(2000, 0))
    pair.advance(5000)
    pair.stalled.add(1)
    pair.advance(10_000)
    (closed,) = pair.of(1, Closed)
    assert isinstance(closed, Closed)
    lowest, highest = (2000, 2000) if generation == "documented" else (4000, 6000)
    assert lowest * NS_PER_MS <= closed.idle_ns <= highest * NS_PER_MS


# -- settings that are not negotiated


def test_without_a_monitor_the_broker_watches_nothing_and_an_idle_peer_drops_it() -> None:
    """useInactivityMonitor=false on one side (INA-13, INA-36)."""
    pair = Pair(BrokerConfig(monitor=Monitor(read_ms=2000, initial_delay_ms=0, use_monitor=False)))
    pair.jms(inactivity_ms=(2000, 0))
    pair.frozen.add(1)
    pair.advance(60_000)
    assert pair.closes == []
    pair.frozen.clear()
    pair.advance(2000)
    assert written(pair, KeepAliveInfo) == []
    assert len(pair.of(1, Closed)) == 1


def test_without_a_monitor_a_keep_alive_is_a_command_like_any_other() -> None:
    pair = Pair(BrokerConfig(monitor=Monitor(use_monitor=False)))
    pair.node.connect(1, "openwire", pair.now())
    pair.node.receive(1, KeepAliveInfo(7, response_required=True), pair.now())
    answers = []
    while (frame := pair.node.next_output(1, pair.now())) is not None:
        answers.append(type(frame).__name__)
    assert answers == ["WireFormatInfo", "Response"]
    assert pair.node.next_due_ns() is None


@pytest.mark.parametrize("generation", ["documented", "classic"])
def test_without_keep_alives_of_its_own_the_broker_still_closes_silent_links(generation: str) -> None:
    """useKeepAlive=false on one side (INA-12)."""
    settings = Monitor(read_ms=2000, initial_delay_ms=0, use_keep_alive=False)
    pair = Pair(BrokerConfig(generation={"monitor": generation}, monitor=settings))
    pair.jms(inactivity_ms=(2000, 0))
    pair.frozen.add(1)
    pair.advance(6001)
    assert len(pair.closes) == 1
    assert written(pair, KeepAliveInfo) == []


def test_keep_alives_that_ask_get_answers_and_healthy_links_stay() -> None:
    """keepAliveResponseRequired: the answers count as signs of life, and suppress the peer's own keep-alives."""
    pair = Pair(BrokerConfig(monitor=Monitor(read_ms=3000, initial_delay_ms=0, ask_for_answers=True)))
    pair.jms(inactivity_ms=(3000, 0))
    pair.advance(30_000)
    assert (pair.closes, pair.of(1, Closed)) == ([], [])
    asked = written(pair, KeepAliveInfo)
    assert asked
    assert all(isinstance(frame, KeepAliveInfo) and frame.response_required for frame in asked)


def test_a_peer_that_does_not_answer_is_not_dropped_for_it() -> None:
    """Asking changes no timing: bytes count, answers do not have to come."""
    pair = Pair(BrokerConfig(monitor=Monitor(read_ms=3000, initial_delay_ms=0, ask_for_answers=True)))
    pair.jms(inactivity_ms=(3000, 0))
    pair.frozen.add(1)
    for _ in range(10):
        pair.advance(2000)
        pair.node.bytes_received(1, pair.now())
    assert pair.closes == []


@pytest.mark.parametrize("offered", [(30_000, 10_000), (500, 0)])
def test_a_broker_that_ignores_the_peers_offer_uses_its_own(offered: tuple[int, int]) -> None:
    """ignoreRemoteWireFormat (AMQ-2196)."""
    pair = Pair(BrokerConfig(monitor=Monitor(read_ms=2000, initial_delay_ms=1000, ignore_remote=True)))
    pair.jms(inactivity_ms=offered)
    pair.frozen.add(1)
    pair.advance(2999)
    assert pair.closes == []
    pair.advance(1)
    assert len(pair.closes) == 1


def test_a_broker_that_ignores_the_peers_offer_drops_one_that_asked_for_no_monitor() -> None:
    pair = Pair(BrokerConfig(monitor=Monitor(read_ms=2000, initial_delay_ms=0, ignore_remote=True)))
    pair.jms(inactivity_ms=(0, 0))
    pair.advance(2000)
    assert len(pair.closes) == 1
