"""Selectors: whether a consumer's selector wants a message, as far as an observer can tell from what was sent.

An observer knows a message's properties, its group, priority, delivery mode, correlation id and type. SQL's
three-valued logic applies; what a message does not have is NULL. What brokers may read differently is judged by nobody:
numbers that travelled as texts, whether unlike types differ, what cannot be divided, exact numbers that may overflow.
The grammar: ``selector_grammar.py``. Written from the JMS specification (JMS 2.0 and Jakarta Messaging 3.1, 3.8.1).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import lru_cache
from operator import add, ge, gt, le, lt, mul, sub
from typing import Final

from brokerproof.conformance.experiment.history import Send as SendEvent
from brokerproof.conformance.facts.rows import Send, Session
from brokerproof.conformance.facts.selector_grammar import Node, NoSelector, Unreadable, parsed

Value = str | bool | int | float | None
#: SQL's truth of a selector for a message: true, false, unknown.
Condition = Callable[[SendEvent], bool | None]
#: What an operand has as its value; None: NULL.
Operand = Callable[[SendEvent], Value]

_EXACT: Final = 2**32
#: Properties of ``operations.Headers``, those that nobody sends included.
_PROPERTY: Final = re.compile("[a-z]+_[A-Za-z0-9_]*")
_ORDERS: Final[dict[str, Callable[[float, float], bool]]] = {"<": lt, "<=": le, ">": gt, ">=": ge}
_SAYS_MORE: Final = re.compile(r"\s*(?:[-+]?[\d.].*|true|false|nan|[-+]?inf.*)\s*", re.IGNORECASE)
#: A number as everybody writes it.
_PLAIN: Final = re.compile(r"-?\d{1,9}(?:\.\d{1,6})?")
_FIELDS: Final[dict[str, Operand]] = {
    "kind": lambda event: event.message_kind or None,
    "Kind": lambda _: None,  # names are exact, and nobody sends this one
    "JMSXGroupID": lambda event: event.group or None,
    "JMSCorrelationID": lambda event: event.headers.get("correlation-id"),
    "JMSType": lambda event: event.headers.get("type"),
    "JMSPriority": lambda event: _unless_defined(event, "JMS_IBM_MQMD_Priority", event.priority),
    "JMSDeliveryMode": lambda event: _unless_defined(
        event, "JMS_IBM_MQMD_Persistence", "PERSISTENT" if event.persistent else "NON_PERSISTENT"
    ),
}


def _unless_defined(event: SendEvent, name: str, value: Value) -> Value:
    """What was sent, unless the message leaves it to the definition of a queue manager's queue."""
    if name in event.headers:
        raise Unreadable
    return value


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
    traits = send.client.traits
    if not traits.keeps_types and any(
        name in selector and not isinstance(value, str) and not (traits.keeps_numbers and _PLAIN.fullmatch(str(value)))
        for name, value in event.headers.items()
    ):
        return None
    try:
        return condition(event) is True
    except Unreadable:
        return None


def surely_wants(session: Session, send: Send) -> bool:
    """Whether it certainly wants a message: not its own connection's either, if it asked for none of these."""
    own = session.event is not None and session.event.no_local and send.client is session.client
    return not own and wants(session, send) is True


@lru_cache(maxsize=1024)
def read(selector: str) -> Condition | None:
    """What a selector says; None if it cannot be judged."""
    try:
        return _condition(parsed(selector))
    except (Unreadable, NoSelector):
        return None


@lru_cache(maxsize=1024)
def is_none(selector: str) -> bool:
    """Whether a text is certainly no selector, so that nobody may subscribe with it (JMS 2.0, 3.8.1)."""
    try:
        _condition(parsed(selector))
    except NoSelector:
        return True
    except Unreadable:
        pass
    return False


# -- conditions


def _condition(node: Node) -> Condition:
    """What must hold or not."""
    kind, parts = node.kind, node.parts
    if kind == "or":
        choices = [_condition(part) for part in parts]
        return lambda event: _any([choice(event) for choice in choices])
    if kind == "and":
        return _and(*[_condition(part) for part in parts])
    if kind == "not":
        negated = _condition(parts[0])
        return lambda event: _not(negated(event))
    if kind == "compare":
        return _comparison(node.text, parts[0], parts[1])
    if kind == "between":
        return _and(_comparison(">=", parts[0], parts[1]), _comparison("<=", parts[0], parts[2]))
    if kind in {"in", "like", "null"}:
        return _test(node)
    if kind == "name" or (kind == "literal" and isinstance(node.value, bool)):
        return _truth(_operand(node))
    raise NoSelector(f"{node.text or node.value!r} is no condition")


def _truth(operand: Operand) -> Condition:
    def condition(event: SendEvent) -> bool | None:
        value = operand(event)
        if value is not None and not isinstance(value, bool):
            raise Unreadable
        return value

    return condition


def _comparison(operator: str, left: Node, right: Node) -> Condition:
    one, other = _operand(left), _operand(right)
    if operator in _ORDERS:
        if any(part.kind == "literal" and isinstance(part.value, bool) for part in (left, right)):
            raise NoSelector("booleans have no order")
        if any(part.kind == "literal" and isinstance(part.value, str) for part in (left, right)):
            raise Unreadable  # some read texts as numbers

    def condition(event: SendEvent) -> bool | None:
        a, b = one(event), other(event)
        return None if a is None or b is None else _compared(operator, a, b)

    return condition


def _compared(operator: str, a: Value, b: Value) -> bool:
    """Values of unlike types are not equal, and have no order; whether they differ is open, and so is everything about
    texts that say a number or a truth, which some brokers take for it.
    """
    order = _ORDERS.get(operator)
    if isinstance(a, int | float) and isinstance(b, int | float) and _is_number(a) and _is_number(b):
        if order is not None:
            return order(a, b)
        return (a == b) is (operator == "=")
    like = type(a) is type(b)
    if not like and any(isinstance(one, str) and _SAYS_MORE.fullmatch(one) for one in (a, b)):
        raise Unreadable
    if order is not None:
        if like:
            raise Unreadable
        return False
    if operator == "<>" and not like:
        raise Unreadable
    return (a == b) is (operator == "=")


def _test(node: Node) -> Condition:
    """IN, LIKE and IS NULL."""
    if node.parts[0].kind != "name":
        raise Unreadable
    operand = _operand(node.parts[0])
    if node.kind == "null":
        return lambda event: operand(event) is None
    if node.kind == "in":
        choices = node.texts
        return _where(operand, lambda text: text in choices)
    pattern = _pattern(node.texts[0], node.texts[1] if len(node.texts) > 1 else "")
    return _where(operand, lambda text: pattern.fullmatch(text) is not None)


def _pattern(text: str, escape: str) -> re.Pattern[str]:
    """What LIKE says: ``%`` is any text, ``_`` one character, and either is itself behind ``escape``. What else may
    stand there JMS does not say; SQL-92 has it refused, but for the escape itself.
    """
    parts, exact = [], False
    for letter in text:
        if letter == escape and not exact:
            exact = True
            continue
        if exact and letter not in {"%", "_", escape}:
            raise Unreadable
        wild = {} if exact else {"%": ".*", "_": "."}
        parts.append(wild.get(letter, re.escape(letter)))
        exact = False
    if exact:
        raise Unreadable
    return re.compile("".join(parts), re.DOTALL)


def _where(operand: Operand, holds: Callable[[str], bool]) -> Condition:
    def condition(event: SendEvent) -> bool | None:
        value = operand(event)
        if value is not None and not isinstance(value, str):
            raise Unreadable
        return None if value is None else holds(value)

    return condition


# -- values


def _operand(node: Node) -> Operand:
    """What has a value."""
    kind, name = node.kind, node.text
    if kind == "literal":
        value = node.value
        return lambda _: value
    if kind == "name":
        if name in _FIELDS:
            return _FIELDS[name]
        if not _PROPERTY.fullmatch(name):
            raise Unreadable
        return lambda event: event.headers.get(name)
    if kind == "calculate":
        return _calculation(name, node.parts)
    raise Unreadable  # a condition's truth as a value: not in SQL-92's subset, and some brokers take it


def _calculation(operator: str, parts: list[Node]) -> Operand:
    if any(part.kind == "literal" and not _is_number(part.value) for part in parts):
        raise Unreadable
    operands = [_operand(part) for part in parts]

    def value(event: SendEvent) -> Value:
        numbers: list[int | float] = []
        null = False
        for operand in operands:
            number = operand(event)
            if number is None:
                null = True
            elif isinstance(number, int | float) and _is_number(number):
                numbers.append(number)
            else:
                raise Unreadable
        if null:
            return None
        return _calculate(operator, numbers[0], numbers[1])

    return value


def _calculate(operator: str, left: int | float, right: int | float) -> int | float:
    exact = type(left) is int and type(right) is int
    if exact and max(abs(left), abs(right)) > _EXACT:
        raise Unreadable
    result: int | float
    if operator != "/":
        result = _ARITHMETIC[operator](left, right)
    elif right == 0:
        raise Unreadable  # what cannot be divided means something else to each broker
    else:
        result = left / right
        result = math.trunc(result) if exact else result  # whole numbers stay whole, as Java's do
    if isinstance(result, float) and not math.isfinite(result):
        raise Unreadable
    return result


_ARITHMETIC: Final[dict[str, Callable[[int | float, int | float], int | float]]] = {"+": add, "-": sub, "*": mul}


def _is_number(value: Value) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


# -- SQL's three values


def _and(*parts: Condition) -> Condition:
    return lambda event: _not(_any([_not(part(event)) for part in parts]))


def _any(truths: list[bool | None]) -> bool | None:
    if True in truths:
        return True
    return None if None in truths else False


def _not(truth: bool | None) -> bool | None:
    return None if truth is None else not truth
