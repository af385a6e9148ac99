"""Document 002: consumers that starve because other queues hold the broker's memory.

Queue A has ten messages that are in the store only: they were there before the broker was started. Queues B then fill
256 KiB of memory, to the mark of 70 % (90 messages of a kibibyte, charged twice that). A real cursor stops a message or
two below the mark while they are sent; a consumer of B that only passes by lets it read the rest, a page at a time.
What happens depends on the rules of memory, so the stories ask for those of the text (G1, ActiveMQ 5.9 to 5.14) and say
what others do.
"""

from __future__ import annotations

import msgspec

from brokerproof.conformance.experiment.configuration import BrokerSpec, HostSpec, PolicySpec
from brokerproof.conformance.experiment.destinations import queues
from brokerproof.conformance.experiment.program import Program
from brokerproof.conformance.experiment.steps import AnyStep
from brokerproof.conformance.experiment.steps.consume import Ack, Leave, Subscribe, Take
from brokerproof.conformance.experiment.steps.operation import Operate, Restart
from brokerproof.conformance.experiment.steps.send import Send
from brokerproof.conformance.experiment.steps.waiting import Settle
from brokerproof.conformance.stories.story import VAIN, Expects, Half, Story, client, plot

LIMIT = 256 * 1024
BODY = 1024
FEW = 10
#: What the mark admits, and more than the whole memory holds.
MARK, FULL = 90, 150
OWN = 64 * 1024
#: Of a queue with a limit of its own a whole page may be more than that.
PAGE, OWN_PAGE = 200, 20
#: Fills memory to the brim, whatever the rules: nobody stops at a mark of his own.
BRIM = PolicySpec("q1", 0, high_water_percent=100, producer_flow_control=False)
A, B = 0, 1
#: A queue that has starved sleeps on until something happens to it, also when there is memory again.
WAKE: list[AnyStep] = [Send(dest=A, size=BODY), Settle()]


def broker(*policies: PolicySpec, memory: str = "G1") -> BrokerSpec:
    """Little memory, no sweep, a store."""
    entries = [PolicySpec(">", 0, max_page_size=PAGE), *policies]
    return BrokerSpec(generation={"memory": memory}, memory_limit_bytes=LIMIT, policies=entries, persistent=True)


def starving(
    spec: BrokerSpec | None = None,
    remedy: list[AnyStep] | None = None,
    *,
    hungry: int = 1,
    waiting: int = 1,
    hoarders: tuple[int, ...] = (MARK,),
) -> Program:
    """``waiting`` queues with a few stored messages each and ``hungry`` consumers each; others have a backlog each and
    nobody but a consumer who passes by. What helps, or not, happens before the consumers ask (again).
    """
    names = [f"q{number}" for number in range(waiting + len(hoarders))]
    few: list[AnyStep] = [Send(dest=dest, size=BODY, count=FEW) for dest in range(waiting)]
    many: list[AnyStep] = [Send(dest=waiting + n, size=BODY, count=count) for n, count in enumerate(hoarders)]
    passing: list[AnyStep] = [
        step
        for n in range(len(hoarders))
        for step in (Subscribe(host=0, dest=waiting + n, prefetch=1, ack="client"), Settle(), Leave(host=0), Settle())
    ]
    eaters = [client(f"c{number}") for number in range(hungry * waiting)]
    come: list[AnyStep] = [
        Subscribe(host=1 + number, dest=number % waiting, prefetch=FEW, ack="individual")
        for number in range(len(eaters))
    ]
    ask: list[AnyStep] = []
    for number in range(len(eaters)):
        ask += [Take(host=number, deadline_ms=VAIN, count=FEW), *(Ack(host=number) for _ in range(FEW)), Settle()]
    hosts: tuple[HostSpec, ...] = (client("p0"), *eaters)
    steps = [*few, Restart(), *many, Settle(), *passing, *come, Settle(), *(remedy or []), *ask]
    return plot(steps, hosts=hosts, broker=spec or broker(), dests=queues(*names))


def restarted(program: Program) -> Program:
    """The same, with a restart before anybody comes."""
    come = next(place for place, step in enumerate(program.steps) if isinstance(step, Subscribe) and step.host)
    return program.with_steps([*program.steps[:come], Restart(), *program.steps[come:]])


def _drained_b() -> Program:
    """Somebody consumes from B."""
    sick = starving()
    helper = [
        Subscribe(host=2, dest=B, prefetch=MARK),
        Take(host=1, deadline_ms=VAIN, count=MARK),
        Ack(host=1, upto=MARK - 1),
        *WAKE,
    ]
    at = next(place for place, step in enumerate(sick.steps) if isinstance(step, Take))
    hosts = [*sick.hosts, client("c1")]
    return msgspec.structs.replace(sick, hosts=hosts, steps=[*sick.steps[:at], *helper, *sick.steps[at:]])


def _slow(*policies: PolicySpec, memory: str = "G1") -> Program:
    """B has a consumer, which takes one in three seconds out of a large window; A a fast one."""
    steps: list[AnyStep] = [
        Send(dest=B, size=BODY, count=FULL),
        Subscribe(host=2, dest=B, prefetch=1000, ack="individual"),
        Subscribe(host=1, dest=A, prefetch=FEW),
        Settle(),
    ]
    for _ in range(3):
        steps += [
            Send(dest=A, size=BODY),
            Take(host=0, deadline_ms=VAIN),
            Ack(host=0),
            Take(host=1),
            Ack(host=1),
            Settle(),
        ]
    hosts = (client("p0"), client("c0"), client("c1"))
    return plot(steps, hosts=hosts, broker=broker(*policies, memory=memory), dests=queues("q0", "q1"))


STARVED: Expects = {
    "taken:q0": {"memory=G1": 0, "": FEW},
    "percent:q0": {"memory=G1": 0, "": (0, 10)},
    "percent": {"memory=G1": (69, 71), "": (60, 105)},
    "MEM-001": {"memory=G1": "violated", "": "satisfied"},
}
SERVED: Expects = {"taken:q0": FEW, "MEM-001": "satisfied"}
#: It had starved before the remedy.
RELIEVED: Expects = {"taken:q0": FEW, "MEM-001": {"memory=G1": "violated", "": "satisfied"}}
IN_VAIN: Expects = {
    "taken:q0": {"memory=G1": 0, "": (1, FEW)},
    "INF-013": {"memory=G1": "", "memory=G3": "", "": "satisfied"},
}
#: Of releases that stop at no mark.
FILLED: Expects = {
    "taken:q0": {"memory=G3": (0, 3)},
    "percent:q0": {"memory=G3": (0, 1)},
    "percent": {"memory=G3": (97, 101)},
}
SLOW = PolicySpec("q1", 0, max_page_size=OWN_PAGE, memory_limit_bytes=OWN)


def _starving() -> list[Story]:
    """Who starves."""
    return [
        Story(
            "002-starved",
            "queue A has messages and a consumer, and 0 % of memory; queue B has nobody, and 70 %",
            "memory",
            Half(starving(), STARVED),
            Half(
                starving(broker(PolicySpec("q1", 0, max_page_size=OWN_PAGE, memory_limit_bytes=OWN))),
                {**SERVED, "percent": (0, 69)},
            ),
            "a memoryLimit of its own for each destination that may build up a backlog",
            "a backlog beyond its limit is read from the store again: slower",
            "memory=fair",
        ),
        Story(
            "002-several-consumers",
            "several consumers of queue A: all of them starve",
            "memory",
            Half(starving(hungry=2), STARVED),
            Half(_drained_b(), RELIEVED),
            "consume from the queue that holds the memory",
            "somebody must be able to do something with its messages",
            "memory=fair",
        ),
        Story(
            "002-other-destinations",
            "two queues whose messages are in the store only: the consumers of both starve",
            "memory",
            Half(starving(waiting=2), {**STARVED, "taken:q1": {"memory=G1": 0, "": FEW}}),
            Half(
                starving(waiting=2, remedy=[Operate(op="purge", dest=2), *WAKE, Send(dest=1, size=BODY), Settle()]),
                {**RELIEVED, "taken:q1": FEW},
            ),
            "purge the queue that holds the memory",
            "its messages are lost",
            "memory-purge-wakes-nobody",
        ),
        Story(
            "002-adding-up",
            "five backlogs of which none is large: together they hold 70 %",
            "memory",
            Half(starving(hoarders=(MARK // 5,) * 5), STARVED),
            Half(restarted(starving(hoarders=(MARK // 5,) * 5)), SERVED),
            "restart the broker: memory is empty until somebody asks",
            "everybody is disconnected; it comes back with the next backlog",
            "memory=fair",
        ),
    ]


def _helping() -> list[Story]:
    """What helps, and what does not."""
    return [
        Story(
            "002-more-memory",
            "memory is given to the broker while it runs",
            "memory",
            Half(starving(), STARVED),
            Half(starving(remedy=[Operate(op="limit", limit_bytes=4 * LIMIT), *WAKE]), RELIEVED),
            "a higher memoryUsage, and a message to the starved queue to wake it",
            "the backlogs fill that as well, with more messages",
            "memory=fair",
        ),
        Story(
            "002-wrong-queue-purged",
            "purging the starved queue, as the text says by a slip, frees nothing: B must be purged",
            "memory",
            Half(starving(remedy=[Operate(op="purge", dest=A), *WAKE]), IN_VAIN),
            Half(starving(remedy=[Operate(op="purge", dest=B), *WAKE]), RELIEVED),
            "purge the queue that holds the memory, not the one that starves",
            "its messages are lost",
            "memory=fair",
        ),
        Story(
            "002-slow-neighbour",
            "a slow consumer with a backlog elsewhere: a fast one is slowed down to its speed",
            "memory",
            Half(_slow(), {"taken:q0": {"memory=G1": (0, 2), "": 3}}),
            Half(_slow(SLOW), {"taken:q0": 3}),
            "a memoryLimit for destinations with slow consumers and a backlog",
            "a backlog beyond its limit is read from the store again: slower",
            "memory=fair",
        ),
        Story(
            "002-to-the-brim",
            "from 5.15 on it takes a backlog that fills all of memory: then nobody else is served either",
            "memory",
            Half(starving(broker(BRIM, memory="G3"), hoarders=(FULL,)), FILLED),
            Half(
                starving(
                    broker(
                        PolicySpec(
                            "q1", 0, max_page_size=OWN_PAGE, memory_limit_bytes=OWN, producer_flow_control=False
                        ),
                        memory="G3",
                    ),
                    hoarders=(FULL,),
                ),
                SERVED,
            ),
            "a memoryLimit of its own for each destination that may build up a backlog",
            "a backlog beyond its limit is read from the store again: slower",
            "memory=fair",
            beyond=True,
        ),
        Story(
            "002-rules-of-memory",
            "the same backlogs under the rules of the text and under rules that keep room for everybody",
            "memory",
            Half(starving(), STARVED),
            Half(starving(broker(memory="fair")), _only("fair")),
            "rules of memory that keep room for a message of each consumer (the reference broker's default)",
            "memory may be exceeded by a message for each consumer",
            "memory-starves",
        ),
    ]


def _rules() -> list[Story]:
    """G0 to G3 side by side: the rules of the text against those before and after it, on the same backlog."""
    told = (
        ("G0", "to 5.8", "memory-starves"),
        ("G2", "5.15.0 to 5.15.8", "memory=G1"),
        ("G3", "from 5.15.9 on", "memory=G1"),
    )
    return [
        Story(
            f"002-rules-{name.lower()}",
            f"the same backlog under the rules of the text (G1, ActiveMQ 5.9 to 5.14) and under {name} ({when})",
            "memory",
            Half(starving(), STARVED),
            Half(starving(broker(memory=name)), _only(name)),
            f"a release with the rules {name}",
            "none here; a backlog that fills all of memory starves them under G2 and G3, too (002-to-the-brim)",
            breaks,
            beyond=True,
        )
        for name, when, breaks in told
    ]


def _only(name: str) -> Expects:
    """Everybody is served, which only a broker of these rules can show."""
    return {what: {f"memory={name}": value} for what, value in SERVED.items()}


def stories() -> list[Story]:
    """Of document 002."""
    return [*_starving(), *_helping(), *_rules()]
