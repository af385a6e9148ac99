"""Scenario templates: short runs of steps that belong together, one per story of the seeds.

Independent random steps rarely form a story: acknowledging needs a message that was taken, a boundary needs a wait of
just that length. A template draws such a run with the values that matter (a time, its neighbours by one millisecond)
and leaves everything else to chance. Steps stay single data items, so shrinking takes a template apart again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from brokerproof.conformance.experiment.steps import (
    Ack,
    Advance,
    AnyStep,
    Clock,
    Counters,
    Leave,
    Nack,
    Resume,
    Send,
    Settle,
    Stall,
    Subscribe,
    Take,
)

if TYPE_CHECKING:
    from brokerproof.conformance.experiment.chooser import Chooser
    from brokerproof.conformance.experiment.steps import Shape

Template = Callable[["Chooser", "Shape"], list[AnyStep]]


def dest_of(chooser: Chooser, shape: Shape) -> int:
    """A destination that clients both send to and consume from."""
    both = [dest for dest in shape.open_to if dest in shape.consumable]
    return both[chooser.below(len(both))]


def _near(chooser: Chooser, ms: int) -> int:
    """A wait of about ``ms``: exactly that, one millisecond to either side, or clearly before or after."""
    return max(0, ms + (0, 1, -1, 100, -100, 1500)[chooser.below(6)])


def _send(chooser: Chooser, shape: Shape, dest: int, **fields: int) -> Send:
    persistent = not chooser.flag(15)
    return Send(host=chooser.below(shape.clients), dest=dest, persistent=persistent, **fields)  # type: ignore[arg-type]  # names of numbers only


def consume(chooser: Chooser, shape: Shape) -> list[AnyStep]:
    """Attach, take some, settle some."""
    who = chooser.below(shape.clients)
    dest = dest_of(chooser, shape)
    count = 1 + chooser.below(4)
    subscribe = Subscribe(
        host=who,
        dest=dest,
        prefetch=(1, 2, 10, 1000)[chooser.below(4)],
        dispatch="sync" if chooser.flag(30) else "async",
        ack=("client", "individual", "auto")[chooser.below(3)],
    )
    steps: list[AnyStep] = [subscribe, _send(chooser, shape, dest, count=count)]
    consumer = chooser.below(2)
    steps.append(Take(host=who, consumer=consumer, deadline_ms=100, count=count))
    if chooser.flag(70):
        steps.append(Ack(host=who, consumer=consumer, upto=chooser.below(count)))
    elif chooser.flag(30):
        steps.append(Nack(host=who, consumer=consumer, upto=chooser.below(count)))
    return steps


def expire(chooser: Chooser, shape: Shape) -> list[AnyStep]:
    """A message waits for about as long as it may live, on some clock; then somebody wants it."""
    dest = dest_of(chooser, shape)
    ttl_ms = shape.draw_ms(chooser)
    steps: list[AnyStep] = [_send(chooser, shape, dest, ttl_ms=ttl_ms, count=1 + chooser.below(2))]
    if chooser.flag(30):
        steps.append(Clock(host=chooser.below(shape.clients + 1), jump_ms=_near(chooser, ttl_ms)))
    else:
        steps.append(Advance(ms=_near(chooser, ttl_ms)))
    if chooser.flag(30):
        steps.append(Counters(dest=dest))
    steps.append(Subscribe(host=chooser.below(shape.clients), dest=dest, prefetch=10))
    if chooser.flag(40):
        steps.append(Counters(dest=dest))
    steps.append(Take(host=chooser.below(shape.clients), deadline_ms=10, count=2))
    return steps


def behind_window(chooser: Chooser, shape: Shape) -> list[AnyStep]:
    """A message expires behind a full window, which then opens."""
    dest = dest_of(chooser, shape)
    ttl_ms = shape.draw_ms(chooser)
    who = chooser.below(shape.clients)
    return [
        Subscribe(host=who, dest=dest, prefetch=1),
        _send(chooser, shape, dest),
        _send(chooser, shape, dest, ttl_ms=ttl_ms),
        Take(host=who, deadline_ms=10),
        Advance(ms=_near(chooser, ttl_ms)),
        Ack(host=who),
        Take(host=who, deadline_ms=10),
    ]


def delay(chooser: Chooser, shape: Shape) -> list[AnyStep]:
    """A delayed message, a consumer that waits, perhaps a clock that jumps, a plain message that overtakes."""
    dest = dest_of(chooser, shape)
    delay_ms = 1 + shape.draw_ms(chooser)
    steps: list[AnyStep] = []
    if chooser.flag(70):
        steps.append(Subscribe(host=chooser.below(shape.clients), dest=dest, prefetch=(10, 1)[chooser.below(2)]))
    ttl_ms = _near(chooser, delay_ms) if chooser.flag(30) else 0
    steps.append(_send(chooser, shape, dest, delay_ms=delay_ms, ttl_ms=ttl_ms))
    if chooser.flag(40):
        steps.append(_send(chooser, shape, dest, delay_ms=max(1, delay_ms // 2)))
    if chooser.flag(30):
        steps.append(_send(chooser, shape, dest))
    if chooser.flag(50):
        jump_ms = _near(chooser, delay_ms)
        steps.append(Clock(host=chooser.below(shape.clients + 1), jump_ms=-jump_ms if chooser.flag(50) else jump_ms))
    steps.append(Advance(ms=_near(chooser, delay_ms)))
    steps.append(Take(host=chooser.below(shape.clients), deadline_ms=10, count=3))
    return steps


def churn(chooser: Chooser, shape: Shape) -> list[AnyStep]:
    """Seed 003: a prefilled queue, a consumer that leaves while the broker is still writing."""
    dest = dest_of(chooser, shape)
    who = chooser.below(shape.clients)
    steps: list[AnyStep] = [
        _send(chooser, shape, dest, count=4 + chooser.below(20)),
        Subscribe(
            host=who,
            dest=dest,
            prefetch=(1000, 10, 2)[chooser.below(3)],
            dispatch="sync" if chooser.flag(30) else "async",
        ),
    ]
    if chooser.flag(40):
        steps += [Take(host=who, deadline_ms=10, count=2), Ack(host=who, upto=chooser.below(2))]
    how = ("close", "drop", "kill")[chooser.below(3)]
    steps += [Leave(host=who, consumer=chooser.below(2), how=how), Counters(dest=dest)]  # type: ignore[arg-type]  # indexing a tuple of literals
    if chooser.flag(50):
        steps.append(Settle())
    return steps


def silence(chooser: Chooser, shape: Shape) -> list[AnyStep]:
    """A link falls silent for about as long as a monitor waits; somebody else wants what it held."""
    who = chooser.below(shape.clients)
    dest = dest_of(chooser, shape)
    wait_ms = shape.draw_ms(chooser)
    steps: list[AnyStep] = [Subscribe(host=who, dest=dest, prefetch=10)]
    if chooser.flag(70):
        steps.append(_send(chooser, shape, dest, count=1 + chooser.below(3)))
    if chooser.flag(50):
        steps.append(Advance(ms=(500, 1000, 3000)[chooser.below(3)]))
    steps.append(Stall(link=who, toward=("broker", "client", "both")[chooser.below(3)]))
    steps.append(Advance(ms=_near(chooser, wait_ms)))
    if chooser.flag(50):
        steps.append(Advance(ms=3000))
    if chooser.flag(50):
        steps.append(Resume())
    if chooser.flag(70):
        steps += [Subscribe(host=chooser.below(shape.clients), dest=dest, prefetch=10), Settle()]
    return steps


def backlog(chooser: Chooser, shape: Shape) -> list[AnyStep]:
    """Seed 002: a backlog that nobody consumes, and a consumer elsewhere."""
    steps: list[AnyStep] = [
        Send(
            host=chooser.below(shape.clients), dest=0, size=(1024, 4096)[chooser.below(2)], count=4 + chooser.below(24)
        ),
        Send(host=chooser.below(shape.clients), dest=1, size=(64, 1024)[chooser.below(2)], count=1 + chooser.below(4)),
        Counters(dest=0),
        Subscribe(host=chooser.below(shape.clients), dest=1, prefetch=(10, 1)[chooser.below(2)]),
        Settle(),
    ]
    if chooser.flag(40):
        steps += [Take(deadline_ms=10, count=2), Ack(upto=1)]
    return steps


def overtaking(chooser: Chooser, shape: Shape) -> list[AnyStep]:
    """A consumer with little credit waits; a long delay, then a message that is due earlier or at once."""
    dest = dest_of(chooser, shape)
    who = chooser.below(shape.clients)
    delay_ms = 3000 + shape.draw_ms(chooser)
    return [
        Subscribe(host=who, dest=dest, prefetch=(1, 2)[chooser.below(2)]),
        _send(chooser, shape, dest, delay_ms=delay_ms, count=1 + chooser.below(2)),
        _send(chooser, shape, dest, delay_ms=(0, 500)[chooser.below(2)]),
        Advance(ms=1500 + (1000 if chooser.flag(30) else 0)),
        Take(host=who, deadline_ms=10),
        Advance(ms=_near(chooser, delay_ms)),
    ]


def rejection(chooser: Chooser, shape: Shape) -> list[AnyStep]:
    """A message is taken and rejected; then everything comes to rest."""
    dest = dest_of(chooser, shape)
    who = chooser.below(shape.clients)
    count = 1 + chooser.below(3)
    return [
        Subscribe(host=who, dest=dest, prefetch=10, ack=("client", "individual")[chooser.below(2)]),
        _send(chooser, shape, dest, count=count),
        Take(host=who, consumer=chooser.below(2), deadline_ms=100, count=count),
        Nack(host=who, consumer=chooser.below(2), upto=chooser.below(count)),
        Settle(),
    ]


#: Template -> the feature that it is about; "" is none.
TEMPLATES: dict[Template, str] = {
    consume: "",
    churn: "",
    backlog: "",
    expire: "ttls",
    behind_window: "ttls",
    delay: "delays",
    overtaking: "delays",
    silence: "stalls",
    rejection: "nacks",
}
