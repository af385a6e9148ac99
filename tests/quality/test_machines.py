"""The state machines: their models, their search in any world, and what they make of a failure."""

from __future__ import annotations

import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest

from brokerproof.conformance.brokers.reference import ReferenceAdapter
from brokerproof.conformance.cli import main
from brokerproof.conformance.corpus import programs
from brokerproof.conformance.experiment.exits import OK, VIOLATED
from brokerproof.conformance.experiment.history import Event
from brokerproof.conformance.experiment.program import Program, read_program
from brokerproof.conformance.experiment.steps import AnyStep
from brokerproof.conformance.experiment.verdict import VerdictKind
from brokerproof.conformance.generate.programs import program_for_seed
from brokerproof.conformance.known import Deviation, Known
from brokerproof.conformance.machines import MODELS
from brokerproof.conformance.machines.delay import DelayModel
from brokerproof.conformance.machines.failure import explain, shrink_failure
from brokerproof.conformance.machines.inflight import InFlightModel
from brokerproof.conformance.machines.model import Model
from brokerproof.conformance.machines.search import Examined, Search, simulated
from brokerproof.conformance.worlds.executor import World
from brokerproof.conformance.worlds.simulated.world import SimulatedWorld


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_the_reference_broker_keeps_the_promise(model: type[Model]) -> None:
    search = Search(model, simulated(), examples=8)
    assert search.run() is None
    assert len(search.results) == 8
    assert {verdict.requirement for result in search.results for verdict in result.verdicts} == set(search.wanted)


def test_any_world_will_do() -> None:
    """The factory is all that a search knows of its world."""
    worlds: list[World] = []

    def opened(frame: Program) -> World:
        worlds.append(simulated("delay-ignored")(frame))
        return worlds[-1]

    failure = Search(DelayModel, opened).run()
    assert failure is not None
    assert len(worlds) > 1
    assert failure.result.history is not None
    assert failure.result.history.header.mutant == "delay-ignored"


def test_a_world_that_fails_is_shut_and_no_promise_is_broken() -> None:
    shut: list[World] = []

    class Failing(SimulatedWorld):
        def apply(self, step: AnyStep) -> list[Event]:
            raise OSError(f"no such thing: {step}")

        def shut(self, *, finished: bool = False) -> None:
            assert not finished
            shut.append(self)

    def opened(frame: Program) -> World:
        world = Failing()
        world.open(frame)
        return world

    search = Search(DelayModel, opened)
    with pytest.raises(OSError, match="no such thing"):
        search.run()
    assert shut
    assert search.failure is None
    with pytest.raises(OSError, match="no such thing"):
        search.execute(program_for_seed(1))


def test_a_search_repeats_whatever_is_loaded() -> None:
    """Hypothesis takes constants from loaded modules; our searches must not depend on that."""
    code = (
        "from brokerproof.conformance.machines import MODELS\n"
        "from brokerproof.conformance.machines.search import Search, simulated\n"
        "search = Search(MODELS['delay'], simulated(), ['DLY-001'], examples=5)\n"
        "search.run()\n"
        "print([result.program.digest() for result in search.results])\n"
    )
    alone = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    here = Search(DelayModel, simulated(), ["DLY-001"], examples=5)
    here.run()
    assert alone.stdout.strip() == str([result.program.digest() for result in here.results])
    other = Search(DelayModel, simulated(), ["DLY-001"], examples=5, first_seed=1)
    other.run()
    assert [run.program for run in other.results] != [run.program for run in here.results]


def test_only_what_is_wanted_and_a_must_ends_a_search() -> None:
    unwanted = Search(DelayModel, simulated("delay-ignored"), ["INF-001"], examples=10)
    assert unwanted.run() is None
    should = Search(DelayModel, simulated("delay-late"), ["DLY-002"], examples=20)
    assert should.run() is None
    assert any(verdict.verdict.value == "violated" for result in should.results for verdict in result.verdicts)


#: Machine, planted defect, who finds it: a model after a step, or the judge at the end.
def test_what_a_broker_is_known_for_is_no_failure() -> None:
    class Deviating(ReferenceAdapter):
        chosen = ("--broker", "deviating")

        def known(self) -> Known:
            return Known("deviating.toml", [Deviation("DLY-001", [], "it hurries", "measured")])

    search = Search(DelayModel, simulated("delay-ignored"), ["DLY-001"], examples=10, adapter=Deviating())
    assert search.run() is None
    assert VerdictKind.KNOWN_FAILURE in {verdict.verdict for result in search.results for verdict in result.verdicts}
    assert all(result.chosen == ("--broker", "deviating") for result in search.results)


#: Model, mutant, whose finding is looked at, and the seed from which a search for one begins.
FAILURES = [(InFlightModel, "ledger-counts-twice", "model", 8000), (DelayModel, "delay-1ms-early", "judge", 0)]
#: Which of the two finds it in a program depends on the generator: so many searches are tried.
SEARCHES = 30


@pytest.fixture(scope="module", params=FAILURES, ids=lambda entry: str(entry[1]))
def found(request: pytest.FixtureRequest) -> tuple[Search, Examined, str]:
    model, mutant, by, first_seed = request.param
    for nth in range(SEARCHES):
        search = Search(model, simulated(mutant), mutant=mutant, first_seed=first_seed + nth * 1000)
        failure = search.run()
        assert failure is not None
        if failure.findings[0].by == by:
            return search, failure, by
    pytest.fail(f"no {by} found {mutant} first in {SEARCHES} searches")


def test_a_failure_is_shrunk_saved_and_replays(
    found: tuple[Search, Examined, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    search, failure, by = found
    shrunk = shrink_failure(search, failure)
    assert shrunk.finding.by == failure.findings[0].by == by
    assert shrunk.seconds < 30
    assert len(shrunk.result.program.steps) <= 3
    lines = explain(search, failure, shrunk, tmp_path / "made").splitlines()
    assert f"found by {'its own model' if by == 'model' else 'the judge at the end of the run'}; " in lines[0]
    saved = Path(lines[3].removeprefix("saved: "))
    assert read_program(saved) == shrunk.result.program
    line = next(line for line in lines if "replay:" in line)
    words = shlex.split(line.split("brokerproof ", 1)[1])
    assert words[:2] == ["replay", str(saved)]
    assert ("--machine" in words) == (by == "model")
    assert main(words) == VIOLATED
    shown = capsys.readouterr().out
    assert shrunk.finding.verdict.text in shown
    assert line in shown, "replay prints the line that was given"
    assert main(["replay", str(saved)]) == OK, "without the defect nothing is violated"


def test_the_machine_of_a_replay_matters(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``--machine`` adds what the model says, of the requirements that are wanted."""
    path = tmp_path / "program.json"
    path.write_bytes(programs()["live-delay"].encode())
    ignored = ["replay", str(path), "--mutant", "delay-ignored", "--requirement", "DLY-001"]
    told = "by the model of machine delay, "
    assert main(ignored) == VIOLATED
    assert told not in capsys.readouterr().out
    assert main([*ignored, "--machine", "delay"]) == VIOLATED
    assert told in capsys.readouterr().out
    assert main([*ignored[:-1], "INF-001", "--machine", "delay"]) == OK


def test_shrinking_ends_in_time(found: tuple[Search, Examined, str]) -> None:
    """Out of time, what was found is what there is."""
    search, failure, _ = found
    begun = time.monotonic()
    shrunk = shrink_failure(search, failure, seconds=0)
    assert time.monotonic() - begun < 10
    assert shrunk.result.program == failure.result.program


def test_a_folder_that_cannot_be_written_hides_nothing(found: tuple[Search, Examined, str]) -> None:
    search, failure, _ = found
    shrunk = shrink_failure(search, failure, seconds=0)
    text = explain(search, failure, shrunk, Path("/dev/null/x"))
    assert "not saved: /dev/null/x: cannot be written" in text
    assert shrunk.finding.verdict.text in text
