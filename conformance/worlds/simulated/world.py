"""A world in virtual time, ready to be opened."""

from __future__ import annotations

from mypy_extensions import mypyc_attr

from brokerproof.conformance.worlds.executor import World
from brokerproof.conformance.worlds.simulated.port import KIND, SimulatedPort


@mypyc_attr(allow_interpreted_subclasses=True)
class SimulatedWorld(World):
    """The executor over a ``SimulatedPort``; ``mutant`` plants a defect in the broker."""

    kind = KIND

    def __init__(self, *, mutant: str | None = None, seed: int | None = None) -> None:
        self._simulated = SimulatedPort(mutant)
        super().__init__(self._simulated, seed=seed, mutant=mutant)

    def progress(self) -> int:
        """How much has happened: whoever finds the same twice found one piece of work that takes long."""
        return self._simulated.agenda.happened
