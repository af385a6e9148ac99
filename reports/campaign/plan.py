"""The plan of a campaign: how seeds become parts, which parts are still to be run, and when the whole is there.

Rules:

* A part is a range of seeds that takes an executor some seconds: many enough that Spark's own cost is small, few enough
  that what a killed campaign was doing is redone within a minute (``PART_MAX``).
* Parts follow from the plan alone, so whoever resumes it cuts it alike.
* A guided campaign has rounds, which follow from the number of programs alone; each is cut into as many parts. So its
  programs depend on nothing but seed and size either.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from brokerproof.conformance.experiment.exits import SuiteProblem
from brokerproof.conformance.experiment.results import DigestSum
from brokerproof.conformance.generate.guidance import round_size
from brokerproof.reports.store.manifests import Manifest

#: Programs that take an executor a few seconds; fewer per part would be mostly Spark's own cost.
PART_MIN, PART_MAX = 250, 1000
#: Parts per slot, where there are programs enough: the last ones to end wait for each other.
PARTS_PER_SLOT = 4


class Plan(msgspec.Struct, frozen=True):
    """A campaign as plain data: it travels to the executors. ``keep``: whose histories are kept; ``guided``: programs
    are drawn from those that met something new in earlier rounds.
    """

    store: str
    campaign: str
    seed: int
    programs: int
    parts: int
    mutant: str | None = None
    keep: str = "sample"
    guided: bool = False

    @property
    def rounds(self) -> int:
        """How many rounds there are: one unless the campaign is guided."""
        return rounds_of(self.programs) if self.guided else 1

    def seeds(self, part: int) -> range:
        """The seeds of a part: consecutive, and all parts of a round within one seed of the same size."""
        rounds = self.rounds
        parts, size = self.parts // rounds, round_size(self.programs) if rounds > 1 else self.programs
        begin = self.round_of(part) * size
        count, place = min(size, self.programs - begin), part % parts
        begin += self.seed
        return range(begin + count * place // parts, begin + count * (place + 1) // parts)

    def round_of(self, part: int) -> int:
        """The round in which a part is run."""
        return part * self.rounds // self.parts

    def round_at(self, seed: int) -> int:
        """The round in which a seed is run."""
        return (seed - self.seed) // round_size(self.programs) if self.guided else 0


def part_name(part: int) -> str:
    """The part as manifests name it."""
    return f"part-{part:06d}"


def rounds_of(programs: int) -> int:
    """How many rounds guided programs have."""
    return -(-programs // round_size(programs))


def guided_parts_for(programs: int, slots: int) -> int:
    """Number of parts of a guided campaign: in each round as many."""
    return rounds_of(programs) * parts_for(min(programs, round_size(programs)), slots)


def parts_for(programs: int, slots: int) -> int:
    """Number of parts: ``PARTS_PER_SLOT`` per slot, but none smaller than ``PART_MIN`` unless a slot would be idle,
    none larger than ``PART_MAX``, none empty.
    """
    wanted = min(slots * PARTS_PER_SLOT, programs // PART_MIN)
    return min(programs, max(wanted, slots, -(-programs // PART_MAX)))


def missing(plan: Plan, manifests: Iterable[Manifest]) -> list[int]:
    """The parts that nobody has made yet."""
    made = {manifest.part for manifest in manifests}
    return [part for part in range(plan.parts) if part_name(part) not in made]


def digest_of(plan: Plan, manifests: Sequence[Manifest]) -> str:
    """The verdict digest of a campaign. Raises ``SuiteProblem`` unless every seed of the plan is in one part."""
    made = {manifest.part: manifest for manifest in manifests}
    combined = DigestSum()
    for part in range(plan.parts):
        manifest, seeds = made.get(part_name(part)), plan.seeds(part)
        found = (manifest.first, manifest.runs) if manifest is not None else None
        if manifest is None or found != (seeds.start, len(seeds)):
            raise SuiteProblem(
                f"campaign {plan.campaign}: {part_name(part)} has (first seed, runs) {found}, the plan has "
                f"{(seeds.start, len(seeds))}; resume it (--resume {plan.campaign})"
            )
        combined.add(manifest.digest, manifest.digested)
    return combined.whole()


def check_seeds(plan: Plan, columns: Iterable[dict[str, Any]]) -> None:
    """What the tables say of themselves: each seed of the plan once. Raises ``SuiteProblem``."""
    rows = list(columns)
    runs, seeds = (sum(int(row[name]) for row in rows) for name in ("runs", "seeds"))
    if (runs, seeds) != (plan.programs, plan.programs):
        raise SuiteProblem(
            f"campaign {plan.campaign}: the tables hold {runs} runs of {seeds} seeds, the plan has {plan.programs}; "
            f"no digest can be given; files of {plan.store} were lost or changed"
        )
