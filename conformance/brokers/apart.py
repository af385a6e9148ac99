"""Dead letters apart: a broker that keeps each queue's in a queue of its own, without being told.

A program's policies say so in its stead: topics, and whatever else the profile cannot name, have none that the suite
looks for.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from brokerproof.conformance.experiment.configuration import DeadLetterSpec, PolicySpec
from brokerproof.conformance.experiment.policies import divided

_QUEUES: Final = DeadLetterSpec(strategy="individual")
_TOPICS: Final = DeadLetterSpec(strategy="discarding")
#: What nobody need tell such a broker.
OWN: Final = (_QUEUES, _TOPICS)


def with_dead_letters_apart(policies: Iterable[PolicySpec]) -> list[PolicySpec]:
    """A program's policies as such a broker has them; what an entry itself says of dead letters stays."""
    found: dict[str, PolicySpec] = {}
    for entry in (*policies, PolicySpec(expire_period_ms=0)):
        kind, name = divided(entry.match)
        if kind != "topic":
            found.setdefault(entry.match, replace(entry, dead_letter=entry.dead_letter or _QUEUES))
        if kind != "queue":
            match = f"topic://{name}"
            found.setdefault(match, replace(entry, match=match, dead_letter=entry.dead_letter or _TOPICS))
    return list(found.values())
