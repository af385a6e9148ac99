"""Guard: the page of known deviations is what the lists say."""

from __future__ import annotations

from brokerproof.conformance.commands import deviations
from brokerproof.conformance.corpus import programs
from tests.guards.tree import ROOT


def test_the_page_is_written_from_the_lists() -> None:
    page = (ROOT / "docs" / "deviations.md").read_text(encoding="utf-8")
    assert page == deviations.text(), (
        "write it again: python -m brokerproof.conformance.commands.deviations docs/deviations.md"
    )


def test_every_entry_names_programs_of_the_corpus() -> None:
    named = {
        name for known in deviations.releases() for entry in known.by_requirement.values() for name in entry.programs
    }
    assert named <= set(programs())
