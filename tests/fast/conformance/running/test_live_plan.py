"""The live tier's plan: what runs, in which order, and what is said when nothing can."""

from __future__ import annotations

import contextlib
import itertools
import threading

import msgspec
import pytest

from brokerproof.chaos.tools import ToolMissing
from brokerproof.conformance.brokers import make_adapter
from brokerproof.conformance.brokers.activemq import ActiveMQAdapter
from brokerproof.conformance.brokers.base import Adapter, Endpoint, NotApplicableError
from brokerproof.conformance.brokers.casting import owns
from brokerproof.conformance.brokers.pacing import real_ms
from brokerproof.conformance.brokers.probing import Found
from brokerproof.conformance.brokers.profiled import ProfileAdapter
from brokerproof.conformance.brokers.reference import ReferenceAdapter
from brokerproof.conformance.corpus import programs
from brokerproof.conformance.corpus.stories import stories
from brokerproof.conformance.experiment.destinations import DEAD_LETTERS, queues
from brokerproof.conformance.experiment.exits import SuiteProblem, UsageError
from brokerproof.conformance.experiment.program import Program
from brokerproof.conformance.experiment.results import RunResult
from brokerproof.conformance.experiment.steps import Operate, Pause, Probe, Restart, Send
from brokerproof.conformance.experiment.verdict import Verdict, VerdictKind
from brokerproof.conformance.running import live as runs
from brokerproof.conformance.running.allowance import Allowance
from brokerproof.conformance.running.live import (
    REAL_MS_MAX,
    live_runs,
    plan_of,
    random_plan,
    run_live,
)
from brokerproof.conformance.running.options import SuiteOptions
from brokerproof.conformance.stories.delays import DELAY, waits
from brokerproof.conformance.worlds.live.laboratory import Laboratory


class Anything(Adapter):
    """A broker that takes every program and cannot be opened."""

    name = label = "anything"

    def __init__(self, error: Exception) -> None:
        self.error = error

    def capabilities(self) -> list[str]:
        return []

    def open(self, program: Program, laboratory: Laboratory) -> Endpoint:
        del program, laboratory
        raise self.error


class NoAgents:
    """A laboratory that has nobody to hire."""

    def __init__(self) -> None:
        self.never: set[str] = set()

    def hire(self, *_: object) -> None:
        raise AssertionError("a program of no client hires nobody")


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("brokerproof.conformance.worlds.live.port.LivePort.start", _open_only)


def _open_only(self: object) -> None:
    self._adapter.open(self._program, self._laboratory)  # type: ignore[attr-defined]


def test_brokers_can_be_shared_in_this_order() -> None:
    adapter = Anything(SuiteProblem(""))
    plan = plan_of(adapter)
    own = {name: one for name, one in programs().items() if any(host.user for host in one.hosts)}
    alone = {name: one for name, one in programs().items() if not one.bridges() and name not in own}
    assert {name for name, _ in plan} == {name for name, one in alone.items() if real_ms(one) <= REAL_MS_MAX}
    seen: dict[str, int] = {}
    closed: set[str] = set()
    last = ""
    for _, one in plan:
        settings, offset_ms = adapter.sharing_key(one), one.broker_host().clock.offset_ms
        assert settings not in closed
        if settings != last:
            closed.add(last)
            last = settings
        assert offset_ms >= seen.get(settings, offset_ms)
        seen[settings] = offset_ms


def test_each_lane_keeps_its_broker_for_as_long_as_it_can() -> None:
    adapter = Anything(SuiteProblem(""))
    in_order = plan_of(adapter)
    adapter.workers = 4
    plan = plan_of(adapter)
    assert sorted(name for name, _ in plan) == sorted(name for name, _ in in_order)
    begun: list[str] = []
    for lane in range(4):
        played = plan[lane : len(plan) // 2 : 4]  # later on the longest lane is alone
        begun += [key for key, _ in itertools.groupby(adapter.sharing_key(program) for _, program in played)]
    assert len(begun) < len(set(begun)) + 4


def test_a_broker_known_by_its_url_is_played_over_stomp(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ProfileAdapter, "found", lambda _: Found([], stamps=False))
    plan = plan_of(make_adapter("stomp://127.0.0.1:61613"))
    assert plan
    assert {host.via for _, program in plan for host in program.clients()} == {"stomp"}


def test_clients_are_cast_before_the_plan_is_made() -> None:
    for _, program in plan_of(make_adapter("reference", client="openwire")):
        assert {host.via for host in program.clients()} <= {"jms"}
    assert live_runs(SuiteOptions(client="openwire"), ()).column == "reference openwire"


def test_the_speed_chooses_what_is_played_and_how_long_it_may_take() -> None:
    """What takes 72 s of its own time takes 3.6 of the machine's."""
    name = "discarded-and-welcome-elsewhere"
    fast, slow = make_adapter("reference", speed=20), make_adapter("reference")
    assert fast.rate(programs()[name]).times > 1 == slow.rate(programs()[name]).times
    assert fast.real_ms(programs()[name]) < slow.real_ms(programs()[name])
    assert len(plan_of(fast)) >= len(plan_of(slow))
    fast.speed, options = 10, SuiteOptions(tier="live", speed=10, live_programs=100)
    drawn, plain = (dict(runs.random_plan(one, options, Allowance())) for one in (fast, slow))
    longer = [name for name, program in drawn.items() if program != plain[name]]
    assert longer
    assert all(fast.rate(drawn[name]).times == 10 for name in longer)
    assert live_runs(SuiteOptions(tier="live", broker="reference", speed=20), ()).column == "reference"
    with pytest.raises(UsageError, match="1 to 100"):
        live_runs(SuiteOptions(tier="live", broker="reference", speed=0), ())


def test_what_would_take_too_long_is_for_virtual_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "REAL_MS_MAX", 1000)
    names = {name for name, _ in plan_of(ReferenceAdapter())}
    assert "live-silent-link" not in names
    assert "live-000-1-stomp" in names


@pytest.mark.parametrize(
    ("error", "verdict", "where"),
    [
        (ToolMissing("Java", "install it"), VerdictKind.NOT_RUN, "not_run"),
        (NotApplicableError("no such transport"), VerdictKind.NOT_APPLICABLE, ""),
        (SuiteProblem("it fell over"), VerdictKind.NOT_RUN, "problem"),
        (ConnectionResetError("gone"), VerdictKind.NOT_RUN, "problem"),
    ],
)
def test_trouble_is_sorted_by_whose_it_is(alone: None, error: Exception, verdict: VerdictKind, where: str) -> None:
    result = run_live(Anything(error), NoAgents(), stories()["live-delay"].program, "x", wanted=("GEN-001",))  # type: ignore[arg-type]
    assert [one.verdict for one in result.verdicts] == [verdict]
    assert bool(result.problem) == (where == "problem")
    assert bool(result.not_run) == (where == "not_run")
    assert result.history is None


def test_a_broker_that_cannot_be_asked_what_it_is_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked before anything of the run has been started, and may not even become ready."""

    def asked(*_: object) -> None:
        raise SuiteProblem("was not ready after 60700 ms")

    monkeypatch.setattr(Anything, "effective", asked)
    monkeypatch.setattr(Anything, "unpromised", asked)
    program = stories()["live-delay"].program
    result = run_live(Anything(SuiteProblem("")), NoAgents(), program, "x", wanted=("GEN-001",))  # type: ignore[arg-type]
    assert "was not ready after 60700 ms" in result.problem
    assert result.history is None


def test_a_defect_of_ours_is_not_hidden(alone: None) -> None:
    with pytest.raises(ZeroDivisionError):
        run_live(Anything(ZeroDivisionError()), NoAgents(), stories()["live-delay"].program, "x", wanted=())  # type: ignore[arg-type]


def test_a_missing_tool_makes_every_program_not_run_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object, **__: object) -> None:
        raise ToolMissing("Java", "install a runtime")

    monkeypatch.setattr(runs, "make_adapter", missing)
    found = live_runs(SuiteOptions(broker="activemq", tier="live"), ("GEN-001",))
    results = list(found)
    assert found.total == len(results) == len(programs())
    assert all("Java" in result.not_run for result in results)
    assert {verdict.verdict for result in results for verdict in result.verdicts} == {VerdictKind.NOT_RUN}


def test_what_a_program_waits_for_takes_its_time() -> None:
    assert [real_ms(waits(0)), real_ms(waits(0, delay=0))] == [DELAY, 0]


def test_every_kind_has_its_capabilities() -> None:
    assert "expiry-check" in ReferenceAdapter().capabilities()
    bare = ActiveMQAdapter.__new__(ActiveMQAdapter)
    bare.jars = type("Jars", (), {"version": "5.12.3"})()  # type: ignore[assignment]  # only its version is asked for
    assert {"expiry-check", "sync-dispatch"} <= set(bare.capabilities())
    bare.jars = type("Jars", (), {"version": "5.17.2"})()  # type: ignore[assignment]
    assert "sync-dispatch" not in bare.capabilities()


def test_clients_of_activemq_do_without_what_it_does_not_claim() -> None:
    bare = ActiveMQAdapter.__new__(ActiveMQAdapter)
    bare.jars = type("Jars", (), {"version": "5.17.2"})()  # type: ignore[assignment]  # only its version is asked for
    for name in ("rejections-in-transactions", "who-is-let-in"):
        whole, played = programs()[name].broker, bare.cast(programs()[name]).broker
        assert whole.transacted_nacks or whole.logins
        assert not played.transacted_nacks
        assert not played.logins


class Once:
    """Stands for ``run_live``: a violation that shows in the first ``shows`` runs; ``slack_ns``: of a timed claim."""

    def __init__(self, shows: int, slack_ns: int | None = None) -> None:
        self.shows, self.runs, self.slack_ns = shows, 0, slack_ns

    def __call__(self, adapter: Adapter, _: Laboratory, program: Program, name: str, **__: object) -> RunResult:
        self.runs += 1
        kind = VerdictKind.VIOLATED if self.runs <= self.shows else VerdictKind.SATISFIED
        verdict = Verdict("GEN-001", kind, text="lost", slack_ns=self.slack_ns)
        return RunResult(name, adapter.label, "live", program, [verdict], None)


@pytest.mark.parametrize(("shows", "drawn"), [(1, VerdictKind.INCONCLUSIVE), (2, VerdictKind.VIOLATED)])
def test_only_what_a_random_program_shows_twice_is_red(
    shows: int, drawn: VerdictKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = ("x", stories()["live-delay"].program)
    monkeypatch.setattr(runs, "Laboratory", lambda **_: contextlib.nullcontext())
    for plan, random, wanted in (([entry], [], VerdictKind.VIOLATED), ([], [entry], drawn)):
        monkeypatch.setattr(runs, "run_live", Once(shows))
        (result,) = runs.run_all(Anything(SuiteProblem("")), plan, ("GEN-001",), None, random)
        assert [one.verdict for one in result.verdicts] == [wanted]


@pytest.mark.parametrize(("shows", "expected"), [(1, VerdictKind.INCONCLUSIVE), (2, VerdictKind.VIOLATED)])
def test_a_known_program_that_is_late_once_is_played_again(
    shows: int, expected: VerdictKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine that stood still may have done it; what is lost is lost."""
    monkeypatch.setattr(runs, "Laboratory", lambda **_: contextlib.nullcontext())
    monkeypatch.setattr(runs, "run_live", Once(shows, slack_ns=-1))
    entry = ("x", stories()["live-delay"].program)
    (result,) = runs.run_all(Anything(SuiteProblem("")), [entry], ("GEN-001",), None, [])
    assert [one.verdict for one in result.verdicts] == [expected]


def test_random_programs_are_as_many_as_were_asked_for_and_fit() -> None:
    drawn = list(random_plan(ReferenceAdapter(), SuiteOptions(live_programs=5, seed=3), Allowance()))
    assert [name for name, _ in drawn] == [f"live-seed-{seed}" for seed in range(3, 8)]


class Seconds:
    """A clock that is a second later whenever somebody looks."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1
        return self.now


def test_what_is_drawn_when_the_budget_is_spent_never_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    entry, allowance = ("x", stories()["live-delay"].program), Allowance(5.0, Seconds())
    monkeypatch.setattr(runs, "Laboratory", lambda **_: contextlib.nullcontext())
    monkeypatch.setattr(runs, "run_live", Once(0))
    allowance.begin()
    found = list(runs.run_all(Anything(SuiteProblem("")), [], ("GEN-001",), None, itertools.repeat(entry), allowance))
    assert 0 < len(found) < 5


def test_the_budget_begins_with_the_first_random_program() -> None:
    drawn = random_plan(ReferenceAdapter(), SuiteOptions(live_programs=50), Allowance(3.0, Seconds()))
    assert 0 < len(list(drawn)) < 5


@pytest.mark.parametrize(("budget_s", "runs_of_it"), [(1.0, 2), (-100.0, 1)])
def test_a_violation_is_looked_for_again_for_a_while_only(
    budget_s: float, runs_of_it: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    played = Once(9)
    allowance = Allowance(budget_s, clock=lambda: 0.0)
    monkeypatch.setattr(runs, "Laboratory", lambda **_: contextlib.nullcontext())
    monkeypatch.setattr(runs, "run_live", played)
    monkeypatch.setattr(allowance, "is_over", lambda: False)
    entry = ("x", stories()["live-delay"].program)
    allowance.begin()
    (result,) = runs.run_all(Anything(SuiteProblem("")), [], ("GEN-001",), None, [entry], allowance)
    assert played.runs == runs_of_it
    wanted = VerdictKind.VIOLATED if runs_of_it > 1 else VerdictKind.INCONCLUSIVE
    assert [one.verdict for one in result.verdicts] == [wanted]


def test_who_takes_long_holds_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[str] = []
    many = threading.Event()
    adapter = Anything(SuiteProblem(""))
    adapter.lanes = 2

    def play(*words: object, **_: object) -> RunResult:
        name = str(words[3])
        if name == "0":
            assert many.wait(20)
        ended.append(name)
        if len(ended) == 20:
            many.set()
        return RunResult(name, "", "live", stories()["live-delay"].program, [], None)

    monkeypatch.setattr(runs, "run_live", play)
    drawn = [(str(number), stories()["live-delay"].program) for number in range(21)]
    results = list(runs.run_all(adapter, (), (), None, iter(drawn)))
    assert [result.name for result in results] == [name for name, _ in drawn]
    assert ended[-1] == "0"


def test_who_owns_the_only_broker_comes_with_others_who_do() -> None:
    plain = stories()["live-delay"].program
    owner = msgspec.structs.replace(plain, destinations=queues(DEAD_LETTERS))
    drawn = [(str(number), owner if number % 3 == 0 else plain) for number in range(3 * runs.TOGETHER)]
    found = [name for name, _ in runs.owners_together(iter(drawn), owns)]
    assert sorted(found, key=int) == [name for name, _ in drawn]
    kinds = [int(name) % 3 == 0 for name in found]
    changes = sum(one is not other for one, other in itertools.pairwise(kinds))
    assert changes == 3
    assert not any(kinds[: runs.TOGETHER])


def test_nobody_stops_a_broker_that_is_not_ours() -> None:
    plain = stories()["live-delay"].program
    stopped = plain.with_steps([Pause(ms=10), Restart(), Operate(op="purge")])
    assert owns(stopped)
    assert not owns(stopped, ours=False)
    assert owns(plain.with_steps([Probe()]), ours=False)


def test_what_crosses_a_slow_link_takes_its_time() -> None:
    program = programs()["large-message-over-a-slow-stomp-link"]
    fast = msgspec.structs.replace(program, links=[])
    assert real_ms(program) - real_ms(fast) == 10_000  # 500 kB at 50 kB/s
    many = fast.with_steps([Send(count=30_000)])
    assert real_ms(many) == 140_000, "5 ms for each after 2,000"
