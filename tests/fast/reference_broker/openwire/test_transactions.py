"""Transactions of the JMS client: what is held until the commit, and what a rollback brings back.

Method: the real core behind a node and real client sessions; what counts is read from the counters and from what the
application gets.
"""

from __future__ import annotations

import pytest

from brokerproof.reference_broker.openwire.client import ClientSession
from brokerproof.reference_broker.openwire.commands import MessageAck, ProducerMessage, TransactionInfo
from brokerproof.reference_broker.openwire.redelivery_policy import RedeliveryPolicy
from brokerproof.reference_broker.session.notice import Delivered, Discarded, Failed, Receipt
from tests.fast.reference_broker.node.wire_pair import Pair
from tests.fast.reference_broker.openwire.test_openwire import inject, take


def given(count: int, ack: str = "transacted", prefetch: int | None = None) -> tuple[Pair, ClientSession]:
    """A client with a consumer ``c`` and ``count`` messages in its buffer."""
    pair = Pair()
    client = pair.jms()
    client.subscribe("c", "queue://q", prefetch, ack=ack)
    for number in range(count):
        client.send("queue://q", b"m%d" % number, pair.now(1))
    pair.run()
    return pair, client


def took(pair: Pair, client: ClientSession) -> Delivered:
    got, _ = client.take("c", pair.now(1))
    pair.run()
    assert got is not None
    return got


def test_what_is_sent_in_a_transaction_is_invisible_until_its_commit() -> None:
    pair, client = given(0)
    client.begin("t")
    client.send("queue://q", b"a", pair.now(1), transaction="t")
    client.send("queue://q", b"b", pair.now(1), transaction="t")
    pair.run()
    assert pair.bodies() == []
    name = client.commit("t")
    pair.run()
    assert pair.bodies() == [b"a", b"b"]
    assert [notice.receipt for notice in pair.of(1, Receipt)][-1] == name


def test_a_transacted_consumer_acknowledges_at_the_commit() -> None:
    pair, client = given(3)
    client.begin("t")
    assert [take(pair, client) for _ in range(2)] == [b"m0", b"m1"]
    assert pair.counter("dequeued") == 0
    client.commit("t")
    acks = [command for command in client.outbox if isinstance(command, MessageAck)]
    assert [(ack.first_message_id, ack.last_message_id, ack.transaction) for ack in acks] == [
        ("jms1:1:1:1", "jms1:1:1:2", "t")
    ]
    pair.run()
    assert (pair.counter("dequeued"), pair.counter("size")) == (2, 1)


@pytest.mark.parametrize("ack", ["transacted", "client", "individual"])
def test_a_rollback_brings_back_what_was_acknowledged_in_the_old_order(ack: str) -> None:
    pair, client = given(3, ack)
    client.begin("t")
    taken = [took(pair, client) for _ in range(2)]
    if ack == "client":
        assert client.acknowledge("c", transaction="t") == ["jms1:1:1:1", "jms1:1:1:2"]
    elif ack == "individual":
        for one in taken:
            client.acknowledge_one("c", one.message_id, transaction="t")
    client.rollback("t")
    pair.run()
    assert (pair.counter("dequeued"), pair.counter("in_flight")) == (0, 3)
    pair.advance(1000)
    again = [took(pair, client) for _ in range(3)]
    assert [(one.body, one.delivery_count, one.redelivered) for one in again] == [
        (b"m0", 2, True),
        (b"m1", 2, True),
        (b"m2", 1, False),
    ]


def test_what_a_rollback_brought_back_behind_others_was_seen_all_the_same() -> None:
    """The goodbye tells how far the application got; what comes to the next consumer is marked up to there."""
    pair, client = given(3, "individual")
    client.begin("t")
    taken = [took(pair, client) for _ in range(2)]
    client.acknowledge_one("c", taken[1].message_id, transaction="t")
    client.rollback("t")
    client.close_consumer("c")
    client.subscribe("d", "queue://q", ack="individual")
    pair.run()
    again = [client.take("d", pair.now(1))[0] for _ in range(3)]
    assert [(one.body, one.redelivered) for one in again if one] == [(b"m0", True), (b"m1", True), (b"m2", False)]


def test_a_commit_that_the_broker_refuses_is_a_rollback() -> None:
    pair, client = given(1, "client")
    took(pair, client)
    client.acknowledge("c", transaction="never-begun")
    name = client.commit("never-begun")
    pair.run()
    (failed,) = (notice for notice in pair.of(1, Failed) if notice.receipt == name)  # type: ignore[attr-defined]
    assert isinstance(failed, Failed)
    assert failed.code == "unknown-transaction"
    assert "never-begun" in failed.text
    pair.advance(1000)
    assert took(pair, client).body == b"m0"


def test_a_commit_that_the_broker_refuses_frees_what_it_holds_there() -> None:
    pair, client = given(1, "client")
    client.begin("t")
    took(pair, client)
    client.acknowledge("c", transaction="t")
    client.send("queue://other", b"x", pair.now(1), transaction="t")
    twin = client.send("queue://other", b"x", pair.now(1))
    for command in client.outbox:
        if isinstance(command, ProducerMessage) and command.transaction:
            command.message.message_id = twin.message_id
    client.commit("t")
    pair.run()
    (failed,) = pair.of(1, Failed)
    assert isinstance(failed, Failed)
    assert failed.code == "duplicate-id"
    pair.advance(1000)
    assert took(pair, client).delivery_count == 2
    client.acknowledge("c")
    pair.run()
    assert (pair.counter("size"), pair.counter("dequeued")) == (0, 1)
    pair.node.broker.check()


def test_a_rollback_is_followed_by_a_pause_that_ends_by_the_clock() -> None:
    pair, client = given(1)
    client.begin("t")
    took(pair, client)
    client.rollback("t")
    pair.run()
    assert client.next_due_ns() == 1_000_000_000
    pair.advance(999)
    assert take(pair, client) is None
    pair.advance(1)
    assert take(pair, client) == b"m0"
    assert client.next_due_ns() is None


def test_a_message_that_is_rolled_back_too_often_becomes_a_dead_letter() -> None:
    pair = Pair()
    client = pair.jms(redelivery_policy=RedeliveryPolicy(maximum_redeliveries=2, initial_redelivery_delay_ms=0))
    client.subscribe("c", "queue://q", ack="transacted")
    client.subscribe("d", "queue://ActiveMQ.DLQ")
    client.send("queue://q", b"poison", pair.now(1))
    pair.run()
    counts = []
    for attempt in range(3):
        client.begin(f"t{attempt}")
        counts.append(took(pair, client).delivery_count)
        client.rollback(f"t{attempt}")
        pair.run()
        pair.advance(1000)
    assert counts == [1, 2, 3]
    assert take(pair, client) is None
    (dead_letter,) = (one for one in pair.delivered() if one.consumer == "d")
    assert (dead_letter.body, dead_letter.original_destination) == (b"poison", "queue://q")
    assert "Delivery[3] exceeds redelivery policy limit:" in str(dead_letter.properties["dlqDeliveryFailureCause"])
    assert (pair.counter("size"), pair.counter("in_flight")) == (0, 0)


def test_what_arrives_after_too_many_deliveries_is_given_up_undelivered() -> None:
    pair = Pair()
    policy = RedeliveryPolicy(maximum_redeliveries=0)
    client = pair.jms(redelivery_policy=policy)
    client.subscribe("c", "queue://q", ack="client")
    client.send("queue://q", b"x", pair.now(1))
    pair.run()
    took(pair, client)
    client.close_consumer("c")
    client.subscribe("e", "queue://q", ack="transacted")
    pair.run()
    assert client.waiting("e") == 0
    assert [notice.reason for notice in pair.of(1, Discarded)] == ["redelivered too often"]  # type: ignore[attr-defined]
    assert pair.counter("size", "queue://ActiveMQ.DLQ") == 1


def test_copies_of_one_message_are_acknowledged_one_by_one() -> None:
    pair = Pair()
    client = pair.jms()
    client.subscribe("c", "queue://q.*", ack="individual")
    copy = client.send("queue://q.a", b"x", pair.now(1))
    client.send("queue://q.b", b"x", pair.now(1)).message_id = copy.message_id
    pair.run()
    first, second = took(pair, client), took(pair, client)
    assert (first.message_id, first.destination) == (second.message_id, "queue://q.a")
    client.acknowledge_one("c", second.ack_id)
    pair.run()
    assert [pair.counter("size", name) for name in ("queue://q.a", "queue://q.b")] == [1, 0]
    client.acknowledge_one("c", first.ack_id)
    pair.run()
    assert [pair.counter("size", name) for name in ("queue://q.a", "queue://q.b")] == [0, 0]


def test_what_came_back_counts_as_delivered_when_the_consumer_closes() -> None:
    pair, client = given(3)
    client.begin("t")
    took(pair, client)
    client.rollback("t")
    client.close_consumer("c")
    client.subscribe("d", "queue://q")
    pair.run()
    marks = [(one.body, one.redelivered) for one in pair.delivered() if one.consumer == "d"]
    assert marks == [(b"m0", True), (b"m1", False), (b"m2", False)]


def test_an_xa_step_is_refused_by_name() -> None:
    pair, _ = given(0)
    inject(pair, TransactionInfo("t", 1, command_id=99, response_required=True))
    (failed,) = pair.of(1, Failed)
    assert isinstance(failed, Failed)
    assert failed.text == ("transaction step 1 is XA or unknown; use 0 (begin), 2 (commit), 4 (rollback)")


def test_a_rollback_closes_the_window_that_its_messages_had_widened() -> None:
    pair, client = given(3, prefetch=1)
    client.begin("t")
    assert [took(pair, client).body for _ in range(3)] == [b"m0", b"m1", b"m2"]
    client.rollback("t")
    client.send("queue://q", b"m3", pair.now(1))
    pair.run()
    assert client.waiting("c") == 3, "three are outstanding, the window is one"
    pair.node.broker.check()


def test_what_came_back_behind_what_is_taken_is_acknowledged_one_by_one() -> None:
    pair, client = given(4, "client", prefetch=4)
    client.begin("t")
    took(pair, client)
    took(pair, client)
    client.acknowledge("c", transaction="t")
    took(pair, client)
    client.rollback("t")
    pair.advance(1000)
    assert took(pair, client).body == b"m0"
    client.acknowledge("c")
    pair.run()
    assert pair.of(1, Failed) == []
    assert pair.counter("dequeued") == 2
    assert [took(pair, client).body for _ in range(2)] == [b"m1", b"m3"]
