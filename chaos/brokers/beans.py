"""ActiveMQ Classic's configuration file, written from typed options.

Decides: which broker features a run can choose and how they are spelt in the XML that all releases from 5.8 to 6.3
accept.
Rules: everything the caller gives is escaped; paths and ports are written out, because `${…}` is not expanded without a
bean for it; connectors listen on loopback only; the broker's name is always the same, because the management beans
carry it, unless the caller gives it another one.
A network connector carries named queues and topics to one other broker. Both of its connections are sockets, the near
one, too, and go to the ports that it is told, so that somebody can stand between; `mock:` is there because the
connector adds options of the vm transport to its local address, at which a plain `tcp:` one is refused.
Known exceptions: none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal
from xml.sax.saxutils import quoteattr

from brokerproof.chaos.ports import LOOPBACK

BROKER_NAME = "b"
MEBIBYTE = 1024 * 1024
_NAMESPACES = {
    "xmlns": "http://www.springframework.org/schema/beans",
    "xmlns:xsi": "http://www.w3.org/2001/XMLSchema-instance",
    "xsi:schemaLocation": (
        "http://www.springframework.org/schema/beans http://www.springframework.org/schema/beans/spring-beans.xsd "
        "http://activemq.apache.org/schema/core http://activemq.apache.org/schema/core/activemq-core.xsd"
    ),
}


@dataclass(frozen=True)
class TimeStamping:
    """TimeStampingBrokerPlugin: stamp messages with the broker's clock on arrival; 0 switches the two limits off."""

    future_only: bool = False
    ttl_ceiling_ms: int = 0
    zero_expiration_override_ms: int = 0
    process_network_messages: bool = False


@dataclass(frozen=True)
class Redelivery:
    """A policy of the redeliveryPlugin: how often, after which pauses; ``multiplier`` 1 is no exponential back-off."""

    maximum: int = 6
    initial_ms: int = 1000
    pause_ms: int = 1000
    multiplier: int = 1
    longest_ms: int = -1
    dead_letter: bool = True


Kind = Literal["queue", "topic"]
KINDS: Final[tuple[Kind, ...]] = ("queue", "topic")


@dataclass(frozen=True)
class PolicyEntry:
    """Policy of the destinations that match: expiry scan, memory limit, dead letters; the rest by attribute."""

    match: str = ">"
    kind: Kind = "queue"
    expire_period_ms: int | None = 1000
    memory_limit_bytes: int | None = None
    process_non_persistent: bool = True
    attributes: Mapping[str, str] = field(default_factory=dict)
    pending_message_limit: int | None = None
    dead_letters: Literal["shared", "individual", "discarding"] = "shared"
    process_expired: bool = True
    redelivery: Redelivery | None = None


@dataclass(frozen=True)
class NetworkConnector:
    """Carries `destinations` (`queue://NAME`: what waits there; `topic://NAME`: what is published while it is there) to
    another broker; at most `prefetch` messages of one are on their way at once.
    """

    name: str
    near_port: int
    far_port: int
    destinations: tuple[str, ...]
    prefetch: int


@dataclass(frozen=True)
class ActiveMQOptions:
    """What a run chooses about the broker. Connector parameters (`transport.*` …) go into the connector's address."""

    store: Literal["memory", "kahadb"] = "memory"
    scheduler: bool = False
    timestamping: TimeStamping | None = None
    memory_limit_bytes: int = 64 * MEBIBYTE
    store_limit_bytes: int = 200 * MEBIBYTE
    temp_limit_bytes: int = 50 * MEBIBYTE
    policies: tuple[PolicyEntry, ...] = (PolicyEntry(),)
    stomp_parameters: Mapping[str, str] = field(default_factory=dict)
    openwire_parameters: Mapping[str, str] = field(default_factory=dict)
    heap_mebibytes: int = 256
    name: str = BROKER_NAME
    networks: tuple[NetworkConnector, ...] = ()


def broker_xml(options: ActiveMQOptions, data: Path, openwire_port: int, stomp_port: int) -> str:
    """The whole file, for a data folder and two loopback ports."""
    persistent = options.store == "kahadb"
    broker = {
        "xmlns": "http://activemq.apache.org/schema/core",
        "brokerName": options.name,
        "dataDirectory": str(data),
        "persistent": _flag(persistent),
        "useJmx": "true",
        "schedulerSupport": _flag(options.scheduler),
        "useShutdownHook": "true",
        "start": "true",
    }
    if options.networks:
        broker["vmConnectorURI"] = f"mock:({_silent(options.networks[0].near_port)})"
    kahadb = {"directory": str(data / "kahadb"), "journalMaxFileLength": "8mb", "checkForCorruptJournalFiles": "true"}
    store = _tag("persistenceAdapter", {}, _tag("kahaDB", kahadb)) if persistent else ""
    policies = "".join(_policy(policy) for policy in options.policies)
    limits = {
        "memoryUsage": options.memory_limit_bytes,
        "storeUsage": options.store_limit_bytes,
        "tempUsage": options.temp_limit_bytes,
    }
    usage = "".join(_tag(name, {}, _tag(name, {"limit": str(limit)})) for name, limit in limits.items())
    connectors = _connector("openwire", "tcp", openwire_port, options.openwire_parameters) + _connector(
        "stomp", "stomp", stomp_port, options.stomp_parameters
    )
    # One policyMap, one usage and one context each sit in a property of the same name: that is how the schema has it.
    inside = [
        _tag("destinationPolicy", {}, _tag("policyMap", {}, _tag("policyEntries", {}, policies))) if policies else "",
        _tag("managementContext", {}, _tag("managementContext", {"createConnector": "false"})),
        store,
        _tag("plugins", {}, _plugins(options)),
        _tag("systemUsage", {}, _tag("systemUsage", {}, usage)),
        _networks(options.networks),
        _tag("transportConnectors", {}, connectors),
    ]
    return _tag("beans", _NAMESPACES, _tag("broker", broker, "\n".join(inside))) + "\n"


def _plugins(options: ActiveMQOptions) -> str:
    return _tag("statisticsBrokerPlugin", {}) + _timestamping(options.timestamping) + _redeliveries(options.policies)


def _redeliveries(policies: tuple[PolicyEntry, ...]) -> str:
    """One plug-in for all queues; whether what has been tried too often becomes a dead letter is its business."""
    wanted = [(policy.match, policy.redelivery) for policy in policies if policy.kind == "queue"]
    entries = [(match, redelivery) for match, redelivery in wanted if redelivery is not None]
    if not entries:
        return ""
    inside = "".join(_redelivery(match, redelivery) for match, redelivery in entries)
    for name in ("redeliveryPolicyEntries", "redeliveryPolicyMap", "redeliveryPolicyMap"):
        inside = _tag(name, {}, inside)
    kept = all(redelivery.dead_letter for _, redelivery in entries)
    return _tag("redeliveryPlugin", {"sendToDlqIfMaxRetriesExceeded": _flag(kept)}, inside)


def _redelivery(match: str, redelivery: Redelivery) -> str:
    attributes = {
        "queue": match,
        "maximumRedeliveries": str(redelivery.maximum),
        "initialRedeliveryDelay": str(redelivery.initial_ms),
        "redeliveryDelay": str(redelivery.pause_ms),
        "maximumRedeliveryDelay": str(redelivery.longest_ms),
        "useExponentialBackOff": _flag(redelivery.multiplier > 1),
        "backOffMultiplier": str(redelivery.multiplier),
    }
    return _tag("redeliveryPolicy", attributes)


def _timestamping(options: TimeStamping | None) -> str:
    if options is None:
        return ""
    attributes = {
        "futureOnly": _flag(options.future_only),
        "ttlCeiling": str(options.ttl_ceiling_ms),
        "zeroExpirationOverride": str(options.zero_expiration_override_ms),
        "processNetworkMessages": _flag(options.process_network_messages),
    }
    return _tag("timeStampingBrokerPlugin", attributes)


def _policy(policy: PolicyEntry) -> str:
    attributes: dict[str, str] = {policy.kind: policy.match}
    if policy.expire_period_ms is not None:
        attributes["expireMessagesPeriod"] = str(policy.expire_period_ms)
    if policy.memory_limit_bytes is not None:
        attributes["memoryLimit"] = str(policy.memory_limit_bytes)
    options = {"processNonPersistent": _flag(policy.process_non_persistent)}
    if not policy.process_expired:
        options["processExpired"] = "false"
    strategy = "discarding" if policy.dead_letters == "discarding" else f"{policy.dead_letters}DeadLetterStrategy"
    inside = _tag("deadLetterStrategy", {}, _tag(strategy, options))
    if policy.pending_message_limit is not None:
        limit = _tag("constantPendingMessageLimitStrategy", {"limit": str(policy.pending_message_limit)})
        inside += _tag("pendingMessageLimitStrategy", {}, limit)
    return _tag("policyEntry", {**attributes, **policy.attributes}, inside)


def _connector(name: str, scheme: str, port: int, parameters: Mapping[str, str]) -> str:
    query = "&".join(f"{key}={value}" for key, value in parameters.items())
    uri = f"{scheme}://{LOOPBACK}:{port}" + (f"?{query}" if query else "")
    return _tag("transportConnector", {"name": name, "uri": uri})


def _silent(port: int) -> str:
    """Where nobody monitors the link: its silence is a matter of the program's."""
    return f"tcp://{LOOPBACK}:{port}?wireFormat.maxInactivityDuration=0"


def _networks(networks: tuple[NetworkConnector, ...]) -> str:
    if not networks:
        return ""
    again = "initialReconnectDelay=200&maxReconnectDelay=200&useExponentialBackOff=false"
    inside = ""
    for one in networks:
        attributes = {
            "name": one.name,
            "uri": f"static:({_silent(one.far_port)})?{again}",
            "staticBridge": "true",
            "alwaysSyncSend": "true",
            "prefetchSize": str(one.prefetch),
            "networkTTL": "9",
        }
        parts = [destination.split("://", 1) for destination in one.destinations]
        included = "".join(_tag(kind, {"physicalName": name}) for kind, name in parts)
        inside += _tag("networkConnector", attributes, _tag("staticallyIncludedDestinations", {}, included))
    return _tag("networkConnectors", {}, inside)


def _tag(name: str, attributes: Mapping[str, str], inside: str = "") -> str:
    head = "".join(f" {key}={quoteattr(value)}" for key, value in attributes.items())
    return f"<{name}{head}>{inside}</{name}>" if inside else f"<{name}{head}/>"


def _flag(value: bool) -> str:
    return "true" if value else "false"
