"""The served broker's ports over real sockets: TLS, one port for all protocols, users and permissions, limits, readers
that stop.

Method as in ``test_server.py``. Certificates are made when the tests run. What costs minutes (ten thousand connections,
rates) is in ``benchmarks/connections.py``; here is the same with fewer.
"""

from __future__ import annotations

import base64
import contextlib
import os
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from brokerproof.reference_broker.core.message import Message
from brokerproof.reference_broker.openwire.commands import ConsumerInfo as Consumer
from brokerproof.reference_broker.openwire.commands import ExceptionResponse, MessageDispatch, ProducerMessage, Response
from brokerproof.reference_broker.openwire.connections import ProducerInfo
from brokerproof.reference_broker.security.passwords import Cost, hash_password
from tests.live.served import DEADLINE_S, ROOT, Client, OpenWireClient, Server, open_socket, until

pytestmark = pytest.mark.live

SECURITY = """
[[security.users]]
name = "alice"
password_hash = "{alice}"
groups = ["users"]

[[security.users]]
name = "root"
password = "toor"
groups = ["admins"]

[[security.permissions]]
match = "queue://A.>"
read = ["users"]
write = ["users"]
admin = ["users"]

[[security.permissions]]
match = ">"
read = ["admins"]
write = ["admins"]
admin = ["admins"]
"""


@contextlib.contextmanager
def serving(*argv: str) -> Iterator[Server]:
    server = Server(*argv)
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[Server]:
    path = tmp_path / "broker.toml"
    path.write_text(SECURITY.format(alice=hash_password("wonder", Cost(16, 1, 1))))
    with serving("--config", str(path)) as server:
        yield server


@pytest.fixture(scope="module")
def pem(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with server.pem (certificate and key apart), ca.pem and client.pem."""
    folder = tmp_path_factory.mktemp("pem")
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    issued.cert_chain_pems[0].write_to_path(str(folder / "server.pem"))
    issued.private_key_pem.write_to_path(str(folder / "server.key"))
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    authority.issue_cert("client@example.org").private_key_and_cert_chain_pem.write_to_path(str(folder / "client.pem"))
    return folder


def trusting(pem: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(pem / "ca.pem"))


# -- one port for all


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_one_port_serves_both_protocols_alike(tmp_path: Path, loop: str) -> None:
    path = tmp_path / "broker.toml"
    path.write_text(f'[server]\nevent_loop = "{loop}"\n')
    with serving("--config", str(path)) as server:
        assert server.line() == f"listening on tcp://127.0.0.1:{server.port}"
        stomp, openwire = Client(server), OpenWireClient(server)
        openwire.connect()
        assert isinstance(openwire.command(Response), Response)
        stomp.request("SUBSCRIBE", {"id": "s", "destination": "/queue/q"})
        openwire.send(ProducerInfo("client-1:1:1"))
        openwire.send(ProducerMessage(Message("client-1:1:1:1", "queue://q", b"over OpenWire"), command_id=2))
        assert stomp.frame().headers["destination"] == "/queue/q"
        openwire.send(Consumer("c", "queue://r", 10, command_id=3, response_required=True))
        stomp.request("SEND", {"destination": "/queue/r"}, b"over STOMP")
        assert isinstance(openwire.command(MessageDispatch), MessageDispatch)


def test_what_is_not_served_is_closed_and_the_log_says_what_it_was() -> None:
    with serving() as server:
        for hello in (b"\x16\x03\x01\x00\xa5", b"AMQP\x00\x01\x00\x00", b"\x10\x1a\x00\x04MQTT"):
            peer = open_socket(server.port)
            peer.sendall(hello)
            assert peer.recv(100) == b""
        assert Client(server).works()
        _, errors = server.stop()
    for word in ("TLS", "AMQP", "MQTT"):
        assert f"it is {word}" in errors


def test_who_says_nothing_is_closed_by_the_connect_check() -> None:
    uri = "auto://127.0.0.1:0?transport.connectAttemptTimeout=700"
    with serving("--connector", uri) as server:
        started = time.monotonic()
        silent, undecided, halfway = (open_socket(server.port) for _ in range(3))
        undecided.sendall(b"A")  # it could be AMQP
        halfway.sendall(b"\0\0")  # it is OpenWire, whose broker says hello
        for peer in (silent, undecided):
            assert peer.recv(1) == b""
        assert halfway.recv(1) == b"\0"
        with contextlib.suppress(ConnectionResetError):
            while halfway.recv(4096):
                pass
        assert 0.7 <= time.monotonic() - started <= 0.7 + 2.0
        assert Client(server).works()


# -- TLS


def test_tls_serves_both_protocols_beside_the_plain_port(pem: Path) -> None:
    files = ("--certificate", str(pem / "server.pem"), "--key", str(pem / "server.key"))
    with serving("--tls-port", "0", *files) as server:
        lines = [server.line() for _ in range(3)]
        assert [line.split("://")[0] for line in lines] == [
            "listening on tcp",
            "listening on stomp+ssl",
            "listening on ssl",
        ]
        port = int(lines[1].rsplit(":", 1)[1])
        stomp = Client(server, port=port, context=trusting(pem))
        assert isinstance(stomp.socket, ssl.SSLSocket)
        assert stomp.socket.version() in {"TLSv1.2", "TLSv1.3"}
        body = os.urandom(300_000)
        stomp.request("SUBSCRIBE", {"id": "s", "destination": "/queue/q"})
        stomp.send("SEND", {"destination": "/queue/q"}, body)
        assert stomp.frame().body == body
        openwire = OpenWireClient(server, port=port, context=trusting(pem))
        openwire.connect()
        assert isinstance(openwire.command(Response), Response)
        with pytest.raises(ssl.SSLCertVerificationError):
            open_socket(port, ssl.create_default_context())
        assert Client(server).works(), "the plain port is still there"
        stomp.send("SEND", {"destination": "nowhere"})
        assert stomp.frame().command == "ERROR", "an error arrives before the connection ends"
        stomp.closed()


def test_client_certificates_can_be_demanded(pem: Path, tmp_path: Path) -> None:
    path = tmp_path / "broker.toml"
    path.write_text(
        f'[server.tls]\ncertificate = "{pem}/server.pem"\nkey = "{pem}/server.key"\n'
        f'client_authorities = "{pem}/ca.pem"\nport = 0\n'
    )
    with serving("--config", str(path)) as server:
        port = int([server.line() for _ in range(2)][1].rsplit(":", 1)[1])
        known = trusting(pem)
        known.load_cert_chain(pem / "client.pem")
        assert Client(server, port=port, context=known).works()
        with pytest.raises((ssl.SSLError, ConnectionError, AssertionError)):
            Client(server, port=port, context=trusting(pem))


# -- users


def test_passwords_decide_in_both_protocols(secured: Server) -> None:
    assert Client(secured, login="alice", passcode="wonder").answer.command == "CONNECTED"
    assert Client(secured, login="root", passcode="toor").answer.command == "CONNECTED"
    wrong = {"login": "alice", "passcode": "rednow"}, {"login": "nobody", "passcode": "wonder"}, {"login": "alice"}, {}
    for headers in wrong:
        error = Client(secured, **headers).answer
        assert (error.command, error.headers["code"]) == ("ERROR", "not-authenticated")
        assert f"User name [{headers.get('login', '')}] or password is invalid" in error.body.decode()
        assert "rednow" not in error.body.decode()
    good, bad = OpenWireClient(secured), OpenWireClient(secured)
    good.connect("alice", "wonder")
    assert not isinstance(good.command(Response), ExceptionResponse)
    bad.connect("alice", "rednow")
    answer = bad.command(Response)
    assert isinstance(answer, ExceptionResponse)
    assert "User name [alice] or password is invalid" in answer.text
    _, errors = secured.stop()
    assert "is not let in: User name [nobody]" in errors
    assert "rednow" not in errors
    assert "wonder" not in errors


def test_permissions_decide_in_both_protocols(secured: Server) -> None:
    alice = Client(secured, login="alice", passcode="wonder")
    assert alice.request("SEND", {"destination": "/queue/A.1"}, b"x").command == "RECEIPT"
    error = alice.request("SEND", {"destination": "/queue/B"}, b"x")
    assert (error.command, error.headers["code"]) == ("ERROR", "not-authorized")
    assert "User alice is not authorized to write to: queue://B" in error.body.decode()
    openwire = OpenWireClient(secured)
    openwire.connect("alice", "wonder")
    openwire.command(Response)
    openwire.send(Consumer("c", "queue://>", 10, command_id=7, response_required=True))
    refused = openwire.command(Response)
    assert isinstance(refused, ExceptionResponse)
    assert "not authorized to read from: queue://>" in refused.text
    openwire.send(Consumer("d", "queue://A.>", 10, command_id=8, response_required=True))
    assert not isinstance(openwire.command(Response), ExceptionResponse), "the connection goes on"
    root = Client(secured, login="root", passcode="toor")
    assert root.request("SEND", {"destination": "/queue/B"}, b"x").command == "RECEIPT"
    assert secured.ask(do="destinations") == {"destinations": ["queue://A.1", "queue://B"]}


def test_while_a_password_is_checked_others_are_served(secured: Server) -> None:
    """root's hash costs what hashes cost; alice's neighbours do not wait for it."""
    alice = Client(secured, login="alice", passcode="wonder")
    guesses = [Client(secured, connect=False) for _ in range(20)]
    for guess in guesses:
        guess.send("CONNECT", {"accept-version": "1.2", "host": "b", "login": "root", "passcode": "wrong"})
    started = time.monotonic()
    assert alice.request("SEND", {"destination": "/queue/A.1"}, b"x").command == "RECEIPT"
    mine = time.monotonic() - started
    for guess in guesses:
        assert guess.frame().command == "ERROR"
    assert 2 * mine < time.monotonic() - started


def status_of(request: urllib.request.Request) -> int:
    try:
        with urllib.request.urlopen(request, timeout=DEADLINE_S) as answer:  # noqa: S310 - our own server on loopback
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_the_management_port_asks_for_an_administrator(tmp_path: Path) -> None:
    path = tmp_path / "broker.toml"
    path.write_text(SECURITY.format(alice=hash_password("wonder", Cost(16, 1, 1))))
    # Its line comes before those of the ports for clients.
    with serving("--config", str(path), "--management-port", "0") as server:
        url = server.lines[1].removeprefix("management on ") + "/metrics"
        for credentials, status in (("", 401), ("root:wrong", 401), ("alice:wonder", 401), ("root:toor", 200)):
            request = urllib.request.Request(url)  # noqa: S310 - our own server on loopback
            if credentials:
                request.add_header("Authorization", "Basic " + base64.b64encode(credentials.encode()).decode())
            assert (credentials, status_of(request)) == (credentials, status)


def test_beyond_loopback_without_users_it_does_not_start() -> None:
    command = [sys.executable, "-m", "brokerproof.reference_broker.server", "--host", "0.0.0.0", "--port", "0"]  # noqa: S104
    refused = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, cwd=ROOT, check=False)
    assert refused.returncode == 2
    assert "host '0.0.0.0' is not a loopback address, and nobody is asked who he is" in refused.stderr
    assert refused.stderr.count("\n") == 1


# -- limits


def limited(tmp_path: Path, text: str) -> contextlib.AbstractContextManager[Server]:
    path = tmp_path / "broker.toml"
    path.write_text(f"[limits]\n{text}\n")
    return serving("--config", str(path))


def test_one_connection_too_many_is_closed(tmp_path: Path) -> None:
    with limited(tmp_path, "max_connections = 2") as server:
        first, second = Client(server), Client(server)
        third = open_socket(server.port)
        with contextlib.suppress(ConnectionError):
            assert third.recv(1) == b""
        assert first.works()
        second.request("DISCONNECT", {})
        second.socket.close()
        until(lambda: server.ask(do="counters")["connections"] == 1, "the second is forgotten")
        assert Client(server).works()
        _, errors = server.stop()
    assert "is one connection too many" in errors


def test_who_sends_too_fast_is_read_more_slowly_and_loses_nothing(tmp_path: Path) -> None:
    with limited(tmp_path, "max_messages_per_second = 50") as server:
        fast, other = Client(server), Client(server)
        started = time.monotonic()
        for _ in range(99):
            fast.send("SEND", {"destination": "/queue/q"}, b"x")
        assert other.works(), "others are not concerned"
        assert fast.works()
        assert time.monotonic() - started >= 0.95
        assert server.counters()["size"] == 99


def test_who_is_idle_is_told_so_and_closed(tmp_path: Path) -> None:
    with limited(tmp_path, "max_idle_ms = 1500") as server:
        idle, busy = Client(server, heart_beat="1000,0"), Client(server)
        end = time.monotonic() + DEADLINE_S
        idle.socket.settimeout(0.2)
        while True:
            assert busy.works()
            assert time.monotonic() < end
            try:
                answer = idle.frame()
                break
            except TimeoutError:
                idle.socket.sendall(b"\n")
        assert (answer.command, answer.headers["message"][:28]) == ("ERROR", "nothing but keep-alives has ")
        assert busy.works()


# -- readers that stop


def resident_kib(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise AssertionError(f"no VmRSS of {pid}")


def test_answers_that_nobody_reads_stop_the_reading_and_cost_bounded_memory() -> None:
    """A peer that asks for receipts and never reads would otherwise fill the memory with them."""
    with serving() as server:
        peer, other = Client(server, receive_buffer=4096), Client(server)
        before = resident_kib(server.process.pid)
        receipt = "r" * 8000
        frame = f"SEND\ndestination:/topic/nobody\nreceipt:{receipt}\n\n\0".encode()
        peer.socket.settimeout(1.0)
        sent = 0
        with contextlib.suppress(TimeoutError):
            while sent < 200_000_000:
                sent += peer.socket.send(frame * 10)
        assert sent < 100_000_000, "the broker has stopped to read"
        grown = resident_kib(server.process.pid) - before
        assert grown < 24 * 1024, f"{grown} KiB for {sent >> 20} MiB of requests"
        assert other.works()
        peer.socket.settimeout(DEADLINE_S)
        received = 0
        while received < sent // 2:
            received += len(peer.socket.recv(1 << 20))
        assert other.works(), "once it reads again, everything goes on"


def passed_on(producer: Client, consumer: Client, seconds: float = 1.0) -> float:
    """Messages a second from one to the other, with 100 on the way."""
    frame = b"SEND\ndestination:/queue/busy\n\n" + b"x" * 1024 + b"\0"
    producer.socket.sendall(frame * 100)
    began, count = time.monotonic(), 0
    while (took := time.monotonic() - began) < seconds:
        consumer.frame()
        producer.socket.sendall(frame)
        count += 1
    for _ in range(100):
        consumer.frame()
    return count / took


def test_idle_connections_and_a_reader_that_stops_cost_the_others_less_than_half() -> None:
    """Measured in turn, the best of each: the neighbours of a test machine only ever slow it down."""
    with serving() as server:
        producer, consumer = Client(server), Client(server)
        consumer.request("SUBSCRIBE", {"id": "s", "destination": "/queue/busy"})
        before = resident_kib(server.process.pid)
        idle = [Client(server) for _ in range(500)]
        each = (resident_kib(server.process.pid) - before) / len(idle)
        assert each < 32, f"{each:.1f} KiB for an idle connection"
        alone, beside = [], []
        for turn in range(3):
            alone.append(passed_on(producer, consumer))
            reader, feeder = Client(server, receive_buffer=4096), Client(server)
            reader.request("SUBSCRIBE", {"id": "s", "destination": f"/queue/stopped{turn}", "ack": "client"})
            before = resident_kib(server.process.pid)
            frame = f"SEND\ndestination:/queue/stopped{turn}\n\n".encode() + b"x" * 1024 + b"\0"
            feeder.socket.sendall(frame * 8000)
            assert feeder.works()
            beside.append(passed_on(producer, consumer))
            grown = resident_kib(server.process.pid) - before
            assert grown < 40 * 1024, f"{grown} KiB for 8 MiB that nobody reads"
            for client in (reader, feeder):
                client.socket.close()
        assert max(beside) >= max(alone) / 2, (alone, beside)
        for client in idle:
            client.socket.close()
