"""Random faults on processes: nothing is left over, what a link withheld for a while accuses no broker."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from brokerproof.chaos.processes import pid_alive
from brokerproof.chaos.supervisor import SHARED_MEMORY
from brokerproof.conformance.brokers.base import NotApplicableError
from brokerproof.conformance.brokers.reference import ReferenceAdapter
from brokerproof.conformance.experiment import operations as ops
from brokerproof.conformance.experiment.configuration import BrokerSpec, HostSpec, LinkSpec
from brokerproof.conformance.experiment.destinations import queues
from brokerproof.conformance.experiment.history import Arrive, Connect, Consume, Fault, History, Poll, Skipped
from brokerproof.conformance.experiment.history import Send as Sent
from brokerproof.conformance.experiment.program import FORMAT, Program
from brokerproof.conformance.experiment.steps import (
    Advance,
    AnyStep,
    Exhaust,
    Freeze,
    Relieve,
    Reset,
    Restart,
    Resume,
    Send,
    Settle,
    Stall,
    Subscribe,
    Take,
    Thaw,
)
from brokerproof.conformance.experiment.verdict import VerdictKind
from brokerproof.conformance.rules.judge import judge_history
from brokerproof.conformance.worlds.live.world import LiveWorld
from tests.live.bench import activemq, make_laboratory
from tests.live.test_live_command import descendants, wait_until

#: Where libfaketime puts its objects.
SHARED = Path(SHARED_MEMORY)
#: The library connects, or has a producer, only when the broker's answer comes through.
STALLED: list[AnyStep] = [Stall(toward="client"), Send(), Advance(ms=1500), Resume(), Settle()]


def test_a_run_of_chaos(tmp_path: Path) -> None:
    words = ["run", "--tier", "live", "--chaos", "nightly", "--programs", "4", "--seed", "10", "--out", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-m", "brokerproof", *words, "--inconclusive-max", "100"],
        capture_output=True,
        text=True,
        check=False,
        timeout=170,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    runs = list(tmp_path.glob("evidence/reference/live-chaos-nightly-*/history.jsonl"))
    assert runs
    faults = [json.loads(line) for path in runs for line in path.read_text().splitlines() if '"kind":"fault"' in line]
    assert any(fault.get("evidence") for fault in faults)


def test_a_killed_run_of_chaos_leaves_nothing(tmp_path: Path) -> None:
    """No process, no file of its own, none of libfaketime's objects: all of it goes within seconds."""
    work = tmp_path / "tmp"
    work.mkdir()
    words = ["run", "--tier", "live", "--chaos", "cruel", "--budget", "100", "--out", str(tmp_path / "out")]
    with (tmp_path / "log").open("wb") as log:
        env = os.environ | {"TMPDIR": str(work)}
        runner = subprocess.Popen([sys.executable, "-m", "brokerproof", *words], env=env, stdout=log, stderr=log)
        try:
            assert wait_until(lambda: len(descendants(runner.pid)) >= 12, 60), (tmp_path / "log").read_text()
            children = descendants(runner.pid)
            assert list(work.iterdir())
        finally:
            runner.kill()
            runner.wait()

    def left() -> list[object]:
        alive = [pid for pid in children if pid_alive(pid)]
        shared = [path for path in SHARED.iterdir() if path.name.rpartition("_")[2] in map(str, children)]
        return [*alive, *work.iterdir(), *shared]

    assert wait_until(lambda: not left(), 10), left()


@pytest.mark.parametrize("steps", [[*STALLED, Subscribe()], [Subscribe(), *STALLED, Take(deadline_ms=500)]])
def test_what_comes_about_late_accuses_nobody(steps: list[AnyStep], tmp_path: Path) -> None:
    hosts = [HostSpec("b", "broker"), HostSpec("c0", "client", "jms")]
    adapter, played = activemq(), Program(FORMAT, BrokerSpec(), hosts, [LinkSpec("c0")], queues("q0"), steps)
    with make_laboratory(tmp_path) as laboratory:
        history = LiveWorld(adapter, laboratory).run(played)
        adapter.close()
    found = {verdict.requirement: verdict.verdict for verdict in judge_history(history)}
    assert VerdictKind.VIOLATED not in found.values()
    assert found["GEN-106"] is VerdictKind.SATISFIED


def test_the_network_ends_connections(tmp_path: Path) -> None:
    """Of a consumer and of a producer, which both come back; nothing is lost, and nobody is accused of the end."""
    come_back: list[AnyStep] = [Send(count=3), Subscribe(host=1), Take(host=1, count=5, deadline_ms=1000), Settle()]
    steps: list[AnyStep] = [Subscribe(host=1), Send(count=2), Take(host=1), Reset(link=1), Reset(), *come_back]
    hosts = [HostSpec("b", "broker"), HostSpec("p0", "client"), HostSpec("c0", "client", "jms")]
    played = Program(FORMAT, BrokerSpec(), hosts, [LinkSpec("p0"), LinkSpec("c0")], queues("q0"), steps)
    for adapter in (ReferenceAdapter(), activemq()):
        with make_laboratory(tmp_path / adapter.name) as laboratory:
            history = LiveWorld(adapter, laboratory).run(played)
            adapter.close()
        ends = [event.evidence for event in history.events if isinstance(event, Fault)]
        assert ends == [{"client_ends": 1, "broker_ends": 1}] * 2
        found = {verdict.requirement: verdict for verdict in judge_history(history)}
        assert [one.text for one in found.values() if one.verdict is VerdictKind.VIOLATED] == []
        assert found["GEN-143"].verdict is VerdictKind.SATISFIED
        assert len({event.message for event in history.events if isinstance(event, Arrive)}) == 5


@pytest.mark.night
def test_a_connection_ends_after_so_many_bytes(tmp_path: Path) -> None:
    """Counted at the far end of the line: so many came through; nothing is lost, and nobody is accused."""
    come_back: list[AnyStep] = [Send(count=3), Subscribe(host=1), Take(host=1, count=9, deadline_ms=1000), Settle()]
    severed = [Reset(link=1, after_bytes=700, toward="client"), Reset(after_bytes=500, toward="broker")]
    steps: list[AnyStep] = [Subscribe(host=1), Send(), Take(host=1), Settle(), *severed, Send(count=5), *come_back]
    hosts = [HostSpec("b", "broker"), HostSpec("p0", "client"), HostSpec("c0", "client", "jms")]
    played = Program(FORMAT, BrokerSpec(), hosts, [LinkSpec("p0"), LinkSpec("c0")], queues("q0"), steps)
    for adapter in (ReferenceAdapter(), activemq()):
        with make_laboratory(tmp_path / adapter.name) as laboratory:
            history = LiveWorld(adapter, laboratory).run(played)
            adapter.close()
        faults = [event for event in history.events if isinstance(event, Fault)]
        told = {(event.fault, event.link): event.evidence or {} for event in faults}
        assert sorted(told) == [("limit", "c0"), ("limit", "p0"), ("reset", "c0"), ("reset", "p0")]
        for link, asked_bytes in (("c0", 700), ("p0", 500)):
            # What passes while the proxy is being asked, a keep-alive or a late answer, it need not have counted.
            ended = told["reset", link]
            assert asked_bytes <= ended["bytes_out"] < asked_bytes + 400
            assert (ended["client_ends"], ended["broker_ends"]) == (1, 1)
        found = {verdict.requirement: verdict for verdict in judge_history(history)}
        assert [one.text for one in found.values() if one.verdict is VerdictKind.VIOLATED] == []


@pytest.mark.night
def test_a_sliced_and_a_jittery_link(tmp_path: Path) -> None:
    """Pieces are counted and ways are timed at both ends; what they carry comes through, in order."""
    steps: list[AnyStep] = [Subscribe(host=1, prefetch=30), Send(count=20, size=3000), Take(host=1, count=20), Settle()]
    links = [LinkSpec("p0", slice_bytes=500), LinkSpec("c0", jitter_us=20_000)]
    hosts = [HostSpec("b", "broker"), HostSpec("p0", "client"), HostSpec("c0", "client", "jms")]
    played = Program(FORMAT, BrokerSpec(), hosts, links, queues("q0"), steps)
    for adapter in (ReferenceAdapter(), activemq()):
        with make_laboratory(tmp_path / adapter.name) as laboratory:
            history = LiveWorld(adapter, laboratory).run(played)
            adapter.close()
        told = {event.fault: event.evidence or {} for event in history.events if isinstance(event, Fault)}
        # How many of the six pieces of a message are read together is the reader's business.
        assert told["slice"]["pieces_out"] > 2 * told["slice"]["pieces_in"] > 0
        assert told["jitter"]["most_us"] - told["jitter"]["least_us"] >= 5000
        assert told["jitter"]["most_us"] >= 20_000
        assert [event.message for event in history.events if isinstance(event, Arrive) and event.host == "c0"] == [
            f"p0/{number}" for number in range(1, 21)
        ]
        assert [one.text for one in judge_history(history) if one.verdict is VerdictKind.VIOLATED] == []


def test_clocks_stand_still(tmp_path: Path) -> None:
    """The broker's and a client's, read back from themselves; at the reference broker a delay passes all the same
    (ActiveMQ's scheduler goes by the wall clock).
    """
    hosts = [HostSpec("b", "broker"), HostSpec("p0", "client"), HostSpec("c0", "client")]
    for adapter, delay_ms in ((ReferenceAdapter(), 500), (activemq(), 0)):
        still: list[AnyStep] = [Freeze(), Freeze(host=0), Send(delay_ms=delay_ms), Advance(ms=1500)]
        steps = [Subscribe(host=1, prefetch=10), *still, Take(host=0, deadline_ms=500), Thaw(), Thaw(), Send()]
        steps += [Take(host=0, deadline_ms=2000), Settle()]
        played = Program(FORMAT, BrokerSpec(), hosts, [LinkSpec("p0"), LinkSpec("c0")], queues("q0"), steps)
        with make_laboratory(tmp_path / adapter.name) as laboratory:
            history = LiveWorld(adapter, laboratory).run(played)
            adapter.close()
        faults = [event for event in history.events if isinstance(event, Fault)]
        assert [(event.target, event.how) for event in faults] == [
            ("b", "freeze"), ("p0", "freeze"), ("b", "thaw"), ("p0", "thaw"),
        ]  # fmt: skip
        for event in faults:
            assert event.evidence is not None
            passed_ms = event.evidence["after_ms"] - event.evidence["before_ms"]
            assert passed_ms <= 1 if event.how == "freeze" else passed_ms > 1000
        taken = [event.message for event in history.events if isinstance(event, Consume) and event.host == "c0"]
        assert taken == ["p0/1", "p0/2"]
        assert [one.text for one in judge_history(history) if one.verdict is VerdictKind.VIOLATED] == []


def test_a_pull_behind_a_stalled_link_ends(tmp_path: Path) -> None:
    """The broker owes an answer that cannot come; the application goes on, and takes the message when it can."""
    steps: list[AnyStep] = [Subscribe(host=1, prefetch=0), Send(), Stall(link=1), Take(deadline_ms=50), Resume()]
    steps += [Advance(ms=200), Take(deadline_ms=1000), Settle()]
    hosts = [HostSpec("b", "broker"), HostSpec("p0", "client"), HostSpec("c0", "client", "jms")]
    played = Program(FORMAT, BrokerSpec(), hosts, [LinkSpec("p0"), LinkSpec("c0")], queues("q0"), steps)
    adapter = ReferenceAdapter()
    with make_laboratory(tmp_path) as laboratory:
        history = LiveWorld(adapter, laboratory).run(played)
        adapter.close()
    polls = [(event.message, event.answered) for event in history.events if isinstance(event, Poll)]
    assert polls == [(None, False), ("p0/1", True)]
    assert [one.text for one in judge_history(history) if one.verdict is VerdictKind.VIOLATED] == []


@pytest.mark.night
def test_a_broker_that_has_too_little(tmp_path: Path) -> None:
    """It can accept nobody and goes on with those who are there, it hardly gets its processor; then it has enough."""
    hosts = [HostSpec("b", "broker"), *(HostSpec(name, "client") for name in ("p0", "c0", "c1"))]
    links = [LinkSpec(host.name) for host in hosts[1:]]
    steps: list[AnyStep] = [Subscribe(host=1, ack="auto"), Send(), Take(deadline_ms=2000), Exhaust(left=0), Send()]
    steps += [Take(deadline_ms=5000), Subscribe(host=2), Restart(), Relieve(), Subscribe(host=2)]
    steps += [Exhaust(what="processor", left=10), Send(count=20), Advance(ms=300), Relieve(what="processor"), Settle()]
    for adapter in (ReferenceAdapter(), activemq()):
        played = Program(FORMAT, BrokerSpec(persistent=True), hosts, links, queues("q0"), steps)
        with make_laboratory(tmp_path / adapter.name) as laboratory:
            history = LiveWorld(adapter, laboratory).run(played)
            adapter.close()
        faults = {(one.fault, one.how): one for one in history.events if isinstance(one, Fault)}
        seen = {key: one.evidence or {} for key, one in faults.items()}
        assert seen["exhaust", "descriptors"]["free"] == 0
        assert seen["relieve", "descriptors"]["free"] > 100
        assert seen["relieve", "processor"]["neighbours"] == 9
        assert seen["relieve", "processor"]["waited_us"] > 0  # a broker with little to do waits little
        connects = [one for one in history.events if isinstance(one, Connect) and one.host == "c1"]
        assert [one.result == "ok" for one in connects] == [False, True]
        lacking = (faults["exhaust", "descriptors"].t1, faults["relieve", "descriptors"].t0)
        taken = [one for one in history.events if isinstance(one, Consume) and one.host == "c0"]
        assert any(lacking[0] < one.t0 < lacking[1] for one in taken)
        assert [one.step["do"] for one in history.events if isinstance(one, Skipped)] == ["restart"]
        assert [one.text for one in judge_history(history) if one.verdict is VerdictKind.VIOLATED] == []


#: A consumer that stays, a message, nothing left, more of them than there is room for, enough again.
NEEDY = Program(
    FORMAT,
    BrokerSpec(persistent=True),
    [HostSpec("b", "broker"), HostSpec("p0", "client"), HostSpec("c0", "client")],
    [LinkSpec("p0"), LinkSpec("c0")],
    queues("q0", "q1"),
    [],
)


def needy(what: ops.Scarce) -> list[AnyStep]:
    steps: list[AnyStep] = [Subscribe(host=1, dest=1), Send(), Exhaust(what=what), Send(count=8, size=200_000)]
    return [*steps, Advance(ms=300), Relieve(what=what), Advance(ms=2500), Send(size=200_000), Settle()]


@pytest.mark.night
@pytest.mark.parametrize("what", ["disk", "memory"])
def test_a_reference_broker_without_room_or_memory_loses_nothing(tmp_path: Path, what: ops.Scarce) -> None:
    steps = [*needy(what), Restart(how="kill"), Send(), Settle()]
    with make_laboratory(tmp_path) as laboratory:
        history = LiveWorld(ReferenceAdapter(), laboratory).run(NEEDY.with_steps(steps))
    # A storage that cannot be written is closed; what it had open is no longer the largest file.
    assert [found == 0 for found in lacked(history, what).values()] == [True, what == "memory"]
    sends = [event.result for event in history.events if isinstance(event, Sent)]
    assert (sends[0], sends[-1]) == ("ok", "ok")
    assert {"unknown", "fail"} & set(sends)
    assert [one.text for one in judge_history(history) if one.verdict is VerdictKind.VIOLATED] == []


@pytest.mark.night
def test_an_activemq_with_little_memory_refuses_and_goes_on(tmp_path: Path) -> None:
    adapter = activemq()
    with make_laboratory(tmp_path) as laboratory:
        history = LiveWorld(adapter, laboratory).run(NEEDY.with_steps(needy("memory")))
        adapter.close()
    assert lacked(history, "memory") == {"exhaust": 0, "relieve": 0}
    sends = [event.result for event in history.events if isinstance(event, Sent)]
    assert "fail" in sends[1:-1]
    assert sends[-1] == "ok"
    # What it refused for want of memory stays charged to the queue, in some runs, beside what is kept there or alone.
    violated = {one.requirement for one in judge_history(history) if one.verdict is VerdictKind.VIOLATED}
    assert violated <= {"MEM-003", "MEM-008"}


@pytest.mark.night
def test_an_activemq_whose_disk_is_full_ends(tmp_path: Path) -> None:
    """Nobody promises more: it is no verdict."""
    adapter = activemq()
    with make_laboratory(tmp_path) as laboratory:
        with pytest.raises(NotApplicableError, match="b ended when it had too little of disk"):
            LiveWorld(adapter, laboratory).run(NEEDY.with_steps(needy("disk")))
        adapter.close()


def lacked(history: History, what: str) -> dict[str, int]:
    """How much was left when it began, and when it ended."""
    faults = [one for one in history.events if isinstance(one, Fault) and one.how == what]
    return {one.fault: (one.evidence or {})["free"] for one in faults}
