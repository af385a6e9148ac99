"""A cluster instead of this machine: its settings, and when its executors count as silent.

Rules:

* Executors reach the driver at ``driver_host``: the address of this machine from which the master is reached, unless
  another one is given.
* Their Python is this one's path, or with archives the same version's on their PATH, which finds its packages in the
  first archive, unpacked beside it. ``spark.pyspark.python`` says otherwise.
* A silent executor is lost after ``HEARD_S``, and Spark has the others do its work. When none has been there for
  ``GRACE_S`` more, whatever was asked of them is cancelled: who waits hears within 30 s of the last sign of life.
"""

from __future__ import annotations

import contextlib
import socket
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import msgspec

from brokerproof.conformance.experiment.exits import UsageError

#: Together below 30 s, with the time between two looks.
HEARD_S, GRACE_S = 14, 11
LOOK_S = 1.0
#: From its registration on, an application waits for its first executor.
FIRST_S = 28
ASK_S = 5
FOLDER = "environment"


class SparkFailedError(Exception):
    """Spark did not start or did not do its work. The text shows the reason that Spark gave."""

    exit_code = 4


class Reach(msgspec.Struct, frozen=True):
    """How Spark is reached: ``conf`` are settings of its own, which win; ``archives`` go to the executors."""

    master: str
    conf: dict[str, str] = {}
    driver_host: str = ""
    archives: tuple[str, ...] = ()

    @property
    def local(self) -> bool:
        """Whether this machine does all the work."""
        return not self.master.startswith("spark://")

    def settings(self) -> dict[str, str]:
        """What a cluster needs beyond the settings of one machine, and ``conf``."""
        if self.local:
            return dict(self.conf)
        host = self.driver_host or _own_address(self.master)
        found = {
            "spark.driver.host": host,
            "spark.driver.bindAddress": host,
            "spark.executor.heartbeatInterval": "2s",
            "spark.network.timeout": f"{HEARD_S}s",
            "spark.network.timeoutInterval": "2s",
            "spark.storage.blockManagerHeartbeatTimeoutMs": f"{HEARD_S}s",
        }
        if self.archives:
            found["spark.archives"] = ",".join(
                name if "#" in name or place else f"{name}#{FOLDER}" for place, name in enumerate(self.archives)
            )
            found["spark.executorEnv.PYTHONPATH"] = FOLDER
        return found | self.conf

    @property
    def python(self) -> str:
        """The Python of the executors."""
        with_archives = "python{}.{}".format(*sys.version_info) if self.archives else sys.executable
        return self.conf.get("spark.pyspark.python", with_archives)


def parse_conf(given: list[str]) -> dict[str, str]:
    """``NAME=VALUE`` each. Raises ``UsageError``."""
    pairs = [text.partition("=") for text in given]
    for name, equals, _ in pairs:
        if not equals or not name.startswith("spark."):
            raise UsageError(f"--conf is {name + equals!r}; give a setting of Spark, such as spark.executor.memory=2g")
    return {name: value for name, _, value in pairs}


@contextlib.contextmanager
def listened_to(session: Any, reach: Reach) -> Iterator[None]:
    """Raises ``SparkFailedError`` when executors of a cluster stay silent."""
    if reach.local:
        yield
        return
    _wait_for_one(session, reach)
    watch = _Watch(session)
    try:
        yield
    except Exception as error:
        if watch.silent:
            raise SparkFailedError(_silence(reach, "no executor is left")) from error
        raise
    finally:
        watch.end()


def _wait_for_one(session: Any, reach: Reach) -> None:
    end = time.monotonic() + FIRST_S
    while not _executors(session):
        if time.monotonic() > end:
            raise SparkFailedError(_silence(reach, f"no executor has come within {FIRST_S} s"))
        time.sleep(LOOK_S / 4)


class _Watch:
    """Cancels all jobs while no executor is there."""

    def __init__(self, session: Any) -> None:
        self.silent = False
        self._session = session
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def end(self) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        seen = time.monotonic()
        with contextlib.suppress(Exception):  # a JVM that is gone tells whoever waits for it
            while not self._over.wait(LOOK_S):
                now = time.monotonic()
                if _executors(self._session):
                    seen = now
                elif now - seen > GRACE_S:
                    self.silent = True
                    self._session.sparkContext.cancelAllJobs()


def _executors(session: Any) -> int:
    """How many are there, the driver left out; uses Spark's own objects, which pyspark does not show."""
    known: int = session.sparkContext._jsc.sc().getExecutorMemoryStatus().size()
    return known - 1


def _silence(reach: Reach, what: str) -> str:
    host = reach.settings()["spark.driver.host"]
    return (
        f"{what} ({reach.master}); are workers there with free cores and memory (--conf spark.executor.memory=…), "
        f"and do they reach this machine as {host} (--driver-host)? Their logs say more"
    )


def _own_address(master: str) -> str:
    """The address of this machine from which the master is reached. Raises ``SparkFailedError`` if it is not."""
    host, _, port = master.split(",", maxsplit=1)[0].removeprefix("spark://").rpartition(":")
    try:
        with socket.create_connection((host, int(port)), ASK_S) as connection:
            found: str = connection.getsockname()[0]
            return found
    except OSError as error:
        raise SparkFailedError(f"no Spark master answers at {master} ({error}); start it, or see --master") from None
