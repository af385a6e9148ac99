"""Lens: what transactions, browsers, operators, restarts and choosy consumers mean to folds that know none of them.

The folds of the books and of the scene ask: was it sent, who was given it, who had room. They look at a history through
this lens, which says the same in words that they know, or marks the destinations about which they had better be silent.

Rules
* What is part of a transaction is *unknown*: it may or may not have happened, at any time from then on. So every
  certainty is given up, and none is wrong, whatever became of the transaction.
* A browser is no consumer: it never owns a message. Its coming and going are left out.
* A destination is *clouded* for the whole run if its messages or figures can change in a way that no client sees: an
  operator purged or reset it, moved messages to or from it, or a wildcard consumer or a browser looked at it.
* It is *picky* if a free window there need not be filled, or not in the order of sending: a consumer with a selector,
  exclusive, with a priority, without its own messages, durable or without a prefetch; messages of groups.
* A restart of the broker is only noted here; what it excuses differs.

The oracles that judge these features read the history themselves. What must change together: ``history.py``.
"""

from __future__ import annotations

from typing import Final, TypeVar

import msgspec

from brokerproof.conformance.experiment.destinations import is_pattern, is_topic
from brokerproof.conformance.experiment.history import (
    Ack,
    Event,
    Fault,
    Header,
    Kill,
    Leave,
    Nack,
    Operate,
    Send,
    Stop,
    Subscribe,
)

DEFAULT_PRIORITY: Final = 4
#: Events that a fold must offer for the marks to be right.
KINDS: Final = ("operate", "subscribe", "leave", "send", "ack", "nack", "fault", "kill", "stop")


_Part = TypeVar("_Part", Send, Ack | Nack)


class Lens:
    """One run's view. Every event goes through ``look``, in order."""

    __slots__ = (
        "_broker",
        "_browsers",
        "_clouded",
        "_patterns",
        "_picky",
        "limited",
        "limits",
        "moved",
        "purged",
        "ranked",
        "restarted",
    )

    def __init__(self, broker: str) -> None:
        self._broker = broker
        #: Names of browsers.
        self._browsers: dict[str, bool] = {}
        self._clouded: dict[str, bool] = {}
        self._picky: dict[str, bool] = {}
        #: Wildcards that somebody consumed from.
        self._patterns: dict[str, bool] = {}
        #: Destination -> the end of the last request that took messages from it; from which some were moved elsewhere.
        self.purged: dict[str, int] = {}
        self.moved: dict[str, bool] = {}
        #: Destinations with messages of more than one priority.
        self.ranked: dict[str, bool] = {}
        self.restarted = False
        #: An operator changed memory limits, so that the declared ones mean nothing.
        self.limited = False
        self.limits: list[Operate] = []

    def look(self, event: Event) -> Event | None:
        """The event as a fold without these features is to see it; None: not at all."""
        kind = type(event)
        if kind is Send:
            return self._send(event)  # type: ignore[arg-type]  # its type was just compared
        if kind is Ack or kind is Nack:
            assert isinstance(event, Ack | Nack)
            return doubted(event) if event.tx is not None and event.result == "ok" else event
        if kind is Subscribe:
            return self._subscribe(event)  # type: ignore[arg-type]  # its type was just compared
        if kind is Leave:
            assert isinstance(event, Leave)
            return None if event.consumer in self._browsers else event
        if isinstance(event, Operate):
            self._operate(event)
        elif isinstance(event, Kill | Stop):
            self.restarted = self.restarted or event.target == self._broker
        elif isinstance(event, Fault):
            self.restarted = self.restarted or event.fault == "restart"
        return event

    def _send(self, event: Send) -> Send:
        if event.group:
            self._picky[event.dest] = True
        if event.priority != DEFAULT_PRIORITY:
            self.ranked[event.dest] = True
        if event.delay_ms < 0:
            event = msgspec.structs.replace(event, delay_ms=0)  # nonsense, which is none if it is not refused
        return doubted(event) if event.tx is not None and event.result == "ok" else event

    def _subscribe(self, event: Subscribe) -> Subscribe | None:
        if event.result == "fail":
            return event
        if event.browser:
            self._browsers[event.consumer] = True
            self._clouded[event.dest] = True
            return None
        if is_pattern(event.dest):
            self._patterns[event.dest] = True
        if is_choosy(event):
            self._picky[event.dest] = True
        return event

    def _operate(self, event: Operate) -> None:
        if event.result == "fail":
            return
        if event.op == "limit":
            self.limits.append(event)
            self.limited = True
            return
        self._clouded[event.dest] = True
        if event.op == "reset":
            return
        self.purged[event.dest] = event.t1
        if event.op == "move":
            self.moved[event.dest] = True
            self._clouded[event.to] = True

    def clouded(self, dest: str) -> bool:
        """Whether messages or figures may have changed there unseen, at any time of the run so far."""
        return dest in self._clouded or self._covered(dest)

    def _covered(self, dest: str) -> bool:
        """Whether a wildcard consumer may have got its messages."""
        pattern = "t*" if is_topic(dest) else "q*"
        return pattern in self._patterns and (dest == pattern or "." not in dest)

    def picky(self, dest: str) -> bool:
        """Whether a free window there need not be filled."""
        return dest in self._picky


def doubted(event: _Part) -> _Part:
    """The same, of unknown result."""
    return msgspec.structs.replace(event, result="unknown")


def surely_believes_client(header: Header) -> bool:
    """Whether a client's expired-ack settles a message for certain: where that is declared, and, as it is the default,
    in the simulated broker, which is ours.
    """
    default = "classic-5.14" if header.world == "simulated" else ""
    return header.declared.generation.get("expiry", default) == "classic-5.14"


def is_choosy(event: Subscribe) -> bool:
    """Whether this consumer may rightly be without a message that waits, or others because of it."""
    wants = bool(event.selector) or bool(event.durable) or event.no_local or event.exclusive
    return wants or event.priority != 0 or event.prefetch == 0
