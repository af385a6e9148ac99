"""Commands about what a connection consists of: sessions, producers, the broker's own words. See ``commands.py``.

A session, a producer or a connection is removed by a command of its own here; on the wire all four are one RemoveInfo
whose identifier tells them apart.
"""

from __future__ import annotations

from brokerproof.reference_broker.openwire.commands import Command


class SessionInfo(Command):
    """A session begins. Session -1 is there without one."""

    __slots__ = ("session_id",)

    def __init__(self, session_id: str, command_id: int = 0, response_required: bool = False) -> None:
        super().__init__(command_id, response_required)
        self.session_id = session_id


class ProducerInfo(Command):
    """A producer attaches. ``destination`` "": it names one with each message. ``window_bytes`` 0: it has none."""

    __slots__ = ("destination", "producer_id", "window_bytes")

    def __init__(
        self,
        producer_id: str,
        destination: str = "",
        window_bytes: int = 0,
        command_id: int = 0,
        response_required: bool = False,
    ) -> None:
        super().__init__(command_id, response_required)
        self.producer_id = producer_id
        self.destination = destination
        self.window_bytes = window_bytes


class Removal(Command):
    """Base of what ends. ``last_sequence``: the broker's number of the last message that the application has seen; -1:
    none, -2: the client does not tell.
    """

    __slots__ = ("last_sequence", "name")

    def __init__(
        self, name: str, last_sequence: int = -2, command_id: int = 0, response_required: bool = False
    ) -> None:
        super().__init__(command_id, response_required)
        self.name = name
        self.last_sequence = last_sequence


class RemoveProducer(Removal):
    """A producer detaches."""

    __slots__ = ()


class RemoveSession(Removal):
    """A session ends, with its consumers and producers."""

    __slots__ = ()


class RemoveConnection(Removal):
    """The connection ends, with everything; ShutdownInfo follows."""

    __slots__ = ()


class BrokerInfo(Command):
    """The broker names itself, right after it has read the client's WireFormatInfo."""

    __slots__ = ("broker_id", "name", "url")

    def __init__(self, broker_id: str, name: str, url: str = "") -> None:
        super().__init__()
        self.broker_id = broker_id
        self.name = name
        self.url = url


class ConnectionControl(Command):
    """What a client's transport may do next. Between the two ends of one broker it says nothing."""

    __slots__ = ("fault_tolerant",)

    def __init__(self, fault_tolerant: bool = False, command_id: int = 0, response_required: bool = False) -> None:
        super().__init__(command_id, response_required)
        self.fault_tolerant = fault_tolerant


class ConsumerControl(Command):
    """The broker tells a client how many messages its consumer gets ahead; a client may ask for it."""

    __slots__ = ("consumer_id", "destination", "prefetch")

    def __init__(
        self,
        consumer_id: str,
        prefetch: int,
        destination: str = "",
        command_id: int = 0,
        response_required: bool = False,
    ) -> None:
        super().__init__(command_id, response_required)
        self.consumer_id = consumer_id
        self.prefetch = prefetch
        self.destination = destination


class ProducerAck(Command):
    """Part of a producer's window is free again."""

    __slots__ = ("producer_id", "size")

    def __init__(self, producer_id: str, size: int) -> None:
        super().__init__()
        self.producer_id = producer_id
        self.size = size


class IgnoredCommand(Command):
    """A command that asks for nothing: ControlCommand, FlushCommand, a client's BrokerInfo."""

    __slots__ = ("name",)

    def __init__(self, name: str, command_id: int = 0, response_required: bool = False) -> None:
        super().__init__(command_id, response_required)
        self.name = name
