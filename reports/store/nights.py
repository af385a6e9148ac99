"""What ``brokerproof nightly`` keeps from one night to the next: ``DIR/state.json`` and the programs beside it.

Rules
* A failure is a MUST that a broker violates, or a story that it tells otherwise than documented: one, whatever shows
  it. It keeps the smallest program that does.
* It is *new* in the night that is the first to be certain of it, or the first since it was gone. What no run showed any
  more, in a night that tried, is *gone*, and forgotten ``FORGOTTEN_AFTER`` nights later.
* What shows in some runs only is *flaky*; seen only once, it is nobody's fault for certain.
* Every night has seeds of its own, by its date, so that a lost state repeats none.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import date
from pathlib import Path
from typing import Literal

import msgspec

from brokerproof.conformance.experiment.program import Program, read_program
from brokerproof.reports.store.schema import ReportError

FORMAT = "brokerproof/nights/1"
FILE = "state.json"
PROGRAMS = "programs"
#: Seeds of one night.
BLOCK = 1_000_000
NIGHTS_MAX = 100
FORGOTTEN_AFTER = 30
Status = Literal["new", "open", "flaky", "gone"]


def first_seed(day: date) -> int:
    """The first seed of a date's block."""
    return day.toordinal() * BLOCK


class Finding(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What one night saw of a failure: ``what`` (a requirement's id, or ``story NAME``) of a ``broker``, as it was
    given on the command line, showed in ``shows`` of ``of`` runs of ``program`` (a file below ``PROGRAMS``, "" of a
    story). ``label``: the broker with its version.
    """

    broker: str
    what: str
    shows: int
    of: int
    label: str = ""
    text: str = ""
    program: str = ""
    steps: int = 0
    world: str = "live"
    replay: str = ""
    shrunk: bool = False

    @property
    def key(self) -> tuple[str, str]:
        """Which failure it is."""
        return self.broker, self.what

    @property
    def is_certain(self) -> bool:
        """Whether it was seen as often as it takes to blame somebody: on real processes twice."""
        return self.shows >= (1 if self.world == "simulated" else 2)


class Failure(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A failure over the nights, each named by its start (``2026-11-23T02:00:05Z``). ``since``: the night that was
    certain of it, "" if none was since it was gone.
    """

    found: Finding
    first: str
    since: str
    last: str
    nights: int

    def status(self, night: str) -> Status:
        """In one word, as seen in this night."""
        if not self.found.shows:
            return "gone"
        if self.since == night:
            return "new"
        return "open" if self.since and self.found.shows == self.found.of else "flaky"


class Night(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One night that ended: the first of its seeds, what it ran (``activemq corpus`` -> programs), its seconds."""

    id: str
    seed: int
    programs: dict[str, int]
    seconds: float


class State(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Everything that is kept."""

    format: str = FORMAT
    nights: list[Night] = []
    failures: list[Failure] = []

    def seed_of(self, day: date) -> int:
        """The first seed of a night that starts on this day; a later night of the same day has the next block."""
        return max([first_seed(day), *(night.seed + BLOCK for night in self.nights)])

    def of(self, broker: str) -> list[Failure]:
        """What this broker is known for, what was seen last first."""
        return sorted((one for one in self.failures if one.found.broker == broker), key=lambda one: one.last)[::-1]


class _Versioned(msgspec.Struct):
    """What a state of any version has."""

    format: str


def after(state: State, night: Night, findings: Iterable[Finding]) -> State:
    """The state when a night has ended. Later findings of a failure count beside earlier ones."""
    table = {failure.found.key: failure for failure in state.failures}
    for found in joined(findings):
        old = table.get(found.key)
        if found.shows:
            since = (old.since if old is not None else "") or (night.id if found.is_certain else "")
            seen = 1 if old is None else old.nights + 1
            table[found.key] = Failure(found, night.id if old is None else old.first, since, night.id, seen)
        elif old is not None:
            counted = msgspec.structs.replace(old.found, shows=0, of=found.of)
            table[found.key] = msgspec.structs.replace(old, found=counted, since="")
    nights = [*state.nights, night][-NIGHTS_MAX:]
    recent = {one.id for one in nights[-FORGOTTEN_AFTER:]}
    kept = [table[key] for key in sorted(table) if table[key].found.shows or table[key].last in recent]
    return State(FORMAT, nights, kept)


def joined(findings: Iterable[Finding]) -> list[Finding]:
    """One finding per failure: runs added up, the program that was shrunk, else the shortest."""
    table: dict[tuple[str, str], Finding] = {}
    for found in findings:
        old = table.setdefault(found.key, found)
        if old is not found:
            showing = [one for one in (old, found) if one.shows]
            best = min(showing, key=lambda one: (not one.shrunk, one.steps), default=found)
            shows, of = old.shows + found.shows, old.of + found.of
            table[found.key] = msgspec.structs.replace(best, shows=shows, of=of)
    return list(table.values())


def read_state(folder: Path) -> State:
    """The state in a folder; an empty one where none is. Raises ``ReportError``."""
    path = folder / FILE
    if not path.exists():
        return State()
    try:
        data = path.read_bytes()
        found = msgspec.json.decode(data, type=_Versioned).format
        if found == FORMAT:
            return msgspec.json.decode(data, type=State)
    except (OSError, msgspec.DecodeError) as error:
        raise ReportError(
            f"{path}: not what `brokerproof nightly` keeps ({error}); remove it, or give another --state"
        ) from None
    raise ReportError(f"{path}: its format is {found!r}, not {FORMAT!r}; give another --state")


def write_state(folder: Path, state: State) -> None:
    """Replace the state in one step, then remove the programs that nothing names any more."""
    replace_file(folder / FILE, msgspec.json.format(msgspec.json.encode(state), indent=1) + b"\n")
    used = {failure.found.program for failure in state.failures}
    for path in (folder / PROGRAMS).glob("*.json"):
        if path.name not in used:
            path.unlink()


def keep_program(folder: Path, program: Program) -> str:
    """Write a program below ``PROGRAMS``; the name of its file."""
    (folder / PROGRAMS).mkdir(exist_ok=True)
    name = f"{program.digest()[7:19]}.json"
    replace_file(folder / PROGRAMS / name, msgspec.json.format(program.encode(), indent=1) + b"\n")
    return name


def kept_program(folder: Path, found: Finding) -> Program:
    """The program that shows a failure. Raises ``ProgramError``."""
    return read_program(folder / PROGRAMS / found.program)


def replace_file(path: Path, data: bytes) -> None:
    """Write a file such that whoever reads it, after whatever crash, sees the old one or the new one."""
    hidden = path.with_name(f".{path.name}.new")
    with hidden.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    hidden.replace(path)
