"""The staging queue: what waits on it, how it is looked at and emptied, and what a put finds in its way.

A delayed message is kept by its destination like any that is scheduled (``delay.py``); this module shows all of them as
IBM MQ does, on one queue: a new message id each, the original one as correlation id, one for each subscription that a
publication matched.

* ``take`` removes by correlation id, for administrators: the only way to cancel. It works in every processor state.
* The queue is closed to all but administrators. ``depth`` counts what its MAXDEPTH limits.
* A message is resolved at the send (alias, persistence, priority, CAPEXPRY) and again at the release (alias).
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Final

from brokerproof.reference_broker.core.config import ConfigError
from brokerproof.reference_broker.core.delay import DelayHeap, Scheduled
from brokerproof.reference_broker.core.effects import Logged
from brokerproof.reference_broker.core.matching import members
from brokerproof.reference_broker.core.message import QUEUE, TOPIC, Message
from brokerproof.reference_broker.core.mq.checks import HEADER_BYTES, TENTH_MS
from brokerproof.reference_broker.core.mq.definitions import STAGING, Definitions
from brokerproof.reference_broker.core.mq.mqsc import Command, MqscError, parse
from brokerproof.reference_broker.core.mq.processor import RUNNING
from brokerproof.reference_broker.core.mq.reasons import refusal
from brokerproof.reference_broker.core.mq.release import Releases
from brokerproof.reference_broker.core.topic import Topic

if TYPE_CHECKING:
    from brokerproof.reference_broker.core.delay import Delay
    from brokerproof.reference_broker.core.events import Subscribe
    from brokerproof.reference_broker.core.instant import Now
    from brokerproof.reference_broker.core.region import Region

LOGGER: Final = "brokerproof.reference_broker.core.mq"


class Staged:
    """One message as the staging queue shows it; ``place``: which of the copies of a publication."""

    __slots__ = ("correlation_id", "item", "message_id", "place")

    def __init__(self, item: Scheduled, place: int) -> None:
        self.item = item
        self.place = place
        whose = item.audience[place].serial if item.audience else 0
        self.message_id = f"DDELAY.{item.message.sequence}.{whose}"
        self.correlation_id = item.message.message_id


class StagingQueue(DelayHeap):
    """All waiting messages, of which none is due while the processor does not run. ``retries``: rejected messages that
    the broker redelivers. They wait on their own queues, and are no affair of the processor's.
    """

    __slots__ = ("retries", "stage")

    def __init__(self, stage: Stage) -> None:
        super().__init__()
        self.stage = stage
        self.retries = DelayHeap()

    def push(self, item: Scheduled) -> None:
        if is_retry(item):
            self.retries.push(item)
        else:
            super().push(item)

    def next_due_ns(self) -> int | None:
        staged_ns, again_ns = self._staged_due_ns(), self.retries.next_due_ns()
        return again_ns if staged_ns is None else staged_ns if again_ns is None else min(staged_ns, again_ns)

    def take_due(self, policy: Delay, now: Now) -> Scheduled | None:
        again, due_ns = self.retries.take_due(policy, now), self._staged_due_ns()
        if again is not None or due_ns is None or not policy.is_due(due_ns, now):
            return again
        return heapq.heappop(self.heap)[2]

    def _staged_due_ns(self) -> int | None:
        return super().next_due_ns() if self.stage.state == RUNNING else None


class Stage:
    """What makes the broker a queue manager of generation ``ibm-mq``."""

    __slots__ = ("definitions", "queue", "region", "releases", "state")

    def __init__(self, region: Region) -> None:
        self.region = region
        self.definitions = Definitions()
        self.queue = StagingQueue(self)
        self.releases = Releases(self)
        for line in region.config.mqsc:
            try:
                self.definitions.apply(parse(line))
            except MqscError as error:
                raise ConfigError(f"mqsc {line!r}: {error}") from None
        self.state = region.policies.mq_processor.opened(self.definitions)

    # -- what is there

    def staged(self) -> list[Staged]:
        """Everything on the staging queue, in the order of its arrival there."""
        waiting = [item for _, _, item in self.queue.heap if not item.cancelled]
        waiting.sort(key=lambda item: item.message.sequence)
        return [Staged(item, copy) for item in waiting for copy in range(copies(item))]

    def depth(self) -> int:
        """CURDEPTH of the staging queue."""
        return sum(copies(item) for _, _, item in self.queue.heap if not item.cancelled)

    def browse(self, principal: str) -> tuple[tuple[str, str], list[Staged]]:
        """(refusal or ("", ""), what is staged)."""
        if not self.definitions.may(principal, "BROWSE", STAGING):
            return refusal("MQRC_NOT_AUTHORIZED", f"{principal!r} may not browse {STAGING}"), []
        return ("", ""), self.staged()

    def take(self, principal: str, correlation_id: str) -> tuple[tuple[str, str], Staged | None]:
        """Get a staged message by its correlation id: (refusal or ("", ""), the message, gone for good)."""
        if not self.definitions.may(principal, "GET", STAGING):
            return refusal("MQRC_NOT_AUTHORIZED", f"{principal!r} may not get from {STAGING}"), None
        return self.cancel(correlation_id)

    def cancel(self, correlation_id: str) -> tuple[tuple[str, str], Staged | None]:
        """The same for an operator, who may."""
        for staged in self.staged():
            if staged.correlation_id == correlation_id:
                return self._remove(staged), staged
        return refusal("MQRC_NO_MSG_AVAILABLE", f"no message with correlation id {correlation_id!r} is staged"), None

    def _remove(self, staged: Staged) -> tuple[str, str]:
        """One copy less; or why not."""
        queue = self.definitions.staging()
        if queue is None or queue["GET"] == "DISABLED":
            return refusal("MQRC_GET_INHIBITED", f"{STAGING} is not there, or gets are disabled; ALTER it")
        if self.region.policies.mq_processor.leaves():
            self._forget(staged)
        return "", ""

    def _forget(self, staged: Staged) -> None:
        item = staged.item
        audience, topic = item.audience, item.destination
        if not audience or len(audience) == 1:
            topic.withdraw(item)
            return
        durable = audience.pop(staged.place).durable
        if durable is not None and item.message.persistent and self.region.journal is not None:
            self.region.journal.removed(self.region, topic.name, item.message, durable.key)

    # -- at the send

    def setting(self, delay_ms: int, life_ms: int) -> tuple[str, str]:
        """What speaks against a producer's delay and time to live when one of them is set."""
        return self.region.policies.mq_checks.setting(self.definitions.number("CMDLEVEL"), delay_ms, life_ms)

    def objection(self, message: Message) -> tuple[str, str]:
        """Why a send is refused. What is taken over already (a commit) was asked at its send."""
        if message.sequence:
            return "", ""
        routing = self.region.policies.routing
        targets = routing.targets(self.region.routing, message.destination)
        if targets not in ([message.destination], []):
            for target in targets:  # several get it: all or none
                code, text = self.objection_to_one(routing.copy(message, target))
                if code:
                    return code, text
            return "", ""
        return self.objection_to_one(message)

    def objection_to_one(self, message: Message) -> tuple[str, str]:
        """Why a message for one destination is refused."""
        checks, definitions = self.region.policies.mq_checks, self.definitions
        principal = self.region.connection_registry.principal(message.sender)
        code, text = checks.authority(definitions, principal, message)
        if code:
            return code, text
        delay_ms = self.region.policies.delay.remaining_ms(message, self.region.now)
        size_bytes, staging_fault = len(message.body), ""
        if delay_ms > 0:
            life_ms = max(1, message.expiration_ms - self._sent_ms(message)) if message.expiration_ms > 0 else 0
            code, text = checks.delay(definitions, message, delay_ms, message.ttl_ms or life_ms)
            if code:
                return code, text
            copies_ = self._matches(message)
            full_bytes, depth = size_bytes + HEADER_BYTES, self.depth() + copies_ - 1
            staging_fault = checks.fault(definitions.staging(), full_bytes, depth) if copies_ else ""
        fault = ""
        if message.destination.startswith(QUEUE):
            fault = self.fault(message.destination, size_bytes)
        return checks.room(message.destination, fault, staging_fault)

    def fault(self, destination: str, size_bytes: int, more: int = 0) -> str:
        """Why a queue, or what an alias stands for, takes no message now; ``more``: puts that are about to be done."""
        definitions, checks = self.definitions, self.region.policies.mq_checks
        base = definitions.base(destination)
        alias = definitions.alias(destination[len(QUEUE) :])
        if alias is not None and alias["PUT"] == "DISABLED":
            return "MQRC_PUT_INHIBITED"
        known = self.region.destinations.get(base)
        depth = more if known is None else known.counters.size + more
        return checks.fault(definitions.queue(base[len(QUEUE) :]), size_bytes, depth)

    def resolve(self, message: Message) -> None:
        """The first resolution, when the broker takes the message over: what is fixed now stays."""
        path = self.definitions.path(message.destination)
        if message.destination.startswith(QUEUE):
            self.region.policies.mq_checks.complete(message, path[0][1])
        for _, attributes in path:
            cap_ms = self._sent_ms(message) + int(attributes["CAPEXPRY"]) * TENTH_MS
            if attributes["CAPEXPRY"]:
                message.expiration_ms = min(message.expiration_ms, cap_ms) if message.expiration_ms > 0 else cap_ms
        base = self.definitions.base(message.destination)
        if base != message.destination:
            message.original_destination = message.destination
            message.destination = base

    def _sent_ms(self, message: Message) -> int:
        return message.timestamp_ms if message.timestamp_ms > 0 else self.region.now.wall_ms

    def _matches(self, message: Message) -> int:
        if not message.destination.startswith(TOPIC):
            return 1
        known = self.region.destinations.get(message.destination)
        return len(known.audience(message)) if isinstance(known, Topic) else 0

    def objection_to_subscribe(self, principal: str, event: Subscribe) -> tuple[str, str]:
        """Why somebody may not consume from, browse or subscribe to a destination."""
        for destination in members(event.destination):
            right = "SUB" if destination.startswith(TOPIC) else "BROWSE" if event.browser else "GET"
            name = destination.removeprefix(TOPIC).removeprefix(QUEUE)
            if not self.region.policies.mq_checks.entrance(self.definitions, principal, right, name):
                return refusal("MQRC_NOT_AUTHORIZED", f"{principal!r} has no {right} authority on {name}")
        return "", ""

    # -- an operator

    def command(self, text: str) -> list[str]:
        """Carry out one MQSC command; gives what it shows. Raises ``MqscError``."""
        command, processor = parse(text), self.region.policies.mq_processor
        if command.kind == "DELAYPROC":
            if command.verb == "STOP" and self.state == RUNNING:
                self.state = processor.stopped()
            elif command.verb == "START":
                self.state = processor.opened(self.definitions)
            return [f"DELAYPROC STATUS({self.state}) CURDEPTH({self.depth()})"]
        if command.kind == "STAGED":
            return self._listed(command)
        if command.verb == "DISPLAY":
            return self._shown(command)
        before = self.definitions.staging()
        if command.verb == "DELETE" and command.kind == "QLOCAL" and self._depth_of(command.name):
            raise MqscError(f"QLOCAL({command.name}) holds {self._depth_of(command.name)} messages; take them first")
        level = self.definitions.qmgr
        self.definitions.apply(command)
        if self.definitions.staging() is not before or self.definitions.qmgr is not level:
            self.state = processor.altered(self.state, before, self.definitions)
        return [f"{command.verb} {command.kind} done"]

    def _listed(self, command: Command) -> list[str]:
        """DISPLAY or DELETE of what is staged. Raises ``MqscError``."""
        staged = self.staged()
        lines = [f"STAGED MSGID({one.message_id}) CORRELID({one.correlation_id})" for one in staged]
        if command.verb == "DISPLAY":
            return lines or ["STAGED is empty"]
        place = int(command.name) if command.name.isascii() and command.name.isdigit() else 0
        if not 0 < place <= len(staged):
            _, wrong = refusal(
                "MQRC_NO_MSG_AVAILABLE", f"no STAGED({command.name}); name a place from 1 to {len(staged)}"
            )
            raise MqscError(wrong)
        _, wrong = self._remove(staged[place - 1])
        if wrong:
            raise MqscError(wrong)
        return [lines[place - 1]]

    def _shown(self, command: Command) -> list[str]:
        shown = self.definitions.shown(command)
        return [f"{shown[0]} CURDEPTH({self._depth_of(command.name)})"] if command.kind == "QLOCAL" else shown

    def _depth_of(self, name: str) -> int:
        known = self.region.destinations.get(QUEUE + name)
        return self.depth() if name == STAGING else 0 if known is None else known.counters.size

    # -- reports

    def report(self, message: Message, kind: str, feedback: int = 0) -> None:
        """Make the report that the message asks for, if any: to its reply queue, else to the dead-letter queue."""
        made = self.region.policies.mq_reports.make(message, kind, feedback, self.region.now)
        if made is not None:
            work = self.releases.begin()
            if not work.put(made, made.destination) or not work.put_dead(made, "MQRC_UNKNOWN_OBJECT_NAME"):
                work.commit()

    def log(self, text: str) -> None:
        """A line for the broker's log."""
        self.region.effects.append(Logged("INFO", LOGGER, text))


def copies(item: Scheduled) -> int:
    """How many messages one scheduled one is on the staging queue."""
    return 1 if item.audience is None else len(item.audience)


def is_retry(item: Scheduled) -> bool:
    """Whether it was delivered before, so that its delay is over: the broker itself tries it again."""
    return item.message.redelivery_count > 0
