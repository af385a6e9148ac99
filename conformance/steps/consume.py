"""``subscribe``, ``take``, ``ack``, ``nack``, ``leave``: what a consumer does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import msgspec

from conformance.steps.base import Shape, Step
from conformance.steps.send import Duration, Ordinal

if TYPE_CHECKING:
    from conformance.generate.chooser import Chooser
    from conformance.worlds.base import World
    from conformance.worlds.state import ClientState, ConsumerState, WorldState

PREFETCHES = (1, 2, 10, 1000)
ACKS = ("client", "individual", "auto")
#: More consumers than this on one host are refused, as a broker would run out of patience too.
CONSUMERS_MAX = 50


class Subscribe(Step, frozen=True, tag="subscribe"):
    """``host`` attaches one more consumer to ``dest``. ``dispatch`` sync is not selectable over STOMP on real ActiveMQ
    brokers (*not applicable* there).
    """

    weight = 8
    host: Ordinal = 0
    dest: Ordinal = 0
    prefetch: Annotated[int, msgspec.Meta(ge=1, le=32767)] = 1
    dispatch: Literal["async", "sync"] = "async"
    ack: Literal["client", "individual", "auto"] = "client"

    @classmethod
    def draw(cls, chooser: Chooser, shape: Shape) -> Subscribe:
        return cls(
            host=chooser.below(shape.clients),
            dest=chooser.below(shape.dests),
            prefetch=PREFETCHES[chooser.below(len(PREFETCHES))],
            dispatch="sync" if chooser.flag(30) else "async",
            ack=ACKS[chooser.below(len(ACKS))],  # type: ignore[arg-type]  # indexing a tuple of literals
        )

    def normalise(self, state: WorldState) -> Subscribe | None:
        host = self.host % len(state.clients)
        if len(state.clients[host].consumers) >= CONSUMERS_MAX:
            return None
        return msgspec.structs.replace(self, host=host, dest=self.dest % len(state.dests))

    def perform(self, world: World) -> None:
        world.subscribe(world.state.clients[self.host], world.state.dests[self.dest], self)


def consumers_of(state: WorldState, host: int) -> tuple[ClientState, list[ConsumerState]]:
    """The client that a ``host`` ordinal means where a consumer is needed: among the clients that have one, else
    anybody with an empty list.
    """
    fitting = [client for client in state.clients if client.consumers]
    if not fitting:
        return state.clients[0], []
    client = fitting[host % len(fitting)]
    return client, client.consumers


class _OfConsumer(Step, frozen=True):
    """Shared by steps that name a consumer: ``host`` among the clients that have one, ``consumer`` among that client's,
    oldest first.
    """

    host: Ordinal = 0
    consumer: Ordinal = 0

    def _locate(self, state: WorldState) -> tuple[int, int] | None:
        fitting = [client for client in state.clients if client.consumers]
        if not fitting:
            return None
        client = self.host % len(fitting)
        return client, self.consumer % len(fitting[client].consumers)


class Take(_OfConsumer, frozen=True, tag="take"):
    """The application asks for up to ``count`` messages, waiting at most ``deadline_ms`` for each."""

    weight = 25
    deadline_ms: Duration = 0
    count: Annotated[int, msgspec.Meta(ge=1, le=100_000)] = 1

    @classmethod
    def draw(cls, chooser: Chooser, shape: Shape) -> Take:
        return cls(
            host=chooser.below(shape.clients),
            consumer=chooser.below(2),
            deadline_ms=(0, 10, 1000)[chooser.below(3)],
            count=1 + (chooser.below(10) if chooser.flag(20) else 0),
        )

    def normalise(self, state: WorldState) -> Take | None:
        found = self._locate(state)
        return None if found is None else msgspec.structs.replace(self, host=found[0], consumer=found[1])

    def perform(self, world: World) -> None:
        _, consumers = consumers_of(world.state, self.host)
        consumer = consumers[self.consumer]
        for _ in range(self.count):
            if not world.take(consumer, self.deadline_ms):
                break


class Ack(_OfConsumer, frozen=True, tag="ack"):
    """The application acknowledges messages that it took: up to and including the ``upto``-th unsettled one
    (cumulative), or that one alone (individual).
    """

    weight = 15
    upto: Ordinal = 0

    @classmethod
    def draw(cls, chooser: Chooser, shape: Shape) -> Ack:
        return cls(host=chooser.below(shape.clients), consumer=chooser.below(2), upto=chooser.below(4))

    def normalise(self, state: WorldState) -> Ack | None:
        found = self._locate(state)
        if found is None:
            return None
        unsettled = _unsettled(state, found)
        if not unsettled:
            return None
        return msgspec.structs.replace(self, host=found[0], consumer=found[1], upto=self.upto % len(unsettled))

    def perform(self, world: World) -> None:
        _, consumers = consumers_of(world.state, self.host)
        consumer = consumers[self.consumer]
        world.ack(consumer, self.upto)


class Nack(_OfConsumer, frozen=True, tag="nack"):
    """The application rejects the ``upto``-th unsettled message that it took (STOMP NACK, OpenWire POISON)."""

    weight = 2
    upto: Ordinal = 0

    @classmethod
    def draw(cls, chooser: Chooser, shape: Shape) -> Nack:
        return cls(host=chooser.below(shape.clients), consumer=chooser.below(2), upto=chooser.below(4))

    def normalise(self, state: WorldState) -> Nack | None:
        found = self._locate(state)
        if found is None:
            return None
        unsettled = _unsettled(state, found)
        if not unsettled:
            return None
        return msgspec.structs.replace(self, host=found[0], consumer=found[1], upto=self.upto % len(unsettled))

    def perform(self, world: World) -> None:
        _, consumers = consumers_of(world.state, self.host)
        world.nack(consumers[self.consumer], self.upto)


def _unsettled(state: WorldState, found: tuple[int, int]) -> list[str]:
    _, consumers = consumers_of(state, found[0])
    consumer = consumers[found[1]]
    return [] if consumer.ack == "auto" else consumer.unsettled


class Leave(_OfConsumer, frozen=True, tag="leave"):
    """A consumer leaves: ``close`` says goodbye, ``drop`` loses the host's socket, ``kill`` loses its process (both end
    all consumers of the host).
    """

    weight = 5
    how: Literal["close", "drop", "kill"] = "close"

    @classmethod
    def draw(cls, chooser: Chooser, shape: Shape) -> Leave:
        return cls(
            host=chooser.below(shape.clients),
            consumer=chooser.below(2),
            how=("close", "drop", "kill")[chooser.below(3)],
        )

    def normalise(self, state: WorldState) -> Leave | None:
        found = self._locate(state)
        return None if found is None else msgspec.structs.replace(self, host=found[0], consumer=found[1])

    def perform(self, world: World) -> None:
        client, consumers = consumers_of(world.state, self.host)
        if self.how == "close":
            world.close_consumer(consumers[self.consumer])
        else:
            world.lose_client(client, self.how)
