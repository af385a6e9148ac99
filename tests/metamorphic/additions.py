"""Additions that have nothing to do with a program: what it does, and what is judged of it, must stay as it is.

Rules
* Ordinals are taken modulo what exists and fits, so the steps of the plain program are first written down as they were
  normalised while it ran (``resolved``). What is added comes after the program's own in every list; then each of these
  steps means what it meant before. What was impossible, and so did nothing, is left out.
* An addition's own steps come first, when its host is the only one with a consumer or a transaction. Then time passes
  to a whole second, so that sweeps and milliseconds are where they were.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Literal

import msgspec

from brokerproof.conformance.experiment.configuration import (
    DeadLetterSpec,
    HostSpec,
    LinkSpec,
    PolicySpec,
    RedeliverySpec,
)
from brokerproof.conformance.experiment.destinations import Destination, queues
from brokerproof.conformance.experiment.history import History
from brokerproof.conformance.experiment.program import Program
from brokerproof.conformance.experiment.steps import (
    Ack,
    AnyStep,
    Begin,
    Commit,
    Leave,
    Nack,
    Rollback,
    Send,
    Subscribe,
    Take,
)
from brokerproof.conformance.worlds.simulated.world import SimulatedWorld

#: Names that no program has.
HOST: Final = "beside"
PLACE: Final = "elsewhere"
#: What the time until the program's own steps is a multiple of.
WHOLE_NS: Final = 1_000_000_000
Via = Literal["stomp", "jms"]
Addition = Callable[[Program], "Larger"]


class Larger(msgspec.Struct, eq=False):
    """A resolved program with something beside it, and the steps that come first."""

    program: Program
    first: Sequence[AnyStep] = ()

    def run(self, mutant: str | None, seed: int | None = None) -> History:
        """What happens."""
        world = SimulatedWorld(mutant=mutant, seed=seed)
        world.open(self.program)
        for step in self.first:
            world.apply(step)
        agenda = world.port.agenda
        agenda.run_until(-(-agenda.now_ns // WHOLE_NS) * WHOLE_NS)
        for step in self.program.steps:
            world.apply(step)
        return world.close()


def resolved(program: Program, mutant: str | None, seed: int | None = None) -> Program:
    """The program with each reference in the range that it had when the step was done."""
    world = SimulatedWorld(mutant=mutant, seed=seed)
    world.open(program)
    steps: list[AnyStep] = []
    for step in program.steps:
        concrete = step.normalise(world.state)
        if concrete is not None:
            steps.append(concrete)
        world.apply(step)
    world.shut()
    return program.with_steps(steps)


def beside(
    program: Program,
    *,
    destinations: Sequence[Destination] = (),
    policies: Sequence[PolicySpec] = (),
    hosts: Sequence[HostSpec] = (),
) -> Program:
    """A resolved program among destinations, policy entries and hosts that it does not know."""
    broker = msgspec.structs.replace(program.broker, policies=[*program.broker.policies, *policies])
    return msgspec.structs.replace(
        program,
        broker=broker,
        hosts=[*program.hosts, *hosts],
        links=[*program.links, *(LinkSpec(host.name, latency_us=0) for host in hosts)],
        destinations=[*program.destinations, *destinations],
    )


def unused(*destinations: Destination) -> Addition:
    """Destinations that nobody uses."""
    return lambda program: Larger(beside(program, destinations=destinations))


def entry(policy: PolicySpec, *destinations: Destination) -> Addition:
    """A policy entry for what nobody uses, whether it is declared or not."""
    return lambda program: Larger(beside(program, destinations=destinations, policies=[policy]))


def neighbour(*steps: AnyStep, dests: Sequence[Destination] = (), via: Via = "stomp") -> Addition:
    """Another host, which does these steps with destinations of its own: they are sent to the first."""

    def add(program: Program) -> Larger:
        host, place = len(program.clients()), len(program.destinations)
        own: list[AnyStep] = []
        for step in steps:
            if isinstance(step, Send | Subscribe):
                own.append(msgspec.structs.replace(step, host=host, dest=place))
            else:
                own.append(msgspec.structs.replace(step, host=host) if isinstance(step, Begin) else step)
        hosts = [HostSpec(HOST, "client", via)]
        return Larger(beside(program, destinations=dests or [_QUEUE], hosts=hosts), own)

    return add


_QUEUE: Final = Destination(PLACE, "queue")
_TOPIC: Final = Destination(PLACE, "topic")
_TEMPORARY: Final = Destination("~" + HOST, "temporary", host=HOST)
_PARTS: Final = queues("there", "nowhere")
_COMPOSITE: Final = Destination("there,nowhere", "composite", of=_PARTS)
_VIRTUAL: Final = Destination(PLACE, "virtual", of=queues("A.elsewhere"))
_SETTLED: Final = (Take(deadline_ms=10, count=2), Ack(upto=1))
_ONE: Final = (Send(), *_SETTLED)
_TWO: Final = (Send(count=2), *_SETTLED)

#: Kind -> its forms; the first one stands for the others where time is short.
ADDITIONS: Final[dict[str, dict[str, Addition]]] = {
    "destination": {
        "a queue": unused(_QUEUE),
        "a topic": unused(_TOPIC),
    },
    "policy": {
        "redelivery": entry(PolicySpec(PLACE, redelivery=RedeliverySpec(maximum=1, initial_ms=10, pause_ms=10))),
        "redelivery, declared": entry(PolicySpec(PLACE, redelivery=RedeliverySpec()), _QUEUE),
        "individual": entry(PolicySpec(PLACE, dead_letter=DeadLetterSpec("individual")), _QUEUE),
        "discarding": entry(PolicySpec("elsewhere.>", dead_letter=DeadLetterSpec("discarding"))),
        "limit": entry(PolicySpec(PLACE, memory_limit_bytes=2048, high_water_percent=50), _QUEUE),
        "window": entry(PolicySpec(PLACE, queue_prefetch=1, durable_topic_prefetch=1, max_page_size=1)),
        "priorities": entry(PolicySpec(PLACE, prioritized_messages=True, advisories=True), _QUEUE),
        "topic": entry(PolicySpec("topic://elsewhere", pending_message_limit=0), _TOPIC),
        "no sweep": entry(PolicySpec("queue://elsewhere", expire_period_ms=0)),
    },
    "consumer": {
        "queue": neighbour(Subscribe(prefetch=1), *_ONE),
        "acknowledging as it comes": neighbour(Subscribe(prefetch=10, ack="auto"), Send(count=3)),
        "selective": neighbour(Subscribe(selector="kind = 'a'"), Send(kind="a"), *_SETTLED, Send(kind="b")),
        "exclusive": neighbour(Subscribe(exclusive=True, priority=5), *_ONE, via="jms"),
        "browser": neighbour(Subscribe(browser=True, ack="auto"), Send()),
        "pull": neighbour(Subscribe(prefetch=0), *_ONE, via="jms"),
        "topic": neighbour(Subscribe(prefetch=10), *_TWO, dests=[_TOPIC]),
        "unsettled": neighbour(Subscribe(prefetch=10), Send(priority=9), Send(priority=0), Send(group="g1")),
        "lost": neighbour(Subscribe(prefetch=10), Send(count=2), Take(deadline_ms=10), Leave(how="drop")),
        "rejecting": neighbour(Subscribe(prefetch=10), Send(), Take(deadline_ms=10), Nack()),
        "busy": neighbour(Subscribe(prefetch=1), *_ONE * 20),
        "heavy": neighbour(
            Subscribe(prefetch=50), Send(count=40, size=1_000_000), Take(deadline_ms=10, count=40), Ack(upto=39)
        ),
        "late": neighbour(Subscribe(prefetch=10), Send(ttl_ms=1), Send(delay_ms=500), Send(ttl_ms=-1)),
    },
    "temporary queue": {
        "used": neighbour(Subscribe(prefetch=10), *_TWO, dests=[_TEMPORARY]),
        "declared": neighbour(dests=[_TEMPORARY]),
    },
    "host": {
        "over STOMP": neighbour(),
        "over OpenWire": neighbour(via="jms"),
        "that came": neighbour(Subscribe(), Leave()),
        "that sent": neighbour(Send(count=2), via="jms"),
    },
    "elsewhere": {
        "a composite name": unused(_COMPOSITE, *_PARTS),
        "a virtual topic": unused(_VIRTUAL),
        "a composite name is used": neighbour(Send(), dests=[_COMPOSITE, *_PARTS]),
        "a transaction commits": neighbour(Begin(), Send(count=2), Commit(), Subscribe(prefetch=10), *_SETTLED),
        "a transaction is rolled back": neighbour(Begin(), Send(count=2), Rollback()),
        "a transaction stays open": neighbour(Begin(), Send(), via="jms"),
        "a transaction acknowledges": neighbour(Subscribe(), Send(), Begin(), *_SETTLED, Commit(), via="jms"),
    },
}
#: Forms that leave messages behind, which take memory from all others where that is scarce.
FILLING: Final = {
    "selective", "browser", "unsettled", "lost", "rejecting", "heavy", "late", "that sent", "a composite name is used",
    "a transaction stays open",
}  # fmt: skip
