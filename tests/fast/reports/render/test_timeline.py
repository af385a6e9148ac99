"""What an evidence page shows of a history: the witness, what belongs to it, and all clocks when it matters."""

from __future__ import annotations

import itertools

import pytest

from brokerproof.conformance.experiment.history import Arrive, ClockSample, Event, Fault, History, Send
from brokerproof.reports.render.clocks import LEFT, WIDTH, Axis, draw
from brokerproof.reports.render.timeline import EVENTS_FIRST, EVENTS_MAX, build_timeline, select_events
from brokerproof.reports.render.units import (
    bytes_text,
    duration_text,
    milliseconds_text,
    offset_text,
    rounded_text,
    true_text,
    wall_text,
)
from tests.fast.reports.store import samples

MS = samples.MS
HOUR_NS = 3_600_000 * MS


def shown(witness: list[int]) -> list[int]:
    """Numbers of the events that are shown for a witness."""
    return [event.seq for event in select_events(samples.events(), witness)]


def test_the_witness_brings_its_messages_consumers_and_faults() -> None:
    numbers = shown([14])
    assert 14 in numbers
    assert 7 in numbers, "the sending of the message that arrived"
    assert 6 in numbers, "the subscription of its consumer"
    assert {10, 12, 13} <= set(numbers), "every fault up to then"
    assert 8 not in numbers, "another message"
    assert max(numbers) == 14, "nothing after the witness"


def test_a_counter_brings_the_traffic_of_its_destination() -> None:
    numbers = shown([20])
    assert {6, 7, 8, 14, 18, 20} <= set(numbers)


def test_without_a_witness_the_first_events_are_shown() -> None:
    numbers = shown([])
    assert 1 not in numbers, "clock samples are drawn, not listed"
    assert numbers == sorted(numbers)
    assert len(numbers) <= EVENTS_FIRST


def test_a_long_run_is_cut_around_the_witness() -> None:
    events: list[Event] = [Send(number, number, number, "p0", "ok", "p0/1", "q0") for number in range(1, 1000)]
    numbers = [event.seq for event in select_events(events, [500, 501])]
    assert numbers == list(range(502 - EVENTS_MAX, 502))


def test_clocks_are_read_against_the_observer() -> None:
    timeline = build_timeline(samples.program(), samples.history("reference"), [7, 14])
    assert timeline.origin == "the observer's clock"
    rows = {reading.label: reading.clocks for reading in timeline.readings}
    after = rows["arrive (event 14)"]
    assert after["b"] is not None
    assert after["b"][0] == HOUR_NS
    assert after["p0"] is not None
    assert after["p0"][0] == -300_000 * MS
    assert after["c0"] is not None
    assert abs(after["c0"][0]) <= after["c0"][2]
    before = rows["send (event 7)"]
    assert before["b"] is not None
    assert before["b"][:2] == (0, samples.EPOCH_MS * MS + 260_000)


def test_without_an_observer_the_median_clock_counts_as_right() -> None:
    past = samples.history("reference")
    events = [event for event in past.events if event.host != "drain"]
    timeline = build_timeline(samples.program(), History(past.header, events), [14])
    assert timeline.origin == "the median of the hosts' clocks at the start"
    assert [lane.host for lane in timeline.lanes] == ["b", "p0", "c0"]


def test_a_history_without_clocks_still_has_events() -> None:
    past = samples.history("reference")
    events = [event for event in past.events if not isinstance(event, ClockSample)]
    timeline = build_timeline(samples.program(), History(past.header, events), [14])
    assert timeline.origin == "no clock was sampled"
    assert all(mark.wall_ns is None for mark in timeline.marks)
    assert all(lane.points == [] for lane in timeline.lanes)
    assert draw(timeline) is not None


def test_an_empty_history_draws_nothing() -> None:
    timeline = build_timeline(samples.program(), History(samples.history("x").header), [])
    assert draw(timeline) is None


def test_lanes_carry_jumps_and_stalls() -> None:
    timeline = build_timeline(samples.program(), samples.history("reference"), [14])
    lanes = {lane.host: lane for lane in timeline.lanes}
    assert [(point.offset_ns, point.jump) for point in lanes["b"].points] == [(0, False), (0, False), (HOUR_NS, True)]
    assert lanes["p0"].stalls == [(30 * MS, 500 * MS)]


def test_everything_is_drawn_inside_the_picture() -> None:
    drawing = draw(build_timeline(samples.program(), samples.history("reference"), [7, 14]))
    assert drawing is not None
    xs = [glyph.x for glyph in drawing.glyphs] + [label.x for label in drawing.times]
    assert all(LEFT <= x <= WIDTH for x in xs)
    assert sorted(glyph.seq for glyph in drawing.glyphs if glyph.witness) == [7, 14]
    (path,) = drawing.paths
    assert path.x1 < path.x2
    labels = sorted(label.x for label in drawing.times)
    assert all(right - left >= 60 for left, right in itertools.pairwise(labels))


def test_the_axis_keeps_order_and_compresses_gaps() -> None:
    axis = Axis([0, 1000, 2_000_000, HOUR_NS], 0, 1000)
    places = [axis.x(time) for time in (0, 500, 1000, 2_000_000, HOUR_NS // 2, HOUR_NS)]
    assert places == sorted(places)
    assert (places[0], places[-1]) == (0, pytest.approx(1000))
    assert places[2] > 10, "a microsecond is visible beside an hour"
    assert axis.x(-5) == 0
    assert axis.x(2 * HOUR_NS) == pytest.approx(1000)


def test_a_run_in_one_instant_can_be_drawn() -> None:
    events: list[Event] = [
        ClockSample(1, 0, 0, "b", samples.EPOCH_MS),
        Fault(2, 0, 0, "", "clock", target="b", jump_ms=5, evidence={}),
        ClockSample(3, 0, 0, "b", samples.EPOCH_MS + 5),
        Arrive(4, 0, 0, "c0", "c0/1", "p0/1", "q0"),
    ]
    assert draw(build_timeline(samples.program(), History(samples.history("x").header, events), [4])) is not None


@pytest.mark.parametrize(
    ("value_ns", "text"),
    [
        (0, "0 ms"),
        (1, "1 ns"),
        (1500, "1.5 µs"),
        (999_999_999, "999.999999 ms"),
        (1_001_000_000, "1.001 s"),
        (120_000_000_000, "2 min"),
        (119_999_000_000, "1 min 59.999 s"),
        (-300_000_000_000, "\u22125 min"),
        (90_061_000_000_000, "1 d 1 h 1 min 1 s"),
    ],
)
def test_durations_are_exact(value_ns: int, text: str) -> None:
    assert duration_text(value_ns) == text


def test_other_units() -> None:
    assert milliseconds_text(3_600_000, sign=True) == "+1 h"
    assert rounded_text(998_900_123) == "998.9 ms"
    assert rounded_text(12_345_678_901) == "12.346 s"
    assert true_text(60_000_123_456) == "60\u202f000.123"
    assert wall_text(samples.EPOCH_MS * MS + 1_999_999) == "2027-01-15 08:00:00.001"
    assert wall_text(10**30).endswith(" ms")
    assert wall_text(-1) == "1969-12-31 23:59:59.999"
    assert [bytes_text(size) for size in (0, 64, 1024, 1536, 64 << 20, 1 << 30)] == [
        "0 B",
        "64 B",
        "1 KiB",
        "1536 B",
        "64 MiB",
        "1 GiB",
    ]
    assert offset_text(400_000, 530_000) == "right"
    assert offset_text(HOUR_NS // 2, HOUR_NS // 2) == "+30 min", "a wide reading is not called right"
