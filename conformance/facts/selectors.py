"""Selectors: whether a consumer's selector wants a message, as far as an observer can tell from what was sent.

An observer knows a message's property ``kind`` and its priority. So the selectors that can be judged compare these two
with literals (LIKE, IN and BETWEEN included), joined by AND, OR, NOT and parentheses. SQL's three-valued logic applies;
a message without ``kind`` has NULL there. Everything else cannot be judged, and nothing is claimed about it. Written
from the JMS specification.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from brokerproof.conformance.experiment.history import Send as SendEvent
from brokerproof.conformance.facts.rows import Send, Session

#: SQL's truth of a selector for a message: true, false, unknown.
Condition = Callable[[SendEvent], bool | None]

_TOKEN: Final = re.compile(r"\s*(?:'(?:[^']|'')*'|\d+|[A-Za-z_]\w*|<>|<=|>=|[=<>(),])")


class _Unreadable(Exception):
    """A selector that an observer cannot judge."""


def wants(session: Session, send: Send) -> bool | None:
    """Whether a session's selector chooses a message; None: that cannot be judged. True without a selector."""
    selector = session.event.selector if session.event is not None else ""
    if not selector:
        return True if session.event is not None else None
    condition = read(selector)
    return None if condition is None else condition(send.event) is True


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
        return parts[0] if len(parts) == 1 else lambda event: _not(_any([_not(part(event)) for part in parts]))

    def _one(self) -> Condition:
        if self._accept("NOT"):
            negated = self._one()
            return lambda event: _not(negated(event))
        if self._accept("("):
            inner = self._either()
            self._demand(")")
            return inner
        name = self._next()
        if name == "JMSPriority":
            return self._priority()
        if name == "kind":
            return self._kind()
        raise _Unreadable

    def _priority(self) -> Condition:
        negated = self._accept("NOT")
        if self._accept("BETWEEN"):
            low = self._number()
            self._demand("AND")
            high = self._number()
            return lambda event: (low <= event.priority <= high) != negated
        operator = self._next()
        if negated or operator not in {"=", "<>", "<", "<=", ">", ">="}:
            raise _Unreadable
        number = self._number()
        return lambda event: _compares(event.priority, operator, number)

    def _number(self) -> int:
        token = self._next()
        if not token.isdigit():
            raise _Unreadable
        return int(token)

    def _kind(self) -> Condition:
        if self._accept("IS"):
            negated = self._accept("NOT")
            self._demand("NULL")
            return lambda event: (not event.message_kind) != negated
        negated = self._accept("NOT")
        if self._accept("IN"):
            self._demand("(")
            choices = [self._text()]
            while self._accept(","):
                choices.append(self._text())
            self._demand(")")
            return lambda event: (event.message_kind in choices) != negated if event.message_kind else None
        if self._accept("LIKE"):
            pattern = _pattern(self._text())
            return lambda event: (
                (pattern.fullmatch(event.message_kind) is not None) != negated if event.message_kind else None
            )
        operator = self._next()
        if negated or operator not in {"=", "<>"}:
            raise _Unreadable
        wanted = self._text()
        return lambda event: (event.message_kind == wanted) == (operator == "=") if event.message_kind else None

    def _text(self) -> str:
        token = self._next()
        if not token.startswith("'"):
            raise _Unreadable
        return token[1:-1].replace("''", "'")


def _pattern(text: str) -> re.Pattern[str]:
    """What LIKE says: ``%`` is any text, ``_`` one character."""
    parts = {"%": ".*", "_": "."}
    return re.compile("".join(parts.get(letter, re.escape(letter)) for letter in text), re.DOTALL)


def _compares(one: int, operator: str, other: int) -> bool:
    if operator == "=":
        return one == other
    if operator == "<>":
        return one != other
    return (
        (one < other and operator[0] == "<")
        or (one > other and operator[0] == ">")
        or (one == other and operator.endswith("="))
    )


def _any(truths: list[bool | None]) -> bool | None:
    if True in truths:
        return True
    return None if None in truths else False


def _not(truth: bool | None) -> bool | None:
    return None if truth is None else not truth
