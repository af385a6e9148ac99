"""``advance``, ``settle``, ``counters``: letting time pass, and looking."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec

from brokerproof.conformance.experiment import operations as ops
from brokerproof.conformance.experiment.steps.base import Step
from brokerproof.conformance.experiment.steps.send import Ordinal

if TYPE_CHECKING:
    from brokerproof.conformance.experiment.chooser import Chooser
    from brokerproof.conformance.experiment.state import WorldState
    from brokerproof.conformance.experiment.steps.shape import Shape


class Advance(Step, frozen=True, tag="advance"):
    """Time passes: ``ms`` milliseconds of true time, virtual or real."""

    weight = 12
    ms: ops.Duration = 0

    @classmethod
    def draw(cls, chooser: Chooser, shape: Shape) -> Advance:
        return cls(ms=shape.draw_some_ms(chooser))

    def normalise(self, state: WorldState) -> Advance | None:  # noqa: ARG002 - possible in any state
        return None if self.ms == 0 else self

    def resolve(self, state: WorldState) -> ops.Advance:  # noqa: ARG002 - it names nobody
        return ops.Advance(ms=self.ms)


class Settle(Step, frozen=True, tag="settle"):
    """Wait until nothing moves any more, at most ``deadline_ms``, then read all counters."""

    weight = 2
    deadline_ms: ops.Duration = 5000

    @classmethod
    def draw(cls, chooser: Chooser, shape: Shape) -> Settle:
        return cls(deadline_ms=shape.draw_ms(chooser)) if chooser.flag(20) else cls()

    def normalise(self, state: WorldState) -> Settle | None:  # noqa: ARG002 - possible in any state
        return self

    def resolve(self, state: WorldState) -> ops.Settle:  # noqa: ARG002 - it names nobody
        return ops.Settle(deadline_ms=self.deadline_ms)


class Counters(Step, frozen=True, tag="counters"):
    """Read the broker's figures for ``dest`` at this instant, whatever is moving; ``count`` times, ``every_ms``."""

    weight = 4
    dest: Ordinal = 0
    count: Annotated[int, msgspec.Meta(ge=1, le=100_000)] = 1
    every_ms: ops.Duration = 0

    @classmethod
    def draw(cls, chooser: Chooser, shape: Shape) -> Counters:
        return cls(dest=chooser.below(shape.dests))

    def normalise(self, state: WorldState) -> Counters | None:
        places = state.places()
        return msgspec.structs.replace(self, dest=self.dest % len(places)) if places else None

    def resolve(self, state: WorldState) -> ops.ReadCounters:
        return ops.ReadCounters(dest=state.places()[self.dest])

    def repeats(self) -> int:
        return self.count
