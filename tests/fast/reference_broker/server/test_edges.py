"""The edges of a process where something goes wrong, or comes to an end: a frame that cannot be written, a check of a
password that fails in itself, HTTP connections that are open when the broker stops.
"""

from __future__ import annotations

import asyncio
import io
from contextlib import AsyncExitStack

import pytest

from brokerproof.reference_broker.core.config import BrokerConfig
from brokerproof.reference_broker.node import Node
from brokerproof.reference_broker.openwire.commands import KeepAliveInfo, RefusedCommand
from brokerproof.reference_broker.security.authenticator import Authenticator, User
from brokerproof.reference_broker.security.identity import Credentials, Identity
from brokerproof.reference_broker.security.passwords import Cost, PasswordHash, hash_password
from brokerproof.reference_broker.server.authentication import AsyncAuthenticator
from brokerproof.reference_broker.server.clocks import read_clocks
from brokerproof.reference_broker.server.connection import Connection
from brokerproof.reference_broker.server.edge import Edge
from brokerproof.reference_broker.server.listener import Listener
from brokerproof.reference_broker.server.log import LogWriter
from brokerproof.reference_broker.server.operator_ports import open_operator_ports
from brokerproof.reference_broker.settings.configuration import ServerSettings
from brokerproof.reference_broker.settings.listen_address import ListenAddress


def edge_of(settings: ServerSettings) -> Edge:
    return Edge(settings, Node(BrokerConfig()), LogWriter(io.StringIO(), lambda: 0))


class Socket(asyncio.Transport):
    """What a connection writes, and whether it said that this was all."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 1)})
        self.written: list[bytes] = []
        self.ended = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written.append(bytes(data))

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def is_closing(self) -> bool:
        return False

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.ended = True

    def abort(self) -> None:
        pass


def test_a_last_frame_that_cannot_be_written_does_not_keep_the_socket_open() -> None:
    async def story() -> Socket:
        edge = edge_of(ServerSettings())
        connection = Connection(edge, Listener(edge, ListenAddress("openwire")))
        transport = Socket()
        connection.connection_made(transport)
        state = edge.node.connection_state(1)
        assert state is not None
        transport.written.clear()
        state.session.outbox.extend([RefusedCommand("has no form on the wire", 1, False), KeepAliveInfo()])
        connection.finish(read_clocks(), at_once=False)
        return transport

    transport = asyncio.run(story())
    assert (len(transport.written), transport.ended) == (1, True)


def test_a_check_that_fails_in_itself_lets_nobody_in_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def exhausted(stored: PasswordHash, password: str) -> bool:
        raise MemoryError

    monkeypatch.setattr(PasswordHash, "matches", exhausted)

    async def story() -> tuple[Identity | None, str]:
        auth = AsyncAuthenticator(Authenticator([User("alice", hash_password("secret", Cost(2, 1, 1)))]))
        told: asyncio.Future[tuple[Identity | None, str]] = asyncio.get_running_loop().create_future()
        auth.ask(Credentials("alice", "secret"), lambda identity, text: told.set_result((identity, text)))
        try:
            return await asyncio.wait_for(told, 5)
        finally:
            auth.close()

    assert asyncio.run(story()) == (None, "the password could not be checked here (MemoryError); try again")


def test_who_asks_over_http_is_let_go_when_the_broker_stops() -> None:
    async def story() -> bytes:
        settings = ServerSettings()
        settings.management_port = 0
        async with AsyncExitStack() as stack:
            (line,) = await open_operator_ports(edge_of(settings), [], stack)
            host, port = line.rpartition("/")[2].split(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            assert b"404" in await asyncio.wait_for(reader.readline(), 5)
        try:
            await asyncio.wait_for(reader.read(), 5)
            return await asyncio.wait_for(reader.read(), 5)
        except ConnectionResetError:
            return b""
        finally:
            writer.close()

    assert asyncio.run(story()) == b""
