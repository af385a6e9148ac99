"""TLS under an agent's loop, which reads as from a plain socket.

Rule: the kernel's stamps are of the ciphertext, so arrivals are dated by when the socket was last seen empty.
"""

from __future__ import annotations

import socket
import ssl
from typing import TYPE_CHECKING

from brokerproof.conformance.agents.library import RefusedError

if TYPE_CHECKING:
    from brokerproof.conformance.experiment.operations import Connect


class SecureSocket(ssl.SSLSocket):
    """What would block raises ``BlockingIOError``, as a plain socket does."""

    def recvmsg(self, size: int, *_: object) -> tuple[bytes, list[object], int, None]:  # type: ignore[override]  # TLS has no ancillary data
        try:
            return self.recv(size), [], 0, None
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise BlockingIOError from None
        except ssl.SSLEOFError:
            return b"", [], 0, None

    def send(self, data: bytes, flags: int = 0) -> int:  # type: ignore[override]  # a buffer, as sockets take it
        try:
            return super().send(data, flags)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise BlockingIOError from None


def context_of(ca: str) -> ssl.SSLContext:
    """Whom a client trusts. Raises ``OSError`` for a file that holds no certificates."""
    context = ssl.create_default_context(cafile=ca or None)
    context.sslsocket_class = SecureSocket
    # Else what the kernel offers to write may change between two attempts at it.
    context.options |= ssl.OP_NO_RENEGOTIATION
    return context


def secured(sock: socket.socket, request: Connect) -> socket.socket:
    """The same connection under TLS. Raises ``RefusedError``."""
    try:
        return context_of(request.ca).wrap_socket(sock, server_hostname=request.secure)
    except OSError as error:
        sock.close()
        raise RefusedError("unreachable", f"{request.url}: TLS as {request.secure}: {error}") from None
