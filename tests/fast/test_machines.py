"""The state machines, on the reference broker in virtual time and in any other world that a factory makes."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from brokerproof.conformance.experiment.history import Event
from brokerproof.conformance.experiment.program import Program, parse_program
from brokerproof.conformance.experiment.steps import AnyStep
from brokerproof.conformance.machines import MODELS
from brokerproof.conformance.machines.delay import DelayModel
from brokerproof.conformance.machines.failure import explain, shrink_failure
from brokerproof.conformance.machines.inflight import InFlightModel
from brokerproof.conformance.machines.model import Model, contradiction
from brokerproof.conformance.machines.search import Search, simulated
from brokerproof.conformance.rules.areas import RULES
from brokerproof.conformance.worlds.base import World
from brokerproof.conformance.worlds.simulated.world import SimulatedWorld


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_the_reference_broker_keeps_the_promise(model: type[Model]) -> None:
    search = Search(model, simulated(), examples=30)
    assert search.run() is None
    assert len(search.results) >= 30
    assert all(result.verdicts for result in search.results)
