"""Who may see the management site, what /metrics says, and how HTTP is spoken: without sockets."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable

import pytest
from prometheus_client.parser import text_string_to_metric_families

from brokerproof.reference_broker.core.config import BrokerConfig
from brokerproof.reference_broker.management import http_server
from brokerproof.reference_broker.management.http_server import HttpConnection
from brokerproof.reference_broker.management.site import Authenticator, credentials
from tests.fast.reference_broker.management.manager import LOCAL, Manager
from tests.fast.reference_broker.node.wire_pair import Pair

VERSION = b'{"type": "version"}'


class OneUser(Authenticator):
    def authenticate(self, user: str, password: str, then: Callable[[bool], None]) -> None:
        then((user, password) == ("operator", "pass:word"))


@pytest.mark.parametrize(
    ("method", "target", "headers", "status"),
    [
        ("POST", "/jolokia", {}, 200),
        ("POST", "/api/jolokia/?ignored=1", {}, 200),
        ("POST", "/jolokia/", {"origin": "", "referer": "http://127.0.0.1/console"}, 200),
        ("POST", "/jolokia/", {"host": "[::1]:8161", "origin": "http://[::1]:3000"}, 200),
        ("POST", "/jolokia/", {"origin": ""}, 403),
        ("POST", "/jolokia/", {"origin": "null"}, 403),
        ("POST", "/jolokia/", {"origin": "http://evil.example"}, 403),
        ("POST", "/jolokia/", {"origin": "http://localhost.evil.example"}, 403),
        ("POST", "/jolokia/", {"host": "rebound.example"}, 403),
        ("POST", "/jolokia/", {"host": ""}, 403),
        ("GET", "/jolokia/version", {}, 403),
        ("GET", "/metrics", {"origin": ""}, 200),
        ("GET", "/metrics", {"origin": "http://evil.example"}, 403),
        ("POST", "/metrics", {}, 404),
        ("GET", "/", {}, 404),
    ],
)
def test_who_may_ask_for_what(method: str, target: str, headers: dict[str, str], status: int) -> None:
    assert Manager().page(method, target, VERSION, {**LOCAL, **headers}).status == status


def test_beyond_loopback_the_host_that_was_asked_for_is_the_origin() -> None:
    manager = Manager(local=False)
    for origin, status in (("https://broker.example", 200), ("https://other.example", 403)):
        headers = {"host": "broker.example:8161", "origin": origin}
        assert manager.page("POST", "/jolokia/", VERSION, headers).status == status


def test_with_users_everything_needs_a_password() -> None:
    manager = Manager(authenticator=OneUser())
    for given, status in (("operator:pass:word", 200), ("operator:wrong", 401), ("other:pass:word", 401), ("", 401)):
        header = {"authorization": "Basic " + base64.b64encode(given.encode()).decode()} if given else {}
        for method, target in (("POST", "/jolokia/"), ("GET", "/metrics")):
            page = manager.page(method, target, VERSION, {**LOCAL, **header})
            assert page.status == status
            assert ("WWW-Authenticate" in page.headers) == (status == 401)


@pytest.mark.parametrize(
    "header", ["", "Basic", "Basic !!!", "Basic " + base64.b64encode(b"\xff").decode(), "Bearer x"]
)
def test_what_are_no_credentials(header: str) -> None:
    assert credentials(header) is None


@pytest.mark.parametrize(("limit", "shown"), [(0, {}), (4096, {"bytes": 2048, "limit_bytes": 4096})])
def test_metrics_tell_of_the_disk_where_it_has_a_limit(limit: int, shown: dict[str, int]) -> None:
    pair = Pair(BrokerConfig(temp_limit_bytes=limit, memory_limit_bytes=1))
    pair.stomp().send("queue://q", b"x" * 1024)
    pair.run()
    text = Manager(pair).page("GET", "/metrics").body.decode()
    prefix = "brokerproof_temporary_files_"
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    found = {sample.name: sample.value for sample in samples if sample.name.startswith(prefix)}
    assert {name.removeprefix(prefix): value for name, value in found.items()} == shown


def test_metrics_say_what_the_counters_say() -> None:
    pair = Pair()
    for number in range(60):
        pair.stomp(number + 1).send(f"queue://q{number}", b"x")
    pair.run()
    manager = Manager(pair)
    page = manager.page("GET", "/metrics")
    assert page.headers["Content-Type"].startswith(("text/plain", "application/openmetrics-text"))
    samples = {
        (sample.name, sample.labels.get("destination")): sample.value
        for family in text_string_to_metric_families(page.body.decode())
        for sample in family.samples
    }
    assert samples["brokerproof_messages", "q7"] == 1
    assert samples["brokerproof_messages_enqueued_total", "q7"] == 1
    assert samples["brokerproof_memory_bytes", "q7"] == pair.counter("memory_bytes", "queue://q7")
    assert samples["brokerproof_connections", None] == 60
    assert ("brokerproof_messages_discarded_total", "q7") not in samples, "a queue discards nothing"
    assert manager.rests == 1, "collected in pieces"


@pytest.mark.parametrize("name", ['a"b', "back\\slash", "half \ud83d of a pair", "\U0001f600", "new\nline", 'q{x="y"}'])
def test_metrics_carry_any_name_that_a_client_may_give(name: str) -> None:
    """Also one that Java has and UTF-8 lacks: OpenWire hands it on as it is."""
    manager = Manager()
    manager.view.region.destination(f"queue://{name}")
    text = manager.page("GET", "/metrics").body.decode()
    (family,) = [one for one in text_string_to_metric_families(text) if one.name == "brokerproof_messages"]
    assert [sample.labels["destination"] for sample in family.samples] == [name.replace("\ud83d", "\\ud83d")]


class Wire:
    """An HTTP connection without its socket."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.sent = b""
        self.closed = False
        self.connection = HttpConnection(Manager().site, set())
        self.connection._transport = self  # type: ignore[assignment]  # the methods of a transport that are used
        self.connection._expect()

    def write(self, data: bytes) -> None:
        self.sent += data

    def close(self) -> None:
        self.closed = True

    abort = close

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    async def receive(self, data: bytes) -> bytes:
        self.connection.data_received(data)
        for _ in range(5):
            await asyncio.sleep(0)
        sent, self.sent = self.sent, b""
        return sent


def request(body: bytes = VERSION, *, head: str = "") -> bytes:
    lines = f"POST /jolokia/ HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\n{head}"
    return f"{lines}Content-Length: {len(body)}\r\n\r\n".encode() + body


def on_wire(*pieces: bytes) -> tuple[list[bytes], Wire]:
    async def run() -> tuple[list[bytes], Wire]:
        wire = Wire(asyncio.get_running_loop())
        answers = [await wire.receive(piece) for piece in pieces]
        if wire.connection._alarm is not None:
            wire.connection._alarm.cancel()
        return answers, wire

    return asyncio.run(run())


def test_a_connection_is_kept_and_its_requests_may_come_in_any_pieces() -> None:
    whole = request()
    answers, wire = on_wire(whole[:20], whole[20:], whole + whole)
    assert answers[0] == b""
    assert answers[1].startswith(b"HTTP/1.1 200")
    assert answers[2].count(b"HTTP/1.1 200") == 2
    assert wire.reading
    assert not wire.closed


def test_who_asks_before_a_long_body_is_told_to_go_on() -> None:
    whole = request(head="Expect: 100-continue\r\n")
    head, body = whole[: -len(VERSION)], whole[-len(VERSION) :]
    (first, second), _ = on_wire(head, body)
    assert first.startswith(b"HTTP/1.1 100")
    assert second.startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    ("piece", "status"),
    [
        (b"what is this\r\n\r\n", b"400"),
        (b"GET /" + b"x" * 70_000, b"431"),
        (request(b" " * (http_server.MOST_BODY_BYTES + 1)), b"413"),
        (request(head="Connection: close\r\n"), b"200"),
    ],
)
def test_what_ends_a_connection(piece: bytes, status: bytes) -> None:
    (answer,), wire = on_wire(piece)
    assert answer.startswith(b"HTTP/1.1 " + status)
    assert wire.closed


def test_a_head_is_answered_without_a_body() -> None:
    (answer,), _ = on_wire(b"HEAD /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200")
    assert answer.endswith(b"\r\n\r\n")
