"""Loopback ports: which are free, which are taken, and who listens on one.

Decides: how a port for a child is chosen and what is said when a wanted one is taken.
Rules: only 127.0.0.1; the kernel chooses, and what it gave lately is not given again. Between choosing and use another
process can take the port, so every launcher retries its whole start with new ports when the child says that the address
is in use (`says_port_in_use`).
Known exceptions: `owns_listener` reads IPv4 sockets only, because our launchers make nothing else.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import socket
import sys
import threading
from collections import deque
from collections.abc import Iterator
from pathlib import Path

LOOPBACK = "127.0.0.1"
_IN_USE = re.compile(
    r"address already in use|address in use|port \d+ on \S+ is in use|BindException|eaddrinuse", re.IGNORECASE
)
_LISTEN_STATE = "0A"
#: Given by this process lately: theirs even while whoever got them is being restarted.
_given: deque[int] = deque(maxlen=1000)
_choosing = threading.Lock()


class PortInUse(Exception):
    """A wanted port is taken by somebody else."""

    def __init__(self, port: int) -> None:
        super().__init__(f"port {port} on {LOOPBACK} is in use; remedy: take another, or 0 for a free one")
        self.port = port


def free_ports(count: int) -> list[int]:
    """That many different free ports; all are held open while choosing, so none is given twice."""
    with contextlib.ExitStack() as held, _choosing:
        found: list[int] = []
        while len(found) < count:
            sock = held.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
            sock.bind((LOOPBACK, 0))
            port = int(sock.getsockname()[1])
            if port not in _given:
                found.append(port)
        _given.extend(found)
    return found


def free_port() -> int:
    """One free loopback port."""
    return free_ports(1)[0]


@contextlib.contextmanager
def held(*wanted: int) -> Iterator[None]:
    """While a server that had these ports is away, nobody else is given one: the kernel chooses them for connections,
    too. Bound and not listened to, they refuse clients, and a server (with ``SO_REUSEADDR``, as all of ours) can come.
    """
    with contextlib.ExitStack() as stack:
        for port in wanted:
            sock = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):  # somebody was quicker; the server will say so
                sock.bind((LOOPBACK, port))
        yield


def require_free(port: int) -> int:
    """The port itself if it can be bound now (0: a free one); raises `PortInUse`, or `ValueError` out of range."""
    if not 0 <= port <= 65535:
        raise ValueError(f"port {port} is not in 0..65535")
    if port == 0:
        return free_port()
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as sock:
        # Without this a port in TIME_WAIT counts as taken, although the servers that we start can bind it.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((LOOPBACK, port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise PortInUse(port) from error
            raise
    return port


def says_port_in_use(log: str) -> bool:
    """Whether the log of a child says that a port was taken (Java, Go and Python word it differently)."""
    return _IN_USE.search(log) is not None


def owns_listener(pid: int, port: int) -> bool:
    """Whether exactly this process listens on the loopback port: an answer there could come from somebody else."""
    inodes = _listening_inodes(Path("/proc/net/tcp").read_text(encoding="ascii"), port)
    return any(f"socket:[{inode}]" in _open_files(pid) for inode in inodes)


def _listening_inodes(table: str, port: int) -> list[str]:
    """Socket inodes of the listeners on 127.0.0.1:port in a table formatted like /proc/net/tcp."""
    # The kernel prints the address as one machine word, so its digits depend on the byte order.
    wanted = f"{int.from_bytes(socket.inet_aton(LOOPBACK), sys.byteorder):08X}:{port:04X}"
    rows = [line.split() for line in table.splitlines()[1:]]
    return [row[9] for row in rows if len(row) > 9 and row[1] == wanted and row[3] == _LISTEN_STATE]


def _open_files(pid: int) -> set[str]:
    found: set[str] = set()
    with contextlib.suppress(OSError):  # the process went away while we looked
        for entry in os.scandir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):  # or one descriptor did
                found.add(str(Path(entry.path).readlink()))
    return found
