"""The kinds of brokers that can be tested, by the name that ``--broker`` takes, and how one is made from the options.

To add one: a module here with an ``Adapter``, a line in ``ADAPTERS`` and a branch in ``make_adapter``.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from brokerproof.conformance.experiment.exits import UsageError

if TYPE_CHECKING:
    from brokerproof.conformance.brokers.base import Adapter

#: Name -> what it is.
ADAPTERS: dict[str, str] = {
    "reference": "the embedded reference broker, in virtual time and as a server process",
    "activemq": "Apache ActiveMQ Classic: Debian's release, another one (activemq@5.12.3), or a folder (--home DIR)",
    "stomp": "any running STOMP broker with ActiveMQ's header conventions (--url stomp://127.0.0.1:PORT)",
}


def find_adapter(name: str) -> str:
    """The kind of a broker's name (``activemq@5.12.3`` is of kind ``activemq``). Raises ``UsageError``."""
    kind, at, version = name.partition("@")
    if kind not in ADAPTERS or (at and (kind != "activemq" or not version)):
        raise UsageError(f"broker {name!r} is not known; one of {', '.join(ADAPTERS)}, or activemq@VERSION")
    return kind


def check_place(name: str, *, url: str | None, home: str | None) -> None:
    """Raises ``UsageError`` for a place that this broker has no use for: somebody would take the result for that of a
    broker that was never asked.
    """
    kind = find_adapter(name)
    if url is not None and kind != "stomp":
        raise UsageError(f"--url {url} is a running broker, but {name!r} is started by the suite; add --broker stomp")
    if home is not None and kind != "activemq":
        raise UsageError(f"--home {home} is ActiveMQ's home folder; add --broker activemq")


#: Who plays a program's hosts: name -> what it is.
CLIENTS: dict[str, str] = {
    "as-written": "each host by the library that its program names: STOMP by ours, JMS by ActiveMQ's Java client",
    "openwire": "every host by brokerproof's own OpenWire client; STOMP hosts become JMS hosts that check no expiry",
}


def make_adapter(
    name: str,
    *,
    url: str | None = None,
    home: str | None = None,
    mutant: str | None = None,
    client: str = "as-written",
) -> Adapter:
    """An adapter for a broker. Raises ``UsageError``, ``ToolMissing`` or what ``chaos.brokers`` raises."""
    kind = find_adapter(name)
    if client not in CLIENTS:
        raise UsageError(f"client {client!r} is not known; one of {', '.join(CLIENTS)}")
    if client == "openwire":
        from brokerproof.conformance.brokers.through import ThroughOpenWire

        if kind == "stomp":
            raise UsageError("--broker stomp is reached over STOMP only; leave --client openwire out")
        return ThroughOpenWire(make_adapter(name, url=url, home=home, mutant=mutant))
    if kind == "reference":
        from brokerproof.conformance.brokers.reference import ReferenceAdapter

        return ReferenceAdapter(mutant)
    if kind == "stomp":
        from brokerproof.conformance.brokers.stomp_url import StompUrlAdapter

        if url is None:
            raise UsageError("--broker stomp needs --url stomp://127.0.0.1:PORT of a running broker")
        return StompUrlAdapter(url)
    from brokerproof.conformance.brokers.activemq import ActiveMQAdapter

    version = name.partition("@")[2] or None
    return ActiveMQAdapter(version, None if home is None else Path(home))
