"""All rules: importing this fills the registry."""

from __future__ import annotations

from brokerproof.conformance.rules import delivery
from brokerproof.conformance.rules.rule import RULES

AREAS = (delivery,)

__all__ = ["AREAS", "RULES"]
