"""Prefetch windows: judges PRE-001 to PRE-003 from arrivals and settlements at single consumers.

Model. A consumer's window has ``prefetch`` slots. A message takes a slot when the broker assigns it, at some time
before it arrives, and frees it when the broker reads its settlement, at some time after the client began to write
that.

Events: ``subscribe``, ``arrive``, ``ack``, ``nack``, ``discard``, ``leave`` through the books; reads ``at_rest`` as
the moments at which nothing moves.

Analyses:

1. PRE-001: at the arrival of a message, those that had arrived there and whose settlement had not even begun number
   more than ``prefetch``. All of them were assigned by then and none can have been settled, whatever the transport
   did.
2. PRE-002: at rest a consumer has a free slot although a message waits on its queue that nobody holds, nothing delays
   and nothing can have expired.
3. PRE-003: at rest a consumer that has settled messages holds exactly ``prefetch`` again; fewer is a violation if a
   message waits, more always is.

Not checked: PRE-001 and the upper half of PRE-003 for clients whose library acknowledges delivery by itself (JMS),
which widens the window; messages that may have expired while they were held (a broker may take them back); PRE-002
and PRE-003 while memory may be scarce (MEM-001 judges that) and beyond one page of unsettled messages (200), which
brokers load at a time; auto-acknowledging consumers have no window to fill, only one that is always open.
"""

from __future__ import annotations

from typing import Final

from brokerproof.conformance.oracles.inference import BookOracle, ms
from brokerproof.conformance.oracles.records import LATE, Consumer, Message, Passage, Queue, Read, Window

#: What a broker loads from its store at a time (maxPageSize); beyond that many unsettled messages it may wait.
PAGE: Final = 200


class PrefetchOracle(BookOracle):
    """The three claims about windows."""

    name = "prefetch"
    requirements = ("PRE-001", "PRE-002", "PRE-003")

    def judge(self) -> None:
        for consumer in self.books.consumers.values():
            if consumer.known and consumer.host.via == "stomp" and consumer.ack != "auto":
                self._outstanding(consumer)
        for queue in self.books.queues.values():
            lens = self.books.lens
            uncertain = queue.topic or self.books.restarted or lens.clouded(queue.name) or lens.picky(queue.name)
            if not uncertain:
                for read in queue.reads:
                    if read.windows:
                        self._windows(queue, read)

    def _outstanding(self, consumer: Consumer) -> None:
        prefetch = consumer.prefetch
        passages = [passage for passage in consumer.passages if passage.fate != LATE]
        if len(passages) < prefetch:
            return
        freed_ns = sorted(passage.settle.t0 for passage in passages if passage.settle is not None)
        freed = 0
        for count, passage in enumerate(passages, start=1):
            at_ns = passage.event.t1
            while freed < len(freed_ns) and freed_ns[freed] <= at_ns:
                freed += 1
            if count - freed < prefetch:
                continue
            if count - freed > prefetch and self._too_many(consumer, passages[:count], at_ns):
                return
            situation = "the window was full again after settlements" if freed else "the window was full"
            self.claims["PRE-001"].hold(situation, outcome="within")

    def _too_many(self, consumer: Consumer, arrived: list[Passage], at_ns: int) -> bool:
        """Judge one instant: True if the window was certainly exceeded."""
        held = [
            passage
            for passage in arrived
            if (passage.settle is None or passage.settle.t0 > at_ns)
            and not self.ask.maybe_expired(passage.event.expiration_ms, passage.event.t0, at_ns)
        ]
        if len(held) <= consumer.prefetch:
            return False
        text = (
            f"consumer {consumer.name} of {consumer.queue.name} has prefetch {consumer.prefetch}; "
            f"when {held[-1].message.name} arrived at {ms(at_ns)} it had {len(held)} messages "
            "that it had not begun to settle"
        )
        witness = [passage.event.seq for passage in held]
        if consumer.subscribe is not None:
            witness.insert(0, consumer.subscribe.seq)
        self.claims["PRE-001"].fail(text, witness, outcome="exceeded")
        return True

    def _windows(self, queue: Queue, read: Read) -> None:
        held = sum(window.held + window.doubted for window in read.windows)
        if held >= PAGE or self.ask.pressed(queue, read) or not all(window.consumer.known for window in read.windows):
            return
        waiting: Message | None = None
        for message in read.waiting:
            if not self.ask.maybe_swallowed(message, queue):
                waiting = message
                break
        for window in read.windows:
            self._filled(read, window, waiting)
            self._reopened(read, window, waiting)

    def _describe(self, read: Read, window: Window, waiting: Message | None) -> str:
        consumer = window.consumer
        text = (
            f"at rest at {ms(read.event.t1)}, consumer {consumer.name} of {consumer.queue.name} "
            f"(prefetch {consumer.prefetch}, ack {consumer.ack}) holds {window.held} unsettled messages "
            f"after {window.tried} settlements"
        )
        return text if waiting is None else f"{text}, and {waiting.name} waits on the queue"

    def _filled(self, read: Read, window: Window, waiting: Message | None) -> None:
        claim = self.claims["PRE-002"]
        if not window.open():
            if window.held >= window.consumer.prefetch:
                claim.hold("the window was full", outcome="filled")
        elif waiting is not None:
            witness = [read.event.seq] if waiting.send is None else [waiting.send.seq, read.event.seq]
            claim.fail(self._describe(read, window, waiting), witness, outcome="idle")
        elif window.arrived:
            claim.hold("the window was open and nothing waited", outcome="filled")

    def _reopened(self, read: Read, window: Window, waiting: Message | None) -> None:
        consumer = window.consumer
        if not window.tried or consumer.auto or consumer.host.via != "stomp":
            return
        claim = self.claims["PRE-003"]
        if window.held > consumer.prefetch:
            held = [p for p in consumer.passages if p.event.seq < read.event.seq]
            if not consumer.overdrawn and not any(p.event.expiration_ms > 0 for p in held):
                claim.fail(self._describe(read, window, None), [read.event.seq], outcome="too-many")
        elif window.held == consumer.prefetch:
            claim.hold("settlements freed slots and they were filled", outcome="exact")
        elif waiting is not None and window.open():
            claim.fail(self._describe(read, window, waiting), [read.event.seq], outcome="too-few")
