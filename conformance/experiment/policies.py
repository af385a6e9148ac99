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

from brokerproof.conformance.experiment.destinations import Destinations, own_dead_letters_of

if TYPE_CHECKING:
    from brokerproof.conformance.experiment.configuration import BrokerSpec, DeclaredSpec, PolicySpec

_RANKS: Final = {">": 2, "*": 1}
PREFIXES: Final = ("queue://", "topic://")
#: The prefetch of a consumer that asks for none.
UNASKED: Final = -1
#: Default windows.
QUEUE: Final = 1000
BROWSER: Final = 500
DURABLE: Final = 100
TOPIC: Final = 32767


def divided(pattern: str) -> tuple[str, str]:
    """``queue`` or ``topic`` if a pattern covers only these, else "", and the pattern without that."""
    for prefix in PREFIXES:
        if pattern.startswith(prefix):
            return prefix.removesuffix("://"), pattern[len(prefix) :]
    return "", pattern


def matches(pattern: str, dest: str, *, topic: bool) -> bool:
    """Whether a pattern covers a destination's name: ``*`` is one element, a last ``>`` all that follow, or none."""
    kind, name = divided(pattern)
    if kind not in {"", "topic" if topic else "queue"}:
        return False
    wanted, given = name.split("."), dest.split(".")
    if wanted[-1] == ">":
        wanted.pop()
        given = given[: len(wanted)]
    return len(given) == len(wanted) and all(want in {"*", have} for want, have in zip(wanted, given, strict=True))


def specificity(pattern: str) -> tuple[list[int], int]:
    """Sort key: smaller is more specific."""
    kind, name = divided(pattern)
    return [_RANKS.get(element, 0) for element in name.split(".")], 0 if kind else 1


def entry_for(broker: BrokerSpec, dest: str, *, topic: bool, temporary: bool = False) -> PolicySpec | None:
    """The one entry that applies; None: none does. What a pattern says of queues says nothing of temporary ones."""
    best: PolicySpec | None = None
    for entry in broker.policies:
        if temporary and entry.match.startswith(PREFIXES):
            continue
        if matches(entry.match, dest, topic=topic) and (
            best is None or specificity(entry.match) < specificity(best.match)
        ):
            best = entry
    return best


def default_window(*, topic: bool, durable: bool, browser: bool) -> int:
    """The prefetch of a kind of consumer that asks for none, by the protocol."""
    if browser:
        return BROWSER
    if not topic:
        return QUEUE
    return DURABLE if durable else TOPIC


def policy_window(
    broker: BrokerSpec, dest: str, *, topic: bool, durable: bool, browser: bool, temporary: bool = False
) -> int | None:
    """The prefetch that a policy gives instead; None: it says nothing about this kind of consumer."""
    entry = entry_for(broker, dest, topic=topic, temporary=temporary)
    if entry is None or browser or (topic and not durable):
        return None
    return entry.durable_topic_prefetch if topic else entry.queue_prefetch


def window_of(
    broker: DeclaredSpec, dest: str, asked: int, *, topic: bool, durable: bool, browser: bool, temporary: bool = False
) -> int:
    """The prefetch that a consumer must get. A policy's is also for who asks for just the default of its kind; but not
    where the broker has a default of its own, which nobody is taken to have left as it was.
    """
    own = None if browser else broker.default_prefetch
    default = default_window(topic=topic, durable=durable, browser=browser) if own is None else own
    if asked != UNASKED and (own is not None or asked != default):
        return asked
    configured = policy_window(broker, dest, topic=topic, durable=durable, browser=browser, temporary=temporary)
    return default if configured is None else configured


def own_dead_letter_queues(broker: BrokerSpec, dests: Destinations) -> list[str]:
    """The dead-letter queues of those destinations that have one of their own; of a composite one its parts have."""
    found = []
    for name in dict.fromkeys(part for dest in dests.declared for part in dests.parts(dest.name)):
        topic = dests.is_topic(name)
        entry = entry_for(broker, name, topic=topic)
        if entry is not None and entry.dead_letter is not None and entry.dead_letter.strategy == "individual":
            found.append(own_dead_letters_of(name, topic=topic))
    return found
