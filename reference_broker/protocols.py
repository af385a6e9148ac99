"""Which protocols the broker speaks: a session for each and, where it can be served over a socket, a framing.

What must change together: ``connector.py`` (the schemes of URIs), ``detection.py`` (the first bytes),
``docs/configuration.md``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from brokerproof.reference_broker.core.broker import Broker
from brokerproof.reference_broker.core.config import BrokerConfig
from brokerproof.reference_broker.detection import AUTO, Undecided
from brokerproof.reference_broker.framing import Framing, Limits
from brokerproof.reference_broker.openwire.broker import BrokerSession as OpenWireSession
from brokerproof.reference_broker.openwire.commands import KeepAliveInfo, ProducerMessage
from brokerproof.reference_broker.openwire.framing import OpenWireFraming
from brokerproof.reference_broker.openwire.translation.maps import MapEncoder
from brokerproof.reference_broker.session import Session
from brokerproof.reference_broker.stomp.broker import BrokerSession as StompSession
from brokerproof.reference_broker.stomp.frames import Frame, Heartbeat
from brokerproof.reference_broker.stomp.framing import StompFraming

SessionFactory = Callable[[int, BrokerConfig], Session]
FramingFactory = Callable[[Limits], Framing]

#: ``auto`` is a connection before its first bytes.
SESSIONS: Final[dict[str, SessionFactory]] = {"stomp": StompSession, "openwire": OpenWireSession, AUTO: Undecided}
FRAMINGS: Final[dict[str, FramingFactory]] = {"stomp": StompFraming, "openwire": OpenWireFraming}


def equipped(broker: Broker) -> Broker:
    """A new broker, whose own maps are written so that every protocol can show them."""
    statistics = broker.region().statistics
    if statistics is not None:
        statistics.encoder = MapEncoder()
    return broker


def session_for(protocol: str, connection: int, config: BrokerConfig) -> Session:
    """The broker's end of a new connection. Raises ``ValueError`` for a protocol that does not exist."""
    make = SESSIONS.get(protocol)
    if make is None:
        raise ValueError(f"protocol {protocol!r} is unknown; one of {', '.join(SESSIONS)}")
    return make(connection, config)


def is_keep_alive(frame: object) -> bool:
    """Whether a frame of any protocol says nothing but that its sender lives."""
    return isinstance(frame, Heartbeat | KeepAliveInfo)


def is_message(frame: object) -> bool:
    """Whether a frame from a peer sends a message."""
    return (isinstance(frame, Frame) and frame.command == "SEND") or isinstance(frame, ProducerMessage)
