"""The asyncio edge: sockets, the real clocks and signals around ``node.py``. STOMP over TCP, on loopback.

It decides when bytes are written and when a socket is closed, nothing else.

Rules
* Two clocks, never mixed: ``time.monotonic_ns`` for everything that is elapsed, ``time.time_ns`` for what is stamped or
  expires (a faked process clock changes the second alone).
* A frame is popped only while the kernel takes all that was written before (write buffer limit 0). So a message counts
  as transmitted when it has left this process, and a stalled reader shows in the in-flight count instead of in this
  process's memory.
* After an ERROR the socket is half-closed and what the peer still sends is thrown away for a second: closing at once
  would reset the connection and could destroy the ERROR before the peer has read it. A monitor's close is immediate and
  sends nothing.
* Input that is read in the same turn of the loop as a timer comes due is looked at first (asyncio polls before it runs
  timers), so a process that was stopped for a while does not drop peers whose bytes were waiting.
* The journal is synced by a thread of its own, one sync after the other. Nothing else happens in it.
* Only loopback is served: there are no users and no passwords yet.

What must change together: ``node.py`` (actions), ``settings.py``, ``docs/configuration.md``.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import errno
import ipaddress
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from reference_broker.actions import Answered, Close, Log, OutputReady, Sync, Throttle
from reference_broker.admin import Admin, AdminConnection
from reference_broker.core.config import BrokerConfig, ConfigError
from reference_broker.core.instant import NS_PER_MS, Now
from reference_broker.log import FORMATS, LEVELS, LogWriter
from reference_broker.node import Node
from reference_broker.settings import DEFAULT_HOST, ServerSettings, read_settings
from reference_broker.stomp.codec import BEAT, FrameDecoder, encode
from reference_broker.stomp.frames import Frame, Heartbeat, StompProtocolError
from reference_broker.storage.journal import Journal, StorageError
from reference_broker.storage.sqlite import SqliteJournal

EXIT_OK: Final = 0
EXIT_USAGE: Final = 2
EXIT_ENVIRONMENT: Final = 4
#: How long a peer may take to read an ERROR and hang up.
LINGER_S: Final = 1.0

#: How long to wait before a storage in trouble is tried again.
RETRY_S: Final = 1.0
#: Connections of one life of a storage have numbers below those of the next.
NUMBERS: Final = 1_000_000_000

NodeFactory = Callable[[BrokerConfig, Journal | None], Node]


class ListenError(Exception):
    """The *environment* does not let us listen. The text shows the address and the remedy."""


def plain_node(config: BrokerConfig, journal: Journal | None) -> Node:
    """The broker as it is meant to be."""
    return Node(config, journal=journal)


def read_clocks() -> Now:
    """This process's two clocks."""
    return Now(time.monotonic_ns(), time.time_ns() // NS_PER_MS)


def _wall_ms() -> int:
    return read_clocks().wall_ms


class Edge:
    """One node and its sockets."""

    def __init__(self, settings: ServerSettings, node: Node, log: LogWriter, journal: Journal | None = None) -> None:
        self.settings = settings
        self.node = node
        self.stopping = asyncio.Event()
        #: Who asks for an operator, if the admin port is open.
        self.admin: Admin | None = None
        self.connections: dict[int, Connection] = {}
        self._log = log
        self._journal = journal
        self._numbers = 0 if journal is None else journal.incarnation * NUMBERS
        #: One thread: syncs follow one another, and what comes meanwhile goes into the next.
        self._syncer = None if journal is None else ThreadPoolExecutor(1, "journal")
        self._syncing: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ns: int | None = None

    def next_number(self) -> int:
        """A number that no connection has had before."""
        self._numbers += 1
        return self._numbers

    def flush(self, now: Now) -> None:
        """Do what the node wants done, then plan its next tick."""
        while actions := self.node.take_actions():
            for action in actions:
                if isinstance(action, OutputReady):
                    connection = self.connections.get(action.connection)
                    if connection is not None:
                        connection.drain(now)
                elif isinstance(action, Close):
                    self.log("INFO", f"connection {action.connection} closed: {action.reason}")
                    connection = self.connections.get(action.connection)
                    if connection is not None:
                        connection.finish(now, at_once=action.inactive)
                elif isinstance(action, Throttle):
                    connection = self.connections.get(action.connection)
                    if connection is not None:
                        connection.throttle(blocked=action.blocked)
                elif isinstance(action, Answered):
                    if self.admin is not None:
                        self.admin.answered(action)
                elif isinstance(action, Sync):
                    self._sync()
                elif isinstance(action, Log):
                    self.log(action.level, action.text, action.logger)
        self._plan()

    def _sync(self) -> None:
        """Make the journal safe, beside the loop."""
        if self._syncing is not None or self._syncer is None or self._journal is None:
            return
        loop = asyncio.get_running_loop()
        ticket = self.node.begin_sync()
        self._syncing = loop.run_in_executor(self._syncer, self._journal.sync)
        self._syncing.add_done_callback(lambda done: self._synced(ticket, done))

    def _synced(self, ticket: int, done: asyncio.Future[None]) -> None:
        self._syncing = None
        error = done.exception()
        if error is not None and not isinstance(error, StorageError):
            self.log("WARN", f"the storage failed without saying why ({error!r}); stopping")
            self.stopping.set()
            return
        now = read_clocks()
        self.node.end_sync(0 if error is not None else ticket, now)
        self.flush(now)
        if self.node.is_troubled() and not self.stopping.is_set():
            asyncio.get_running_loop().call_later(RETRY_S, self._sync)

    async def put_away(self) -> None:
        """The end: what is written is made safe, then the storage is let go."""
        journal, syncer = self._journal, self._syncer
        self._journal = self._syncer = None
        if journal is None or syncer is None:
            return
        with contextlib.suppress(StorageError):  # it has been logged; nobody was promised what is lost now
            await asyncio.get_running_loop().run_in_executor(syncer, journal.sync)
        syncer.shutdown()
        journal.close()

    def log(self, level: str, text: str, logger: str = __name__) -> None:
        """One line of the log."""
        self._log.write(level, text, logger)

    def close(self) -> None:
        """Cut everything."""
        if self._timer is not None:
            self._timer.cancel()
        for connection in list(self.connections.values()):
            connection.abort()

    def _plan(self) -> None:
        due_ns = self.node.next_due_ns()
        if due_ns == self._timer_ns:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._timer_ns = due_ns
        if due_ns is not None:
            self._timer = asyncio.get_running_loop().call_at(due_ns / 1e9, self._tick)

    def _tick(self) -> None:
        self._timer = self._timer_ns = None
        now = read_clocks()
        self.node.tick(now)
        self.flush(now)


class Connection(asyncio.Protocol):
    """One STOMP socket."""

    def __init__(self, edge: Edge) -> None:
        self._edge = edge
        self._decoder = FrameDecoder(edge.settings.limits)
        self._number = edge.next_number()
        self._paused = False
        self._ending = False
        self._transport: asyncio.Transport | None = None

    # -- from asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if not isinstance(transport, asyncio.Transport):
            raise TypeError(f"a TCP transport is needed, not {transport!r}")
        self._transport = transport
        transport.set_write_buffer_limits(high=0)
        host, port = transport.get_extra_info("peername")[:2]
        now = read_clocks()
        self._edge.connections[self._number] = self
        self._edge.node.connect(self._number, "stomp", now, f"tcp://{host}:{port}")
        self._edge.flush(now)

    def data_received(self, data: bytes) -> None:
        if self._ending:
            return
        node = self._edge.node
        now = read_clocks()
        node.bytes_received(self._number, now)
        try:
            for frame in self._decoder.feed(data):
                node.receive(self._number, frame, now)
        except StompProtocolError as error:
            for frame in error.frames:
                node.receive(self._number, frame, now)
            node.protocol_error(self._number, error.text, now, error.receipt)
        self._edge.flush(now)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - gone is gone
        self._ending = True
        now = read_clocks()
        self._edge.connections.pop(self._number, None)
        self._edge.node.disconnect(self._number, now)
        self._edge.flush(now)

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        now = read_clocks()
        self.drain(now)
        self._edge.flush(now)

    # -- from the node

    def drain(self, now: Now) -> None:
        """Write what waits, as long as the kernel takes it."""
        node = self._edge.node
        while not self._paused:
            frame = node.next_output(self._number, now)
            if frame is None:
                return
            self._write(frame)

    def finish(self, now: Now, *, at_once: bool) -> None:
        """The node has given the connection up."""
        self._ending = True
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if at_once:
            transport.abort()
            return
        # Only a few control frames can be left; they go out even to a reader that is slow.
        while (frame := self._edge.node.next_output(self._number, now)) is not None:
            self._write(frame)
        transport.write_eof()
        asyncio.get_running_loop().call_later(LINGER_S, transport.abort)

    def throttle(self, *, blocked: bool) -> None:
        """Flow control stops a producer by not reading what it sends, or lets it go on."""
        if self._transport is None:
            return
        if blocked:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    def abort(self) -> None:
        """Cut the socket."""
        if self._transport is not None:
            self._transport.abort()

    def _write(self, frame: object) -> None:
        if self._transport is None:
            return
        if isinstance(frame, Heartbeat):
            self._transport.write(BEAT)
        elif isinstance(frame, Frame):
            self._transport.write(encode(frame, self._decoder.version))


async def serve(
    settings: ServerSettings,
    *,
    make_node: NodeFactory = plain_node,
    log_level: str = "INFO",
    log_format: str = "text",
    announce: Callable[[str], None] | None = None,
) -> None:
    """Serve until SIGTERM, SIGINT or the admin command ``quit``. ``announce`` gets a line when each port is open.

    Raises ListenError when a port cannot be opened, StorageError when the storage cannot.
    """
    loop = asyncio.get_running_loop()
    journal = None if settings.data is None else SqliteJournal(settings.data, settings.storage_max_bytes)
    node = make_node(settings.broker, journal)
    node.recover(read_clocks())
    edge = Edge(settings, node, LogWriter(sys.stderr, _wall_ms, log_level, log_format), journal)
    edge.flush(read_clocks())
    for note in settings.notes:
        edge.log("WARN", note)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, edge.stopping.set)
    tell = announce if announce is not None else _announce
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(edge.put_away)
        host = settings.host
        with _explained(host, settings.port, "--port"):
            server = await loop.create_server(lambda: Connection(edge), host, settings.port)
        stack.callback(server.close)
        admin_port = settings.admin_port
        if admin_port is not None:
            admin = edge.admin = Admin(edge.node, read_clocks, edge.flush, edge.stopping)
            probes: set[asyncio.Transport] = set()
            with _explained(host, admin_port, "--admin-port"):
                admin_server = await loop.create_server(lambda: AdminConnection(admin, probes), host, admin_port)
            stack.callback(admin_server.close)
            stack.callback(_abort_all, probes)
            tell(f"admin on {_address(admin_server)}")
        tell(f"listening on stomp://{_address(server)}")
        await edge.stopping.wait()
        edge.close()
    # One turn of the loop, in which the sockets are closed.
    await asyncio.sleep(0)


def _abort_all(transports: set[asyncio.Transport]) -> None:
    for transport in list(transports):
        transport.abort()


@contextlib.contextmanager
def _explained(host: str, port: int, flag: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            text = (
                f"port {port} on {host} is in use; stop the other process or choose another {flag} (0 takes a free one)"
            )
        else:
            text = (
                f"port {port} on {host} cannot be opened ({error.strerror}); choose another {flag} (0 takes a free one)"
            )
        raise ListenError(text) from None


def _address(server: asyncio.Server) -> str:
    host, port = server.sockets[0].getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _announce(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _port(text: str) -> int:
    if text.isascii() and text.isdigit() and int(text) <= 65535:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is not a port; use 0 (a free one) to 65535")


def _parse(argv: Sequence[str]) -> tuple[ServerSettings, argparse.Namespace]:
    """Command line and file together. Raises ConfigError; argparse itself exits with 2."""
    parser = argparse.ArgumentParser(
        prog="brokerproof serve", description="Run the reference broker (STOMP, loopback)."
    )
    parser.add_argument("--host", help="loopback address to listen on (default 127.0.0.1)")
    parser.add_argument("--port", type=_port, help="port to listen on, 0 for a free one (default 61613)")
    parser.add_argument("--connector", metavar="URI", help="where and how to listen, as an ActiveMQ connector URI")
    parser.add_argument("--admin-port", type=_port, help="open the JSON-lines admin port, 0 for a free one")
    parser.add_argument("--config", type=Path, help="TOML file, see docs/configuration.md")
    parser.add_argument("--data", type=Path, metavar="DIR", help="keep persistent messages in this directory")
    parser.add_argument("--log-level", choices=LEVELS, default="INFO", help="what goes to standard error")
    parser.add_argument("--log-format", choices=FORMATS, default="text", help="lines for people, or JSON for machines")
    given = parser.parse_args(argv)
    settings = read_settings(given.config) if given.config is not None else ServerSettings()
    if given.connector is not None:
        if given.host is not None or given.port is not None:
            raise ConfigError(f"--connector {given.connector} says host and port already; leave --host and --port out")
        settings.listen_on(given.connector)
    if given.host is not None:
        settings.host = given.host
    if given.port is not None:
        settings.port = given.port
    if given.admin_port is not None:
        settings.admin_port = given.admin_port
    if given.data is not None:
        settings.data = given.data
    if settings.data is not None:
        settings.broker.persistent = True
    elif settings.broker.persistent:
        raise ConfigError("broker.persistent = true needs a storage; name a directory with --data or storage.path")
    if settings.host == "localhost":
        # It may name two addresses, which would get two different ports for --port 0.
        settings.host = DEFAULT_HOST
    if not _is_loopback(settings.host):
        raise ConfigError(f"host {settings.host!r} is not a loopback address; use 127.0.0.1, ::1 or localhost")
    return settings, given


def main(argv: Sequence[str] | None = None, make_node: NodeFactory = plain_node) -> int:
    """``brokerproof serve``. ``make_node`` builds the broker from its configuration; a mutant is another one."""
    try:
        settings, given = _parse(sys.argv[1:] if argv is None else argv)
        asyncio.run(serve(settings, make_node=make_node, log_level=given.log_level, log_format=given.log_format))
    except ConfigError as error:
        sys.stderr.write(f"brokerproof serve: {error}\n")
        return EXIT_USAGE
    except (ListenError, StorageError) as error:
        sys.stderr.write(f"brokerproof serve: {error}\n")
        return EXIT_ENVIRONMENT
    return EXIT_OK


if __name__ == "__main__":
    sys.exit(main())
