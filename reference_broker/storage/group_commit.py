"""Which answers wait for which sync of the journal.

A client that has an answer may rely on it: what it sent survives, what it acknowledged does not come back. So nothing
that could be taken for an answer leaves before the records that it stands for are safe.

* The records of one event are one batch with a number (its ticket). A connection depends on the last batch that its own
  events caused, or that contained the answer to one of its requests; on all so far when it sends what it may have sent
  before, which is accepted without a record.
* While a connection depends on a batch that is not safe, everything that answers it waits: the core's answers and what
  its session says by itself (the receipt of a DISCONNECT promises that all before it was done). Answers of other
  connections do not wait: one that sends nothing persistent never meets a disk.
* Order is kept: what waits leaves in the order in which it came, and nothing overtakes it on the same connection.
* A refusal may end a connection, so what the peer says while one waits is not looked at before it is out.
* **Messages do not wait.** A consumer may get a message before it is safe: it was sent, its producer has no answer yet,
  and after a crash must send it again, as JMS 2.0 (section 6.10) tells it to. ActiveMQ does the same
  (``concurrentStoreAndDispatchQueues``). What the consumer acknowledges waits in its turn.
* They do not overtake the answer to their consumer's SUBSCRIBE, though: while that waits, its connection gets none.
* Keep-alives do not wait either: they say nothing about messages.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from mypy_extensions import mypyc_attr

from brokerproof.reference_broker.core.effects import Accepted, Journalled, Refused
from brokerproof.reference_broker.core.events import Send, StorageChanged, Transmitted
from brokerproof.reference_broker.session.connection_state import CommitWaiter

if TYPE_CHECKING:
    from collections.abc import Mapping

    from brokerproof.reference_broker.core.effects import Effect
    from brokerproof.reference_broker.core.events import Event
    from brokerproof.reference_broker.storage.journal import Journal, Trouble

#: The connection of an operator's request.
OPERATOR: Final = 0
STORAGE_LOGGER: Final = "brokerproof.reference_broker.storage"


@mypyc_attr(allow_interpreted_subclasses=True)
class GroupCommitGate:
    """The journal of one broker, and the answers that wait for it."""

    __slots__ = ("_answers", "_appended", "_asked", "_synced", "_trouble", "journal", "operator")

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self._appended = 0
        self._synced = 0
        #: A sync was asked for and has not succeeded yet.
        self._asked = False
        self._answers: deque[tuple[int, CommitWaiter, object]] = deque()
        self._trouble: Trouble | None = None
        #: Whoever manages the broker; it has no connection.
        self.operator = CommitWaiter()

    def record(self, effects: list[Effect], event: Event | None, waiters: Mapping[int, CommitWaiter]) -> bool:
        """Give what an event made to the journal; whoever caused it, or is answered by it, depends on it. Returns
        whether a sync must be asked for now.
        """
        records, concerned = [], []
        for effect in effects:
            if isinstance(effect, Journalled):
                records.append(effect.record)
            elif isinstance(effect, Accepted):
                concerned.append(effect.connection)
        if not records:
            if isinstance(event, Send) and event.number and event.message.persistent and event.connection in waiters:
                waiters[event.connection].ticket = self._appended  # it may repeat one that is not safe yet
            return False
        self.journal.append(records)
        self._appended += 1
        caused_by = event.dispatch if isinstance(event, Transmitted) else event
        concerned.append(getattr(caused_by, "connection", OPERATOR))
        for number in concerned:
            waiter = self.operator if number == OPERATOR else waiters.get(number)
            if waiter is not None:
                waiter.ticket = self._appended
        return self.wants_sync()

    def wants_sync(self) -> bool:
        """Whether a sync must be asked for now; True once until it has succeeded."""
        if self._asked or self._synced == self._appended:
            return False
        self._asked = True
        return True

    def status_change(self) -> tuple[str, str, StorageChanged] | None:
        """What the log (level and text) and the core must hear of the storage: why it takes no messages, or that it
        does again; None: nothing has changed.
        """
        trouble = self.journal.trouble()
        if (trouble is None) == (self._trouble is None):
            return None
        self._trouble = trouble
        if trouble is None:
            return "INFO", "the storage takes messages again", StorageChanged("", "")
        text = f"persistent messages are refused: {trouble.text}"
        return "WARN", text, StorageChanged(trouble.code, trouble.text)

    def is_troubled(self) -> bool:
        """Whether messages are refused."""
        return self._trouble is not None

    def begin_sync(self) -> int:
        """A sync begins: the last batch that it covers."""
        return self._appended

    def end_sync(self, ticket: int) -> None:
        """The sync that began with ``ticket`` has succeeded."""
        self._synced = max(self._synced, ticket)
        self._asked = False

    # -- answers

    def waits(self, waiter: CommitWaiter) -> bool:
        """Whether an answer to this connection must wait."""
        return waiter.ticket > self._synced

    def keeps_back(self, waiter: CommitWaiter, answer: Effect) -> bool:
        """Keep an answer of the core back if it must wait; whether it does."""
        if not self.waits(waiter):
            return False
        self.hold(waiter, answer)
        waiter.refusing = waiter.refusing or isinstance(answer, Refused)
        return True

    def hold(self, waiter: CommitWaiter, answer: object) -> None:
        """Keep an answer back."""
        waiter.pending_answers += 1
        waiter.ticket = self._appended
        self._answers.append((self._appended, waiter, answer))

    def withhold(self, waiter: CommitWaiter, outbox: deque[object], mark: int, exempt: object) -> None:
        """Keep back what a session has put on its outbox by itself since it was ``mark`` long, but for frames of the
        kind of ``exempt``.
        """
        said = [outbox.pop() for _ in range(len(outbox) - mark)]
        for frame in reversed(said):
            if type(frame) is type(exempt):
                outbox.append(frame)
            else:
                self.hold(waiter, frame)

    def release(self) -> tuple[CommitWaiter, object] | None:
        """The next answer that need not wait any longer; None: there is none."""
        if not self._answers or self._answers[0][0] > self._synced:
            return None
        _, waiter, answer = self._answers.popleft()
        waiter.pending_answers -= 1
        return waiter, answer
