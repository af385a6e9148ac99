"""``acknowledge``: what a client library would not do by itself, said straight in the protocol.

Only a JMS host can, and of live ones only those that brokerproof's own client plays: the stock Java client does what it
wants.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from brokerproof.conformance.experiment import operations as ops
from brokerproof.conformance.experiment.steps.base import Step
from brokerproof.conformance.experiment.steps.send import Ordinal

if TYPE_CHECKING:
    from brokerproof.conformance.experiment.chooser import Chooser
    from brokerproof.conformance.experiment.state import ConsumerState, WorldState
    from brokerproof.conformance.experiment.steps.shape import Shape

#: Those that name one message and no range.
SINGLE: Final = ("individual", "unmatched")


class Acknowledge(Step, frozen=True, tag="acknowledge"):
    """A JMS consumer in ``individual`` mode (``consumer`` counts those that hold something, outside of transactions)
    sends an acknowledgement of any OpenWire ``type``, from the ``first``-th of its unsettled messages to the
    ``upto``-th. ``open_start`` leaves the first id out, which means "from the oldest". ``wrong_end`` names a last
    message that does not exist.
    """

    weight = 8
    feature = "acknowledgements"
    consumer: Ordinal = 0
    type: ops.AckType = "standard"
    first: Ordinal = 0
    upto: Ordinal = 0
    open_start: bool = False
    wrong_end: bool = False

    @classmethod
    def draw(cls, chooser: Chooser, shape: Shape) -> Acknowledge:
        return cls(
            consumer=chooser.below(shape.clients),
            type=ops.ACK_TYPES[chooser.below(len(ops.ACK_TYPES))],
            first=chooser.below(3),
            upto=chooser.below(4),
            open_start=chooser.flag(30),
            wrong_end=chooser.flag(20),
        )

    def normalise(self, state: WorldState) -> Acknowledge | None:
        fitting = _fitting(state)
        if not fitting:
            return None
        place = self.consumer % len(fitting)
        upto = self.upto % len(fitting[place].unsettled)
        first = upto if self.type in SINGLE else 0 if self.open_start else self.first % (upto + 1)
        wrong = self.wrong_end and self.type not in SINGLE
        return msgspec.structs.replace(self, consumer=place, first=first, upto=upto, wrong_end=wrong)

    def resolve(self, state: WorldState) -> ops.Acknowledge:
        consumer = _fitting(state)[self.consumer]
        return ops.Acknowledge(
            host=consumer.client.name,
            consumer=consumer.name,
            messages=consumer.unsettled[self.first : self.upto + 1],
            type=self.type,
            open_start=self.open_start,
            wrong_end=self.wrong_end,
        )


def _fitting(state: WorldState) -> list[ConsumerState]:
    """What a broker tells of itself has no name here, so no range can be given among it; and a range would settle what
    the library will give to its application once more.
    """
    return [
        consumer
        for client in state.clients
        for consumer in client.consumers
        if client.via == "jms" and not client.transaction and consumer.ack == "individual"
        if consumer.unsettled and "" not in consumer.unsettled and not consumer.returned
    ]
