"""What the broker's end of a STOMP connection remembers, for the handlers of its frames."""

from __future__ import annotations

from typing import TYPE_CHECKING

from brokerproof.reference_broker.stomp.frames import V10, Frame, StompProtocolError
from brokerproof.reference_broker.stomp.subscriptions import Subscriptions
from brokerproof.reference_broker.stomp.temporaries import Temporaries

if TYPE_CHECKING:
    from collections import deque

    from brokerproof.reference_broker.core.config import BrokerConfig
    from brokerproof.reference_broker.stomp.subscriptions import Unsettled


class Transactions:
    """Name -> what was acknowledged in it."""

    __slots__ = ("_open",)

    def __init__(self) -> None:
        self._open: dict[str, list[Unsettled]] = {}

    def begin(self, name: str) -> None:
        """A transaction is open."""
        self._open.setdefault(name, [])

    def end(self, name: str) -> list[Unsettled]:
        """It is no longer; what was acknowledged in it."""
        return self._open.pop(name, [])

    def hold(self, frame: Frame, deliveries: list[Unsettled]) -> None:
        """An ACK in a transaction. Raises StompProtocolError if it is not open."""
        name = frame.headers["transaction"]
        held = self._open.get(name)
        if held is None:
            raise StompProtocolError(f"{frame.command} transaction:{name} is not open; send BEGIN first")
        held += deliveries


class SessionState:
    """See the module's header. ``outbox`` is the session's."""

    __slots__ = ("_messages", "_outbox", "_receipts", "_requests", "client_id", "config", "connection", "subscriptions",
                 "temporaries", "transactions", "version")  # fmt: skip

    def __init__(self, connection: int, config: BrokerConfig, outbox: deque[object]) -> None:
        self.connection = connection
        self.config = config
        self.version = V10
        #: What the client called itself in CONNECT; empty if it did not.
        self.client_id = ""
        self.subscriptions = Subscriptions(connection)
        self.temporaries = Temporaries(connection)
        self.transactions = Transactions()
        self._outbox = outbox
        #: Request number -> the receipt that its frame asked for.
        self._receipts: dict[int, str] = {}
        self._requests = 0
        self._messages = 0

    def request(self, frame: Frame) -> int:
        """A number for the core to answer, under which the receipt that the frame asked for waits. 0: it asked for
        none, and flow control may stop its sender instead of letting it wait for an answer.
        """
        receipt = frame.headers.get("receipt")
        if receipt is None:
            return 0
        self._requests += 1
        self._receipts[self._requests] = receipt
        return self._requests

    def next_message_id(self) -> str:
        """An id that no other message has."""
        self._messages += 1
        return f"ID-{self.config.name}-{self.connection}-{self._messages}"

    def take_receipt(self, request: int) -> str | None:
        """The receipt that a request's frame asked for, once; None if there is none."""
        return self._receipts.pop(request, None)

    def accepted(self, request: int) -> None:
        """The request succeeded: the receipt that its frame asked for is written."""
        receipt = self.take_receipt(request)
        if receipt is not None:
            self._outbox.append(Frame("RECEIPT", {"receipt-id": receipt}))
