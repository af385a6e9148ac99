"""The text of a selector, read: JMS's subset of SQL-92's conditional expressions, by a grammar.

It decides what is a selector and what each part of it means. The parser is lark's (LALR, so it takes linear time and no
recursion); it is loaded when the first selector comes, because most brokers never meet one.

* Keywords are read in any case; identifiers and texts are exact. A text is in single quotes, a quote in it is doubled.
  Numbers are Java's: ``57``, ``0x1F``, ``017``, ``57L``, ``7.``, ``.5``, ``-9.5E3``, ``2f``.
* NOT binds weaker than a comparison (SQL; in ActiveMQ's grammar it binds stronger, so there ``NOT a = 1`` is ``(NOT a)
  = 1``). Arithmetic and conditions share one grammar, because a parenthesis may open either; which of them may stand
  where is checked afterwards.
* LIKE, IN and IS NULL want an identifier at their left. What can never be meant (``3 > 'a'``, ``'a' + 1``, a number as
  a condition) is refused when it is read, not found false for ever.
* Every objection is a ``Fault``: what is wrong and at which place of the text.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from brokerproof.reference_broker.core import expression
from brokerproof.reference_broker.core.expression import (
    HEADERS,
    Arithmetic,
    Comparison,
    Condition,
    Every,
    HeaderValue,
    IsNull,
    Like,
    Literal,
    Membership,
    Not,
    Operand,
    PropertyValue,
    Some,
    Truth,
)

if TYPE_CHECKING:
    from lark import Lark, Token, Tree

GRAMMAR: Final = r"""
?start: disjunction
?disjunction: conjunction (_OR conjunction)*
?conjunction: negation (_AND negation)*
?negation: _NOT negation -> no
         | predicate
?predicate: sum
          | sum COMPARE sum -> compare
          | sum _BETWEEN sum _AND sum -> between
          | sum _NOT _BETWEEN sum _AND sum -> not_between
          | sum _IN "(" STRING ("," STRING)* ")" -> member
          | sum _NOT _IN "(" STRING ("," STRING)* ")" -> not_member
          | sum _LIKE STRING (_ESCAPE STRING)? -> like
          | sum _NOT _LIKE STRING (_ESCAPE STRING)? -> not_like
          | sum _IS NULL -> null
          | sum _IS _NOT NULL -> not_null
?sum: product (SIGN product)*
?product: signed (FACTOR signed)*
?signed: SIGN signed -> sign
       | INTEGER | FLOAT | STRING | TRUE | FALSE | NAME
       | "(" disjunction ")" -> group

COMPARE: "=" | "<>" | "<=" | ">=" | "<" | ">"
SIGN: "+" | "-"
FACTOR: "*" | "/"
STRING: /'(?:[^']|'')*'/
FLOAT.2: /(?:\d+\.\d*|\.\d+)(?:e[+-]?\d+)?[fd]?|\d+e[+-]?\d+[fd]?|\d+[fd]/i
INTEGER.1: /(?:0x[0-9a-f]+|\d+)l?/i
_OR.3: /or(?![\w$])/i
_AND.3: /and(?![\w$])/i
_NOT.3: /not(?![\w$])/i
_BETWEEN.3: /between(?![\w$])/i
_IN.3: /in(?![\w$])/i
_LIKE.3: /like(?![\w$])/i
_ESCAPE.3: /escape(?![\w$])/i
_IS.3: /is(?![\w$])/i
NULL.3: /null(?![\w$])/i
TRUE.3: /true(?![\w$])/i
FALSE.3: /false(?![\w$])/i
NAME: /(?:[^\W\d]|\$)[\w$]*/
%ignore /[ \t\r\n\f]+/
"""

#: Exact numbers are Java's ``long``.
GREATEST: Final = 2**63


class Fault(ValueError):
    """The text is no selector. ``place`` counts characters from 1."""

    def __init__(self, text: str, place: int) -> None:
        super().__init__(text)
        self.text = text
        self.place = place


_parsers: list[Lark] = []


def parser() -> Lark:
    """The parser, made at the first use."""
    if not _parsers:
        from lark import Lark

        # The basic lexer, because the contextual one would take a keyword for a name where no keyword fits.
        _parsers.append(Lark(GRAMMAR, parser="lalr", lexer="basic", propagate_positions=True))
    return _parsers[0]


@lru_cache(maxsize=256)
def read(text: str, depth: int, converts: bool) -> Condition:
    """The condition that the text states; raises ``Fault``. ``depth`` limits how deep expressions may nest."""
    from lark import UnexpectedCharacters, UnexpectedToken

    try:
        tree = parser().parse(text)
    except UnexpectedCharacters as found:
        place = getattr(found, "pos_in_stream", 0) or 0  # declared as None, but it is a number
        raise Fault(f"{text[place]!r} means nothing here", place + 1) from None
    except UnexpectedToken as found:
        token = found.token
        if token.type == "$END":
            raise Fault("the text ends too early", len(text) + 1) from None
        raise Fault(f"{str(token)!r} does not fit here", (token.start_pos or 0) + 1) from None
    return Reader(depth, converts).condition(tree, 0)


def place_of(part: Tree[Token] | Token) -> int:
    """Where a part of the text begins, from 1."""
    from lark import Token

    position = part.start_pos if isinstance(part, Token) else part.meta.start_pos
    return (position or 0) + 1


class Reader:
    """Turns a syntax tree into evaluators."""

    __slots__ = ("converts", "limit")

    def __init__(self, limit: int, converts: bool) -> None:
        self.limit = limit
        self.converts = converts

    def descend(self, part: Tree[Token] | Token, depth: int) -> int:
        """One level deeper."""
        if depth >= self.limit:
            raise Fault(f"more than {self.limit} levels of nesting", place_of(part))
        return depth + 1

    # -- conditions

    def condition(self, part: Tree[Token] | Token, depth: int) -> Condition:
        """What stands here must hold or not."""
        from lark import Token

        if isinstance(part, Token):
            return self.truth(part)
        deeper = self.descend(part, depth)
        kind = str(part.data)
        if kind == "disjunction":
            return Some([self.condition(child, deeper) for child in part.children])
        if kind == "conjunction":
            return Every([self.condition(child, deeper) for child in part.children])
        if kind == "no":
            return Not(self.condition(part.children[0], deeper))
        if kind == "group":
            return self.condition(part.children[0], deeper)
        if kind in ("sum", "product", "sign"):
            raise Fault("a number is no condition; compare it with something", place_of(part))
        if kind.startswith("not_") and kind != "not_between":
            return Not(self.predicate(kind.removeprefix("not_"), part, deeper))
        return self.predicate(kind, part, deeper)

    def truth(self, token: Token) -> Condition:
        """A single word as a condition."""
        if token.type in ("NAME", "TRUE", "FALSE"):
            return Truth(self.operand(token, 0))
        raise Fault(f"{str(token)!r} is no condition; compare it with something", place_of(token))

    def predicate(self, kind: str, part: Tree[Token], depth: int) -> Condition:
        """One test of a value."""
        first, *rest = part.children
        if kind == "compare":
            return self.comparison(str(rest[0]), first, rest[1], depth)
        if kind == "between":
            return Every(
                [
                    self.comparison(expression.GREATER_OR_EQUAL, first, rest[0], depth),
                    self.comparison(expression.LESS_OR_EQUAL, first, rest[1], depth),
                ]
            )
        if kind == "not_between":
            return Some(
                [
                    self.comparison(expression.LESS, first, rest[0], depth),
                    self.comparison(expression.GREATER, first, rest[1], depth),
                ]
            )
        name = self.name(first, kind)
        if kind == "member":
            return Membership(name, tuple(unquoted(str(token)) for token in rest))
        if kind == "null":
            return IsNull(name)
        escape = unquoted(str(rest[1])) if len(rest) > 1 else ""
        if len(rest) > 1 and len(escape) != 1:
            raise Fault("ESCAPE wants exactly one character", place_of(rest[1]))
        pattern = expression.like_pattern(unquoted(str(rest[0])), escape)
        if pattern is None:
            raise Fault("the pattern ends with its escape character", place_of(rest[0]))
        return Like(name, pattern)

    def comparison(self, operator: str, left: Tree[Token] | Token, right: Tree[Token] | Token, depth: int) -> Condition:
        """A comparison; an order wants numbers."""
        operands = self.operand(left, depth), self.operand(right, depth)
        if operator not in (expression.EQUAL, expression.DIFFERENT):
            for operand, part in zip(operands, (left, right), strict=True):
                self.must_be_number(operand, part, "has no order; only numbers do")
        return Comparison(operator, *operands, self.converts)

    def name(self, part: Tree[Token] | Token, kind: str) -> Operand:
        """What LIKE, IN and IS NULL ask about."""
        from lark import Token

        while not isinstance(part, Token) and part.data == "group":
            part = part.children[0]
        if isinstance(part, Token) and part.type == "NAME":
            return self.operand(part, 0)
        word = {"member": "IN", "like": "LIKE", "null": "IS NULL"}[kind]
        raise Fault(f"{word} wants the name of a property at its left", place_of(part))

    # -- values

    def operand(self, part: Tree[Token] | Token, depth: int) -> Operand:
        """What stands here must have a value."""
        from lark import Token

        if isinstance(part, Token):
            return self.word(part)
        deeper = self.descend(part, depth)
        kind = str(part.data)
        if kind == "group":
            return self.operand(part.children[0], deeper)
        if kind == "sign":
            sign, inner = part.children
            return Arithmetic(Literal(0), [(str(sign), self.number(inner, deeper))])
        if kind in ("sum", "product"):
            first, *rest = part.children
            steps = [(str(rest[at]), self.number(rest[at + 1], deeper)) for at in range(0, len(rest), 2)]
            return Arithmetic(self.number(first, deeper), steps)
        raise Fault("a condition has no value to compare or to calculate with", place_of(part))

    def number(self, part: Tree[Token] | Token, depth: int) -> Operand:
        """What stands here must be able to be a number."""
        operand = self.operand(part, depth)
        self.must_be_number(operand, part, "is no number to calculate with")
        return operand

    def must_be_number(self, operand: Operand, part: Tree[Token] | Token, objection: str) -> None:
        """Refuse a constant that is none. With conversion a text may be one."""
        if isinstance(operand, Literal) and not expression.is_number(operand.constant):
            if self.converts and objection.startswith("has") and isinstance(operand.constant, str):
                return
            shown = operand.constant if not isinstance(operand.constant, bool) else str(operand.constant).upper()
            raise Fault(f"{shown!r} {objection}", place_of(part))

    def word(self, token: Token) -> Operand:
        """A literal or an identifier."""
        text = str(token)
        if token.type == "STRING":
            return Literal(unquoted(text))
        if token.type == "FLOAT":
            return Literal(float(text.rstrip("fFdD")))
        if token.type == "INTEGER":
            return Literal(integer(text, place_of(token)))
        if token.type in ("TRUE", "FALSE"):
            return Literal(token.type == "TRUE")
        return HeaderValue(text) if text in HEADERS else PropertyValue(text)


def unquoted(text: str) -> str:
    """What a quoted text says."""
    return text[1:-1].replace("''", "'")


def integer(text: str, place: int) -> int:
    """An exact number as Java writes it."""
    digits = text.rstrip("lL").lower()
    try:
        if digits.startswith("0x"):
            number = int(digits, 16)
        else:
            number = int(digits, 8) if digits.startswith("0") else int(digits)
    except ValueError:
        raise Fault(f"{text!r} is no number: a leading 0 means octal", place) from None
    if number > GREATEST:
        raise Fault(f"{text!r} is too large for an exact number; write it with a decimal point", place)
    return number
