"""Sentences of the seeds: how they are numbered and hashed, so that a source in the catalogue can be checked without
the seeds.

Rules:

* A seed's text is cut after every ``.``, ``!`` or ``?`` that white space or the end of the text follows; the mark
  itself and empty pieces are dropped; pieces are numbered from 1. Titles, list numbers and quoted log lines count as
  they fall: the numbering is mechanical, so that two people get the same.
* The hash is SHA-256 over the normalised piece: lower case, runs of white space one space, ends stripped. Line breaks
  and capitals may change; words may not.

``python -m brokerproof.conformance.requirements.sources SEED.txt`` prints number, hash and sentence.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Iterable
from pathlib import Path

from brokerproof.conformance.requirements.catalogue import Requirement

_END = re.compile(r"[.!?](?=\s|$)")


class SourceError(ValueError):
    """A seed or one of its sentences does not exist. The text shows what was asked for and what there is."""


def sentences(text: str) -> list[str]:
    """The pieces of a text, normalised; the first has number 1."""
    pieces = (normalise(piece) for piece in _END.split(text))
    return [piece for piece in pieces if piece]


def normalise(sentence: str) -> str:
    """Lower case, white space collapsed and stripped."""
    return " ".join(sentence.lower().split())


def sentence_hash(sentence: str) -> str:
    """SHA-256 (hexadecimal) of the normalised sentence."""
    return hashlib.sha256(normalise(sentence).encode()).hexdigest()


def read_seed(folder: Path, seed: str) -> list[str]:
    """The sentences of ``seed`` (its number, as in ``000``). Raises ``SourceError`` unless exactly one file of the
    folder is that seed.
    """
    found = sorted(folder.glob(f"{seed}_*.txt"))
    if len(found) != 1:
        raise SourceError(f"seed {seed!r}: {len(found)} files {seed}_*.txt in {folder}; exactly one is needed")
    return sentences(found[0].read_text(encoding="utf-8"))


def stale_sources(requirements: Iterable[Requirement], folder: Path) -> list[str]:
    """What the catalogue says of the seeds in ``folder`` that is not so, one line each; empty when every sentence is
    where it was. Raises ``SourceError``.
    """
    texts: dict[str, list[str]] = {}
    problems: list[str] = []
    for requirement in requirements:
        for source in requirement.source:
            if source.seed is None:
                continue
            if source.seed not in texts:
                texts[source.seed] = read_seed(folder, source.seed)
            problem = _problem(texts[source.seed], source.sentence, source.sha256)
            if problem:
                problems.append(f"{requirement.id}: seed {source.seed}, sentence {source.sentence}: {problem}")
    return problems


def _problem(known: list[str], number: int | None, sha256: str | None) -> str:
    if number is None or not 1 <= number <= len(known):
        return f"there is no such sentence; the seed has 1 to {len(known)}"
    actual = sentence_hash(known[number - 1])
    return "" if actual == sha256 else f"its hash is {actual}, the catalogue says {sha256}"


def main(arguments: list[str]) -> int:
    """Print number, hash and sentence of each seed file named."""
    if not arguments:
        sys.stderr.write("usage: python -m brokerproof.conformance.requirements.sources SEED.txt [...]\n")
        return 2
    for argument in arguments:
        for number, sentence in enumerate(sentences(Path(argument).read_text(encoding="utf-8")), start=1):
            sys.stdout.write(f"{number:4d} {sentence_hash(sentence)} {sentence}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
