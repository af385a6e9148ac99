"""``send``: a producer sends messages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec

from brokerproof.conformance.experiment import operations as ops
from brokerproof.conformance.experiment.steps.base import Step

if TYPE_CHECKING:
    from brokerproof.conformance.experiment.chooser import Chooser
    from brokerproof.conformance.experiment.state import WorldState
    from brokerproof.conformance.experiment.steps.shape import Shape

Ordinal = Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]
PRIORITIES = (4, 9, 0, 5)
KINDS = ("", "a", "b", "c")
GROUPS = ("", "g1", "g2", "g3")
_HEADERS: Final[dict[str, Sequence[bool | int | float | str]]] = {
    "correlation-id": ("request-1", "a:b", "back\\slash", "\\\\a\\\\\\b", "Stra\u00dfe", "x" * 200),
    "type": ("order", "a b", "c:d"),
    "trip_id": ("", "plain", "a:b\\c", "\\", "\\\\:c", "\u20ac", "true", "1", "it's", "pl%n", "p_ain", "50%", "a_b"),
    "seat_no": (0, 1, -1, 127, 128, -(2**31), 2**31, 2**63 - 1),
    "was_paid": (False, True),
    "fare_eur": (0.5, -1.25, 1e300),
}
_Draw = Callable[["Chooser", "Shape"], dict[str, Any]]


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
        host = chooser.below(shape.clients)
        return cls(
            host=host,
            dest=shape.open_to[chooser.below(len(shape.open_to))],
            persistent=not chooser.flag(50 if "volatile" in shape.features else 5),
            size=shape.draw_size(chooser),
            count=shape.draw_count(chooser) if chooser.flag(10) else 1,
            **draw_message_options(chooser, shape, host),
        )

    def normalise(self, state: WorldState) -> Send | None:
        host = state.clients[self.host % len(state.clients)]
        if host.via == "jms" and (self.ttl_ms < 0 or self.stamp == "none"):
            return None
        if host.via != "jms" and (self.deliver_in_ms or self.network or self.preset_in_ms or self.again or self.calls):
            return None
        if host.via == "jms" and self.forged:
            return None  # its library has no way to
        if host.link.encoded and self.deliver_in_ms:
            return None  # OpenWire has no field for an absolute delivery time
        ttl_ms = 0 if self.life_ms or self.endless else self.ttl_ms
        again = self.again and self.persistent and not (host.transaction or host.stalled or self.calls)
        if sorted(self.calls.split()[1:]) not in ([], ["delay", "life", "send"]):
            return None
        dest = self.dest % len(state.dests)
        index, life_ms = self.host % len(state.clients), 0 if self.endless else self.life_ms
        return msgspec.structs.replace(self, host=index, dest=dest, ttl_ms=ttl_ms, life_ms=life_ms, again=again)

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


def draw_message_options(chooser: Chooser, shape: Shape, host: int) -> dict[str, Any]:
    """What the program's features ask for a message of that client, in the words of its library."""
    fields: dict[str, Any] = {}
    for feature, (percent, draw) in (_OF_JMS if shape.vias[host % shape.clients] == "jms" else _OF_STOMP).items():
        if feature in shape.features and chooser.flag(percent):
            fields |= draw(chooser, shape)
    return fields


def _draw_life(chooser: Chooser, shape: Shape) -> dict[str, Any]:
    if chooser.flag(30) and "delays" in shape.features:
        return {"ttl_ms": shape.draw_some_ms(chooser), "delay_ms": shape.draw_some_ms(chooser)}
    return {"ttl_ms": shape.draw_some_ms(chooser)}


def _draw_death(chooser: Chooser, shape: Shape) -> dict[str, Any]:
    """STOMP alone can say that a message has expired before it was sent."""
    return {"ttl_ms": -shape.draw_some_ms(chooser)} if chooser.flag(10) else _draw_life(chooser, shape)


def _draw_lifetime(chooser: Chooser, shape: Shape) -> dict[str, Any]:
    """JMS alone knows absolute delivery times."""
    return {("life_ms", "deliver_in_ms")[chooser.below(2)]: shape.draw_some_ms(chooser)}


def _draw_preset(chooser: Chooser, shape: Shape) -> dict[str, Any]:
    ms = shape.draw_some_ms(chooser)
    return {"preset_in_ms": -ms if chooser.flag(20) else ms}


def _draw_headers(chooser: Chooser, shape: Shape) -> dict[str, Any]:  # noqa: ARG001 - as all of them
    """Some of each: texts that protocols must escape, numbers at the ends of their types."""
    named = {name: values[chooser.below(len(values))] for name, values in _HEADERS.items() if chooser.flag(40)}
    return {"headers": named or {"type": "order"}}


def _draw_chosen(chooser: Chooser, shape: Shape) -> dict[str, Any]:
    """What selectors choose by."""
    fields = {"kind": KINDS[chooser.below(len(KINDS))], "priority": chooser.below(10)}
    return fields | (_draw_headers(chooser, shape) if chooser.flag(40) else {})


def _draw_word(field: str, words: Sequence[object]) -> _Draw:
    return lambda chooser, _: {field: words[chooser.below(len(words))]}


#: Feature -> how many messages of a program about it have it, and what they ask for. What comes later wins.
_OPTIONS: Final[dict[str, tuple[int, _Draw]]] = {
    "ttls": (50, _draw_life),
    "delays": (35, lambda chooser, shape: {"delay_ms": shape.draw_some_ms(chooser)}),
    "priorities": (70, _draw_word("priority", (*PRIORITIES, 3, 8))),
    "selectors": (70, _draw_chosen),
    "groups": (70, _draw_word("group", GROUPS)),
    "endless": (20, lambda *_: {"endless": True}),
    "temporaries": (30, lambda *_: {"reply": True}),
    "lifetimes": (40, lambda chooser, shape: {"life_ms": shape.draw_some_ms(chooser)}),
    "headers": (60, _draw_headers),
    "nonsense": (10, lambda chooser, shape: {"delay_ms": -shape.draw_some_ms(chooser)}),
}
_OF_STOMP: Final = _OPTIONS | {
    "ttls": (50, _draw_death),
    "stamps": (40, _draw_word("stamp", ("none", "zero"))),
    "forgeries": (30, _draw_word("forged", (1, 7, 1000))),
}
_OF_JMS: Final = _OPTIONS | {
    "stamps": (30, _draw_word("stamp", ("zero",))),
    "lifetimes": (40, _draw_lifetime),
    "bridges": (40, lambda *_: {"network": True}),
    "presets": (30, _draw_preset),
    "repeats": (30, lambda *_: {"again": True}),
}
