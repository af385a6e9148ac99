"""All rules: importing this fills the registry."""

from __future__ import annotations

from brokerproof.conformance.rules import (
    contents,
    copies,
    delivery,
    durability,
    durables,
    inactivity,
    onlookers,
    raw_peers,
    selection,
    topics,
    transactions,
)
from brokerproof.conformance.rules.rule import RULES

AREAS = (
    contents,
    copies,
    delivery,
    durability,
    durables,
    inactivity,
    onlookers,
    raw_peers,
    selection,
    topics,
    transactions,
)

__all__ = ["AREAS", "RULES"]
