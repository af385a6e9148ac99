"""``brokerproof nightly`` with virtual time in the place of real processes, and a clock of its own: what a night
remembers, what turns it red, and that a kill loses nothing.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree as ET

import pytest

from brokerproof.conformance.cli import main
from brokerproof.conformance.corpus import programs
from brokerproof.conformance.experiment.exits import OK, SUITE, USAGE, VIOLATED
from brokerproof.conformance.experiment.program import Program, read_program
from brokerproof.conformance.experiment.results import RunResult
from brokerproof.conformance.generate.chaos import PROFILES
from brokerproof.conformance.running.engine import run_program
from brokerproof.conformance.running.live import violated
from brokerproof.conformance.running.options import budget_s, seconds_of
from brokerproof.conformance.stories import stories
from brokerproof.reports.commands import night, night_bench, nightly
from brokerproof.reports.store.journal import Journal
from brokerproof.reports.store.nights import BLOCK, State, read_state

Entry = tuple[str, Program]
BAD, GOOD = "absolute-delivery-time", "alive-at-its-expiration"
MUTANT = "delay-ignored"
STORY = "004-delay"


class World:
    """Real processes as the tests have them: runs in virtual time, of which each takes a second of the night's clock.
    ``planted`` says for each run, by its number, which defect the broker has.
    """

    def __init__(self) -> None:
        self.now_s = 0.0
        self.ran: list[str] = []
        self.planted: Callable[[int], str | None] = lambda number: None
        self.ends_at: int | None = None
        self.trouble = ""

    def monotonic(self) -> float:
        self.now_s += 0.001
        return self.now_s

    def run(self, adapter: object, _: object, program: Program, name: str, **given: object) -> RunResult:
        if self.ends_at is not None and len(self.ran) >= self.ends_at:
            self.ends_at = None
            raise KeyboardInterrupt
        self.ran.append(name)
        self.now_s += 1
        if self.trouble:
            return RunResult(name, "reference", "live", program, [], None, problem=self.trouble)
        result = run_program(program, name, mutant=self.planted(len(self.ran)))
        result.world, result.mutant = "live", None
        return result

    def run_all(
        self, adapter: object, plan: Iterable[Entry], wanted: object, mutant: object, drawn: Iterable[Entry]
    ) -> Iterator[RunResult]:
        for name, program in chain(plan, drawn):
            yield self.run(adapter, None, program, name)

    def seeds(self, first: int, count: int, *_: object) -> list[RunResult]:
        self.ran.append(f"seed {first}")
        self.now_s += 10
        return []


@pytest.fixture(autouse=True)
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    found, corpus, told = World(), programs(), {STORY: stories()[STORY]}
    monkeypatch.setattr(nightly, "time", SimpleNamespace(monotonic=found.monotonic, time_ns=lambda: 10**18))
    for module in (night, night_bench):
        monkeypatch.setattr(module, "stories", lambda: told)
        monkeypatch.setattr(module, "real_ms", lambda _: 1000)
    monkeypatch.setattr(night, "plan_of", lambda _: [(name, corpus[name]) for name in (GOOD, BAD)])
    monkeypatch.setattr(night, "refused_by", lambda _: [])
    monkeypatch.setattr(
        night, "random_plan", lambda _, options, __: iter([(f"{options.chaos}-{options.seed}", corpus[GOOD])])
    )
    monkeypatch.setattr(night, "run_all", found.run_all)
    monkeypatch.setattr(night, "run_seeds", found.seeds)
    monkeypatch.setattr(night_bench, "run_live", found.run)
    monkeypatch.setattr(night_bench, "Laboratory", contextlib.nullcontext)
    monkeypatch.setattr(night_bench, "LIVE_BUDGET", 40)
    monkeypatch.delenv("CI", raising=False)
    return found


@pytest.fixture(autouse=True)
def no_pages(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """But for the test that looks at them: each night would draw one for every requirement."""
    if request.node.name != "test_what_is_written":
        monkeypatch.setattr("brokerproof.reports.render.formats.write_html", lambda folder, *_: folder / "index.html")


def passed(state: Path, *words: str, budget: str = "200s") -> int:
    """One night; its exit code."""
    return main(["nightly", "--budget", budget, "--state", str(state), "--out", str(state.parent / "out"), *words])


def statuses(state: Path) -> dict[str, str]:
    """Failure -> its status in the last night."""
    found = read_state(state)
    return {one.found.what: one.status(found.nights[-1].id) for one in found.failures}


def distinct(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nights of tests begin within one second: name them apart."""
    names = iter(range(100))
    real = nightly.Opening
    monkeypatch.setattr(nightly, "Opening", lambda night, seed: real(night.replace("Z", f".{next(names):03}Z"), seed))


def test_failures_are_new_then_open_then_gone(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    distinct(monkeypatch)
    state = tmp_path / "state"
    assert passed(state) == OK
    world.planted = lambda _: MUTANT
    assert passed(state, "--fail-on", "new") == VIOLATED
    first = read_state(state)
    assert set(statuses(state).values()) == {"new"}
    assert "story 004-delay" in statuses(state)
    small = {one.found.what: one.found for one in first.failures}["DLY-001"]
    assert small.shrunk
    assert small.steps < len(programs()[BAD].steps)
    assert violated(run_program(read_program(state / "programs" / small.program), "x", mutant=MUTANT))
    assert small.replay in capsys.readouterr().out
    world.ran.clear()
    assert passed(state) == OK
    assert any(name.startswith("again-") for name in world.ran[:5]), "what was found is tried first"
    assert set(statuses(state).values()) == {"open"}
    second = read_state(state)
    assert [one.first for one in second.failures] == [one.first for one in first.failures]
    assert {one.last for one in second.failures} == {second.nights[-1].id}
    assert passed(state, "--fail-on", "any") == VIOLATED
    assert passed(state, "--fail-on", "none") == OK
    world.planted = lambda _: None
    assert passed(state, "--fail-on", "any") == OK
    assert set(statuses(state).values()) == {"gone"}
    world.planted = lambda _: MUTANT
    assert passed(state) == VIOLATED, "what came back is new"
    nights = read_state(state).nights
    assert [one.seed - nights[0].seed for one in nights] == [BLOCK * number for number in range(len(nights))]


def test_what_cannot_be_tried_again_is_said_and_what_ends_too_late_is_not_begun(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    distinct(monkeypatch)
    state = tmp_path / "state"
    world.planted = lambda _: MUTANT
    assert passed(state) == VIOLATED
    monkeypatch.setattr(night_bench, "real_ms", lambda _: 30_000)
    world.ran.clear()
    assert passed(state, budget="100s") == OK
    assert not any(name.startswith("again-") for name in world.ran), "its share is 20 s"
    kept = (state / "state.json").read_text()
    (state / "state.json").write_text(kept.replace(f"story {STORY}", "story 004-of-old"))
    assert passed(state) == VIOLATED
    assert "story 004-of-old is not tried again: there is no story '004-of-old' any more" in capsys.readouterr().err


def test_what_shows_in_some_runs_only_is_flaky(world: World, tmp_path: Path) -> None:
    state, shown = tmp_path / "state", []

    def once(number: int) -> str | None:
        """The first run of the program only."""
        if world.ran[-1] == BAD and not shown:
            shown.append(number)
            return MUTANT
        return None

    world.planted = once
    assert passed(state) == OK
    assert statuses(state)["DLY-001"] == "flaky"
    assert not any(one.since for one in read_state(state).failures), "nobody is blamed"
    assert "flaky" in (tmp_path / "out/night.md").read_text()


@pytest.mark.parametrize("ends_at", [1, 3, 5, 12])
def test_a_night_that_is_killed_goes_on(world: World, tmp_path: Path, ends_at: int) -> None:
    world.planted = lambda _: MUTANT
    whole, cut = tmp_path / "whole/state", tmp_path / "cut/state"
    assert passed(whole) == VIOLATED
    alone, world.ran = world.ran, []
    world.ends_at, world.now_s = ends_at, 0.0
    assert passed(cut) == SUITE
    with contextlib.suppress(FileNotFoundError), (cut / "tonight/journal.jsonl").open("ab") as file:
        file.write(b'{"broker": "reference", "sta')
    before = [unit.name for unit in Journal(cut).units]
    assert passed(cut) == VIOLATED
    reports = [json.loads((folder.parent / "out/report.json").read_bytes()) for folder in (whole, cut)]
    assert reports[0]["cells"] == reports[1]["cells"]
    assert reports[0]["columns"][0]["digest"] == reports[1]["columns"][0]["digest"]
    assert statuses(whole) == statuses(cut)
    corpus = [name for name in world.ran if name in {GOOD, BAD}]
    assert sorted(corpus) == sorted([GOOD, BAD]), "what was done is not done again"
    assert len(read_state(cut).nights) == 1
    assert not (cut / "tonight").exists()
    assert len(world.ran) >= len(alone) - 40
    assert len(before) >= min(ends_at, 3)


def test_where_a_stage_ended_the_next_night_begins(world: World, tmp_path: Path) -> None:
    state = tmp_path / "state"
    assert passed(state, budget="5s") == OK
    assert [name for name in world.ran if name in {GOOD, BAD}] == [GOOD]
    assert passed(state, budget="5s") == OK
    assert [name for name in world.ran if name in {GOOD, BAD}] == [GOOD, BAD]


def test_an_old_night_is_closed_and_another_begins(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    distinct(monkeypatch)
    state = tmp_path / "state"
    world.planted, world.ends_at = lambda _: MUTANT, 9
    assert passed(state) == SUITE
    monkeypatch.setattr(nightly, "GOES_ON_S", -1)
    passed(state)
    assert "cut short long ago" in capsys.readouterr().err
    assert len(read_state(state).nights) == 2


def test_what_is_written(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    world.planted = lambda _: MUTANT
    passed(tmp_path / "state")
    out = tmp_path / "out"
    assert (tmp_path / "summary.md").read_text() == (out / "night.md").read_text()
    assert "| **new** | DLY-001 | reference |" in (out / "night.md").read_text()
    root = ET.fromstring((out / "night.xml").read_bytes())  # noqa: S314 - our own
    cases = {case.get("name"): [child.tag for child in case] for case in root.iter("testcase")}
    assert cases["DLY-001"] == ["failure"]
    assert cases["corpus: 2 programs"] == []
    assert int(root.get("failures", "0")) == sum(tags == ["failure"] for tags in cases.values())
    assert {"index.html", "junit.xml", "report.sarif", "badge-reference.svg"} <= {path.name for path in out.iterdir()}
    assert (out / "reference/stories/004-delay.html").exists()
    passed(tmp_path / "state")
    root = ET.fromstring((out / "night.xml").read_bytes())  # noqa: S314 - our own
    case = next(one for one in root.iter("testcase") if one.get("name") == "DLY-001")
    assert [(child.tag, child.get("message", "")[:5]) for child in case] == [("skipped", "open,")]


def test_a_broker_that_cannot_be_tested_does_not_stop_the_others(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(night, "TROUBLES_MAX", 2)
    world.trouble = "the broker does not start"
    assert passed(tmp_path / "state", "--broker", "activemq", "reference") == SUITE
    text = capsys.readouterr().out
    assert text.count("not tested further: 2 runs failed one after the other") == 2


def test_a_defect_is_planted_and_jobs_reach_virtual_time(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[object, ...]] = []
    monkeypatch.setattr(night, "run_seeds", lambda *given: asked.append(given[2:4]) or world.seeds(*given))
    passed(tmp_path / "state", "--jobs", "3", "--mutant", MUTANT)
    assert set(asked) == {(3, MUTANT)}


def test_bad_usage_names_the_remedy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = tmp_path / "state"
    state.mkdir()
    for words, remedy in (
        (["--budget", "2"], "2h, 90m or 1h30m"),
        (["--budget", "0s"], "2h, 90m or 1h30m"),
        (["--broker", "activemg"], "activemq"),
        (["--broker", "activemq", "--broker", "activemq"], "given twice"),
        (["--jobs", "0"], "at least 1"),
        (["--mutant", MUTANT, "--broker", "activemq"], "not in 'activemq'"),
    ):
        assert passed(state, *words, budget="1s") == USAGE, words
        assert remedy in capsys.readouterr().err
    (state / "state.json").write_text("{")
    assert passed(state) == USAGE
    assert "remove it, or give another --state" in capsys.readouterr().err
    (state / "state.json").write_text('{"format": "brokerproof/nights/2", "later": 1}')
    assert passed(state) == USAGE
    assert "its format is 'brokerproof/nights/2'" in capsys.readouterr().err
    (state / "state.json").unlink()
    assert main(["nightly", "--state", str(Path(__file__) / "state"), "--out", str(tmp_path / "out")]) == USAGE
    assert "(--state)" in capsys.readouterr().err
    with nightly._alone(state):
        assert passed(state) == USAGE
    assert "another night is running" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "seconds"), [("2h", 7200), ("90m", 5400), ("1h30m", 5400), ("1.5h", 5400), ("45s", 45)]
)
def test_budgets_are_times(text: str, seconds: float) -> None:
    assert seconds_of(text) == budget_s(text) == seconds
    assert budget_s("45") == 45


def test_a_lost_state_repeats_no_seed() -> None:
    from datetime import date

    assert State().seed_of(date(2026, 11, 24)) - State().seed_of(date(2026, 11, 23)) == BLOCK


@pytest.mark.parametrize(
    ("words", "expected"), [((), "nightly"), (("--chaos", "cruel"), "cruel"), (("--chaos", "none"), "")]
)
def test_random_chaos_is_as_wild_as_asked(world: World, tmp_path: Path, words: tuple[str, ...], expected: str) -> None:
    assert passed(tmp_path / "state", *words) == OK
    drawn = {name.partition("-")[0] for name in world.ran if name.partition("-")[0] in {"None", *PROFILES}}
    assert drawn == {"None", expected} - {""}
