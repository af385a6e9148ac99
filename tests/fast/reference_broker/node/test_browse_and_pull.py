"""Looking without taking, and asking for one message at a time, through both protocols."""

from __future__ import annotations

import pytest

from brokerproof.reference_broker.core.instant import NS_PER_MS, Now
from brokerproof.reference_broker.openwire.client import ClientSession
from brokerproof.reference_broker.openwire.commands import MessageAck, MessageDispatch, MessagePull
from brokerproof.reference_broker.session.notice import Delivered, Discarded, Empty, Failed
from brokerproof.reference_broker.stomp.frames import Frame
from tests.fast.reference_broker.node.wire_pair import Pair
from tests.fast.reference_broker.openwire.test_openwire import send, take
from tests.fast.reference_broker.stomp.test_broker import inject, written


def empties(pair: Pair, connection: int = 1) -> list[str]:
    return [notice.consumer for notice in pair.of(connection, Empty)]  # type: ignore[attr-defined]


# -- browsers


def test_a_stomp_browser_sees_what_is_there_takes_nothing_and_is_told_the_end() -> None:
    pair = Pair()
    client = pair.stomp()
    for number in range(3):
        client.send("queue://q", b"%d" % number)
    client.subscribe("b", "queue://q", browser=True)
    pair.run()
    assert pair.bodies() == [b"0", b"1", b"2"]
    assert empties(pair) == ["b"]
    end = written(pair, "MESSAGE")[-1]
    assert end == Frame(
        "MESSAGE", {"browser": "end", "message-id": "0", "destination": "/queue/q", "subscription": "b"}
    )
    client.unsubscribe("b")
    client.subscribe("s", "queue://q")
    pair.run()
    assert len(pair.delivered()) == 6
    assert (pair.counter("dequeued"), pair.counter("in_flight")) == (3, 0)


def test_the_end_of_a_browse_comes_after_its_last_message_also_for_a_slow_reader() -> None:
    pair = Pair()
    client = pair.stomp()
    for number in range(3):
        client.send("queue://q", b"%d" % number)
    pair.run()
    pair.stalled.add(1)
    client.subscribe("b", "queue://q", browser=True)
    pair.run()
    pair.stalled.clear()
    pair.run()
    assert [type(notice).__name__ for notice in pair.notices[1]][-4:] == ["Delivered"] * 3 + ["Empty"]


def test_a_browser_that_has_left_is_told_nothing() -> None:
    pair = Pair()
    client = pair.stomp()
    client.send("queue://q", b"x")
    client.subscribe("b", "queue://q", 1, ack="client", browser=True)
    client.unsubscribe("b")
    pair.run()
    inject(pair, "SEND", {"destination": "/queue/q"})
    assert not pair.closes


def test_a_jms_browser_sees_what_is_there_through_its_window() -> None:
    pair = Pair()
    client = pair.jms()
    send(pair, client, b"0", b"1", b"2")
    client.subscribe("b", "queue://q", 1, browser=True)
    pair.run()
    assert [take(pair, client, "b") for _ in range(3)] == [b"0", b"1", b"2"]
    assert empties(pair) == ["b"]
    client.close_consumer("b")
    pair.run()
    assert (pair.counter("size"), pair.counter("in_flight"), pair.counter("dequeued")) == (3, 0, 0)


def test_an_empty_queue_is_browsed_at_once() -> None:
    pair = Pair()
    pair.jms(1).subscribe("b", "queue://q", browser=True)
    pair.stomp(2).subscribe("b", "queue://q", browser=True)
    pair.run()
    assert (empties(pair, 1), empties(pair, 2)) == (["b"], ["b"])


# -- pulls


def pulling(pair: Pair) -> ClientSession:
    client = pair.jms()
    client.subscribe("c", "queue://q", 0, ack="client")
    pair.run()
    return client


def test_a_pull_consumer_gets_one_message_per_pull() -> None:
    pair = Pair()
    client = pulling(pair)
    send(pair, client, b"0", b"1")
    assert client.waiting("c") == 0
    client.pull("c", -1)
    pair.run()
    assert (client.waiting("c"), take(pair, client)) == (1, b"0")
    assert client.waiting("c") == 0
    client.pull("c", 0)
    pair.run()
    assert take(pair, client) == b"1"
    client.acknowledge("c")
    pair.run()
    assert pair.counter("dequeued") == 2
    assert empties(pair) == []


def test_taking_without_a_prefetch_reports_nothing_delivered() -> None:
    pair = Pair()
    client = pulling(pair)
    send(pair, client, b"0")
    client.pull("c", -1)
    pair.run()
    client.take("c", pair.now(1))
    assert not any(isinstance(command, MessageAck) for command in client.outbox)


def test_a_pull_that_does_not_wait_is_answered_at_once() -> None:
    pair = Pair()
    client = pulling(pair)
    client.pull("c", -1)
    pair.run()
    assert empties(pair) == ["c"]


def test_a_pull_waits_its_time() -> None:
    pair = Pair()
    client = pulling(pair)
    client.pull("c", 500, pair.now(1))
    pair.advance(499)
    assert empties(pair) == []
    pair.advance(1)
    assert empties(pair) == ["c"]
    client.pull("c", 0)
    pair.advance(60_000)
    send(pair, client, b"at last")
    assert take(pair, client) == b"at last"


@pytest.mark.parametrize(
    ("timeout_ms", "after_ms", "again_ms"), [(500, 200, 300), (500, 500, -1), (-1, 0, -1), (0, 9, 0)]
)
def test_a_pull_whose_message_is_thrown_away_is_repeated_with_what_is_left_of_its_time(
    timeout_ms: int, after_ms: int, again_ms: int
) -> None:
    pair = Pair()
    client = pulling(pair)
    client.pull("c", timeout_ms, pair.now(1))
    pair.run()
    later = Now(pair.mono_ns + after_ms * NS_PER_MS, pair.wall_ms)
    notices = client.receive(MessageDispatch("c", "m", "queue://q", b"x", expiration_ms=1), later)
    assert [type(notice) for notice in notices] == [Delivered, Discarded]
    assert [one.timeout_ms for one in client.outbox if isinstance(one, MessagePull)] == [again_ms]


def test_a_pull_of_a_consumer_with_a_window_is_refused() -> None:
    pair = Pair()
    client = pair.jms()
    client.subscribe("c", "queue://q", 5)
    client.pull("c", -1)
    pair.run()
    (failed,) = pair.of(1, Failed)
    assert isinstance(failed, Failed)
    assert (failed.code, pair.closes) == ("bad-pull", [])
    with pytest.raises(ValueError, match=r"pull timeout -2 ms is negative; use -1 \(do not wait\)"):
        client.pull("c", -2)


def test_a_stomp_consumer_without_a_prefetch_gets_nothing() -> None:
    pair = Pair()
    client = pair.stomp()
    client.subscribe("s", "queue://q", 0)
    client.send("queue://q", b"x")
    pair.run()
    assert (pair.bodies(), pair.counter("size")) == ([], 1)
