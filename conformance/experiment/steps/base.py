"""What a step is: data, how it is drawn, how it is made possible, which operation it is.

Rules:

* A step is *total*. Its references are ordinals; ``normalise(state)`` reduces them modulo what exists and fits, and
  returns None when nothing fits. The world then records ``skipped``. Hence any subset of a program is a program.
* ``normalise`` is idempotent: a normalised step normalises to itself in the same state (a guard tests every step).
* ``resolve`` puts names in the places of a normalised step's ordinals: the operation (``experiment/operations.py``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import msgspec

if TYPE_CHECKING:
    from brokerproof.conformance.experiment.chooser import Chooser
    from brokerproof.conformance.experiment.operations import Operation
    from brokerproof.conformance.experiment.state import WorldState

#: Features that a program may be about; a program is about two at most (``generate/programs.py``).
FEATURES = (
    "priorities",
    "selectors",
    "groups",
    "exclusive",
    "browsers",
    "wildcards",
    "pull",
    "durables",
    "transactions",
    "operator",
    "restarts",
    "lifetimes",
    "raw-peers",
)


class Shape:
    """What a generator knows of the program that it is drawing steps for: how much there is of everything, and which
    times matter.
    """

    __slots__ = ("clients", "dests", "features", "links", "times_ms")

    def __init__(
        self, clients: int, dests: int, links: int, times_ms: list[int], features: tuple[str, ...] = ()
    ) -> None:
        self.clients = clients
        self.dests = dests
        self.links = links
        #: Interesting durations, simplest first: constants of the program and their neighbours by one millisecond.
        self.times_ms = times_ms
        #: What this program is about beside the common ground (``FEATURES``); a step draws a field of a feature only if
        #: it is listed here, so programs without it explore as deeply as ever.
        self.features = features

    def draw_ms(self, chooser: Chooser) -> int:
        """A duration: an interesting one or one of its neighbours, as often as one from a range."""
        if chooser.flag(40):
            return chooser.below(4000)
        value = self.times_ms[chooser.below(len(self.times_ms))]
        return max(0, value + (0, 1, -1)[chooser.below(3)])


class Step(msgspec.Struct, frozen=True, tag_field="do", forbid_unknown_fields=True, omit_defaults=True):
    """Base of all steps."""

    #: Relative frequency in the seeded driver's default mix.
    weight: ClassVar[int] = 1

    @classmethod
    def draw(cls, chooser: Chooser, shape: Shape) -> Step:
        """Draw one from a chooser."""
        raise NotImplementedError

    def normalise(self, state: WorldState) -> Step | None:
        """The same step with every reference in range, or None when it is impossible in this state."""
        raise NotImplementedError

    def resolve(self, state: WorldState) -> Operation:
        """The operation that a normalised step is, with the next free names."""
        raise NotImplementedError

    def repeats(self) -> int:
        """How often it is done, at most."""
        return 1
