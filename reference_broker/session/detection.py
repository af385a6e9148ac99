"""What a peer speaks, by its first bytes (ActiveMQ's ``auto`` transports): a listener for all protocols.

* An OpenWire frame begins with its size, in four bytes; the first of them is 0 below 16 MiB, and no text begins so. So
  such a peer speaks OpenWire, whatever its first command is: whether it may come first is the session's business.
  Everything else that is not known to be something else is left to STOMP, whose decoder says in STOMP what is wrong
  with it.
* At most ``DECIDED_AT`` bytes are looked at; what arrives is kept and given back with the decision. The time until then
  is limited by the monitor's connect check, which begins when the socket is accepted.
* What is known and not served (TLS on a port without it, AMQP, MQTT) is refused with the remedy, in the log: there is
  no protocol yet in which the peer could be told.

Known exceptions: ActiveMQ looks for a WireFormatInfo and closes on any other command. OpenWire without size prefixes
(``wireFormat.sizePrefixDisabled=true``) is recognised and refused.
"""

from __future__ import annotations

from typing import Final

from brokerproof.reference_broker.core.config import BrokerConfig
from brokerproof.reference_broker.session.framing import FramingError
from brokerproof.reference_broker.session.session import Session

AUTO: Final = "auto"
#: How bytes begin that are something else, and what to say.
_OTHERS: Final = (
    (b"\x16\x03", "it is TLS, on a port without it; use the port that is announced with +ssl"),
    (b"AMQP", "it is AMQP, which is not served; use STOMP or OpenWire"),
    (b"\x10", "it is MQTT, which is not served; use STOMP or OpenWire"),
    (b"\x01ActiveMQ", "it is OpenWire without size prefixes; leave wireFormat.sizePrefixDisabled out"),
)
DECIDED_AT: Final = max(len(prefix) for prefix, _ in _OTHERS)


class Detector:
    """The first bytes of one connection."""

    __slots__ = ("data",)

    def __init__(self) -> None:
        #: All that has arrived.
        self.data = b""

    def feed(self, data: bytes) -> str | None:
        """Take the next bytes; gives the protocol, or None while more are needed. Raises ``FramingError``."""
        self.data += data
        first = self.data[:DECIDED_AT]
        if first[:1] == b"\0":
            return "openwire"
        for prefix, text in _OTHERS:
            if first.startswith(prefix):
                raise FramingError(f"the first bytes are {first!r}: {text}")
        if any(prefix.startswith(first) for prefix, _ in _OTHERS):
            return None
        return "stomp"


class Undecided(Session):
    """The broker's end of a connection whose protocol is not known yet: it says nothing."""

    __slots__ = ()

    def __init__(self, connection: int, config: BrokerConfig) -> None:  # noqa: ARG002 - as every session is made
        super().__init__(connection, None)

    def fail(self, text: str, receipt: str = "") -> None:  # noqa: ARG002 - there are no receipts yet
        self.closing = text
