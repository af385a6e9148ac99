"""The JMS agent: the stock Java client in a process of its own, where the consumer's clock matters."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from brokerproof.conformance.agents import protocol
from brokerproof.conformance.agents.java_activemq import DELAY_LEAST_MS
from brokerproof.conformance.agents.kinds import JMS
from brokerproof.conformance.brokers.activemq import ActiveMQAdapter
from brokerproof.conformance.experiment.configuration import BrokerSpec, HostSpec, LinkSpec, MonitorSpec
from brokerproof.conformance.experiment.destinations import queues, topics
from brokerproof.conformance.experiment.history import (
    Ack,
    Arrive,
    Browse,
    Closed,
    Connect,
    Consume,
    Counters,
    Discard,
    History,
    Leave,
    Nack,
    Send,
    Skipped,
)
from brokerproof.conformance.experiment.history import Commit as Committed
from brokerproof.conformance.experiment.history import Unsubscribe as Unsubscribed
from brokerproof.conformance.experiment.program import FORMAT, Program
from brokerproof.conformance.experiment.steps import Ack as AckStep
from brokerproof.conformance.experiment.steps import (
    Advance,
    AnyStep,
    Begin,
    Clock,
    Commit,
    Rollback,
    Settle,
    Subscribe,
    Take,
)
from brokerproof.conformance.experiment.steps import Leave as LeaveStep
from brokerproof.conformance.experiment.steps import Nack as NackStep
from brokerproof.conformance.experiment.steps import Send as SendStep
from brokerproof.conformance.running.outcomes import outcomes
from brokerproof.conformance.worlds.live.laboratory import Laboratory
from brokerproof.conformance.worlds.live.world import LiveWorld
from tests.live.bench import activemq, events, make_laboratory

pytestmark = pytest.mark.live


class Stage:
    """One broker and its laboratory for all tests."""

    def __init__(self, laboratory: Laboratory, adapter: ActiveMQAdapter) -> None:
        self.laboratory = laboratory
        self.adapter = adapter

    def run(self, *steps: AnyStep, links: list[LinkSpec] | None = None, check: bool = True) -> History:
        hosts = [
            HostSpec("b", "broker"),
            HostSpec("p0", "client", "jms"),
            HostSpec("c0", "client", "jms", expiry_check=check),
        ]
        spec = BrokerSpec(dead_letter_non_persistent=True)
        return LiveWorld(self.adapter, self.laboratory).run(
            Program(FORMAT, spec, hosts, links or [], [*queues("q0"), *topics("t0")], list(steps))
        )


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    adapter = activemq()
    with make_laboratory(tmp_path_factory.mktemp("jms")) as laboratory:
        yield Stage(laboratory, adapter)
        adapter.close()


def test_client_acknowledgement_settles_all_that_the_session_delivered(stage: Stage) -> None:
    history = stage.run(
        SendStep(count=5), Subscribe(host=1, prefetch=10), Take(deadline_ms=2000, count=3), AckStep(upto=0)
    )
    (ack,) = events(history, Ack, "c0")
    assert (ack.result, ack.mode, ack.messages) == ("ok", "cumulative", ["p0/1", "p0/2", "p0/3"])
    assert list(outcomes(history).values()) == ["consumed"] * 3 + ["drained"] * 2
    assert {connect.via for connect in events(history, Connect) if connect.host != "drain"} == {"jms"}


def test_a_transaction_holds_its_sends_until_the_commit(stage: Stage) -> None:
    steps = [Subscribe(host=1, prefetch=10), Begin(), SendStep(count=2), Take(deadline_ms=200), Commit()]
    history = stage.run(*steps, Take(deadline_ms=5000, count=2), AckStep(), Begin(), SendStep(), Rollback())
    (commit,) = events(history, Committed, "p0")
    assert commit.result == "ok"
    assert all(arrive.t1 > commit.t0 for arrive in events(history, Arrive, "c0"))
    assert outcomes(history) == {"p0/1": "consumed", "p0/2": "consumed", "p0/3": "gone"}


def test_a_selector_a_group_and_a_browser(stage: Stage) -> None:
    wants_b = Subscribe(host=1, selector="kind = 'b'", prefetch=10, priority=1)
    steps = [SendStep(kind="a"), SendStep(kind="b", group="g1"), Subscribe(host=1, browser=True), wants_b]
    history = stage.run(*steps, Take(consumer=1, deadline_ms=5000), AckStep(consumer=1))
    shown = [message for browse in events(history, Browse, "c0") for message in browse.messages]
    assert shown == ["p0/1", "p0/2"]
    assert events(history, Browse, "c0")[-1].complete
    assert [(arrive.message, arrive.group) for arrive in events(history, Arrive, "c0")] == [("p0/2", "g1")]
    assert outcomes(history) == {"p0/1": "drained", "p0/2": "consumed"}


def test_a_durable_subscription_collects_while_nobody_is_there(stage: Stage) -> None:
    mine = Subscribe(host=1, dest=1, durable="d1", prefetch=10)
    history = stage.run(mine, LeaveStep(), SendStep(dest=1), mine, Take(deadline_ms=5000), AckStep())
    assert [consume.message for consume in events(history, Consume, "c0")] == ["p0/1"]
    assert [gone.result for gone in events(history, Unsubscribed, "c0")] == ["ok"]


def test_a_wildcard_and_a_pull_consumer(stage: Stage) -> None:
    steps = [Subscribe(host=1, wild=True, prefetch=10), SendStep(), Take(deadline_ms=5000), AckStep(), LeaveStep()]
    steps += [Subscribe(host=1, prefetch=0), SendStep(), Take(deadline_ms=5000), AckStep()]
    history = stage.run(*steps)
    assert [arrive.dest for arrive in events(history, Arrive, "c0")] == ["q0", "q0"]
    assert outcomes(history) == {"p0/1": "consumed", "p0/2": "consumed"}


def test_individual_acknowledgement_settles_one(stage: Stage) -> None:
    steps = [
        SendStep(count=3),
        Subscribe(host=1, prefetch=10, ack="individual"),
        Take(deadline_ms=2000, count=3),
        AckStep(upto=1),
    ]
    history = stage.run(*steps)
    assert [ack.messages for ack in events(history, Ack, "c0")] == [["p0/2"]]
    assert outcomes(history) == {"p0/1": "consumed+drained", "p0/2": "consumed", "p0/3": "consumed+drained"}


def test_automatic_acknowledgement_is_the_librarys_and_never_known(stage: Stage) -> None:
    history = stage.run(
        SendStep(count=2), Subscribe(host=1, prefetch=10, ack="auto"), Take(deadline_ms=2000, count=2), Settle()
    )
    assert [(ack.result, ack.mode) for ack in events(history, Ack, "c0")] == [("unknown", "auto")] * 2
    assert list(outcomes(history).values()) == ["consumed"] * 2


@pytest.mark.parametrize("dispatch", ["async", "sync"])
def test_the_window_is_the_brokers(stage: Stage, dispatch: str) -> None:
    steps = [SendStep(count=5), Subscribe(host=1, prefetch=2, dispatch=dispatch), Advance(ms=200), Settle()]  # type: ignore[arg-type]
    history = stage.run(*steps)
    assert [arrive.message for arrive in events(history, Arrive, "c0")] == ["p0/1", "p0/2"]
    look = next(found for found in events(history, Counters) if found.dest == "q0")
    assert (look.size, look.in_flight) == (5, 2)


def test_a_message_that_dies_in_the_buffer_is_thrown_away_at_receive(stage: Stage) -> None:
    """It arrived alive; then the consumer's clock jumps over its expiration."""
    steps = [
        SendStep(ttl_ms=120_000),
        SendStep(),
        Subscribe(host=1, prefetch=10),
        Advance(ms=200),
        Clock(host=2, jump_ms=300_000),
        Take(deadline_ms=1000),
        AckStep(),
    ]
    history = stage.run(*steps)
    assert [arrive.message for arrive in events(history, Arrive, "c0")] == ["p0/1", "p0/2"]
    assert [consume.message for consume in events(history, Consume, "c0")] == ["p0/2"]
    assert [discard.message for discard in events(history, Discard, "c0")] == ["p0/1"]
    assert outcomes(history) == {"p0/1": "dead-letter", "p0/2": "consumed"}


def test_without_the_check_it_is_consumed(stage: Stage) -> None:
    steps = [
        SendStep(ttl_ms=120_000),
        Subscribe(host=1, prefetch=10),
        Advance(ms=200),
        Clock(host=2, jump_ms=300_000),
        Take(deadline_ms=1000),
        AckStep(),
    ]
    history = stage.run(*steps, check=False)
    assert outcomes(history) == {"p0/1": "consumed"}
    assert not any(connect.traits.checks_expiry for connect in events(history, Connect, "c0"))


def test_a_socket_that_vanishes_gives_back_what_was_not_settled(stage: Stage) -> None:
    steps = [
        SendStep(count=2),
        Subscribe(host=1, prefetch=10),
        Take(deadline_ms=2000),
        LeaveStep(how="drop"),
        Settle(),
        Subscribe(host=1, prefetch=10),
        Take(deadline_ms=2000, count=2),
        AckStep(upto=1),
    ]
    history = stage.run(*steps)
    assert [leave.how for leave in events(history, Leave, "c0")] == ["drop", "close"]
    assert events(history, Closed) == []
    again = [arrive for arrive in events(history, Arrive, "c0") if arrive.consumer == "c0/2"]
    assert [(arrive.message, arrive.redelivered, arrive.delivery_count) for arrive in again] == [
        ("p0/1", True, 2),
        ("p0/2", True, 2),
    ]


def test_a_killed_client_comes_back(stage: Stage) -> None:
    steps = [
        SendStep(),
        Subscribe(host=1),
        Take(deadline_ms=2000),
        LeaveStep(how="kill"),
        Settle(),
        Subscribe(host=1),
        Take(deadline_ms=3000),
        AckStep(),
    ]
    history = stage.run(*steps)
    assert [consume.consumer for consume in events(history, Consume, "c0")] == ["c0/1", "c0/2"]
    assert outcomes(history) == {"p0/1": "consumed"}


def test_there_is_no_nack_in_jms_and_the_broker_is_not_blamed(stage: Stage) -> None:
    history = stage.run(SendStep(), Subscribe(host=1, ack="individual"), Take(deadline_ms=2000), NackStep())
    assert events(history, Nack) == []
    assert [event.step["do"] for event in events(history, Skipped)] == ["nack"]
    assert outcomes(history) == {"p0/1": "consumed+drained"}


def test_a_disabled_timestamp_switches_the_time_to_live_off_too(stage: Stage) -> None:
    history = stage.run(SendStep(ttl_ms=1000, stamp="zero"))
    (send,) = events(history, Send)
    assert (send.expiration_ms, send.timestamp_ms) == (0, 0)


def test_a_topic_reaches_who_is_there(stage: Stage) -> None:
    history = stage.run(
        SendStep(dest=1), Subscribe(host=1, dest=1, prefetch=10), SendStep(dest=1), Take(deadline_ms=2000), AckStep()
    )
    assert [consume.message for consume in events(history, Consume)] == ["p0/2"]


def test_a_monitor_keeps_a_healthy_link_open(stage: Stage) -> None:
    links = [LinkSpec("c0", monitor=MonitorSpec(1000, 500))]
    history = stage.run(SendStep(), Subscribe(host=1), Advance(ms=2500), Take(deadline_ms=1000), AckStep(), links=links)
    assert events(history, Closed) == []
    assert history.header.declared.monitor["c0"] == MonitorSpec(1000, 500)


def test_an_initial_delay_that_the_library_cannot_keep_is_skipped(stage: Stage) -> None:
    links = [LinkSpec("c0", monitor=MonitorSpec(1000, DELAY_LEAST_MS - 1))]
    history = stage.run(Subscribe(host=1), links=links)
    assert events(history, Connect, "c0") == []
    assert [event.step["do"] for event in events(history, Skipped)] == ["subscribe"]


def test_a_broker_that_is_killed_is_noticed(stage: Stage) -> None:
    """On a broker of its own: the others go on with theirs."""
    world = LiveWorld(stage.adapter, stage.laboratory)
    spec = BrokerSpec(memory_limit_bytes=63 * 1024 * 1024)
    hosts = [HostSpec("b", "broker"), HostSpec("c0", "client", "jms")]
    world.open(Program(FORMAT, spec, hosts, [], queues("q0"), []))
    try:
        world.apply(SendStep())
        world.port.endpoint.broker.kill()  # type: ignore[attr-defined]  # an ActiveMQ endpoint
        world.apply(Advance(ms=500))
        closed = [event for event in world.recorder.events if isinstance(event, Closed)]
        assert [(event.host, event.who) for event in closed] == [("c0", "broker")]
    finally:
        world.port.broker_spoilt = True
        world.shut()


def test_an_agent_is_used_again_but_never_set_back(stage: Stage) -> None:
    for agent in list(stage.laboratory._idle):
        if agent.via == JMS:
            stage.laboratory._idle.remove(agent)
            agent.quit()
    path = ("--class-path", os.pathsep.join(map(str, stage.adapter.jars.client_class_path)))
    first = stage.laboratory.hire(JMS, 0, path)
    first.greet()
    stage.laboratory.release(first)
    ahead = stage.laboratory.hire(JMS, 60_000, path)
    assert ahead is first
    ahead.greet()
    stage.laboratory.release(ahead)
    behind = stage.laboratory.hire(JMS, 0, path)
    assert behind is not first
    behind.greet()
    assert protocol.Request(1, protocol.Hello()).fields() == {"id": 1, "do": "hello"}
    stage.laboratory.release(behind)
