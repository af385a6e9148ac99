"""The three state machines that the project is named for, on the reference broker in virtual time."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from brokerproof.conformance.machines.base import WorldMachine
from brokerproof.conformance.machines.delay import DelayMachine
from brokerproof.conformance.machines.expiry import ExpiryMachine
from brokerproof.conformance.machines.inflight import InFlightMachine

SETTINGS = settings(
    max_examples=40,
    stateful_step_count=30,
    deadline=None,
    database=None,
    derandomize=True,  # a red run must be red again; random exploration is the campaign's business
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.parametrize("machine", [InFlightMachine, ExpiryMachine, DelayMachine], ids=lambda m: m.__name__)
def test_the_reference_broker_keeps_the_promise(machine: type[WorldMachine]) -> None:
    run_state_machine_as_test(machine, settings=SETTINGS)
