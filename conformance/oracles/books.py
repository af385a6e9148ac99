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

Known exceptions: settlements in a transaction stay doubtful for ever, after ``commit`` too.

What must change together: ``records.py`` (the fields), ``inference.py`` (what may have happened between the events).
"""

from __future__ import annotations

from typing import Final

from conformance.history import (
    Ack,
    Arrive,
    Browse,
    Closed,
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
    Pause,
    Phase,
    Send,
    Start,
    Stop,
    Subscribe,
)
from conformance.oracles.records import (
    DEAD_LETTERS,
    DOUBTFUL,
    HELD,
    LATE,
    NEVER,
    RETURNED,
    SETTLED,
    Consumer,
    Host,
    Message,
    Passage,
    Queue,
    Read,
    Stall,
    own_limit_bytes,
)
from conformance.oracles.wall import WallClocks

#: What a message may cost a broker beyond its body, at most and at least.
OVERHEAD_MAX_BYTES: Final = 2048
OVERHEAD_MIN_BYTES: Final = 1024


class Books:
    """The fold. ``start``, then ``feed`` every event in order."""

    # fmt: off
    __slots__ = ("broker", "charged", "clocks", "consumers", "expired_ack_settles", "header", "hosts", "messages",
                 "moved_seq", "paused", "phase", "phases", "poisoned", "queues", "reads", "restarted", "rests_ns",
                 "sent_bytes", "seq", "simulated", "stamps_expiry", "steps")
    # fmt: on

    def __init__(self, clocks: WallClocks) -> None:
        self.clocks = clocks
        self.header = Header("", "")
        self.broker = ""
        self.simulated = False
        self.seq = -1
        #: The last event that was no read of counters.
        self.moved_seq = -1
        self.messages: dict[str, Message] = {}
        self.consumers: dict[str, Consumer] = {}
        self.hosts: dict[str, Host] = {}
        self.queues: dict[str, Queue] = {}
        #: Reads of the broker's own figures, not a destination's.
        self.reads: list[Read] = []
        #: Starts of reads at rest, rising.
        self.rests_ns: list[int] = []
        self.phases: dict[str, Phase] = {}
        self.phase = ""
        #: Steps of wall clocks.
        self.steps: list[Fault] = []
        self.restarted = False
        self.paused = False
        self.poisoned = 0
        self.charged = 0
        self.sent_bytes = 0
        #: The client library's expired-ack settles a message for certain.
        self.expired_ack_settles = False
        #: The broker itself gives messages an expiration.
        self.stamps_expiry = False

    def start(self, header: Header) -> None:
        """A run begins."""
        self.header = header
        self.broker = header.broker_host
        self.simulated = header.world == "simulated"
        # What an expired-ack does is known only where it is declared. The simulated broker is ours, with ours as the
        # default.
        default = "classic-5.14" if self.simulated else ""
        self.expired_ack_settles = header.declared.generation.get("expiry", default) == "classic-5.14"
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
        if isinstance(event, Arrive):
            self._arrive(event)
        elif isinstance(event, Send):
            self._send(event)
        elif isinstance(event, Consume):
            self._consume(event)
        elif isinstance(event, Ack | Nack):
            self._settle_all(event)
        elif isinstance(event, Subscribe):
            self._subscribe(event)
        elif isinstance(event, Leave):
            self._leave(event)
        elif isinstance(event, Discard):
            self._discard(event)
        elif isinstance(event, Fault):
            self._fault(event)
        else:
            self._rare(event)

    def host(self, name: str) -> Host:
        """The record of a host."""
        found = self.hosts.get(name)
        if found is None:
            found = self.hosts[name] = Host(name)
        return found

    def queue(self, name: str) -> Queue:
        """The record of a destination."""
        found = self.queues.get(name)
        if found is None:
            found = self.queues[name] = Queue(name, own_limit_bytes(self.header.declared.destinations, name))
        return found

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
        timed = event.expiration_ms > 0 or event.delay_ms > 0 or event.deliver_at_ms is not None or self.stamps_expiry
        if timed:
            queue.timed += 1
        if event.result != "ok":
            return
        host = self.host(event.host)
        host.last_op_ns = event.t0
        host.last_heard_ns = event.t1
        message.epoch = host.epoch
        message.steady = not timed and event.persistent and not queue.topic and event.tx is None
        if queue.topic:
            queue.sends.append(event)
        elif not message.dead and (not message.passages or message.passages[-1].fate in {HELD, RETURNED}):
            # Frames can overtake the receipt: by now it may be held, or even be back.
            message.charged = event.size + OVERHEAD_MIN_BYTES
            queue.charged += message.charged
            self.charged += message.charged
            limit = self.header.declared.memory_limit_bytes
            message.beyond = 0 < limit < self.charged or 0 < queue.limit_bytes < queue.charged
            if message.steady and (not message.passages or message.passages[-1].returned()):
                queue.waiting[event.message] = message

    def _arrive(self, event: Arrive) -> None:
        message = self.message(event.message)
        consumer = self.consumers.get(event.consumer)
        if consumer is None:
            consumer = self._enlist(event.consumer, event.host, event.dest, None)
        consumer.host.last_heard_ns = event.t1
        if consumer.end:
            fate = LATE
        elif consumer.auto:
            fate = SETTLED
        elif consumer.ack == "auto" and not consumer.host.via:
            fate = DOUBTFUL
        else:
            fate = HELD
        passage = Passage(message, consumer, event, fate)
        consumer.passages.append(passage)
        consumer.seen[event.message] = passage
        queue = consumer.queue
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
            self._hold(message, consumer, fate)

    def _hold(self, message: Message, consumer: Consumer, fate: int) -> None:
        queue = consumer.queue
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
            self._settle(passage, DOUBTFUL)

    def _settle_all(self, event: Ack | Nack) -> None:
        if event.result == "ok":
            host = self.host(event.host)
            host.last_op_ns = event.t0
            host.last_heard_ns = event.t1
        consumer = self.consumers.get(event.consumer)
        if consumer is None:
            return
        fate = SETTLED if event.result == "ok" and event.tx is None else DOUBTFUL
        for name in event.messages:
            passage = consumer.seen.get(name)
            if passage is None:
                continue
            if passage.settle is None:
                passage.settle = event
                consumer.tried += 1
            self._settle(passage, fate)
            if fate == SETTLED and isinstance(event, Nack):
                self._poison(passage)

    def _poison(self, passage: Passage) -> None:
        message = passage.message
        consumer = passage.consumer
        send = message.send
        if send is None or consumer.queue.topic or consumer.host.via != "stomp" or message.dead:
            return
        if (send.persistent or self.header.declared.dead_letter_non_persistent) and not message.poisoned:
            message.poisoned = True
            self.poisoned += 1

    def _discard(self, event: Discard) -> None:
        consumer = self.consumers.get(event.consumer)
        passage = consumer.seen.get(event.message) if consumer is not None else None
        if passage is None or consumer is None:
            return
        if passage.settle is None:
            passage.settle = event
            consumer.tried += 1
        self._settle(passage, SETTLED if self.expired_ack_settles else DOUBTFUL)

    def _settle(self, passage: Passage, fate: int) -> None:
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
        if not consumer.queue.topic:
            consumer.queue.waiting.pop(passage.message.name, None)
            self._gone(passage.message)

    # -- consumers

    def _enlist(self, name: str, host_name: str, dest: str, event: Subscribe | None) -> Consumer:
        host = self.host(host_name)
        consumer = Consumer(name, host, self.queue(dest), event)
        self.consumers[name] = consumer
        consumer.queue.consumers.append(consumer)
        consumer.queue.open[name] = consumer
        host.open[name] = consumer
        self._bound(consumer)
        return consumer

    def _bound(self, consumer: Consumer) -> None:
        if not consumer.known:
            # It may never have existed, or have ended at any time without anybody seeing it.
            consumer.lost_ns = consumer.opened_ns
        elif consumer.host.stall is not None:
            self._suspect(consumer, consumer.opened_ns)

    def _subscribe(self, event: Subscribe) -> None:
        if event.result == "fail":
            return
        if event.result == "ok":
            host = self.host(event.host)
            host.last_op_ns = event.t0
            host.last_heard_ns = event.t1
        consumer = self.consumers.get(event.consumer)
        if consumer is None:
            consumer = self._enlist(event.consumer, event.host, event.dest, event)
            if not consumer.known and not consumer.host.connected:
                self._end(consumer, "closed", event.t0, event.t1)  # its connection ended before an answer came
        elif consumer.subscribe is None:
            # Messages overtook the receipt.
            consumer.describe(event)
            if not consumer.end:
                consumer.lost_ns = NEVER
            self._bound(consumer)
            if consumer.ack == "auto":
                for passage in consumer.passages:
                    if passage.fate == HELD:
                        self._settle(passage, SETTLED if consumer.auto else DOUBTFUL)

    def _leave(self, event: Leave) -> None:
        if event.consumer is None:
            host = self.host(event.host)
            host.ends.append(event)
            host.epoch += 1
            self._end_host(host, event.how, event.t0, event.t1)
            return
        consumer = self.consumers.get(event.consumer)
        if consumer is None:
            return
        if event.result == "fail":
            consumer.known = False
            consumer.lost_ns = min(consumer.lost_ns, event.t0)
        else:
            self._end(consumer, event.how, event.t0, event.t1)

    def _end_host(self, host: Host, how: str, low_ns: int, high_ns: int) -> None:
        host.connected = False
        for consumer in list(host.open.values()):
            self._end(consumer, how, low_ns, high_ns)

    def _end(self, consumer: Consumer, how: str, low_ns: int, high_ns: int) -> None:
        """It is gone from ``low_ns`` on, or the broker will come to think so; what it held goes back."""
        consumer.lost_ns = min(consumer.lost_ns, low_ns)
        if consumer.end:
            return
        consumer.end = how
        consumer.end_epoch = consumer.host.epoch
        consumer.ended_ns = high_ns
        consumer.queue.ended += 1
        consumer.queue.open.pop(consumer.name, None)
        consumer.host.open.pop(consumer.name, None)
        consumer.held = 0
        consumer.doubted = 0
        for passage in consumer.passages:
            if passage.fate == HELD:
                passage.fate = RETURNED
                # Where nobody saw the broker's end of the link close, somebody else may have got it long ago.
                if passage.message.steady and passage.returned() and passage.is_latest():
                    consumer.queue.waiting[passage.message.name] = passage.message

    def _suspect(self, consumer: Consumer, since_ns: int) -> None:
        """A monitored link stalls: the broker may close it without anybody seeing it."""
        monitor = self.header.declared.monitor.get(consumer.host.name)
        if monitor is not None and monitor.read_ms > 0:
            consumer.lost_ns = min(consumer.lost_ns, since_ns)

    # -- links, processes, phases, reads

    def _fault(self, event: Fault) -> None:
        if event.fault == "clock":
            self.steps.append(event)
        if event.link is None or event.fault not in {"stall", "resume"}:
            return
        host = self.host(event.link)
        if event.fault == "resume":
            if host.stall is not None:
                host.stall.end = event
                host.stall = None
            return
        host.stall = Stall(event, host)
        host.stalls.append(host.stall)
        for consumer in host.open.values():
            self._suspect(consumer, event.t0)

    def _rare(self, event: Event) -> None:
        if isinstance(event, Phase):
            self.phases[event.name] = event
            self.phase = event.name
        elif isinstance(event, Connect):
            host = self.host(event.host)
            host.via = event.via
            host.epoch += 1
            host.connects.append(event)
            if event.result == "ok":
                host.connected = True
                host.last_op_ns = event.t0
                host.last_heard_ns = event.t1
        elif isinstance(event, Closed):
            self._closed(event)
        elif isinstance(event, Pause):
            self.paused = True
        elif isinstance(event, Browse):
            self.queue(event.dest).browsed = True
        elif isinstance(event, Start | Stop | Kill):
            self._process(event)

    def _process(self, event: Start | Stop | Kill) -> None:
        if event.target == self.broker:
            self.restarted = self.restarted or bool(self.messages)
            for host in self.hosts.values():
                self._end_host(host, "broker", event.t0, event.t1)
        elif not isinstance(event, Start):
            host = self.host(event.target)
            host.ends.append(event)
            host.epoch += 1
            self._end_host(host, "kill", event.t0, event.t1)

    def _closed(self, event: Closed) -> None:
        at_broker = event.host == self.broker
        name = event.link if at_broker else event.host
        if name is None:
            return
        host = self.host(name)
        host.closes.append(event)
        host.connected = False
        host.epoch += 1
        for consumer in list(host.open.values()):
            consumer.close = event
            # Seen at the client's end only, the broker may have closed long before: bytes on their way hide it.
            low_ns = event.t0 if at_broker or event.who == "client" else consumer.opened_ns
            self._end(consumer, "closed", low_ns, event.t1)
            if at_broker:
                consumer.gone_ns = event.t1

    def _read(self, event: Counters) -> None:
        read = Read(event)
        read.drain = self.phase in {"drain", "end"}
        read.sent_bytes = self.sent_bytes
        read.poisoned = self.poisoned
        if event.at_rest and (not self.rests_ns or self.rests_ns[-1] < event.t0):
            self.rests_ns.append(event.t0)
        if event.dest is None:
            self.queue(DEAD_LETTERS)
            # Only the broker's own total speaks for what others may have left there.
            read.empty = event.at_rest and event.size == 0 and not event.scheduled
            read.empty = read.empty and all(queue.is_empty(self.moved_seq) for queue in self.queues.values())
            self.reads.append(read)
            return
        queue = self.queue(event.dest)
        read.charged_elsewhere = self.charged - queue.charged
        read.look_at(queue)
        queue.reads.append(read)
