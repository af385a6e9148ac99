"""The operator's configuration file (TOML) and what becomes of it: limits, addresses and a ``BrokerConfig``.

* Every key has a row in a table below: its type, its smallest and largest value. A key without a row is an error, never
  ignored. ``preset`` is filled in before (``presets.py``).
* An error shows where the value stands, the value, and what would be accepted.
* ``[broker]`` has the same shape and words as ``broker`` in a program, so that a file and a program can be compared
  line by line.
"""

from __future__ import annotations

import tomllib
from copy import copy
from pathlib import Path
from typing import Any, Final

from msgspec import Struct, field

from brokerproof.reference_broker.core.config import (
    AdvisoryOptions,
    BrokerConfig,
    BrokerRedelivery,
    CompositeDestination,
    ConfigError,
    DeadLetterStrategy,
    DestinationPolicy,
    Monitor,
    TimeStamping,
    VirtualTopic,
)
from brokerproof.reference_broker.core.deadletter import fault_of_strategy
from brokerproof.reference_broker.core.delay import MAX_DELAY_MS
from brokerproof.reference_broker.core.matching import fault_of_pattern
from brokerproof.reference_broker.core.retention import RECOVERIES, Recovery
from brokerproof.reference_broker.core.routing import fault_of_composite, fault_of_composites, fault_of_virtual_topic
from brokerproof.reference_broker.core.time_to_live import MAX_TTL_MS
from brokerproof.reference_broker.session.detection import AUTO
from brokerproof.reference_broker.session.framing import Limits
from brokerproof.reference_broker.settings.connector_uri import CACHE_LEAST, CACHE_MOST, Connector, server_connector
from brokerproof.reference_broker.settings.listen_address import DEFAULT_HOST, DEFAULT_PORT, Certificates, ListenAddress
from brokerproof.reference_broker.settings.presets import apply_preset
from brokerproof.reference_broker.settings.schema import ANY_MS as _ANY_MS
from brokerproof.reference_broker.settings.schema import ANY_TEXT as _ANY_TEXT
from brokerproof.reference_broker.settings.schema import FLAG as _FLAG
from brokerproof.reference_broker.settings.schema import NAMES as _NAMES
from brokerproof.reference_broker.settings.schema import RATIO as _RATIO
from brokerproof.reference_broker.settings.schema import TABLE as _TABLE
from brokerproof.reference_broker.settings.schema import TABLES as _TABLES
from brokerproof.reference_broker.settings.schema import TEXT as _TEXT
from brokerproof.reference_broker.settings.schema import TEXTS as _TEXTS
from brokerproof.reference_broker.settings.schema import Number as _Number
from brokerproof.reference_broker.settings.schema import Row as _Row
from brokerproof.reference_broker.settings.schema import checked as _checked
from brokerproof.reference_broker.settings.schema import checked_table as _checked_table
from brokerproof.reference_broker.settings.security import SecuritySettings, security_settings

#: ``auto`` is uvloop where it is installed.
EVENT_LOOPS: Final = ("auto", "asyncio", "uvloop")

_SECTIONS: Final[dict[str, _Row]] = dict.fromkeys(
    ("server", "stomp", "openwire", "limits", "security", "storage", "broker"), _TABLE
)
_STORAGE: Final[dict[str, _Row]] = {"path": _TEXT, "max_bytes": _Number(0)}
_SERVER: Final[dict[str, _Row]] = {
    "host": _TEXT,
    "port": _Number(0, 65535),
    "admin_port": _Number(0, 65535),
    "management_port": _Number(0, 65535),
    "connector": _TEXT,
    "connectors": _TEXTS,
    "event_loop": _TEXT,
    "tls": _TABLE,
}
_TLS: Final[dict[str, _Row]] = {
    "certificate": _TEXT,
    "key": _TEXT,
    "client_authorities": _TEXT,
    "port": _Number(0, 65535),
}
_LIMITS: Final[dict[str, _Row]] = {
    "max_connections": _Number(0),
    "max_messages_per_second": _Number(0, 1_000_000),
    "max_idle_ms": _Number(0),
}
_STOMP: Final[dict[str, _Row]] = {
    "max_headers": _Number(1),
    "max_header_bytes": _Number(64),
    "max_body_bytes": _Number(0),
}
_OPENWIRE: Final[dict[str, _Row]] = {
    "max_frame_bytes": _Number(256),
    "tight_encoding": _FLAG,
    "cache_size": _Number(0, CACHE_MOST),
}
#: Of a served broker whose file does not say it. What waits in temporary files elsewhere waits in this process, and a
#: subscriber that does not read must not fill the memory.
TEMP_LIMIT_BYTES: Final = 1 << 30
_BROKER: Final[dict[str, _Row]] = {
    "name": _TEXT,
    "memory_limit_bytes": _Number(0),
    "memory_high_water_percent": _Number(1, 100),
    "page_size": _Number(1),
    "store_limit_bytes": _Number(0),
    "temp_limit_bytes": _Number(0),
    "send_fail_if_no_space": _FLAG,
    "send_fail_if_no_space_after_ms": _Number(0),
    "concurrent_store": _FLAG,
    "wake_on_relief": _FLAG,
    "persistent": _FLAG,
    "dead_letter_non_persistent": _FLAG,
    "enable_message_expiration_on_active_durable_subs": _FLAG,
    "advisory_support": _FLAG,
    "statistics": _FLAG,
    "delay_support": _FLAG,
    "max_delay_ms": _Number(0, MAX_DELAY_MS),
    "redeliveries_max": _Number(-1),
    "transacted_nacks": _FLAG,
    "relative_ttl_names": _TEXTS,
    "mqsc": _TEXTS,
    "timestamping": _TABLE,
    "monitor": _TABLE,
    "generation": _TABLE,
    "destinations": _TABLES,
    "virtual_topics": _TABLES,
    "composite_destinations": _TABLES,
}
_TIMESTAMPING: Final[dict[str, _Row]] = {
    "future_only": _FLAG,
    "process_network_messages": _FLAG,
    "restamp_moved": _FLAG,
    "ttl_ceiling_ms": _ANY_MS,
    "zero_expiration_override_ms": _ANY_MS,
}
_MONITOR: Final[dict[str, _Row]] = {
    "read_ms": _ANY_MS,
    "initial_delay_ms": _Number(0),
    "use_keep_alive": _FLAG,
    "use_monitor": _FLAG,
    "ask_for_answers": _FLAG,
    "ignore_remote": _FLAG,
    "connect_timeout_ms": _ANY_MS,
    "read_timeout_ms": _ANY_MS,
    "write_timeout_ms": _ANY_MS,
    "heart_beat_grace": _RATIO,
    "default_heart_beat": _TEXT,
}
_DESTINATION: Final[dict[str, _Row]] = {
    "match": _TEXT,
    "expire_period_ms": _ANY_MS,
    "memory_limit_bytes": _Number(0),
    "high_water_percent": _Number(0, 100),
    "max_page_size": _Number(0),
    "max_browse_page_size": _Number(0),
    "max_expire_page_size": _Number(0),
    "minimum_message_bytes": _Number(0),
    "use_cache": _FLAG,
    "lazy_dispatch": _FLAG,
    "producer_flow_control": _FLAG,
    "send_fail_if_no_space": _FLAG,
    "send_fail_if_no_space_after_ms": _Number(0),
    "store_high_water_percent": _Number(1, 100),
    "prioritized_messages": _FLAG,
    "queue_prefetch": _Number(0),
    "queue_browser_prefetch": _Number(0),
    "topic_prefetch": _Number(0),
    "durable_topic_prefetch": _Number(0),
    "use_prefetch_extension": _FLAG,
    "pending_message_limit": _Number(-1),
    "pending_message_limit_multiplier": _RATIO,
    "recovery": _TABLE,
    "advisories": _TABLE,
    "dead_letter": _TABLE,
    "redelivery": _TABLE,
}
_RECOVERY: Final[dict[str, _Row]] = {
    "policy": _TEXT,
    "maximum_messages": _Number(1),
    "maximum_bytes": _Number(1),
    "duration_ms": _Number(1),
}
_REDELIVERY: Final[dict[str, _Row]] = {
    "maximum_redeliveries": _Number(-1),
    "initial_redelivery_delay_ms": _Number(0, MAX_DELAY_MS),
    "redelivery_delay_ms": _Number(0, MAX_DELAY_MS),
    "maximum_redelivery_delay_ms": _Number(-1, MAX_DELAY_MS),
    "use_exponential_back_off": _FLAG,
    "back_off_multiplier": _Number(1, 1000),
    "send_to_dlq_if_max_retries_exceeded": _FLAG,
}
_ADVISORIES: Final[dict[str, _Row]] = {"expired": _FLAG, "dead_letters": _FLAG, "include_body": _FLAG}
_DEAD_LETTER: Final[dict[str, _Row]] = {
    "strategy": _TEXT,
    "process_expired": _FLAG,
    "process_non_persistent": _FLAG,
    "expiration_ms": _Number(0, MAX_TTL_MS),
    "enable_audit": _FLAG,
    "dead_letter_queue": _TEXT,
    "queue_prefix": _TEXT,
    "topic_prefix": _TEXT,
    "queue_suffix": _ANY_TEXT,
    "topic_suffix": _ANY_TEXT,
    "use_queue_for_queue_messages": _FLAG,
    "use_queue_for_topic_messages": _FLAG,
    "destination_per_durable_subscriber": _FLAG,
}


_VIRTUAL_TOPIC: Final[dict[str, _Row]] = {"name": _TEXT, "prefix": _TEXT, "postfix": _ANY_TEXT}
_COMPOSITE: Final[dict[str, _Row]] = {"name": _TEXT, "forward_to": _NAMES, "forward_only": _FLAG}


class ServerSettings(Struct, eq=False, kw_only=True):
    """All that ``serve`` needs to know. ``admin_port``, ``management_port`` None: no such port. ``data`` None: nothing
    outlives the process. Limits of 0 are none.
    """

    #: One port or several; the first is the one that ``--host`` and ``--port`` speak of.
    listen_addresses: list[ListenAddress] = field(default_factory=lambda: [ListenAddress()])
    admin_port: int | None = None
    management_port: int | None = None
    certificates: Certificates | None = None
    limits: Limits = field(default_factory=Limits)
    broker: BrokerConfig = field(default_factory=lambda: BrokerConfig(temp_limit_bytes=TEMP_LIMIT_BYTES))
    #: The directory of the storage, and how much it may hold (0: what the disk holds).
    data: Path | None = None
    storage_max_bytes: int = 0
    security: SecuritySettings = field(default_factory=SecuritySettings)
    max_connections: int = 0
    #: Of each connection.
    max_messages_per_second: int = 0
    max_idle_ms: int = 0
    event_loop: str = EVENT_LOOPS[0]
    #: What the file says and we do not do, a sentence each.
    notes: list[str] = []

    @property
    def admin_host(self) -> str:
        """The admin port asks for no password, so only this machine may use it."""
        first = self.listen_addresses[0]
        return first.host if first.is_local() else DEFAULT_HOST

    @property
    def management_host(self) -> str:
        """Where the broker is, if somebody could have a password; else only this machine may use it."""
        return self.listen_addresses[0].host if self.security.logins else self.admin_host

    def listen_on(self, uris: list[str]) -> None:
        """Listen where, and as, connector URIs say; their monitor is the broker's. Raises ConfigError."""
        connectors = [server_connector(uri) for uri in uris]
        self.listen_addresses = [self._listening(connector) for connector in connectors]
        self.broker.monitor = connectors[0].monitor
        for connector in connectors[1:]:
            for name in Monitor.__struct_fields__:
                mine, other = (getattr(one.monitor, name) for one in (connectors[0], connector))
                if mine != other:
                    raise ConfigError(
                        f"{connector.uri!r} sets {name} to {other} and {connectors[0].uri!r} to {mine}; "
                        "the monitor is the broker's, write the same options into both"
                    )

    def _listening(self, connector: Connector) -> ListenAddress:
        limits = copy(self.limits)
        if connector.max_frame_bytes:
            limits.max_body_bytes = limits.max_frame_bytes = connector.max_frame_bytes
        if connector.tight_encoding is not None:
            limits.tight_encoding = connector.tight_encoding
        if connector.cache_size is not None:
            limits.cache_size = connector.cache_size
        return ListenAddress(
            connector.protocol,
            connector.host,
            connector.port,
            secure=connector.secure,
            limits=limits,
            max_connections=connector.max_connections,
        )

    def check(self) -> None:
        """Raises ConfigError for what must not be served, and notes what is risky."""
        for listening in self.listen_addresses:
            where = f"{listening.protocol}{'+ssl' if listening.secure else ''}://{listening.host}:{listening.port}"
            if listening.secure and self.certificates is None:
                raise ConfigError(
                    f"{where} needs a certificate; name PEM files with --certificate and --key or server.tls"
                )
            if listening.is_local():
                continue
            if self.security.is_open():
                raise ConfigError(
                    f"host {listening.host!r} is not a loopback address, and nobody is asked who he is; name users in "
                    "[security], or set security.anonymous_access_allowed = true to let everybody in"
                )
            if self.security.logins and not listening.secure:
                self.notes.append(f"{where}: passwords cross the network as clear text; serve TLS")
            if self.security.anonymous is not None:
                self.notes.append(f"{where}: whoever reaches it may come in as {self.security.anonymous.user!r}")


def read_settings(path: Path) -> ServerSettings:
    """The settings in a TOML file, or in ActiveMQ's own XML. Raises ConfigError for a file that cannot be read or a
    value that cannot be used.
    """
    if path.suffix == ".xml":
        from brokerproof.reference_broker.settings.activemq_xml import read_activemq_xml  # few brokers have such a file

        translated = read_activemq_xml(path)
        settings = settings_of(translated.data, str(path))
        settings.notes = translated.notes
        return settings
    try:
        data = tomllib.loads(path.read_bytes().decode("utf-8"))
    except OSError as error:
        raise ConfigError(f"{path} cannot be read ({error.strerror}); give the path of a TOML file") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path} is not TOML: {error}; see docs/configuration.md") from None
    return settings_of(data, str(path))


def settings_of(data: dict[str, Any], path: str) -> ServerSettings:
    """The settings that a file says; ``path`` begins the text of a ConfigError."""
    sections = _checked(data, _SECTIONS, path)
    server = _checked(sections.get("server", {}), _SERVER, f"{path}: server")
    frames = _checked(sections.get("stomp", {}), _STOMP, f"{path}: stomp")
    frames |= _checked(sections.get("openwire", {}), _OPENWIRE, f"{path}: openwire")
    if 0 < frames.get("cache_size", 0) < CACHE_LEAST:
        size = frames["cache_size"]
        raise ConfigError(f"{path}: openwire.cache_size = {size} would hang a Java client; use 0 or {CACHE_LEAST}")
    broker = broker_config(sections.get("broker", {}), f"{path}: broker")
    if "temp_limit_bytes" not in apply_preset(sections.get("broker", {}), f"{path}: broker"):
        broker.temp_limit_bytes = TEMP_LIMIT_BYTES
    storage = _checked(sections.get("storage", {}), _STORAGE, f"{path}: storage")
    if "max_bytes" in storage and "path" not in storage:
        raise ConfigError(f"{path}: storage.max_bytes = {storage['max_bytes']} has no storage.path beside it; name one")
    event_loop = server.get("event_loop", EVENT_LOOPS[0])
    if event_loop not in EVENT_LOOPS:
        raise ConfigError(f"{path}: server.event_loop = {event_loop!r} must be one of {', '.join(EVENT_LOOPS)}")
    settings = ServerSettings(
        admin_port=server.get("admin_port"),
        management_port=server.get("management_port"),
        limits=Limits(**frames),
        broker=broker,
        data=Path(storage["path"]) if "path" in storage else None,
        storage_max_bytes=storage.get("max_bytes", 0),
        security=security_settings(sections.get("security", {}), f"{path}: security"),
        event_loop=event_loop,
        **_checked(sections.get("limits", {}), _LIMITS, f"{path}: limits"),
    )
    _listen(settings, server, f"{path}: server")
    return settings


def _listen(settings: ServerSettings, server: dict[str, Any], where: str) -> None:
    """Where to listen: connectors, or a host and a port for all protocols, and perhaps one more with TLS."""
    single = [server["connector"]] if "connector" in server else []
    connectors: list[str] = single + server.get("connectors", [])
    double = [name for name in ("host", "port") if connectors and name in server]
    if double:
        raise ConfigError(f"{where}.{double[0]} = {server[double[0]]!r} says again what connector says; keep one")
    if connectors:
        settings.listen_on(connectors)
    else:
        settings.listen_addresses = [
            ListenAddress(AUTO, server.get("host", DEFAULT_HOST), server.get("port", DEFAULT_PORT))
        ]
    if "tls" in server:
        tls = _checked(server["tls"], _TLS, f"{where}.tls")
        if "certificate" not in tls:
            raise ConfigError(f"{where}.tls has no certificate; name a PEM file")
        paths = [Path(tls[name]) if name in tls else None for name in ("key", "client_authorities")]
        settings.certificates = Certificates(Path(tls["certificate"]), *paths)
        if "port" in tls:
            host = settings.listen_addresses[0].host
            settings.listen_addresses.append(ListenAddress(AUTO, host, tls["port"], secure=True))


def broker_config(data: dict[str, Any], where: str = "broker") -> BrokerConfig:
    """The ``broker`` object of a file or a program. ``where`` begins the text of a ConfigError."""
    fields = _checked(apply_preset(data, where), _BROKER, where)
    timestamping = fields.pop("timestamping", None)
    if timestamping is not None:
        fields["timestamping"] = TimeStamping(**_checked(timestamping, _TIMESTAMPING, f"{where}.timestamping"))
    if "monitor" in fields:
        rows = _checked(fields["monitor"], _MONITOR, f"{where}.monitor")
        try:
            fields["monitor"] = Monitor(**rows)
        except ConfigError as error:
            raise ConfigError(f"{where}.monitor: {error}") from None
    if "destinations" in fields:
        fields["destinations"] = [
            _destination(entry, f"{where}.destinations[{number}]")
            for number, entry in enumerate(fields["destinations"])
        ]
    for key, read in (("virtual_topics", _virtual_topic), ("composite_destinations", _composite)):
        if key in fields:
            fields[key] = [read(entry, f"{where}.{key}[{number}]") for number, entry in enumerate(fields[key])]
    try:
        config = BrokerConfig(**fields)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None
    wrong = fault_of_composites(config)
    if wrong:
        raise ConfigError(f"{where}: {wrong}")
    return config


def _virtual_topic(entry: object, where: str) -> VirtualTopic:
    found = VirtualTopic(**_checked_table(entry, _VIRTUAL_TOPIC, where))
    wrong = fault_of_virtual_topic(found.name, found.prefix, found.postfix)
    if wrong:
        raise ConfigError(f"{where}: {wrong}")
    return found


def _composite(entry: object, where: str) -> CompositeDestination:
    fields = _checked_table(entry, _COMPOSITE, where)
    if "name" not in fields:
        raise ConfigError(f"{where} has no name; name the destination, such as 'queue://ORDERS'")
    names = [str(name) for name in fields.get("forward_to", [])]
    wrong = fault_of_composite(fields["name"], names)
    if wrong:
        raise ConfigError(f"{where}: {wrong}")
    return CompositeDestination(fields["name"], names, forward_only=fields.get("forward_only", True))


def _recovery(rows: dict[str, Any], where: str) -> Recovery:
    if "policy" not in rows:
        raise ConfigError(f"{where}.recovery has no policy; one of {', '.join(RECOVERIES)}")
    try:
        return Recovery(**rows)
    except ConfigError as error:
        raise ConfigError(f"{where}.recovery: {error}") from None


def _destination(entry: object, where: str) -> DestinationPolicy:
    fields = _checked_table(entry, _DESTINATION, where)
    if "match" not in fields:
        raise ConfigError(f"{where} has no match; name a destination, or a pattern such as '>'")
    wrong = fault_of_pattern(fields["match"])
    if wrong:
        raise ConfigError(f"{where}.match = {wrong}")
    if "dead_letter" in fields:
        rows = _checked(fields["dead_letter"], _DEAD_LETTER, f"{where}.dead_letter")
        try:
            fields["dead_letter"] = DeadLetterStrategy(**rows)
        except ConfigError as error:
            raise ConfigError(f"{where}.dead_letter: {error}") from None
        wrong = fault_of_strategy(fields["dead_letter"])
        if wrong:
            raise ConfigError(f"{where}.dead_letter: {wrong}")
    if "advisories" in fields:
        fields["advisories"] = AdvisoryOptions(**_checked(fields["advisories"], _ADVISORIES, f"{where}.advisories"))
    if "recovery" in fields:
        fields["recovery"] = _recovery(_checked(fields["recovery"], _RECOVERY, f"{where}.recovery"), where)
    if "redelivery" in fields:
        fields["redelivery"] = BrokerRedelivery(**_checked(fields["redelivery"], _REDELIVERY, f"{where}.redelivery"))
    try:
        return DestinationPolicy(**fields)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None
