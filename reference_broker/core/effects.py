"""What the broker wants done: the outputs of ``Broker.handle``, in order.

The core performs nothing. The edge (``node.py``) puts a ``Dispatch`` on the connection's outbox and answers requests; a
simulation and a server treat them alike.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reference_broker.core.message import Message


class Effect:
    """Base of all outputs."""

    __slots__ = ()


class Dispatch(Effect):
    """Write this message to that consumer.

    ``asynchronous`` True: queue it on the connection's outbox and report ``Transmitted(dispatch)`` when the transport
    has written it. False: the broker counts it as transmitted already, because a synchronous dispatch does not return
    before the write is done.
    """

    __slots__ = ("asynchronous", "connection", "consumer", "message", "redelivery_count")

    def __init__(
        self, connection: int, consumer: str, message: Message, redelivery_count: int, asynchronous: bool
    ) -> None:
        self.connection = connection
        self.consumer = consumer
        self.message = message
        #: Copied when the message is assigned: a later redelivery must not rewrite what is on its way already.
        self.redelivery_count = redelivery_count
        self.asynchronous = asynchronous


class Accepted(Effect):
    """The request succeeded."""

    __slots__ = ("connection", "request")

    def __init__(self, connection: int, request: int) -> None:
        self.connection = connection
        self.request = request


class Refused(Effect):
    """The request failed and changed nothing. ``code`` is a stable word, ``text`` says the value and the remedy."""

    __slots__ = ("code", "connection", "request", "text")

    def __init__(self, connection: int, request: int, code: str, text: str) -> None:
        self.connection = connection
        self.request = request
        self.code = code
        self.text = text


class Logged(Effect):
    """A line for the broker's log, with ActiveMQ's logger name where a seed quotes one."""

    __slots__ = ("level", "logger", "text")

    def __init__(self, level: str, logger: str, text: str) -> None:
        self.level = level
        self.logger = logger
        self.text = text
