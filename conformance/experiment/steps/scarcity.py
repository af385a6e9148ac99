"""``exhaust``, ``relieve``: the broker's process has too little of something, and enough of it again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec

from brokerproof.conformance.experiment import operations as ops
from brokerproof.conformance.experiment.steps.base import Step

if TYPE_CHECKING:
    from brokerproof.conformance.experiment.chooser import Chooser
    from brokerproof.conformance.experiment.state import WorldState
    from brokerproof.conformance.experiment.steps.shape import Shape

KINDS = ("descriptors", "processor", "disk", "memory")
#: What is left that is worth drawing: descriptors, percent of one processor, KiB of a file, MiB of memory.
LEFT: dict[str, tuple[int, ...]] = {
    "descriptors": (0, 1, 3),
    "processor": (10, 25, 50),
    "disk": (0, 4, 64),
    "memory": (0, 1, 16),
}


class Exhaust(Step, frozen=True, tag="exhaust"):
    """From now on the broker's process can open only ``left`` ``descriptors`` more, or has about ``left`` percent of
    one ``processor``, for which busy neighbours contend, or can write only ``left`` KiB beyond the end of its largest
    file (``disk``), or get only ``left`` MiB more of ``memory``. Of processes only.
    """

    weight = 2
    feature = "scarcities"
    what: ops.Scarce = "descriptors"
    left: Annotated[int, msgspec.Meta(ge=0, le=100)] = 0

    @classmethod
    def draw(cls, chooser: Chooser, shape: Shape) -> Exhaust:  # noqa: ARG003 - nothing depends on the shape
        what = KINDS[chooser.below(len(KINDS))]
        return cls(what=what, left=LEFT[what][chooser.below(3)])  # type: ignore[arg-type]  # a tuple of literals

    def normalise(self, state: WorldState) -> Exhaust | None:
        return None if self.what in state.broker.scarce else self

    def resolve(self, state: WorldState) -> ops.Exhaust:  # noqa: ARG002 - the first broker is meant
        return ops.Exhaust(what=self.what, left=self.left)


class Relieve(Step, frozen=True, tag="relieve"):
    """It has enough of it again."""

    weight = 2
    feature = "scarcities"
    what: ops.Scarce = "descriptors"

    @classmethod
    def draw(cls, chooser: Chooser, shape: Shape) -> Relieve:  # noqa: ARG003 - as above
        return cls(what=KINDS[chooser.below(len(KINDS))])  # type: ignore[arg-type]  # likewise

    def normalise(self, state: WorldState) -> Relieve | None:
        return self if self.what in state.broker.scarce else None

    def resolve(self, state: WorldState) -> ops.Relieve:  # noqa: ARG002 - as above
        return ops.Relieve(what=self.what)
