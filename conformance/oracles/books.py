"""Books: who had which message when, as an outside bookkeeper can know it. One fold, shared by all oracles that count.

Model. A queue's message is *waiting*, or *held* by the one consumer that it arrived at, or gone. A settlement moves
it from held to gone; the end of a consumer moves what it held, unsettled, back to waiting. What an observer cannot
know (unknown results, settlements in a transaction, expired-acks of a client library, whose effect depends on the
broker's generation) is *doubtful*: neither held nor waiting.

Rules:

* The fold trusts events only; it never assumes that the broker did what it should.
* An event is taken once, however many oracles offer it (``feed`` looks at ``seq``): six oracles cost one fold.
* A read of counters ``at_rest`` freezes what each open consumer of that destination has: nothing was moving, so the
  broker's view and the clients' agree there.
* Fates change in ``_hold``, ``_settle`` and ``_end`` only.

Known exceptions: settlements in a transaction of unknown end stay doubtful for ever, and so do its sends (``lens.py``).

What must change together: ``records.py`` (the fields), ``inference.py`` (what may have happened between the events).
"""

from __future__ import annotations

from typing import Final

from brokerproof.conformance.experiment.destinations import DEAD_LETTERS
from brokerproof.conformance.experiment.history import (
    Abort,
    Ack,
    Arrive,
    Browse,
    Closed,
    Commit,
    Connect,
    Consume,
    Counters,
    Discard,
    Event,
    Fault,
    Header,
    Kill,
    Leave,
    Nack,
    Operate,
    Pause,
    Phase,
    Send,
    Start,
    Stop,
    Subscribe,
)
from brokerproof.conformance.oracles.attendance import Attendance
from brokerproof.conformance.oracles.lens import Lens, surely_believes_client
from brokerproof.conformance.oracles.records import (
    DOUBTFUL,
    HELD,
    JMS_DELIVERIES,
    LATE,
    RETURNED,
    SETTLED,
    Consumer,
    Message,
    Passage,
    Queue,
    Read,
)
from brokerproof.conformance.oracles.strategies import gets_letter
from brokerproof.conformance.oracles.uncommitted import Uncommitted
from brokerproof.conformance.oracles.wall import WallClocks

#: What a message may cost a broker beyond its body, at most and at least.
OVERHEAD_MAX_BYTES: Final = 2048
OVERHEAD_MIN_BYTES: Final = 1024


class Books(Attendance):
    """The fold. ``start``, then ``feed`` every event in order."""

    # fmt: off
    __slots__ = (
        "charged",
        "clocks",
        "durables",
        "expired_ack_settles",
        "moved_seq",
        "paused",
        "pauses",
        "phase",
        "phases",
        "pledged",
        "poisoned",
        "reads",
        "rejected",
        "rests_ns",
        "sent_bytes",
        "seq",
        "simulated",
        "stamps_expiry",
        "uncommitted",
    )
    # fmt: on

    def __init__(self, clocks: WallClocks) -> None:
        super().__init__()
        self.clocks = clocks
        #: Open transactions: name -> deliveries that were acknowledged in them.
        self.pledged: dict[str, list[Passage]] = {}
        self.simulated = False
        self.seq = -1
        #: The last event that was no read of counters.
        self.moved_seq = -1
        #: Reads of the broker's own figures, not a destination's.
        self.reads: list[Read] = []
        #: Starts of reads at rest, rising.
        self.rests_ns: list[int] = []
        self.phases: dict[str, Phase] = {}
        self.phase = ""
        self.paused = False
        self.pauses: list[Pause] = []
        self.poisoned = 0
        #: Messages that somebody tried to reject.
        self.rejected: dict[str, bool] = {}
        self.charged = 0
        self.sent_bytes = 0
        #: The client library's expired-ack settles a message for certain.
        self.expired_ack_settles = False
        #: The broker itself gives messages an expiration.
        self.stamps_expiry = False
        self.uncommitted = Uncommitted()
        #: There may be durable subscriptions, which may keep messages while nobody consumes.
        self.durables = False

    def start(self, header: Header) -> None:
        """A run begins."""
        self.header = header
        self.broker = header.broker_host
        self.lens = Lens(header.broker_host)
        self.simulated = header.world == "simulated"
        self.expired_ack_settles = surely_believes_client(header)
        stamping = header.declared.timestamping
        self.stamps_expiry = stamping is not None and stamping.zero_expiration_override_ms > 0

    def feed(self, event: Event) -> None:
        """Take one event; the same event again changes nothing."""
        if event.seq <= self.seq:
            return
        self.seq = event.seq
        if isinstance(event, Counters):
            self._read(event)
            return
        self.moved_seq = event.seq
        seen = self.lens.look(event)
        if isinstance(event, Arrive):
            self._arrive(event)
        elif isinstance(event, Send):
            self._heard(event)
            if event.tx is not None:
                self.uncommitted.send(event)
            self._send(seen)  # type: ignore[arg-type]  # the lens leaves a send a send
        else:
            self._feed_client(event, seen)

    def _feed_client(self, event: Event, seen: Event | None) -> None:
        """What consumers do, and the rest; ``seen`` is None for what is not theirs."""
        if isinstance(event, Consume):
            self._consume(event)
        elif isinstance(event, Ack | Nack):
            self._heard(event)
            self._settle_all(event)
        elif isinstance(event, Subscribe):
            self._heard(event)
            self.durables = self.durables or (event.durable != "" and event.result != "fail")
            if seen is None:
                self.queue(event.dest).browsed = True
            else:
                self.subscribe(event)
        elif isinstance(event, Leave):
            self.uncommitted.feed(event)
            if seen is not None:
                self.leave(event)
        elif isinstance(event, Discard):
            self._discard(event)
        elif isinstance(event, Fault):
            self.uncommitted.feed(event)
            self.fault(event)
        else:
            self._rare(event)

    def _heard(self, event: Send | Ack | Nack | Subscribe | Commit | Abort) -> None:
        """The broker answered."""
        if event.result == "ok":
            host = self.host(event.host)
            host.last_op_ns = event.t0
            host.last_heard_ns = event.t1

    def message(self, name: str) -> Message:
        """The record of a message."""
        found = self.messages.get(name)
        if found is None:
            found = self.messages[name] = Message(name)
        return found

    # -- messages

    def _send(self, event: Send) -> None:
        message = self.message(event.message)
        if message.send is not None:
            return
        message.send = event
        queue = self.queue(event.dest)
        bytes_max = event.size + OVERHEAD_MAX_BYTES
        queue.sent_bytes += bytes_max
        self.sent_bytes += bytes_max
        timed = event.mortal() or event.delay_ms > 0 or event.deliver_at_ms is not None or self.stamps_expiry
        if timed:
            queue.timed += 1
        if event.result != "ok":
            return
        message.epoch = self.host(event.host).epoch
        message.steady = not timed and event.persistent and not queue.topic
        if queue.topic:
            queue.sends.append(event)
        elif not message.dead and (not message.passages or message.passages[-1].fate in {HELD, RETURNED}):
            # Frames can overtake the receipt: by now it may be held, or even be back.
            message.charged = event.size + OVERHEAD_MIN_BYTES
            queue.charged += message.charged
            queue.kept += 1
            self.charged += message.charged
            limit = self.header.declared.memory_limit_bytes
            message.beyond = 0 < limit < self.charged or 0 < queue.limit_bytes < queue.charged
            if message.steady and (not message.passages or message.passages[-1].returned()):
                queue.waiting[event.message] = message

    def _arrive(self, event: Arrive) -> None:
        message = self.message(event.message)
        consumer = self.consumers.get(event.consumer)
        if consumer is None:
            consumer = self.enlist(event.consumer, event.host, event.dest, None)
        consumer.host.last_heard_ns = event.t1
        if consumer.end:
            fate = LATE
        elif consumer.auto:
            fate = SETTLED
        elif consumer.ack == "auto" and not consumer.host.via:
            fate = DOUBTFUL
        else:
            fate = HELD
        queue = self.queue(event.dest)
        passage = Passage(message, consumer, event, fate, queue)
        consumer.passages.append(passage)
        consumer.seen[event.message] = passage
        queue.arrived += 1
        if event.dest == DEAD_LETTERS:
            message.dead.append(passage)
            if message.poisoned:
                message.poisoned = False
                self.poisoned -= 1
            self._gone(message)
        else:
            if message.passages:
                queue.again += 1
            message.passages.append(passage)
        if fate != LATE:
            self._hold(message, consumer, fate, queue)

    def _hold(self, message: Message, consumer: Consumer, fate: int, queue: Queue) -> None:
        if not queue.topic:
            queue.waiting.pop(message.name, None)
        if fate == HELD:
            consumer.held += 1
        elif fate == DOUBTFUL:
            consumer.doubted += 1
        elif not queue.topic:
            self._gone(message)

    def _gone(self, message: Message) -> None:
        """It is, or may be, no longer where it was sent to."""
        send = message.send
        if send is None or send.dest == DEAD_LETTERS:
            return
        queue = self.queues[send.dest]
        queue.waiting.pop(message.name, None)
        if message.charged:
            queue.charged -= message.charged
            queue.kept -= 1
            self.charged -= message.charged
            message.charged = 0

    def _consume(self, event: Consume) -> None:
        consumer = self.consumers.get(event.consumer)
        passage = consumer.seen.get(event.message) if consumer is not None else None
        if passage is None or consumer is None:
            return
        passage.consumed = True
        if consumer.ack == "auto" and passage.fate in {HELD, RETURNED}:
            # The library settles it by itself, at a moment that nobody sees unless it is recorded.
            self.settle(passage, DOUBTFUL)

    def _settle_all(self, event: Ack | Nack) -> None:
        consumer = self.consumers.get(event.consumer)
        if consumer is None:
            return
        fate = SETTLED if event.result == "ok" and event.tx is None else DOUBTFUL
        for name in event.messages:
            passage = consumer.seen.get(name)
            if passage is None:
                continue
            self._settled_by(passage, event)
            self.settle(passage, fate)
            if event.tx is not None and event.result == "ok":
                self.pledged.setdefault(event.tx, []).append(passage)
            if isinstance(event, Nack):
                self.rejected[name] = True
                if fate == SETTLED:
                    self._poison(passage)

    def _settled_by(self, passage: Passage, event: Ack | Nack | Discard) -> None:
        """The first try counts, or what came after a refusal, or a discard after a rollback."""
        before = passage.settle
        if before is None:
            passage.consumer.tried += 1
            passage.settle = event
        elif not isinstance(before, Discard):
            undone = isinstance(event, Discard) and before.tx is not None and passage.rollbacks > 0
            if undone or before.result == "fail":
                passage.settle = event

    def _ended(self, event: Commit | Abort) -> None:
        """A transaction is over: what was acknowledged in it is settled, or held as before."""
        self._heard(event)
        pledged = self.pledged.pop(event.tx, [])
        if event.result != "ok":
            return
        for passage in pledged:
            passage.rollbacks += isinstance(event, Abort)
            if isinstance(event, Commit):
                self.settle(passage, SETTLED)
            elif passage.rollbacks >= JMS_DELIVERIES and passage.consumer.host.via == "jms":
                continue  # its library gives it up, and nobody sees that
            elif passage.fate == DOUBTFUL and not passage.consumer.end:
                passage.fate = HELD
                passage.consumer.doubted -= 1
                passage.consumer.held += 1
                passage.consumer.overdrawn = True

    def _poison(self, passage: Passage) -> None:
        message = passage.message
        consumer = passage.consumer
        send = message.send
        if send is None or consumer.queue.topic or consumer.host.via != "stomp" or message.dead:
            return
        if gets_letter(self.header.declared, send.dest, send.persistent, expired=False) and not message.poisoned:
            message.poisoned = True
            self.poisoned += 1

    def _discard(self, event: Discard) -> None:
        consumer = self.consumers.get(event.consumer)
        passage = consumer.seen.get(event.message) if consumer is not None else None
        if passage is None or consumer is None:
            return
        self._settled_by(passage, event)
        self.settle(passage, SETTLED if self.expired_ack_settles else DOUBTFUL)

    def settle(self, passage: Passage, fate: int) -> None:
        """The consumer settled it (``SETTLED``) or may have (``DOUBTFUL``), perhaps after it was seen to leave."""
        consumer = passage.consumer
        before = passage.fate
        if before in {SETTLED, LATE}:
            return
        passage.fate = fate
        if before == HELD:
            consumer.held -= 1
            if fate == DOUBTFUL:
                consumer.doubted += 1
        elif before == DOUBTFUL and fate == SETTLED and not consumer.end:
            consumer.doubted -= 1
        if not passage.queue.topic:
            passage.queue.waiting.pop(passage.message.name, None)
            self._gone(passage.message)

    # -- links, processes, phases, reads

    def _rare(self, event: Event) -> None:
        self.uncommitted.feed(event)
        if isinstance(event, Phase):
            self.phases[event.name] = event
            self.phase = event.name
        elif isinstance(event, Connect):
            self.connect(event)
        elif isinstance(event, Commit | Abort):
            self._ended(event)
        elif isinstance(event, Operate):
            self._operated(event)
        elif isinstance(event, Closed):
            self.closed(event)
        elif isinstance(event, Pause):
            self.paused = True
            self.pauses.append(event)
        elif isinstance(event, Browse):
            self.queue(event.dest).browsed = True
        elif isinstance(event, Start | Stop | Kill):
            self.process(event)

    def _operated(self, event: Operate) -> None:
        """Messages may have gone from a queue: nobody knows which."""
        if event.result == "fail" or event.op in {"reset", "limit"}:
            return
        for message in list(self.queue(event.dest).waiting.values()):
            self._gone(message)

    def _read(self, event: Counters) -> None:
        read = Read(event)
        read.drain = self.phase in {"drain", "end"}
        read.sent_bytes = self.sent_bytes
        read.moved_seq = self.moved_seq
        read.poisoned = self.poisoned
        read.uncommitted = self.uncommitted.count(event.dest)
        read.uncommitted_bytes = self.uncommitted.bytes.get(event.dest or "", 0)
        read.unsure = self.uncommitted.is_unsure(event.dest)
        if event.at_rest and (not self.rests_ns or self.rests_ns[-1] < event.t0):
            self.rests_ns.append(event.t0)
        if event.dest is None:
            self.queue(DEAD_LETTERS)
            # Only the broker's own total speaks for what others may have left there.
            read.empty = event.at_rest and event.size == 0 and not event.scheduled
            if self.durables and any(queue.topic and queue.sent_bytes for queue in self.queues.values()):
                read.empty = False
            read.empty = read.empty and all(queue.is_empty(self.moved_seq) for queue in self.queues.values())
            self.reads.append(read)
            return
        queue = self.queue(event.dest)
        read.charged_elsewhere = self.charged - queue.charged
        read.most_elsewhere = max((other.charged for other in self.queues.values() if other is not queue), default=0)
        read.look_at(queue)
        queue.reads.append(read)
