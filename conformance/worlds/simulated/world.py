"""A world in virtual time, ready to be opened."""

from __future__ import annotations

from brokerproof.conformance.worlds.executor import World
from brokerproof.conformance.worlds.simulated.port import KIND, SimulatedPort


class SimulatedWorld(World):
    """The executor over a ``SimulatedPort``; ``mutant`` plants a defect in the broker."""

    kind = KIND

    def __init__(self, *, mutant: str | None = None, seed: int | None = None) -> None:
        super().__init__(SimulatedPort(mutant), seed=seed, mutant=mutant)
