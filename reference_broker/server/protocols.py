"""What a socket must know of each protocol: its framing, and which frames are keep-alives or messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from brokerproof.reference_broker.openwire.commands import KeepAliveInfo, ProducerMessage
from brokerproof.reference_broker.openwire.framing import OpenWireFraming
from brokerproof.reference_broker.session.framing import Framing, Limits
from brokerproof.reference_broker.stomp.frames import Frame, Heartbeat
from brokerproof.reference_broker.stomp.framing import StompFraming

FRAMINGS: Final[dict[str, Callable[[Limits], Framing]]] = {"stomp": StompFraming, "openwire": OpenWireFraming}


def is_keep_alive(frame: object) -> bool:
    """Whether a frame of any protocol says nothing but that its sender lives."""
    return isinstance(frame, Heartbeat | KeepAliveInfo)


def is_message(frame: object) -> bool:
    """Whether a frame from a peer sends a message."""
    return (isinstance(frame, Frame) and frame.command == "SEND") or isinstance(frame, ProducerMessage)
