"""A child that says what its clocks show; the probes start it on a faked clock and compare.

Decides: which clocks and waits of a runtime are looked at.
Rules: started by file name, so it imports nothing of ours; one JSON line per line of input. With the path of a JVM
library as its argument it starts that JVM inside itself (JPype) and shows Java's clocks beside Python's.
Known exceptions: none.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable

WAIT_NS = 20_000_000
Look = Callable[[], dict[str, int]]


def python_clocks() -> dict[str, int]:
    """Python's wall clock and monotonic clock, and how long a sleep of 20 ms took."""
    before = time.monotonic_ns()
    time.sleep(WAIT_NS / 1e9)
    after = time.monotonic_ns()
    return {"slept_ns": after - before, "wall_ns": time.time_ns(), "monotonic_ns": after}


def java_clocks(library: str) -> Look:
    """Start the JVM; the function given looks at Java's clocks and at a timed wait of 20 ms."""
    import jpype  # only here: the plain witness must work without it

    jpype.startJVM(library, "-XX:TieredStopAtLevel=1", "-Xmx64m", "-XX:-UsePerfData")
    system = jpype.JClass("java.lang.System")
    lock_support = jpype.JClass("java.util.concurrent.locks.LockSupport")

    def look() -> dict[str, int]:
        before = int(system.nanoTime())
        lock_support.parkNanos(WAIT_NS)
        return {
            "java_slept_ns": int(system.nanoTime()) - before,
            "java_wall_ms": int(system.currentTimeMillis()),
            "java_monotonic_ns": int(system.nanoTime()),
        }

    return look


def main(arguments: list[str]) -> None:
    """Answer each line of input with one line."""
    looks: list[Look] = [python_clocks]
    if arguments:
        looks.append(java_clocks(arguments[0]))
    for _ in sys.stdin:
        seen: dict[str, int] = {}
        for look in looks:
            seen |= look()
        sys.stdout.write(json.dumps(seen) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
