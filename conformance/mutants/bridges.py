"""Mutants of network bridges: what they lose, repeat, change or keep to themselves."""

from __future__ import annotations

from brokerproof.conformance.mutants.reconnection import ForgetsCrossings
from brokerproof.conformance.mutants.registry import Mutant, fresh
from brokerproof.reference_broker.core.message import DEFAULT_PRIORITY
from brokerproof.reference_broker.openwire.bridge import Bridge, PassedOn
from brokerproof.reference_broker.openwire.requests import DELIVERY_TIME


class AcknowledgesAtOnce(Bridge):
    """A message is acknowledged as soon as it has been sent on."""

    def _send(self, crossing: PassedOn) -> None:
        super()._send(crossing)
        super()._acknowledge(crossing)

    def _acknowledge(self, crossing: PassedOn) -> None:
        """That was done before."""


class SendsTwice(Bridge):
    """A message is sent on twice, the second time under another id."""

    def _send(self, crossing: PassedOn) -> None:
        copy = crossing.message.copy_to(crossing.message.destination)
        copy.message_id = f"{copy.message_id}0"
        super()._send(crossing)
        self.far.pass_on(copy)


class MovesDeath(Bridge):
    """The expiration is 1 ms later behind the bridge."""

    def _send(self, crossing: PassedOn) -> None:
        if crossing.message.expiration_ms > 0:
            crossing.message.expiration_ms += 1
        super()._send(crossing)


class Flattens(Bridge):
    """Behind the bridge every message has the default priority."""

    def _send(self, crossing: PassedOn) -> None:
        crossing.message.priority = DEFAULT_PRIORITY
        super()._send(crossing)


class DelaysAgain(Bridge):
    """What was delayed before it crossed is delayed behind the bridge, too."""

    def _send(self, crossing: PassedOn) -> None:
        if DELIVERY_TIME in crossing.message.properties:
            crossing.message.delay_ms = 60_000
        super()._send(crossing)


class Hoards(Bridge):
    """Every third confirmation is not told to the near broker."""

    __slots__ = ("_confirmations",)

    def _acknowledge(self, crossing: PassedOn) -> None:
        self._confirmations = getattr(self, "_confirmations", 0) + 1
        if self._confirmations % 3:
            super()._acknowledge(crossing)


ALL = (
    Mutant("bridge-acknowledges-at-once", "GEN-170", "A bridge acknowledges before the far broker has confirmed.",
           bridge=AcknowledgesAtOnce),
    Mutant("crossing-taken-again", "GEN-027", "What a bridge sends again after a cut is taken again.",
           "duplicate_detection", fresh(ForgetsCrossings)),
    Mutant("bridge-sends-twice", "GEN-171", "A bridge sends every message twice, under two ids.", bridge=SendsTwice),
    Mutant("bridge-1ms-longer", "GEN-172", "Behind a bridge a message lives 1 ms longer.", bridge=MovesDeath),
    Mutant("bridge-flattens", "GEN-173", "Behind a bridge every message has the default priority.", bridge=Flattens),
    Mutant("bridge-delays-again", "DLY-055", "A delay is served on either side of a bridge.", bridge=DelaysAgain),
    Mutant("bridge-hoards", "GEN-174", "A bridge keeps every third message to itself.", bridge=Hoards),
)  # fmt: skip
