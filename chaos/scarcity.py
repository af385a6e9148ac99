"""What a process may have too little of while it runs: file descriptors, its share of a processor, room for its files,
memory.

Decides: how it is taken away and given back, and what proves that it was gone.
Rules
* Descriptors: the soft limit (prlimit) is set so that only so many numbers below it are free. What is open stays open.
  Both are read back from /proc.
* Processor: all threads of the process are bound to one processor, and so many processes that compute without rest with
  them; they are the supervisor's, who ends them with the runner. The kernel tells how long the threads waited.
* Disk: the limit of a file's size, so many KiB beyond what the largest one open to write occupies. What is beyond it
  cannot be written, as on a full disk; the error is EFBIG instead of ENOSPC.
* Memory: the limit of the address space, so many MiB beyond what the process has.
Known exceptions: Linux only. Without the kernel's scheduler statistics a busy processor has no proof. A descriptor that
is opened between the reading and the limit makes one fewer free; what is told was read afterwards. Room that a sparse
file, or a heap, has reserved is its own: what fits into it is written. SIGXFSZ ends a process that does not ignore it.
"""

from __future__ import annotations

import contextlib
import os
import resource
import stat
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from brokerproof.chaos.processes import Process, Supervisor

#: A process that wants all of its processor. It ends by itself, should nobody end it.
_BUSY = "import time\nend = time.monotonic() + 300\nwhile time.monotonic() < end: pass"
_NS_PER_US = 1000
_KIB, _MIB = 1024, 1024 * 1024
#: A block of ``st_blocks``.
_BLOCK = 512


class Descriptors:
    """A process that can open only ``left`` files or sockets more. Raises ``OSError`` where that cannot be had."""

    def __init__(self, process: Process, left: int) -> None:
        self._pid = process.pid
        self._before = resource.prlimit(self._pid, resource.RLIMIT_NOFILE)
        limit = _limit_for(open_descriptors(self._pid), left)
        resource.prlimit(self._pid, resource.RLIMIT_NOFILE, (min(limit, self._before[0]), self._before[1]))

    def evidence(self) -> dict[str, int] | None:
        """The limit as the kernel tells it, what is open, and how many numbers are free."""
        limit, opened = limit_of(self._pid, "Max open files"), open_descriptors(self._pid)
        if limit is None:
            return None
        return {"limit": limit, "open": len(opened), "free": limit - sum(number < limit for number in opened)}

    def end(self) -> dict[str, int] | None:
        """Give them back; the same."""
        with contextlib.suppress(ProcessLookupError):
            resource.prlimit(self._pid, resource.RLIMIT_NOFILE, self._before)
        return self.evidence()


class Disk:
    """A process none of whose files gets more than ``left`` KiB larger than its largest. Raises ``OSError``."""

    def __init__(self, process: Process, left: int) -> None:
        self._pid = process.pid
        self._before = resource.prlimit(self._pid, resource.RLIMIT_FSIZE)
        limit = largest_file(self._pid) + left * _KIB
        resource.prlimit(self._pid, resource.RLIMIT_FSIZE, (limit, self._before[1]))

    def evidence(self) -> dict[str, int] | None:
        """The limit as the kernel tells it, what the largest file occupies, and how far it may grow."""
        limit, largest = limit_of(self._pid, "Max file size"), largest_file(self._pid)
        return None if limit is None else {"limit": limit, "largest": largest, "free": max(0, limit - largest)}

    def end(self) -> dict[str, int] | None:
        """Let them grow again; what was so before the end."""
        found = self.evidence()
        with contextlib.suppress(ProcessLookupError):
            resource.prlimit(self._pid, resource.RLIMIT_FSIZE, self._before)
        return found


class Memory:
    """A process whose address space grows by ``left`` MiB at most. Raises ``OSError``."""

    def __init__(self, process: Process, left: int) -> None:
        self._pid = process.pid
        self._before = resource.prlimit(self._pid, resource.RLIMIT_AS)
        resource.prlimit(self._pid, resource.RLIMIT_AS, (_address_space(self._pid) + left * _MIB, self._before[1]))

    def evidence(self) -> dict[str, int] | None:
        """The limit as the kernel tells it, the address space, and how far it may grow; all in bytes."""
        limit, size = limit_of(self._pid, "Max address space"), _address_space(self._pid)
        return None if limit is None else {"limit": limit, "size": size, "free": max(0, limit - size)}

    def end(self) -> dict[str, int] | None:
        """Let it grow again; what was so before the end."""
        found = self.evidence()
        with contextlib.suppress(ProcessLookupError):
            resource.prlimit(self._pid, resource.RLIMIT_AS, self._before)
        return found


class Processor:
    """A process that has about ``left`` percent of one processor; others want the rest. Raises ``OSError``."""

    def __init__(self, process: Process, left: int, supervisor: Supervisor) -> None:
        self._pid = process.pid
        self._before = os.sched_getaffinity(self._pid)
        #: Runs of different processes are spread over the processors.
        own = {sorted(self._before)[self._pid % len(self._before)]}
        self._t0_ns = time.monotonic_ns()
        self._waited_us = waited_us(self._pid) or 0  # one that has just begun may not have waited yet
        self._busy = [
            supervisor.spawn(f"{process.name}-neighbour", [sys.executable, "-I", "-S", "-c", _BUSY])
            for _ in range(neighbours(left))
        ]
        try:
            for one in self._busy:
                os.sched_setaffinity(one.pid, own)
            _bind(self._pid, own)
        except OSError:
            self.end()
            raise

    def evidence(self) -> dict[str, int] | None:
        """How many neighbours there are, and for how long the process has waited for them, in so much time."""
        waited = waited_us(self._pid)
        running = sum(one.poll() is None for one in self._busy)
        if waited is None or running < len(self._busy):
            return None
        passed_us = (time.monotonic_ns() - self._t0_ns) // _NS_PER_US
        return {"neighbours": running, "waited_us": max(0, waited - self._waited_us), "passed_us": passed_us}

    def end(self) -> dict[str, int] | None:
        """End the others; the evidence of the whole time."""
        found = self.evidence()
        for one in self._busy:
            one.kill()
        with contextlib.suppress(ProcessLookupError, FileNotFoundError):
            _bind(self._pid, self._before)
        return found


def neighbours(left: int) -> int:
    """How many processes leave one more of their kind about so many percent of a processor."""
    return max(1, round(100 / max(1, left)) - 1)


def open_descriptors(pid: int) -> list[int]:
    """The numbers of what a process has open; empty if there is none."""
    try:
        return sorted(int(one.name) for one in Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return []


def limit_of(pid: int, name: str) -> int | None:
    """A soft limit as the kernel tells it; None: there is no such process, or no limit."""
    try:
        text = Path(f"/proc/{pid}/limits").read_text(encoding="utf-8")
    except OSError:
        return None
    line = next((line for line in text.splitlines() if line.startswith(name)), "")
    soft = line.removeprefix(name).split()[:1]
    return int(soft[0]) if soft and soft[0].isdigit() else None


def largest_file(pid: int) -> int:
    """How many bytes the largest file that a process has open to write occupies; 0 if it has none."""
    return max((_occupied(pid, number) for number in open_descriptors(pid)), default=0)


def _occupied(pid: int, number: int) -> int:
    try:
        told = Path(f"/proc/{pid}/fdinfo/{number}").read_text(encoding="ascii")
        found = Path(f"/proc/{pid}/fd/{number}").stat()
    except OSError:
        return 0
    flags = next(int(line.split()[1], 8) for line in told.splitlines() if line.startswith("flags:"))
    written = stat.S_ISREG(found.st_mode) and flags & os.O_ACCMODE != os.O_RDONLY
    return found.st_blocks * _BLOCK if written else 0


def _address_space(pid: int) -> int:
    """In bytes; 0 if there is no such process."""
    try:
        pages = Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[0]
    except OSError:
        return 0
    return int(pages) * resource.getpagesize()


def waited_us(pid: int) -> int | None:
    """For how long the threads of a process have been ready to run and did not; None: nobody counts that."""
    waited_ns = 0
    try:
        for task in _threads(pid):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                waited_ns += int((task / "schedstat").read_text(encoding="ascii").split()[1])
    except OSError:
        return None
    return waited_ns // _NS_PER_US or None


def _limit_for(opened: list[int], left: int) -> int:
    """The limit below which ``left`` numbers are free."""
    taken, limit = set(opened), 0
    while left >= 0:
        left -= limit not in taken
        limit += left >= 0
    return limit


def _bind(pid: int, processors: set[int]) -> None:
    """All threads of a process; those that it starts later follow the one that starts them."""
    for task in _threads(pid):
        with contextlib.suppress(ProcessLookupError):
            os.sched_setaffinity(int(task.name), processors)


def _threads(pid: int) -> list[Path]:
    return list(Path(f"/proc/{pid}/task").iterdir())
