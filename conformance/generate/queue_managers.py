"""A drawn program turned into one for a queue manager (generation ``ibm-mq``): drawn objects, and commands between its
steps. One function for the generator to call; each command is undone at the end, so that what was held up can come.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from brokerproof.conformance.experiment.steps import Operate, Probe

if TYPE_CHECKING:
    from brokerproof.conformance.experiment.chooser import Chooser
    from brokerproof.conformance.experiment.program import Program
    from brokerproof.conformance.experiment.steps import AnyStep

STAGING: Final = "SYSTEM.DDELAY.LOCAL.QUEUE"
#: (command, what undoes it); {q} is a queue of the program.
SWITCHES: Final = (
    ("STOP DELAYPROC", "START DELAYPROC"),
    ("ALTER QLOCAL('{q}') PUT(DISABLED)", "ALTER QLOCAL('{q}') PUT(ENABLED)"),
    (f"ALTER QLOCAL({STAGING}) PUT(DISABLED)", f"ALTER QLOCAL({STAGING}) PUT(ENABLED)"),
    (f"ALTER QLOCAL({STAGING}) GET(DISABLED)", f"ALTER QLOCAL({STAGING}) GET(ENABLED)"),
    ("ALTER QLOCAL('{q}') MAXDEPTH(1)", "ALTER QLOCAL('{q}') MAXDEPTH(5000)"),
    ("ALTER QMGR CMDLEVEL(750)", "ALTER QMGR CMDLEVEL(800)"),
)
DEPTHS: Final = (5000, 10, 3, 1)


def with_queue_manager(chooser: Chooser, program: Program) -> Program:
    """The program on a queue manager: staging queue's depth, topics, dead-letter queue, and up to three switches."""
    queues = [dest.name for dest in program.destinations if dest.kind == "queue"]
    mqsc = [f"ALTER QLOCAL({STAGING}) MAXDEPTH({DEPTHS[chooser.below(len(DEPTHS))]})"]
    if chooser.flag(50) and all(entry.dead_letter is None for entry in program.broker.policies):
        mqsc.append("ALTER QMGR DEADQ('ActiveMQ.DLQ')")
    topics = [dest.name for dest in program.destinations if dest.kind == "topic" and chooser.flag(75)]
    mqsc += [f"DEFINE TOPIC('{name}') PMSGDLV(ALLAVAIL)" for name in topics]
    probed = any(isinstance(step, Probe) for step in program.steps)  # a raw peer that may not send is hung up on
    if queues and not probed and chooser.flag(10):
        mqsc += [f"SET AUTHREC PROFILE('{name}') PRINCIPAL('nobody') AUTHADD(PUT, GET, BROWSE)" for name in queues[:1]]
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
    return msgspec.structs.replace(program, broker=broker, steps=steps)
