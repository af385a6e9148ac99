"""Where the broker listens, and for what: addresses, protocols, certificates and limits, as the operator says them.

* A name of an address is never looked up to find out whether it is loopback: only numbers can say so, and
  ``localhost``. That is 127.0.0.1, because it may name two addresses, which would get two different ports for port 0.
* A private key that is locked with a password is refused; asking for it would stop a start without a terminal.
"""

from __future__ import annotations

import ipaddress
import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from brokerproof.reference_broker.core.config import ConfigError
from brokerproof.reference_broker.session.detection import AUTO
from brokerproof.reference_broker.session.framing import Limits

DEFAULT_HOST: Final = "127.0.0.1"
DEFAULT_PORT: Final = 61613
#: As ActiveMQ writes them, without and with TLS.
_SCHEMES: Final = {"stomp": ("stomp", "stomp+ssl"), "openwire": ("tcp", "ssl")}


class ListenAddress(Struct, eq=False):
    """One port. ``limits`` None: the broker's; ``max_connections`` 0: no limit of its own."""

    protocol: str = AUTO
    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT
    secure: bool = False
    limits: Limits | None = None
    max_connections: int = 0

    def __post_init__(self) -> None:
        self.host = DEFAULT_HOST if self.host == "localhost" else self.host

    def moved(self, host: str, port: int) -> ListenAddress:
        """The same somewhere else."""
        return ListenAddress(
            self.protocol, host, port, secure=self.secure, limits=self.limits, max_connections=self.max_connections
        )

    def schemes(self, spoken: Sequence[str]) -> list[str]:
        """How the URIs of clients begin: one for each protocol that is ``spoken`` here."""
        protocols = spoken if self.protocol == AUTO else [self.protocol]
        return [_SCHEMES[protocol][self.secure] for protocol in protocols]

    def is_local(self) -> bool:
        """Whether only this machine can connect."""
        return is_loopback(self.host)


class Certificates(Struct, eq=False):
    """PEM files. ``key`` None: it stands in the certificate's file. ``authorities``: whoever connects must show a
    certificate that is signed by one of these.
    """

    certificate: Path
    key: Path | None = None
    authorities: Path | None = None

    def context(self) -> ssl.SSLContext:
        """TLS 1.2 or newer for a server. Raises ConfigError."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        paths = [str(path) for path in (self.certificate, self.key) if path is not None]
        try:
            context.load_cert_chain(self.certificate, self.key, _locked)
        except (OSError, ValueError) as error:
            raise ConfigError(f"{' with '.join(paths)} cannot be used for TLS ({error}); give PEM files") from None
        if self.authorities is not None:
            context.verify_mode = ssl.CERT_REQUIRED
            try:
                context.load_verify_locations(self.authorities)
            except (OSError, ValueError) as error:
                raise ConfigError(f"{self.authorities} cannot be used for TLS ({error}); give a PEM file") from None
        return context


def is_loopback(host: str) -> bool:
    """Whether an address is this machine's own."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _locked() -> str:
    raise ValueError("the key is locked with a password; give one without")
