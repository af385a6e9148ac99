"""Real ActiveMQ with every host played by our own OpenWire client: what no library says by itself, and what is known.

The whole corpus passes through it with ``brokerproof run --broker activemq --client openwire``; these are the programs
that exercise what STOMP and the stock Java client cannot.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from brokerproof.conformance.brokers.through import ThroughOpenWire
from brokerproof.conformance.corpus import programs
from brokerproof.conformance.experiment.results import RunResult
from brokerproof.conformance.experiment.verdict import VerdictKind
from brokerproof.conformance.known import Deviation, load_known
from brokerproof.conformance.requirements.catalogue import default_catalogue
from brokerproof.conformance.running.live import run_live
from brokerproof.conformance.worlds.live.laboratory import Laboratory
from tests.live.bench import activemq, make_laboratory

pytestmark = pytest.mark.live
WANTED = tuple(requirement.id for requirement in default_catalogue().judged())


class Stage:
    """A laboratory, and ActiveMQ behind our client."""

    def __init__(self, laboratory: Laboratory, adapter: ThroughOpenWire) -> None:
        self.laboratory = laboratory
        self.adapter = adapter

    def run(self, name: str) -> RunResult:
        program = self.adapter.cast(programs()[name])
        return run_live(self.adapter, self.laboratory, program, name, wanted=WANTED)


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    adapter = ThroughOpenWire(activemq())
    with make_laboratory(tmp_path_factory.mktemp("openwire")) as laboratory:
        yield Stage(laboratory, adapter)
        adapter.close()


@pytest.mark.parametrize(
    ("name", "requirement"),
    [
        ("delivered-opens-slots", "PRE-005"),
        ("every-type-of-acknowledgement", "INF-009"),
        ("expired-acknowledgement-of-a-range", "INF-009"),
        ("policy-replaces-the-default", "PRE-008"),
        ("over-a-bridge", "TSP-013"),
    ],
)
def test_what_only_our_client_says_is_done_as_it_must_be(stage: Stage, name: str, requirement: str) -> None:
    result = stage.run(name)
    verdicts = {verdict.requirement: verdict for verdict in result.verdicts}
    assert result.problem == ""
    assert verdicts[requirement].verdict is VerdictKind.SATISFIED
    violated = [one for one in result.verdicts if one.verdict is VerdictKind.VIOLATED]
    assert not violated, "\n".join(map(str, violated))


#: By the label, because a machine without ActiveMQ must get as far as saying so.
CERTAIN = load_known("activemq 5.17.2").through_openwire().certain()


@pytest.mark.night
@pytest.mark.parametrize("entry", CERTAIN, ids=lambda entry: entry.requirement)
def test_what_is_known_of_it_still_fails(stage: Stage, entry: Deviation) -> None:
    for name in entry.programs:
        result = stage.run(name)
        assert result.problem == ""
        verdicts = {verdict.requirement: verdict.verdict for verdict in result.verdicts}
        assert verdicts[entry.requirement] is VerdictKind.KNOWN_FAILURE
        assert VerdictKind.VIOLATED not in verdicts.values()
