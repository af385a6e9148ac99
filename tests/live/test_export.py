"""Exported files against real processes: what they assert fails where the broker deviates, and only there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from brokerproof.chaos.brokers.jars import obtain
from brokerproof.chaos.tools import ToolFailed, ToolMissing, cache_folder, find_java, maven_copy
from brokerproof.conformance.cli import main
from brokerproof.conformance.experiment.exits import OK
from tests.live.served import Server
from tests.tools import not_run

pytestmark = pytest.mark.live
SERVE = "brokerproof.conformance.commands.serve"


@pytest.mark.parametrize(
    ("program", "requirement", "mutant"),
    [
        ("live-delay-ttl", "DLY-006", "delay-restarts-life"),
        ("live-returns-twice", "RDL-005", "returns-reversed"),
        ("live-durable", "GEN-042", "durable-forgets-marks"),
    ],
)
@pytest.mark.parametrize("form", ["pytest", "stomp"])
def test_a_file_fails_with_the_defect_and_passes_without(
    program: str, requirement: str, mutant: str, form: str, tmp_path: Path
) -> None:
    path = tmp_path / "test_reproducer.py"
    assert main(["export", program, "--as", form, "--requirement", requirement, "--out", str(path)]) == OK
    for argv, code in (([], 0), (["--mutant", mutant], 1)):
        server = Server(*argv, module=SERVE)
        try:
            address = f"127.0.0.1:{server.port}"
            command = (
                ["-m", "pytest", "-q", "-p", "no:brokerproof", str(path)] if form == "pytest" else [str(path), address]
            )
            done = subprocess.run(
                [sys.executable, *command],
                env={"PATH": os.environ["PATH"], "BROKER": address},  # nothing of ours is on the path
                cwd=tmp_path,
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
        finally:
            server.stop()
        assert done.returncode == code, done.stdout + done.stderr
        assert ("Error" in done.stdout + done.stderr or "NOT SO" in done.stderr) == bool(code)


def test_the_junit_test_fails_on_activemq_with_what_is_known(tmp_path: Path) -> None:
    name = "ReplayLiveDelayTtlTest"
    path = tmp_path / f"{name}.java"
    assert main(["export", "live-delay-ttl", "--as", "junit", "--broker", "activemq", "--out", str(path)]) == OK
    compiler = shutil.which("javac")
    if compiler is None:
        not_run("javac is not installed; apt-get install default-jdk-headless")
    try:
        junit = [
            maven_copy(one, cache_folder("jars")) for one in ("junit:junit:4.13.2", "org.hamcrest:hamcrest-core:1.3")
        ]
        java = find_java()
        jars = os.pathsep.join(map(str, [*obtain().class_path, *junit, tmp_path]))
    except (ToolMissing, ToolFailed) as error:
        not_run(str(error))
    subprocess.run([compiler, "-cp", jars, "-d", str(tmp_path), str(path)], check=True, timeout=120)
    done = subprocess.run(
        [java, "-cp", jars, "org.junit.runner.JUnitCore", name],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "AssertionError: p0/1 arrives with the expires that it was sent with" in done.stdout, (
        done.stdout + done.stderr
    )
