"""Options in a destination's name: ``queue://A?consumer.prefetchSize=1&consumer.exclusive=true``.

Rules (ActiveMQ's): everything after the first ``?`` is options, joined by ``&``, with percent-encoded values; they
belong to the whole name, composite or not. They are the consumer's, and go before what it asked for; to a producer they
mean nothing. An unknown option, or a value that is none, is refused.
"""

from __future__ import annotations

import difflib
from typing import Final
from urllib.parse import unquote_plus

_PREFIX: Final = "consumer."
_FLAG: Final = "flag"
_TEXT: Final = "text"
#: Option -> field of a Subscribe, and what its value may be: a flag, a text, or the least and the greatest number.
OPTIONS: Final[dict[str, tuple[str, str | tuple[int, int]]]] = {
    "prefetchSize": ("prefetch", (0, 2**31 - 1)),
    "maximumPendingMessageLimit": ("pending_limit", (0, 2**31 - 1)),
    "noLocal": ("no_local", _FLAG),
    "dispatchAsync": ("dispatch_async", _FLAG),
    "retroactive": ("retroactive", _FLAG),
    "selector": ("selector", _TEXT),
    "exclusive": ("exclusive", _FLAG),
    "priority": ("priority", (-128, 127)),
}

Value = bool | int | str


class BadOption(ValueError):
    """An option that cannot be used. The text shows it, and what would be accepted."""


def split_options(destination: str) -> tuple[str, dict[str, Value]]:
    """The plain name, and what its options say: field of a Subscribe -> value. Raises ``BadOption``."""
    name, mark, text = destination.partition("?")
    if not mark:
        return destination, {}
    found: dict[str, Value] = {}
    for part in text.split("&"):
        key, equals, value = part.partition("=")
        option = key.removeprefix(_PREFIX)
        if not equals or not key.startswith(_PREFIX) or option not in OPTIONS:
            near = difflib.get_close_matches(option, OPTIONS, 1)
            known = ", ".join(_PREFIX + one for one in OPTIONS)
            remedy = f"did you mean {_PREFIX}{near[0]}=...?" if near else f"one of {known}"
            raise BadOption(f"option {part!r} of {destination!r} is unknown; {remedy}")
        field, kind = OPTIONS[option]
        found[field] = _value(part, unquote_plus(value), kind, destination)
    return name, found


def plain_name(destination: str) -> str:
    """The name without options, which are checked. Raises ``BadOption``."""
    return split_options(destination)[0] if "?" in destination else destination


def apply_options(subscription: object, options: dict[str, Value]) -> None:
    """Let a consumer (a Subscribe, or a protocol's command) have what the options say."""
    for field, value in options.items():
        setattr(subscription, field, value)


def _value(part: str, text: str, kind: str | tuple[int, int], destination: str) -> Value:
    if kind == _TEXT:
        return text
    if kind == _FLAG:
        if text in {"true", "false"}:
            return text == "true"
        raise BadOption(f"option {part!r} of {destination!r} must be true or false")
    low, high = (int(bound) for bound in kind)
    number = int(text) if text.removeprefix("-").isdecimal() and len(text) < 12 else high + 1
    if low <= number <= high:
        return number
    raise BadOption(f"option {part!r} of {destination!r} must be a whole number from {low} to {high}")
