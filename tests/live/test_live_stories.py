"""The live stories on real ActiveMQ: 5.17.2 must do what the feasibility study saw, 5.12.3 what makes it a finding.

Brokers are shared by the stories of one setting; the order of the tests is the order in which that is possible.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from brokerproof.conformance.brokers.activemq import ActiveMQAdapter
from brokerproof.conformance.corpus import programs
from brokerproof.conformance.corpus.stories import SKEW_MS, TTL_MS, Story, stories
from brokerproof.conformance.experiment.history import (
    Ack,
    Arrive,
    ClockSample,
    Closed,
    Consume,
    Counters,
    Discard,
    Fault,
    History,
    Send,
)
from brokerproof.conformance.experiment.verdict import VerdictKind, concluded
from brokerproof.conformance.known import load_known
from brokerproof.conformance.running.live import plan_of, run_live
from brokerproof.conformance.running.outcomes import outcomes
from brokerproof.conformance.worlds.live.laboratory import Laboratory
from brokerproof.conformance.worlds.live.world import LiveWorld
from brokerproof.conformance.worlds.simulated.world import SimulatedWorld
from tests.live.bench import activemq, events, make_laboratory
from tests.tools import at_night

pytestmark = pytest.mark.live
STORIES = stories()
#: Real clocks are read to the millisecond; a run on a busy machine takes its time between two steps.
TOLERANCE_MS = 1500
#: Stories of which more is asked below than how they end, and one of each other kind. The rest is the night's.
_VARIATIONS = ("1-plugin", "2-future", "2-plugin", "2-unchecked", "3-unchecked")
_ROWS = ("1", "1-volatile", "3", "3-stomp", "4", "6", "9", "11", "12", "13", "14", *_VARIATIONS)
DAILY = {
    *(f"live-000-{row}" for row in _ROWS),
    *(f"live-{name}" for name in ("delay", "limit", "quiet-link", "redelivery", "restart-kill", "silent-link")),
}


def in_order() -> list[str]:
    """By settings, then by the broker's clock, never backwards."""
    return sorted(
        STORIES,
        key=lambda name: (repr(STORIES[name].program.broker), STORIES[name].program.broker_host().clock.offset_ms),
    )


class Stage:
    """A laboratory, a release, and what was played so far."""

    def __init__(self, laboratory: Laboratory, adapter: ActiveMQAdapter) -> None:
        self.laboratory = laboratory
        self.adapter = adapter
        self.played: dict[str, History] = {}

    def play(self, name: str) -> History:
        if name not in self.played:
            self.played[name] = LiveWorld(self.adapter, self.laboratory).run(self.adapter.cast(STORIES[name].program))
        return self.played[name]


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    adapter = activemq()
    with make_laboratory(tmp_path_factory.mktemp("stage")) as laboratory:
        yield Stage(laboratory, adapter)
        adapter.close()


@pytest.fixture(scope="module")
def old_stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    adapter = activemq("5.12.3")
    with make_laboratory(tmp_path_factory.mktemp("old")) as laboratory:
        yield Stage(laboratory, adapter)
        adapter.close()


@pytest.mark.parametrize("name", at_night(in_order(), but=DAILY))
def test_it_ends_as_it_is_told(stage: Stage, name: str) -> None:
    assert outcomes(stage.play(name)) == STORIES[name].outcomes


def real_ms(history: History, at_ns: int) -> int:
    """Real wall time at an instant: the draining host's clock is right."""
    sample = events(history, ClockSample, "drain")[0]
    return sample.wall_ms + (at_ns - (sample.t0 + sample.t1) // 2) // 1_000_000


def stamps(history: History) -> tuple[int, int]:
    """Timestamp and expiration of the one message as its consumer got them, from the real time of its send."""
    (arrive,), (send,) = events(history, Arrive, "c0"), events(history, Send)
    base_ms = real_ms(history, send.t1)
    return arrive.timestamp_ms - base_ms, arrive.expiration_ms - base_ms


@pytest.mark.parametrize(
    ("row", "timestamp_ms", "expiration_ms"),
    [
        ("1-plugin", SKEW_MS, SKEW_MS + TTL_MS),
        ("2-unchecked", -SKEW_MS, TTL_MS - SKEW_MS),
        ("2-future", 0, TTL_MS),
        ("3-stomp", 0, TTL_MS),
        ("13", 0, TTL_MS),
        ("14", -SKEW_MS, 60_000 - SKEW_MS),
        ("11", SKEW_MS, SKEW_MS + TTL_MS),
    ],
)
def test_stamps_are_what_the_table_says(stage: Stage, row: str, timestamp_ms: int, expiration_ms: int) -> None:
    found = stamps(stage.play(f"live-000-{row}"))
    assert found[0] == pytest.approx(timestamp_ms, abs=TOLERANCE_MS)
    assert found[1] == pytest.approx(expiration_ms, abs=TOLERANCE_MS)


@pytest.mark.parametrize(("row", "enqueued", "expired"), [("1", 0, 0), ("12", 0, 0), ("3", 1, 1), ("2-plugin", 1, 1)])
def test_a_loss_on_arrival_is_invisible_in_the_queues_figures(
    stage: Stage, row: str, enqueued: int, expired: int
) -> None:
    look = next(
        found for found in events(stage.play(f"live-000-{row}"), Counters) if found.dest == "q0" and found.at_rest
    )
    assert (look.size, look.enqueued, look.expired) == (0, enqueued, expired)


@pytest.mark.parametrize("row", ["3", "6", "2-plugin", "4", "9"])
def test_what_the_library_throws_away_arrived_and_is_told(stage: Stage, row: str) -> None:
    history = stage.play(f"live-000-{row}")
    assert [arrive.message for arrive in events(history, Arrive, "c0")] == ["p0/1"]
    assert [discard.message for discard in events(history, Discard, "c0")] == ["p0/1"]
    assert events(history, Consume, "c0") == []


@pytest.mark.parametrize("row", ["3-unchecked", "2-unchecked", "3-stomp"])
def test_what_is_not_checked_is_not_thrown_away(stage: Stage, row: str) -> None:
    history = stage.play(f"live-000-{row}")
    assert events(history, Discard) == []
    assert [ack.result for ack in events(history, Ack, "c0")] == ["ok"]


@pytest.mark.parametrize("row", ["1", "3", "1-volatile"])
def test_a_dead_letter_has_lost_its_expiration(stage: Stage, row: str) -> None:
    (letter,) = events(stage.play(f"live-000-{row}"), Arrive, "drain")
    assert (letter.dest, letter.original_dest, letter.expiration_ms) == ("ActiveMQ.DLQ", "q0", 0)


def test_a_silent_link_is_closed_by_the_broker_and_proven(stage: Stage) -> None:
    history = stage.play("live-silent-link")
    stall = events(history, Fault)[0]
    if stall.evidence is None:
        pytest.skip("not run: no Toxiproxy server here, so the stall has no evidence")
    assert stall.evidence["bytes_in"] > 0
    assert stall.evidence["bytes_out"] == 0
    (closed,) = events(history, Closed, "b")
    assert closed.who == "broker"
    assert "inactive" in closed.reason
    assert closed.idle_ns is not None
    assert 1_950_000_000 <= closed.idle_ns <= 3_600_000_000
    # The client may: heart-beats of this broker are up to two periods apart, which is all that it waits for.
    assert events(stage.play("live-quiet-link"), Closed, "b") == []


def judged(stage: Stage, name: str) -> dict[str, VerdictKind]:
    wanted = tuple(requirement.id for requirement in _catalogue())
    program = stage.adapter.cast(STORIES[name].program if name in STORIES else programs()[name])
    result = run_live(stage.adapter, stage.laboratory, program, name, wanted=wanted)
    assert result.problem == ""
    level = {requirement.id: requirement.level for requirement in _catalogue()}
    return {one.requirement: concluded(one, level[one.requirement]).verdict for one in result.verdicts}


def _catalogue():  # type: ignore[no-untyped-def]
    from brokerproof.conformance.requirements.catalogue import default_catalogue

    return default_catalogue().judged()


#: Known deviations that always show.
CERTAIN = load_known("activemq 5.17.2").certain()


@pytest.mark.night
@pytest.mark.parametrize("name", sorted({name for entry in CERTAIN for name in entry.programs}))
def test_a_known_deviation_still_fails_and_turns_nothing_red(stage: Stage, name: str) -> None:
    verdicts = judged(stage, name)
    for requirement in {entry.requirement for entry in CERTAIN if name in entry.programs}:
        assert verdicts[requirement] is VerdictKind.KNOWN_FAILURE, requirement
    assert VerdictKind.VIOLATED not in verdicts.values()


@pytest.mark.night
def test_the_other_stories_violate_nothing(stage: Stage) -> None:
    from brokerproof.conformance.rules.judge import judge_history

    known = {entry.requirement for entry in load_known("activemq 5.17.2").deviations}
    for name in in_order():
        for verdict in judge_history(stage.play(name)):
            if verdict.requirement not in known:
                assert verdict.verdict is not VerdictKind.VIOLATED, f"{name}: {verdict.requirement}: {verdict.text}"
                # What a mark hides (a restart, say) is undecided by design; anything else must be decided.
                undecided = verdict.verdict is VerdictKind.INCONCLUSIVE and not verdict.unknown
                assert not undecided, f"{name}: {verdict.requirement}: {verdict.text}"


@pytest.mark.night
def test_a_broker_is_shared_and_never_set_back(stage: Stage) -> None:
    for name in in_order():
        stage.play(name)
    brokers = [process for process in stage.laboratory.supervisor.processes if process.name.startswith("activemq")]
    settings = {repr(STORIES[name].program.broker) for name in STORIES}
    deviating = {name for entry in CERTAIN for name in entry.programs}
    assert len(brokers) <= len(settings) + len(deviating)


def test_an_older_release_delivers_delayed_messages_early_and_the_run_says_so(old_stage: Stage) -> None:
    verdicts = judged(old_stage, "live-delay")
    assert verdicts["DLY-001"] is VerdictKind.VIOLATED
    assert "DLY-001" not in {entry.requirement for entry in load_known("activemq 5.12.3").deviations}


@pytest.mark.parametrize("row", ["3", "2-plugin", "3-unchecked", "1"])
def test_an_older_release_behaves_like_its_generation_of_the_reference(old_stage: Stage, row: str) -> None:
    """Before 5.14 the client's word is not believed: the message stays on its queue."""
    story: Story = STORIES[f"live-000-{row}"]
    program = old_stage.adapter.effective(story.program)
    assert program.broker.generation["expiry"] == "documented"
    broker = msgspec.structs.replace(program.broker, generation={"expiry": "documented"})
    simulated = SimulatedWorld().run(msgspec.structs.replace(program, broker=broker))
    assert outcomes(old_stage.play(story.name)) == outcomes(simulated)


def test_the_plan_takes_every_story_on_this_release(stage: Stage) -> None:
    planned = {name for name, _ in plan_of(stage.adapter)}
    assert set(STORIES) <= planned
