"""Broker processes that runs share: how many are started at once."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import pytest

from brokerproof.conformance.brokers.servers import Servers


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
        servers.take(str(number), 0, lambda *_: cast("Any", Launcher()), alone=True)

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(take, range(3)))
    assert together == [False] * 3
