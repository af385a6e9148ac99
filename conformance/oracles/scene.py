"""The scene: who sent what, who was attached where, which links were stalled. Built from one history for the oracles of
expiry and delay.

It decides nothing. It orders what observers saw into

* ``Life``: one message: its send, its arrivals at consumers, its dead letters, and what was done with it. A message
  sent straight to the dead-letter queue has a life, but its arrivals there are no dead letters.
* ``Visit``: one consumer's stay on a destination: from when to when it may, and from when to when it must have been
  known to the broker, its window, its link.
* stalls per host, disturbances, phases.

Bounds of a stay: it may begin when SUBSCRIBE was written (``t0``) and has begun when the receipt was there (``t1``).
It may end when the goodbye was written, or, if the link was stalled or the broker closed it, earlier than the client
knew; it has ended when the goodbye has reached the broker, which a stalled link puts off until it is resumed.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from brokerproof.conformance.experiment.destinations import DEAD_LETTERS, is_topic
from brokerproof.conformance.experiment.history import (
    Ack,
    Acknowledge,
    Arrive,
    Closed,
    Connect,
    Consume,
    Counters,
    Discard,
    Event,
    Fault,
    Kill,
    Leave,
    Nack,
    Pause,
    Phase,
    Send,
    Stop,
    Subscribe,
)
from brokerproof.conformance.oracles.lens import Lens
from brokerproof.conformance.oracles.life import NEVER_NS, Life, Visit

if TYPE_CHECKING:
    from brokerproof.conformance.experiment.history import Header

NS_PER_MS = 1_000_000
#: Bytes that a broker may charge for a message beside its body.
OVERHEAD_BYTES = 2048
KINDS = (
    "connect",
    "subscribe",
    "leave",
    "send",
    "arrive",
    "consume",
    "discard",
    "ack",
    "acknowledge",
    "nack",
    "counters",
    "closed",
    "kill",
    "pause",
    "stop",
    "fault",
    "phase",
    "operate",
)


class Scene:
    """Everything of one run. ``add`` all events, then ``finish``."""

    __slots__ = (
        "_early",
        "_header",
        "_healing",
        "_open",
        "_vias",
        "broken",
        "counters",
        "crowded",
        "dests",
        "drain_ns",
        "end_ns",
        "last_ns",
        "lens",
        "letters_drained",
        "lives",
        "paused",
        "rested",
        "stalls",
        "sync_hosts",
        "tight",
        "visit_names",
        "visits",
    )

    def __init__(self, header: Header) -> None:
        self._header = header
        #: What the features mean that this fold does not know.
        self.lens = Lens(header.broker_host)
        self.lives: dict[str, Life] = {}
        #: Destination -> its messages, in order of the ends of their sends.
        self.dests: dict[str, list[Life]] = {}
        #: Destination -> its consumers, in order of their coming.
        self.visits: dict[str, list[Visit]] = {}
        self.visit_names: dict[str, Visit] = {}
        #: Host -> [begin, end] of each stall of its link; the end is ``NEVER_NS`` while it lasts.
        self.stalls: dict[str, list[list[int]]] = {}
        #: Hosts with a consumer that is served synchronously: a stall there may stop the broker's dispatching thread.
        self.sync_hosts: dict[str, bool] = {}
        self.counters: list[Counters] = []
        #: A process was paused: nothing is promised about time.
        self.paused = False
        #: The broker was stopped or killed: nothing that is not persistent need survive.
        self.broken = False
        #: When the drain began, and when the run was over; None if it never came to that.
        self.drain_ns: int | None = None
        self.end_ns: int | None = None
        #: Everything was at rest once between healing and draining.
        self.rested = False
        self._healing = False
        #: A consumer took all dead letters in the drain.
        self.letters_drained = False
        #: So much was sent that a memory limit may decide when somebody gets a message, or even whether.
        self.tight = False
        self.crowded = False
        self.last_ns = 0
        #: Host -> (via, expiry check) of its latest connection; host -> its open visits.
        self._vias: dict[str, tuple[str, bool]] = {}
        #: Arrivals at consumers whose subscription is not confirmed yet.
        self._early: dict[str, list[Arrive]] = {}
        self._open: dict[str, list[Visit]] = {}

    # -- building

    def add_all(self, events: list[Event]) -> None:
        """All events of the kinds ``KINDS``, in order."""
        look = self.lens.look
        for seen in events:
            event = look(seen)
            if event is None:
                continue
            if isinstance(event, Send):
                self._send(event)
            elif isinstance(event, Arrive):
                self._arrive(event)
            elif isinstance(event, Consume):
                life = self._life_at(event.message, event.consumer)
                if life is not None:
                    life.consumes.append(event)
                self._freed(event.consumer, event.t0, 1, jms_only=True)
            elif isinstance(event, Ack):
                self._ack(event)
            else:
                self._add_rare(event)
        if events:
            self.last_ns = events[-1].t1

    def _send(self, event: Send) -> None:
        life = self.lives.get(event.message)
        if life is None:
            life = self.lives[event.message] = Life(event)
        else:
            self._settle_premature(life, event)
        siblings = self.dests.get(event.dest)
        if siblings is None:
            self.dests[event.dest] = [life]
        else:
            siblings.append(life)

    def _arrive(self, event: Arrive) -> None:
        visit = self.visit_names.get(event.consumer)
        if visit is not None:
            visit.arrivals.append(event)
        else:
            self._early.setdefault(event.consumer, []).append(event)
        life = self.lives.get(event.message)
        if life is None:
            life = self._premature(event)
        if event.dest == DEAD_LETTERS and life.send.dest != DEAD_LETTERS:
            life.letters.append(event)
        else:
            life.arrivals.append(event)

    def _premature(self, event: Arrive) -> Life:
        """It arrived before its producer had the receipt: its send is still to come in the order of ``t1``. A
        placeholder stands in until then.
        """
        life = Life(Send(0, 0, event.t1, "", "unknown", event.message, event.original_dest or event.dest))
        self.lives[event.message] = life
        return life

    def _settle_premature(self, life: Life, event: Send) -> None:
        life.send = event
        if event.dest != DEAD_LETTERS:
            life.letters += [arrival for arrival in life.arrivals if arrival.dest == DEAD_LETTERS]
            life.arrivals = [arrival for arrival in life.arrivals if arrival.dest != DEAD_LETTERS]

    def _ack(self, event: Ack) -> None:
        for message in event.messages:
            life = self._life_at(message, event.consumer)
            if life is not None:
                life.acks.append(event)
        self._freed(event.consumer, event.t0, len(event.messages), jms_only=False)

    def _life_at(self, message: str, consumer: str) -> Life | None:
        """The message's life, unless that consumer has to do with its dead letter only."""
        life = self.lives.get(message)
        visit = self.visit_names.get(consumer)
        if life is not None and visit is not None and visit.subscribe.dest == DEAD_LETTERS != life.send.dest:
            return None
        return life

    def _freed(self, consumer: str, at_ns: int, count: int, *, jms_only: bool) -> None:
        """A JMS client may widen its window as soon as the application has a message; others free a slot by settling
        one.
        """
        visit = self.visit_names.get(consumer)
        if visit is not None and (visit.via != "stomp") == jms_only:
            for _ in range(count):
                visit.freed_ns.append(at_ns)

    def _add_rare(self, event: Event) -> None:
        if isinstance(event, Discard):
            life = self._life_at(event.message, event.consumer)
            if life is not None:
                life.discards.append(event)
            self._freed(event.consumer, event.t0, 1, jms_only=True)
        elif isinstance(event, Nack):
            for message in event.messages:
                life = self._life_at(message, event.consumer)
                if life is not None:
                    life.nacks.append(event)
            self._freed(event.consumer, event.t0, len(event.messages), jms_only=False)
        elif isinstance(event, Subscribe):
            self._subscribe(event)
        elif isinstance(event, Leave):
            self._leave(event)
        elif isinstance(event, Connect):
            self._vias[event.host] = (event.via, event.expiry_check)
        elif isinstance(event, Counters):
            self.counters.append(event)
            self.rested = self.rested or (event.at_rest and self._healing)
        else:
            self._add_rarest(event)

    def _add_rarest(self, event: Event) -> None:
        if isinstance(event, Acknowledge):
            for message in event.messages if event.type == "expired" else ():
                life = self._life_at(message, event.consumer)
                if life is not None:
                    life.called_expired = True
        elif isinstance(event, Fault):
            self._fault(event)
        elif isinstance(event, Closed):
            self._closed(event)
        elif isinstance(event, Phase):
            self._phase(event)
        elif isinstance(event, Pause):
            self.paused = True
        elif isinstance(event, Kill | Stop):
            self.broken = self.broken or event.target == self._header.broker_host
        self.broken = self.broken or self.lens.restarted

    def _subscribe(self, event: Subscribe) -> None:
        if event.result == "fail":
            return
        via, checks = self._vias.get(event.host, ("stomp", False))
        visit = Visit(event, via, checks)
        visit.arrivals += self._early.pop(event.consumer, [])
        self.visits.setdefault(event.dest, []).append(visit)
        self.visit_names[event.consumer] = visit
        self._open.setdefault(event.host, []).append(visit)
        if event.dispatch == "sync":
            self.sync_hosts[event.host] = True
        if event.dest == DEAD_LETTERS and self.drain_ns is not None and event.result == "ok":
            self.letters_drained = True

    def _leave(self, event: Leave) -> None:
        leaving = [
            v
            for v in self._open.get(event.host, [])
            if event.consumer is None or v.subscribe.consumer == event.consumer
        ]
        stalls = self.stalls.get(event.host, [])
        stalled_ns = stalls[-1][0] if stalls and stalls[-1][1] == NEVER_NS else NEVER_NS
        for visit in leaving:
            visit.leave = event
            visit.leaving_ns = min(visit.leaving_ns, event.t0, stalled_ns)
            visit.gone_ns = event.t1 if event.result == "ok" and stalled_ns == NEVER_NS else NEVER_NS
            self._open[event.host].remove(visit)

    def _closed(self, event: Closed) -> None:
        """Somebody ended a connection that its client had not left: when the broker took the messages back is not
        known.
        """
        for visit in self._open.get(event.link or event.host, []):
            visit.uncertain = True

    def _fault(self, event: Fault) -> None:
        if event.link is None:
            return
        known = self.stalls.setdefault(event.link, [])
        if event.fault == "stall":
            known.append([event.t0, NEVER_NS])
        elif event.fault == "resume":
            for stall in known:
                stall[1] = min(stall[1], event.t1)
            self._overdue(event.link, event.t1)

    def _overdue(self, host: str, at_ns: int) -> None:
        """A resumed link lets the goodbyes through that it held back."""
        for visits in self.visits.values():
            for visit in visits:
                if visit.host == host and visit.leave is not None and visit.gone_ns == NEVER_NS:
                    visit.gone_ns = at_ns

    def _phase(self, event: Phase) -> None:
        self._healing = event.name == "heal"
        if event.name == "drain":
            self.drain_ns = event.t0
        elif event.name == "end":
            self.end_ns = event.t1

    def finish(self) -> None:
        """Sort what must be sorted; decide whether memory may play a part."""
        for visit in self.visit_names.values():
            visit.freed_ns.sort()
        declared = self._header.declared
        fair = declared.generation.get("memory", "fair") == "fair"
        limits = [entry.memory_limit_bytes for entry in declared.destinations if entry.memory_limit_bytes]
        least = min([declared.memory_limit_bytes, *limits])
        if least:
            self.tight = sum(life.send.size + OVERHEAD_BYTES for life in self.lives.values()) * 2 > least
            self.crowded = self.tight and not fair
        if self.lens.limited:
            self.tight = self.crowded = True
        for dest in [*self.dests, *self.visits]:
            if self.lens.restarted or self.lens.clouded(dest):
                self._forget(dest)

    def _forget(self, dest: str) -> None:
        """Nothing can be said about a destination whose messages came and went unseen."""
        for life in self.dests.pop(dest, ()):
            self.lives.pop(life.send.message, None)
        self.visits.pop(dest, None)

    # -- questions

    @property
    def complete(self) -> bool:
        """Whether absence may be judged: everything came to rest, then everything that was left was taken, dead
        letters too.
        """
        return self.rested and self.end_ns is not None and self.letters_drained and not (self.crowded or self.broken)

    def stalled(self, host: str, t0: int, t1: int) -> bool:
        """Whether the host's link was stalled at any instant of ``[t0, t1]``."""
        return any(begin <= t1 and end >= t0 for begin, end in self.stalls.get(host, ()))

    def any_stall(self, t0: int, t1: int) -> bool:
        """Whether any link was."""
        return any(self.stalled(host, t0, t1) for host in self.stalls)

    def left_in_peace(self, visit: Visit) -> bool:
        """It stayed to the end, or was closed in the drain, when nothing was on its way any more."""
        if visit.uncertain:
            return False
        if visit.leave is None:
            return True
        if self.lens.picky(visit.subscribe.dest):
            return False  # what another consumer kept from it may come when that one leaves, and find it leaving, too
        return self.drain_ns is not None and visit.leave.how == "close" and visit.leaving_ns >= self.drain_ns

    def visit_of(self, consumer: str) -> Visit | None:
        """The stay of that name."""
        return self.visit_names.get(consumer)

    def assigned_ns(self, life: Life, arrival: Arrive, *, windows: bool) -> int:
        """A true time before which the broker cannot have given this message to this consumer.

        Not before the send and the subscription were written; with ``windows`` not before a slot can have been free;
        and not before the consumer that had it earlier can have lost it.
        """
        bound = life.send.t0
        visit = self.visit_names.get(arrival.consumer)
        if visit is None:
            return bound
        bound = max(bound, visit.subscribe.t0)
        prefetch = visit.subscribe.prefetch
        if windows and prefetch > 0 and not visit.settles_unseen:
            before = _position(visit.arrivals, arrival)
            needed = before - prefetch + 1
            if needed > 0:
                freed = visit.freed_ns
                if (
                    needed <= len(freed) and freed[needed - 1] <= arrival.t1
                ):  # otherwise the window was overrun: another requirement's affair
                    bound = max(bound, freed[needed - 1])
        if len(life.arrivals) > 1 and not is_topic(life.send.dest):
            bound = max(bound, self._returned_ns(life, arrival))
        return min(bound, arrival.t1)

    def _returned_ns(self, life: Life, arrival: Arrive) -> int:
        """A time before which the message cannot have come back from the consumer at which it arrived just before; 0
        if nothing is known.
        """
        earlier: Arrive | None = None
        for other in life.arrivals:
            if other is arrival:
                break
            earlier = other
        if earlier is None or earlier.consumer == arrival.consumer:
            return 0
        visit = self.visit_names.get(earlier.consumer)
        if visit is None or visit.uncertain or visit.leave is None or earlier.t0 > visit.leaving_ns:
            return 0
        refused = [event.t0 for event in (*life.discards, *life.nacks) if event.t0 <= arrival.t1]
        bound = min([visit.leaving_ns, *refused])
        return bound if bound <= arrival.t1 else 0  # otherwise it came back in a way that nobody saw


def clients_may_have_discarded(scene: Scene, life: Life) -> bool:
    """Whether a client's library threw the message away, or may have done so without a witness because it vanished."""
    if life.discards:
        return True
    for visit in scene.visits.get(life.send.dest, ()):
        if visit.checks and (visit.uncertain or (visit.leave is not None and visit.leave.how != "close")):
            return True
    return False


def _position(arrivals: list[Arrive], arrival: Arrive) -> int:
    """How many arrivals came before this one, at the same consumer."""
    at = bisect_right(arrivals, arrival.seq, key=_seq)
    return at - 1


def _seq(event: Event) -> int:
    return event.seq
