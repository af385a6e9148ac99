"""Stories of transactions, selectors, groups, browsers, durable subscriptions, wildcards and operators.

They are part of the live stories (``stories.py``) and keep their rules: short, told before they were run, and the same
outcomes on the reference broker in the simulated world and on ActiveMQ 5.17.2 live.
"""

from __future__ import annotations

from typing import Literal

from brokerproof.conformance.corpus.story import C0, P0, SURE_MS, VAIN_MS, Story, hosts, stomp, told
from brokerproof.conformance.experiment.configuration import BrokerSpec, HostSpec
from brokerproof.conformance.experiment.destinations import queues, topics
from brokerproof.conformance.experiment.program import FORMAT, Program
from brokerproof.conformance.experiment.steps import (
    Ack,
    AnyStep,
    Begin,
    Commit,
    Leave,
    Operate,
    Restart,
    Rollback,
    Send,
    Settle,
    Subscribe,
    Take,
    Unsubscribe,
)


def _several(steps: list[AnyStep], *clients: HostSpec) -> Program:
    """Two queues and a topic."""
    return Program(FORMAT, BrokerSpec(), hosts(*(clients or (P0, C0))), [], [*queues("q0", "q1"), *topics("t0")], steps)


def _sends() -> Story:
    steps: list[AnyStep] = [
        Subscribe(host=1, prefetch=10),
        Begin(),
        Send(count=2),
        Take(deadline_ms=VAIN_MS),
        Commit(),
        Take(deadline_ms=SURE_MS, count=2),
        Ack(upto=1),
        Begin(),
        Send(),
        Rollback(),
        Take(deadline_ms=VAIN_MS),
    ]
    telling = "what is sent in a transaction comes with its commit, and never after a rollback"
    return told("live-transacted-sends", telling, stomp(steps), p0_1="consumed", p0_2="consumed", p0_3="gone")


def _acks() -> Story:
    steps: list[AnyStep] = [
        Send(count=3),
        Subscribe(host=1, prefetch=10),
        Take(deadline_ms=SURE_MS, count=3),
        Begin(host=1),
        Ack(upto=1),
        Rollback(),
        Begin(host=1),
        Ack(upto=0),
        Commit(),
        Leave(),
        Settle(),
    ]
    telling = "of three messages two are acknowledged in vain, then one for good; the others are still there"
    outcomes = {"p0_1": "consumed", "p0_2": "consumed+drained", "p0_3": "consumed+drained"}
    return told("live-transacted-acks", telling, stomp(steps), **outcomes)


def _lost() -> Story:
    steps: list[AnyStep] = [
        Send(),
        Subscribe(host=1, prefetch=10),
        Take(deadline_ms=SURE_MS),
        Begin(host=1),
        Ack(),
        Send(host=1),
        Leave(how="drop"),
        Settle(),
    ]
    telling = "a connection is lost with an open transaction: what it acknowledged comes back, what it sent never was"
    return told("live-transaction-lost", telling, stomp(steps), p0_1="consumed+drained", c0_1="gone")


def _selector() -> Story:
    steps: list[AnyStep] = [
        Send(kind="a"),
        Send(kind="b"),
        Send(),
        Subscribe(host=1, prefetch=10, selector="kind = 'b'"),
        Take(deadline_ms=SURE_MS),
        Ack(),
        Take(deadline_ms=VAIN_MS),
    ]
    telling = "a consumer with a selector gets what matches, and nothing else"
    return told("live-selector", telling, stomp(steps), p0_1="drained", p0_2="consumed", p0_3="drained")


def _groups() -> Story:
    steps: list[AnyStep] = [
        Subscribe(host=1, prefetch=10, ack="individual"),
        Subscribe(host=1, prefetch=10, ack="individual"),
        Send(count=3, group="g1"),
        Settle(),
        Take(consumer=0, deadline_ms=VAIN_MS, count=3),
        Take(consumer=1, deadline_ms=VAIN_MS, count=3),
        *(Ack(consumer=0) for _ in range(3)),
        *(Ack(consumer=1) for _ in range(3)),
    ]
    telling = "a group has one consumer, which gets all of it in order"
    return told("live-group", telling, stomp(steps), **{f"p0_{number}": "consumed" for number in (1, 2, 3)})


def _exclusive() -> Story:
    steps: list[AnyStep] = [
        Subscribe(host=1, prefetch=10),
        Subscribe(host=1, prefetch=10, exclusive=True),
        Send(count=2),
        Take(consumer=1, deadline_ms=SURE_MS, count=2),
        Ack(consumer=1, upto=1),
        Take(consumer=0, deadline_ms=VAIN_MS),
        Leave(consumer=1),
        Send(),
        Take(deadline_ms=SURE_MS),
        Ack(),
    ]
    telling = "an exclusive consumer gets everything; when it has gone, the other one does"
    return told("live-exclusive", telling, stomp(steps), **{f"p0_{number}": "consumed" for number in (1, 2, 3)})


def _browser() -> Story:
    steps: list[AnyStep] = [Send(count=3), Subscribe(host=1, prefetch=10, browser=True), Settle(), Leave()]
    telling = "somebody looks at a queue and takes nothing"
    return told("live-browser", telling, stomp(steps), **{f"p0_{number}": "drained" for number in (1, 2, 3)})


def _durable() -> Story:
    mine = Subscribe(host=1, dest=2, prefetch=10, durable="d1")
    steps: list[AnyStep] = [
        mine,
        Send(dest=2),
        Take(deadline_ms=SURE_MS),
        Ack(),
        Leave(),
        Send(dest=2, count=2),
        mine,
        Take(deadline_ms=SURE_MS, count=2),
        Ack(upto=0),
        Leave(how="drop"),
        Settle(),
        mine,
        Take(deadline_ms=SURE_MS),
        Ack(),
        Leave(),
        Unsubscribe(),
        Send(dest=2),
    ]
    telling = "a durable subscriber gets what was published while it was away, and again what it left unsettled"
    outcomes = {"p0_1": "consumed", "p0_2": "consumed", "p0_3": "consumed", "p0_4": "gone"}
    return told("live-durable", telling, _several(steps), **outcomes)


def _wildcard() -> Story:
    steps: list[AnyStep] = [
        Subscribe(host=1, prefetch=10, wild=True),
        Send(dest=0),
        Send(dest=1),
        Send(dest=2),
        Take(deadline_ms=SURE_MS, count=2),
        Ack(upto=1),
        Take(deadline_ms=VAIN_MS),
    ]
    telling = "one consumer of all queues gets the messages of both, and nothing of the topic"
    return told("live-wildcard", telling, _several(steps), p0_1="consumed", p0_2="consumed", p0_3="gone")


def _pull() -> Story:
    steps: list[AnyStep] = [
        Send(count=2),
        Subscribe(host=1, prefetch=0),
        Settle(),
        Take(deadline_ms=SURE_MS),
        Ack(),
    ]
    program = stomp(steps)
    program = Program(FORMAT, program.broker, hosts(P0, HostSpec("c0", "client", "jms")), [], queues("q0"), steps)
    return told("live-pull", "a consumer without a prefetch gets one for one", program, p0_1="consumed", p0_2="drained")


def _purge() -> Story:
    steps: list[AnyStep] = [Send(count=3), Operate(op="purge"), Send(), Settle(), Operate(op="reset"), Settle()]
    telling = "an operator empties a queue; what is sent later stays"
    outcomes = {"p0_1": "gone", "p0_2": "gone", "p0_3": "gone", "p0_4": "drained"}
    return told("live-purge", telling, stomp(steps), **outcomes)


def _move() -> Story:
    steps: list[AnyStep] = [
        Send(count=3),
        Settle(),
        Operate(op="move"),
        Settle(),
        Subscribe(host=1, dest=1, prefetch=10),
        Take(deadline_ms=SURE_MS, count=3),
        Ack(upto=2),
        Send(),
    ]
    telling = "an operator moves what waits to another queue, where it is consumed in its order"
    outcomes = {"p0_1": "consumed", "p0_2": "consumed", "p0_3": "consumed", "p0_4": "drained"}
    return told("live-move", telling, _several(steps), **outcomes)


def _restart(how: Literal["stop", "kill"]) -> Story:
    steps: list[AnyStep] = [
        Send(count=3),
        Subscribe(host=1, prefetch=10, ack="individual"),
        Take(deadline_ms=SURE_MS, count=2),
        Ack(upto=0),
        Restart(how=how),
        Send(),
        Subscribe(host=1, prefetch=10),
        Take(deadline_ms=SURE_MS, count=3),
        Ack(upto=2),
        Settle(),
    ]
    program = stomp(steps, BrokerSpec(persistent=True))
    telling = "the broker is restarted: what was confirmed is there, what was acknowledged is not, and work goes on"
    outcomes = {f"p0_{number}": "consumed" for number in range(1, 5)}
    return told(f"live-restart-{how}", telling, program, **outcomes)


def feature_stories() -> list[Story]:
    """In the order in which they are told."""
    return [
        _sends(),
        _acks(),
        _lost(),
        _selector(),
        _groups(),
        _exclusive(),
        _browser(),
        _durable(),
        _wildcard(),
        _pull(),
        _purge(),
        _move(),
        _restart("stop"),
        _restart("kill"),
    ]
