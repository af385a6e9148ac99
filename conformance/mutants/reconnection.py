"""Mutants of who is there: clients that come back, what they send again, what their old connection held; and what
others are told of comings and goings.
"""

from __future__ import annotations

from brokerproof.reference_broker.core.advisory import AdvisoryPolicy
from brokerproof.reference_broker.core.broker import Broker
from brokerproof.reference_broker.core.duplicate_detection import DuplicateDetection
from brokerproof.reference_broker.core.effects import Effect
from brokerproof.reference_broker.core.events import Connect, Event
from brokerproof.reference_broker.core.instant import Now


class RecognisesNothing(DuplicateDetection):
    """What is sent again is taken again."""

    def is_repeated(self, producer: str, number: int) -> bool:  # noqa: ARG002 - that is the defect
        return False


class ForgetsCrossings(DuplicateDetection):
    """What a bridge sends again is taken again."""

    def has_crossed(self, destination: str, message_id: str) -> bool:  # noqa: ARG002 - that is the defect
        return False


class ConfusesProducers(DuplicateDetection):
    """A number that any producer has used is taken for a repetition."""

    def is_repeated(self, producer: str, number: int) -> bool:  # noqa: ARG002 - that is the defect
        return super().is_repeated("", number)

    def taken(self, producer: str, number: int) -> None:  # noqa: ARG002 - that is the defect
        super().taken("", number)


class SwallowsTheNext(DuplicateDetection):
    """The message after the last one that was taken is thrown away as well."""

    def is_repeated(self, producer: str, number: int) -> bool:
        return super().is_repeated(producer, max(number - 1, 1))


class KeepsTheDead(Broker):
    """A client that comes back does not take the place of its old connection, which keeps what it holds."""

    def handle(self, event: Event, now: Now) -> list[Effect]:
        if isinstance(event, Connect):
            event = Connect(event.connection, event.client_id, request=event.request)
        return super().handle(event, now)


class ComesInSilence(AdvisoryPolicy):
    """Nobody is told who comes."""

    def advises_presence(self, gone: bool) -> bool:
        return gone


class GoesInSilence(AdvisoryPolicy):
    """Nobody is told who goes."""

    def advises_presence(self, gone: bool) -> bool:
        return not gone


class GreetsNobody(AdvisoryPolicy):
    """Who begins to listen hears of those alone that come later."""

    def advises_existing(self) -> bool:
        return False
