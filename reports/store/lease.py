"""A lease: who works on something now, for stores and folders that several processes share.

A holder renews it while it lives. Whoever comes meanwhile is refused, with the holder's name; when the holder is known
to be dead (same machine) or has not renewed for ``STALE_S``, the lease is taken over. It saves work and explains;
that nothing is written twice rests on manifests, not on it.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import threading
import time
from pathlib import Path
from types import TracebackType

import msgspec

from brokerproof.reports.store.files import Files

RENEW_S = 5.0
STALE_S = 30.0


class Held(Exception):
    """Somebody else works on it. The text names who, and the remedy."""

    exit_code = 2


class Holder(msgspec.Struct, frozen=True):
    """Who: a process by its number and start, and until when it counts, in seconds since the epoch."""

    token: str
    machine: str
    process: int
    born: str
    until_s: float


class Lease:
    """For ``with``: held meanwhile. ``what`` and ``remedy`` complete the message of ``Held``."""

    def __init__(self, files: Files, name: str, what: str, remedy: str) -> None:
        self._files = files
        self._name = name
        self._what = what
        self._remedy = remedy
        self._token = secrets.token_hex(8)
        self._over = threading.Event()
        self._renewing = threading.Thread(target=self._renew, daemon=True)

    def __enter__(self) -> Lease:
        while not self._files.create(self._name, self._mine()):
            data = self._files.read(self._name)
            holder = _decoded(data)
            if holder is not None and is_held(holder, time.time()):
                who = f"process {holder.process} on {holder.machine}"
                raise Held(f"{self._what} is being worked on by {who}; {self._remedy}")
            if data is not None:
                self._put_away(data)
        self._renewing.start()
        return self

    def _put_away(self, stale: bytes) -> None:
        """Move a stale lease out of the way; one that another process took meanwhile comes back."""
        aside = f"{self._name}.{self._token}"
        if self._files.move(self._name, aside):
            moved = self._files.read(aside)
            if moved is not None and moved != stale:
                self._files.create(self._name, moved)
            self._files.remove(aside)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._renewing.join()
        holder = _decoded(self._files.read(self._name))
        if holder is not None and holder.token == self._token:
            self._files.remove(self._name)

    def _renew(self) -> None:
        while not self._over.wait(RENEW_S):
            with contextlib.suppress(OSError):  # a file system that hiccups; the next renewal comes in time
                self._files.write(self._name, self._mine())

    def _mine(self) -> bytes:
        me = os.getpid()
        return msgspec.json.encode(Holder(self._token, socket.gethostname(), me, born(me) or "", time.time() + STALE_S))


def is_held(holder: Holder, now_s: float, machine: str | None = None) -> bool:
    """Whether its holder may still be at work. ``machine``: this one."""
    if holder.machine == (machine if machine is not None else socket.gethostname()) and holder.born:
        return born(holder.process) == holder.born
    return now_s < holder.until_s


def born(process: int) -> str | None:
    """When a process of this machine was started, in its kernel's words; None: there is none."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else fields[19]


def _decoded(data: bytes | None) -> Holder | None:
    try:
        return msgspec.json.decode(data, type=Holder) if data else None
    except msgspec.DecodeError:
        return None
