"""Oracle: the windows that consumers get without asking, and what must not change them. Judges PRE-004, PRE-008 to
PRE-010 and INF-016.

Model. A consumer's window is what ``experiment/policies.py`` says; the ``subscribe`` event has it, and what was asked
for. A rolled-back transaction leaves it as it was.

Analyses:

1. PRE-004: at rest a consumer that asked for nothing (and for which no policy says anything) holds exactly the default
   of its kind while more waits. Seen for queues and durable subscriptions; the others' defaults are too large.
2. PRE-008: the same where a policy says something: its value if the default was asked for, or nothing; the consumer's
   own number otherwise. For both: a consumer that holds a page or more (200) may have less than its window, because a
   wake-up loads one page; a broker whose memory is declared ``fair`` has no such excuse.
3. PRE-009: no message arrives at a consumer before the receipt of its SUBSCRIBE. Judged in the simulated world, where
   instants are exact.
4. PRE-010: after a transaction in which it had acknowledged was rolled back, and a rest, a message arrives at a STOMP
   consumer that has then more than its prefetch of messages whose settlement it has not begun.
5. INF-016: with in-flight lists of topic subscribers switched off, a wildcard subscriber of a topic that acknowledges
   gets more than its prefetch.

Not checked: consumers of unknown result, that choose, that left, or were in doubt (transactions in 1 and 2); where
memory may be scarce.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from brokerproof.conformance.experiment.destinations import is_pattern
from brokerproof.conformance.experiment.history import Abort, Ack, Nack
from brokerproof.conformance.experiment.policies import UNASKED, default_window, policy_window
from brokerproof.conformance.oracles.inference import BookOracle, ms
from brokerproof.conformance.oracles.prefetch import PAGE
from brokerproof.conformance.oracles.records import LATE, Consumer, Queue, Read, matches

if TYPE_CHECKING:
    from collections.abc import Callable

    from brokerproof.conformance.experiment.history import Event
    from brokerproof.conformance.oracles.wall import WallClocks


class WindowOracle(BookOracle):
    """See the module's header."""

    name = "windows"
    requirements = ("INF-016", "PRE-004", "PRE-008", "PRE-009", "PRE-010")

    def __init__(self, clocks: WallClocks) -> None:
        super().__init__(clocks)
        #: Host -> the ends of its rollbacks; consumer -> when it began to settle something, whatever came of it.
        self._aborts: dict[str, list[Abort]] = {}
        self._tries: dict[str, list[Ack | Nack]] = {}

    def sink(self, kind: type[Event]) -> Callable[[Event], None]:
        return self.feed if kind in (Abort, Ack, Nack) else self.books.feed

    def feed(self, event: Event) -> None:
        self.books.feed(event)
        if isinstance(event, Abort):
            if event.result == "ok":
                self._aborts.setdefault(event.host, []).append(event)
        elif isinstance(event, Ack | Nack):
            self._tries.setdefault(event.consumer, []).append(event)

    def judge(self) -> None:
        for consumer in self.books.consumers.values():
            if consumer.known:
                self._receipt(consumer)
                self._rolled_back(consumer)
                self._unlisted(consumer)
        for queue in self.books.queues.values():
            if self.books.restarted or self.books.lens.clouded(queue.name) or self.ask.scarce:
                continue
            for read in queue.reads:
                for window in read.windows:
                    if window.consumer.known and not window.doubted:
                        self._width(queue, read, window.consumer, window.held)

    # -- PRE-004, PRE-008

    def _width(self, queue: Queue, read: Read, consumer: Consumer, held: int) -> None:
        subscribe = consumer.subscribe
        if (
            subscribe is None
            or subscribe.asked is None
            or consumer.auto
            or consumer.overdrawn
            or consumer.end == "drop"
        ):
            return
        declared = self.books.header.declared
        durable, browser = bool(subscribe.durable), subscribe.browser
        said = policy_window(declared, queue.name, durable=durable, browser=browser)
        if subscribe.selector or subscribe.no_local or subscribe.exclusive or subscribe.priority or read.ticking:
            return
        default = default_window(queue.name, durable=durable, browser=browser)
        if said is None and subscribe.asked not in (UNASKED, default):
            return
        claim = self.claims["PRE-004" if said is None else "PRE-008"]
        asked = "nothing" if subscribe.asked == UNASKED else str(subscribe.asked)
        text = (
            f"{consumer.name} asked for a prefetch of {asked} on {queue.name}, where the policy says "
            f"{said or 'nothing'}; at rest it holds {held} messages instead of {subscribe.prefetch}"
        )
        if held > subscribe.prefetch and consumer.host.via == "stomp":
            claim.fail(text, [subscribe.seq, read.event.seq], outcome="other")
        elif held < subscribe.prefetch and not self._pages(held) and self._waits(queue, read, consumer):
            claim.fail(f"{text}, and more waits", [subscribe.seq, read.event.seq], outcome="other")
        elif held == subscribe.prefetch:
            kind = "durable subscription" if durable else "queue"
            claim.hold(kind if said is None else f"asked for {asked}", outcome="as-defined")

    def _pages(self, held: int) -> bool:
        """Whether the broker may be waiting for a wake-up with less than the window: it loads a page for each."""
        return held >= PAGE and self.books.header.declared.generation.get("memory", "fair") != "fair"

    def _waits(self, queue: Queue, read: Read, consumer: Consumer) -> bool:
        """Whether something waits for this consumer for certain."""
        event = read.event
        if not queue.topic:
            return event.size is not None and event.in_flight is not None and event.size > event.in_flight
        subscribe = consumer.subscribe
        assert subscribe is not None
        sent = [send for send in queue.sends if subscribe.t1 <= send.t0 and send.t1 <= event.t0 and send.tx is None]
        arrived = [passage for passage in consumer.passages if passage.event.t1 <= event.t0]
        return len(sent) > len(arrived) and len(queue.consumers) == 1

    # -- PRE-009

    def _receipt(self, consumer: Consumer) -> None:
        subscribe = consumer.subscribe
        if subscribe is None or not consumer.passages or not self.books.simulated:
            return
        first = consumer.passages[0].event
        claim = self.claims["PRE-009"]
        if first.t1 < subscribe.t1:
            text = (
                f"{first.message} arrived at {consumer.name} at {ms(first.t1)}, {ms(subscribe.t1 - first.t1)} before "
                "the receipt of its SUBSCRIBE"
            )
            claim.fail(text, [subscribe.seq, first.seq], outcome="message-first")
        else:
            send = consumer.passages[0].message.send
            waited = send is not None and send.t1 < subscribe.t0
            claim.hold("messages waited" if waited else "", outcome="receipt-first")

    # -- PRE-010

    def _rolled_back(self, consumer: Consumer) -> None:
        aborts = self._aborts.get(consumer.host.name, [])
        if consumer.host.via != "stomp" or consumer.auto or not aborts:
            return
        tries = self._tries.get(consumer.name, [])
        void = [abort.tx for abort in aborts]
        settling = [one for one in tries if one.tx is None]
        if any(one.tx is not None and one.tx not in void for one in tries) or any(t.result != "ok" for t in settling):
            return  # what it holds is not known
        for abort in aborts:
            rest_ns = self.ask.rest_after(abort.t1)
            if any(one.tx == abort.tx for one in tries) and rest_ns < consumer.lost_ns:
                until_ns = min(
                    [one.t0 for one in tries if one.tx is not None and one.t0 > abort.t1] or [consumer.lost_ns]
                )
                self._judge_after(consumer, abort, settling, (rest_ns, until_ns))

    def _judge_after(
        self, consumer: Consumer, abort: Abort, settling: list[Ack | Nack], period_ns: tuple[int, int]
    ) -> None:
        """What arrived in a period after a rollback, in which there was no other transaction."""
        claim = self.claims["PRE-010"]
        passages = [passage for passage in consumer.passages if passage.fate != LATE]
        for place, passage in enumerate(passages, start=1):
            at_ns = passage.event.t1
            if not (period_ns[0] < passage.event.t0 and at_ns < min(period_ns[1], consumer.lost_ns)):
                continue
            held = place - sum(len(one.messages) for one in settling if one.t0 <= at_ns)
            if held > consumer.prefetch:
                text = (
                    f"{abort.tx} was rolled back at {ms(abort.t1)}; at {ms(at_ns)} {consumer.name} (prefetch "
                    f"{consumer.prefetch}) got {passage.message.name}, its {held}th message that it had not settled"
                )
                claim.fail(text, [abort.seq, passage.event.seq], outcome="widened")
                return
            if held == consumer.prefetch:
                claim.hold("the window was full", outcome="as-before")

    # -- INF-016

    def _unlisted(self, consumer: Consumer) -> None:
        subscribe = consumer.subscribe
        if subscribe is None or not is_pattern(subscribe.dest) or not consumer.queue.topic or subscribe.durable:
            return
        entries = self.books.header.declared.destinations
        names = [passage.queue.name for passage in consumer.passages]
        unlisted = [entry for entry in entries if not entry.topic_inflight_stats]
        if not unlisted or consumer.auto or self.ask.scarce or len(set(names)) < 2:
            return
        if not all(any(matches(entry.match, name) for entry in unlisted) for name in names):
            return
        claim = self.claims["INF-016"]
        if len(names) > consumer.prefetch:
            claim.hold("it got more than its prefetch", outcome="flows")
            return
        published = [
            message.send
            for message in self.books.messages.values()
            if message.send is not None and self.books.queue(message.send.dest).topic and message.send.result == "ok"
        ]
        owed = [send for send in published if send.t0 >= subscribe.t1 and not send.mortal() and not send.delay_ms]
        owed = [send for send in owed if send.tx is None and send.deliver_at_ms is None]
        done = [one for one in self._tries.get(consumer.name, []) if one.result == "ok" and one.tx is None]
        settled = sum(len(one.messages) for one in done)
        last_ns = max([one.t1 for one in done] + [send.t1 for send in owed], default=0)
        if settled == len(names) == consumer.prefetch < len(owed) and self.ask.rest_after(last_ns) < consumer.lost_ns:
            text = (
                f"{consumer.name} of {subscribe.dest} (prefetch {consumer.prefetch}) has settled all {settled} "
                f"messages that it got; {len(owed)} were published for it, and no more came"
            )
            claim.fail(text, [subscribe.seq], outcome="stalls")
