"""What a value of a configuration file may be, and the check of a table against its rows.

* Every key has a row: its type, its smallest and largest value. A key without a row is an error, never ignored.
* An error shows where the value stands, the value, and what would be accepted.
"""

from __future__ import annotations

import difflib
from typing import Any, Final

from brokerproof.reference_broker.core.config import ConfigError

MOST: Final = 2**63 - 1
MOST_RATIO: Final = 1_000_000_000


class Number:
    """An integer between two bounds."""

    __slots__ = ("least", "most")

    def __init__(self, least: int, most: int = MOST) -> None:
        self.least = least
        self.most = most

    def accepts(self, value: object) -> bool:
        # TOML and JSON keep booleans apart from numbers, Python does not.
        return type(value) is int and self.least <= value <= self.most

    def __str__(self) -> str:
        return (
            f"an integer of at least {self.least}"
            if self.most == MOST
            else f"an integer from {self.least} to {self.most}"
        )


class Kind:
    """A value of one type."""

    __slots__ = ("empty", "name", "type")

    def __init__(self, kind: type, name: str, *, empty: bool = False) -> None:
        self.type = kind
        self.name = name
        self.empty = empty

    def accepts(self, value: object) -> bool:
        return isinstance(value, self.type) and (self.empty or value != "")

    def __str__(self) -> str:
        return self.name


class Texts(Kind):
    """A list of texts."""

    def accepts(self, value: object) -> bool:
        return isinstance(value, list) and all(isinstance(item, str) for item in value)


class Secret(Kind):
    """A text that no message may show."""


class Ratio(Kind):
    """A number, whole or not, that is not negative, or -1. What it multiplies must stay a number."""

    def accepts(self, value: object) -> bool:
        if not isinstance(value, int | float) or isinstance(value, bool):
            return False
        return value == -1 or 0 <= value <= MOST_RATIO


FLAG: Final = Kind(bool, "true or false")
TEXT: Final = Kind(str, "a text that is not empty")
ANY_TEXT: Final = Kind(str, "a text", empty=True)
SECRET: Final = Secret(str, "a text that is not empty")
TABLE: Final = Kind(dict, "a table")
TEXTS: Final = Texts(list, "a list of texts")
TABLES: Final = Kind(list, "a list of tables")
NAMES: Final = Texts(list, "a list of destinations such as ['queue://A', 'topic://B']")
RATIO: Final = Ratio(float, f"a number from 0 to {MOST_RATIO}, or -1")
ANY_MS: Final = Number(-MOST - 1)

Row = Number | Kind


def checked(data: dict[str, Any], rows: dict[str, Row], where: str) -> dict[str, Any]:
    """The table's values, all of them known and of the right kind. A value of None (JSON's null) counts as absent."""
    good: dict[str, Any] = {}
    for name, value in data.items():
        row = rows.get(name)
        if row is None:
            near = difflib.get_close_matches(name, rows, 1)
            remedy = f"did you mean {near[0]}?" if near else f"one of {', '.join(rows)}"
            raise ConfigError(f"{where}: {name} is unknown; {remedy}")
        if value is None:
            continue
        if not row.accepts(value):
            shown = "(not shown)" if isinstance(row, Secret) else repr(value)
            raise ConfigError(f"{where}.{name} = {shown} must be {row}")
        good[name] = value
    return good


def checked_table(entry: object, rows: dict[str, Row], where: str, *, holds: str = "") -> dict[str, Any]:
    """The same for what ought to be a table. ``holds`` is said of it in place of the value, which may be a secret."""
    if not isinstance(entry, dict):
        shown = f"{where} must be {TABLE} with {holds}" if holds else f"{where} = {entry!r} must be {TABLE}"
        raise ConfigError(shown)
    return checked(entry, rows, where)
