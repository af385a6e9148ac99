"""The pictures in ARCHITECTURE.md are what the core's tables say."""

from __future__ import annotations

import pytest

from brokerproof.conformance.commands.diagrams import PICTURES, drawn, message_states
from brokerproof.reference_broker.core.reference import MOVES
from tests.guards.tree import ROOT


def test_the_document_is_up_to_date() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    assert drawn(text) == text, "run: python -m brokerproof.conformance.commands.diagrams ARCHITECTURE.md"


def test_every_move_is_an_arrow() -> None:
    moves = sum(map(len, MOVES.values()))
    assert message_states().count("-->") == moves + 2


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_without_a_place_is_an_error(name: str) -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").replace(f"<!-- {name}:", "<!-- :")
    with pytest.raises(ValueError, match=f"no place for {name}"):
        drawn(text)


def test_every_file_of_the_core_has_its_place_in_the_reading() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    core = {path.stem for path in (ROOT / "reference_broker" / "core").glob("*.py")} - {"__init__"}
    elsewhere = {"config", "policies", "subscribing"}
    assert {name for name in core if f"`{name}`" not in text} <= elsewhere
