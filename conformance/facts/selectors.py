"""Selectors: whether a consumer's selector wants a message, as far as an observer can tell from what was sent.

An observer knows a message's properties, its group, priority, correlation id and type. So the selectors that can be
judged compare these with literals of their own type (LIKE, IN and BETWEEN included) or calculate with numbers, joined
by AND, OR, NOT and parentheses. SQL's three-valued logic applies; what a message does not have is NULL. Everything else
cannot be judged, and nothing is claimed about it: numbers that travelled as texts, comparisons of unlike types. Written
from the JMS specification (Jakarta Messaging 3.1, 3.8.1).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from operator import add, eq, ge, gt, le, lt, mul, ne, sub
from typing import Final

from brokerproof.conformance.experiment.history import Send as SendEvent
from brokerproof.conformance.facts.rows import Send, Session

#: SQL's truth of a selector for a message: true, false, unknown.
Condition = Callable[[SendEvent], bool | None]

#: A number that can be calculated from a message; None: NULL.
Number = Callable[[SendEvent], float | None]

_TOKEN: Final = re.compile(r"\s*(?:'(?:[^']|'')*'|\d+(?:\.\d+)?|[A-Za-z_]\w*|<>|<=|>=|[-+*/=<>(),])")
_ORDERS: Final[dict[str, Callable[[float, float], bool]]] = {"=": eq, "<>": ne, "<": lt, "<=": le, ">": gt, ">=": ge}
#: What a message has as text; None: NULL.
Text = Callable[[SendEvent], str | None]
_TEXTS: Final[dict[str, Text]] = {
    "kind": lambda event: event.message_kind or None,
    "JMSXGroupID": lambda event: event.group or None,
    "JMSCorrelationID": lambda event: _text_in(event, "correlation-id"),
    "JMSType": lambda event: _text_in(event, "type"),
}
#: Properties of ``operations.Headers``.
_PROPERTY: Final = re.compile("[a-z]+_[A-Za-z0-9_]*")
_EXACT: Final = 2**32


class _Unreadable(Exception):
    """A selector that an observer cannot judge."""


def wants(session: Session, send: Send) -> bool | None:
    """Whether a session's selector chooses a message; None: that cannot be judged. True without a selector."""
    if session.event is None:
        return None
    return chosen_by(session.event.selector, send) if session.event.selector else True


def chosen_by(selector: str, send: Send) -> bool | None:
    """The same of a selector's text."""
    condition, event = read(selector), send.event
    if condition is None:
        return None
    if not send.client.traits.keeps_types and any(
        name in selector and not isinstance(value, str) for name, value in event.headers.items()
    ):
        return None
    try:
        return condition(event) is True
    except _Unreadable:
        return None


def surely_wants(session: Session, send: Send) -> bool:
    """Whether it certainly wants a message: not its own connection's either, if it asked for none of these."""
    own = session.event is not None and session.event.no_local and send.client is session.client
    return not own and wants(session, send) is True


@lru_cache(maxsize=1024)
def read(selector: str) -> Condition | None:
    """What a selector says; None if it cannot be judged."""
    try:
        return _Reader(selector).whole()
    except _Unreadable:
        return None


class _Reader:
    """Reads the few forms, top down."""

    __slots__ = ("_tokens",)

    def __init__(self, text: str) -> None:
        self._tokens: list[str] = []
        place, text = 0, text.rstrip()
        while place < len(text):
            found = _TOKEN.match(text, place)
            if found is None:
                raise _Unreadable
            self._tokens.append(found.group().strip())
            place = found.end()

    def whole(self) -> Condition:
        """All of it."""
        condition = self._either()
        if self._tokens:
            raise _Unreadable
        return condition

    def _next(self) -> str:
        if not self._tokens:
            raise _Unreadable
        return self._tokens.pop(0)

    def _accept(self, word: str) -> bool:
        found = bool(self._tokens) and self._tokens[0].upper() == word
        if found:
            self._tokens.pop(0)
        return found

    def _demand(self, word: str) -> None:
        if not self._accept(word):
            raise _Unreadable

    def _either(self) -> Condition:
        parts = [self._both()]
        while self._accept("OR"):
            parts.append(self._both())
        return parts[0] if len(parts) == 1 else lambda event: _any([part(event) for part in parts])

    def _both(self) -> Condition:
        parts = [self._one()]
        while self._accept("AND"):
            parts.append(self._one())
        return parts[0] if len(parts) == 1 else _and(*parts)

    def _one(self) -> Condition:
        if self._accept("NOT"):
            negated = self._one()
            return lambda event: _not(negated(event))
        if self._accept("("):
            inner = self._either()
            self._demand(")")
            return inner
        if self._accept("TRUE"):
            return lambda _: True
        if self._accept("FALSE"):
            return lambda _: False
        if self._tokens and self._tokens[0] in _TEXTS:
            return self._on_text(_TEXTS[self._next()])
        if self._tokens and _PROPERTY.fullmatch(self._tokens[0]):
            rest = [token.upper() for token in self._tokens[1:3]]
            if not rest or rest[0] in {"AND", "OR", ")"} or (rest[0] in {"=", "<>"} and rest[-1] in {"TRUE", "FALSE"}):
                return self._on_truth(self._next())
            if rest[0] in {"IS", "LIKE", "IN"} or rest[-1] in {"LIKE", "IN"} or rest[-1].startswith("'"):
                name = self._next()
                return self._on_text(lambda event: _text_in(event, name))
        return self._on_number(self._sum())

    def _on_truth(self, name: str) -> Condition:
        if not self._tokens or self._tokens[0] not in {"=", "<>"}:
            return lambda event: _truth_in(event, name)
        equal, wanted = self._next() == "=", self._next().upper() == "TRUE"

        def condition(event: SendEvent) -> bool | None:
            truth = _truth_in(event, name)
            return None if truth is None else (truth is wanted) is equal

        return condition

    def _on_number(self, value: Number) -> Condition:
        negated = self._accept("NOT")
        if self._accept("BETWEEN"):
            low = self._sum()
            self._demand("AND")
            high = self._sum()
            within = _and(_compared(value, ">=", low), _compared(value, "<=", high))
            return (lambda event: _not(within(event))) if negated else within
        operator = self._next()
        if negated or operator not in _ORDERS:
            raise _Unreadable
        return _compared(value, operator, self._sum())

    def _sum(self) -> Number:
        value = self._product()
        while self._tokens and self._tokens[0] in {"+", "-"}:
            value = _calculated(value, self._next(), self._product())
        return value

    def _product(self) -> Number:
        value = self._factor()
        while self._tokens and self._tokens[0] in {"*", "/"}:
            operator = self._next()
            if operator == "/" and not (self._tokens and self._tokens[0].strip("0.")[:1].isdigit()):
                raise _Unreadable  # what cannot be divided means something else to each broker
            value = _calculated(value, operator, self._factor())
        return value

    def _factor(self) -> Number:
        word = self._next()
        if word == "-":
            return _calculated(lambda _: 0, "-", self._factor())
        if word == "(":
            inner = self._sum()
            self._demand(")")
            return inner
        if word == "JMSPriority":
            return lambda event: event.priority
        if _PROPERTY.fullmatch(word):
            return lambda event: _number_in(event, word)
        if not word[0].isdigit() or (word[0] == "0" and word.isdigit() and word != "0"):  # or octal
            raise _Unreadable
        number = float(word) if "." in word else int(word)
        return lambda _: number

    def _on_text(self, value: Text) -> Condition:
        if self._accept("IS"):
            negated = self._accept("NOT")
            self._demand("NULL")
            return lambda event: (value(event) is None) != negated
        negated = self._accept("NOT")
        if self._accept("IN"):
            self._demand("(")
            choices = [self._text()]
            while self._accept(","):
                choices.append(self._text())
            self._demand(")")
            return _where(value, lambda text: (text in choices) != negated)
        if self._accept("LIKE"):
            pattern = _pattern(self._text())
            return _where(value, lambda text: (pattern.fullmatch(text) is not None) != negated)
        operator = self._next()
        if negated or operator not in {"=", "<>"}:
            raise _Unreadable
        wanted = self._text()
        return _where(value, lambda text: (text == wanted) == (operator == "="))

    def _text(self) -> str:
        token = self._next()
        if not token.startswith("'"):
            raise _Unreadable
        return token[1:-1].replace("''", "'")


def _pattern(text: str) -> re.Pattern[str]:
    """What LIKE says: ``%`` is any text, ``_`` one character."""
    parts = {"%": ".*", "_": "."}
    return re.compile("".join(parts.get(letter, re.escape(letter)) for letter in text), re.DOTALL)


def _where(value: Text, holds: Callable[[str], bool]) -> Condition:
    def condition(event: SendEvent) -> bool | None:
        text = value(event)
        return None if text is None else holds(text)

    return condition


def _text_in(event: SendEvent, name: str) -> str | None:
    value = event.headers.get(name)
    if value is not None and not isinstance(value, str):
        raise _Unreadable
    return value


def _truth_in(event: SendEvent, name: str) -> bool | None:
    value = event.headers.get(name)
    if value is not None and not isinstance(value, bool):
        raise _Unreadable
    return value


def _number_in(event: SendEvent, name: str) -> float | None:
    """Of what can be calculated with everywhere alike: the largest numbers overflow, or are not exact."""
    value = event.headers.get(name)
    if value is not None and (isinstance(value, bool | str) or abs(value) > _EXACT):
        raise _Unreadable
    return value


def _calculated(left: Number, operator: str, right: Number) -> Number:
    calculate = _ARITHMETIC[operator]

    def number(event: SendEvent) -> float | None:
        one, other = left(event), right(event)
        return None if one is None or other is None else calculate(one, other)

    return number


def _divide(left: float, right: float) -> float:
    """As Java does: whole numbers stay whole."""
    exact = left / right
    return int(exact) if type(left) is int and type(right) is int else exact


_ARITHMETIC: Final[dict[str, Callable[[float, float], float]]] = {"+": add, "-": sub, "*": mul, "/": _divide}


def _compared(left: Number, operator: str, right: Number) -> Condition:
    compare = _ORDERS[operator]

    def condition(event: SendEvent) -> bool | None:
        one, other = left(event), right(event)
        return None if one is None or other is None else compare(one, other)

    return condition


def _and(*parts: Condition) -> Condition:
    return lambda event: _not(_any([_not(part(event)) for part in parts]))


def _any(truths: list[bool | None]) -> bool | None:
    if True in truths:
        return True
    return None if None in truths else False


def _not(truth: bool | None) -> bool | None:
    return None if truth is None else not truth
