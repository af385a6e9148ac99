"""The operator's configuration file (TOML) and what becomes of it: limits, addresses and a ``BrokerConfig``.

Rules
* Every key has a row in a table below: its type, its smallest and largest value. A key without a row is an error, never
  ignored. ``preset`` is filled in before (``presets.py``).
* An error shows where the value stands, the value, and what would be accepted.
* ``[broker]`` has the same shape and words as ``broker`` in a program, so that a file and a program can be compared
  line by line.

What must change together: ``core/config.py`` (defaults live there, not here), ``docs/configuration.md``.
"""

from __future__ import annotations

import difflib
import tomllib
from pathlib import Path
from typing import Any, Final

from reference_broker.activemq_xml import read_activemq_xml
from reference_broker.connector import server_connector
from reference_broker.core.config import (
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
from reference_broker.core.routing import fault_of_composite, fault_of_virtual_topic
from reference_broker.presets import apply_preset
from reference_broker.stomp.codec import Limits

DEFAULT_HOST: Final = "127.0.0.1"
DEFAULT_PORT: Final = 61613
_MOST: Final = 2**63 - 1


class _Number:
    """An integer between two bounds."""

    __slots__ = ("least", "most")

    def __init__(self, least: int, most: int = _MOST) -> None:
        self.least = least
        self.most = most

    def accepts(self, value: object) -> bool:
        # TOML and JSON keep booleans apart from numbers, Python does not.
        return type(value) is int and self.least <= value <= self.most

    def __str__(self) -> str:
        return (
            f"an integer of at least {self.least}"
            if self.most == _MOST
            else f"an integer from {self.least} to {self.most}"
        )


class _Kind:
    """A value of one type."""

    __slots__ = ("empty", "name", "type")

    def __init__(self, kind: type, name: str, *, empty: bool = False) -> None:
        self.type = kind
        self.name = name
        self.empty = empty

    def accepts(self, value: object) -> bool:
        return isinstance(value, self.type) and (self.empty or value != "")

    def __str__(self) -> str:
        return self.name


class _Texts(_Kind):
    """A list of texts."""

    def accepts(self, value: object) -> bool:
        return isinstance(value, list) and all(isinstance(item, str) for item in value)


class _Ratio(_Kind):
    """A number, whole or not, that is not negative, or -1."""

    def accepts(self, value: object) -> bool:
        return isinstance(value, int | float) and not isinstance(value, bool) and (value == -1 or value >= 0)


_FLAG: Final = _Kind(bool, "true or false")
_TEXT: Final = _Kind(str, "a text that is not empty")
_ANY_TEXT: Final = _Kind(str, "a text", empty=True)
_TABLE: Final = _Kind(dict, "a table")
_TEXTS: Final = _Texts(list, "a list of texts")
_TABLES: Final = _Kind(list, "a list of tables")
_NAMES: Final = _Texts(list, "a list of destinations such as ['queue://A', 'topic://B']")
_RATIO: Final = _Ratio(float, "a number of at least 0, or -1")
_ANY_MS: Final = _Number(-_MOST - 1)

_Row = _Number | _Kind

_SECTIONS: Final[dict[str, _Row]] = {"server": _TABLE, "stomp": _TABLE, "storage": _TABLE, "broker": _TABLE}
_STORAGE: Final[dict[str, _Row]] = {"path": _TEXT, "max_bytes": _Number(0)}
_SERVER: Final[dict[str, _Row]] = {
    "host": _TEXT,
    "port": _Number(0, 65535),
    "admin_port": _Number(0, 65535),
    "connector": _TEXT,
}
_STOMP: Final[dict[str, _Row]] = {
    "max_headers": _Number(1),
    "max_header_bytes": _Number(64),
    "max_body_bytes": _Number(0),
}
_BROKER: Final[dict[str, _Row]] = {
    "name": _TEXT,
    "memory_limit_bytes": _Number(0),
    "memory_high_water_percent": _Number(1, 100),
    "page_size": _Number(1),
    "concurrent_store": _FLAG,
    "wake_on_relief": _FLAG,
    "persistent": _FLAG,
    "dead_letter_non_persistent": _FLAG,
    "enable_message_expiration_on_active_durable_subs": _FLAG,
    "relative_ttl_names": _TEXTS,
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
    "prioritized_messages": _FLAG,
    "queue_prefetch": _Number(0),
    "queue_browser_prefetch": _Number(0),
    "topic_prefetch": _Number(0),
    "durable_topic_prefetch": _Number(0),
    "use_prefetch_extension": _FLAG,
    "pending_message_limit": _Number(-1),
    "pending_message_limit_multiplier": _RATIO,
    "dead_letter": _TABLE,
    "redelivery": _TABLE,
}
_REDELIVERY: Final[dict[str, _Row]] = {
    "maximum_redeliveries": _Number(-1),
    "initial_redelivery_delay_ms": _Number(0),
    "redelivery_delay_ms": _Number(0),
    "maximum_redelivery_delay_ms": _Number(-1),
    "use_exponential_back_off": _FLAG,
    "back_off_multiplier": _Number(1, 1000),
    "send_to_dlq_if_max_retries_exceeded": _FLAG,
}
_DEAD_LETTER: Final[dict[str, _Row]] = {
    "strategy": _TEXT,
    "process_expired": _FLAG,
    "process_non_persistent": _FLAG,
    "expiration_ms": _Number(0),
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


class ServerSettings:
    """All that ``serve`` needs to know. ``admin_port`` None: no admin port. ``data`` None: nothing outlives the
    process.
    """

    __slots__ = ("admin_port", "broker", "data", "host", "limits", "notes", "port", "storage_max_bytes")

    def __init__(
        self,
        *,
        host: str = DEFAULT_HOST,
        port: int = DEFAULT_PORT,
        admin_port: int | None = None,
        limits: Limits | None = None,
        broker: BrokerConfig | None = None,
        data: Path | None = None,
        storage_max_bytes: int = 0,
    ) -> None:
        self.host = host
        self.port = port
        self.admin_port = admin_port
        self.limits = limits if limits is not None else Limits()
        self.broker = broker if broker is not None else BrokerConfig()
        #: The directory of the storage, and how much it may hold (0: what the disk holds).
        self.data = data
        self.storage_max_bytes = storage_max_bytes
        #: What the file says and we do not do, a sentence each.
        self.notes: list[str] = []

    def listen_on(self, uri: str) -> None:
        """Take address, monitor and frame size from a connector URI. Raises ConfigError."""
        connector = server_connector(uri)
        if connector.protocol != "stomp":
            raise ConfigError(f"{uri!r}: only stomp:// can be listened on in this release")
        self.host, self.port = connector.host, connector.port
        self.broker.monitor = connector.monitor
        if connector.max_frame_bytes:
            self.limits.max_body_bytes = connector.max_frame_bytes


def read_settings(path: Path) -> ServerSettings:
    """The settings in a TOML file, or in ActiveMQ's own XML. Raises ConfigError for a file that cannot be read or a
    value that cannot be used.
    """
    if path.suffix == ".xml":
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
    connector = server.pop("connector", None)
    double = [name for name in ("host", "port") if connector is not None and name in server]
    if double:
        raise ConfigError(
            f"{path}: server.{double[0]} = {server[double[0]]!r} says again what connector says; keep one"
        )
    limits = _checked(sections.get("stomp", {}), _STOMP, f"{path}: stomp")
    broker = broker_config(sections.get("broker", {}), f"{path}: broker")
    storage = _checked(sections.get("storage", {}), _STORAGE, f"{path}: storage")
    if "max_bytes" in storage and "path" not in storage:
        raise ConfigError(f"{path}: storage.max_bytes = {storage['max_bytes']} has no storage.path beside it; name one")
    settings = ServerSettings(
        **server,
        limits=Limits(**limits),
        broker=broker,
        data=Path(storage["path"]) if "path" in storage else None,
        storage_max_bytes=storage.get("max_bytes", 0),
    )
    if connector is not None:
        settings.listen_on(connector)
    return settings


def broker_config(data: dict[str, Any], where: str = "broker") -> BrokerConfig:
    """The ``broker`` object of a file or a program. ``where`` begins the text of a ConfigError."""
    fields = _checked(apply_preset(data, where), _BROKER, where)
    timestamping = fields.pop("timestamping", None)
    if timestamping is not None:
        fields["timestamping"] = TimeStamping(**_checked(timestamping, _TIMESTAMPING, f"{where}.timestamping"))
    if "monitor" in fields:
        fields["monitor"] = Monitor(**_checked(fields["monitor"], _MONITOR, f"{where}.monitor"))
    if "destinations" in fields:
        fields["destinations"] = [
            _destination(entry, f"{where}.destinations[{number}]")
            for number, entry in enumerate(fields["destinations"])
        ]
    for key, read in (("virtual_topics", _virtual_topic), ("composite_destinations", _composite)):
        if key in fields:
            fields[key] = [read(entry, f"{where}.{key}[{number}]") for number, entry in enumerate(fields[key])]
    try:
        return BrokerConfig(**fields)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None


def _virtual_topic(entry: object, where: str) -> VirtualTopic:
    if not isinstance(entry, dict):
        raise ConfigError(f"{where} = {entry!r} must be {_TABLE}")
    found = VirtualTopic(**_checked(entry, _VIRTUAL_TOPIC, where))
    wrong = fault_of_virtual_topic(found.name, found.prefix, found.postfix)
    if wrong:
        raise ConfigError(f"{where}: {wrong}")
    return found


def _composite(entry: object, where: str) -> CompositeDestination:
    if not isinstance(entry, dict):
        raise ConfigError(f"{where} = {entry!r} must be {_TABLE}")
    fields = _checked(entry, _COMPOSITE, where)
    if "name" not in fields:
        raise ConfigError(f"{where} has no name; name the destination, such as 'queue://ORDERS'")
    names = [str(name) for name in fields.get("forward_to", [])]
    wrong = fault_of_composite(fields["name"], names)
    if wrong:
        raise ConfigError(f"{where}: {wrong}")
    return CompositeDestination(fields["name"], names, forward_only=fields.get("forward_only", True))


def _destination(entry: object, where: str) -> DestinationPolicy:
    if not isinstance(entry, dict):
        raise ConfigError(f"{where} = {entry!r} must be {_TABLE}")
    fields = _checked(entry, _DESTINATION, where)
    if "match" not in fields:
        raise ConfigError(f"{where} has no match; name a destination, or a pattern such as '>'")
    if "dead_letter" in fields:
        rows = _checked(fields["dead_letter"], _DEAD_LETTER, f"{where}.dead_letter")
        try:
            fields["dead_letter"] = DeadLetterStrategy(**rows)
        except ConfigError as error:
            raise ConfigError(f"{where}.dead_letter: {error}") from None
    if "redelivery" in fields:
        fields["redelivery"] = BrokerRedelivery(**_checked(fields["redelivery"], _REDELIVERY, f"{where}.redelivery"))
    try:
        return DestinationPolicy(**fields)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None


def _checked(data: dict[str, Any], rows: dict[str, _Row], where: str) -> dict[str, Any]:
    """The table's values, all of them known and of the right kind. A value of None (JSON's null) counts as absent."""
    good: dict[str, Any] = {}
    for name, value in data.items():
        row = rows.get(name)
        if row is None:
            near = difflib.get_close_matches(name, rows, 1)
            remedy = f"did you mean {near[0]}?" if near else f"one of {', '.join(rows)}"
            raise ConfigError(f"{where}: {name} is unknown; {remedy}")
        if value is None:
            continue
        if not row.accepts(value):
            raise ConfigError(f"{where}.{name} = {value!r} must be {row}")
        good[name] = value
    return good
