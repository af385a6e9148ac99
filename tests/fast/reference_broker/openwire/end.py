"""A client that speaks OpenWire in bytes to a node, without sockets: what it writes and reads are structures.

Every byte passes the framing that the server uses, so these tests say what a client on the other side of a socket sees.
"""

from __future__ import annotations

from brokerproof.reference_broker.core.config import BrokerConfig
from brokerproof.reference_broker.core.instant import Now
from brokerproof.reference_broker.node import Node
from brokerproof.reference_broker.openwire.framing import OpenWireFraming
from brokerproof.reference_broker.openwire.wire import connections, consumption, ids, messages
from brokerproof.reference_broker.openwire.wire.codec import Codec, FrameDecoder
from brokerproof.reference_broker.openwire.wire.kinds import Data, Kind
from brokerproof.reference_broker.openwire.wire.negotiation import Agreement, Offer, read_offer
from brokerproof.reference_broker.session.framing import Limits

NOW = Now(0, 1_800_000_000_000)


def queue(name: str) -> Data:
    return Data(ids.QUEUE, [name])


class End:
    """One client. ``received`` holds what the broker wrote since it was looked at."""

    def __init__(self, node: Node, connection: int = 1, offer: Offer | None = None, *, connect: bool = True) -> None:
        self.node = node
        self.connection = connection
        self.name = f"ID:c{connection}"
        self.offer = offer if offer is not None else Offer()
        self.framing = OpenWireFraming(Limits())
        self.received: list[Data] = []
        self.raw = b""
        self._codec = Codec()
        self._decoder = FrameDecoder()
        self._commands = 0
        self._messages = 0
        node.connect(connection, "openwire", NOW)
        self.write(Codec().encode(self.offer.info()))
        if connect:
            info = connections.CONNECTION_INFO.make(
                connectionId=Data(ids.CONNECTION_ID, [self.name]),
                clientId=self.name,
                manageable=True,
                clientMaster=True,
            )
            assert self.ask(info).kind.name == "Response"
            self.tell(connections.SESSION_INFO.make(sessionId=Data(ids.SESSION_ID, [self.name, 1])))

    # -- the line

    def write(self, data: bytes) -> None:
        """Bytes go to the broker; what it answers is read."""
        for command in self.framing.feed(data):
            self.node.receive(self.connection, command, NOW)
        self.read()

    def read(self) -> None:
        """Everything that the broker has to write, over the line."""
        while (frame := self.node.next_output(self.connection, NOW)) is not None:
            data = self.framing.encode(frame)
            self.raw += data
            for one in self._decoder.feed(data):
                found = self._codec.decode(one)
                assert found is not None
                if found.kind is connections.WIRE_FORMAT_INFO:
                    self._codec = Agreement(self.offer, read_offer(found)).codec()
                self.received.append(found)

    # -- what a test says

    def tell(self, data: Data) -> None:
        """A command that wants no answer."""
        self._commands += 1
        data["commandId"] = self._commands
        self.write(self._codec.encode(data))

    def ask(self, data: Data) -> Data:
        """A command that wants one; returns it."""
        data["responseRequired"] = True
        self.tell(data)
        number = data["commandId"]
        found = [one for one in self.received if "correlationId" in one.kind.index and one["correlationId"] == number]
        answers = [one for one in found if one.kind.family != "message"]
        assert len(answers) == 1, self.received
        return answers[0]

    def producer(self, number: int = 1, window: int = 0, session: int = 1) -> Data:
        """Announce a producer; returns its id."""
        made = Data(ids.PRODUCER_ID, [self.name, number, session])
        assert self.ask(connections.PRODUCER_INFO.make(producerId=made, windowSize=window)).kind.name == "Response"
        return made

    def message(self, kind: Kind, destination: Data, producer: Data, **values: object) -> Data:
        """A message with an id of its own."""
        self._messages += 1
        message_id = ids.MESSAGE_ID.make(producerId=producer, producerSequenceId=self._messages)
        return kind.make(messageId=message_id, producerId=producer, destination=destination, priority=4, **values)

    def text(self, destination: Data, producer: Data, text: str = "hello", **values: object) -> Data:
        """A TextMessage."""
        content = len(text).to_bytes(4, "big") + text.encode()
        return self.message(messages.TEXT_MESSAGE, destination, producer, content=content, **values)

    def consumer(self, destination: Data, number: int = 1, prefetch: int = 10, **values: object) -> Data:
        """Subscribe; returns the answer."""
        made = Data(ids.CONSUMER_ID, [self.name, 1, number])
        return self.ask(
            consumption.CONSUMER_INFO.make(consumerId=made, destination=destination, prefetchSize=prefetch, **values)
        )

    def dispatched(self) -> list[Data]:
        """The messages that have come."""
        self.read()
        found = [one["message"] for one in self.received if one.kind is consumption.MESSAGE_DISPATCH]
        return [one for one in found if isinstance(one, Data)]

    def kinds(self) -> list[str]:
        """What has come, by name."""
        return [one.kind.name for one in self.received]


def node_of(**settings: object) -> Node:
    """A node without a storage."""
    return Node(BrokerConfig(**settings))  # type: ignore[arg-type]  # as in core/driver.py
