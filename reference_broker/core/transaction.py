"""Local transactions: what a connection sends and acknowledges together.

* A transaction belongs to one connection and is known by the client's name for it. One that nobody began, or that has
  ended, is refused with ``unknown-transaction``; one that has begun already with ``duplicate-transaction``.
* A send is taken over (numbered, stamped, its delivery time fixed) at once and admitted at the commit, in the order of
  the sends. A queue does not look at the expiration then: what expired meanwhile is found as on any queue.
* What waits for the commit on a queue is charged to its memory until the end: in G0 to G3 in any case, in ``fair``
  while there is space; the rest is on the disk.
* An acknowledgement that is held *pending_acks* its deliveries: they stay on the consumer's list and in flight, and no
  other acknowledgement touches them. STANDARD and INDIVIDUAL are held; DELIVERED, REDELIVERED and EXPIRED act at once,
  as they do in ActiveMQ; POISON is refused with ``poison-in-transaction``, or held where ``transacted_nacks`` is on.
* An INDIVIDUAL one widens the window by its message until the end, so that a transaction may be longer than a prefetch;
  with a range the client reports DELIVERED itself.
* The commit is checked as a whole before anything changes. One whose sends cannot all be admitted (an id is taken
  meanwhile, one still waits for space) is refused, and the transaction stays open, unless the client takes that for the
  end.
* Of a commit acknowledgements come first, then sends; nothing is dispatched in between, because dispatching is the end
  of every event (``region.py``).
* After a rollback the deliveries are as before: in flight, to be acknowledged again. The broker does not redeliver; a
  JMS client does that itself (``openwire/redelivery_policy.py``).
* A consumer that leaves does not take its pending_acks along: a queue or a durable subscription keeps those messages
  for the transaction (``ACK_PENDING``), which consumes them or puts them back in their places, marked as the departure
  marked them.
* A connection that goes takes its open transactions with it: they are rolled back.

Exceptions: ActiveMQ gives the ack_pending messages of a consumer that left to others and consumes them at the commit
all the same; and it dead-letters a message that is expired when it is sent at once, even if the transaction is rolled
back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import mypyc_attr

from brokerproof.reference_broker.core.acknowledgement import REFUSED, WAITS
from brokerproof.reference_broker.core.flow import NO_SPACE
from brokerproof.reference_broker.core.matching import is_queue
from brokerproof.reference_broker.core.queue import Queue
from brokerproof.reference_broker.core.reference import ACK_PENDING
from brokerproof.reference_broker.core.topic import Topic

if TYPE_CHECKING:
    from brokerproof.reference_broker.core.acknowledgement import Rule
    from brokerproof.reference_broker.core.arrival import Arrivals
    from brokerproof.reference_broker.core.destination import Destination
    from brokerproof.reference_broker.core.message import Message
    from brokerproof.reference_broker.core.policies import Policies
    from brokerproof.reference_broker.core.region import Region
    from brokerproof.reference_broker.core.settlement import Settlements
    from brokerproof.reference_broker.core.subscription import Consumer, Delivery, Subscription


class PendingAck:
    """What one acknowledgement in a transaction meant."""

    __slots__ = ("consumer", "deliveries", "rule")

    def __init__(self, consumer: Consumer, rule: Rule, deliveries: list[Delivery]) -> None:
        self.consumer = consumer
        self.rule = rule
        self.deliveries = deliveries


class HeldSend:
    """A send in a transaction: the accepted message and the monotonic time of its delivery (0: at once). ``charge``:
    which queue is charged how many bytes for it until the end; None: nobody is.
    """

    __slots__ = ("audience", "charge", "due_ns", "message")

    def __init__(self, message: Message, due_ns: int) -> None:
        self.message = message
        self.due_ns = due_ns
        self.charge: tuple[Destination, int] | None = None
        #: Who matched a delayed publication at its send; None: the commit finds out.
        self.audience: list[Subscription] | None = None


class Transaction:
    """One open transaction."""

    __slots__ = ("keys", "pending_acks", "sends")

    def __init__(self) -> None:
        self.sends: list[HeldSend] = []
        #: What no second message of the transaction may have: destination and id.
        self.keys: set[str] = set()
        self.pending_acks: list[PendingAck] = []


def key_of(message: Message) -> str:
    """What tells a message from all others that are sent: destination and id."""
    return f"{message.destination} {message.message_id}"


@mypyc_attr(allow_interpreted_subclasses=True)
class Resolution:
    """Policy ``transaction``: what waits for the end, and what each end carries out: (acknowledgements, sends)."""

    def holds_sends(self) -> bool:
        """Whether a send waits for the commit."""
        return True

    def holds_acknowledgements(self) -> bool:
        """Whether an acknowledgement waits for the commit."""
        return True

    def committed(self, transaction: Transaction) -> tuple[list[PendingAck], list[HeldSend]]:
        """What a commit carries out."""
        return transaction.pending_acks, transaction.sends

    def rolled_back(self, _transaction: Transaction) -> tuple[list[PendingAck], list[HeldSend]]:
        """What a rollback carries out."""
        return [], []

    def abandoned(self, _transaction: Transaction) -> tuple[list[PendingAck], list[HeldSend]]:
        """What the loss of the connection carries out."""
        return [], []


class Transactions:
    """All open transactions of the broker."""

    __slots__ = ("_arrivals", "_policies", "_region", "_settlements", "open")

    def __init__(self, region: Region, arrivals: Arrivals, settlements: Settlements) -> None:
        self._region = region
        self._policies: Policies = region.policies
        self._arrivals = arrivals
        self._settlements = settlements
        #: connection -> name -> transaction
        self.open: dict[int, dict[str, Transaction]] = {}

    def count(self) -> int:
        """How many are open."""
        return sum(len(mine) for mine in self.open.values())

    def objection(self, connection: int, name: str) -> tuple[str, str]:
        """Why nothing can be done in that transaction: (code, text); ("", "") if it is open."""
        if name in self.open.get(connection, {}):
            return "", ""
        return "unknown-transaction", f"connection {connection} has no open transaction {name!r}; begin it first"

    def begin(self, connection: int, name: str) -> tuple[str, str]:
        """Open a transaction; (code, text) if it cannot be."""
        mine = self.open.setdefault(connection, {})
        if name in mine:
            return "duplicate-transaction", f"transaction {name!r} is open already; end it or choose another name"
        mine[name] = Transaction()
        return "", ""

    def refusal_of_send(self, connection: int, name: str, message: Message) -> tuple[str, str]:
        """Why a message that could be sent alone cannot be part of that transaction: (code, text)."""
        code, text = self.objection(connection, name)
        if not code and key_of(message) in self.open[connection][name].keys:
            code = "duplicate-id"
            text = f"transaction {name!r} has a message {message.message_id!r} already; give each message its own id"
        return code, text

    def send(self, connection: int, name: str, message: Message) -> None:
        """Keep a message that the broker has taken over until the commit."""
        due_ns = self._arrivals.due_ns(message)
        if self._policies.transaction.holds_sends():
            transaction = self.open[connection][name]
            held = HeldSend(message, due_ns)
            if due_ns and self._region.stage is not None:
                held.audience = self._matched(message)
            transaction.sends.append(held)
            transaction.keys.add(key_of(message))
            if not due_ns and is_queue(message.destination):
                self._charge(held)
        else:
            self._arrivals.admit(message, due_ns)

    def _matched(self, message: Message) -> list[Subscription] | None:
        destination = self._region.destination(message.destination)
        return destination.audience(message) if isinstance(destination, Topic) else None

    def get_own(self, connection: int, name: str, destination: str) -> Message | None:
        """Take back the oldest message that an open transaction itself has sent to a queue, as IBM MQ allows; one with
        a delay is not there to be got. None: there is none.
        """
        transaction = self.open[connection][name]
        for held in transaction.sends:
            if held.message.destination == destination and not held.due_ns:
                transaction.sends.remove(held)
                transaction.keys.discard(key_of(held.message))
                if held.charge is not None:
                    queue, size_bytes = held.charge
                    queue.usage.change(-size_bytes)
                return held.message
        return None

    def _charge(self, held: HeldSend) -> None:
        """What waits for a commit stands in memory."""
        region = self._region
        queue = region.destination(held.message.destination)
        size_bytes = self._policies.memory.size_bytes(held.message, queue.minimum_bytes)
        if isinstance(queue, Queue) and self._policies.memory.keeps_uncommitted(region.memory, queue, size_bytes):
            held.charge = (queue, size_bytes)
            queue.usage.change(size_bytes)

    def _discharge(self, transaction: Transaction) -> None:
        """The wait is over, which gives memory back."""
        region = self._region
        for held in transaction.sends:
            if held.charge is not None:
                queue, size_bytes = held.charge
                queue.usage.change(-size_bytes)
                region.memory.relieved = True

    def refusal_of_acknowledgement(self, connection: int, name: str, rule: Rule) -> tuple[str, str]:
        """Why a valid acknowledgement cannot be part of that transaction: (code, text)."""
        if rule.in_transaction == REFUSED:
            text = f"a {rule.name} acknowledgement cannot be part of transaction {name!r}"
            return "poison-in-transaction", f"{text}; send it without one"
        return self.objection(connection, name)

    def acknowledge(
        self, connection: int, name: str, consumer: Consumer, rule: Rule, deliveries: list[Delivery]
    ) -> None:
        """PendingAck the deliveries of a valid acknowledgement; carry it out at once if its kind does not wait."""
        if rule.in_transaction != WAITS or not self._policies.transaction.holds_acknowledgements():
            self._settlements.apply(consumer, rule, deliveries)
            return
        pending_ack = PendingAck(consumer, rule, deliveries)
        self.open[connection][name].pending_acks.append(pending_ack)
        for delivery in deliveries:
            delivery.pending_ack = pending_ack
        if rule.widens_in_transaction:
            self._settlements.widen(consumer, deliveries)

    # -- the end

    def objection_to_commit(self, connection: int, name: str) -> tuple[str, str]:
        """Why the transaction cannot be committed as a whole: (code, text)."""
        code, text = self.objection(connection, name)
        if code:
            return code, text
        flow = self._region.flow
        if flow is not None and flow.awaits(connection, name):
            text = f"transaction {name!r} has sends that wait for space"
            return NO_SPACE, f"{text}; commit it when they are answered, or roll it back"
        for held in self.open[connection][name].sends:
            code, text = self._arrivals.objection(held.message)
            if code:
                return code, f"transaction {name!r} cannot be committed: {text}; or roll it back"
        return "", ""

    def commit(self, connection: int, name: str) -> None:
        """Carry everything out."""
        transaction = self.open[connection].pop(name)
        self._end(transaction, self._policies.transaction.committed(transaction))

    def rollback(self, connection: int, name: str) -> None:
        """Forget everything."""
        transaction = self.open[connection].pop(name)
        self._end(transaction, self._policies.transaction.rolled_back(transaction))

    def forget(self, connection: int) -> None:
        """The connection is gone."""
        for transaction in self.open.pop(connection, {}).values():
            self._end(transaction, self._policies.transaction.abandoned(transaction))

    def _end(self, transaction: Transaction, due: tuple[list[PendingAck], list[HeldSend]]) -> None:
        acknowledged, sends = due
        self._discharge(transaction)
        for pending_ack in acknowledged:
            self._consume(pending_ack)
        for pending_ack in transaction.pending_acks:
            self._release(pending_ack)
        for held in sends:
            self._arrivals.admit(held.message, held.due_ns, committed=True, audience=held.audience)
        for held in transaction.sends:
            if held.charge is not None:
                self._region.wake(held.charge[0])

    def _consume(self, pending_ack: PendingAck) -> None:
        """The acknowledgement takes effect, for what its consumer still has and what a queue keeps for it."""
        present: list[Delivery] = []
        for delivery in pending_ack.deliveries:
            delivery.pending_ack = None
            if delivery.reference.state == ACK_PENDING:
                delivery.subscription.destination.redeem(delivery, pending_ack.rule.outcome)
            elif delivery.is_held():
                present.append(delivery)
        if present:
            self._settlements.apply(pending_ack.consumer, pending_ack.rule, present)

    def _release(self, pending_ack: PendingAck) -> None:
        """The acknowledgement never was; of one that has been carried out nothing is there any more."""
        present: list[Delivery] = []
        kept: dict[str, list[Delivery]] = {}
        places: list[Destination] = []
        for delivery in pending_ack.deliveries:
            delivery.pending_ack = None
            if delivery.is_held():
                present.append(delivery)
            elif delivery.reference.state == ACK_PENDING:
                place = delivery.subscription.destination
                if place.name not in kept:
                    kept[place.name] = []
                    places.append(place)
                kept[place.name].append(delivery)
        self._settlements.unwiden(pending_ack.consumer, present)
        for place in places:
            place.restore(kept[place.name])
