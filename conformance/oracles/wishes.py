"""Wishes: whether a consumer's selector wants a message, as far as an observer can tell from what was sent.

An observer knows a message's property ``kind`` and its priority. So the selectors that can be judged compare those two
with literals, joined by AND, OR, NOT and parentheses; SQL's three-valued logic applies, and a message without ``kind``
has NULL there. Everything else is *unreadable*: nothing is claimed about it.

Rules: this is written from the JMS specification, not from any broker, and imports none.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from brokerproof.conformance.experiment.history import Send

#: What a selector makes of a message: wanted, not wanted, unknown (so not wanted).
Truth = bool | None
Wish = Callable[[Send], Truth]

_TOKEN: Final = re.compile(r"\s*(?:('(?:[^']|'')*')|(\d+)|([A-Za-z_]\w*)|(<>|<=|>=|[=<>(),]))")
_OPERATORS: Final[dict[str, Callable[[int, int], bool]]] = {
    "=": lambda one, other: one == other,
    "<>": lambda one, other: one != other,
    "<": lambda one, other: one < other,
    "<=": lambda one, other: one <= other,
    ">": lambda one, other: one > other,
    ">=": lambda one, other: one >= other,
}


class Unreadable(Exception):
    """A selector that an observer cannot judge."""


def read(selector: str) -> Wish | None:
    """The wish that a selector states; None if it cannot be judged."""
    try:
        return _Reader(selector).whole()
    except Unreadable:
        return None


class _Reader:
    """Reads the few forms, top down."""

    def __init__(self, text: str) -> None:
        self._tokens: list[str] = []
        place = 0
        while text[place:].strip():
            found = _TOKEN.match(text, place)
            if found is None:
                raise Unreadable
            self._tokens.append(found.group().strip())
            place = found.end()

    def whole(self) -> Wish:
        wish = self._either()
        if self._tokens:
            raise Unreadable
        return wish

    def _next(self) -> str:
        if not self._tokens:
            raise Unreadable
        return self._tokens.pop(0)

    def _accept(self, word: str) -> bool:
        if self._tokens and self._tokens[0].upper() == word:
            self._tokens.pop(0)
            return True
        return False

    def _demand(self, word: str) -> None:
        if not self._accept(word):
            raise Unreadable

    def _either(self) -> Wish:
        wishes = [self._both()]
        while self._accept("OR"):
            wishes.append(self._both())
        return wishes[0] if len(wishes) == 1 else lambda send: _any([wish(send) for wish in wishes])

    def _both(self) -> Wish:
        wishes = [self._one()]
        while self._accept("AND"):
            wishes.append(self._one())
        return wishes[0] if len(wishes) == 1 else lambda send: _not(_any([_not(wish(send)) for wish in wishes]))

    def _one(self) -> Wish:
        if self._accept("NOT"):
            wish = self._one()
            return lambda send: _not(wish(send))
        if self._accept("("):
            wish = self._either()
            self._demand(")")
            return wish
        name = self._next()
        if name == "JMSPriority":
            return self._of_priority()
        if name == "kind":
            return self._of_kind()
        raise Unreadable

    def _of_priority(self) -> Wish:
        operator = _OPERATORS.get(self._next())
        number = self._next()
        if operator is None or not number.isdigit():
            raise Unreadable
        return lambda send: operator(send.priority, int(number))

    def _of_kind(self) -> Wish:
        if self._accept("IS"):
            negated = self._accept("NOT")
            self._demand("NULL")
            return lambda send: (not send.message_kind) != negated
        negated = self._accept("NOT")
        if negated or self._tokens[:1] in (["IN"], ["in"]):
            self._demand("IN")
            self._demand("(")
            choices = [self._text()]
            while self._accept(","):
                choices.append(self._text())
            self._demand(")")
            return lambda send: (send.message_kind in choices) != negated if send.message_kind else None
        operator = self._next()
        if operator not in ("=", "<>"):
            raise Unreadable
        wanted = self._text()
        return lambda send: (send.message_kind == wanted) == (operator == "=") if send.message_kind else None

    def _text(self) -> str:
        token = self._next()
        if not token.startswith("'"):
            raise Unreadable
        return token[1:-1].replace("''", "'")


def _any(truths: list[Truth]) -> Truth:
    if True in truths:
        return True
    return None if None in truths else False


def _not(truth: Truth) -> Truth:
    return None if truth is None else not truth
