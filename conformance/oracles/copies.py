"""Copies: a message that is sent to several names at once, or to a virtual topic. Judges GEN-048 and GEN-049.

Model. Each name, and each queue that consumes from a virtual topic when the message is sent, gets a copy of its own: it
is taken, or left there, like any message of that queue. All of them, or the send is refused and there is none.

Events: ``send``, ``subscribe``, ``arrive``, ``leave``, ``closed``, ``operate``, ``fault`` and ``phase``. Other oracles
would take the copies for duplicates; a history with such names is theirs only if they say so.

Analyses, of persistent messages that were confirmed outside of a transaction, without expiration, delay or group, by a
broker that gives none an expiration by itself:

1. GEN-048: a queue of a virtual topic had a consumer before the message was sent, and no copy arrived there to the end.
2. GEN-049: one of the queues among several names never got it, or got it twice at one consumer, unmarked; or one that
   was refused arrives anywhere.

Not checked: absence where the drain did not look at the queue, where an auto-acknowledging consumer left, or where
memory was limited (that what was refused arrives nowhere is); anything after a restart of the broker or an operator's
request; topics.
"""

from __future__ import annotations

from brokerproof.conformance.experiment.configuration import BrokerSpec
from brokerproof.conformance.experiment.destinations import is_composite, is_topic, parts_of, virtual_topic_of
from brokerproof.conformance.experiment.history import (
    Arrive,
    Closed,
    Event,
    Fault,
    Header,
    Leave,
    Operate,
    Phase,
    Send,
    Subscribe,
)
from brokerproof.conformance.oracles.base import Oracle
from brokerproof.conformance.oracles.wall import WallClocks


class CopyOracle(Oracle):
    """See the module's header."""

    name = "copies"
    requirements = ("GEN-048", "GEN-049")
    kinds = ("send", "subscribe", "arrive", "leave", "closed", "operate", "fault", "phase")
    knows = ("copies",)

    def __init__(self, clocks: WallClocks) -> None:
        super().__init__(clocks)
        self._sends: list[Send] = []
        #: (message, destination) -> its arrivals there.
        self._arrivals: dict[tuple[str, str], list[Arrive]] = {}
        self._consumers: dict[str, Subscribe] = {}
        #: Destination -> when it had its first consumer, and whether an auto-acknowledging one left.
        self._known_ns: dict[str, int] = {}
        self._leaky: dict[str, bool] = {}
        self._drain_seq = -1
        self._ended = False
        self._disturbed = False
        #: So little memory is declared that a copy may be kept back.
        self._scarce = False
        #: The header says that there are such names.
        self._copied = False
        #: The broker itself gives messages an expiration.
        self._gives_life = False

    def start(self, header: Header) -> None:
        declared = header.declared
        limits = [entry.memory_limit_bytes for entry in declared.destinations]
        stamping = declared.timestamping
        self._gives_life = stamping is not None and stamping.zero_expiration_override_ms > 0
        self._copied = declared.copies
        self._scarce = declared.memory_limit_bytes < BrokerSpec().memory_limit_bytes or any(limits)

    def is_concerned(self) -> bool:
        return self._copied

    def feed(self, event: Event) -> None:
        if isinstance(event, Send):
            self._sends.append(event)
        elif isinstance(event, Arrive):
            self._arrivals.setdefault((event.message, event.dest), []).append(event)
        elif isinstance(event, Subscribe):
            if event.result == "ok":
                self._consumers[event.consumer] = event
                self._known_ns.setdefault(event.dest, event.t1)
            elif event.result == "unknown":
                self._leaky[event.dest] = True
        elif isinstance(event, Leave | Closed):
            self._left(event)
        elif isinstance(event, Phase):
            if event.name == "drain":
                self._drain_seq = event.seq
            self._ended = self._ended or event.name == "end"
        elif isinstance(event, Operate) or (isinstance(event, Fault) and event.fault == "restart"):
            self._disturbed = True

    def _left(self, event: Leave | Closed) -> None:
        one = event.consumer if isinstance(event, Leave) else None
        host = event.host if isinstance(event, Leave) else event.link or event.host
        for name, consumer in self._consumers.items():
            gone = name == one if one is not None else consumer.host == host
            if gone and consumer.ack == "auto":
                self._leaky[consumer.dest] = True

    def conclude(self) -> None:
        if self._disturbed:
            return
        for send in self._sends:
            if is_composite(send.dest):
                if send.result == "fail":
                    self._refused(send)
                elif self._is_plain(send):
                    self._named(send)
            elif virtual_topic_of(send.dest) == send.dest and self._is_plain(send):
                self._virtual(send)

    def _is_plain(self, send: Send) -> bool:
        timed = self._gives_life or send.mortal() or send.delay_ms or send.deliver_at_ms is not None
        return send.result == "ok" and send.persistent and send.tx is None and not timed and not send.group

    def _watched(self, dest: str) -> bool:
        """Whether what is left on a queue comes to light, and nothing vanishes from it unseen."""
        drained = any(
            consumer.dest == dest and consumer.seq > self._drain_seq >= 0 for consumer in self._consumers.values()
        )
        return self._ended and drained and not self._scarce and dest not in self._leaky

    # -- GEN-048

    def _virtual(self, send: Send) -> None:
        claim = self.claims["GEN-048"]
        queues = [
            dest
            for dest, known_ns in self._known_ns.items()
            if dest != send.dest and virtual_topic_of(dest) == send.dest and known_ns <= send.t0 and self._watched(dest)
        ]
        for dest in queues:
            if (send.message, dest) not in self._arrivals:
                text = (
                    f"{send.message} was sent to the virtual topic {send.dest}; {dest}, which had a consumer by then, "
                    "never got it"
                )
                claim.fail(text, [send.seq], outcome="missed")
                return
        if queues:
            claim.hold("several queues" if len(queues) > 1 else "one queue", outcome="each")

    # -- GEN-049

    def _named(self, send: Send) -> None:
        claim = self.claims["GEN-049"]
        queues = [part for part in parts_of(send.dest) if not is_topic(part) and not virtual_topic_of(part)]
        for dest in queues:
            arrivals = self._arrivals.get((send.message, dest), [])
            again = next((one for one in arrivals[1:] if self._is_another(arrivals[0], one)), None)
            if again is not None:
                text = f"{send.message} was sent to {send.dest} once, and arrived twice at {again.consumer} on {dest}"
                claim.fail(text, [send.seq, arrivals[0].seq, again.seq], outcome="twice")
                return
            if not arrivals and self._watched(dest):
                text = f"{send.message} was sent to {send.dest} and confirmed; it never arrived on {dest}"
                claim.fail(text, [send.seq], outcome="missed")
                return
        if queues and all(self._watched(dest) for dest in queues):
            claim.hold("queues", outcome="each")

    def _is_another(self, one: Arrive, other: Arrive) -> bool:
        """Whether two arrivals at one consumer are those of two messages."""
        return one.consumer == other.consumer and not other.redelivered

    def _refused(self, send: Send) -> None:
        claim = self.claims["GEN-049"]
        for (message, dest), arrivals in self._arrivals.items():
            if message == send.message:
                text = f"{send.message} was refused ({send.refusal}), and arrived on {dest}"
                claim.fail(text, [send.seq, arrivals[0].seq], outcome="half-refused")
                return
        if self._ended:
            claim.hold("refused", outcome="nowhere")
