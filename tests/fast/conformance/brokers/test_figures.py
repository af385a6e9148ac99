"""Figures of a broker in the words of a history: differences, and what is not told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from brokerproof.conformance.brokers.base import Access
from brokerproof.conformance.brokers.counters import KINDS, Figures
from brokerproof.conformance.brokers.profile import parse_profile
from brokerproof.conformance.brokers.promising import untold
from brokerproof.conformance.brokers.proving import _whole
from brokerproof.conformance.experiment.exits import UsageError

TEXT = """
name = "b"
[endpoints]
stomp = { url = "stomp://127.0.0.1:1" }
[counters]
kind = "command"
map = { size = "count - scheduled", in_flight = "delivering", expired = "gone" }
"""


class Told(Figures):
    def ask(self, name: str) -> dict[str, Any]:
        return {"count": "5", "scheduled": 2, "delivering": 1}


def test_a_figure_may_be_a_difference_and_what_is_not_told_is_absent() -> None:
    figures = Told(parse_profile(TEXT, "b.toml", Path("/nowhere")), {}, Access(port=1))
    assert figures.counters("queue://q0") == {"size": 3, "in_flight": 1}
    assert figures.counters("topic://t0") is None


def told(counters: str) -> Figures:
    """What a file's ``[counters]`` say, by their own kind."""
    text = f'name = "b"\n[endpoints]\nstomp = {{ url = "stomp://127.0.0.1:1" }}\n[counters]\n{counters}'
    located = parse_profile(text, "b.toml", Path("/nowhere"))
    assert located.profile.counters is not None
    return KINDS[located.profile.counters.kind](located, {"port.admin": "17"}, Access(port=1))


def test_the_broker_as_a_whole_is_asked_at_a_place_of_its_own() -> None:
    figures = told(
        'kind = "command"\nat = "echo size {name}"\nmap = { size = "size" }\n'
        """broker = { at = "printf 'bytes %s\\\\nspare 1' {port.admin}", map = { memory_bytes = "bytes - spare" } }"""
    )
    assert figures.counters(None) == {"memory_bytes": 16}
    assert figures.counters("queue://17") == {"size": 17}
    assert told('kind = "command"\nat = "echo size 1"\nmap = { size = "size" }').counters(None) is None


@pytest.mark.parametrize(
    ("counters", "line"),
    [
        ('kind = "http"\nmap = { sise = "a" }', "counters.map.sise"),
        ('kind = "http"\nbroker = { at = "http://b", map = { sise = "a" } }', "counters.broker.map.sise"),
        ('kind = "prometheus"\nbroker = { at = "http://b", map = { size = "a" } }', "counters.broker"),
    ],
)
def test_a_figure_that_nobody_knows_is_named(counters: str, line: str) -> None:
    with pytest.raises(UsageError, match=line):
        told(counters)


def test_a_figure_of_the_broker_that_nobody_tells_is_wrong() -> None:
    counters = 'kind = "command"\nat = "echo size 1"\nmap = { size = "size" }\n'
    assert _whole(told(counters)) is None
    assert _whole(told(counters + 'broker = { at = "echo bytes 7", map = { memory_bytes = "bytes" } }')) is None
    proof = _whole(told(counters + 'broker = { at = "echo bytes 7", map = { memory_bytes = "octets" } }'))
    assert proof is not None
    assert (proof.line, proof.state) == ("counters.broker", "wrong")
    assert "memory_bytes" in proof.text


@pytest.mark.parametrize(
    ("more", "missing"),
    [
        ("", {"INF-019", "INF-021", "INF-024", "MEM-002", "MEM-006", "DLY-037"}),
        ('broker = { at = "b", map = { size = "n" } }\n', {"INF-019", "INF-021", "DLY-037"}),
    ],
)
def test_what_nobody_tells_does_not_apply_and_says_so(more: str, missing: set[str]) -> None:
    profile = told(f'kind = "http"\nat = "a"\nmap = {{ size = "n" }}\n{more}').located.profile
    said = untold(profile, None, ["stomp"])
    assert {name for name, why in said.items() if why.startswith("[counters]")} == missing
    assert "wasted" in said["INF-019"]
