"""Why a real broker does not show what it does not: probing it gives the reason, whatever kept a program away."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from brokerproof.chaos.tools import ToolFailed, ToolMissing
from brokerproof.conformance.brokers import make_adapter
from brokerproof.conformance.brokers.base import Adapter
from brokerproof.conformance.experiment.verdict import VerdictKind
from brokerproof.conformance.running import live as runs
from brokerproof.conformance.running.live import refused_by, refused_run
from brokerproof.conformance.running.telling import is_documented
from tests.tools import not_run

pytestmark = pytest.mark.live


@pytest.fixture(scope="module")
def coilmq() -> Iterator[Adapter]:
    adapter = make_adapter("coilmq")
    try:
        adapter.capabilities()
    except (ToolMissing, ToolFailed) as error:
        not_run(str(error))
    yield adapter
    adapter.close()


def test_what_could_not_apply_is_not_missed_where_nothing_ran(coilmq: Adapter) -> None:
    found = runs._untold(coilmq, ("DLY-001", "GEN-001"), VerdictKind.NOT_RUN, "no Java")
    told = {one.requirement: one for one in found}
    assert told["DLY-001"].verdict is VerdictKind.NOT_APPLICABLE
    assert (told["GEN-001"].verdict, told["GEN-001"].text) == (VerdictKind.NOT_RUN, "no Java")


def test_the_reason_is_what_the_broker_lacks_whatever_kept_a_program_away(coilmq: Adapter) -> None:
    name, program, why = next(entry for entry in refused_by(coilmq) if entry[0] == "sent-to-two-names")
    wanted = ("EXP-002", "GEN-001", "RDL-001")
    told = {one.requirement: one.text for one in refused_run(coilmq, name, program, why, wanted).verdicts}
    assert told["EXP-002"] == "the broker (or its transport) does not offer: ttl"
    assert told["RDL-001"].startswith("names.stomp.headers redelivered: ")
    assert told["GEN-001"] == f"nothing that was played showed it, and a program that would have does not apply: {why}"


@pytest.mark.parametrize(
    ("broker", "documented"),
    [("reference", True), ("activemq", True), ("artemis", False), ("rabbitmq", False), ("mosquitto", False)],
)
def test_what_stories_tell_is_documented_of_one_kind_of_brokers(broker: str, documented: bool) -> None:
    try:
        with contextlib.closing(make_adapter(broker)) as adapter:
            assert is_documented(adapter) is documented
    except (ToolMissing, ToolFailed) as error:
        not_run(str(error))
