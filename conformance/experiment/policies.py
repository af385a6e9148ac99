"""Policies: which of a broker's policy entries applies to a destination, and the window that a consumer gets by it.

Rules
* Exactly one entry applies; entries are not merged. The most specific wins: element by element from the left a name
  beats ``*`` beats ``>``; of equals the first. None: the defaults.
* A pattern may say ``queue://`` or ``topic://``; then it covers only these, and beats the same pattern without.
* Who asks for nothing gets the window of its kind. An entry's value replaces that default, asked for or not, and
  nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from brokerproof.conformance.experiment.destinations import is_topic, own_letters_of

if TYPE_CHECKING:
    from brokerproof.conformance.experiment.configuration import BrokerSpec, DestinationSpec

_RANKS: Final = {">": 2, "*": 1}
PREFIXES: Final = ("queue://", "topic://")
#: The prefetch of a consumer that asks for none.
UNASKED: Final = -1
#: Default windows.
QUEUE: Final = 1000
BROWSER: Final = 500
DURABLE: Final = 100
TOPIC: Final = 32767


def matches(pattern: str, dest: str) -> bool:
    """Whether a pattern covers a destination's name: ``*`` is one element, a last ``>`` all that follow, or none."""
    kind = "topic://" if is_topic(dest) else "queue://"
    for prefix in PREFIXES:
        if pattern.startswith(prefix):
            if prefix != kind:
                return False
            pattern = pattern[len(prefix) :]
    wanted, given = pattern.split("."), dest.split(".")
    if wanted[-1] == ">":
        wanted.pop()
        given = given[: len(wanted)]
    return len(given) == len(wanted) and all(want in {"*", have} for want, have in zip(wanted, given, strict=True))


def specificity(pattern: str) -> tuple[list[int], int]:
    """Sort key: smaller is more specific."""
    for prefix in PREFIXES:
        if pattern.startswith(prefix):
            return [_RANKS.get(element, 0) for element in pattern[len(prefix) :].split(".")], 0
    return [_RANKS.get(element, 0) for element in pattern.split(".")], 1


def entry_for(broker: BrokerSpec, dest: str) -> DestinationSpec | None:
    """The one entry that applies; None: none does."""
    best: DestinationSpec | None = None
    for entry in broker.destinations:
        if matches(entry.match, dest) and (best is None or specificity(entry.match) < specificity(best.match)):
            best = entry
    return best


def default_window(dest: str, *, durable: bool, browser: bool) -> int:
    """The prefetch of a kind of consumer that asks for none, by the protocol."""
    if browser:
        return BROWSER
    if not is_topic(dest):
        return QUEUE
    return DURABLE if durable else TOPIC


def policy_window(broker: BrokerSpec, dest: str, *, durable: bool, browser: bool) -> int | None:
    """The prefetch that a policy gives instead; None: it says nothing about this kind of consumer."""
    entry = entry_for(broker, dest)
    if entry is None or browser or (is_topic(dest) and not durable):
        return None
    return entry.durable_topic_prefetch if is_topic(dest) else entry.queue_prefetch


def window_of(broker: BrokerSpec, dest: str, asked: int, *, durable: bool, browser: bool) -> int:
    """The prefetch that a consumer must get."""
    default = default_window(dest, durable=durable, browser=browser)
    if asked not in (UNASKED, default):
        return asked
    configured = policy_window(broker, dest, durable=durable, browser=browser)
    return default if configured is None else configured


def own_dead_letter_queues(broker: BrokerSpec, dests: list[str]) -> list[str]:
    """The dead-letter queues of those destinations that have one of their own."""
    entries = {dest: entry_for(broker, dest) for dest in dests}
    strategies = {dest: entry.dead_letter for dest, entry in entries.items() if entry is not None}
    return [own_letters_of(dest) for dest, found in strategies.items() if found and found.strategy == "individual"]
