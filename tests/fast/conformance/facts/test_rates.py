"""What a machine needs counts as many times as the clocks of a run are faster than it."""

from __future__ import annotations

import pytest

from brokerproof.conformance.experiment.configuration import MonitorSpec
from brokerproof.conformance.experiment.history import FORMAT, Header
from brokerproof.conformance.facts.links import EARLY_NS, LATE_NS, Limits
from brokerproof.conformance.facts.tables import Tables


@pytest.mark.parametrize(
    ("header", "rate"),
    [
        (Header(FORMAT, "b", "simulated"), 0),
        (Header(FORMAT, "b", "live"), 1),
        (Header(FORMAT, "b", "live", rates={"b": 10, "c0": 10}), 10),
    ],
)
def test_timers_of_machines_are_granted_real_time(header: Header, rate: int) -> None:
    assert Tables(header).rate == rate
    limits = Limits(MonitorSpec(30_000, 10_000), "classic", "jms", rate)
    assert (limits.early_ns, limits.late_ns) == (EARLY_NS * rate, LATE_NS * rate)
