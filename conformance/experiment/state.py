"""What a run has so far: hosts, links, consumers, unsettled messages. The part of a world that steps need in order to
be total.

Rules: lists keep creation order, newest last, because ordinals count in that order. Nothing here knows whether time is
virtual or real, so both worlds normalise a step alike; parity depends on it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy

from brokerproof.conformance.experiment import operations as ops
from brokerproof.conformance.experiment.configuration import HostSpec, LinkSpec
from brokerproof.conformance.experiment.destinations import DEAD_LETTERS, Destinations
from brokerproof.conformance.experiment.traits import traits_of


class HostState:
    """One host with a clock of its own."""

    def __init__(self, spec: HostSpec) -> None:
        self.spec = spec
        self.name = spec.name
        #: Its wall clock stands still.
        self.frozen = False
        #: Of what its process has too little.
        self.scarce: list[ops.Scarce] = []


def far_end(bridge: HostSpec) -> HostSpec:
    """A bridge as a client of the broker that it goes to."""
    return HostSpec(f"{bridge.name}-far", "client", "jms", bridge.clock, expiry_check=False, at=bridge.to)


class ConsumerState:
    """An open consumer of a client, as its application sees it."""

    def __init__(self, client: ClientState, operation: ops.Subscribe) -> None:
        self.name = operation.consumer
        self.client = client
        self.dest = operation.dest
        self.ack = operation.ack
        #: The durable subscription that it uses; "" is none.
        self.durable = operation.durable
        #: It looks at a queue and takes nothing.
        self.browser = operation.browser
        #: It has no prefetch: it asks for each message.
        self.pulls = operation.prefetch == 0
        #: Suite ids of messages that the application took and has not settled, oldest first.
        self.unsettled: list[str] = []
        #: Suite ids that it acknowledged in its host's open transaction; in one that was rolled back, of which its
        #: library has not given them to the application once more.
        self.pledged: list[str] = []
        self.returned: list[str] = []
        #: The place of each message in the order in which they were taken.
        self.places: dict[str, int] = {}

    def took(self, message: str) -> None:
        """The application was given a message that it must settle."""
        self.places[message] = len(self.places)
        if message and message in self.unsettled:
            self.unsettled.remove(message)  # it was sent again, behind what had come meanwhile
        if message in self.returned:
            self.returned.remove(message)
        self.unsettled.append(message)

    def settle(self, messages: list[str], tx: str = "") -> None:
        """These were acknowledged, for good or as part of a transaction."""
        self.unsettled = [message for message in self.unsettled if message not in messages]
        if tx:
            self.pledged += messages


class ClientState(HostState):
    """A client host, its link and its consumers."""

    def __init__(self, spec: HostSpec, index: int, link: LinkSpec) -> None:
        super().__init__(spec)
        self.index = index
        self.link = link
        self.via = spec.via
        #: What its library does by itself; what is known of it when it has connected.
        self.traits = traits_of(spec.via, checks_expiry=spec.via == "jms" and spec.expiry_check)
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
        #: Whose session that is, where it is one's: a consumer's name, "" for one of sends alone, None: nobody's yet.
        self.transacting: str | None = None
        #: Durable subscriptions that may exist, oldest first: name -> how its latest consumer was attached.
        self.durables: dict[str, ops.Subscribe] = {}

    def settles_in(self, consumer: ConsumerState) -> str:
        """The open transaction that what a consumer settles is part of; "": none, as where they are of sends alone."""
        scope = self.traits.transaction_scope
        if scope == "consumer":
            covered = consumer.ack == "client" and self.transacting in {None, consumer.name}
        else:
            covered = scope == "connection"
        return self.transaction if covered else ""

    def act_in(self, transaction: str, consumer: str) -> None:
        """Something is done in a transaction, if that is its name, by a consumer; "": a send."""
        if transaction and self.transacting is None and self.traits.transaction_scope == "consumer":
            self.transacting = consumer

    def idle_durables(self) -> list[str]:
        """Durable subscriptions that no consumer uses now, oldest first."""
        used = [consumer.durable for consumer in self.consumers]
        return [name for name in self.durables if name not in used]

    def used_durables(self) -> list[str]:
        """Durable subscriptions that a consumer uses now, in the order of the consumers."""
        return list(dict.fromkeys(consumer.durable for consumer in self.consumers if consumer.durable))

    def vanish(self) -> None:
        """Its connection is gone, and with it its consumers and its transaction."""
        self.consumers.clear()
        self.transaction, self.transacting = "", None

    def end_transaction(self, *, aborted: bool) -> None:
        """The transaction is over. ``aborted``: what was acknowledged in it can be acknowledged again; a JMS library
        gives it to its application once more before. Where it is the broker's again, it may come once more.
        """
        self.transaction, self.transacting = "", None
        for consumer in self.consumers:
            if aborted and self.via == "jms":
                consumer.returned += consumer.pledged
            elif aborted and consumer.pledged and not self.traits.returns_rollbacks:
                together = [*consumer.unsettled, *consumer.pledged]
                consumer.unsettled = sorted(together, key=consumer.places.__getitem__)
            consumer.pledged = []

    def next_transaction(self) -> str:
        """The name of the next transaction."""
        return f"{self.name}/tx{self.transaction_count + 1}"

    def next_message(self) -> str:
        """The suite id of the next message."""
        return f"{self.name}/{self.sent_count + 1}"

    def next_consumer(self) -> str:
        """The name of the next consumer."""
        return f"{self.name}/{self.consumer_count + 1}"

    def consumer(self, name: str) -> ConsumerState | None:
        """An open consumer."""
        for consumer in self.consumers:
            if consumer.name == name:
                return consumer
        return None


class WorldState:
    """Everything that ordinals choose from."""

    def __init__(
        self,
        hosts: Sequence[HostSpec],
        links: Mapping[str, LinkSpec],
        destinations: Destinations,
        *,
        dead_letters: Sequence[str] = (),
        persistent: bool = False,
        durable: bool = False,
        transacts: bool = False,
        transacted_nacks: bool = False,
        logins: bool = False,
    ) -> None:
        self.persistent = persistent
        self.transacted_nacks = transacted_nacks
        self.logins = logins
        #: Some consumer of the program wants a durable subscription: then hosts keep their client id from one
        #: connection to the next, and otherwise they need not.
        self.durable = durable
        #: Some host of the program begins transactions: then JMS consumers have transacted sessions.
        self.transacts = transacts
        #: A NACK beside acknowledgements of ranges may reject a range, as STOMP 1.2 says, or one message (ActiveMQ).
        self.nack_ranges = False
        self.destinations = destinations
        self.dests = [dest.name for dest in destinations.declared]
        #: Where dead letters come to light: the shared queue, and those of destinations that have one of their own.
        self.dead_letters = [DEAD_LETTERS, *dead_letters]
        #: Temporary queues, by the suite's names: what their owners have told others that they are called.
        self.temporaries: dict[str, str] = {}
        self.clients: list[ClientState] = []
        self.hosts: list[HostState] = []
        #: The first broker counts where an ordinal means none.
        self.brokers: list[HostState] = []
        #: Bridges between brokers, as clients of their far ones; beside the near ones they have no clock of their own.
        self.bridges: list[ClientState] = []
        for spec in hosts:
            link = links.get(spec.name, LinkSpec(spec.name))
            if spec.role == "client":
                client = ClientState(spec, len(self.clients), link)
                self.clients.append(client)
                self.hosts.append(client)
            elif spec.role == "bridge":
                self.bridges.append(ClientState(far_end(spec), len(self.bridges), link))
            else:
                self.brokers.append(HostState(spec))
                self.hosts.append(self.brokers[-1])
        self.broker = self.brokers[0]
        self._named = {client.name: client for client in self.linked()}

    def client(self, name: str) -> ClientState:
        """The client of that name, guests included."""
        return self._named[name]

    def consumers(self) -> list[ConsumerState]:
        """All that there are, guests' included."""
        return [consumer for client in self._named.values() for consumer in client.consumers]

    def linked(self) -> list[ClientState]:
        """Whoever has a link that can be stalled; one more client changes nothing for those before it."""
        return [*self.bridges, *self.clients]

    def alone(self, host: int | None) -> WorldState:
        """The same with one client for ordinals to mean; with none."""
        found = copy(self)
        found.clients = [] if host is None else [self.clients[host]]
        return found

    def receive_guest(self, client: ClientState) -> None:
        """A client of the world itself, which no ordinal means."""
        self._named[client.name] = client

    def begun(self, operation: ops.Operation) -> None:
        """An operation is being done: what follows from that, whatever comes of it."""
        match operation:  # the most frequent first
            case ops.Take() | ops.ReadCounters():
                pass
            case ops.Send():
                client = self.client(operation.host)
                client.sent_count += 1
                client.act_in(operation.tx, "")
            case ops.Ack() | ops.Nack() | ops.Acknowledge():
                self._begun_to_settle(operation)
            case ops.Stall():
                self.client(operation.link).stalled = operation.toward
            case ops.Resume():
                self.client(operation.link).stalled = ""
            case ops.Freeze() | ops.Thaw():
                (host,) = [one for one in self.hosts if one.name == operation.host]
                host.frozen = isinstance(operation, ops.Freeze)
            case ops.Exhaust():
                self.broker.scarce.append(operation.what)
            case ops.Relieve():
                self.broker.scarce.remove(operation.what)
            case ops.Subscribe():
                self.client(operation.host).consumer_count += 1
            case ops.Begin():
                self.client(operation.host).transaction_count += 1
            case ops.Leave(consumer=None):
                self.client(operation.host).vanish()
            case ops.Leave():
                client = self.client(operation.host)
                client.consumers = [one for one in client.consumers if one.name != operation.consumer]

    def _begun_to_settle(self, operation: ops.Ack | ops.Nack | ops.Acknowledge) -> None:
        consumer = self.client(operation.host).consumer(operation.consumer)
        assert consumer is not None, "steps name open consumers"
        if isinstance(operation, ops.Acknowledge):  # messages without a name of ours, such as advisories, count as one
            consumer.settle(operation.settled())
        else:
            consumer.settle(operation.messages, operation.tx)
            consumer.client.act_in(operation.tx, consumer.name)

    def happened(self, operation: ops.Operation, *, connected: bool = True) -> None:
        """It was done, or may have been. ``connected``: its host still is."""
        match operation:
            case ops.Subscribe():
                client = self.client(operation.host)
                if connected:
                    client.consumers.append(ConsumerState(client, operation))
                if operation.durable:
                    client.durables[operation.durable] = operation
            case ops.Begin():
                if connected:
                    self.client(operation.host).transaction = operation.tx
            case ops.Commit() | ops.Abort():
                self.client(operation.host).end_transaction(aborted=isinstance(operation, ops.Abort))
            case ops.Unsubscribe():
                self.client(operation.host).durables.pop(operation.durable, None)

    def hear_of(self, message: str, address: str) -> None:
        """A message has told where its sender wants answers."""
        self.temporaries[self.destinations.temporary_of(message.partition("/")[0])] = address

    def places(self) -> list[str]:
        """The destinations that are this run's own and stay to its end, without names that join several: the figures of
        the dead-letter queue are everybody's.
        """
        passing = {"temporary", "composite"}
        return [dest for dest in self.dests if dest != DEAD_LETTERS and self.destinations.kind(dest) not in passing]

    def queues(self) -> list[str]:
        """The queues among them."""
        return [dest for dest in self.places() if not self.destinations.is_topic(dest)]

    def carried(self, bridge: HostSpec) -> list[str]:
        """What a bridge carries: the queues, and topics if it is told so."""
        topics = [dest for dest in self.places() if self.destinations.kind(dest) == "topic"]
        return [*self.queues(), *(topics if bridge.topics else ())]

    def left_behind(self) -> list[str]:
        """Where messages may be left when the run drains: the queues, and where dead letters are, each once."""
        return list(dict.fromkeys([*self.queues(), *self.dead_letters]))
