"""The state machines find what they are named for when it is planted, and say it in the words of DESIGN section 8 or of
their own model.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from brokerproof.conformance.machines.base import PromiseBroken, WorldMachine
from brokerproof.conformance.machines.delay import DelayMachine
from brokerproof.conformance.machines.expiry import ExpiryMachine
from brokerproof.conformance.machines.inflight import InFlightMachine

PLANTED: list[tuple[type[WorldMachine], str, str]] = [
    (InFlightMachine, "ledger-forgets-close", "INF-001"),
    (ExpiryMachine, "stamp-future-only-ignored", "TSP-003"),
    (DelayMachine, "delay-1ms-early", "DLY-001"),
]


@pytest.mark.parametrize(
    ("machine", "mutant", "promise"), PLANTED, ids=lambda value: getattr(value, "__name__", str(value))
)
def test_machine_finds_its_mutant(machine: type[WorldMachine], mutant: str, promise: str) -> None:
    sick = type(machine.__name__, (machine,), {"mutant": mutant})
    with pytest.raises(PromiseBroken, match=promise):
        run_state_machine_as_test(
            sick,
            settings=settings(
                max_examples=400,
                stateful_step_count=25,
                deadline=None,
                database=None,
                derandomize=True,
                phases=[Phase.generate],
                suppress_health_check=list(HealthCheck),
            ),
        )
