"""Temporaries: queues that belong to one connection. Judges GEN-047.

Model. A host's temporary queue is made on its connection. Others may send to it; only that connection consumes from
it. When the connection is gone, so is the queue: what is sent there then is refused, and nothing of it comes to light
again.

Events: ``send``, ``arrive``, ``connect``, ``leave``, ``closed``, and ``counters`` at rest. Other oracles would take the
queues of two connections for one; a history with such queues is theirs only if they say so.

Analyses:

1. A message arrives at a consumer of another host on the temporary queue of a host.
2. Another host's sending to it is confirmed, though the owner's connection had been gone, the broker had been at rest
   since, and the owner had not connected again.
3. A message arrives at its owner that was sent to it, confirmed, before the owner's present connection began.

Not checked: that messages do arrive.
"""

from __future__ import annotations

from brokerproof.conformance.experiment.destinations import is_temporary, temporary_of
from brokerproof.conformance.experiment.history import Arrive, Closed, Connect, Counters, Event, Header, Leave, Send
from brokerproof.conformance.oracles.base import Oracle
from brokerproof.conformance.oracles.wall import WallClocks


class TemporaryOracle(Oracle):
    """See the module's header."""

    name = "temporaries"
    requirements = ("GEN-047",)
    kinds = ("send", "arrive", "leave", "closed", "connect", "counters")
    knows = ("temporaries",)

    def __init__(self, clocks: WallClocks) -> None:
        super().__init__(clocks)
        #: Host -> when its present connection began; when it went; and since when the broker knows that, for certain.
        self._began_ns: dict[str, int] = {}
        self._left_ns: dict[str, int] = {}
        self._gone_ns: dict[str, int] = {}
        self._sends: dict[str, Send] = {}
        #: The header says that there are such queues.
        self._declared = False

    def start(self, header: Header) -> None:
        self._declared = header.declared.temporaries

    def is_concerned(self) -> bool:
        return self._declared

    def feed(self, event: Event) -> None:
        if isinstance(event, Connect):
            self._began_ns[event.host] = event.t0
            self._left_ns.pop(event.host, None)
            self._gone_ns.pop(event.host, None)
        elif isinstance(event, Leave):
            if event.consumer is None and event.result == "ok":
                self._left_ns[event.host] = event.t1
        elif isinstance(event, Closed):
            self._left_ns[event.link or event.host] = event.t1
        elif isinstance(event, Counters):
            if event.at_rest:
                known = {host: event.t1 for host, left_ns in self._left_ns.items() if left_ns <= event.t0}
                self._gone_ns = known | self._gone_ns
        elif isinstance(event, Send):
            if is_temporary(event.dest):
                self._sends[event.message] = event
                self._sent(event)
        elif isinstance(event, Arrive) and is_temporary(event.dest):
            self._arrived(event)

    def _sent(self, event: Send) -> None:
        claim = self.claims["GEN-047"]
        owner = event.dest[1:]
        gone_ns = self._gone_ns.get(owner)
        if owner == event.host or gone_ns is None or gone_ns > event.t0:
            return
        if event.result == "ok":
            text = (
                f"{event.message} was sent to {event.dest} and confirmed, although the connection of {owner}, whose "
                "temporary queue it was, had gone before"
            )
            claim.fail(text, [event.seq], outcome="outlived")
        elif event.result == "fail":
            claim.hold("its connection was gone", outcome="gone")

    def _arrived(self, event: Arrive) -> None:
        claim = self.claims["GEN-047"]
        send = self._sends.get(event.message)
        if event.dest != temporary_of(event.host):
            text = f"{event.message} arrived at {event.consumer} on {event.dest}, the temporary queue of another host"
            claim.fail(text, [event.seq], outcome="foreign")
        elif send is not None and send.result == "ok" and send.t1 < self._began_ns.get(event.host, 0):
            text = f"{event.message} was sent to {event.dest} on an earlier connection of {event.host}, and arrived now"
            claim.fail(text, [send.seq, event.seq], outcome="outlived")
        else:
            claim.hold("others sent to it" if send is not None and send.host != event.host else "", outcome="its-own")
