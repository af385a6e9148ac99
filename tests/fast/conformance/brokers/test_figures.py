"""Figures of a broker in the words of a history: differences, and what is not told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from brokerproof.conformance.brokers.base import Access
from brokerproof.conformance.brokers.counters import Figures
from brokerproof.conformance.brokers.profile import parse_profile

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
