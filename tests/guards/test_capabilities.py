"""Guard: every word for what a broker can do is explained, and the page is what the words are."""

from __future__ import annotations

import pytest

# The page says for whose clients a word is, so it is made where all of them are installed.
pytest.importorskip("jpype")
pytest.importorskip("paho.mqtt")
pytest.importorskip("pika")
pytest.importorskip("proton")

from brokerproof.conformance.brokers.switches import BESIDE, BY_SETTING
from brokerproof.conformance.brokers.translation import CAPABILITIES
from brokerproof.conformance.commands import capabilities
from brokerproof.conformance.requirements.catalogue import default_catalogue
from tests.guards.tree import ROOT


def test_every_word_is_explained() -> None:
    needed = {word for one in default_catalogue() for word in one.words()}
    assert {*needed, *BESIDE, *BY_SETTING.values()} == set(capabilities.capabilities())
    assert set(CAPABILITIES) <= set(capabilities.capabilities())


def test_the_page_is_written_from_the_words() -> None:
    page = (ROOT / "docs" / "capabilities.md").read_text(encoding="utf-8")
    assert page == capabilities.text(), (
        "write it again: python -m brokerproof.conformance.commands.capabilities docs/capabilities.md"
    )
