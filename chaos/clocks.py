"""Clocks of hosts: libfaketime per process, one clock file per host, steps, drift, proof that a preload is there.

Decides: which library is preloaded, with which variables, and how a clock is changed while its process runs. Rules,
each learnt the hard way (feasibility-faketime.md sections 2.4 and 9):
* running offsets, written as plain seconds with six decimals, or one absolute time, at which the clock stands still;
  never a time that starts to run when a process reads it, and a rate only for a process whose monotonic clock is faked
  with it (`RatedClock`), which a JVM bears and CPython does not;
* the file exists before the process starts, is never deleted and never written in place, because a missing file is the
  real time and half a line is another time, and a line that does not parse ends the process;
* `FAKETIME` itself beats the file, so it is set for a rate only; else monotonic clocks stay real; the runner is never
  faked;
* a child under the preload must not fork without exec while it has threads.
Known exceptions: a slow drift (negative ppm) steps the wall clock back by one small step at a time. The cleaner knows
the processes that it can see: in a container that shares /dev/shm with another, run it in neither.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from brokerproof.chaos.preload import library_path
from brokerproof.chaos.rates import Rate

MAX_OFFSET_MS = 50 * 366 * 24 * 3600 * 1000
DRIFT_STEP_US = 1000
_SCRUBBED = re.compile(r"FAKETIME.*|DONT_FAKE_MONOTONIC|LD_PRELOAD|NO_FAKE_STAT")
_SHARED_MEMORY = Path("/dev/shm")  # noqa: S108  # where libfaketime itself puts its objects
_SHARED_NAMES = re.compile(r"(?:faketime_shm_|sem\.faketime_sem_)(\d+)")


class BadOffset(ValueError):
    """A clock offset that is not a whole number in range; writing it could end the process that reads it."""

    def __init__(self, value: object, unit: str, limit: int) -> None:
        super().__init__(f"clock offset {value!r} {unit} is not a whole number between -{limit} and {limit}")


@dataclass(frozen=True)
class ClockReading:
    """What a process said its wall clock shows, between two instants of the runner's monotonic and wall clocks."""

    wall_ms: int
    t0_ns: int
    t1_ns: int
    real0_ms: int
    real1_ms: int
    resolution_ms: int = 1

    def skew_bounds_ms(self) -> tuple[int, int]:
        """The least and the greatest skew that agree with the reading (its own truncation included)."""
        return self.wall_ms - self.real1_ms, self.wall_ms + self.resolution_ms - self.real0_ms

    def agrees_with(self, offset_ms: int, tolerance_ms: int = 50) -> bool:
        """Whether the process's clock is at this offset from the runner's, give or take."""
        least, greatest = self.skew_bounds_ms()
        return least - tolerance_ms <= offset_ms <= greatest + tolerance_ms


class ClockFile:
    """The clock of one host. Every process started with its `clock_environment` follows it within about 1 ms, and has
    its time zone (whole hours east of Greenwich).
    """

    def __init__(self, path: Path, offset_ms: int = 0, zone_hours: int = 0) -> None:
        self.path = path.absolute()
        self.zone_hours = zone_hours
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.offset_us = 0
        #: Its processes have the machine's time, whether they follow it or not.
        self.real = False
        self.set_offset_ms(offset_ms)

    def set_offset_ms(self, offset_ms: int) -> None:
        """Step the clock to this offset from real time (whole milliseconds; raises `BadOffset`)."""
        if type(offset_ms) is not int or abs(offset_ms) > MAX_OFFSET_MS:
            raise BadOffset(offset_ms, "ms", MAX_OFFSET_MS)
        self.set_offset_us(offset_ms * 1000)

    def set_offset_us(self, offset_us: int) -> None:
        """Step the clock to this offset from real time (whole microseconds; raises `BadOffset`)."""
        self._write(offset_line(offset_us))
        self.offset_us, self.real = offset_us, offset_us == 0

    def stand_at_us(self, wall_us: int) -> None:
        """Let the clock stand still (whole microseconds since the epoch); the next offset lets it go on."""
        self._write(standing_line(wall_us, self.zone_hours))
        self.real = False

    def environment(self) -> dict[str, str]:
        """The variables of a process on this clock. Raises `ToolMissing` or `ToolFailed`."""
        return {
            "LD_PRELOAD": str(library_path()),
            "FAKETIME_TIMESTAMP_FILE": str(self.path),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",  # literally 1: any other text turns the faking on
            "FAKETIME_FORCE_MONOTONIC_FIX": "0",  # literally 0: else every timed wait of a JVM returns at once
            "TZ": zone_name(self.zone_hours),
        }

    def _write(self, line: str) -> None:
        staging = self.path.with_name(f".{self.path.name}.{os.getpid()}.{threading.get_ident()}")
        staging.write_text(line, encoding="ascii")
        staging.replace(self.path)


class RatedClock:
    """The clock of a JVM that lives faster, its monotonic clock with it. It cannot be changed while a process runs; a
    process that is started later is put where the anchor says.
    """

    def __init__(self, rate: Rate, offset_ms: int = 0, zone_hours: int = 0) -> None:
        self.rate = rate
        self.zone_hours = zone_hours
        self.offset_us = offset_ms * 1000
        offset_line(self.offset_us)

    def environment(self) -> dict[str, str]:
        """The variables of a process that starts now. Raises `ToolMissing` or `ToolFailed`."""
        ahead = offset_line(self.offset_us + self.rate.ahead_ns() // 1000).strip()
        return {
            "LD_PRELOAD": str(library_path()),
            "FAKETIME": f"{ahead} x{self.rate.times}",
            "TZ": zone_name(self.zone_hours),
        }


class DriftingClock:
    """A clock that runs fast or slow: a staircase of small steps through the clock file, because rates hang a JVM.

    The caller ticks it, about every `step_us / |drift|`; between ticks the offset stands still.
    """

    def __init__(
        self, clock: ClockFile, offset_ms: int, drift_ppm: int, t0_ns: int, step_us: int = DRIFT_STEP_US
    ) -> None:
        """`t0_ns`: the instant on the runner's monotonic clock at which the offset is exactly `offset_ms`."""
        self.clock = clock
        self.base_us = offset_ms * 1000
        self.drift_ppm = drift_ppm
        self.t0_ns = t0_ns
        self.step_us = step_us

    def tick(self, now_ns: int) -> bool:
        """Bring the clock file up to now; whether it was changed."""
        offset_us = staircase_offset_us(self.base_us, self.drift_ppm, now_ns - self.t0_ns, self.step_us)
        if offset_us == self.clock.offset_us:
            return False
        self.clock.set_offset_us(offset_us)
        return True

    def next_tick_ns(self) -> int | None:
        """When the next step is due, on the runner's monotonic clock; None for a clock that does not drift."""
        if self.drift_ppm == 0:
            return None
        steps = abs(self.clock.offset_us - self.base_us) // self.step_us + 1
        return self.t0_ns + -(-steps * self.step_us * 1_000_000_000 // abs(self.drift_ppm))


def staircase_offset_us(base_us: int, drift_ppm: int, elapsed_ns: int, step_us: int = DRIFT_STEP_US) -> int:
    """Offset after `elapsed_ns` of true time: whole steps towards the drift, never ahead of it."""
    gained_us = abs(drift_ppm) * max(elapsed_ns, 0) // 1_000_000_000
    whole_us = gained_us - gained_us % step_us
    return base_us + whole_us if drift_ppm >= 0 else base_us - whole_us


def offset_line(offset_us: int) -> str:
    """The line of a clock file: sign, seconds, six decimals; `BadOffset` rather than a line that ends a process."""
    limit = MAX_OFFSET_MS * 1000
    if type(offset_us) is not int or abs(offset_us) > limit:
        raise BadOffset(offset_us, "us", limit)
    seconds, micros = divmod(abs(offset_us), 1_000_000)
    return f"{'-' if offset_us < 0 else '+'}{seconds}.{micros:06d}\n"


def standing_line(wall_us: int, zone_hours: int = 0) -> str:
    """The line of a clock that stands still, in the local time of its processes; `BadOffset` outside of what a clock
    can show.
    """
    seconds, micros = divmod(wall_us, 1_000_000)
    if type(wall_us) is not int or not 0 <= wall_us <= 2 * MAX_OFFSET_MS * 1000:
        raise BadOffset(wall_us, "us", 2 * MAX_OFFSET_MS * 1000)
    local = time.gmtime(seconds + zone_hours * 3600)
    return f"{time.strftime('%Y-%m-%d %H:%M:%S', local)}.{micros:06d}\n"


def zone_name(zone_hours: int) -> str:
    """A time zone by its hours east of Greenwich, as the C library and the JVM both know it (the sign is POSIX's)."""
    return f"Etc/GMT{-zone_hours:+d}" if zone_hours else "UTC"


def scrubbed(env: Mapping[str, str]) -> dict[str, str]:
    """A copy of an environment without anything that could fake a clock; what every child starts from."""
    return {name: value for name, value in env.items() if not _SCRUBBED.fullmatch(name)}


def clock_environment(clock: ClockFile | RatedClock, base_env: Mapping[str, str]) -> dict[str, str]:
    """The environment of a process on this clock, Python or JVM (feasibility-faketime.md section 9.1).

    Raises `ToolMissing` or `ToolFailed` where clocks cannot be skewed.
    """
    return {**scrubbed(base_env), **clock.environment()}


def preload_active(pid: int) -> bool:
    """Whether the running process has the library in its memory; a missing preload is otherwise silent."""
    try:
        return "libfaketime" in Path(f"/proc/{pid}/maps").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False


def reading(wall_ms: int, t0_ns: int, real0_ms: int, resolution_ms: int = 1) -> ClockReading:
    """A reading that was asked for at `t0_ns` / `real0_ms` and has just been answered."""
    return ClockReading(wall_ms, t0_ns, time.monotonic_ns(), real0_ms, time.time_ns() // 1_000_000, resolution_ms)


def clean_shared_memory() -> list[str]:
    """Remove libfaketime's objects of dead processes that nobody maps; gives the names removed.

    The memory goes before the semaphore, because the memory alone would kill the next process with that number. Only
    our own user's objects are touched.
    """
    found = [entry.name for entry in os.scandir(_SHARED_MEMORY) if _SHARED_NAMES.fullmatch(entry.name)]
    removed = []
    # "f" sorts before "s", so the memory of a process comes before its semaphore.
    for name in sorted(found):
        pid = int(_SHARED_NAMES.fullmatch(name)[1])  # type: ignore[index]  # matched two lines above
        path = _SHARED_MEMORY / name
        try:
            mine = path.stat().st_uid == os.geteuid()
        except FileNotFoundError:
            continue  # another doctor was quicker
        if Path(f"/proc/{pid}").exists() or not mine or _mapped(name):
            continue
        path.unlink(missing_ok=True)
        removed.append(name)
    return removed


def _mapped(name: str) -> bool:
    """Whether any process that we can see maps the object (a child that inherited it may outlive its maker)."""
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                maps = Path(f"/proc/{entry.name}/maps").read_text(encoding="utf-8", errors="replace")
            except OSError:
                continue
            if f"/{name}" in maps:
                return True
    return False
