"""Opens ports and counts who has come through each."""

from __future__ import annotations

import asyncio
import contextlib
import errno
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import ssl

    from brokerproof.reference_broker.server.edge import Edge
    from brokerproof.reference_broker.settings.listen_address import ListenAddress


#: How long a peer may take to read an error and hang up.
LINGER_S: Final = 1.0


class ListenError(Exception):
    """The *environment* does not let us listen. The text shows the address and the remedy."""


class Listener:
    """One open port."""

    def __init__(self, edge: Edge, listening: ListenAddress) -> None:
        self.listening = listening
        self.limits = listening.limits if listening.limits is not None else edge.settings.limits
        #: How many of its connections are open.
        self.open = 0
        self._edge = edge

    def is_full(self) -> bool:
        """Whether one more connection would be too many."""
        most = self.listening.max_connections
        return bool(most) and self.open >= most

    async def start(
        self, context: ssl.SSLContext | None, connect: Callable[[Edge, Listener], asyncio.Protocol]
    ) -> asyncio.Server:
        """Open the port; ``connect`` makes each connection. Raises ``ListenError``."""
        loop = asyncio.get_running_loop()
        host, port = self.listening.host, self.listening.port
        with explained(host, port, "--tls-port" if self.listening.secure else "--port"):
            if context is None:
                return await loop.create_server(lambda: connect(self._edge, self), host, port)
            timeout_ms = self._edge.settings.broker.monitor.connect_timeout_ms
            return await loop.create_server(
                lambda: connect(self._edge, self),
                host,
                port,
                ssl=context,
                ssl_handshake_timeout=timeout_ms / 1000 if timeout_ms > 0 else None,
                ssl_shutdown_timeout=LINGER_S,
            )


@contextlib.contextmanager
def explained(host: str, port: int, flag: str) -> Iterator[None]:
    """Turn what the system says about a port into a ``ListenError`` with the remedy."""
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


def address(server: asyncio.Server) -> str:
    """Where a server listens, as in a URI."""
    host, port = server.sockets[0].getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
