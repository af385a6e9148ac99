"""From the suite's words to the reference broker's: destinations and settings, for both worlds."""

from __future__ import annotations

from typing import Any

import msgspec

from brokerproof.conformance.experiment.configuration import BrokerSpec, DeadLetterSpec, RedeliverySpec
from brokerproof.conformance.experiment.destinations import DEAD_LETTERS, Destinations, is_pattern, own_dead_letters_of
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
from brokerproof.reference_broker.core.prefetch import DURABLE_TOPIC_PREFETCH, QUEUE_PREFETCH

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
    "composites",
    "counters",
    "dead-letter",
    "delay",
    "disk-limits",
    "durables",
    "exclusive",
    "expiry-check",
    "groups",
    "memory-counters",
    "memory-limit",
    "monitor",
    "nack",
    "operator",
    "persistent",
    "prefetch",
    "priorities",
    "pull",
    "restart",
    "selectors",
    "sync-dispatch",
    "timestamping",
    "temporaries",
    "topics",
    "transactions",
    "ttl",
    "virtual-topics",
    "wildcards",
]


class Names:
    """What the reference broker, and ActiveMQ, call the destinations of a program; ``suffix``: of one run of several.

    The dead-letter queue is everybody's.
    """

    def __init__(self, destinations: Destinations, suffix: str = "") -> None:
        self._destinations = destinations
        self._suffix = suffix
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
        """The dead-letter queue of one source, by its name there."""
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
        name = "*" if is_pattern(dest) else dest
        if virtual:
            # One element before the topic's name: that is how ActiveMQ knows such queues.
            consumer = "" if virtual == dest else f"{_CONSUMER}{dest.replace('.', '-')}."
            name = f"{consumer}{_VIRTUAL}{virtual}"
        return f"{TOPIC if known.is_topic(dest) else QUEUE}{name}{self._suffix}"

    def logical(self, destination: str) -> str:
        """``queue://q0`` -> ``q0``; "" stays ""."""
        found = self._logical.get(destination)
        if found is not None:
            return found
        return ",".join(part.split("://", 1)[-1].removesuffix(self._suffix) for part in destination.split(","))


def broker_config(program: Program, name: str = "") -> BrokerConfig:
    """The reference broker's configuration for a program; ``name``: of which broker, "" is the first. Raises
    ``ConfigError`` for an unknown generation.
    """
    spec = program.broker
    stamping = spec.timestamping
    return BrokerConfig(
        name=name or program.broker_host().name,
        timestamping=None
        if stamping is None
        else TimeStamping(
            future_only=stamping.future_only,
            ttl_ceiling_ms=stamping.ttl_ceiling_ms,
            zero_expiration_override_ms=stamping.zero_expiration_override_ms,
            process_network_messages=stamping.process_network_messages,
            restamp_moved=stamping.restamp_moved,
        ),
        memory_limit_bytes=spec.memory_limit_bytes,
        destinations=[
            DestinationPolicy(
                entry.match,
                expire_period_ms=entry.expire_period_ms,
                memory_limit_bytes=entry.memory_limit_bytes or 0,
                high_water_percent=entry.high_water_percent,
                max_page_size=entry.max_page_size,
                max_expire_page_size=entry.max_expire_page_size,
                producer_flow_control=entry.producer_flow_control,
                send_fail_if_no_space=entry.send_fail_if_no_space,
                prioritized_messages=entry.prioritized_messages,
                pending_message_limit=-1 if entry.pending_message_limit is None else entry.pending_message_limit,
                dead_letter=_strategy(entry.dead_letter),
                redelivery=None
                if entry.redelivery is None
                else BrokerRedelivery(**redelivery_settings(entry.redelivery)),
                advisories=AdvisoryOptions(**ADVISORIES) if entry.advisories else None,
                queue_prefetch=entry.queue_prefetch or QUEUE_PREFETCH,
                durable_topic_prefetch=entry.durable_topic_prefetch or DURABLE_TOPIC_PREFETCH,
            )
            for entry in spec.policies
        ],
        dead_letter_non_persistent=spec.dead_letter_non_persistent,
        persistent=spec.persistent,
        store_limit_bytes=spec.store_limit_bytes,
        temp_limit_bytes=spec.temp_limit_bytes,
        monitor=Monitor(**monitor_settings(spec)),
        generation=spec.generation,
        delay_support=spec.delay_support,
        max_delay_ms=spec.delay_max_ms,
        mqsc=spec.mqsc,
    )


def monitor_settings(spec: BrokerSpec) -> dict[str, Any]:
    """What a program says of the broker's end of the links, by the names of its configuration."""
    settings: dict[str, Any] = {} if spec.connector is None else msgspec.structs.asdict(spec.connector)
    if spec.monitor_offer is not None:
        settings |= msgspec.structs.asdict(spec.monitor_offer)
    return settings


def _strategy(spec: DeadLetterSpec | None) -> DeadLetterStrategy | None:
    if spec is None:
        return None
    return DeadLetterStrategy(
        spec.strategy,
        process_expired=spec.process_expired,
        process_non_persistent=spec.process_non_persistent,
    )


def redelivery_settings(spec: RedeliverySpec) -> dict[str, Any]:
    """What a program says of redelivery by the broker, by the names of its configuration."""
    return {
        "maximum_redeliveries": spec.maximum,
        "initial_redelivery_delay_ms": spec.initial_ms,
        "redelivery_delay_ms": spec.pause_ms,
        "maximum_redelivery_delay_ms": spec.longest_ms,
        "use_exponential_back_off": spec.multiplier > 1,
        "back_off_multiplier": spec.multiplier,
        "send_to_dlq_if_max_retries_exceeded": spec.dead_letter,
    }


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
