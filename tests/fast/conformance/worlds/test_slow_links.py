"""Links with little bandwidth in the simulated world: how long frames take, that their bytes are signs of life, and
that a link that dies in the middle of a frame is noticed.
"""

from __future__ import annotations

import pytest

from brokerproof.conformance.experiment.configuration import BrokerSpec, HostSpec, LinkSpec, MonitorSpec
from brokerproof.conformance.experiment.destinations import queues
from brokerproof.conformance.experiment.history import Arrive, Closed, History
from brokerproof.conformance.experiment.history import Send as Sent
from brokerproof.conformance.experiment.program import FORMAT, Program
from brokerproof.conformance.experiment.steps import Advance, AnyStep, Resume, Send, Settle, Stall, Subscribe
from brokerproof.conformance.worlds.simulated.link import FRAME_BYTES
from brokerproof.conformance.worlds.simulated.world import SimulatedWorld

MONITOR = MonitorSpec(1000, 500)
RATE = 100_000


def run(
    steps: list[AnyStep],
    *,
    rate: int = RATE,
    via: str = "jms",
    mutant: str | None = None,
    generation: str = "documented",
) -> History:
    """p0 and c0 have slow links."""
    hosts = [HostSpec("b", "broker"), HostSpec("p0", "client", via), HostSpec("c0", "client", via)]  # type: ignore[arg-type]  # one of the two
    links = [LinkSpec(name, 500, MONITOR, rate) for name in ("p0", "c0")]
    program = Program(FORMAT, BrokerSpec(generation={"monitor": generation}), hosts, links, queues("q0"), steps)
    return SimulatedWorld(mutant=mutant).run(program)


def closes(history: History) -> list[Closed]:
    return [event for event in history.events if isinstance(event, Closed)]


def test_a_frame_takes_as_long_as_its_bytes() -> None:
    history = run([Send(size=1_000_000)], via="stomp")
    (sent,) = [event for event in history.events if isinstance(event, Sent)]
    seconds = (sent.t1 - sent.t0) / 1e9
    assert (1_000_000 + FRAME_BYTES) / RATE < seconds < (1_000_000 + 10 * FRAME_BYTES) / RATE
    assert sent.result == "ok"


def test_without_a_bandwidth_it_takes_the_latency() -> None:
    history = run([Send(size=1_000_000)], rate=0)
    (sent,) = [event for event in history.events if isinstance(event, Sent)]
    assert sent.t1 - sent.t0 < 2_000_000


@pytest.mark.parametrize("generation", ["documented", "classic"])
@pytest.mark.parametrize("via", ["jms", "stomp"])
def test_a_large_message_survives_a_slow_network_in_both_directions(via: str, generation: str) -> None:
    """A transfer of ten read periods, up and down: delivered once, no link closed."""
    steps: list[AnyStep] = [Subscribe(host=1), Send(size=1_000_000), Advance(ms=12_000), Settle()]
    history = run(steps, via=via, generation=generation)
    assert closes(history) == []
    arrived = [event for event in history.events if isinstance(event, Arrive) and event.consumer == "c0/1"]
    assert [event.message for event in arrived] == ["p0/1"]


def test_a_monitor_that_counts_frames_drops_it_again_and_again() -> None:
    """The potential issue of the seed page, as brokers before the byte counter had it."""
    history = run([Send(size=1_000_000), Send(size=1_000_000)], mutant="monitor-counts-frames")
    dropped = [event for event in closes(history) if event.host == "b"]
    assert len(dropped) == 2
    assert all("Channel was inactive for too (>1000) long" in event.reason for event in dropped)


def test_a_link_that_dies_in_mid_frame_is_closed_by_its_reader() -> None:
    """The client has half of a message when its link stalls: R after the last byte, not after the last frame."""
    steps: list[AnyStep] = [
        Subscribe(host=1),
        Send(host=0, size=200_000),
        Advance(ms=1000),
        Stall(link=1, toward="client"),
        Advance(ms=5000),
        Resume(),
    ]
    history = run(steps)
    stalled = next(event for event in history.events if event.__class__.__name__ == "Fault")
    (close,) = [event for event in closes(history) if event.host == "c0"]
    after_ms = (close.t1 - stalled.t1) / 1e6
    assert MONITOR.read_ms - 50 <= after_ms <= 1.1 * MONITOR.read_ms
    assert close.idle_ns is not None
    assert close.idle_ns <= 1.1 * MONITOR.read_ms * 1e6
