"""``action.yml`` and ``.github/workflows``: they are what GitHub's schemas allow, and their ``run`` steps work, as a
script, on the reference broker. Steps that are somebody else's action are left out.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from brokerproof.chaos.ports import free_port
from brokerproof.conformance.brokers import shipped
from tests.guards.tree import ROOT

pytestmark = [pytest.mark.live, pytest.mark.xdist_group("action")]
ACTION, WORKFLOW = ROOT / "action.yml", ROOT / ".github/workflows/nightly.yml"
DEADLINE_S = 300
#: What would lead a step back to the checkout, or make a missing tool a failure.
FOREIGN = ("PYTHONPATH", "PYTHONHOME", "PYTHONSAFEPATH", "CI")
EXPRESSION = re.compile(r"\$\{\{(.+?)\}\}")


def read(path: Path) -> Any:
    return YAML(typ="safe").load(path)


class Job:
    """A machine that runs the steps of a job as GitHub does: a file each for outputs, paths and the summary."""

    def __init__(self, folder: Path, **context: str) -> None:
        self.folder = folder
        self.context = {"runner.temp": str(folder), "github.action_path": str(ROOT), **context}
        self.summary, self.said = folder / "summary.md", ""
        self.paths = [str(folder)]

    def value(self, text: object) -> str:
        """A text with its expressions worked out: names of the context, quoted words, ``a || b``."""

        def one(found: re.Match[str]) -> str:
            parts = [part.strip() for part in found[1].split("||")]
            return next((word for part in parts if (word := self.word(part))), "")

        return EXPRESSION.sub(one, str(text))

    def word(self, part: str) -> str:
        return part.strip("'") if part.startswith("'") else self.context.get(part, "")

    def wants(self, condition: str) -> bool:
        """Whether a step's ``if`` holds."""
        sides = [part.split("==") for part in condition.split("&&") if part and part != "always()"]
        return all(self.word(left.strip()) == self.word(right.strip()) for left, right in sides)

    def run(self, steps: list[dict[str, Any]]) -> int:
        """Run steps until one fails; the exit code of the last one."""
        for step in steps:
            if step.get("uses") == "./":
                code = self.act(**{name: self.value(given) for name, given in step["with"].items()})
            elif "run" in step and self.wants(step.get("if", "")):
                code = self.shell(step)
            else:
                continue
            if code:
                return code
        return 0

    def act(self, **inputs: str) -> int:
        """Run the action with these inputs."""
        action = read(ACTION)
        assert inputs.keys() <= action["inputs"].keys()
        for name, about in action["inputs"].items():
            self.context[f"inputs.{name}"] = inputs.get(name, about.get("default", ""))
        return self.run(action["runs"]["steps"])

    def shell(self, step: dict[str, Any]) -> int:
        files = {name: self.folder / name for name in ("GITHUB_OUTPUT", "GITHUB_PATH")}
        for path in files.values():
            path.write_text("")
        env = {name: value for name, value in os.environ.items() if name not in FOREIGN}
        env |= {name: self.value(given) for name, given in step.get("env", {}).items()}
        env |= {name: str(path) for name, path in files.items()}
        env |= {"GITHUB_STEP_SUMMARY": str(self.summary), "PATH": os.pathsep.join([*self.paths, env["PATH"]])}
        script = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
        with (self.folder / "log").open("a+") as log:
            process = subprocess.Popen(script, cwd=self.folder, env=env, stdout=log, stderr=log)
            code = process.wait(DEADLINE_S)
            log.seek(0)
            self.said = log.read()
        for line in files["GITHUB_OUTPUT"].read_text().splitlines():
            name, _, value = line.partition("=")
            self.context[f"steps.{step['id']}.outputs.{name}"] = value
        self.paths[:0] = files["GITHUB_PATH"].read_text().split()
        return code


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("job")


@pytest.mark.parametrize(("schema", "path"), [("github-actions", ACTION), ("github-workflows", WORKFLOW)])
def test_files_are_what_the_schemas_allow(schema: str, path: Path) -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}", path]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=DEADLINE_S)
    assert done.returncode == 0, done.stdout


def test_the_matrix_has_every_broker() -> None:
    jobs = read(WORKFLOW)["jobs"]
    had = shipped().keys() - {"reference", "ibm-mq"}  # a queue manager of IBM's is its owner's to start
    assert jobs["broker"]["strategy"]["matrix"]["broker"] == ["reference", *sorted(had)]
    scripts = [shlex.split(step["run"])[0] for step in jobs["ours"]["steps"] if "run" in step]
    assert all(os.access(ROOT / script, os.X_OK) for script in scripts)


@pytest.mark.night
def test_the_workflow_runs(place: Path) -> None:
    job = Job(place, **{"matrix.broker": "reference", "inputs.budget": "40s"})
    steps = read(WORKFLOW)["jobs"]["broker"]["steps"]
    for step in steps:
        if step.get("uses") == "./":
            step["with"]["extras"] = "chaos"  # Java's are hundreds of megabytes; what they bring is tested elsewhere
    assert job.run(steps) == 0, job.said
    assert "Night of" in job.summary.read_text()
    assert (place / "brokerproof-out/badge.svg").exists()
    assert (place / "nights/reference/state.json").exists()


def test_five_lines_test_somebody_elses_broker(place: Path) -> None:
    """Started by a command, compared with an earlier report, told in the pull request."""
    job, port = Job(place, **{"github.event_name": "pull_request", "github.token": "x"}), free_port()
    earlier = ["run", "--tier", "simulated", "--programs", "5", "--requirement", "TSP-*", "--out", "earlier"]
    subprocess.run([sys.executable, "-m", "brokerproof", *earlier], cwd=place, check=True, timeout=DEADLINE_S)
    (place / "gh").write_text('#!/bin/sh\nprintf "%s " "$@" > gh.said\n')
    (place / "gh").chmod(0o755)
    start = f"echo $$ > pid; exec brokerproof serve --port {port}"
    try:
        code = job.act(
            broker=f"stomp://127.0.0.1:{port}",
            start=start,
            budget="25s",
            baseline="earlier",
            out="theirs",
            comment="true",
            extras="",
        )
    finally:
        if (place / "pid").exists():
            os.kill(int((place / "pid").read_text()), signal.SIGTERM)
    assert code == 0, job.said
    assert "pr comment" in (place / "gh.said").read_text()
    comment = (place / "theirs/comment.md").read_text()
    assert "Night of" in comment
    assert "reference →" in comment


def test_a_broker_that_does_not_start_is_said(place: Path) -> None:
    job = Job(place)
    steps = {step["name"]: step for step in read(ACTION)["runs"]["steps"]}
    job.context |= {"inputs.broker": f"stomp://127.0.0.1:{free_port()}", "inputs.start": "echo no such broker; exit 7"}
    hurried = {**steps["Start the broker"], "run": steps["Start the broker"]["run"].replace("seq 120", "seq 2")}
    assert job.shell(hurried) == 1
    assert "nobody answers" in job.said
    assert "no such broker" in job.said
