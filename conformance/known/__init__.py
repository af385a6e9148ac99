"""Known deviations: what a release is known to do against a requirement, with the reason and the source.

Rules
* A deviation is listed per release in ``<broker>-<release>.toml`` and names the corpus programs in which it shows.
* In any run of that broker a violated requirement that is listed becomes *known failure*: it does not turn the run red.
* An entry with ``needs`` excuses only programs that have all of it: a loss on unsubscribing hides no other loss.
* It *must still fail*: when a named program satisfies the requirement, the entry is stale and the run says so. So a
  list can only shrink by being looked at.
* What shows in some runs only says so (``sometimes``). It is never stale, and excuses nothing but the programs that it
  names: what nobody can make fail on purpose must not hide anything else.
* What only brokerproof's own OpenWire client can show says so (``client``), and must fail where that client plays; the
  rest must fail where it does not, because over another protocol a broker may behave otherwise. Both excuse both.
* The most exact file counts: ``activemq-5.17.2.toml`` before ``activemq-5.17.toml`` before ``activemq-5.toml``.
"""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Literal

import msgspec

from brokerproof.conformance.experiment.configuration import BrokerSpec, HostSpec, LinkSpec
from brokerproof.conformance.experiment.exits import SuiteProblem
from brokerproof.conformance.experiment.program import Program
from brokerproof.conformance.experiment.steps import REGISTRY
from brokerproof.conformance.experiment.verdict import Verdict, VerdictKind

#: What an entry may need: a step by its word, or a part of the set-up.
_KINDS: dict[str, type[msgspec.Struct]] = {
    "broker": BrokerSpec,
    "host": HostSpec,
    "link": LinkSpec,
    **{str(step.__struct_config__.tag): step for step in REGISTRY},
}


class Deviation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One entry. ``programs``: corpus programs in which it must show, or in which it was seen if it shows ``sometimes``
    only; ``needs``: what a program must have to show it, each ``STEP``, ``STEP FIELD`` (that is set) or
    ``STEP FIELD=VALUE``, with ``broker``, ``host`` and ``link`` beside the steps; ``source``: where it can be looked
    up; ``client``: the client that shows it, "" for a program's own; ``whose``: what would have to change.
    """

    requirement: str
    programs: list[str]
    reason: str
    source: str
    needs: list[str] = []
    sometimes: bool = False
    client: Literal["", "openwire"] = ""
    whose: Literal["broker", "client", "documentation"] = "broker"

    def __post_init__(self) -> None:
        for need in self.needs:
            kind, _, field = need.partition(" ")
            if kind not in _KINDS or (field and field.partition("=")[0] not in _KINDS[kind].__struct_fields__):
                raise ValueError(
                    f"needs: {need!r} names no step or part of a program, or no field of it (docs/program.md)"
                )

    def excuses(self, name: str, program: Program) -> bool:
        """Whether a violation in that program may be this one."""
        return (not self.sometimes or name in self.programs) and all(_has(program, need) for need in self.needs)


class _File(msgspec.Struct, forbid_unknown_fields=True):
    deviation: list[Deviation]


def _has(program: Program, need: str) -> bool:
    kind, _, field = need.partition(" ")
    field, _, value = field.partition("=")
    parts = (program.broker, *program.hosts, *program.links, *program.each_step())
    rows = [part for part in parts if type(part) is _KINDS[kind]]
    if value:
        return any(str(getattr(row, field)) == value for row in rows)
    return any(not field or field in msgspec.to_builtins(row) for row in rows)


class Known:
    """The deviations of one release; ``name`` is the file's. ``client``: who plays the hosts, as in an entry."""

    def __init__(self, name: str, deviations: list[Deviation], *, client: Literal["", "openwire"] = "") -> None:
        self.name = name
        self.client = client
        self.by_requirement: dict[str, Deviation] = {}
        for deviation in deviations:
            if deviation.requirement in self.by_requirement:
                raise SuiteProblem(f"{name}: {deviation.requirement} is listed twice; put its programs into one entry")
            self.by_requirement[deviation.requirement] = deviation

    def through_openwire(self) -> Known:
        """The same, where every host is played by our own OpenWire client."""
        return Known(self.name, list(self.by_requirement.values()), client="openwire")

    def is_certain(self, deviation: Deviation) -> bool:
        """Whether an entry always shows where this client plays."""
        return deviation.client == self.client and not deviation.sometimes

    def certain(self) -> list[Deviation]:
        """Those entries."""
        return [one for one in self.by_requirement.values() if self.is_certain(one)]


def load_known(broker: str, folder: Path | None = None) -> Known:
    """The list of a broker by its label (``activemq 5.17.2``); empty if there is none. Raises ``SuiteProblem``."""
    return _load(broker, folder if folder is not None else Path(str(resources.files(__package__))))


@cache
def _load(broker: str, folder: Path) -> Known:
    wanted = broker.replace(" ", "-")
    fitting = [path for path in folder.glob("*.toml") if wanted == path.stem or wanted.startswith(f"{path.stem}.")]
    if not fitting:
        return Known("", [])
    path = max(fitting, key=lambda found: len(found.stem))
    return parse_known(path.read_bytes(), path.name)


def parse_known(data: bytes, name: str) -> Known:
    """Parse one file. Raises ``SuiteProblem`` naming the file and the field."""
    try:
        return Known(name, msgspec.convert(tomllib.loads(data.decode("utf-8")), _File).deviation)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, msgspec.ValidationError) as error:
        raise SuiteProblem(f"{name}: not a list of known deviations: {error}") from None


def apply_known(name: str, program: Program, verdicts: list[Verdict], known: Known) -> tuple[list[Verdict], list[str]]:
    """Mark what is known; the verdicts, and a sentence for each entry that should have failed in the program of that
    name and did not.
    """
    marked = []
    stale = []
    for verdict in verdicts:
        deviation = known.by_requirement.get(verdict.requirement)
        if deviation is None:
            marked.append(verdict)
        elif verdict.verdict is VerdictKind.VIOLATED and deviation.excuses(name, program):
            text = f"{verdict.text} (known: {deviation.reason})"
            marked.append(msgspec.structs.replace(verdict, verdict=VerdictKind.KNOWN_FAILURE, text=text))
        else:
            marked.append(verdict)
            must_fail = name in deviation.programs and known.is_certain(deviation)
            if must_fail and verdict.verdict is VerdictKind.SATISFIED:
                stale.append(
                    f"{known.name}: {verdict.requirement} is listed as a known deviation but holds in {name}; "
                    "remove the entry or its program"
                )
    return marked, stale
