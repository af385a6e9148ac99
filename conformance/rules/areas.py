"""All rules: importing this fills the registry."""

from __future__ import annotations

from brokerproof.conformance.rules import (
    acceptance,
    acknowledgement,
    answers,
    bridges,
    connections,
    contents,
    copies,
    dead_letters,
    delay,
    delay_asked,
    delay_mq,
    delay_release,
    delay_resolved,
    delay_waiting,
    delivery,
    dialogues,
    durability,
    durables,
    expiry,
    expiry_clients,
    expiry_counters,
    expiry_topics,
    figures,
    giving_up,
    inactivity,
    inflight,
    liveness,
    managing,
    memory,
    memory_paging,
    memory_room,
    memory_usage,
    onlookers,
    prefetch,
    processes,
    raw_peers,
    redelivery,
    redelivery_marks,
    restamping,
    selection,
    survival,
    timestamping,
    told_by_managers,
    topics,
    transactions,
)
from brokerproof.conformance.rules.rule import RULES

# fmt: off
AREAS = (acceptance, acknowledgement, answers, bridges, connections, contents, copies, dead_letters, delay,
         delay_asked, delay_mq, delay_release, delay_resolved, delay_waiting, delivery, dialogues, durability,
         durables, expiry, expiry_clients, expiry_counters, expiry_topics, figures, giving_up, inactivity, inflight,
         liveness, managing, memory, memory_paging, memory_room, memory_usage, onlookers, prefetch, processes,
         raw_peers, redelivery, redelivery_marks, restamping, selection, survival, timestamping, told_by_managers,
         topics, transactions)
# fmt: on

__all__ = ["AREAS", "RULES"]
