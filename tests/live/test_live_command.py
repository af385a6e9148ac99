"""Commands that start real processes, as a user calls them: what they leave behind, and how they refuse."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from brokerproof.chaos.processes import pid_alive
from tests.tools import at_night

pytestmark = pytest.mark.live

ROOT = Path(__file__).resolve().parents[2]
#: How long children may outlive their runner.
GONE_S = 5.0


def brokerproof(*arguments: str, timeout_s: float = 120) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "brokerproof", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout_s,
    )


@contextmanager
def served(mutant: str) -> Iterator[str]:
    """The URL of a broker that ``serve --mutant`` runs, until the block ends."""
    server = subprocess.Popen(
        [sys.executable, "-m", "brokerproof", "serve", "--port", "0", "--mutant", mutant],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stdout is not None
        yield server.stdout.readline().strip().removeprefix("listening on ")
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(10)


def descendants(pid: int) -> list[int]:
    """Pids of all processes below ``pid``, by the kernel's account."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(entry.name)] = int(fields[1])
    found: list[int] = []
    frontier = [pid]
    while frontier:
        frontier = [child for child, parent in parents.items() if parent in frontier]
        found += frontier
    return found


def wait_until(condition: Callable[[], bool], deadline_s: float) -> bool:
    """Poll a condition; whether it became true in time."""
    end = time.monotonic() + deadline_s
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return condition()


@pytest.mark.parametrize(("tier", "least"), [("live", 4), ("both", 12)])
def test_kill_minus_nine_leaves_nobody(tier: str, least: int, tmp_path: Path) -> None:
    """The runner dies without a word in the middle of a run; five seconds later none of its children lives, neither a
    broker nor a worker that plays seeds.
    """
    with (tmp_path / "log").open("wb") as log:
        runner = subprocess.Popen(
            [sys.executable, "-m", "brokerproof", "run", "--tier", tier, "--out", str(tmp_path / "out")],
            cwd=ROOT,
            stdout=log,
            stderr=log,
        )
        try:
            assert wait_until(lambda: len(descendants(runner.pid)) >= least, 240), (tmp_path / "log").read_text()
            children = descendants(runner.pid)
        finally:
            os.kill(runner.pid, signal.SIGKILL)
            runner.wait()
    assert wait_until(lambda: not any(pid_alive(pid) for pid in children), GONE_S)


@pytest.mark.parametrize("number", at_night([signal.SIGINT, signal.SIGTERM], but=[signal.SIGINT]))
def test_an_interrupted_run_reports_what_was_judged(number: int, tmp_path: Path) -> None:
    words = ["run", "--tier", "live", "--json", "--out", str(tmp_path / "out")]
    with (tmp_path / "log").open("wb") as log, (tmp_path / "cells").open("wb") as told:
        runner = subprocess.Popen([sys.executable, "-m", "brokerproof", *words], cwd=ROOT, stdout=told, stderr=log)
        try:
            # The line that is said every 10 s, once something is judged.
            assert wait_until(lambda: "s left at this pace" in (tmp_path / "log").read_text(), 60)
            children = descendants(runner.pid)
            assert children
            runner.send_signal(number)
            code = runner.wait(60)
        finally:
            runner.kill()
            runner.wait()
    assert "interrupted; the report is of the" in (tmp_path / "log").read_text()
    cells = [json.loads(line) for line in (tmp_path / "cells").read_text().splitlines()]
    seen = {cell["verdict"]["verdict"] for cell in cells}
    assert "satisfied" in seen
    assert code in ({1} if "violated" in seen else {0, 3}), (tmp_path / "log").read_text()
    assert (tmp_path / "out" / "report.json").is_file()
    assert wait_until(lambda: not any(pid_alive(pid) for pid in children), GONE_S)


def test_a_home_folder_without_a_broker_is_refused(tmp_path: Path) -> None:
    done = brokerproof("run", "--broker", "activemq", "--home", str(tmp_path), "--out", str(tmp_path / "out"))
    again = brokerproof("replay", "live-000-1", "--tier", "live", "--broker", "activemq", "--home", str(tmp_path))
    for refused in (done, again):
        assert refused.returncode in {2, 4}
        assert str(tmp_path) in refused.stderr
    assert "Traceback" not in done.stderr


def profile_of(url: str, folder: Path) -> str:
    """A running broker that promises what a STOMP broker does."""
    path = folder / "foreign.toml"
    path.write_text(f'name = "foreign"\n[endpoints]\nstomp = {{ url = "{url}" }}\n', encoding="utf-8")
    return str(path)


def test_replay_live(tmp_path: Path) -> None:
    """A program replays in real processes: on the reference broker, and on a broker that is known by its URL only."""
    program = ROOT / "conformance" / "corpus" / "live-redelivery.json"
    done = brokerproof("replay", str(program), "--tier", "live", "--out", str(tmp_path / "a"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert '"world":"live"' in (tmp_path / "a" / "history.jsonl").read_text().splitlines()[0]
    with served("redelivery-unmarked") as url:
        foreign = profile_of(url, tmp_path)
        done = brokerproof("replay", str(program), "--tier", "live", "--broker", foreign)
        refused = brokerproof("replay", "live-limit", "--tier", "live", "--broker", foreign)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "RDL-002 (MUST)" in done.stdout
    assert refused.returncode == 2
    assert "live-limit cannot be played on foreign" in refused.stderr
    done = brokerproof("replay", str(program), "--broker", "activemq")
    assert done.returncode == 2
    assert "needs --tier live" in done.stderr


def test_another_client_library_plays_the_hosts(tmp_path: Path) -> None:
    words = ("--tier", "live", "--client", "openwire")
    done = brokerproof("replay", "live-redelivery", *words, "--out", str(tmp_path / "a"))
    assert done.returncode == 0, done.stdout + done.stderr
    events = [json.loads(line) for line in (tmp_path / "a" / "history.jsonl").read_text().splitlines()[1:]]
    played = {event["via"] for event in events if event["kind"] == "connect" and event["host"] != "drain"}
    assert played == {"jms"}
    assert any(event["kind"] == "arrive" for event in events)
    for command in (("run", "--client", "openwire"), ("replay", "live-redelivery", "--client", "openwire")):
        refused = brokerproof(*command)
        assert refused.returncode == 2
        assert "add --tier live" in refused.stderr


def test_parity_command() -> None:
    named = ("live-redelivery", "live-in-flight", "live-transacted-sends")
    done = brokerproof("parity", *named, "--programs", "2", "--seed", "11", "--json", timeout_s=200)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["name"] for row in rows] == [*named, "seed-11", "seed-12"]
    other = brokerproof("parity", "live-limit", "--programs", "0", timeout_s=200)
    assert other.returncode == 0, other.stdout + other.stderr
    assert other.stdout.startswith("live-limit: agree")
    wrong = brokerproof("parity", "nonsense", timeout_s=200)
    assert wrong.returncode == 2
    assert "no program 'nonsense' of the corpus can be compared" in wrong.stderr


def test_serve_plants_a_defect(tmp_path: Path) -> None:
    """A served mutant behaves like one: the suite, which is only given its address, finds it."""
    with served("redelivery-unmarked") as url:
        assert url.startswith("stomp://127.0.0.1:")
        words = ("live-redelivery", "--tier", "live", "--broker", profile_of(url, tmp_path), "--requirement", "RDL-002")
        done = brokerproof("replay", *words, "--out", str(tmp_path))
    assert done.returncode == 1, done.stdout + done.stderr
    assert "RDL-002" in done.stdout
