"""Children of the runner, all owned by one supervisor process: start, watch, pause, kill, stop.

Decides: what a runner may do to a child, how long it waits, and what is reported when one dies.
Rules: a child's environment is given whole, without libfaketime's variables unless the caller put them there; output
goes to a log file; a stop is SIGTERM, a grace time, SIGKILL, for the whole process group. That a child is dead or
paused is read from /proc or from its pidfd, never taken from the request.
Known exceptions: exit code 143 is a JVM's normal end after SIGTERM and is reported as it is (brokers-launch.md section
0).
"""

from __future__ import annotations

import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from brokerproof.chaos import supervisor as program
from brokerproof.chaos.channels import Channel
from brokerproof.chaos.clocks import scrubbed

GRACE_MS = 15_000
LOG_TAIL_BYTES = 3000
READY_TIMEOUT_MS = 60_000
READY_POLL_MS = 20
#: A process is given the time that it waited for a processor besides, up to so many times its timeout.
WAITED_MAX = 3
_ANSWER_TIMEOUT_S = 20.0
#: Enough for a log with the report of a crashed JVM, which has 100 KB and its point at the beginning.
WHOLE_LOG_BYTES = 1_000_000
_TELLING = re.compile(r"^Caused by: |Reason: |^\w*Error: |\berror: ", re.IGNORECASE)
Ready = TypeVar("Ready")


class SupervisorGone(Exception):
    """The supervisor process ended or does not answer; its children end with it."""


class ProcessDiedAtStart(Exception):
    """A child ended, or could not be started at all, before it was ready: one clear error with the end of its log."""

    def __init__(self, name: str, argv: Sequence[str], returncode: int | None, log: str) -> None:
        """`log`: what it wrote, from which the end and, from all of it, the line that tells most are shown."""
        how = "could not be started" if returncode is None else f"died at start with exit code {returncode}"
        log_tail = log[-LOG_TAIL_BYTES:]
        cause = telling_line(log)
        command = " ".join(word if len(word) <= 200 else word[:200] + "…" for word in argv)
        parts = [f"{name} {how}", *([f"cause: {cause}"] if cause else []), f"command: {command}", "end of its log:"]
        super().__init__("\n".join([*parts, log_tail.strip() or "(empty)"]))
        self.name = name
        self.argv = list(argv)
        self.returncode = returncode
        self.log, self.log_tail = log, log_tail
        self.cause = cause


class NotReady(Exception):
    """A child runs but did not become ready, or did not change its state, in time."""


class Process:
    """Handle of one child. Its number is `pid`; with a channel, `channel` speaks to its standard input and output."""

    def __init__(
        self,
        owner: Supervisor,
        *,
        name: str,
        argv: Sequence[str],
        number: int,
        pid: int,
        pidfd: int,
        log: Path,
        log_start: int,
        channel: Channel | None,
    ) -> None:
        self.name = name
        self.argv = list(argv)
        self.pid = pid
        self.log = log
        self._owner = owner
        self.number = number
        self._pidfd = pidfd
        self._log_start = log_start
        self._channel = channel
        self._returncode: int | None = None
        self._lock = threading.Lock()

    @property
    def channel(self) -> Channel:
        """The JSON lines channel; `ValueError` if the child was started without one."""
        if self._channel is None:
            raise ValueError(f"{self.name} was started without a channel")
        return self._channel

    def poll(self) -> int | None:
        """None while it runs, else its exit code (negative: the signal that ended it)."""
        return self.wait(0)

    def wait(self, timeout_ms: int) -> int | None:
        """Wait for its end, at most that long; the exit code, or None if it still runs."""
        if self._returncode is None and _readable(self._pidfd, timeout_ms):
            # The kernel says that it ended; the supervisor, its parent, knows how.
            self.ended(int(self._owner.request({"do": "poll", "child": self.number})["returncode"]))
        return self._returncode

    def ended(self, returncode: int) -> None:
        """Note how it ended (for the supervisor's handle: nobody else knows)."""
        with self._lock:
            if self._returncode is None:
                self._returncode = returncode
                os.close(self._pidfd)

    def signal(self, number: int) -> None:
        """Send a signal to its whole process group; nothing happens if it has ended."""
        self._owner.request({"do": "signal", "child": self.number, "signal": number})

    def pause(self, timeout_ms: int = 2000) -> None:
        """Stop it in its tracks (SIGSTOP); returns when the kernel shows it stopped, else raises `NotReady`."""
        self.signal(signal.SIGSTOP)
        self._await_state(stopped=True, timeout_ms=timeout_ms)

    def resume(self, timeout_ms: int = 2000) -> None:
        """Let a paused process go on (SIGCONT); returns when the kernel shows it running."""
        self.signal(signal.SIGCONT)
        self._await_state(stopped=False, timeout_ms=timeout_ms)

    def kill(self, timeout_ms: int = 5000) -> int:
        """SIGKILL to it and to all below it; the exit code when it is dead, `NotReady` if it does not die."""
        self.signal(signal.SIGKILL)
        code = self.wait(timeout_ms)
        if code is None:
            raise NotReady(f"{self.name} (pid {self.pid}) is still there {timeout_ms} ms after SIGKILL")
        self.close_channel()
        return code

    def stop(self, grace_ms: int = GRACE_MS) -> int:
        """SIGTERM, then SIGKILL after the grace time; returns the exit code."""
        self.signal(signal.SIGTERM)
        self.signal(signal.SIGCONT)  # a paused process would never see the first signal
        code = self.wait(grace_ms)
        if code is None:
            return self.kill()
        self.close_channel()
        return code

    def state(self) -> str:
        """Whether it runs, how it ended, and the end of its log: what an error about its silence should tell."""
        code = self.poll()
        how = "still runs" if code is None else f"ended with exit code {code}"
        # A JVM that crashes marks what matters, and writes it twice.
        marked = [line for line in self.log_tail(WHOLE_LOG_BYTES).splitlines() if line.startswith("# ")]
        report = "\n".join(dict.fromkeys(marked))
        shown = f"its crash report:\n{report}" if report else f"end of its log:\n{self.log_tail()}"
        return f"{self.name} (pid {self.pid}) {how}; {shown}"

    def log_tail(self, limit_bytes: int = LOG_TAIL_BYTES) -> str:
        """The end of what it wrote to its log since it was started."""
        if not self.log.exists():
            return ""
        with self.log.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(self._log_start, size - limit_bytes))
            return file.read().decode(errors="replace")

    def await_ready(
        self, probe: Callable[[], Ready | None], timeout_ms: int = READY_TIMEOUT_MS, poll_ms: int = READY_POLL_MS
    ) -> Ready:
        """Ask `probe` until it gives something; `ProcessDiedAtStart` as soon as the process ends, else `NotReady`. The
        time in which it waits for a processor, because others compute, is not its own.
        """
        start_ns = time.monotonic_ns()
        limit_ms = timeout_ms
        while True:
            found = probe()
            if found is not None:
                return found
            code = self.wait(poll_ms)
            if code is not None:
                raise ProcessDiedAtStart(self.name, self.argv, code, self.log_tail(WHOLE_LOG_BYTES))
            after_ms = (time.monotonic_ns() - start_ns) // 1_000_000
            if after_ms > limit_ms:
                waited_ms = waited_for_processor_ms(self.pid)
                limit_ms = timeout_ms + min(waited_ms, WAITED_MAX * timeout_ms)
                if after_ms > limit_ms:
                    why = f"after {after_ms} ms, {waited_ms} of which it waited for a processor"
                    raise NotReady(f"{self.name} (pid {self.pid}) was not ready {why}\n{self.log_tail()}")

    def _await_state(self, *, stopped: bool, timeout_ms: int) -> None:
        deadline_ns = time.monotonic_ns() + timeout_ms * 1_000_000
        while (process_state(self.pid) == "T") != stopped:
            if self.wait(1) is not None or time.monotonic_ns() > deadline_ns:
                wanted = "stopped" if stopped else "running"
                raise NotReady(
                    f"{self.name} (pid {self.pid}) is not {wanted}: state {process_state(self.pid) or 'gone'}"
                )

    def close_channel(self) -> None:
        """Close our end of its channel, if it has one: the child sees the end of its input."""
        if self._channel is not None:
            self._channel.close()


class Supervisor:
    """Owner of all children; a context manager. Leaving it, or dying by `kill -9`, ends every child."""

    def __init__(self, folder: Path, *, owns_folder: bool = False) -> None:
        """`folder` takes the logs; it is made if it does not exist. With `owns_folder` it is removed in the end, also
        when the runner cannot do so any more.
        """
        self.folder = folder.absolute()
        self.folder.mkdir(parents=True, exist_ok=True)
        self.processes: list[Process] = []
        self._lock = threading.Lock()
        self._requests = 0
        self._runner_pid = os.getpid()
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control.settimeout(_ANSWER_TIMEOUT_S)
        argv = [
            sys.executable,
            "-I",
            "-S",
            str(Path(program.__file__).absolute()),
            str(theirs.fileno()),
            str(os.getpid()),
            *([str(self.folder)] if owns_folder else []),
        ]
        with theirs, (self.folder / "supervisor.log").open("ab") as log:
            self._started = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=scrubbed(os.environ),
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        self.request({"do": "list"})  # it answers, or says here why not

    @property
    def pid(self) -> int:
        """The number of the supervisor process itself."""
        return self._started.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def spawn(
        self,
        name: str,
        argv: Sequence[str | Path],
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        log: Path | None = None,
        channel: bool = False,
        forked: bool = False,
    ) -> Process:
        """Start one child in a session of its own.

        `forked`: it is `python -m MODULE` with a channel, and a fork server may start it (`fork_server.py`).
        `env` is its whole environment (default: ours without libfaketime's variables); `log` takes its standard error,
        and its standard output too unless `channel` joins input and output to a JSON lines channel. Raises
        `ProcessDiedAtStart` with the system's reason if the program cannot be executed.
        """
        words = [str(word) for word in argv]
        log_path = (log or self.folder / f"{name}.log").absolute()
        request = {
            "do": "spawn",
            "name": name,
            "argv": words,
            "env": dict(env) if env is not None else scrubbed(os.environ),
            "cwd": str(cwd or self.folder),
            "log": str(log_path),
            "forked": forked,
        }
        log_start = log_path.stat().st_size if log_path.exists() else 0
        ours, theirs = socket.socketpair() if channel else (None, None)
        try:
            answer, descriptors = self._exchange(request, [theirs.fileno()] if theirs else [])
            if "fail" in answer:
                raise ProcessDiedAtStart(name, words, None, str(answer["fail"]))
        except BaseException:
            if ours:
                ours.close()
            raise
        finally:
            if theirs:
                theirs.close()
        line = Channel(ours, name) if ours else None
        process = Process(
            self,
            name=name,
            argv=words,
            number=int(answer["ok"]["child"]),
            pid=int(answer["ok"]["pid"]),
            pidfd=descriptors[0],
            log=log_path,
            log_start=log_start,
            channel=line,
        )
        self.processes.append(process)
        return process

    def request(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """One request, one answer; `SupervisorGone` if there is none. Safe to call from several threads."""
        answer, _ = self._exchange(message, [])
        if "fail" in answer:
            raise OSError(f"supervisor: {answer['fail']}")
        return dict(answer["ok"])

    def close(self) -> None:
        """Kill every child and all below it, then end the supervisor. Stop children whose clean end matters before."""
        # A forked copy of the runner (a helper, a worker) shares the socket, but the children are not its to end.
        if self._started.returncode is not None or os.getpid() != self._runner_pid:
            return
        ends: dict[int, int] = {}
        left: list[int] = []
        try:
            answer = self.request({"do": "shutdown"})
            left = answer["left"]
            ends = {row["child"]: row["returncode"] for row in answer["children"] if row["returncode"] is not None}
        except SupervisorGone:
            pass  # then the kernel has killed the children with it
        self._control.close()
        try:
            self._started.wait(10)
        except subprocess.TimeoutExpired:
            self._started.kill()  # its children asked the kernel to be killed with it
            self._started.wait()
        for process in self.processes:
            process.close_channel()
            process.ended(ends.get(process.number, -signal.SIGKILL))
        if left:
            raise NotReady(f"processes that did not die after SIGKILL: {left}")

    def _exchange(self, message: Mapping[str, Any], give: list[int]) -> tuple[dict[str, Any], list[int]]:
        with self._lock:
            self._requests += 1
            number = self._requests
        packet = json.dumps({**message, "id": number}).encode()
        if len(packet) > program.PACKET_BYTES:
            raise ValueError(
                f"a request of {len(packet)} bytes; at most {program.PACKET_BYTES} fit (arguments and environment)"
            )
        try:
            with self._lock:
                socket.send_fds(self._control, [packet], give)
                while True:
                    reply, descriptors, _, _ = socket.recv_fds(self._control, program.PACKET_BYTES, 4)
                    answer: dict[str, Any] = json.loads(reply) if reply else {}
                    if not reply or answer["id"] in {number, 0}:  # 0: it could not read the request
                        break
                    # The answer to a request whose caller was interrupted, by Ctrl-C perhaps, while it waited.
                    for descriptor in descriptors:
                        os.close(descriptor)
        except OSError as error:
            raise SupervisorGone(f"the supervisor (pid {self.pid}) does not answer: {error}") from error
        if not reply:
            raise SupervisorGone(f"the supervisor (pid {self.pid}) ended; see {self.folder / 'supervisor.log'}")
        if "bad" in answer:
            raise ValueError(f"the supervisor refused {message.get('do')!r}: {answer['bad']}")
        return answer, descriptors


def telling_line(log: str) -> str:
    """The last line of a log that gives a cause; empty if none does. A Java trace hides it far above its end."""
    found = [line.strip() for line in log.splitlines() if _TELLING.search(line)]
    return found[-1].removeprefix("Caused by: ")[:500] if found else ""


def waited_for_processor_ms(pid: int) -> int:
    """How long the thread of a process that waited longest for a processor has waited; 0 where the kernel does not
    say.
    """
    waited_ns = 0
    for statistics in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        try:
            waited_ns = max(waited_ns, int(statistics.read_text(encoding="ascii").split()[1]))
        except (OSError, IndexError, ValueError):  # a thread that has ended, a kernel without these figures
            continue
    return waited_ns // 1_000_000


def process_state(pid: int) -> str:
    """The kernel's letter for a process: R, S, D, T (stopped), Z (dead, not yet reaped) …; empty if there is none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    return text.rpartition(")")[2].split()[0]


def pid_alive(pid: int) -> bool:
    """Whether a process with this number runs (a zombie does not)."""
    return process_state(pid) not in {"", "Z", "X"}


def _readable(descriptor: int, timeout_ms: int) -> bool:
    poller = select.poll()
    poller.register(descriptor, select.POLLIN)
    return bool(poller.poll(timeout_ms))
