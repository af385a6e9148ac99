"""Lives and visits: what the scene keeps of one message, and of one consumer's stay on one destination.

Rules: plain records, filled by ``scene.py``. Times are true nanoseconds of the observer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from brokerproof.conformance.experiment.history import (
        Ack,
        Arrive,
        Consume,
        Discard,
        Event,
        Leave,
        Nack,
        Send,
        Subscribe,
    )

#: Later than anything that happens.
NEVER_NS: Final = 2**62


class Life:
    """One message, as its send event names it."""

    __slots__ = ("acks", "arrivals", "called_expired", "consumes", "discards", "letters", "nacks", "send")

    def __init__(self, send: Send) -> None:
        self.send = send
        #: On its own destination, in order of time.
        self.arrivals: list[Arrive] = []
        #: On the dead-letter queue.
        self.letters: list[Arrive] = []
        self.consumes: list[Consume] = []
        self.discards: list[Discard] = []
        self.acks: list[Ack] = []
        self.nacks: list[Nack] = []
        #: The program itself has called it expired, past the library and its clock.
        self.called_expired = False

    def by_library(self) -> list[Discard]:
        """The discards that a library decided on; none where the program has interfered."""
        return [] if self.called_expired else self.discards

    def accepted(self) -> Event | None:
        """The event by whose end the broker had certainly taken it over; None when it is not known that it did."""
        if self.send.result == "ok":
            return self.send
        if self.send.result == "unknown":
            if self.arrivals:
                return self.arrivals[0]
            if self.letters:
                return self.letters[0]
        return None


class Visit:
    """One consumer on one destination. Times are true nanoseconds."""

    __slots__ = (
        "arrivals",
        "checks",
        "freed_ns",
        "gone_ns",
        "host",
        "leave",
        "leaving_ns",
        "settles_unseen",
        "subscribe",
        "uncertain",
        "via",
    )

    def __init__(self, subscribe: Subscribe, via: str, checks: bool) -> None:
        self.subscribe = subscribe
        self.host = subscribe.host
        self.via = via
        #: Its library discards what its own clock calls expired.
        self.checks = checks
        #: The broker settles what it has written to this consumer, seen or not (STOMP's ``auto``).
        self.settles_unseen = via == "stomp" and subscribe.ack == "auto"
        self.leave: Leave | None = None
        #: The broker may have taken its messages back from here on ...
        self.leaving_ns = NEVER_NS
        #: ... and has done so by now.
        self.gone_ns = NEVER_NS
        #: The broker may have ended it at any time.
        self.uncertain = False
        self.arrivals: list[Arrive] = []
        #: Times before which a slot of its window cannot have been freed, one per message that it settled; sorted by
        #: ``Scene``.
        self.freed_ns: list[int] = []
