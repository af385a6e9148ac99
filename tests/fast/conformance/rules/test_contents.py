"""GEN-011 on hand-written histories."""

from __future__ import annotations

from typing import Any

import pytest

from brokerproof.conformance.experiment.verdict import VerdictKind
from tests.fast.conformance.rules.history_builder import Builder

HOLDS = VerdictKind.SATISFIED
FAILS = VerdictKind.VIOLATED
SILENT = VerdictKind.NOT_EXERCISED


@pytest.mark.parametrize(
    ("arrived", "verdict"),
    [
        ({"body": 7, "message_kind": "a", "group": "g", "priority": 4}, HOLDS),
        ({"body": 8, "message_kind": "a", "group": "g"}, FAILS),
        ({"body": 7, "group": "g"}, FAILS),
        ({"body": 7, "message_kind": "b", "group": "g"}, FAILS),
        ({"body": 7, "message_kind": "a"}, FAILS),
        ({"body": 7, "message_kind": "a", "group": "g", "priority": 5}, FAILS),
        ({}, SILENT),
    ],
)
def test_contents_arrive_as_they_were_sent(arrived: dict[str, Any], verdict: VerdictKind) -> None:
    told = Builder().connect("p0").connect("c0").send("p0/1", body=7, message_kind="a", group="g").subscribe("c0/1")
    assert told.arrive("c0/1", "p0/1", **arrived).verdicts("GEN-011")["GEN-011"].verdict is verdict


def test_properties_that_nobody_shows_are_not_missed_outside_of_the_simulation() -> None:
    def told(**arrived: Any) -> VerdictKind:
        story = Builder("live").connect("p0").connect("c0").send("p0/1", body=7, message_kind="a").subscribe("c0/1")
        return story.arrive("c0/1", "p0/1", body=7, **arrived).verdicts("GEN-011")["GEN-011"].verdict

    assert told() is HOLDS
    assert told(message_kind="b") is FAILS
