"""What a run has so far: hosts, links, consumers, unsettled messages. The part of a world that steps need in order to
be total.

Rules: lists keep creation order, newest last, because ordinals count in that order. Nothing here knows whether time is
virtual or real, so both worlds normalise a step alike; parity depends on it.
"""

from __future__ import annotations

from typing import Literal

from conformance.program import HostSpec, LinkSpec, Program

AckMode = Literal["auto", "client", "individual"]


class HostState:
    """One host with a clock of its own."""

    __slots__ = ("name", "spec")

    def __init__(self, spec: HostSpec) -> None:
        self.spec = spec
        self.name = spec.name


class ConsumerState:
    """An open consumer of a client, as its application sees it."""

    __slots__ = ("ack", "browser", "client", "dest", "durable", "name", "unsettled")

    def __init__(
        self, name: str, client: ClientState, dest: str, ack: AckMode, *, durable: str = "", browser: bool = False
    ) -> None:
        self.name = name
        self.client = client
        self.dest = dest
        self.ack: AckMode = ack
        #: The durable subscription that it uses; "" is none.
        self.durable = durable
        #: It looks at a queue and takes nothing.
        self.browser = browser
        #: Suite ids of messages that the application took and has not settled, oldest first.
        self.unsettled: list[str] = []


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
        #: Durable subscriptions that may exist, oldest first: name -> the destination and the selector of its latest
        #: consumer.
        self.durables: dict[str, tuple[str, str]] = {}

    def idle_durables(self) -> list[str]:
        """Durable subscriptions that no consumer uses now, oldest first."""
        used = [consumer.durable for consumer in self.consumers]
        return [name for name in self.durables if name not in used]

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

    __slots__ = ("broker", "clients", "dests", "hosts", "persistent")

    def __init__(self, program: Program) -> None:
        self.persistent = program.broker.persistent
        self.dests: list[str] = list(program.dests)
        self.clients: list[ClientState] = []
        self.hosts: list[HostState] = []
        for spec in program.hosts:
            if spec.role == "client":
                client = ClientState(spec, len(self.clients), program.link_of(spec.name))
                self.clients.append(client)
                self.hosts.append(client)
            else:
                self.broker = HostState(spec)
                self.hosts.append(self.broker)
