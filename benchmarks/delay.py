"""What becomes of delayed messages, system by system: the table of docs/ibm-mq.md, measured.

Run: ``python -m benchmarks.delay [--broker NAME …]``. Each row is a program that is played live on each system; the
word in a cell is what its history shows. The column of IBM MQ is what its document says; the reference broker in that
generation is measured, too, and the exit code is 1 if it does otherwise. What cannot be had here is said so.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable
from typing import Final, NamedTuple

import msgspec

from brokerproof.chaos.tools import ToolFailed, ToolMissing
from brokerproof.conformance.brokers import HERE, make_adapter
from brokerproof.conformance.brokers.base import Adapter
from brokerproof.conformance.brokers.profile import Endpoints, JmsAt, Located, Promises, read_profile
from brokerproof.conformance.brokers.profiled import ProfileAdapter
from brokerproof.conformance.experiment.configuration import BrokerSpec, HostSpec
from brokerproof.conformance.experiment.destinations import DEAD_LETTERS, Destination
from brokerproof.conformance.experiment.history import Arrive, History
from brokerproof.conformance.experiment.history import Operate as Operated
from brokerproof.conformance.experiment.history import Send as Sent
from brokerproof.conformance.experiment.history import Subscribe as Subscribed
from brokerproof.conformance.experiment.program import FORMAT, Program
from brokerproof.conformance.experiment.steps import (
    Advance,
    AnyStep,
    Begin,
    Commit,
    Leave,
    Operate,
    Restart,
    Rollback,
    Send,
    Subscribe,
    Take,
)
from brokerproof.conformance.running.live import run_all

STAGING: Final = "SYSTEM.DDELAY.LOCAL.QUEUE"
BROKERS: Final = ("reference", "artemis", "broker-j", "activemq", "rabbitmq")
MQ: Final = BrokerSpec(generation={"delay": "ibm-mq"})
NS_PER_MS: Final = 1_000_000
#: How long somebody waits for the first message: longer than every delay, and a machine that is slow.
WAIT_MS: Final = 8000
LISTEN: Final = Subscribe(host=1, prefetch=10)
NEWS: Final = Subscribe(host=1, prefetch=10, dest=1)
DESTINATIONS: Final = [
    *(Destination("q0", "queue"), Destination("t0", "topic"), Destination("q1", "queue")),
    *(Destination("~p0", "temporary", host="p0"), Destination(STAGING, "queue")),
]


def sends(history: History) -> list[Sent]:
    """What was sent."""
    return [event for event in history.events if isinstance(event, Sent)]


def came(history: History) -> list[Arrive]:
    """What reached consumers of queues and topics of the program."""
    return [event for event in history.events if isinstance(event, Arrive) and event.dest in {"q0", "q1", "t0"}]


def taken(history: History) -> str:
    """Whether a message was taken, and came."""
    if any(event.result == "fail" for event in sends(history)):
        return "refused"
    return "delivered" if came(history) else "never delivered"


def early(history: History) -> str:
    """Whether one came before its delay of 1500 ms was over."""
    waited = [one.t1 - sends(history)[0].t0 for one in came(history)]
    return taken(history) if not waited else "not early" if waited[0] >= 1500 * NS_PER_MS else "early"


def counted(history: History) -> str:
    """From when a delay counts of which 1000 ms passed before the commit."""
    waited = [one.t0 - sends(history)[0].t1 for one in came(history)]
    return taken(history) if not waited else "from the send" if waited[0] < 2500 * NS_PER_MS else "from the commit"


def told(history: History) -> str:
    """Of a queue manager: with which reason and for which queue it was refused last, or how much an operator sees on
    the staging queue, or what became of it, with its report.
    """
    events = [one for one in history.events if not one.host.startswith("drain")]
    said = [one.refusal or "" for one in events if isinstance(one, Sent | Subscribed) and one.result == "fail"]
    if said:
        numbers, names = re.findall(r"\b2\d{3}\b", said[-1]), re.findall(r"(\S+): MQRC", said[-1].partition(": ")[2])
        places = ["staging queue" if name.endswith(STAGING) else "target" for name in names]
        return f"refused, {numbers[0]}" + (f" ({' and '.join(places)})" if places else "")
    shown = "".join(line for one in events if isinstance(one, Operated) for line in one.shown)
    if depth := re.search(r"QLOCAL\(.*CURDEPTH\((\d+)\)", shown):
        return depth[1]
    dests = [one.dest for one in history.events if isinstance(one, Arrive)]
    ends = "dead letter" if DEAD_LETTERS in dests else taken(history)
    return f"{ends}, report" if any(dest.startswith("~") for dest in dests) else ends


def overtaken(history: History) -> str:
    """Whether the shorter delay of two comes first."""
    order = [one.message for one in came(history)]
    return "yes" if order and order[0] == sends(history)[-1].message else "no"


class Row(NamedTuple):
    """One question. ``text``: IBM MQ's answer by its document, with the number of the sentence."""

    asks: str
    text: str
    sentence: str
    steps: list[AnyStep]
    look: Callable[[History], str] = taken
    broker: BrokerSpec = BrokerSpec()


def managed(asks: str, text: str, sentence: str, *steps: AnyStep | str) -> Row:
    """A row about objects that only a queue manager has. Texts are commands: the first ones are its configuration."""
    first = next(at for at, step in enumerate(steps) if not isinstance(step, str))
    plan = [Operate(op="mqsc", command=step) if isinstance(step, str) else step for step in steps[first:]]
    return Row(asks, text, sentence, plan, told, msgspec.structs.replace(MQ, mqsc=list(map(str, steps[:first]))))


STOCK: Final = (
    Row("comes before its delay is over", "not early", "2", [LISTEN, Send(delay_ms=1500)], early),
    Row("time to live below the delay", "refused", "15", [LISTEN, Send(delay_ms=1500, ttl_ms=500)]),
    Row("of a group", "refused", "19", [LISTEN, Send(delay_ms=500, group="g")]),
    Row("retained (`JMS_IBM_Retain`)", "refused", "17", [LISTEN, Send(delay_ms=500, headers={"JMS_IBM_Retain": 1})]),
    Row(
        "delay in a transaction",
        "from the send",
        "54",
        [LISTEN, Begin(), Send(delay_ms=1500), Advance(ms=1000), Commit()],
        counted,
    ),
    Row(
        "in a transaction that stays open",
        "never delivered",
        "23",
        [LISTEN, Begin(), Send(delay_ms=500), Advance(ms=1500)],
    ),
    Row("rolled back", "never delivered", "23", [LISTEN, Begin(), Send(delay_ms=500), Rollback(), Advance(ms=1500)]),
    Row(
        "life that ends after the delay, got when it is over",
        "never delivered",
        "52",
        [Send(delay_ms=500, ttl_ms=1500), Advance(ms=2500), LISTEN],
    ),
    Row("a shorter delay overtakes", "yes", "4", [LISTEN, Send(delay_ms=2000), Send(delay_ms=500)], overtaken),
    Row(
        "publication to whom was there at the send",
        "delivered",
        "76",
        [NEWS, Send(delay_ms=500, dest=1, persistent=False)],
    ),
    Row(
        "persistent publication to a topic as it is by default",
        "refused",
        "80",
        [NEWS, Send(delay_ms=500, dest=1)],
    ),
    Row(
        "publication to who came after the send",
        "never delivered",
        "75",
        [Send(delay_ms=1500, dest=1, persistent=False), NEWS],
    ),
    Row(
        "publication to who left before the release",
        "never delivered",
        "70",
        [NEWS, Send(delay_ms=1500, dest=1, persistent=False), Leave(), Advance(ms=2500)],
    ),
    Row(
        "persistent, over a restart",
        "delivered",
        "63",
        [Send(delay_ms=2000), Restart(how="stop"), LISTEN],
        broker=BrokerSpec(persistent=True),
    ),
    Row(
        "not persistent, over a restart",
        "never delivered",
        "47",
        [Send(delay_ms=2000, persistent=False), Restart(how="stop"), LISTEN],
        broker=BrokerSpec(persistent=True),
    ),
)

SOON, LATER, A_WHILE = Send(delay_ms=500), Send(delay_ms=1500), Advance(ms=2500)
MAIL, MINE = Subscribe(host=0, prefetch=10, dest=3), Subscribe(host=1, prefetch=10, dest=4)
EXCEPTION: Final = {"JMS_IBM_Report_Exception": 0x07000000}
TOLD: Final = Send(delay_ms=500, reply=True, size=64, headers={**EXCEPTION})
DISCARDED: Final = msgspec.structs.replace(TOLD, headers={**EXCEPTION, "JMS_IBM_Report_Discard_Msg": 0x08000000})
STAGE, TARGET = f"ALTER QLOCAL({STAGING})", "ALTER QLOCAL('q0')"
RIGHTS: Final = "SET AUTHREC PROFILE('q0') PRINCIPAL('nobody')"
SHUT, OPEN = f"{TARGET} PUT(DISABLED)", f"{TARGET} PUT(ENABLED)"
AVAILABLE, LETTERS = "DEFINE TOPIC('t0') PMSGDLV(ALLAVAIL)", "ALTER QMGR DEADQ('ActiveMQ.DLQ')"
NO_LETTERS: Final = "ALTER QLOCAL('ActiveMQ.DLQ') PUT(DISABLED)"
NOBODY: Final = "ALTER QLOCAL(SYSTEM.NDURABLE.MODEL.QUEUE) PUT(DISABLED)"
LED: Final = (Subscribe(host=1, prefetch=10, dest=2), LATER, "ALTER QALIAS('q0') TARGET('q1')")
REVOKED: Final = (LISTEN, LATER, f"{RIGHTS} AUTHRMV(PUT)")
LOST: Final = (Send(delay_ms=500, dest=1), NOBODY, NO_LETTERS, A_WHILE)
PEEK: Final = (NEWS, NEWS, Send(delay_ms=60_000, dest=1), f"DISPLAY QLOCAL({STAGING})")
#: What refuses a send, with which reason; and what else becomes of one.
REFUSED: Final = (
    ("staging queue full", "2053 (staging queue)", "21", f"{STAGE} MAXDEPTH(0)"),
    ("staging queue too small", "2030 (staging queue)", "21", f"{STAGE} MAXMSGL(300)"),
    ("staging queue's PUT disabled", "2051 (staging queue)", "21", f"{STAGE} PUT(DISABLED)"),
    ("no staging queue (z/OS)", "2085 (staging queue)", "59", "ALTER QMGR PLATFORM(MVS)"),
    ("target full", "2053 (target)", "74", f"{TARGET} MAXDEPTH(0)"),
    ("target too small", "2030 (target)", "74", f"{TARGET} MAXMSGL(10)"),
    ("target's PUT disabled", "2051 (target)", "74", SHUT),
    ("both full", "2053 (target and staging queue)", "21", f"{STAGE} MAXDEPTH(0)", f"{TARGET} MAXDEPTH(0)"),
    ("below command level 800", "2298", "12", "ALTER QMGR CMDLEVEL(750)"),
    ("clustered, bound when opened", "2046", "13", f"{TARGET} CLUSTER('C')"),
    ("life capped (CAPEXPRY) below the delay", "2013", "15", f"{TARGET} CAPEXPRY(4)"),
    ("sender without authority", "2035", "25", f"{RIGHTS} AUTHADD(GET)"),
)
QUEUE_MANAGERS: Final = (
    *(managed(asks, f"refused, {text}", at, *commands, SOON) for asks, text, at, *commands in REFUSED),
    managed("staging queue consumed from", "refused, 2035", "33", MINE),
    managed("clustered, not bound", "delivered", "13", f"{TARGET} CLUSTER('C') DEFBIND(NOTFIXED)", LISTEN, SOON),
    managed("authority taken away later", "delivered", "27", f"{RIGHTS} AUTHADD(PUT, GET)", *REVOKED),
    managed("staged copies of a publication for two", "2", "76", AVAILABLE, *PEEK),
    managed("taken off the staging queue", "never delivered", "37", LISTEN, LATER, "DELETE STAGED(1)", A_WHILE),
    managed("processor stopped", "never delivered", "62", LISTEN, LATER, "STOP DELAYPROC", A_WHILE),
    managed("processor started again", "delivered", "61", LISTEN, LATER, "STOP DELAYPROC", A_WHILE, "START DELAYPROC"),
    managed("staging queue's GET disabled", "never delivered", "59", LISTEN, LATER, f"{STAGE} GET(DISABLED)", A_WHILE),
    managed("alias that leads elsewhere at the release", "delivered", "49", "DEFINE QALIAS('q0') TARGET('q9')", *LED),
    managed("target inhibited, later not", "delivered", "65", LISTEN, SOON, SHUT, A_WHILE, OPEN),
    managed("target inhibited, dead-letter queue", "dead letter", "64", LETTERS, SOON, SHUT, A_WHILE),
    managed("the same, asks for a report", "dead letter, report", "66", LETTERS, MAIL, TOLD, SHUT, A_WHILE),
    managed("the same, to be discarded", "never delivered, report", "64", LETTERS, MAIL, DISCARDED, SHUT, A_WHILE),
    managed("publication, neither put nor dead letter", "never delivered", "72", LETTERS, AVAILABLE, NEWS, *LOST),
)
ROWS: Final = (*STOCK, *QUEUE_MANAGERS)


def program(row: Row, broker: BrokerSpec | None = None) -> Program:
    """A row's program."""
    spec = row.broker
    if broker is not None:
        spec = msgspec.structs.replace(broker, persistent=spec.persistent, mqsc=spec.mqsc)
    return Program(
        format=FORMAT,
        broker=spec,
        hosts=[HostSpec("b", "broker"), HostSpec("p0", "client"), HostSpec("c0", "client")],
        links=[],
        destinations=DESTINATIONS[
            : 5 if MINE in row.steps else 4 if row.look is told else 2 if NEWS in row.steps else 1
        ],
        steps=[*row.steps, Take(deadline_ms=WAIT_MS), Take(deadline_ms=2000)],
    )


def measured(adapter: Adapter, broker: BrokerSpec | None = None) -> dict[str, str]:
    """Row -> what became of it; "" is not offered."""
    words: dict[str, str] = {}
    plan = []
    for row in ROWS:
        if row in QUEUE_MANAGERS and broker is None:
            words[row.asks] = ""
            continue
        drawn = program(row, broker)
        wanted = adapter.cast(drawn)
        asked = msgspec.structs.replace(drawn, steps=[_unhurried(step) for step in drawn.steps])
        lost = [_unhurried(step) for step in wanted.steps] != asked.steps or "delay" not in adapter.capabilities()
        if lost or adapter.refusal(wanted):
            words[row.asks] = ""
        else:
            plan.append((row.asks, wanted))
    looks = {row.asks: row.look for row in ROWS}
    for result in run_all(adapter, plan, ()):
        fit = result.history is not None and not result.problem and not result.not_run
        words[result.name] = (
            looks[result.name](result.history) if fit else f"not run: {result.problem or result.not_run}"
        )
    return words


def _unhurried(step: AnyStep) -> AnyStep:
    """A step without what says nothing of a delay: windows, and who counts a life."""
    if isinstance(step, Subscribe):
        return msgspec.structs.replace(step, prefetch=0)
    if isinstance(step, Send):
        return msgspec.structs.replace(step, ttl_ms=step.ttl_ms or step.life_ms, life_ms=0)
    return step


def adapter_of(name: str) -> Adapter:
    """A system by its name; Broker-J, whose delay is an annotation, by Qpid's JMS client, which writes it; RabbitMQ by
    AMQP 0-9-1 where there is its plug-in.
    """
    if name == "rabbitmq" and (plugins := os.environ.get("RABBITMQ_DELAYED")):
        return _rabbitmq(plugins)
    if name != "broker-j":
        return make_adapter(name)
    profile = read_profile(HERE / "broker-j.toml").profile
    jms = JmsAt(
        classpath=["maven:org.apache.qpid:qpid-jms-client:2.10.0"],
        factory="org.apache.qpid.jms.JmsConnectionFactory",
        uri="amqp://127.0.0.1:{port.amqp}?jms.prefetchPolicy.all=0",
        facade="context",
        individual=101,
        expiry_check=True,
    )
    offers = Promises(profiles=["core"], capabilities=["delay", "groups", "persistent", "transactions", "ttl"])
    told = msgspec.structs.replace(profile, endpoints=Endpoints(jms=jms), promises=offers, counters=None)
    return ProfileAdapter(Located(told, "broker-j over JMS", HERE))


def _rabbitmq(plugins: str) -> Adapter:
    profile = read_profile(HERE / "rabbitmq-amqp091.toml").profile
    assert profile.start is not None
    replace = msgspec.structs.replace
    words = replace(profile.names.amqp091, headers={"delay": "x-delay"})
    told = replace(
        profile,
        name="rabbitmq",
        start=replace(profile.start, env={"RABBITMQ_DELAYED": plugins}),
        names=replace(profile.names, amqp091=words),
        promises=replace(profile.promises, capabilities=[*(profile.promises.capabilities or ()), "delay"]),
    )
    return ProfileAdapter(Located(told, "RabbitMQ with its delayed exchange", HERE))


def table(columns: dict[str, dict[str, str]]) -> str:
    """The table as Markdown: what it does, and whether that is what IBM MQ's document says."""
    lines = ["| a message with a delay | IBM MQ, by its text | " + " | ".join(columns) + " |"]
    lines.append("|---|---|" + "---|" * len(columns))
    for row in ROWS:
        cells = []
        for words in columns.values():
            word = words[row.asks]
            cells.append("not offered" if not word else "same" if word == row.text else f"different: {word}")
        lines.append(f"| {row.asks} | {row.text} ({row.sentence}) | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> int:
    """Measure and print; 1 if the reference broker is not as the document says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--broker", action="append", choices=BROKERS, help="these systems only (default all)")
    options = parser.parse_args()
    wanted = options.broker or list(BROKERS)
    columns: dict[str, dict[str, str]] = {}
    if "reference" in wanted:
        columns["reference as IBM MQ"] = measured(make_adapter("reference"), MQ)
    for name in wanted:
        try:
            adapter = adapter_of(name)
            more = ", delayed exchange" if name == "rabbitmq" and "delay" in adapter.capabilities() else ""
            columns[f"{adapter.label or name}{more}"] = measured(adapter)
        except (ToolFailed, ToolMissing) as error:
            columns[name] = dict.fromkeys((row.asks for row in ROWS), f"not run: {error}".splitlines()[0])
    sys.stdout.write(table(columns) + "\n")
    ours = columns.get("reference as IBM MQ", {})
    return int(any(ours[row.asks] != row.text for row in ROWS if ours))


if __name__ == "__main__":
    sys.exit(main())
