"""The node and its journal: no answer leaves before what it promises is safe, nobody else waits, order is kept.

At the end a storage that drops, keeps and reorders whatever was not synced, against everything that was answered."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokerproof.reference_broker.core.broker import Broker
from brokerproof.reference_broker.core.config import BrokerConfig, ConfigError
from brokerproof.reference_broker.core.effects import Accepted, Journalled
from brokerproof.reference_broker.core.events import Send
from brokerproof.reference_broker.core.instant import Now
from brokerproof.reference_broker.core.message import Message
from brokerproof.reference_broker.core.records import MessageAdded
from brokerproof.reference_broker.core.recovery import Recovered
from brokerproof.reference_broker.node import Node
from brokerproof.reference_broker.session.actions import Close, Log, Sync
from brokerproof.reference_broker.session.connection_state import CommitWaiter
from brokerproof.reference_broker.stomp.frames import Frame
from brokerproof.reference_broker.storage.group_commit import GroupCommitGate
from brokerproof.reference_broker.storage.journal import FULL, Trouble
from brokerproof.reference_broker.storage.memory import MemoryJournal
from tests.tools import examples

NOW = Now(0, 1_700_000_000_000)
PERSISTENT = {"destination": "/queue/q", "persistent": "true"}


def hello(node: Node, connection: int) -> None:
    node.connect(connection, "stomp", NOW)
    node.receive(connection, Frame("CONNECT", {"accept-version": "1.2"}), NOW)
    said(node, connection)


def said(node: Node, connection: int = 1) -> list[str]:
    """What can be written now: receipts by name, other frames by command, messages by body."""
    out = []
    while (frame := node.next_output(connection, NOW)) is not None:
        assert isinstance(frame, Frame)
        name = frame.headers.get("receipt-id", frame.command) if frame.command == "RECEIPT" else frame.command
        out.append(frame.body.decode() if frame.command == "MESSAGE" else name)
    return out


def broker(*connections: int) -> tuple[Node, MemoryJournal]:
    journal = MemoryJournal()
    node = Node(BrokerConfig(persistent=True), journal=journal)
    node.recover(NOW)
    for connection in connections:
        hello(node, connection)
    node.take_actions()
    return node, journal


def send(node: Node, receipt: str = "", connection: int = 1, body: str = "m", **headers: str) -> None:
    asked = {"receipt": receipt} if receipt else {}
    node.receive(connection, Frame("SEND", {**PERSISTENT, **asked, **headers}, body.encode()), NOW)


def sync(node: Node, journal: MemoryJournal) -> None:
    ticket = node.begin_sync()
    journal.sync()
    node.end_sync(ticket, NOW)


def syncs(node: Node) -> int:
    return sum(isinstance(action, Sync) for action in node.take_actions())


def test_a_persistent_broker_without_a_storage_is_refused() -> None:
    with pytest.raises(ConfigError, match="needs a storage; name one"):
        Node(BrokerConfig(persistent=True))


def test_a_receipt_waits_for_its_sync() -> None:
    node, journal = broker(1)
    send(node, "r")
    assert syncs(node) == 1
    assert said(node) == []
    sync(node, journal)
    assert said(node) == ["r"]
    assert syncs(node) == 0


def test_a_sync_covers_only_what_came_before_it_began() -> None:
    node, journal = broker(1)
    send(node, "early")
    ticket = node.begin_sync()
    send(node, "late")
    journal.sync()
    node.end_sync(ticket, NOW)
    assert said(node) == ["early"]
    assert syncs(node) == 2, "one for the first message, one for the second; none in between"
    sync(node, journal)
    assert said(node) == ["late"]


def test_what_was_asked_for_without_a_receipt_is_covered_by_the_next_receipt() -> None:
    node, journal = broker(1)
    send(node)
    node.receive(1, Frame("SEND", {"destination": "/queue/other", "receipt": "r"}, b"volatile"), NOW)
    assert said(node) == []
    sync(node, journal)
    assert said(node) == ["r"]


def test_the_receipt_of_a_disconnect_and_the_close_wait_too() -> None:
    node, journal = broker(1)
    send(node)
    node.receive(1, Frame("DISCONNECT", {"receipt": "bye"}), NOW)
    node.receive(1, Frame("SEND", PERSISTENT, b"after the end"), NOW)
    assert said(node) == []
    assert not [action for action in node.take_actions() if isinstance(action, Close)]
    sync(node, journal)
    assert said(node) == ["bye"]
    assert [action.reason for action in node.take_actions() if isinstance(action, Close)] == ["DISCONNECT"]
    assert node.broker.broker_counters()["size"] == 1


def test_who_sends_nothing_persistent_never_waits() -> None:
    node, _ = broker(1, 2)
    send(node, "r")
    node.receive(2, Frame("SEND", {"destination": "/queue/q", "receipt": "quick"}, b"volatile"), NOW)
    assert said(node, 2) == ["quick"]


@pytest.mark.parametrize(("persistent", "waits"), [(True, True), (False, False)])
def test_a_repeated_send_waits_for_the_first_one(persistent: bool, waits: bool) -> None:
    """Nothing is recorded of it, but its receipt promises what the first one has not been promised yet."""
    gate, first, second = GroupCommitGate(MemoryJournal()), CommitWaiter(), CommitWaiter()
    waiters = {1: first, 2: second}
    send = Send(1, Message("m", "queue://q", b"", persistent=True), number=1)
    gate.record([Journalled(MessageAdded(send.message, 1, 0, 0))], send, waiters)
    again = Send(2, Message("m", "queue://q", b"", persistent=persistent), number=1)
    gate.record([Accepted(2, 7)], again, waiters)
    assert gate.waits(second) is waits
    gate.end_sync(gate.begin_sync())
    assert not gate.waits(second)


def test_a_consumer_gets_a_message_before_it_is_safe_and_its_acknowledgement_waits() -> None:
    node, journal = broker(1, 2)
    subscription = {"id": "s", "destination": "/queue/q", "ack": "client-individual"}
    node.receive(2, Frame("SUBSCRIBE", subscription), NOW)
    send(node, "r")
    frame = node.next_output(2, NOW)
    assert isinstance(frame, Frame)
    assert (frame.command, said(node, 1)) == ("MESSAGE", [])
    node.receive(2, Frame("ACK", {"id": frame.headers["ack"], "receipt": "a"}), NOW)
    assert said(node, 2) == []
    sync(node, journal)
    assert (said(node, 1), said(node, 2)) == (["r"], ["a"])


def test_messages_do_not_overtake_the_receipt_of_their_subscribe() -> None:
    node, journal = broker(1, 2)
    send(node, "", 2, body="m")
    subscribe = Frame("SUBSCRIBE", {"id": "s", "destination": "/queue/q", "ack": "client", "receipt": "r"})
    send(node, "", 1, body="n")
    node.receive(1, subscribe, NOW)
    assert said(node, 1) == []
    sync(node, journal)
    assert said(node, 1) == ["r", "m", "n"]


def test_messages_that_wait_for_a_receipt_come_back_when_the_connection_ends() -> None:
    node, journal = broker(1, 2)
    send(node, "", 1, body="m")
    node.receive(1, Frame("SUBSCRIBE", {"id": "s", "destination": "/queue/q", "ack": "client", "receipt": "r"}), NOW)
    node.disconnect(1, NOW)
    sync(node, journal)
    counters = node.broker.counters("queue://q", NOW)
    assert counters is not None
    assert (counters["size"], counters["in_flight"]) == (1, 0)
    node.broker.check()


def test_order_is_kept_and_a_refusal_waits_its_turn() -> None:
    node, journal = broker(1)
    send(node, "one")
    send(node, "two", AMQ_SCHEDULED_DELAY="999999999999999")
    send(node, "three")
    node.receive(1, Frame("DISCONNECT", {"receipt": "bye"}), NOW)
    assert said(node) == []
    sync(node, journal)
    assert said(node) == ["one", "ERROR"], "the ERROR ends the connection; what came after it was never looked at"
    assert node.broker.broker_counters()["size"] == 1


def test_an_answer_to_a_connection_that_is_gone_is_forgotten() -> None:
    node, journal = broker(1)
    send(node, "r")
    node.disconnect(1, NOW)
    sync(node, journal)
    assert Recovered(journal.replay()).messages


def test_a_failed_sync_keeps_the_answers_and_asks_for_nothing_new() -> None:
    node, journal = broker(1)
    send(node, "r")
    assert syncs(node) == 1
    node.begin_sync()
    node.end_sync(0, NOW)
    send(node, "s")
    assert (said(node), syncs(node)) == ([], 0)
    sync(node, journal)
    assert said(node) == ["r", "s"]


class Full(MemoryJournal):
    """A storage with a switch."""

    full = False

    def trouble(self) -> Trouble | None:
        return Trouble(FULL, "no room; consume messages") if self.full else None


def test_a_storage_in_trouble_is_heard_and_said_once() -> None:
    journal = Full()
    node = Node(BrokerConfig(persistent=True), journal=journal)
    node.recover(NOW)
    hello(node, 1)
    node.take_actions()
    send(node, "kept")
    journal.full = True
    sync(node, journal)
    sync(node, journal)
    assert node.is_troubled()
    assert said(node) == ["kept"]
    logs = [action.text for action in node.take_actions() if isinstance(action, Log)]
    assert logs == ["persistent messages are refused: no room; consume messages"]
    send(node, "refused")
    frame = node.next_output(1, NOW)
    assert isinstance(frame, Frame)
    assert (frame.command, frame.headers["code"]) == ("ERROR", "storage-full")
    assert frame.headers["message"] == "no room; consume messages"
    journal.full = False
    sync(node, journal)
    assert not node.is_troubled()
    hello(node, 2)
    send(node, "again", 2)
    sync(node, journal)
    assert said(node, 2) == ["again"]
    assert Recovered(journal.replay()).messages.keys() == {("queue://q", "ID-b-1-1"), ("queue://q", "ID-b-2-1")}


# -- against a storage that keeps no more than it must


class Torn(MemoryJournal):
    """Keeps of what was not synced whatever it likes: any batches, in any order, but each whole."""

    def tear(self, kept: list[int]) -> None:
        survivors = [self.unsafe[number] for number in kept if number < len(self.unsafe)]
        self.crash()
        self.safe += survivors


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("send"), st.booleans()),
        st.tuples(st.just("take"), st.integers(0, 3)),
        st.just(("sync",)),
        st.just(("begin",)),
        st.just(("end",)),
    ),
    max_size=30,
)


class Story:
    """One producer, one consumer, and what both were told."""

    def __init__(self, journal: Torn) -> None:
        self.journal = journal
        self.node = Node(BrokerConfig(persistent=True), journal=journal)
        self.node.recover(NOW)
        hello(self.node, 1)
        hello(self.node, 2)
        subscription = {"id": "s", "destination": "/queue/q", "ack": "client-individual"}
        self.node.receive(2, Frame("SUBSCRIBE", subscription), NOW)
        self.sent: list[str] = []
        #: body -> ack id, in the order of arrival.
        self.got: dict[str, str] = {}
        self.acked: list[str] = []
        self.answers: list[str] = []
        self.ticket = -1

    def perform(self, step: tuple[Any, ...]) -> None:
        what, *rest = step
        if what == "send":
            self.sent.append(f"m{len(self.sent)}")
            headers = {"persistent": "true" if rest[0] else "false"}
            send(self.node, self.sent[-1], body=self.sent[-1], **headers)
        elif what == "take" and self.got:
            body = list(self.got)[rest[0] % len(self.got)]
            self.node.receive(2, Frame("ACK", {"id": self.got.pop(body), "receipt": f"ack {body}"}), NOW)
            self.acked.append(body)
        elif what == "begin" and self.ticket < 0:
            self.ticket = self.node.begin_sync()
            self.journal.sync()
        elif what == "end" and self.ticket >= 0:
            self.node.end_sync(self.ticket, NOW)
            self.ticket = -1
        elif what == "sync" and self.ticket < 0:
            sync(self.node, self.journal)
        self.answers += said(self.node, 1)
        while (frame := self.node.next_output(2, NOW)) is not None:
            assert isinstance(frame, Frame)
            if frame.command == "MESSAGE":
                self.got[frame.body.decode()] = frame.headers["ack"]
            else:
                self.answers.append(frame.headers["receipt-id"])


def restored(journal: MemoryJournal) -> list[str]:
    """Bodies of the queue after a recovery, in order; the recovery itself may be synced or not."""
    core = Broker(BrokerConfig(persistent=True))
    core.restore(journal.replay(), NOW)
    core.check()
    messages = sorted(Recovered(journal.replay()).messages.values(), key=lambda added: added.order)
    return [added.message.body.decode() for added in messages]


@settings(max_examples=examples(66), deadline=None, derandomize=True)
@given(steps=STEPS, kept=st.lists(st.integers(0, 8), unique=True, max_size=8))
def test_what_was_answered_survives_and_what_was_consumed_stays_away(
    steps: list[tuple[Any, ...]], kept: list[int]
) -> None:
    story = Story(Torn())
    durable: list[str] = []
    for step in steps:
        story.perform(step)
        if step == ("send", True):
            durable.append(story.sent[-1])
    story.journal.tear(kept)
    left = restored(story.journal)
    assert restored(story.journal) == left, "recovering twice gives the same"
    for body in durable:
        if body in story.answers and body not in story.acked:
            assert body in left, f"{body} was promised"
        if f"ack {body}" in story.answers:
            assert body not in left, f"{body} came back after its acknowledgement was answered"
    assert set(left) <= set(durable), "only persistent messages survive"
    assert left == [body for body in durable if body in left], "in order, each once"
