"""Scarcity, proven on processes: what they can still open, how long they wait, and that nothing is left."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from brokerproof.chaos.processes import Supervisor, pid_alive
from brokerproof.chaos.scarcity import Descriptors, Processor, open_descriptors

#: Opens files as often as it is told to, and says how many it could.
OPENER = """
import json, socket, sys
opened, line = [], socket.socket(fileno=0)
for text in line.makefile("r"):
    try:
        while len(opened) < int(json.loads(text)["upto"]):
            opened.append(open("/dev/null"))
    except OSError as error:
        pass
    line.sendall(json.dumps({"opened": len(opened)}).encode() + b"\\n")
"""
BUSY = "while True: pass"
SECOND_NS = 1_000_000_000


def test_a_process_that_can_open_three_files_more(tmp_path: Path) -> None:
    with Supervisor(tmp_path) as supervisor:
        child = supervisor.spawn("opener", [sys.executable, "-c", OPENER], channel=True)

        def could_open(upto: int) -> int:
            child.channel.send({"upto": upto})
            return int(child.channel.receive(10_000)["opened"])

        assert could_open(5) == 5
        few = Descriptors(child, 3)
        seen = few.evidence()
        assert seen is not None
        assert (seen["open"], seen["free"]) == (len(open_descriptors(child.pid)), 3)
        assert could_open(100) == 8
        found = few.evidence()
        assert found is not None
        assert found["free"] == 0
        after = few.end()
        assert after is not None
        assert after["limit"] > 100
        assert could_open(100) == 100
        child.kill()
        assert few.end() is None


def test_a_process_with_busy_neighbours(tmp_path: Path) -> None:
    with Supervisor(tmp_path) as supervisor:
        child = supervisor.spawn("busy", [sys.executable, "-c", BUSY])
        before = os.sched_getaffinity(child.pid)
        scarce = Processor(child, 25, supervisor)
        others = [process.pid for process in supervisor.processes if process is not child]
        assert len(others) == 3
        assert [os.sched_getaffinity(pid) for pid in (child.pid, *others)] == [os.sched_getaffinity(child.pid)] * 4
        assert len(os.sched_getaffinity(child.pid)) == 1
        deadline_ns = time.monotonic_ns() + 20 * SECOND_NS
        while (seen := scarce.evidence()) is None or seen["waited_us"] < 500_000:
            assert time.monotonic_ns() < deadline_ns, seen
        # It had a quarter of one processor, give or take.
        assert 0.4 < seen["waited_us"] / seen["passed_us"] < 1.1
        assert scarce.end() is not None
        assert not any(map(pid_alive, others))
        assert os.sched_getaffinity(child.pid) == before
        child.kill()
        assert scarce.end() is None
