"""A drawn program turned into one for a queue manager (generation ``ibm-mq``): drawn objects, and commands between its
steps. One function for the generator to call; each command is undone at the end, so that what was held up can come.
"""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING, Final

import msgspec

from brokerproof.conformance.experiment.destinations import Destination
from brokerproof.conformance.experiment.steps import Advance, Operate, Probe, Send, Settle, Subscribe
from brokerproof.conformance.experiment.steps.parallel import mapped
from brokerproof.conformance.generate.frame import one_of
from brokerproof.conformance.generate.operators import STAGING, with_operator

if TYPE_CHECKING:
    from brokerproof.conformance.experiment.chooser import Chooser
    from brokerproof.conformance.experiment.program import Program
    from brokerproof.conformance.experiment.steps import AnyStep

#: (command, what undoes it); {q} is a queue of the program.
SWITCHES: Final = (
    ("STOP DELAYPROC", "START DELAYPROC"),
    ("ALTER QLOCAL('{q}') PUT(DISABLED)", "ALTER QLOCAL('{q}') PUT(ENABLED)"),
    (f"ALTER QLOCAL({STAGING}) PUT(DISABLED)", f"ALTER QLOCAL({STAGING}) PUT(ENABLED)"),
    (f"ALTER QLOCAL({STAGING}) GET(DISABLED)", f"ALTER QLOCAL({STAGING}) GET(ENABLED)"),
    ("ALTER QLOCAL('{q}') MAXDEPTH(1)", "ALTER QLOCAL('{q}') MAXDEPTH(5000)"),
    ("ALTER QMGR CMDLEVEL(750)", "ALTER QMGR CMDLEVEL(800)"),
)
#: How many of 100 queue managers are too old for delays.
EARLY_PERCENT: Final = 10
DEPTHS: Final = (5000, 10, 3, 1)
#: What a message leaves to its queue's definition.
AS_DEFINED: Final = {"JMS_IBM_MQMD_Persistence": 2, "JMS_IBM_MQMD_Priority": -1}
#: What a sender asks for if its message cannot be put: MQRO_EXCEPTION, MQRO_DISCARD_MSG.
EXCEPTION: Final = {"JMS_IBM_Report_Exception": 0x01000000}
DISCARD: Final = {"JMS_IBM_Report_Discard_Msg": 0x08000000}
REPORTS: Final[tuple[dict[str, int], ...]] = (EXCEPTION, EXCEPTION | DISCARD, DISCARD)
#: The same with data and with full data, and reports of other kinds.
MORE: Final[tuple[dict[str, int], ...]] = (
    {"JMS_IBM_Report_Exception": 0x03000000},
    {"JMS_IBM_Report_Exception": 0x07000000},
    {"JMS_IBM_Report_Exception": 0x07000000} | DISCARD,
    {"JMS_IBM_Report_COA": 0x100},
    {"JMS_IBM_Report_COA": 0x700, "JMS_IBM_Report_COD": 0x800},
    {"JMS_IBM_Report_COD": 0x3800},
    {"JMS_IBM_Report_Expiration": 0x00200000},
    {"JMS_IBM_Report_Expiration": 0x00E00000},
)
#: How a producer is called: each façade, each order.
CALLS: Final = tuple(
    f"{facade} {' '.join(order)}"
    for facade in ("classic", "simplified")
    for order in permutations(("delay", "life", "send"))
)
#: How long targets take nothing: short against a retry, or long.
PAUSES_MS: Final = (3000, 600_000, 500)
DEADQ: Final = "ActiveMQ.DLQ"
#: Who has authorities of his own, and which are given and taken away.
USERS: Final = ("alice", "bob")
GRANTED: Final = ("PUT", "PUT, GET", "GET, BROWSE", "NONE", "PUT, GET, BROWSE, PUB, SUB", "BROWSE, SUB")
#: The dead-letter queue and the queues of subscribers, which may take nothing as well.
FULL: Final = (
    (f"ALTER QLOCAL('{DEADQ}') PUT(DISABLED)", f"ALTER QLOCAL('{DEADQ}') PUT(ENABLED)"),
    (f"ALTER QLOCAL('{DEADQ}') MAXDEPTH(1)", f"ALTER QLOCAL('{DEADQ}') MAXDEPTH(5000)"),
    (
        "ALTER QLOCAL(SYSTEM.NDURABLE.MODEL.QUEUE) PUT(DISABLED)",
        "ALTER QLOCAL(SYSTEM.NDURABLE.MODEL.QUEUE) PUT(ENABLED)",
    ),
)


def with_queue_manager(chooser: Chooser, program: Program) -> Program:
    """The program on a queue manager: staging queue's depth, topics, dead-letter queue, and up to three switches."""
    queues = [dest.name for dest in program.destinations if dest.kind == "queue"]
    mqsc = [f"ALTER QLOCAL({STAGING}) MAXDEPTH({DEPTHS[chooser.below(len(DEPTHS))]})"]
    if chooser.flag(50) and all(entry.dead_letter is None for entry in program.broker.policies):
        mqsc.append(f"ALTER QMGR DEADQ('{DEADQ}')")
    topics = [dest.name for dest in program.destinations if dest.kind == "topic" and chooser.flag(75)]
    mqsc += [f"DEFINE TOPIC('{name}') PMSGDLV(ALLAVAIL)" for name in topics]
    probed = any(isinstance(step, Probe) for step in program.steps)  # a raw peer that may not send is hung up on
    if queues and not probed and chooser.flag(10):
        mqsc += [f"SET AUTHREC PROFILE('{name}') PRINCIPAL('nobody') AUTHADD(PUT, GET, BROWSE)" for name in queues[:1]]
    if chooser.flag(EARLY_PERCENT):
        mqsc.append("ALTER QMGR CMDLEVEL(750)")
    steps: list[AnyStep] = list(program.steps)
    for _ in range(chooser.below(4)):
        on, off = SWITCHES[chooser.below(len(SWITCHES))]
        if queues or "{q}" not in on:
            queue = queues[chooser.below(len(queues))] if queues else ""
            steps.insert(chooser.below(len(steps) + 1), Operate(op="mqsc", command=on.format(q=queue)))
            steps.append(Operate(op="mqsc", command=off.format(q=queue)))
    broker = msgspec.structs.replace(
        program.broker, generation={**program.broker.generation, "delay": "ibm-mq"}, mqsc=mqsc
    )
    program = msgspec.structs.replace(program, broker=broker, steps=steps)
    program = with_reports(chooser, program, queues) if queues and chooser.flag(50) else program
    plain = [name for name in queues if "." not in name]  # no dead letters, no queue of a virtual topic
    if plain and not probed and chooser.flag(10):
        return _with_alias(chooser, program, plain)
    program = with_operator(chooser, program) if not probed and chooser.flag(60) else program
    if queues and not probed and chooser.flag(15):
        return with_users(chooser, program, queues)
    return _with_cancelled(chooser, program, topics) if topics and not probed and chooser.flag(40) else program


def _with_cancelled(chooser: Chooser, program: Program, topics: list[str]) -> Program:
    """The program, and at its end an operator who takes off what was published, copy by copy, and looks."""
    names, clients = [dest.name for dest in program.destinations], len(program.clients())
    dest = names.index(one_of(chooser, topics))
    steps: list[AnyStep] = [Subscribe(host=chooser.below(clients), dest=dest) for _ in range(1 + chooser.below(2))]
    steps.append(Send(host=chooser.below(clients), dest=dest, delay_ms=60_000, count=1 + chooser.below(2)))
    taken: list[AnyStep] = [Operate(op="mqsc", command="DELETE STAGED(1)") for _ in range(1 + chooser.below(4))]
    look = Operate(op="mqsc", command="DISPLAY STAGED")
    return program.with_steps([*program.steps, Settle(), *steps, Settle(), look, *taken, Settle(), look, Settle()])


def with_users(chooser: Chooser, program: Program, queues: list[str]) -> Program:
    """The program with two users, each with authorities on some queue or on all, which an operator changes while
    messages wait; and, sometimes, somebody at the staging queue.
    """
    hosts = [
        msgspec.structs.replace(host, user=one_of(chooser, (*USERS, ""))) if host.role == "client" else host
        for host in program.hosts
    ]
    places = (*queues, "**")

    def record(user: str, verb: str, rights: str) -> str:
        return f"SET AUTHREC PROFILE('{one_of(chooser, places)}') PRINCIPAL('{user}') {verb}({rights})"

    told = [record(user, "AUTHADD", one_of(chooser, GRANTED)) for user in USERS if chooser.flag(80)]
    steps, dests = list(program.steps), list(program.destinations)
    for _ in range(chooser.below(4)):
        command = record(one_of(chooser, USERS), one_of(chooser, ("AUTHRMV", "AUTHADD")), one_of(chooser, GRANTED))
        steps.insert(chooser.below(len(steps) + 1), Operate(op="mqsc", command=command))
    if chooser.flag(40) and all(dest.name != STAGING for dest in dests):
        dests.append(Destination(STAGING, "queue"))
        for _ in range(1 + chooser.below(3)):
            host, last = chooser.below(len(program.clients())), len(dests) - 1
            ways: tuple[AnyStep, ...] = (
                Send(host=host, dest=last),
                Subscribe(host=host, dest=last, prefetch=10),
                Subscribe(host=host, dest=last, browser=True),
                Send(host=host, dest=last, delay_ms=400),
            )
            steps.insert(chooser.below(len(steps) + 1), one_of(chooser, ways))
    broker = msgspec.structs.replace(program.broker, mqsc=[*program.broker.mqsc, *told])
    return msgspec.structs.replace(program, hosts=hosts, broker=broker, destinations=dests, steps=steps)


def _with_alias(chooser: Chooser, program: Program, queues: list[str]) -> Program:
    """A queue's name is another one's, from the start or from some time on, and half of the messages leave to its
    definition what they could say. Little else can be judged then.
    """

    def leaving(step: AnyStep) -> AnyStep:
        if not isinstance(step, Send) or chooser.flag(50):
            return step
        return msgspec.structs.replace(step, headers=step.headers | AS_DEFINED, persistent=False)

    name, target = one_of(chooser, tuple(queues)), one_of(chooser, tuple(queues))
    kind, leads = ("QLOCAL", "") if name == target else ("QALIAS", f" TARGET('{target}')")
    first, then = (f"DEFPSIST({psist}) DEFPRTY({prty})" for psist, prty in (("YES", 7), ("NO", 2)))
    steps: list[AnyStep] = [mapped(step, leaving) for step in program.steps]
    half = len(steps) // 2
    steps[half:half] = [Operate(op="mqsc", command=f"ALTER {kind}('{name}'){leads} {then}")]
    broker = program.broker
    mqsc = [*broker.mqsc, f"DEFINE {kind}('{name}'){leads or ' MAXDEPTH(5000)'} {first}"]
    return msgspec.structs.replace(program, broker=msgspec.structs.replace(broker, mqsc=mqsc), steps=steps)


def with_reports(chooser: Chooser, program: Program, queues: list[str]) -> Program:
    """Half of the messages with a delay ask for reports, and while they wait their target takes nothing; nor do,
    sometimes, the dead-letter queue and the queues of subscribers. More are sent for that, by somebody who looks at his
    reports or not.
    """

    def asking(step: AnyStep) -> AnyStep:
        if not isinstance(step, Send) or not step.delay_ms or step.group or chooser.flag(50):
            return step
        headers = step.headers | REPORTS[chooser.below(len(REPORTS))]
        reply = step.reply or chooser.flag(50)
        return msgspec.structs.replace(step, headers=headers, reply=reply, persistent=not chooser.flag(40))

    steps: list[AnyStep] = [mapped(step, asking) for step in program.steps]
    broker, own = program.broker, any(entry.dead_letter is not None for entry in program.broker.policies)
    if not own and not any("DEADQ" in command for command in broker.mqsc) and chooser.flag(60):
        broker = msgspec.structs.replace(broker, mqsc=[*broker.mqsc, f"ALTER QMGR DEADQ('{DEADQ}')"])
    sends = [place for place, step in enumerate(steps) if isinstance(step, Send) and step.delay_ms]
    place = sends[chooser.below(len(sends))] + 1 if sends else len(steps)
    queue = queues[chooser.below(len(queues))]
    shut, opened = _shut(chooser, program, queue)
    steps[place:place] = [*_sent(chooser, program, queue), *shut]
    steps += [Advance(ms=PAUSES_MS[chooser.below(len(PAUSES_MS))]), *opened]
    return _looking(chooser, msgspec.structs.replace(program, broker=broker, steps=steps))


def _shut(chooser: Chooser, program: Program, queue: str) -> tuple[list[AnyStep], list[AnyStep]]:
    """Commands after which a queue takes nothing, nor do others, and what undoes them."""
    topics = any(dest.kind == "topic" for dest in program.destinations)
    pairs = [SWITCHES[1], *(pair for pair in FULL if chooser.flag(70 if topics and "MODEL" in pair[0] else 40))]
    shut: list[AnyStep] = [Operate(op="mqsc", command=on.format(q=queue)) for on, _ in pairs]
    return shut, [Operate(op="mqsc", command=off.format(q=queue)) for _, off in pairs]


def _sent(chooser: Chooser, program: Program, queue: str) -> list[AnyStep]:
    """A few messages to a queue, due soon."""
    places = [place for place, dest in enumerate(program.destinations) if dest.name == queue]
    sent: list[AnyStep] = []
    for _ in range(chooser.below(4)):
        headers: dict[str, bool | int | float | str] = dict(one_of(chooser, ({}, *REPORTS, *REPORTS, *MORE)))
        host, reply, persistent = chooser.below(len(program.clients())), chooser.flag(60), chooser.flag(60)
        ttl_ms, calls = 0, ""
        if program.clients()[host].via == "jms" and chooser.flag(40):
            ttl_ms, calls = one_of(chooser, (600_000, 399, 400)), one_of(chooser, CALLS)
        send = Send(host=host, dest=places[0], delay_ms=400, headers=headers, reply=reply, persistent=persistent)
        sent.append(msgspec.structs.replace(send, ttl_ms=ttl_ms, calls=calls))
    return sent


def _looking(chooser: Chooser, program: Program) -> Program:
    """The program with a consumer of a temporary queue, where reports may come; its destination is the last one."""
    host = chooser.below(len(program.clients()))
    name = program.clients()[host].name
    if any(dest.host == name for dest in program.destinations) or not chooser.flag(60):
        return program
    dests = [*program.destinations, Destination(f"~{name}", "temporary", host=name)]
    looks = Subscribe(host=host, dest=len(dests) - 1, prefetch=10)
    return msgspec.structs.replace(program, destinations=dests, steps=[looks, *program.steps])
