"""What was in flight when a subscriber of an MQTT 5 session went is sent again when it comes back, expired or not."""

from __future__ import annotations

from typing import Any

import pytest

from brokerproof.conformance.experiment.history import Connect
from brokerproof.conformance.experiment.traits import Traits
from brokerproof.conformance.experiment.verdict import VerdictKind
from tests.fast.conformance.rules.clocked_history import Clocked

VIOLATED, SATISFIED, NOT_EXERCISED = VerdictKind.VIOLATED, VerdictKind.SATISFIED, VerdictKind.NOT_EXERCISED
LIFE_MS = 1000


class Story(Clocked):
    """A subscriber of a durable name; its library resumes sessions, or not."""

    def __init__(self, *, resumes: bool = True, whole_seconds: bool = False, **declared: Any) -> None:
        super().__init__(**declared)
        self.traits = Traits(settles_by_itself=True, resumes=resumes, whole_seconds=whole_seconds)
        self.at(1).greet("p0").come("c0/1")

    def greet(self, host: str) -> Story:
        """It connects."""
        self._add(Connect, host, self.request_ms, result="ok", via="mqtt", traits=self.traits)
        return self

    def come(self, consumer: str, durable: str = "d") -> Story:
        """The subscriber attaches."""
        self.greet("c0").subscribe(consumer, "t0", durable=durable, ack="client")
        return self

    def judged(self, requirement: str) -> VerdictKind:
        """When all is over."""
        self.rest(None).phase("heal").phase("drain").finish()
        return self.verdicts(requirement)[requirement].verdict


def resent(*, resumes: bool = True, seen: bool = True, durable: str = "d", dup: bool | None = True) -> Story:
    """A message of a second's life is given, not settled, and given again after two, to who is back."""
    story = Story(resumes=resumes).at(10).send("p0/1", "t0", life_ms=LIFE_MS)
    if seen:
        story.at(20).arrive("c0/1", "p0/1")
    return story.at(30).lose("c0").at(2000).come("c0/2", durable).at(2010).arrive("c0/2", "p0/1", redelivered=dup)


def test_what_had_begun_is_sent_again_though_it_has_expired() -> None:
    assert resent().judged("EXP-004") is SATISFIED
    assert resent(dup=False).judged("EXP-004") is SATISFIED  # the mark is another requirement's affair
    assert resent(resumes=False).judged("EXP-004") is VIOLATED


def test_a_first_attempt_that_nobody_saw_decides_nothing() -> None:
    assert resent(seen=False).judged("EXP-004") is NOT_EXERCISED
    assert resent(seen=False, dup=None).judged("EXP-004") is NOT_EXERCISED


def test_what_had_not_begun_must_not_begin_when_it_is_dead() -> None:
    assert resent(seen=False, dup=False).judged("EXP-004") is VIOLATED


def test_a_new_subscription_resumes_nothing() -> None:
    assert resent(durable="other").judged("EXP-004") is VIOLATED


def test_what_was_dead_when_it_began_stays_so_when_it_is_sent_again() -> None:
    late = Story().at(10).lose("c0").send("p0/1", "t0", life_ms=LIFE_MS).at(1500).come("c0/2")
    late.arrive("c0/2", "p0/1").lose("c0").at(2000).come("c0/3").arrive("c0/3", "p0/1", redelivered=True)
    assert late.judged("EXP-004") is VIOLATED


@pytest.mark.parametrize(
    ("whole", "back_ms", "verdict"),
    [(True, 1900, NOT_EXERCISED), (True, 2100, VIOLATED), (False, 1900, VIOLATED)],
)
def test_a_life_that_is_told_in_seconds_may_be_counted_in_whole_ones(
    whole: bool, back_ms: int, verdict: VerdictKind
) -> None:
    story = Story(whole_seconds=whole).at(10).send("p0/1", "t0", life_ms=LIFE_MS)
    story.at(20).lose("c0").at(back_ms).come("c0/2").at(back_ms + 5).arrive("c0/2", "p0/1", redelivered=False)
    found = story.judged("EXP-004")
    assert found is verdict
