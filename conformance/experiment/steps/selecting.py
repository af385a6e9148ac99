"""Texts of selectors, from a small grammar over the properties that a program's messages have: kind and priority.

Nonsense is text that is no selector; whoever subscribes with it must be refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from brokerproof.conformance.experiment.chooser import Chooser

_KINDS: Final = ("a", "b", "c", "z")
_PATTERNS: Final = ("a%", "_", "%", "b_", "%c")
_ORDERS: Final = (">", "=", "<>", "<", ">=", "<=")
NONSENSE: Final = (
    "kind =",
    "= 'a'",
    "kind = 'a' AND",
    "(kind = 'a'",
    "kind LIKE",
    "kind IN ()",
    "JMSPriority BETWEEN 1",
    "kind = 'a",
    "NOT",
)


def draw_selector(chooser: Chooser, depth: int = 2) -> str:
    """A selector: one condition, or some joined by AND, OR and NOT."""
    if depth and chooser.flag(30):
        left, right = draw_selector(chooser, depth - 1), draw_selector(chooser, depth - 1)
        return f"({left}) {('AND', 'OR')[chooser.below(2)]} ({right})"
    if depth and chooser.flag(15):
        return f"NOT ({draw_selector(chooser, depth - 1)})"
    return _CONDITIONS[chooser.below(len(_CONDITIONS))](chooser)


def draw_nonsense(chooser: Chooser) -> str:
    """What no broker may take for a selector."""
    return NONSENSE[chooser.below(len(NONSENSE))]


def _kind(chooser: Chooser) -> str:
    return f"'{_KINDS[chooser.below(len(_KINDS))]}'"


def _not(chooser: Chooser) -> str:
    return "NOT " if chooser.flag(30) else ""


_CONDITIONS: Final[tuple[Callable[[Chooser], str], ...]] = (
    lambda chooser: f"kind = {_kind(chooser)}",
    lambda chooser: f"kind <> {_kind(chooser)}",
    lambda chooser: f"JMSPriority {_ORDERS[chooser.below(len(_ORDERS))]} {chooser.below(10)}",
    lambda chooser: f"kind {_not(chooser)}IN ({_kind(chooser)}, {_kind(chooser)})",
    lambda chooser: f"kind IS {_not(chooser)}NULL",
    lambda chooser: f"kind {_not(chooser)}LIKE '{_PATTERNS[chooser.below(len(_PATTERNS))]}'",
    lambda chooser: f"JMSPriority {_not(chooser)}BETWEEN {chooser.below(6)} AND {4 + chooser.below(6)}",
)
