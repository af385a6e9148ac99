"""``brokerproof serve``: the reference broker as a process, with sockets, real clocks and signals.

This module decides what the command line says and the order of starting and stopping; ``edge.py`` and ``connection.py``
do the rest.

* Nothing beyond loopback is served to people whose name nobody asks for, unless the operator says so; the admin port
  never is.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from brokerproof.reference_broker.core.config import BrokerConfig, ConfigError
from brokerproof.reference_broker.node import Node
from brokerproof.reference_broker.server.authentication import AsyncAuthenticator
from brokerproof.reference_broker.server.clocks import read_clocks, run_at
from brokerproof.reference_broker.server.connection import Connection
from brokerproof.reference_broker.server.edge import Edge
from brokerproof.reference_broker.server.listener import Listener, ListenError, address
from brokerproof.reference_broker.server.log import FORMATS, LEVELS, LogWriter
from brokerproof.reference_broker.server.operator_ports import open_operator_ports
from brokerproof.reference_broker.server.protocols import FRAMINGS
from brokerproof.reference_broker.session.detection import AUTO
from brokerproof.reference_broker.settings.configuration import ServerSettings, read_settings
from brokerproof.reference_broker.settings.listen_address import Certificates, ListenAddress
from brokerproof.reference_broker.storage.journal import Journal, StorageError

EXIT_OK: Final = 0
EXIT_USAGE: Final = 2
EXIT_ENVIRONMENT: Final = 4
#: New objects, less those that are gone, before the collector looks at the youngest (Python's own: 700).
GC_THRESHOLD: Final = 50_000


NodeFactory = Callable[[BrokerConfig, Journal | None], Node]


def plain_node(config: BrokerConfig, journal: Journal | None) -> Node:
    """The broker as it is meant to be."""
    return Node(config, journal=journal)


def _wall_ms() -> int:
    return read_clocks().wall_ms


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
    context = None if settings.certificates is None else settings.certificates.context()
    journal = None
    if settings.data is not None:
        from brokerproof.reference_broker.storage.sqlite import SqliteJournal  # not for brokers that keep nothing

        journal = SqliteJournal(settings.data, settings.storage_max_bytes)
    node = make_node(settings.broker, journal)
    node.recover(read_clocks())
    edge = Edge(settings, node, LogWriter(sys.stderr, _wall_ms, log_level, log_format), journal)
    _guard(edge)
    edge.flush(read_clocks())
    for note in settings.notes:
        edge.log("WARN", note)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, edge.stopping.set)
    tell = announce if announce is not None else _announce
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(edge.close_journal)
        servers = []
        for listening in settings.listen_addresses:
            server = await Listener(edge, listening).start(context if listening.secure else None, Connection)
            stack.callback(server.close)
            servers.append(server)
        uris = [
            f"{scheme}://{address(server)}"
            for listening, server in zip(settings.listen_addresses, servers, strict=True)
            for scheme in listening.schemes(list(FRAMINGS))
        ]
        for line in await open_operator_ports(edge, uris, stack):
            tell(line)
        for uri in uris:
            tell(f"listening on {uri}")
        if settings.max_idle_ms:
            edge.watch_idle()
        await edge.stopping.wait()
        edge.close()
    # One turn of the loop, in which the sockets are closed.
    await asyncio.sleep(0)


def _guard(edge: Edge) -> None:
    """Ask everybody who he is, if the settings say so."""
    authenticator = edge.settings.security.authenticator()
    if authenticator is not None:
        edge.authenticator = AsyncAuthenticator(authenticator)
        edge.node.require_authentication(edge.settings.security.authority())


def _announce(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _port(text: str) -> int:
    if text.isascii() and text.isdigit() and int(text) <= 65535:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is not a port; use 0 (a free one) to 65535")


def _parse(argv: Sequence[str]) -> tuple[ServerSettings, argparse.Namespace]:
    """Command line and file together. Raises ConfigError; argparse itself exits with 2."""
    parser = argparse.ArgumentParser(
        prog="brokerproof serve", description="Run the reference broker: STOMP and OpenWire on one port."
    )
    parser.add_argument("--host", help="address to listen on (default 127.0.0.1); beyond loopback only with users")
    parser.add_argument("--port", type=_port, help="port to listen on, 0 for a free one (default 61613)")
    parser.add_argument(
        "--connector",
        metavar="URI",
        action="append",
        help="where and how to listen, as an ActiveMQ connector URI; may be repeated",
    )
    parser.add_argument("--tls-port", type=_port, help="one more port, for TLS; 0 for a free one")
    parser.add_argument("--certificate", type=Path, metavar="PEM", help="the broker's certificate, for TLS")
    parser.add_argument("--key", type=Path, metavar="PEM", help="its private key, if that is not in the same file")
    parser.add_argument("--admin-port", type=_port, help="open the JSON-lines admin port, 0 for a free one")
    parser.add_argument(
        "--management-port", type=_port, help="open the HTTP port for Jolokia and Prometheus, 0 for a free one"
    )
    parser.add_argument("--config", type=Path, help="TOML file, see docs/configuration.md")
    parser.add_argument("--data", type=Path, metavar="DIR", help="keep persistent messages in this directory")
    parser.add_argument(
        "--rate", metavar="N", default="1", help="live N times as fast as the machine: clocks, timers and delays"
    )
    parser.add_argument("--log-level", choices=LEVELS, default="INFO", help="what goes to standard error")
    parser.add_argument("--log-format", choices=FORMATS, default="text", help="lines for people, or JSON for machines")
    given = parser.parse_args(argv)
    run_at(given.rate)
    settings = read_settings(given.config) if given.config is not None else ServerSettings()
    _place(settings, given)
    if given.admin_port is not None:
        settings.admin_port = given.admin_port
    if given.management_port is not None:
        settings.management_port = given.management_port
    if given.data is not None:
        settings.data = given.data
    if settings.data is not None:
        settings.broker.persistent = True
    elif settings.broker.persistent:
        raise ConfigError("broker.persistent = true needs a storage; name a directory with --data or storage.path")
    settings.check()
    return settings, given


def _place(settings: ServerSettings, given: argparse.Namespace) -> None:
    """Where to listen, as the command line says; it wins over the file."""
    if given.connector:
        if given.host is not None or given.port is not None:
            raise ConfigError(
                f"--connector {given.connector[0]} says host and port already; leave --host and --port out"
            )
        settings.listen_on(given.connector)
    first = settings.listen_addresses[0]
    if given.host is not None or given.port is not None:
        host = first.host if given.host is None else given.host
        port = first.port if given.port is None else given.port
        settings.listen_addresses[0] = first.moved(host, port)
    if given.key is not None and given.certificate is None:
        raise ConfigError(f"--key {given.key} belongs to a certificate; name it with --certificate")
    if given.certificate is not None:
        settings.certificates = Certificates(given.certificate, given.key)
    if given.tls_port is not None:
        others = [listening for listening in settings.listen_addresses if not listening.secure]
        settings.listen_addresses = [
            *others,
            ListenAddress(AUTO, settings.listen_addresses[0].host, given.tls_port, secure=True),
        ]


def main(argv: Sequence[str] | None = None, make_node: NodeFactory = plain_node) -> int:
    """``brokerproof serve``. ``make_node`` builds the broker from its configuration; a mutant is another one."""
    try:
        settings, given = _parse(sys.argv[1:] if argv is None else argv)
        with asyncio.Runner(loop_factory=loop_factory(settings.event_loop)) as runner:
            # Messages form no cycles: the collector would look at every one that waits, again and again.
            gc.freeze()
            gc.set_threshold(GC_THRESHOLD)
            runner.run(serve(settings, make_node=make_node, log_level=given.log_level, log_format=given.log_format))
    except ConfigError as error:
        sys.stderr.write(f"brokerproof serve: {error}\n")
        return EXIT_USAGE
    except (ListenError, StorageError) as error:
        sys.stderr.write(f"brokerproof serve: {error}\n")
        return EXIT_ENVIRONMENT
    return EXIT_OK


def loop_factory(name: str) -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Who makes the event loop; None: asyncio itself. Raises ConfigError for uvloop where it is not installed."""
    if name == "asyncio":
        return None
    try:
        import uvloop
    except ImportError:
        if name == "uvloop":
            raise ConfigError(
                "server.event_loop = 'uvloop' is not installed here; install brokerproof[fast] or write 'auto'"
            ) from None
        return None
    return uvloop.new_event_loop
