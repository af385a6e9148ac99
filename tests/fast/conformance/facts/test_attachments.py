"""Attachments: which sessions there were, where the end of a connection and a receipt meet."""

from __future__ import annotations

from brokerproof.conformance.facts.facts import Facts
from tests.fast.conformance.rules.history_builder import Builder


def end_of(story: Builder) -> str:
    return Facts(story.history()).sessions["c0/1"].end


def test_who_was_confirmed_as_its_connection_ended_has_gone_with_it() -> None:
    assert end_of(Builder().connect("c0").at(10).lose("c0").at(9).subscribe("c0/1").connect("c0")) == "closed"


def test_who_came_over_the_next_connection_is_there() -> None:
    assert end_of(Builder().connect("c0").at(10).lose("c0").connect("c0").subscribe("c0/1")) == ""
    assert end_of(Builder().at(10).lose("c0").at(20).subscribe("c0/1")) == "", "nobody told of any connection"
