"""All rules: importing this fills the registry."""

from __future__ import annotations

from brokerproof.conformance.rules import delivery, expiry, expiry_clients, expiry_counters, inactivity, raw_peers
from brokerproof.conformance.rules.rule import RULES

AREAS = (delivery, expiry, expiry_clients, expiry_counters, inactivity, raw_peers)

__all__ = ["AREAS", "RULES"]
