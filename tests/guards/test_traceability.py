"""Guard: every sentence of the founding documents has a requirement, a story, or a reason to promise nothing."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from brokerproof.conformance.stories import traceability
from tests.guards.tree import ROOT

PAGE = ROOT / "docs" / "traceability.md"


def test_every_sentence_is_traced() -> None:
    assert traceability.gaps() == []


def test_the_page_has_a_row_for_each_with_what_it_comes_to() -> None:
    """In a clean clone all but the first words is compared; where the seeds are, all of it."""
    folder = os.environ.get("BROKERPROOF_SEEDS")
    if folder is not None:
        assert PAGE.read_text(encoding="utf-8") == traceability.text(Path(folder))
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if re.match(r"\| \d", line)]
    table = [row for document in traceability.documents() for row in traceability.traced(document)]
    assert len(rows) == len(table)
    for line, row in zip(rows, table, strict=True):
        assert line.endswith(f"| {', '.join(row.requirements)} | {', '.join(row.stories)} | {'; '.join(row.reasons)} |")


def test_the_guard_can_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    lost = traceability.Document("003", "", 20, {"003-negativ": "2", "003-many-consumers": "1"}, {"a reason": "1"})
    monkeypatch.setattr(traceability, "documents", lambda: [lost])
    found = "\n".join(traceability.gaps())
    assert "story '003-negativ' does not exist" in found
    assert "003, sentence 20: neither" in found
    assert "003, sentence 1: 003-many-consumers, and a reason" in found
