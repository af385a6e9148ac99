"""Guidance: programs drawn from those that met something new.

Decides which program a seed means after what was seen so far; nothing else enters, so rounds of the same size give the
same programs for any number of jobs, and on any number of machines: what is known is data (``Lesson``).

Rules:

* What a run *meets*: verdict and outcome, situations, marks, the magnitude of a small slack, each of one requirement.
* A program that is the first to meet something is a parent. The rarer that is, the more often it is taken.
* Many programs after the first round have parents: two are spliced, some steps, all from one on, or the frame are drawn
  again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from brokerproof.conformance.experiment.chooser import Chooser, SeededChooser
from brokerproof.conformance.experiment.program import Program
from brokerproof.conformance.experiment.steps import AnyStep
from brokerproof.conformance.experiment.verdict import Verdict
from brokerproof.conformance.generate.frame import draw_frame
from brokerproof.conformance.generate.programs import STEPS_MAX, draw_features, extended, generate_program, shape_of
from brokerproof.conformance.generate.sketch import Sketch

#: Programs drawn before anything is learned from them, at least; rounds at most: all who draw wait for each other.
ROUND: Final = 250
ROUNDS: Final = 40
#: Of 100 programs after the first round, how many have parents.
PERCENT: Final = 50
#: Parents that are compared for each choice; steps of one that are drawn again, at most.
CANDIDATES: Final = 4
AGAIN: Final = 4
#: A slack that is larger is not small, in nanoseconds.
SLACK_NS: Final = 100_000_000
_SLACK_UNIT_NS: Final = 1_000_000

#: Requirement, and what of it was met.
Met = tuple[str, str]


class Drawn(msgspec.Struct, frozen=True, omit_defaults=True):
    """A program, and the features that it or its parents were drawn with; ``parent``: the digest of the program that it
    was made from, "" if it is its seed's own.
    """

    program: Program
    features: tuple[str, ...]
    parent: str = ""

    @property
    def child(self) -> bool:
        """Whether it has parents."""
        return self.parent != ""


class Lesson(msgspec.Struct, frozen=True):
    """What was learned from consecutive runs: how many met what, and the programs that met something first."""

    runs: list[tuple[Met, int]]
    parents: list[tuple[Drawn, list[Met]]]


class Guidance:
    """What was met so far, and by which programs; ``before``: what was known already, and is not learned again."""

    def __init__(self, before: Guidance | None = None) -> None:
        self._before = before
        #: How many runs met it.
        self._runs: dict[Met, int] = {}
        #: Programs that met something first, with that.
        self._parents: list[tuple[Drawn, list[Met]]] = []

    def draw(self, seed: int) -> Drawn:
        """The program of a seed, by what is known now."""
        chooser = SeededChooser(seed)
        if not self._parents or not SeededChooser(-1 - seed).flag(PERCENT):
            return Drawn(generate_program(chooser), draw_features(SeededChooser(seed)))
        return self._child(chooser)

    def learn(self, drawn: Drawn, verdicts: Iterable[Verdict]) -> None:
        """What the run of a program met."""
        met = [one for verdict in verdicts for one in met_by(verdict)]
        new = [one for one in met if not self._knows(one)]
        for one in met:
            self._runs[one] = self._runs.get(one, 0) + 1
        if new:
            self._parents.append((drawn, new))

    def lesson(self) -> Lesson:
        """All that was learned since ``before``."""
        return Lesson(list(self._runs.items()), self._parents)

    def take(self, lesson: Lesson) -> None:
        """Learn what others have learned from the runs that come next."""
        for drawn, met in lesson.parents:
            new = [one for one in met if not self._knows(one)]
            if new:
                self._parents.append((drawn, new))
        for one, runs in lesson.runs:
            self._runs[one] = self._runs.get(one, 0) + runs

    def _knows(self, met: Met) -> bool:
        return met in self._runs or (self._before is not None and self._before._knows(met))

    def _child(self, chooser: Chooser) -> Drawn:
        parent, features = self._choose(chooser), draw_features(chooser)
        both = tuple(dict.fromkeys([*parent.features, *features]))
        how, frame, steps = chooser.below(4), parent.program, list(parent.program.steps)
        if how == 0:
            cut, other = chooser.below(len(steps) + 1), self._choose(chooser)
            both, more = (*parent.features, *other.features), other.program.steps
            steps = [*steps[:cut], *more[chooser.below(len(more) + 1) :]][:STEPS_MAX]
        elif how == 1:
            frame = draw_frame(chooser, both)
        elif how == 2 and steps:
            shape = shape_of(frame, both)
            for _ in range(1 + chooser.below(AGAIN)):
                place = chooser.below(len(steps))
                steps[place] = type(steps[place]).draw(chooser, shape)
        else:
            steps = steps[: chooser.below(len(steps) + 1)]
        sketch, fitted = Sketch(frame), list[AnyStep]()
        for step in steps:
            fitted += sketch.fitted(chooser, step)
        program = frame.with_steps(fitted)
        program = extended(chooser, program, both) if how == 3 else program
        return Drawn(program, tuple(dict.fromkeys(both)), parent.program.digest())

    def _choose(self, chooser: Chooser) -> Drawn:
        """Of a few parents the one that met the rarest."""
        found = [self._parents[chooser.below(len(self._parents))] for _ in range(CANDIDATES)]
        return min(found, key=lambda one: min(self._runs[met] for met in one[1]))[0]


def round_size(programs: int) -> int:
    """How many programs of so many are drawn before anything is learned from them."""
    return max(ROUND, -(-programs // ROUNDS))


def met_by(verdict: Verdict) -> list[Met]:
    """What a run met, as far as one verdict says; nothing of what was not exercised."""
    if not verdict.decided and not verdict.undecided:
        return []
    name = verdict.requirement
    found = [(name, f"{verdict.verdict} {verdict.outcome}")]
    found += [(name, situation) for situation in verdict.situations]
    found += [(name, f"mark {mark}") for mark in verdict.unknown]
    if verdict.slack_ns is not None and 0 <= verdict.slack_ns < SLACK_NS:
        found.append((name, f"slack {(verdict.slack_ns // _SLACK_UNIT_NS).bit_length()}"))
    return found
