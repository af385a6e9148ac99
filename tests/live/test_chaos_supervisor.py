"""The supervisor with real processes: nothing outlives the runner, whatever way it goes."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from brokerproof.chaos import processes
from brokerproof.chaos.channels import ChannelClosed, ChannelTimeout
from brokerproof.chaos.clocks import ClockFile, clock_environment
from brokerproof.chaos.processes import (
    NotReady,
    Process,
    ProcessDiedAtStart,
    Supervisor,
    SupervisorGone,
    pid_alive,
    process_state,
    waited_for_processor_ms,
)
from tests.live.bench import need_clocks

pytestmark = pytest.mark.live
# A shell that ignores SIGTERM, with one child in its group and one that left it; all of them sleep for long.
STUBBORN = "trap '' TERM; setsid sh -c 'trap \"\" TERM; echo $$; sleep 600; :' & echo $$; sleep 600 & echo $!; wait; :"
# A runner with a paused child and a stubborn tree. It also forks a helper, which keeps the socket open after its death.
RUNNER = f"""
import os, sys, time
from pathlib import Path
from brokerproof.chaos.processes import Supervisor
supervisor = Supervisor(Path(sys.argv[1]))
paused = supervisor.spawn("cat", ["cat"], channel=True)
paused.pause()
tree = supervisor.spawn("tree", ["sh", "-c", {STUBBORN!r}])
while tree.log_tail().count("\\n") < 3:
    time.sleep(0.005)
if os.fork() == 0:
    os.close(1)
    time.sleep(6)
    os._exit(0)
print(supervisor.pid, paused.pid, tree.log_tail().replace("\\n", " "), flush=True)
time.sleep(600)
"""


@pytest.fixture
def supervisor(tmp_path: Path) -> Iterator[Supervisor]:
    with Supervisor(tmp_path) as made:
        yield made


def _await_all_dead(pids: list[int], timeout_s: float) -> float:
    begun = time.monotonic()
    while any(map(pid_alive, pids)):
        assert time.monotonic() - begun < timeout_s, [pid for pid in pids if pid_alive(pid)]
        time.sleep(0.002)
    return time.monotonic() - begun


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_runner_leaves_no_child_after_5_s(tmp_path: Path, end: int) -> None:
    argv = [sys.executable, "-c", RUNNER, str(tmp_path)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as runner:
        assert runner.stdout is not None
        pids = [int(word) for word in runner.stdout.readline().split()]
        assert len(pids) == 5
        assert all(map(pid_alive, pids))
        runner.send_signal(end)
        assert _await_all_dead(pids, timeout_s=5) < 5


def test_a_killed_supervisor_takes_its_children_with_it_and_the_runner_is_told(tmp_path: Path) -> None:
    supervisor = Supervisor(tmp_path)
    child = supervisor.spawn("sleep", ["sleep", "600"])
    os.kill(supervisor.pid, signal.SIGKILL)
    _await_all_dead([child.pid], timeout_s=5)
    with pytest.raises(SupervisorGone):
        supervisor.spawn("late", ["true"])
    supervisor.close()
    assert child.poll() == -signal.SIGKILL


def test_leaving_the_supervisor_ends_a_stubborn_tree(tmp_path: Path) -> None:
    with Supervisor(tmp_path) as supervisor:
        tree = supervisor.spawn("tree", ["sh", "-c", STUBBORN])
        pids = [int(word) for word in tree.await_ready(lambda: _three_lines(tree.log_tail())).split()]
        assert all(map(pid_alive, pids))
        own = supervisor.pid
    assert not any(map(pid_alive, [*pids, own]))
    assert tree.poll() == -signal.SIGKILL


def test_when_a_leader_dies_the_rest_of_its_group_dies_too(supervisor: Supervisor) -> None:
    tree = supervisor.spawn("tree", ["sh", "-c", "sleep 600 & echo $!; echo; echo; wait"])
    member = int(tree.await_ready(lambda: _three_lines(tree.log_tail())).split()[0])
    os.kill(tree.pid, signal.SIGKILL)  # not through the supervisor: as a crash would be
    assert tree.wait(2000) == -signal.SIGKILL
    _await_all_dead([member], timeout_s=2)


def test_a_kill_reaches_those_who_left_the_group(supervisor: Supervisor) -> None:
    tree = supervisor.spawn("tree", ["sh", "-c", STUBBORN])
    pids = [int(word) for word in tree.await_ready(lambda: _three_lines(tree.log_tail())).split()]
    assert tree.kill() == -signal.SIGKILL
    _await_all_dead(pids, timeout_s=2)


def test_a_channel_speaks_to_the_child_and_pause_silences_it(supervisor: Supervisor) -> None:
    child = supervisor.spawn("cat", ["cat"], channel=True)
    child.channel.send({"n": 1})
    assert child.channel.receive(2000) == {"n": 1}
    child.pause()
    assert process_state(child.pid) == "T"
    child.channel.send({"n": 2})
    with pytest.raises(ChannelTimeout):
        child.channel.receive(30)
    child.resume()
    assert child.channel.receive(2000) == {"n": 2}
    child.close_channel()  # the end of its input is the end of cat
    assert child.wait(2000) == 0


def test_a_child_that_dies_is_noticed_on_its_channel(supervisor: Supervisor) -> None:
    child = supervisor.spawn("cat", ["cat"], channel=True)
    os.kill(child.pid, signal.SIGKILL)
    with pytest.raises(ChannelClosed):
        child.channel.receive(2000)
    assert child.wait(2000) == -signal.SIGKILL


def test_a_paused_child_is_stopped_in_its_grace_and_a_stubborn_one_killed_after_it(supervisor: Supervisor) -> None:
    polite = supervisor.spawn("polite", ["sleep", "600"])
    polite.pause()
    assert polite.stop(grace_ms=5000) == -signal.SIGTERM
    stubborn = supervisor.spawn("stubborn", ["sh", "-c", STUBBORN])
    stubborn.await_ready(lambda: _three_lines(stubborn.log_tail()))
    assert stubborn.stop(grace_ms=30) == -signal.SIGKILL


def test_a_forked_copy_of_the_runner_does_not_end_its_children(supervisor: Supervisor) -> None:
    child = supervisor.spawn("sleep", ["sleep", "600"])
    copy = os.fork()
    if copy == 0:
        supervisor.close()
        os._exit(0)
    os.waitpid(copy, 0)
    assert child.poll() is None
    assert pid_alive(child.pid)


def test_a_program_that_cannot_be_started_is_one_error(supervisor: Supervisor) -> None:
    with pytest.raises(ProcessDiedAtStart, match="No such file") as caught:
        supervisor.spawn("nothing", ["/no/such/program"], channel=True)
    assert caught.value.returncode is None
    assert supervisor.processes == []


def test_a_child_that_dies_at_start_shows_its_code_and_its_log(supervisor: Supervisor) -> None:
    child = supervisor.spawn("bad", ["sh", "-c", "echo 'Error: no such port' >&2; exit 3"])
    with pytest.raises(ProcessDiedAtStart, match="exit code 3") as caught:
        child.await_ready(lambda: None)
    assert caught.value.cause == "Error: no such port"
    again = supervisor.spawn("bad", ["true"])  # the same log file: what the first one wrote is not the second one's
    assert again.wait(2000) == 0
    assert again.log_tail() == ""


def test_a_child_that_never_gets_ready_is_not_waited_for(supervisor: Supervisor) -> None:
    child = supervisor.spawn("slow", ["sleep", "600"])
    with pytest.raises(NotReady, match="slow"):
        child.await_ready(lambda: None, timeout_ms=30, poll_ms=5)


def test_the_time_it_waits_for_a_processor_is_not_its_own(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    pinned = ("taskset", "-c", str(min(os.sched_getaffinity(0))), "sh", "-c", "while :; do :; done")
    first, second = supervisor.spawn("first", pinned), supervisor.spawn("second", pinned)
    assert first.await_ready(lambda: waited_for_processor_ms(first.pid) > 50 or None)
    assert second.await_ready(lambda: waited_for_processor_ms(second.pid) > 50 or None)
    monkeypatch.setattr(processes, "waited_for_processor_ms", lambda _: 70)
    start_ns = time.monotonic_ns()
    with pytest.raises(NotReady, match="70 of which it waited for a processor"):
        first.await_ready(lambda: None, timeout_ms=30, poll_ms=5)
    assert time.monotonic_ns() - start_ns > 100_000_000


def test_nothing_that_fakes_is_inherited(supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKETIME", "+5")
    monkeypatch.setenv("BROKERPROOF_SEEN", "yes")
    child = supervisor.spawn("env", ["env"])
    assert child.wait(2000) == 0
    assert "BROKERPROOF_SEEN=yes" in child.log_tail(100_000)
    assert not re.search("^FAKETIME", child.log_tail(100_000), re.MULTILINE)


# Tells what it is, and ends as it is told.
TELLER = """
import json, os, sys, threading, time
if __name__ == "__main__":
    forked = "brokerproof.chaos.supervisor" in sys.modules
    who = [sys.argv[1:], os.getsid(0), os.getppid(), forked]
    what = [os.environ["OWN"], os.getcwd(), sys.path[0], len(os.listdir("/proc/self/fd"))]
    print(json.dumps({"who": who, "what": what, "wall_s": time.time()}), flush=True)
    sys.exit(json.loads(sys.stdin.readline())["code"])
"""


def _teller(supervisor: Supervisor, offset_ms: int, source: str = TELLER, *, forked: bool = True) -> Process:
    (supervisor.folder / "teller.py").write_text(source, encoding="utf-8")
    name = f"teller{offset_ms}"
    clock = ClockFile(supervisor.folder / f"{name}.clock", offset_ms)
    env = clock_environment(clock, os.environ) | {"OWN": "yes"}
    argv = [sys.executable, "-m", "teller", name]
    return supervisor.spawn(name, argv, env=env, channel=True, forked=forked)


def test_who_is_forked_is_as_who_is_started(supervisor: Supervisor) -> None:
    need_clocks()
    found = []
    for forked, offset_ms in ((False, 5_000_000), (True, 1_000_000), (True, -7_000_000)):
        child = _teller(supervisor, offset_ms, forked=forked)
        told = child.channel.receive(20_000)
        assert told["who"] == [[child.name], child.pid, supervisor.pid, forked]
        assert abs(told["wall_s"] - time.time() - offset_ms / 1000) < 100
        found.append(told["what"])
        child.pause()
        child.resume()
        child.channel.send({"code": 7})
        assert child.wait(20_000) == 7
        assert child.log_tail() == ""
    assert found[0] == found[1] == found[2]


def test_who_is_forked_dies_with_the_supervisor(tmp_path: Path) -> None:
    need_clocks()
    supervisor = Supervisor(tmp_path)
    children = [_teller(supervisor, offset_ms) for offset_ms in (0, 1000)]
    for child in children:
        child.channel.receive(20_000)
    os.kill(supervisor.pid, signal.SIGKILL)
    _await_all_dead([child.pid for child in children], timeout_s=5)
    supervisor.close()


@pytest.mark.parametrize("hindrance", ["threading.Thread(target=time.sleep, args=(60,), daemon=True).start()", "1 / 0"])
def test_who_cannot_be_forked_is_started(hindrance: str, supervisor: Supervisor) -> None:
    need_clocks()
    child = _teller(supervisor, 0, TELLER.replace("if __name__", f"{hindrance}\nif __name__"))
    if "Thread" in hindrance:
        assert child.channel.receive(20_000)["who"][-1] is False
        child.channel.send({"code": 3})
        assert child.wait(20_000) == 3
    else:
        assert child.wait(20_000) == 1
        assert "ZeroDivisionError" in child.log_tail()


def _three_lines(text: str) -> str | None:
    return text if text.count("\n") >= 3 else None


def test_a_folder_of_its_own_goes_with_it(tmp_path: Path) -> None:
    kept, owned = tmp_path / "kept", tmp_path / "owned"
    for folder in (kept, owned):
        with Supervisor(folder, owns_folder=folder is owned) as supervisor:
            supervisor.spawn("cat", ["cat"], channel=True)
    assert kept.is_dir()
    assert not owned.exists()
