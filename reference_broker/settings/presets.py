"""Presets: the limits that releases of ActiveMQ Classic were shipped with, as the start of a ``[broker]`` table.

* ``preset = "NAME"`` in ``[broker]``: whatever the table says itself wins, key by key; policy entries of the table come
  first, so that one for the same pattern replaces the preset's.
* A preset is data, in the words of the configuration file.
* ``memory_limit_bytes`` of 5.9 and later is 70 % of the heap; the heap of the shipped start script is 1 GiB.
"""

from __future__ import annotations

import difflib
from typing import Any, Final

from brokerproof.reference_broker.core.config import ConfigError

MIB: Final = 1024 * 1024
GIB: Final = 1024 * MIB
HEAP_BYTES: Final = GIB

PRESETS: Final[dict[str, dict[str, Any]]] = {
    # 5.4: one megabyte for each queue and topic; the rest is what the broker had without being told.
    "activemq-5.4": {
        "generation": {"memory": "G0"},
        "memory_limit_bytes": 64 * MIB,
        "destinations": [
            {"match": "queue://>", "memory_limit_bytes": MIB},
            {"match": "topic://>", "memory_limit_bytes": MIB},
        ],
    },
    # The end of that line: one megabyte for each queue, 1000 pending messages for each subscriber of a topic.
    "activemq-5.8": {
        "generation": {"memory": "G0"},
        "memory_limit_bytes": 64 * MIB,
        "store_limit_bytes": 100 * GIB,
        "temp_limit_bytes": 50 * GIB,
        "destinations": [
            {"match": "queue://>", "memory_limit_bytes": MIB},
            {"match": "topic://>", "pending_message_limit": 1000},
        ],
    },
    # 5.9 to 5.14: no limits of queues, 1000 pending messages for each subscriber of a topic. 5.14.4 and 5.14.5 count
    # after a purge.
    "activemq-5.9": {
        "generation": {"memory": "G1", "purge": "zeroed"},
        "memory_limit_bytes": (HEAP_BYTES * 70 + 50) // 100,
        "store_limit_bytes": 100 * GIB,
        "temp_limit_bytes": 50 * GIB,
        "destinations": [{"match": "topic://>", "pending_message_limit": 1000}],
    },
    # 5.15.9 and later.
    "activemq-5.17": {
        "generation": {"memory": "G3"},
        "memory_limit_bytes": (HEAP_BYTES * 70 + 50) // 100,
        "store_limit_bytes": 100 * GIB,
        "temp_limit_bytes": 50 * GIB,
        "destinations": [{"match": "topic://>", "pending_message_limit": 1000}],
    },
}


def apply_preset(data: dict[str, Any], where: str) -> dict[str, Any]:
    """A ``[broker]`` table with its preset filled in. Raises ``ConfigError`` for a name that nobody knows."""
    name = data.get("preset")
    if name is None:
        return data
    preset = PRESETS.get(name) if isinstance(name, str) else None
    if preset is None:
        near = difflib.get_close_matches(str(name), PRESETS, 1)
        remedy = f"did you mean {near[0]}?" if near else f"one of {', '.join(PRESETS)}"
        raise ConfigError(f"{where}.preset = {name!r} is unknown; {remedy}")
    merged = {**preset, **data}
    del merged["preset"]
    for part in ("generation", "destinations"):
        own = data.get(part)
        if part == "generation" and isinstance(own, dict):
            merged[part] = {**preset[part], **own}
        elif part == "destinations" and isinstance(own, list):
            merged[part] = [*own, *preset[part]]
    return merged
