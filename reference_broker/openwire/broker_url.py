"""A client's address: ``tcp://broker:61616?jms.prefetchPolicy.all=1&wireFormat.cacheEnabled=false``, with the option
names of ActiveMQ's ``ActiveMQConnectionFactory``.

* ``jms.`` options are the library's (``_FLAGS``, ``_TEXTS``, and those of a prefetch and a redelivery policy),
  ``wireFormat.`` ones say what it offers to speak (``_ENCODING``); everything else belongs to the transport
  (``settings/connector_uri.py``), without prefix at a client.
* What the Java client refuses is refused: an unknown option, a value of the wrong kind, ``transport.`` at a client. So
  is an option of the Java client that this one does not offer: nothing is ignored. ``ConfigError`` shows the value and
  the remedy.
* ``wireFormat.cacheSize`` has the bounds of a server's; 0 is none.
"""

from __future__ import annotations

import difflib
from typing import Final
from urllib.parse import unquote

from brokerproof.reference_broker.core.config import ConfigError
from brokerproof.reference_broker.inactivity import DocumentedMonitor
from brokerproof.reference_broker.openwire.client import ClientSession
from brokerproof.reference_broker.openwire.consumer import PrefetchPolicy
from brokerproof.reference_broker.openwire.framing import ClientFraming
from brokerproof.reference_broker.openwire.redelivery_policy import PolicyError, RedeliveryPolicy, policy_from_options
from brokerproof.reference_broker.openwire.wire.codec import FRAME_MAX
from brokerproof.reference_broker.openwire.wire.kinds import VERSION_MAX
from brokerproof.reference_broker.openwire.wire.negotiation import VERSION_MIN, VERSION_MODERN, Offer, is_spoken
from brokerproof.reference_broker.session.framing import Limits
from brokerproof.reference_broker.settings.connector_uri import (
    CACHE_LEAST,
    CACHE_MOST,
    Connector,
    client_connector,
    flag_of,
)

JMS: Final = "jms."
WIRE_FORMAT: Final = "wireFormat."
_PREFETCH: Final = "prefetchPolicy."
_REDELIVERY: Final = "redeliveryPolicy."
#: jms. option -> what it is; the rest are texts.
_FLAGS: Final = ("consumerExpiryCheckEnabled", "disableTimeStampsByDefault", "dispatchAsync")
_TEXTS: Final = ("clientID", "password", "userName")
#: wireFormat. options that concern the encoding alone.
_ENCODING: Final = ("cacheEnabled", "cacheSize", "stackTraceEnabled", "tightEncodingEnabled", "version")
#: Options of the link that a client may have and that change nothing here.
_NOT_OFFERED: Final = (
    "connectAttemptTimeout",
    "defaultHeartBeat",
    "hbGracePeriodMultiplier",
    "ignoreRemoteWireFormat",
    "keepAliveResponseRequired",
    "soTimeout",
    "soWriteTimeout",
)


class ClientAddress:
    """What an address says; it makes the two halves of a connection."""

    __slots__ = ("connector", "flags", "offer", "prefetch", "redelivery", "texts")

    def __init__(
        self,
        connector: Connector,
        offer: Offer,
        flags: dict[str, bool],
        texts: dict[str, str],
        prefetch: PrefetchPolicy,
        redelivery: RedeliveryPolicy,
    ) -> None:
        self.connector = connector
        self.offer = offer
        self.flags = flags
        self.texts = texts
        self.prefetch = prefetch
        self.redelivery = redelivery

    def session(self, client_id: str, connection_id: str, now_ns: int) -> ClientSession:
        """A session that has not said hello. ``client_id`` counts where the address names none."""
        connector, monitor = self.connector, self.connector.monitor
        return ClientSession(
            self.texts.get("clientID") or client_id,
            DocumentedMonitor(
                f"tcp://{connector.host}:{connector.port}",
                now_ns,
                connect_timeout_ms=monitor.connect_timeout_ms,
                use_keep_alive=monitor.use_keep_alive,
            ),
            max_inactivity_ms=monitor.read_ms,
            initial_delay_ms=monitor.initial_delay_ms,
            use_monitor=connector.use_monitor,
            consumer_expiry_check=self.flags.get("consumerExpiryCheckEnabled", True),
            connection_id=connection_id,
            redelivery_policy=self.redelivery,
            prefetch_policy=self.prefetch,
            dispatch_async=self.flags.get("dispatchAsync", True),
            disable_timestamps=self.flags.get("disableTimeStampsByDefault", False),
            user_name=self.texts.get("userName", ""),
            password=self.texts.get("password", ""),
        )

    def framing(self, connection_id: str) -> ClientFraming:
        """The same connection's bytes."""
        return ClientFraming(Limits(max_frame_bytes=self.offer.frame_max), connection_id, self.offer)


def client_address(uri: str) -> ClientAddress:
    """Read an address. Raises ``ConfigError``."""
    start, question, query = uri.replace("&amp;", "&").partition("?")
    jms: dict[str, str] = {}
    encoding: dict[str, str] = {}
    link: list[str] = []
    for pair in query.split("&") if query else []:
        name, text = (unquote(part).strip() for part in pair.partition("=")[::2])
        if name in _NOT_OFFERED:
            text = f"{name} is an option of the Java client that this one does not offer; leave it out"
            raise ConfigError(f"{uri!r}: {text}")
        if name.startswith(JMS):
            _put(uri, jms, name, JMS, text)
        elif name.removeprefix(WIRE_FORMAT) in _ENCODING and name.startswith(WIRE_FORMAT):
            _put(uri, encoding, name, WIRE_FORMAT, text)
        else:
            link.append(pair)
    connector = client_connector(start + question + "&".join(link) if link else start)
    if connector.protocol != "openwire":
        raise ConfigError(f"{uri!r} is no address of OpenWire; write tcp://HOST:PORT")
    flags: dict[str, bool] = {}
    texts: dict[str, str] = {}
    parts: dict[str, dict[str, str]] = {_PREFETCH: {}, _REDELIVERY: {}}
    for name, text in jms.items():
        kind = next((prefix for prefix in parts if name.startswith(prefix)), "")
        if kind:
            parts[kind][name.removeprefix(kind)] = text
        elif name in _FLAGS:
            flags[name] = flag_of(uri, JMS + name, text)
        elif name in _TEXTS:
            texts[name] = text
        else:
            raise ConfigError(f"{uri!r}: {_unknown(JMS + name)}")
    try:
        redelivery = policy_from_options(parts[_REDELIVERY])
    except PolicyError as error:
        raise ConfigError(f"{uri!r}: {JMS}redeliveryPolicy: {error}") from None
    prefetch = _prefetch(uri, parts[_PREFETCH])
    return ClientAddress(connector, _offer(uri, encoding, connector), flags, texts, prefetch, redelivery)


def _put(uri: str, options: dict[str, str], name: str, prefix: str, text: str) -> None:
    if name.removeprefix(prefix) in options or not text:
        raise ConfigError(f"{uri!r}: {name} must be given once, as {name}=value")
    options[name.removeprefix(prefix)] = text


def _prefetch(uri: str, options: dict[str, str]) -> PrefetchPolicy:
    policy = PrefetchPolicy()
    # As in ActiveMQ "all" comes first, whatever the order of writing: the others refine it.
    for name in sorted(options, key=lambda option: option != "all"):
        number = _number(uri, f"{JMS}{_PREFETCH}{name}", options[name])
        if not policy.set(name, number):
            raise ConfigError(f"{uri!r}: {_unknown(f'{JMS}{_PREFETCH}{name}')}")
    return policy


def _offer(uri: str, options: dict[str, str], connector: Connector) -> Offer:
    offer = Offer(
        read_ms=connector.monitor.read_ms,
        initial_delay_ms=connector.monitor.initial_delay_ms,
        frame_max=connector.max_frame_bytes or FRAME_MAX,
        host=connector.host,
    )
    for name, text in options.items():
        full = WIRE_FORMAT + name
        if name == "cacheSize":
            offer.cache_size = _number(uri, full, text)
            if offer.cache_size and not CACHE_LEAST <= offer.cache_size <= CACHE_MOST:
                places = f"0 or {CACHE_LEAST} to {CACHE_MOST}"
                raise ConfigError(f"{uri!r}: {full}={text} hangs a Java peer or has no indexes; use {places}")
        elif name == "version":
            offer.version = _number(uri, full, text)
            if not is_spoken(offer.version) or offer.version > VERSION_MAX:
                spoken = f"{VERSION_MIN}, or {VERSION_MODERN} to {VERSION_MAX}"
                raise ConfigError(f"{uri!r}: {full}={text} is not spoken; use {spoken}")
        elif name == "stackTraceEnabled":
            offer.stack_traces = flag_of(uri, full, text)
        elif name == "tightEncodingEnabled":
            offer.tight = flag_of(uri, full, text)
    if "cacheEnabled" in options and not flag_of(uri, f"{WIRE_FORMAT}cacheEnabled", options["cacheEnabled"]):
        offer.cache_size = 0
    return offer


def _unknown(name: str) -> str:
    known = [JMS + option for option in (*_FLAGS, *_TEXTS)]
    known += [f"{JMS}{_PREFETCH}{option}" for option in PrefetchPolicy.OPTIONS]
    near = difflib.get_close_matches(name, known, 1)
    return f"option {name} is unknown; " + (f"did you mean {near[0]}?" if near else f"one of {', '.join(known)}")


def _number(uri: str, name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > 9:
        raise ConfigError(f"{uri!r}: {name}={text} must be a whole number, 0 or more")
    return int(text)
