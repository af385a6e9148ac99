"""The temporary destinations of one STOMP connection.

* ``/temp-queue/N`` and ``/temp-topic/N`` are the connection's own: the first frame that names one creates it, and it
  goes with the connection. Two connections that use the same N mean two destinations.
* To everybody else it is ``/remote-temp-queue/ID`` (and ``-topic``), as ActiveMQ writes it: what stands in a
  ``reply-to`` that they receive is what they send to.
"""

from __future__ import annotations

from brokerproof.reference_broker.core.events import AddDestination, Event
from brokerproof.reference_broker.core.message import TEMP_QUEUE, TEMP_TOPIC
from brokerproof.reference_broker.stomp.frames import core_destination, is_own_temporary, stomp_destination
from brokerproof.reference_broker.stomp.headers import writable


class Temporaries:
    """See the module's header."""

    __slots__ = ("_connection", "_own", "_texts")

    def __init__(self, connection: int) -> None:
        self._connection = connection
        #: What the client calls it -> the core's name, and back.
        self._own: dict[str, str] = {}
        self._texts: dict[str, str] = {}

    def resolve(self, text: str, events: list[Event]) -> str:
        """The core's name for what a client has written; a creation that it needs is added to ``events``.

        Raises StompProtocolError for anything that is not a destination.
        """
        if "/temp-" not in text:
            return core_destination(text)
        names = []
        for part in text.split(","):
            wanted = part.strip()
            if not is_own_temporary(wanted):
                names.append(core_destination(wanted))
                continue
            name = self._own.get(wanted)
            if name is None:
                prefix = TEMP_QUEUE if core_destination(wanted).startswith(TEMP_QUEUE) else TEMP_TOPIC
                name = f"{prefix}{self._connection}:{len(self._own) + 1}"
                self._own[wanted] = name
                self._texts[name] = wanted
                events.append(AddDestination(self._connection, name))
            names.append(name)
        return ",".join(names)

    def write(self, name: str) -> str:
        """What this connection's client calls a destination."""
        return self._texts.get(name) or writable(stomp_destination(name))
