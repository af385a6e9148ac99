"""Networks of brokers in real processes: a bridge of ours between two of ours, and ActiveMQ's own connector."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec
import pytest

from brokerproof.conformance.brokers.activemq import ActiveMQAdapter
from brokerproof.conformance.brokers.base import Adapter
from brokerproof.conformance.brokers.reference import ReferenceAdapter
from brokerproof.conformance.experiment.configuration import BrokerSpec, ClockSpec, HostSpec
from brokerproof.conformance.experiment.destinations import queues, topics
from brokerproof.conformance.experiment.history import Ack as Acked
from brokerproof.conformance.experiment.history import Arrive, Fault, History
from brokerproof.conformance.experiment.history import Send as Sent
from brokerproof.conformance.experiment.program import FORMAT, Program
from brokerproof.conformance.experiment.steps import (
    Ack,
    Advance,
    AnyStep,
    Cut,
    Restart,
    Resume,
    Send,
    Settle,
    Stall,
    Subscribe,
    Take,
)
from brokerproof.conformance.experiment.verdict import VerdictKind
from brokerproof.conformance.rules.judge import judge_history
from brokerproof.conformance.worlds.live.laboratory import Laboratory
from brokerproof.conformance.worlds.live.world import LiveWorld
from tests.live.bench import activemq, events, make_laboratory
from tests.tools import at_night

pytestmark = pytest.mark.live

HOSTS = [
    HostSpec("b", "broker"),
    HostSpec("b2", "broker", clock=ClockSpec(60_000)),
    HostSpec("p0", "client", "jms"),
    HostSpec("c0", "client", "jms", at="b2"),
    HostSpec("n0", "bridge", to="b2"),
]
CONSUME = Subscribe(host=1, prefetch=10, ack="client")
#: Until a connector or a bridge is there.
THERE = Advance(ms=1500)
SETTLED = (Take(host=0, count=3), Ack(upto=2), Settle())
JUDGED = {"GEN-170", "GEN-171", "GEN-172", "GEN-173", "GEN-174"}


@pytest.fixture(scope="module")
def laboratory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Laboratory]:
    with make_laboratory(tmp_path_factory.mktemp("networks")) as laboratory:
        yield laboratory


@pytest.fixture(scope="module", params=at_night(["reference", "activemq"], but=["reference"]))
def adapter(request: pytest.FixtureRequest) -> Iterator[Adapter]:
    adapter = ReferenceAdapter() if request.param == "reference" else activemq()
    yield adapter
    adapter.close()


def run(adapter: Adapter, laboratory: Laboratory, *steps: AnyStep) -> History:
    program = Program(FORMAT, BrokerSpec(persistent=True), HOSTS, [], queues("q0"), list(steps))
    return LiveWorld(adapter, laboratory).run(program)


def verdicts(history: History, kind: VerdictKind) -> set[str]:
    return {one.requirement for one in judge_history(history) if one.verdict is kind}


def crossed(history: History) -> Sequence[Sent]:
    return [event for event in events(history, Sent) if event.host == "n0-far"]


def arrived(history: History) -> list[str]:
    return [event.message for event in events(history, Arrive) if event.host == "c0"]


def test_what_is_sent_to_one_broker_is_consumed_at_the_other(adapter: Adapter, laboratory: Laboratory) -> None:
    sends = Send(ttl_ms=600_000, priority=7, count=3)
    history = run(adapter, laboratory, CONSUME, THERE, sends, *SETTLED, Advance(ms=2500))
    assert arrived(history) == ["p0/1", "p0/2", "p0/3"]
    assert [(event.result, event.network, event.priority) for event in crossed(history)] == [("ok", True, 7)] * 3
    told = [event for event in events(history, Acked) if event.host == "n0"]
    assert [event.result for event in told] == ["ok"] * 3
    assert verdicts(history, VerdictKind.VIOLATED) == set()
    assert verdicts(history, VerdictKind.SATISFIED) >= JUDGED


def test_a_stalled_bridge_holds_back_and_carries_on(adapter: Adapter, laboratory: Laboratory) -> None:
    stalled = (Stall(link=0, toward="broker"), Send(count=3), Advance(ms=300))
    history = run(adapter, laboratory, CONSUME, THERE, *stalled, Resume(), Settle(), *SETTLED)
    fault = next(event for event in events(history, Fault) if event.fault == "stall")
    assert fault.evidence is not None
    assert fault.evidence["bytes_in"] > 0
    assert arrived(history) == ["p0/1", "p0/2", "p0/3"]
    assert verdicts(history, VerdictKind.VIOLATED) == set()


@pytest.mark.parametrize("how", ["cut", "kill"])
def test_what_a_bridge_had_under_way_when_it_ended_is_not_lost(
    adapter: Adapter, laboratory: Laboratory, how: str
) -> None:
    stalled = (Stall(link=0, toward="client"), Send(count=3), Advance(ms=300), Cut(how=how), Resume())  # type: ignore[arg-type] # of its words
    history = run(adapter, laboratory, CONSUME, THERE, *stalled, Advance(ms=2000), Settle(), *SETTLED)
    fault = next(event for event in events(history, Fault) if event.fault == "cut")
    assert fault.evidence is not None
    assert fault.evidence["in_doubt"] == 3
    drained = {event.message for event in events(history, Arrive) if event.host in {"c0", "drain-b2"}}
    assert drained == {"p0/1", "p0/2", "p0/3"}
    assert verdicts(history, VerdictKind.VIOLATED) == set()


def test_publications_cross_by_a_proxy_subscription(adapter: Adapter, laboratory: Laboratory) -> None:
    """Each once, a delayed one when its delay is over, also to who was not there when it was sent."""
    hosts = [msgspec.structs.replace(host, topics=host.role == "bridge") for host in HOSTS]
    listens = Subscribe(host=1, dest=1, prefetch=10, ack="client")
    published = [Send(dest=1, count=3), Send(dest=1, delay_ms=1500), Advance(ms=300), listens, Advance(ms=3500)]
    steps = [listens, CONSUME, THERE, Send(), *published, Settle()]
    program = Program(FORMAT, BrokerSpec(persistent=True), hosts, [], [*queues("q0"), *topics("t0")], steps)
    history = LiveWorld(adapter, laboratory).run(program)
    by_session = Counter((event.consumer, event.message) for event in events(history, Arrive, "c0"))
    late = {("c0/3", "p0/5")}
    assert by_session == dict.fromkeys({("c0/1", f"p0/{n}") for n in (2, 3, 4, 5)} | {("c0/2", "p0/1")} | late, 1)
    assert verdicts(history, VerdictKind.VIOLATED) == set()
    assert verdicts(history, VerdictKind.SATISFIED) >= {*JUDGED, "DLY-055"}


def test_activemq_comes_back_with_its_connector(laboratory: Laboratory) -> None:
    adapter = activemq()
    try:
        assert isinstance(adapter, ActiveMQAdapter)
        restarted = (Send(), Settle(), Restart(how="kill"), Send(), Advance(ms=2000))
        history = run(adapter, laboratory, CONSUME, THERE, *restarted, *SETTLED)
    finally:
        adapter.close()
    drained = {event.message for event in events(history, Arrive) if event.host in {"c0", "drain-b2"}}
    assert drained >= {"p0/1"}
    assert verdicts(history, VerdictKind.VIOLATED) == set()
