"""What a suite produces: a stream of events with writers as consumers.

Rules:

* A producer (the suite, a campaign, the pytest plugin) emits ``SuiteStarted``, then ``RunFinished`` per run, then
  ``SuiteFinished``. It knows no format.
* A writer (terminal table, JSON, HTML, JUnit, Parquet) implements ``Writer.handle`` and keeps what it needs.
* ``verdict_digest`` depends on nothing but programs and verdicts: not on time, order, job count or machine.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable

import msgspec

from brokerproof.conformance.experiment.history import History
from brokerproof.conformance.experiment.program import Program
from brokerproof.conformance.experiment.verdict import Verdict

#: The column of the embedded reference broker.
REFERENCE = "reference"
#: How the column of a broker ends whose hosts were all played by our OpenWire client (``adapters/through.py``).
THROUGH_OPENWIRE = " openwire"


class Silence(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A requirement that the reference broker's runs of the same programs speak of, and this broker's do not: the first
    ``run`` that should have, and the first answer that differed in it, ``expected`` (the reference broker's) and
    ``found``.
    """

    requirement: str
    run: str
    expected: str
    found: str


class RunResult(msgspec.Struct, eq=False):
    """One program on one broker in one world, judged.

    ``broker`` is the column of the matrix (``reference``, ``activemq 5.17.2``); ``name`` is the corpus name or
    ``seed-N``. ``problem`` is not empty when the suite or its environment failed (exit code 4); ``not_run`` when a tool
    or broker is missing. Then ``history`` may be None and ``verdicts`` hold *not run*. ``lost``: requirement that only
    the reference broker's run of the program speaks of -> the first answer that differed, its and this one's.
    ``chosen``: the options of ``replay`` that choose this broker. ``parent``: digest of the program from which this one
    was made; None: it was drawn or written.
    """

    name: str
    broker: str
    world: str
    program: Program
    verdicts: list[Verdict]
    history: History | None
    seed: int | None = None
    mutant: str | None = None
    seconds: float = 0.0
    problem: str = ""
    not_run: str = ""
    chosen: tuple[str, ...] = ()
    lost: dict[str, tuple[str, str]] = {}
    parent: str | None = None

    @property
    def run(self) -> str:
        """A name that is unique per broker, world and program."""
        return f"{self.broker}/{self.world}/{self.name}"


class SuiteEvent(msgspec.Struct, eq=False):
    """Base of what writers see."""


class SuiteStarted(SuiteEvent):
    """The plan: ``brokers`` are the columns, ``requirements`` the wanted ids, ``total`` the number of runs (0: a budget
    ends them, and ``first`` are those that come before it begins), ``about`` what reports say of it, name -> words.
    """

    brokers: list[str]
    requirements: list[str]
    total: int
    about: dict[str, str] = {}
    first: int = 0


class RunFinished(SuiteEvent):
    """One run is judged."""

    result: RunResult


class SuiteFinished(SuiteEvent):
    """Nothing more comes. ``digest`` is the verdict digest, ``seconds`` the wall time, ``silent`` what fell silent."""

    digest: str
    seconds: float
    silent: list[Silence] = []


class Writer(ABC):
    """A consumer of the stream."""

    @abstractmethod
    def handle(self, event: SuiteEvent) -> None:
        """Take notice of one event."""


def run_digest(run: str, program: str, verdicts: list[Verdict]) -> str:
    """Hexadecimal SHA-256 of one run: its name, its program's digest and its verdicts, sorted by requirement.

    Only requirement, verdict, outcome and grade of each verdict count: texts and slacks of live runs hold measured
    times.
    """
    rows = [[v.requirement, v.verdict.value, v.outcome, v.grade] for v in sorted(verdicts, key=lambda v: v.requirement)]
    return hashlib.sha256(msgspec.json.encode([run, program, rows])).hexdigest()


class DigestSum:
    """Digests of runs, combined: their sum, which neither order nor who added them changes. Executors hand over the
    ``part`` of their own runs; parts are added to the whole.
    """

    def __init__(self) -> None:
        self.runs = 0
        self._sum = 0

    def add(self, digest: str, runs: int = 1) -> None:
        """A digest of a run, or a part of several ``runs``: both 64 hexadecimal digits."""
        self.runs += runs
        self._sum = (self._sum + int(digest, 16)) % (1 << 256)

    @property
    def part(self) -> str:
        """What another sum takes, together with the number of runs."""
        return f"{self._sum:064x}"

    def whole(self) -> str:
        """``sha256:`` of all runs."""
        return "sha256:" + hashlib.sha256(f"{self.runs}:{self.part}".encode()).hexdigest()


def combined_digest(digests: Iterable[str]) -> str:
    """``sha256:`` over the digests of runs: neither the order of the runs nor who made them matters."""
    combined = DigestSum()
    for digest in digests:
        combined.add(digest)
    return combined.whole()


def verdict_digest(rows: Iterable[tuple[str, str, list[Verdict]]]) -> str:
    """The verdict digest of many runs, each given as (run name, program digest, verdicts)."""
    return combined_digest(run_digest(run, program, verdicts) for run, program, verdicts in rows)
