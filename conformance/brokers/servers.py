"""The broker processes of an adapter that runs share, one after the other or at once.

Rules
* A process serves runs with the same settings. Its clock may only stay or go forward between runs: timers stand still
  for the length of a step back. A run that stepped it back, or that failed, spoils it.
* Several runs use it at once where the broker keeps no dead letters, or where these are collected for all
  (``worlds/live/collector.py``). A run that owns its broker shares with nobody; at a time as many own one as programs
  of the corpus run side by side (``lanes``).
* What runs leave behind (queues, and what is told of them) adds up: after ``RUNS_MAX`` runs a process gets no more.
* Few processes are kept: the one that was used longest ago goes. As many are started at once as there are processors:
  a start computes, and more at once would all be late.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from brokerproof.chaos.clocks import ClockFile, RatedClock
from brokerproof.chaos.preload import library_path
from brokerproof.chaos.processes import Supervisor
from brokerproof.chaos.rates import REAL, Rate
from brokerproof.chaos.tools import ToolFailed, ToolMissing

if TYPE_CHECKING:
    from brokerproof.conformance.brokers.launching import Launcher
    from brokerproof.conformance.experiment.configuration import ClockSpec

#: Programs of the corpus at once on a running broker.
RUNNING = 6
#: Random programs at once: they wait most of their time. Where each host is a JVM, which computes when it starts, more
#: would keep a broker's answers waiting in front of the library. Where all are at one broker.
DRAWN, PULLING, CROWD = 12, 3, 24
#: Idle processes that are kept.
IDLE_MAX = 16
#: RabbitMQ, of 512 MB, blocked its publishers after 750 runs.
RUNS_MAX = 300


def side_by_side(lanes: int, *, alone: bool, pulls: bool, crowds: bool) -> tuple[int, int]:
    """How many programs of the corpus, and how many random ones, run at once. ``lanes``: as the profile says;
    ``alone``: all wait for the only broker; ``pulls``: over JMS; ``crowds``: dead letters are collected for all.
    """
    drawn = DRAWN
    if alone or pulls:
        lanes = drawn = 1 if alone else min(lanes, PULLING)
    return lanes, CROWD if crowds else drawn


class Server:
    """One process. ``clock`` None: it cannot be skewed."""

    def __init__(self, key: str, launcher: Launcher, clock: ClockFile | RatedClock | None) -> None:
        self.key = key
        self.launcher = launcher
        self.clock = clock
        self.users = self.runs = 0
        self.alone = False
        #: Whoever uses it counts among the owners.
        self.owned = False
        self.spoilt = False

    @property
    def clock_file(self) -> ClockFile | None:
        """The clock, if it can be stepped."""
        return self.clock if isinstance(self.clock, ClockFile) else None

    @property
    def tells_real_time(self) -> bool:
        """Whether its process has the machine's clock."""
        return self.clock is None or (self.clock_file is not None and self.clock_file.real)

    def fits(self, key: str, offset_ms: int, *, alone: bool) -> bool:
        """Whether one more run can use it."""
        if self.key != key or self.spoilt or self.runs >= RUNS_MAX or self.alone or (alone and self.users):
            return False
        at_us = 0 if self.clock is None else self.clock.offset_us
        return offset_ms * 1000 == at_us if self.users or self.clock_file is None else offset_ms * 1000 >= at_us


class Servers:
    """All processes of one adapter, in a folder of their own."""

    def __init__(self, name: str, *, skewed: bool, shared: bool, lanes: int = 1) -> None:
        """``skewed``: their clocks may be faked; ``shared``: several runs may use one at once."""
        self._name = name
        self._skewed = skewed
        self._shared = shared
        self._lock = threading.Lock()
        self._owners = threading.Semaphore(lanes)
        self._starting = threading.Semaphore(os.cpu_count() or 1)
        self._servers: list[Server] = []
        self._started = 0
        self._folder: Path | None = None
        self._supervisor: Supervisor | None = None

    def take(
        self,
        key: str,
        spec: ClockSpec,
        start: Callable[[Supervisor, Path, str, ClockFile | RatedClock | None], Launcher],
        alone: bool,
        rate: Rate = REAL,
    ) -> Server:
        """A server for a run; a new one is started if none fits. ``key`` tells apart what cannot be changed while one
        runs, its time zone and ``rate`` included. Raises what ``start`` raises.
        """
        owned = alone and self._shared
        if owned:
            self._owners.acquire()
        try:
            server = self._taken(key, spec, start, alone or not self._shared, rate)
        except BaseException:
            if owned:
                self._owners.release()
            raise
        server.owned = owned
        return server

    def _taken(
        self,
        key: str,
        spec: ClockSpec,
        start: Callable[[Supervisor, Path, str, ClockFile | RatedClock | None], Launcher],
        alone: bool,
        rate: Rate = REAL,
    ) -> Server:
        with self._lock:
            server = next((one for one in self._servers if one.fits(key, spec.offset_ms, alone=alone)), None)
            if server is not None and server.launcher.process.poll() is not None:
                server.spoilt = True
                self._servers.remove(server)
                server = None
            if server is not None:
                server.users += 1
                server.runs += 1
                server.alone = alone
                if server.clock_file is not None:
                    server.clock_file.set_offset_ms(spec.offset_ms)
                self._servers.append(self._servers.pop(self._servers.index(server)))
                return server
            supervisor, folder = self._house()
            self._started += 1
            name = f"{self._name}-{self._started}"
        (folder / name).mkdir()
        clock = self._clock(folder / f"{name}.clock", spec, rate)
        launcher = start(supervisor, folder / name, name, clock)
        with self._starting:
            launcher.start()
        server = Server(key, launcher, clock)
        server.users, server.runs, server.alone = 1, 1, alone
        with self._lock:
            self._servers.append(server)
        return server

    def give_back(self, server: Server, *, spoilt: bool) -> None:
        """A run is over."""
        if server.owned:
            server.owned = False
            self._owners.release()
        with self._lock:
            server.users -= 1
            server.alone = False
            server.spoilt = server.spoilt or spoilt
            idle = [one for one in self._servers if not one.users]
            doomed = [one for one in idle if one.spoilt or one.runs >= RUNS_MAX] or idle[: max(0, len(idle) - IDLE_MAX)]
            self._servers = [one for one in self._servers if one not in doomed]
        for one in doomed:
            one.launcher.stop()

    def close(self) -> None:
        """Stop all of them; safe to call twice."""
        with self._lock:
            servers, self._servers = self._servers, []
            supervisor, self._supervisor = self._supervisor, None
            folder, self._folder = self._folder, None
        for server in servers:
            server.launcher.stop()
        if supervisor is not None:
            supervisor.close()
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)

    def _house(self) -> tuple[Supervisor, Path]:
        if self._supervisor is None or self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="brokerproof-brokers-"))
            self._supervisor = Supervisor(self._folder, owns_folder=True)
        return self._supervisor, self._folder

    def _clock(self, path: Path, spec: ClockSpec, rate: Rate) -> ClockFile | RatedClock | None:
        if rate.times > 1:
            return RatedClock(rate, spec.offset_ms, spec.zone_hours)
        if not self._skewed:
            return None
        try:
            library_path()
            return ClockFile(path, spec.offset_ms, spec.zone_hours)
        except (ToolMissing, ToolFailed):
            if spec.offset_ms or spec.zone_hours:
                raise
            return None
