"""All rules: importing this fills the registry."""

from __future__ import annotations

from brokerproof.conformance.rules import (
    acknowledgement,
    dead_letters,
    delay,
    delay_asked,
    delay_release,
    delay_waiting,
    delivery,
    giving_up,
    inactivity,
    inflight,
    memory,
    memory_paging,
    memory_room,
    memory_usage,
    prefetch,
    raw_peers,
    redelivery,
    redelivery_marks,
    restamping,
    timestamping,
)
from brokerproof.conformance.rules.rule import RULES

# fmt: off
AREAS = (acknowledgement, dead_letters, delay, delay_asked, delay_release, delay_waiting, delivery, giving_up,
         inactivity, inflight, memory, memory_paging, memory_room, memory_usage, prefetch, raw_peers, redelivery,
         redelivery_marks, restamping, timestamping)
# fmt: on

__all__ = ["AREAS", "RULES"]
