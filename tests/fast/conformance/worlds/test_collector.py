"""Dead letters of several runs at once: each is handed its own, nobody else's is touched."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from brokerproof.chaos.channels import Channel
from brokerproof.conformance.agents.protocol import Arrive
from brokerproof.conformance.brokers.base import Access
from brokerproof.conformance.experiment import operations as ops
from brokerproof.conformance.worlds.live.agent import AgentHost
from brokerproof.conformance.worlds.live.collector import (
    BEAT_MS,
    CONSUMER,
    Collector,
    Collectors,
    Mailbox,
    NotCollected,
)
from brokerproof.conformance.worlds.scheduler import lock_step
from brokerproof.reference_broker.core.message import DEAD_LETTER_QUEUE

DEADLINE_S = 20.0


class Broker:
    """What an agent at the dead-letter queue says: its own words for each request, and letters when a test says so."""

    def __init__(self, sock: socket.socket) -> None:
        self._lock = threading.Lock()
        self._socket = sock
        self.acknowledged: list[str] = []
        self.beats: list[int] = []
        #: Words of the answer to an acknowledgement.
        self.answer: dict[str, Any] = {"ok": {}}
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def say(self, **words: object) -> None:
        now_ns = time.monotonic_ns()
        with self._lock, contextlib.suppress(BrokenPipeError):  # the end of the test
            self._socket.sendall(json.dumps({"t0": now_ns, "t1": now_ns, **words}).encode() + b"\n")

    def letter(self, message: str) -> None:
        self.say(event="arrive", consumer=CONSUMER, message=message)

    def was_told(self, count: int) -> list[str]:
        """What was acknowledged, once that is as much: its thread may come a little later."""
        deadline_s = time.monotonic() + DEADLINE_S
        while len(self.acknowledged) < count and time.monotonic() < deadline_s:
            pass
        return self.acknowledged

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self.thread.join(DEADLINE_S)

    def _serve(self) -> None:
        for line in self._socket.makefile():
            asked = json.loads(line)
            self.acknowledged += asked.get("messages", [])
            self.beats += asked.get("heartbeat_ms", [])
            self.say(id=asked["id"], wall_ms=1, **self._answer(asked["do"]))

    def _answer(self, word: str) -> dict[str, Any]:
        if word == "hello":
            return {"ok": {"protocol": 1, "capabilities": []}}
        return self.answer if word == "ack" else {"ok": {}}


@pytest.fixture
def broker() -> Iterator[tuple[Broker, Collector]]:
    ours, its = socket.socketpair()
    process: Any = SimpleNamespace(channel=Channel(ours, "a"), poll=lambda: None, wait=lambda _: 0, log_tail=str)
    broker = Broker(its)
    collector = Collector(AgentHost("a", "stomp", process, None), set())
    collector.begin(Access(port=1))
    yield broker, collector
    collector.close()
    broker.close()


def boxed(collector: Collector, run: str) -> Mailbox:
    def leave(run: str) -> None:
        collector.forget(run)

    return collector.mailbox(run, leave)


def asking(box: Mailbox, operation: ops.Subscribe | ops.Ack) -> Any:
    return lock_step(lambda _: True, box.ask(operation, time.monotonic_ns, patience_ms=20_000))


def found_by(box: Mailbox, count: int) -> list[Arrive]:
    found: list[Arrive] = []
    deadline_s = time.monotonic() + DEADLINE_S
    while len(found) < count and time.monotonic() < deadline_s:
        found += box.take()
    return found


def wanting(box: Mailbox, consumer: str) -> None:
    subscribe = ops.Subscribe(host="drain", dest=DEAD_LETTER_QUEUE, consumer=consumer)
    assert asking(box, subscribe).result == "ok"


def test_each_run_gets_its_own_and_the_rest_is_left_alone(broker: tuple[Broker, Collector]) -> None:
    agent, collector = broker
    one, two = boxed(collector, "bp1"), boxed(collector, "bp2")
    wanting(one, "drain/1")
    wanting(two, "drain/1")
    for message in ("bp1:p0/1", "", "elsewhere:p0/1", "bp2:p0/1", "bp1:p0/2"):
        agent.letter(message)
    assert [(event.consumer, event.message) for event in found_by(one, 2)] == [
        ("drain/1", "bp1:p0/1"),
        ("drain/1", "bp1:p0/2"),
    ]
    assert [event.message for event in found_by(two, 1)] == ["bp2:p0/1"]
    assert asking(one, ops.Ack(consumer="drain/1", messages=["bp1:p0/1", "bp1:p0/2"])).result == "ok"
    assert sorted(agent.acknowledged) == ["bp1:p0/1", "bp1:p0/2", "bp2:p0/1"]


def test_what_came_early_lay_there_until_it_was_asked_for(broker: tuple[Broker, Collector]) -> None:
    agent, collector = broker
    box = boxed(collector, "bp1")
    agent.letter("bp1:p0/1")
    while not box._letters:
        pass
    assert box.take() == []
    asked_ns = time.monotonic_ns()
    wanting(box, "drain/1")
    (event,) = found_by(box, 1)
    assert asked_ns <= event.t0 <= event.t1 <= time.monotonic_ns()


@pytest.mark.parametrize(
    ("answer", "result"),
    [({"unknown": "no answer in time"}, "unknown"), ({"fail": {"code": "refused", "text": "no"}}, "fail")],
)
def test_what_the_broker_said_of_an_acknowledgement_is_told(
    broker: tuple[Broker, Collector], answer: dict[str, Any], result: str
) -> None:
    agent, collector = broker
    agent.answer = answer
    box = boxed(collector, "bp1")
    wanting(box, "drain/1")
    agent.letter("bp1:p0/1")
    found_by(box, 1)
    assert asking(box, ops.Ack(consumer="drain/1", messages=["bp1:p0/1"])).result == result


def test_what_is_not_about_letters_is_the_brokers_business(broker: tuple[Broker, Collector]) -> None:
    box = boxed(broker[1], "bp1")
    assert asking(box, ops.Subscribe(host="drain", dest="queue://q0.bp1", consumer="drain/1")) is None
    assert asking(box, ops.Ack(consumer="c0/1", messages=["bp1:p0/1"])) is None


def test_what_comes_when_a_run_is_over_is_thrown_away(broker: tuple[Broker, Collector]) -> None:
    agent, collector = broker
    box = boxed(collector, "bp1")
    wanting(box, "drain/1")
    box.close()
    agent.letter("bp1:p0/1")
    assert agent.was_told(1) == ["bp1:p0/1"]
    assert box.take() == []


def test_nobody_knows_what_there_was_once_the_connection_has_ended(broker: tuple[Broker, Collector]) -> None:
    agent, collector = broker
    box = boxed(collector, "bp1")
    agent.say(event="closed", who="broker", reason="gone")
    with pytest.raises(NotCollected, match="gone"):
        found_by(box, 1)


def test_it_stays_as_long_as_a_run_uses_the_broker() -> None:
    pairs = [socket.socketpair() for _ in range(2)]
    brokers = [Broker(its) for _, its in pairs]
    channels = [Channel(ours, "a") for ours, _ in pairs]
    hired: list[AgentHost] = []
    released: list[AgentHost] = []

    def hire() -> AgentHost:
        process: Any = SimpleNamespace(channel=channels[len(hired)], poll=lambda: None, log_tail=str)
        hired.append(AgentHost("a", "stomp", process, None))
        return hired[-1]

    collectors = Collectors(released.append)
    one, two = (collectors.mailbox("b", run, hire, Access(port=1)) for run in ("bp1", "bp2"))
    one.close()
    assert (len(hired), released) == (1, [])
    two.close()
    assert released == hired
    three = collectors.mailbox("b", "bp3", hire, Access(port=1), beats=True)
    assert brokers[1].beats[:1] == [BEAT_MS]
    brokers[1].letter("bp1:p0/1")  # of a run that is over: it is ours to throw away
    brokers[1].letter("bp3:p0/1")
    wanting(three, "drain/1")
    assert [event.message for event in found_by(three, 1)] == ["bp3:p0/1"]
    assert brokers[1].was_told(2) == ["bp1:p0/1", "bp3:p0/1"]
    collectors.close()
    assert len(released) == 2
    for broker in brokers:
        broker.close()
