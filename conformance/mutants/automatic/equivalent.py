"""Which automatic mutants are equivalent: by the written reason of somebody who has read the line.

An entry is worth nothing for a mutant whose history differs in any program: whoever sees it differ can tell it apart.
"""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import resources

import msgspec


class Equivalent(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One entry. ``key``: the mutation's; ``file`` and ``change`` are for readers."""

    key: str
    file: str
    change: str
    reason: str


class _File(msgspec.Struct, forbid_unknown_fields=True):
    equivalent: list[Equivalent] = []


@cache
def equivalents() -> dict[str, Equivalent]:
    """All entries, by key. Raises ``msgspec.ValidationError`` for a file that is none."""
    text = (resources.files(__package__) / "equivalent.toml").read_text("utf-8")
    found = msgspec.convert(tomllib.loads(text), _File).equivalent
    return {entry.key: entry for entry in found}
