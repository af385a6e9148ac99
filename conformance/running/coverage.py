"""Coverage: which requirements, situations and features random programs met, and how often.

A requirement is met by a program in which at least one of its rows was decided; with all features of that program.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from brokerproof.conformance.experiment.chooser import SeededChooser
from brokerproof.conformance.experiment.results import RunResult
from brokerproof.conformance.generate.programs import draw_features
from brokerproof.conformance.requirements.catalogue import default_catalogue
from brokerproof.conformance.running.pool import Wanted, run_guided, run_seeds


class Requirement:
    """How many programs met a requirement, each of its situations (all of the catalogue's are there), each feature with
    it; and the first program that met each situation.
    """

    def __init__(self, name: str, situations: Iterable[str]) -> None:
        self.id = name
        self.programs = 0
        self.situations: dict[str, int] = dict.fromkeys(situations, 0)
        self.features: Counter[str] = Counter()
        self.first: dict[str, str] = {}


class Coverage:
    """What was met; see the module's header."""

    def __init__(self, wanted: Wanted) -> None:
        catalogue = default_catalogue()
        judged = [catalogue[name] for name in wanted if catalogue[name].status == "judged"]
        self.programs = 0
        self.features: Counter[str] = Counter()
        self.requirements = {one.id: Requirement(one.id, one.situations) for one in judged}

    def add(self, features: Iterable[str], result: RunResult) -> None:
        """One program more."""
        features = list(features)
        self.programs += 1
        self.features.update(features)
        for verdict in result.verdicts:
            row = self.requirements.get(verdict.requirement)
            if row is None or not verdict.decided:
                continue
            row.programs += 1
            row.features.update(features)
            for situation in verdict.situations:
                row.situations[situation] = row.situations.get(situation, 0) + 1
                row.first.setdefault(situation, result.name)

    def situations(self) -> list[tuple[int, Requirement, str]]:
        """How many programs met each situation, the rarest first."""
        found = [(n, row, name) for row in self.requirements.values() for name, n in row.situations.items()]
        return sorted(found, key=lambda one: (one[0], one[1].id, one[2]))


def programs_with_features(
    first: int, count: int, jobs: int, wanted: Wanted, *, guided: bool
) -> Iterator[tuple[tuple[str, ...], RunResult]]:
    """The runs of seeds, each with what its program was drawn with."""
    if guided:
        for drawn, result in run_guided(first, count, jobs, None, wanted):
            yield drawn.features, result
        return
    for seed, result in enumerate(run_seeds(first, count, jobs, None, wanted), start=first):
        yield draw_features(SeededChooser(seed)), result
