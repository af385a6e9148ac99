"""INF-001 beside transactions and PRE-002 beside selectors, on hand-written histories."""

from __future__ import annotations

from brokerproof.conformance.experiment.verdict import VerdictKind
from brokerproof.conformance.oracles.inflight import InFlightOracle
from brokerproof.conformance.oracles.prefetch import PrefetchOracle
from tests.fast.chronicle import Chronicle


def test_a_committed_acknowledgement_counts_and_a_rolled_back_one_does_not() -> None:
    """The in-flight count at rest is exact again after the end of a transaction."""
    for ending, left in (("commit", 0), ("abort", 1)):
        story = Chronicle().connect("c0").subscribe("c0/1").send("p0/1").arrive("c0/1", "p0/1").consume("c0/1", "p0/1")
        story.begin("c0", "t").ack("c0/1", "p0/1", tx="t")
        story = story.commit("c0", "t") if ending == "commit" else story.abort("c0", "t")
        good = story.rest(in_flight=left).judge(InFlightOracle)["INF-001"]
        assert good.verdict is VerdictKind.SATISFIED, ending
        bad = story.rest(in_flight=1 - left).judge(InFlightOracle)["INF-001"]
        assert bad.verdict is VerdictKind.VIOLATED, ending


def test_a_consumer_with_a_selector_may_be_idle_and_one_without_may_not() -> None:
    for options, kind in (({"selector": "kind = 'a'"}, VerdictKind.NOT_EXERCISED), ({}, VerdictKind.VIOLATED)):
        story = Chronicle().connect("c0").subscribe("c0/1", **options).send("p0/1").rest(size=1)
        assert story.judge(PrefetchOracle)["PRE-002"].verdict is kind
