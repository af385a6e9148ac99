"""What the JMS agent makes of a library's exceptions, answers that come late, and transactions."""

from __future__ import annotations

import threading
from typing import Any

import pytest

pytest.importorskip("jpype")

from brokerproof.conformance.agents.java import Consumer, Wire, reason_of
from brokerproof.conformance.agents.jms_agent import Agent
from brokerproof.conformance.agents.library import RefusedError
from brokerproof.conformance.experiment.operations import Abort, Ack, Begin, Commit, Leave, Send, Subscribe

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

    def attach(self, session: None, request: Subscribe) -> Consumer:
        self.asked.set()
        assert self.answer.wait(10)
        return Consumer(request.consumer, session, None)

    def detach(self, consumer: Consumer) -> None:
        self.detached.append(consumer.name)


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


class Calls:
    """A session, a consumer, or whatever a library makes of them: it notes what is called."""

    def __init__(self, name: str, log: list[str]) -> None:
        self._name, self._log = name, log

    def __getattr__(self, call: str) -> Any:
        return lambda *_: self._log.append(f"{self._name}.{call}")


class Noting:
    """A library of such sessions: the first consumer's is ``s1``."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.count = 0

    def session(self, _wire: Wire, mode: str) -> Calls:
        self.count += 1
        self.log.append(f"s{self.count}: {mode}")
        return Calls(f"s{self.count}", self.log)

    def attach(self, session: Calls, request: Subscribe) -> Consumer:
        return Consumer(request.consumer, session, Calls(request.consumer, self.log))

    def detach(self, consumer: Consumer) -> None:
        consumer.session.close()

    def message(self, session: Calls, _request: Send) -> Calls:
        session.message()
        return session

    def sender(self, session: Calls, _request: Send) -> Any:
        return lambda _: session.send()

    def stamps(self, _message: Any, _request: Send) -> dict[str, int]:
        return {}

    def watches(self, _wire: Wire, *, dead: bool) -> bool:
        return not dead


@pytest.fixture
def consuming(monkeypatch: pytest.MonkeyPatch) -> tuple[Agent, list[str]]:
    """An agent whose consumers ``c0/1`` (session ``s1``) and ``c0/2`` (``s2``) have been given a message each."""
    monkeypatch.setattr("jpype.JClass", lambda name: Calls(name, []))  # there is no JVM that knows a thread
    library: Any = Noting()
    agent = Agent(library, 0, 1)
    agent._wire = wire = Wire(None)
    wire.producing, wire.transacts = Calls("producing", library.log), True
    for consumer in ("c0/1", "c0/2"):
        agent._subscribe(Subscribe(dest="queue://q0", consumer=consumer, ack="client"))
        agent._consumer(consumer).taken[f"p0/{consumer[-1]}"] = object()
    assert library.log == ["s1: transacted", "s2: transacted"]
    library.log.clear()
    return agent, library.log


def test_a_transaction_that_begins_with_an_acknowledgement_is_the_consumers(
    consuming: tuple[Agent, list[str]],
) -> None:
    agent, log = consuming
    agent._perform(Begin(tx="t"))
    agent._perform(Ack(consumer="c0/1", messages=["p0/1"], mode="cumulative", tx="t"))
    agent._send(Send(message="c0/1", dest="queue://q0", tx="t"), 10_000, {}, None)
    with pytest.raises(RefusedError, match="another session's than that of 'c0/2'"):
        agent._perform(Ack(consumer="c0/2", messages=["p0/2"], mode="cumulative", tx="t"))
    agent._perform(Leave(consumer="c0/1"))
    agent._perform(Ack(consumer="c0/2", messages=["p0/2"], mode="cumulative"))
    agent._perform(Commit(tx="t"))
    # The consumer closes, and its session when the transaction has ended.
    assert log == ["s1.message", "s1.send", "c0/1.close", "s2.commit", "s1.commit", "s1.close"]


def test_a_transaction_that_begins_with_a_send_is_of_sends_alone(consuming: tuple[Agent, list[str]]) -> None:
    agent, log = consuming
    agent._perform(Begin(tx="t"))
    agent._send(Send(message="c0/1", dest="queue://q0", tx="t"), 10_000, {}, None)
    with pytest.raises(RefusedError, match="another session's"):
        agent._perform(Ack(consumer="c0/1", messages=["p0/1"], mode="cumulative", tx="t"))
    agent._perform(Abort(tx="t"))
    agent._perform(Leave(consumer="c0/1"))
    assert log == ["s3: transacted", "s3.message", "s3.send", "s3.rollback", "s3.close", "s1.close"]
    with pytest.raises(RefusedError, match="no open transaction 't'"):
        agent._perform(Commit(tx="t"))


def test_a_transaction_in_which_nothing_was_done_ends_without_a_session(consuming: tuple[Agent, list[str]]) -> None:
    agent, log = consuming
    agent._perform(Begin(tx="t"))
    agent._perform(Commit(tx="t"))
    assert log == []
