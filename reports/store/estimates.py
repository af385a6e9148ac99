"""What many runs allow to say of those that were not run.

* The rule of three: where none of n runs violated a requirement, fewer than 3/n of all such runs do, with 95 %
  confidence.
* Good and Turing: the chance that the next situation that is met was never met before is about the share of those that
  were met in one run only.
* Kaplan and Meier: the share that survives n programs, where some were watched for fewer; Greenwood's variance is
  that of the band.
"""

from __future__ import annotations

import math
from collections.abc import Collection

import msgspec

#: Standard deviations on either side of a band of 95 %.
BAND = 1.96


def violation_bound(runs: int) -> float:
    """Upper bound (95 %) of the share of runs that violate what none of ``runs`` violated, 0 to 1."""
    return min(1.0, 3 / runs) if runs else 1.0


def unseen_share(met: Collection[int]) -> float:
    """Good-Turing: the share of what would be met next that was never met, 0 to 1; ``met``: runs per situation."""
    total = sum(met)
    return sum(1 for runs in met if runs == 1) / total if total else 1.0


class Survival(msgspec.Struct, frozen=True):
    """``share`` of all that survives ``after`` so many programs, with the ends of its band, 0 to 1."""

    after: int
    share: float
    low: float
    high: float


def survival(watched: Collection[tuple[int, bool]]) -> list[Survival]:
    """Kaplan and Meier's steps. ``watched``: programs until each was killed, or, False, until nobody looked on."""
    share, hazard, found = 1.0, 0.0, []
    for after in sorted({programs for programs, _ in watched}):
        alive = sum(programs >= after for programs, _ in watched)
        died = sum(killed and programs == after for programs, killed in watched)
        share *= 1 - died / alive
        hazard += died / (alive * (alive - died)) if alive > died else 0.0
        width = BAND * share * math.sqrt(hazard)
        found.append(Survival(after, share, max(0.0, share - width), min(1.0, share + width)))
    return found
