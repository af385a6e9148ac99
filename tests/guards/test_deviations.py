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
    named = {name for known in deviations.releases() for entry in known.deviations for name in entry.programs}
    assert named <= set(programs())


def test_every_entry_excuses_the_programs_that_it_names() -> None:
    entries = [(known.name, entry) for known in deviations.releases() for entry in known.deviations]
    refused = [
        (name, entry.requirement, program)
        for name, entry in entries
        for program in entry.programs
        if not entry.excuses(program, programs()[program], entry.shows)
    ]
    assert refused == []
