"""Names of destinations: which are usable, what a wildcard covers, which policy entry applies.

* ``.`` separates elements; in a pattern ``*`` is exactly one element and a last ``>`` is zero or more, so ``A.>``
  covers ``A``.
* Exactly one entry applies; entries are not merged. The most specific wins: element by element from the left, a literal
  beats ``*`` beats ``>``. ActiveMQ leaves ``A.*`` against ``A.>`` to chance; here ``A.*`` wins.
* A pattern may say ``queue://`` or ``topic://``; without, it covers both and loses to the same with it. Of equals the
  first wins.
* No entry: the defaults of ``DestinationPolicy``.
* A consumer may name a wildcard, and several destinations joined by commas; a producer several, but no wildcard. No
  name holds a comma or a line feed.
"""

from __future__ import annotations

from brokerproof.reference_broker.core.config import DestinationPolicy
from brokerproof.reference_broker.core.message import QUEUE, TEMP_QUEUE, TEMP_TOPIC, TOPIC

LITERAL, ONE, REST = 0, 1, 2

PREFIXES = (QUEUE, TOPIC, TEMP_QUEUE, TEMP_TOPIC)


def split(destination: str) -> tuple[str, str]:
    """(the prefix that says the kind, or "", and the name after it)."""
    end = destination.find("://") + 3
    prefix = destination[:end]
    return (prefix, destination[end:]) if prefix in PREFIXES else ("", destination)


def is_queue(destination: str) -> bool:
    """Whether a name is that of a queue, temporary or not; otherwise it is a topic."""
    return destination.startswith((QUEUE, TEMP_QUEUE))


def is_temporary(destination: str) -> bool:
    """Whether a destination lives as long as a connection."""
    return destination.startswith((TEMP_QUEUE, TEMP_TOPIC))


def is_wild(destination: str) -> bool:
    """Whether a name is a wildcard."""
    elements = split(destination)[1].split(".")
    return "*" in elements or ">" in elements


def members(destination: str) -> list[str]:
    """The destinations that a name stands for, each once, as written; a part without a prefix is of the first part's
    kind.
    """
    if "," not in destination:
        return [destination]
    kind, rest = split(destination)
    found: list[str] = []
    for part in rest.split(","):
        name = part.strip()
        if not split(name)[0]:
            name = kind + name
        if name not in found:
            found.append(name)
    return found


def fault(destination: str) -> str:
    """What is wrong with one destination that a producer names, in one sentence with the remedy; "" if it is usable."""
    prefix, name = split(destination)
    if not prefix or not name or "\n" in name or "," in name:
        return f"destination {destination!r} is not usable; write {QUEUE}NAME or {TOPIC}NAME"
    if is_wild(destination):
        return f"wildcard destination {destination!r} is for consumers; name one destination"
    return ""


def fault_of_pattern(pattern: str) -> str:
    """What is wrong with a pattern of the configuration, or with a name in its place; "" if nothing."""
    prefix, name = split(pattern)
    strange = "," in name or "\n" in name or name.startswith(("/queue/", "/topic/"))
    if not name or strange or (not prefix and "://" in name):
        return (
            f"{pattern!r} names no destination; write a name such as 'A.B', a pattern such as 'A.>', or either after "
            f"{QUEUE} or {TOPIC}"
        )
    if ">" in name.split(".")[:-1]:
        return f"{pattern!r} has '>' before its end; use '*' for one element"
    return ""


def consumer_fault(destination: str) -> str:
    """What is wrong with a destination that a consumer names: one, a wildcard, or several, joined by commas."""
    for name in members(destination):
        if is_wild(name) and is_temporary(name):
            return f"wildcard destination {name!r} is temporary; name one destination"
        if is_wild(name) and ">" in split(name)[1].split(".")[:-1]:
            return f"wildcard destination {name!r} has '>' before its end; use '*' for one element"
        wrong = "" if is_wild(name) and split(name)[0] else fault(name)
        if wrong:
            return wrong
    return ""


def covers(patterns: list[str], destination: str) -> bool:
    """Whether any of a consumer's wildcards covers a destination. Both have their prefix."""
    return any(matches(pattern, destination) for pattern in patterns)


def matches(pattern: str, destination: str) -> bool:
    """Whether a policy entry's pattern covers a destination."""
    pattern_prefix, pattern_name = split(pattern)
    prefix, name = split(destination)
    if pattern_prefix and pattern_prefix != prefix:
        return False
    asked = name.split(".")
    wanted = pattern_name.split(".")
    if wanted[-1] == ">":
        wanted.pop()
        asked = asked[: len(wanted)]
    return len(asked) == len(wanted) and all(want in ("*", have) for want, have in zip(wanted, asked, strict=True))


def specificity(pattern: str) -> tuple[list[int], int]:
    """Sort key: smaller is more specific."""
    prefix, name = split(pattern)
    ranks = [REST if element == ">" else ONE if element == "*" else LITERAL for element in name.split(".")]
    return ranks, 0 if prefix else 1


def policy_for(destination: str, policies: list[DestinationPolicy]) -> DestinationPolicy:
    """The one entry that applies."""
    candidates = [policy for policy in policies if matches(policy.match, destination)]
    if not candidates:
        return DestinationPolicy(destination)
    return min(candidates, key=lambda policy: specificity(policy.match))
