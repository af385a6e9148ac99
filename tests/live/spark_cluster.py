"""A standalone cluster of Spark for tests: a master and two workers on the loopback, or on two hosts.

The two hosts are network namespaces joined by a cable; the second one has a worker and nothing else. They need root and
``ip``.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pyspark

from brokerproof.reports.campaign.java import find_java, shim

DEADLINE_S = 180
DEPLOY = "org.apache.spark.deploy"


class Cluster:
    """Running: ``url`` is its master, ``here`` the words before a command that runs where the driver is."""

    def __init__(self, folder: Path, here: Sequence[str], there: Sequence[str], addresses: tuple[str, str]) -> None:
        self.here, self.addresses = list(here), addresses
        self.folder = folder
        self._java = shim(find_java(), folder)
        self._there = list(there)
        self._started: list[subprocess.Popen[bytes]] = []
        self.workers: list[subprocess.Popen[bytes]] = []
        self.url = ""

    def open(self) -> None:
        """Start master and workers."""
        host, folder = self.addresses[0], self.folder
        self._start("master", self.here, host, f"{DEPLOY}.master.Master", "--host", host, "--port", "0")
        self.url = self._told("master", r"Starting Spark master at (spark://\S+)")
        self.workers = [
            self._start(
                f"worker-{place}", prefix, address, f"{DEPLOY}.worker.Worker", "--host", address, "--cores", "1",
                "--memory", "1500m", "--work-dir", str(folder / f"work-{place}"), self.url,
            )
            for place, (prefix, address) in enumerate(zip((self.here, self._there), self.addresses, strict=True))
        ]  # fmt: skip
        for place in range(2):
            self._told(f"worker-{place}", "(Successfully registered)")

    def _start(self, name: str, prefix: Sequence[str], address: str, *words: str) -> subprocess.Popen[bytes]:
        home = Path(pyspark.__file__).parent
        environment = {
            **os.environ,
            "SPARK_HOME": str(home),
            "JAVA_HOME": str(self._java),
            "SPARK_LOCAL_IP": address,
            "SPARK_DAEMON_MEMORY": "256m",
        }
        with (self.folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                [*prefix, str(home / "bin/spark-class"), *words, "--webui-port", "0"],
                stdout=log, stderr=log, env=environment, start_new_session=True,
            )  # fmt: skip
        self._started.append(process)
        return process

    def log(self, name: str) -> str:
        """What the master or a worker wrote."""
        return (self.folder / f"{name}.log").read_text(encoding="utf-8", errors="replace")

    def _told(self, name: str, pattern: str) -> str:
        end = time.monotonic() + DEADLINE_S
        while time.monotonic() < end:
            found = re.search(pattern, self.log(name))
            if found:
                return found[1]
            time.sleep(0.1)  # another process writes that file
        raise AssertionError(self.log(name))

    def signal(self, process: subprocess.Popen[bytes], which: signal.Signals) -> None:
        """To a worker with its executors, or to the master."""
        for pid in (process.pid, *self._executors(process)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, which)

    def _executors(self, process: subprocess.Popen[bytes]) -> list[int]:
        """Of a worker: those that work in its folder."""
        folder = f"{self.folder}/work-{self.workers.index(process)}/" if process in self.workers else "/-"
        found = []
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if entry.name.isdigit() and os.readlink(entry / "cwd").startswith(folder):  # noqa: PTH115 - may vanish
                    found.append(int(entry.name))
        return found

    def close(self) -> None:
        """End everything."""
        for process in reversed(self._started):
            self.signal(process, signal.SIGKILL)
            process.wait()


@contextlib.contextmanager
def cluster(folder: Path, *, two_hosts: bool = False) -> Iterator[Cluster]:
    """Running meanwhile."""
    with contextlib.ExitStack() as stack:
        here, there, addresses = stack.enter_context(_two_hosts()) if two_hosts else ([], [], ("127.0.0.1",) * 2)
        found = Cluster(folder, here, there, addresses)
        stack.callback(found.close)
        found.open()
        yield found


def can_have_hosts() -> bool:
    """Whether this user may make network namespaces."""
    if shutil.which("ip") is None:
        return False
    with contextlib.suppress(subprocess.CalledProcessError), _two_hosts():
        return True
    return False


@contextlib.contextmanager
def _two_hosts() -> Iterator[tuple[list[str], list[str], tuple[str, str]]]:
    names = [f"bp{os.getpid()}{end}" for end in "ab"]
    addresses = ("10.77.0.1", "10.77.0.2")
    run: Callable[..., object] = lambda *words: subprocess.run(["ip", *words], check=True, capture_output=True)  # noqa: E731
    with contextlib.ExitStack() as stack:
        for name in names:
            run("netns", "add", name)
            stack.callback(run, "netns", "del", name)
        ends = [f"v{name}" for name in names]
        run("link", "add", ends[0], "netns", names[0], "type", "veth", "peer", "name", ends[1], "netns", names[1])
        for name, end, address in zip(names, ends, addresses, strict=True):
            run("-n", name, "addr", "add", f"{address}/24", "dev", end)
            run("-n", name, "link", "set", end, "up")
            run("-n", name, "link", "set", "lo", "up")
        here, there = (["ip", "netns", "exec", name] for name in names)
        yield here, there, addresses
