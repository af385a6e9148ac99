"""What a run has so far: hosts, links, consumers, unsettled messages. The part of a world that steps need in order to
be total.

Rules: lists keep creation order, newest last, because ordinals count in that order. Nothing here knows whether time is
virtual or real, so both worlds normalise a step alike; parity depends on it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

from brokerproof.conformance.experiment.configuration import HostSpec, LinkSpec
from brokerproof.conformance.experiment.destinations import (
    DEAD_LETTERS,
    is_composite,
    is_temporary,
    is_topic,
    temporary_of,
)

AckMode = Literal["auto", "client", "individual"]


class Subscription(Protocol):
    """What is kept of the step that attached a consumer (``steps/consume.py``)."""

    @property
    def ack(self) -> AckMode:
        """How it acknowledges."""

    @property
    def durable(self) -> str:
        """The durable subscription that it uses; "" is none."""

    @property
    def browser(self) -> bool:
        """It looks at a queue and takes nothing."""

    @property
    def prefetch(self) -> int:
        """Its window; 0: it asks for each message."""


class HostState:
    """One host with a clock of its own."""

    __slots__ = ("name", "spec")

    def __init__(self, spec: HostSpec) -> None:
        self.spec = spec
        self.name = spec.name


class ConsumerState:
    """An open consumer of a client, as its application sees it."""

    __slots__ = ("ack", "browser", "client", "dest", "durable", "name", "places", "pledged", "pulls", "unsettled")

    def __init__(self, name: str, client: ClientState, dest: str, step: Subscription) -> None:
        self.name = name
        self.client = client
        self.dest = dest
        self.ack: AckMode = step.ack
        #: The durable subscription that it uses; "" is none.
        self.durable = step.durable
        #: It looks at a queue and takes nothing.
        self.browser = step.browser
        #: It has no prefetch: it asks for each message.
        self.pulls = step.prefetch == 0
        #: Suite ids of messages that the application took and has not settled, oldest first.
        self.unsettled: list[str] = []
        #: Suite ids that it acknowledged in its host's open transaction; the place of each message in the order in
        #: which they were taken.
        self.pledged: list[str] = []
        self.places: dict[str, int] = {}

    def took(self, message: str) -> None:
        """The application was given a message that it must settle."""
        self.places[message] = len(self.places)
        self.unsettled.append(message)

    def settle(self, messages: list[str]) -> None:
        """These were acknowledged, for good or as part of the open transaction."""
        self.unsettled = [message for message in self.unsettled if message not in messages]
        if self.client.transaction:
            self.pledged += messages


class ClientState(HostState):
    """A client host, its link and its consumers."""

    # fmt: off
    __slots__ = ("consumer_count", "consumers", "durables", "index", "link", "sent_count", "stalled", "transaction",
                 "transaction_count", "via")
    # fmt: on

    def __init__(self, spec: HostSpec, index: int, link: LinkSpec) -> None:
        super().__init__(spec)
        self.index = index
        self.link = link
        self.via = spec.via
        self.consumers: list[ConsumerState] = []
        #: Consumers ever opened; names are never used again.
        self.consumer_count = 0
        #: Messages ever sent; a message's suite id is ``host/number``.
        self.sent_count = 0
        #: "" or the direction in which the link is stalled.
        self.stalled = ""
        #: The name of the open transaction, "" without one; transactions ever begun.
        self.transaction = ""
        self.transaction_count = 0
        #: Durable subscriptions that may exist, oldest first: name -> the destination and the options of its latest
        #: consumer.
        self.durables: dict[str, tuple[str, Subscription]] = {}

    def idle_durables(self) -> list[str]:
        """Durable subscriptions that no consumer uses now, oldest first."""
        used = [consumer.durable for consumer in self.consumers]
        return [name for name in self.durables if name not in used]

    def vanish(self) -> None:
        """Its connection is gone, and with it its consumers and its transaction."""
        self.consumers.clear()
        self.transaction = ""

    def end_transaction(self, *, bring_back: bool) -> None:
        """The transaction is over. ``bring_back``: what was acknowledged in it can be acknowledged again."""
        self.transaction = ""
        for consumer in self.consumers:
            if bring_back and consumer.pledged:
                together = [*consumer.unsettled, *consumer.pledged]
                consumer.unsettled = sorted(together, key=consumer.places.__getitem__)
            consumer.pledged = []

    def next_transaction(self) -> str:
        """The name of the next transaction."""
        self.transaction_count += 1
        return f"{self.name}/tx{self.transaction_count}"

    def next_message(self) -> str:
        """The suite id of the next message."""
        self.sent_count += 1
        return f"{self.name}/{self.sent_count}"

    def next_consumer(self) -> str:
        """The name of the next consumer."""
        self.consumer_count += 1
        return f"{self.name}/{self.consumer_count}"


class WorldState:
    """Everything that ordinals choose from."""

    __slots__ = ("broker", "clients", "dests", "durable", "hosts", "letters", "persistent", "temporaries")

    def __init__(
        self,
        hosts: Sequence[HostSpec],
        links: Mapping[str, LinkSpec],
        dests: Sequence[str],
        *,
        letters: Sequence[str] = (),
        persistent: bool = False,
        durable: bool = False,
    ) -> None:
        self.persistent = persistent
        #: Some consumer of the program wants a durable subscription: then hosts keep their client id from one
        #: connection to the next, and otherwise they need not.
        self.durable = durable
        self.dests: list[str] = list(dests)
        #: Where dead letters come to light: the shared queue, and those of destinations that have one of their own.
        self.letters = [DEAD_LETTERS, *letters]
        #: Temporary queues, by the suite's names: what their owners have told others that they are called.
        self.temporaries: dict[str, str] = {}
        self.clients: list[ClientState] = []
        self.hosts: list[HostState] = []
        for spec in hosts:
            if spec.role == "client":
                client = ClientState(spec, len(self.clients), links.get(spec.name, LinkSpec(spec.name)))
                self.clients.append(client)
                self.hosts.append(client)
            else:
                self.broker = HostState(spec)
                self.hosts.append(self.broker)

    def hear_of(self, message: str, address: str) -> None:
        """A message has told where its sender wants answers."""
        self.temporaries[temporary_of(message.partition("/")[0])] = address

    def places(self) -> list[str]:
        """The destinations that are this run's own and stay to its end, without names that join several: the figures of
        the dead-letter queue are everybody's.
        """
        shared = (dest for dest in self.dests if dest != DEAD_LETTERS and not is_temporary(dest))
        return [dest for dest in shared if not is_composite(dest)]

    def left_behind(self) -> list[str]:
        """Where messages may be left when the run drains: the queues, and where dead letters are, each once."""
        queues = [dest for dest in self.places() if not is_topic(dest)]
        return list(dict.fromkeys([*queues, *self.letters]))
