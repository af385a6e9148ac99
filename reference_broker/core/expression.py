"""What a selector is made of: small evaluators over one message, and the three-valued logic between them.

A value is a text, a boolean, an exact number (``int``), an approximate one (``float``), or ``None``: unknown (NULL). A
condition is True, False or ``None``: unknown. A message is selected only by True.

Rules (JMS 2.0, section 3.8.1; where ActiveMQ differs it is said so):
* Whatever compares or calculates with unknown is unknown; AND, OR and NOT follow SQL's three-valued tables. The negated
  forms are NOT of the positive ones, except NOT BETWEEN, which is ``a < x OR a > y``.
* Numbers compare by value, exact with approximate ones too. Values of unlike kinds are different: ``=`` is false,
  ``<>`` is true, order is false, and so are LIKE and IN on anything but a text. Texts and booleans have no order
  (ActiveMQ orders texts).
* Exact arithmetic has no width (Java wraps around). Division of exact numbers cuts toward zero; by zero it is unknown.
  Approximate arithmetic is IEEE 754. Arithmetic on anything but numbers is unknown.
* With ``converts`` (the selector's prefix ``convert_string_expressions:``) a text that is compared with a number or a
  boolean is read as one; a text that cannot be read is unlike it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from brokerproof.reference_broker.core.message import Message

Value = str | bool | int | float | None

# Comparison operators.
EQUAL: Final = "="
DIFFERENT: Final = "<>"
LESS: Final = "<"
LESS_OR_EQUAL: Final = "<="
GREATER: Final = ">"
GREATER_OR_EQUAL: Final = ">="

# Arithmetic operators.
PLUS: Final = "+"
MINUS: Final = "-"
TIMES: Final = "*"


def is_number(value: Value) -> bool:
    """Whether the value is a number; a boolean is none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


# -- values


class Operand:
    """Something that has a value."""

    def value(self, message: Message) -> Value:
        """The value for this message."""
        raise NotImplementedError


class Literal(Operand):
    """What is written in the selector."""

    def __init__(self, constant: Value) -> None:
        self.constant = constant

    def value(self, message: Message) -> Value:  # noqa: ARG002 - the same for every message
        return self.constant


class PropertyValue(Operand):
    """A property; unknown if the message has none of that name."""

    def __init__(self, name: str) -> None:
        self.name = name

    def value(self, message: Message) -> Value:
        return message.properties.get(self.name)


class HeaderValue(Operand):
    """A JMS header or a property that JMS defines; unknown if the message has none."""

    def __init__(self, name: str) -> None:
        self.name = name

    def value(self, message: Message) -> Value:
        return header(self.name, message)


#: Identifiers that are headers, not properties.
HEADERS: Final = (
    "JMSCorrelationID",
    "JMSDeliveryMode",
    "JMSDestination",
    "JMSExpiration",
    "JMSMessageID",
    "JMSPriority",
    "JMSRedelivered",
    "JMSReplyTo",
    "JMSTimestamp",
    "JMSType",
    "JMSXDeliveryCount",
    "JMSXGroupID",
    "JMSXGroupSeq",
)


def header(name: str, message: Message) -> Value:
    """The value of one of ``HEADERS``."""
    match name:
        case "JMSDeliveryMode":
            return "PERSISTENT" if message.persistent else "NON_PERSISTENT"
        case "JMSPriority":
            return message.priority
        case "JMSTimestamp":
            return message.timestamp_ms
        case "JMSExpiration":
            return message.shown_expiration_ms()
        case "JMSRedelivered":
            return message.redelivery_count > 0
        case "JMSXDeliveryCount":
            return message.redelivery_count + 1
        case "JMSXGroupSeq":
            return message.group_sequence if message.group_id else None
        case "JMSCorrelationID":
            return message.correlation_id
    texts = {
        "JMSDestination": message.destination,
        "JMSMessageID": message.message_id,
        "JMSReplyTo": message.reply_to,
        "JMSType": message.jms_type,
        "JMSXGroupID": message.group_id,
    }
    return texts[name] or None


class Arithmetic(Operand):
    """A chain of ``+ -`` or of ``* /``, from the left; a leading sign is a chain that begins with 0."""

    def __init__(self, first: Operand, rest: list[tuple[str, Operand]]) -> None:
        self.first = first
        self.rest = rest

    def value(self, message: Message) -> Value:
        result = self.first.value(message)
        for operator, operand in self.rest:
            result = calculate(operator, result, operand.value(message))
        return result


def calculate(operator: str, left: Value, right: Value) -> Value:
    """One arithmetic operation; unknown unless both are numbers."""
    if isinstance(left, bool | str) or isinstance(right, bool | str) or left is None or right is None:
        return None
    if isinstance(left, int) and isinstance(right, int):
        return _exactly(operator, left, right)
    return _approximately(operator, _approximate(left), _approximate(right))


def _exactly(operator: str, left: int, right: int) -> int | None:
    if operator == PLUS:
        return left + right
    if operator == MINUS:
        return left - right
    if operator == TIMES:
        return left * right
    if right == 0:
        return None
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def _approximately(operator: str, left: float, right: float) -> float:
    if operator == PLUS:
        return left + right
    if operator == MINUS:
        return left - right
    if operator == TIMES:
        return left * right
    if right != 0:
        return left / right
    if left == 0 or math.isnan(left):
        return math.nan
    return math.inf * math.copysign(1, left) * math.copysign(1, right)


def _approximate(number: int | float) -> float:
    """Compiled code would convert at the call, and fail for a number beyond all floats, if this said ``float``."""
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


# -- conditions


class Condition:
    """Something that holds, does not hold, or is unknown."""

    def truth(self, message: Message) -> bool | None:
        """Whether it holds for this message."""
        raise NotImplementedError


class Truth(Condition):
    """A boolean value that stands alone; a value of another kind is false."""

    def __init__(self, operand: Operand) -> None:
        self.operand = operand

    def truth(self, message: Message) -> bool | None:
        value = self.operand.value(message)
        return None if value is None else value is True


class Not(Condition):
    """NOT."""

    def __init__(self, condition: Condition) -> None:
        self.condition = condition

    def truth(self, message: Message) -> bool | None:
        truth = self.condition.truth(message)
        return None if truth is None else not truth


class Every(Condition):
    """AND: false if one is false, else unknown if one is unknown."""

    def __init__(self, conditions: list[Condition]) -> None:
        self.conditions = conditions

    def truth(self, message: Message) -> bool | None:
        result: bool | None = True
        for condition in self.conditions:
            truth = condition.truth(message)
            if truth is False:
                return False
            if truth is None:
                result = None
        return result


class Some(Condition):
    """OR: true if one is true, else unknown if one is unknown."""

    def __init__(self, conditions: list[Condition]) -> None:
        self.conditions = conditions

    def truth(self, message: Message) -> bool | None:
        result: bool | None = False
        for condition in self.conditions:
            truth = condition.truth(message)
            if truth is True:
                return True
            if truth is None:
                result = None
        return result


class Comparison(Condition):
    """``= <> < <= > >=``."""

    def __init__(self, operator: str, left: Operand, right: Operand, converts: bool) -> None:
        self.operator = operator
        self.left = left
        self.right = right
        self.converts = converts

    def truth(self, message: Message) -> bool | None:
        left, right = self.left.value(message), self.right.value(message)
        if left is None or right is None:
            return None
        if self.converts:
            left, right = converted(left, right), converted(right, left)
        return compare(self.operator, left, right)


def compare(operator: str, left: Value, right: Value) -> bool:
    """Compare two known values."""
    if isinstance(left, bool | str) or isinstance(right, bool | str) or left is None or right is None:
        same = type(left) is type(right) and left == right
        return same if operator == EQUAL else (not same if operator == DIFFERENT else False)
    if operator == EQUAL:
        return left == right
    if operator == DIFFERENT:
        return left != right
    if operator == LESS:
        return left < right
    if operator == LESS_OR_EQUAL:
        return left <= right
    if operator == GREATER:
        return left > right
    return left >= right


def converted(value: Value, other: Value) -> Value:
    """A text as a value of the other's kind; as it is if it cannot be read so."""
    if not isinstance(value, str) or isinstance(other, str):
        return value
    if isinstance(other, bool):
        return {"true": True, "false": False}.get(value.lower(), value)
    if "_" in value:  # Python's grouping of digits is nobody else's
        return value
    for read in (int, float):
        try:
            return read(value)
        except ValueError:
            continue
    return value


class Membership(Condition):
    """IN."""

    def __init__(self, operand: Operand, choices: tuple[str, ...]) -> None:
        self.operand = operand
        self.choices = choices

    def truth(self, message: Message) -> bool | None:
        value = self.operand.value(message)
        return None if value is None else value in self.choices


class IsNull(Condition):
    """IS NULL; never unknown."""

    def __init__(self, operand: Operand) -> None:
        self.operand = operand

    def truth(self, message: Message) -> bool | None:
        return self.operand.value(message) is None


#: Elements of a LIKE pattern that are not characters.
ANY_ONE: Final = "_"
ANY_MANY: Final = "%"


class Like(Condition):
    """LIKE. The pattern is a list of (character or wildcard, whether it is a wildcard). Matching needs time in
    proportion to text times pattern at most, whatever the pattern.
    """

    def __init__(self, operand: Operand, pattern: list[tuple[str, bool]]) -> None:
        self.operand = operand
        self.pattern = pattern

    def truth(self, message: Message) -> bool | None:
        value = self.operand.value(message)
        if value is None:
            return None
        return isinstance(value, str) and self.fits(value)

    def fits(self, text: str) -> bool:
        """Whether the whole text has the pattern's form."""
        pattern = self.pattern
        at, place = 0, 0
        star, resume = -1, 0  # the last ``%`` and where the text goes on after what it has swallowed so far
        while at < len(text):
            if place < len(pattern) and pattern[place] == (ANY_MANY, True):
                star, resume = place, at
                place += 1
            elif place < len(pattern) and (pattern[place] == (ANY_ONE, True) or pattern[place] == (text[at], False)):
                at += 1
                place += 1
            elif star >= 0:
                resume += 1
                at, place = resume, star + 1
            else:
                return False
        return all(element == (ANY_MANY, True) for element in pattern[place:])


def like_pattern(text: str, escape: str) -> list[tuple[str, bool]] | None:
    """The elements of a pattern; ``escape`` "" is none. None if the pattern ends with its escape character."""
    elements: list[tuple[str, bool]] = []
    literal = False
    for character in text:
        if literal or (character != escape and character not in "_%"):
            elements.append((character, False))
            literal = False
        elif character == escape:
            literal = True
        else:
            elements.append((character, True))
    return None if literal else elements
