"""Records of the frozen judge: one per run, in compressed JSON lines; a file's first line sums it up."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path

import msgspec

GROUPS = ("corpus", "seeds", "mutants")


class Missing(LookupError):
    """Something that was asked for is not there. The text says how to get it."""


class OldVerdict(msgspec.Struct, frozen=True):
    """What the old judge said; *not exercised* and *not applicable* are left out."""

    requirement: str
    verdict: str
    outcome: str
    witness: list[int]
    text: str


class Record(msgspec.Struct, frozen=True):
    """One run. ``key`` is ``corpus/NAME``, ``seeds/SEED`` or ``mutants/ID/NAME-or-SEED``; ``trivial`` counts the
    verdicts left out; ``history`` is the text of a version 1 history.
    """

    key: str
    trivial: int
    verdicts: list[OldVerdict]
    history: str


class Summary(msgspec.Struct, frozen=True):
    """What a file holds: of so many runs so many were kept; the others violated nothing, raised or hung."""

    task: str
    runs: int
    kept: int
    raised: list[str]
    hung: list[str]


_summary = msgspec.json.Decoder(Summary)
_record = msgspec.json.Decoder(Record)


def read_summary(path: Path) -> Summary | None:
    """The first line of a file; None if there is no such file, or not a whole one."""
    try:
        with gzip.open(path, "rb") as lines:
            return _summary.decode(next(lines))
    except (OSError, EOFError, StopIteration, msgspec.DecodeError):
        return None


def read_records(path: Path) -> Iterator[Record]:
    """The runs of one file."""
    with gzip.open(path, "rb") as lines:
        next(lines)
        yield from map(_record.decode, lines)


def files(folder: Path, group: str) -> list[Path]:
    """The files of a group. Raises ``Missing`` when there is none."""
    pattern = {"corpus": "corpus.jsonl.gz", "seeds": "seeds-*.jsonl.gz", "mutants": "mutants/*.jsonl.gz"}[group]
    found = sorted(folder.glob(pattern))
    if not found:
        raise Missing(f"{folder} holds no frozen histories of {group}; `python -m tests.frozen make --out {folder}`")
    return found


def find(folder: Path, key: str) -> Record:
    """The record of a key. Raises ``Missing``."""
    group, _, rest = key.partition("/")
    if group in GROUPS:
        for path in files(folder, group):
            if group == "mutants" and path.name != f"{rest.partition('/')[0]}.jsonl.gz":
                continue
            for record in read_records(path):
                if record.key == key:
                    return record
    raise Missing(
        f"no record {key!r} in {folder}; keys are corpus/NAME, seeds/SEED and mutants/ID/NAME-or-SEED"
        " (mutants: only runs in which the old judge saw a violation)"
    )
