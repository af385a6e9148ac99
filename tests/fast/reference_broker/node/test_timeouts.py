"""soWriteTimeout and hbGracePeriodMultiplier through the whole node: a peer that sends but does not read, one whose
beats are late.
"""

from __future__ import annotations

import pytest

from brokerproof.reference_broker.core.config import BrokerConfig, Monitor
from brokerproof.reference_broker.stomp.frames import Frame
from tests.fast.reference_broker.node.wire_pair import Pair


def deaf(write_timeout_ms: int) -> Pair:
    """Client 1 has stopped reading, and the edge has said so; it goes on beating."""
    pair = Pair(BrokerConfig(monitor=Monitor(write_timeout_ms=write_timeout_ms)))
    pair.stomp(1, heart_beat_ms=(1000, 1000))
    pair.node.write_blocked(1, pair.now())
    return pair


def test_a_peer_that_sends_but_does_not_read_is_ended_by_the_write_timeout_alone() -> None:
    pair = deaf(0)
    pair.advance(20_000)
    assert pair.closes == []
    pair = deaf(3000)
    pair.advance(20_000)
    ((at_ns, close),) = pair.closes
    assert at_ns == 3_000_000_000
    assert close.inactive, "nothing more is written"
    assert close.reason == "Forced write timeout: tcp://peer-1 took nothing for too (>3000) long"


def test_a_peer_that_reads_again_stays() -> None:
    pair = deaf(3000)
    pair.advance(2900)
    pair.node.write_resumed(1)
    pair.advance(20_000)
    assert pair.closes == []


@pytest.mark.parametrize(("generation", "closed_ms"), [("documented", 1500), ("classic", 3000)])
def test_the_grace_stretches_the_clients_period(generation: str, closed_ms: int) -> None:
    settings = Monitor(heart_beat_grace=1.5)
    pair = Pair(BrokerConfig(generation={"monitor": generation}, monitor=settings))
    pair.stomp(1, heart_beat_ms=(1000, 0))
    pair.frozen.add(1)
    pair.advance(closed_ms - 1)
    assert pair.closes == []
    pair.advance(1 + 1500)
    assert [close.inactive for _, close in pair.closes] == [True]


def test_a_client_that_says_nothing_of_heart_beats_is_taken_to_say_the_default() -> None:
    pair = Pair(BrokerConfig(monitor=Monitor(default_heart_beat="500,700")))
    pair.stomp(1)
    pair.frozen.add(1)
    pair.advance(3000)
    connected = pair.frames[1][0][1]
    assert isinstance(connected, Frame)
    assert connected.headers["heart-beat"] == "700,500"
    assert pair.beats(1) == [850, 1200]
    assert [at_ns for at_ns, _ in pair.closes] == [1_500_000_000]
