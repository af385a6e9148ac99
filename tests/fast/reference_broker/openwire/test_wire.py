"""OpenWire's broker end in bytes: handshake, messages untouched, refusals, windows, advisories, other protocols."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import pytest

from brokerproof.reference_broker.core.config import DestinationPolicy
from brokerproof.reference_broker.core.message import Message
from brokerproof.reference_broker.node import Node
from brokerproof.reference_broker.openwire.framing import OpenWireFraming
from brokerproof.reference_broker.openwire.wire import connections, consumption, ids, messages
from brokerproof.reference_broker.openwire.wire.body import encode_body
from brokerproof.reference_broker.openwire.wire.codec import Codec
from brokerproof.reference_broker.openwire.wire.kinds import Data, Kind
from brokerproof.reference_broker.openwire.wire.negotiation import Offer
from brokerproof.reference_broker.openwire.wire.packed import PackedProperties
from brokerproof.reference_broker.openwire.wire.primitives import Byte, Float, Long, encode_map
from brokerproof.reference_broker.session.framing import FramingError, Limits
from brokerproof.reference_broker.stomp.frames import Frame
from brokerproof.reference_broker.storage import codec as storage
from tests.fast.reference_broker.openwire.end import NOW, End, node_of, queue

Q = queue("q")
OFFERS = {
    "tight, cached": Offer(),
    "loose, cached": Offer(tight=False),
    "tight": Offer(cache_size=0),
    "loose": Offer(tight=False, cache_size=0),
    "version 9": Offer(version=9),
    "version 1": Offer(version=1, tight=False, cache_size=0),
}
PROPERTIES = encode_map(
    {"a": 1, "byte": Byte(-1), "long": Long(1), "float": Float(0.5), "text": "\u00e9", "list": ["x"], "big": "y" * 9000}
)


@dataclass
class Case:
    """A message's kind and content."""

    kind: Kind
    content: bytes | None
    compressed: bool = False


CASES = {
    "text": Case(messages.TEXT_MESSAGE, encode_body(messages.TEXT_MESSAGE, "gr\u00fc\u00dfe")),
    "no text": Case(messages.TEXT_MESSAGE, None),
    "bytes": Case(messages.BYTES_MESSAGE, b"\0\1\xff"),
    "map": Case(messages.MAP_MESSAGE, encode_map({"k": Byte(1)})),
    "stream": Case(messages.STREAM_MESSAGE, encode_body(messages.STREAM_MESSAGE, [1, "two"])),
    "object": Case(messages.OBJECT_MESSAGE, b"\xac\xed\0\5"),
    "plain": Case(messages.MESSAGE, None),
    "compressed text": Case(messages.TEXT_MESSAGE, encode_body(messages.TEXT_MESSAGE, "a" * 99, compress=True), True),
    "compressed bytes": Case(
        messages.BYTES_MESSAGE, encode_body(messages.BYTES_MESSAGE, b"b" * 99, compress=True), True
    ),
    "nonsense": Case(messages.MAP_MESSAGE, b"\xff\xff", True),
}


def test_the_broker_speaks_first_and_names_itself_when_it_knows_the_peer() -> None:
    node = Node(node_of(name="bb").config)
    framing = OpenWireFraming(Limits())
    node.connect(1, "openwire", NOW)
    first = node.next_output(1, NOW)
    assert node.next_output(1, NOW) is None
    data = framing.encode(first)
    found = Codec().decode(data[4:])
    assert found is not None
    assert (found.kind.name, found["version"]) == ("WireFormatInfo", 12)
    end = End(node_of(name="bb"))
    assert end.kinds()[:3] == ["WireFormatInfo", "BrokerInfo", "Response"]
    assert end.received[1]["brokerName"] == "bb"


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(("mine", "theirs"), [(name, "tight, cached") for name in OFFERS] + [("loose", "version 1")])
def test_a_message_passes_untouched(mine: str, theirs: str, name: str) -> None:
    node = node_of()
    sender, reader = End(node, 1, OFFERS[mine]), End(node, 2, OFFERS[theirs])
    case, producer = CASES[name], sender.producer()
    reader.consumer(Q)
    sent = sender.message(
        case.kind,
        Q,
        producer,
        content=case.content,
        compressed=case.compressed,
        marshalledProperties=PROPERTIES,
        correlationId="c",
        type="t",
        replyTo=Data(ids.TEMP_TOPIC, ["ID:c1:1"]),
        groupID="g",
        groupSequence=3,
        userID="me",
        droppable=True,
        timestamp=NOW.wall_ms,
        expiration=NOW.wall_ms + 5,
        persistent=True,
    )
    assert sender.ask(sent).kind.name == "Response"
    (got,) = reader.dispatched()
    versions = OFFERS[mine].version, OFFERS[theirs].version
    broker = {"commandId", "responseRequired", "messageId", "jMSXGroupFirstForConsumer"}
    lost = broker | ({"droppable"} if min(versions) < 2 else set())
    wanted = {field.name: sent[field.name] for field in case.kind.fields if field.name not in lost}
    assert {name: got[name] for name in wanted} == wanted
    message_id = got["messageId"]
    assert isinstance(message_id, Data)
    assert (message_id["producerId"], message_id["producerSequenceId"]) == (producer, 1)
    assert message_id["brokerSequenceId"] == 1


def test_a_blob_keeps_its_address_and_a_foreign_view_its_text() -> None:
    node = node_of()
    end = End(node)
    end.consumer(Q)
    sent = end.message(messages.BLOB_MESSAGE, Q, end.producer(), remoteBlobUrl="http://x", mimeType="m")
    sent["messageId"]["textView"] = "AMQP:1"  # type: ignore[index]  # a structure
    end.ask(sent)
    (got,) = end.dispatched()
    assert (got["remoteBlobUrl"], got["mimeType"], got["messageId"]["textView"]) == ("http://x", "m", "AMQP:1")  # type: ignore[index]


def test_a_selector_opens_the_properties_and_they_are_written_again() -> None:
    end = End(node_of())
    end.consumer(Q, selector="byte = -1 AND text = '\u00e9'")
    end.ask(end.text(Q, end.producer(), marshalledProperties=PROPERTIES))
    (got,) = end.dispatched()
    assert got["marshalledProperties"] == PROPERTIES


@pytest.mark.parametrize(("first", "last", "marked"), [(1, -2, 3), (1, -1, 0), (2, 2, 2), (3, 999, 0)])
def test_a_close_says_by_its_number_what_was_seen(first: int, last: int, marked: int) -> None:
    node = node_of()
    end = End(node)
    end.consumer(Q)
    producer = end.producer()
    for _ in range(3):
        end.ask(end.text(Q, producer))
    end.tell(
        connections.REMOVE_INFO.make(objectId=Data(ids.CONSUMER_ID, [end.name, 1, 1]), lastDeliveredSequenceId=last)
    )
    end.received.clear()
    end.consumer(Q, 2)
    assert sum(one["redeliveryCounter"] == 1 for one in end.dispatched()) == marked
    assert first


@pytest.mark.parametrize("how", ["session", "connection"])
def test_a_session_takes_its_consumers_along(how: str) -> None:
    node = node_of()
    end, other = End(node, 1), End(node, 2)
    end.consumer(Q)
    other.ask(other.text(Q, other.producer()))
    who = Data(ids.SESSION_ID, [end.name, 1]) if how == "session" else Data(ids.CONNECTION_ID, [end.name])
    assert end.ask(connections.REMOVE_INFO.make(objectId=who, lastDeliveredSequenceId=-1)).kind.name == "Response"
    other.consumer(Q)
    (got,) = other.dispatched()
    assert got["redeliveryCounter"] == 0
    node.broker.check()
    if how == "connection":
        end.tell(connections.SHUTDOWN_INFO.make())
        assert node.broker.broker_counters()["connections"] == 1


def refusal(answer: Data) -> tuple[str, str]:
    """The exception's class and text."""
    exception = answer["exception"]
    return exception.type, exception.message  # type: ignore[attr-defined]  # a Throwable


def test_what_cannot_be_is_refused_with_the_exception_that_says_so() -> None:
    end = End(node_of())
    producer = end.producer()
    repeated = encode_map({"AMQ_SCHEDULED_REPEAT": 3})
    unknown = Data(ids.PRODUCER_ID, [end.name, 9, 1])
    lost = Data(ids.PRODUCER_ID, [end.name, 1, 7])
    xa = Data(ids.XA_TRANSACTION_ID, [1, b"g", b"b"])
    cases = [
        (end.text(Q, producer, marshalledProperties=repeated), "JMSException", "AMQ_SCHEDULED_REPEAT is not offered"),
        (end.text(queue("a.>"), producer), "InvalidDestinationException", "wildcard"),
        (end.text(Q, unknown), "IllegalStateException", "announce it first"),
        (
            connections.PRODUCER_INFO.make(producerId=lost),
            "IllegalStateException",
            "session ID:c1:7, which is not there",
        ),
        (connections.TRANSACTION_INFO.make(transactionId=xa, type=0), "JMSException", "XA or unknown"),
        (connections.REMOVE_SUBSCRIPTION_INFO.make(subcriptionName="s"), "InvalidDestinationException", "ID:c1:s"),
    ]
    for command, kind, text in cases:
        found = refusal(end.ask(command))
        assert found[0].endswith("." + kind), found
        assert text in found[1], found
    assert refusal(end.consumer(Q, selector="a = = b"))[0] == "javax.jms.InvalidSelectorException"
    assert end.consumer(Q).kind.name == "Response"  # the id is free again
    assert end.node.take_actions()[-1].__class__.__name__ != "Close"


def test_a_client_id_in_use_ends_the_connection_and_one_that_comes_back_takes_over() -> None:
    node = node_of()
    first = End(node, 1)
    second = End(node, 2, connect=False)
    info = connections.CONNECTION_INFO.make(connectionId=Data(ids.CONNECTION_ID, ["ID:other"]), clientId=first.name)
    assert refusal(second.ask(info))[0] == "javax.jms.InvalidClientIDException"
    assert any(action.__class__.__name__ == "Close" for action in node.take_actions())
    third = End(node, 3, connect=False)
    again = connections.CONNECTION_INFO.make(connectionId=Data(ids.CONNECTION_ID, [first.name]), clientId=first.name)
    assert third.ask(again).kind.name == "Response"
    closed = [action for action in node.take_actions() if action.__class__.__name__ == "Close"]
    assert [action.connection for action in closed] == [1]  # type: ignore[attr-defined]  # a Close
    assert "takes over" in closed[0].reason  # type: ignore[attr-defined]  # as above


def test_a_window_is_given_back_message_by_message() -> None:
    end = End(node_of())
    producer = end.producer(window=5000)
    end.received.clear()
    end.tell(end.text(Q, producer, "abc", marshalledProperties=PROPERTIES))
    end.ask(end.text(Q, producer))
    (credit,) = (one for one in end.received if one.kind is connections.PRODUCER_ACK)
    assert (credit["producerId"], credit["size"]) == (producer, 7 + len(PROPERTIES) + 1024)


def test_a_window_of_a_consumer_that_a_policy_changed_is_told_and_a_client_may_change_it() -> None:
    end = End(node_of(destinations=[DestinationPolicy(">", queue_prefetch=0)]))
    end.consumer(Q, prefetch=1000)
    (told,) = (one for one in end.received if one.kind is consumption.CONSUMER_CONTROL)
    assert (told["prefetch"], told["consumerId"]) == (0, Data(ids.CONSUMER_ID, [end.name, 1, 1]))
    end.ask(end.text(Q, end.producer()))
    assert end.dispatched() == []
    end.tell(consumption.CONSUMER_CONTROL.make(consumerId=told["consumerId"], prefetch=1))
    assert len(end.dispatched()) == 1


def test_who_watches_temporary_destinations_reads_their_commands() -> None:
    node = node_of()
    owner, watcher = End(node, 1), End(node, 2)
    topics = Data(ids.TOPIC, ["ActiveMQ.Advisory.TempQueue,ActiveMQ.Advisory.TempTopic"])
    made = Data(ids.TEMP_QUEUE, [f"{owner.name}:1"])
    owner.ask(connections.DESTINATION_INFO.make(destination=made, operationType=0))
    watcher.consumer(topics)
    owner.ask(connections.DESTINATION_INFO.make(destination=made, operationType=1))
    told = [one["dataStructure"] for one in watcher.dispatched()]
    assert [(one.kind.name, one["destination"], one["operationType"]) for one in told] == [  # type: ignore[attr-defined, index]
        ("DestinationInfo", made, 0),
        ("DestinationInfo", made, 1),
    ]
    assert {one["type"] for one in watcher.dispatched()} == {"Advisory"}


# -- other protocols


def stomp(node: Node, connection: int = 9) -> None:
    node.connect(connection, "stomp", NOW)
    node.receive(connection, Frame("CONNECT", {"accept-version": "1.2", "host": "b"}), NOW)
    node.next_output(connection, NOW)


@pytest.mark.parametrize(
    ("headers", "body", "kind", "content"),
    [
        (
            {},
            "gr\u00fcn \U0001f600".encode(),
            "ActiveMQTextMessage",
            encode_body(messages.TEXT_MESSAGE, "gr\u00fcn \U0001f600"),
        ),
        ({}, b"\xff", "ActiveMQTextMessage", encode_body(messages.TEXT_MESSAGE, "\ufffd")),
        ({"content-length": "2"}, b"\0x", "ActiveMQBytesMessage", b"\0x"),
    ],
)
def test_a_stomp_message_is_a_text_or_octets(headers: dict[str, str], body: bytes, kind: str, content: bytes) -> None:
    node = node_of()
    stomp(node)
    end = End(node)
    end.consumer(Q)
    node.receive(9, Frame("SEND", {"destination": "/queue/q", "colour": "red", **headers}, body), NOW)
    (got,) = end.dispatched()
    assert (got.kind.name, got["content"]) == (kind, content)
    assert got["marshalledProperties"] == encode_map({"colour": "red"})
    # Its id is not one of OpenWire's; the acknowledgement brings it back all the same.
    ack = consumption.MESSAGE_ACK.make(
        destination=Q,
        consumerId=Data(ids.CONSUMER_ID, [end.name, 1, 1]),
        ackType=2,
        lastMessageId=got["messageId"],
        messageCount=1,
    )
    assert end.ask(ack).kind.name == "Response"
    counters = node.broker.counters("queue://q", NOW)
    assert counters is not None
    assert counters["size"] == 0


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("text", "gr\u00fc\u00dfe".encode()),
        ("bytes", b"\0\1\xff"),
        ("compressed text", b"a" * 99),
        ("compressed bytes", b"b" * 99),
        ("no text", b""),
        ("map", b'{"map":{"entry":[{"string":"k","int":1}]}}'),
        ("stream", b""),
        ("nonsense", b""),
    ],
)
def test_a_stomp_client_reads_texts_and_octets(name: str, body: bytes) -> None:
    node = node_of()
    stomp(node)
    node.receive(9, Frame("SUBSCRIBE", {"destination": "/queue/q", "id": "s"}), NOW)
    end, case = End(node), CASES[name]
    sent = end.message(case.kind, Q, end.producer(), content=case.content, compressed=case.compressed)
    sent["marshalledProperties"] = encode_map({"number": 3, "flag": True})
    end.ask(sent)
    frame = node.next_output(9, NOW)
    assert isinstance(frame, Frame)
    assert (frame.body, frame.headers["number"], frame.headers["flag"]) == (body, "3", "true")


# -- what must not pass


def test_a_message_that_a_connection_cannot_write_ends_that_connection_alone() -> None:
    """A STOMP header may be longer than a text of OpenWire."""
    node = node_of()
    stomp(node)
    end = End(node)
    end.consumer(Q)
    node.receive(9, Frame("SEND", {"destination": "/queue/q", "correlation-id": "x" * 70_000}, b""), NOW)
    with pytest.raises(FramingError, match="70000 bytes is too long"):
        end.read()


def test_bytes_that_are_no_openwire_are_told_after_what_came_before() -> None:
    framing = OpenWireFraming(Limits())
    good = Codec().encode(connections.KEEP_ALIVE_INFO.make())
    with pytest.raises(FramingError, match="data type 99") as raised:
        framing.feed(good + b"\0\0\0\1\x63")
    assert [type(frame).__name__ for frame in raised.value.frames] == ["KeepAliveInfo"]
    with pytest.raises(FramingError):
        OpenWireFraming(Limits(max_frame_bytes=256)).feed(b"\0\0\1\1")


def test_what_openwire_alone_knows_outlives_a_restart() -> None:
    end = End(node_of())
    end.ask(end.text(Q, end.producer(), marshalledProperties=PROPERTIES, userID="me", persistent=True))
    found = end.node.broker.browse("queue://q")
    assert found is not None
    (message,) = found
    assert isinstance(message, Message)
    again = storage.decode(message.destination, message.message_id, storage.encode_head(message), message.body)
    assert (again.form, again.extra, again.opened) == (message.form, message.extra, None)
    assert isinstance(again.packed, PackedProperties)
    assert again.packed.data == PROPERTIES
    assert again.properties == message.properties
    assert zlib.crc32(storage.encode_head(again).encode()) != 0


def test_a_client_that_comes_back_sends_again_what_was_not_answered() -> None:
    node = node_of()
    consumer = End(node, 7)
    consumer.consumer(Q)

    for connection in (1, 2):
        end = End(node, connection, connect=False)
        end.name = "ID:again"
        info = connections.CONNECTION_INFO.make(
            connectionId=Data(ids.CONNECTION_ID, [end.name]), clientId="me", faultTolerant=True, clientMaster=True
        )
        assert end.ask(info).kind.name == "Response"
        end.tell(connections.SESSION_INFO.make(sessionId=Data(ids.SESSION_ID, [end.name, 1])))
        producer = end.producer()
        for text in ("a", "b") if connection == 1 else ("b", "c"):
            sent = end.text(Q, producer, text, persistent=True)
            sent["messageId"]["producerSequenceId"] = " abc".index(text)  # type: ignore[index]  # a structure
            assert end.ask(sent).kind.name == "Response"
    bodies = [bytes(one["content"])[4:] for one in consumer.dispatched()]  # type: ignore[call-overload]
    assert bodies == [b"a", b"b", b"c"]
