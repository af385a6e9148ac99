"""From the suite's words to the reference broker's: destinations and settings, for both worlds."""

from __future__ import annotations

from typing import Any

import msgspec

from brokerproof.conformance.experiment.configuration import BrokerSpec, PolicySpec, RedeliverySpec
from brokerproof.conformance.experiment.destinations import DEAD_LETTERS, Destinations, is_pattern, own_dead_letters_of
from brokerproof.conformance.experiment.policies import entry_for
from brokerproof.conformance.experiment.program import Program
from brokerproof.reference_broker.core.config import (
    AdvisoryOptions,
    BrokerConfig,
    BrokerRedelivery,
    DeadLetterStrategy,
    DestinationPolicy,
    Monitor,
    TimeStamping,
)
from brokerproof.reference_broker.core.events import Move, Mqsc, Operation, Purge, ResetStatistics, SetMemoryLimit
from brokerproof.reference_broker.core.message import DEAD_LETTER_QUEUE, QUEUE, TOPIC

#: Names of virtual topics and of the queues that consume from them, as ActiveMQ has them by default.
_VIRTUAL = "VirtualTopic."
_CONSUMER = "Consumer."

#: What the reference broker offers, in the words of ``Requirement.needs``.
CAPABILITIES = [
    "absolute-delay",
    "advisories",
    "broker-redelivery",
    "broker-ttl",
    "browsers",
    "browses-in-flight",
    "causes",
    "composites",
    "counters",
    "counts-when-assigned",
    "dead-letter",
    "default-prefetch",
    "delay",
    "disk-limits",
    "durables",
    "ends-durables",
    "exact-charges",
    "exclusive",
    "expiry-check",
    "groups",
    "jms-semantics",
    "keeps-rolled-back",
    "limits-at-once",
    "logins",
    "memory-counters",
    "memory-limit",
    "monitor",
    "nack",
    "operator",
    "origins",
    "persistent",
    "prefetch",
    "priorities",
    "pull",
    "redelivery-limit",
    "restart",
    "selectors",
    "sync-dispatch",
    "timestamping",
    "temporaries",
    "topics",
    "transacted-nacks",
    "transactions",
    "ttl",
    "virtual-topics",
    "wildcards",
]


class Names:
    """What the reference broker, and ActiveMQ, call the destinations of a program; ``suffix``: of one run of several;
    ``separator``: what stands for the dots of a name. ``prefix``: of one run, too, where a pattern is to end a name.

    The dead-letter queue is everybody's.
    """

    def __init__(self, destinations: Destinations, suffix: str = "", separator: str = ".", *, prefix: str = "") -> None:
        self._destinations = destinations
        self._separator = separator
        self._prefix = prefix.replace(".", separator)
        self._suffix = suffix.replace(".", separator)
        #: Dead-letter queue of one source -> what the broker calls it.
        self._letters: dict[str, str] = {}
        self._physical: dict[str, str] = {}
        self._letters = {
            own_dead_letters_of(one.name, topic=topic): self._own_dead_letters(one.name, topic=topic)
            for one in destinations.declared
            for topic in (False, True)
        }
        self._physical.clear()  # some were named before all letters were known
        self._logical = {self.physical(one.name): one.name for one in destinations.declared}
        self._logical |= {physical: letters for letters, physical in self._letters.items()}

    def _own_dead_letters(self, source: str, *, topic: bool) -> str:
        """The dead-letter queue of one source, by its name there. An agent translates it, by what comes before."""
        return QUEUE + own_dead_letters_of(self.physical(source).split("://", 1)[-1], topic=topic)

    def physical(self, dest: str) -> str:
        """``q0`` -> ``queue://q0``, ``q*`` -> ``queue://*``."""
        found = self._physical.get(dest)
        if found is None:
            found = self._physical[dest] = self._called(dest)
        return found

    def _called(self, dest: str) -> str:
        known = self._destinations
        if dest == DEAD_LETTERS:
            return DEAD_LETTER_QUEUE
        if dest in self._letters:
            return self._letters[dest]
        if known.kind(dest) == "composite":
            return ",".join(self.physical(part) for part in known.parts(dest))
        virtual = known.virtual_topic(dest)
        name = self._pattern() if is_pattern(dest) else dest
        if virtual:
            # One element before the topic's name: that is how ActiveMQ knows such queues.
            consumer = "" if virtual == dest else f"{_CONSUMER}{dest.replace('.', '-')}."
            name = f"{consumer}{_VIRTUAL}{virtual}"
        named = f"{self._prefix}{name}{self._suffix}".replace(".", self._separator)
        return f"{TOPIC if known.is_topic(dest) else QUEUE}{named}"

    def _pattern(self) -> str:
        """What stands for one part of a name, or, where it ends one and none is longer, in some programs for all."""
        declared = self._destinations.declared
        all_parts = self._prefix and len(declared) % 2 and not any("." in one.name for one in declared)
        return ">" if all_parts else "*"

    def logical(self, destination: str) -> str:
        """``queue://q0`` -> ``q0``; "" stays ""."""
        found = self._logical.get(destination)
        if found is not None:
            return found
        named = [part.split("://", 1)[-1].removesuffix(self._suffix) for part in destination.split(",")]
        return ",".join(name.removeprefix(self._prefix) for name in named)


def broker_config(program: Program, name: str = "") -> BrokerConfig:
    """The reference broker's configuration for a program; ``name``: of which broker, "" is the first. Raises
    ``ConfigError`` for an unknown generation.
    """
    spec = program.broker
    fields = _said(spec)
    for own in ("policies", "monitor_offer", "connector", "timestamping", "logins"):
        fields.pop(own, None)
    if "delay_max_ms" in fields:
        fields["max_delay_ms"] = fields.pop("delay_max_ms")
    if fields.get("redeliveries_max") is None:
        fields.pop("redeliveries_max", None)
    if spec.timestamping is not None:
        fields["timestamping"] = TimeStamping(**_said(spec.timestamping))
    return BrokerConfig(
        name=name or program.broker_host().name,
        destinations=[_entry(entry) for entry in (*spec.policies, *_policies_of_virtual_topics(program))],
        monitor=Monitor(**monitor_settings(spec)),
        **fields,
    )


def _policies_of_virtual_topics(program: Program) -> list[PolicySpec]:
    """What a pattern says of a name, said of what ActiveMQ makes of it, where that has more elements than the name."""
    if not any("*" in entry.match for entry in program.broker.policies):
        return []
    dests = Destinations(program.destinations)
    names = Names(dests)
    found: dict[str, PolicySpec] = {}
    for one in (part for dest in program.destinations for part in (dest, *dest.of)):
        entry = entry_for(program.broker, one.name, topic=dests.is_topic(one.name))
        if entry is not None and "*" in entry.match and dests.virtual_topic(one.name):
            found[one.name] = msgspec.structs.replace(entry, match=names.physical(one.name))
    return list(found.values())


def _entry(spec: PolicySpec) -> DestinationPolicy:
    fields = _said(spec) | {"match": spec.match, "expire_period_ms": spec.expire_period_ms}
    fields.pop("topic_inflight_stats", None)  # this broker counts without lists
    if spec.dead_letter is not None:
        fields["dead_letter"] = DeadLetterStrategy(**_said(spec.dead_letter))
    if spec.redelivery is not None:
        fields["redelivery"] = BrokerRedelivery(**redelivery_settings(spec.redelivery))
    if spec.advisories:
        fields["advisories"] = AdvisoryOptions(**ADVISORIES)
    return DestinationPolicy(**fields)


def _said(spec: msgspec.Struct) -> dict[str, Any]:
    """What differs from the program's defaults. The broker's own are the same, and are relied upon."""
    plain = type(spec)()
    fields = {name: getattr(spec, name) for name in spec.__struct_fields__}
    return {name: value for name, value in fields.items() if value != getattr(plain, name)}


def monitor_settings(spec: BrokerSpec) -> dict[str, Any]:
    """What a program says of the broker's end of the links, by the names of its configuration."""
    settings: dict[str, Any] = {} if spec.connector is None else _said(spec.connector)
    if spec.monitor_offer is not None:
        settings |= msgspec.structs.asdict(spec.monitor_offer)
    return settings


#: What redelivery by the broker is called in its configuration.
_REDELIVERY = {
    "maximum": "maximum_redeliveries",
    "initial_ms": "initial_redelivery_delay_ms",
    "pause_ms": "redelivery_delay_ms",
    "longest_ms": "maximum_redelivery_delay_ms",
    "multiplier": "back_off_multiplier",
    "dead_letter": "send_to_dlq_if_max_retries_exceeded",
}


def redelivery_settings(spec: RedeliverySpec) -> dict[str, Any]:
    """What a program says of redelivery by the broker, by the names of its configuration."""
    settings = {_REDELIVERY[name]: value for name, value in _said(spec).items()}
    return settings | {"use_exponential_back_off": True} if spec.multiplier > 1 else settings


#: What a policy entry with ``advisories`` asks for.
ADVISORIES = {"expired": True, "dead_letters": True}

#: What an operator's request is to the core: ``reset`` concerns the totals.
_OPERATIONS = {"purge": Purge, "reset": ResetStatistics}


def operation(op: str, destination: str, target: str, limit_bytes: int = 0, command: str = "") -> Operation:
    """An operator's request about a destination, or ("") about the broker."""
    if op == "mqsc":
        return Mqsc(command)
    if op == "limit":
        return SetMemoryLimit(destination, limit_bytes)
    return Move(destination, target) if op == "move" else _OPERATIONS[op](destination)
