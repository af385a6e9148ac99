"""Measures: what a story counts in a history, by name. Everything but the messages' ends is seen before the drain.

``consumed dead drained gone refused`` are numbers of messages (``outcomes.py``). ``NAME:DEST`` looks at one queue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, TypeVar

from brokerproof.conformance.experiment.history import Closed, Consume, Counters, Event, History, Phase, Probe, Send
from brokerproof.conformance.running import outcomes as ends

NS_PER_MS: Final = 1_000_000
Number = float
E = TypeVar("E", bound=Event)
#: Words of outcomes -> the measure's name.
_ENDS: Final = {
    "consumed": ends.CONSUMED,
    "dead": ends.DEAD_LETTER,
    "drained": ends.DRAINED,
    "gone": ends.GONE,
    "refused": ends.REFUSED,
}


def measure(history: History, name: str) -> Number | None:
    """What a measure is in a history; None: nobody could tell. Raises ``KeyError`` for an unknown measure."""
    word, _, dest = name.partition(":")
    if word in _ENDS:
        return sum(_ENDS[word] in outcome.split("+") for outcome in ends.outcomes(history).values())
    return MEASURES[word](history, dest)


def before_drain(history: History, kind: type[E]) -> Iterator[E]:
    """The events of a kind while the program itself was running."""
    for event in history.events:
        if isinstance(event, Phase) and event.name == "heal":
            return
        if isinstance(event, kind):
            yield event


def figures(history: History, dest: str | None, field: str) -> list[tuple[int, int]]:
    """(when, figure) of a destination or (None) of the broker, in order."""
    readings = (event for event in before_drain(history, Counters) if event.dest == (dest or None))
    found = ((event.t1, getattr(event, field)) for event in readings)
    return [(at, value) for at, value in found if value is not None]


def _extreme(field: str, choose: Callable[[list[int]], int]) -> Callable[[History, str], Number | None]:
    def of(history: History, dest: str) -> Number | None:
        values = [value for _, value in figures(history, dest, field)]
        return choose(values) if values else None

    return of


def _closed(who: str) -> Callable[[History, str], Number | None]:
    """Links that one end gave up because it heard nothing."""

    def of(history: History, link: str) -> Number | None:
        found = [one for one in before_drain(history, Closed) if one.who == who and "inactive" in one.reason]
        return len({one.link or one.host for one in found if not link or link in {one.link, one.host}})

    return of


def _silent_ms(history: History, host: str) -> Number | None:
    """How long a host had heard nothing, or not been heard, when its connection ended."""
    idle = [one.idle_ns for one in before_drain(history, Closed) if (not host or one.host == host) and one.idle_ns]
    return max(idle) / NS_PER_MS if idle else None


def _waited_ms(history: History, dest: str) -> Number | None:
    """The longest time from a send to its consumption."""
    sent = {one.message: one.t0 for one in before_drain(history, Send) if not dest or one.dest == dest}
    waits = [one.t1 - sent[one.message] for one in before_drain(history, Consume) if one.message in sent]
    return max(waits) / NS_PER_MS if waits else None


def _taken(history: History, dest: str) -> Number | None:
    """Messages that applications got before the drain."""
    sent = {one.message for one in before_drain(history, Send) if not dest or one.dest == dest}
    return len({one.message for one in before_drain(history, Consume)} & sent)


def _wasted(history: History, dest: str) -> Number | None:
    """Dispatches that no application's message came of."""
    dispatched = [value for _, value in figures(history, dest, "dispatched")]
    return max(dispatched) - (_taken(history, dest) or 0) if dispatched else None


def _heard(field: str) -> Callable[[History, str], Number | None]:
    """What raw peers heard, all together."""

    def of(history: History, _: str) -> Number | None:
        heard = [getattr(one.heard, field) for one in before_drain(history, Probe)]
        return sum(value or 0 for value in heard) if heard else None

    return of


MEASURES: Final[dict[str, Callable[[History, str], Number | None]]] = {
    "percent": _extreme("memory_percent", max),
    "end-percent": _extreme("memory_percent", lambda values: values[-1]),
    "lowest": _extreme("in_flight", min),
    "rest": _extreme("in_flight", lambda values: values[-1]),
    "dispatched": _extreme("dispatched", max),
    "expired": _extreme("expired", max),
    "waiting": _extreme("size", lambda values: values[-1]),
    "taken": _taken,
    "wasted": _wasted,
    "broker-closed": _closed("broker"),
    "client-closed": _closed("client"),
    "silent-ms": _silent_ms,
    "waited-ms": _waited_ms,
    "beats": _heard("beats"),
    "hung-up": _heard("closed"),
}
