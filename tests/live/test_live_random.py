"""A minute of random programs on a real ActiveMQ: nothing is red but what is known of it. More is the night's."""

from __future__ import annotations

import contextlib

import pytest

from brokerproof.conformance.experiment.verdict import VerdictKind
from brokerproof.conformance.requirements.catalogue import default_catalogue
from brokerproof.conformance.running.allowance import Allowance
from brokerproof.conformance.running.live import random_plan, run_all
from brokerproof.conformance.running.options import SuiteOptions
from tests.live.bench import activemq

pytestmark = pytest.mark.live
MINUTE_S = 60.0
FIRST_SEED = 11_700_000
#: Fewer would show that something waits for what does not come.
AT_LEAST = 10


def test_a_sound_column_stays_clean() -> None:
    adapter = activemq()
    wanted = tuple(requirement.id for requirement in default_catalogue().judged())
    allowance = Allowance(MINUTE_S)
    drawn = random_plan(adapter, SuiteOptions(live_programs=1000, seed=FIRST_SEED), allowance)
    with contextlib.closing(run_all(adapter, [], wanted, drawn=drawn, allowance=allowance)) as running:
        results = list(running)
    told = [
        f"{result.name}: {verdict.requirement}: {verdict.text}"
        for result in results
        for verdict in result.verdicts
        if verdict.verdict is VerdictKind.VIOLATED
    ]
    assert told == []
    assert [result.problem for result in results if result.problem] == []
    assert len(results) >= AT_LEAST
