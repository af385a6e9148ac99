"""Where a profile's endpoints are, and which of them plays a program's hosts.

Rule: an error names the line of the profile and never shows a passcode.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from brokerproof.conformance.agents.kinds import AGENT, AMQP, AMQP091, JMS, MQTT, OPENWIRE, STOMP
from brokerproof.conformance.brokers.chosen import hidden

if TYPE_CHECKING:
    from brokerproof.conformance.brokers.profile import Located

DEFAULT_PORTS = {STOMP: 61613, OPENWIRE: 61616, AMQP: 5672, AMQP091: 5672, MQTT: 1883}
SCHEMES = {
    STOMP: ("stomp", "tcp", "stomp+ssl"),
    OPENWIRE: ("tcp", "openwire"),
    AMQP: ("amqp", "amqps"),
    AMQP091: ("amqp", "amqps"),
    MQTT: ("mqtt", "mqtts"),
}
SECURE = ("stomp+ssl", "amqps", "mqtts")
#: Each host by the library that its program names.
AS_WRITTEN = "as-written"


def parse_url(url: str, kind: str, located: Located, line: str) -> tuple[str, int, str, str, bool]:
    """Host, port, login, passcode and whether it is TLS. Raises ``UsageError``, which never shows a passcode."""
    schemes = SCHEMES.get(kind)
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise located.wrong(line, f"{hidden(url)!r} is not a URL; give SCHEME://HOST:PORT") from None
    if schemes is not None and (parts.scheme not in schemes or not parts.hostname):
        shown = f"{hidden(url)!r} is not one of {kind}; give {', '.join(f'{one}://HOST:PORT' for one in schemes)}"
        raise located.wrong(line, shown)
    if not parts.hostname or not (port or kind in DEFAULT_PORTS):
        raise located.wrong(line, f"{hidden(url)!r} names no host and port; give SCHEME://HOST:PORT")
    login, passcode = unquote(parts.username or ""), unquote(parts.password or "")
    return parts.hostname, port or DEFAULT_PORTS[kind], login, passcode, parts.scheme in SECURE


def players(located: Located, client: str) -> dict[str, str]:
    """Kind of host -> the agent that plays it. Raises ``UsageError`` for an endpoint that is not there."""
    endpoints = located.profile.endpoints
    if client == AS_WRITTEN:
        both = {via: kind for via, kind in ((STOMP, STOMP), (JMS, OPENWIRE)) if getattr(endpoints, kind) is not None}
        if both:
            return both
        client = next(kind for kind in (AGENT, AMQP, AMQP091, MQTT, JMS) if getattr(endpoints, kind) is not None)
    if getattr(endpoints, client) is None:
        raise located.wrong(f"endpoints.{client}", "it is missing; add the line, or give another --client")
    return {JMS if client == JMS else STOMP: client}
