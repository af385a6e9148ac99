"""A quick run: what it plays, and when it stops."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from brokerproof.conformance.brokers.pacing import real_ms
from brokerproof.conformance.brokers.probing import Found
from brokerproof.conformance.brokers.profiled import ProfileAdapter
from brokerproof.conformance.corpus import programs
from brokerproof.conformance.experiment.exits import UsageError
from brokerproof.conformance.experiment.results import SuiteEvent, SuiteFinished, SuiteStarted
from brokerproof.conformance.requirements.catalogue import default_catalogue
from brokerproof.conformance.running import live
from brokerproof.conformance.running.engine import run_program
from brokerproof.conformance.running.live import live_runs
from brokerproof.conformance.running.options import SuiteOptions
from brokerproof.conformance.running.quick import TIMES, covering_plan, quick_plan
from brokerproof.reports.commands import run as command

URL = "stomp://127.0.0.1:61613"
NAMES = ("live-delay", "live-redelivery", "live-in-flight", "browser-sees-everything", "delay-with-many-waiting")
PLAN = [(name, programs()[name]) for name in NAMES]
WANTED = [one.id for one in default_catalogue().judged()]


def played(end: float, wanted: list[str] = WANTED) -> list[str]:
    """The names, where a program takes its estimate."""
    now = [0.0]
    names = []
    for name, program in quick_plan(PLAN, wanted, end, real_ms, clock=lambda: now[0]):
        names.append(name)
        now[0] += 1 + real_ms(program) / 1000
    return names


def test_the_shortest_goes_first_and_each_shows_something_new() -> None:
    names = played(1e9)
    assert real_ms(programs()[names[0]]) == min(real_ms(program) for _, program in PLAN)
    seen: set[str] = set()
    for name in names:
        verdicts = run_program(programs()[name], name, wanted=WANTED).verdicts
        shown = {one.requirement for one in verdicts if one.verdict.value in {"satisfied", "violated"}}
        assert not shown <= seen, name
        seen |= shown


def test_nothing_is_begun_that_cannot_end_in_time() -> None:
    assert len(played(1e9)) > len(played(3.0)) > len(played(0.0)) == 1
    assert len(played(1e9, ["INA-001"])) == 1, "what shows nothing that is asked for is left out"
    assert list(quick_plan([], WANTED, 1e9, real_ms)) == []


def test_a_covering_plan_shows_each_requirement_as_often_as_it_can() -> None:
    shows = {name: frozenset(of) for name, of in zip(NAMES, (["A", "B"], ["A"], ["A"], ["B", "C"], []), strict=True)}
    chosen = [name for name, _ in covering_plan(PLAN, shows, lambda _: 1000)]
    assert chosen == [name for name in NAMES if name in chosen], "in the plan's order"
    for requirement in "ABC":
        able = [name for name in NAMES if requirement in shows[name]]
        assert sum(name in chosen for name in able) >= min(TIMES, len(able))
    assert len(chosen) == 3, "a program that shows nothing new is left out"
    assert [name for name, _ in covering_plan(PLAN, {NAMES[1]: frozenset("A")}, lambda _: 1000)] == [NAMES[1]]


@pytest.mark.parametrize(
    ("argv", "covering"),
    [
        ([], True),
        (["--programs", "9"], True),
        (["--full"], False),
        (["--tier", "live"], False),
        (["--requirement", "EXP-*"], False),
        (["--mutant", "memory-starves"], False),
        (["--chaos", "calm"], False),
        (["--broker", "activemq"], False),
    ],
)
def test_the_main_job_alone_plays_what_covers(argv: list[str], covering: bool) -> None:
    assert command._suite_options(command._parse(argv)).covering is covering


def test_a_name_is_the_column(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ProfileAdapter, "found", lambda _: Found(["ttl"], stamps=False, server="x/1"))
    runs = live_runs(SuiteOptions(broker=URL, name="mybroker-2.1", quick_s=0.0), ("GEN-001",))
    assert (runs.column, runs.total) == ("mybroker-2.1", 0)
    assert runs.about["programs"].startswith("a quick selection")
    with pytest.raises(UsageError, match="name a broker"):
        command.main(["--name", "mine", "--tier", "simulated"])


def test_what_does_not_apply_is_said_by_one_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ProfileAdapter, "found", lambda _: Found(["ttl"], stamps=False, server="x/1"))
    monkeypatch.setattr(live, "refused_by", lambda _: [])
    runs = live_runs(SuiteOptions(broker=URL, requirement="MEM-001"), ("MEM-001",))
    assert (runs.first, runs.about["programs"]) == (1, "0 of the corpus that show MEM-001, 0 do not fit")


def test_a_url_is_tested_quickly_unless_all_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[float | None] = []

    def suite(options: SuiteOptions) -> Iterator[SuiteEvent]:
        seen.append(options.quick_s)
        yield SuiteStarted(["mine"], [], 0)
        yield SuiteFinished("sha256:" + "0" * 64, 0.0)

    monkeypatch.setattr(command, "run_suite", suite)
    for more in ([], ["--full"], ["--budget", "60"], ["--programs", "9"]):
        command.main([URL, "--out", str(tmp_path), *more])
    command.main(["--full", "--tier", "live", "--out", str(tmp_path)])  # a broker that we start always is
    assert seen == [command.QUICK_S, None, None, None, None]
    assert f"brokerproof profile init {URL}" in capsys.readouterr().out
