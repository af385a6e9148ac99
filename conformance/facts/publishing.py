"""Publishing: which messages a topic's subscribers are owed, and in which order the broker took them over.

A message is owed only if it is certain that the broker has it, and that no timer holds it back or takes it away. A JMS
library need not wait until a non-persistent message is accepted: of these nothing is certain.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from brokerproof.conformance.facts.expiration import may_die
from brokerproof.conformance.facts.presence import kept_connection
from brokerproof.conformance.facts.rows import Destination, Send
from brokerproof.conformance.facts.tables import Tables


def taken(send: Send) -> bool:
    """Whether the broker had taken a message over by the end of ``send.accepted``, for certain."""
    awaited = send.event.persistent or send.client.traits.awaits_receipt or send.transaction is not None
    return send.confirmed and awaited


def owed(tables: Tables, send: Send, rest_ns: int) -> bool:
    """Whether the broker had a message at some rest, and no timer can touch it: whoever is owed it was given it."""
    if not send.confirmed or send.timed or may_die(tables, send):
        return False
    kept = send.event.persistent and tables.remembers
    if tables.restarts and not kept and tables.restarted(send.event.t0, rest_ns):
        return False
    return taken(send) or kept_connection(tables, send.client, send.event.t0, rest_ns)


class Published:
    """The messages that were sent to one topic and not refused, by the earliest time of their acceptance."""

    def __init__(self, dest: Destination) -> None:
        self.sends = [send for send in dest.sends if not send.refused]
        self.sends.sort(key=lambda send: send.accepted[0])
        self._lows_ns = [send.accepted[0] for send in self.sends]
        self._highs_ns = sorted([send.accepted[1] for send in self.sends])

    def between(self, from_ns: int, to_ns: int) -> list[Send]:
        """Those that were accepted between two instants, for certain."""
        first, end = bisect_left(self._lows_ns, from_ns), bisect_right(self._lows_ns, to_ns)
        return [send for send in self.sends[first:end] if send.accepted[1] <= to_ns]

    def later(self, send: Send, until_ns: int) -> int:
        """How many others may have been accepted after one of them, before an instant."""
        return bisect_right(self._lows_ns, until_ns) - bisect_left(self._highs_ns, send.accepted[0]) - 1

    def earlier(self, send: Send, from_ns: int) -> int:
        """How many others may have been accepted before one of them, after an instant."""
        return bisect_right(self._lows_ns, send.accepted[1]) - bisect_left(self._highs_ns, from_ns) - 1
