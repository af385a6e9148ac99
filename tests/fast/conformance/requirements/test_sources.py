"""Sentences of the seeds: numbering and hashing, and that a stale source is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from brokerproof.conformance.requirements.catalogue import Requirement, Source
from brokerproof.conformance.requirements.sources import (
    SourceError,
    main,
    normalise,
    read_seed,
    sentence_hash,
    sentences,
    stale_sources,
)

TEXT = "Title!\n\n1) First of 1.35 pm.  Second\none? e.g. this,\nand the rest"
PIECES = ["title", "1) first of 1.35 pm", "second one", "e.g", "this, and the rest"]


def requirement(number: int, sha256: str) -> Requirement:
    source = Source(seed="007", sentence=number, sha256=sha256)
    return Requirement("EXP-001", "s", "MUST", ["core"], [source], "planned")


def test_sentences_are_cut_mechanically() -> None:
    assert sentences(TEXT) == PIECES


def test_the_hash_survives_line_breaks_and_capitals_but_not_words() -> None:
    assert normalise("  A\n b ") == "a b"
    assert sentence_hash("A  b") == sentence_hash("a\nB")
    assert sentence_hash("a b") != sentence_hash("a c")


def test_stale_sources_are_found(tmp_path: Path) -> None:
    (tmp_path / "007_abc.txt").write_text(TEXT, encoding="utf-8")
    assert stale_sources([requirement(3, sentence_hash("Second one"))], tmp_path) == []
    moved = stale_sources([requirement(2, sentence_hash("Second one"))], tmp_path)
    assert len(moved) == 1
    assert moved[0].startswith("EXP-001: seed 007, sentence 2: its hash is ")
    assert "1 to 5" in stale_sources([requirement(6, "")], tmp_path)[0]


def test_a_missing_seed_is_named(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="seed '009': 0 files"):
        read_seed(tmp_path, "009")


def test_the_command_prints_numbers_and_hashes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "007_abc.txt"
    path.write_text(TEXT, encoding="utf-8")
    assert main([str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(PIECES)
    assert lines[2] == f"   3 {sentence_hash('second one')} second one"
    assert main([]) == 2
