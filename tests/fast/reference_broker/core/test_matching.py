"""Policy entries and destination names."""

from __future__ import annotations

import pytest

from brokerproof.reference_broker.core.config import DestinationPolicy
from brokerproof.reference_broker.core.matching import fault, matches, policy_for


@pytest.mark.parametrize(
    ("pattern", "destination", "covers"),
    [
        (">", "queue://A", True),
        (">", "topic://A.B.C", True),
        ("A", "queue://A", True),
        ("A", "queue://A.B", False),
        ("A.>", "queue://A", True),
        ("A.>", "queue://A.B.C", True),
        ("A.>", "queue://AB", False),
        ("A.>", "queue://B.A", False),
        ("A.*", "queue://A", False),
        ("A.*", "queue://A.B", True),
        ("A.*", "queue://A.B.C", False),
        ("*.B", "queue://A.B", True),
        ("*.B.>", "queue://A.B", True),
        ("*.B.>", "queue://A.C", False),
        ("queue://A", "queue://A", True),
        ("queue://A", "topic://A", False),
        ("topic://>", "queue://A", False),
        ("topic://>", "topic://A", True),
    ],
)
def test_matches(pattern: str, destination: str, covers: bool) -> None:
    assert matches(pattern, destination) is covers


@pytest.mark.parametrize(
    ("patterns", "destination", "winner"),
    [
        ([">", "A.>", "A.B"], "queue://A.B", "A.B"),
        (["A.>", ">"], "queue://A.B", "A.>"),
        (["A.>", "A.*"], "queue://A.B", "A.*"),
        (["*.B", "A.>"], "queue://A.B", "A.>"),
        (["*", "A.>"], "queue://A", "A.>"),
        ([">", "queue://>"], "queue://A", "queue://>"),
        ([">", "topic://>"], "queue://A", ">"),
        (["B"], "queue://A", ""),
        ([], "queue://A", ""),
    ],
)
def test_the_most_specific_entry_wins_whatever_the_order(patterns: list[str], destination: str, winner: str) -> None:
    for order in (patterns, patterns[::-1]):
        policies = [DestinationPolicy(p, memory_limit_bytes=7) for p in order]
        chosen = policy_for(destination, policies)
        assert chosen.memory_limit_bytes == (7 if winner else 0)
        if winner:
            assert chosen.match == winner


def test_of_equals_the_first_wins_and_nothing_is_merged() -> None:
    first = DestinationPolicy("A", expire_period_ms=1)
    second = DestinationPolicy("A", memory_limit_bytes=5)
    assert policy_for("queue://A", [first, second, DestinationPolicy(">", memory_limit_bytes=9)]) is first


@pytest.mark.parametrize("name", ["queue://A", "topic://A.B", "queue://a b/c", "queue://A*"])
def test_usable_names(name: str) -> None:
    assert fault(name) == ""


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("", "write queue://NAME"),
        ("A", "write queue://NAME"),
        ("queue://", "write queue://NAME"),
        ("/queue/A", "write queue://NAME"),
        ("queue://A,B", "write queue://NAME"),
        ("queue://A\nB", "write queue://NAME"),
        ("queue://A.*", "name one destination"),
        ("topic://>", "name one destination"),
    ],
)
def test_unusable_names_are_shown_with_the_remedy(name: str, remedy: str) -> None:
    assert repr(name) in fault(name)
    assert remedy in fault(name)
