"""The server as a process, over real sockets: the node of the fast tests with bytes, clocks and signals around it.

Method: each test starts its own server on free ports, talks STOMP with plain sockets and our codec, and reads the
broker's own view from the admin port. Waiting is always for a condition with a deadline. Time windows are judged from
outside: the earliest possible start, the latest possible end.
"""

from __future__ import annotations

import contextlib
import json
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.served import DEADLINE_S, ROOT, Client, Server, until

pytestmark = pytest.mark.live

#: Scheduling lateness allowed on a loaded machine (inactivity.md section 4).
LATE_S = 2.0


@pytest.fixture
def server() -> Iterator[Server]:
    running = Server()
    yield running
    running.stop()


def test_connect_send_receive_acknowledge(server: Server) -> None:
    assert server.lines[1] == f"listening on stomp://127.0.0.1:{server.port}"
    client = Client(server)
    headers = {"id": "s", "destination": "/queue/q", "ack": "client"}
    assert client.request("SUBSCRIBE", headers).command == "RECEIPT"
    assert client.request("SEND", {"destination": "/queue/q", "persistent": "true"}, b"\0one").command == "RECEIPT"
    message = client.frame()
    assert (message.command, message.body) == ("MESSAGE", b"\0one")
    assert (message.headers["subscription"], message.headers["persistent"]) == ("s", "true")
    assert server.counters()["in_flight"] == 1
    assert client.request("ACK", {"id": message.headers["ack"]}).command == "RECEIPT"
    counters = server.counters()
    assert (counters["size"], counters["in_flight"], counters["dequeued"]) == (0, 0, 1)
    assert client.request("DISCONNECT", {}).command == "RECEIPT"
    client.closed()
    until(lambda: server.ask(do="counters")["connections"] == 0, "the connection is forgotten")


@pytest.mark.parametrize(
    ("wire", "text"),
    [
        (b"GET / HTTP/1.1\r\nHost: b\r\n\r\n", "begins no command"),
        (b"SEND\ndestination:/queue/q\nbroken\n\nx\0", "'broken' has no name before a colon"),
        (b"SEND\ndestination:/queue/q\ncontent-length:99999999999\n\nx", "larger than 16777216 bytes"),
        (b"SEND\ndestination:/queue/q\nexpires:soon\n\nx\0", "expires:soon is not a number"),
        (b"SEND\na:" + b"b" * 20_000, "longer than 10240 bytes"),
    ],
)
def test_malformed_and_oversized_frames_get_error_and_close_while_others_are_served(
    server: Server, wire: bytes, text: str
) -> None:
    bystander = Client(server)
    client = Client(server)
    client.socket.sendall(wire)
    error = client.frame()
    assert error.command == "ERROR"
    assert text in error.body.decode()
    client.closed()
    assert bystander.works()
    assert Client(server).works()


def test_the_error_arrives_although_the_client_goes_on_sending(server: Server) -> None:
    """A socket that is closed over unread input is reset, which could destroy the ERROR on its way."""
    client = Client(server)
    client.socket.sendall(b"SEND\ndestination:/queue/q\n\n" + b"x" * (16 * 1024 * 1024 + 1))
    with contextlib.suppress(ConnectionError):
        client.socket.sendall(b"x" * (4 * 1024 * 1024))
    error = client.frame()
    assert "the body is larger than 16777216 bytes" in error.body.decode()
    assert Client(server).works()


def test_a_port_in_use_exits_with_4(server: Server) -> None:
    command = [sys.executable, "-m", "brokerproof.reference_broker.server", "--port", str(server.port)]
    second = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, cwd=ROOT, check=False)
    assert second.returncode == 4
    assert (
        f"port {server.port} on 127.0.0.1 is in use; stop the other process or choose another --port" in second.stderr
    )
    assert second.stderr.count("\n") == 1
    assert second.stdout == ""
    assert Client(server).works()


def test_an_admin_port_in_use_exits_with_4(server: Server) -> None:
    command = [
        sys.executable,
        "-m",
        "brokerproof.reference_broker.server",
        "--port",
        "0",
        "--admin-port",
        str(server.admin_port),
    ]
    second = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, cwd=ROOT, check=False)
    assert second.returncode == 4
    assert f"port {server.admin_port} on 127.0.0.1 is in use" in second.stderr
    assert "--admin-port" in second.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_stop_it_cleanly(number: int) -> None:
    server = Server()
    client = Client(server)
    code, errors = server.stop(number)
    assert (code, errors) == (0, "")
    client.closed()


def test_the_admin_port() -> None:
    server = Server()
    try:
        before_ns = time.monotonic_ns()
        now = server.ask(do="now")
        assert before_ns <= now["mono_ns"] <= time.monotonic_ns(), "both processes share one monotonic clock"
        assert abs(now["wall_ms"] - time.time_ns() // 1_000_000) < 60_000
        client = Client(server)
        client.request("SEND", {"destination": "/queue/q"}, b"x")
        assert server.ask(do="destinations") == {"destinations": ["queue://q"]}
        server.ask(do="purge", dest="queue://q")
        assert server.counters()["size"] == 0
        with pytest.raises(AssertionError, match="do = 'fly' is unknown; one of now"):
            server.ask(do="fly")
        with pytest.raises(AssertionError, match="dest = 'queue://none' does not exist"):
            server.counters("queue://none")
        server.ask(do="quit")
        assert server.process.wait(DEADLINE_S) == 0
    finally:
        server.stop()


def test_the_configuration_file_and_the_log_level_have_an_effect(tmp_path: Path) -> None:
    path = tmp_path / "broker.toml"
    path.write_text("[stomp]\nmax_body_bytes = 3\n[broker.timestamping]\nzero_expiration_override_ms = 60000\n")
    for level, lines in (("DEBUG", 2), ("INFO", 1), ("WARN", 0)):
        server = Server("--config", str(path), "--log-level", level)
        try:
            client = Client(server)
            client.request("SUBSCRIBE", {"id": "s", "destination": "/queue/q"})
            client.request("SEND", {"destination": "/queue/q", "timestamp": "5"}, b"123")
            assert int(client.frame().headers["expires"]) > 0
            client.send("SEND", {"destination": "/queue/q"}, b"1234")
            assert "larger than 3 bytes" in client.frame().headers["message"]
            client.closed()
        finally:
            _, errors = server.stop()
        assert len(errors.splitlines()) == lines, errors


def test_the_log_can_be_json(tmp_path: Path) -> None:
    path = tmp_path / "activemq.xml"
    path.write_text("<broker useJmx='false'/>")
    server = Server("--config", str(path), "--log-format", "json")
    _, errors = server.stop()
    entry = json.loads(errors.splitlines()[0])
    assert (entry["level"], entry["text"]) == ("WARN", "useJmx has no effect here")


def test_a_connector_uri_says_where_and_how_to_listen() -> None:
    server = Server("--connector", "stomp://127.0.0.1:0?wireFormat.maxFrameSize=3")
    try:
        client = Client(server)
        client.send("SEND", {"destination": "/queue/q"}, b"1234")
        assert "larger than 3 bytes" in client.frame().headers["message"]
    finally:
        server.stop()


def test_a_silent_client_is_closed_in_its_window_and_a_beating_one_stays(server: Server) -> None:
    """heart-beat:500,0 in the documented generation: R = 1000 ms, closed within [R, 1.1 R] after the last byte."""
    beating = Client(server, heart_beat="500,0")
    silent = Client(server, heart_beat="500,0")
    sent_before = time.monotonic()
    silent.socket.sendall(b"\n")
    sent_after = time.monotonic()
    while not select.select([silent.socket], [], [], 0.2)[0]:
        beating.socket.sendall(b"\n")
        assert time.monotonic() < sent_after + DEADLINE_S
    seen = silent.closed()
    assert seen - sent_before >= 1.0, "closed early"
    assert seen - sent_after <= 1.1 + LATE_S, "closed late"
    assert beating.works()
    _, errors = server.stop()
    host, port = silent.socket.getsockname()
    assert f"Channel was inactive for too (>1000) long: tcp://{host}:{port}" in errors


def test_the_server_beats(server: Server) -> None:
    """heart-beat:0,400: a byte at least every 400 ms, with a server that aims at every 200."""
    start = time.monotonic()
    client = Client(server, heart_beat="0,400")
    for _ in range(5):
        assert client.socket.recv(1) == b"\n"
    assert time.monotonic() - start <= 5 * 0.4 + LATE_S
    assert time.monotonic() - start >= 4 * 0.2, "faster than promised by half"


def test_a_stalled_reader_shows_in_the_in_flight_count(server: Server) -> None:
    """Messages that the kernel does not take are not transmitted: in-flight stays below what was assigned, and swings
    negative when the consumer leaves without reading (seed 003). All is balanced once the socket is gone.
    """
    count, body = 200, b"x" * 65536
    reader = Client(server, receive_buffer=4096)
    subscribe = {"id": "s", "destination": "/queue/q", "ack": "client", "activemq.prefetchSize": str(count)}
    assert reader.request("SUBSCRIBE", subscribe).command == "RECEIPT"
    producer = Client(server)
    for _ in range(count):
        assert producer.request("SEND", {"destination": "/queue/q"}, body).command == "RECEIPT"
    written = server.counters()["in_flight"]
    assert 0 < written < count
    assert server.counters()["size"] == count
    reader.send("UNSUBSCRIBE", {"id": "s"})
    until(lambda: server.counters()["consumers"] == 0, "the consumer has left")
    assert server.counters()["in_flight"] == written - count
    bodies = 0
    while server.counters()["in_flight"] != 0:
        bodies += len(reader.socket.recv(1 << 20))
    assert bodies > 0
    assert producer.works()
    reader.socket.close()
    until(lambda: server.ask(do="counters")["connections"] == 1, "the reader is forgotten")
    assert (server.counters()["in_flight"], server.counters()["size"]) == (0, count)
