"""What programs about transactions, selectors, durable subscriptions and so on do in the simulated world."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import pytest
from msgspec.structs import replace

from brokerproof.conformance.experiment.configuration import DRAIN_HOST, BrokerSpec, HostSpec, LinkSpec
from brokerproof.conformance.experiment.destinations import Destination
from brokerproof.conformance.experiment.history import (
    Abort,
    Ack,
    Arrive,
    Browse,
    Commit,
    Consume,
    Counters,
    Event,
    History,
    Operate,
    Send,
    Skipped,
    Unsubscribe,
)
from brokerproof.conformance.experiment.history import Nack as Nacked
from brokerproof.conformance.experiment.history import Subscribe as Subscribed
from brokerproof.conformance.experiment.program import FORMAT, Program
from brokerproof.conformance.experiment.steps import Ack as AckStep
from brokerproof.conformance.experiment.steps import (
    Advance,
    AnyStep,
    Begin,
    Leave,
    Nack,
    Restart,
    Rollback,
    Settle,
    Subscribe,
)
from brokerproof.conformance.experiment.steps import Commit as CommitStep
from brokerproof.conformance.experiment.steps import Operate as OperateStep
from brokerproof.conformance.experiment.steps import Send as SendStep
from brokerproof.conformance.experiment.steps import Take as TakeStep
from brokerproof.conformance.experiment.steps import Unsubscribe as UnsubscribeStep
from brokerproof.conformance.experiment.verdict import VerdictKind
from brokerproof.conformance.experiment.versions import destinations_named
from brokerproof.conformance.rules.judge import judge_history
from brokerproof.conformance.running.outcomes import outcomes
from brokerproof.conformance.worlds.simulated.port import SimulatedPort
from brokerproof.conformance.worlds.simulated.world import SimulatedWorld

VIAS = pytest.mark.parametrize("via", ["stomp", "jms"])


def run(via: str, steps: Sequence[AnyStep], dests: Sequence[str] = ("q0", "q1", "t0")) -> History:
    """Two hosts of a kind; whatever happens, no rule may complain."""
    hosts = [HostSpec("b", "broker"), HostSpec("c0", "client", via), HostSpec("c1", "client", via)]  # type: ignore[arg-type]  # one of the two
    history = SimulatedWorld().run(Program(FORMAT, BrokerSpec(), hosts, [], destinations_named(dests), list(steps)))
    bad = [verdict.text for verdict in judge_history(history) if verdict.verdict is VerdictKind.VIOLATED]
    assert bad == []
    return history


@pytest.mark.parametrize(("begins", "due_ms"), [("send", 1000), ("commit", 4000)])
def test_a_drain_waits_for_what_is_due_after_the_commit(
    begins: str, due_ms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    declared, waits = SimulatedPort.declared, SimulatedPort.wait_for_more
    waited = list[int]()

    def noted(port: SimulatedPort, due_ns: int, missing: Callable[[], bool]) -> bool:
        waited.append(due_ns // 1_000_000)
        return waits(port, due_ns, missing)

    monkeypatch.setattr(SimulatedPort, "declared", lambda port: replace(declared(port), delay_begins=begins))
    monkeypatch.setattr(SimulatedPort, "wait_for_more", noted)
    hosts = [HostSpec("b", "broker"), HostSpec("c0", "client")]
    steps = [Begin(), SendStep(delay_ms=1000), Advance(ms=3000), CommitStep()]
    SimulatedWorld().run(Program(FORMAT, BrokerSpec(), hosts, [], destinations_named(["q0"]), steps))
    assert due_ms <= waited[0] < due_ms + 500


@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_a_client_of_an_earlier_version_is_served_as_any_other(version: Literal["1.0", "1.1"]) -> None:
    hosts = [HostSpec("b", "broker"), HostSpec("c0", "client", version=version)]
    take = TakeStep(deadline_ms=1000)
    steps = [SendStep(count=3), Subscribe(prefetch=2, ack="client"), take, take, AckStep(upto=1), take, Nack()]
    links = [LinkSpec("c0", encoded=True)]
    program = Program(FORMAT, BrokerSpec(), hosts, links, destinations_named(["q0"]), steps)
    history = SimulatedWorld().run(program)
    assert [event.messages for event in of(history, Ack)] == [["c0/1", "c0/2"]]  # type: ignore[attr-defined]  # an Ack
    assert len(of(history, Nacked)) == (version == "1.1"), "STOMP 1.0 knows no NACK"
    assert [one.text for one in judge_history(history) if one.verdict is VerdictKind.VIOLATED] == []


def test_advisories_have_no_names_and_are_rejected_as_one() -> None:
    advisory = "ActiveMQ.Advisory.Consumer.Queue.q0"
    listening = [Subscribe(), Subscribe(dest=1), Subscribe(), TakeStep(consumer=1, deadline_ms=1000, count=2)]
    history = run("jms", [*listening, Nack(consumer=1), AckStep(consumer=1)], ["q0", advisory])
    assert [event.messages for event in of(history, Nacked)] == [[""]]  # type: ignore[attr-defined]  # a Nack
    assert of(history, Ack) == []


def test_what_a_browser_of_a_temporary_queue_was_shown_may_be_in_flight() -> None:
    """INF-024: nobody reads that queue's figures, and the broker's own count it."""
    steps = [SendStep(dest=1), Subscribe(dest=1, ack="auto"), Subscribe(dest=1, browser=True, ack="individual")]
    hosts = [HostSpec("b", "broker"), HostSpec("c0", "client")]
    dests = [Destination("q0", "queue"), Destination("~c0", "temporary", host="c0")]
    history = SimulatedWorld().run(Program(FORMAT, BrokerSpec(), hosts, [LinkSpec("c0", 0)], dests, steps))
    assert 1 in [event.in_flight for event in of(history, Counters)]  # type: ignore[attr-defined]  # Counters
    assert [one.text for one in judge_history(history) if one.verdict is VerdictKind.VIOLATED] == []


def of(history: History, kind: type[Event], host: str = "") -> list[Event]:
    """Events of a kind before the drain."""
    return [
        event
        for event in history.events
        if type(event) is kind and event.host != DRAIN_HOST and (not host or event.host == host)
    ]


def taken(history: History, host: str) -> list[str]:
    """What the application of a host got, in order."""
    return [event.message for event in of(history, Consume, host)]  # type: ignore[attr-defined]  # of that kind


def take(count: int = 1, host: int = 0) -> TakeStep:
    return TakeStep(host=host, deadline_ms=100, count=count)


@VIAS
def test_what_is_sent_in_a_transaction_comes_with_its_commit(via: str) -> None:
    steps = [Subscribe(host=1, prefetch=10), Begin(), SendStep(count=2), take(), CommitStep(), take(2), AckStep(upto=1)]
    history = run(via, steps)
    commit = of(history, Commit)[0]
    arrivals = of(history, Arrive)
    assert [event.tx for event in of(history, Send)] == ["c0/tx1"] * 2  # type: ignore[attr-defined]  # sends
    assert commit.result == "ok"  # type: ignore[attr-defined]  # a commit
    assert len(arrivals) == 2
    assert all(event.t0 > commit.t0 for event in arrivals)
    assert taken(history, "c1") == ["c0/1", "c0/2"]


@VIAS
def test_what_is_sent_in_a_transaction_goes_with_its_rollback(via: str) -> None:
    history = run(via, [Begin(), SendStep(), Rollback(), Settle()])
    assert outcomes(history) == {"c0/1": "gone"}
    assert [type(event) for event in history.events if isinstance(event, Abort)] == [Abort]


@VIAS
def test_a_rollback_lets_the_application_acknowledge_again(via: str) -> None:
    steps: list[AnyStep] = [Subscribe(host=1, prefetch=10), SendStep(count=2), take(2), Begin(host=1), AckStep(upto=1)]
    steps += [Rollback(), TakeStep(deadline_ms=5000, count=2), AckStep(upto=1)]
    history = run(via, steps)
    acks = of(history, Ack)
    assert [(event.tx, event.messages) for event in acks] == [  # type: ignore[attr-defined]  # acks
        ("c1/tx1", ["c0/1", "c0/2"]),
        (None, ["c0/1", "c0/2"]),
    ]
    # Only a JMS library gives the application once more what came back.
    assert taken(history, "c1") == ["c0/1", "c0/2"] * (2 if via == "jms" else 1)
    assert outcomes(history) == {"c0/1": "consumed", "c0/2": "consumed"}


@VIAS
def test_an_open_transaction_is_rolled_back_when_the_run_heals(via: str) -> None:
    history = run(via, [Begin(), SendStep()])
    assert [event.tx for event in history.events if isinstance(event, Abort)] == ["c0/tx1"]


@VIAS
def test_a_lost_connection_ends_its_transaction(via: str) -> None:
    history = run(via, [Subscribe(), Begin(), SendStep(), Leave(how="drop"), CommitStep(), Begin(), SendStep()])
    assert [event.step["do"] for event in history.events if isinstance(event, Skipped)] == ["commit"]
    assert [event.tx for event in history.events if isinstance(event, Abort)] == ["c0/tx2"]
    assert outcomes(history) == {"c0/1": "gone", "c0/2": "gone"}


@VIAS
def test_a_selector_chooses(via: str) -> None:
    wants_b = Subscribe(host=1, selector="kind = 'b'", prefetch=10)
    history = run(via, [SendStep(kind="a"), SendStep(kind="b"), wants_b, take(2), AckStep()])
    arrived = of(history, Arrive, "c1")
    assert [(event.message, event.message_kind) for event in arrived] == [("c0/2", "b")]  # type: ignore[attr-defined]  # arrivals
    assert outcomes(history) == {"c0/1": "drained", "c0/2": "consumed"}


@VIAS
def test_a_browser_sees_and_takes_nothing(via: str) -> None:
    history = run(via, [SendStep(count=2), Subscribe(host=1, browser=True, prefetch=10), Settle(), take()])
    seen = of(history, Browse)
    assert [event.messages for event in seen] == [["c0/1"], ["c0/2"], []]  # type: ignore[attr-defined]  # browses
    assert [event.complete for event in seen] == [False, False, True]  # type: ignore[attr-defined]  # as above
    assert of(history, Arrive) == []
    assert outcomes(history) == {"c0/1": "drained", "c0/2": "drained"}


@VIAS
def test_a_durable_subscription_collects_while_nobody_is_there(via: str) -> None:
    mine = Subscribe(host=1, dest=2, durable="d1", prefetch=10)
    steps = [mine, Leave(), SendStep(dest=2), mine, take(), AckStep(), Leave(how="drop"), SendStep(dest=2)]
    history = run(via, steps)
    # The second one is fetched in the drain, and then the subscription is ended.
    assert taken(history, "c1") == ["c0/1", "c0/2"]
    assert [(event.durable, event.result) for event in history.events if isinstance(event, Unsubscribe)] == [
        ("d1", "ok")
    ]


@VIAS
def test_a_durable_subscription_that_was_ended_collects_no_more(via: str) -> None:
    mine = Subscribe(host=1, dest=2, durable="d1", prefetch=10)
    history = run(via, [mine, Leave(), UnsubscribeStep(), SendStep(dest=2), mine, take()])
    assert taken(history, "c1") == []


def test_a_durable_subscription_in_use_is_not_used_twice() -> None:
    mine = Subscribe(dest=2, durable="d1")
    history = run("stomp", [mine, mine])
    assert [event.step["do"] for event in history.events if isinstance(event, Skipped)] == ["subscribe"]


@VIAS
def test_a_wildcard_consumer_gets_everything_of_its_sort(via: str) -> None:
    steps: list[AnyStep] = [Subscribe(host=1, wild=True, prefetch=10), SendStep(dest=0), SendStep(dest=1)]
    history = run(via, [*steps, SendStep(dest=2), take(3), AckStep(upto=1)])
    assert [event.dest for event in of(history, Subscribed)] == ["q*"]  # type: ignore[attr-defined]  # subscribes
    assert [(event.message, event.dest) for event in of(history, Arrive)] == [("c0/1", "q0"), ("c0/2", "q1")]  # type: ignore[attr-defined]  # arrivals


def test_a_pull_consumer_gets_what_it_asks_for() -> None:
    history = run("jms", [Subscribe(host=1, prefetch=0), SendStep(count=2), Settle(), take(), AckStep()])
    assert taken(history, "c1") == ["c0/1"]
    assert outcomes(history) == {"c0/1": "consumed", "c0/2": "drained"}


def test_a_pull_that_finds_nothing_ends() -> None:
    history = run("jms", [SendStep(), Subscribe(host=1, prefetch=0, dest=1), TakeStep(), TakeStep(deadline_ms=100)])
    assert taken(history, "c1") == []


def test_stomp_knows_no_pull() -> None:
    history = run("stomp", [Subscribe(prefetch=0)])
    assert [event.prefetch for event in of(history, Subscribed)] == [1]  # type: ignore[attr-defined]  # subscribes


def test_no_local_refuses_what_its_own_connection_sent() -> None:
    steps: list[AnyStep] = [Subscribe(host=1, dest=2, no_local=True, prefetch=10), SendStep(host=1, dest=2)]
    history = run("stomp", [*steps, SendStep(host=0, dest=2), take(2)])
    assert taken(history, "c1") == ["c0/1"]


def test_an_operator_purges_and_is_told_how_many() -> None:
    history = run("stomp", [SendStep(count=3), OperateStep(op="purge"), Settle()])
    (operate,) = [event for event in history.events if isinstance(event, Operate)]
    assert (operate.result, operate.dest, operate.count) == ("ok", "q0", 3)
    assert set(outcomes(history).values()) == {"gone"}


def test_an_operator_resets_the_totals() -> None:
    history = run("stomp", [SendStep(), Settle(), OperateStep(op="reset"), Settle()])
    totals = [event.enqueued for event in history.events if isinstance(event, Counters) and event.dest == "q0"]
    assert totals[:2] == [1, 0]


def test_an_operator_is_refused_where_there_is_nothing() -> None:
    history = run("stomp", [OperateStep(op="purge")])
    (operate,) = [event for event in history.events if isinstance(event, Operate)]
    assert operate.result == "fail"
    assert operate.refusal is not None
    assert "queue://q0" in operate.refusal


def test_a_broker_without_a_store_is_not_restarted() -> None:
    history = run("stomp", [Restart()])
    assert [event.step["do"] for event in history.events if isinstance(event, Skipped)] == ["restart"]
