"""Strains: when the broker's process had too little of something that it needs, and what that excuses.

* From the fault until ``RECOVERY_NS`` after its end (servers that could not accept a connection try again a second
  later) whatever takes time may take longer: the same mark as of a process that stood still.
* Without descriptors, room on the disk or memory requests may be refused, also after they were carried out, and the
  process may end: nobody promises more.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from brokerproof.conformance.experiment.history import Event, Fault
from brokerproof.conformance.facts.marks import PAUSE, Marks
from brokerproof.conformance.facts.spans import NEVER, NS_PER_MS

RECOVERY_NS: Final = 2000 * NS_PER_MS
#: Without which nobody promises to go on.
VITAL: Final = ("descriptors", "disk", "memory")


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


def strained(strains: Iterable[Strain], t0: int, t1: int, kinds: tuple[str, ...] = ()) -> bool:
    """Whether one of them, of certain kinds if some are named, touches ``[t0, t1]``."""
    return any(one.since_ns <= t1 and one.until_ns >= t0 and (not kinds or one.what in kinds) for one in strains)


def in_need(strains: Iterable[Strain], event: Event) -> bool:
    """Whether something vital was lacking meanwhile: a refusal may be of what was taken all the same."""
    return strained(strains, event.t0, event.t1, VITAL)
