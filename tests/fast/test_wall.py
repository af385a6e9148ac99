"""Wall clocks from samples: what the reconstruction must bound, whatever the clock did; and the dial that stands on
it.
"""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokerproof.conformance.experiment.history import ClockSample, Fault
from brokerproof.conformance.oracles.dial import Dial
from brokerproof.conformance.oracles.wall import RATE_PPM_MAX, WallClocks

NS_PER_MS = 1_000_000
EPOCH_MS = 1_795_219_200_000
EPOCH_NS = EPOCH_MS * NS_PER_MS


class Clock:
    """A true clock that is sampled: the reference for both reconstructions."""

    def __init__(self, ahead_ms: int = 0, drift_ppm: int = 0) -> None:
        self.ahead_ns = ahead_ms * NS_PER_MS
        self.drift_ppm = drift_ppm
        self.seq = 0
        self.clocks = WallClocks()
        self.dial = Dial(self.clocks, "b")

    def wall_ns(self, true_ns: int) -> int:
        return EPOCH_NS + true_ns + self.ahead_ns + true_ns * self.drift_ppm // 1_000_000

    def sample(self, true_ns: int, *, width_ns: int = 0, plus_minus_ns: int = 0) -> None:
        self.seq += 1
        wall_ms, beyond_ns = divmod(self.wall_ns(true_ns), NS_PER_MS)
        event = ClockSample(
            self.seq, true_ns - width_ns // 2, true_ns + width_ns // 2, "b", wall_ms, plus_minus_ns, beyond_ns
        )
        self.clocks.sample(event)
        self.dial.sample(event)

    def jump(self, true_ns: int, jump_ms: int) -> None:
        self.sample(true_ns)
        self.ahead_ns += jump_ms * NS_PER_MS
        self.seq += 1
        event = Fault(self.seq, true_ns, true_ns, "", "clock", target="b", jump_ms=jump_ms, evidence={"n": 1})
        self.clocks.fault(event)
        self.dial.fault(event)
        self.sample(true_ns)


def test_an_exact_clock_is_exact_everywhere() -> None:
    clock = Clock(300_000)
    clock.sample(0)
    for true_ns in (0, 1, 12_345_678, 10**12):
        exact = clock.wall_ns(true_ns)
        assert clock.clocks.bounds_ns("b", true_ns, true_ns) == (exact, exact)
        assert clock.dial.bounds_ns(true_ns, true_ns) == (exact, exact)


def test_an_interval_covers_both_ends() -> None:
    clock = Clock()
    clock.sample(0)
    assert clock.clocks.bounds_ns("b", 5, 9) == (EPOCH_NS + 5, EPOCH_NS + 9)
    assert clock.dial.bounds_ns(5, 9) == (EPOCH_NS + 5, EPOCH_NS + 9)


def test_an_unknown_host_is_an_error_and_can_be_asked_for() -> None:
    clocks = WallClocks()
    assert not clocks.known("b")
    with pytest.raises(KeyError):
        clocks.bounds_ns("b", 0, 0)


def test_errors_of_samples_and_their_width_widen_the_bounds() -> None:
    clock = Clock()
    clock.sample(1000, width_ns=200, plus_minus_ns=30)
    low, high = clock.clocks.bounds_ns("b", 1000, 1000)
    assert (low, high) == (EPOCH_NS + 1000 - 130, EPOCH_NS + 1000 + 130)


def test_away_from_its_only_sample_an_inexact_clock_may_have_run_off() -> None:
    clock = Clock()
    clock.sample(0, width_ns=2)
    away_ns = 10**9
    low, high = clock.clocks.bounds_ns("b", away_ns, away_ns)
    assert high - low == 2 * (1 + away_ns * RATE_PPM_MAX // 1_000_000)


def test_between_samples_it_runs_evenly() -> None:
    clock = Clock(drift_ppm=100)
    clock.sample(0)
    clock.sample(10**10)
    exact = clock.wall_ns(5 * 10**9)
    low, high = clock.clocks.bounds_ns("b", 5 * 10**9, 5 * 10**9)
    assert low == high == exact


def test_around_a_jump_both_readings_are_possible() -> None:
    """The jump lies between two samples that are apart: nobody knows when it happened."""
    clocks = WallClocks()
    clocks.sample(ClockSample(1, 0, 0, "b", EPOCH_MS))
    clocks.fault(Fault(2, 50, 60, "", "clock", target="b", jump_ms=1000, evidence={"n": 1}))
    clocks.sample(ClockSample(3, 100, 100, "b", EPOCH_MS + 1000, 0, 100))
    assert clocks.bounds_ns("b", 55, 55) == (EPOCH_NS + 55, EPOCH_NS + 1000 * NS_PER_MS + 55)


def test_jumps_of_other_hosts_and_other_faults_do_not_matter() -> None:
    clock = Clock()
    clock.sample(0)
    clock.clocks.fault(Fault(9, 5, 5, "", "clock", target="c0", jump_ms=1000, evidence={"n": 1}))
    clock.clocks.fault(Fault(10, 5, 5, "", "stall", link="b", evidence={"n": 1}))
    clock.sample(10)
    assert clock.clocks.bounds_ns("b", 5, 5) == (EPOCH_NS + 5, EPOCH_NS + 5)


def test_an_interval_across_a_jump_covers_both_sides() -> None:
    clock = Clock()
    clock.sample(0)
    clock.jump(100, 1000)
    clock.sample(200)
    expected = (EPOCH_NS + 50, EPOCH_NS + 1000 * NS_PER_MS + 150)
    assert clock.clocks.bounds_ns("b", 50, 150) == expected
    assert clock.dial.bounds_ns(50, 150) == expected


# -- the dial's ties


def test_ties_are_decided_by_the_order_of_events() -> None:
    """Samples 1 and 2, jump 3 at 100 ns, sample 4: an event of the same nanosecond is before or after it by its
    number.
    """
    clock = Clock()
    clock.sample(0)
    clock.jump(100, 1000)
    before, after = EPOCH_NS + 100, EPOCH_NS + 1000 * NS_PER_MS + 100
    jump_seq = 3
    assert clock.dial.bounds_ns(100, 100, jump_seq - 1, jump_seq - 1) == (before, before)
    assert clock.dial.bounds_ns(100, 100, jump_seq + 1, jump_seq + 1) == (after, after)
    assert clock.dial.bounds_ns(100, 100) == (before, after)
    assert clock.dial.bounds_ns(50, 100, jump_seq - 1, jump_seq - 1) == (EPOCH_NS + 50, before)
    assert clock.dial.bounds_ns(100, 150, jump_seq + 1, jump_seq + 2) == (after, after + 50)


def test_two_jumps_at_one_instant() -> None:
    clock = Clock()
    clock.jump(100, 1000)
    clock.jump(100, -3000)
    between = clock.dial.bounds_ns(100, 100, 3, 3)
    assert between == (EPOCH_NS + 1000 * NS_PER_MS + 100,) * 2
    assert clock.dial.bounds_ns(100, 100) == (EPOCH_NS - 2000 * NS_PER_MS + 100, EPOCH_NS + 1000 * NS_PER_MS + 100)


def test_a_jump_that_no_sample_followed_is_taken_at_its_word() -> None:
    """Exactly for an exact clock; as one of two possibilities for one that is known roughly."""
    clock = Clock()
    clock.sample(0)
    jump = Fault(9, 100, 100, "", "clock", target="b", jump_ms=1000, evidence={"n": 1})
    clock.dial.fault(jump)
    assert clock.dial.bounds_ns(200, 200) == (EPOCH_NS + 1000 * NS_PER_MS + 200,) * 2
    assert clock.dial.bounds_ns(50, 50) == (EPOCH_NS + 50,) * 2
    rough = Clock()
    rough.sample(1000, width_ns=2000)
    rough.dial.fault(Fault(9, 3000, 3000, "", "clock", target="b", jump_ms=-5, evidence={"n": 1}))
    low, high = rough.dial.bounds_ns(4000, 4000)
    assert low <= EPOCH_NS + 4000 - 5 * NS_PER_MS < EPOCH_NS + 4000 <= high


def test_a_sample_corrects_what_a_jump_claimed() -> None:
    clock = Clock()
    clock.sample(0)
    clock.dial.fault(Fault(9, 100, 100, "", "clock", target="b", jump_ms=1000, evidence={"n": 1}))
    clock.ahead_ns = 999 * NS_PER_MS
    clock.sample(150)
    assert clock.dial.bounds_ns(200, 200) == (EPOCH_NS + 999 * NS_PER_MS + 200,) * 2


def test_the_dial_says_how_far_it_jumped() -> None:
    clock = Clock()
    clock.jump(100, 500)
    clock.jump(200, -300)
    assert clock.dial.jump_between(0, 99) == 0
    assert clock.dial.jump_between(0, 150) == 500
    assert clock.dial.jump_between(0, 250) == -300


# -- properties

JUMPS = st.lists(
    st.tuples(st.integers(1, 5_000_000_000), st.integers(-3_600_000, 3_600_000)), max_size=4, unique_by=lambda j: j[0]
)


@given(st.integers(-300_000, 300_000), st.sampled_from([0, 100, -100]), JUMPS, st.data())
def test_bounds_hold_whatever_the_clock_did(
    ahead_ms: int, drift_ppm: int, jumps: list[tuple[int, int]], data: st.DataObject
) -> None:
    """At any instant, the true reading lies within both reconstructions' bounds; without drift the dial is exact."""
    clock = Clock(ahead_ms, drift_ppm)
    clock.sample(0)
    asked = sorted(data.draw(st.lists(st.integers(0, 5_000_000_000), min_size=1, max_size=5)))
    truths: list[tuple[int, int]] = []
    for true_ns, jump_ms in sorted(jumps):
        while asked and asked[0] < true_ns:
            truths.append((asked[0], clock.wall_ns(asked.pop(0))))
        asked = [at for at in asked if at != true_ns]
        clock.jump(true_ns, jump_ms)
    truths += [(at, clock.wall_ns(at)) for at in asked]
    clock.sample(5_000_000_001)
    for true_ns, wall_ns in truths:
        low, high = clock.dial.bounds_ns(true_ns, true_ns)
        assert low <= wall_ns <= high
        assert drift_ppm or low == high
        rough_low, rough_high = clock.clocks.bounds_ns("b", true_ns, true_ns)
        assert rough_low - 2 <= wall_ns <= rough_high + 2
    for (first_ns, first_wall), (last_ns, last_wall) in pairwise(truths):
        low, high = clock.dial.bounds_ns(first_ns, last_ns)
        assert low <= min(first_wall, last_wall)
        assert high >= max(first_wall, last_wall)


@given(st.sampled_from([0, 100, -100]), JUMPS, st.integers(0, 4_000_000_000), st.integers(-2_000, 8_000))
def test_the_earliest_time_is_never_too_late(
    drift_ppm: int, jumps: list[tuple[int, int]], from_ns: int, ahead_ms: int
) -> None:
    """Before ``earliest_ns`` no reading at or after ``from_ns`` reached the value."""
    clock = Clock(0, drift_ppm)
    clock.sample(0)
    stretches: list[tuple[int, int]] = [(0, 0)]
    for true_ns, jump_ms in sorted(jumps):
        clock.jump(true_ns, jump_ms)
        stretches.append((true_ns, clock.ahead_ns))
    clock.sample(5_000_000_001)
    wanted_ns = EPOCH_NS + ahead_ms * NS_PER_MS
    found = clock.dial.earliest_ns(from_ns, wanted_ns)
    for index, (start_ns, ahead_ns) in enumerate(stretches):
        end_ns = stretches[index + 1][0] if index + 1 < len(stretches) else 5_000_000_001
        for true_ns in (max(start_ns, from_ns), (max(start_ns, from_ns) + end_ns) // 2, end_ns):
            if from_ns <= true_ns <= end_ns and (found is None or true_ns < found):
                assert EPOCH_NS + true_ns + ahead_ns + true_ns * drift_ppm // 1_000_000 < wanted_ns
