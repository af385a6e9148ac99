"""Inference: what may, and what must, have happened between the events that were seen; and the base of its oracles.

Rules:

* Every answer is one-sided. ``maybe_…`` is True unless it is impossible for every choice of instants; ``settled`` and
  ``repeated`` are True only if it is so for every choice. A claim may fail only on answers of the second sort, or on
  the denial of one of the first.
* A queue's message has one holder at a time. Two deliveries of it are explained by the first holder losing it
  unsettled before the second one got it, or by the second one having had it earlier and lost it while its frames were
  held up.
* The end of the run is where the drain left it. A live drain counts as complete only if the broker was seen at rest
  afterwards.

What must change together: the list of excuses in ``missing`` and the lists "not checked" of the oracles that use it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from typing import ClassVar, Final

from brokerproof.conformance.experiment.history import Discard, Event, Header, Send
from brokerproof.conformance.oracles.base import NS_PER_MS, Oracle, Shared
from brokerproof.conformance.oracles.books import Books
from brokerproof.conformance.oracles.records import (
    DOUBTFUL,
    HELD,
    LATE,
    NEVER,
    SETTLED,
    Consumer,
    Message,
    Passage,
    Queue,
    Read,
)
from brokerproof.conformance.oracles.wall import WallClocks

#: Beyond this share of its memory limit a broker may rightly hold messages back.
PRESSURE_PERCENT: Final = 50


def ms(duration_ns: int) -> str:
    """A duration or an instant for a text: milliseconds with microseconds."""
    return f"{duration_ns / NS_PER_MS:.3f} ms"


class Inference:
    """Answers about one finished run."""

    __slots__ = ("_books", "_clocks", "drain_seq", "end_ns", "ended", "scarce")

    def __init__(self, books: Books, clocks: WallClocks) -> None:
        self._books = books
        self._clocks = clocks
        drain = books.phases.get("drain")
        end = books.phases.get("end")
        self.drain_seq = drain.seq if drain is not None else NEVER
        self.end_ns = end.t0 if end is not None else 0
        limit = books.header.declared.memory_limit_bytes
        #: Memory may have been scarce at some time.
        self.scarce = books.lens.limited or 0 < limit * PRESSURE_PERCENT < books.sent_bytes * 100
        #: The run came to its end, and what was left had been taken: absence may be judged.
        self.ended = (
            drain is not None
            and end is not None
            and (books.simulated or (bool(books.rests_ns) and books.rests_ns[-1] >= drain.t0))
        )

    def rest_after(self, true_ns: int) -> int:
        """The first instant from ``true_ns`` on at which nothing was moving; ``NEVER`` if there is none."""
        rests = self._books.rests_ns
        index = bisect_left(rests, true_ns)
        return rests[index] if index < len(rests) else NEVER

    def gone(self, consumer: Consumer) -> int:
        """The latest time by which the broker had let a consumer go."""
        return min(consumer.gone_ns, self.rest_after(consumer.ended_ns)) if consumer.end else NEVER

    def maybe_elsewhere(self, message: Message, passage: Passage) -> bool:
        """Whether another consumer may have been assigned the message, and have lost it, before this arrival."""
        at_ns = passage.event.t1
        since_ns = message.send.t0 if message.send is not None else 0
        for consumer in passage.queue.consumers:
            if consumer is passage.consumer or consumer.opened_ns > at_ns or consumer.lost_ns > at_ns:
                continue
            if self.gone(consumer) >= since_ns:
                return True
        return self._books.restarted

    def settled(self, passage: Passage) -> bool:
        """Whether the broker took the settlement of this delivery for certain."""
        if passage.fate != SETTLED or isinstance(passage.settle, Discard):
            return False
        consumer = passage.consumer
        settle = passage.settle
        if settle is not None and consumer.host.via == "stomp":
            return True  # its receipt came
        if settle is not None and consumer.end in {"", "close"} and consumer.lost_ns >= settle.t1:
            return (
                True  # a library need not wait for an answer, but what it wrote before its goodbye was read before it
            )
        taken_ns = settle.t1 if settle is not None else passage.event.t1
        return self.rest_after(taken_ns) < consumer.lost_ns

    def repeated(self, first: Passage, second: Passage) -> bool:
        """Whether no correct queue can have made both deliveries, the first of which arrived first."""
        if self._books.restarted:
            return False
        one = first.consumer
        other = second.consumer
        if other.lost_ns <= first.event.t1 or (one is other and one.lost_ns <= second.event.t1):
            return False
        if isinstance(first.settle, Discard) and first.settle.t0 <= second.event.t1:
            return False  # an expired-ack with which the broker's clock disagrees gives the message back
        return one is other or one.lost_ns > second.event.t1 or self.settled(first)

    def maybe_expired(self, expiration_ms: int, t0_ns: int, t1_ns: int) -> bool:
        """Whether the broker's clock may have shown more than ``expiration_ms`` in ``[t0, t1]``; 0 never expires."""
        if expiration_ms <= 0:
            return False
        broker = self._books.broker
        if not self._clocks.known(broker):
            return True
        return self._clocks.bounds_ns(broker, t0_ns, t1_ns)[1] > expiration_ms * NS_PER_MS

    def surely_expired(self, expiration_ms: int, t0_ns: int, t1_ns: int) -> bool:
        """Whether the broker's clock had passed ``expiration_ms`` for certain, at every instant of ``[t0, t1]``."""
        broker = self._books.broker
        if expiration_ms <= 0 or not self._clocks.known(broker):
            return False
        return self._clocks.bounds_ns(broker, t0_ns, t1_ns)[0] >= (expiration_ms + 1) * NS_PER_MS

    def maybe_restamped(self, send: Send) -> bool:
        """Whether the broker may have given a message another expiration than its sender did."""
        return self._books.header.declared.timestamping is not None or send.life_ms > 0

    def maybe_timed_out(self, message: Message, until_ns: int) -> bool:
        """Whether a message may have expired on its queue, by whatever expiration the broker may have given it."""
        send = message.send
        if send is None:
            return True
        if self._books.header.declared.timestamping is not None:
            return send.mortal() or self._books.stamps_expiry
        if send.life_ms > 0:
            return True
        if self.maybe_expired(send.expiration_ms, send.t0, until_ns):
            return True
        return any(self.maybe_expired(p.event.expiration_ms, send.t0, until_ns) for p in message.passages)

    def maybe_swallowed(self, message: Message, queue: Queue) -> bool:
        """Whether the broker may have settled it by writing it to an auto-acknowledging consumer that never got it."""
        send = message.send
        if send is None:
            return True
        available_ns = send.t0 + send.delay_ms * NS_PER_MS
        free_ns = send.t1
        for passage in message.passages:
            if passage.consumer.end:
                free_ns = max(free_ns, passage.consumer.ended_ns)
        for consumer in queue.consumers:
            if consumer.ack != "auto" or consumer.host.via == "jms" or (consumer.known and not consumer.end):
                continue
            if self.gone(consumer) < available_ns:
                continue
            # At rest its window was open: what was free by then had reached it, or somebody else.
            picky = self._books.lens.picky(queue.name)  # it may be free without anybody having got it
            if send.delay_ms or consumer.subscribe is None or not consumer.known or self.scarce or picky:
                return True
            if self.rest_after(max(free_ns, consumer.subscribe.t1)) >= consumer.lost_ns:
                return True
        return False

    def drained(self, queue: Queue) -> bool:
        """Whether somebody took what was left on this destination, to the very end."""
        if not self.ended:
            return False
        return any(
            consumer.known and consumer.subscribe is not None and consumer.subscribe.seq > self.drain_seq
            for consumer in queue.open.values()
        )

    def missing(self, message: Message) -> bool:
        """Whether a confirmed message of a drained queue is unaccounted for, whatever the excuses."""
        send = message.send
        return send is not None and send.result == "ok" and send.tx is None and self.absent(message)

    def absent(self, message: Message) -> bool:
        """The same for a message of which somebody else knows that its queue has accepted it."""
        send = message.send
        if send is None or message.dead:
            return False
        books = self._books
        queue = books.queues[send.dest]
        if queue.topic or (books.restarted and not send.persistent):
            return False
        if send.t0 <= books.lens.purged.get(send.dest, -1):
            return False
        for passage in message.passages:
            if passage.fate in {SETTLED, DOUBTFUL, HELD} or passage.settle is not None:
                return False
            if passage.event.seq > self.drain_seq or (passage.fate == LATE and passage.consumer.ack == "auto"):
                return False
        stepped = books.restarted and any(step.target == books.broker for step in books.steps)
        if send.delay_ms and stepped:
            return False  # a broker that kept the due time by its wall clock may still be waiting: late, not lost
        due_ns = send.t1 + (send.delay_ms + books.header.declared.lateness_ms) * NS_PER_MS
        if send.deliver_at_ms is not None or (send.delay_ms and due_ns > self.end_ns) or not self.drained(queue):
            return False
        if self.scarce and self._stuck(queue):
            return False
        return not self.maybe_timed_out(message, self.end_ns) and not self.maybe_swallowed(message, queue)

    def _stuck(self, queue: Queue) -> bool:
        """The broker says that something is still there; where memory was scarce, that is starvation and not loss."""
        event = queue.reads[-1].event if queue.reads else None
        return event is not None and event.seq > self.drain_seq and bool(event.size)

    def surely_free(self, consumer: Consumer, from_ns: int, to_ns: int) -> bool:
        """Whether a consumer was there and had a free slot all the time, for certain."""
        if consumer.subscribe is None or consumer.subscribe.t1 > from_ns or consumer.lost_ns <= to_ns:
            return False
        if consumer.prefetch == 0 or consumer.host.stalls or self.rest_after(to_ns) >= consumer.ended_ns:
            return False
        held = 0
        for passage in consumer.passages:
            send, settle = passage.message.send, passage.settle
            if send is None or send.t0 > to_ns:
                continue
            if settle is None or settle.t1 > from_ns or not self.settled(passage):
                held += 1
        return held < consumer.prefetch

    def pressed(self, queue: Queue, read: Read) -> bool:
        """Whether memory may have been scarce at a read: then a broker may hold messages back."""
        limit = self._books.header.declared.memory_limit_bytes
        own = queue.limit_bytes
        return (
            self._books.lens.limited
            or 0 < limit * PRESSURE_PERCENT < read.sent_bytes * 100
            or 0 < own * PRESSURE_PERCENT < read.sent_here_bytes * 100
        )


#: One fold for all.
_BOOKS: Final = Shared(Books)


class BookOracle(Oracle):
    """An oracle that judges from the books, in ``conclude``; its ``feed`` only keeps them."""

    # fmt: off
    kinds: ClassVar[tuple[str, ...]] = (
        "connect", "subscribe", "leave", "send", "arrive", "consume", "discard", "ack", "nack", "browse", "commit",
        "abort", "operate", "counters", "closed", "start", "stop", "kill", "pause", "fault", "phase",
    )
    # fmt: on

    def __init__(self, clocks: WallClocks) -> None:
        super().__init__(clocks)
        self.books = _BOOKS.of(clocks)
        #: Filled when the history is complete.
        self.ask = Inference(self.books, clocks)

    def start(self, header: Header) -> None:
        self.books.start(header)

    def feed(self, event: Event) -> None:
        self.books.feed(event)

    def sink(self, kind: type[Event]) -> Callable[[Event], None]:  # noqa: ARG002 - one fold for all
        return self.books.feed

    def conclude(self) -> None:
        self.ask = Inference(self.books, self.clocks)
        self.judge()

    def judge(self) -> None:
        """The history is complete: judge it. Called once."""
        raise NotImplementedError
