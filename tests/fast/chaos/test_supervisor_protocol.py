"""The pure parts of chaos/supervisor.py and chaos/processes.py: requests, process trees, what an error shows."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokerproof.chaos import supervisor
from brokerproof.chaos.processes import ProcessDiedAtStart, pid_alive, process_state, telling_line
from brokerproof.chaos.supervisor import BadRequest, Child, Warden, descendants, parents, parse_request

SPAWN: dict[str, Any] = {"id": 1, "do": "spawn", "argv": ["a"], "env": {}, "name": "a", "log": "/l", "cwd": "/"}


def _packet(**changes: Any) -> bytes:
    import json

    return json.dumps({**SPAWN, **changes}).encode()


def test_a_whole_request_is_taken_as_it_is() -> None:
    assert parse_request(_packet()) == SPAWN
    assert parse_request(b'{"id": 2, "do": "list"}') == {"id": 2, "do": "list"}


@pytest.mark.parametrize(
    ("packet", "words"),
    [
        (b"{", "not JSON"),
        (b"[]", "text field 'do'"),
        (b'{"id": 1}', "text field 'do'"),
        (b'{"do": "list"}', "id must be a whole number"),
        (_packet(argv=[]), "argv must be a list of at least one text"),
        (_packet(argv="ls"), "'ls'"),
        (_packet(argv=["a", 1]), "argv"),
        (_packet(env={"A": 1}), "env must be an object of texts"),
        (_packet(env=None), "env"),
        (_packet(log=None), "log must be a text, not None"),
        (_packet(cwd=3), "cwd must be a text, not 3"),
        (_packet(name=[]), r"name must be a text, not \[\]"),
    ],
)
def test_a_bad_request_is_refused_with_what_was_wrong(packet: bytes, words: str) -> None:
    with pytest.raises(BadRequest, match=words):
        parse_request(packet)


def test_parents_are_read_past_any_name() -> None:
    stats = {10: "10 (cat) S 1 10 10 0", 11: "11 (a) b (c)) Z 10 11 11 0", 12: "12 () 7 8) R 11 1 1 0"}
    assert parents(stats) == {10: 1, 11: 10, 12: 11}


def test_descendants_come_parents_first_and_others_not_at_all() -> None:
    table = {1: 0, 5: 1, 6: 5, 7: 6, 8: 5, 9: 1, 10: 9}
    assert descendants(5, table) == [6, 8, 7]
    assert descendants(99, table) == []


@given(st.lists(st.integers(0, 30), min_size=1, max_size=30))
def test_descendants_are_exactly_those_whose_ancestors_lead_to_the_root(choices: list[int]) -> None:
    # Process i+1 has an older process as its parent, as in any real table.
    table = {pid: choice % pid for pid, choice in enumerate(choices, start=1)}

    def below(pid: int, root: int) -> bool:
        while pid in table:
            pid = table[pid]
            if pid == root:
                return True
        return False

    for root in range(len(choices) + 1):
        found = descendants(root, table)
        assert sorted(found) == [pid for pid in table if below(pid, root)]
        assert all(found.index(table[pid]) < found.index(pid) for pid in found if table[pid] != root)


def test_the_real_table_holds_this_process_and_its_child() -> None:
    with subprocess.Popen(["sleep", "60"]) as child:
        try:
            table = supervisor.process_table()
            assert table[child.pid] == os.getpid()
            assert child.pid in descendants(os.getpid(), table)
            assert pid_alive(child.pid)
        finally:
            child.kill()
    assert not pid_alive(child.pid)
    assert process_state(child.pid) == ""
    assert process_state(os.getpid()) == "R"


def test_a_zombie_is_not_alive() -> None:
    child = subprocess.Popen(["true"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert process_state(child.pid) == "Z"
    assert not pid_alive(child.pid)
    child.wait()


def test_both_objects_of_a_dead_process_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "SHARED_MEMORY", str(tmp_path))
    for name in ("faketime_shm_12", "sem.faketime_sem_12", "faketime_shm_123"):
        (tmp_path / name).touch()
    supervisor.remove_shared_memory(12)
    supervisor.remove_shared_memory(12)  # nothing left is no error
    assert [path.name for path in tmp_path.iterdir()] == ["faketime_shm_123"]


def test_a_death_at_start_shows_command_code_cause_and_only_the_end_of_the_log() -> None:
    log = "first line\nCaused by: java.net.BindException: port 5\n" + "\tat some.Class\n" * 400 + "the end"
    error = ProcessDiedAtStart("activemq", ["java", "-cp", "x" * 500], 1, log)
    text = str(error)
    assert text.startswith("activemq died at start with exit code 1\ncause: java.net.BindException: port 5\n")
    assert "x" * 200 + "…" in text
    assert "x" * 201 not in text
    assert "first line" not in text
    assert text.endswith("the end")
    assert len(error.log_tail) == 3000
    assert str(ProcessDiedAtStart("a", ["a"], None, "")) == (
        "a could not be started\ncommand: a\nend of its log:\n(empty)"
    )


def test_the_telling_line_is_the_last_that_names_a_cause() -> None:
    assert telling_line("x\nModuleNotFoundError: No module named 'a'\n") == "ModuleNotFoundError: No module named 'a'"
    assert telling_line("Failed to execute main task. Reason: A\nCaused by: B\nmore") == "B"
    assert telling_line("all is well\nno errors here") == ""


def test_a_late_word_about_a_dead_child_reaches_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Process numbers come again: here a living child has the number of a dead one."""
    reached: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "killpg", lambda pid, number: reached.append((pid, number)))
    dead, alive = (Child(number, "x", pid=4711) for number in (1, 2))
    dead.returncode = -signal.SIGKILL
    warden = Warden.__new__(Warden)
    warden.children = {1: dead, 2: alive}
    assert warden._signal({"child": 1, "signal": signal.SIGTERM}, [])[0] == {"sent": 0}
    assert reached == []
    assert warden._signal({"child": 2, "signal": signal.SIGTERM}, [])[0] == {"sent": signal.SIGTERM}
    assert reached == [(4711, signal.SIGTERM)]
    with pytest.raises(BadRequest, match="3"):
        warden._signal({"child": 3, "signal": signal.SIGTERM}, [])
