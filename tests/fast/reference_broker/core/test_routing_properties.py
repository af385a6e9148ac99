"""Random events against wildcards, durable subscriptions, temporary, composite and virtual destinations.

Goal: whatever comes before, the audit holds after every event, and every durable subscription gets exactly what a small
model says. Method: Hypothesis draws operations; an ordinal is taken modulo what exists. The model knows where a name
leads, what a wildcard covers, and for each durable subscription what it is owed, in order. At the end all leave, every
subscription is taken up and acknowledges all: nothing may be left, nothing may be missing.
"""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from brokerproof.reference_broker.core.config import BrokerConfig, CompositeDestination
from brokerproof.reference_broker.core.events import (
    INDIVIDUAL,
    STANDARD,
    Ack,
    AddDestination,
    Begin,
    Commit,
    Disconnect,
    Pull,
    Purge,
    RemoveDestination,
    RemoveSubscription,
    Rollback,
    Send,
    Subscribe,
    Unsubscribe,
)
from brokerproof.reference_broker.core.matching import members
from brokerproof.reference_broker.core.message import Message
from tests.fast.reference_broker.core.driver import Driver
from tests.tools import examples

PLACES = (
    "topic://A.1",
    "topic://A.2",
    "queue://q",
    "queue://A.q",
    "queue://IN",
    "topic://VirtualTopic.V",
    "queue://Consumer.X.VirtualTopic.V",
    "queue://q,topic://A.1",
    "temp-queue://t",
)
WATCHED = (
    *PLACES,
    "topic://A.*",
    "topic://>",
    "queue://*,topic://A.>",
    "queue://>",
)
DURABLE = ("topic://A.1", "topic://A.*", "topic://A.1,VirtualTopic.V", "topic://>")
#: What consumers that are not durable may ask for beside.
OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"selector": "kind = 'a'"},
    {"exclusive": True},
    {"browser": True},
    {"no_local": True, "priority": 5},
    {"dispatch_async": False, "auto_ack": True},
    {"auto_ack": True},
)

CONFIG = BrokerConfig(composite_destinations=[CompositeDestination("queue://IN", ["queue://q", "topic://A.2"])])
#: Connections 11 to 13 consume and may break; connection 1 sends.
PEERS = (11, 12, 13)


def stands_for(name: str) -> list[str]:
    """The model's routing, for the names of this module."""
    if name == "queue://IN":
        return ["queue://q", "topic://A.2"]
    if name == "topic://VirtualTopic.V":
        return [name, "queue://Consumer.X.VirtualTopic.V"]
    return members(name)


def covers(pattern: str, name: str) -> bool:
    """The model's wildcards."""
    if pattern in {"topic://>", "queue://>"}:
        return name.startswith(pattern[:-1])
    if pattern in {"topic://A.*", "topic://A.>"}:
        return name.startswith("topic://A.")
    if pattern == "queue://*":
        return name.startswith("queue://") and "." not in name
    return pattern == name


class Model(Driver):
    """A driver that knows what durable subscriptions are owed."""

    def __init__(self) -> None:
        super().__init__(CONFIG)
        self.here: dict[str, int] = {}  # consumer -> connection
        self.asked: dict[str, str] = {}  # durable key -> destination
        self.used: dict[str, str] = {}  # durable key -> its consumer
        self.owed: dict[str, list[tuple[str, str]]] = {}  # durable key -> (destination, id) that it has not settled
        self.count = 0
        self.handle(AddDestination(1, "queue://Consumer.X.VirtualTopic.V"))
        for peer in PEERS:
            self.connect(peer)

    def publish(self, name: str, transaction: str = "") -> None:
        self.count += 1
        message_id = f"m{self.count}"
        message = Message(message_id, name, b"", group_id="g" if self.count % 5 == 0 else "")
        message.properties = {"kind": "a"} if self.count % 2 else {}
        event = Send(1, message, transaction=transaction, request=self.request())
        if self.ask(event) != "":
            assert name == "temp-queue://t"
            return
        for target in stands_for(name):
            for key, asked in self.asked.items():
                if any(covers(pattern, target) for pattern in members(asked)):
                    self.owed[key].append((target, message_id))

    def take_up(self, peer: int, name: str, destination: str) -> str:
        key = f"client-{peer}:{name}"
        self.count += 1
        consumer = f"d{self.count}"
        code = self.ask(Subscribe(peer, consumer, destination, 3, durable=name, request=self.request()))
        assert code == ("durable-in-use" if key in self.used else "")
        if code:
            return ""
        if self.asked.get(key) != destination:
            self.asked[key] = destination
            self.owed[key] = []
        self.used[key] = consumer
        self.here[consumer] = peer
        return consumer

    def watch(self, peer: int, destination: str, choice: int) -> None:
        self.count += 1
        consumer = f"c{self.count}"
        options = OPTIONS[choice % len(OPTIONS)]
        if self.ask(Subscribe(peer, consumer, destination, choice % 4, request=self.request(), **options)) == "":
            self.here[consumer] = peer
            if choice % 4 == 0:
                self.handle(Pull(peer, consumer, 0))

    def settle(self, consumer: str, position: int, kind: int) -> None:
        held = self.held_by(consumer)
        if not held:
            return
        upto = position % len(held)
        destination, message_id = held[upto]
        event = Ack(self.here[consumer], consumer, kind, message_id, destination=destination, request=self.request())
        assert self.ask(event) == ""
        settled = held[: upto + 1] if kind == STANDARD else [held[upto]]
        for key, user in self.used.items():
            if user == consumer:
                self.owed[key] = [one for one in self.owed[key] if one not in settled]

    def held_by(self, consumer: str) -> list[tuple[str, str]]:
        """What it holds, as the core's own list says."""
        found = self.broker._consumers[consumer]
        return [(d.subscription.destination.name, d.reference.message.message_id) for d in found.dispatched]

    def gone(self, *consumers: str) -> None:
        for consumer in consumers:
            del self.here[consumer]
            for key, user in list(self.used.items()):
                if user == consumer:
                    del self.used[key]

    def break_off(self, peer: int) -> None:
        self.handle(Disconnect(peer))
        self.gone(*[consumer for consumer, owner in self.here.items() if owner == peer])
        self.connect(peer)

    def drain(self) -> None:
        """Everybody leaves; every durable subscription gives what it owes, each destination in order."""
        for peer in PEERS:
            self.break_off(peer)
        for key, asked in list(self.asked.items()):
            client, _, name = key.partition(":")
            due = list(self.owed[key])
            consumer = self.take_up(int(client.removeprefix("client-")), name, asked)
            came: list[tuple[str, str]] = []
            while held := self.held_by(consumer):
                came += held
                self.settle(consumer, len(held) - 1, STANDARD)
            assert sorted(came) == sorted(due)
            for place in {destination for destination, _ in due}:
                assert [one for one in came if one[0] == place] == [one for one in due if one[0] == place]
            assert self.owed[key] == []
        for name in self.broker.destinations():
            if name.startswith("topic://"):
                # Whoever had one is gone, or has settled it.
                assert self.counter("memory_bytes", name) == 0
                continue
            self.handle(Purge(name))
        self.transmit()
        for name in self.broker.destinations():
            assert self.counters("size", "in_flight", "memory_bytes", destination=name) == (0, 0, 0)


step = st.tuples(st.integers(0, 13), st.integers(0, 63), st.integers(0, 63))


def act(model: Model, what: int, one: int, other: int) -> None:
    """One operation."""
    peer = PEERS[other % len(PEERS)]
    consumers = list(model.here)
    consumer = consumers[one % len(consumers)] if consumers else ""
    if what <= 3:
        model.publish(PLACES[one % len(PLACES)])
    elif what == 4:
        model.watch(peer, WATCHED[one % len(WATCHED)], other)
    elif what == 5:
        model.take_up(peer, "s", DURABLE[one % len(DURABLE)])
    elif what in {6, 7} and consumer:
        model.settle(consumer, other, STANDARD if what == 6 else INDIVIDUAL)
    elif what == 8 and consumer:
        event = Unsubscribe(model.here[consumer], consumer, last_delivered=other % 3 - 2, request=model.request())
        assert model.ask(event) == ""
        model.gone(consumer)
    elif what == 9:
        model.break_off(peer)
    elif what == 10:
        model.transmit(one % 4)
    elif what == 11:
        key = f"client-{peer}:s"
        code = model.ask(RemoveSubscription(peer, "s", request=model.request()))
        assert code == ("durable-in-use" if key in model.used else "" if key in model.asked else "unknown-subscription")
        if not code:
            del model.asked[key], model.owed[key]
    elif what == 12:
        kind = AddDestination if one % 2 else RemoveDestination
        model.handle(kind(peer, PLACES[other % len(PLACES)]))
        if not one % 2:
            model.handle(AddDestination(1, "queue://Consumer.X.VirtualTopic.V"))
    elif what == 13 and consumer:
        transact(model, consumer, commit=bool(other % 2))


def transact(model: Model, consumer: str, *, commit: bool) -> None:
    """Its oldest message is acknowledged in a transaction; the consumer leaves before the end."""
    held, peer = model.held_by(consumer), model.here[consumer]
    if not held:
        return
    model.handle(Begin(peer, "tx"))
    destination, message_id = held[0]
    model.handle(Ack(peer, consumer, INDIVIDUAL, message_id, destination=destination, transaction="tx"))
    keys = [key for key, user in model.used.items() if user == consumer]
    model.handle(Unsubscribe(peer, consumer))
    model.gone(consumer)
    model.handle((Commit if commit else Rollback)(peer, "tx"))
    if commit:
        for key in keys:
            model.owed[key].remove(held[0])


@settings(max_examples=examples(30), deadline=None)
@given(st.lists(step, max_size=60))
def test_everybody_gets_what_is_owed(steps: list[tuple[int, int, int]]) -> None:
    model = Model()
    for what, one, other in steps:
        act(model, what, one, other)
    model.drain()
