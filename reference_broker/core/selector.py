"""Message selectors: which messages a consumer wants.

A message is selected only if the condition is *true* (not unknown). What the text means: ``grammar.py``; how it is
evaluated: ``expression.py``.

* A selector is read once, when its consumer subscribes; one that cannot be read is refused there (``bad-selector``)
  with the place and the remedy. "" or blanks are no selector: everything is wanted.
* At most ``MAX_LENGTH`` characters and ``MAX_DEPTH`` levels of nesting, so that no client slows the broker.
* The prefix ``convert_string_expressions:`` reads texts as numbers or booleans where they are compared with one: for
  messages of STOMP clients, whose properties are all texts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from brokerproof.reference_broker.core.grammar import Fault, read

if TYPE_CHECKING:
    from brokerproof.reference_broker.core.expression import Condition
    from brokerproof.reference_broker.core.message import Message

MAX_LENGTH: Final = 8192
MAX_DEPTH: Final = 64
#: How much of a selector an error message shows.
SHOWN: Final = 80
CONVERSION: Final = "convert_string_expressions:"
REMEDY: Final = "write for example: kind = 'a' AND size > 10"


class BadSelector(ValueError):
    """The text is no selector. The message says what is wrong, where, and how to write one."""


class Selector:
    """One selector, read."""

    __slots__ = ("condition", "text")

    def __init__(self, text: str, condition: Condition) -> None:
        self.text = text
        self.condition = condition

    def selects(self, message: Message) -> bool:
        """Whether the message is wanted."""
        return self.condition.truth(message) is True


def parse(text: str) -> Selector | None:
    """Read a selector; None if there is none in the text. Raises ``BadSelector``."""
    if not text.strip():
        return None
    if len(text) > MAX_LENGTH:
        raise BadSelector(f"selector of {len(text)} characters is too long; use at most {MAX_LENGTH}")
    converts = text.startswith(CONVERSION)
    body = text[len(CONVERSION) :] if converts else text
    try:
        return Selector(text, read(body, MAX_DEPTH, converts))
    except Fault as fault:
        place = fault.place + len(text) - len(body)
        shown = text if len(text) <= SHOWN else text[:SHOWN] + "..."
        raise BadSelector(f"selector {shown!r}: at character {place}: {fault.text}; {REMEDY}") from None
