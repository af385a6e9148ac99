"""Admission to a broker with users, in both protocols: who is not authenticated waits, who may not come in is refused,
and what may not be done does not reach the core.

Method: a node in virtual time. The test plays the edge: it answers ``Authenticate``.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from brokerproof.reference_broker.core.config import BrokerConfig
from brokerproof.reference_broker.core.instant import Now
from brokerproof.reference_broker.core.message import Message
from brokerproof.reference_broker.node import Node
from brokerproof.reference_broker.openwire.commands import (
    Command,
    ConnectionFault,
    ConnectionInfo,
    ConsumerInfo,
    ExceptionResponse,
    MessageDispatch,
    ProducerMessage,
    Response,
    WireFormatInfo,
)
from brokerproof.reference_broker.security.authority import Authority, Permission
from brokerproof.reference_broker.security.identity import Credentials, Identity
from brokerproof.reference_broker.session.actions import Authenticate, Close, Throttle
from brokerproof.reference_broker.stomp.frames import HEARTBEAT, Frame
from tests.fast.reference_broker.node.wire_pair import WALL_MS

NOW = Now(0, WALL_MS)
WORD = "open sesame"
ALICE = Identity("alice", frozenset({"users"}))
NO = "User name [alice] or password is invalid; check both"
AUTHORITY = Authority([Permission("queue://A", read=["users"], write=["users"], admin=["users"])])


def guarded(authority: Authority | None = None) -> Node:
    node = Node(BrokerConfig())
    node.require_authentication(authority)
    return node


def asked(node: Node) -> Credentials | None:
    """What the node wants to know, if it does."""
    found = [action.credentials for action in node.take_actions() if isinstance(action, Authenticate)]
    assert len(found) <= 1
    return found[0] if found else None


def said(node: Node) -> list[object]:
    """All that can be written to the first connection."""
    out = []
    while (frame := node.next_output(1, NOW)) is not None:
        out.append(frame)
    return out


def commands(node: Node) -> list[str]:
    return [frame.command if isinstance(frame, Frame) else type(frame).__name__ for frame in said(node)]


def connect_stomp(node: Node) -> None:
    node.connect(1, "stomp", NOW)
    node.receive(1, Frame("CONNECT", {"accept-version": "1.2", "login": "alice", "passcode": WORD}), NOW)


def connect_openwire(node: Node) -> None:
    node.connect(1, "openwire", NOW)
    node.receive(1, WireFormatInfo(), NOW)
    node.receive(1, ConnectionInfo("id", 1, response_required=True, user_name="alice", password=WORD), NOW)


CONNECTS = {"stomp": connect_stomp, "openwire": connect_openwire}
both = pytest.mark.parametrize("connect", list(CONNECTS.values()), ids=list(CONNECTS))


@both
def test_an_unauthenticated_peer_waits_with_all_that_it_sends_until_it_is_let_in(
    connect: Callable[[Node], None],
) -> None:
    node = guarded()
    connect(node)
    before = commands(node)
    node.receive(1, _sending(connect, "queue://A"), NOW)
    credentials = asked(node)
    assert credentials is not None
    assert (credentials.user, credentials.password) == ("alice", WORD)
    assert node.broker.destinations() == []
    assert "CONNECTED" not in before
    assert "Response" not in before
    assert asked(node) is None, "it is asked once"
    node.admit(1, ALICE, "", NOW)
    assert commands(node) == (["CONNECTED", "RECEIPT"] if connect is connect_stomp else ["Response", "Response"])
    assert node.broker.destinations() == ["queue://A"]
    node.broker.check()


@both
def test_the_edge_reads_nothing_while_the_answer_is_not_there(connect: Callable[[Node], None]) -> None:
    node = guarded()
    connect(node)
    assert [action.blocked for action in node.take_actions() if isinstance(action, Throttle)] == [True]
    node.admit(1, ALICE, "", NOW)
    assert [action.blocked for action in node.take_actions() if isinstance(action, Throttle)] == [False]


@both
def test_who_may_not_come_in_is_told_and_closed(connect: Callable[[Node], None]) -> None:
    node = guarded()
    connect(node)
    node.receive(1, _sending(connect, "queue://A"), NOW)
    said(node)
    node.take_actions()
    node.admit(1, None, NO, NOW)
    assert any(isinstance(action, Close) and not action.inactive for action in node.take_actions())
    (answer,) = said(node)
    if isinstance(answer, Frame):
        assert (answer.command, answer.headers["code"], answer.body.decode()) == ("ERROR", "not-authenticated", NO)
    else:
        assert isinstance(answer, ExceptionResponse)
        assert (answer.correlation_id, answer.text, answer.code) == (1, NO, "not-authenticated")
    assert node.broker.destinations() == []
    assert node.broker.broker_counters()["connections"] == 0
    node.disconnect(1, NOW)
    node.admit(1, ALICE, "", NOW)  # too late, harmless


def test_without_response_required_openwire_is_told_by_a_fault() -> None:
    node = guarded()
    node.connect(1, "openwire", NOW)
    node.receive(1, WireFormatInfo(), NOW)
    node.receive(1, ConnectionInfo("id", user_name="alice", password=WORD), NOW)
    said(node)
    node.admit(1, None, NO, NOW)
    (answer,) = said(node)
    assert isinstance(answer, ConnectionFault)


def test_what_comes_before_the_credentials_is_treated_as_ever() -> None:
    node = guarded()
    node.connect(1, "stomp", NOW)
    node.receive(1, HEARTBEAT, NOW)
    node.receive(1, Frame("SEND", {"destination": "/queue/A"}), NOW)
    assert asked(node) is None
    (error,) = said(node)
    assert isinstance(error, Frame)
    assert "came before CONNECT" in error.body.decode()


def test_an_unguarded_broker_asks_nobody() -> None:
    node = Node(BrokerConfig())
    connect_stomp(node)
    assert asked(node) is None
    assert commands(node) == ["CONNECTED"]


def test_a_connection_that_goes_while_it_is_checked_is_forgotten() -> None:
    node = guarded()
    connect_stomp(node)
    node.disconnect(1, NOW)
    node.admit(1, ALICE, "", NOW)
    assert node.broker.broker_counters()["connections"] == 0


@both
def test_what_may_not_be_done_is_refused_and_does_not_reach_the_core(connect: Callable[[Node], None]) -> None:
    node = guarded(AUTHORITY)
    connect(node)
    node.admit(1, ALICE, "", NOW)
    said(node)
    node.receive(1, _sending(connect, "queue://B"), NOW)
    (answer,) = said(node)
    text = "User alice is not authorized to write to: queue://B; grant write on it to one of the user's groups"
    if isinstance(answer, Frame):
        assert (answer.headers["code"], answer.headers["receipt-id"]) == ("not-authorized", "r")
        assert answer.body.decode() == text
    else:
        assert isinstance(answer, ExceptionResponse)
        assert (answer.correlation_id, answer.text, answer.code) == (7, text, "not-authorized")
        node.receive(1, _sending(connect, "queue://A"), NOW)
        node.receive(1, ConsumerInfo("c", "queue://A", 1), NOW)
        assert [type(frame) for frame in said(node)] == [Response, MessageDispatch], "the connection goes on"
    assert "queue://B" not in node.broker.destinations()
    node.broker.check()


def test_a_stomp_client_has_its_own_temporary_queue_and_its_error() -> None:
    """Of a frame that makes a temporary destination and sends elsewhere, the second is refused."""
    node = guarded(AUTHORITY)
    connect_stomp(node)
    node.admit(1, ALICE, "", NOW)
    said(node)
    node.receive(1, Frame("SEND", {"destination": "/queue/B", "reply-to": "/temp-queue/x"}), NOW)
    assert commands(node) == ["ERROR"]
    node.broker.check()


def _sending(connect: Callable[[Node], None], destination: str) -> Frame | Command:
    if connect is connect_stomp:
        return Frame("SEND", {"destination": destination.replace("queue://", "/queue/"), "receipt": "r"})
    return ProducerMessage(Message("m", destination, b""), command_id=7, response_required=True)
