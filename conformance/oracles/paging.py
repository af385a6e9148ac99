"""Paging: judges MEM-025, whether order survives that a backlog does not fit into memory.

Model (seed 002). What arrives when memory is short goes to the store only and is read again later; while there is
something there, nothing that comes later may overtake it in memory.

Analysis. Persistent messages of one producer, of one priority, accepted one after the other on a queue that at some
time was sent more than a memory limit holds: the first delivery of each, if nobody else can have had it before, comes
after that of every earlier one at the same consumer. A pair counts where the earlier or the later message was accepted
beyond the limit.

Not checked: what GEN-003 does not check either (transactions, delays, priorities, other kinds of delivery); queues
whose messages come and go unseen.
"""

from __future__ import annotations

from brokerproof.conformance.experiment.destinations import DEAD_LETTERS
from brokerproof.conformance.experiment.history import Send
from brokerproof.conformance.oracles.inference import BookOracle, ms
from brokerproof.conformance.oracles.records import Consumer, Passage, Queue


class PagingOracle(BookOracle):
    """The order."""

    name = "paging"
    requirements = ("MEM-025",)

    def judge(self) -> None:
        lens = self.books.lens
        for queue in self.books.queues.values():
            if queue.topic or queue.name == DEAD_LETTERS or lens.clouded(queue.name) or self.books.restarted:
                continue
            for consumer in queue.consumers:
                if not consumer.choosy:
                    self._order(queue, consumer)

    def _order(self, queue: Queue, consumer: Consumer) -> None:
        claim = self.claims["MEM-025"]
        newest: dict[tuple[str, int, str], Passage] = {}
        for passage in consumer.passages:
            send = passage.message.send
            if send is None or passage.queue is not queue or not _is_plain(send):
                continue
            key = (send.host, send.priority, send.group)
            before = newest.get(key)
            if before is None or before.message.send is None:
                newest[key] = passage
                continue
            short = before.message.beyond or passage.message.beyond
            if before.message.send.t0 <= send.t0:
                newest[key] = passage
                if short:
                    claim.hold("memory had been short", outcome="in-order")
            elif short and send.t1 <= before.message.send.t0 and self._first(passage):
                text = (
                    f"{passage.message.name} arrived at {consumer.name} at {ms(passage.event.t1)}, after "
                    f"{before.message.name} ({ms(before.event.t1)}), which {send.host} sent to {queue.name} later; "
                    "by then more than a memory limit holds had been accepted"
                )
                claim.fail(text, [send.seq, before.event.seq, passage.event.seq], outcome="overtaken")
                return

    def _first(self, passage: Passage) -> bool:
        message = passage.message
        return message.passages[0] is passage and not self.ask.maybe_elsewhere(message, passage)


def _is_plain(send: Send) -> bool:
    untimed = not send.delay_ms and send.deliver_at_ms is None
    return send.result == "ok" and send.persistent and send.tx is None and untimed
