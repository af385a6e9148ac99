"""What applies to a destination: the one policy entry of those that a tester declares (``experiment/policies.py``), and
what follows from it for its messages.
"""

from __future__ import annotations

from typing import Final

from brokerproof.conformance.experiment.configuration import (
    DeadLetterSpec,
    DeclaredSpec,
    PolicySpec,
    TimeStampingSpec,
)
from brokerproof.conformance.experiment.destinations import DEAD_LETTERS, is_aside, own_dead_letters_of
from brokerproof.conformance.experiment.history import Send
from brokerproof.conformance.experiment.policies import entry_for
from brokerproof.conformance.facts.spans import NEVER

#: How much of a limit may be in use before anybody may be kept waiting for memory.
PRESSURE_PERCENT: Final = 50
#: The mark at which cursors stop loading (cursorMemoryHighWaterMark), by default: beyond, messages may be in the store
#: alone.
MARK_PERCENT: Final = 70
#: maxPageSize, by default.
PAGE: Final = 200
#: Redeliveries after which a real broker may give a message up that says nothing of it: no default is known below five
#: failed deliveries (WebSphere's messaging engine; Artemis has 10, RabbitMQ's quorum queues 20).
UNSAID: Final = 4


def redeliveries_of(declared: DeclaredSpec, *, simulated: bool) -> int:
    """How often the broker delivers a message again before it may give it up; ``NEVER``: for ever."""
    said = declared.redeliveries_max
    if said is None:
        return NEVER if simulated else UNSAID
    return NEVER if said < 0 else said


class Applied:
    """What a tester declares about one destination. Times are milliseconds, limits bytes; 0 is none."""

    def __init__(self, declared: DeclaredSpec, dest: str, *, topic: bool, temporary: bool = False) -> None:
        entry = entry_for(declared, dest, topic=topic, temporary=temporary)
        self.dest = dest
        self.topic = topic
        #: An entry applies.
        self.found = entry is not None
        #: The entry, or the defaults.
        self.entry = entry if entry is not None else PolicySpec(expire_period_ms=0)
        self.dead_letter = self.entry.dead_letter or DeadLetterSpec(
            process_non_persistent=declared.dead_letter_non_persistent
        )
        self.memory_limit_bytes = self.entry.memory_limit_bytes or 0
        #: Messages that the broker loads from its store at a time; beyond that many unsettled it may wait.
        self.page = self.entry.max_page_size or PAGE
        #: Between two sweeps; 0 or less: none.
        self.expire_period_ms = (
            self.entry.expire_period_ms if declared.expire_period_ms is None else declared.expire_period_ms
        )

    def keeps_dead_letter(self, *, persistent: bool, expired: bool) -> bool:
        """Whether a message that dies there leaves a copy on some dead-letter queue."""
        strategy = self.dead_letter
        if self.dest == DEAD_LETTERS or (is_aside(self.dest) and not self.topic):
            return False  # what dies there again disappears
        if strategy.strategy == "discarding" or (expired and not strategy.process_expired):
            return False
        return persistent or strategy.process_non_persistent

    def is_shared(self) -> bool:
        """Whether its dead letters go to the queue for all."""
        return self.dead_letter.strategy == "shared"

    def own_dead_letters(self) -> str:
        """The dead-letter queue of its own; "" if it has none."""
        return own_dead_letters_of(self.dest, topic=self.topic) if self.dead_letter.strategy == "individual" else ""


def believes_clients(declared: DeclaredSpec) -> bool:
    """Whether the broker takes a client's word for it that a message has expired; undeclared, it is taken to."""
    return declared.generation.get("expiry", "classic-5.14") == "classic-5.14"


def gets_expiration(declared: DeclaredSpec) -> bool:
    """Whether the broker itself gives messages an expiration."""
    spec = declared.timestamping
    return spec is not None and spec.zero_expiration_override_ms > 0


def stamping_of(spec: TimeStampingSpec | None, send: Send) -> TimeStampingSpec | None:
    """The plug-in as this message finds it: absent for one that came over a bridge, unless it acts on those, too."""
    return spec if spec is None or not send.network or spec.process_network_messages else None


def surely_believes_clients(declared: DeclaredSpec, *, simulated: bool) -> bool:
    """The same for certain: where that is declared, and, as it is the default, in the simulated broker: it is ours."""
    return declared.generation.get("expiry", "classic-5.14" if simulated else "") == "classic-5.14"
