"""The grammar of selectors: a text as a tree, or why it is none (JMS 2.0 and Jakarta Messaging 3.1, 3.8.1).

Two objections: ``NoSelector``, which the specification's grammar makes, so that a broker must refuse the text, and
``Unreadable``, where brokers are known to differ (characters beyond the grammar, suffixes of floats, a leading 0 that
is not octal, an escape in LIKE before what needs none). NOT binds weaker than comparisons and stronger than AND, which
binds stronger than OR; one parenthesis may open a condition or a calculation.
"""

from __future__ import annotations

import re
from typing import Final

_TOKEN: Final = re.compile(
    r"""\s*(?:(?P<text>'(?:[^']|'')*')
    |(?P<float>(?:\d+\.\d*|\.\d+)(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+)
    |(?P<int>0[xX][0-9a-fA-F]+|\d+)(?P<long>[lL]?)
    |(?P<word>[A-Za-z_$][\w$]*)
    |(?P<sign><>|<=|>=|[-+*/=<>(),]))""",
    re.VERBOSE,
)
#: What cannot be a name.
KEYWORDS: Final = ("AND", "BETWEEN", "ESCAPE", "FALSE", "IN", "IS", "LIKE", "NOT", "NULL", "OR", "TRUE")
COMPARISONS: Final = ("=", "<>", "<", "<=", ">", ">=")
GREATEST: Final = 2**63 - 1
#: Deeper than anybody writes, and than some brokers read.
DEPTH_MAX: Final = 40


class NoSelector(Exception):
    """The text is no selector."""


class Unreadable(Exception):
    """Brokers may rightly read this, or a message's values, differently."""


class Node:
    """A part of a selector. ``kind``: or, and, not, compare, between, in, like, null, calculate, name, literal;
    ``text``: an operator or a name; ``texts``: the choices of IN, the pattern of LIKE and its escape.
    """

    __slots__ = ("kind", "parts", "text", "texts", "value")

    def __init__(self, kind: str, parts: list[Node], text: str = "", value: str | bool | float | None = None) -> None:
        self.kind = kind
        self.parts = parts
        self.text = text
        self.texts: list[str] = []
        self.value = value


def parsed(text: str) -> Node:
    """The tree of a selector. Raises ``NoSelector`` and ``Unreadable``."""
    return _Parser(text).whole()


class _Parser:
    """Reads a selector top down."""

    def __init__(self, text: str) -> None:
        #: Kind and text of each token, the next one last.
        self._tokens: list[tuple[str, str]] = []
        self._depth = 0
        place, text = 0, text.rstrip()
        while place < len(text):
            found = _TOKEN.match(text, place)
            if found is None:
                if text[place:].lstrip().startswith("'"):
                    raise NoSelector("a text without an end")
                raise Unreadable
            kind = found.lastgroup or ""
            kind = "int" if kind == "long" else kind
            self._tokens.append((kind, found.group().strip()))
            place = found.end()
            if kind in {"int", "float"} and place < len(text) and re.match(r"[\w.$]", text[place]):
                raise Unreadable
        self._tokens.reverse()

    def whole(self) -> Node:
        """All of it."""
        node = self._either()
        if self._tokens:
            raise NoSelector(f"{self._tokens[-1][1]!r} does not fit here")
        return node

    def _next(self) -> tuple[str, str]:
        if not self._tokens:
            raise NoSelector("it ends too early")
        return self._tokens.pop()

    def _is_at(self, *words: str) -> bool:
        kind, text = self._tokens[-1] if self._tokens else ("", "")
        return kind in {"word", "sign"} and text.upper() in words

    def _accept(self, word: str) -> bool:
        found = self._is_at(word)
        if found:
            self._tokens.pop()
        return found

    def _demand(self, word: str) -> None:
        if not self._accept(word):
            raise NoSelector(f"{word} is missing")

    def _text(self) -> str:
        kind, text = self._next()
        if kind != "text":
            raise NoSelector(f"{text!r} is no text")
        return text[1:-1].replace("''", "'")

    def _either(self) -> Node:
        parts = [self._both()]
        while self._accept("OR"):
            parts.append(self._both())
        return parts[0] if len(parts) == 1 else Node("or", parts)

    def _both(self) -> Node:
        parts = [self._one()]
        while self._accept("AND"):
            parts.append(self._one())
        return parts[0] if len(parts) == 1 else Node("and", parts)

    def _one(self) -> Node:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise Unreadable
        node = Node("not", [self._one()]) if self._accept("NOT") else self._predicate()
        self._depth -= 1
        return node

    def _predicate(self) -> Node:
        left = self._sum()
        if self._is_at(*COMPARISONS):
            operator = self._next()[1]
            return Node("compare", [left, self._sum()], operator)
        if self._accept("IS"):
            negated = self._accept("NOT")
            self._demand("NULL")
            return _negated(Node("null", [left]), negated)
        negated = self._accept("NOT")
        if self._accept("BETWEEN"):
            low = self._sum()
            self._demand("AND")
            return _negated(Node("between", [left, low, self._sum()]), negated)
        if self._is_at("IN", "LIKE"):
            return _negated(self._of_texts(left), negated)
        if negated:
            raise NoSelector("NOT does not fit here")
        return left

    def _of_texts(self, left: Node) -> Node:
        if self._accept("IN"):
            node = Node("in", [left])
            self._demand("(")
            node.texts.append(self._text())
            while self._accept(","):
                node.texts.append(self._text())
            self._demand(")")
            return node
        self._demand("LIKE")
        node = Node("like", [left])
        node.texts.append(self._text())
        if self._accept("ESCAPE"):
            node.texts.append(self._text())
            if len(node.texts[1]) != 1:
                raise NoSelector("ESCAPE wants one character")
        return node

    def _sum(self) -> Node:
        node = self._product()
        while self._is_at("+", "-"):
            operator = self._next()[1]
            node = Node("calculate", [node, self._product()], operator)
        return node

    def _product(self) -> Node:
        node = self._factor()
        while self._is_at("*", "/"):
            operator = self._next()[1]
            node = Node("calculate", [node, self._factor()], operator)
        return node

    def _factor(self) -> Node:
        kind, text = self._next()
        if kind == "sign" and text in {"+", "-"}:
            return Node("calculate", [Node("literal", [], value=0), self._factor()], text)
        if kind == "sign" and text == "(":
            node = self._either()
            self._demand(")")
            return node
        if kind == "text":
            return Node("literal", [], text, text[1:-1].replace("''", "'"))
        if kind == "float":
            return Node("literal", [], text, float(text))
        if kind == "int":
            return Node("literal", [], text, _whole(text))
        if kind == "word" and text.upper() in {"TRUE", "FALSE"}:
            return Node("literal", [], text, text.upper() == "TRUE")
        if kind == "word" and text.upper() not in KEYWORDS:
            return Node("name", [], text)
        raise NoSelector(f"{text!r} does not fit here")


def _negated(node: Node, negated: bool) -> Node:
    return Node("not", [node]) if negated else node


def _whole(text: str) -> int:
    """An exact number as Java writes it."""
    digits = text.rstrip("lL").lower()
    try:
        number = int(digits, 16 if digits.startswith("0x") else 8 if digits.startswith("0") else 10)
    except ValueError:
        raise Unreadable from None
    if number > GREATEST:
        raise Unreadable
    return number
