"""The last thing that happens to a live history: intervals are narrowed by what was seen, events ordered and numbered.

Rules
* Events are ordered by ``t1``; what agents and taps told late finds its place here.
* An effect proves its cause. A message that arrived had been accepted by then, a consumer at which one arrived had been
  attached: so a ``send`` or ``subscribe`` whose receipt came later than that ends its interval there, and stands first.
  So does an arrival that was told later than the application had it. What came over a bridge had arrived elsewhere
  before; its interval stays. A host whose consumer was attached had been connected by then.
  Results stay what they were: *unknown* means that nobody was told.
"""

from __future__ import annotations

from collections import defaultdict

from brokerproof.conformance.experiment.history import Arrive, Connect, Consume, Event, Send, Subscribe


def put_in_order(events: list[Event]) -> list[Event]:
    """The same events, narrowed, sorted and numbered from 1."""
    _end_at_takes(events)
    arrived: dict[str, int] = {}
    attached: dict[str, int] = {}
    for event in events:
        if isinstance(event, Arrive):
            arrived[event.message] = min(event.t1, arrived.get(event.message, event.t1))
            attached[event.consumer] = min(event.t1, attached.get(event.consumer, event.t1))
    connects: dict[str, Connect] = {}
    for event in events:
        if isinstance(event, Send) and not event.network:
            event.t1 = _narrowed(event, arrived.get(event.message))
        elif isinstance(event, Connect):
            connects[event.host] = event
        elif isinstance(event, Subscribe):
            event.t1 = _narrowed(event, attached.get(event.consumer))
            connect = connects.get(event.host)
            if connect is not None and event.result == "ok" and connect.t0 <= event.t0:
                connect.t1 = _narrowed(connect, event.t1)
    ordered = sorted(events, key=_place)
    for number, event in enumerate(ordered, start=1):
        event.seq = number
    return ordered


def _end_at_takes(events: list[Event]) -> None:
    """What an application has taken had arrived, however late its agent heard of it."""
    taken: dict[tuple[str, str], list[int]] = defaultdict(list)
    for event in events:
        if isinstance(event, Consume):
            taken[event.consumer, event.message].append(event.t1)
    for event in sorted(events, key=_t1):
        if isinstance(event, Arrive) and (times := taken.get((event.consumer, event.message))):
            taken_ns = times.pop(0)
            event.t0, event.t1 = min(event.t0, taken_ns), min(event.t1, taken_ns)


def _t1(event: Event) -> int:
    return event.t1


def _narrowed(event: Event, seen_ns: int | None) -> int:
    return event.t1 if seen_ns is None else max(event.t0, min(event.t1, seen_ns))


def _place(event: Event) -> tuple[int, int]:
    """By time; of equals the connection first, then subscription, send, arrival, and the rest as it was recorded."""
    kinds = (Connect, Subscribe, Send, Arrive)
    return event.t1, kinds.index(type(event)) if isinstance(event, kinds) else len(kinds)
