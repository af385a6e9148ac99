"""What nothing forbids is accepted (GEN-100 to GEN-107). What may forbid a request: ``facts/permission.py``."""

from __future__ import annotations

from brokerproof.conformance.experiment.history import (
    Abort,
    Ack,
    Begin,
    Commit,
    Connect,
    Event,
    Nack,
    Operate,
    Send,
    Subscribe,
    Unsubscribe,
)
from brokerproof.conformance.experiment.history import Probe as ProbeEvent
from brokerproof.conformance.facts.asked import Request
from brokerproof.conformance.facts.facts import Facts
from brokerproof.conformance.facts.permission import forbidden
from brokerproof.conformance.rules.rule import Findings, broken, held, rule


def _asked(facts: Facts, *kinds: type[Event]) -> list[Request]:
    return [one for one in facts.asked if type(one.event) in kinds and one.event.result != "unknown"]


def _accepted(facts: Facts, request: Request) -> Findings:
    event = request.event
    if event.result == "ok":
        yield held("accepted", request.situation)
    elif not forbidden(facts, request):
        yield broken("refused", event, why=f"nothing forbids it; the broker said {event.refusal or 'nothing'!r}")


def asked_sends(facts: Facts) -> list[Request]:
    """Sends that were answered."""
    return _asked(facts, Send)


@rule("GEN-100", over=asked_sends)
def sends_are_accepted(facts: Facts, request: Request) -> Findings:
    """A message that nothing forbids is accepted, with every option that the broker offers, at any time."""
    return _accepted(facts, request)


def asked_subscribes(facts: Facts) -> list[Request]:
    """Consumers that were answered."""
    return _asked(facts, Subscribe)


@rule("GEN-101", over=asked_subscribes)
def consumers_are_accepted(facts: Facts, request: Request) -> Findings:
    """A consumer that nothing forbids is accepted, with every option that the broker offers, at any time."""
    return _accepted(facts, request)


def asked_acks(facts: Facts) -> list[Request]:
    """Acknowledgements that were answered."""
    return _asked(facts, Ack)


@rule("GEN-102", over=asked_acks)
def acknowledgements_are_accepted(facts: Facts, request: Request) -> Findings:
    """An acknowledgement of what its consumer holds is accepted, in a transaction and outside."""
    return _accepted(facts, request)


def asked_nacks(facts: Facts) -> list[Request]:
    """Rejections that were answered."""
    return _asked(facts, Nack)


@rule("GEN-103", over=asked_nacks)
def rejections_are_accepted(facts: Facts, request: Request) -> Findings:
    """A rejection of what its consumer holds is accepted."""
    return _accepted(facts, request)


def asked_transactions(facts: Facts) -> list[Request]:
    """Beginnings and ends of transactions that were answered."""
    return _asked(facts, Begin, Commit, Abort)


@rule("GEN-104", over=asked_transactions)
def transactions_are_accepted(facts: Facts, request: Request) -> Findings:
    """A connection without an open transaction may begin one, and whoever has one may commit it or roll it back."""
    return _accepted(facts, request)


def asked_ends(facts: Facts) -> list[Request]:
    """Ends of durable subscriptions that were answered."""
    return _asked(facts, Unsubscribe)


@rule("GEN-105", over=asked_ends)
def durables_can_be_ended(facts: Facts, request: Request) -> Findings:
    """A durable subscription that nobody uses can be ended."""
    return _accepted(facts, request)


def hellos(facts: Facts) -> list[Request | ProbeEvent]:
    """Connections that were answered, and raw peers with a good hello."""
    good = [one for one in facts.probes if one.said.hello == "good" and one.said.hello_ns is not None]
    return [*_asked(facts, Connect), *good]


@rule("GEN-106", over=hellos)
def whoever_says_hello_is_let_in(facts: Facts, row: Request | ProbeEvent) -> Findings:
    """Whoever connects as the protocol says is let in, at any time."""
    if isinstance(row, Request):
        yield from _accepted(facts, row)
    elif row.heard.welcome_ns is not None:
        yield held("accepted", "a raw peer")
    elif row.heard.refused and min(row.said.offer_ms) >= 0:
        yield broken("refused", row, why=f"nothing forbids it; the broker said {row.heard.refused!r}")


def asked_operations(facts: Facts) -> list[Request]:
    """Requests of operators that were answered."""
    return _asked(facts, Operate)


@rule("GEN-107", over=asked_operations)
def operators_are_obeyed(facts: Facts, request: Request) -> Findings:
    """What an operator asks of a queue that is there is done."""
    return _accepted(facts, request)
