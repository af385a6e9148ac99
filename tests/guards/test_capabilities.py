"""Guard: every word for what a broker can do is explained, and the page is what the words are."""

from __future__ import annotations

from brokerproof.conformance.brokers.switches import BESIDE, BY_SETTING
from brokerproof.conformance.commands import capabilities
from brokerproof.conformance.requirements.catalogue import default_catalogue
from tests.guards.tree import ROOT


def test_every_word_is_explained() -> None:
    needed = {word for one in default_catalogue() for need in one.needs for word in need.split(" or ")}
    assert {*needed, *BESIDE, *BY_SETTING.values()} == set(capabilities.capabilities())


def test_the_page_is_written_from_the_words() -> None:
    page = (ROOT / "docs" / "capabilities.md").read_text(encoding="utf-8")
    assert page == capabilities.text(), (
        "write it again: python -m brokerproof.conformance.commands.capabilities docs/capabilities.md"
    )
