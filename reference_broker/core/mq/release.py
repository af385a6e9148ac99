"""What the delivery delay processor does with a message that is due: put it to its target, or, if that fails, what its
report options say. Each ending has a name (``LEAVES``), which is logged.

* Everything that one message causes is one unit of work: the get, the put, dead letter and report happen all or none.
* No authority is asked. The target is resolved again: an alias may stand for another queue than at the send.
* A publication goes to those subscriptions that are still there; one that has left is passed over in silence. What
  cannot be put for a subscription is discarded when its dead letter fails too, persistent or not.
* What is backed out is tried again every ``RETRY_MS``; other messages do not wait for it.

Exception: the copies of one publication are one unit of work, so a report that cannot be made backs out all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import mypyc_attr

from brokerproof.reference_broker.core.instant import NS_PER_MS
from brokerproof.reference_broker.core.message import QUEUE, TEMP_QUEUE, Message
from brokerproof.reference_broker.core.mq.definitions import DURABLE_MODEL, NDURABLE_MODEL
from brokerproof.reference_broker.core.mq.reasons import REASONS
from brokerproof.reference_broker.core.mq.reports import discards
from brokerproof.reference_broker.core.topic import Topic

if TYPE_CHECKING:
    from brokerproof.reference_broker.core.delay import Scheduled
    from brokerproof.reference_broker.core.mq.staging import Stage
    from brokerproof.reference_broker.core.subscription import Subscription

RETRY_MS: Final = 1000
#: What can become of a message that is due.
LEAVES: Final = (
    "put",
    "subscriber-gone",
    "discarded-by-option",
    "dead-lettered",
    "publication-discarded",
    "retried",
    "reported",
    "report-dead-lettered",
    "backed-out",
    "report-dropped",
)


class Work:
    """One unit of work: puts that are planned, and done together. ``leaves``: what became of it, for the log."""

    __slots__ = ("_planned", "_stage", "leaves")

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._planned: list[Message] = []
        self.leaves: list[str] = []

    def log(self, leave: str) -> None:
        """One of ``LEAVES`` was taken."""
        self.leaves.append(leave)

    def put(self, message: Message, destination: str) -> str:
        """Plan a put; the reason why it fails, or ""."""
        if not destination.startswith(QUEUE):
            return self._put_temporary(message, destination)
        base = self._stage.definitions.base(destination)
        more = sum(1 for planned in self._planned if planned.destination == base)
        fault = self._stage.fault(destination, len(message.body), more)
        if not fault:
            copy = message.copy_to(base)
            while self._is_taken(copy):
                copy.message_id += "+"  # several copies of one publication die, and no queue holds an id twice
            self._planned.append(copy)
        return fault

    def _put_temporary(self, message: Message, destination: str) -> str:
        """A temporary queue has no definition, and takes everything for as long as it is there."""
        if not destination.startswith(TEMP_QUEUE) or destination not in self._stage.region.destinations:
            return "MQRC_UNKNOWN_OBJECT_NAME"
        self._planned.append(message.copy_to(destination))
        return ""

    def _is_taken(self, copy: Message) -> bool:
        known = self._stage.region.destinations.get(copy.destination)
        if known is not None and known.holds(copy.message_id):
            return True
        return any(one.message_id == copy.message_id and one.destination == copy.destination for one in self._planned)

    def put_dead(self, message: Message, reason: str) -> str:
        """Plan a put to the dead-letter queue, with why; the reason why that fails, or ""."""
        name = str(self._stage.definitions.qmgr["DEADQ"])
        dead = message.copy_to(QUEUE + name)
        dead.original_destination = message.destination
        dead.properties = {
            **message.properties,
            "MQDLH_Reason": REASONS[reason],
            "MQDLH_DestQName": message.destination.removeprefix(QUEUE),
        }
        return self.put(dead, QUEUE + name) if name else "MQRC_UNKNOWN_OBJECT_NAME"

    def commit(self) -> None:
        """Do what was planned."""
        region = self._stage.region
        for message in self._planned:
            region.number(message)
            region.destination(message.destination).publish(message)


@mypyc_attr(allow_interpreted_subclasses=True)
class ReleaseFailure:
    """Policy ``mq_release``: the choices when a put fails."""

    def discards(self, message: Message) -> bool:
        """Whether the message is thrown away, and no dead letter."""
        return discards(message)

    def keeps(self, publication: bool) -> bool:
        """Whether a message of which not even a dead letter can be made stays staged."""
        return not publication

    def backs_out(self, message: Message) -> bool:
        """Whether a report that can be put nowhere takes everything back."""
        return message.persistent

    def retry_ns(self, now_ns: int) -> int:
        """When what stays staged is tried again."""
        return now_ns + RETRY_MS * NS_PER_MS


class Releases:
    """The endings of delays."""

    __slots__ = ("_stage",)

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    def begin(self) -> Work:
        """A unit of work."""
        return Work(self._stage)

    def release(self, item: Scheduled) -> None:
        """A staged message is due."""
        region, work = self._stage.region, self.begin()
        if region.is_expired(item.message):
            item.destination.release(item)
            return
        if isinstance(item.destination, Topic):
            done = self._publication(item.destination, item, work)
        else:
            done = self._to_queue(item, work)
        if done:
            work.commit()
        else:
            item.due_ns = region.policies.mq_release.retry_ns(region.now.mono_ns)
            region.delays.push(item)
        self._stage.log(f"delivery delay of {item.message.message_id} over: {', '.join(work.leaves)}")

    def _to_queue(self, item: Scheduled, work: Work) -> bool:
        """True: the message leaves the staging queue; else it stays."""
        message, stage = item.message, self._stage
        asked = message.original_destination
        if stage.definitions.alias(asked.removeprefix(QUEUE)) is None:
            asked = message.destination  # it was not sent to an alias, or that is gone
        target = stage.definitions.base(asked)
        fault = stage.fault(asked, len(message.body))
        if not fault and target == message.destination:
            work.log("put")
            item.destination.release(item)
            stage.report(message, "coa")
            return True
        moved = message.copy_to(target)
        if not fault and work.put(moved, target) == "":
            work.log("put")
        elif not self._failed(message, fault or "MQRC_Q_FULL", work, publication=False):
            return False
        item.destination.withdraw(item)
        if not fault:
            stage.report(moved, "coa")
        return True

    def _publication(self, topic: Topic, item: Scheduled, work: Work) -> bool:
        fit: list[Subscription] = []
        for subscription in item.audience or []:
            if not topic.has(subscription):
                work.log("subscriber-gone")
                if not self._reported(item.message, "MQRC_UNKNOWN_OBJECT_NAME", work):
                    return False
                continue
            model = NDURABLE_MODEL if subscription.durable is None else DURABLE_MODEL
            checks, definitions = self._stage.region.policies.mq_checks, self._stage.definitions
            fault = checks.fault(definitions.queue(model), len(item.message.body), len(subscription.pending))
            if not fault:
                work.log("put")
                fit.append(subscription)
            elif not self._failed(item.message, fault, work, publication=True):
                return False
        item.audience = fit
        topic.release(item)
        return True

    def _failed(self, message: Message, fault: str, work: Work, *, publication: bool) -> bool:
        """A put failed: plan what its options say. True: the message is done with; False: it stays staged."""
        choices = self._stage.region.policies.mq_release
        if choices.discards(message):
            work.log("discarded-by-option")
        elif not work.put_dead(message, fault):
            work.log("dead-lettered")
        elif choices.keeps(publication):
            work.log("retried")
            return False
        else:
            work.log("publication-discarded")
            return True
        return self._reported(message, fault, work)

    def _reported(self, message: Message, fault: str, work: Work) -> bool:
        region = self._stage.region
        report = region.policies.mq_reports.make(message, "exception", REASONS[fault], region.now)
        if report is None:
            return True
        wrong = work.put(report, report.destination)
        if not wrong:
            work.log("reported")
        elif not work.put_dead(report, wrong):
            work.log("report-dead-lettered")
        elif region.policies.mq_release.backs_out(message):
            work.log("backed-out")
            return False
        else:
            work.log("report-dropped")
        return True
