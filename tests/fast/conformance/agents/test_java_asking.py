"""A consumer of a JMS provider, whose call comes back when it likes."""

from __future__ import annotations

import threading
from typing import Any

import pytest

pytest.importorskip("jpype")

from brokerproof.conformance.agents import java, java_asking
from brokerproof.conformance.agents.java_asking import Asking


class Late:
    """A library's consumer whose ``receive`` comes back when it is told."""

    def __init__(self) -> None:
        self.back, self.calls = threading.Event(), 0

    def receive(self, _: int) -> str:
        self.calls += 1
        assert self.back.wait(10)
        return f"message {self.calls}"


@pytest.fixture(autouse=True)
def _without_java(monkeypatch: pytest.MonkeyPatch) -> None:
    def begun(work: Any) -> threading.Thread:
        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        return thread

    monkeypatch.setattr(java_asking, "begun", begun)
    monkeypatch.setattr(java_asking.jpype, "JException", java.RefusedError)


def test_what_comes_back_late_is_told_of_though_nobody_asks_again() -> None:
    told = list[tuple[str, str]]()
    heard = threading.Event()

    def tell(consumer: str, message: str, since_ns: int, at_ns: int) -> str:
        assert since_ns <= at_ns
        told.append((consumer, message))
        heard.set()
        return "p0/1"

    library = Late()
    consumer = Asking("c0/1", None, library, tell, ahead=False)
    consumer.ask(1)
    assert not consumer.answered(1)
    assert told == []
    library.back.set()
    assert heard.wait(10)
    assert told == [("c0/1", "message 1")]
    consumer.ask(1)  # no second call: the first one's answer is this one's
    assert consumer.answered(10_000)
    assert (consumer.answer(), library.calls, len(told)) == (("message 1", "p0/1"), 1, 1)
