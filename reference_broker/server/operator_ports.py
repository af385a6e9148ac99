"""The ports for those who run the broker: the admin port (tests and probes) and the management port (HTTP).

* The admin port asks for no password, so it is opened on loopback, wherever the broker itself listens.
* The management port is where the broker is, if there are users: then it asks for one of a management group, also on
  loopback. Without users it is opened on loopback.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Final

from brokerproof.reference_broker.management.site import Authenticator
from brokerproof.reference_broker.security.identity import Credentials, Identity
from brokerproof.reference_broker.server.admin import Admin, AdminConnection
from brokerproof.reference_broker.server.clocks import read_clocks
from brokerproof.reference_broker.server.listener import address, explained
from brokerproof.reference_broker.settings.listen_address import is_loopback

if TYPE_CHECKING:
    from brokerproof.reference_broker.server.authentication import AsyncAuthenticator
    from brokerproof.reference_broker.server.edge import Edge

#: Scheme -> connector, where they differ.
_CONNECTORS: Final = {"tcp": "openwire", "ssl": "openwire+ssl"}


class ManagementAuthenticator(Authenticator):
    """Lets in who knows a password and belongs to one of the groups."""

    def __init__(self, authenticator: AsyncAuthenticator, groups: frozenset[str]) -> None:
        self._authenticator = authenticator
        self._groups = groups

    def authenticate(self, user: str, password: str, then: Callable[[bool], None]) -> None:
        def answer(identity: Identity | None, text: str) -> None:  # noqa: ARG001 - HTTP says no in its own words
            then(identity is not None and not self._groups.isdisjoint(identity.groups))

        self._authenticator.ask(Credentials(user, password), answer)


async def open_operator_ports(edge: Edge, uris: list[str], stack: AsyncExitStack) -> list[str]:
    """Open what the settings ask for; returns a line for each. Raises ``ListenError``."""
    settings = edge.settings
    admin = edge.admin = Admin(edge.node, read_clocks, edge.flush, edge.stopping)
    loop = asyncio.get_running_loop()
    lines = []
    probes: set[asyncio.Transport] = set()
    stack.callback(_abort_all, probes)
    if settings.admin_port is not None:
        with explained(settings.admin_host, settings.admin_port, "--admin-port"):
            server = await loop.create_server(
                lambda: AdminConnection(admin, probes), settings.admin_host, settings.admin_port
            )
        stack.callback(server.close)
        lines.append(f"admin on {address(server)}")
    if settings.management_port is not None:
        with explained(settings.management_host, settings.management_port, "--management-port"):
            transports: set[asyncio.Transport] = set()
            management = await _manage(edge, admin, uris, settings.management_port, transports)
        stack.callback(_abort_all, transports)
        stack.callback(management.close)
        lines.append(f"management on http://{address(management)}")
    return lines


async def _manage(
    edge: Edge, admin: Admin, uris: list[str], port: int, transports: set[asyncio.Transport]
) -> asyncio.Server:
    """``transports`` gets the transports of all who are connected."""
    # Imported here: only who wants it pays for the metrics library.
    from brokerproof.reference_broker.management.http_server import HttpConnection, make_site

    settings = edge.settings
    authenticator = None
    if edge.authenticator is not None and settings.security.logins:
        authenticator = ManagementAuthenticator(edge.authenticator, settings.security.management_groups)
    host = settings.management_host
    site = make_site(
        edge.node,
        read_clocks,
        admin.submit,
        connectors={_connector(uri): uri for uri in uris},
        version=_version(),
        authenticator=authenticator,
        local=is_loopback(host),
    )
    return await asyncio.get_running_loop().create_server(lambda: HttpConnection(site, transports), host, port)


def _connector(uri: str) -> str:
    """How ActiveMQ's own configuration names the connector of an address."""
    scheme = uri.partition(":")[0]
    return _CONNECTORS.get(scheme, scheme)


def _version() -> str:
    from importlib import metadata  # costs a tenth of a start, and only this port tells the version

    try:
        return metadata.version("brokerproof")
    except metadata.PackageNotFoundError:
        return "unknown"


def _abort_all(transports: set[asyncio.Transport]) -> None:
    for transport in list(transports):
        transport.abort()
