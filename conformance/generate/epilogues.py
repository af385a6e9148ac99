"""Epilogues: what some programs have behind everything else, because hardly any of them comes to it by itself.

A durable subscription is away while what was published for it dies; who is back, or drains, finds a letter of it at
most. In the midst of a program something else nearly always has to do with the subscription or the message.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import msgspec

from brokerproof.conformance.experiment.configuration import PolicySpec
from brokerproof.conformance.experiment.destinations import ADVISORIES, Destination, queues, topics
from brokerproof.conformance.experiment.program import Program
from brokerproof.conformance.experiment.steps import (
    Ack,
    Advance,
    AnyStep,
    Begin,
    Leave,
    Resume,
    Rollback,
    Send,
    Settle,
    Stall,
    Subscribe,
    Take,
)
from brokerproof.conformance.experiment.steps.waiting import Counters
from brokerproof.conformance.generate.frame import LIMITS_BYTES, one_of
from brokerproof.conformance.generate.sketch import Sketch

if TYPE_CHECKING:
    from brokerproof.conformance.experiment.chooser import Chooser

#: A name that no other step draws: nobody else has used the subscription.
AWAY: Final = "away"
LIVES_MS: Final = (1000, 1, 10, 300, 2500)
#: How much longer than the message lives its subscriber stays away.
LONGER_MS: Final = (1500, 2, 1, 31_000, 3500)


def topics_of(program: Program) -> list[int]:
    """Its topics of the ordinary kind, as steps count them; on those of advisories nobody publishes but the broker."""
    dests = enumerate(program.destinations)
    return [place for place, dest in dests if dest.kind == "topic" and not dest.name.startswith(ADVISORIES)]


def with_dying_backlog(chooser: Chooser, program: Program) -> Program:
    """The same program, and at its end one or two durable subscribers who stay away for too long."""
    clients, topics = len(program.clients()), topics_of(program)
    dest, producer = topics[chooser.below(len(topics))], chooser.below(clients)
    hosts = list(range(min(1 + chooser.below(2), clients)))
    ms = one_of(chooser, LIVES_MS)
    steps: list[AnyStep] = [
        Subscribe(host=host, dest=dest, prefetch=(10, 2)[chooser.below(2)], durable=AWAY) for host in hosts
    ]
    steps += [Settle(), *(Leave(host=host, how="kill" if chooser.flag(30) else "drop") for host in hosts), Settle()]
    steps.append(Send(host=producer, dest=dest, ttl_ms=ms, count=1 + chooser.below(3)))
    steps += [Settle(), Advance(ms=ms + one_of(chooser, LONGER_MS))]
    if chooser.flag(50):
        steps += [*(Subscribe(host=host, dest=dest, prefetch=10, durable=AWAY) for host in hosts), Settle()]
    return program.with_steps([*program.steps, *steps])


# -- with settings of their own


#: What a message weighs beside its body, in the reference broker's sums.
_CHARGE_BYTES: Final = 1024
#: What a slow link carries at most in one of these programs.
_LARGEST_BYTES: Final = 600_000


def _with_own(
    program: Program,
    names: tuple[str, ...],
    entries: list[PolicySpec],
    steps: Callable[[int], list[AnyStep]],
    kind: Callable[..., list[Destination]] = queues,
) -> Program:
    """The program with queues, or topics, of its own, entries for them, and at its end ``steps(its place)``."""
    replace = msgspec.structs.replace
    dests = [*program.destinations, *kind(*names)]
    broker = replace(program.broker, policies=[*entries, *program.broker.policies])
    program = replace(program, broker=broker, destinations=dests)
    sketch = Sketch(program)
    found: list[AnyStep] = list(program.steps)
    for step in found:
        sketch.follow(step)
    for step in steps(len(dests) - len(names)):
        placed = sketch.place(step)
        sketch.follow(placed)
        found.append(placed)
    return program.with_steps(found)


def _is_roomy(program: Program) -> bool:
    """Whether its memory is not short."""
    return program.broker.memory_limit_bytes == LIMITS_BYTES[0]


def _is_small(program: Program, features: tuple[str, ...]) -> bool:  # noqa: ARG001 - as all of them
    fair = "memory" not in program.broker.generation
    return fair and 0 < program.broker.memory_limit_bytes < LIMITS_BYTES[0]


def with_small_backlogs(chooser: Chooser, program: Program) -> Program:
    """Four small backlogs fill the broker's memory; a fifth queue has a consumer."""
    clients, size = len(program.clients()), max(0, program.broker.memory_limit_bytes // 4 - _CHARGE_BYTES - 64)
    who, producer = chooser.below(clients), chooser.below(clients)
    count, prefetch = 1 + chooser.below(4), one_of(chooser, (10, 1, 3))

    def steps(first: int) -> list[AnyStep]:
        kept: list[AnyStep] = [Send(host=producer, dest=first + place, size=size) for place in range(4)]
        wanted = Send(host=producer, dest=first + 4, size=one_of(chooser, (64, 1024)), count=count)
        comes = Subscribe(host=who, dest=first + 4, prefetch=prefetch, ack="individual")
        rest: list[AnyStep] = [comes, wanted] if chooser.flag(50) else [wanted, comes]
        taken: list[AnyStep] = [Take(host=who, deadline_ms=200), Ack(host=who), Settle()]
        return [*kept, *rest, Settle(), *(taken if chooser.flag(60) else [])]

    return _with_own(program, ("s.0", "s.1", "s.2", "s.3", "s.4"), [PolicySpec("s.>")], steps)


def _has_delays(program: Program, features: tuple[str, ...]) -> bool:
    plain = "memory" not in program.broker.generation and program.broker.delay_support
    return plain and "delays" in features and _is_roomy(program)


def with_full_neighbour(chooser: Chooser, program: Program) -> Program:
    """What is due on one queue finds it full; on another one somebody waits for what is due."""
    clients, ms = len(program.clients()), one_of(chooser, (500, 1000, 100))
    who, producer = chooser.below(clients), chooser.below(clients)
    limit, longer_ms = one_of(chooser, (8 * 1024, 16 * 1024)), one_of(chooser, (100, 1, 0, 1500))

    def steps(first: int) -> list[AnyStep]:
        return [
            Subscribe(host=who, dest=first + 1, prefetch=10),
            Send(host=producer, dest=first, delay_ms=ms, size=4096, count=2 + limit // 2048),
            Send(host=producer, dest=first + 1, delay_ms=ms + longer_ms, count=1 + chooser.below(3)),
            Advance(ms=ms + longer_ms + 2500),
            Settle(),
        ]

    entries = [PolicySpec("f.0", memory_limit_bytes=limit), PolicySpec("f.1")]
    made = _with_own(program, ("f.0", "f.1"), entries, steps)
    return with_full_topic(chooser, made) if chooser.flag(50) else made


def with_full_topic(chooser: Chooser, program: Program) -> Program:
    """What is published with a delay is due while its topic is full, which then gets its memory back."""
    clients, ms = len(program.clients()), one_of(chooser, (500, 32, 1000))
    who, producer = chooser.below(clients), chooser.below(clients)
    limit, count, refuses = one_of(chooser, (8 * 1024, 16 * 1024)), 1 + chooser.below(2), chooser.flag(60)

    def steps(first: int) -> list[AnyStep]:
        waited: list[AnyStep] = [Send(host=producer, dest=first, delay_ms=ms, count=count), Advance(ms=ms + 500)]
        taken: list[AnyStep] = [Ack(host=who), Take(host=who, deadline_ms=400)]
        come = Subscribe(host=who, dest=first, prefetch=1, ack="individual")
        fills: list[AnyStep] = [Send(host=producer, dest=first, size=limit, count=2), Take(host=who, deadline_ms=1000)]
        return [come, *fills, *waited, *taken * (2 + count), Settle(), Advance(ms=1500), Settle()]

    entries = [PolicySpec("f.2", memory_limit_bytes=limit, send_fail_if_no_space=refuses)]
    return _with_own(program, ("f.2",), entries, steps, topics)


def _jms_hosts(program: Program) -> list[int]:
    return [place for place, host in enumerate(program.clients()) if host.via == "jms"]


def _has_jms(program: Program, features: tuple[str, ...]) -> bool:  # noqa: ARG001 - as all of them
    return bool(_jms_hosts(program))


def with_divided_batch(chooser: Chooser, program: Program) -> Program:
    """A library rolls a message back until it gives it up, and in between others that it had later."""
    who, producer = one_of(chooser, _jms_hosts(program)), chooser.below(len(program.clients()))
    turns, later = one_of(chooser, (7, 8, 7)), 1 + chooser.below(6)

    def steps(first: int) -> list[AnyStep]:
        found: list[AnyStep] = [Subscribe(host=who, dest=first, prefetch=10), Send(host=producer, dest=first)]
        for turn in range(turns):
            if turn == later:
                found.append(Send(host=producer, dest=first, count=1 + chooser.below(2)))
            count = 1 + 2 * (turn >= later)
            taken = Take(host=who, deadline_ms=3000, count=count)
            found += [Begin(host=who), taken, Ack(host=who, upto=count - 1), Rollback(host=who)]
        return [*found, Settle(), Leave(host=who), Settle()]

    return _with_own(program, ("r.0",), [PolicySpec("r.0")], steps)


def _slow_hosts(program: Program) -> list[tuple[int, int]]:
    """Clients over slow links with a monitor, and how many bytes take longer than that waits."""
    found: list[tuple[int, int]] = []
    links = {link.client: link for link in program.links}
    for place, host in enumerate(program.clients()):
        link = links.get(host.name)
        if link is None or link.monitor is None or not link.bytes_per_second or not link.monitor.read_ms:
            continue
        patience_ms = link.monitor.initial_delay_ms + 3 * link.monitor.read_ms + 1000
        size = max(70_000, link.bytes_per_second * patience_ms // 1000)
        if size <= _LARGEST_BYTES:
            found.append((place, size))
    return found


def _is_slow(program: Program, features: tuple[str, ...]) -> bool:  # noqa: ARG001 - as all of them
    return bool(_slow_hosts(program)) and _is_roomy(program)


def with_slow_message(chooser: Chooser, program: Program) -> Program:
    """A message needs longer than monitors wait, to the broker or from it."""
    (slow, size), other = one_of(chooser, _slow_hosts(program)), chooser.below(len(program.clients()))
    who, reader = (slow, other) if chooser.flag(70) else (other, slow)

    def steps(first: int) -> list[AnyStep]:
        return [
            Subscribe(host=reader, dest=first, prefetch=10),
            Send(host=who, dest=first, size=size),
            Advance(ms=10_000),
            Take(host=reader, deadline_ms=1000),
            Ack(host=reader),
            Settle(),
        ]

    return _with_own(program, ("l.0",), [PolicySpec("l.0")], steps)


def _gives_up(program: Program, features: tuple[str, ...]) -> bool:  # noqa: ARG001 - as all of them
    return (program.broker.redeliveries_max or 0) > 0 and _is_roomy(program)


def with_lost_links(chooser: Chooser, program: Program) -> Program:
    """A message is taken, and the link lost, as often as the broker delivers it again, and perhaps once more."""
    clients, most = len(program.clients()), program.broker.redeliveries_max or 0
    who, producer = chooser.below(clients), chooser.below(clients)
    times = most + one_of(chooser, (1, 0, 1))

    def steps(first: int) -> list[AnyStep]:
        found: list[AnyStep] = [Send(host=producer, dest=first, count=1 + chooser.below(2))]
        for _ in range(times):
            found.append(Subscribe(host=who, dest=first, prefetch=10, ack="individual"))
            found += [Take(host=who, deadline_ms=200, count=2), Leave(host=who, how=one_of(chooser, ("drop", "kill")))]
        return [*found, Settle()]

    return _with_own(program, ("v.0",), [PolicySpec("v.0")], steps)


def has_room(program: Program) -> bool:
    """Whether it may end with a consumer that leaves: one broker, whose memory is not short."""
    return _is_roomy(program) and not program.broker.mqsc and len(program.brokers()) == 1


def with_departure(chooser: Chooser, program: Program) -> Program:
    """A consumer leaves while what it was assigned hangs before its link, and is counted meanwhile."""
    clients = len(program.clients())
    who, producer, size = chooser.below(clients), chooser.below(clients), one_of(chooser, (120_000, 300_000))
    prefetch, back = one_of(chooser, (1000, 30)), chooser.flag(40)

    def steps(first: int) -> list[AnyStep]:
        comes = Subscribe(host=who, dest=first, prefetch=prefetch, ack="individual")
        sent = Send(host=producer, dest=first, size=size, count=24)
        hangs: list[AnyStep] = [Stall(link=who, toward="client"), sent, Advance(ms=500), Counters(dest=first)]
        gone: list[AnyStep] = [Leave(host=who), Advance(ms=500), Counters(dest=first)]
        again: list[AnyStep] = [comes, Counters(dest=first)] if back else []
        return [comes, *hangs, *gone, *again, Resume(), Settle()]

    return _with_own(program, ("g.0",), [PolicySpec("g.0")], steps)


#: What a program must have for one of these, how many of 100 such programs have it, and how it is made.
EPILOGUES: Final[
    tuple[
        tuple[
            Callable[[Program, tuple[str, ...]], bool],
            int,
            Callable[[Chooser, Program], Program],
        ],
        ...,
    ]
] = (
    (_is_small, 10, with_small_backlogs),
    (_is_slow, 30, with_slow_message),
    (_has_delays, 6, with_full_neighbour),
    (_has_jms, 4, with_divided_batch),
    (_gives_up, 60, with_lost_links),
)


def with_epilogue(chooser: Chooser, program: Program, features: tuple[str, ...]) -> Program:
    """The program, perhaps with one of these at its end."""
    for fits, percent, make in EPILOGUES:
        if fits(program, features) and chooser.flag(percent):
            return make(chooser, program)
    return program
