"""All rules: importing this fills the registry."""

from __future__ import annotations

from brokerproof.conformance.rules import (
    delivery,
    inactivity,
    memory,
    memory_paging,
    memory_room,
    memory_usage,
    raw_peers,
)
from brokerproof.conformance.rules.rule import RULES

AREAS = (
    delivery,
    inactivity,
    memory,
    memory_paging,
    memory_room,
    memory_usage,
    raw_peers,
)

__all__ = ["AREAS", "RULES"]
