"""Links that are jittery or cut what they carry into slices, in the simulated world."""

from __future__ import annotations

from itertools import pairwise

import msgspec
import pytest

from brokerproof.conformance.experiment.configuration import BrokerSpec, HostSpec, LinkSpec, MonitorSpec
from brokerproof.conformance.experiment.destinations import queues
from brokerproof.conformance.experiment.history import Arrive, Closed, Fault, History
from brokerproof.conformance.experiment.program import FORMAT, Program
from brokerproof.conformance.experiment.steps import Advance, AnyStep, Send, Settle, Subscribe, Take
from brokerproof.conformance.experiment.verdict import VerdictKind
from brokerproof.conformance.rules.judge import judge_history
from brokerproof.conformance.worlds.simulated.framings import Framings, rewritten
from brokerproof.conformance.worlds.simulated.world import SimulatedWorld
from brokerproof.reference_broker.session.framing import FramingError
from brokerproof.reference_broker.stomp.frames import Frame

STEPS: list[AnyStep] = [Subscribe(host=1, prefetch=30), Send(count=20, size=1000), Take(host=1, count=20), Settle()]


def run(link: LinkSpec, *steps: AnyStep, via: str = "jms") -> History:
    hosts = [HostSpec("b", "broker"), HostSpec("p0", "client"), HostSpec("c0", "client", via)]  # type: ignore[arg-type]  # one of the two
    history = SimulatedWorld().run(Program(FORMAT, BrokerSpec(), hosts, [LinkSpec("p0"), link], queues("q0"), [*steps]))
    assert [one.text for one in judge_history(history) if one.verdict is VerdictKind.VIOLATED] == []
    return history


def ways_ns(history: History) -> list[int]:
    """From one arrival to the next."""
    found = [event.t1 for event in history.events if isinstance(event, Arrive) and event.host == "c0"]
    assert len(found) == 20
    return [later - earlier for earlier, later in pairwise(found)]


def test_a_jittery_link_is_late_by_more_or_less_and_keeps_the_order() -> None:
    even, uneven = run(LinkSpec("c0"), *STEPS), run(LinkSpec("c0", jitter_us=20_000), *STEPS)
    assert len(set(ways_ns(even))) == 1
    assert len(set(ways_ns(uneven))) > 3
    assert max(ways_ns(uneven)) > 5_000_000
    arrived = [event.message for event in uneven.events if isinstance(event, Arrive) and event.host == "c0"]
    assert arrived == [f"p0/{number}" for number in range(1, 21)]
    assert uneven.header.declared.jitter_us == {"c0": 20_000}
    assert [(e.fault, e.link) for e in uneven.events if isinstance(e, Fault)] == [("jitter", "c0")]


@pytest.mark.parametrize("via", ["jms", "stomp"])
def test_a_monitor_bears_as_much_as_it_can_and_nobody_is_accused(via: str) -> None:
    monitor = MonitorSpec(300, 100)
    held = run(LinkSpec("c0", monitor=monitor, jitter_us=20_000), Subscribe(host=1), Advance(ms=5000), via=via)
    assert not any(isinstance(event, Closed) for event in held.events)
    run(LinkSpec("c0", monitor=monitor, jitter_us=100_000), Subscribe(host=1), Advance(ms=5000), via=via)


def test_slices_take_their_time() -> None:
    whole, sliced = run(LinkSpec("c0"), *STEPS), run(LinkSpec("c0", slice_bytes=100), *STEPS)
    assert sliced.header.declared.bytes_per_second == {"c0": 50_000}
    assert min(ways_ns(sliced)) == 1200 * 20_000 > max(ways_ns(whole))
    assert [(e.fault, e.link) for e in sliced.events if isinstance(e, Fault)] == [("slice", "c0")]


@pytest.mark.parametrize("via", ["jms", "stomp"])
@pytest.mark.parametrize("slice_bytes", [10, 33, 100])
def test_decoders_put_slices_together(via: str, slice_bytes: int) -> None:
    link = LinkSpec("c0", slice_bytes=slice_bytes)
    plain, encoded = run(link, *STEPS, via=via), run(msgspec.structs.replace(link, encoded=True), *STEPS, via=via)
    told = [
        [(e.message, e.body, e.properties) for e in history.events if isinstance(e, Arrive)]
        for history in (plain, encoded)
    ]
    assert told[0] == told[1]


def test_what_came_before_a_broken_slice_is_read() -> None:
    framings = Framings("stomp", "", 4)
    data = framings.write(Frame("RECEIPT", {"receipt-id": "1"}, b""))
    with pytest.raises(FramingError) as broken:
        framings.to_client(data + b"NO SUCH THING\n\n\0")
    assert len(broken.value.frames) == 1


def test_whoever_writes_freely_says_the_same() -> None:
    """Over STOMP 1.2; over OpenWire nothing is written otherwise."""
    steps: list[AnyStep] = [
        Subscribe(host=1, prefetch=30, selector="kind = 'a'"),
        Send(count=6, kind="a", headers={"trip_id": "a:b"}),
    ]
    steps += [Take(host=1, count=6), Settle()]
    for via in ("stomp", "jms"):
        link = LinkSpec("c0", encoded=True)
        plain, loose = run(link, *steps, via=via), run(msgspec.structs.replace(link, loose=True), *steps, via=via)
        assert plain.events == loose.events


def test_frames_end_their_lines_otherwise_or_repeat_a_header_or_stand_behind_ends_of_lines() -> None:
    data = b"SEND\ndestination:/queue/q0\nreceipt:1\n\n\n\0"
    assert rewritten(data, 1) == b"SEND\r\ndestination:/queue/q0\r\nreceipt:1\r\n\r\n\n\0"
    assert rewritten(data, 2) == b"SEND\ndestination:/queue/q0\nreceipt:1\ndestination:again\n\n\n\0"
    assert rewritten(data, 3) == b"\n" + data
    assert rewritten(data, 4) == b"\r\n\n" + data
    assert rewritten(data, 5) == data
    assert rewritten(b"\n", 1) == b"\n"
