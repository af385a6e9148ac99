"""Networks of brokers: one history for each broker, as if it were alone; and what crossed from one to another.

A bridge is a client of both brokers (NAME of the near one, NAME-far of the far one), so whatever holds for clients
holds for it, and every broker is judged by what its own clients saw. What nobody sees who looks at one broker alone is
a ``Crossing``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from brokerproof.conformance.experiment.history import Ack, Fault, History, Pause, Phase, Skipped
from brokerproof.conformance.facts.rows import Delivery, Send

if TYPE_CHECKING:
    from brokerproof.conformance.experiment.history import Event
    from brokerproof.conformance.facts.facts import Facts

#: What the far end of a bridge is called, behind the bridge's name.
FAR: Final = "-far"


def histories(history: History) -> list[History]:
    """That of each broker, the first one's first; of a broker alone the history itself."""
    at = history.header.at
    if at is msgspec.UNSET or not at:
        return [history]
    first = history.header.broker_host
    brokers = list(dict.fromkeys([first, *at.values()]))
    events: dict[str, list[Event]] = {broker: [] for broker in brokers}
    for event in history.events:
        host = _host(event)
        for broker in brokers if host is None else [at.get(host, first)]:
            events[broker].append(event)
    replace = msgspec.structs.replace
    return [
        History(replace(history.header, broker_host=broker, at=msgspec.UNSET), events[broker]) for broker in brokers
    ]


def _host(event: Event) -> str | None:
    """Who it is about; None: everybody."""
    if isinstance(event, Phase | Skipped):
        return None
    if isinstance(event, Fault):
        return event.link or event.target
    return event.target if isinstance(event, Pause) else event.host


class Crossing:
    """A message that came to a bridge at the near broker. ``sent``: as the bridge sent it to the far one, if it did."""

    __slots__ = ("delivery", "far", "marks", "sent")

    def __init__(self, delivery: Delivery, far: Facts, sent: Send | None) -> None:
        self.delivery = delivery
        self.far = far
        self.sent = sent
        self.marks = delivery.marks

    def acknowledged(self) -> Ack | None:
        """The acknowledgement that the near broker got, if it did for certain."""
        found = self.delivery.settlement
        return found if isinstance(found, Ack) and found.result == "ok" else None


def crossings(near: Facts) -> list[Crossing]:
    """All of them from one broker, in order of their arrivals at bridges."""
    found: list[Crossing] = []
    for delivery in near.deliveries if near.beyond else ():
        name = delivery.session.client.name + FAR
        far = next((one for one in near.beyond if name in one.clients), None)
        if far is not None and not delivery.is_dead_letter:
            found.append(Crossing(delivery, far, far.sends.get(delivery.send.message)))
    return found
