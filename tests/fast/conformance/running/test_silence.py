"""Losing one's voice: a broker that refuses what it should accept leaves nothing to judge, and the run says so."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from brokerproof.conformance.cli import main
from brokerproof.conformance.corpus import programs
from brokerproof.conformance.experiment.exits import INCONCLUSIVE, OK
from brokerproof.conformance.experiment.history import Ack as AckEvent
from brokerproof.conformance.experiment.history import Connect, Consume, Counters, Fault, History, Send, Skipped
from brokerproof.conformance.experiment.results import RunResult
from brokerproof.conformance.experiment.steps import Exhaust
from brokerproof.conformance.experiment.traits import Traits
from brokerproof.conformance.experiment.verdict import Verdict, VerdictKind
from brokerproof.conformance.mutants import MUTANTS, Mutant
from brokerproof.conformance.requirements.catalogue import default_catalogue
from brokerproof.conformance.running.engine import run_program
from brokerproof.conformance.running.silence import (
    Voices,
    _may_lack_room,
    _stalled_for_less,
    as_observed,
    first_difference,
    lost_voice,
)
from brokerproof.reference_broker.core.broker import Broker
from brokerproof.reference_broker.core.effects import Effect, Refused
from brokerproof.reference_broker.core.events import POISON, Ack, Event
from brokerproof.reference_broker.core.instant import Now
from brokerproof.reports.store.schema import read_report
from tests.fast.conformance.rules.history_builder import Builder

REJECTING = next(
    name for name, program in programs().items() if any(step.__struct_config__.tag == "nack" for step in program.steps)
)


class NoRejections(Broker):
    """Every rejection is refused."""

    def handle(self, event: Event, now: Now) -> list[Effect]:
        if isinstance(event, Ack) and event.kind == POISON:
            return [Refused(event.connection, event.request, "bad", "no rejections here")]
        return super().handle(event, now)


@pytest.fixture
def mutant(monkeypatch: pytest.MonkeyPatch) -> str:
    name = "refuses-rejections"
    monkeypatch.setitem(MUTANTS, name, Mutant(name, "RDL-001", "Rejections are refused.", broker=NoRejections))
    return name


def test_the_first_answer_that_differs_is_named(mutant: str) -> None:
    lost = lost_voice(run_program(programs()[REJECTING], REJECTING, mutant=mutant))
    assert lost
    expected, found = next(iter(lost.values()))
    assert "nack" in expected
    assert expected.endswith(" ok")
    assert found == expected.removesuffix("ok") + "fail (no rejections here)"


def test_a_sound_broker_keeps_its_voice() -> None:
    for name, program in programs().items():
        if name < "b":
            assert lost_voice(run_program(program, name)) == {}, name


def test_what_nobody_asked_for_has_not_fallen_silent(mutant: str) -> None:
    result = run_program(programs()[REJECTING], REJECTING, mutant=mutant, wanted=["GEN-001"])
    assert [verdict.verdict for verdict in result.verdicts] == [VerdictKind.SATISFIED]
    assert lost_voice(result) == {}


def test_equal_answers_are_no_silence() -> None:
    history = run_program(programs()[REJECTING], REJECTING).history
    assert history is not None
    assert first_difference(history, history) is None


def test_an_answer_that_never_came_differs() -> None:
    sound, other = (run_program(programs()[REJECTING], REJECTING).history for _ in range(2))
    assert sound is not None
    assert other is not None
    gone = [event for event in other.events if isinstance(event, Send)][-1]
    other.events = [event for event in other.events if event.host != gone.host]
    difference = first_difference(sound, other)
    assert difference is not None
    assert difference[1] == f"{gone.host}: nothing"


def test_a_step_that_its_client_cannot_do_excuses(mutant: str) -> None:
    result = run_program(programs()[REJECTING], REJECTING, mutant=mutant)
    assert result.history is not None
    assert lost_voice(result)
    result.history.events.insert(0, Skipped(seq=0, t0=0, t1=0, host="", step={"do": "poll"}))
    assert lost_voice(result) == {}


def played_alone(skipped: int) -> tuple[History, History]:
    """The sound broker's run, in which nothing could become scarce, and another's, in which something did before its
    first step, and which skipped so many of the same.
    """
    program = programs()[REJECTING]
    program = program.with_steps([Exhaust(), Exhaust(), *program.steps])
    sound, other = (run_program(program, REJECTING).history for _ in range(2))
    assert sound is not None
    assert other is not None
    steps = [event for event in other.events if isinstance(event, Skipped) and event.step["do"] == "exhaust"]
    other.events = [event for event in other.events if event not in steps[skipped:]]
    return sound, other


def refused(history: History) -> History:
    """The same with its first send refused."""
    place = next(index for index, event in enumerate(history.events) if isinstance(event, Send))
    history.events[place] = msgspec.structs.replace(history.events[place], result="fail", refusal="no")
    return history


def lost_of(name: str, world: str, traits: Traits | None, requirement: str) -> dict[str, tuple[str, str]]:
    """What was lost of a run that says nothing of a requirement, and in which the first answer differed: in that world,
    of hosts that have these traits.
    """
    result = run_program(programs()[name], name)
    assert result.history is not None
    assert VerdictKind.SATISFIED in {one.verdict for one in result.verdicts if one.requirement == requirement}
    events = [
        msgspec.structs.replace(event, traits=traits) if traits is not None and isinstance(event, Connect) else event
        for event in refused(result.history).events
    ]
    result.history = History(msgspec.structs.replace(result.history.header, world=world), events)
    result.verdicts = [Verdict(requirement, VerdictKind.NOT_EXERCISED)]
    return lost_voice(result)


def test_what_virtual_time_alone_can_tell_is_nobodys_silence() -> None:
    assert set(lost_of("live-delay", "simulated", None, "PRE-009")) == {"PRE-009"}
    assert lost_of("live-delay", "live", None, "PRE-009") == {}
    assert set(lost_of("live-delay", "live", None, "GEN-001")) == {"GEN-001"}


def test_what_a_library_settles_outside_of_transactions_is_nobodys_silence() -> None:
    assert set(lost_of("live-transacted-acks", "live", None, "GEN-064")) == {"GEN-064"}
    assert lost_of("live-transacted-acks", "live", Traits(transaction_scope="session"), "GEN-064") == {}


def test_what_a_library_that_checks_cannot_show_is_nobodys_silence() -> None:
    assert set(lost_of("alive-at-its-expiration", "live", None, "EXP-016")) == {"EXP-016"}
    assert lost_of("alive-at-its-expiration", "live", Traits(checks_expiry=True), "EXP-016") == {}


@pytest.mark.parametrize(
    ("kind", "excused"),
    [(VerdictKind.KNOWN_FAILURE, True), (VerdictKind.VIOLATED, False), (VerdictKind.SATISFIED, False)],
)
def test_an_answer_that_is_known_not_to_come_excuses(kind: VerdictKind, *, excused: bool) -> None:
    result = run_program(programs()["live-delay"], "live-delay")
    assert result.history is not None
    place = next(index for index, event in enumerate(result.history.events) if isinstance(event, Send))
    result.history.events[place] = msgspec.structs.replace(result.history.events[place], result="unknown")
    result.verdicts = [Verdict("GEN-001", VerdictKind.NOT_EXERCISED), Verdict("GEN-110", kind)]
    assert (lost_voice(result) == {}) is excused


@pytest.mark.parametrize("skipped", [0, 1])
def test_a_fault_that_only_its_world_could_play_excuses(skipped: int) -> None:
    sound, other = played_alone(skipped)
    assert first_difference(sound, refused(other)) is not None
    other.events.insert(1, Fault(seq=0, t0=0, t1=0, host="", fault="exhaust", target="b", how="descriptors"))
    assert first_difference(sound, other) is None


def acknowledged(history: History, **fields: object) -> History:
    events = [msgspec.structs.replace(one, **fields) if isinstance(one, AckEvent) else one for one in history.events]
    return History(history.header, events)


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ({"result": "fail", "refusal": "no"}, True),
        ({"result": "fail", "refusal": "unsupported: not one of several"}, False),
        ({"tx": None}, False),
    ],
)
def test_what_its_client_cannot_ask_excuses(fields: dict[str, object], found: bool) -> None:
    sound = run_program(programs()["acknowledged-in-transactions-that-end-in-vain"], "vain").history
    assert sound is not None
    assert (first_difference(sound, acknowledged(sound, **fields)) is not None) is found


def test_a_fault_after_the_answer_excuses_nothing() -> None:
    sound, other = played_alone(0)
    other.events.insert(1, Fault(seq=0, t0=0, t1=0, host="", fault="exhaust", target="b", how="descriptors"))
    late = [event for event in sound.events if isinstance(event, Skipped)]
    sound.events = [event for event in sound.events if event not in late]
    seq = sound.events[-1].seq
    sound.events += [msgspec.structs.replace(event, seq=seq + place) for place, event in enumerate(late, 1)]
    assert first_difference(sound, refused(other)) is not None


def test_a_fault_that_neither_played_excuses_nothing() -> None:
    sound, other = played_alone(2)
    other.events.insert(1, Fault(seq=0, t0=0, t1=0, host="", fault="exhaust", target="b", how="processor"))
    assert first_difference(sound, refused(other)) is not None


def test_who_accepts_what_the_reference_broker_refuses_has_not_lost_its_voice() -> None:
    sound, other = (run_program(programs()[REJECTING], REJECTING).history for _ in range(2))
    assert sound is not None
    assert other is not None
    assert first_difference(refused(sound), other) is None


def test_who_gives_what_the_reference_broker_holds_back_has_not_lost_its_voice() -> None:
    """A memory limit starves a consumer on the one, and not on the other."""
    sound, other = (run_program(programs()["memory-relief"], "relief").history for _ in range(2))
    assert sound is not None
    assert other is not None
    given = next(event for event in sound.events if isinstance(event, Consume))
    sound.events.remove(given)
    assert first_difference(sound, other) is None
    assert first_difference(other, sound) is not None


def heard(kind: VerdictKind, *, lost: bool, played: bool = True) -> RunResult:
    program = programs()[REJECTING]
    history = run_program(program, REJECTING, wanted=()).history if played else None
    result = RunResult("x", "other", "live", program, [Verdict("GEN-001", kind)], history)
    result.lost = {"GEN-001": ("ok", "fail")} if lost else {}
    return result


@pytest.mark.parametrize("kind", [VerdictKind.SATISFIED, VerdictKind.NOT_APPLICABLE, VerdictKind.KNOWN_FAILURE])
def test_another_run_or_a_promise_excuses(kind: VerdictKind) -> None:
    voices = Voices()
    voices.hear(heard(VerdictKind.NOT_EXERCISED, lost=True))
    assert [silence.run for silence in voices.silent()] == ["other/live/x"]
    voices.hear(heard(kind, lost=False))
    assert voices.silent() == []


def test_a_program_that_cannot_be_played_excuses_no_other() -> None:
    voices = Voices()
    voices.hear(heard(VerdictKind.NOT_EXERCISED, lost=True))
    voices.hear(heard(VerdictKind.NOT_APPLICABLE, lost=False, played=False))
    assert [silence.run for silence in voices.silent()] == ["other/live/x"]


def test_a_run_whose_requirements_fell_silent_ends_with_3(
    mutant: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("brokerproof.conformance.running.suite.programs", lambda: {REJECTING: programs()[REJECTING]})
    lost = sorted(lost_voice(run_program(programs()[REJECTING], REJECTING, mutant=mutant)))
    run = ["run", "--tier", "simulated", "--programs", "0", "--requirement", lost[0], "--inconclusive-max", "100"]
    assert main([*run, "--out", str(tmp_path / "sound")]) == OK
    assert main([*run, "--out", str(tmp_path / "silent"), "--mutant", mutant]) == INCONCLUSIVE
    line = next(one for one in capsys.readouterr().out.splitlines() if one.startswith("fell silent"))
    assert line.startswith(f"fell silent  {lost[0]}  reference/simulated/{REJECTING}: ")
    assert line.endswith(" (a MUST: exit code 3)") is (default_catalogue()[lost[0]].level == "MUST")
    (column,) = read_report(tmp_path / "silent").columns
    assert [silence.requirement for silence in column.silent] == [lost[0]]
    assert "fell silent" in (tmp_path / "silent" / "index.html").read_text()


def test_a_figure_that_nobody_can_read_of_a_broker_is_nobodys_silence() -> None:
    sound, other = (run_program(programs()["memory-mark"], "memory-mark").history for _ in range(2))
    assert sound is not None
    assert other is not None
    own = [event for event in other.events if isinstance(event, Counters) and event.dest is None]
    bare = [msgspec.structs.replace(event, memory_bytes=None) if event in own else event for event in other.events]
    assert as_observed(sound, other) is sound
    seen = as_observed(sound, History(other.header, bare))
    told = [event.memory_bytes for event in seen.events if isinstance(event, Counters) and event.dest is None]
    assert set(told) == {None}
    assert any(event.memory_bytes for event in seen.events if isinstance(event, Counters))


@pytest.mark.parametrize(("limit", "expected"), [(2048, True), (2**30, False)])
def test_who_lets_producers_wait_for_room_has_not_lost_its_voice(limit: int, expected: bool) -> None:
    story = Builder("live", memory_limit_bytes=limit).connect("p0").send("p0/1", "q0", size=1024)
    story = story.send("p0/2", "q0", size=1024, result="unknown").send("p0/3", "q0", size=4096, result="fail")
    history = story.phase("end").history()
    assert _may_lack_room(history, "p0: send p0/2 q0 unknown") is expected
    assert not _may_lack_room(history, "p0: send p0/2 q0 fail (no)")
    assert _may_lack_room(history, "p0: send p0/3 q0 fail (never)") is expected, "it can never fit"


@pytest.mark.parametrize(
    ("expected", "ours_ms", "theirs_ms", "excused"),
    [
        ("c0: leave ok", 2400, 600, True),
        ("c0: leave ok", 2400, 2400, False),
        ("c0: leave ok", 2400, 2300, False),
        ("c0: leave ok", 600, 2400, False),
        ("c0: begin c0/tx1 ok", 2400, 600, False),
        ("p0: leave ok", 2400, 600, False),
    ],
)
def test_a_connection_that_only_a_longer_stall_costs_is_nobodys_silence(
    expected: str, ours_ms: float, theirs_ms: float, excused: bool
) -> None:
    """After 2 s of silence, in virtual time; and whatever else a client leaves for is its broker's affair."""

    def stalled(lasts_ms: float, *, gives_up: bool = False) -> History:
        told = Builder().connect("p0").connect("c0").at(100).stall("c0")
        told = told.at(2100).closed("c0", "client", "c0") if gives_up and lasts_ms > 2000 else told
        return told.at(100 + lasts_ms).resume("c0").at(5000).phase("end").history()

    assert _stalled_for_less(stalled(ours_ms, gives_up=True), stalled(theirs_ms), expected) is excused
    assert not _stalled_for_less(stalled(ours_ms), stalled(theirs_ms), expected)
