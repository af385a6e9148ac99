"""What the JMS agent makes of a library's exceptions."""

from __future__ import annotations

import threading
from typing import Any

import pytest

pytest.importorskip("jpype")

from brokerproof.conformance.agents.java import Wire, reason_of
from brokerproof.conformance.agents.jms_agent import Agent
from brokerproof.conformance.experiment.operations import Leave, Subscribe

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


class Slow:
    """A library whose broker answers a subscription when ``answer`` is set."""

    def __init__(self) -> None:
        self.asked, self.answer, self.detached = threading.Event(), threading.Event(), list[str]()

    def session(self, _wire: Wire, _mode: str) -> None:
        return None

    def attach(self, _session: None, request: Subscribe) -> str:
        self.asked.set()
        assert self.answer.wait(10)
        return request.consumer

    def detach(self, consumer: str) -> None:
        self.detached.append(consumer)


def test_who_leaves_before_the_broker_has_answered_leaves_afterwards() -> None:
    library: Any = Slow()
    agent = Agent(library, 0, 1)
    agent._wire = wire = Wire(None)
    thread = threading.Thread(target=agent._subscribe, args=(Subscribe(dest="queue://q0", consumer="c0/1"),))
    thread.start()
    assert library.asked.wait(10)
    with pytest.raises(TimeoutError):
        agent._leave(Leave(consumer="c0/1"))
    library.answer.set()
    thread.join(10)
    assert (library.detached, wire.consumers, wire.coming) == (["c0/1"], {}, {})
