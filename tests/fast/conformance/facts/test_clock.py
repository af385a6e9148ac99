"""Wall clocks from samples: what the reconstruction must bound, whatever the clock did."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from brokerproof.conformance.experiment.history import ClockSample, Fault
from brokerproof.conformance.facts.clock import RATE_PPM, ROUNDING_NS, Clock

NS_PER_MS = 1_000_000
EPOCH_MS = 1_795_219_200_000
EPOCH_NS = EPOCH_MS * NS_PER_MS


class Sampled:
    """A true clock that is sampled: the reference for the reconstruction, ``seen``."""

    def __init__(self, ahead_ms: int = 0, drift_ppm: int = 0) -> None:
        self.ahead_ns = ahead_ms * NS_PER_MS
        self.drift_ppm = drift_ppm
        self.seq = 0
        self.seen = Clock("b")

    def wall_ns(self, true_ns: int) -> int:
        return EPOCH_NS + true_ns + self.ahead_ns + true_ns * self.drift_ppm // 1_000_000

    def sample(self, true_ns: int, *, width_ns: int = 0, plus_minus_ns: int = 0) -> None:
        self.seq += 1
        wall_ms, beyond_ns = divmod(self.wall_ns(true_ns), NS_PER_MS)
        event = ClockSample(
            self.seq, true_ns - width_ns // 2, true_ns + width_ns // 2, "b", wall_ms, plus_minus_ns, beyond_ns
        )
        self.seen.sample(event)

    def jump(self, true_ns: int, jump_ms: int) -> None:
        self.sample(true_ns)
        self.ahead_ns += jump_ms * NS_PER_MS
        self.seq += 1
        event = Fault(self.seq, true_ns, true_ns, "", "clock", target="b", jump_ms=jump_ms, evidence={"n": 1})
        self.seen.jump(event)
        self.sample(true_ns)


def test_an_exact_clock_is_exact_everywhere() -> None:
    clock = Sampled(300_000)
    clock.sample(0)
    for true_ns in (0, 1, 12_345_678, 10**12):
        exact = clock.wall_ns(true_ns)
        assert clock.seen.bounds_ns(true_ns, true_ns) == (exact, exact)


def test_a_stop_in_an_uncertain_instant_shows_what_was_read_after_it() -> None:
    clock = Sampled()
    clock.sample(0)
    clock.jump(9 * NS_PER_MS, 1000)
    stopped = Fault(99, 5 * NS_PER_MS, 20 * NS_PER_MS, "", "clock", target="b", how="freeze", evidence={"n": 1})
    clock.seen.jump(stopped)
    clock.seen.sample(ClockSample(100, 20 * NS_PER_MS, 20 * NS_PER_MS, "b", EPOCH_MS + 1020))
    assert clock.seen.bounds_ns(21 * NS_PER_MS, 10**9)[0] >= EPOCH_NS + 1019 * NS_PER_MS
    assert clock.seen.bounds_ns(21 * NS_PER_MS, 10**9)[1] <= EPOCH_NS + 1021 * NS_PER_MS


def test_a_stop_at_the_instant_of_a_step_shows_what_was_read_after_both() -> None:
    clock = Sampled()
    clock.sample(0)
    clock.sample(5 * NS_PER_MS)
    clock.jump(5 * NS_PER_MS, 86_400_000)
    clock.sample(5 * NS_PER_MS)
    stop = Fault(99, 5 * NS_PER_MS, 5 * NS_PER_MS, "", "clock", target="b", how="freeze", evidence={"n": 1})
    clock.seen.jump(stop)
    clock.seen.sample(ClockSample(100, 9 * NS_PER_MS, 9 * NS_PER_MS, "b", EPOCH_MS + 86_400_005))
    stood_ns = EPOCH_NS + 86_400_005 * NS_PER_MS
    low, high = clock.seen.bounds_ns(7 * NS_PER_MS, 8 * NS_PER_MS)
    assert stood_ns - 2 <= low <= high <= stood_ns + 2


def test_an_interval_covers_both_ends() -> None:
    clock = Sampled()
    clock.sample(0)
    assert clock.seen.bounds_ns(5, 9) == (EPOCH_NS + 5, EPOCH_NS + 9)


def test_a_clock_that_was_never_read_is_not_known() -> None:
    assert not Clock("b").known


def test_errors_of_samples_and_their_width_widen_the_bounds() -> None:
    clock = Sampled()
    clock.sample(1000, width_ns=200, plus_minus_ns=30)
    low, high = clock.seen.bounds_ns(1000, 1000)
    assert (low, high) == (EPOCH_NS + 1000 - 130, EPOCH_NS + 1000 + 130)


def test_away_from_its_only_sample_an_inexact_clock_may_have_run_off() -> None:
    clock = Sampled()
    clock.sample(0, width_ns=2)
    away_ns = 10**9
    low, high = clock.seen.bounds_ns(away_ns, away_ns)
    assert high - low == 2 * (1 + away_ns * RATE_PPM // 1_000_000)


def test_between_samples_it_runs_evenly() -> None:
    clock = Sampled(drift_ppm=100)
    clock.sample(0)
    clock.sample(10**10)
    exact = clock.wall_ns(5 * 10**9)
    low, high = clock.seen.bounds_ns(5 * 10**9, 5 * 10**9)
    assert low <= exact <= high
    assert high - low <= 2 * ROUNDING_NS


def test_around_a_jump_both_readings_are_possible() -> None:
    """The jump lies between two samples that are apart: nobody knows when it happened."""
    clock = Clock("b")
    clock.sample(ClockSample(1, 0, 0, "b", EPOCH_MS))
    clock.jump(Fault(2, 50, 60, "", "clock", target="b", jump_ms=1000, evidence={"n": 1}))
    clock.sample(ClockSample(3, 100, 100, "b", EPOCH_MS + 1000, 0, 100))
    assert clock.bounds_ns(55, 55) == (EPOCH_NS + 55, EPOCH_NS + 1000 * NS_PER_MS + 55)


def test_an_interval_across_a_jump_covers_both_sides() -> None:
    clock = Sampled()
    clock.sample(0)
    clock.jump(100, 1000)
    clock.sample(200)
    expected = (EPOCH_NS + 50, EPOCH_NS + 1000 * NS_PER_MS + 150)
    assert clock.seen.bounds_ns(50, 150) == expected


# -- ties


def test_ties_are_decided_by_the_order_of_events() -> None:
    """Samples 1 and 2, jump 3 at 100 ns, sample 4: an event of the same nanosecond is before or after it by its
    number.
    """
    clock = Sampled()
    clock.sample(0)
    clock.jump(100, 1000)
    before, after = EPOCH_NS + 100, EPOCH_NS + 1000 * NS_PER_MS + 100
    jump_seq = 3
    assert clock.seen.bounds_ns(100, 100, jump_seq - 1, jump_seq - 1) == (before, before)
    assert clock.seen.bounds_ns(100, 100, jump_seq + 1, jump_seq + 1) == (after, after)
    assert clock.seen.bounds_ns(100, 100) == (before, after)
    assert clock.seen.bounds_ns(50, 100, jump_seq - 1, jump_seq - 1) == (EPOCH_NS + 50, before)
    assert clock.seen.bounds_ns(100, 150, jump_seq + 1, jump_seq + 2) == (after, after + 50)


def test_two_jumps_at_one_instant() -> None:
    clock = Sampled()
    clock.jump(100, 1000)
    clock.jump(100, -3000)
    between = clock.seen.bounds_ns(100, 100, 3, 3)
    assert between == (EPOCH_NS + 1000 * NS_PER_MS + 100,) * 2
    assert clock.seen.bounds_ns(100, 100) == (EPOCH_NS - 2000 * NS_PER_MS + 100, EPOCH_NS + 1000 * NS_PER_MS + 100)


def test_a_jump_that_no_sample_followed_is_taken_at_its_word() -> None:
    """Exactly for an exact clock; as one of two possibilities for one that is known roughly."""
    clock = Sampled()
    clock.sample(0)
    jump = Fault(9, 100, 100, "", "clock", target="b", jump_ms=1000, evidence={"n": 1})
    clock.seen.jump(jump)
    assert clock.seen.bounds_ns(200, 200) == (EPOCH_NS + 1000 * NS_PER_MS + 200,) * 2
    assert clock.seen.bounds_ns(50, 50) == (EPOCH_NS + 50,) * 2
    rough = Sampled()
    rough.sample(1000, width_ns=2000)
    rough.seen.jump(Fault(9, 3000, 3000, "", "clock", target="b", jump_ms=-5, evidence={"n": 1}))
    low, high = rough.seen.bounds_ns(4000, 4000)
    assert low <= EPOCH_NS + 4000 - 5 * NS_PER_MS < EPOCH_NS + 4000 <= high


def test_a_sample_corrects_what_a_jump_claimed() -> None:
    clock = Sampled()
    clock.sample(0)
    clock.seen.jump(Fault(9, 100, 100, "", "clock", target="b", jump_ms=1000, evidence={"n": 1}))
    clock.ahead_ns = 999 * NS_PER_MS
    clock.sample(150)
    assert clock.seen.bounds_ns(200, 200) == (EPOCH_NS + 999 * NS_PER_MS + 200,) * 2


def test_it_says_how_far_it_jumped() -> None:
    clock = Sampled()
    clock.jump(100, 500)
    clock.jump(200, -300)
    assert clock.seen.jump_between(0, 99) == 0
    assert clock.seen.jump_between(0, 150) == 500
    assert clock.seen.jump_between(0, 250) == -300


# -- properties

JUMPS = st.lists(
    st.tuples(st.integers(1, 5_000_000_000), st.integers(-3_600_000, 3_600_000)), max_size=4, unique_by=lambda j: j[0]
)


@given(st.integers(-300_000, 300_000), st.sampled_from([0, 100, -100]), JUMPS, st.data())
def test_bounds_hold_whatever_the_clock_did(
    ahead_ms: int, drift_ppm: int, jumps: list[tuple[int, int]], data: st.DataObject
) -> None:
    """At any instant, the true reading lies within the bounds; without drift they are exact."""
    clock = Sampled(ahead_ms, drift_ppm)
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
        low, high = clock.seen.bounds_ns(true_ns, true_ns)
        assert low <= wall_ns <= high
        assert drift_ppm or low == high
    for (first_ns, first_wall), (last_ns, last_wall) in pairwise(truths):
        low, high = clock.seen.bounds_ns(first_ns, last_ns)
        assert low <= min(first_wall, last_wall)
        assert high >= max(first_wall, last_wall)


@given(st.sampled_from([0, 100, -100]), JUMPS, st.integers(0, 4_000_000_000), st.integers(-2_000, 8_000))
def test_the_earliest_time_is_never_too_late(
    drift_ppm: int, jumps: list[tuple[int, int]], from_ns: int, ahead_ms: int
) -> None:
    """Before ``earliest_ns`` no reading at or after ``from_ns`` reached the value."""
    clock = Sampled(0, drift_ppm)
    clock.sample(0)
    stretches: list[tuple[int, int]] = [(0, 0)]
    for true_ns, jump_ms in sorted(jumps):
        clock.jump(true_ns, jump_ms)
        stretches.append((true_ns, clock.ahead_ns))
    clock.sample(5_000_000_001)
    wanted_ns = EPOCH_NS + ahead_ms * NS_PER_MS
    found = clock.seen.earliest_ns(from_ns, wanted_ns)
    for index, (start_ns, ahead_ns) in enumerate(stretches):
        end_ns = stretches[index + 1][0] if index + 1 < len(stretches) else 5_000_000_001
        for true_ns in (max(start_ns, from_ns), (max(start_ns, from_ns) + end_ns) // 2, end_ns):
            if from_ns <= true_ns <= end_ns and (found is None or true_ns < found):
                assert EPOCH_NS + true_ns + ahead_ns + true_ns * drift_ppm // 1_000_000 < wanted_ns


@given(
    st.lists(st.tuples(st.integers(1, 4_000), st.integers(-3_000, 3_000)), max_size=3),
    st.integers(0, 4_000),
    st.integers(-2_000, 8_000),
)
def test_jumps_that_no_sample_followed_may_have_been_or_not(
    jumps: list[tuple[int, int]], from_ms: int, ahead_ms: int
) -> None:
    """What an agent could not see: neither is ``earliest_ns`` too late for any of them, nor a bound too narrow."""
    clock = Clock("b")
    clock.sample(ClockSample(1, 0, 0, "b", EPOCH_MS, plus_minus_ns=1))
    for seq, (at_ms, jump_ms) in enumerate(sorted(jumps), 2):
        clock.jump(Fault(seq, at_ms * NS_PER_MS, at_ms * NS_PER_MS, "", "clock", target="b", jump_ms=jump_ms))
    found = clock.earliest_ns(from_ms * NS_PER_MS, (EPOCH_MS + ahead_ms) * NS_PER_MS)
    for true_ms in range(from_ms, 5_000, 100):
        wall_ms = EPOCH_MS + true_ms + sum(jump_ms for at_ms, jump_ms in jumps if at_ms < true_ms)
        low_ns, high_ns = clock.bounds_ns(true_ms * NS_PER_MS, true_ms * NS_PER_MS)
        assert low_ns <= wall_ms * NS_PER_MS <= high_ns
        assert wall_ms < EPOCH_MS + ahead_ms or (found is not None and found <= true_ms * NS_PER_MS)
