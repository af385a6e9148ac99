"""Describing: a row in words, every value shown, for the text of a verdict."""

from __future__ import annotations

from brokerproof.conformance.experiment.history import (
    Ack,
    Browse,
    Closed,
    Commit,
    Consume,
    Crash,
    Discard,
    Event,
    Fault,
    Leave,
    Nack,
    Operate,
    Subscribe,
)
from brokerproof.conformance.facts.rows import (
    Copy,
    Delivery,
    Destination,
    Reading,
    Send,
    Session,
    Subscription,
    Transaction,
)
from brokerproof.conformance.facts.spans import ms

Row = Send | Copy | Delivery | Session | Reading | Transaction | Subscription | Destination | Event
_COUNTERS = ("size", "in_flight", "enqueued", "dequeued", "dispatched", "expired", "scheduled", "memory_bytes",
            "memory_percent")  # fmt: skip


def describe(row: Row) -> str:
    """One row."""
    if isinstance(row, Send):
        return _send(row)
    if isinstance(row, Copy):
        return _send(row.send)
    if isinstance(row, Delivery):
        return _delivery(row)
    if isinstance(row, Session):
        said = f"consumer {row.name} of {row.dest.name} (prefetch {row.prefetch}, ack {row.ack}, since "
        ended = f", ended: {row.end} at {ms(row.ended_ns)}" if row.end else ""
        return f"{said}{ms(row.opened[0])}{ended})"
    if isinstance(row, Reading):
        return _reading(row)
    if isinstance(row, Transaction):
        return _transaction(row)
    if isinstance(row, Subscription):
        if not row.durable or row.begin is None:
            return f"subscriber {row.name}"
        return f"durable subscription {row.durable!r} of {row.client.name} on {row.begin.dest}"
    return row.name if isinstance(row, Destination) else _event(row)


def witness_of(row: Row) -> list[int]:
    """The events that it rests on."""
    if isinstance(row, Send | Delivery | Reading):
        return [row.event.seq]
    if isinstance(row, Copy):
        return [row.send.event.seq]
    if isinstance(row, Session):
        return [row.event.seq] if row.event is not None else []
    if isinstance(row, Subscription):
        return [row.begin.seq] if row.begin is not None else []
    if isinstance(row, Transaction):
        return [row.end.seq] if row.end is not None else []
    return [] if isinstance(row, Destination) else [row.seq]


def _send(send: Send) -> str:
    event = send.event
    said = [f"{send.message} sent to {event.dest} ({event.result}) in {ms(event.t0)} to {ms(event.t1)}"]
    if event.expiration_ms:
        said.append(f"expiration {event.expiration_ms}, timestamp {event.timestamp_ms}")
    if event.life_ms:
        said.append(f"time to live {event.life_ms} ms by the broker's clock")
    if event.delay_ms:
        said.append(f"delay {event.delay_ms} ms")
    if event.deliver_at_ms is not None:
        said.append(f"delivery time {event.deliver_at_ms}")
    if not event.persistent:
        said.append("not persistent")
    if event.tx is not None:
        said.append(f"in {event.tx}")
    if event.refusal:
        said.append(f"refused: {event.refusal}")
    return ", ".join(said)


def _delivery(delivery: Delivery) -> str:
    event = delivery.event
    said = f"{event.message} arrived at {event.consumer} from {event.dest} at {ms(event.t1)}"
    sent = delivery.send.event
    notes = [f"expiration {event.expiration_ms}"] if event.expiration_ms else []
    if event.timestamp_ms and event.timestamp_ms != sent.timestamp_ms:
        notes.append(f"timestamp {event.timestamp_ms}, sent with {sent.timestamp_ms}")
    if event.redelivered:
        notes.append("marked redelivered")
    if event.delivery_count is not None and event.delivery_count > 1:
        notes.append(f"delivery count {event.delivery_count}")
    if event.original_dest is not None:
        notes.append(f"original destination {event.original_dest}")
    return f"{said} ({', '.join(notes)})" if notes else said


def _reading(reading: Reading) -> str:
    event = reading.event
    counters = [f"{name} {getattr(event, name)}" for name in _COUNTERS if getattr(event, name) is not None]
    rest = " at rest" if event.at_rest else ""
    return f"counters of {event.dest or 'the broker'}{rest} at {ms(event.t1)}: {', '.join(counters)}"


def _transaction(transaction: Transaction) -> str:
    end = transaction.end
    if end is None:
        return f"transaction {transaction.name} ({'lost with its connection' if transaction.lost else 'never ended'})"
    how = "commit" if isinstance(end, Commit) else "rollback"
    return f"transaction {transaction.name} ({how} {end.result} in {ms(end.t0)} to {ms(end.t1)})"


def _event(event: Event) -> str:
    kind, at = str(event.__struct_config__.tag), f"at {ms(event.t1)}"
    if isinstance(event, Ack | Nack):
        within = f" in {event.tx}" if event.tx is not None else ""
        return f"{kind} of {', '.join(event.messages)} by {event.consumer} ({event.result}){within} {at}"
    if isinstance(event, Consume | Discard):
        return f"{kind} of {event.message} by {event.consumer} {at}"
    if isinstance(event, Operate):
        return f"operator's {event.op} of {event.dest} ({event.result}) {at}"
    if isinstance(event, Fault):
        what = event.target or event.link or "the broker"
        by = f" by {event.jump_ms} ms" if event.jump_ms is not None else f" ({event.how})" if event.how else ""
        return f"{event.fault} of {what}{by} {at}"
    if isinstance(event, Leave):
        return f"{event.consumer or event.host} left ({event.how}) {at}"
    if isinstance(event, Closed):
        return f"connection of {event.link or event.host} closed by {event.who} {at} ({event.reason})"
    if isinstance(event, Browse):
        return f"browser {event.consumer} of {event.dest} was shown {', '.join(event.messages)} {at}"
    if isinstance(event, Crash):
        return f"{event.target} {event.how} {at} ({event.evidence.rpartition(chr(10))[2]})"
    if isinstance(event, Subscribe):
        return f"{event.consumer} subscribed to {event.dest} ({event.result}) {at}"
    return f"{kind} {at}"
