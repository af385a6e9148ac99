"""What a less fortunate observer would have recorded of the same run.

Rules: a weakening takes knowledge away and adds none: receipts are lost, instants become intervals, what the broker's
end said is left out. Whoever sees less may find less, but must not find more.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

import msgspec

from brokerproof.conformance.experiment.history import (
    Ack,
    ClockSample,
    Closed,
    Counters,
    Event,
    Header,
    History,
    Nack,
    Phase,
    Send,
    Subscribe,
    Unsubscribe,
)

UNCERTAINTY_NS = 30_000_000
Weakening = Callable[[Event, random.Random], Event | None]


def weakened(history: History, world: str, seed: int, *weakenings: Weakening) -> History:
    chance = random.Random(seed)  # noqa: S311 - reproducible, not secret
    events: list[Event] = []
    for event in history.events:
        seen: Event | None = event
        for weakening in weakenings:
            seen = None if seen is None else weakening(seen, chance)
        if seen is not None:
            events.append(msgspec.structs.replace(seen, seq=len(events) + 1))
    header: Header = msgspec.structs.replace(history.header, world=world)
    return History(header, events)


def without_the_brokers_end(event: Event, chance: random.Random) -> Event | None:
    return None if isinstance(event, Closed) and event.host == "b" else event


def without_idle_times(event: Event, chance: random.Random) -> Event | None:
    return msgspec.structs.replace(event, idle_ns=None) if isinstance(event, Closed) else event


def with_lost_receipts(event: Event, chance: random.Random) -> Event | None:
    if (
        isinstance(event, Send | Ack | Nack | Subscribe | Unsubscribe)
        and event.result == "ok"
        and event.host != "drain"
        and chance.random() < 0.25
    ):
        return msgspec.structs.replace(event, result="unknown")
    return event


def with_wide_intervals(event: Event, chance: random.Random) -> Event | None:
    if isinstance(event, Counters | ClockSample | Phase):
        return event
    # Records of one act have the same times, and keep them.
    act = random.Random(f"{event.host} {event.t0} {event.t1}")  # noqa: S311 - reproducible, not secret
    return msgspec.structs.replace(event, t0=max(0, event.t0 - act.randrange(UNCERTAINTY_NS)))


#: The world that the weakened history claims to be of, and what is done to it.
WEAKENINGS: Final[tuple[tuple[str, tuple[Weakening, ...]], ...]] = (
    ("simulated", (with_lost_receipts,)),
    ("simulated", (with_wide_intervals,)),
    ("live", (without_the_brokers_end,)),
    ("live", (without_the_brokers_end, without_idle_times, with_wide_intervals, with_lost_receipts)),
)
