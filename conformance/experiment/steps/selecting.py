"""Texts of selectors, from a small grammar over what a program's messages have: kind, group, priority, and the headers
and properties that ``send`` draws.

Nonsense is text that is no selector; whoever subscribes with it must be refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from brokerproof.conformance.experiment.chooser import Chooser

_KINDS: Final = ("a", "b", "c", "z")
_PATTERNS: Final = ("a%", "_", "%", "b_", "%c")
_TRIPS: Final = ("pl%n", "%b%", "_:%", "%", "p_a_n", "plain_", "%%e", "a%c")
_ORDERS: Final = (">", "=", "<>", "<", ">=", "<=")
_SEATS: Final = (0, 1, -1, 127, 126)
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


def _number(chooser: Chooser, depth: int = 2) -> str:
    """Something to calculate. Only inner sums stand in parentheses: in front they would open a condition."""
    if depth and chooser.flag(60):
        operator, left = "+-*/"[chooser.below(4)], _number(chooser, 0)
        right = str(1 + chooser.below(5)) if operator == "/" else _number(chooser, depth - 1)
        return f"{left} {operator} {f'({right})' if ' ' in right else right}"
    if chooser.flag(30):
        return ("seat_no", "fare_eur", "-seat_no")[chooser.below(3)]
    return ("JMSPriority", "-JMSPriority", str(chooser.below(6)), f"{chooser.below(6)}.5")[chooser.below(4)]


_CONDITIONS: Final[tuple[Callable[[Chooser], str], ...]] = (
    lambda chooser: f"kind = {_kind(chooser)}",
    lambda chooser: f"kind <> {_kind(chooser)}",
    lambda chooser: f"JMSPriority {_ORDERS[chooser.below(len(_ORDERS))]} {chooser.below(10)}",
    lambda chooser: f"kind {_not(chooser)}IN ({_kind(chooser)}, {_kind(chooser)})",
    lambda chooser: f"kind IS {_not(chooser)}NULL",
    lambda chooser: f"kind {_not(chooser)}LIKE '{_PATTERNS[chooser.below(len(_PATTERNS))]}'",
    lambda chooser: f"JMSPriority {_not(chooser)}BETWEEN {chooser.below(6)} AND {4 + chooser.below(6)}",
    lambda chooser: f"{_number(chooser)} {_ORDERS[chooser.below(len(_ORDERS))]} {_number(chooser)}",
    lambda chooser: f"JMSXGroupID {('=', '<>')[chooser.below(2)]} 'g{1 + chooser.below(3)}'",
    lambda chooser: f"JMSXGroupID IS {_not(chooser)}NULL",
    lambda chooser: ("TRUE", "FALSE")[chooser.below(2)],
    lambda chooser: f"trip_id {_not(chooser)}LIKE '{_TRIPS[chooser.below(len(_TRIPS))]}'",
    lambda chooser: f"trip_id {_not(chooser)}IN ('plain', 'true', '1')",
    lambda chooser: f"{('trip_id', 'JMSCorrelationID')[chooser.below(2)]} IS {_not(chooser)}NULL",
    lambda chooser: f"seat_no {_ORDERS[chooser.below(len(_ORDERS))]} {_SEATS[chooser.below(len(_SEATS))]}",
    lambda chooser: f"seat_no {_not(chooser)}BETWEEN {_SEATS[chooser.below(len(_SEATS))]} AND 127",
    lambda chooser: ("was_paid", "NOT was_paid", "was_paid = TRUE", "was_paid <> TRUE")[chooser.below(4)],
    lambda chooser: f"JMSType {('=', '<>')[chooser.below(2)]} 'order'",
    lambda chooser: f"JMSCorrelationID {_not(chooser)}LIKE 'request-_'",
)
