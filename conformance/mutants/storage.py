"""Mutants of the journal: what is written too late, not at all, for ever, or read back wrongly."""

from __future__ import annotations

from typing import Any

from brokerproof.conformance.mutants.registry import Mutant, fresh
from brokerproof.reference_broker.core.broker import Broker
from brokerproof.reference_broker.core.effects import Effect, Journalled
from brokerproof.reference_broker.core.events import Commit, Event, Purge, Send
from brokerproof.reference_broker.core.instant import Now
from brokerproof.reference_broker.core.journalling import Journalling
from brokerproof.reference_broker.core.message import Message
from brokerproof.reference_broker.core.records import MessageAdded, MessageRemoved, Record
from brokerproof.reference_broker.core.region import Region
from brokerproof.reference_broker.node import Node
from brokerproof.reference_broker.session.connection_state import CommitWaiter
from brokerproof.reference_broker.storage.group_commit import GroupCommitGate


class ForgetsToWrite(Journalling):
    """Every second message is not written down."""

    def __init__(self) -> None:
        self._messages = 0

    def added(
        self, region: Region, destination: str, message: Message, order: int, holders: tuple[str, ...] = ()
    ) -> None:
        self._messages += 1
        if self._messages % 2:
            super().added(region, destination, message, order, holders)


class WritesLater(Journalling):
    """Every record is written when the next one is: an answer leaves before what it promises is safe."""

    def __init__(self) -> None:
        self._kept: list[Record] = []

    def write(self, region: Region, record: Record) -> None:
        if self._kept:
            super().write(region, self._kept.pop())
        self._kept.append(record)


class ForgetsDelayed(Journalling):
    """Delayed messages are written down only when they become visible."""

    def scheduled(
        self, region: Region, destination: str, message: Message, due_ns: int, holders: tuple[str, ...] = ()
    ) -> None:
        pass


class NeverRemoves(Journalling):
    """What was settled stays in the journal."""

    def removed(self, region: Region, destination: str, message: Message, holder: str = "") -> None:
        pass


class ReadsBackwards(Journalling):
    """A restart puts the messages back in reverse order."""

    def places(self, added: list[MessageAdded]) -> list[MessageAdded]:
        return super().places(added)[::-1]


class ForgetsDurableAcks(Journalling):
    """What a durable subscription settles is not written down."""

    def removed(self, region: Region, destination: str, message: Message, holder: str = "") -> None:
        if not holder:
            super().removed(region, destination, message, holder)


class RemovesForAll(Journalling):
    """What one durable subscription settles is removed for all."""

    def removed(self, region: Region, destination: str, message: Message, holder: str = "") -> None:
        super().removed(region, destination, message, "" if holder else holder)


class Unwritten(Broker):
    """Some records are not written."""

    def handle(self, event: Event, now: Now) -> list[Effect]:
        effects = super().handle(event, now)
        return [e for e in effects if not (isinstance(e, Journalled) and self.forgets(event, e.record, effects))]

    def forgets(self, event: Event, record: Record, effects: list[Effect]) -> bool:
        """Whether it is one of these."""
        raise NotImplementedError


class ForgetsCommits(Unwritten):
    """What is sent in transactions is not written down."""

    def forgets(self, event: Event, record: Record, effects: list[Effect]) -> bool:  # noqa: ARG002 - each by itself
        return isinstance(event, Commit) and isinstance(record, MessageAdded)


class ForgetsCommittedAcks(Unwritten):
    """What is acknowledged in transactions stays in the journal."""

    def forgets(self, event: Event, record: Record, effects: list[Effect]) -> bool:  # noqa: ARG002 - each by itself
        return isinstance(event, Commit) and isinstance(record, MessageRemoved)


class ForgetsPurges(Unwritten):
    """What an operator purges stays in the journal."""

    def forgets(self, event: Event, record: Record, effects: list[Effect]) -> bool:  # noqa: ARG002 - each by itself
        return isinstance(event, Purge) and isinstance(record, MessageRemoved)


class KeepsOneCopy(Unwritten):
    """Of several copies of a message only the first is written down."""

    def forgets(self, event: Event, record: Record, effects: list[Effect]) -> bool:
        added = [e.record for e in effects if isinstance(e, Journalled) and isinstance(e.record, MessageAdded)]
        return isinstance(event, Send) and record in added[1:]


class CoversTooMuch(Node):
    """A sync is taken to cover what was written while it ran: seen where producers overlap only."""

    def end_sync(self, ticket: int, now: Now) -> None:
        super().end_sync(ticket and self.begin_sync(), now)


class AnswersOne(Node):
    """Of the answers that wait for one sync the first leaves."""

    def __init__(self, *args: Any, **others: Any) -> None:
        super().__init__(*args, **others)
        if self._gate is not None:
            self._gate = OneAnswer(self._gate.journal)


class OneAnswer(GroupCommitGate):
    """One for each sync."""

    __slots__ = ("_given",)

    def end_sync(self, ticket: int) -> None:
        super().end_sync(ticket)
        self._given = False

    def release(self) -> tuple[CommitWaiter, object] | None:
        found = None if self._given else super().release()
        self._given = True
        return found


# fmt: off
ALL = (
    Mutant("journal-forgets-message", "GEN-080", "Every second message is not written down.", "journal",
           fresh(ForgetsToWrite), live=True),
    Mutant("journal-after-the-receipt", "GEN-080", "A record is written with the next one, too late.", "journal",
           fresh(WritesLater)),
    Mutant("journal-forgets-delayed", "GEN-080", "Delayed messages are written down when they become visible.",
           "journal", fresh(ForgetsDelayed)),
    Mutant("journal-never-removes", "GEN-081", "What was settled stays in the journal.", "journal",
           fresh(NeverRemoves)),
    Mutant("journal-backwards", "GEN-082", "A restart puts the messages back in reverse order.", "journal",
           fresh(ReadsBackwards)),
    Mutant("journal-forgets-durable-acks", "GEN-083", "What a durable subscription settles is not written down.",
           "journal", fresh(ForgetsDurableAcks)),
    Mutant("journal-removes-for-all", "GEN-084", "What one durable subscription settles is removed for all.",
           "journal", fresh(RemovesForAll)),
    Mutant("journal-forgets-commits", "GEN-085", "What a commit sends is not written down.", broker=ForgetsCommits),
    Mutant("journal-forgets-committed-acks", "GEN-085", "What a commit acknowledges stays in the journal.",
           broker=ForgetsCommittedAcks),
    Mutant("journal-keeps-one-copy", "GEN-086", "Of several copies one is written down.", broker=KeepsOneCopy),
    Mutant("journal-forgets-purges", "GEN-087", "What an operator purges stays in the journal.", broker=ForgetsPurges),
    Mutant("sync-covers-too-much", "GEN-080", "A sync covers what was written while it ran.", node=CoversTooMuch),
    Mutant("sync-answers-one", "GEN-110", "Of the answers that wait for one sync the first leaves.", node=AnswersOne),
)
# fmt: on
