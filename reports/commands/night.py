"""One broker's part of a night: its stages, in units of work that a kill does not undo.

Rules
* ``again`` (what earlier nights found), ``stories``, ``corpus``, ``random`` live programs, ``chaos`` (the same with
  faults), ``simulated`` ones (of the reference broker only: nobody else runs in virtual time), ``confirm`` and
  ``shrink`` what is new. Each has a share of the time that is left when it begins; what it leaves goes to the next.
  What would end later is not begun.
* Where a stage did not come to its end, the next night begins there.
* A broker that cannot be tested is said, and the next one is tested.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Iterator
from itertools import groupby
from typing import Any, Final

from brokerproof.conformance.brokers import make_adapter
from brokerproof.conformance.brokers.base import Adapter
from brokerproof.conformance.brokers.pacing import real_ms
from brokerproof.conformance.experiment.program import Program, ProgramError
from brokerproof.conformance.experiment.results import REFERENCE, RunResult
from brokerproof.conformance.running.allowance import Allowance
from brokerproof.conformance.running.live import (
    AGAIN,
    UNTESTABLE,
    plan_of,
    random_plan,
    refused_by,
    refused_run,
    run_all,
    violated,
)
from brokerproof.conformance.running.options import SuiteOptions
from brokerproof.conformance.running.pool import run_seeds
from brokerproof.conformance.running.silence import lost_voice
from brokerproof.conformance.running.telling import Played, is_documented, play, unshown
from brokerproof.conformance.stories import Story, stories
from brokerproof.reports.commands.night_bench import Bench, Tonight, broker_key, findings_of, story_name
from brokerproof.reports.store.journal import Unit
from brokerproof.reports.store.nights import BLOCK, Finding, joined

#: Stage -> the share that it may take of the time that a broker has left when the stage begins.
SHARES: Final = {
    "again": 0.2,
    "stories": 0.2,
    "corpus": 0.4,
    "random": 0.4,
    "chaos": 0.4,
    "simulated": 0.4,
    "confirm": 1.0,
    "shrink": 1.0,
}
#: Seeds of the first unit in virtual time, and how long the others should take.
SEEDS = 50
UNIT_S = 15.0
#: Of the night's seeds the live programs have the first half.
HALF = BLOCK // 2
#: Seconds for one shrink, at most.
SHRINK_S = 600.0
#: Programs side by side per worker: most of their time is waiting.
LANES = 3
#: Seconds from one result to the next, before any is there.
FIRST_PACE_S = 2.0
#: So many runs without a history, one after the other, are the broker's end.
TROUBLES_MAX = 10
Entry = tuple[str, Program]


class BrokerNight:
    """One broker, by what ``--broker`` takes. ``missing``: why it, or the rest of it, could not be tested."""

    def __init__(self, tonight: Tonight, text: str) -> None:
        self.tonight = tonight
        self.text = text
        #: What failures are filed under, the same every night.
        self.key = broker_key(text)
        self.missing = ""
        self._halves: dict[str, RunResult] = {}
        #: Seconds from one result to the next, where programs run side by side.
        self._pace_s = FIRST_PACE_S

    def begun_s(self, stages: Collection[str] = SHARES) -> float:
        """What the night had spent when this broker's turn came, or the first of some stages', also where the night was
        cut short since then.
        """
        before = 0.0
        for unit in self.tonight.journal.units:
            if unit.broker == self.key and unit.stage in stages:
                return before
            before = unit.spent_s
        return self.tonight.spent_s()

    def run(self, end_s: float) -> None:
        """Run all stages until so much of the budget is spent. Raises ``UsageError`` for a broker that cannot exist."""
        tonight, names = self.tonight, list(SHARES)
        for number, (stage, share) in enumerate(SHARES.items()):
            before = self._count(stage)
            is_over = any(self._done(later) for later in names[number + 1 :])
            begun_s = self.begun_s([stage])
            try:
                getattr(self, f"_{stage}")(0.0 if is_over else begun_s + share * (end_s - begun_s))
            except UNTESTABLE as error:
                self.missing = str(error)
            if self._count(stage) and not is_over:
                more = f" ({before:,} of them before it was cut short)" if before else ""
                left_min = max(0.0, end_s - tonight.spent_s()) / 60
                tonight.say(f"{self.key}: {stage}: {self._count(stage):,} programs{more}; {left_min:.1f} min left")
            if self.missing:
                tonight.say(f"{self.key}: not tested further: {self.missing}")
                return

    def findings(self) -> list[Finding]:
        """What the night saw so far."""
        return [one for unit in self.tonight.journal.units if unit.broker == self.key for one in unit.findings]

    def told(self) -> list[tuple[Story, list[Played]]]:
        """The stories that were played."""
        return [(story, self._told(story)) for story in stories().values() if self._is_told(story)]

    def _again(self, end_s: float) -> None:
        done = {unit.name for unit in self._done("again")}
        waiting = [one.found for one in self.tonight.state.of(self.key) if one.found.what not in done]
        if waiting:
            with self._bench() as bench:
                for found in waiting:
                    try:
                        if self.tonight.spent_s() + bench.lasts_s(found) <= end_s:
                            bench.see("again", found.what, [found], AGAIN + 1)
                    except ProgramError as error:
                        self.tonight.say(f"{self.key}: {found.what} is not tried again: {error}")

    def _stories(self, end_s: float) -> None:
        adapter = self._adapter()
        if not is_documented(adapter):
            return
        for unit in self._done("stories"):
            self._halves[unit.name] = self.tonight.journal.result(unit.runs[0])
        shortest = sorted(
            stories().values(), key=lambda one: (sum(real_ms(half.program) for half in one.halves().values()), one.name)
        )
        plan = [
            (story_name(story, half), adapter.cast(told.program))
            for story in self._rotated(shortest, "stories", 2)
            if not unshown(story, adapter)
            for half, told in story.halves().items()
        ]
        self._play("stories", adapter, plan, end_s)

    def _corpus(self, end_s: float) -> None:
        adapter, wanted = self._adapter(), self.tonight.wanted
        for name, program, why in refused_by(adapter):
            self.tonight.collect(refused_run(adapter, name, program, why, wanted))
        self._play("corpus", adapter, self._rotated(plan_of(adapter), "corpus"), end_s)

    def _random(self, end_s: float, stage: str = "random", chaos: str | None = None) -> None:
        adapter = self._adapter()
        options = SuiteOptions(broker=self.text, live_programs=HALF, seed=self._seed(), chaos=chaos)
        self._play(stage, adapter, random_plan(adapter, options, Allowance()), end_s)

    def _chaos(self, end_s: float) -> None:
        if self.tonight.chaos is not None:
            self._random(end_s, "chaos", self.tonight.chaos)

    def _simulated(self, end_s: float) -> None:
        if self.text != REFERENCE:
            return
        tonight = self.tonight
        first, size = self._seed() + HALF + self._count("simulated"), SEEDS
        while (begun_s := tonight.spent_s()) < end_s:
            runs = run_seeds(first, size, tonight.jobs, tonight.mutant, tonight.wanted)
            self._add("simulated", str(first), size, [result for result in runs if violated(result)])
            first += size
            left_s = min(UNIT_S, end_s - tonight.spent_s())
            size = max(SEEDS, int(size * left_s / max(0.1, tonight.spent_s() - begun_s)))

    def _confirm(self, end_s: float) -> None:
        done = {unit.name for unit in self._done("confirm")}
        known = {one.found.what for one in self.tonight.state.of(self.key) if one.since}
        fresh = [one for one in joined(self.findings()) if one.shows and not one.is_certain and one.what not in known]
        groups = {name: list(group) for name, group in groupby(sorted(fresh, key=_shown_by), key=_shown_by)}
        if groups.keys() - done:
            with self._bench() as bench:
                for name, group in groups.items():
                    if self.tonight.spent_s() >= end_s:
                        return
                    if name not in done:
                        bench.see("confirm", name, group, AGAIN)

    def _shrink(self, end_s: float) -> None:
        known = {one.found.what: one.found for one in self.tonight.state.of(self.key) if one.since and one.found.shows}
        seen = {one.what: one for one in joined(self.findings()) if one.is_certain or one.what in known}
        tried = {unit.name for unit in self._done("shrink")}
        large = [one for one in {**known, **seen}.values() if one.program and one.shows and not one.shrunk]
        if any(one.what not in tried for one in large):
            with self._bench() as bench:
                for found in large:
                    left_s = end_s - self.tonight.spent_s()
                    if left_s <= 0:
                        return
                    if found.what not in tried:
                        tried |= bench.shrink(found, large, min(SHRINK_S, left_s))

    def _play(self, stage: str, adapter: Adapter, plan: Iterable[Entry], end_s: float) -> None:
        """Run what is not done yet and ends in time, as far as that can be told from the pace so far."""
        done, spent_s = {unit.name for unit in self._done(stage)}, self.tonight.spent_s
        begun_s, given, got, troubles = spent_s(), 0, 0, 0

        def fitting() -> Iterator[Entry]:
            nonlocal given
            for name, program in plan:
                waiting_s = (given - got) * self._pace_s
                if spent_s() + waiting_s >= end_s:
                    return
                if name not in done and spent_s() + max(waiting_s, real_ms(program) / 1000) <= end_s:
                    given += 1
                    yield name, program

        wanted, mutant = self.tonight.wanted, self.tonight.mutant
        adapter.workers = min(adapter.workers, LANES * self.tonight.jobs)
        known, drawn = ((), fitting()) if stage in {"random", "chaos"} else (fitting(), ())
        for result in run_all(adapter, known, wanted, mutant, drawn):
            self._add(stage, result.name, 1, [result])
            got += 1
            self._pace_s = (spent_s() - begun_s) / got
            troubles = troubles + 1 if result.history is None else 0
            why = result.problem or result.not_run
            if troubles >= TROUBLES_MAX and why:
                self.missing = f"{troubles} runs failed one after the other, the last one: {why}"
                return

    def _add(self, stage: str, name: str, programs: int, results: list[RunResult]) -> None:
        tonight, kept, findings = self.tonight, [], []
        for result in results:
            if stage == "stories":
                self._halves[name] = result
                kept.append(tonight.journal.keep(result, history=True))
                continue
            if result.world == "live" and (result.broker != REFERENCE or result.mutant is not None):
                result.lost = lost_voice(result)
            kept.append(tonight.journal.keep(result, history=tonight.collect(result)))
            findings += findings_of(self.tonight, self.key, result)
        if stage == "stories":
            findings = [one for story in stories().values() if name in _names(story) for one in self._broken(story)]
        tonight.journal.add(Unit(self.key, stage, name, tonight.spent_s(), programs, kept, findings))

    def _broken(self, story: Story) -> list[Finding]:
        """A story that was told to its end otherwise than documented."""
        if not self._is_told(story):
            return []
        played = self._told(story)
        wrong = [f"{half.half}: {one.what} {one.found}" for half in played for one in half.checks if one.holds is False]
        if not wrong:
            return []
        result, name = played[0].result, f"story {story.name}"
        planted = [] if result.mutant is None else ["--mutant", result.mutant]
        replay = shlex.join(["brokerproof", *name.split(), *result.chosen, "--tier", "live", *planted])
        steps = len(result.program.steps)
        return [Finding(self.key, name, 1, 1, result.broker, "; ".join(wrong), steps=steps, replay=replay)]

    def _is_told(self, story: Story) -> bool:
        return all(name in self._halves for name in _names(story))

    def _told(self, story: Story) -> list[Played]:
        return list(play(story, lambda plan: [self._halves[name] for name, _ in plan]))

    def _rotated(self, plan: list[Any], stage: str, units: int = 1) -> list[Any]:
        """A plan, from where the nights before ended; each entry is so many programs."""
        if not plan:
            return plan
        nights = self.tonight.state.nights
        start = sum(night.programs.get(f"{self.key} {stage}", 0) for night in nights) // units % len(plan)
        return plan[start:] + plan[:start]

    def _adapter(self) -> Adapter:
        return make_adapter(self.text, mutant=self.tonight.mutant)

    def _bench(self) -> Bench:
        return Bench(self.tonight, self.key, self._adapter())

    def _seed(self) -> int:
        opening = self.tonight.journal.opening
        assert opening is not None, "the night was opened"
        return opening.seed

    def _done(self, stage: str) -> list[Unit]:
        return list(self.tonight.journal.done(self.key, stage))

    def _count(self, stage: str) -> int:
        return sum(unit.programs for unit in self._done(stage))


def _names(story: Story) -> list[str]:
    return [story_name(story, half) for half in story.halves()]


def _shown_by(found: Finding) -> str:
    return found.program or found.what
