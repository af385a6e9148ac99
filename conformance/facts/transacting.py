"""Transactions in the recording pass: what was sent in one is accepted by its end or never was, what was acknowledged
in it is settled, or held as before, or nobody knows.
"""

from __future__ import annotations

from brokerproof.conformance.experiment.history import Abort, Begin, Commit, Nack
from brokerproof.conformance.facts.attachments import heard
from brokerproof.conformance.facts.deliveries import final
from brokerproof.conformance.facts.rows import SETTLED, Delivery, Send, Transaction
from brokerproof.conformance.facts.settling import accept, no_longer_open, reject, roll_back, settle, unpledge
from brokerproof.conformance.facts.spans import NEVER
from brokerproof.conformance.facts.tables import Tables


def ends_by_reject(tables: Tables, delivery: Delivery) -> bool:
    """Whether a rejection is the end of it; STOMP leaves to the broker what becomes of it."""
    promised = tables.header.capabilities
    again = "requeue" in promised or delivery.dest.applied.entry.redelivery is not None
    return "dead-letter" in promised and not again


def send_in_transaction(tables: Tables, send: Send, name: str) -> None:
    """A message was sent in a transaction."""
    event = send.event
    transaction = tables.transaction(name, event.host)
    send.transaction = transaction
    transaction.sends.append(send)
    if event.result == "fail":
        transaction.mixed = True
        return
    for part in tables.names.parts(event.dest):
        # Whether the copies for the queues of a virtual topic are held there meanwhile, nobody sees.
        tables.unsure |= {queue.name: True for queue in tables.virtual_queues.get(part, ())}
        if event.result == "unknown" or transaction.lost is not None:  # its answer was read after its connection's end
            tables.unsure[part] = True
            continue
        count, size = tables.uncommitted.get(part, (0, 0))
        tables.uncommitted[part] = (count + 1, size + event.size)


def begin(tables: Tables, event: Begin) -> None:
    """A host began one."""
    if event.result == "fail":
        return
    transaction = tables.transaction(event.tx, event.host)
    transaction.client.transaction = transaction


def end(tables: Tables, event: Commit | Abort) -> None:
    """Its host asked for its end."""
    if event.result == "ok":
        heard(tables.client(event.host), event)
    transaction = tables.transaction(event.tx, event.host)
    transaction.end = event
    if transaction.client.transaction is transaction:
        transaction.client.transaction = None
    committed = isinstance(event, Commit)
    transaction.committed = committed if event.result == "ok" else None
    for send in transaction.sends:
        if send.event.result == "ok":
            no_longer_open(tables, send, sure=event.result == "ok")
        if event.result != "ok":
            continue
        if not committed:
            _withdraw(tables, send)
        elif send.event.result == "ok":
            accept(tables, send, (event.t0, event.t1))
    _settlements_ended(tables, transaction)
    reject(tables, transaction)


def _settlements_ended(tables: Tables, transaction: Transaction) -> None:
    end_ns = transaction.end.t0 if transaction.end is not None else NEVER
    for delivery in transaction.settled:
        unpledge(delivery)
        if delivery.transaction is not transaction or transaction.committed is None:
            continue
        delivery.transaction = None
        if not transaction.committed:
            roll_back(tables, delivery, end_ns, mixed=transaction.mixed)
        elif delivery.session.end and not tables.promises("jms-semantics"):
            continue  # what its consumer had may have gone back when it left, and STOMP does not say otherwise
        elif not isinstance(final(tables, delivery), Nack) or ends_by_reject(tables, delivery):
            settle(tables, delivery, SETTLED)
    for delivery in transaction.tried:
        delivery.dest.ledger.stirred = True
        if transaction.committed is False and delivery.transaction is None:
            roll_back(tables, delivery, end_ns)


def _withdraw(tables: Tables, send: Send) -> None:
    """Its transaction was rolled back."""
    send.refused = True
    for part in tables.parts(send.event):
        part.epoch.undone = True
