"""Connector URIs with ActiveMQ's option names: where to listen or connect, and how the link is watched.

``stomp://127.0.0.1:61613?transport.connectAttemptTimeout=5000`` (a server's connector) or
``tcp://127.0.0.1:61616?wireFormat.maxInactivityDuration=30000&useKeepAlive=false`` (a client's).

* The wire format's options are spelt alike at both ends. Options of the transport carry the prefix ``transport.`` in a
  server's URI and none in a client's (inactivity.md 2.3).
* ``maxInactivityDurationInitalDelay`` is how ActiveMQ spells it; the right spelling is understood as well. Both at once
  with different values contradict each other.
* ``&amp;`` separates options as ``&`` does, because such URIs are copied out of XML files.
* Nothing is ignored: an option without a row, a value of the wrong kind, an option given twice, or one that belongs to
  the other end is a ``ConfigError`` that shows the value and the remedy. A client may not switch its monitor off with
  ``transport.useInactivityMonitor`` (ActiveMQ: "Invalid connect parameters").
"""

from __future__ import annotations

import difflib
import re
from typing import Final
from urllib.parse import SplitResult, unquote, urlsplit

from brokerproof.reference_broker.core.config import ConfigError, Monitor

#: Scheme -> protocol. ActiveMQ's other transports of the same protocols are taken for plain TCP.
SCHEMES: Final = {
    "stomp": "stomp",
    "stomp+nio": "stomp",
    "tcp": "openwire",
    "nio": "openwire",
    "auto": "auto",
    "auto+nio": "auto",
}
#: The same over TLS, at a server.
SECURE_SCHEMES: Final = {
    "stomp+ssl": "stomp",
    "stomp+nio+ssl": "stomp",
    "ssl": "openwire",
    "nio+ssl": "openwire",
    "auto+ssl": "auto",
    "auto+nio+ssl": "auto",
}
DEFAULT_PORTS: Final = {"stomp": 61613, "openwire": 61616, "auto": 61616}
TRANSPORT: Final = "transport."
#: Caches of fewer places hang a Java peer, indexes of more do not fit (openwire.md 3, 5.5).
CACHE_LEAST: Final = 101
CACHE_MOST: Final = 16383
WIRE_FORMAT: Final = "wireFormat."

#: Options of the wire format, the same at both ends -> field.
_WIRE: Final = {
    "maxInactivityDuration": "read_ms",
    "maxInactivityDurationInitalDelay": "initial_delay_ms",
    "maxInactivityDurationInitialDelay": "initial_delay_ms",
    "maxFrameSize": "max_frame_bytes",
}
#: Options of the transport -> field.
_LOCAL: Final = {
    "useKeepAlive": "use_keep_alive",
    "useInactivityMonitor": "use_monitor",
    "connectAttemptTimeout": "connect_timeout_ms",
    "keepAliveResponseRequired": "ask_for_answers",
    "ignoreRemoteWireFormat": "ignore_remote",
    "soTimeout": "read_timeout_ms",
    "soWriteTimeout": "write_timeout_ms",
    "hbGracePeriodMultiplier": "heart_beat_grace",
    "defaultHeartBeat": "default_heart_beat",
}
#: Options of the one who listens -> field.
_LISTENER: Final = {
    "maximumConnections": "max_connections",
    "transport.maximumConnections": "max_connections",
    "wireFormat.tightEncodingEnabled": "tight_encoding",
    "wireFormat.cacheEnabled": "cache",
    "wireFormat.cacheSize": "cache_size",
}
_RATIOS: Final = {"heart_beat_grace"}
_TEXTS: Final = {"default_heart_beat"}
_RATIO: Final = re.compile(r"\d{1,9}(\.\d{1,9})?", re.ASCII)
_FLAGS: Final = {"cache", "tight_encoding", "ask_for_answers", "ignore_remote", "use_keep_alive", "use_monitor"}


class Connector:
    """One end of a link as its URI describes it. ``max_frame_bytes`` 0: the protocol's default.

    ``use_monitor`` False: this end watches nothing and sends no keep-alives, whatever it offers to the other one.
    """

    def __init__(
        self, uri: str, protocol: str, host: str, port: int, values: dict[str, float | str], *, secure: bool = False
    ) -> None:
        self.uri = uri
        #: Over TLS.
        self.secure = secure
        self.protocol = protocol
        self.host = host
        self.port = port
        numbers = {field: int(value) for field, value in values.items() if field not in _RATIOS | _TEXTS}
        self.max_frame_bytes = numbers.get("max_frame_bytes", 0)
        self.max_connections = numbers.get("max_connections", 0)
        #: What a server's OpenWire offers; None: what its configuration says.
        self.tight_encoding = bool(numbers["tight_encoding"]) if "tight_encoding" in numbers else None
        self.cache_size = 0 if numbers.get("cache", 1) == 0 else numbers.get("cache_size")
        self.use_monitor = bool(values.get("use_monitor", 1))
        default = Monitor()
        self.monitor = Monitor(
            read_ms=numbers.get("read_ms", default.read_ms),
            initial_delay_ms=numbers.get("initial_delay_ms", default.initial_delay_ms),
            use_keep_alive=bool(values.get("use_keep_alive", default.use_keep_alive)),
            connect_timeout_ms=numbers.get("connect_timeout_ms", default.connect_timeout_ms),
            use_monitor=self.use_monitor,
            ask_for_answers=bool(values.get("ask_for_answers", default.ask_for_answers)),
            ignore_remote=bool(values.get("ignore_remote", default.ignore_remote)),
            read_timeout_ms=numbers.get("read_timeout_ms", default.read_timeout_ms),
            write_timeout_ms=numbers.get("write_timeout_ms", default.write_timeout_ms),
            heart_beat_grace=float(values.get("heart_beat_grace", default.heart_beat_grace)),
            default_heart_beat=str(values.get("default_heart_beat", default.default_heart_beat)),
        )


def server_connector(uri: str) -> Connector:
    """A server's connector. Raises ``ConfigError``."""
    rows = {WIRE_FORMAT + name: field for name, field in _WIRE.items()}
    rows |= {TRANSPORT + name: field for name, field in _LOCAL.items()} | _LISTENER
    return _connector(uri, rows, {name: TRANSPORT + name for name in _LOCAL}, SECURE_SCHEMES)


def client_connector(uri: str) -> Connector:
    """A client's end. Raises ``ConfigError``."""
    rows = {WIRE_FORMAT + name: field for name, field in _WIRE.items()} | dict(_LOCAL)
    return _connector(uri, rows, {TRANSPORT + name: name for name in _LOCAL})


def _connector(
    uri: str, rows: dict[str, str], misplaced: dict[str, str], secure_schemes: dict[str, str] | None = None
) -> Connector:
    schemes = SCHEMES | (secure_schemes or {})
    try:
        parts = urlsplit(uri.replace("&amp;", "&"))
        port = parts.port
    except ValueError as error:
        raise ConfigError(f"{uri!r} is not a URI: {error}; write scheme://host:port?option=value") from None
    protocol = schemes.get(parts.scheme)
    if protocol is None:
        raise ConfigError(f"{uri!r} has the scheme {parts.scheme!r}; use one of {', '.join(schemes)}")
    if not parts.hostname or parts.path not in ("", "/"):
        raise ConfigError(f"{uri!r} must be scheme://host:port?option=value, without a path")
    values = _values(uri, parts, rows, misplaced)
    port = DEFAULT_PORTS[protocol] if port is None else port
    return Connector(uri, protocol, parts.hostname, port, values, secure=parts.scheme not in SCHEMES)


def _values(uri: str, parts: SplitResult, rows: dict[str, str], misplaced: dict[str, str]) -> dict[str, float | str]:
    """Field -> value (flags as 0 and 1) of all options."""
    values: dict[str, float | str] = {}
    seen: set[str] = set()
    for pair in parts.query.split("&") if parts.query else []:
        name, equals, text = pair.partition("=")
        name = unquote(name)
        field = rows.get(name)
        if field is None:
            raise ConfigError(f"{uri!r}: {_unknown(name, rows, misplaced)}")
        if not equals or name in seen:
            raise ConfigError(f"{uri!r}: {name} must be given once, as {name}=value")
        seen.add(name)
        value = _value(uri, name, field, unquote(text).strip())
        if values.setdefault(field, value) != value:
            raise ConfigError(f"{uri!r}: {name}={value} contradicts {values[field]} under its other spelling; keep one")
    return values


def _unknown(name: str, rows: dict[str, str], misplaced: dict[str, str]) -> str:
    right = misplaced.get(name)
    if right == "useInactivityMonitor":
        return f"{name} is refused at a client (Invalid connect parameters); write {right}=false or leave it out"
    if right is not None:
        return f"{name} belongs to the other end's URI; here it is {right}"
    near = difflib.get_close_matches(name, rows, 1)
    return f"option {name!r} is unknown; " + (f"did you mean {near[0]}?" if near else f"one of {', '.join(rows)}")


def flag_of(uri: str, name: str, text: str) -> bool:
    """The value of a switch. Raises ``ConfigError``."""
    if text not in ("true", "false"):
        raise ConfigError(f"{uri!r}: {name}={text} must be true or false")
    return text == "true"


def _value(uri: str, name: str, field: str, text: str) -> float | str:
    if field in _TEXTS:
        return text
    if field in _FLAGS:
        return int(flag_of(uri, name, text))
    if field in _RATIOS:
        if _RATIO.fullmatch(text):
            return float(text)
        raise ConfigError(f"{uri!r}: {name}={text} must be a number such as 1.5")
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 18:
        raise ConfigError(f"{uri!r}: {name}={text} must be a whole number (milliseconds, for sizes bytes)")
    number = int(text)
    if field == "cache_size" and not CACHE_LEAST <= number <= CACHE_MOST:
        raise ConfigError(f"{uri!r}: {name}={text} must be {CACHE_LEAST} to {CACHE_MOST}; cacheEnabled=false is none")
    if number < 0 and field in ("initial_delay_ms", "max_connections", "max_frame_bytes"):
        raise ConfigError(f"{uri!r}: {name}={text} must not be negative")
    return number
