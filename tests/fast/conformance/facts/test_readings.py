"""Figures that were read, and what was going on meanwhile."""

from __future__ import annotations

from brokerproof.conformance.facts.facts import Facts
from tests.fast.conformance.rules.history_builder import Builder


def read(world: str, lasting_ms: float) -> bool:
    """Whether figures that took so long, from 5 ms before something arrived on, count as read at rest."""
    story = Builder(world).connect("p0").connect("c0").subscribe("c0/1").send("p0/1").at(100).arrive("c0/1", "p0/1")
    story = story.at(95 if lasting_ms else 101).read("q0", at_rest=True, lasting_ms=lasting_ms, size=1, in_flight=0)
    (reading,) = Facts(story.history()).queue_readings
    return reading.at_rest


def test_what_was_read_while_something_arrived_was_not_read_at_rest() -> None:
    """A busy agent tells of it when the reader has long called it rest; virtual time knows no such agent."""
    assert not read("live", 10)
    assert read("live", 0)
    assert read("simulated", 10)
