"""What somebody's own tests import (docs/pytest.md): the mark ``requirement``, the frame of an ``experiment``, a base
class for Hypothesis machines.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis.stateful import RuleBasedStateMachine

from brokerproof.conformance.experiment.program import Program
from brokerproof.conformance.experiment.results import REFERENCE
from brokerproof.conformance.requirements.catalogue import default_catalogue
from brokerproof.conformance.running.items import OUT
from brokerproof.conformance.running.opening import opened
from brokerproof.conformance.running.under_test import BrokerUnderTest, conclude, experiment
from brokerproof.conformance.worlds.live.laboratory import Laboratory

__all__ = ["BrokerMachine", "brokerproof_machine", "experiment", "requirement"]

requirement = pytest.mark.requirement


@cache
def _laboratory() -> Laboratory:
    """One for all machines of this process; its supervisor stops everything when the process ends."""
    return Laboratory()


class BrokerMachine(RuleBasedStateMachine):
    """One run: ``self.broker`` is the broker under test. When the run ends, the judge looks at the whole of it."""

    broker: BrokerUnderTest
    under_test: ClassVar[str]
    mutant: ClassVar[str | None]
    tier: ClassVar[str]
    program: ClassVar[Program]
    wanted: ClassVar[tuple[str, ...]]

    def __init__(self) -> None:
        super().__init__()
        self._stack = ExitStack()
        self.broker = self._stack.enter_context(
            opened(self.under_test, self.tier, self.program, _laboratory, mutant=self.mutant)
        )

    def teardown(self) -> None:
        """Heal, drain, judge. Raises ``RequirementFailure``."""
        with self._stack:
            conclude(self.broker.judge(type(self).__name__, self.wanted), self.wanted, Path(OUT))


def brokerproof_machine(
    broker: str = REFERENCE,
    *,
    tier: str | None = None,
    program: Program | None = None,
    requirements: Sequence[str] | None = None,
    mutant: str | None = None,
) -> type[BrokerMachine]:
    """A base class for a machine: subclass it, write rules that use ``self.broker``, and let pytest collect its
    ``TestCase``.

    ``broker``: a name, a profile or a URL. ``tier``: ``simulated`` (the embedded broker only, and its default) or
    ``live``. ``program``: hosts and destinations (``experiment``). ``requirements``: ids or globs; default all. Raises
    ``CatalogueError`` for one that matches nothing.
    """
    catalogue = default_catalogue()
    patterns: Sequence[str | None] = [None] if requirements is None else requirements
    wanted = tuple(dict.fromkeys(name for pattern in patterns for name in catalogue.select(pattern)))
    body = {
        "under_test": broker,
        "tier": tier or ("simulated" if broker == REFERENCE else "live"),
        "program": program or experiment(),
        "wanted": wanted,
        "mutant": mutant,
    }
    return type("OwnMachine", (BrokerMachine,), body)
