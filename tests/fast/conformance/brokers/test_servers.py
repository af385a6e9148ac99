"""Broker processes that runs share: how many are started at once."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from brokerproof.chaos.clocks import ClockFile, RatedClock
from brokerproof.chaos.rates import rate_of
from brokerproof.conformance.brokers.servers import Server, Servers
from brokerproof.conformance.experiment.configuration import ClockSpec


def test_no_more_are_started_at_once_than_there_are_processors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    servers = Servers("fake", skewed=False, shared=False)
    monkeypatch.setattr(servers, "_house", lambda: (None, tmp_path))
    three, together = threading.Barrier(3), []

    class Launcher:
        def start(self) -> None:
            try:
                three.wait(timeout=0.2)
            except threading.BrokenBarrierError:
                together.append(False)
            else:
                together.append(True)

    def take(number: int) -> None:
        servers.take(str(number), ClockSpec(), lambda *_: cast("Any", Launcher()), alone=True)

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(take, range(3)))
    assert together == [False] * 3


def test_no_more_runs_own_a_broker_at_once_than_lanes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has a process of its own: of 24 runs with faults on a broker of the JVM none became ready in a minute."""
    servers = Servers("fake", skewed=False, shared=True, lanes=1)
    monkeypatch.setattr(servers, "_house", lambda: (None, tmp_path))
    launcher: Any = SimpleNamespace(start=lambda: None, stop=lambda: None, process=SimpleNamespace(poll=lambda: None))
    first = servers.take("", ClockSpec(), lambda *_: launcher, alone=True)
    with ThreadPoolExecutor(1) as pool:
        second = pool.submit(servers.take, "", ClockSpec(), lambda *_: launcher, alone=True)
        assert servers.take("", ClockSpec(), lambda *_: launcher, alone=False) is not first
        assert not second.done()
        servers.give_back(first, spoilt=False)
        assert second.result(timeout=5).owned


def test_a_clock_is_the_machines_until_it_is_moved(tmp_path: Path) -> None:
    """So a broker that stamps nothing can be judged, too."""
    clock, nobody = ClockFile(tmp_path / "clock"), cast("Any", None)
    server = Server("", nobody, clock)
    assert server.tells_real_time
    clock.set_offset_ms(5)
    assert not server.tells_real_time
    clock.set_offset_ms(0)
    assert server.tells_real_time
    clock.stand_at_us(0)
    assert not server.tells_real_time
    assert Server("", nobody, None).tells_real_time
    assert not Server("", nobody, RatedClock(rate_of(10))).tells_real_time


def test_after_so_many_runs_a_process_gets_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It serves those that it has, and is stopped when the last of them is over."""
    monkeypatch.setattr("brokerproof.conformance.brokers.servers.RUNS_MAX", 2)
    stopped: list[int] = []

    def launcher(number: int) -> Any:
        running = SimpleNamespace(poll=lambda: None)
        return SimpleNamespace(start=lambda: None, stop=lambda: stopped.append(number), process=running)

    servers = Servers("fake", skewed=False, shared=True)
    monkeypatch.setattr(servers, "_house", lambda: (None, tmp_path))
    took = [servers.take("", ClockSpec(), lambda *_, n=n: launcher(n), alone=False) for n in range(3)]
    assert (took[0] is took[1], took[1] is took[2]) == (True, False)
    servers.give_back(took[0], spoilt=False)
    assert stopped == []
    servers.give_back(took[1], spoilt=False)
    assert stopped == [0]
