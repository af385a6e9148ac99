"""ActiveMQ's XML configuration, read as ours (``serve --config activemq.xml``): it decides which element or attribute
of ActiveMQ's means which key of our TOML file; what comes out has the shape of that file and passes through the same
checks (``configuration.py``).

* Everything that we have is translated: ``broker`` with its attributes, ``destinationPolicy``, ``plugins``,
  ``systemUsage``, ``transportConnectors``, ``persistenceAdapter``, ``destinationInterceptors``.
* What concerns ActiveMQ's own machinery (JMX, shutdown hooks, thread pools) is listed in ``WITHOUT_EFFECT`` and gives a
  note. Anything else that is not known is an error: a setting must not silently do nothing.
* Sizes as ActiveMQ writes them: digits and an optional unit (b, k, kb, m, mb, g, gb), powers of 1024.
* Property placeholders (``${…}``) are not filled in: an error says so.
"""

from __future__ import annotations

import difflib
import re
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree

from brokerproof.reference_broker.core.config import ConfigError
from brokerproof.reference_broker.settings import activemq_security, connector_uri

#: What a value is: a text, a number, a flag, a size in bytes, a ratio.
TEXT: Final = "text"
NUMBER: Final = "number"
FLAG: Final = "flag"
SIZE: Final = "size"
RATIO: Final = "ratio"
#: Texts with commas between them.
TEXTS: Final = "texts"

Rows = dict[str, tuple[str, str]]

_UNITS: Final = {"": 1, "b": 1, "k": 1024, "kb": 1024, "m": 1024**2, "mb": 1024**2, "g": 1024**3, "gb": 1024**3}

#: Attributes (and elements) of ActiveMQ's machinery, which has no counterpart here.
WITHOUT_EFFECT: Final = {
    "dataDirectory",
    "enableStatistics",
    "managementContext",
    "shutdownHooks",
    "start",
    "useJmx",
    "useShutdownHook",
}
_PLUGINS: Final = (
    "authorizationPlugin",
    "redeliveryPlugin",
    "simpleAuthenticationPlugin",
    "statisticsBrokerPlugin",
    "timeStampingBrokerPlugin",
)
#: Of the store's element; the rest of it is about its files.
_STORE: Final[Rows] = {
    "directory": ("path", TEXT),
    "concurrentStoreAndDispatchQueues": ("concurrent_store", FLAG),
}
_STORE_FILES: Final = {
    "checkForCorruptJournalFiles",
    "cleanupInterval",
    "enableJournalDiskSyncs",
    "journalMaxFileLength",
}
_REDELIVERY: Final[Rows] = {
    "maximumRedeliveries": ("maximum_redeliveries", NUMBER),
    "initialRedeliveryDelay": ("initial_redelivery_delay_ms", NUMBER),
    "redeliveryDelay": ("redelivery_delay_ms", NUMBER),
    "maximumRedeliveryDelay": ("maximum_redelivery_delay_ms", NUMBER),
    "useExponentialBackOff": ("use_exponential_back_off", FLAG),
    "backOffMultiplier": ("back_off_multiplier", NUMBER),
}
_BROKER: Final[Rows] = {
    "advisorySupport": ("advisory_support", FLAG),
    "schedulerSupport": ("delay_support", FLAG),
    "brokerName": ("name", TEXT),
    "enableMessageExpirationOnActiveDurableSubs": ("enable_message_expiration_on_active_durable_subs", FLAG),
}
_POLICY: Final[Rows] = {
    "expireMessagesPeriod": ("expire_period_ms", NUMBER),
    "memoryLimit": ("memory_limit_bytes", SIZE),
    "cursorMemoryHighWaterMark": ("high_water_percent", NUMBER),
    "maxPageSize": ("max_page_size", NUMBER),
    "maxBrowsePageSize": ("max_browse_page_size", NUMBER),
    "maxExpirePageSize": ("max_expire_page_size", NUMBER),
    "minimumMessageSize": ("minimum_message_bytes", NUMBER),
    "useCache": ("use_cache", FLAG),
    "lazyDispatch": ("lazy_dispatch", FLAG),
    "producerFlowControl": ("producer_flow_control", FLAG),
    "sendFailIfNoSpace": ("send_fail_if_no_space", FLAG),
    "sendFailIfNoSpaceAfterTimeout": ("send_fail_if_no_space_after_ms", NUMBER),
    "storeUsageHighWaterMark": ("store_high_water_percent", NUMBER),
    "prioritizedMessages": ("prioritized_messages", FLAG),
    "queuePrefetch": ("queue_prefetch", NUMBER),
    "queueBrowserPrefetch": ("queue_browser_prefetch", NUMBER),
    "topicPrefetch": ("topic_prefetch", NUMBER),
    "durableTopicPrefetch": ("durable_topic_prefetch", NUMBER),
    "usePrefetchExtension": ("use_prefetch_extension", FLAG),
}
_ADVISORIES: Final[Rows] = {"includeBodyForAdvisory": ("include_body", FLAG)}
_USAGE: Final[Rows] = {
    "sendFailIfNoSpace": ("send_fail_if_no_space", FLAG),
    "sendFailIfNoSpaceAfterTimeout": ("send_fail_if_no_space_after_ms", NUMBER),
}
_LIMITS: Final = {
    "memoryUsage": "memory_limit_bytes",
    "storeUsage": "store_limit_bytes",
    "tempUsage": "temp_limit_bytes",
}
_KINDS: Final = {"queue": "queue://", "topic": "topic://", "tempQueue": "temp-queue://", "tempTopic": "temp-topic://"}
_TIMESTAMPING: Final[Rows] = {
    "futureOnly": ("future_only", FLAG),
    "ttlCeiling": ("ttl_ceiling_ms", NUMBER),
    "zeroExpirationOverride": ("zero_expiration_override_ms", NUMBER),
    "processNetworkMessages": ("process_network_messages", FLAG),
}


class Translated:
    """What an XML file says, in the shape of our TOML file, and what of it has no effect here."""

    __slots__ = ("data", "notes")

    def __init__(self) -> None:
        self.data: dict[str, Any] = {"broker": {}}
        self.notes: list[str] = []

    @property
    def broker(self) -> dict[str, Any]:
        """The ``[broker]`` table."""
        found: dict[str, Any] = self.data["broker"]
        return found

    def table(self, name: str) -> dict[str, Any]:
        """A table of the file, made if it is not there."""
        found: dict[str, Any] = self.data.setdefault(name, {})
        return found


def read_activemq_xml(path: Path) -> Translated:
    """Read a file. Raises ``ConfigError``."""
    try:
        return translate(path.read_text(encoding="utf-8"), str(path))
    except OSError as error:
        raise ConfigError(f"{path} cannot be read ({error.strerror}); give the path of an XML file") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 ({error}); save it as UTF-8") from None


def translate(text: str, where: str = "activemq.xml") -> Translated:
    """Read a document whose root, or whose root's child, is ``broker``. Raises ``ConfigError``."""
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise ConfigError(f"{where} declares a document type; leave it out, its entities are not expanded")
    try:
        # An operator's own file, and without a document type there is nothing to expand.
        root = ElementTree.fromstring(text)  # noqa: S314
    except ElementTree.ParseError as error:
        raise ConfigError(f"{where} is not XML: {error}") from None
    brokers = [element for element in root.iter() if _name(element) == "broker"]
    if len(brokers) != 1:
        raise ConfigError(f"{where} has {len(brokers)} broker elements; one is needed")
    found = Translated()
    _Reader(found, where).broker(brokers[0])
    return found


class _Reader:
    """Walks the document once."""

    def __init__(self, found: Translated, where: str) -> None:
        self._found = found
        self._where = where

    def broker(self, element: ElementTree.Element) -> None:
        self._found.broker.update(self._fields(element, _BROKER, known={"persistent"}))
        stored = self._value("broker.persistent", element.attrib.get("persistent", "true"), FLAG)
        children = sorted(element, key=_name)  # the policy entries before the plug-ins that add to them
        for child in children:
            name = _name(child)
            handler = _SECTIONS.get(name)
            if handler is not None:
                handler(self, child)
            elif name == "persistenceAdapter":
                self._store(child, stored=bool(stored))
            elif name in WITHOUT_EFFECT:
                self._note(name)
            else:
                raise self._unknown("element", name, {*_SECTIONS, "persistenceAdapter", *WITHOUT_EFFECT})

    # -- sections

    def _store(self, element: ElementTree.Element, *, stored: bool) -> None:
        """Where persistent messages are kept; nowhere if the broker is not persistent."""
        for store in element:
            if _name(store) != "kahaDB":
                raise self._unknown("store", _name(store), {"kahaDB"})
            fields = self._fields(store, _STORE, known=_STORE_FILES)
            if "concurrent_store" in fields:
                self._found.broker["concurrent_store"] = fields["concurrent_store"]
            if stored and "path" in fields:
                self._found.table("storage")["path"] = fields["path"]

    def _redelivery(self, element: ElementTree.Element) -> None:
        """The plug-in's policies belong to entries that exist: ours have no map of their own."""
        exceeded = self._fields(
            element, {"sendToDlqIfMaxRetriesExceeded": ("send", FLAG)}, known={"fallbackToDeadLetter"}
        )
        path = ("redeliveryPolicyMap", "redeliveryPolicyMap", "redeliveryPolicyEntries", "redeliveryPolicy")
        entries = {entry["match"]: entry for entry in self._found.broker.get("destinations", [])}
        for policy in self._each(element, *path):
            name = _KINDS["queue"] + policy.attrib.get("queue", "")
            if name not in entries:
                raise ConfigError(f"{self._where}: the redeliveryPolicy of {name} needs a policyEntry of the same name")
            made = self._fields(policy, _REDELIVERY, known={"queue"})
            if "send" in exceeded:
                made["send_to_dlq_if_max_retries_exceeded"] = exceeded["send"]
            entries[name]["redelivery"] = made

    def policies(self, element: ElementTree.Element) -> None:
        destinations = self._found.broker.setdefault("destinations", [])
        for entry in self._each(element, "policyMap", "policyEntries", "policyEntry"):
            kinds = [kind for kind in _KINDS if kind in entry.attrib]
            if len(kinds) != 1:
                raise ConfigError(
                    f"{self._where}: a policyEntry names {len(kinds)} of {', '.join(_KINDS)}; it must name one"
                )
            fields = self._fields(entry, {**_POLICY, **_ADVISORIES}, known=set(_KINDS))
            advisories = {key: fields.pop(key) for key, _ in _ADVISORIES.values() if key in fields}
            if advisories:
                fields["advisories"] = advisories
            for child in entry:
                handler = _POLICY_ELEMENTS.get(_name(child))
                if handler is None:
                    raise self._unknown("element", _name(child), set(_POLICY_ELEMENTS))
                handler(self, child, fields)
            destinations.append({"match": _KINDS[kinds[0]] + entry.attrib[kinds[0]], **fields})

    def dead_letters(self, element: ElementTree.Element, fields: dict[str, Any]) -> None:
        """The strategy of one policy entry."""
        for strategy in element:
            name = _name(strategy)
            rows = _STRATEGIES.get(name)
            if rows is None:
                raise self._unknown("element", name, set(_STRATEGIES))
            made: dict[str, Any] = {"strategy": _STRATEGY_NAMES[name], **self._fields(strategy, rows)}
            for queue in self._each(strategy, "deadLetterQueue", "queue"):
                made["dead_letter_queue"] = queue.attrib.get("physicalName", "")
            fields["dead_letter"] = made

    def pending_limit(self, element: ElementTree.Element, fields: dict[str, Any]) -> None:
        """The limit of a topic's backlog."""
        for strategy in element:
            rows = _PENDING_LIMITS.get(_name(strategy))
            if rows is None:
                raise self._unknown("element", _name(strategy), set(_PENDING_LIMITS))
            fields.update(self._fields(strategy, rows))

    def recovery(self, element: ElementTree.Element, fields: dict[str, Any]) -> None:
        """What a topic remembers for retroactive consumers."""
        for policy in element:
            rows = _RECOVERIES.get(_name(policy))
            if rows is None:
                raise self._unknown("element", _name(policy), set(_RECOVERIES))
            name = _RECOVERY_NAMES[_name(policy)]
            if name:
                fields["recovery"] = {"policy": name, **self._fields(policy, rows)}

    def interceptors(self, element: ElementTree.Element) -> None:
        """Virtual topics and composite destinations."""
        path = ("virtualDestinationInterceptor", "virtualDestinations")
        for entry in [child for group in self._each(element, *path) for child in group]:
            name = _name(entry)
            if name == "virtualTopic":
                self._found.broker.setdefault("virtual_topics", []).append(self._fields(entry, _VIRTUAL_TOPIC))
            elif name in _COMPOSITES:
                made = self._fields(entry, {"name": ("name", TEXT), "forwardOnly": ("forward_only", FLAG)})
                made["name"] = _COMPOSITES[name] + str(made.get("name", ""))
                made["forward_to"] = [
                    self._target(target) for group in self._each(entry, "forwardTo") for target in group
                ]
                self._found.broker.setdefault("composite_destinations", []).append(made)
            else:
                raise self._unknown("virtual destination", name, {"virtualTopic", *_COMPOSITES})

    def _target(self, element: ElementTree.Element) -> str:
        prefix = _KINDS.get(_name(element))
        if prefix is None:
            raise self._unknown("element", _name(element), set(_KINDS))
        return prefix + element.attrib.get("physicalName", "")

    def plugins(self, element: ElementTree.Element) -> None:
        for plugin in element:
            name = _name(plugin)
            if name == "timeStampingBrokerPlugin":
                self._found.broker["timestamping"] = self._fields(plugin, _TIMESTAMPING)
            elif name == "statisticsBrokerPlugin":
                self._found.broker["statistics"] = True
            elif name == "redeliveryPlugin":
                self._redelivery(plugin)
            elif name == "simpleAuthenticationPlugin":
                self._found.table("security").update(activemq_security.users(plugin, self._fields, self._each))
            elif name == "authorizationPlugin":
                found = activemq_security.permissions(plugin, self._fields, self._each, self._where)
                self._found.table("security").update(found)
            elif name in WITHOUT_EFFECT:
                self._note(name)
            else:
                raise self._unknown("plug-in", name, {*_PLUGINS, *WITHOUT_EFFECT})

    def usage(self, element: ElementTree.Element) -> None:
        for part in self._each(element, "systemUsage"):
            self._found.broker.update(self._fields(part, _USAGE))
            for outer in part:
                name = _name(outer)
                key = _LIMITS.get(name)
                if key is None:
                    raise self._unknown("element", name, set(_LIMITS))
                for inner in self._each(outer, name):
                    self._found.broker.update(self._fields(inner, {"limit": (key, SIZE)}))

    def connectors(self, element: ElementTree.Element) -> None:
        uris = []
        for found in self._each(element, "transportConnector"):
            self._fields(found, {}, known={"name", "uri"})
            if not found.attrib.get("uri"):
                name = found.attrib.get("name", "")
                raise ConfigError(
                    f"{self._where}: transportConnector {name!r} has no uri; give one such as tcp://127.0.0.1:61616"
                )
            uris.append(found.attrib["uri"])
        ours = [uri for uri in uris if uri.partition(":")[0] in (*connector_uri.SCHEMES, *connector_uri.SECURE_SCHEMES)]
        for uri in uris:
            if uri not in ours:
                self._found.notes.append(f"transportConnector {uri} is not served")
        if ours:
            self._found.table("server")["connectors"] = ours

    # -- what they share

    def _fields(self, element: ElementTree.Element, rows: Rows, known: set[str] | None = None) -> dict[str, Any]:
        """Our keys and values of an element's attributes."""
        fields: dict[str, Any] = {}
        for name, text in element.attrib.items():
            if name.startswith("{") or name == "id" or name in (known or ()):
                continue
            row = rows.get(name)
            if row is not None:
                fields[row[0]] = self._value(f"{_name(element)}.{name}", text, row[1])
            elif name in WITHOUT_EFFECT:
                self._note(name)
            else:
                raise self._unknown(f"attribute of {_name(element)}", name, {*rows, *WITHOUT_EFFECT})
        return fields

    def _value(self, name: str, text: str, kind: str) -> object:
        if "${" in text:
            raise ConfigError(f"{self._where}: {name}={text!r} has a placeholder; write the value")
        if kind == TEXT:
            return text
        if kind == TEXTS:
            return [part.strip() for part in text.split(",") if part.strip()]
        if kind == RATIO:
            try:
                return float(text)
            except ValueError:
                raise ConfigError(f"{self._where}: {name}={text!r} must be a number") from None
        if kind == FLAG:
            if text in ("true", "false"):
                return text == "true"
            raise ConfigError(f"{self._where}: {name}={text!r} must be true or false")
        found = re.fullmatch(r"\s*(-?\d{1,18})\s*([a-z]*)\s*", text, re.ASCII | re.IGNORECASE)
        unit = found.group(2).lower() if found else "?"
        if found is None or unit not in _UNITS or (unit and kind == NUMBER):
            wanted = "a whole number" if kind == NUMBER else "a size, such as 64 mb"
            raise ConfigError(f"{self._where}: {name}={text!r} must be {wanted}")
        return int(found.group(1)) * _UNITS[unit]

    def _each(
        self, element: ElementTree.Element, *path: str, beside: frozenset[str] = frozenset()
    ) -> list[ElementTree.Element]:
        """All elements at the end of a path of names below an element. ``beside``: what else may stand on the way."""
        found = [element]
        for name in path:
            children = [child for parent in found for child in parent]
            for child in children:
                if _name(child) != name and _name(child) not in beside:
                    raise self._unknown("element", _name(child), {name, *beside})
            found = [child for child in children if _name(child) == name]
        return found

    def _note(self, name: str) -> None:
        self._found.notes.append(f"{name} has no effect here")

    def _unknown(self, what: str, name: str, known: set[str]) -> ConfigError:
        near = difflib.get_close_matches(name, sorted(known), 1)
        remedy = f"did you mean {near[0]}?" if near else f"one of {', '.join(sorted(known))}"
        return ConfigError(f"{self._where}: {what} {name!r} has no counterpart here; {remedy}")


def _name(element: ElementTree.Element) -> str:
    """The local name, whatever the namespace."""
    return element.tag.rsplit("}", 1)[-1]


_EVERY_STRATEGY: Final[Rows] = {
    "processExpired": ("process_expired", FLAG),
    "processNonPersistent": ("process_non_persistent", FLAG),
    "expiration": ("expiration_ms", NUMBER),
    "enableAudit": ("enable_audit", FLAG),
}
_INDIVIDUAL: Final[Rows] = {
    "queuePrefix": ("queue_prefix", TEXT),
    "topicPrefix": ("topic_prefix", TEXT),
    "queueSuffix": ("queue_suffix", TEXT),
    "topicSuffix": ("topic_suffix", TEXT),
    "useQueueForQueueMessages": ("use_queue_for_queue_messages", FLAG),
    "useQueueForTopicMessages": ("use_queue_for_topic_messages", FLAG),
    "destinationPerDurableSubscriber": ("destination_per_durable_subscriber", FLAG),
}
_STRATEGIES: Final[dict[str, Rows]] = {
    "sharedDeadLetterStrategy": _EVERY_STRATEGY,
    "individualDeadLetterStrategy": {**_EVERY_STRATEGY, **_INDIVIDUAL},
    "discarding": _EVERY_STRATEGY,
}
_STRATEGY_NAMES: Final = {
    "sharedDeadLetterStrategy": "shared",
    "individualDeadLetterStrategy": "individual",
    "discarding": "discarding",
}
_PENDING_LIMITS: Final[dict[str, Rows]] = {
    "constantPendingMessageLimitStrategy": {"limit": ("pending_message_limit", NUMBER)},
    "prefetchRatePendingMessageLimitStrategy": {"multiplier": ("pending_message_limit_multiplier", RATIO)},
}
_RECOVERIES: Final[dict[str, Rows]] = {
    "noSubscriptionRecoveryPolicy": {},
    "lastImageSubscriptionRecoveryPolicy": {},
    "fixedCountSubscriptionRecoveryPolicy": {"maximumSize": ("maximum_messages", NUMBER)},
    "fixedSizedSubscriptionRecoveryPolicy": {"maximumSize": ("maximum_bytes", NUMBER)},
    "timedSubscriptionRecoveryPolicy": {"recoverDuration": ("duration_ms", NUMBER)},
}
_RECOVERY_NAMES: Final = {
    "noSubscriptionRecoveryPolicy": "",
    "lastImageSubscriptionRecoveryPolicy": "last-image",
    "fixedCountSubscriptionRecoveryPolicy": "fixed-count",
    "fixedSizedSubscriptionRecoveryPolicy": "fixed-size",
    "timedSubscriptionRecoveryPolicy": "timed",
}
_VIRTUAL_TOPIC: Final[Rows] = {"name": ("name", TEXT), "prefix": ("prefix", TEXT), "postfix": ("postfix", TEXT)}
_COMPOSITES: Final = {"compositeQueue": "queue://", "compositeTopic": "topic://"}
_POLICY_ELEMENTS: Final = {
    "deadLetterStrategy": _Reader.dead_letters,
    "pendingMessageLimitStrategy": _Reader.pending_limit,
    "subscriptionRecoveryPolicy": _Reader.recovery,
}
_SECTIONS: Final = {
    "destinationInterceptors": _Reader.interceptors,
    "destinationPolicy": _Reader.policies,
    "plugins": _Reader.plugins,
    "systemUsage": _Reader.usage,
    "transportConnectors": _Reader.connectors,
}
