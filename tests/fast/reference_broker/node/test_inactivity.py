"""The inactivity monitor against its specification:

ActiveMQ's timing table, and the window that the seed page promises.

Method: a monitor alone, driven through a script of (ms, what arrived); the instants of its actions are compared with a
formula that is not the code's. Lateness is nought here, so every bound is exact.
"""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from brokerproof.reference_broker.core.config import BrokerConfig
from brokerproof.reference_broker.core.config import Monitor as Settings
from brokerproof.reference_broker.core.instant import NS_PER_MS
from brokerproof.reference_broker.inactivity import (
    FAIL,
    GENERATIONS,
    KEEP_ALIVE,
    ClassicMonitor,
    DocumentedMonitor,
    Monitor,
    MonitorAction,
    monitor_for,
    negotiate,
    stomp_periods,
    write_period_ms,
)

ADDRESS = "tcp://127.0.0.1:43888"
FRAME, BYTES, SENT = "frame", "bytes", "sent"
R, D, W = 2000, 1000, 666


class Run:
    """What a monitor did, in ms since the handshake."""

    def __init__(self) -> None:
        self.beats: list[int] = []
        self.closed: tuple[int, MonitorAction] | None = None
        self.debug: list[str] = []

    @property
    def closed_ms(self) -> int | None:
        return None if self.closed is None else self.closed[0]


def run(monitor: Monitor, script: list[tuple[int, str]], until_ms: int) -> Run:
    """Play the script. A check that is due at the same instant as an arrival comes after it."""
    result = Run()
    events = sorted(script)
    while True:
        due_ns = monitor.next_due_ns()
        if events and (due_ns is None or events[0][0] * NS_PER_MS <= due_ns):
            at, what = events.pop(0)
            if what == SENT:
                monitor.frame_sent(at * NS_PER_MS)
                continue
            monitor.bytes_received(at * NS_PER_MS)
            if what == FRAME:
                monitor.frame_received(at * NS_PER_MS)
        elif due_ns is None or due_ns > until_ms * NS_PER_MS:
            return result
        else:
            action = monitor.tick(due_ns)
            result.debug += action.debug
            if action.kind == KEEP_ALIVE:
                result.beats.append(due_ns // NS_PER_MS)
            elif action.kind == FAIL:
                result.closed = (due_ns // NS_PER_MS, action)


def started(
    kind: type[Monitor], read_ms: int = R, write_ms: int = W, delay_ms: int = D, *, use_keep_alive: bool = True
) -> Monitor:
    monitor = kind(ADDRESS, 0, connect_timeout_ms=30_000, use_keep_alive=use_keep_alive)
    monitor.bytes_received(0)
    monitor.start(0, read_ms, write_ms, delay_ms)
    return monitor


def keep_alive_every(period_ms: int, last_ms: int) -> list[tuple[int, str]]:
    return [(at, FRAME) for at in range(0, last_ms + 1, period_ms)]


# -- classic: the table of inactivity.md section 4

ROW_A = [([500, 950], 5000), ([2000, 2950], 7000), ([3500, 4500], 9000)]


@pytest.mark.parametrize(("last", "closes"), [(x, at) for xs, at in ROW_A for x in xs])
def test_row_a_two_quiet_intervals_after_the_last_frame(last: int, closes: int) -> None:
    # Frames often enough before, one at exactly ``last``: the spec's measured examples.
    script = [*keep_alive_every(600, last), (last, FRAME)]
    assert run(started(ClassicMonitor), script, 20_000).closed_ms == closes


def test_row_b_in_mid_frame_one_quiet_interval_is_enough() -> None:
    # Quiet in (1000, 3000], then part of a frame at 3500.
    assert run(started(ClassicMonitor), [(0, FRAME), (3500, BYTES)], 20_000).closed_ms == 7000


@pytest.mark.parametrize(("delay", "closes"), [(1000, 5000), (10_000, 14_000), (0, 4000)])
def test_rows_c_and_d_silent_after_the_handshake(delay: int, closes: int) -> None:
    assert run(started(ClassicMonitor, delay_ms=delay), [], 30_000).closed_ms == closes


def test_the_default_values_of_row_c() -> None:
    assert run(started(ClassicMonitor, 30_000, 10_000, 10_000), [], 100_000).closed_ms == 70_000


@pytest.mark.parametrize("generation", list(GENERATIONS))
def test_row_e_no_handshake(generation: str) -> None:
    monitor = GENERATIONS[generation](ADDRESS, 0, connect_timeout_ms=3000)
    result = run(monitor, [(1000, BYTES), (2000, FRAME)], 10_000)
    assert result.closed is not None
    assert result.closed[0] == 3000
    text = f"Channel was inactive (no connection attempt made) for too (>3000) long: {ADDRESS}"
    assert result.closed[1].reason == text
    assert result.closed[1].idle_ns == 1000 * NS_PER_MS


@pytest.mark.parametrize("generation", list(GENERATIONS))
def test_the_connect_check_ends_with_the_handshake_and_can_be_off(generation: str) -> None:
    assert GENERATIONS[generation](ADDRESS, 0, connect_timeout_ms=0).next_due_ns() is None
    monitor = GENERATIONS[generation](ADDRESS, 0, connect_timeout_ms=3000)
    monitor.start(2999 * NS_PER_MS, 0, 0, 0)
    assert monitor.next_due_ns() is None


@given(last=st.integers(0, 10_000))
@example(last=1000)
@example(last=1001)
@example(last=3000)
def test_classic_detection_is_2r_to_3r(last: int) -> None:
    """INA-04: the last byte at x in (c[k-1], c[k]] closes at c[k+2]."""
    script = [*keep_alive_every(R // 3, last), (last, FRAME)]
    check = max(0, -(-(last - D) // R))
    closed_ms = run(started(ClassicMonitor), script, 40_000).closed_ms
    assert closed_ms == D + (check + 2) * R
    if last >= D:
        assert 2 * R <= closed_ms - last < 3 * R


@given(st.lists(st.integers(1, 2 * R - 100), min_size=1, max_size=30))
def test_classic_never_closes_early(gaps: list[int]) -> None:
    """INA-05: frames with gaps of up to 1.95 R."""
    times = [sum(gaps[: index + 1]) for index in range(len(gaps))]
    assert run(started(ClassicMonitor), [(at, FRAME) for at in times], times[-1]).closed_ms is None


@given(st.lists(st.integers(1, R - 1), min_size=1, max_size=30))
def test_bytes_keep_a_link_alive_without_any_frame(gaps: list[int]) -> None:
    """INA-14: a frame that trickles in, a byte at least every R."""
    times = [sum(gaps[: index + 1]) for index in range(len(gaps))]
    for kind in GENERATIONS.values():
        assert run(started(kind), [(at, BYTES) for at in times], times[-1]).closed_ms is None


def test_classic_keep_alives() -> None:
    """INA-07: the first at D + W, then every W; five or six until a silent peer is closed at D + 2R."""
    assert run(started(ClassicMonitor), [], 20_000).beats == [1666, 2332, 2998, 3664, 4330, 4996]
    # INA-08: a frame just after a check suppresses the next one, so that the gap reaches 2 W.
    assert run(started(ClassicMonitor, read_ms=0), [(1700, SENT)], 3000).beats == [1666, 2998]


# -- documented: the seed's promise


@given(st.lists(st.integers(1, R - 1), max_size=20), st.sampled_from([0, 1, 500, 1000, 7000]), st.booleans())
def test_documented_closes_r_after_the_last_byte_but_not_before_d_and_r(
    gaps: list[int], delay: int, frames: bool
) -> None:
    times = [sum(gaps[: index + 1]) for index in range(len(gaps))]
    script = [(at, FRAME if frames else BYTES) for at in times]
    last = times[-1] if times else 0
    result = run(started(DocumentedMonitor, delay_ms=delay), script, 100_000)
    assert result.closed is not None
    assert result.closed[0] == max(last, delay) + R
    assert result.closed[1].idle_ns == (result.closed[0] - last) * NS_PER_MS


def test_documented_a_byte_at_the_last_moment_saves_the_link() -> None:
    assert run(started(DocumentedMonitor), [(D + R, BYTES)], D + R + R - 1).closed_ms is None
    assert run(started(DocumentedMonitor), [(D + R + 1, BYTES)], 20_000).closed_ms == D + R


@given(st.lists(st.integers(0, 20_000), max_size=30))
def test_documented_no_gap_between_frames_exceeds_w(sent: list[int]) -> None:
    """INA-09, and no keep-alive where there is traffic (INA-08)."""
    beats = run(started(DocumentedMonitor, read_ms=0), [(at, SENT) for at in sent], 20_000).beats
    written = sorted([at for at in sent if at >= D] + beats)
    assert all(later - earlier <= W for earlier, later in zip([D, *written], written, strict=False))
    assert all(min((beat - at for at in [*sent, D] if at <= beat), default=W) >= W for beat in beats)
    assert not written or 20_000 - written[-1] <= W


@given(st.lists(st.integers(0, 3000), max_size=8))
def test_keep_alives_from_the_hello_on_do_not_wait_for_the_initial_delay(sent: list[int]) -> None:
    monitor = DocumentedMonitor(ADDRESS, 0)
    monitor.start(0, 0, W, D)
    monitor.beat_from(0)
    beats = run(monitor, [(at, SENT) for at in sent], until_ms=4000).beats
    frames = sorted([0, *sent, *beats, 4000])
    assert max(after - before for before, after in pairwise(frames)) <= W
    idle = DocumentedMonitor(ADDRESS, 0)
    idle.start(0, R, 0, D)
    idle.beat_from(0)
    assert idle.next_due_ns() == (D + R) * NS_PER_MS, "nothing was promised"


def test_documented_keep_alives_on_an_idle_link() -> None:
    assert run(started(DocumentedMonitor, read_ms=0), [], 3700).beats == [1666, 2332, 2998, 3664]


# -- both


@pytest.mark.parametrize("generation", list(GENERATIONS))
def test_keep_alives_can_be_off_while_detection_goes_on(generation: str) -> None:
    """INA-12."""
    kind = GENERATIONS[generation]
    result = run(started(kind, use_keep_alive=False), [], 20_000)
    assert result.beats == []
    assert result.closed_ms == run(started(kind), [], 20_000).closed_ms


@pytest.mark.parametrize("generation", list(GENERATIONS))
def test_periods_of_0_switch_each_direction_off(generation: str) -> None:
    kind = GENERATIONS[generation]
    assert started(kind, read_ms=0, write_ms=0).next_due_ns() is None
    assert run(started(kind, write_ms=0), [], 20_000).beats == []
    assert run(started(kind, read_ms=0), [], 20_000).closed is None


@pytest.mark.parametrize("generation", list(GENERATIONS))
def test_it_fails_once_with_the_words_of_the_seed(generation: str) -> None:
    monitor = started(GENERATIONS[generation], 30_000, 0, 10_000)
    result = run(monitor, [], 1_000_000)
    assert result.closed is not None
    assert result.closed[1].reason == f"Channel was inactive for too (>30000) long: {ADDRESS}"
    assert monitor.next_due_ns() is None
    action = result.closed[1]
    assert [*action.debug, f"{action.level} {action.failure}"] == LINES[generation]


#: The seed page's lines, and those of ActiveMQ 5.17, for an address and a period of 30 s.
LINES = {
    "documented": [
        "30000 ms elapsed since last read check.",
        f"No message received since last read check for {ADDRESS}! Throwing InactivityIOException.",
        (
            f"DEBUG Transport Connection to: {ADDRESS} failed: org.apache.activemq.transport.InactivityIOException: "
            f"Channel was inactive for too (>30000) long: {ADDRESS}"
        ),
    ],
    "classic": [
        "30000ms elapsed since last read check.",
        f"No message received since last read check for {ADDRESS}. Throwing InactivityIOException.",
        f"WARN Transport Connection to: {ADDRESS} failed: Channel was inactive for too (>30000) long: {ADDRESS}",
    ],
}


@pytest.mark.parametrize("generation", list(GENERATIONS))
def test_without_a_monitor_nothing_is_ever_due(generation: str) -> None:
    """useInactivityMonitor=false: no read check, no keep-alive, and no connect check."""
    config = BrokerConfig(generation={"monitor": generation}, monitor=Settings(use_monitor=False))
    monitor = monitor_for(config, ADDRESS, 0)
    assert monitor.next_due_ns() is None
    monitor.start(0, R, W, D)
    result = run(monitor, [(100, FRAME)], 1_000_000)
    assert (result.beats, result.closed, result.debug) == ([], None, [])


@pytest.mark.parametrize("generation", list(GENERATIONS))
@pytest.mark.parametrize("read", [1, 2, 3, 4, 10, 100, 2**31, 2**62, 2**63 - 1])
def test_extreme_periods(generation: str, read: int) -> None:
    """INA-34: tiny periods close, huge ones neither close nor overflow."""
    monitor = started(GENERATIONS[generation], read, write_period_ms(read), 100)
    result = run(monitor, [], 1000)
    if read > 100:
        assert result.closed is None
    else:
        assert result.closed_ms == 100 + read * (1 if generation == "documented" else 2)


def test_write_periods() -> None:
    assert [write_period_ms(read) for read in (1, 2, 3, 4, 10, 100, 30_000)] == [1, 2, 3, 1, 3, 33, 10_000]


@pytest.mark.parametrize("generation", list(GENERATIONS))
def test_a_late_tick_of_a_stopped_process_does_not_drop_a_peer_whose_bytes_were_waiting(generation: str) -> None:
    """INA-33: the backlog is read first, then the overdue checks run."""
    monitor = started(GENERATIONS[generation])
    late_ns = 60_000 * NS_PER_MS
    monitor.bytes_received(late_ns)
    monitor.frame_received(late_ns)
    while (due_ns := monitor.next_due_ns()) is not None and due_ns <= late_ns:
        assert monitor.tick(late_ns).kind != FAIL


# -- agreeing on periods


@pytest.mark.parametrize(
    ("mine", "theirs", "agreed"),
    [
        ((30_000, 10_000), (1000, 500), (1000, 333, 500)),
        ((1000, 500), (30_000, 10_000), (1000, 333, 500)),
        ((30_000, 500), (1000, 10_000), (1000, 333, 500)),
        ((30_000, 10_000), (0, 500), (0, 0, 0)),
        ((0, 10_000), (2000, 500), (0, 0, 0)),
        ((30_000, 10_000), (-1, 500), (0, 0, 0)),
        ((30_000, 10_000), (None, 500), (0, 0, 0)),
        ((30_000, 10_000), (2000, None), (2000, 666, 0)),
        ((30_000, 10_000), (None, None), (0, 0, 0)),
    ],
)
def test_openwire_takes_the_shorter_offer_of_each(
    mine: tuple[int, int], theirs: tuple[int | None, int | None], agreed: tuple[int, int, int]
) -> None:
    """INA-01, INA-02."""
    periods = negotiate(*mine, *theirs)
    assert (periods.read_ms, periods.write_ms, periods.initial_delay_ms) == agreed


def test_a_negative_initial_delay_is_refused() -> None:
    with pytest.raises(ValueError, match="-5 ms; offer 0 or more"):
        negotiate(30_000, 10_000, 2000, -5)


@pytest.mark.parametrize(
    ("generation", "numbers", "agreed"),
    [
        ("classic", (1000, 500), (1000, 500, 500)),
        ("classic", (1000, 0), (1000, 0, 0)),
        ("documented", (1000, 500), (2000, 250, 500)),
        ("documented", (0, 1), (0, 1, 0)),
        ("documented", (0, 0), (0, 0, 0)),
    ],
)
def test_stomp_periods(generation: str, numbers: tuple[int, int], agreed: tuple[int, int, int]) -> None:
    periods = stomp_periods(generation, *numbers)
    assert (periods.read_ms, periods.write_ms, periods.initial_delay_ms) == agreed


def test_stomp_newlines_are_bytes_and_no_frames_in_classic() -> None:
    """inactivity.md 8.1: after a quiet interval, a newline buys one interval only; closed 1.5 s after it."""
    assert run(started(ClassicMonitor, 1000, 0, 0), [(1500, BYTES)], 20_000).closed_ms == 3000


def test_the_configuration_chooses_the_monitor() -> None:
    for generation, kind in GENERATIONS.items():
        settings = Settings(use_keep_alive=False, connect_timeout_ms=77)
        config = BrokerConfig(generation={"monitor": generation}, monitor=settings)
        monitor = monitor_for(config, ADDRESS, 0)
        assert type(monitor) is kind
        assert monitor.next_due_ns() == 77 * NS_PER_MS
        monitor.start(0, 0, 10, 0)
        assert monitor.next_due_ns() is None


# -- the socket's own timeouts, and the grace of heart-beats


def limited(
    generation: str, read_timeout_ms: int = 0, write_timeout_ms: int = 0, *, use_monitor: bool = True
) -> Monitor:
    settings = Settings(read_timeout_ms=read_timeout_ms, write_timeout_ms=write_timeout_ms, use_monitor=use_monitor)
    monitor = monitor_for(BrokerConfig(generation={"monitor": generation}, monitor=settings), ADDRESS, 0)
    monitor.start(0, R, W, D)
    return monitor


@pytest.mark.parametrize("generation", list(GENERATIONS))
def test_a_read_timeout_changes_nothing(generation: str) -> None:
    """INA-35: ActiveMQ up to 6.3.1 never closes then."""
    plain = run(started(GENERATIONS[generation]), [], 20_000)
    assert run(limited(generation, read_timeout_ms=R // 4), [], 20_000).closed_ms == plain.closed_ms is not None


@pytest.mark.parametrize("use_monitor", [True, False])
@pytest.mark.parametrize("generation", list(GENERATIONS))
def test_a_peer_that_takes_nothing_is_closed_after_the_write_timeout(generation: str, use_monitor: bool) -> None:
    monitor = limited(generation, write_timeout_ms=700, use_monitor=use_monitor)
    monitor.write_blocked(100 * NS_PER_MS)
    found = run(monitor, [], 20_000).closed
    assert found is not None
    assert found[0] == 800
    assert found[1].reason == f"Forced write timeout: {ADDRESS} took nothing for too (>700) long"


def test_a_peer_that_takes_something_begins_anew() -> None:
    monitor = limited("documented", write_timeout_ms=700, use_monitor=False)
    monitor.write_blocked(100 * NS_PER_MS)
    monitor.write_resumed()
    monitor.write_blocked(500 * NS_PER_MS)
    assert run(monitor, [], 20_000).closed_ms == 1200
    monitor = limited("documented", write_timeout_ms=700, use_monitor=False)
    monitor.write_blocked(100 * NS_PER_MS)
    monitor.write_resumed()
    assert run(monitor, [], 20_000).closed_ms is None
    assert monitor.next_due_ns() is None


def test_without_a_write_timeout_a_blocked_write_is_no_reason() -> None:
    monitor = limited("documented", use_monitor=False)
    monitor.write_blocked(0)
    assert monitor.next_due_ns() is None


@pytest.mark.parametrize(
    ("generation", "grace", "read_ms"),
    [("classic", 1.5, 1500), ("classic", 0.5, 1000), ("documented", 1.5, 1500), ("documented", 1.0, 2000)],
)
def test_the_grace_of_heart_beats(generation: str, grace: float, read_ms: int) -> None:
    assert stomp_periods(generation, 1000, 500, grace).read_ms == read_ms
