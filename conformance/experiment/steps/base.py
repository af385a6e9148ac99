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
    from brokerproof.conformance.experiment.steps.shape import Shape


class Step(msgspec.Struct, frozen=True, tag_field="do", forbid_unknown_fields=True, omit_defaults=True):
    """Base of all steps."""

    #: Relative frequency in the seeded driver's mix, and the feature that a program must have to do this at all.
    weight: ClassVar[int] = 1
    feature: ClassVar[str] = ""

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
