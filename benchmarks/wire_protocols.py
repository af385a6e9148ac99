"""What the load generator says in each protocol: STOMP 1.1 with ``ack:auto``, and OpenWire 12, tight and with
caches, with a STANDARD acknowledgement for every hundred messages.

Frames are made once; of an OpenWire message only the number in its id is new each time. What arrives is counted without
being read.
"""

from __future__ import annotations

import socket
import struct
from abc import ABC, abstractmethod

from brokerproof.reference_broker.openwire.wire import connections, consumption, ids
from brokerproof.reference_broker.openwire.wire.codec import Codec
from brokerproof.reference_broker.openwire.wire.messages import BYTES_MESSAGE
from brokerproof.reference_broker.openwire.wire.negotiation import Offer

BODY_BYTES = 1024
_REST = b"x" * BODY_BYTES


class Protocol(ABC):
    """A producer's and a consumer's connection to one queue."""

    @abstractmethod
    def open(self, producer: socket.socket, consumer: socket.socket) -> None:
        """Connect both and subscribe; returns when the subscription stands. The sockets still block."""

    @abstractmethod
    def messages(self, count: int) -> bytes:
        """The next messages."""

    @abstractmethod
    def stamped(self, stamp: bytes) -> bytes:
        """The next message, with this at the beginning of its body."""

    @abstractmethod
    def answers(self, data: bytes) -> int:
        """How many answers end in this piece of what the producer's connection brings."""

    @abstractmethod
    def deliveries(self, data: bytes) -> int:
        """How many messages end, or begin, in this piece of what the consumer's connection brings."""

    @abstractmethod
    def acknowledgement(self, received: int) -> bytes:
        """What is owed after so many messages."""


def expect(line: socket.socket, done: bytes, what: str) -> None:
    """Read until this has come, which is the last that comes."""
    got = b""
    while done not in got:
        part = line.recv(65536)
        if not part:
            raise SystemExit(f"wire_load: {got[:300]!r} instead of {what}")
        got += part


class Stomp(Protocol):
    """A frame ends with the only NUL in it."""

    def __init__(self, queue: str, persistent: bool) -> None:
        self._queue = f"/queue/{queue}"
        headers = {"destination": self._queue, "content-length": str(BODY_BYTES)}
        if persistent:
            headers |= {"persistent": "true", "receipt": "r"}
        self._head = self._frame("SEND", headers)[:-1]
        self._one = self._head + _REST + b"\0"

    def open(self, producer: socket.socket, consumer: socket.socket) -> None:
        for line in (producer, consumer):
            line.sendall(self._frame("CONNECT", {"accept-version": "1.1", "host": "localhost"}))
            expect(line, b"CONNECTED", "CONNECTED")
        consumer.sendall(self._frame("SUBSCRIBE", {"id": "1", "destination": self._queue, "ack": "auto"}))
        # The answer to this one proves that the subscription stands.
        consumer.sendall(self._frame("SEND", {"destination": self._queue, "content-length": "5"}, b"first"))
        expect(consumer, b"first\0", "the first message")

    def messages(self, count: int) -> bytes:
        return self._one * count

    def stamped(self, stamp: bytes) -> bytes:
        return b"%b%b%b\0" % (self._head, stamp, _REST[len(stamp) :])

    def answers(self, data: bytes) -> int:
        return data.count(0)

    def deliveries(self, data: bytes) -> int:
        return data.count(0)

    def acknowledgement(self, received: int) -> bytes:  # noqa: ARG002 - ack:auto owes nothing
        return b""

    @staticmethod
    def _frame(command: str, headers: dict[str, str], body: bytes = b"") -> bytes:
        lines = [command, *(f"{name}:{value}" for name, value in headers.items())]
        return "\n".join(lines).encode() + b"\n\n" + body + b"\0"


class OpenWire(Protocol):
    """As the Java client speaks by default: tight, with caches. A frame begins with its size and type."""

    #: A number that stands nowhere else, where the message's own is to stand.
    _MARK = 0x0123_4567_89AB_CDEF
    _WIRE_FORMAT, _RESPONSE, _EXCEPTION, _DISPATCH = 1, 30, 31, 21
    _STANDARD = 2
    _BLOCK = 100

    def __init__(self, queue: str, persistent: bool) -> None:
        self._name = queue
        self._persistent = persistent
        self._sequence = 1
        self._acknowledged = 0
        #: What is left of both streams: bytes of the frame in progress.
        self._parts = {"answers": b"", "deliveries": b""}

    def open(self, producer: socket.socket, consumer: socket.socket) -> None:
        queue = ids.QUEUE.make(physicalName=self._name)
        sender = ids.PRODUCER_ID.make(connectionId=f"ID:p-{self._name}", sessionId=1, value=1)
        taker = ids.CONSUMER_ID.make(connectionId=f"ID:c-{self._name}", sessionId=1, value=1)
        consumer_info = consumption.CONSUMER_INFO.make(
            consumerId=taker, destination=queue, prefetchSize=1000, dispatchAsync=True, commandId=8
        )
        writes, reads = self._greet(producer, f"ID:p-{self._name}"), self._greet(consumer, f"ID:c-{self._name}")
        producer.sendall(writes.encode(connections.PRODUCER_INFO.make(producerId=sender, destination=queue)))
        consumer_info["responseRequired"] = True
        consumer.sendall(reads.encode(consumer_info))
        self._await(consumer, self._RESPONSE)
        # The first of each fills the caches: all that follow are alike but for the number.
        first = ids.MESSAGE_ID.make(producerId=sender, producerSequenceId=1)
        mark = ids.MESSAGE_ID.make(producerId=sender, producerSequenceId=self._MARK)
        message = BYTES_MESSAGE.make(
            producerId=sender, destination=queue, messageId=first, priority=4, content=_REST, commandId=9
        )
        message["persistent"] = self._persistent
        producer.sendall(writes.encode(message))
        self._await(consumer, self._DISPATCH)
        message["messageId"], message["responseRequired"] = mark, self._persistent
        self._message = self._around(writes.encode(message))
        self._body = self._message[1].index(_REST)
        ack = consumption.MESSAGE_ACK.make(
            consumerId=taker, destination=queue, ackType=self._STANDARD, messageCount=1, lastMessageId=first
        )
        consumer.sendall(reads.encode(ack))
        ack["messageCount"], ack["lastMessageId"] = self._BLOCK, mark
        self._ack = self._around(reads.encode(ack))

    def _greet(self, line: socket.socket, name: str) -> Codec:
        """Agree, and announce a connection and its session."""
        line.sendall(Codec().encode(Offer(read_ms=0, initial_delay_ms=0).info()))
        self._await(line, self._WIRE_FORMAT)
        codec = Codec(12, tight=True, cache_size=1024, stack_traces=True)
        connection = ids.CONNECTION_ID.make(value=name)
        line.sendall(codec.encode(connections.CONNECTION_INFO.make(connectionId=connection, clientId=name)))
        session = ids.SESSION_ID.make(connectionId=name, value=1)
        line.sendall(codec.encode(connections.SESSION_INFO.make(sessionId=session)))
        return codec

    def messages(self, count: int) -> bytes:
        head, tail = self._message
        start = self._sequence + 1
        self._sequence += count
        return b"".join([head + number.to_bytes(8, "big") + tail for number in range(start, start + count)])

    def stamped(self, stamp: bytes) -> bytes:
        data = self.messages(1)
        at = len(self._message[0]) + 8 + self._body
        return data[:at] + stamp + data[at + len(stamp) :]

    def answers(self, data: bytes) -> int:
        return self._count("answers", data, self._RESPONSE)

    def deliveries(self, data: bytes) -> int:
        return self._count("deliveries", data, self._DISPATCH)

    def acknowledgement(self, received: int) -> bytes:
        owed = b""
        head, tail = self._ack
        while received - self._acknowledged >= self._BLOCK:
            self._acknowledged += self._BLOCK
            owed += head + (1 + self._acknowledged).to_bytes(8, "big") + tail
        return owed

    def _count(self, stream: str, data: bytes, wanted: int) -> int:
        data = self._parts[stream] + data
        at, found, end = 0, 0, len(data)
        while end - at >= 5:
            (size,) = struct.unpack_from(">i", data, at)
            if data[at + 4] == self._EXCEPTION:
                raise SystemExit(f"wire_load: the broker refused: {data[at : at + 300]!r}")
            if end - at < 4 + size:
                break
            found += data[at + 4] == wanted
            at += 4 + size
        self._parts[stream] = data[at:]
        return found

    def _around(self, frame: bytes) -> tuple[bytes, bytes]:
        """What stands before and behind the message's number."""
        mark = self._MARK.to_bytes(8, "big")
        head, found, tail = frame.partition(mark)
        assert found
        assert mark not in tail
        return head, tail

    @staticmethod
    def _await(line: socket.socket, wanted: int) -> None:
        """Read whole frames until one of this type has come."""
        found = 0
        while found != wanted:
            (size,) = struct.unpack(">i", line.recv(4, socket.MSG_WAITALL))
            frame = line.recv(size, socket.MSG_WAITALL)
            found = frame[0]
            if found == OpenWire._EXCEPTION:
                raise SystemExit(f"wire_load: the broker refused: {frame[:300]!r}")


PROTOCOLS: dict[str, type[Protocol]] = {"stomp": Stomp, "openwire": OpenWire}
