"""The last thing that happens to a live history: intervals are narrowed by what was seen, events ordered and numbered.

Rules
* Events are ordered by ``t1``; what agents and taps told late finds its place here.
* An effect proves its cause. A message that arrived had been accepted by then, a consumer at which one arrived had been
  attached: so a ``send`` or ``subscribe`` whose receipt came later than that ends its interval there, and stands first.
  Results stay what they were: *unknown* means that nobody was told.
"""

from __future__ import annotations

from brokerproof.conformance.experiment.history import Arrive, Event, Send, Subscribe


def put_in_order(events: list[Event]) -> list[Event]:
    """The same events, narrowed, sorted and numbered from 1."""
    arrived: dict[str, int] = {}
    attached: dict[str, int] = {}
    for event in events:
        if isinstance(event, Arrive):
            arrived[event.message] = min(event.t1, arrived.get(event.message, event.t1))
            attached[event.consumer] = min(event.t1, attached.get(event.consumer, event.t1))
    for event in events:
        if isinstance(event, Send):
            event.t1 = _narrowed(event, arrived.get(event.message))
        elif isinstance(event, Subscribe):
            event.t1 = _narrowed(event, attached.get(event.consumer))
    ordered = sorted(events, key=_place)
    for number, event in enumerate(ordered, start=1):
        event.seq = number
    return ordered


def _narrowed(event: Event, seen_ns: int | None) -> int:
    return event.t1 if seen_ns is None else max(event.t0, min(event.t1, seen_ns))


def _place(event: Event) -> tuple[int, int]:
    """By time; of equals the subscription first, then the send, then the rest as it was recorded."""
    return event.t1, 0 if isinstance(event, Subscribe) else 1 if isinstance(event, Send) else 2
