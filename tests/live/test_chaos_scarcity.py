"""Scarcity, proven on processes: what they can still open, how long they wait, and that nothing is left."""

from __future__ import annotations

import errno
import os
import sys
import time
from pathlib import Path

import pytest

from brokerproof.chaos import scarcity
from brokerproof.chaos.processes import Supervisor, pid_alive
from brokerproof.chaos.scarcity import Descriptors, Disk, Memory, Processor, largest_file, open_descriptors, waited_us

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
#: Writes bytes, or reserves memory, as much as it is told to, and says whether it could.
TAKER = """
import json, mmap, socket, sys
kept, line, file = [], socket.socket(fileno=0), open(sys.argv[1], "ab", buffering=0)
for text in line.makefile("r"):
    asked = json.loads(text)
    try:
        taken = file.write(bytes(asked["write"])) if "write" in asked else asked["reserve"]
        if "reserve" in asked:
            kept.append(mmap.mmap(-1, taken))
    except OSError as error:
        taken = -error.errno
    line.sendall(json.dumps({"taken": taken}).encode() + b"\\n")
"""
KIB, MIB = 1024, 1024 * 1024
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


def test_a_process_whose_disk_is_full(tmp_path: Path) -> None:
    with Supervisor(tmp_path) as supervisor:
        child = supervisor.spawn("taker", [sys.executable, "-c", TAKER, str(tmp_path / "file")], channel=True)

        def taken(count: int) -> int:
            child.channel.send({"write": count})
            return int(child.channel.receive(10_000)["taken"])

        assert taken(64 * KIB) == 64 * KIB
        assert largest_file(child.pid) == 64 * KIB
        full = Disk(child, 4)
        assert full.evidence() == {"limit": 68 * KIB, "largest": 64 * KIB, "free": 4 * KIB}
        assert taken(6 * KIB) == 4 * KIB
        assert taken(1) == -errno.EFBIG
        assert full.evidence() == {"limit": 68 * KIB, "largest": 68 * KIB, "free": 0}
        assert full.end() == {"limit": 68 * KIB, "largest": 68 * KIB, "free": 0}
        assert taken(6 * KIB) == 6 * KIB
        child.kill()
        assert full.end() is None


def test_a_process_with_little_memory(tmp_path: Path) -> None:
    with Supervisor(tmp_path) as supervisor:
        child = supervisor.spawn("taker", [sys.executable, "-c", TAKER, str(tmp_path / "file")], channel=True)

        def taken(count: int) -> int:
            child.channel.send({"reserve": count})
            return int(child.channel.receive(10_000)["taken"])

        assert taken(32 * MIB) == 32 * MIB
        little = Memory(child, 16)
        seen = little.evidence()
        assert seen is not None
        assert (seen["limit"] - seen["size"], seen["free"]) == (16 * MIB, 16 * MIB)
        assert taken(8 * MIB) == 8 * MIB
        assert taken(32 * MIB) == -errno.ENOMEM
        found = little.end()
        assert found is not None
        assert found["free"] <= 8 * MIB
        assert taken(32 * MIB) == 32 * MIB
        child.kill()
        assert little.end() is None


def test_a_process_with_busy_neighbours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = [None]  # one that has just begun has not waited yet
    monkeypatch.setattr(scarcity, "waited_us", lambda pid: first.pop() if first else waited_us(pid))
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
