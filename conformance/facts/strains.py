"""Strains: when the broker's process had too little of something that it needs, and what that excuses.

* From the fault until ``RECOVERY_NS`` after its end (servers that could not accept a connection try again a second
  later) whatever takes time may take longer: the same mark as of a process that stood still.
* Without descriptors requests may be refused and the process may end: nobody promises more.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from brokerproof.conformance.experiment.history import Fault
from brokerproof.conformance.facts.marks import PAUSE, Marks
from brokerproof.conformance.facts.spans import NEVER, NS_PER_MS

RECOVERY_NS: Final = 2000 * NS_PER_MS
DESCRIPTORS: Final = "descriptors"


class Strain(NamedTuple):
    """Of what there was too little, and from when until when that may have had consequences."""

    what: str
    since_ns: int
    until_ns: int


def note(strains: list[Strain], marks: Marks, event: Fault) -> None:
    """Something becomes scarce, or no longer is."""
    what = event.how or ""
    if event.fault == "exhaust":
        strains.append(Strain(what, event.t0, NEVER))
        marks.put(PAUSE, "", (event.t0, NEVER))
        return
    for place, strain in enumerate(strains):
        if strain.what == what and strain.until_ns == NEVER:
            strains[place] = strain._replace(until_ns=event.t1 + RECOVERY_NS)
            marks.end(PAUSE, "", (strain.since_ns, NEVER), strains[place].until_ns)


def strained(strains: Iterable[Strain], t0: int, t1: int, what: str = "") -> bool:
    """Whether one of them, of some kind if one is named, touches ``[t0, t1]``."""
    return any(one.since_ns <= t1 and one.until_ns >= t0 and what in ("", one.what) for one in strains)
