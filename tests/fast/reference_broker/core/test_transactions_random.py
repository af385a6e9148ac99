"""Anything in any order, in transactions and out of them: the audit holds after every event, nothing is lost and
nothing is consumed twice. A model keeps what each transaction sent.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokerproof.reference_broker.core.events import INDIVIDUAL, STANDARD, Disconnect, Unsubscribe
from tests.fast.reference_broker.core.driver import DLQ, Driver, Q
from tests.tools import examples

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["send", "ack", "range", "begin", "commit", "rollback", "leave", "come", "drop", "write"]),
        st.integers(0, 2),
        st.integers(0, 7),
    ),
    max_size=60,
)


class Model:
    """Three clients with a consumer and a transaction each, and what must have become of every message."""

    def __init__(self) -> None:
        self.driver = Driver()
        self.open: dict[int, bool] = {}
        self.sent: dict[int, list[str]] = {}
        self.accepted: list[str] = []
        self.consumers: dict[int, str] = {}
        self.comings = 0
        for client in range(3):
            self.driver.connect(10 + client)
            self.come(client)

    def come(self, client: int) -> None:
        if client in self.consumers:
            return
        self.comings += 1
        name = f"c{self.comings}"
        self.driver.subscribe(name, prefetch=1 + client * 2, connection=10 + client, sync=client == 1)
        self.consumers[client] = name

    def send(self, client: int) -> None:
        name = "t" if self.open.get(client) else ""
        message = self.driver.send(connection=10 + client, transaction=name)
        if name:
            self.sent[client].append(message.message_id)
        else:
            self.accepted.append(message.message_id)

    def acknowledge(self, client: int, choice: int, kind: int) -> None:
        consumer = self.consumers.get(client)
        if consumer is None:
            return
        held = list(self.driver.broker._consumers[consumer].dispatched)
        if held:
            message_id = held[choice % len(held)].reference.message.message_id
            assert self.driver.ack(message_id, consumer, kind, transaction="t" if self.open.get(client) else "") == ""

    def end(self, client: int, what: str) -> None:
        if not self.open.pop(client, False):
            return
        if what == "commit":
            assert self.driver.commit(connection=10 + client) == ""
            self.accepted += self.sent[client]
        elif what == "rollback":
            assert self.driver.rollback(connection=10 + client) == ""

    def do(self, what: str, client: int, choice: int) -> None:
        driver = self.driver
        if what == "send":
            self.send(client)
        elif what in {"ack", "range"}:
            self.acknowledge(client, choice, INDIVIDUAL if what == "ack" else STANDARD)
        elif what == "begin" and not self.open.get(client):
            assert driver.begin(connection=10 + client) == ""
            self.open[client] = True
            self.sent[client] = []
        elif what in {"commit", "rollback"}:
            self.end(client, what)
        elif what == "leave" and client in self.consumers:
            driver.handle(Unsubscribe(10 + client, self.consumers.pop(client), last_delivered=choice - 2))
        elif what == "come":
            self.come(client)
        elif what == "drop":
            driver.handle(Disconnect(10 + client))
            self.consumers.pop(client, None)
            self.open.pop(client, None)
            driver.connect(10 + client)
        elif what == "write":
            driver.transmit(choice)

    def finish(self) -> None:
        """Everybody goes; what was accepted and not consumed is on the queue, once, in order."""
        for client in range(3):
            self.end(client, "rollback")
            self.driver.handle(Disconnect(10 + client))
        self.driver.transmit()
        waiting = self.driver.counter("size")
        self.driver.subscribe("last", prefetch=1000)
        left = self.driver.got("last")
        assert len(left) == waiting == len(set(left))
        assert set(left) <= set(self.accepted)
        assert left == sorted(left, key=self.accepted.index)
        assert self.driver.counter("enqueued") == len(self.accepted)
        assert self.driver.counter("acknowledged") + waiting <= len(self.accepted)
        assert self.driver.counter("dequeued") == len(self.accepted) - waiting
        assert self.driver.counter("enqueued", DLQ) == 0


@given(STEPS)
@settings(max_examples=examples(50), deadline=None)
def test_nothing_is_lost_and_nothing_is_consumed_twice(steps: list[tuple[str, int, int]]) -> None:
    model = Model()
    for what, client, choice in steps:
        model.do(what, client, choice)
    model.finish()


@pytest.mark.parametrize("end", ["commit", "rollback", "drop"])
def test_the_model_knows_every_end(end: str) -> None:
    model = Model()
    for what in ("begin", "send", "send", end):
        model.do(what, 0, 0)
    model.finish()
    assert model.driver.counter("enqueued") == (2 if end == "commit" else 0)
    assert model.driver.counter("in_flight", Q) == 0
