"""Machine: expiry is monotonic under ``futureOnly`` (seed 000, TSP-003).

Model: the expiration that each producer put on its message. With ``futureOnly`` the broker never lowers it: what
arrives carries the same or a later one. An absent expiration (0 or less) is not comparable, and dead letters are
outside the claim (DESIGN section 5).
"""

from __future__ import annotations

import msgspec
from hypothesis.stateful import initialize

from brokerproof.conformance.experiment.configuration import TimeStampingSpec
from brokerproof.conformance.experiment.destinations import DEAD_LETTERS
from brokerproof.conformance.experiment.history import Arrive, Event
from brokerproof.conformance.experiment.history import Send as Sent
from brokerproof.conformance.experiment.program import Program
from brokerproof.conformance.experiment.steps import Ack, Advance, Clock, Send, Settle, Subscribe, Take
from brokerproof.conformance.generate.strategies import frames
from brokerproof.conformance.machines.base import WorldMachine, machine_rules

_Rules = type("_Rules", (WorldMachine,), machine_rules((Send, Subscribe, Take, Ack, Clock, Advance, Settle)))


class ExpiryMachine(_Rules):  # type: ignore[misc, valid-type]  # its rules come from the registry, so the base is made at import
    """See the module's header."""

    promise = "TSP-003"

    def __init__(self) -> None:
        super().__init__()
        self.sent_ms: dict[str, int] = {}

    @initialize(frame=frames())
    def start(self, frame: Program) -> None:
        """Whatever the frame says of the plug-in, ``futureOnly`` is on."""
        present = frame.broker.timestamping or TimeStampingSpec()
        stamping = msgspec.structs.replace(present, future_only=True)
        self.open_world(
            msgspec.structs.replace(frame, broker=msgspec.structs.replace(frame.broker, timestamping=stamping))
        )

    def observe(self, event: Event) -> None:
        # A message can arrive before its producer has its receipt, so both orders are looked at.
        if isinstance(event, Sent) and event.expiration_ms > 0:
            self.sent_ms[event.message] = event.expiration_ms
        elif isinstance(event, Arrive) and event.dest != DEAD_LETTERS:
            before_ms = self.sent_ms.get(event.message, 0)
            if before_ms > 0 and event.expiration_ms < before_ms:
                self.broken(
                    f"{event.message} was sent with expiration {before_ms} and arrived with {event.expiration_ms}"
                )
