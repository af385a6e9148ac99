"""The Spark session: quiet, on the loopback only (unless it is a cluster's), without leftovers.

Decides: every setting of Spark. Reasons are measured ones (a task in Python costs 6.5 ms with the Unix domain socket
option and 26 ms without).

Rules:

* A session is a context: at its end the JVM is gone, not only the session, and so is its temporary folder (warehouse,
  shuffle files, logs, shim).
* The JVM watches its standard input, so it ends by itself when this process is killed.
* Spark prints nothing: what the JVM and its Python workers write goes to a file in that folder, and the end of it into
  the message where something fails. So stdout stays clean for ``--json``, and a worker that loses a race at the end of
  a session frightens nobody. The web page is off; every listener is on 127.0.0.1.
* The environment that the JVM needs (``JAVA_HOME`` and the like) is set while it starts and put back afterwards.
* A missing tool is a typed error with its remedy (exit code 4).
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct

from brokerproof.reports.campaign.cluster import Reach, SparkFailedError, listened_to
from brokerproof.reports.campaign.java import find_java, shim


class Profile(Struct, eq=False):
    """Settings that depend on how much there is to do: options of the JVM, and of Spark SQL."""

    java_options: str
    settings: dict[str, str]


#: Tests and short campaigns. The first compiler only needs a third of the CPU time at the start; its default cache for
#: compiled code (48 MiB) is full after a minute of queries, and then nothing is compiled any more. Without adaptive
#: execution a query of forty stages is one job instead of forty.
QUICK = Profile(
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=256m",
    {"spark.sql.adaptive.enabled": "false", "spark.sql.shuffle.partitions": "2"},
)
#: Millions of events: windows are two to three times slower without the second compiler.
LONG = Profile("-XX:+UseParallelGC", {"spark.sql.shuffle.partitions": "8"})
JVM_END_S = 10
LOG = "spark.log"
LOG_LINES = 3
#: A Unix domain socket's path holds 107 bytes, Spark's file names need 43. In a deeper folder Spark gets slower TCP.
SOCKET_FOLDER_BYTES = 60

LOG4J = """\
status = error
rootLogger.level = error
rootLogger.appenderRef.console.ref = console
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n
"""


class SparkMissingError(Exception):
    """pyspark or what it needs is not installed. The text names it and the remedy."""

    exit_code = 4


@contextlib.contextmanager
def spark_session(reach: Reach, profile: Profile = QUICK) -> Iterator[Any]:
    """A ``SparkSession`` for ``with``. Raises ``SparkMissingError``, ``JavaMissingError`` or ``SparkFailedError``."""
    for name in ("pyspark", "pyarrow", "pandas"):
        if importlib.util.find_spec(name) is None:
            raise SparkMissingError(f"the Python package {name!r} is missing; pip install 'brokerproof[spark]'")
    java = find_java()
    with tempfile.TemporaryDirectory(prefix="brokerproof-spark-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        settings = _settings(folder, profile, reach)
        with _environment(shim(java, folder), reach.python, settings["spark.driver.host"]), _output_to(folder / LOG):
            session = _start(reach.master, folder, settings)
        try:
            with listened_to(session, reach):
                yield session
        finally:
            _stop(session)


def _start(master: str, folder: Path, settings: dict[str, str]) -> Any:
    from pyspark.sql import SparkSession  # an extra, and slow to import

    builder = SparkSession.builder.appName("brokerproof").master(master)
    for key, value in settings.items():
        builder = builder.config(key, value)
    try:
        return builder.getOrCreate()
    except Exception as error:  # py4j, pyspark and the system have no base in common
        _end_gateway()
        reason = f"{_first_line(error)}{_told(folder / LOG)}"
        raise SparkFailedError(f"Spark does not start on {master!r}: {reason}") from error


def _settings(folder: Path, profile: Profile, reach: Reach) -> dict[str, str]:
    log4j = folder / "log4j2.properties"
    log4j.write_text(LOG4J, encoding="utf-8")
    short = len(os.fsencode(folder)) <= SOCKET_FOLDER_BYTES
    java_options = [
        f"-Dlog4j2.configurationFile={log4j.as_uri()}",
        f"-Djava.io.tmpdir={folder}",
        f"-Dderby.system.home={folder}",
        "-Duser.timezone=UTC",
        profile.java_options,
    ]
    return {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": " ".join(java_options),
        "spark.local.dir": str(folder / "local"),
        "spark.python.unix.domain.socket.enabled": str(short).lower(),
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.session.timeZone": "UTC",
        # Files are named one by one, and there are up to thousands: no job to look for them.
        "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        **profile.settings,
        **reach.settings(),
    }


@contextlib.contextmanager
def _environment(home: Path, python: str, driver_host: str) -> Iterator[None]:
    wanted = {
        "JAVA_HOME": str(home),
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYSPARK_PYTHON": python,
        "SPARK_LOCAL_IP": driver_host,
    }
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextlib.contextmanager
def _output_to(log: Path) -> Iterator[None]:
    """What is started meanwhile writes its stdout and stderr to ``log``."""
    sys.stdout.flush()
    sys.stderr.flush()
    before = {stream: os.dup(stream) for stream in (1, 2)}
    with log.open("ab") as file:
        for stream in before:
            os.dup2(file.fileno(), stream)
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for stream, copy in before.items():
            os.dup2(copy, stream)
            os.close(copy)


def _told(log: Path) -> str:
    """The end of what the JVM wrote, for an error message; "" where it wrote nothing."""
    lines = [line.strip() for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    return f"; Spark wrote: {' | '.join(lines[-LOG_LINES:])}" if lines else ""


def _stop(session: Any) -> None:
    # A dead JVM must not hide the error that killed it.
    with contextlib.suppress(Exception):
        session.stop()
    _end_gateway()


def _end_gateway() -> None:
    """End the JVM: ``stop`` leaves it running until this process ends.

    Uses pyspark's own attributes; a test notices when they change.
    """
    from pyspark import SparkContext  # an extra, and slow to import

    gateway = SparkContext._gateway
    if gateway is None:
        return
    SparkContext._gateway = None
    SparkContext._jvm = None
    with contextlib.suppress(Exception):
        gateway.shutdown()
    process: subprocess.Popen[bytes] | None = getattr(gateway, "proc", None)
    if process is None:
        return
    if process.stdin is not None:
        process.stdin.close()
    try:
        process.wait(JVM_END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
