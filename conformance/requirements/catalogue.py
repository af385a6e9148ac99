"""The catalogue of requirements: one TOML file per area, loaded and checked.

Rules:

* An id is ``AREA-nnn``; it is assigned once and never used again.
* ``status = "judged"`` needs a rule and at least one mutant that dies; ``planned`` promises nothing, for a ``reason``.
* Several outcomes may be acceptable, each with its grade: ``ok``, ``acceptable`` or ``violated``.
* Anything unknown is refused with the file and the field: a catalogue that silently ignores a typing error proves
  nothing.
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Iterable
from fnmatch import fnmatchcase
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

AREAS: dict[str, str] = {
    "EXP": "expiry",
    "TSP": "time-stamping",
    "INA": "inactivity",
    "MEM": "memory limits and cursors",
    "INF": "in-flight accounting",
    "PRE": "prefetch",
    "DLY": "delivery delay",
    "RDL": "redelivery and dead letters",
    "GEN": "order, loss, duplication, durability",
}
PROFILES = ("core", "jms", "stomp-1.2", "amqp-1.0", "mqtt-5", "activemq-classic", "ibm-mq")


class CatalogueError(ValueError):
    """A requirement file or a selection is unusable. The text shows the file, the value and the remedy."""

    exit_code = 2


class Source(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Where a requirement comes from: a seed's sentence (with the SHA-256 of its normalised text), a clause, or
    something observed.
    """

    seed: str | None = None
    sentence: int | None = None
    sha256: str | None = None
    clause: str | None = None
    observed: str | None = None


class Outcome(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One thing that can be observed, and how good it is."""

    name: str
    grade: Literal["ok", "acceptable", "violated"]


class Requirement(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One promise that a broker makes (contracts.md section 5)."""

    id: Annotated[str, msgspec.Meta(pattern=r"^[A-Z]{3}-[0-9]{3}$")]
    sentence: str
    level: Literal["MUST", "SHOULD", "MAY"]
    profiles: list[Literal["core", "jms", "stomp-1.2", "amqp-1.0", "mqtt-5", "activemq-classic", "ibm-mq"]]
    source: list[Source]
    status: Literal["planned", "judged"]
    #: Capabilities; one of several, with "or" between them, is enough.
    needs: list[str] = []
    outcomes: list[Outcome] = []
    situations: list[str] = []
    mutants: list[str] = []
    #: Generation -> verdict that a broker of that generation is expected to earn, where it is not "satisfied".
    expected: dict[str, str] = {}
    why: str = ""
    remedy: str = ""
    #: Of one that is not judged: why nobody can.
    reason: str = ""

    def expects_violation(self, generation: dict[str, str]) -> bool:
        """Whether a broker of these generations (area -> name) is known to violate it."""
        name = generation.get("timestamping" if self.area == "TSP" else "memory", "")
        return self.expected.get(name) == "violated"

    def lacking(self, capabilities: Collection[str]) -> list[str]:
        """What a broker with these capabilities does not offer of what it needs."""
        return [need for need in self.needs if not any(word in capabilities for word in need.split(" or "))]

    def words(self) -> set[str]:
        """The capabilities that it names."""
        return {word for need in self.needs for word in need.split(" or ")}

    @property
    def area(self) -> str:
        """The area's three letters."""
        return self.id[:3]

    def grade(self, outcome: str) -> str:
        """The grade of one of its outcomes; ``ok`` for "" or another."""
        for one in self.outcomes:
            if one.name == outcome:
                return one.grade
        return "ok"

    def outcome_of(self, grade: str) -> str:
        """Its first outcome of a grade; "" if there is none."""
        for one in self.outcomes:
            if one.grade == grade:
                return one.name
        return ""


class _File(msgspec.Struct, forbid_unknown_fields=True):
    requirement: list[Requirement]


class Catalogue:
    """All requirements, by id."""

    def __init__(self, requirements: Iterable[Requirement]) -> None:
        self._by_id: dict[str, Requirement] = {}
        for requirement in requirements:
            if requirement.id in self._by_id:
                raise CatalogueError(f"requirement {requirement.id} is defined twice; ids are assigned once")
            self._by_id[requirement.id] = requirement

    def __iter__(self) -> Any:
        return iter(self._by_id.values())

    def __len__(self) -> int:
        return len(self._by_id)

    def __contains__(self, requirement: str) -> bool:
        return requirement in self._by_id

    def __getitem__(self, requirement: str) -> Requirement:
        try:
            return self._by_id[requirement]
        except KeyError:
            raise CatalogueError(
                f"requirement {requirement!r} is unknown; `brokerproof list` shows all of them"
            ) from None

    def judged(self) -> list[Requirement]:
        """Those that a rule judges."""
        return [requirement for requirement in self._by_id.values() if requirement.status == "judged"]

    def select(self, pattern: str | None) -> list[str]:
        """Ids of judged requirements that match a glob, or one of several (``EXP-*,TSP-001``); all when None. Raises
        ``CatalogueError`` for a glob that nothing matches.
        """
        ids = [requirement.id for requirement in self.judged()]
        if pattern is None:
            return ids
        globs = [glob.strip() for glob in pattern.split(",")]
        for glob in globs:
            if not any(fnmatchcase(name, glob.upper()) for name in ids):
                raise CatalogueError(
                    f"no judged requirement matches {glob!r}; ids look like EXP-001, `brokerproof list` shows them"
                )
        return [name for name in ids if any(fnmatchcase(name, glob.upper()) for glob in globs)]


def parse_requirements(data: bytes, name: str) -> list[Requirement]:
    """Parse one TOML file. Raises ``CatalogueError``."""
    try:
        table = tomllib.loads(data.decode("utf-8"))
        requirements = msgspec.convert(table, _File).requirement
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, msgspec.ValidationError) as error:
        raise CatalogueError(f"{name}: not a requirement file: {error}") from None
    for requirement in requirements:
        _check(requirement, name)
    return requirements


def _check(requirement: Requirement, name: str) -> None:
    if requirement.area not in AREAS:
        raise CatalogueError(f"{name}: {requirement.id} is in no known area; areas are {', '.join(AREAS)}")
    if requirement.status == "judged" and not (requirement.outcomes and requirement.mutants):
        raise CatalogueError(f"{name}: {requirement.id} is judged, so it needs outcomes and mutants")
    if requirement.status == "judged" and requirement.reason:
        raise CatalogueError(f"{name}: {requirement.id} is judged, so it has no reason not to be")
    if not requirement.source:
        raise CatalogueError(
            f"{name}: {requirement.id} has no source; name a seed's sentence, a clause or an observation"
        )


def load_catalogue(folder: Path) -> Catalogue:
    """Load all ``*.toml`` of a folder, in the order of their names."""
    found: list[Requirement] = []
    for path in sorted(folder.glob("*.toml")):
        found += parse_requirements(path.read_bytes(), path.name)
    return Catalogue(found)


@cache
def default_catalogue() -> Catalogue:
    """The catalogue that this distribution ships."""
    return load_catalogue(Path(str(resources.files(__package__))))
