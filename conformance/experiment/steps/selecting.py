"""Texts of selectors, from a small grammar over what a program's messages have: kind, group, priority, and the headers
and properties that ``send`` draws.

``draw_selector_about`` draws conditions about values that messages are known to have: equal, next to them, and texts
with wildcards in place of some letters. Nonsense is text that is no selector; whoever subscribes with it must be
refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Self, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from brokerproof.conformance.experiment.chooser import Chooser
    from brokerproof.conformance.experiment.operations import MessageOptions

_KINDS: Final = ("a", "b", "c", "z")
_PATTERNS: Final = ("a%", "_", "%", "b_", "%c", "", "a", "__", "%a%", "A")
_TRIPS: Final = ("pl%n", "%b%", "_:%", "%", "p_a_n", "plain_", "%%e", "a%c", "", "%l%i%", "%n", "p%", "_", "____",
                 "pl_in", "%ai_", "p%n%", "%p%l%a%i%n%", "true%", "_%_", "PLAIN", "plain", "%:b%c")  # fmt: skip
_TEXTS: Final = ("", "plain", "it''s")
#: Patterns with their escape.
_ESCAPED: Final = (("pl!%n", "!"), ("p_!_in", "!"), ("!%p%", "!"), ("plainx_", "x"), ("50!%%", "!"), ("50!_%", "!"),
                   ("%!%", "!"), ("a!_b", "!"), ("__%%", "%"), ("a__b", "_"), ("%''%", "x"), ("!!%", "!"))  # fmt: skip
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
    "kind == 'a'",
    "kind 'a'",
    "kind = 'a' kind = 'b'",
    "kind = 'a')",
    "AND kind = 'a'",
    "kind NOT = 'a'",
    "kind IN ('a' 'b')",
    "kind IN 'a'",
    "kind NOT IN 'a'",
    "kind LIKE 5",
    "kind LIKE 'a%' ESCAPE 'xy'",
    "kind LIKE 'a%' ESCAPE",
    "kind IS 'a'",
    "kind IS NOT",
    "kind NULL",
    "seat_no BETWEEN 1 OR 5",
    "seat_no BETWEEN 1, 5",
    "seat_no + = 5",
    "seat_no * > 5",
    "(seat_no + 5",
    "seat_no = 5 > 3",
    "was_paid >= TRUE",
    "5",
    "-5",
    "'a'",
    "seat_no + 1",
    "seat_no AND 5",
    "kind = 'a' OR 'b'",
    "NOT 5",
    "LIKE 'a'",
    "= ",
    "()",
)


def draw_selector(chooser: Chooser, depth: int = 2) -> str:
    """A selector: one condition, or some joined by AND, OR and NOT."""
    if depth and chooser.flag(30):
        left, right = draw_selector(chooser, depth - 1), draw_selector(chooser, depth - 1)
        return f"({left}) {('AND', 'OR')[chooser.below(2)]} ({right})"
    if depth and chooser.flag(15):
        parts = [_atom(chooser) for _ in range(2 + chooser.below(3))]
        return "".join([parts[0], *(f" {('AND', 'OR', 'and', 'Or')[chooser.below(4)]} {part}" for part in parts[1:])])
    if depth and chooser.flag(15):
        return f"NOT ({draw_selector(chooser, depth - 1)})"
    return _atom(chooser)


def _atom(chooser: Chooser) -> str:
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
    if chooser.flag(25):
        return _LITERALS[chooser.below(len(_LITERALS))]
    return ("JMSPriority", "-JMSPriority", str(chooser.below(6)), f"{chooser.below(6)}.5")[chooser.below(4)]


def _truth(chooser: Chooser) -> str:
    """A comparison with a boolean, or of unlike types, and what is never there."""
    return _TRUTHS[chooser.below(len(_TRUTHS))]


def _escaped(chooser: Chooser) -> str:
    pattern, escape = _ESCAPED[chooser.below(len(_ESCAPED))]
    return f"trip_id {_not(chooser)}LIKE '{pattern}' ESCAPE '{escape}'"


#: Java's forms of numbers, exact and approximate.
_LITERALS: Final = ("0x7F", "0X1f", "017", "0", "5L", "127l", "7.", ".5", "1E1", "125e-2", "-57.9E2", "+62", "127.0",
                    "- 1", "9223372036854775807")  # fmt: skip
_TRUTHS: Final = ("was_paid", "NOT was_paid", "was_paid = TRUE", "was_paid <> TRUE", "was_paid = FALSE",
                  "was_paid <> FALSE", "TRUE = was_paid", "was_paid IS NULL", "was_paid IS NOT NULL",
                  "was_paid = was_paid", "was_paid <> was_paid", "trip_id = 5", "trip_id > 5", "seat_no = '1'",
                  "kind = TRUE", "kind < JMSPriority", "no_body", "no_body = 1", "no_body + 1 > 0", "no_body IS NULL",
                  "no_body IS NOT NULL", "NOT (no_body = 1)", "no_body LIKE '%'", "no_body NOT IN ('a')",
                  "no_body BETWEEN 1 AND 2", "seat_no BETWEEN no_body AND 0", "seat_no BETWEEN 0 AND no_body",
                  "seat_no NOT BETWEEN 0 AND no_body", "trip_id = kind", "kind = trip_id", "'a' = kind", "5 = seat_no",
                  "Kind = 'a'", "Kind IS NULL", "seat_no = seat_no", "seat_no < fare_eur", "fare_eur <> seat_no",
                  "(seat_no) > 0", "((seat_no + 1)) * 2 > 3", "seat_no - 1 - 1 = 125", "(kind = 'a')",
                  "16 / 4 / 2 = 2", "-7 / 2 = -3", "7 / -2 = -3", "2 + 3 * 4 = 14", "(2 + 3) * 4 = 20",
                  "10 - 4 + 3 = 9", "7.0 / 2 = 3.5", "1 = 1.0", "0.5 < 1", "0x10 = 16", "010 = 8",
                  "1E2 = 100")  # fmt: skip
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
    _truth,
    _truth,
    _escaped,
    lambda chooser: f"trip_id {('=', '<>')[chooser.below(2)]} '{_TEXTS[chooser.below(len(_TEXTS))]}'",
    lambda chooser: f"JMSDeliveryMode {('=', '<>')[chooser.below(2)]} '{('', 'NON_')[chooser.below(2)]}PERSISTENT'",
    lambda chooser: f"seat_no {_ORDERS[chooser.below(len(_ORDERS))]} {_number(chooser)}",
    lambda chooser: f"fare_eur {_ORDERS[chooser.below(len(_ORDERS))]} {_number(chooser)}",
    lambda chooser: f"{_number(chooser)} {_not(chooser)}BETWEEN {_number(chooser, 0)} AND {_number(chooser, 0)}",
    lambda chooser: f"JMSXGroupID {_not(chooser)}IN ('g1', 'g3')",
    lambda chooser: f"JMSType {('=', '<>')[chooser.below(2)]} 'order'",
    lambda chooser: f"JMSCorrelationID {_not(chooser)}LIKE 'request-_'",
)


# -- about what messages have

#: Letters of texts that patterns nearly fit: few, so that they come again, and both wildcards.
_LETTERS: Final = ("a", "b", "a", "b", "c", "%", "_", "'", "\u20ac")
_JOINTS: Final = ("AND", "OR", "and", "Or")
_OPERATORS: Final = "+-*"
Value = TypeVar("Value")


class Known(NamedTuple):
    """Values that some messages have, by the names that selectors call them; no name without a value."""

    texts: dict[str, list[str]]
    numbers: dict[str, list[float]]

    @classmethod
    def of(cls, sends: Sequence[MessageOptions]) -> Self:
        """Of these messages."""
        known = cls({"kind": ["a"]}, {"JMSPriority": [4]})
        for send in sends:
            values = {"kind": send.kind, "JMSXGroupID": send.group, "JMSPriority": send.priority, **send.headers}
            for name, value in values.items():
                field = {"correlation-id": "JMSCorrelationID", "type": "JMSType"}.get(name, name)
                if isinstance(value, str):
                    if value:
                        known.texts.setdefault(field, []).append(value)
                elif not isinstance(value, bool):
                    known.numbers.setdefault(field, []).append(value)
        return known


def draw_text(chooser: Chooser) -> str:
    """A text of few different letters, perhaps wildcards."""
    return "".join(_LETTERS[chooser.below(len(_LETTERS))] for _ in range(chooser.below(8)))


def draw_selector_about(chooser: Chooser, known: Known, depth: int = 2) -> str:
    """A selector whose conditions are about values that messages have."""
    if depth and chooser.flag(30):
        parts = [draw_selector_about(chooser, known, depth - 1) for _ in range(2 + chooser.below(2))]
        parts = [f"({part})" if chooser.flag(60) else part for part in parts]
        return "".join([parts[0], *(f" {_JOINTS[chooser.below(len(_JOINTS))]} {part}" for part in parts[1:])])
    if depth and chooser.flag(15):
        return f"NOT ({draw_selector_about(chooser, known, depth - 1)})"
    if chooser.flag(20):
        return _atom(chooser)
    return _about_text(chooser, known) if chooser.flag(50) else _about_number(chooser, known)


def _one(chooser: Chooser, values: dict[str, list[Value]]) -> tuple[str, Value]:
    names = list(values)
    name = names[chooser.below(len(names))]
    return name, values[name][chooser.below(len(values[name]))]


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _about_text(chooser: Chooser, known: Known) -> str:
    name, text = _one(chooser, known.texts)
    how = chooser.below(5)
    if how == 0:
        return f"{name} {('=', '<>')[chooser.below(2)]} {_quoted(text)}"
    if how == 1:
        others = [_one(chooser, known.texts)[1] for _ in range(chooser.below(3))]
        others.insert(chooser.below(len(others) + 1), text)
        return f"{name} {_not(chooser)}IN ({', '.join(_quoted(other) for other in others)})"
    pattern, escape = _pattern(chooser, text)
    return f"{name} {_not(chooser)}LIKE {_quoted(pattern)}{escape}"


def _pattern(chooser: Chooser, text: str) -> tuple[str, str]:
    """What LIKE may say of a text, with its escape: some of it in wildcards, perhaps one letter less or more."""
    escape = ("", "!", "x", "\\")[chooser.below(4)]
    parts: list[str] = []
    for letter in text:
        how = chooser.below(8)
        if how == 0:
            parts.append("_")
        elif how == 1:
            parts.append("%")
        elif how == 2:
            parts += ["%", f"{escape}{letter}" if escape and letter in f"%_{escape}" else letter]
        elif how > 3 or chooser.flag(70):
            parts.append(f"{escape}{letter}" if escape and letter in f"%_{escape}" else letter)
    if chooser.flag(20):
        parts.append(("%", "_", "a")[chooser.below(3)])
    return "".join(parts), f" ESCAPE '{escape}'" if escape else ""


def _near(chooser: Chooser, value: float) -> str:
    """A number's literal, or that of a neighbour."""
    if isinstance(value, int):
        return str(value + (0, 1, -1)[chooser.below(3)])
    return repr(value + (0.0, 0.5, -0.5)[chooser.below(3)]).replace("e+", "E")


def _about_number(chooser: Chooser, known: Known) -> str:
    name, value = _one(chooser, known.numbers)
    order = _ORDERS[chooser.below(len(_ORDERS))]
    how = chooser.below(5)
    if how == 0:
        low, high = _near(chooser, value), _near(chooser, _one(chooser, known.numbers)[1])
        return f"{name} {_not(chooser)}BETWEEN {low} AND {high}"
    if how == 1 and isinstance(value, int):
        number, operator = 1 + chooser.below(5), _OPERATORS[chooser.below(len(_OPERATORS))]
        result = {"+": value + number, "-": value - number, "*": value * number}[operator]
        left = f"{number} {operator} {name}" if operator != "-" and chooser.flag(30) else f"{name} {operator} {number}"
        return f"{left} {order} {_near(chooser, result)}"
    if how == 2:
        return f"{name} {order} {_one(chooser, known.numbers)[0]}"
    if how == 3:
        return f"{_near(chooser, value)} {order} {name}"
    return f"{name} {order} {_near(chooser, value)}"
