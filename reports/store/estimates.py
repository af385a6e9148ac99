"""What many runs allow to say of those that were not run.

* The rule of three: where none of n runs violated a requirement, fewer than 3/n of all such runs do, with 95 %
  confidence.
* Good and Turing: the chance that the next situation that is met was never met before is about the share of those that
  were met in one run only.
"""

from __future__ import annotations

from collections.abc import Collection


def violation_bound(runs: int) -> float:
    """Upper bound (95 %) of the share of runs that violate what none of ``runs`` violated, 0 to 1."""
    return min(1.0, 3 / runs) if runs else 1.0


def unseen_share(met: Collection[int]) -> float:
    """Good-Turing: the share of what would be met next that was never met, 0 to 1; ``met``: runs per situation."""
    total = sum(met)
    return sum(1 for runs in met if runs == 1) / total if total else 1.0
