"""Which policy entry applies to a destination, and which destination names are usable at all.

Rules:

* ``.`` separates elements; in a pattern ``*`` is exactly one element and a last ``>`` is zero or more, so ``A.>``
  covers ``A``.
* Exactly one entry applies; entries are not merged. The most specific wins: element by element from the left, a
  literal beats ``*`` beats ``>``. So an exact name beats every pattern and the narrower pattern beats the broader.
  ActiveMQ leaves ``A.*`` against ``A.>`` to chance; here ``A.*`` wins.
* A pattern may say ``queue://`` or ``topic://``; without it, it covers both, and loses against the same pattern with
  it. Of equals the first in the configuration wins.
* No entry: the defaults of ``DestinationPolicy``.
* Wildcard and composite destinations are for consumers of a later release: refused, never taken for a plain name.
"""

from __future__ import annotations

from reference_broker.core.config import DestinationPolicy
from reference_broker.core.message import QUEUE, TOPIC

LITERAL, ONE, REST = 0, 1, 2


def split(destination: str) -> tuple[str, str]:
    """("queue://" or "topic://" or "", the name after it)."""
    for prefix in (QUEUE, TOPIC):
        if destination.startswith(prefix):
            return prefix, destination[len(prefix) :]
    return "", destination


def fault(destination: str) -> str:
    """What is wrong with a destination that a client names, in one sentence with the remedy; "" if it is usable."""
    prefix, name = split(destination)
    if not prefix or not name:
        return f"destination {destination!r} is not usable; write {QUEUE}NAME or {TOPIC}NAME"
    if "," in name:
        return f"composite destination {destination!r} is not supported; name one destination"
    if "*" in name.split(".") or ">" in name.split("."):
        return f"wildcard destination {destination!r} is not supported; name one destination"
    return ""


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
        if len(asked) < len(wanted):
            return False
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
