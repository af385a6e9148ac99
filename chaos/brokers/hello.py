"""The first bytes of a connection, where nothing else is asked: does a broker serve AMQP or MQTT yet?

Rules: as with STOMP (``stomp.py``), ready means that the protocol answers, because the port accepts connections
earlier. What is answered does not matter, a refusal for want of a password is an answer. Leaves nothing behind: no
session is asked for.
"""

from __future__ import annotations

import contextlib
import socket
from typing import Final

from brokerproof.chaos.ports import LOOPBACK

#: What a client says first, and how a broker's answer begins: AMQP 1.0 part 2.2, AMQP 0-9-1 part 4.2.2 (Start is the
#: method of a frame on channel 0), MQTT 5.0 sections 3.1 and 3.2 (a clean start, no identifier, keep-alive 10 s).
HELLOS: Final = {
    "amqp": (b"AMQP\x00\x01\x00\x00", b"AMQP"),
    "amqp091": (b"AMQP\x00\x00\x09\x01", b"\x01\x00\x00"),
    "mqtt": (b"\x10\x0d\x00\x04MQTT\x05\x02\x00\x0a\x00\x00\x00", b"\x20"),
}


def answers(port: int, protocol: str, timeout_ms: int = 2000) -> bool | None:
    """Whether a broker answers at a port of this machine; None if it does not yet (as ``Process.await_ready`` wants
    it). ``protocol``: one of ``HELLOS``.
    """
    said, expected = HELLOS[protocol]
    with contextlib.suppress(OSError), socket.create_connection((LOOPBACK, port), timeout=timeout_ms / 1000) as line:
        line.sendall(said)
        heard = b""
        while len(heard) < len(expected):
            part = line.recv(len(expected) - len(heard))
            if not part:
                return None
            heard += part
        return heard == expected or None
    return None
