"""Campaigns on a standalone cluster: whatever becomes of its hosts, the digest is that of one process, or an error says
what is missing.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from brokerproof.conformance.experiment.exits import INCONCLUSIVE, OK, SUITE
from brokerproof.conformance.experiment.results import verdict_digest
from brokerproof.conformance.running.engine import run_seed
from brokerproof.reports.campaign.java import JavaMissingError, find_java
from tests.tools import not_run

pytestmark = [pytest.mark.live, pytest.mark.night, pytest.mark.xdist_group("spark")]

pytest.importorskip("pyspark", reason="extra 'spark'")

from tests.live.spark_cluster import Cluster, can_have_hosts, cluster  # noqa: E402 - needs pyspark

SEED, PROGRAMS, DEADLINE_S = 50, 120, 300
SMALL = ["--conf", "spark.executor.memory=600m"]


@pytest.fixture(params=["loopback", "two hosts"])
def running(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cluster]:
    """Two workers."""
    try:
        find_java()
    except JavaMissingError as error:
        not_run(str(error))
    apart = request.param == "two hosts"
    if apart and not can_have_hosts():
        pytest.skip("this user may make no network namespaces")
    with cluster(tmp_path, two_hosts=apart) as found:
        yield found


def start(running: Cluster, programs: int, *argv: str) -> subprocess.Popen[str]:
    """A campaign on the cluster."""
    places = ["--out", str(running.folder / "out"), "--store", str(running.folder / "store")]
    size = ["--seed", str(SEED), "--programs", str(programs), "--json", "--master", running.url]
    words = [*running.here, sys.executable, "-m", "brokerproof", "campaign", *places, *size, *SMALL, *argv]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=running.folder)


def digest(programs: int) -> str:
    """Of the same seeds, run here."""
    rows = ((r.run, r.program.digest(), r.verdicts) for r in map(run_seed, range(SEED, SEED + programs)))
    return verdict_digest(rows)


def wait_for_parts(running: Cluster, count: int, process: subprocess.Popen[str]) -> None:
    """Until so many are made."""
    end = time.monotonic() + DEADLINE_S
    while len(list(running.folder.glob("store/manifests/*/part-*.json"))) < count:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.1)  # other processes write these files


def test_speculation_and_a_lost_worker_do_not_change_the_digest(running: Cluster) -> None:
    process = start(running, 750, "--conf", "spark.speculation=true", "--conf", "spark.speculation.quantile=0.1")
    wait_for_parts(running, 1, process)
    running.signal(running.workers[1], signal.SIGKILL)
    out, errors = process.communicate(timeout=DEADLINE_S)
    assert process.returncode in {OK, INCONCLUSIVE}, errors
    assert json.loads(out)["verdict_digest"] == digest(750)
    assert errors == ""


def test_silent_executors_end_in_an_error(running: Cluster) -> None:
    """All of them stand still, as after a power cut: nothing is closed, nobody is told."""
    process = start(running, 20_000)
    wait_for_parts(running, 1, process)
    for worker in running.workers:
        running.signal(worker, signal.SIGSTOP)
    began = time.monotonic()
    _, errors = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == SUITE
    assert time.monotonic() - began < 35, "30 s, and the end of a session"
    assert "no executor is left" in errors
    assert f"as {running.addresses[0]} (--driver-host)" in errors
    assert "what was done is kept: --resume" in errors
    assert errors.count("\n") == 1, errors


def test_executors_that_cannot_come_end_in_an_error(running: Cluster) -> None:
    process = start(running, PROGRAMS, "--conf", "spark.executor.memory=9g")
    began = time.monotonic()
    _, errors = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == SUITE
    assert time.monotonic() - began < 60, "Spark's own start is not counted"
    assert "no executor has come within" in errors
