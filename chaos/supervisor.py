"""The supervisor program: one process that owns every child, and ends them all when the runner is gone.

Decides: how a child is started, which processes belong to it, when it counts as dead, and what dies with the runner.
Rules:
* Started by file name with `python -I -S`, so it imports nothing but the standard library and works from a checkout and
  from a wheel alike, whatever PYTHONPATH says. It is never faked.
* The runner holds the other end of a socket pair of whole packets: one JSON request, one JSON answer, file descriptors
  beside them. The end of that socket, *or* the runner's death seen through a pidfd (a forked helper of the runner may
  still hold the socket), ends everything: every descendant gets SIGKILL.
* Each child leads a session and process group of its own. The supervisor is a sub-reaper, so orphans come to it; when a
  leader ends, what is left of its group is killed before the leader is reaped, while its number cannot be given to
  anybody else.
* A child is named by a number of ours that is never given twice. Process numbers come again: threads use them up too,
  and the shipped limit is 32,768, so a long run of JVMs goes round; a late word about a dead child must not reach its
  number's next owner.
* A folder that the runner gives to it goes with the runner, when the processes in it have gone.
* Children ask the kernel to be killed if the supervisor itself dies.
* Many children run the same Python module: a fork server for each kind of them has imported it (`fork_server.py`). They
  are started as all others where it cannot: it ended, or has more than one thread.
* A dead pid's libfaketime objects in shared memory are removed before the pid is free: a successor with the same number
  would die of them.
Known exceptions: a grandchild that left the group survives the supervisor's own SIGKILL (not the runner's); Linux 5.3
or later only.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

PACKET_BYTES = 180_000  # below the default socket buffer (208 KiB), so that a request always fits into one packet
END_DEADLINE_NS = 15_000_000_000  # less than the runner waits for an answer
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
IMPORT_TIMEOUT_S = 5.0  # less than the runner waits for an answer
FORK_SERVER = "brokerproof.chaos.fork_server"
CLOCK_VARIABLE = "FAKETIME_TIMESTAMP_FILE"  # each child of a fork server has its own
SHARED_MEMORY = "/dev/shm"  # noqa: S108  # the folder in which libfaketime itself puts its objects
Table = dict[int, int]


class BadRequest(Exception):
    """A request that the protocol does not know; the runner's mistake."""


class Child:
    """One process that the runner asked for: our number and the kernel's, how it ended (None while it runs)."""

    def __init__(self, number: int, name: str, pid: int) -> None:
        self.number = number
        self.name = name
        self.pid = pid
        self.returncode: int | None = None


class ForkServer:
    """Our end of the socket of a fork server."""

    def __init__(self, control: socket.socket) -> None:
        self.control = control
        self.control.settimeout(IMPORT_TIMEOUT_S)
        self.ready = False

    def fork(self, request: dict[str, Any], descriptors: list[int]) -> int:
        """The process number of a new child; 0 if the server has ended, or its imports take too long."""
        try:
            if not self.ready:
                self.ready = bool(self.control.recv(PACKET_BYTES))
                self.control.settimeout(None)  # from now on each request has its answer
            socket.send_fds(self.control, [json.dumps(request).encode()], descriptors)
            return int(self.control.recv(PACKET_BYTES) or 0)
        except OSError:
            return 0


def parse_request(packet: bytes) -> dict[str, Any]:
    """A request as a dictionary with at least `do`; raises `BadRequest` with what was wrong."""
    try:
        request = json.loads(packet)
    except ValueError as error:
        raise BadRequest(f"not JSON: {error}") from error
    if not isinstance(request, dict) or not isinstance(request.get("do"), str):
        raise BadRequest("a request is an object with the text field 'do'")
    if not isinstance(request.get("id"), int):
        raise BadRequest(f"id must be a whole number, not {request.get('id')!r}")
    if request["do"] == "spawn":
        argv, env = request.get("argv"), request.get("env")
        if not isinstance(argv, list) or not argv or not all(isinstance(word, str) for word in argv):
            raise BadRequest(f"argv must be a list of at least one text, not {argv!r}")
        if not isinstance(env, dict) or not all(isinstance(value, str) for value in env.values()):
            raise BadRequest("env must be an object of texts")
        for field in ("name", "log", "cwd"):
            if not isinstance(request.get(field), str):
                raise BadRequest(f"{field} must be a text, not {request.get(field)!r}")
    return request


def parents(stats: dict[int, str]) -> Table:
    """Process number -> parent's number, from the texts of /proc/PID/stat (the name in brackets may hold anything)."""
    return {pid: int(text.rpartition(")")[2].split()[1]) for pid, text in stats.items()}


def descendants(root: int, table: Table) -> list[int]:
    """All processes below `root`, parents before children."""
    children: dict[int, list[int]] = {}
    for pid, parent in table.items():
        children.setdefault(parent, []).append(pid)
    found: list[int] = []
    waiting = [root]
    while waiting:
        below = sorted(children.get(waiting.pop(0), []))
        found += below
        waiting += below
    return found


def process_table() -> Table:
    """The parents of all processes that can be seen now."""
    stats: dict[int, str] = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with contextlib.suppress(OSError):  # it ended while we looked
                stats[int(entry.name)] = Path(entry.path, "stat").read_text(encoding="utf-8", errors="replace")
    return parents(stats)


def remove_shared_memory(pid: int) -> None:
    """Remove what libfaketime left of a dead process: the memory first; alone it would kill the pid's next owner."""
    for name in (f"faketime_shm_{pid}", f"sem.faketime_sem_{pid}"):
        with contextlib.suppress(OSError):
            Path(SHARED_MEMORY, name).unlink()


class Warden:
    """The loop: answers requests, reaps the dead, and ends everything when the runner is gone."""

    def __init__(self, control: socket.socket, runner_pid: int) -> None:
        self.control = control
        self.runner = os.pidfd_open(runner_pid)
        self.children: dict[int, Child] = {}  # by our number
        self.running: dict[int, Child] = {}  # by process number
        self.fork_servers: dict[str, ForkServer] = {}  # by what they run
        self.stopped = False
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self.wake_read, wake_write = os.pipe()
        for end in (self.wake_read, wake_write):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, self._stop)
        self.handlers: dict[str, Callable[[dict[str, Any], list[int]], tuple[dict[str, Any], list[int]]]] = {
            "spawn": self._spawn,
            "signal": self._signal,
            "poll": self._poll,
            "list": self._list,
            "shutdown": self._shutdown,
        }

    def serve(self) -> None:
        """Until the runner asks for the end, closes its socket, or dies."""
        watched = select.poll()
        for descriptor in (self.control.fileno(), self.runner, self.wake_read):
            watched.register(descriptor, select.POLLIN)
        try:
            while not self.stopped:
                ready = {descriptor for descriptor, _ in watched.poll()}
                if self.wake_read in ready:
                    with contextlib.suppress(BlockingIOError):
                        os.read(self.wake_read, 4096)
                    self._reap()
                if self.runner in ready:
                    return
                if self.control.fileno() in ready and not self._answer():
                    return
        finally:
            self._end_all()

    def _stop(self, *_: object) -> None:
        self.stopped = True

    def _answer(self) -> bool:
        """Serve one request; False when the runner closed its end."""
        try:
            packet, descriptors, _, _ = socket.recv_fds(self.control, PACKET_BYTES, 4)
        except OSError:
            return False
        if not packet:
            return False
        give: list[int] = []
        number = 0
        try:
            request = parse_request(packet)
            number = request["id"]
            handler = self.handlers.get(request["do"])
            if handler is None:
                raise BadRequest(f"unknown request {request['do']!r}; known: {', '.join(self.handlers)}")
            answer, give = handler(request, descriptors)
            reply: dict[str, Any] = {"ok": answer}
        except BadRequest as error:
            reply = {"bad": str(error)}
        except (OSError, subprocess.SubprocessError, ValueError) as error:
            reply = {"fail": str(error)}
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        try:
            socket.send_fds(self.control, [json.dumps({**reply, "id": number}).encode()], give)
        except OSError:
            return False
        finally:
            for descriptor in give:
                os.close(descriptor)
        return True

    def _spawn(self, request: dict[str, Any], descriptors: list[int]) -> tuple[dict[str, Any], list[int]]:
        with Path(request["log"]).open("ab") as log:
            pid = self._fork(request, [*descriptors, log.fileno()]) if request.get("forked") else 0
            pid = pid or self._start(request, descriptors[0] if descriptors else None, log.fileno())
        child = Child(len(self.children) + 1, request["name"], pid)
        self.children[child.number] = self.running[pid] = child
        return {"child": child.number, "pid": pid}, [os.pidfd_open(pid)]

    def _fork(self, request: dict[str, Any], descriptors: list[int]) -> int:
        """Have a fork server start it; the process number, or 0."""
        (interpreter, option, module), env = request["argv"][:3], request["env"]
        lasting = {name: value for name, value in env.items() if name != CLOCK_VARIABLE}
        kind = json.dumps([interpreter, option, module, request["cwd"], lasting])
        if kind not in self.fork_servers:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            self.fork_servers[kind] = ForkServer(ours)
            with theirs:
                words = {**request, "argv": [interpreter, option, FORK_SERVER, module]}
                self._start(words, theirs.fileno(), sys.stderr.fileno())
        return self.fork_servers[kind].fork(request, descriptors)

    def _start(self, request: dict[str, Any], channel: int | None, log: int) -> int:
        own = os.getpid()

        def before_exec() -> None:
            self.libc.prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
            if os.getppid() != own:  # the supervisor died between the fork and the line above
                os._exit(1)

        started = subprocess.Popen(
            request["argv"],
            stdin=subprocess.DEVNULL if channel is None else channel,
            stdout=log if channel is None else channel,
            stderr=log,
            cwd=request["cwd"],
            env=request["env"],
            start_new_session=True,
            preexec_fn=before_exec,  # noqa: PLW1509  # safe here: this program has one thread and is never faked
        )
        # Else subprocess would later wait for this number itself, and take another child's end for it.
        started.returncode = 0
        return started.pid

    def _signal(self, request: dict[str, Any], _: list[int]) -> tuple[dict[str, Any], list[int]]:
        child = self._child(request)
        if child.returncode is not None:
            return {"sent": 0}, []
        number = int(request.get("signal", 0))
        # SIGKILL also reaches those below it that left its group. They are listed first: once their parent is dead,
        # they are ours and cannot be told from others.
        below = descendants(child.pid, process_table()) if number == signal.SIGKILL else []
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, number)
        _kill_each(below)
        return {"sent": number}, []

    def _poll(self, request: dict[str, Any], _: list[int]) -> tuple[dict[str, Any], list[int]]:
        child = self._child(request)
        self._reap()
        return {"returncode": child.returncode}, []

    def _list(self, _: dict[str, Any], __: list[int]) -> tuple[dict[str, Any], list[int]]:
        self._reap()
        return {"children": self._rows()}, []

    def _shutdown(self, _: dict[str, Any], __: list[int]) -> tuple[dict[str, Any], list[int]]:
        left = self._end_all()
        self.stopped = True
        return {"left": left, "children": self._rows()}, []

    def _rows(self) -> list[dict[str, Any]]:
        return [
            {"child": child.number, "pid": child.pid, "name": child.name, "returncode": child.returncode}
            for child in self.children.values()
        ]

    def _child(self, request: dict[str, Any]) -> Child:
        child = self.children.get(request.get("child", -1))
        if child is None:
            raise BadRequest(f"no child has the number {request.get('child')!r}")
        return child

    def _reap(self) -> None:
        while True:
            try:
                # Look without reaping: as long as the zombie stands, its number belongs to nobody else.
                ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if ended is None:
                return
            pid = ended.si_pid
            child = self.running.pop(pid, None)
            if child is not None:
                with contextlib.suppress(OSError):
                    os.killpg(pid, signal.SIGKILL)
            remove_shared_memory(pid)
            _, status = os.waitpid(pid, 0)
            if child is not None:
                child.returncode = os.waitstatus_to_exitcode(status)

    def _end_all(self) -> list[int]:
        """Kill every descendant until none is left; gives the numbers of those that would not die in time."""
        deadline = time.monotonic_ns() + END_DEADLINE_NS
        while True:
            left = descendants(os.getpid(), process_table())
            _kill_each(left)
            self._reap()
            if not left or time.monotonic_ns() > deadline:
                return left
            select.select([self.wake_read], [], [], 0.01)
            with contextlib.suppress(BlockingIOError):
                os.read(self.wake_read, 4096)


def _kill_each(pids: list[int]) -> None:
    for pid in pids:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)


def main(arguments: list[str]) -> int:
    """`supervisor.py CONTROL_DESCRIPTOR RUNNER_PID [FOLDER]`: serve until the runner is gone, and then the folder."""
    control, runner_pid = socket.socket(fileno=int(arguments[0])), int(arguments[1])
    try:
        if os.getppid() != runner_pid:  # it died before we could watch it
            return 1
        Warden(control, runner_pid).serve()
        return 0
    finally:
        for folder in arguments[2:]:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
