"""Churn, as measured on ActiveMQ and told by seed 003: ten consumers take ten messages each, acknowledge them, leave
and come back at once, until the queue is empty. In virtual time, with a writer per connection that needs a while for
each message. The signs are those of the measurement: deep below zero at prefetch 1000, rare and small at 10, never when
dispatch is synchronous; and 0 at the end in every case.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable

import pytest

from brokerproof.reference_broker.core.broker import Broker
from brokerproof.reference_broker.core.config import BrokerConfig
from brokerproof.reference_broker.core.effects import Dispatch
from brokerproof.reference_broker.core.events import (
    STANDARD,
    Ack,
    Connect,
    Event,
    Send,
    Subscribe,
    Transmitted,
    Unsubscribe,
)
from brokerproof.reference_broker.core.instant import Now
from brokerproof.reference_broker.core.message import Message

Q = "queue://q"
MESSAGES = 1000
CONSUMERS = 10
BATCH = 10
WRITE_NS = 5_500
TURN_NS = 50_000
STAGGER_NS = 170_000


class Churn:
    """The broker, ten clients and their writers, on one clock."""

    def __init__(self, prefetch: int, *, asynchronous: bool) -> None:
        self.broker = Broker(BrokerConfig())
        self.prefetch = prefetch
        self.batch = min(BATCH, prefetch)
        self.asynchronous = asynchronous
        self.now_ns = 0
        self.agenda: list[tuple[int, int, Callable[[], None]]] = []
        self.planned = 0
        self.outboxes: dict[int, deque[Dispatch]] = {number: deque() for number in range(CONSUMERS)}
        self.received: dict[int, list[str]] = {}
        self.consumers: dict[int, str] = {}
        self.comings = 0
        self.samples: list[int] = []
        for number in range(CONSUMERS):
            self.handle(Connect(number, f"c{number}"))
        for number in range(MESSAGES):
            self.handle(Send(0, Message(f"m{number}", Q, b"")))
        for number in range(CONSUMERS):
            self.after(number * STAGGER_NS, lambda number=number: self.come(number))  # type: ignore[misc]

    def counter(self, name: str) -> int:
        counters = self.broker.counters(Q, Now(self.now_ns, 0))
        assert counters is not None
        return counters[name]

    def run(self) -> None:
        while True:
            while self.agenda:
                self.now_ns, _, do = heapq.heappop(self.agenda)
                do()
            # The queue has run dry: whoever has part of a batch is content with it.
            waiting = [number for number, received in self.received.items() if 0 < len(received) < self.batch]
            if not waiting:
                return
            for number in waiting:
                self.acknowledge(number)

    def after(self, delay_ns: int, do: Callable[[], None]) -> None:
        self.planned += 1
        heapq.heappush(self.agenda, (self.now_ns + delay_ns, self.planned, do))

    def handle(self, event: Event) -> None:
        for effect in self.broker.handle(event, Now(self.now_ns, 0)):
            if isinstance(effect, Dispatch):
                outbox = self.outboxes[effect.connection]
                outbox.append(effect)
                if len(outbox) == 1:
                    self.after(WRITE_NS, lambda number=effect.connection: self.write(number))  # type: ignore[misc]
        self.samples.append(self.counter("in_flight") if self.comings else 0)

    def write(self, number: int) -> None:
        """The writer of a connection has written the first of its outbox."""
        outbox = self.outboxes[number]
        dispatch = outbox.popleft()
        if outbox:
            self.after(WRITE_NS, lambda: self.write(number))
        self.handle(Transmitted(dispatch))
        if dispatch.consumer != self.consumers.get(number):
            return
        self.received[number].append(dispatch.message.message_id)
        if len(self.received[number]) == self.batch:
            self.after(TURN_NS, lambda: self.acknowledge(number))

    def come(self, number: int) -> None:
        self.comings += 1
        self.consumers[number] = f"{number}/{self.comings}"
        self.received[number] = []
        event = Subscribe(
            number, self.consumers[number], Q, self.prefetch, dispatch_async=self.asynchronous, request=self.comings
        )
        self.handle(event)

    def acknowledge(self, number: int) -> None:
        batch = self.received[number][: self.batch]
        self.received[number] = batch if len(batch) == self.batch else []
        self.handle(Ack(number, self.consumers[number], STANDARD, batch[-1]))
        self.after(TURN_NS, lambda: self.leave(number))

    def leave(self, number: int) -> None:
        self.handle(Unsubscribe(number, self.consumers[number], last_delivered=0))
        self.received[number] = []
        if self.counter("size") > 0:
            self.come(number)
        else:
            self.consumers[number] = ""


@pytest.mark.parametrize(
    ("prefetch", "asynchronous", "deepest", "least_share", "most_share"),
    [
        (1000, True, (-CONSUMERS * 1000, -1000), 0.2, 1.0),
        (10, True, (-10, -1), 0.0001, 0.01),
        (1, True, (0, 0), 0.0, 0.0),
        (1000, False, (0, 0), 0.0, 0.0),
        (10, False, (0, 0), 0.0, 0.0),
    ],
)
def test_the_signs_of_churn(
    prefetch: int, asynchronous: bool, deepest: tuple[int, int], least_share: float, most_share: float
) -> None:
    churn = Churn(prefetch, asynchronous=asynchronous)
    churn.run()
    churn.broker.check()
    negative = sum(1 for sample in churn.samples if sample < 0) / len(churn.samples)
    assert deepest[0] <= min(churn.samples) <= deepest[1]
    assert least_share <= negative <= most_share
    assert churn.counter("in_flight") == 0


def test_a_great_prefetch_wastes_dispatches() -> None:
    cost = {}
    for prefetch in (10, 1000):
        churn = Churn(prefetch, asynchronous=True)
        churn.run()
        assert churn.counter("size") == 0
        assert churn.counter("acknowledged") == MESSAGES
        assert churn.counter("dispatched") == MESSAGES + churn.counter("wasted")
        cost[prefetch] = churn.counter("dispatched") / churn.counter("acknowledged")
    assert cost[10] <= 2
    assert cost[1000] >= 5
