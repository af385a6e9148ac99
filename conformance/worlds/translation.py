"""From the suite's words to the reference broker's: destinations and settings, for both worlds."""

from __future__ import annotations

from conformance.destinations import DEAD_LETTERS, is_pattern, is_topic
from conformance.program import DeadLetterSpec, Program
from reference_broker.core.config import BrokerConfig, DeadLetterStrategy, DestinationPolicy, Monitor, TimeStamping
from reference_broker.core.events import Move, Operation, Purge, ResetStatistics
from reference_broker.core.message import DEAD_LETTER_QUEUE, QUEUE, TOPIC

#: What the reference broker offers, in the words of ``Requirement.needs``.
CAPABILITIES = [
    "absolute-delay",
    "broker-ttl",
    "browsers",
    "counters",
    "dead-letter",
    "delay",
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
    "topics",
    "transactions",
    "ttl",
    "wildcards",
]


def physical(dest: str) -> str:
    """``q0`` -> ``queue://q0``, ``q*`` -> ``queue://*``."""
    if dest == DEAD_LETTERS:
        return DEAD_LETTER_QUEUE
    return (TOPIC if is_topic(dest) else QUEUE) + ("*" if is_pattern(dest) else dest)


def logical(destination: str) -> str:
    """``queue://q0`` -> ``q0``; "" stays ""."""
    return destination.split("://", 1)[-1]


def broker_config(program: Program) -> BrokerConfig:
    """The reference broker's configuration for a program. Raises ``ConfigError`` for an unknown generation."""
    spec = program.broker
    stamping = spec.timestamping
    offer = spec.monitor_offer
    return BrokerConfig(
        name=program.broker_host().name,
        timestamping=None
        if stamping is None
        else TimeStamping(
            future_only=stamping.future_only,
            ttl_ceiling_ms=stamping.ttl_ceiling_ms,
            zero_expiration_override_ms=stamping.zero_expiration_override_ms,
        ),
        memory_limit_bytes=spec.memory_limit_bytes,
        destinations=[
            DestinationPolicy(
                entry.match,
                expire_period_ms=entry.expire_period_ms,
                memory_limit_bytes=entry.memory_limit_bytes or 0,
                high_water_percent=entry.high_water_percent,
                producer_flow_control=entry.producer_flow_control,
                send_fail_if_no_space=entry.send_fail_if_no_space,
                prioritized_messages=entry.prioritized_messages,
                pending_message_limit=-1 if entry.pending_message_limit is None else entry.pending_message_limit,
                dead_letter=_strategy(entry.dead_letter),
            )
            for entry in spec.destinations
        ],
        dead_letter_non_persistent=spec.dead_letter_non_persistent,
        persistent=spec.persistent,
        monitor=None if offer is None else Monitor(read_ms=offer.read_ms, initial_delay_ms=offer.initial_delay_ms),
        generation=spec.generation,
    )


def _strategy(spec: DeadLetterSpec | None) -> DeadLetterStrategy | None:
    if spec is None:
        return None
    return DeadLetterStrategy(
        spec.strategy,
        process_expired=spec.process_expired,
        process_non_persistent=spec.process_non_persistent,
    )


#: What an operator's request is to the core: ``reset`` concerns the totals.
_OPERATIONS = {"purge": Purge, "reset": ResetStatistics}


def operation(op: str, destination: str, target: str) -> Operation:
    """An operator's request about a destination."""
    return Move(destination, target) if op == "move" else _OPERATIONS[op](destination)
