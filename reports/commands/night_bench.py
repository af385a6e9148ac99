"""One program at a time on real processes: seeing a failure again, and making its program small.

Rules
* What showed once is run until it has shown twice or the patience is over; how often it did is counted.
* A program is shrunk in virtual time where the reference broker, as the broker in question is, shows the same, and the
  small program shows it on the broker, too. Else on the broker, within a limit; each smaller program is kept at once.
"""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import msgspec

from brokerproof.conformance.brokers.base import Adapter
from brokerproof.conformance.brokers.chosen import hidden
from brokerproof.conformance.brokers.pacing import real_ms
from brokerproof.conformance.experiment.program import Program, ProgramError
from brokerproof.conformance.experiment.results import RunResult
from brokerproof.conformance.experiment.verdict import VerdictKind
from brokerproof.conformance.generate.shrink import Shrinker
from brokerproof.conformance.requirements.catalogue import default_catalogue
from brokerproof.conformance.running.engine import run_program
from brokerproof.conformance.running.live import AGAIN, SEEN_ONCE, run_live, violated
from brokerproof.conformance.running.shrinking import shrink_program, violates
from brokerproof.conformance.running.telling import play
from brokerproof.conformance.stories import Story, stories
from brokerproof.conformance.worlds.live.laboratory import Laboratory
from brokerproof.reports.store.journal import Journal, Unit
from brokerproof.reports.store.nights import PROGRAMS, Finding, State, keep_program, kept_program

#: Smaller programs that are tried on a real broker.
LIVE_BUDGET = 400


@dataclass(frozen=True)
class Tonight:
    """What all brokers of a night share: ``folder`` is where the state lies, ``spent_s`` says how much of the budget is
    spent, ``collect`` takes a run into the report and says whether it may be shown there, ``say`` tells the user.
    """

    folder: Path
    state: State
    journal: Journal
    wanted: tuple[str, ...]
    spent_s: Callable[[], float]
    collect: Callable[[RunResult], bool]
    say: Callable[[str], None]
    mutant: str | None = None
    jobs: int = 2
    #: Profile of the faults in the night's random chaos; None: there is none.
    chaos: str | None = None


def broker_key(text: str) -> str:
    """What a broker's failures are filed under: a profile's name, a URL without its passcode, a name."""
    return Path(text).stem if text.endswith(".toml") else hidden(text)


def story_name(story: Story, half: str) -> str:
    """The name of the run of one half."""
    return f"{story.name}-{half}"


def told_by(found: Finding) -> Story:
    """The story that is a failure. Raises ``ProgramError`` where it is none any more."""
    name = found.what.removeprefix("story ")
    if name not in stories():
        raise ProgramError(f"there is no story {name!r} any more")
    return stories()[name]


def findings_of(tonight: Tonight, key: str, result: RunResult) -> list[Finding]:
    """What a run shows of failures: each MUST that it violates, and what it did not show again."""
    catalogue, found = default_catalogue(), []
    for verdict in result.verdicts:
        doubted = verdict.verdict is VerdictKind.INCONCLUSIVE and verdict.text.startswith(SEEN_ONCE)
        if (verdict.verdict is VerdictKind.VIOLATED or doubted) and catalogue[verdict.requirement].level == "MUST":
            runs = AGAIN + 1 if doubted else 1
            one = Finding(key, verdict.requirement, 1, runs, result.broker, verdict.text, world=result.world)
            found.append(_shown_by(tonight.folder, one, result))
    return found


def _shown_by(folder: Path, found: Finding, result: RunResult, *, shrunk: bool = False) -> Finding:
    """The same, shown by this run."""
    program = result.program
    name = keep_program(folder, program)
    where = [] if result.world == "simulated" else [*result.chosen, "--tier", result.world]
    planted = [] if result.mutant is None else ["--mutant", result.mutant]
    replay = shlex.join(["brokerproof", "replay", str(folder / PROGRAMS / name), *where, *planted])
    text = next((one.text for one in result.verdicts if one.requirement == found.what), "") or found.text
    return msgspec.structs.replace(
        found, program=name, steps=len(program.steps), replay=replay, shrunk=shrunk, text=text, label=result.broker
    )


class Bench(contextlib.ExitStack):
    """A broker and a place to run programs on it, one at a time; a context manager."""

    def __init__(self, tonight: Tonight, key: str, adapter: Adapter) -> None:
        super().__init__()
        self.tonight = tonight
        self.key = key
        self.adapter = adapter

    def __enter__(self) -> Self:
        self._laboratory = self.enter_context(Laboratory())
        self.callback(self.adapter.close)
        return self

    def run(self, name: str, program: Program) -> RunResult:
        """One run on the broker."""
        tonight = self.tonight
        program = self.adapter.cast(program)
        return run_live(self.adapter, self._laboratory, program, name, wanted=tonight.wanted, mutant=tonight.mutant)

    def lasts_s(self, found: Finding) -> float:
        """How long it takes to run once what showed a failure, as far as its steps tell. Raises ``ProgramError``."""
        if found.program:
            programs = [kept_program(self.tonight.folder, found)]
        else:
            programs = [half.program for half in told_by(found).halves().values()]
        return sum(real_ms(program) for program in programs) / 1000

    def see(self, stage: str, name: str, group: list[Finding], times: int) -> None:
        """Run what showed a ``group`` of failures up to so many times, and write down how often each showed."""
        shows, ran, shown = dict.fromkeys((one.what for one in group), 0), 0, None
        while ran < times and min(shows.values()) < 2:
            what, result = self._once(group[0], f"{stage}-{name.removesuffix('.json').replace(' ', '-')}-{ran}")
            ran += 1
            if result is not None and (shown is None or what & shows.keys()):
                shown = result
            for one in shows:
                shows[one] += one in what
        journal = self.tonight.journal
        kept = [] if shown is None else [journal.keep(shown, history=self.tonight.collect(shown))]
        findings = [msgspec.structs.replace(one, shows=shows[one.what], of=ran) for one in group]
        journal.add(Unit(self.key, stage, name, self.tonight.spent_s(), ran, kept, findings))

    def _once(self, found: Finding, name: str) -> tuple[set[str], RunResult | None]:
        """What one more run shows, and the run; a story's are no runs of the report."""
        if not found.program:
            story = told_by(found)
            played = play(story, lambda plan: [self.run(half, program) for half, program in plan])
            return {found.what} if any(half.fails for half in played) else set(), None
        program = kept_program(self.tonight.folder, found)
        if found.world == "simulated":
            result = run_program(program, name, mutant=self.tonight.mutant)
        else:
            result = self.run(name, program)
        return violated(result), result

    def shrink(self, found: Finding, others: list[Finding], seconds: float) -> set[str]:
        """Make the program of a failure small, within so many seconds; all failures that the small one shows."""
        program = kept_program(self.tonight.folder, found)
        end_s = self.tonight.spent_s() + seconds
        small = self._virtually(program, found, seconds) or self._live(program, found, end_s)
        findings = []
        if small is not None:
            same = violated(small)
            findings = [
                _shown_by(self.tonight.folder, one, small, shrunk=True)
                for one in others
                if one.what in same and one.world == small.world
            ]
        self._write_down(found.what, findings)
        return {found.what, *(one.what for one in findings)}

    def _write_down(self, name: str, findings: list[Finding]) -> None:
        once = [msgspec.structs.replace(one, shows=1, of=1) for one in findings]
        self.tonight.journal.add(Unit(self.key, "shrink", name, self.tonight.spent_s(), 1, [], once))

    def _virtually(self, program: Program, found: Finding, seconds: float) -> RunResult | None:
        """The smallest in virtual time, if there is one and the broker shows it, too."""
        mutant = self.tonight.mutant

        def fails(one: Program) -> bool:
            on = one if found.world == "simulated" else self.adapter.effective(one)
            return violates(on, found.what, mutant)

        if not fails(program):
            return None
        small, _ = shrink_program(program, fails, seconds=seconds)
        if found.world == "simulated":
            return run_program(small, found.program, mutant=mutant)
        return self._shown(found, small)

    def _live(self, program: Program, found: Finding, end_s: float) -> RunResult | None:
        """The smallest that the broker itself shows."""
        best: list[RunResult] = []

        def fails(one: Program) -> bool:
            result = None if self.adapter.refusal(one) else self._shown(found, one)
            if result is not None and (not best or len(one.steps) < len(best[-1].program.steps)):
                best.append(result)
                smaller = _shown_by(self.tonight.folder, found, result)
                self._write_down(f"{found.what} {len(one.steps)}", [smaller])
            return result is not None

        if found.world == "simulated":
            return None
        with contextlib.suppress(ValueError):  # it does not show any more, or not each time
            Shrinker(program, fails, LIVE_BUDGET, lambda: self.tonight.spent_s() >= end_s).run()
        return best[-1] if best else None

    def _shown(self, found: Finding, program: Program) -> RunResult | None:
        result = self.run("candidate", program)
        return result if found.what in violated(result) else None
