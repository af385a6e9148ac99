"""``brokerproof diagnose`` on reference brokers without sockets: what seeds 002 and 003 tell, and look-alikes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from brokerproof.chaos.brokers.jolokia import Jolokia, JolokiaFailed, NoAnswer
from brokerproof.conformance.cli import main
from brokerproof.conformance.experiment.exits import INCONCLUSIVE, OK, SUITE, USAGE, VIOLATED
from brokerproof.conformance.operating import diagnose, inflight, starvation
from brokerproof.conformance.operating import sight as sight_of
from brokerproof.conformance.operating.addresses import HTTP, MANAGED, address
from brokerproof.conformance.operating.answer import Answer
from brokerproof.conformance.operating.sight import FEWEST, SAMPLES, Sight, look
from brokerproof.reference_broker.core.config import BrokerConfig, DestinationPolicy
from brokerproof.reports.commands import diagnose as command
from tests.fast.reference_broker.management.manager import Manager
from tests.fast.reference_broker.node.wire_pair import Pair

KIB = 1024


class Probe(Jolokia):
    """The suite's probe, on a site without sockets."""

    def __init__(self, manager: Manager) -> None:
        super().__init__(1)
        self._manager = manager

    def _post(self, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._manager.post(list(rows))
        return found


def seen(pair: Pair) -> Sight:
    return look(Probe(Manager(pair)), lambda seconds: pair.advance(int(seconds * 1000)))


def answers(pair: Pair) -> dict[str, Answer]:
    sight = seen(pair)
    return {one.id: one for one in (*starvation.questions(sight), *inflight.questions(sight))}


def starving(memory: str) -> Pair:
    """Queue B has no consumer and fills the broker's memory; A's messages come too late to be kept in memory."""
    policy = DestinationPolicy(">", producer_flow_control=False, high_water_percent=100)
    pair = Pair(BrokerConfig(memory_limit_bytes=64 * KIB, destinations=[policy], generation={"memory": memory}))
    client = pair.stomp()
    for _ in range(70):
        client.send("queue://B", b"", persistent=True)
    for _ in range(5):
        client.send("queue://A", b"", persistent=True)
    pair.stomp(2).subscribe("a", "queue://A", ack="client")
    pair.run()
    return pair


@pytest.mark.parametrize("memory", ["G1", "G2", "G3"])
def test_a_starved_consumer_is_found_with_values_and_remedy(memory: str) -> None:
    found = answers(starving(memory))
    for question in ("idle-consumers", "no-memory", "broker-memory", "holders", "cursor-space", "starvation"):
        assert found[question].answer == "yes", found[question]
    assert found["starvation"].values == ["queue://A waits for queue://B"]
    assert "consume from queue://B, or purge it" in found["starvation"].remedy
    assert "set a memoryLimit" in found["starvation"].remedy
    assert "5 messages wait, none dispatched in" in found["idle-consumers"].values[0]
    assert found["holders"].values[0].startswith("queue://B: 100 % of the broker's memory (65536 bytes), 0 consumers")
    assert diagnose.exit_code(list(found.values())) == VIOLATED


@pytest.mark.parametrize("memory", ["G0", "fair"])
def test_where_nobody_starves_nothing_is_found(memory: str) -> None:
    found = answers(starving(memory))
    assert found["starvation"].answer == found["idle-consumers"].answer == "no"
    assert diagnose.exit_code(list(found.values())) == OK


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"prefetch": 2}, "hold 2 messages that they have not acknowledged, and their prefetch allows no more"),
        ({"selector": "kind = 'z'"}, "all its consumers have a selector (kind = 'z')"),
    ],
)
def test_a_consumer_with_a_reason_of_its_own_is_not_starved(options: dict[str, Any], reason: str) -> None:
    pair = Pair()
    client = pair.stomp()
    for _ in range(5):
        client.send("queue://q", b"")
    client.subscribe("c", "queue://q", ack="client", **options)
    pair.run()
    found = answers(pair)
    assert found["idle-consumers"].answer == "no"
    assert reason in found["idle-consumers"].values[0]


def test_slow_consumers_that_hold_the_memory_are_named() -> None:
    """Seed 002, "still more": A's consumer gets a message whenever B's slow one has settled one."""
    pair = starving("G3")
    slow = pair.stomp(3)
    slow.subscribe("slow", "queue://B", 1, ack="client")
    pair.run()

    def work(_: float) -> None:
        slow.ack(pair.delivered(3)[-1])
        pair.clients[1].send("queue://A", b"", persistent=True)  # type: ignore[call-arg]
        pair.run()

    sight = look(Probe(Manager(pair)), work)
    found = {one.id: one for one in starvation.questions(sight)}
    assert found["slowed"].answer == "yes"
    assert found["slowed"].values[0] == "queue://A: messages wait for queue://B"
    assert "set a memoryLimit for queue://B" in found["slowed"].remedy
    assert found["starvation"].answer == "no"


def test_a_slow_broker_is_asked_for_less(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of its answers takes 0.4 s: there are two samples, what decides is asked, and nobody waits for longer."""
    now = [0.0]

    class Slow(Probe):
        def _post(self, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
            now[0] += 0.4
            return super()._post(rows)

    def sleep(seconds: float) -> None:
        now[0] += seconds

    monkeypatch.setattr(sight_of, "time", SimpleNamespace(monotonic=lambda: now[0]))
    sight = look(Slow(Manager(starving("G3"))), sleep)
    assert sight.space == {"queue://A": False}
    assert now[0] <= 4
    assert FEWEST <= len(sight.broker) < SAMPLES
    monkeypatch.setattr(sight_of, "LIMIT_S", 0.0)
    assert len(look(Slow(Manager(starving("G3"))), sleep).broker) == FEWEST


def test_a_negative_count_is_explained_and_is_no_problem() -> None:
    """Seed 003: the consumer has gone, its messages are still on the way to it."""
    pair = Pair()
    producer, consumer = pair.stomp(1), pair.stomp(2)
    for _ in range(30):
        producer.send("queue://q", b"")
    pair.run()
    pair.stalled.add(2)
    consumer.subscribe("c", "queue://q", 1000, ack="client")
    consumer.unsubscribe("c")
    pair.run()
    assert pair.counter("in_flight") < 0
    found = answers(pair)
    assert found["negative-in-flight"].answer == "yes"
    assert "from -30 to -30" in found["negative-in-flight"].values[0]
    assert found["wasted-dispatches"].answer == "no", "nothing has been written yet"
    assert not [one.id for one in found.values() if one.is_trouble]


def test_churn_is_told_with_the_prefetch_that_would_end_it() -> None:
    pair = Pair()
    client = pair.stomp()
    for _ in range(30):
        client.send("queue://q", b"")
    for _ in range(3):
        client.subscribe("c", "queue://q", 1000, ack="client")
        pair.run()
        client.unsubscribe("c")
        pair.run()
    found = answers(pair)
    assert found["wasted-dispatches"].answer == "yes"
    assert found["wasted-dispatches"].values == [
        "queue://q: 90 dispatched, 90 of them in vain, 0 dequeued (90.0 for each)"
    ]
    assert "activemq.prefetchSize:10" in found["wasted-dispatches"].remedy
    assert found["unbalanced-in-flight"].answer == "no"


def test_counts_that_are_wrong_at_rest_are_a_problem() -> None:
    """As ActiveMQ's are after a reset with messages in flight: the count stands still beside what is held."""
    queue = {
        "Name": "q",
        "QueueSize": 3,
        "InFlightCount": -3,
        "ConsumerCount": 1,
        "DispatchCount": 9,
        "DequeueCount": 9,
    }
    consumer = {"DestinationQueue": True, "DestinationName": "q", "DispatchedQueueSize": 0, "PrefetchSize": 10}
    sight = Sight(broker=[{}, {}], destinations={"queue://q": [queue, queue]}, consumers=[consumer])
    (found,) = [one for one in inflight.questions(sight) if one.is_trouble]
    assert found.id == "unbalanced-in-flight"
    assert found.values == ["queue://q: InFlightCount -3, but its consumers hold 0"]
    swinging = Sight(broker=[{}, {}], destinations={"queue://q": [queue, {**queue, "InFlightCount": -1}]})
    assert not [one for one in inflight.questions(swinging) if one.is_trouble]
    sight.unwritten = 1
    assert not [one for one in inflight.questions(sight) if one.is_trouble], "it is on its way"
    sight.destinations["queue://q"] = [{**queue, "InFlightCount": 2}] * 2
    assert [one.id for one in inflight.questions(sight) if one.is_trouble] == ["unbalanced-in-flight"]


def test_a_release_without_the_figures_gets_no_verdict() -> None:
    stuck = {"Name": "q", "QueueSize": 3, "ConsumerCount": 1, "DispatchCount": 0, "DequeueCount": 0}
    sight = Sight(broker=[{}, {}], destinations={"queue://q": [stuck, stuck]})
    found = starvation.questions(sight)
    assert {one.id: one.answer for one in found}["starvation"] == "unknown"
    assert diagnose.exit_code(found) == INCONCLUSIVE


def test_the_command_prints_text_or_json(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    pair = starving("G3")
    monkeypatch.setattr(command, "see", lambda where: seen(pair))
    assert main(["diagnose", "--broker", "http://operator:secret@127.0.0.1:1/x"]) == VIOLATED
    text = capsys.readouterr().out
    assert "problems: starvation\n" in text
    assert "memory rules G3" in text
    assert "secret" not in text
    assert main(["diagnose", "--json", "--broker", "reference"]) == VIOLATED
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["id"] for row in rows if row["problem"] and row["answer"] == "yes"] == ["starvation"]


def test_where_nobody_answers_is_said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def refused(*_: object) -> Sight:
        raise JolokiaFailed("no answer from the management agent on port 1: refused")

    monkeypatch.setattr(diagnose, "look", refused)
    assert main(["diagnose", "--broker", "http://u:secret@127.0.0.1:1"]) == SUITE
    assert "http://127.0.0.1:1: no answer from the management agent" in capsys.readouterr().err
    for wrong in ("stomp://x", "http://", "rabbit", "http://u:secret@h:x"):
        assert main(["diagnose", "--broker", wrong]) == USAGE
        error = capsys.readouterr().err
        assert "activemq, reference" in error
        assert "secret" not in error


@pytest.mark.parametrize(("failure", "looks"), [(NoAnswer("nobody"), 1), (JolokiaFailed("404"), 2)])
def test_who_does_not_answer_is_not_asked_for_another_path(failure: JolokiaFailed, looks: int) -> None:
    """Each silence takes seconds, and the other path is on the same port."""
    asked = []

    def question(jolokia: Jolokia) -> None:
        asked.append(jolokia)
        raise failure

    where = address("http://127.0.0.1:8161", MANAGED, HTTP)
    with pytest.raises(JolokiaFailed, match=str(failure)):
        diagnose.asked(where, question)
    assert len(asked) == looks
