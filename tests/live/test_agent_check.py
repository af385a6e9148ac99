"""``brokerproof agent check``: an honest agent passes, every lie is seen through."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from brokerproof.conformance.brokers import make_adapter
from brokerproof.conformance.cli import main
from brokerproof.conformance.experiment.exits import OK, USAGE, VIOLATED
from brokerproof.conformance.worlds.live.examining import Examination
from brokerproof.conformance.worlds.live.laboratory import Laboratory

pytestmark = pytest.mark.live
LIAR = Path(__file__).parent / "lying_agent.py"
ROOT = Path(__file__).parents[2]
HONEST = [sys.executable, "-m", "brokerproof.conformance.agents.stomp_agent"]
#: Lie -> the claims that expose it.
EXPOSED = {
    "swallows": {"arrivals"},
    "moves-times": {"refusals"},
    "arrives-early": {"arrivals"},
    "invents-timestamps": {"arrivals"},
    "invents-expirations": {"stamps"},
    "hides-refusals": {"refusals"},
    "hides-refused-sends": {"refused sends"},
    "hides-the-end": {"lost connection"},
    "tells-twice": {"arrivals"},
    "tells-another-clock": {"refusals"},
    "settles": {"window", "settlements"},
    "forgets-acknowledgements": {"settlements"},
}


@pytest.fixture(scope="module")
def laboratory() -> Iterator[Laboratory]:
    with Laboratory() as place:
        yield place


def wrong(laboratory: Laboratory, words: list[str], claims: set[str]) -> set[str]:
    """Which of these claims are found to be wrong."""
    with contextlib.closing(Examination(laboratory, make_adapter(), words)) as examination:
        return {proof.line for proof in examination.run(claims) if proof.state == "wrong"}


@pytest.mark.parametrize("lie", EXPOSED)
def test_a_lie_is_seen_through(laboratory: Laboratory, lie: str) -> None:
    assert wrong(laboratory, [sys.executable, str(LIAR), lie], EXPOSED[lie]) == EXPOSED[lie]


def test_an_honest_agent_passes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["agent", "check", *HONEST]) == OK
    said = capsys.readouterr().out
    assert said.count("ok ") == 11, said
    assert main(["agent", "check", "--via", "jms", *HONEST[:-1], "brokerproof.conformance.agents.openwire_agent"]) == OK


def test_what_is_no_agent_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["agent", "check", "/no/such/agent"]) == USAGE
    assert "'/no/such/agent' is no program" in capsys.readouterr().err
    assert main(["agent", "check"]) == USAGE
    assert main(["agent", "check", "--broker", "nobody", sys.executable]) == USAGE
    assert main(["agent", "check", sys.executable, "-c", "print('hello')"]) == VIOLATED
    assert "wrote neither a reply nor an event" in capsys.readouterr().out


def test_the_template_in_javascript_passes(capsys: pytest.CaptureFixture[str]) -> None:
    if shutil.which("node") is None:
        pytest.skip("Node is not there (20.15 or newer)")
    assert main(["agent", "check", "node", str(ROOT / "docs/agents/agent.js")]) == OK
    assert capsys.readouterr().out.count("ok ") == 11


def test_the_template_in_java_passes(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    if shutil.which("java") is None or shutil.which("javac") is None:
        pytest.skip("a JDK is not there (17 or newer)")
    subprocess.run(["javac", "-d", tmp_path, ROOT / "docs/agents/Agent.java"], check=True, timeout=120)
    assert main(["agent", "check", "java", "-XX:TieredStopAtLevel=1", "-cp", str(tmp_path), "Agent"]) == OK
    assert capsys.readouterr().out.count("ok ") == 11


def test_the_template_in_go_passes(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    if shutil.which("go") is None or shutil.which("cc") is None:
        pytest.skip("Go, or the C compiler that it needs for libc's clock, is not there")
    agent = tmp_path / "agent"
    subprocess.run(["go", "build", "-o", agent, ROOT / "docs/agents/agent.go"], check=True, cwd=tmp_path, timeout=120)
    assert main(["agent", "check", str(agent)]) == OK
    assert capsys.readouterr().out.count("ok ") == 11
