"""Lives: when which durable subscription existed, as an outside bookkeeper can know it.

Model. A durable subscription belongs to a host (whose client id never changes) and has a name. Its life begins with the
subscriber that made it and ends when it is unsubscribed, or when a subscriber asks under its name for another
destination, selector or noLocal. Its subscribers follow one another.

Rules:

* A refused ``subscribe`` or ``unsubscribe`` changes nothing.
* One of unknown result makes doubtful whatever it may have begun or ended; nothing is concluded from a doubtful life.

What must change together: ``topics.py``.
"""

from __future__ import annotations

from brokerproof.conformance.experiment.history import Subscribe, Unsubscribe
from brokerproof.conformance.oracles.books import Books
from brokerproof.conformance.oracles.records import Consumer, Message, Passage


class Life:
    """One durable subscription from its beginning to its end."""

    __slots__ = ("begin", "consumers", "doubtful", "end", "host", "name")

    def __init__(self, begin: Subscribe, doubtful: bool) -> None:
        self.host = begin.host
        self.name = begin.durable
        self.begin = begin
        self.end: Subscribe | Unsubscribe | None = None
        self.doubtful = doubtful
        #: Its subscribers, in order.
        self.consumers: list[Consumer] = []

    def is_same(self, event: Subscribe) -> bool:
        """Whether a subscriber takes this subscription up again."""
        begin = self.begin
        return (begin.dest, begin.selector, begin.no_local) == (event.dest, event.selector, event.no_local)

    def passages(self, message: Message) -> list[Passage]:
        """The arrivals of a message at its subscribers, in order."""
        return [passage for passage in message.passages if passage.consumer in self.consumers]

    def title(self) -> str:
        """For a text."""
        return f"durable subscription {self.name!r} of {self.host} on {self.begin.dest}"


def lives_of(books: Books, ends: list[Unsubscribe]) -> list[Life]:
    """All durable subscriptions of a run, in order of their beginnings."""
    events: list[Subscribe | Unsubscribe] = [*ends]
    for consumer in books.consumers.values():
        begin = consumer.subscribe
        if begin is not None and begin.durable and begin.result != "fail":
            events.append(begin)
    events.sort(key=_place)
    lives: list[Life] = []
    current: dict[tuple[str, str], Life] = {}
    #: A subscription of that name may exist that nobody saw beginning, or may not have ended.
    unsure: dict[tuple[str, str], bool] = {}
    for event in events:
        key = (event.host, event.durable)
        life = current.get(key)
        if isinstance(event, Unsubscribe):
            if event.result == "ok":
                unsure.pop(key, None)
                if life is not None:
                    life.end = event
                    del current[key]
            elif event.result == "unknown" and life is not None:
                life.doubtful = unsure[key] = True
            continue
        known = event.result == "ok"
        if life is None or not life.is_same(event):
            if life is not None:
                life.end = event
                life.doubtful = life.doubtful or not known
            life = current[key] = Life(event, not known or key in unsure)
            lives.append(life)
            if not known:
                unsure[key] = True
            elif key in unsure:
                del unsure[key]
        life.consumers.append(books.consumers[event.consumer])
    return lives


def _place(event: Subscribe | Unsubscribe) -> int:
    return event.seq
