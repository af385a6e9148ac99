"""What the JMS agent makes of a library's exceptions."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("jpype")

from brokerproof.conformance.agents.java import reason_of

TEXT = "JMSWMQ2007: Failed to send a message to destination 'q0'."
BELOW = ("MQJE001: Completion Code '2', Reason '{}'.", "compcode '2' ('MQCC_FAILED') reason '{}' ('MQRC_…').", "")


class Linked(Exception):
    """A Java exception, and the one below it."""

    def __init__(self, text: str, linked: Any = None, reason: int = 0) -> None:
        super().__init__(text)
        self.linked, self.reasonCode = linked, reason

    def getLinkedException(self) -> Any:  # noqa: N802 - Java's name
        return self.linked


@pytest.mark.parametrize("text", BELOW)
@pytest.mark.parametrize(("number", "code"), [(2053, "MQRC_Q_FULL"), (2009, None), (2003, None)])
def test_a_reason_of_ibm_mq_is_a_refusal_if_it_says_that_nothing_was_done(text: str, number: int, code: str) -> None:
    """Not so a broken connection, and a unit of work that was backed out."""
    below = Linked(text.format(number), reason=0 if text else number)
    found = reason_of(Linked(TEXT, Linked("between", below)))
    assert (found and (found.code, found.text)) == (code and (code, f"{number} {code}: {TEXT}"))


def test_another_library_gives_no_reason() -> None:
    assert reason_of(Linked(TEXT)) is reason_of(TimeoutError("late")) is None
