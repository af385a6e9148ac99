"""The STOMP agent against a scripted broker: what it answers, when, and what it says when the link breaks."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any
from zlib import crc32

import pytest

from brokerproof.conformance.agents import loop, protocol
from brokerproof.conformance.agents.message import make_body
from brokerproof.conformance.agents.protocol import AnyAgentEvent, Reply, encode, parse_answer
from brokerproof.conformance.agents.stomp_agent import PunctualMonitor, StompAgent
from brokerproof.conformance.experiment import operations as ops
from brokerproof.conformance.experiment.wire_names import WireNames
from brokerproof.reference_broker.stomp.codec import FrameDecoder
from brokerproof.reference_broker.stomp.codec import encode as encode_frame
from brokerproof.reference_broker.stomp.frames import Frame

DEADLINE_S = 5.0


class Desk:
    """Both ends of an agent: our requests and its answers, its socket and our broker."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.settimeout(DEADLINE_S)
        agent_in, self.requests = os.pipe()
        answers, agent_out = os.pipe()
        self.answers = os.fdopen(answers, "rb")
        self.thread = threading.Thread(target=StompAgent(agent_in, agent_out).run, daemon=True)
        self.thread.start()
        self.broker: socket.socket | None = None
        self.decoder = FrameDecoder()
        self.frames: list[Frame] = []
        self.number = 0

    def post(self, operation: Any, deadline_ms: int = 10_000) -> int:
        self.number += 1
        os.write(self.requests, encode(protocol.Request(self.number, operation, deadline_ms)))
        return self.number

    def said(self) -> Reply | AnyAgentEvent:
        return parse_answer(self.answers.readline(), "test")

    def reply(self) -> Reply:
        found = self.said()
        assert isinstance(found, Reply), found
        return found

    def url(self) -> str:
        return f"stomp://127.0.0.1:{self.listener.getsockname()[1]}"

    def connect(self, version: str = "1.2", **fields: Any) -> Reply:
        self.post(ops.Connect(url=self.url(), **fields))
        self.broker, _ = self.listener.accept()
        self.broker.settimeout(DEADLINE_S)
        assert self.heard().command == "CONNECT"
        self.tell("CONNECTED", {"version": version})
        return self.reply()

    def heard(self) -> Frame:
        """The next frame from the agent."""
        assert self.broker is not None
        while not self.frames:
            self.frames += [item for item in self.decoder.feed(self.broker.recv(65536)) if isinstance(item, Frame)]
        return self.frames.pop(0)

    def tell(self, command: str, headers: dict[str, str], body: bytes = b"") -> None:
        assert self.broker is not None
        self.broker.sendall(encode_frame(Frame(command, headers, body)))

    def receipt(self) -> Frame:
        """Hear a frame and confirm it."""
        frame = self.heard()
        self.tell("RECEIPT", {"receipt-id": frame.headers["receipt"]})
        return frame

    def close(self) -> None:
        os.close(self.requests)
        self.thread.join(DEADLINE_S)
        self.answers.close()
        self.listener.close()
        if self.broker is not None:
            self.broker.close()
        assert not self.thread.is_alive()


@pytest.fixture
def desk() -> Iterator[Desk]:
    desk = Desk()
    yield desk
    desk.close()


def test_hello_tells_protocol_and_clock(desk: Desk) -> None:
    before_ms = time.time_ns() // 1_000_000
    desk.post(protocol.Hello())
    reply = desk.reply()
    assert reply.ok is not None
    assert reply.ok["protocol"] == protocol.PROTOCOL
    assert before_ms <= reply.wall_ms <= time.time_ns() // 1_000_000
    assert reply.wall_at is not None
    assert reply.wall_at[0] <= reply.wall_at[1]


def test_a_send_is_answered_when_its_receipt_comes(desk: Desk) -> None:
    assert desk.connect().ok is not None
    desk.post(ops.Send(dest="queue://q0", message="run:p0/1", ttl_ms=120_000, delay_ms=500, size=64))
    frame = desk.heard()
    stamp = int(frame.headers["timestamp"])
    assert frame.headers["destination"] == "/queue/q0"
    assert frame.headers["persistent"] == "true"
    assert frame.headers["AMQ_SCHEDULED_DELAY"] == "500"
    assert int(frame.headers["expires"]) == stamp + 120_000
    assert frame.body == make_body("run:p0/1", 64)
    told_ns = time.monotonic_ns()
    desk.tell("RECEIPT", {"receipt-id": frame.headers["receipt"]})
    reply = desk.reply()
    assert reply.ok == {"expiration_ms": stamp + 120_000, "timestamp_ms": stamp, "body": crc32(frame.body)}
    assert reply.t0 < told_ns <= reply.t1 + 1_000_000


@pytest.mark.parametrize(
    ("version", "unknown", "text"), [("1.2", "no answer in time", None), ("1.1", None, "no"), ("1.0", None, "no")]
)
def test_after_an_error_that_names_no_frame_it_does_not_wait_for_long(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, version: str, unknown: str | None, text: str | None
) -> None:
    """STOMP 1.2, "ERROR": the receipt-id SHOULD be there, and the broker MUST close. Whether it was refused nobody
    knows then; before 1.2 it need not close (Artemis does not), and this was the answer.
    """
    monkeypatch.setattr(loop, "CLOSES_MS", 50)
    desk.connect(version)
    desk.post(ops.Send(dest="queue://q0", message="run:p0/1"))
    desk.heard()
    desk.tell("ERROR", {"message": "no"})
    reply = desk.reply()
    assert (reply.unknown, reply.fail and reply.fail.text) == (unknown, text)


@pytest.mark.parametrize(("stamp", "header", "told"), [("none", None, None), ("zero", "0", 0)])
def test_what_timestamp_travels(desk: Desk, stamp: Any, header: str | None, told: int | None) -> None:
    desk.connect()
    desk.post(ops.Send(dest="queue://q0", message="run:p0/1", stamp=stamp))
    assert desk.receipt().headers.get("timestamp") == header
    reply = desk.reply()
    assert reply.ok == {"expiration_ms": 0, "timestamp_ms": told, "body": crc32(b"run:p0/1\n")}


def test_arrivals_come_unasked_and_are_acknowledged_by_name(desk: Desk) -> None:
    desk.connect()
    desk.post(ops.Subscribe(dest="queue://q0", consumer="c0/1", prefetch=3, dispatch="sync", ack="individual"))
    frame = desk.receipt()
    assert frame.headers["activemq.prefetchSize"] == "3"
    assert frame.headers["activemq.dispatchAsync"] == "false"
    assert frame.headers["ack"] == "client-individual"
    desk.reply()
    headers = {
        "subscription": "c0/1",
        "message-id": "m1",
        "destination": "/queue/q0",
        "ack": "a1",
        "redelivered": "true",
    }
    desk.tell("MESSAGE", {**headers, "expires": "77", "timestamp": "55"}, make_body("run:p0/1", 64))
    event = desk.said()
    assert isinstance(event, protocol.Arrive)
    assert (event.consumer, event.message, event.redelivered) == ("c0/1", "run:p0/1", True)
    assert (event.expiration_ms, event.timestamp_ms) == (77, 55)
    desk.post(ops.Ack(consumer="c0/1", messages=["run:p0/1"], mode="individual"))
    assert desk.receipt().headers["id"] == "a1"
    assert desk.reply().ok is not None
    desk.post(ops.Nack(consumer="c0/1", messages=["run:p0/1"]))
    frame = desk.receipt()
    assert (frame.command, frame.headers["id"]) == ("NACK", "a1")
    assert desk.reply().ok is not None


def test_each_copy_of_a_message_is_acknowledged_once_and_what_came_again_as_what_it_is_now(desk: Desk) -> None:
    desk.connect()
    desk.post(ops.Subscribe(dest="queue://q0", consumer="c0/1", ack="individual"))
    desk.receipt()
    desk.reply()

    def arrive(ack: str) -> None:
        headers = {"subscription": "c0/1", "message-id": "m1", "destination": "/queue/q0", "ack": ack}
        desk.tell("MESSAGE", headers, b"run:p0/1\n")
        assert isinstance(desk.said(), protocol.Arrive)

    def named() -> str:
        desk.post(ops.Ack(consumer="c0/1", messages=["run:p0/1"], mode="individual"))
        found = desk.receipt().headers["id"]
        assert desk.reply().ok is not None
        return found

    arrive("a1")
    arrive("a2")
    assert [named(), named(), named()] == ["a1", "a2", "a2"], "the last may have been undone by a rollback"
    arrive("a3")
    assert named() == "a3"


def test_where_no_header_marks_what_comes_again_nobody_knows_whether_it_does(desk: Desk) -> None:
    assert desk.connect(names=WireNames(headers={"redelivered": ""})).ok is not None
    desk.post(ops.Subscribe(dest="queue://q0", consumer="c0/1"))
    desk.receipt()
    desk.reply()
    desk.tell("MESSAGE", {"subscription": "c0/1", "message-id": "m1", "destination": "/queue/q0"}, b"run:p0/1\n")
    event = desk.said()
    assert isinstance(event, protocol.Arrive)
    assert event.redelivered is None


def test_what_a_broker_has_no_word_for_is_neither_said_nor_believed(desk: Desk) -> None:
    assert desk.connect(names=WireNames(headers={"priority": "", "timestamp": ""})).ok is not None
    desk.post(ops.Send(dest="queue://q0", message="run:p0/1", priority=7))
    sent = desk.receipt()
    assert not {"priority", "timestamp"} & set(sent.headers)
    assert (desk.reply().ok or {})["timestamp_ms"] is None
    desk.post(ops.Subscribe(dest="queue://q0", consumer="c0/1"))
    desk.receipt()
    desk.reply()
    headers = {"subscription": "c0/1", "message-id": "m1", "destination": "/queue/q0", "timestamp": "55"}
    desk.tell("MESSAGE", headers, b"run:p0/1\n")
    event = desk.said()
    assert isinstance(event, protocol.Arrive)
    assert (event.priority, event.timestamp_ms) == (None, 0)


def test_a_selector_names_header_fields_as_the_broker_does(desk: Desk) -> None:
    assert desk.connect(names=WireNames(identifiers={"JMSPriority": "AMQPriority"})).ok is not None
    desk.post(ops.Subscribe(dest="queue://q0", consumer="c0/1", selector="JMSPriority > 4 AND kind = 'JMSPriority'"))
    assert desk.receipt().headers["selector"] == "AMQPriority > 4 AND kind = 'JMSPriority'"


def test_a_foreign_message_has_no_name(desk: Desk) -> None:
    desk.connect()
    desk.post(ops.Subscribe(dest="queue://q0", consumer="c0/1"))
    desk.receipt()
    headers = {"subscription": "c0/1", "message-id": "m1", "destination": "/queue/q0"}
    desk.reply()
    desk.tell("MESSAGE", headers, b"somebody else's")
    event = desk.said()
    assert isinstance(event, protocol.Arrive)
    assert event.message == ""


def test_a_frame_that_comes_in_pieces_is_told_before_it_is_whole(desk: Desk) -> None:
    desk.connect()
    assert desk.broker is not None
    desk.broker.sendall(b"MESSAGE\nsubscription:c0/1\n")
    assert isinstance(desk.said(), protocol.Partial)
    desk.broker.sendall(b"message-id:1\n")  # so soon it is not told again
    desk.broker.close()
    closed = desk.said()
    assert isinstance(closed, protocol.Closed)


@pytest.mark.parametrize(("code", "told"), [("full", "full"), ("", "refused"), ("unsupported", "refused")])
def test_a_refusal_fails_the_request_it_names(desk: Desk, code: str, told: str) -> None:
    """``unsupported`` is the word of an agent that did not ask the broker. The stamps of what is refused are told."""
    desk.connect()
    desk.post(ops.Send(dest="queue://q0", message="run:p0/1", ttl_ms=1000))
    frame = desk.heard()
    desk.tell("ERROR", {"receipt-id": frame.headers["receipt"], "message": "no room", "code": code})
    reply = desk.reply()
    assert reply.fail == protocol.Fail(told, "no room")
    assert reply.stamps is not None
    assert reply.stamps["expiration_ms"]


def test_a_lost_connection_leaves_what_waits_unknown_and_tells_why(desk: Desk) -> None:
    desk.connect()
    number = desk.post(ops.Send(dest="queue://q0", message="run:p0/1", ttl_ms=1000))
    desk.heard()
    desk.tell("ERROR", {"message": "broker stops"})
    assert desk.broker is not None
    desk.broker.close()
    event = desk.said()
    assert isinstance(event, protocol.Closed)
    assert event.who == "broker"
    assert "broker stops" in event.reason
    reply = desk.reply()
    assert reply.id == number
    assert reply.unknown is not None
    # It may arrive, so what it looks like is told all the same.
    assert reply.stamps is not None
    assert reply.stamps["expiration_ms"]


def test_no_answer_in_time_is_unknown_and_a_late_one_is_nothing(desk: Desk) -> None:
    desk.connect()
    desk.post(ops.Send(dest="queue://q0", message="run:p0/1"), deadline_ms=30)
    frame = desk.heard()
    reply = desk.reply()
    assert reply.unknown == "no answer in time"
    desk.tell("RECEIPT", {"receipt-id": frame.headers["receipt"]})
    desk.post(protocol.Hello())
    assert desk.reply().id == desk.number


def test_a_broker_that_says_nothing_is_no_connection(desk: Desk) -> None:
    desk.post(ops.Connect(url=desk.url()), deadline_ms=30)
    assert desk.reply().unknown is not None
    desk.post(ops.Send(dest="queue://q0", message="run:p0/1"))
    reply = desk.reply()
    assert reply.fail is not None
    assert reply.fail.code == "not-connected"


@pytest.mark.parametrize("frame", [b"DANCE\n\n\0", b"MESSAGE\nmessage-id:1\ndestination:/queue/q0\n\n\0"])
def test_a_broker_that_breaks_stomp_is_named(desk: Desk, frame: bytes) -> None:
    desk.connect()
    assert desk.broker is not None
    desk.broker.sendall(frame)
    event = desk.said()
    assert isinstance(event, protocol.Closed)
    assert "broke the protocol" in event.reason


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (ops.Take(consumer="c0/1"), protocol.UNSUPPORTED),
        (ops.Ack(consumer="c0/1", messages=["run:p0/9"]), "unknown-message"),
        (ops.Connect(url="stomp://127.0.0.1:1"), "connected"),
    ],
)
def test_what_cannot_be_done_is_refused(desk: Desk, request_: Any, code: str) -> None:
    desk.connect()
    desk.post(request_)
    reply = desk.reply()
    assert reply.fail is not None
    assert reply.fail.code == code


def test_nobody_listening_is_refused_with_the_address(desk: Desk) -> None:
    # A port that is taken and does not listen: no other process can be there.
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        url = f"stomp://127.0.0.1:{held.getsockname()[1]}"
        desk.post(ops.Connect(url=url))
        reply = desk.reply()
    assert reply.fail is not None
    assert url in reply.fail.text


def test_a_goodbye_waits_for_nothing_and_a_drop_says_nothing(desk: Desk) -> None:
    desk.connect()
    desk.post(ops.Leave(consumer="c0/1"))
    assert desk.reply().ok is not None
    assert desk.heard().command == "UNSUBSCRIBE"
    desk.post(ops.Leave(how="drop"))
    assert desk.reply().ok is not None
    assert desk.broker is not None
    assert desk.broker.recv(100) == b""


def test_quit_disconnects_and_ends_the_process(desk: Desk) -> None:
    desk.connect()
    desk.post(protocol.Quit())
    assert desk.reply().ok is not None
    assert desk.heard().command == "DISCONNECT"
    desk.thread.join(DEADLINE_S)
    assert not desk.thread.is_alive()


def test_heart_beats_are_asked_for_and_sent(desk: Desk) -> None:
    desk.post(ops.Connect(url=desk.url(), heartbeat_ms=(40, 40)))
    desk.broker, _ = desk.listener.accept()
    desk.broker.settimeout(DEADLINE_S)
    assert desk.heard().headers["heart-beat"] == "40,40"
    desk.tell("CONNECTED", {"version": "1.2", "heart-beat": "40,40"})
    assert desk.reply().ok is not None
    # A beat is a bare end of line.
    assert desk.broker.recv(1) == b"\n"
    # And a broker that never beats is given up.
    event = desk.said()
    assert isinstance(event, protocol.Closed)
    assert event.who == "client"
    assert "inactive" in event.reason


def test_heart_beats_begin_with_the_hello() -> None:
    monitor = PunctualMonitor("127.0.0.1:61613", 0)
    monitor.start(0, 2000, 500, 1000)
    assert monitor.next_due_ns() == 500_000_000


def test_a_transaction_is_named_in_every_frame(desk: Desk) -> None:
    desk.connect()
    for request, command in (
        (ops.Begin(tx="t1"), "BEGIN"),
        (ops.Send(dest="queue://q", message="m1", tx="t1", kind="a", group="g1"), "SEND"),
        (ops.Commit(tx="t1"), "COMMIT"),
        (ops.Abort(tx="t1"), "ABORT"),
    ):
        desk.post(request)
        frame = desk.receipt()
        assert (frame.command, frame.headers["transaction"]) == (command, "t1")
        if command == "SEND":
            assert (frame.headers["kind"], frame.headers["JMSXGroupID"]) == ("a", "g1")
        assert desk.reply().ok is not None


def test_what_a_consumer_asks_for_is_written(desk: Desk) -> None:
    desk.connect(client_id="me")
    desk.post(
        ops.Subscribe(
            dest="topic://t",
            consumer="c0/1",
            selector="kind = 'a'",
            durable="d1",
            exclusive=True,
            no_local=True,
            priority=3,
        )
    )
    headers = desk.receipt().headers
    assert headers["selector"] == "kind = 'a'"
    assert headers["activemq.subscriptionName"] == "d1"
    assert headers["activemq.exclusive"] == headers["activemq.noLocal"] == "true"
    assert headers["activemq.priority"] == "3"
    assert desk.reply().ok is not None
    desk.post(ops.Unsubscribe(durable="d1"))
    assert desk.receipt().headers["activemq.subscriptionName"] == "d1"


def test_a_browser_shows_and_keeps_nothing(desk: Desk) -> None:
    desk.connect()
    desk.post(ops.Subscribe(dest="queue://q", consumer="c0/1", browser=True))
    desk.receipt()
    assert desk.reply().ok is not None
    headers = {"subscription": "c0/1", "message-id": "1", "destination": "/queue/q"}
    desk.tell("MESSAGE", headers, make_body("m1", 0))
    shown = desk.said()
    assert isinstance(shown, protocol.Browse)
    assert (shown.consumer, shown.message, shown.complete) == ("c0/1", "m1", False)
    desk.tell("MESSAGE", {**headers, "browser": "end"})
    end = desk.said()
    assert isinstance(end, protocol.Browse)
    assert (end.message, end.complete) == ("", True)
    desk.post(ops.Ack(consumer="c0/1", messages=["m1"]))
    assert desk.reply().fail is not None
