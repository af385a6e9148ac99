"""``send``: a producer sends messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec

from brokerproof.conformance.experiment import operations as ops
from brokerproof.conformance.experiment.steps.base import Shape, Step

if TYPE_CHECKING:
    from brokerproof.conformance.experiment.chooser import Chooser
    from brokerproof.conformance.experiment.state import WorldState

Ordinal = Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]
SIZES = (64, 0, 1024, 4096)
PRIORITIES = (4, 9, 0, 5)
KINDS = ("", "a", "b", "c")
GROUPS = ("", "g1", "g2", "g3")


class Send(ops.MessageOptions, Step, frozen=True, tag="send"):
    """``host`` sends ``count`` equal messages to ``dest``; not what its library has no way to say: then the step is
    skipped. While the host has an open transaction, the messages are part of it.
    """

    weight = 35
    host: Ordinal = 0
    dest: Ordinal = 0
    count: Annotated[int, msgspec.Meta(ge=1, le=100_000)] = 1

    @classmethod
    def draw(cls, chooser: Chooser, shape: Shape) -> Send:
        return cls(
            host=chooser.below(shape.clients),
            dest=chooser.below(shape.dests),
            ttl_ms=_draw_ttl(chooser, shape),
            delay_ms=shape.draw_ms(chooser) if chooser.flag(25) else 0,
            persistent=not chooser.flag(20),
            size=SIZES[chooser.below(len(SIZES))],
            count=1 + (chooser.below(12) if chooser.flag(10) else 0),
            stamp=("client", "none", "zero")[chooser.below(3)] if chooser.flag(15) else "client",
            priority=PRIORITIES[chooser.below(len(PRIORITIES))] if "priorities" in shape.features else 4,
            kind=KINDS[chooser.below(len(KINDS))] if "selectors" in shape.features else "",
            group=GROUPS[chooser.below(len(GROUPS))] if "groups" in shape.features else "",
            life_ms=shape.draw_ms(chooser) if "lifetimes" in shape.features and chooser.flag(50) else 0,
            deliver_in_ms=shape.draw_ms(chooser) if "lifetimes" in shape.features and chooser.flag(25) else 0,
        )

    def normalise(self, state: WorldState) -> Send | None:
        host = state.clients[self.host % len(state.clients)]
        if host.via == "jms" and (self.ttl_ms < 0 or self.stamp == "none"):
            return None
        if host.via != "jms" and (self.deliver_in_ms or self.network or self.preset_in_ms or self.again):
            return None
        if host.via == "jms" and self.forged:
            return None  # its library has no way to
        ttl_ms = 0 if self.life_ms or self.endless else self.ttl_ms
        again = self.again and self.persistent and not host.transaction and not host.stalled
        dest = self.dest % len(state.dests)
        return msgspec.structs.replace(self, host=self.host % len(state.clients), dest=dest, ttl_ms=ttl_ms, again=again)

    def resolve(self, state: WorldState) -> ops.Send:
        client = state.clients[self.host]
        return ops.Send(
            host=client.name,
            dest=state.dests[self.dest],
            message=client.next_message(),
            tx=client.transaction,
            **ops.shared(self, ops.Send, "host", "dest"),
        )

    def repeats(self) -> int:
        return self.count


def _draw_ttl(chooser: Chooser, shape: Shape) -> int:
    if not chooser.flag(50):
        return 0
    ttl_ms = shape.draw_ms(chooser)
    return -ttl_ms if chooser.flag(10) else ttl_ms
