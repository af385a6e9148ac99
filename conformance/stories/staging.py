"""Document 004 as its own queue manager has it: the staging queue, its processor, and targets that take nothing.

``generation.delay = "ibm-mq"``; only the reference broker has it. Commands are MQSC (docs/ibm-mq.md).
"""

from __future__ import annotations

from brokerproof.conformance.experiment.configuration import BrokerSpec
from brokerproof.conformance.experiment.program import Program
from brokerproof.conformance.experiment.steps import AnyStep
from brokerproof.conformance.experiment.steps.consume import Ack, Subscribe, Take
from brokerproof.conformance.experiment.steps.operation import Operate
from brokerproof.conformance.experiment.steps.send import Send
from brokerproof.conformance.experiment.steps.waiting import Advance, Settle
from brokerproof.conformance.stories.delays import DELAY, LONG
from brokerproof.conformance.stories.story import SECOND, Expects, Half, Story, client, plot

#: Dead letters go where the drain looks for them.
DEAD_LETTERS = "ALTER QMGR DEADQ('ActiveMQ.DLQ')"
STAGING = "SYSTEM.DDELAY.LOCAL.QUEUE"
ZOS = ("ALTER QMGR PLATFORM(MVS)", f"DEFINE QLOCAL({STAGING}) INDXTYPE(NONE) MSGDLVSQ(FIFO)")
TAKEN: Expects = {"taken": 1, "dead": 0}
DEAD: Expects = {"taken": 0, "dead": 1}


def mqsc(*commands: str) -> list[AnyStep]:
    """An operator's commands."""
    return [Operate(op="mqsc", command=command) for command in commands]


def staged(
    *before_due: AnyStep,
    late: tuple[AnyStep, ...] = (),
    ttl: int = 0,
    defined: tuple[str, ...] = (),
) -> Program:
    """A delayed message; what happens while it waits, and after it was due. Its consumer comes with it, or, if the
    target is ``defined``, at the end.
    """
    come: list[AnyStep] = [Subscribe(host=1, prefetch=10)]
    first = Send(delay_ms=DELAY, ttl_ms=ttl)
    steps: list[AnyStep] = [first, *before_due, Advance(ms=DELAY + 5 * SECOND), *late]
    taken: list[AnyStep] = [Take(deadline_ms=LONG, count=2), Ack(upto=1), Settle()]
    broker = BrokerSpec(generation={"delay": "ibm-mq"}, mqsc=[DEAD_LETTERS, *defined])
    hosts = (client("p0", 0, "jms"), client("c0", 0, "jms"))
    return plot([] if defined else come, steps, come if defined else [], taken, hosts=hosts, broker=broker)


def _processor() -> list[Story]:
    """The staging queue and who works on it."""
    stop, start = mqsc("STOP DELAYPROC"), mqsc("START DELAYPROC")
    put = [f"ALTER QLOCAL({STAGING}) PUT({how})" for how in ("DISABLED", "ENABLED")]
    return [
        Story(
            "004-staging-queue",
            "delayed messages are on the staging queue: on z/OS its PUT(DISABLED) stops the processor, and none comes",
            "clocks",
            Half(staged(*mqsc(put[0]), defined=ZOS), {"taken": 0}),
            Half(staged(*mqsc(put[0]), late=(*mqsc(put[1]),), defined=ZOS), {**TAKEN, "DLY-001": "satisfied"}),
            "PUT(ENABLED) on the staging queue again",
            "what was due meanwhile comes late",
            "mq-stays-stopped",
        ),
        Story(
            "004-processor-stopped",
            "the delivery delay processor is stopped: what is due stays; it is started: it comes, late",
            "clocks",
            Half(staged(*stop), {"taken": 0}),
            Half(
                staged(*stop, late=(*start,)),
                {**TAKEN, "waited-ms": (DELAY + 4 * SECOND, DELAY + LONG), "DLY-042": "satisfied"},
            ),
            "START DELAYPROC",
            "what was due meanwhile comes late",
            "mq-stop-ignored",
        ),
        Story(
            "004-cancelled",
            "a delay was too long by mistake: the message is taken off the staging queue, and never comes",
            "clocks",
            Half(staged(*mqsc("DELETE STAGED(1)")), {"taken": 0, "gone": 1, "DLY-038": "satisfied"}),
            Half(staged(), TAKEN),
            "leave it there",
            "it comes when its delay is over",
            "mq-cancel-ignored",
        ),
        Story(
            "004-expiry-error",
            "20 s of delay and 5 s to live: the queue manager refuses the send (MQRC_EXPIRY_ERROR)",
            "clocks",
            Half(staged(ttl=5 * SECOND), {"refused": 1, "taken": 0, "DLY-016": "satisfied"}),
            Half(staged(ttl=60 * SECOND), {"refused": 0, **TAKEN}),
            "a time to live that includes the delay",
            "none",
            "delay=jms",
        ),
    ]


def _targets() -> list[Story]:
    """A target that cannot take the message when its delay is over."""
    shut, opened = (mqsc(f"ALTER QLOCAL('q0') PUT({how})") for how in ("DISABLED", "ENABLED"))
    return [
        Story(
            "004-target-inhibited",
            "the target is put-inhibited when the delay is over: a dead letter, with the reason",
            "clocks",
            Half(staged(*shut), {**DEAD, "DLY-043": "satisfied", "DLY-051": "satisfied"}),
            Half(staged(*shut, *opened), TAKEN),
            "PUT(ENABLED) before the delay is over",
            "none",
            "mq-put-attribute-ignored",
        ),
        Story(
            "004-target-full",
            "the target has become full when the delay is over: a dead letter, with the reason",
            "clocks",
            Half(staged(Send(), defined=("DEFINE QLOCAL('q0') MAXDEPTH(1)",)), {"taken": 1, "dead": 1}),
            Half(staged(Send(), defined=("DEFINE QLOCAL('q0') MAXDEPTH(2)",)), {"taken": 2, "dead": 0}),
            "a MAXDEPTH for what is on its way as well",
            "more storage",
            "delay=jms",
        ),
    ]


def stories() -> list[Story]:
    """Of document 004, on a queue manager."""
    return [*_processor(), *_targets()]
