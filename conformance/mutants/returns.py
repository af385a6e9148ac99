"""Mutants of who is there: clients that come back, what they send again, what their old connection held; and what
others are told of comings and goings.
"""

from __future__ import annotations

from brokerproof.reference_broker.core.advisory import Advising
from brokerproof.reference_broker.core.broker import Broker
from brokerproof.reference_broker.core.duplicate_detection import Resends
from brokerproof.reference_broker.core.effects import Effect
from brokerproof.reference_broker.core.events import Connect, Event
from brokerproof.reference_broker.core.instant import Now


class RecognisesNothing(Resends):
    """What is sent again is taken again."""

    def is_repeated(self, producer: str, number: int) -> bool:  # noqa: ARG002 - that is the defect
        return False


class ConfusesProducers(Resends):
    """A number that any producer has used is taken for a repetition."""

    def is_repeated(self, producer: str, number: int) -> bool:  # noqa: ARG002 - that is the defect
        return super().is_repeated("", number)

    def taken(self, producer: str, number: int) -> None:  # noqa: ARG002 - that is the defect
        super().taken("", number)


class SwallowsTheNext(Resends):
    """The message after the last one that was taken is thrown away as well."""

    def is_repeated(self, producer: str, number: int) -> bool:
        return super().is_repeated(producer, max(number - 1, 1))


class KeepsTheDead(Broker):
    """A client that comes back does not take the place of its old connection, which keeps what it holds."""

    def handle(self, event: Event, now: Now) -> list[Effect]:
        if isinstance(event, Connect):
            event = Connect(event.connection, event.client_id, request=event.request)
        return super().handle(event, now)


class ComesInSilence(Advising):
    """Nobody is told who comes."""

    def tells_presence(self, gone: bool) -> bool:
        return gone


class GoesInSilence(Advising):
    """Nobody is told who goes."""

    def tells_presence(self, gone: bool) -> bool:
        return not gone


class GreetsNobody(Advising):
    """Who begins to listen hears of those alone that come later."""

    def greets(self) -> bool:
        return False
