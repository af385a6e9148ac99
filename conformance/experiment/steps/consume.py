"""``subscribe``, ``take``, ``ack``, ``nack``, ``leave``, ``unsubscribe``: what a consumer does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, Self

import msgspec

from brokerproof.conformance.experiment import operations as ops
from brokerproof.conformance.experiment.policies import UNASKED
from brokerproof.conformance.experiment.steps.base import Step
from brokerproof.conformance.experiment.steps.selecting import draw_nonsense, draw_selector
from brokerproof.conformance.experiment.steps.send import Ordinal

if TYPE_CHECKING:
    from collections.abc import Callable

    from brokerproof.conformance.experiment.chooser import Chooser
    from brokerproof.conformance.experiment.state import ClientState, ConsumerState, WorldState
    from brokerproof.conformance.experiment.steps.shape import Shape

PREFETCHES = (1, 2, 10, 1000)
ACKS = ("client", "individual", "auto")
DURABLES = ("d1", "d2")
#: More consumers than this on one host are refused, as a broker would run out of patience too.
CONSUMERS_MAX = 50


class Subscribe(ops.ConsumerOptions, Step, frozen=True, tag="subscribe"):
    """``host`` attaches one more consumer to ``dest``.

    ``prefetch`` 0 is a pull consumer (JMS only), -1 asks for nothing. ``wild`` consumes from all queues (or topics) of
    the program at once. What does not fit together is left out: ``wild`` before ``browser``, ``browser`` before
    ``exclusive``. ``taken``: also if one of the host's consumers uses the durable subscription; brokers must refuse
    that.
    """

    weight = 8
    host: Ordinal = 0
    dest: Ordinal = 0
    prefetch: Annotated[int, msgspec.Meta(ge=-1, le=32767)] = 1
    wild: bool = False
    taken: bool = False

    @classmethod
    def draw(cls, chooser: Chooser, shape: Shape) -> Subscribe:
        plain = cls(
            host=chooser.below(shape.clients),
            dest=shape.consumable[chooser.below(len(shape.consumable))],
            prefetch=_draw_prefetch(chooser, shape),
            dispatch="sync" if chooser.flag(30) else "async",
            ack=ACKS[chooser.below(len(ACKS))],  # type: ignore[arg-type]  # indexing a tuple of literals
        )
        options = draw_options(chooser, shape)
        return msgspec.structs.replace(plain, **options) if options else plain

    def normalise(self, state: WorldState) -> Subscribe | None:
        client = state.clients[self.host % len(state.clients)]
        dest = self.dest % len(state.dests)
        if len(client.consumers) >= CONSUMERS_MAX or state.destinations.kind(state.dests[dest]) == "composite":
            return None
        fitting = self._fitting(state.destinations.is_topic(state.dests[dest]), client, state)
        used = fitting.durable != "" and any(one.durable == fitting.durable for one in client.consumers)
        if used and not self.taken:
            return None
        return msgspec.structs.replace(fitting, host=self.host % len(state.clients), dest=dest, taken=used)

    def _fitting(self, topic: bool, client: ClientState, state: WorldState) -> Subscribe:
        """The same without options that mean nothing here."""
        browser = self.browser and not topic and not self.wild and client.spec.version != "1.0"  # which has none
        durable = self.durable if topic and state.durable else ""
        return msgspec.structs.replace(
            self,
            browser=browser,
            durable=durable,
            exclusive=self.exclusive and not topic and not self.wild and not browser,
            ack="auto" if browser and self.ack == "client" else self.ack,
            prefetch=self.prefetch if self.prefetch or (client.via == "jms" and not browser and not self.wild) else 1,
        )

    def resolve(self, state: WorldState) -> ops.Subscribe:
        client, dest = state.clients[self.host], state.dests[self.dest]
        return ops.Subscribe(
            host=client.name,
            dest=state.destinations.pattern(dest) if self.wild else dest,
            consumer=client.next_consumer(),
            prefetch=None if self.prefetch == UNASKED else self.prefetch,
            **ops.shared(self, ops.Subscribe, "host", "dest", "prefetch"),
        )


def _draw_prefetch(chooser: Chooser, shape: Shape) -> int:
    if "windows" in shape.features and chooser.flag(50):
        return UNASKED if chooser.flag(40) else shape.draw_count(chooser)
    return PREFETCHES[chooser.below(len(PREFETCHES))]


def draw_options(chooser: Chooser, shape: Shape) -> dict[str, object]:
    """Options of a consumer that the program's features ask for; a program without features draws nothing."""
    options: dict[str, object] = {}
    for feature, (percent, draw) in _OPTIONS.items():
        if feature in shape.features and chooser.flag(percent):
            options |= draw(chooser, shape)
    return options


def _draw_selector(chooser: Chooser, shape: Shape) -> dict[str, object]:
    nonsense = "nonsense" in shape.features and chooser.flag(15)
    return {"selector": draw_nonsense(chooser) if nonsense else draw_selector(chooser)}


def _draw_durable(chooser: Chooser, shape: Shape) -> dict[str, object]:
    options: dict[str, object] = {"durable": DURABLES[chooser.below(len(DURABLES))]}
    return options | {"dest": shape.topics[chooser.below(len(shape.topics))]} if shape.topics else options


def _draw_rank(chooser: Chooser, shape: Shape) -> dict[str, object]:  # noqa: ARG001 - nothing depends on the shape
    return {"exclusive": True} if chooser.flag(60) else {"priority": (5, -5, 127, -128, 1)[chooser.below(5)]}


#: Feature -> how many consumers of a program about it have it, and what they ask for.
_OPTIONS: dict[str, tuple[int, Callable[[Chooser, Shape], dict[str, object]]]] = {
    "selectors": (50, _draw_selector),
    "exclusive": (40, _draw_rank),
    "browsers": (25, lambda chooser, _: {"browser": True, "ack": ("auto", "individual")[chooser.below(2)]}),
    "wildcards": (25, lambda *_: {"wild": True}),
    "pull": (40, lambda *_: {"prefetch": 0}),
    "durables": (40, _draw_durable),
    "no-local": (40, lambda *_: {"no_local": True}),
}


def acknowledged(consumer: ConsumerState, upto: int) -> ops.Ack:
    """Its application acknowledges the ``upto``-th of its unsettled messages, and what goes with it."""
    covered = [consumer.unsettled[upto]]
    if consumer.ack == "client":
        # JMS: Message.acknowledge() settles everything that the session has delivered, whichever message it is called
        # on.
        covered = list(consumer.unsettled) if consumer.client.via == "jms" else consumer.unsettled[: upto + 1]
    return ops.Ack(
        host=consumer.client.name,
        consumer=consumer.name,
        messages=covered,
        mode="cumulative" if consumer.ack == "client" else "individual",
        tx=consumer.client.settles_in(consumer),
    )


class _OfConsumer(Step, frozen=True):
    """Shared by steps that name a consumer: ``host`` among the clients that have one, ``consumer`` among that client's,
    oldest first.
    """

    host: Ordinal = 0
    consumer: Ordinal = 0

    def _locate(self, state: WorldState) -> Self | None:
        """The same with ordinals in range; None: there is no consumer."""
        fitting = [client for client in state.clients if client.consumers]
        if not fitting:
            return None
        client = self.host % len(fitting)
        consumer = self.consumer % len(fitting[client].consumers)
        return msgspec.structs.replace(self, host=client, consumer=consumer)

    def consumer_in(self, state: WorldState) -> ConsumerState:
        """The consumer that a located step names."""
        return [client for client in state.clients if client.consumers][self.host].consumers[self.consumer]


class Take(_OfConsumer, frozen=True, tag="take"):
    """The application asks for up to ``count`` messages, waiting at most ``deadline_ms`` for each."""

    weight = 25
    deadline_ms: ops.Duration = 0
    count: Annotated[int, msgspec.Meta(ge=1, le=100_000)] = 1

    @classmethod
    def draw(cls, chooser: Chooser, shape: Shape) -> Take:
        return cls(
            host=chooser.below(shape.clients),
            consumer=chooser.below(2),
            deadline_ms=shape.draw_ms(chooser) if chooser.flag(10) else (0, 10, 1000)[chooser.below(3)],
            count=shape.draw_count(chooser) if chooser.flag(30) else 1,
        )

    def normalise(self, state: WorldState) -> Take | None:
        found = self._locate(state)
        return None if found is None or found.consumer_in(state).browser else found  # its messages belong to others

    def resolve(self, state: WorldState) -> ops.Take:
        consumer = self.consumer_in(state)
        return ops.Take(host=consumer.client.name, consumer=consumer.name, deadline_ms=self.deadline_ms)

    def repeats(self) -> int:
        return self.count


class _OfUnsettled(_OfConsumer, frozen=True):
    """Shared by steps that name one of the messages that a consumer took and has not settled: the ``upto``-th."""

    upto: Ordinal = 0

    @classmethod
    def draw(cls, chooser: Chooser, shape: Shape) -> Self:
        return cls(host=chooser.below(shape.clients), consumer=chooser.below(2), upto=chooser.below(4))

    def normalise(self, state: WorldState) -> Self | None:
        found = self._locate(state)
        consumer = None if found is None else found.consumer_in(state)
        if found is None or consumer is None or consumer.ack == "auto" or not consumer.unsettled:
            return None
        return msgspec.structs.replace(found, upto=self.upto % len(consumer.unsettled))


class Ack(_OfUnsettled, frozen=True, tag="ack"):
    """The application acknowledges messages that it took: up to and including the ``upto``-th unsettled one
    (cumulative), or that one alone (individual).
    """

    weight = 15

    def resolve(self, state: WorldState) -> ops.Ack:
        return acknowledged(self.consumer_in(state), self.upto)


class Nack(_OfUnsettled, frozen=True, tag="nack"):
    """The application rejects the ``upto``-th unsettled message that it took (STOMP NACK, OpenWire POISON). Where that
    may mean all before it as well, it rejects these one by one. It is part of the client's open transaction if its
    acknowledgements are, the broker takes that (``transacted_nacks``) and the client is no JMS library.
    """

    weight = 5
    feature = "nacks"

    def normalise(self, state: WorldState) -> Nack | None:
        found = super().normalise(state)  # STOMP 1.0 has none
        return None if found is None or found.consumer_in(state).client.spec.version == "1.0" else found

    def resolve(self, state: WorldState) -> ops.Nack:
        consumer = self.consumer_in(state)
        first = 0 if state.nack_ranges and consumer.ack == "client" else self.upto
        rejected = consumer.unsettled[first : self.upto + 1]
        client = consumer.client
        tx = client.settles_in(consumer) if state.transacted_nacks and client.via == "stomp" else ""
        return ops.Nack(host=client.name, consumer=consumer.name, messages=rejected, tx=tx)


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
        return self._locate(state)

    def resolve(self, state: WorldState) -> ops.Leave:
        consumer = self.consumer_in(state)
        name = consumer.name if self.how == "close" else None
        return ops.Leave(host=consumer.client.name, consumer=name, how=self.how)


class Disconnect(Step, frozen=True, tag="disconnect"):
    """A client says goodbye to the broker, with all that it has open."""

    weight = 3
    host: Ordinal = 0

    @classmethod
    def draw(cls, chooser: Chooser, shape: Shape) -> Disconnect:
        return cls(host=chooser.below(shape.clients))

    def normalise(self, state: WorldState) -> Disconnect | None:
        return msgspec.structs.replace(self, host=self.host % len(state.clients))

    def resolve(self, state: WorldState) -> ops.Leave:
        return ops.Leave(host=state.clients[self.host].name)


class Unsubscribe(Step, frozen=True, tag="unsubscribe"):
    """``host``, among the clients that have a durable subscription that nobody uses now, ends its ``durable``-th one,
    oldest first. ``taken``: among those that a consumer uses; brokers must refuse that.
    """

    weight = 3
    feature = "durables"
    host: Ordinal = 0
    durable: Ordinal = 0
    taken: bool = False

    @classmethod
    def draw(cls, chooser: Chooser, shape: Shape) -> Unsubscribe:
        return cls(host=chooser.below(shape.clients), durable=chooser.below(2))

    def normalise(self, state: WorldState) -> Unsubscribe | None:
        fitting = self._fitting(state)
        if not fitting:
            return None
        host = self.host % len(fitting)
        return msgspec.structs.replace(self, host=host, durable=self.durable % len(self._named(fitting[host])))

    def resolve(self, state: WorldState) -> ops.Unsubscribe:
        client = self._fitting(state)[self.host]
        return ops.Unsubscribe(host=client.name, durable=self._named(client)[self.durable])

    def _fitting(self, state: WorldState) -> list[ClientState]:
        return [client for client in state.clients if self._named(client)]

    def _named(self, client: ClientState) -> list[str]:
        return client.used_durables() if self.taken else client.idle_durables()
