"""Dead-letter strategies as a tester declares them: what a broker is to make of a message that dies.

Rules: the entry that names a destination exactly counts, else the one with the longest match that covers it, else the
defaults with the declared ``dead_letter_non_persistent``. Nothing else is merged.

What must change together: ``program.DeadLetterSpec``, ``docs/program.md``.
"""

from __future__ import annotations

from typing import Final

from brokerproof.conformance.experiment.configuration import BrokerSpec, DeadLetterSpec, DestinationSpec
from brokerproof.conformance.experiment.destinations import own_letters_of
from brokerproof.conformance.oracles.records import matches

SHARED: Final = "shared"
INDIVIDUAL: Final = "individual"
DISCARDING: Final = "discarding"


def entry_of(declared: BrokerSpec, dest: str) -> DestinationSpec | None:
    """The entry that applies to a destination."""
    best: DestinationSpec | None = None
    for entry in declared.destinations:
        if matches(entry.match, dest) and (best is None or len(entry.match) > len(best.match)):
            best = entry
    return best


def strategy_of(declared: BrokerSpec, dest: str) -> DeadLetterSpec:
    """The strategy that applies to a destination."""
    best = entry_of(declared, dest)
    if best is None or best.dead_letter is None:
        return DeadLetterSpec(process_non_persistent=declared.dead_letter_non_persistent)
    return best.dead_letter


def letter_queues(declared: BrokerSpec, dests: list[str]) -> list[str]:
    """The dead-letter queues of those destinations that have one of their own."""
    return [own_letters_of(dest) for dest in dests if strategy_of(declared, dest).strategy == INDIVIDUAL]


def gets_letter(declared: BrokerSpec, dest: str, persistent: bool, *, expired: bool) -> bool:
    """Whether a message that dies there, by expiring or by being rejected, gets a letter on the shared queue."""
    strategy = strategy_of(declared, dest)
    if strategy.strategy != SHARED or (expired and not strategy.process_expired):
        return False
    return persistent or strategy.process_non_persistent
