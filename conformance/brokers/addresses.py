"""Where a profile's endpoints are, and which of them plays a program's hosts.

Rule: an error names the line of the profile and never shows a passcode.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from brokerproof.conformance.agents.kinds import AGENT, AMQP, AMQP091, JMS, MQTT, OPENWIRE, STOMP
from brokerproof.conformance.agents.provider import address_in
from brokerproof.conformance.brokers.base import Access
from brokerproof.conformance.brokers.chosen import hidden
from brokerproof.conformance.brokers.placeholders import filled
from brokerproof.conformance.brokers.profile import revealed
from brokerproof.conformance.experiment.wire_names import WireNames

if TYPE_CHECKING:
    from collections.abc import Mapping

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
    if kind == JMS:
        found = address_in(url)
        if found is None:
            raise located.wrong(line, f"{hidden(url)!r} names no host and port; there must be a //HOST:PORT in it")
        return *found, "", "", False
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


def way_in(located: Located, kind: str, values: Mapping[str, str]) -> Access:
    """How agents of a kind get in; ``values`` are the placeholders of a running broker. Raises ``UsageError``."""
    at = getattr(located.profile.endpoints, kind)
    line = f"endpoints.{kind}.{'uri' if kind == JMS else 'url'}"
    url = revealed(filled(at.uri if kind == JMS else at.url, values, located, line), located, line)
    if kind == AGENT and not url:
        return Access(port=0, url="")
    host, port, login, passcode, secure = parse_url(url, kind, located, line)
    own = url.replace(f"{host}:{port}", "{host}:{port}", 1)
    if kind == AGENT:
        return Access(host=host, port=port, url=own)
    told: dict[str, Any] = {
        "login": revealed(at.login, located, f"endpoints.{kind}.login") or login,
        "passcode": revealed(at.passcode, located, f"endpoints.{kind}.passcode") or passcode,
    }
    if kind == STOMP and "logins" in (located.profile.promises.capabilities or ()) and not all(told.values()):
        lacking = next(name for name, value in told.items() if not value)
        raise located.wrong("promises.capabilities", f'"logins" is claimed without endpoints.stomp.{lacking}; give it')
    if kind == JMS:
        return Access(host=host, port=port, url=own, names=located.profile.names.jms, **told)
    names = None if kind == OPENWIRE else getattr(located.profile.names, kind)
    return Access(
        url=f"{'tcp' if kind == OPENWIRE else kind}://{{host}}:{{port}}",
        host=host,
        port=port,
        virtual_host=at.host,
        versions=tuple(at.versions),
        names=None if names == WireNames() else names,
        secure=host if secure else "",
        ca=filled(at.ca, values, located, f"endpoints.{kind}.ca"),
        **told,
    )
