"""A host that speaks OpenWire with our own client: ``python -m brokerproof.conformance.agents.openwire_agent``.

It gives ``loop.py`` the library of ``openwire_library.py``, which behaves as ActiveMQ's Java client does and is the
same code that the simulation uses for JMS hosts. It needs no JVM. ``stamp`` none does not exist in JMS.
"""

from __future__ import annotations

import os
import socket
import sys

from brokerproof.conformance.agents import own_time
from brokerproof.conformance.agents.library import RefusedError
from brokerproof.conformance.agents.loop import Agent
from brokerproof.conformance.agents.openwire_library import OpenWireLibrary
from brokerproof.conformance.agents.protocol import FEATURES, jms_options, jms_url
from brokerproof.conformance.agents.wire import Wire
from brokerproof.conformance.experiment.operations import Connect
from brokerproof.reference_broker.core.config import ConfigError
from brokerproof.reference_broker.openwire.broker_url import client_address


class OpenWireAgent(Agent):
    """The process."""

    name = "openwire/1"
    capabilities = (
        "ttl",
        "delay",
        "prefetch",
        "nack",
        "take",
        "expiry-check",
        "sync-dispatch",
        "acknowledgements",
        "endless",
        "bridges",
        "headers",
        "temporaries",
        *FEATURES,
    )
    default_port = 61616
    _connections = 0

    def open(self, request: Connect, sock: socket.socket, address: str) -> Wire:
        del address  # the URL says it, with options
        self._connections += 1
        now_ns = own_time.now_ns()
        connection_id = f"ID:brokerproof-{os.getpid()}-{now_ns}-{self._connections}:1"
        try:
            target = client_address(jms_url(request, jms_options(request)))
        except ConfigError as error:
            raise RefusedError("bad-address", str(error)) from None
        session = target.session(request.client_id or connection_id, connection_id, now_ns)
        library = OpenWireLibrary(session, expiry_check=request.expiry_check)
        return Wire(sock, target.framing(connection_id), library)


def main() -> int:
    """Serve stdin and stdout."""
    OpenWireAgent(sys.stdin.fileno(), sys.stdout.fileno()).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
