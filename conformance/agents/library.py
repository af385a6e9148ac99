"""A client library as an application uses it: what each operation means to a session of one protocol. No socket, no
clock.

Hosts of the simulation and agents with a socket of their own play their applications with it, so both worlds ask for a
thing in one place. ``stomp_library.py`` and ``openwire_library.py`` are the two.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from mypy_extensions import mypyc_attr

from brokerproof.conformance.experiment import operations as ops

if TYPE_CHECKING:
    from brokerproof.conformance.experiment.traits import Traits
    from brokerproof.reference_broker.core.instant import Now
    from brokerproof.reference_broker.session.notice import Delivered, Discarded, Notice
    from brokerproof.reference_broker.session.session import Client

#: What a message was stamped with, by the names of the event ``send``: ``expiration_ms``, ``timestamp_ms``, ``body``.
Stamps = dict[str, int | None]


class RefusedError(Exception):
    """The request cannot be done and nothing happened."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


@mypyc_attr(allow_interpreted_subclasses=True)
class Library(ABC):
    """One connection's. Operations name destinations as the broker knows them."""

    traits: Traits
    #: Under which receipt the answer to its hello comes.
    hello = "connect"
    #: What this broker has no word for, in the suite's words.
    lacks: frozenset[str] = frozenset()

    def __init__(self, session: Client) -> None:
        self.session = session
        #: Consumers that only look.
        self.browsers: dict[str, bool] = {}

    @property
    def ends_after_error(self) -> bool:
        """Whether the protocol has a broker close the connection after an error that names no request."""
        return True

    def ask(self, operation: ops.ClientOperation, now: Now) -> tuple[str, Stamps]:
        """Hand an operation that the broker answers to the session: the receipt's name, and a message's stamps. Raises
        ``RefusedError``.
        """
        session = self.session
        match operation:
            case ops.Send():
                return self.send(operation, now)
            case ops.Subscribe():
                if operation.browser:
                    self.browsers[operation.consumer] = True
                return self.subscribe(operation), {}
            case ops.Ack() | ops.Nack() | ops.Acknowledge():
                return self.settle(operation), {}
            case ops.Begin():
                return session.begin(operation.tx, receipt=True), {}
            case ops.Commit():
                return session.commit(operation.tx), {}
            case ops.Abort():
                return session.rollback(operation.tx), {}
            case ops.Unsubscribe():
                return session.unsubscribe_durable(operation.durable), {}
        word = type(operation).__name__.lower()
        raise RefusedError("unsupported", f"a library does not know {word!r} as something that the broker answers")

    @abstractmethod
    def send(self, operation: ops.Send, now: Now) -> tuple[str, Stamps]:
        """Send."""

    @abstractmethod
    def subscribe(self, operation: ops.Subscribe) -> str:
        """Attach a consumer."""

    @abstractmethod
    def settle(self, operation: ops.Ack | ops.Nack | ops.Acknowledge) -> str:
        """Settle what the application took."""

    @abstractmethod
    def detach(self, consumer: str) -> None:
        """A consumer says goodbye."""

    @abstractmethod
    def farewell(self) -> None:
        """The connection says goodbye."""

    @abstractmethod
    def receive(self, frame: object, now: Now) -> list[Notice]:
        """Give the session a frame. Raises ``FramingError`` if the broker broke the protocol."""

    @abstractmethod
    def arrived(self, item: Delivered, message: str, now: Now) -> None:
        """A message has reached this host, for an application to take; a browser has seen it and lets it go."""

    @abstractmethod
    def take(self, consumer: str, now: Now) -> tuple[str | None, list[Notice]]:
        """The next message for the application, and what the library threw away on the way to it."""

    @abstractmethod
    def is_empty(self, consumer: str) -> bool:
        """Whether the next ``take`` is sure to find nothing, and to throw nothing away."""

    # -- consumers that ask for each message; only some libraries know the like

    def pull(self, consumer: str, deadline_ms: int, now: Now) -> None:  # noqa: B027 - see above
        """The application begins to wait for a message."""

    def pulls(self, consumer: str) -> bool:  # noqa: ARG002 - see above
        """Whether this consumer gets nothing that it has not asked for."""
        return False

    def is_owed(self, consumer: str) -> bool:  # noqa: ARG002
        """Whether the broker owes this consumer the answer to a pull."""
        return False

    def found_nothing(self, consumer: str) -> None:  # noqa: B027
        """A pull was answered without a message."""

    def discarded(self, item: Discarded) -> str:
        """The library threw a message away; the suite's id of it."""
        raise AssertionError(f"{type(self).__name__} discards nothing, but it discarded {item.message_id}")

    def again_after(self, before: Library) -> str:
        """Send once more what the library of the connection before sent last."""
        raise NotImplementedError(f"{type(self).__name__} sends nothing again (after {type(before).__name__})")
