"""All rules: importing this fills the registry."""

from __future__ import annotations

from brokerproof.conformance.rules import (
    contents,
    copies,
    dead_letters,
    delay,
    delay_asked,
    delay_release,
    delay_waiting,
    delivery,
    durability,
    durables,
    giving_up,
    inactivity,
    memory,
    memory_paging,
    memory_room,
    memory_usage,
    onlookers,
    raw_peers,
    redelivery,
    redelivery_marks,
    restamping,
    selection,
    timestamping,
    topics,
    transactions,
)
from brokerproof.conformance.rules.rule import RULES

AREAS = (
    contents,
    copies,
    dead_letters,
    delay,
    delay_asked,
    delay_release,
    delay_waiting,
    delivery,
    durability,
    durables,
    giving_up,
    inactivity,
    memory,
    memory_paging,
    memory_room,
    memory_usage,
    onlookers,
    raw_peers,
    redelivery,
    redelivery_marks,
    restamping,
    selection,
    timestamping,
    topics,
    transactions,
)

__all__ = ["AREAS", "RULES"]
