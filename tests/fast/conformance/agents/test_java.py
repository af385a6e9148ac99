"""What the JMS agent makes of a library's exceptions."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("jpype")

from brokerproof.conformance.agents.java import reason_of

TEXT = "JMSWMQ2007: Failed to send a message to destination 'q0'."


class Linked(Exception):
    """A Java exception; ``linked`` is the one below it."""

    def __init__(self, text: str, linked: Any = None, **fields: int) -> None:
        super().__init__(text)
        self.linked = linked
        self.__dict__.update(fields)

    def getLinkedException(self) -> Any:  # noqa: N802 - Java's name
        return self.linked


@pytest.mark.parametrize(
    "below",
    [
        Linked("MQJE001: Completion Code '2', Reason '2053'."),
        Linked("JMSCMQ0001: IBM MQ call failed with compcode '2' ('MQCC_FAILED') reason '2053' ('MQRC_Q_FULL')."),
        Linked("nothing that can be read", reasonCode=2053),
    ],
)
def test_a_reason_of_ibm_mq_is_a_refusal(below: Linked) -> None:
    found = reason_of(Linked(TEXT, Linked("between", below)))
    assert found is not None
    assert (found.code, found.text) == ("MQRC_Q_FULL", f"2053 MQRC_Q_FULL: {TEXT}")


@pytest.mark.parametrize(
    "error",
    [Linked(TEXT), Linked(TEXT, Linked("Reason '2009'.")), Linked(TEXT, reasonCode=2003), TimeoutError("late")],
)
def test_whether_anything_was_done_is_not_known_otherwise(error: Exception) -> None:
    """A connection that broke, a unit of work that was backed out, another provider's exception."""
    assert reason_of(error) is None
