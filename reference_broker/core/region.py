"""What all destinations of one broker share: the present moment, the effects so far, the memory, the timers, the table
of destinations, the dead-letter path, advisories.

It decides the order of work inside one event: first the event itself, then, until nothing is left, dead letters, then
dispatching of every destination whose state changed (in the order in which they changed), then another try for
destinations that waited for memory. So nothing is dispatched in the middle of a change, and an answer to a request
comes before the dispatches that it causes.
"""

from __future__ import annotations

from collections import deque
from itertools import count
from typing import TYPE_CHECKING

from brokerproof.reference_broker.core import advisory, deadletter
from brokerproof.reference_broker.core.advisory import Advisory
from brokerproof.reference_broker.core.attachment import Attachments
from brokerproof.reference_broker.core.connection_registry import ConnectionRegistry
from brokerproof.reference_broker.core.deadletter import expiry_cause
from brokerproof.reference_broker.core.delay import DelayHeap
from brokerproof.reference_broker.core.disk import Store
from brokerproof.reference_broker.core.durable import Durables
from brokerproof.reference_broker.core.effects import Effect, Logged
from brokerproof.reference_broker.core.expiry import ExpirySweeps
from brokerproof.reference_broker.core.instant import Now
from brokerproof.reference_broker.core.matching import is_queue, policy_for
from brokerproof.reference_broker.core.memory import MemoryTree
from brokerproof.reference_broker.core.mq.staging import Stage, is_retry
from brokerproof.reference_broker.core.pull import Pulls
from brokerproof.reference_broker.core.queue import Queue
from brokerproof.reference_broker.core.routing import Routing
from brokerproof.reference_broker.core.statistics import Statistics
from brokerproof.reference_broker.core.temporary import Temporaries
from brokerproof.reference_broker.core.topic import Topic

if TYPE_CHECKING:
    from brokerproof.reference_broker.core.config import BrokerConfig
    from brokerproof.reference_broker.core.delay import Scheduled
    from brokerproof.reference_broker.core.destination import Destination
    from brokerproof.reference_broker.core.events import Subscribe
    from brokerproof.reference_broker.core.flow import FlowControl
    from brokerproof.reference_broker.core.message import Message, Property
    from brokerproof.reference_broker.core.policies import Policies

QUEUE_LOGGER = "org.apache.activemq.broker.region.Queue"


class Region:
    """The shared state."""

    __slots__ = ("advised", "attachments", "awake", "config", "connection_registry", "created", "delays",
                 "destinations", "dispatches", "duplicate_detection", "durables", "effects", "flow", "internal_sends",
                 "journal", "memory", "now", "policies", "pulls", "routing", "sequence", "stage", "statistics",
                 "storage_trouble", "store", "sweeps", "temporaries")  # fmt: skip

    def __init__(self, config: BrokerConfig, policies: Policies) -> None:
        self.config = config
        self.policies = policies
        #: Who writes down what must outlive the process; None: nothing must.
        self.journal = policies.journal if config.persistent else None
        #: Why persistent messages are refused: (code, text); ("", ""): they are not.
        self.storage_trouble = ("", "")
        #: The instant of the event in progress.
        self.now = Now(0, 0)
        #: What the event in progress has caused so far.
        self.effects: list[Effect] = []
        self.memory = MemoryTree(
            config.memory_limit_bytes,
            concurrent_store=config.concurrent_store,
            temp_limit_bytes=config.temp_limit_bytes,
        )
        #: What the store holds; None: it has no limit.
        self.store = (
            Store(config.store_limit_bytes, policies.memory)
            if config.persistent and config.store_limit_bytes > 0
            else None
        )
        #: What makes it a queue manager; None: generation ``jms`` of delay.
        self.stage: Stage | None = None
        self.delays = DelayHeap()
        self.sweeps = ExpirySweeps()
        self.destinations: dict[str, Destination] = {}
        #: Numbers for destinations.
        self.created = count()
        self.attachments = Attachments(self)
        self.pulls = Pulls(self)
        self.durables = Durables(self)
        self.temporaries = Temporaries(self)
        self.connection_registry = ConnectionRegistry(self)
        #: What producers have sent already; the policy itself, because it remembers.
        self.duplicate_detection = policies.duplicate_detection
        #: Who answers requests for statistics; None: nobody does.
        self.statistics = Statistics(self) if config.statistics else None
        #: Sends that wait for memory (G0 to G3) or for the disk; None: there is nothing to wait for.
        self.flow: FlowControl | None = None
        self.routing = Routing(config)
        #: Destinations to pump, each at most once.
        self.awake: deque[Destination] = deque()
        #: Dead letters and advisories to be put on their destination, in this order.
        self.internal_sends: deque[Message] = deque()
        #: How many advisories there were.
        self.advised = 0
        #: The number of the last dispatch.
        self.dispatches = 0
        #: The last arrival number.
        self.sequence = 0
        if config.generation["delay"] == "ibm-mq":
            self.stage = Stage(self)
            self.delays = self.stage.queue

    def destination(self, name: str) -> Destination:
        """The destination of that (usable) name, created at the first use."""
        known = self.destinations.get(name)
        if known is not None:
            return known
        policy = policy_for(name, self.config.destinations)
        number = next(self.created)
        created: Destination
        if is_queue(name):
            queue = Queue(self, name, number, policy)
            self.memory.queues.append(queue)
            created = queue
        else:
            created = Topic(self, name, number, policy)
        self.destinations[name] = created
        self.routing.created(created)
        self.attachments.created(created)
        self.durables.created(created)
        self.connection_registry.destination(name, gone=False)
        return created

    def remove(self, destination: Destination) -> None:
        """A destination that nobody consumes from is gone, with everything that is on it."""
        name = destination.name
        if isinstance(destination, Queue):
            destination.dissolve()
            self.memory.queues.remove(destination)
        self.memory.blocked.pop(name, None)
        self.memory.orphan(destination)
        del self.destinations[name]
        if self.journal is not None:
            self.journal.destination_removed(self, name)
        self.temporaries.owners.pop(name, None)
        self.sweeps.disarm(destination)
        self.routing.removed(destination)
        self.connection_registry.destination(name, gone=True)

    def release(self, item: Scheduled) -> None:
        """A scheduled message is due."""
        if self.stage is None or is_retry(item):
            item.destination.release(item)
        else:
            self.stage.releases.release(item)

    def reserved(self, principal: str, event: Subscribe) -> tuple[str, str]:
        """Why a queue manager keeps somebody from a destination: (code, text)."""
        return ("", "") if self.stage is None else self.stage.objection_to_subscribe(principal, event)

    def is_expired(self, message: Message) -> bool:
        """Whether the message is dead by the broker's clock, now."""
        return message.expiration_ms > 0 and self.policies.expiry.is_expired(message.expiration_ms, self.now.wall_ms)

    # -- consequences of the event in progress

    def wake(self, destination: Destination) -> None:
        """Its state changed: pump it before the event is over."""
        if not destination.awake:
            destination.awake = True
            self.awake.append(destination)

    def block(self, destination: Destination) -> None:
        """It has a message and a consumer for it, but no memory."""
        self.memory.blocked[destination.name] = destination
        if not destination.starved:
            self.effects.append(
                Logged(
                    "DEBUG" if self.policies.memory.wakes_on_relief else "WARN",
                    QUEUE_LOGGER,
                    f"{destination.name} cursor blocked, no space available to page in messages",
                )
            )

    def report_expired(self, message: Message, source: str) -> None:
        """A message expired, after it was taken off ``source``."""
        self.effects.append(Logged("DEBUG", deadletter.LOGGER, f"Message expired {message.message_id}, dest: {source}"))
        self.dead_letter(message, source, expiry_cause(message), expired=True)
        self.advise_expired(message, source)
        if self.stage is not None:
            self.stage.report(message, "expiration")

    def dead_letter(
        self, message: Message, source: str, cause: str, *, expired: bool = False, subscriber: str = ""
    ) -> None:
        """A message died on ``source``: send its copy to the dead-letter queue if it gets one. ``subscriber`` is the
        durable subscription that lost it.
        """
        policy = self.policies.dead_letter
        target = policy.target(source, subscriber)
        if target and policy.loops(source, target):
            text = f"Not re-adding to DLQ: {message.message_id}, dest: {source}"
            self.effects.append(Logged("DEBUG", deadletter.LOGGER, text))
        elif target and policy.eligible(message, source, expired):
            if policy.first(message, source, target):
                self.internal_sends.append(policy.copy(message, source, cause, target, self.now.wall_ms))
                advising = self.policies.advisories
                if not advising.idle and advising.advises_dead_lettered(source):
                    topic = advisory.topic_about(advisory.DEAD_LETTERED, source)
                    self.advise(topic, advising.content(message, source))
            else:
                self._log(message, source)

    def advise_expired(self, message: Message, source: str) -> None:
        """Those who want to know are told that a message expired on ``source``."""
        advising = self.policies.advisories
        if not advising.idle and advising.advises_expired(source):
            topic = advisory.topic_about(advisory.EXPIRED, source)
            content = advising.content(message, source)
            self.advise(topic, content, {advisory.ORIGINAL_ID: advising.original_id(message)})

    def advise(self, topic: str, data_structure: object, properties: dict[str, Property] | None = None) -> None:
        """Publish an advisory, after what the event in progress has caused so far."""
        self.internal_sends.append(self.advisory(topic, data_structure, properties))

    def advisory(self, topic: str, data_structure: object, properties: dict[str, Property] | None = None) -> Advisory:
        """A new advisory."""
        self.advised += 1
        message_id = f"ID:{self.config.name}-advisory-1:1:1:1:{self.advised}"
        told = {**advisory.origin(self.config.name), **(properties or {})}
        return Advisory(message_id, topic, data_structure, timestamp_ms=self.now.wall_ms, properties=told)

    def number(self, message: Message) -> None:
        """The broker takes the message over."""
        self.sequence += 1
        message.sequence = self.sequence

    # -- the rest of the event

    def finish(self) -> list[Effect]:
        """Do everything that the event made necessary; give its effects."""
        memory = self.memory
        while True:
            if self.internal_sends:
                self._publish_internal(self.internal_sends.popleft())
            elif self.awake:
                destination = self.awake.popleft()
                destination.awake = False
                destination.pump()
                destination.starved = destination.name in memory.blocked
                if destination.wants_sweep() != destination.sweep_armed:
                    self._rearm(destination)
            elif memory.relieved:
                memory.relieved = False
                if memory.blocked and self.policies.memory.wakes_on_relief:
                    for waiting in memory.blocked.values():
                        self.wake(waiting)
            elif self.pulls.immediate:
                self.pulls.end_immediate()
            else:
                break
        effects = self.effects
        self.effects = []
        return effects

    def _publish_internal(self, message: Message) -> None:
        target = self.destination(message.destination)
        if target.holds(message.message_id):
            self._log(message, message.original_destination)
            return
        self.number(message)
        target.publish(message)

    def _log(self, message: Message, source: str) -> None:
        text = f"Not adding duplicate to DLQ: {message.message_id}, dest: {source}"
        self.effects.append(Logged("DEBUG", deadletter.LOGGER, text))

    def _rearm(self, destination: Destination) -> None:
        if destination.sweep_armed:
            self.sweeps.disarm(destination)
            return
        expiry = self.policies.expiry
        period_ms = destination.expire_period_ms
        self.sweeps.arm(destination, expiry.next_sweep_ns(destination.created_ns, period_ms, self.now.mono_ns))
