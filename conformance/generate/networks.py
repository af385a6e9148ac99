"""Networks: a program that may become one of two brokers with a bridge between them, which is stalled, cut or killed.

Its clients use one broker or the other, and its steps stay what they are: clients are counted over both. What crosses
goes from the first broker to the second.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from brokerproof.conformance.experiment.configuration import ClockSpec, HostSpec, LinkSpec
from brokerproof.conformance.experiment.program import Program
from brokerproof.conformance.experiment.steps import (
    Advance,
    AnyStep,
    Cut,
    Operate,
    Restart,
    Resume,
    Send,
    Stall,
    Subscribe,
)
from brokerproof.conformance.generate.frame import LATENCIES_US, SKEWS_MS, one_of

if TYPE_CHECKING:
    from brokerproof.conformance.experiment.chooser import Chooser

#: The feature that its own steps belong to; none of those that are drawn for every program.
FEATURE: Final = "networks"
FAR: Final = "b2"
BRIDGE: Final = "n0"
#: Times after which a bridge is there again, or is not yet.
PAUSES_MS: Final = (3000, 10, 1000, 1)


def is_networkable(program: Program) -> bool:
    """Whether it has nothing that belongs to one broker alone, and no message that may cross under two names."""
    moves = any(isinstance(step, Operate) and step.op == "move" for step in program.steps)
    single = len(program.brokers()) == 1 and not program.broker.mqsc
    return single and not moves and all(dest.kind in {"queue", "topic"} for dest in program.destinations)


def with_network(chooser: Chooser, program: Program) -> Program:
    """The same program over two brokers."""
    hosts: list[HostSpec] = []
    for host in program.hosts:
        far = host.role == "client" and chooser.flag(50)
        hosts.append(msgspec.structs.replace(host, at=FAR) if far else host)
    skew_ms = one_of(chooser, SKEWS_MS) if chooser.flag(60) else program.broker_host().clock.offset_ms
    topics = any(dest.kind == "topic" for dest in program.destinations) and chooser.flag(40)
    hosts += [HostSpec(FAR, "broker", clock=ClockSpec(skew_ms)), HostSpec(BRIDGE, "bridge", to=FAR, topics=topics)]
    link = LinkSpec(BRIDGE, one_of(chooser, LATENCIES_US), encoded=chooser.flag(20))
    steps: list[AnyStep] = []
    for step in program.steps:
        there = isinstance(step, Restart) and chooser.flag(40)
        steps.append(msgspec.structs.replace(step, broker=1) if there else step)
    for _ in range(chooser.below(5)):
        place = chooser.below(len(steps) + 1)
        steps[place:place] = _disturbance(chooser)
    if topics:
        place = chooser.below(len(steps) + 1)
        steps[place:place] = _publication(chooser, program, hosts)
    return msgspec.structs.replace(program, hosts=hosts, links=[*program.links, link], steps=steps)


def _publication(chooser: Chooser, program: Program, hosts: list[HostSpec]) -> list[AnyStep]:
    """A publication with a delay, for who is subscribed on the far side, before and after it is sent."""
    clients = [host for host in hosts if host.role == "client"]
    near, far = ([place for place, one in enumerate(clients) if (one.at == FAR) is there] for there in (False, True))
    if not near or not far:
        return []
    topic = next(place for place, dest in enumerate(program.destinations) if dest.kind == "topic")
    listens = Subscribe(host=one_of(chooser, tuple(far)), dest=topic, prefetch=1000)
    speaks = Send(host=one_of(chooser, tuple(near)), dest=topic, delay_ms=2000)
    return [listens, Advance(ms=2000), speaks, listens, Advance(ms=3000)]


def without_network(program: Program) -> Program:
    """A network's program over its first broker alone."""
    if len(program.brokers()) == 1:
        return program
    replace, first = msgspec.structs.replace, program.broker_host()
    hosts = [replace(host, at="") for host in program.hosts if host is first or host.role == "client"]
    clients = [host.name for host in program.clients()]
    links = [link for link in program.links if link.client in clients]
    steps = [step for step in program.steps if not isinstance(step, Cut)]
    return replace(program, hosts=hosts, links=links, steps=steps)


def _disturbance(chooser: Chooser) -> list[AnyStep]:
    """Something happens to the bridge, whose link is the first one unless it is stalled, or to the far broker."""
    pause = Advance(ms=one_of(chooser, PAUSES_MS))
    cut = Cut(bridge=chooser.below(2), how="kill" if chooser.flag(40) else "cut")
    toward = one_of(chooser, ("both", "broker", "client"))
    stall = Stall(toward=toward)
    stories: tuple[list[AnyStep], ...] = (
        [cut, pause],
        [stall, pause, cut, pause, Resume(), pause],
        [stall, pause, Resume()],
        [stall, pause],
        [stall, pause, Restart(how="kill" if chooser.flag(60) else "stop", broker=1), pause, Resume(), pause],
    )
    return stories[chooser.below(len(stories))]
