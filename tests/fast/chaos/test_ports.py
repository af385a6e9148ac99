"""chaos/ports.py: free ports, taken ports, and who listens."""

from __future__ import annotations

import os
import socket

import pytest

from brokerproof.chaos import ports
from brokerproof.chaos.ports import LOOPBACK, PortInUse


def test_free_ports_differ_and_can_be_bound() -> None:
    found = ports.free_ports(20)
    assert len(set(found)) == 20
    for port in found:
        with socket.create_server((LOOPBACK, port)):
            pass


def test_what_was_given_lately_is_not_given_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever got it may be about to start again on it."""
    numbers = iter([5000, 5001, 5000, 5001, 5002])

    class Socket:
        def __enter__(self) -> Socket:
            self.port = next(numbers)
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def bind(self, _: object) -> None:
            pass

        def getsockname(self) -> tuple[str, int]:
            return LOOPBACK, self.port

    monkeypatch.setattr(ports.socket, "socket", lambda *_: Socket())
    assert ports.free_ports(2) == [5000, 5001]
    assert ports.free_port() == 5002


def test_a_taken_port_is_named_and_a_free_one_is_given_back() -> None:
    with socket.create_server((LOOPBACK, 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(PortInUse, match=f"port {port} on 127.0.0.1 is in use") as caught:
            ports.require_free(port)
        assert caught.value.port == port
    assert ports.require_free(port) == port
    assert ports.require_free(0) > 0


@pytest.mark.parametrize("port", [-1, 65536])
def test_a_port_out_of_range_is_refused(port: int) -> None:
    with pytest.raises(ValueError, match=str(port)):
        ports.require_free(port)


def test_the_listener_of_a_port_is_told_from_others() -> None:
    with socket.create_server((LOOPBACK, 0)) as server:
        port = server.getsockname()[1]
        assert ports.owns_listener(os.getpid(), port)
        assert not ports.owns_listener(os.getppid(), port)
        with socket.create_connection((LOOPBACK, port)) as client:
            assert not ports.owns_listener(os.getpid(), client.getsockname()[1])  # connected, not listening
    assert not ports.owns_listener(os.getpid(), port)


@pytest.mark.parametrize(
    "line",
    [
        "java.net.BindException: Address already in use",
        "listen tcp 127.0.0.1:8474: bind: address already in use",
        "OSError: [Errno 98] Address already in use",
        "could not bind: Address in use",
        "{listen_error,{acceptor,{127,0,0,1},42015},eaddrinuse}",
    ],
)
def test_all_the_ways_of_saying_that_a_port_is_taken(line: str) -> None:
    assert ports.says_port_in_use(f"something\n{line}\nmore")


def test_other_troubles_are_not_a_taken_port() -> None:
    assert not ports.says_port_in_use("java.net.ConnectException: Connection refused\nport 61613 used\n")


def test_a_port_is_held_for_a_server_that_is_away() -> None:
    """A broker that was started again found its port taken by somebody's connection (seed 1120964)."""
    port = ports.free_port()
    with ports.held(port):
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind((LOOPBACK, port))
        with socket.socket() as client, pytest.raises(ConnectionRefusedError):
            client.connect((LOOPBACK, port))
        with socket.create_server((LOOPBACK, port)) as server, socket.create_connection((LOOPBACK, port)):
            server.accept()[0].close()
