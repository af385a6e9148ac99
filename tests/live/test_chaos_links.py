"""Links with real sockets and the real Toxiproxy: a fault counts only when both ends show it."""

from __future__ import annotations

import itertools
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import pytest

from brokerproof.chaos.links import LinkProxy, PlainForwarder, Toward
from brokerproof.chaos.ports import LOOPBACK, free_port
from brokerproof.chaos.probes import PROBES, run_probe
from brokerproof.chaos.processes import Supervisor
from brokerproof.chaos.taps import Tap
from brokerproof.chaos.tools import ToolMissing
from brokerproof.chaos.toxiproxy import ToxiproxyServer, find_toxiproxy
from tests.tools import not_run

pytestmark = pytest.mark.live
MakeLink = Callable[[int], LinkProxy]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ToxiproxyServer]:
    try:
        binary = find_toxiproxy()
    except ToolMissing as error:
        not_run(str(error))
    with Supervisor(tmp_path) as supervisor:
        yield ToxiproxyServer.start(supervisor, binary)


@pytest.fixture(params=["toxiproxy", "plain"])
def any_link(request: pytest.FixtureRequest) -> MakeLink:
    """Both kinds of link: what they share is tested on both."""
    if request.param == "plain":
        return lambda port: PlainForwarder("l", port)
    toxiproxy: ToxiproxyServer = request.getfixturevalue("server")
    return lambda port: toxiproxy.link("l", port)


class Ends:
    """The two ends of one connection through a link: `client`, and `broker`, the accepted socket behind it."""

    def __init__(self, make: MakeLink) -> None:
        self.listener = socket.create_server((LOOPBACK, 0))
        self.link = make(self.listener.getsockname()[1])
        self.listener.settimeout(5)
        self.client, self.broker = self.connect()

    def connect(self) -> tuple[socket.socket, socket.socket]:
        client = socket.create_connection((LOOPBACK, self.link.port), timeout=5)
        broker, _ = self.listener.accept()
        broker.settimeout(5)
        return client, broker

    def pass_on(self, toward: Literal["client", "broker"], data: bytes) -> None:
        """Send toward one end and read it there."""
        sender, receiver = (self.broker, self.client) if toward == "client" else (self.client, self.broker)
        sender.sendall(data)
        assert _read(receiver, len(data)) == data

    def __enter__(self) -> Ends:
        return self

    def __exit__(self, *_: object) -> None:
        for sock in (self.client, self.broker, self.listener):
            sock.close()
        self.link.close()


def _read(sock: socket.socket, count: int) -> bytes:
    got = b""
    while len(got) < count and (part := sock.recv(count - len(got))):
        got += part
    return got


def _silent(sock: socket.socket, seconds: float = 0.03) -> bool:
    sock.settimeout(seconds)
    try:
        return not sock.recv(1, socket.MSG_PEEK)
    except TimeoutError:
        return True
    finally:
        sock.settimeout(5)


def test_bytes_pass_unchanged_and_are_counted_at_both_ends(any_link: MakeLink) -> None:
    with Ends(any_link) as ends:
        ends.pass_on("broker", b"CONNECT")
        ends.pass_on("client", b"CONNECTED")
        traffic = ends.link.traffic()
        assert traffic.toward_broker == (7, 7)
        assert traffic.toward_client == (9, 9)
        assert traffic.of("both") == (16, 16)


def test_a_large_transfer_is_not_changed(any_link: MakeLink) -> None:
    data = os.urandom(3_000_000)
    with Ends(any_link) as ends:
        sender = threading.Thread(target=ends.client.sendall, args=(data,))
        sender.start()
        assert _read(ends.broker, len(data)) == data
        sender.join(5)


def test_the_end_of_a_stream_passes_and_says_who_ended_it(any_link: MakeLink) -> None:
    with Ends(any_link) as ends:
        ends.pass_on("broker", b"x")
        t0_ns = time.monotonic_ns()
        ends.broker.close()
        assert _read(ends.client, 1) == b""
        first = ends.link.ends()[0]
        assert (first.at, first.who, first.how) == ("broker", "broker", "end")
        assert t0_ns <= first.at_ns <= time.monotonic_ns()


def test_of_two_connections_each_has_a_silence_of_its_own(any_link: MakeLink) -> None:
    with Ends(any_link) as ends:
        silent, broker = ends.client, ends.broker
        ends.pass_on("broker", b"x")
        said_ns = time.monotonic_ns()
        ends.client, ends.broker = ends.connect()
        time.sleep(0.3)
        ends.pass_on("broker", b"y")
        broker.close()
        assert _read(silent, 1) == b""
        (end,) = ends.link.ends()[:1]
        idle_ns = ends.link.idle_ns(end, within_ns=0)
        assert idle_ns is not None
        assert 300_000_000 <= end.at_ns - said_ns <= idle_ns
        silent.close()


@pytest.mark.parametrize("toward", ["client", "broker"])
def test_a_stall_holds_what_is_sent_one_way_and_gives_it_back(
    server: ToxiproxyServer, toward: Literal["client", "broker"]
) -> None:
    with Ends(lambda port: server.link("l", port)) as ends:
        sender, receiver = (ends.broker, ends.client) if toward == "client" else (ends.client, ends.broker)
        ends.pass_on(toward, b"before")
        ends.link.stall(toward)
        sender.sendall(b"held")
        assert _silent(receiver)
        ends.pass_on("broker" if toward == "client" else "client", b"the other way is open")
        evidence = ends.link.resume()
        assert evidence is not None
        assert evidence.as_dict() == {"bytes_in": 4, "bytes_out": 0}
        assert evidence.toward == toward
        assert evidence.t0_ns < evidence.t1_ns
        assert _read(receiver, 4) == b"held"
        ends.pass_on(toward, b"after")


def test_a_stall_both_ways_holds_both(server: ToxiproxyServer) -> None:
    with Ends(lambda port: server.link("l", port)) as ends:
        ends.link.stall("both")
        ends.client.sendall(b"12")
        ends.broker.sendall(b"345")
        assert _silent(ends.client)
        assert _silent(ends.broker)
        evidence = ends.link.resume()
        assert evidence is not None
        assert evidence.as_dict() == {"bytes_in": 5, "bytes_out": 0}
        assert _read(ends.client, 3) == b"345"
        assert _read(ends.broker, 2) == b"12"


def test_a_connection_made_during_a_stall_is_stalled_too(server: ToxiproxyServer) -> None:
    with Ends(lambda port: server.link("l", port)) as ends:
        ends.link.stall("broker")
        client, broker = ends.connect()
        with client, broker:
            client.sendall(b"late")
            assert _silent(broker)
            assert ends.link.resume() is not None
            assert _read(broker, 4) == b"late"


def test_a_dropping_stall_loses_bytes_and_its_end_closes_the_connection(server: ToxiproxyServer) -> None:
    with Ends(lambda port: server.link("l", port)) as ends:
        ends.link.stall("broker", drop=True)
        ends.client.sendall(b"lost")
        evidence = ends.link.resume()
        assert evidence is not None
        assert evidence.bytes_in == 4
        assert _read(ends.broker, 4) == b""


@pytest.mark.parametrize("toward", ["client", "broker", "both"])
def test_a_plain_forwarder_never_has_evidence(toward: Toward) -> None:
    with Ends(lambda port: PlainForwarder("l", port)) as ends:
        ends.link.stall(toward)
        ends.pass_on("client", b"passes")
        ends.pass_on("broker", b"passes")
        assert ends.link.evidence() is None
        assert ends.link.resume() is None
        assert ends.link.reset(timeout_ms=20) is None
        assert ends.link.latency(1000) == 0


@pytest.mark.parametrize("known", [True, False])
def test_bytes_that_are_only_on_their_way_are_no_evidence(
    server: ToxiproxyServer, monkeypatch: pytest.MonkeyPatch, known: bool
) -> None:
    """On a slow line that does not stall: bytes have entered and not yet left it, for a while, whoever made it slow."""
    with Ends(lambda port: server.link("l", port)) as ends:
        monkeypatch.setattr(ends.link, "_ask_stall", lambda toward, drop: None)
        if known:
            ends.link.latency(200_000)  # more than the time that evidence waits on any line
        else:
            ends.link._ask_latency(60_000)
        ends.link.stall("broker")
        ends.client.sendall(b"slow")
        assert ends.link.resume() is None
        assert _read(ends.broker, 4) == b"slow"


def test_a_stall_that_nobody_tried_has_no_evidence(server: ToxiproxyServer) -> None:
    with Ends(lambda port: server.link("l", port)) as ends:
        ends.link.stall("client")
        ends.pass_on("broker", b"only the other way")
        assert ends.link.resume() is None


def test_latency_is_made_each_way_in_whole_milliseconds_and_taken_away(server: ToxiproxyServer) -> None:
    with Ends(lambda port: server.link("l", port)) as ends:
        assert ends.link.latency(200_400) == 200_000
        ends.pass_on("broker", b"a")
        ends.pass_on("client", b"bc")
        for toward in ("broker", "client"):
            transit_us = ends.link.transit_us("broker" if toward == "broker" else "client")
            assert transit_us is not None
            assert transit_us >= 200_000
        assert ends.link.latency(0) == 0
        assert ends.link.transit_us("broker") is None  # nothing passed since
        ends.pass_on("broker", b"d")
        transit_us = ends.link.transit_us("broker")
        assert transit_us is not None
        assert transit_us < 200_000


def test_a_reset_is_seen_as_a_reset_at_both_ends_and_the_link_works_on(server: ToxiproxyServer) -> None:
    with Ends(lambda port: server.link("l", port)) as ends:
        ends.pass_on("broker", b"x")
        evidence = ends.link.reset()
        assert evidence is not None
        assert evidence.as_dict() == {"client_ends": 1, "broker_ends": 1}
        with pytest.raises(ConnectionResetError):
            ends.client.recv(1)
        with pytest.raises(ConnectionResetError):
            ends.broker.recv(1)
        ends.client.close()
        ends.broker.close()
        ends.client, ends.broker = ends.connect()
        ends.pass_on("broker", b"again")
        assert ends.link.reset() is not None


def test_a_stall_is_asked_for_once_and_in_words_that_exist(server: ToxiproxyServer) -> None:
    with Ends(lambda port: server.link("l", port)) as ends:
        with pytest.raises(ValueError, match="cannot stall toward 'server'; known: client, broker, both"):
            ends.link.stall("server")  # type: ignore[arg-type]
        ends.link.stall("both")
        with pytest.raises(ValueError, match="stalled already"):
            ends.link.stall("client")
        with pytest.raises(ValueError, match="-1"):
            ends.link.latency(-1)


def test_the_client_follows_no_proxy_variables(server: ToxiproxyServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", f"http://{LOOPBACK}:{free_port()}")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.setenv(name, "")
    with Ends(lambda port: server.link("l", port)) as ends:
        ends.pass_on("broker", b"x")


def test_a_target_that_is_down_is_a_reset_and_is_noted() -> None:
    with Tap(free_port()) as tap:
        # The reset may come before the socket is seen to be connected.
        with pytest.raises(ConnectionResetError), socket.create_connection((LOOPBACK, tap.port), timeout=5) as client:
            client.recv(1)
        assert [(end.side, end.how) for end in tap.ends] == [("far", "refused")]


def test_a_reader_that_is_slow_is_felt_by_the_writer() -> None:
    """A tap must not swallow what nobody reads: that would hide a stall."""
    with Ends(lambda port: PlainForwarder("l", port)) as ends:
        ends.client.settimeout(0.2)
        with pytest.raises(TimeoutError):
            ends.client.sendall(b"x" * 100_000_000)


def test_the_probe_is_content_here(server: ToxiproxyServer, tmp_path: Path) -> None:
    with Supervisor(tmp_path / "probe") as supervisor:
        result = run_probe("toxiproxy", PROBES["toxiproxy"], supervisor)
    assert result.ok, result


def test_the_probe_fails_when_the_line_is_plain(
    server: ToxiproxyServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ToxiproxyServer, "link", lambda _, name, port: PlainForwarder(name, port))
    with Supervisor(tmp_path / "probe") as supervisor:
        result = run_probe("toxiproxy", PROBES["toxiproxy"], supervisor)
    assert not result.ok
    assert "let bytes pass" in result.detail


def test_a_taken_port_is_not_taken_for_our_server(
    server: ToxiproxyServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server whose port is taken goes on without it, and another one may answer there."""
    ports = iter([server.port, free_port()])
    monkeypatch.setattr("brokerproof.chaos.toxiproxy.free_port", lambda: next(ports))
    with Supervisor(tmp_path / "second") as supervisor:
        second = ToxiproxyServer.start(supervisor)
        assert second.port != server.port


@pytest.mark.parametrize("toward", ["client", "broker"])
def test_a_connection_is_severed_after_exactly_so_many_bytes(
    server: ToxiproxyServer, toward: Literal["client", "broker"]
) -> None:
    with Ends(lambda port: server.link("l", port)) as ends:
        sender, receiver = (ends.broker, ends.client) if toward == "client" else (ends.client, ends.broker)
        ends.pass_on(toward, b"before")
        ends.link.sever(toward, 10)
        ends.pass_on("broker" if toward == "client" else "client", b"the other way counts nothing")
        ends.pass_on(toward, b"nine more")
        assert ends.link.severed() is None
        sender.sendall(b"xyz")
        assert _read(receiver, 3) == b"x"
        assert _read(sender, 1) == b""
        evidence = ends.link.severed()
        assert evidence is not None
        assert evidence.as_dict() == {"bytes_out": 10, "client_ends": 1, "broker_ends": 1}
        ends.link.spare()
        assert ends.link.severed() is None
        again, accepted = ends.connect()
        again.sendall(b"as much as there is")
        assert _read(accepted, 19) == b"as much as there is"
        again.close()
        accepted.close()


def test_a_stall_lifts_a_limit(server: ToxiproxyServer) -> None:
    """Behind a stall a limit could not be lifted: the server waits for ever (seed 151288)."""
    with Ends(lambda port: server.link("l", port)) as ends:
        ends.link.sever("broker", 5)
        ends.link.stall("both")
        ends.client.sendall(b"held back")
        assert _silent(ends.broker)
        with pytest.raises(ValueError, match="or it is stalled"):
            ends.link.sever("broker", 5)
        assert ends.link.resume() is not None
        assert _read(ends.broker, 9) == b"held back"


def test_a_limit_without_a_proxy_has_no_evidence() -> None:
    with Ends(lambda port: PlainForwarder("l", port)) as ends:
        ends.link.sever("client", 1)
        ends.pass_on("client", b"passes")
        assert ends.link.severed() is None


def test_slices_and_jitter_are_seen_at_both_ends(server: ToxiproxyServer) -> None:
    with Ends(lambda port: server.link("l", port)) as ends:
        ends.link.shape(slice_bytes=10)
        ends.pass_on("client", bytes(100))
        seen = ends.link.crossing()
        assert seen.pieces_in == 1
        assert 1 < seen.pieces_out <= 16  # on a busy machine a late reader finds several slices at once
        assert seen.longest_bytes < 100
        ends.link.shape(jitter_us=200_000)
        for _ in range(8):
            ends.pass_on("broker", b"x")
        seen = ends.link.crossing()
        assert seen.least_us is not None
        assert seen.most_us is not None
        assert seen.most_us - seen.least_us > 50_000
        ends.link.shape()
        ends.pass_on("broker", b"x")
        assert (ends.link.crossing().most_us or 0) < 50_000


def test_a_slow_line_goes_on_at_its_rate_and_never_pauses() -> None:
    """A limited tap that read in small pieces opened its window so late that it stood still for more than a second."""
    with Ends(lambda port: PlainForwarder("l", port)) as ends:
        ends.link.limit(40_000)
        client, broker = ends.connect()
        with client, broker:
            began = time.monotonic()
            threading.Thread(target=client.sendall, args=(b"x" * 60_000,), daemon=True).start()
            heard = [began]
            rest = 60_000
            while rest:
                rest -= len(broker.recv(65_536))
                heard.append(time.monotonic())
        assert max(later - earlier for earlier, later in itertools.pairwise(heard)) < 0.4
        assert heard[-1] - began > 1.3
