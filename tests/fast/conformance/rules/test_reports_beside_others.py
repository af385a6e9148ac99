"""Reports of a queue manager where other features meet them: the sound broker is not accused."""

from __future__ import annotations

from typing import Any

import pytest

from brokerproof.conformance.experiment.configuration import BrokerSpec, HostSpec
from brokerproof.conformance.experiment.destinations import Destination, queues, topics
from brokerproof.conformance.experiment.program import FORMAT, Program
from brokerproof.conformance.experiment.steps import (
    Advance,
    AnyStep,
    Counters,
    Leave,
    Nack,
    Operate,
    Send,
    Subscribe,
    Take,
)
from brokerproof.conformance.experiment.verdict import VerdictKind
from brokerproof.conformance.rules.judge import judge_history
from brokerproof.conformance.running.engine import simulate

LETTERS = "ALTER QMGR DEADQ('ActiveMQ.DLQ')"
EXCEPTION, EXPIRATION = "JMS_IBM_Report_Exception", "JMS_IBM_Report_Expiration"
ARRIVAL, DELIVERY = "JMS_IBM_Report_COA", "JMS_IBM_Report_COD"
#: A report with all of the body: this option seven times.
FULL = {EXCEPTION: 0x07000000, EXPIRATION: 0x00E00000, ARRIVAL: 0x700, DELIVERY: 0x3800}
PLAIN = {EXCEPTION: 0x01000000, EXPIRATION: 0x00200000, ARRIVAL: 0x100, DELIVERY: 0x800}
REPLIES = Destination("~c0", "temporary", host="c0")
ON_Q0, ON_T0 = [*queues("q0"), REPLIES], [*topics("t0"), REPLIES]


def asks(*reports: str, of: dict[str, int] = FULL) -> dict[str, Any]:
    return {name: of[name] for name in reports}


GONE: list[AnyStep] = [Subscribe(), Leave(how="drop"), Advance(ms=2000), Subscribe(dest=1, prefetch=2)]
CASES: dict[str, tuple[list[AnyStep], list[Destination], dict[str, Any], str]] = {
    "a reply queue goes with its connection": (
        [Send(reply=True, headers=asks(ARRIVAL, of=PLAIN)), *GONE],
        ON_Q0,
        {},
        "stomp",
    ),
    "sent once more, perhaps with the reply queue that has gone": (
        [
            Send(reply=True, life_ms=1, again=True, headers=asks(EXPIRATION)),
            Advance(ms=2000),
            Subscribe(dest=1, prefetch=2),
        ],
        ON_Q0,
        {},
        "jms",
    ),
    "a report that is rejected is its own dead letter": (
        [Subscribe(dest=1), Send(reply=True, headers=asks(ARRIVAL)), Take(deadline_ms=1), Nack()],
        ON_Q0,
        {},
        "stomp",
    ),
    "a dead letter that is delivered has a mode of its own": (
        [Send(persistent=False, life_ms=1, headers=asks(DELIVERY)), Advance(ms=2000)],
        ON_Q0,
        {"mqsc": [LETTERS], "dead_letter_non_persistent": True},
        "stomp",
    ),
    "what nothing takes the report of waits on": (
        [Subscribe(), Send(delay_ms=500, headers=asks(EXCEPTION)), Leave(), Advance(ms=1000), Counters()],
        ON_T0,
        {"mqsc": ["DEFINE TOPIC('t0') PMSGDLV(ALLAVAIL)"]},
        "stomp",
    ),
    "a publication without a delay passes no queue": (
        [
            Operate(op="mqsc", command="ALTER QLOCAL(SYSTEM.NDURABLE.MODEL.QUEUE) PUT(DISABLED)"),
            Subscribe(),
            Send(headers=asks(EXCEPTION)),
        ],
        ON_T0,
        {"mqsc": [LETTERS]},
        "stomp",
    ),
    "a browser of the reply queue sees bodies": (
        [
            Send(reply=True, group="g1", headers=asks(ARRIVAL)),
            Subscribe(dest=1, selector="JMSXGroupID IS NULL", browser=True),
        ],
        ON_Q0,
        {},
        "stomp",
    ),
    "reports need memory, too": (
        [Send(count=15, size=898, reply=True, headers=asks(ARRIVAL))],
        ON_Q0,
        {"memory_limit_bytes": 32768},
        "stomp",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_sound_broker_is_not_accused(case: str) -> None:
    steps, destinations, declared, via = CASES[case]
    broker = BrokerSpec(generation={"delay": "ibm-mq"}, **declared)
    hosts = [HostSpec("b", "broker"), HostSpec("c0", "client", via=via)]  # type: ignore[arg-type]  # a table's text
    history = simulate(Program(FORMAT, broker, hosts, destinations=destinations, steps=steps))
    wrong = [one for one in judge_history(history) if one.verdict is VerdictKind.VIOLATED]
    assert not wrong
