"""The served reference broker and STOMP clients that nobody here wrote: stomp.py and, from another language,
``@stomp/stompjs``.

Method: one broker, a queue or topic per test and client; every test runs with each library in each version. What a
broker ought to do is said by the assertions; that the library understood it is said by what it reports.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.live.stomp_clients import Headers, Peer, StompJs, StompPy
from tests.live.test_server import Server

pytestmark = pytest.mark.live

LIBRARIES: dict[str, type[Peer]] = {"stomp.py": StompPy, "stompjs": StompJs}
KINDS = [(name, version) for name in LIBRARIES for version in ("1.0", "1.1", "1.2")]
#: 1.0 has no NACK, and neither library beats in it.
without_1_0 = pytest.mark.parametrize(
    "opened", [kind for kind in KINDS if kind[1] != "1.0"], ids=" ".join, indirect=True
)
DLQ = "/queue/ActiveMQ.DLQ"

Open = Callable[..., Peer]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    started = Server()
    yield started
    code, errors = started.stop()
    assert code == 0
    assert "Traceback" not in errors


@pytest.fixture(params=KINDS, ids=" ".join)
def opened(request: pytest.FixtureRequest, server: Server) -> Iterator[Open]:
    """Opens connections of one library in one version."""
    name, version = request.param
    peers: list[Peer] = []

    def open_one(headers: Headers | None = None, beats: tuple[int, int] = (0, 0)) -> Peer:
        peer = LIBRARIES[name](version)
        peers.append(peer)
        peer.connect(server.port, headers, beats)
        assert peer.wait("connected")["version"] == version
        return peer

    yield open_one
    for peer in peers:
        peer.stop()


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A destination's name that no other test uses."""
    return "".join(sign if sign.isalnum() else "." for sign in request.node.name)


def told(peer: Peer, count: int) -> list[tuple[bytes, dict[str, Any]]]:
    return [(event["body"], event["headers"]) for event in (peer.wait("message") for _ in range(count))]


def test_a_message_arrives_as_it_was_sent(opened: Open, name: str) -> None:
    peer = opened()
    escapable = "a:b\\x\nd" if peer.version in peer.escapes else "a"
    peer.subscribe("s", f"/queue/{name}")
    bodies = [b"plain", "Grüße \N{PARTY POPPER}".encode(), b"\0nul\0", b"x" * 200_000, b""]
    expires = str(int(time.time() * 1000) + 600_000)
    for body in bodies:
        properties = {"colour": escapable, "persistent": "true", "priority": "7", "expires": expires}
        peer.send(f"/queue/{name}", body, {**properties, "correlation-id": "c1", "reply-to": "/queue/answers"})
    got = told(peer, len(bodies))
    assert [body for body, _ in got] == bodies
    for _, headers in got:
        assert headers["destination"] == f"/queue/{name}"
        assert (headers["subscription"], headers["colour"]) == ("s", escapable)
        assert (headers["persistent"], headers["priority"], headers["expires"]) == ("true", "7", expires)
        assert (headers["correlation-id"], headers["reply-to"]) == ("c1", "/queue/answers")


def test_every_request_is_answered_by_its_receipt(opened: Open, name: str) -> None:
    peer = opened()
    peer.subscribe("s", f"/queue/{name}", headers={"receipt": "r1"})
    peer.send(f"/queue/{name}", b"x", {"receipt": "r2", "persistent": "true"})
    peer.unsubscribe("s", {"receipt": "r3"})
    assert [peer.wait("receipt")["receipt"] for _ in range(3)] == ["r1", "r2", "r3"]
    peer.disconnect()
    peer.wait("closed")


def test_acknowledging_cumulatively(opened: Open, name: str, server: Server) -> None:
    peer = opened()
    peer.subscribe("s", f"/queue/{name}", "client")
    for number in range(4):
        peer.send(f"/queue/{name}", b"%d" % number)
    got = [peer.wait("message") for _ in range(4)]
    peer.settle("ack", got[2])
    peer.ask()
    assert server.counters(f"queue://{name}")["size"] == 1
    peer.unsubscribe("s")
    peer.subscribe("t", f"/queue/{name}")
    ((body, headers),) = told(peer, 1)
    assert (body, headers["redelivered"]) == (b"3", "true")


def test_acknowledging_one_by_one(opened: Open, name: str, server: Server) -> None:
    peer = opened()
    peer.subscribe("s", f"/queue/{name}", "client-individual")
    for number in range(3):
        peer.send(f"/queue/{name}", b"%d" % number)
    got = [peer.wait("message") for _ in range(3)]
    peer.settle("ack", got[1])
    peer.ask()
    assert server.counters(f"queue://{name}")["size"] == 2
    peer.unsubscribe("s")
    peer.subscribe("t", f"/queue/{name}")
    assert peer.bodies(2) == [b"0", b"2"]


def test_auto_acknowledgement_leaves_nothing(opened: Open, name: str, server: Server) -> None:
    peer = opened()
    peer.subscribe("s", f"/queue/{name}")
    peer.send(f"/queue/{name}", b"x")
    assert peer.bodies(1) == [b"x"]
    peer.ask()
    assert (server.counters(f"queue://{name}")["size"], server.counters(f"queue://{name}")["dequeued"]) == (0, 1)


@without_1_0
def test_a_refused_delivery_becomes_a_dead_letter(opened: Open, name: str) -> None:
    peer = opened()
    peer.subscribe("d", DLQ)
    peer.subscribe("s", f"/queue/{name}", "client")
    peer.send(f"/queue/{name}", b"bad", {"persistent": "true"})
    peer.settle("nack", peer.wait("message"))
    ((body, headers),) = told(peer, 1)
    assert (body, headers["subscription"], headers["original-destination"]) == (b"bad", "d", f"/queue/{name}")


def test_transactions(opened: Open, name: str, server: Server) -> None:
    peer = opened()
    peer.subscribe("s", f"/queue/{name}", "client")
    for verb, body in (("abort", b"never"), ("commit", b"once")):
        peer.transact("begin", verb)
        peer.send(f"/queue/{name}", body, {"transaction": verb})
        peer.ask()
        assert not peer.heard("message")
        peer.transact(verb, verb)
    delivery = peer.wait("message")
    assert delivery["body"] == b"once"
    for verb, size in (("abort", 1), ("commit", 0)):
        peer.transact("begin", verb)
        peer.settle("ack", delivery, verb)
        peer.ask()
        assert server.counters(f"queue://{name}")["size"] == 1
        peer.transact(verb, verb)
        peer.ask()
        assert server.counters(f"queue://{name}")["size"] == size


def test_a_selector_chooses(opened: Open, name: str) -> None:
    peer = opened()
    peer.subscribe(
        "s", f"/topic/{name}", headers={"selector": "convert_string_expressions:colour = 'red' AND size > 3"}
    )
    for colour, size in (("red", 3), ("red", 4), ("blue", 5), ("red", 6)):
        peer.send(f"/topic/{name}", b"%d" % size, {"colour": colour, "size": str(size)})
    assert peer.bodies(2) == [b"4", b"6"]
    peer.ask()
    assert not peer.heard("message")


def test_a_durable_subscription_survives_its_connection(opened: Open, name: str) -> None:
    durable = {"activemq.subscriptionName": "d"}
    first = opened({"client-id": name})
    first.subscribe("s", f"/topic/{name}", headers=durable)
    first.ask()
    first.disconnect()
    first.wait("closed")
    other = opened()
    other.send(f"/topic/{name}", b"meanwhile", {"persistent": "true"})
    other.ask()
    second = opened({"client-id": name})
    second.subscribe("s", f"/topic/{name}", headers=durable)
    assert second.bodies(1) == [b"meanwhile"]
    second.unsubscribe("s")
    second.subscribe("t", f"/topic/{name}.other")
    second.unsubscribe("t", {"activemq.subscriptionName": "d"})
    second.ask()
    assert not second.heard("error")


@pytest.mark.parametrize(
    ("headers", "destination", "text"),
    [
        ({}, "/nowhere/x", "destination '/nowhere/x' is unknown"),
        ({"expires": "soon"}, "/queue/x", "expires:soon is not a number"),
        ({"AMQ_SCHEDULED_CRON": "0 * * * *"}, "/queue/x", "AMQ_SCHEDULED_CRON:0 * * * * is not supported"),
    ],
)
def test_what_is_wrong_is_answered_and_ends_the_connection(
    opened: Open, headers: Headers, destination: str, text: str
) -> None:
    peer = opened()
    peer.send(destination, b"x", {**headers, "receipt": "r1"})
    error = peer.wait("error")
    assert text in error["body"].decode()
    assert error["headers"]["receipt-id"] == "r1"
    peer.wait("closed")


@without_1_0
def test_heart_beats_keep_a_silent_connection_and_their_absence_is_noticed(opened: Open, server: Server) -> None:
    peer = opened()
    beating = opened(beats=(300, 300))
    started = time.monotonic()
    deadline = started + 20
    # Without them the broker would have given the connection up after 300 to 900 ms.
    while time.monotonic() < started + 1.5:
        peer.ask()
        assert time.monotonic() < deadline
        assert not beating.heard("silent")
        assert not beating.heard("closed")
    beating.ask()
    server.pause()
    try:
        beating.wait("silent")
    finally:
        server.resume()


def test_a_request_is_answered_over_a_temporary_queue(opened: Open, name: str) -> None:
    asker, answerer = opened(), opened()
    answerer.subscribe("s", f"/queue/{name}")
    asker.subscribe("a", "/temp-queue/answers")
    asker.send(f"/queue/{name}", b"question", {"reply-to": "/temp-queue/answers"})
    request = answerer.wait("message")
    answerer.send(request["headers"]["reply-to"], b"answer")
    ((body, headers),) = told(asker, 1)
    assert (body, headers["destination"]) == (b"answer", "/temp-queue/answers")
