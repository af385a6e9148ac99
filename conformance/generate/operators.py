"""What the operator of a queue manager says: commands drawn from MQSC, right and wrong ones, about the staging queue,
a program's own queues and topics, and objects that nobody uses; and what senders ask that cannot be delayed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from brokerproof.conformance.experiment.destinations import Destination
from brokerproof.conformance.experiment.steps import Advance, Operate, Send
from brokerproof.conformance.experiment.steps.parallel import mapped
from brokerproof.conformance.generate.frame import one_of

if TYPE_CHECKING:
    from brokerproof.conformance.experiment.chooser import Chooser
    from brokerproof.conformance.experiment.program import Program
    from brokerproof.conformance.experiment.steps import AnyStep

STAGING: Final = "SYSTEM.DDELAY.LOCAL.QUEUE"
#: Values of attributes, right and wrong; a word that no kind has.
VALUES: Final = {
    "PUT": ("DISABLED", "enabled", "ENABLED", "OFF"),
    "GET": ("DISABLED", "ENABLED", "0"),
    "DEFPSIST": ("YES", "NO", "DEF"),
    "DEFPRTY": ("4", "9", "high"),
    "DEFBIND": ("OPEN", "NOTFIXED", "GROUP", "FIXED"),
    "CLUSTER": ("'C'", "''"),
    "CAPEXPRY": ("NOLIMIT", "600", "0", "-1", "soon"),
    "MAXDEPTH": ("0", "999999999", "1000000000", "5 0", "NOLIMIT"),
    "MAXMSGL": ("0", "100", "1.5", ""),
    "INDXTYPE": ("NONE", "CORRELID", "GROUP"),
    "MSGDLVSQ": ("FIFO", "PRIORITY", "LIFO"),
    "STGCLASS": ("'fast'", "DEFAULT"),
    "TARGET": ("aside", "'aside'", "TWIN", ""),
    "TOPICSTR": ("'aside/#'", "ASIDE"),
    "PMSGDLV": ("ALLAVAIL", "ALL", "ALLDUR", "NONE"),
    "NPMSGDLV": ("ALLAVAIL", "ALL", "ALLDUR", "SOME"),
    "PUB": ("DISABLED", "ENABLED"),
    "COLOUR": ("RED",),
}
_BOTH: Final = ("PUT", "GET", "DEFPSIST", "DEFPRTY", "DEFBIND", "CLUSTER", "CAPEXPRY")
ATTRIBUTES: Final = {
    "QLOCAL": (*_BOTH, "MAXDEPTH", "MAXMSGL", "INDXTYPE", "MSGDLVSQ", "STGCLASS"),
    "QALIAS": (*_BOTH, "TARGET"),
    "TOPIC": ("TOPICSTR", "PMSGDLV", "NPMSGDLV", "CAPEXPRY", "PUB"),
}
#: Objects that no program uses; the last one is the first in other letters.
ASIDE: Final = ("'aside'", "ASIDE", "TWIN", "aside")
VERBS: Final = ("DEFINE", "ALTER", "DISPLAY", "DELETE", "DEF", "alter", "DIS", "REMOVE")
#: What stands alone, right and wrong.
ALONE: Final = (
    "DISPLAY QMGR",
    "DISPLAY STAGED",
    "DELETE STAGED(1)",
    "DELETE STAGED(2)",
    "DELETE STAGED(0)",
    "DISPLAY DELAYPROC",
    f"DISPLAY QLOCAL({STAGING})",
    "STOP DELAYPROC",
    "START DELAYPROC",
    "ALTER QMGR CMDLEVEL(900)",
    "ALTER QMGR CMDLEVEL(799)",
    "ALTER QMGR PLATFORM(WINDOWS) CMDLEVEL(800)",
    "ALTER QMGR PLATFORM(AIX)",
    "DEFINE QMGR",
    "ALTER",
    "DISPLAY QLOCAL",
    "START QLOCAL(ASIDE)",
    "ALTER QLOCAL(ASIDE) PUT",
    "ALTER QLOCAL(ASIDE) PUT(ENABLED",
    "ALTER (ASIDE)",
    "DEF QL('it''s') MAXDEPTH( 7 )",
    "DIS QL('it''s')",
    "DEF QA(ASIDE) TARGET(TWIN)",
    "DEF QA(TWIN) TARGET(ASIDE)",
    "SET AUTHREC PROFILE(ASIDE) PRINCIPAL('somebody') AUTHADD(PUT)",
    "SET AUTHREC PROFILE(ASIDE) PRINCIPAL('somebody') AUTHADD(READ)",
    "SET AUTHREC PROFILE(ASIDE) PRINCIPAL('somebody') AUTHRMV(PUT, WRITE)",
    "SET AUTHREC PROFILE(ASIDE) AUTHADD(PUT)",
    "SET AUTHREC PRINCIPAL('somebody') AUTHADD(NONE)",
)
#: What is done to the staging queue; z/OS has none until one is defined as it must be.
STAGES: Final = (
    f"ALTER QLOCAL({STAGING}) MAXDEPTH(1)",
    f"ALTER QLOCAL({STAGING}) MAXMSGL(320)",
    f"ALTER QLOCAL({STAGING}) MAXMSGL(319)",
    f"ALTER QLOCAL({STAGING}) GET(DISABLED)",
    f"ALTER QLOCAL({STAGING}) GET(ENABLED)",
    f"ALTER QLOCAL({STAGING}) PUT(DISABLED)",
    f"ALTER QLOCAL({STAGING}) PUT(ENABLED)",
    f"ALTER QLOCAL({STAGING}) INDXTYPE(MSGID)",
    "ALTER QMGR PLATFORM(MVS)",
    "ALTER QMGR PLATFORM(UNIX)",
    f"DEFINE QLOCAL({STAGING})",
    f"DEFINE QLOCAL({STAGING}) INDXTYPE(NONE) MSGDLVSQ(FIFO) STGCLASS(NODEFINE)",
    f"DEFINE QLOCAL({STAGING}) MSGDLVSQ(PRIORITY)",
    f"DEFINE QLOCAL({STAGING}) INDXTYPE(CORRELID)",
    f"DELETE QLOCAL({STAGING})",
)
#: What is done to the queues and topics of a program.
OWN: Final = {
    "queue": (
        "ALTER QLOCAL('{}') MAXMSGL(63)",
        "ALTER QLOCAL('{}') MAXMSGL(64)",
        "ALTER QLOCAL('{}') MAXDEPTH(0)",
        "ALTER QLOCAL('{}') MAXDEPTH(2)",
        "ALTER QLOCAL('{}') CLUSTER('C')",
        "ALTER QLOCAL('{}') CLUSTER('C') DEFBIND(NOTFIXED)",
        "ALTER QLOCAL('{}') DEFBIND(GROUP)",
    ),
    "topic": (
        "DEFINE TOPIC('{}') PMSGDLV(ALLAVAIL) NPMSGDLV(ALL)",
        "DEFINE TOPIC(ANY) TOPICSTR('{}') PMSGDLV(ALL)",
        "DEFINE TOPIC(SOME) TOPICSTR('{}') PMSGDLV(ALLAVAIL)",
        "ALTER TOPIC('{}') NPMSGDLV(ALLDUR)",
        "DELETE TOPIC('{}')",
    ),
}
#: What makes good again whatever was done above, so that what was held up can come.
REPAIRS: Final = (
    "ALTER QMGR PLATFORM(UNIX) CMDLEVEL(800)",
    f"ALTER QLOCAL({STAGING}) PUT(ENABLED) GET(ENABLED) MAXDEPTH(5000) MAXMSGL(4194304)",
    "START DELAYPROC",
)
RIGHTS: Final = ("PUT, GET, BROWSE", "ADMIN", "NONE", "PUT", "GET,PUB", "SUB, PUB", "BROWSE, SUB")
#: What cannot be delayed, and what can: MQMF_SEGMENT, MQMF_LAST_SEGMENT, the flag below them and that above.
REFUSED: Final[tuple[dict[str, int], ...]] = (
    {"JMS_IBM_Retain": 1},
    {"JMS_IBM_Retain": 0},
    {"JMS_IBM_MQMD_MsgFlags": 0x02},
    {"JMS_IBM_MQMD_MsgFlags": 0x10},
    {"JMS_IBM_MQMD_MsgFlags": 0x20},
)


def with_operator(chooser: Chooser, program: Program) -> Program:
    """The program with up to twelve more commands, two messages in ten that cannot be delayed, and sometimes a sender
    to the staging queue itself.
    """

    def asking(step: AnyStep) -> AnyStep:
        if not isinstance(step, Send) or not step.delay_ms or not chooser.flag(20):
            return step
        return msgspec.structs.replace(step, headers=step.headers | one_of(chooser, REFUSED))

    steps: list[AnyStep] = [mapped(step, asking) for step in program.steps]
    for _ in range(2 + chooser.below(5)):
        place = chooser.below(len(steps) + 1)
        steps[place:place] = [Operate(op="mqsc", command=text) for text in _said(chooser, program)]
    steps += [Operate(op="mqsc", command=text) for text in (*_undone(program), *REPAIRS)]
    dests = program.destinations
    if chooser.flag(12):
        dests = [*dests, Destination(STAGING, "queue")]
    mqsc = [*program.broker.mqsc, *(_granted(chooser, program) if chooser.flag(20) else ())]
    broker = msgspec.structs.replace(program.broker, mqsc=mqsc)
    return msgspec.structs.replace(program, broker=broker, destinations=dests, steps=[*steps, Advance(ms=5000)])


def _said(chooser: Chooser, program: Program) -> list[str]:
    """A few commands, and often a look at what has become of the objects."""
    dests = [dest for dest in program.destinations if dest.kind in OWN]
    said = []
    for _ in range(1 + chooser.below(3)):
        what = chooser.below(4 if dests else 3)
        if what == 0:
            said.append(one_of(chooser, STAGES))
        elif what == 1:
            said.append(one_of(chooser, ALONE))
        elif what == 2:
            said += _aside(chooser)
        else:
            dest = one_of(chooser, tuple(dests))
            said.append(one_of(chooser, OWN[dest.kind]).format(dest.name))
    return [*said, f"DISPLAY QLOCAL({STAGING})" if chooser.flag(50) else "DISPLAY DELAYPROC"]


def _aside(chooser: Chooser) -> list[str]:
    """A command about an object that nobody uses, and a look at it."""
    kind, name = one_of(chooser, tuple(ATTRIBUTES)), one_of(chooser, ASIDE)
    verb = one_of(chooser, VERBS[:2] if chooser.flag(60) else VERBS)
    words = [one_of(chooser, ATTRIBUTES[kind]) for _ in range(1 + chooser.below(2))]
    if chooser.flag(5):
        words.append("COLOUR")
    text = " ".join(f"{word}({one_of(chooser, VALUES[word])})" for word in words)
    target = " TARGET(BASE)" if kind == "QALIAS" and verb == "DEFINE" and chooser.flag(70) else ""
    return [f"{verb} {kind}({name}){target} {text}", f"DISPLAY {kind}({name})"]


def _granted(chooser: Chooser, program: Program) -> list[str]:
    """Everyone's rights on some destinations, or on all of them; one of them is perhaps taken away again."""
    names = [dest.name for dest in program.destinations if dest.kind in OWN]
    names = [name for name in ("**", "ActiveMQ.DLQ", *names) if chooser.flag(60)]
    said = [f"PROFILE('{name}') PRINCIPAL('nobody') AUTHADD({one_of(chooser, RIGHTS)})" for name in names]
    if names and chooser.flag(30):
        said.append(f"PROFILE('{names[-1]}') PRINCIPAL('nobody') AUTHADD(NONE) AUTHRMV({one_of(chooser, RIGHTS)})")
    return [f"SET AUTHREC {text}" for text in (*said, "PROFILE(ASIDE) PRINCIPAL('somebody') AUTHADD(PUT)")]


def _undone(program: Program) -> list[str]:
    names = [dest.name for dest in program.destinations if dest.kind == "queue"]
    return [f"ALTER QLOCAL('{name}') MAXDEPTH(5000) MAXMSGL(4194304) PUT(ENABLED)" for name in names]
