"""The pytest plugin from outside: the same digest with and without workers, and a planted defect turns it red."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from brokerproof.conformance.machines import MODELS
from brokerproof.conformance.requirements.catalogue import default_catalogue

#: The seeds and a part of the corpus.
FEW = ("-k", "test_seeds or live-delay")


def judge(*options: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "no:cacheprovider",
            "-q",
            "--pyargs",
            "brokerproof.conformance",
            *options,
        ],
        cwd=cwd,
        env=os.environ | {"CI": ""},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def digest(output: str) -> str:
    found = re.search(r"verdict digest: (sha256:[0-9a-f]{64})", output)
    assert found is not None, output[-3000:]
    return found.group(1)


def test_workers_do_not_change_the_digest(tmp_path: Path) -> None:
    results = [judge(*FEW, "--brokerproof-programs", "120", "-n", workers, cwd=tmp_path) for workers in ("0", "2")]
    assert [result.returncode for result in results] == [0, 0], results[0].stdout[-3000:]
    assert digest(results[0].stdout) == digest(results[1].stdout)
    assert "satisfied" in results[0].stdout


def test_options_choose_what_is_judged(tmp_path: Path) -> None:
    chosen = (*FEW, "--brokerproof-programs", "60", "--brokerproof-requirement", "DLY-*")
    one, other = judge(*chosen, cwd=tmp_path), judge(*chosen, "--brokerproof-seed", "500", cwd=tmp_path)
    assert one.returncode == other.returncode == 0
    assert digest(one.stdout) != digest(other.stdout)
    line = next(line for line in one.stdout.splitlines() if "satisfied" in line)
    judged = [requirement for requirement in default_catalogue().judged() if requirement.id.startswith("DLY")]
    assert sum(int(number) for number in re.findall(r"\d+", line)) == len(judged)


def test_a_planted_defect_turns_it_red(tmp_path: Path) -> None:
    result = judge(*FEW, "--brokerproof-programs", "50", "--brokerproof-mutant", "delay-1ms-early", cwd=tmp_path)
    assert result.returncode == 1
    assert "DLY-001 (MUST)" in result.stdout
    assert "brokerproof replay --seed" in result.stdout


def test_a_planted_defect_reaches_the_machines(tmp_path: Path) -> None:
    """One item per machine; a failing one saves its program, and the line that it prints replays it."""
    result = judge(
        "-k", "test_machine", "-rA", "--brokerproof-out", "made", "--brokerproof-mutant", "delay-lost", cwd=tmp_path
    )
    assert result.returncode == 1
    assert set(re.findall(r"test_machine\[([a-z-]+)\]", result.stdout)) == set(MODELS)
    assert "test_machine[delay]" in result.stdout.split("short test summary info")[1]
    saved = re.findall(r"^saved: (made/machine-[a-z0-9-]+\.json)$", result.stdout, re.MULTILINE)
    assert {tmp_path / path for path in saved} == set((tmp_path / "made").iterdir())
    lines = re.findall(r"replay: +brokerproof (replay made/.*)$", result.stdout, re.MULTILINE)
    assert len(lines) == len(saved) >= 1
    for line in lines:
        code = f"import sys; from brokerproof.conformance.cli import main; sys.exit(main({shlex.split(line)!r}))"
        assert (
            subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, check=False).returncode == 1
        )


def test_examples_seed_and_requirement_choose_what_machines_try(tmp_path: Path) -> None:
    """Each example adds a run to the digest, the seed makes others, and only machines of wanted promises are items."""
    chosen = ["-k", "test_machine", "--brokerproof-requirement", "DLY-001", "--brokerproof-examples"]
    results = [judge(*chosen, *more, cwd=tmp_path) for more in (["5"], ["6"], ["5", "--brokerproof-seed", "1"])]
    assert [result.returncode for result in results] == [0, 0, 0], results[0].stdout[-3000:]
    assert len({digest(result.stdout) for result in results}) == 3
    assert all("1 passed" in result.stdout for result in results)


@pytest.mark.parametrize("option", ["--brokerproof-requirement", "--brokerproof-mutant"])
def test_nonsense_is_refused(option: str, tmp_path: Path) -> None:
    result = judge("--brokerproof-programs", "1", option, "nonsense", cwd=tmp_path)
    assert result.returncode == pytest.ExitCode.USAGE_ERROR
    assert re.search(r"ERROR: .*'nonsense'.*brokerproof list", result.stderr), result.stdout + result.stderr
