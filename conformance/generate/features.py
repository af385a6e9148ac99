"""Features: what a program can be about beside the common ground, and the short stories of each.

Rules
* A program is about two features at most, and about none in half of all cases: what is new must not thin out what the
  rest explores.
* A feature says what it needs of the frame, how often its own steps are drawn, and its template.
* Only features in ``OFFERED`` are drawn; a new one is appended there when every rule is sound on it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from brokerproof.conformance.experiment.destinations import queues, topics
from brokerproof.conformance.experiment.steps import (
    Ack,
    Advance,
    AnyStep,
    Begin,
    Clock,
    Commit,
    Leave,
    Operate,
    Probe,
    Restart,
    Rollback,
    Send,
    Settle,
    Shape,
    Subscribe,
    Take,
    Unsubscribe,
)
from brokerproof.conformance.experiment.steps.consume import ACKS, DURABLES, SELECTORS, draw_options
from brokerproof.conformance.experiment.steps.operation import OPERATIONS
from brokerproof.conformance.experiment.steps.send import GROUPS, KINDS, PRIORITIES
from brokerproof.conformance.generate.templates import Template

if TYPE_CHECKING:
    from brokerproof.conformance.experiment.chooser import Chooser
    from brokerproof.conformance.experiment.program import Program

#: What may be drawn.
OFFERED = (
    "transactions",
    "selectors",
    "priorities",
    "groups",
    "exclusive",
    "wildcards",
    "durables",
    "operator",
    "browsers",
    "pull",
    "lifetimes",
    "restarts",
)
#: Of 100 programs, so many are about one feature at least, and of those so many about two.
ONE_PERCENT = 50
TWO_PERCENT = 30


def draw_features(chooser: Chooser) -> tuple[str, ...]:
    """What the next program is about."""
    if not chooser.flag(ONE_PERCENT):
        return ()
    first = OFFERED[chooser.below(len(OFFERED))]
    if not chooser.flag(TWO_PERCENT):
        return (first,)
    second = OFFERED[chooser.below(len(OFFERED))]
    return tuple(dict.fromkeys((first, second)))


def fit_frame(frame: Program, features: tuple[str, ...]) -> Program:
    """The frame with what the features need."""
    dests = list(frame.destinations)
    wanted = queues("q1") if "wildcards" in features or "operator" in features else []
    wanted += topics("t0") if "durables" in features else []
    dests += [dest for dest in wanted if dest not in dests]
    hosts = list(frame.hosts)
    if ("pull" in features or "lifetimes" in features) and all(host.via != "jms" for host in frame.clients()):
        # The last client: a program may well have only one, and producers are anybody.
        hosts[-1] = msgspec.structs.replace(hosts[-1], via="jms")
    broker = frame.broker
    if "restarts" in features:
        broker = msgspec.structs.replace(broker, persistent=True)
    if "priorities" in features:
        entries = [msgspec.structs.replace(entry, prioritized_messages=True) for entry in broker.policies]
        broker = msgspec.structs.replace(broker, policies=entries)
    return msgspec.structs.replace(frame, destinations=dests, broker=broker, hosts=hosts)


#: Feature -> how often its own steps are drawn, in the units of ``MIX``.
MIXES: dict[str, dict[str, int]] = {
    "transactions": {"begin": 8, "commit": 8, "rollback": 4},
    "durables": {"unsubscribe": 2},
    "operator": {"operate": 3},
    "restarts": {"restart": 3},
    "raw-peers": {"probe": 2},
}


def _host(chooser: Chooser, shape: Shape) -> int:
    return chooser.below(shape.clients)


def _consumer(chooser: Chooser, shape: Shape, dest: int, **options: object) -> Subscribe:
    plain = Subscribe(
        host=_host(chooser, shape),
        dest=dest,
        prefetch=(10, 1, 1000)[chooser.below(3)],
        ack=ACKS[chooser.below(len(ACKS))],  # type: ignore[arg-type]  # indexing a tuple of literals
    )
    return msgspec.structs.replace(plain, **options)


def transacted_sends(chooser: Chooser, shape: Shape) -> list[AnyStep]:
    """Sends in a transaction, a consumer that must not see them before the end, and the end."""
    who, dest = _host(chooser, shape), chooser.below(shape.dests)
    steps: list[AnyStep] = [Begin(host=who), Send(host=who, dest=dest, count=1 + chooser.below(3))]
    steps.append(_consumer(chooser, shape, dest))
    steps.append(Take(host=_host(chooser, shape), deadline_ms=50))
    if chooser.flag(20):
        steps.append(Leave(host=who, how=("close", "drop", "kill")[chooser.below(3)]))
    steps.append(Rollback() if chooser.flag(30) else Commit())
    steps.append(Take(host=_host(chooser, shape), deadline_ms=50, count=3))
    return steps


def transacted_acks(chooser: Chooser, shape: Shape) -> list[AnyStep]:
    """Messages are taken, acknowledged in a transaction, and come back or not."""
    who, dest = _host(chooser, shape), chooser.below(shape.dests)
    count = 1 + chooser.below(4)
    subscribe = Subscribe(
        host=who,
        dest=dest,
        prefetch=(10, 1, 2)[chooser.below(3)],
        ack=("client", "individual")[chooser.below(2)],
    )
    steps: list[AnyStep] = [
        subscribe,
        Send(host=_host(chooser, shape), dest=dest, count=count),
        Take(host=who, deadline_ms=100, count=count),
        Begin(host=who),
        Ack(host=who, upto=chooser.below(count)),
    ]
    if chooser.flag(30):
        steps.append(Ack(host=who, upto=chooser.below(count)))
    if chooser.flag(15):
        steps.append(Leave(host=who, how=("close", "drop")[chooser.below(2)]))
    steps.append(Commit() if chooser.flag(40) else Rollback())
    steps += [Take(host=who, deadline_ms=100, count=count), Ack(host=who, upto=chooser.below(count)), Settle()]
    return steps


def selection(chooser: Chooser, shape: Shape) -> list[AnyStep]:
    """Messages of several kinds, a consumer that wants some of them, perhaps another that wants all."""
    dest = chooser.below(shape.dests)
    steps: list[AnyStep] = [_consumer(chooser, shape, dest, selector=SELECTORS[chooser.below(len(SELECTORS))])]
    for _ in range(2 + chooser.below(3)):
        kind = KINDS[chooser.below(len(KINDS))]
        steps.append(Send(host=_host(chooser, shape), dest=dest, kind=kind, count=1 + chooser.below(2)))
    steps.append(Take(host=_host(chooser, shape), deadline_ms=50, count=3))
    if chooser.flag(50):
        steps.append(_consumer(chooser, shape, dest))
    steps += [Ack(host=_host(chooser, shape), upto=chooser.below(3)), Settle()]
    return steps


def ranking(chooser: Chooser, shape: Shape) -> list[AnyStep]:
    """Messages of several priorities wait; then somebody takes them one by one."""
    dest = chooser.below(shape.dests)
    steps: list[AnyStep] = [
        Send(host=_host(chooser, shape), dest=dest, priority=PRIORITIES[chooser.below(len(PRIORITIES))])
        for _ in range(3 + chooser.below(3))
    ]
    steps.append(_consumer(chooser, shape, dest))
    return [*steps, Take(host=_host(chooser, shape), deadline_ms=50, count=5), Ack(upto=chooser.below(5))]


def grouping(chooser: Chooser, shape: Shape) -> list[AnyStep]:
    """Groups, two consumers, one of which leaves."""
    dest = chooser.below(shape.dests)
    steps: list[AnyStep] = [_consumer(chooser, shape, dest), _consumer(chooser, shape, dest)]
    steps += [
        Send(host=_host(chooser, shape), dest=dest, group=GROUPS[chooser.below(len(GROUPS))])
        for _ in range(3 + chooser.below(3))
    ]
    steps += [Take(host=_host(chooser, shape), deadline_ms=50, count=3), Ack(upto=chooser.below(3))]
    if chooser.flag(60):
        steps += [Leave(host=_host(chooser, shape)), Take(host=_host(chooser, shape), deadline_ms=50, count=3)]
    return [*steps, Settle()]


def exclusivity(chooser: Chooser, shape: Shape) -> list[AnyStep]:
    """An exclusive (or preferred) consumer beside others; it leaves, or a better one comes."""
    dest = chooser.below(shape.dests)
    steps: list[AnyStep] = [_consumer(chooser, shape, dest)]
    wanted = {"exclusive": True} if chooser.flag(60) else {"priority": 5}
    steps.append(_consumer(chooser, shape, dest, **wanted))
    steps += [
        Send(host=_host(chooser, shape), dest=dest, count=2 + chooser.below(4)),
        Take(host=_host(chooser, shape), deadline_ms=50, count=3),
    ]
    if chooser.flag(50):
        steps += [Leave(host=_host(chooser, shape), consumer=chooser.below(2)), Take(deadline_ms=50, count=2)]
    return [*steps, Settle()]


def browsing(chooser: Chooser, shape: Shape) -> list[AnyStep]:
    """Somebody looks at a queue while others use it."""
    dest = chooser.below(shape.dests)
    steps: list[AnyStep] = [Send(host=_host(chooser, shape), dest=dest, count=1 + chooser.below(5))]
    if chooser.flag(50):
        steps += [_consumer(chooser, shape, dest), Take(host=_host(chooser, shape), deadline_ms=50)]
    steps += [_consumer(chooser, shape, dest, browser=True), Advance(ms=10)]
    return [*steps, Leave(host=_host(chooser, shape), consumer=chooser.below(2)), Settle()]


def wildcards(chooser: Chooser, shape: Shape) -> list[AnyStep]:
    """One consumer of everything, beside consumers of one destination."""
    steps: list[AnyStep] = [_consumer(chooser, shape, chooser.below(shape.dests), wild=True)]
    if chooser.flag(50):
        steps.append(_consumer(chooser, shape, chooser.below(shape.dests)))
    steps += [
        Send(host=_host(chooser, shape), dest=chooser.below(shape.dests), count=1 + chooser.below(2))
        for _ in range(2 + chooser.below(3))
    ]
    steps += [Take(host=_host(chooser, shape), deadline_ms=50, count=4), Ack(upto=chooser.below(4))]
    if chooser.flag(50):
        steps.append(Leave(host=_host(chooser, shape)))
    return [*steps, Settle()]


def pulling(chooser: Chooser, shape: Shape) -> list[AnyStep]:
    """A consumer that gets nothing unless it asks."""
    dest = chooser.below(shape.dests)
    return [
        _consumer(chooser, shape, dest, prefetch=0),
        Send(host=_host(chooser, shape), dest=dest, count=1 + chooser.below(3)),
        Advance(ms=10),
        Take(host=_host(chooser, shape), deadline_ms=(0, 100)[chooser.below(2)], count=2),
        Ack(upto=chooser.below(2)),
    ]


def durables(chooser: Chooser, shape: Shape) -> list[AnyStep]:
    """A durable subscriber goes and comes back; what was published meanwhile waits for it."""
    who, dest = _host(chooser, shape), shape.dests - 1
    name = DURABLES[chooser.below(len(DURABLES))]
    one = Subscribe(host=who, dest=dest, durable=name, prefetch=(10, 2)[chooser.below(2)])
    steps: list[AnyStep] = [one, Send(host=_host(chooser, shape), dest=dest, count=1 + chooser.below(3))]
    if chooser.flag(60):
        steps.append(Take(host=who, deadline_ms=50, count=2))
        if chooser.flag(60):
            steps.append(Ack(host=who, upto=chooser.below(2)))
    how = ("close", "drop", "kill")[chooser.below(3)]
    steps.append(Leave(host=who, consumer=chooser.below(2), how=how))  # type: ignore[arg-type]  # indexing a tuple of literals
    steps.append(Send(host=_host(chooser, shape), dest=dest, count=1 + chooser.below(2)))
    if chooser.flag(20):
        steps.append(Unsubscribe(host=who))
    steps += [one, Take(host=who, deadline_ms=50, count=4), Ack(host=who, upto=chooser.below(4)), Settle()]
    return steps


def operators(chooser: Chooser, shape: Shape) -> list[AnyStep]:
    """An operator empties, moves or resets a queue that is in use."""
    dest = chooser.below(shape.dests)
    steps: list[AnyStep] = [Send(host=_host(chooser, shape), dest=dest, count=1 + chooser.below(5))]
    if chooser.flag(50):
        steps += [_consumer(chooser, shape, dest), Take(host=_host(chooser, shape), deadline_ms=50)]
    op = OPERATIONS[chooser.below(len(OPERATIONS))]
    steps.append(Operate(op=op, dest=dest, to=chooser.below(2)))  # type: ignore[arg-type]  # indexing a tuple of literals
    if chooser.flag(50):
        steps.append(Send(host=_host(chooser, shape), dest=dest))
    return [*steps, Take(host=_host(chooser, shape), deadline_ms=50, count=2), Settle()]


def restarts(chooser: Chooser, shape: Shape) -> list[AnyStep]:
    """The broker goes and comes back while messages wait or are held."""
    dest = chooser.below(shape.dests)
    persistent = not chooser.flag(25)
    steps: list[AnyStep] = [
        Send(host=_host(chooser, shape), dest=dest, count=1 + chooser.below(4), persistent=persistent)
    ]
    if chooser.flag(60):
        steps += [_consumer(chooser, shape, dest), Take(host=_host(chooser, shape), deadline_ms=50, count=2)]
        if chooser.flag(50):
            steps.append(Ack(upto=chooser.below(2)))
    steps += [Restart(how="kill" if chooser.flag(60) else "stop"), _consumer(chooser, shape, dest)]
    return [*steps, Take(host=_host(chooser, shape), deadline_ms=50, count=4), Ack(upto=chooser.below(3))]


def lifetimes(chooser: Chooser, shape: Shape) -> list[AnyStep]:
    """A message lives by the broker's clock, or is due at a time by its producer's; some clock jumps."""
    dest = chooser.below(shape.dests)
    life_ms = 1 + shape.draw_ms(chooser)
    send = Send(host=_host(chooser, shape), dest=dest, life_ms=life_ms)
    if chooser.flag(35):
        send = Send(host=_host(chooser, shape), dest=dest, deliver_in_ms=life_ms)
    steps: list[AnyStep] = [_consumer(chooser, shape, dest)] if chooser.flag(40) else []
    steps.append(send)
    if chooser.flag(50):
        jump_ms = shape.draw_ms(chooser)
        steps.append(Clock(host=chooser.below(shape.clients + 1), jump_ms=-jump_ms if chooser.flag(50) else jump_ms))
    steps.append(Advance(ms=max(0, life_ms + (0, 1, -1, 100, -100, 1500)[chooser.below(6)])))
    return [*steps, _consumer(chooser, shape, dest), Take(host=_host(chooser, shape), deadline_ms=10, count=2)]


def raw_peers(chooser: Chooser, shape: Shape) -> list[AnyStep]:
    """Somebody with a bare socket comes while others are connected."""
    return [_consumer(chooser, shape, chooser.below(shape.dests)), Probe.draw(chooser, shape), Settle()]


#: Feature -> its templates.
TEMPLATES_OF: dict[str, tuple[Template, ...]] = {
    "transactions": (transacted_sends, transacted_acks),
    "selectors": (selection,),
    "priorities": (ranking,),
    "groups": (grouping,),
    "exclusive": (exclusivity,),
    "browsers": (browsing,),
    "wildcards": (wildcards,),
    "pull": (pulling,),
    "durables": (durables,),
    "operator": (operators,),
    "restarts": (restarts,),
    "lifetimes": (lifetimes,),
    "raw-peers": (raw_peers,),
}


def draw_template(chooser: Chooser, shape: Shape) -> list[AnyStep]:
    """A template of one of the program's features."""
    templates = [template for feature in shape.features for template in TEMPLATES_OF[feature]]
    steps = templates[chooser.below(len(templates))](chooser, shape)
    # Two features meet in one story.
    return [_crossed(chooser, shape, step) for step in steps] if len(shape.features) > 1 else steps


def _crossed(chooser: Chooser, shape: Shape, step: AnyStep) -> AnyStep:
    if isinstance(step, Subscribe) and chooser.flag(30):
        return msgspec.structs.replace(step, **draw_options(chooser, shape))
    if isinstance(step, Send) and chooser.flag(30):
        drawn = Send.draw(chooser, shape)
        return msgspec.structs.replace(step, priority=drawn.priority, kind=drawn.kind, group=drawn.group)
    return step
