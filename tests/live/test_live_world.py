"""The live world on the reference server: real processes, real clocks, honest records."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from brokerproof.chaos.processes import pid_alive
from brokerproof.conformance.agents import kinds
from brokerproof.conformance.agents.protocol import AgentError
from brokerproof.conformance.brokers.reference import ReferenceAdapter
from brokerproof.conformance.experiment.configuration import BrokerSpec, ClockSpec, HostSpec, TimeStampingSpec
from brokerproof.conformance.experiment.destinations import Destinations, queues
from brokerproof.conformance.experiment.history import (
    Arrive,
    ClockSample,
    Connect,
    Consume,
    Counters,
    Fault,
    Leave,
    Phase,
    Send,
    Skipped,
)
from brokerproof.conformance.experiment.history_file import parse_history
from brokerproof.conformance.experiment.steps import Ack as AckStep
from brokerproof.conformance.experiment.steps import Advance, AnyStep, Clock, Freeze, Settle, Subscribe, Take, Thaw
from brokerproof.conformance.experiment.steps import Leave as LeaveStep
from brokerproof.conformance.experiment.steps import Send as SendStep
from brokerproof.conformance.experiment.verdict import VerdictKind
from brokerproof.conformance.rules.judge import judge_history
from brokerproof.conformance.running.live import run_live
from brokerproof.conformance.running.outcomes import outcomes
from brokerproof.conformance.worlds.live.laboratory import Laboratory
from brokerproof.conformance.worlds.live.names import RunNames
from brokerproof.conformance.worlds.live.world import LiveWorld
from tests.live.bench import events, make_laboratory, need_clocks, program

pytestmark = pytest.mark.live
TALK: tuple[AnyStep, ...] = (
    Subscribe(host=1, prefetch=10),
    SendStep(count=3),
    Take(deadline_ms=2000, count=3),
    AckStep(upto=2),
)


@pytest.fixture(scope="module")
def laboratory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Laboratory]:
    with make_laboratory(tmp_path_factory.mktemp("laboratory")) as laboratory:
        yield laboratory


def test_a_run_is_a_history_that_can_be_read_back_and_judged(laboratory: Laboratory) -> None:
    history = LiveWorld(ReferenceAdapter(), laboratory, seed=7).run(program(*TALK))
    assert outcomes(history) == {"p0/1": "consumed", "p0/2": "consumed", "p0/3": "consumed"}
    again = parse_history(history.encode())
    assert again.encode() == history.encode()
    assert (again.header.world, again.header.broker, again.header.seed) == ("live", "reference", 7)
    assert [phase.name for phase in events(history, Phase)] == ["work", "heal", "drain", "end"]
    verdicts = judge_history(again)
    assert not [verdict for verdict in verdicts if verdict.verdict is VerdictKind.VIOLATED]
    assert [verdict.requirement for verdict in verdicts if verdict.verdict is VerdictKind.SATISFIED]


def test_intervals_are_narrow_and_in_order(laboratory: Laboratory) -> None:
    history = LiveWorld(ReferenceAdapter(), laboratory).run(program(*TALK))
    sends, arrivals = events(history, Send), events(history, Arrive, "c0")
    assert all(send.t1 - send.t0 < 500_000_000 for send in sends)
    for send, arrive, consume in zip(sends, arrivals, events(history, Consume), strict=True):
        assert send.t0 <= arrive.t1 <= consume.t1
        assert arrive.t1 - arrive.t0 < 500_000_000


def test_every_host_has_the_clock_that_the_program_gives_it(laboratory: Laboratory) -> None:
    history = LiveWorld(ReferenceAdapter(), laboratory).run(
        program(SendStep(), broker_ms=300_000, producer_ms=-60_000, consumer_ms=1000)
    )
    offsets = {}
    for sample in events(history, ClockSample):
        offsets[sample.host] = sample.wall_ms - (sample.t0 + sample.t1) // 2_000_000
    real = offsets["drain"]
    assert {host: round((offset - real) / 100) * 100 for host, offset in offsets.items()} == {
        "b": 300_000,
        "p0": -60_000,
        "c0": 1000,
        "drain": 0,
    }


@pytest.mark.parametrize(("host", "name"), [(0, "b"), (1, "p0")])
@pytest.mark.parametrize("jump_ms", [3_600_000, -3_600_000])
def test_a_jump_is_proven_by_the_process_itself(laboratory: Laboratory, host: int, name: str, jump_ms: int) -> None:
    history = LiveWorld(ReferenceAdapter(), laboratory).run(program(SendStep(), Clock(host=host, jump_ms=jump_ms)))
    (fault,) = events(history, Fault)
    assert fault.target == name
    assert fault.evidence is not None
    assert abs(fault.evidence["after_ms"] - fault.evidence["before_ms"] - jump_ms) < 1000
    before = [sample for sample in events(history, ClockSample, name) if sample.t1 <= fault.t0]
    after = [sample for sample in events(history, ClockSample, name) if sample.t0 >= fault.t1]
    assert before
    assert after
    assert after[0].wall_ms - before[-1].wall_ms == pytest.approx(jump_ms, abs=1000)


def test_a_host_in_another_zone_reads_the_same_instants_also_from_a_clock_that_stands(laboratory: Laboratory) -> None:
    base = program(SendStep(), Freeze(host=1), SendStep(), Advance(ms=300), Thaw(), SendStep())
    zones = (9, -8, 5)
    clocks = [
        msgspec.structs.replace(host.clock, zone_hours=hours) for host, hours in zip(base.hosts, zones, strict=True)
    ]
    hosts = [msgspec.structs.replace(host, clock=clock) for host, clock in zip(base.hosts, clocks, strict=True)]
    history = LiveWorld(ReferenceAdapter(), laboratory).run(msgspec.structs.replace(base, hosts=hosts))
    assert history.header.declared is not None
    assert history.header.declared.zones == {"b": 9, "p0": -8, "c0": 5}
    frozen, thawed = events(history, Fault)
    real = events(history, ClockSample, "drain")[0]
    offset_ms = real.wall_ms - (real.t0 + real.t1) // 2_000_000
    for host in ("b", "p0", "c0"):
        for sample in events(history, ClockSample, host):
            behind_ms = offset_ms - (sample.wall_ms - (sample.t0 + sample.t1) // 2_000_000)
            stood = host == "p0" and frozen.t0 <= sample.t1 and sample.t0 <= thawed.t1
            assert -100 < behind_ms < (2000 if stood else 100)


def test_a_drifting_clock_drifts(laboratory: Laboratory) -> None:
    base = program(SendStep(), Advance(ms=600))
    hosts = [base.hosts[0], HostSpec("p0", "client", clock=ClockSpec(1000, 20_000)), base.hosts[2]]
    history = LiveWorld(ReferenceAdapter(), laboratory).run(msgspec.structs.replace(base, hosts=hosts))
    samples = events(history, ClockSample, "p0")
    offsets = [sample.wall_ms - (sample.t0 + sample.t1) // 2_000_000 for sample in samples]
    gained_ms = offsets[-1] - offsets[0]
    wanted_ms = (samples[-1].t0 - samples[0].t0) // 1_000_000 * 2 // 100
    assert wanted_ms >= 12
    unsure_ms = (samples[0].plus_minus_ns + samples[-1].plus_minus_ns) / 1e6 + 1
    assert abs(gained_ms - wanted_ms) <= unsure_ms
    assert all(sample.plus_minus_ns >= 1_000_000 for sample in samples)


def test_a_killed_host_is_dead_and_comes_back_on_the_same_clock(laboratory: Laboratory) -> None:
    steps = [
        *TALK[:3],
        LeaveStep(how="kill"),
        Settle(),
        Subscribe(host=1, prefetch=10),
        Take(deadline_ms=2000, count=3),
    ]
    history = LiveWorld(ReferenceAdapter(), laboratory).run(program(*steps, consumer_ms=-5000))
    (leave,) = [leave for leave in events(history, Leave) if leave.how == "kill"]
    assert (leave.host, leave.result) == ("c0", "ok")
    again = [arrive for arrive in events(history, Arrive, "c0") if arrive.consumer == "c0/2"]
    assert [arrive.message for arrive in again] == ["p0/1", "p0/2", "p0/3"]
    assert all(arrive.redelivered for arrive in again)
    assert len(events(history, Connect, "c0")) == 2
    samples = events(history, ClockSample, "c0")
    offsets = [one.wall_ms - (one.t0 + one.t1) // 2_000_000 for one in samples]
    assert max(offsets) - min(offsets) <= 2 * max(one.plus_minus_ns for one in samples) / 1e6


def test_figures_at_rest_are_the_brokers_own(laboratory: Laboratory) -> None:
    history = LiveWorld(ReferenceAdapter(), laboratory).run(
        program(SendStep(count=4), Subscribe(host=1, prefetch=2), Settle())
    )
    look = next(found for found in events(history, Counters) if found.dest == "q0")
    assert look.at_rest
    assert (look.size, look.in_flight, look.enqueued, look.dispatched, look.consumers) == (4, 2, 4, 2, 1)


def test_dead_letters_come_to_light_with_their_origin(laboratory: Laboratory) -> None:
    history = LiveWorld(ReferenceAdapter(), laboratory).run(program(SendStep(ttl_ms=1000), broker_ms=60_000))
    (letter,) = events(history, Arrive, "drain")
    assert (letter.dest, letter.original_dest, letter.message) == ("ActiveMQ.DLQ", "q0", "p0/1")
    assert outcomes(history) == {"p0/1": "dead-letter"}


def test_a_message_that_is_due_after_the_last_step_is_waited_for(laboratory: Laboratory) -> None:
    history = LiveWorld(ReferenceAdapter(), laboratory).run(program(SendStep(delay_ms=700)))
    assert outcomes(history) == {"p0/1": "drained"}
    (send,), (arrive,) = events(history, Send), events(history, Arrive)
    assert arrive.t1 - send.t0 >= 700_000_000


def test_what_is_there_already_is_not_waited_for(laboratory: Laboratory) -> None:
    steps = (Subscribe(host=1, prefetch=10), SendStep(), Settle(), Take(deadline_ms=20_000))
    history = LiveWorld(ReferenceAdapter(), laboratory).run(program(*steps))
    arrive, consume = events(history, Arrive)[0], events(history, Consume)[0]
    assert consume.t1 - arrive.t1 < 10_000_000_000


def test_what_takes_too_long_is_skipped_and_said(laboratory: Laboratory) -> None:
    history = LiveWorld(ReferenceAdapter(), laboratory, budget_ms=5000).run(program(Advance(ms=100_000), SendStep()))
    (skipped,) = events(history, Skipped)
    assert skipped.step == {"do": "advance", "ms": 100_000}
    assert outcomes(history) == {"p0/1": "drained"}


def test_runs_do_not_meet(laboratory: Laboratory) -> None:
    """Each has a broker of its own, which calls a queue as the program does; where brokers are shared names differ."""
    first, second = LiveWorld(ReferenceAdapter(), laboratory), LiveWorld(ReferenceAdapter(), laboratory)
    first.open(program())
    second.open(program())
    mine, others = first.port.hosts.names, second.port.hosts.names
    assert mine.physical("q0") == others.physical("q0") == "queue://q0"
    shared = [RunNames(Destinations(queues("q0"))).physical("q0") for _ in range(2)]
    assert shared[0] != shared[1]
    assert mine.physical("ActiveMQ.DLQ") == others.physical("ActiveMQ.DLQ")
    assert mine.ours(others.on_wire("p0/1")) is None
    assert mine.ours(mine.on_wire("p0/1")) == "p0/1"
    first.shut()
    first.shut()
    second.shut()


def test_nothing_is_left_running(tmp_path: Path) -> None:
    with make_laboratory(tmp_path / "own") as laboratory:
        world = LiveWorld(ReferenceAdapter(), laboratory)
        world.open(program())
        for step in TALK:
            world.apply(step)
        pids = [process.pid for process in laboratory.supervisor.processes]
        assert len(pids) == 3
        assert all(pid_alive(pid) for pid in pids)
        # Not shut: leaving the laboratory must be enough, as after an exception.
    assert not any(pid_alive(pid) for pid in pids)


RUNNER = """
import sys
from pathlib import Path
from brokerproof.conformance.brokers.reference import ReferenceAdapter
from brokerproof.conformance.corpus.stories import stories
from brokerproof.conformance.worlds.live.laboratory import Laboratory
from brokerproof.conformance.worlds.live.world import LiveWorld
with Laboratory(Path(sys.argv[1])) as laboratory:
    world = LiveWorld(ReferenceAdapter(), laboratory)
    world.open(stories()["live-redelivery"].program)
    print(*[process.pid for process in laboratory.supervisor.processes], laboratory.supervisor.pid, flush=True)
    sys.stdin.read()
"""


def test_a_killed_runner_leaves_nothing_behind(tmp_path: Path) -> None:
    need_clocks()
    argv = [sys.executable, "-c", RUNNER, str(tmp_path)]
    runner = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert runner.stdin is not None
    assert runner.stdout is not None
    pids = [int(word) for word in runner.stdout.readline().split()]
    assert len(pids) == 4
    assert all(pid_alive(pid) for pid in pids)
    runner.kill()
    runner.wait()
    deadline_s = time.monotonic() + 5
    while any(pid_alive(pid) for pid in pids) and time.monotonic() < deadline_s:
        time.sleep(0.02)
    assert not any(pid_alive(pid) for pid in pids)
    runner.stdin.close()
    runner.stdout.close()


def test_an_agent_that_talks_nonsense_is_the_suites_failure(
    laboratory: Laboratory, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "nonsense.py").write_text(
        "import sys\nsys.stdin.readline()\nprint('how do you do', flush=True)\nsys.stdin.read()\n"
    )
    monkeypatch.setitem(kinds.MODULES, "stomp", "nonsense")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    fresh = make_laboratory(tmp_path / "own")
    with fresh, pytest.raises(AgentError, match="how do you do") as caught:
        LiveWorld(ReferenceAdapter(), fresh).run(program(SendStep()))
    assert caught.value.exit_code == 4


def test_an_agent_that_cannot_start_shows_its_log(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(kinds.MODULES, "stomp", "no_such_module")
    with make_laboratory(tmp_path / "own") as fresh:
        result = run_live(ReferenceAdapter(), fresh, program(SendStep()), "x", wanted=("GEN-001",))
    assert "no_such_module" in result.problem
    assert [verdict.verdict for verdict in result.verdicts] == [VerdictKind.NOT_RUN]


def test_a_jms_host_is_played_by_our_client_on_the_reference_server(laboratory: Laboratory) -> None:
    base = program(SendStep())
    hosts = [base.hosts[0], HostSpec("p0", "client", "jms")]
    result = run_live(
        ReferenceAdapter(), laboratory, msgspec.structs.replace(base, hosts=hosts), "x", wanted=("GEN-001",)
    )
    assert result.verdicts[0].verdict is VerdictKind.SATISFIED
    assert result.history is not None
    assert {event.via for event in result.history.events if isinstance(event, Connect) and event.host == "p0"} == {
        "jms"
    }


def test_the_runner_itself_is_never_faked() -> None:
    assert "libfaketime" not in Path("/proc/self/maps").read_text(encoding="utf-8")


def test_what_is_expected_of_a_generation_that_was_asked_for_is_known(laboratory: Laboratory) -> None:
    """ActiveMQ's own futureOnly moves a timestamp back; whoever asks the reference broker for that gets it."""
    classic = BrokerSpec(generation={"timestamping": "classic"}, timestamping=TimeStampingSpec(future_only=True))
    ahead = program(Subscribe(host=1), SendStep(), Settle(), producer_ms=60_000, broker=classic)
    result = run_live(ReferenceAdapter(), laboratory, ahead, "ahead", wanted=("TSP-011",))
    assert [verdict.verdict for verdict in result.verdicts] == [VerdictKind.KNOWN_FAILURE], result.problem
