"""The recording pass: what is counted of a message that nobody can tell from others."""

from __future__ import annotations

import pytest

from brokerproof.conformance.facts.facts import Facts
from brokerproof.conformance.facts.marks import REPEATED
from tests.fast.conformance.rules.history_builder import Builder


@pytest.mark.parametrize("message", ["p0/1", ""], ids=["once more", "without a name"])
def test_what_cannot_be_told_from_others_widens_sums_and_has_no_row(message: str) -> None:
    """Of its bytes nothing had been noted, so a queue that got nothing else was taken to be empty."""
    facts = Facts(Builder().connect("p0").send("p0/1").send(message, size=50_000).history())
    queue = facts.destinations["q0"]
    assert [send.message for send in queue.sends] == ["p0/1"]
    assert (queue.epoch.sent, queue.ledger.sent, queue.ledger.loose) == (2, 2, 1)
    assert min(queue.sent_bytes, queue.epoch.largest, facts.sent_bytes) > 50_000
    assert facts.marks.spans(REPEATED, "q0")
