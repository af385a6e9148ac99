"""Attendance: which hosts were connected, which consumers were attached, which links were silent, as an outside
bookkeeper can know it. The half of the books (``books.py``) that is not about messages.

Rules
* What a consumer held, unsettled, goes back to waiting when it ends (``_end``); nobody else changes fates here.
* Where the broker's view can differ from the client's, both bounds are kept (``records.py``).
* A wildcard consumer belongs to every destination that its pattern covers, those that are named later too.

What must change together: ``books.py``, ``records.py``.
"""

from __future__ import annotations

from brokerproof.conformance.experiment.destinations import is_pattern, pattern_of
from brokerproof.conformance.experiment.history import (
    Closed,
    Connect,
    Fault,
    Header,
    Kill,
    Leave,
    Start,
    Stop,
    Subscribe,
)
from brokerproof.conformance.oracles.lens import Lens
from brokerproof.conformance.oracles.records import (
    DOUBTFUL,
    HELD,
    NEVER,
    RETURNED,
    SETTLED,
    Consumer,
    Host,
    Message,
    Passage,
    Queue,
    Stall,
    own_limit_bytes,
)


class Attendance:
    """See the module's header. ``Books`` feeds it."""

    # fmt: off
    __slots__ = ("broker", "consumers", "header", "hosts", "lens", "messages", "queues", "restarted", "steps", "wild")
    # fmt: on

    def __init__(self) -> None:
        self.header = Header("", "")
        self.broker = ""
        #: What transactions, browsers, operators and choosy consumers mean to this fold.
        self.lens = Lens("")
        self.messages: dict[str, Message] = {}
        self.consumers: dict[str, Consumer] = {}
        self.hosts: dict[str, Host] = {}
        self.queues: dict[str, Queue] = {}
        #: Consumers of a wildcard.
        self.wild: list[Consumer] = []
        #: Steps of wall clocks.
        self.steps: list[Fault] = []
        self.restarted = False

    def settle(self, passage: Passage, fate: int) -> None:
        """A delivery was settled, or may have been."""
        raise NotImplementedError

    def connect(self, event: Connect) -> None:
        """A host tried to connect."""
        host = self.host(event.host)
        host.via = event.via
        host.epoch += 1
        host.connects.append(event)
        if event.result == "ok":
            host.connected = True
            host.last_op_ns = event.t0
            host.last_heard_ns = event.t1

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
            if not is_pattern(name) and "." not in name:
                pattern = pattern_of(name)
                found.consumers += [consumer for consumer in self.wild if consumer.queue.name == pattern]
        return found

    # -- consumers

    def enlist(self, name: str, host_name: str, dest: str, event: Subscribe | None) -> Consumer:
        """A consumer is there; ``event`` None: nobody saw it subscribing."""
        host = self.host(host_name)
        consumer = Consumer(name, host, self.queue(dest), event)
        self.consumers[name] = consumer
        consumer.queue.consumers.append(consumer)
        consumer.queue.open[name] = consumer
        host.open[name] = consumer
        self._bound(consumer)
        if is_pattern(dest):
            self._spread(consumer)
        return consumer

    def _spread(self, consumer: Consumer) -> None:
        """A wildcard consumer is one of every destination's."""
        self.wild.append(consumer)
        for queue in self.queues.values():
            if queue is not consumer.queue and pattern_of(queue.name) == consumer.queue.name and "." not in queue.name:
                queue.consumers.append(consumer)

    def _move(self, consumer: Consumer, dest: str) -> None:
        """It had seemed to consume from the destination whose messages overtook the receipt."""
        consumer.queue.consumers.remove(consumer)
        consumer.queue.open.pop(consumer.name, None)
        consumer.queue = self.queue(dest)
        consumer.queue.consumers.append(consumer)
        if not consumer.end:
            consumer.queue.open[consumer.name] = consumer
        self._spread(consumer)

    def _bound(self, consumer: Consumer) -> None:
        if not consumer.known:
            # It may never have existed, or have ended at any time without anybody seeing it.
            consumer.lost_ns = consumer.opened_ns
        elif consumer.host.stall is not None:
            self._suspect(consumer, consumer.opened_ns)

    def subscribe(self, event: Subscribe) -> None:
        """A consumer attached, or may have."""
        if event.result == "fail":
            return
        if event.result == "ok":
            host = self.host(event.host)
            host.last_op_ns = event.t0
            host.last_heard_ns = event.t1
        consumer = self.consumers.get(event.consumer)
        if consumer is None:
            consumer = self.enlist(event.consumer, event.host, event.dest, event)
            if not consumer.known and not consumer.host.connected:
                self._end(consumer, "closed", event.t0, event.t1)  # its connection ended before an answer came
        elif consumer.subscribe is None:
            # Messages overtook the receipt.
            consumer.describe(event)
            if is_pattern(event.dest):
                self._move(consumer, event.dest)
            if not consumer.end:
                consumer.lost_ns = NEVER
            self._bound(consumer)
            if consumer.ack == "auto":
                for passage in consumer.passages:
                    if passage.fate == HELD:
                        self.settle(passage, SETTLED if consumer.auto else DOUBTFUL)

    def leave(self, event: Leave) -> None:
        """A consumer said goodbye, or its host vanished."""
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
                    passage.queue.waiting[passage.message.name] = passage.message

    def _suspect(self, consumer: Consumer, since_ns: int) -> None:
        """A monitored link stalls: the broker may close it without anybody seeing it."""
        monitor = self.header.declared.monitor.get(consumer.host.name)
        if monitor is not None and monitor.read_ms > 0:
            consumer.lost_ns = min(consumer.lost_ns, since_ns)

    def fault(self, event: Fault) -> None:
        """A clock, a link or the broker was disturbed."""
        if event.fault == "clock":
            self.steps.append(event)
        elif event.fault == "restart":
            self._broker_down(event.t0, event.t1)
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

    def _broker_down(self, low_ns: int, high_ns: int) -> None:
        self.restarted = self.restarted or bool(self.messages)
        for host in self.hosts.values():
            self._end_host(host, "broker", low_ns, high_ns)

    def process(self, event: Start | Stop | Kill) -> None:
        """A process was started, stopped or killed."""
        if event.target == self.broker:
            self._broker_down(event.t0, event.t1)
        elif not isinstance(event, Start):
            host = self.host(event.target)
            host.ends.append(event)
            host.epoch += 1
            self._end_host(host, "kill", event.t0, event.t1)

    def closed(self, event: Closed) -> None:
        """A connection ended, as seen at one end."""
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
