"""What an agent did that did not answer is not known: it accuses nobody, and excuses nothing that was seen before."""

from __future__ import annotations

import pytest

from brokerproof.conformance.experiment.history import ClockSample, History, Pause
from brokerproof.conformance.experiment.verdict import Verdict, VerdictKind
from brokerproof.conformance.generate.programs import program_for_seed
from brokerproof.conformance.rules.judge import judge_history
from brokerproof.conformance.worlds.simulated.world import SimulatedWorld
from tests.fast.conformance.rules.history_builder import Builder

EVIDENCE = {"waited_ms": 10_000, "silent_ms": 10_000}


class Story(Builder):
    """A producer and a consumer."""

    def __init__(self) -> None:
        super().__init__()
        self.connect("p0").connect("c0").subscribe("c0/1", ack="individual")

    def fall_silent(self, host: str = "c0", *, asked: bool = False) -> Story:
        """A request is not answered."""
        self._add(Pause, "", 10.0, target=host, asked_ms=10 if asked else None, evidence=None if asked else EVIDENCE)
        return self

    def judged(self, requirement: str) -> Verdict:
        """When all is over."""
        self.drain("q0").end()
        return self.verdicts(requirement)[requirement]


def test_a_loss_behind_a_silence_is_no_loss() -> None:
    lost = Story().send("p0/1", persistent=True).judged("GEN-001")
    assert lost.verdict is VerdictKind.VIOLATED
    untold = Story().fall_silent().send("p0/1", persistent=True).judged("GEN-001")
    assert untold.verdict is VerdictKind.INCONCLUSIVE
    assert "c0 did not answer for 10.000 ms" in untold.text
    asked = Story().fall_silent("b", asked=True).send("p0/1", persistent=True).judged("GEN-001")
    assert asked.verdict is VerdictKind.VIOLATED


def test_what_was_seen_before_counts() -> None:
    ghost = Story().arrive("c0/1", "p0/9").fall_silent().judged("GEN-005")
    assert ghost.verdict is VerdictKind.VIOLATED
    late = Story().fall_silent().arrive("c0/1", "p0/9").judged("GEN-005")
    assert late.verdict is VerdictKind.INCONCLUSIVE


def test_what_held_before_holds_and_the_rest_is_counted() -> None:
    story = Story().send("p0/1", persistent=True).arrive("c0/1", "p0/1").fall_silent()
    found = story.send("p0/2", persistent=True).arrive("c0/1", "p0/2").judged("RDL-001")
    assert (found.verdict, found.decided, found.undecided) == (VerdictKind.SATISFIED, 1, 1)


@pytest.mark.parametrize("seed", range(12))
def test_no_beginning_of_a_sound_run_accuses_the_broker(seed: int) -> None:
    history = SimulatedWorld(seed=seed).run(program_for_seed(seed))
    events = history.events
    for place in range(0, len(events), max(1, len(events) // 5)):
        cut_ns = events[place].t0
        known = [event for event in events if event.t0 < cut_ns or isinstance(event, ClockSample)]
        found = judge_history(History(history.header, known))
        assert [verdict for verdict in found if verdict.verdict is VerdictKind.VIOLATED] == []
