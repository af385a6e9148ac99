"""When a live run is at rest: what has been waited for already is not waited for again."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from brokerproof.chaos.rates import Rate
from brokerproof.conformance.experiment import operations as ops
from brokerproof.conformance.experiment.destinations import Destination, Destinations
from brokerproof.conformance.experiment.history import Arrive, Send, Subscribe
from brokerproof.conformance.experiment.program import HostSpec, LinkSpec
from brokerproof.conformance.experiment.state import ClientState, ConsumerState, WorldState
from brokerproof.conformance.worlds.live.quiet import DOUBTFUL_MS, QUIET_MS, SILENT_MS, Quiet
from brokerproof.conformance.worlds.port import Recorder

NS_PER_MS = 1_000_000


class Clock:
    """Time that passes only while somebody waits."""

    now_ns = 10_000 * NS_PER_MS


class Still(Rate):
    """The machine's rate, by that time."""

    def now_ns(self) -> int:
        return Hosts.clock.now_ns


@pytest.fixture(autouse=True)
def clock() -> Clock:
    clock = Hosts.clock = Clock()
    return clock


class Hosts:
    """Of a broker that counts, or does not; nothing happens any more."""

    clock: Clock

    def __init__(self, figures: dict[str, int] | None, *, silent_ms: int) -> None:
        self.stirred_ns = self.last_arrival_ns = self.clock.now_ns - silent_ms * NS_PER_MS
        self.rate = Still()
        self.names = SimpleNamespace(physical=str)
        self.paths: dict[str, Any] = {}
        self.arrivals = 6  # at two destinations
        self.held = Counter({"c0/1": 6})
        self.mailbox: object = None
        self.asked: list[str | None] = []
        self.endpoints = {"b": SimpleNamespace(counters=lambda dest: self.asked.append(dest) or figures)}
        self.waited_ms = 0

    def of_broker(self, ask: Any, *_: object) -> Any:
        return ask()

    def pump_for(self, ms: int) -> None:
        self.waited_ms += ms
        self.clock.now_ns += ms * NS_PER_MS


def quiet_of(hosts: Any, rate: int = 0, **consumer: str) -> Quiet:
    client: Any = SimpleNamespace(link=SimpleNamespace(rate=lambda: rate, jitter_us=0), via=consumer.pop("via", "jms"))
    client.consumers = [SimpleNamespace(**{"name": "c0/1", "ack": "client", "client": client, "dest": ">"} | consumer)]
    state: Any = SimpleNamespace(
        clients=[client],
        consumers=lambda: client.consumers,
        brokers=[SimpleNamespace(name="b")],
        left_behind=lambda: ["q0", "ActiveMQ.DLQ"],
    )
    return Quiet(hosts, state, {})


def resting(hosts: Any, *, rate: int = 0) -> int:
    """How long the wait was."""
    assert quiet_of(hosts, rate).rest(5000)
    waited: int = hosts.waited_ms
    return waited


def test_where_nobody_counts_silence_that_has_been_is_enough() -> None:
    assert resting(Hosts(None, silent_ms=SILENT_MS)) == 10
    assert resting(Hosts(None, silent_ms=50)) == SILENT_MS - 50


def test_figures_and_slow_links_are_waited_for_anew() -> None:
    assert resting(Hosts({"size": 0}, silent_ms=10 * SILENT_MS)) == QUIET_MS
    assert resting(Hosts(None, silent_ms=10 * SILENT_MS), rate=1000) == SILENT_MS


def test_what_all_runs_share_is_not_read() -> None:
    hosts = Hosts({"size": 0}, silent_ms=0)
    resting(hosts)
    assert set(hosts.asked) == {"q0", "ActiveMQ.DLQ"}
    hosts = Hosts({"size": 0}, silent_ms=0)
    hosts.mailbox = object()
    resting(hosts)
    assert set(hosts.asked) == {"q0"}
    assert Quiet(hosts, None, {}).counters(None, "b") is None  # type: ignore[arg-type]  # no part of it is used


def test_what_seems_to_be_on_its_way_is_waited_for_longer() -> None:
    """On a busy machine ten messages in flight of which one had arrived, and 99 to a consumer that was gone, were at
    rest, and the broker had miscounted.
    """
    arrived = {"in_flight": 3, "dispatched": 3, "consumers": 1}
    assert resting(Hosts(arrived, silent_ms=0)) == QUIET_MS
    assert resting(Hosts(arrived | {"dispatched": 4}, silent_ms=0)) == DOUBTFUL_MS
    assert resting(Hosts(arrived | {"consumers": 0}, silent_ms=0)) == DOUBTFUL_MS
    assert resting(Hosts({"in_flight": 3, "consumers": 1}, silent_ms=0)) == QUIET_MS
    assert resting(Hosts({"size": 5, "in_flight": 3, "consumers": 1}, silent_ms=0)) == QUIET_MS
    assert resting(Hosts({"size": 5, "in_flight": 0, "consumers": 1}, silent_ms=0)) == DOUBTFUL_MS
    assert resting(Hosts({"size": 5, "in_flight": 0, "consumers": 0}, silent_ms=0)) == QUIET_MS
    assert resting(Hosts({"in_flight": 4, "consumers": 1}, silent_ms=0)) == DOUBTFUL_MS
    assert resting(Hosts({"in_flight": 0, "dispatched": 9, "consumers": 0}, silent_ms=0)) == QUIET_MS


@pytest.mark.parametrize(
    ("via", "ack", "waited_ms"),
    [("stomp", "auto", DOUBTFUL_MS), ("stomp", "client", QUIET_MS), ("jms", "auto", QUIET_MS)],
)
def test_what_was_given_for_good_is_in_flight_no_more(via: str, ack: str, waited_ms: int) -> None:
    """A broker wrote slowly: seven in flight, six here, and others that an ``auto`` consumer had had (INF-001)."""
    hosts = Hosts({"in_flight": 1, "consumers": 1}, silent_ms=0)
    quiet = quiet_of(hosts, via=via, ack=ack)
    assert quiet.rest(5000)
    assert hosts.waited_ms == waited_ms


def test_a_count_below_zero_is_coming_back() -> None:
    """On a busy machine 725 completions of dispatches were on their way when all figures had stood still (INF-001)."""
    assert resting(Hosts({"size": 5, "in_flight": -7, "consumers": 0}, silent_ms=0)) == DOUBTFUL_MS


def test_a_consumer_whose_loss_the_broker_has_not_noticed_is_waited_for() -> None:
    """Artemis counted one that had been dropped 0.1 s before, on a busy machine (GEN-145)."""
    assert resting(Hosts({"in_flight": 3, "dispatched": 3, "consumers": 2}, silent_ms=0)) == DOUBTFUL_MS


@pytest.mark.parametrize(
    ("dest", "brokers", "waited_ms"),
    [("q0", ["b"], DOUBTFUL_MS), ("q0,q1", ["b"], QUIET_MS), ("q0", ["b", "b2"], QUIET_MS)],
)
def test_a_consumer_of_one_queue_is_none_of_another(dest: str, brokers: list[str], waited_ms: int) -> None:
    """A broker read an UNSUBSCRIBE 60 ms late, while its client had a consumer elsewhere (GEN-145)."""
    hosts = Hosts({"in_flight": 0, "consumers": 1}, silent_ms=0)
    hosts.endpoints["b2"] = hosts.endpoints["b"]
    quiet = quiet_of(hosts, dest=dest)
    quiet._state.brokers = [SimpleNamespace(name=name) for name in brokers]
    assert quiet.rest(5000)
    assert hosts.waited_ms == waited_ms


def test_a_consumer_of_the_drain_is_no_one_too_many() -> None:
    """Every run's drain waited twice for as long as a broker may need to notice that somebody has gone."""
    hosts: Any = Hosts({"in_flight": 0, "consumers": 1}, silent_ms=0)
    state = WorldState([HostSpec("b", "broker")], {}, Destinations([Destination("q0", "queue")]))
    drainer = ClientState(HostSpec("drain", "client"), 0, LinkSpec("drain"))
    state.receive_guest(drainer)
    for there, waited_ms in ((False, DOUBTFUL_MS), (True, QUIET_MS)):
        for dest in state.left_behind() if there else ():
            operation = ops.Subscribe(host="drain", dest=dest, consumer=dest)
            drainer.consumers.append(ConsumerState(drainer, operation))
        hosts.waited_ms = 0
        assert Quiet(hosts, state, {}).rest(5000)
        assert hosts.waited_ms == waited_ms


def test_an_acknowledgement_that_the_broker_has_not_read_is_waited_for() -> None:
    """A Java client's was written 0.1 s before the figures were read, on a busy machine."""
    for acknowledged, waited_ms in ((0, QUIET_MS), (1, DOUBTFUL_MS)):
        hosts = Hosts({"in_flight": 3, "dispatched": 3, "consumers": 1}, silent_ms=0)
        hosts.held["c0/1"] -= acknowledged
        assert resting(hosts) == waited_ms


def test_what_comes_again_from_who_left_is_waited_for() -> None:
    """Behind a stall that was over three messages of 300,000 bytes came 0.1 s after all seemed to be at rest."""
    for held, waited_ms in ((6, QUIET_MS), (5, DOUBTFUL_MS)):
        hosts = Hosts({"in_flight": 3, "consumers": 1}, silent_ms=0)
        hosts.arrivals, hosts.held = 18, Counter({"c0/1": held, "c0/0": 12})
        assert resting(hosts) == waited_ms


def test_figures_that_are_others_when_they_are_read_were_not_at_rest() -> None:
    """On a busy machine ActiveMQ stood still after 644 of 777 dispatches, for longer than rest takes to be believed."""
    hosts = Hosts({"size": 9, "in_flight": 6, "dispatched": 6}, silent_ms=0)
    quiet = quiet_of(hosts)
    assert quiet.rest(5000)
    assert not quiet.has_moved("q0", "b", {"size": 9, "in_flight": 6, "dispatched": 6})
    assert quiet.has_moved("q0", "b", {"size": 9, "in_flight": 9, "dispatched": 9})
    assert not quiet.has_moved(None, "b", {"memory_percent": 3})
    hosts.arrivals += 1
    assert quiet.has_moved("q0", "b", {"size": 9, "in_flight": 6, "dispatched": 6})


@pytest.mark.parametrize(
    ("dest", "sent", "arrived", "waited_ms"),
    [
        ("t0", ["p0/1", "p0/2"], ["p0/2"], 1050),
        ("t0", ["p0/1", "p0/2"], ["p0/1", "p0/2"], 0),
        ("q0", ["p0/1"], [], 0),
    ],
)
def test_what_was_published_and_did_not_come_is_waited_for(
    dest: str, sent: list[str], arrived: list[str], waited_ms: int
) -> None:
    hosts: Any = Hosts(None, silent_ms=0)
    hosts.run_ns, hosts.recorder = int, Recorder()
    quiet, now_ns = quiet_of(hosts, dest=dest), hosts.clock.now_ns
    quiet._state.destinations = Destinations([Destination("q0", "queue"), Destination("t0", "topic")])
    hosts.recorder.put(Subscribe, now_ns - 9, now_ns - 8, "c0", result="ok", consumer="c0/1", dest=dest, prefetch=1)
    for message in sent:
        hosts.recorder.put(Send, now_ns - 2, now_ns, "p0", result="ok", message=message, dest=dest)
    for message in arrived:
        hosts.recorder.put(Arrive, now_ns, now_ns, "c0", consumer="c0/1", message=message, dest=dest)
    quiet.await_published(1000, lambda: False)
    assert hosts.waited_ms == waited_ms
    quiet.await_published(1000, lambda: True)
    assert hosts.waited_ms == waited_ms
