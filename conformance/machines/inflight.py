"""Model: eventual consistency of the in-flight count (seed 003, INF-001 and INF-002).

Per queue it keeps the messages that open consumers have received and not settled. Whenever the world has come to rest,
the broker's count must equal it; between rests it may be anything, even negative, but negative only where an
asynchronous consumer has ever attached.

Not followed: topics, whose consumers settle nothing for others, and queues on which something happened whose instant or
effect an outsider cannot see (``opaque``).
"""

from __future__ import annotations

import msgspec

from brokerproof.conformance.experiment import history
from brokerproof.conformance.experiment.destinations import Destinations, is_pattern
from brokerproof.conformance.experiment.history import Acknowledge, Arrive, Closed, Discard, Event, Fault, Operate
from brokerproof.conformance.experiment.program import Program
from brokerproof.conformance.experiment.steps import (
    Ack,
    Advance,
    Counters,
    Leave,
    Nack,
    Restart,
    Resume,
    Send,
    Settle,
    Stall,
    Subscribe,
    Take,
)
from brokerproof.conformance.experiment.verdict import Verdict
from brokerproof.conformance.machines.model import Model


class InFlightModel(Model):
    """See the module's header."""

    name = "in-flight"
    promises = ("INF-001", "INF-002")
    kinds = (Send, Subscribe, Take, Ack, Nack, Leave, Stall, Resume, Advance, Settle, Counters, Restart)
    mutants = (
        "ledger-close-not-booked",
        "ledger-counts-twice",
        "ledger-dequeue-short",
        "ledger-forgets-close",
        "ledger-settles-twice",
        "ledger-sync-negative",
    )

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self._destinations = Destinations(program.destinations)
        #: Consumer -> (its host, its queue, the messages that it holds).
        self.held: dict[str, tuple[str, str, dict[str, None]]] = {}
        self.asynchronous: dict[str, None] = {}
        self.opaque: dict[str, None] = {}
        #: Hosts with a send that nobody answered: a broker that has no room does not see the end of its connection.
        self.unanswered: dict[str, None] = {}

    @staticmethod
    def fit(frame: Program) -> Program:
        """No client library looks at expirations: a discarded message is another machine's business."""
        hosts = [msgspec.structs.replace(host, expiry_check=host.via != "jms") for host in frame.hosts]
        return msgspec.structs.replace(frame, hosts=hosts)

    def observe(self, event: Event) -> Verdict | None:
        if isinstance(event, history.Subscribe):
            self._subscribed(event)
        elif isinstance(event, Arrive):
            if event.consumer in self.held:
                held = self.held[event.consumer][2]
                if event.message in held:  # it came back before its settlement was known
                    self._weaken(event.consumer)
                held[event.message] = None
        elif isinstance(event, history.Send) and event.result == "unknown":
            self.unanswered[event.host] = None
        elif isinstance(event, history.Ack | history.Nack):
            self._settled(event)
        elif isinstance(event, Acknowledge | Discard):
            self._weaken(event.consumer)
        elif isinstance(event, history.Leave | Closed | Fault):
            self._gone(event)
        elif isinstance(event, Operate) and event.op in {"purge", "move"}:
            self.opaque[event.dest] = None
        elif isinstance(event, history.Counters):
            return self._count(event)
        return None

    def _subscribed(self, event: history.Subscribe) -> None:
        if event.result == "fail":
            return
        self.held[event.consumer] = (event.host, event.dest, {})
        if event.dispatch == "async":
            self.asynchronous |= self._places(event.dest)
        if event.ack == "auto" or event.result == "unknown" or event.browser or is_pattern(event.dest):
            self._weaken(event.consumer)

    def _settled(self, event: history.Ack | history.Nack) -> None:
        if event.result != "ok" or event.tx:
            self._weaken(event.consumer)
        elif event.consumer in self.held:
            for message in event.messages:
                self.held[event.consumer][2].pop(message, None)

    def _weaken(self, consumer: str) -> None:
        """What this consumer holds is no longer known: nor is, from now on, the count of its queue."""
        if consumer in self.held:
            self.opaque |= self._places(self.held[consumer][1])

    def _places(self, dest: str) -> dict[str, None]:
        """The destinations that a consumer's own may mean."""
        return dict.fromkeys([one.name for one in self.program.destinations] if is_pattern(dest) else [dest])

    def _gone(self, event: history.Leave | Closed | Fault) -> None:
        """Consumers are gone: one, those of a host, or all because the broker restarted."""
        if isinstance(event, Fault) and event.fault != "restart":
            return
        one = event.consumer if isinstance(event, history.Leave) else None
        host = None if isinstance(event, Fault) else event.host
        for consumer in list(self.held):
            if consumer == one or (one is None and host in {None, self.held[consumer][0]}):
                if host in self.unanswered:
                    self._weaken(consumer)
                del self.held[consumer]

    def _count(self, event: history.Counters) -> Verdict | None:
        if event.dest is None or event.in_flight is None or self._destinations.is_topic(event.dest):
            return None
        shown = f"count of {event.dest} is {event.in_flight}"
        if event.in_flight < 0 and event.dest not in self.asynchronous:
            return self.broken("INF-002", event, f"the in-flight {shown}, but every consumer so far was synchronous")
        held = sum(len(messages) for _, dest, messages in self.held.values() if dest == event.dest)
        if event.at_rest and event.dest not in self.opaque and event.in_flight != held:
            return self.broken("INF-001", event, f"at rest the in-flight {shown}, but consumers hold {held}")
        return None
