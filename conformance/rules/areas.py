"""All rules: importing this fills the registry."""

from __future__ import annotations

from brokerproof.conformance.rules import (
    delay,
    delay_asked,
    delay_release,
    delay_waiting,
    delivery,
    inactivity,
    raw_peers,
)
from brokerproof.conformance.rules.rule import RULES

AREAS = (delay, delay_asked, delay_release, delay_waiting, delivery, inactivity, raw_peers)

__all__ = ["AREAS", "RULES"]
