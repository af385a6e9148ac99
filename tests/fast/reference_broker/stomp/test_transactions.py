"""STOMP's transactions from both ends: BEGIN, COMMIT, ABORT, and what SEND, ACK and NACK do in between."""

from __future__ import annotations

import pytest

from brokerproof.reference_broker.core.config import BrokerConfig
from brokerproof.reference_broker.session.notice import Failed, Receipt
from brokerproof.reference_broker.stomp.client import ClientSession
from brokerproof.reference_broker.stomp.frames import V10, V11, V12, Frame
from tests.fast.reference_broker.node.wire_pair import Pair


def given(count: int, ack: str, *, prefetch: int | None = None, version: str = V12) -> tuple[Pair, ClientSession]:
    """A consumer ``s`` that has received ``count`` messages (or what its prefetch allows)."""
    pair = Pair()
    client = pair.stomp(connect=False)
    client.connect(versions=(version,))
    client.subscribe("s", "queue://q", prefetch, ack=ack)
    for number in range(count):
        client.send("queue://q", b"m%d" % number)
    pair.run()
    return pair, client


def test_what_is_sent_in_a_transaction_is_invisible_until_its_commit() -> None:
    pair, client = given(0, "auto")
    client.begin("t")
    client.send("queue://q", b"a", transaction="t")
    client.send("queue://q", b"outside")
    client.send("queue://q", b"b", transaction="t")
    pair.run()
    assert pair.bodies() == [b"outside"]
    name = client.commit("t")
    pair.run()
    assert pair.bodies() == [b"outside", b"a", b"b"]
    assert [notice.receipt for notice in pair.of(1, Receipt)] == [name]  # type: ignore[attr-defined]


def test_an_abort_forgets_the_sends_and_the_name_is_free_again() -> None:
    pair, client = given(0, "auto")
    client.begin("t")
    client.send("queue://q", b"a", transaction="t")
    client.rollback("t")
    client.begin("t")
    client.send("queue://q", b"b", transaction="t")
    client.commit("t")
    pair.run()
    assert pair.bodies() == [b"b"]


@pytest.mark.parametrize("version", [V10, V11, V12])
@pytest.mark.parametrize(("ack", "covered"), [("client", 2), ("client-individual", 1)])
def test_acknowledgements_count_at_the_commit(version: str, ack: str, covered: int) -> None:
    pair, client = given(3, ack, version=version)
    client.begin("t")
    client.ack(pair.delivered()[1], transaction="t")
    pair.run()
    assert (pair.counter("dequeued"), pair.counter("in_flight")) == (0, 3)
    client.commit("t")
    pair.run()
    assert (pair.counter("dequeued"), pair.counter("in_flight")) == (covered, 3 - covered)


@pytest.mark.parametrize("version", [V10, V11, V12])
@pytest.mark.parametrize("ack", ["client", "client-individual"])
def test_after_an_abort_the_deliveries_can_be_acknowledged_again_in_their_old_order(version: str, ack: str) -> None:
    pair, client = given(4, ack, version=version)
    first, second, third, _ = pair.delivered()
    client.begin("t")
    client.ack(second, transaction="t")
    client.rollback("t")
    pair.run()
    assert (pair.counter("dequeued"), pair.counter("in_flight"), len(pair.delivered())) == (0, 4, 4)
    client.ack(third if ack == "client" else second)
    pair.run()
    assert pair.counter("dequeued") == (3 if ack == "client" else 1)
    if ack == "client-individual":
        client.ack(first)
        pair.run()
        assert pair.counter("dequeued") == 2
    assert not pair.closes


def test_in_a_transaction_a_delivery_is_acknowledged_once() -> None:
    pair, client = given(1, "client-individual")
    client.begin("t")
    client.ack(pair.delivered()[0], transaction="t")
    client.ack(pair.delivered()[0], transaction="t")
    pair.run()
    assert "Unexpected ACK received" in pair.closes[0][1].reason
    assert (pair.counter("dequeued"), pair.counter("size")) == (0, 1)


@pytest.mark.parametrize("ack", ["client", "client-individual"])
def test_a_transaction_may_be_longer_than_the_prefetch_and_an_abort_narrows_the_window_again(ack: str) -> None:
    pair, client = given(6, ack, prefetch=2)
    client.begin("t")
    assert len(pair.delivered()) == 2
    for delivered in pair.delivered()[:2]:
        client.ack(delivered, transaction="t")
    pair.run()
    assert len(pair.delivered()) == 4
    client.rollback("t")
    client.ack(pair.delivered()[0])
    pair.run()
    assert len(pair.delivered()) == 4, "three are outstanding, the window is two"
    pair.node.broker.check()


def test_a_nack_in_a_transaction_is_refused_and_the_message_is_kept() -> None:
    pair, client = given(1, "client")
    client.begin("t")
    name = client.nack(pair.delivered()[0], transaction="t", receipt=True)
    pair.run()
    (failed,) = pair.of(1, Failed)
    assert isinstance(failed, Failed)
    assert (failed.receipt, failed.code) == (name, "poison-in-transaction")
    assert (pair.counter("size"), pair.counter("in_flight"), len(pair.closes)) == (1, 0, 1)


def test_a_nack_may_be_undone_where_a_transaction_may_reject() -> None:
    pair = Pair(BrokerConfig(transacted_nacks=True))
    client = pair.stomp()
    client.subscribe("s", "queue://q", ack="client-individual")
    client.send("queue://q", b"m")
    pair.run()
    client.begin("t")
    client.nack(pair.delivered()[0], transaction="t")
    client.rollback("t")
    client.ack(pair.delivered()[0], receipt=True)
    pair.run()
    assert pair.closes == []
    assert (pair.counter("dequeued"), pair.counter("size")) == (1, 0)


def test_an_acknowledgement_in_a_transaction_that_nobody_began_is_refused() -> None:
    pair, client = given(1, "client")
    client.ack(pair.delivered()[0], transaction="never")
    pair.run()
    assert pair.closes[0][1].reason == "ACK transaction:never is not open; send BEGIN first"
    assert (pair.counter("dequeued"), pair.counter("size")) == (0, 1)


def test_a_connection_that_goes_takes_its_transaction_with_it() -> None:
    pair, client = given(2, "client")
    client.begin("t")
    client.ack(pair.delivered()[1], transaction="t")
    client.send("queue://q", b"x", transaction="t")
    client.disconnect()
    pair.run()
    assert (pair.counter("dequeued"), pair.counter("size"), pair.counter("in_flight")) == (0, 2, 0)


def test_a_transaction_that_is_open_cannot_be_begun_again() -> None:
    pair, client = given(0, "auto")
    client.begin("t")
    client.outbox.append(Frame("BEGIN", {"transaction": "t", "receipt": "r9"}))
    pair.run()
    (failed,) = pair.of(1, Failed)
    assert isinstance(failed, Failed)
    assert (failed.receipt, failed.code) == ("r9", "duplicate-transaction")


def test_a_subscription_that_ended_before_the_abort_gets_nothing_back() -> None:
    pair, client = given(1, "client")
    client.begin("t")
    client.ack(pair.delivered()[0], transaction="t")
    client.unsubscribe("s")
    client.rollback("t")
    pair.run()
    client.ack(pair.delivered()[0])
    pair.run()
    assert "Unexpected ACK" in pair.closes[0][1].reason
    assert (pair.counter("size"), pair.counter("dequeued")) == (1, 0)
