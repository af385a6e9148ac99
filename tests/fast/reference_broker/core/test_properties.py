"""Random events against the whole core.

Goal: what must always hold, holds after every event, whatever came before. Method: Hypothesis draws a configuration
and a list of operations; a reference that is an ordinal is taken modulo what exists. Three judges: the broker's own
audit (``in_flight == T - R``, ``enqueued - dequeued == size``, memory within its limit, nobody starves under
``fair``), this module's outside view of who holds which message, and a final drain after which nothing may be left,
neither messages nor memory nor timers."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from brokerproof.reference_broker.core.config import BrokerConfig, DestinationPolicy
from brokerproof.reference_broker.core.effects import Accepted, Dispatch, Effect, Refused
from brokerproof.reference_broker.core.events import DELIVERED, EXPIRED, INDIVIDUAL, POISON, STANDARD, Ack, Event, Send
from brokerproof.reference_broker.core.instant import NS_PER_MS
from tests.fast.reference_broker.core.driver import DLQ, Driver, T, config_of
from tests.tools import examples

DESTINATIONS = ("queue://a", "queue://b", T, DLQ)
SETTLING = (STANDARD, INDIVIDUAL, POISON, EXPIRED)


class Watcher(Driver):
    """A driver that remembers who holds what and checks every dispatch from outside."""

    def __init__(self, config: BrokerConfig) -> None:
        super().__init__(config)
        #: consumer -> ids dispatched to it and not settled by it, in order.
        self.held: dict[str, list[str]] = {}
        #: (destination, id) -> the consumer that holds it; "" when it came back.
        self.holder: dict[tuple[str, str], str] = {}
        #: (destination, id) -> the least redelivery count that its next delivery must show.
        self.owed: dict[tuple[str, str], int] = {}
        self.due_ns: dict[str, int] = {}
        #: queue, half of it -> arrival number of the newest undelayed message that was delivered at least once.
        self.newest: dict[tuple[str, bool], int] = {}
        #: Persistent messages and others keep one order.
        self.one_order = config.generation["memory"] == "fair"

    def handle(self, event: Event) -> list[Effect]:
        effects = super().handle(event)
        for effect in effects:
            if isinstance(effect, Dispatch):
                self.see(effect)
        return effects

    def see(self, dispatch: Dispatch) -> None:
        message, consumer = dispatch.message, dispatch.consumer
        place = (message.destination, message.message_id)
        assert not 0 < message.expiration_ms < self.wall_ms, "dispatched after it expired"
        if message.destination != DLQ:
            assert self.mono_ns >= self.due_ns[message.message_id], "dispatched before it was due"
        if message.destination != T:
            assert self.holder.get(place, "") == "", "two consumers hold one message"
            if place not in self.holder and message.delay_ms == 0:
                half = (message.destination, self.one_order or message.persistent)
                assert message.sequence > self.newest.get(half, 0), "overtaken by a younger message"
                self.newest[half] = message.sequence
            self.holder[place] = consumer
            assert dispatch.redelivery_count >= self.owed.get(place, 0), "delivered again without saying so"
        self.held[consumer].append(message.message_id)

    def ask(self, event: Event) -> str:
        """As the driver's, but a send may be answered later (flow control), and others' then are here."""
        answers = [e for e in self.handle(event) if isinstance(e, Accepted | Refused) and e.request == self.requests]
        assert len(answers) == 1 or (not answers and isinstance(event, Send) and not self.one_order)
        return answers[0].code if answers and isinstance(answers[0], Refused) else ""

    def post(self, destination: str, **fields: Any) -> None:
        self.due_ns[f"m{self.messages + 1}"] = self.mono_ns + max(0, fields.get("delay_ms", 0)) * NS_PER_MS
        self.send(destination, **fields)

    def attach(self, name: str, destination: str, prefetch: int, sync: bool) -> None:
        self.held[name] = []
        self.subscribe(name, destination, prefetch, sync=sync)

    def answer(self, consumer: str, kind: int, position: int, single: bool) -> None:
        held = self.held[consumer]
        if not held:
            return
        position %= len(held)
        last = held[position]
        first = last if single else ""
        destination = next(d.message.destination for d in self.dispatches if d.consumer == consumer)
        if kind in SETTLING:
            # Before the event: what it frees may be dispatched again, or to others, within it.
            gone = [last] if single or kind == INDIVIDUAL else held[: position + 1]
            for message_id in gone:
                held.remove(message_id)
                self.holder[destination, message_id] = ""
        request = self.request()
        assert self.ask(Ack(self.connections[consumer], consumer, kind, last, first=first, request=request)) == ""

    def depart(self, consumer: str, last_delivered: int, lost: bool) -> None:
        held = self.held.pop(consumer)
        if lost:
            last_delivered = -2
        marked = held if last_delivered == -2 else held[: max(0, last_delivered)]
        for dispatch in self.dispatches:
            place = (dispatch.message.destination, dispatch.message.message_id)
            if dispatch.consumer == consumer and place[1] in held and place[0] != T:
                self.holder[place] = ""
                if place[1] in marked:
                    self.owed[place] = max(self.owed.get(place, 0), dispatch.redelivery_count + 1)
        if lost:
            self.drop(consumer)
        else:
            self.leave(consumer, last_delivered)


configurations = st.fixed_dictionaries(
    {
        "memory": st.sampled_from(["fair", "fair", "G0", "G1", "G2", "G3"]),
        "throttled": st.booleans(),
        "expiry": st.sampled_from(["classic-5.14", "documented"]),
        "limit": st.sampled_from([0, 1024, 3000, 12_000]),
        "own": st.sampled_from([0, 1100, 5000]),
        "page": st.integers(1, 3),
        "period": st.sampled_from([0, 7, 50]),
        "dead_letters": st.booleans(),
        "persistent": st.booleans(),
    }
)
ordinal = st.integers(0, 5)
sending = st.tuples(
    st.just("send"),
    ordinal,
    st.sampled_from([0, 1, 10, 60]),
    st.sampled_from([0, 0, 1, 25]),
    st.booleans(),
    st.sampled_from([0, 500, 4000]),
)
answering = st.tuples(st.just("ack"), ordinal, st.sampled_from([*SETTLING, DELIVERED]), ordinal, st.booleans())
operation = st.one_of(
    sending,
    sending,
    answering,
    answering,
    st.tuples(st.just("subscribe"), ordinal, st.integers(0, 4), st.booleans()),
    st.tuples(st.just("transmit"), st.integers(1, 4), st.booleans()),
    st.tuples(st.just("depart"), ordinal, st.integers(-2, 3), st.booleans()),
    st.tuples(st.just("advance"), st.sampled_from([1, 10, 49, 50])),
    st.tuples(st.just("step"), st.sampled_from([-100, -1, 1, 100])),
    st.tuples(st.just("purge"), ordinal),
)
# Lists of lists: long on average, and still shrinking to nothing.
operations = st.lists(st.lists(operation, min_size=3, max_size=12), max_size=12)


def configured(drawn: dict[str, Any]) -> BrokerConfig:
    return config_of(
        generation={"memory": drawn["memory"], "expiry": drawn["expiry"]},
        memory_limit_bytes=drawn["limit"],
        destinations=[
            DestinationPolicy(
                ">",
                expire_period_ms=drawn["period"],
                producer_flow_control=drawn["throttled"],
                send_fail_if_no_space_after_ms=20,
            ),
            DestinationPolicy("a", expire_period_ms=drawn["period"], memory_limit_bytes=drawn["own"]),
        ],
        page_size=drawn["page"],
        dead_letter_non_persistent=drawn["dead_letters"],
        persistent=drawn["persistent"],
    )


def perform(w: Watcher, operation: tuple[Any, ...]) -> None:
    what, *rest = operation
    consumers = list(w.held)
    if what == "send":
        where, ttl_ms, delay_ms, persistent, size = rest
        destination = DESTINATIONS[where % len(DESTINATIONS)]
        w.post(destination, ttl_ms=ttl_ms, delay_ms=delay_ms, persistent=persistent, size=size)
    elif what == "subscribe":
        where, prefetch, sync = rest
        w.attach(f"c{len(w.connections)}", DESTINATIONS[where % len(DESTINATIONS)], prefetch, sync)
    elif what == "ack" and consumers:
        who, kind, position, single = rest
        w.answer(consumers[who % len(consumers)], kind, position, single)
    elif what == "depart" and consumers:
        who, last_delivered, lost = rest
        w.depart(consumers[who % len(consumers)], last_delivered, lost)
    elif what == "transmit":
        w.transmit(rest[0], failed=rest[1])
    elif what == "advance":
        w.advance(rest[0])
    elif what == "step":
        w.step_wall(rest[0])
    elif what == "purge":
        target = DESTINATIONS[rest[0] % len(DESTINATIONS)]
        if target != T:
            purge(w, target)


def purge(w: Watcher, destination: str) -> None:
    """Purged ids stay with their holders until those settle them, so nothing changes in our counters."""
    w.purge(destination)


def drain(w: Watcher, wakes_on_relief: bool) -> None:
    for consumer in list(w.held):
        w.depart(consumer, -2, lost=True)
    w.transmit()
    w.advance(200)
    for name in w.broker.destinations():
        assert w.counter("in_flight", name) == 0, "at rest without consumers nothing is in flight"
        assert w.counter("scheduled", name) == 0
    rounds = 0
    while rounds == 0 or (w.broker.broker_counters()["size"] and not wakes_on_relief):
        rounds += 1
        assert rounds < 300, "the drain makes no progress"
        for name in [d for d in DESTINATIONS if d != T]:
            w.attach(f"drain{rounds}{name}", name, 3, sync=False)
        while any(w.held.values()):
            w.transmit()
            for consumer in [c for c, held in w.held.items() if held]:
                w.answer(consumer, STANDARD, len(w.held[consumer]) - 1, single=False)
        for consumer in list(w.held):
            w.depart(consumer, -2, lost=False)
    w.transmit()


@given(configurations, operations)
# The same every run: exploring is the campaigns' work.
@settings(max_examples=examples(30), deadline=None, derandomize=True)
def test_random_events(drawn: dict[str, Any], chunks: list[list[tuple[Any, ...]]]) -> None:
    w = Watcher(configured(drawn))
    for chunk in chunks:
        for step in chunk:
            perform(w, step)
    drain(w, drawn["memory"] == "fair")
    totals = w.broker.broker_counters()
    assert {name: totals[name] for name in ("size", "in_flight", "scheduled", "memory_bytes", "consumers")} == {
        "size": 0,
        "in_flight": 0,
        "scheduled": 0,
        "memory_bytes": 0,
        "consumers": 0,
    }
    assert w.broker.next_due_ns() is None
