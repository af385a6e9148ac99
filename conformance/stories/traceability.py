"""Every sentence of the founding documents: a requirement, a story, or why it promises nothing. Makes
docs/traceability.md (``python -m brokerproof.conformance.stories.traceability SEEDS``).

Rule: a sentence that has a reason to promise nothing has neither requirement nor story.
"""

from __future__ import annotations

import sys
from importlib import resources
from pathlib import Path

import msgspec

from brokerproof.conformance.requirements.catalogue import default_catalogue
from brokerproof.conformance.requirements.sources import read_seed
from brokerproof.conformance.stories import stories

#: Words of a sentence that are shown, to find it by.
WORDS = 6


class Document(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One founding document; sentences are numbers and ranges: ``"4-11, 14"``."""

    number: str
    title: str
    count: int
    stories: dict[str, str]
    nothing: dict[str, str]


class _File(msgspec.Struct, forbid_unknown_fields=True):
    document: list[Document]


def documents() -> list[Document]:
    """All of them."""
    text = resources.files(__package__).joinpath("founding.toml").read_bytes()
    return msgspec.toml.decode(text, type=_File).document


def numbers(text: str) -> list[int]:
    """``"4-6, 9"`` as numbers."""
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


class Traced(msgspec.Struct, frozen=True):
    """What a sentence comes to."""

    requirements: list[str]
    stories: list[str]
    reasons: list[str]


def traced(document: Document) -> list[Traced]:
    """Of each sentence, in order."""
    table = [Traced([], [], []) for _ in range(document.count)]
    for requirement in default_catalogue():
        for source in requirement.source:
            if source.seed == document.number and source.sentence is not None:
                planned = "" if requirement.status == "judged" else " (planned)"
                table[source.sentence - 1].requirements.append(requirement.id + planned)
    for name, text in document.stories.items():
        for number in numbers(text):
            table[number - 1].stories.append(name)
    for reason, text in document.nothing.items():
        for number in numbers(text):
            table[number - 1].reasons.append(reason)
    return table


def gaps() -> list[str]:
    """What is not traced, or twice, one line each; empty when all is well."""
    known = stories()
    found = []
    for document in documents():
        found += [f"{document.number}: story {name!r} does not exist" for name in document.stories if name not in known]
        for number, row in enumerate(traced(document), start=1):
            told = row.requirements + row.stories
            if not told and not row.reasons:
                found.append(f"{document.number}, sentence {number}: neither requirement nor story nor reason")
            if told and row.reasons:
                found.append(
                    f"{document.number}, sentence {number}: {', '.join(told)}, and a reason to promise nothing"
                )
    names = {name for document in documents() for name in document.stories}
    return found + [f"{name}: tells no sentence" for name in known if name not in names and not known[name].beyond]


def text(folder: Path) -> str:
    """The page, from the documents in ``folder``. Raises ``SourceError``."""
    lines = [
        "# Traceability",
        "",
        "What every sentence of the founding documents comes to: requirements (`brokerproof list`), stories",
        "(`brokerproof story NAME`), or why it promises nothing. Made by `python -m",
        "brokerproof.conformance.stories.traceability SEEDS`; sentences are numbered mechanically and shown by their",
        "first words.",
    ]
    for document in documents():
        sentences, table = read_seed(folder, document.number), traced(document)
        bare = sum(not row.requirements and not row.stories for row in table)
        lines += ["", f"## {document.number}: {document.title}", ""]
        lines += [f"{len(sentences)} sentences, of which {bare} promise nothing.", ""]
        lines += ["| | begins | requirements | stories | promises nothing because |", "|---|---|---|---|---|"]
        for number, (sentence, row) in enumerate(zip(sentences, table, strict=True), start=1):
            begins = " ".join(sentence.split()[:WORDS]).replace("|", "\\|").replace("<", "&lt;")
            cells = (begins, ", ".join(row.requirements), ", ".join(row.stories), "; ".join(row.reasons))
            lines.append(f"| {number} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    Path("docs/traceability.md").write_text(text(Path(sys.argv[1])), encoding="utf-8")
