"""When bytes reached this host, and what its wall clock shows: the two readings behind every interval of an agent.

Rules
* The kernel stamps what it receives (SO_TIMESTAMPNS) before this process wakes up, so an arrival is known to the
  microsecond however busy the machine is. The stamp is real wall time, which this process must not read (libfaketime
  shows it another one). So the difference between the kernel's wall clock and the monotonic clock is measured: a
  datagram to ourselves, stamped by the kernel between two readings of the monotonic clock.
* Where the kernel gives no stamp, an arrival lies between the last time that the socket was seen empty and now. Wider,
  but as true.
* A stamp belongs to the last bytes of what was read. Frames before the last one may have arrived earlier: their
  interval begins when the socket was last empty.
* The bytes of one connection arrive in their order, so no interval begins before the one that was read before it, even
  if the clocks were compared anew in between and their difference came out otherwise.
* The wall clock has nanoseconds, the protocol milliseconds: a reading is moved back to the instant at which the
  millisecond began, so nothing is lost by truncation.

Known exception: ``SO_TIMESTAMPNS`` has no name in Python's socket module; 35 is its number on every Linux platform that
libfaketime's wheel runs on.
"""

from __future__ import annotations

import socket
import struct
import time

from brokerproof.conformance.agents.own_time import now_ns, rate, wall_ns

SO_TIMESTAMPNS = 35
_TIMESPEC = struct.Struct("qq")
ANCILLARY_BYTES = socket.CMSG_SPACE(_TIMESPEC.size)
NS_PER_S = 1_000_000_000
NS_PER_MS = 1_000_000
#: The kernel's wall clock is disciplined: measure again after this long.
_FRESH_NS = NS_PER_S
#: Take the best of so many measurements; the first one of a process is slow.
_TRIES = 5

Ancillary = list[tuple[int, int, bytes]]


def wall_reading() -> tuple[int, tuple[int, int]]:
    """The host's wall clock: (milliseconds, the interval of the monotonic clock in which that millisecond began)."""
    before_ns = now_ns()
    shown_ns = wall_ns()
    after_ns = now_ns()
    wall_ms, part_ns = divmod(shown_ns, NS_PER_MS)
    return wall_ms, (before_ns - part_ns, after_ns - part_ns)


def kernel_stamp_ns(ancillary: Ancillary) -> int | None:
    """The kernel's stamp in real wall nanoseconds; None if it gave none."""
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == SO_TIMESTAMPNS and len(data) >= _TIMESPEC.size:
            seconds, nanos = _TIMESPEC.unpack_from(data)
            return int(seconds) * NS_PER_S + int(nanos)
    return None


def ask_for_stamps(sock: socket.socket) -> bool:
    """Let the kernel stamp what this socket receives; whether it will."""
    try:
        sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    except OSError:
        return False
    return True


class ArrivalClock:
    """Turns the kernel's stamps into intervals of the program's monotonic clock."""

    def __init__(self) -> None:
        self._self: socket.socket | None = None
        self._measured_ns = -_FRESH_NS
        #: Kernel's wall clock minus monotonic clock, and how far off that can be.
        self._offset_ns = 0
        self._error_ns = 0

    def interval(self, ancillary: Ancillary, empty_ns: int, read_ns: int) -> tuple[int, int]:
        """When the last bytes of a read arrived: not before the socket was empty, not after the read."""
        stamp_ns = kernel_stamp_ns(ancillary)
        if stamp_ns is None or not self._measure(read_ns):
            return empty_ns, read_ns
        middle_ns, of_ns = stamp_ns - self._offset_ns, rate().of_ns
        low, high = of_ns(middle_ns - self._error_ns), of_ns(middle_ns + self._error_ns)
        if high < empty_ns or low > read_ns:
            # The kernel's wall clock was set between the measurement and the stamp: it says nothing now.
            self._measured_ns = -_FRESH_NS
            return empty_ns, read_ns
        return max(low, empty_ns), min(high, read_ns)

    def close(self) -> None:
        """Give the measuring socket up."""
        if self._self is not None:
            self._self.close()
            self._self = None

    def _measure(self, asked_ns: int) -> bool:
        """Have a fresh offset; whether there is one."""
        if asked_ns - self._measured_ns < rate().times * _FRESH_NS:
            return True
        best_ns: int | None = None
        for _ in range(_TRIES):
            found = self._bounce()
            if found is not None and (best_ns is None or found[1] < best_ns):
                self._offset_ns, best_ns = found
        if best_ns is None:
            return False
        self._error_ns = best_ns
        self._measured_ns = now_ns()
        return True

    def _bounce(self) -> tuple[int, int] | None:
        """One datagram to ourselves: (offset, half the time it took); None if the kernel did not stamp it."""
        try:
            if self._self is None:
                self._self = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
                self._self.bind(("127.0.0.1", 0))
                self._self.connect(self._self.getsockname())
                self._self.settimeout(0.2)
                ask_for_stamps(self._self)
            before_ns = time.monotonic_ns()
            self._self.send(b"?")
            after_ns = time.monotonic_ns()
            _, ancillary, _, _ = self._self.recvmsg(1, ANCILLARY_BYTES)
        except OSError:
            return None
        stamp_ns = kernel_stamp_ns(ancillary)
        if stamp_ns is None:
            return None
        return stamp_ns - (before_ns + after_ns) // 2, (after_ns - before_ns) // 2 + 1


class Arrivals:
    """What one connection brings, in its order."""

    def __init__(self) -> None:
        #: What is still to be read arrived no earlier.
        self.earliest_ns = now_ns()
        #: What was read had arrived by then.
        self._latest_ns = 0

    def nothing_there(self) -> None:
        """The socket is empty now."""
        self.earliest_ns = now_ns()

    def read(self, clock: ArrivalClock, ancillary: Ancillary, read_ns: int) -> tuple[int, int, int]:
        """Of what was just read: the earliest arrival of its first bytes, earliest and latest of its last ones."""
        first_ns = self.earliest_ns
        low_ns, high_ns = clock.interval(ancillary, first_ns, read_ns)
        self.earliest_ns = low_ns
        # A read without a stamp ends when it was read; the next one may be stamped earlier, but did not come earlier.
        self._latest_ns = max(high_ns, self._latest_ns)
        return first_ns, low_ns, self._latest_ns
