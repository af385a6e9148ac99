"""What every reproducer says of itself: the requirement, the broker, its configuration."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import msgspec

from brokerproof.conformance.experiment.exits import UsageError
from brokerproof.conformance.experiment.verdict import VerdictKind
from brokerproof.conformance.export.expectations import Expectation, expectations
from brokerproof.conformance.export.script import Script
from brokerproof.conformance.export.target import Target
from brokerproof.conformance.requirements.catalogue import default_catalogue
from brokerproof.conformance.running.engine import run_program

if TYPE_CHECKING:
    from collections.abc import Sequence


class Told(msgspec.Struct, frozen=True):
    """``expected``: requirement -> what is asserted of it."""

    target: Target
    expected: dict[str, list[Expectation]]

    def lines(self) -> list[str]:
        """The requirements, and what is known of this broker."""
        catalogue, known = default_catalogue(), self.target.known()
        lines: list[str] = []
        for name in self.expected:
            lines += textwrap.wrap(f"{name}: {catalogue[name].sentence}", 110)
            for one in known.of(name):
                lines += textwrap.wrap(f"Seen on {self.target.label}: {one.reason}.", 110)
        return lines

    def configuration(self, script: Script) -> str:
        """How the broker must be configured."""
        return f"Configuration of {self.target.label}:\n\n{self.target.configuration(script.program)}"


def told(script: Script, target: Target, requirements: Sequence[str]) -> Told:
    """What a script shows of these requirements. Raises ``UsageError`` for one that it does not exercise, or that
    clients cannot see.
    """
    run = run_program(script.program, script.name, wanted=requirements)
    exercised = {one.requirement for one in run.verdicts if one.verdict is VerdictKind.SATISFIED}
    for name in requirements:
        if name not in exercised:
            raise UsageError(f"{script.name} does not exercise {name}: a broker that keeps it would show nothing")
    return Told(target, {name: expectations(script, name) for name in requirements})
