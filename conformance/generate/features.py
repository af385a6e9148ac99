"""Scenario templates of features: short runs of steps with the values that matter; the rest is left to chance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from brokerproof.conformance.experiment.steps import (
    Ack,
    Acknowledge,
    Advance,
    AnyStep,
    Begin,
    Clock,
    Commit,
    Leave,
    Nack,
    Operate,
    Pause,
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
from brokerproof.conformance.experiment.steps.consume import ACKS, DURABLES, draw_options
from brokerproof.conformance.experiment.steps.operation import OPERATIONS
from brokerproof.conformance.experiment.steps.selecting import draw_selector
from brokerproof.conformance.experiment.steps.send import GROUPS, KINDS, PRIORITIES, draw_message_options
from brokerproof.conformance.generate.templates import Template, dest_of

if TYPE_CHECKING:
    from brokerproof.conformance.experiment.chooser import Chooser


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
    who, dest = _host(chooser, shape), dest_of(chooser, shape)
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
    who, dest = _host(chooser, shape), dest_of(chooser, shape)
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
    dest = dest_of(chooser, shape)
    steps: list[AnyStep] = [_consumer(chooser, shape, dest, selector=draw_selector(chooser))]
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
    dest = dest_of(chooser, shape)
    steps: list[AnyStep] = [
        Send(host=_host(chooser, shape), dest=dest, priority=PRIORITIES[chooser.below(len(PRIORITIES))])
        for _ in range(3 + chooser.below(3))
    ]
    steps.append(_consumer(chooser, shape, dest))
    return [*steps, Take(host=_host(chooser, shape), deadline_ms=50, count=5), Ack(upto=chooser.below(5))]


def grouping(chooser: Chooser, shape: Shape) -> list[AnyStep]:
    """Groups, two consumers, one of which leaves."""
    dest = dest_of(chooser, shape)
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
    dest = dest_of(chooser, shape)
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
    dest = dest_of(chooser, shape)
    steps: list[AnyStep] = [Send(host=_host(chooser, shape), dest=dest, count=1 + chooser.below(5))]
    if chooser.flag(50):
        steps += [_consumer(chooser, shape, dest), Take(host=_host(chooser, shape), deadline_ms=50)]
    steps += [_consumer(chooser, shape, dest, browser=True), Advance(ms=10)]
    return [*steps, Leave(host=_host(chooser, shape), consumer=chooser.below(2)), Settle()]


def wildcards(chooser: Chooser, shape: Shape) -> list[AnyStep]:
    """One consumer of everything, beside consumers of one destination."""
    steps: list[AnyStep] = [_consumer(chooser, shape, dest_of(chooser, shape), wild=True)]
    if chooser.flag(50):
        steps.append(_consumer(chooser, shape, dest_of(chooser, shape)))
    steps += [
        Send(host=_host(chooser, shape), dest=dest_of(chooser, shape), count=1 + chooser.below(2))
        for _ in range(2 + chooser.below(3))
    ]
    steps += [Take(host=_host(chooser, shape), deadline_ms=50, count=4), Ack(upto=chooser.below(4))]
    if chooser.flag(50):
        steps.append(Leave(host=_host(chooser, shape)))
    return [*steps, Settle()]


def pulling(chooser: Chooser, shape: Shape) -> list[AnyStep]:
    """A consumer that gets nothing unless it asks."""
    dest = dest_of(chooser, shape)
    return [
        _consumer(chooser, shape, dest, prefetch=0),
        Send(host=_host(chooser, shape), dest=dest, count=1 + chooser.below(3)),
        Advance(ms=10),
        Take(host=_host(chooser, shape), deadline_ms=(0, 100)[chooser.below(2)], count=2),
        Ack(upto=chooser.below(2)),
    ]


def durables(chooser: Chooser, shape: Shape) -> list[AnyStep]:
    """A durable subscriber goes and comes back; what was published meanwhile waits for it."""
    who = _host(chooser, shape)
    dest = shape.topics[chooser.below(len(shape.topics))] if shape.topics else 0
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
    dest = dest_of(chooser, shape)
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
    dest = dest_of(chooser, shape)
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
    dest = dest_of(chooser, shape)
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
    return [_consumer(chooser, shape, dest_of(chooser, shape)), Probe.draw(chooser, shape), Settle()]


def standing_still(chooser: Chooser, shape: Shape) -> list[AnyStep]:
    """The broker's process stands still while something becomes due, or is to be kept alive."""
    dest, ms = dest_of(chooser, shape), 1 + shape.draw_ms(chooser) % 10_000
    late: dict[str, Any] = {"delay_ms": ms} if chooser.flag(60) else {"ttl_ms": ms}
    steps: list[AnyStep] = [_consumer(chooser, shape, dest)] if chooser.flag(60) else []
    steps += [
        Send(host=_host(chooser, shape), dest=dest, **late),
        Pause(ms=max(1, ms + (500, 1, 0, -1)[chooser.below(4)])),
    ]
    return [*steps, Advance(ms=3000), _consumer(chooser, shape, dest), Settle()]


def past_the_library(chooser: Chooser, shape: Shape) -> list[AnyStep]:
    """Acknowledgements of several types for what one consumer holds."""
    dest = dest_of(chooser, shape)
    who = chooser.below(shape.clients)
    who = next((host for host in range(shape.clients) if shape.vias[host] == "jms"), who)
    count = 2 + chooser.below(4)
    steps: list[AnyStep] = [
        Subscribe(host=who, dest=dest, prefetch=(10, 3, 1)[chooser.below(3)], ack="individual"),
        Send(host=_host(chooser, shape), dest=dest, count=count),
        Take(host=who, deadline_ms=50, count=count),
    ]
    for _ in range(1 + chooser.below(3)):
        steps += [Settle(), Acknowledge.draw(chooser, shape)]
    return [*steps, Settle()]


def rejections(chooser: Chooser, shape: Shape) -> list[AnyStep]:
    """A message is rejected again and again, with time between."""
    dest, who = dest_of(chooser, shape), _host(chooser, shape)
    steps: list[AnyStep] = [
        Subscribe(host=who, dest=dest, prefetch=10, ack="individual"),
        Send(host=_host(chooser, shape), dest=dest),
    ]
    for _ in range(1 + chooser.below(4)):
        steps += [Take(host=who, deadline_ms=50), Nack(host=who), Advance(ms=(1200, 3000, 1, 499)[chooser.below(4)])]
    return steps


def transacted_rejections(chooser: Chooser, shape: Shape) -> list[AnyStep]:
    """Messages are rejected and acknowledged in a transaction, which ends, or is lost."""
    dest, who = dest_of(chooser, shape), _host(chooser, shape)
    count = 2 + chooser.below(3)
    steps: list[AnyStep] = [
        Subscribe(host=who, dest=dest, prefetch=10, ack=("individual", "client")[chooser.below(2)]),
        Send(host=_host(chooser, shape), dest=dest, count=count),
        Take(host=who, deadline_ms=50, count=count),
    ]
    for _ in range(1 + chooser.below(3)):
        steps += [Begin(host=who), Nack(host=who, upto=chooser.below(2))]
        steps += [Ack(host=who, upto=chooser.below(2))] if chooser.flag(40) else []
        ends = (Commit(host=who), Rollback(host=who), Rollback(host=who), Leave(host=who, how="drop"))
        steps += [ends[chooser.below(4)], Take(host=_host(chooser, shape), deadline_ms=50)]
    return [*steps, Settle()]


def giving_up(chooser: Chooser, shape: Shape) -> list[AnyStep]:
    """A transaction is rolled back so often that a client library gives the message up."""
    dest, who = dest_of(chooser, shape), _host(chooser, shape)
    who = next((host for host in range(shape.clients) if shape.vias[host] == "jms"), who)
    steps: list[AnyStep] = [
        Subscribe(host=who, dest=dest, prefetch=(10, 1)[chooser.below(2)]),
        Send(host=_host(chooser, shape), dest=dest),
    ]
    later = chooser.below(6)
    for turn in range((7, 8, 9, 3)[chooser.below(4)]):
        steps += [Begin(host=who), Take(host=who, deadline_ms=3000, count=2), Ack(host=who, upto=1), Rollback(host=who)]
        if turn == later:
            steps.append(Send(host=_host(chooser, shape), dest=dest))
    return [*steps, Settle()]


def survival(chooser: Chooser, shape: Shape) -> list[AnyStep]:
    """A durable subscription holds something, its broker goes and comes back, and it is taken again."""
    who, name = _host(chooser, shape), DURABLES[chooser.below(len(DURABLES))]
    dest = shape.topics[chooser.below(len(shape.topics))] if shape.topics else 0
    one = Subscribe(host=who, dest=dest, durable=name, prefetch=10, ack=("client", "individual")[chooser.below(2)])
    steps: list[AnyStep] = [one, Send(host=_host(chooser, shape), dest=dest, count=2 + chooser.below(4))]
    steps += [Take(host=who, deadline_ms=50, count=2), Ack(host=who, upto=chooser.below(2))]
    if chooser.flag(40):
        steps.append(Leave(host=who, how="drop"))
    steps += [Restart(how="kill" if chooser.flag(60) else "stop"), one, Take(host=who, deadline_ms=50, count=4)]
    return [*steps, Ack(host=who, upto=chooser.below(3)), Settle()]


def endings(chooser: Chooser, shape: Shape) -> list[AnyStep]:
    """A durable subscription ends, perhaps with a backlog or another one beside it, and then the broker restarts."""
    who, name = _host(chooser, shape), DURABLES[chooser.below(len(DURABLES))]
    dest = shape.topics[chooser.below(len(shape.topics))] if shape.topics else 0
    one = Subscribe(host=who, dest=dest, durable=name, prefetch=10)
    other = Subscribe(host=_host(chooser, shape), dest=dest, durable=DURABLES[chooser.below(len(DURABLES))])
    sent = Send(host=_host(chooser, shape), dest=dest, count=1 + chooser.below(3))
    steps: list[AnyStep] = [one, *([other] if chooser.flag(50) else []), sent]
    if chooser.flag(50):
        steps += [Take(host=who, deadline_ms=50, count=2), Ack(host=who, upto=chooser.below(2))]
    steps += [Leave(host=who, consumer=0), Unsubscribe(host=who)]
    restart = Restart(how="kill" if chooser.flag(60) else "stop")
    between: list[AnyStep] = [sent] if chooser.flag(40) else []
    steps += [restart, *between] if chooser.flag(70) else [*between, one, restart]
    steps += [one, Take(host=who, deadline_ms=50, count=4), Send(host=_host(chooser, shape), dest=dest)]
    return [*steps, Take(host=who, deadline_ms=50, count=2), Ack(host=who, upto=chooser.below(3)), Settle()]


def encroachment(chooser: Chooser, shape: Shape) -> list[AnyStep]:
    """A durable subscription that a consumer uses is asked for once more, or ended; then it is used as before."""
    who, name = _host(chooser, shape), DURABLES[chooser.below(len(DURABLES))]
    dest = shape.topics[chooser.below(len(shape.topics))] if shape.topics else 0
    one = Subscribe(host=who, dest=dest, durable=name, prefetch=10)
    sent = Send(host=_host(chooser, shape), dest=dest, count=1 + chooser.below(2))
    steps: list[AnyStep] = [one, *([sent] if chooser.flag(50) else []), Settle()]
    if chooser.flag(60):
        steps.append(msgspec.structs.replace(one, taken=True))
    if chooser.flag(60):
        steps.append(Unsubscribe(host=chooser.below(shape.clients), taken=True))
    return [*steps, sent, Settle(), one, Take(host=who, deadline_ms=50, count=4), Ack(host=who), Settle()]


#: Feature -> its templates.
TEMPLATES_OF: dict[str, tuple[Template, ...]] = {
    "transactions": (transacted_sends, transacted_acks, giving_up),
    "selectors": (selection,),
    "priorities": (ranking,),
    "groups": (grouping,),
    "exclusive": (exclusivity,),
    "browsers": (browsing,),
    "wildcards": (wildcards,),
    "pull": (pulling,),
    "durables": (durables, survival, endings, encroachment),
    "operator": (operators,),
    "restarts": (restarts,),
    "lifetimes": (lifetimes,),
    "raw-peers": (raw_peers,),
    "pauses": (standing_still,),
    "acknowledgements": (past_the_library,),
    "transacted-nacks": (transacted_rejections,),
    "redelivery": (rejections,),
}


def crossed(chooser: Chooser, shape: Shape, step: AnyStep) -> AnyStep:
    """A step of a template with what the program's other features ask for: where stories meet."""
    if isinstance(step, Subscribe) and chooser.flag(25):
        return msgspec.structs.replace(step, **_elsewhere(draw_options(chooser, shape)))
    if isinstance(step, Send) and chooser.flag(30):
        plain = Send()
        drawn = draw_message_options(chooser, shape, step.host)
        fresh = {name: value for name, value in drawn.items() if getattr(step, name) == getattr(plain, name)}
        return msgspec.structs.replace(step, **fresh)
    return step


def _elsewhere(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name != "dest"}
