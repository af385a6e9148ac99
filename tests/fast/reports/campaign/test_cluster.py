"""How a cluster is reached: settings, and what cannot be reached."""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from brokerproof.conformance.experiment.exits import UsageError
from brokerproof.reports.campaign import cluster, worker
from brokerproof.reports.campaign.cluster import FIRST_S, GRACE_S, HEARD_S, Reach, SparkFailedError, parse_conf
from brokerproof.reports.campaign.worker import check_code

HERE = Reach("spark://127.0.0.1:1", driver_host="10.0.0.7")


def test_one_machine_needs_no_more_than_what_is_given() -> None:
    reach = Reach("local[2]", {"spark.driver.memory": "2g"})
    assert reach.settings() == {"spark.driver.memory": "2g"}
    assert reach.python == sys.executable


def test_executors_are_told_where_the_driver_is() -> None:
    told = HERE.settings()
    assert told["spark.driver.host"] == told["spark.driver.bindAddress"] == "10.0.0.7"
    assert "spark.archives" not in told
    own = Reach(HERE.master, {"spark.network.timeout": "60s"}, HERE.driver_host).settings()
    assert own["spark.network.timeout"] == "60s", "what is given wins"


def test_the_driver_is_where_the_master_is_reached_from() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        reach = Reach(f"spark://127.0.0.1:{server.getsockname()[1]}")
        assert reach.settings()["spark.driver.host"] == "127.0.0.1"
    with pytest.raises(SparkFailedError, match="no Spark master answers at"):
        reach.settings()


def test_an_archive_is_where_executors_find_their_packages() -> None:
    reach = Reach(HERE.master, driver_host="h", archives=("environment.tar.gz", "more.zip#more"))
    told = reach.settings()
    assert told["spark.archives"] == "environment.tar.gz#environment,more.zip#more"
    assert told["spark.executorEnv.PYTHONPATH"] == "environment"
    assert reach.python == f"python{sys.version_info.major}.{sys.version_info.minor}"
    named = Reach(HERE.master, {"spark.pyspark.python": "environment/bin/python"}, "h", ("environment.tar.gz",))
    assert named.python == "environment/bin/python"


def test_settings_of_spark_are_pairs() -> None:
    assert parse_conf(["spark.a=b=c"]) == {"spark.a": "b=c"}
    for wrong in ("spark.a", "executor.memory=1g"):
        with pytest.raises(UsageError, match="give a setting of Spark"):
            parse_conf([wrong])


def test_who_waits_hears_within_30_s() -> None:
    assert HEARD_S + GRACE_S + 3 < 30
    assert FIRST_S < 30


class Session:
    """Spark with so many executors at each look."""

    def __init__(self, counts: Callable[[], int]) -> None:
        def size() -> int:
            return counts() + 1

        found = SimpleNamespace(getExecutorMemoryStatus=lambda: SimpleNamespace(size=size))
        self.cancelled = False
        self.sparkContext = SimpleNamespace(_jsc=SimpleNamespace(sc=lambda: found), cancelAllJobs=self._cancel)

    def _cancel(self) -> None:
        self.cancelled = True


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hundredths of a second where there were seconds."""
    for name, value in (("LOOK_S", 0.002), ("GRACE_S", 0.01), ("FIRST_S", 0.01)):
        monkeypatch.setattr(cluster, name, value)


def work(session: Any) -> None:
    """Until it is cancelled."""
    while not session.cancelled:
        pass
    raise RuntimeError("job cancelled")


@pytest.mark.usefixtures("quick")
def test_silence_cancels_what_is_waited_for_and_says_why() -> None:
    left = iter([2, 2])
    session: Any = Session(lambda: next(left, 0))
    with (
        pytest.raises(SparkFailedError, match=r"no executor is left \(spark://.*as 10.0.0.7 \(--driver-host\)"),
        cluster.listened_to(session, HERE),
    ):
        work(session)


@pytest.mark.usefixtures("quick")
def test_nobody_who_comes_is_an_error_too() -> None:
    with (
        pytest.raises(SparkFailedError, match="no executor has come within"),
        cluster.listened_to(Session(lambda: 0), HERE),
    ):
        pytest.fail("unreachable")


@pytest.mark.usefixtures("quick")
def test_an_error_of_another_cause_stays_itself() -> None:
    with pytest.raises(RuntimeError, match="another"), cluster.listened_to(Session(lambda: 2), HERE):
        raise RuntimeError("another")


def test_an_executor_with_other_code_is_refused() -> None:
    check_code(worker._code_here())
    with pytest.raises(SparkFailedError, match="other code than the driver"):
        check_code("sha256:0")
