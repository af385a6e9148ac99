"""chaos/clocks.py without any faked process: lines, files, environments, staircases, leftovers."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokerproof.chaos import clocks
from brokerproof.chaos.clocks import (
    BadOffset,
    ClockFile,
    ClockReading,
    DriftingClock,
    offset_line,
    staircase_offset_us,
    standing_line,
)

LIMIT_US = clocks.MAX_OFFSET_MS * 1000


@given(st.integers(-LIMIT_US, LIMIT_US))
def test_a_line_says_the_offset_exactly_and_always_with_a_sign(offset_us: int) -> None:
    line = offset_line(offset_us)
    whole, _, micros = line.strip().partition(".")
    assert line[0] in "+-"
    assert line.endswith("\n")
    assert len(micros) == 6
    value = abs(int(whole)) * 1_000_000 + int(micros)
    assert (-value if line[0] == "-" else value) == offset_us


def test_lines_as_libfaketime_wants_them() -> None:
    assert offset_line(0) == "+0.000000\n"
    assert offset_line(-1) == "-0.000001\n"
    assert offset_line(300_250_000) == "+300.250000\n"


@pytest.mark.parametrize("value", [1.5, "300", True, None, clocks.MAX_OFFSET_MS + 1, -clocks.MAX_OFFSET_MS - 1])
def test_a_bad_offset_is_refused_and_the_file_keeps_its_old_line(tmp_path: Path, value: object) -> None:
    clock = ClockFile(tmp_path / "clock", 1000)
    with pytest.raises(BadOffset, match=r"is not a whole number between") as caught:
        clock.set_offset_ms(value)  # type: ignore[arg-type]
    assert repr(value) in str(caught.value)
    assert clock.path.read_text() == "+1.000000\n"
    assert clock.offset_us == 1_000_000


def test_a_change_replaces_the_file_so_that_an_open_reader_never_sees_half_a_line(tmp_path: Path) -> None:
    clock = ClockFile(tmp_path / "clock", 120_000)
    with clock.path.open() as reader:
        clock.set_offset_ms(-5)
        assert reader.read() == "+120.000000\n"
    assert clock.path.read_text() == "-0.005000\n"
    assert list(tmp_path.iterdir()) == [clock.path]


def test_the_environment_is_that_of_section_9_1_and_nothing_inherited_fakes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clocks, "library_path", lambda: Path("/lib/f.so"))
    inherited = {
        "PATH": "/bin",
        "FAKETIME": "+5",
        "FAKETIME_SHARED": "a b",
        "FAKETIME_XRESET": "1",
        "DONT_FAKE_MONOTONIC": "1",
        "LD_PRELOAD": "other.so",
        "TZ": "Asia/Tokyo",
    }
    clock = ClockFile(tmp_path / "clock")
    assert clocks.clock_environment(clock, inherited) == {
        "PATH": "/bin",
        "LD_PRELOAD": "/lib/f.so",
        "FAKETIME_TIMESTAMP_FILE": str(tmp_path / "clock"),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "FAKETIME_FORCE_MONOTONIC_FIX": "0",
        "TZ": "UTC",
    }
    assert clocks.scrubbed(inherited) == {"PATH": "/bin", "TZ": "Asia/Tokyo"}


def test_this_process_is_not_faked_and_a_dead_one_is_not_either() -> None:
    assert not clocks.preload_active(os.getpid())
    assert not clocks.preload_active(_dead_pid())


@given(
    base_us=st.integers(-(10**12), 10**12),
    drift_ppm=st.integers(-200_000, 200_000),
    elapsed_ns=st.integers(0, 3600 * 10**9),
    step_us=st.integers(1, 50_000),
)
def test_a_staircase_is_at_most_one_step_behind_the_drift_and_never_ahead(
    base_us: int, drift_ppm: int, elapsed_ns: int, step_us: int
) -> None:
    moved = staircase_offset_us(base_us, drift_ppm, elapsed_ns, step_us) - base_us
    assert moved % step_us == 0
    assert moved * drift_ppm >= 0
    exact_times_1e9 = abs(drift_ppm) * elapsed_ns
    assert 0 <= exact_times_1e9 - abs(moved) * 10**9 < (step_us + 1) * 10**9


@pytest.mark.parametrize("drift_ppm", [50_000, -50_000, 333])
def test_a_drifting_clock_steps_exactly_when_it_says(tmp_path: Path, drift_ppm: int) -> None:
    clock = ClockFile(tmp_path / "clock")
    drifting = DriftingClock(clock, offset_ms=-7000, drift_ppm=drift_ppm, t0_ns=10**9)
    assert drifting.tick(10**9)
    for _ in range(20):
        due_ns = drifting.next_tick_ns()
        assert due_ns is not None
        before_us = clock.offset_us
        assert not drifting.tick(due_ns - 1)
        assert drifting.tick(due_ns)
        assert clock.offset_us - before_us == (1000 if drift_ppm > 0 else -1000)
    assert clock.path.read_text() == offset_line(-7_000_000 + (20_000 if drift_ppm > 0 else -20_000))


def test_a_clock_without_drift_has_no_next_step(tmp_path: Path) -> None:
    drifting = DriftingClock(ClockFile(tmp_path / "clock"), 0, 0, 0)
    assert drifting.next_tick_ns() is None
    assert not drifting.tick(10**15)


def test_a_reading_bounds_the_skew_by_the_time_it_took() -> None:
    seen = ClockReading(wall_ms=1_300_010, t0_ns=0, t1_ns=20_000_000, real0_ms=1_000_000, real1_ms=1_000_020)
    assert seen.skew_bounds_ms() == (299_990, 300_011)
    assert seen.agrees_with(300_000, tolerance_ms=0)
    assert seen.agrees_with(300_061)
    assert not seen.agrees_with(300_062)
    assert not seen.agrees_with(299_939)


def test_a_fresh_reading_of_our_own_clock_has_no_skew() -> None:
    t0_ns, real0_ms = time.monotonic_ns(), time.time_ns() // 1_000_000
    assert clocks.reading(time.time_ns() // 1_000_000, t0_ns, real0_ms).agrees_with(0, tolerance_ms=0)


def test_objects_of_dead_processes_are_removed_memory_first_and_those_of_the_living_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clocks, "_SHARED_MEMORY", tmp_path)
    dead, alive = _dead_pid(), os.getpid()
    for pid in (dead, alive):
        (tmp_path / f"faketime_shm_{pid}").touch()
        (tmp_path / f"sem.faketime_sem_{pid}").touch()
    (tmp_path / f"faketime_shm_{dead}x").touch()
    assert clocks.clean_shared_memory() == [f"faketime_shm_{dead}", f"sem.faketime_sem_{dead}"]
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {f"faketime_shm_{alive}", f"sem.faketime_sem_{alive}", f"faketime_shm_{dead}x"}


def test_what_another_doctor_has_removed_meanwhile_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dead = _dead_pid()
    semaphore = tmp_path / f"sem.faketime_sem_{dead}"
    (tmp_path / f"faketime_shm_{dead}").touch()
    semaphore.touch()

    def asked(_: str) -> bool:
        semaphore.unlink()
        return False

    monkeypatch.setattr(clocks, "_SHARED_MEMORY", tmp_path)
    monkeypatch.setattr(clocks, "_mapped", asked)
    assert clocks.clean_shared_memory() == [f"faketime_shm_{dead}"]


def _dead_pid() -> int:
    with subprocess.Popen(["true"]) as child:
        pass
    return child.pid


def test_a_clock_that_stands_still_and_goes_on(tmp_path: Path) -> None:
    clock = ClockFile(tmp_path / "clock", 1000)
    clock.stand_at_us(1_795_219_200_000_123)
    assert clock.path.read_text() == "2026-11-21 00:00:00.000123\n" == standing_line(1_795_219_200_000_123)
    assert clock.offset_us == 1_000_000
    clock.set_offset_ms(1000)
    assert clock.path.read_text() == "+1.000000\n"
    east = ClockFile(tmp_path / "east", zone_hours=9)
    east.stand_at_us(1_795_219_200_000_123)
    assert east.path.read_text() == "2026-11-21 09:00:00.000123\n"
    for value in (-1, 1.5, 1 << 62):
        with pytest.raises(BadOffset):
            standing_line(value)  # type: ignore[arg-type]
