"""Temporary destinations through both protocols: made by naming them (STOMP) or by a command (JMS), for requests and
their replies, gone with their connection.
"""

from __future__ import annotations

import pytest

from brokerproof.reference_broker.openwire.commands import DestinationInfo
from brokerproof.reference_broker.session.notice import Failed, Receipt
from tests.fast.reference_broker.node.wire_pair import Pair
from tests.fast.reference_broker.openwire.test_openwire import inject, take
from tests.fast.reference_broker.stomp.test_broker import inject as inject_stomp
from tests.fast.reference_broker.stomp.test_broker import written


def test_a_stomp_client_asks_and_gets_the_reply() -> None:
    pair = Pair()
    asker, server = pair.stomp(1), pair.stomp(2)
    asker.subscribe("replies", "/temp-queue/mine")
    server.subscribe("s", "queue://questions")
    asker.send("queue://questions", b"?", reply_to="/temp-queue/mine", correlation_id="7")
    pair.run()
    (question,) = pair.delivered(2)
    assert question.reply_to == "temp-queue://1:1"
    assert written(pair, "MESSAGE", 2)[0].headers["reply-to"] == "/remote-temp-queue/1:1"
    server.send(question.reply_to, b"!", correlation_id=question.correlation_id)
    pair.run()
    (answer,) = pair.delivered(1)
    assert (answer.body, answer.correlation_id, answer.destination) == (b"!", "7", "/temp-queue/mine")


def test_a_jms_client_asks_a_stomp_server() -> None:
    pair = Pair()
    jms, server = pair.jms(1), pair.stomp(2)
    name = jms.create_temporary("queue")
    created = jms.last_command
    jms.subscribe("replies", name)
    server.subscribe("s", "queue://questions")
    jms.send("queue://questions", b"?", pair.now(1), reply_to=name)
    pair.run()
    assert created in [notice.receipt for notice in pair.of(1, Receipt)]  # type: ignore[attr-defined]
    server.send(pair.delivered(2)[0].reply_to, b"!")
    pair.run()
    assert take(pair, jms, "replies") == b"!"


def test_a_stomp_client_asks_a_jms_server() -> None:
    pair = Pair()
    asker, jms = pair.stomp(1), pair.jms(2)
    asker.subscribe("replies", "/temp-topic/mine")
    jms.subscribe("s", "queue://questions")
    asker.send("queue://questions", b"?", reply_to="/temp-topic/mine")
    pair.run()
    jms.send(pair.delivered(2)[0].reply_to, b"!", pair.now(2))
    pair.run()
    assert pair.bodies(1) == [b"!"]


def test_the_same_stomp_name_on_two_connections_means_two_destinations() -> None:
    pair = Pair()
    for connection in (1, 2):
        pair.stomp(connection).subscribe("s", "/temp-queue/q")
    pair.run()
    inject_stomp(pair, "SEND", {"destination": "/temp-queue/q"}, b"mine", connection=2)
    assert (pair.bodies(1), pair.bodies(2)) == ([], [b"mine"])


def test_a_temporary_destination_goes_with_its_connection() -> None:
    pair = Pair()
    owner, other = pair.stomp(1), pair.jms(2)
    owner.subscribe("s", "/temp-queue/q")
    pair.run()
    assert pair.node.broker.destinations() == ["temp-queue://1:1"]
    owner.disconnect()
    pair.run()
    assert pair.node.broker.destinations() == []
    other.send("temp-queue://1:1", b"late", pair.now(2), receipt=True)
    pair.run()
    (failed,) = pair.of(2, Failed)
    assert isinstance(failed, Failed)
    assert failed.code == "unknown-destination"
    assert "temp-queue://1:1" in failed.text


def test_only_its_connection_consumes_from_a_temporary_destination() -> None:
    pair = Pair()
    owner, other = pair.jms(1), pair.jms(2)
    name = owner.create_temporary("queue")
    pair.run()
    other.subscribe("c", name, receipt=True)
    pair.run()
    (failed,) = pair.of(2, Failed)
    assert isinstance(failed, Failed)
    assert name in failed.text


def test_a_jms_client_deletes_its_temporary_destination() -> None:
    pair = Pair()
    jms = pair.jms()
    name = jms.create_temporary("topic")
    jms.subscribe("c", name)
    jms.delete_destination(name)
    pair.run()
    (failed,) = pair.of(1, Failed)
    assert isinstance(failed, Failed)
    assert name in failed.text, "it is in use"
    jms.close_consumer("c")
    deleted = jms.delete_destination(name)
    pair.run()
    assert deleted in [notice.receipt for notice in pair.of(1, Receipt)]  # type: ignore[attr-defined]
    assert pair.node.broker.destinations() == []


def test_names_of_temporary_destinations_differ_between_connections() -> None:
    pair = Pair()
    names = [pair.jms(1).create_temporary("queue"), pair.jms(2).create_temporary("queue")]
    assert len(set(names)) == 2
    with pytest.raises(ValueError, match="temporary 'heap' is unknown; one of queue, topic"):
        pair.jms(3).create_temporary("heap")


def test_an_unknown_operation_on_a_destination_is_refused() -> None:
    pair = Pair()
    pair.jms()
    inject(pair, DestinationInfo("queue://q", 5, command_id=99, response_required=True))
    (failed,) = pair.of(1, Failed)
    assert isinstance(failed, Failed)
    assert failed.text == "destination operation 5 is unknown; use 0 (add), 1 (remove)"
