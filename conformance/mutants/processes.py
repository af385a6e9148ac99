"""Mutants whose process ends, goes on without end, leaves operators without an answer, or sends nonsense."""

from __future__ import annotations

from typing import Any

from brokerproof.conformance.mutants.registry import Mutant
from brokerproof.reference_broker.core.broker import Broker
from brokerproof.reference_broker.core.effects import Effect
from brokerproof.reference_broker.core.events import POISON, Ack, Event
from brokerproof.reference_broker.core.instant import Now
from brokerproof.reference_broker.node import Node
from brokerproof.reference_broker.session.actions import Action, Answered
from brokerproof.reference_broker.stomp.frames import Frame


class Raises(Broker):
    """It fails over a rejected message."""

    def handle(self, event: Event, now: Now) -> list[Effect]:
        if isinstance(event, Ack) and event.kind == POISON:
            raise RuntimeError(f"cannot reject {event.last}")
        return super().handle(event, now)


class NeverRests(Node):
    """A timer is due for ever as soon as a client has gone."""

    _gone = False

    def disconnect(self, connection: int, now: Now) -> None:
        self._gone = True
        super().disconnect(connection, now)

    def next_due_ns(self) -> int | None:
        return 0 if self._gone else super().next_due_ns()


class IgnoresOperators(Node):
    """Operators hear nothing of what they asked for."""

    def take_actions(self) -> list[Action]:
        return [action for action in super().take_actions() if not isinstance(action, Answered)]


class Wordy(Node):
    """The priority in STOMP's MESSAGE frames is a word."""

    def next_output(self, connection: int, now: Now) -> Any:
        frame = super().next_output(connection, now)
        if isinstance(frame, Frame) and frame.command == "MESSAGE":
            return Frame(frame.command, frame.headers | {"priority": "high"}, frame.body)
        return frame


ALL: tuple[Mutant, ...] = (
    Mutant("raises-over-rejections", "GEN-090", "The broker fails over a rejected message.", broker=Raises),
    Mutant("timer-never-rests", "GEN-090", "A timer is due for ever once a client has gone.", node=NeverRests),
    Mutant("operators-unanswered", "GEN-091", "Operators get no answer.", node=IgnoresOperators),
    Mutant("priority-in-words", "GEN-092", "The priority in STOMP's MESSAGE frames is a word.", node=Wordy),
)
