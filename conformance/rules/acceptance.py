"""What nothing forbids is accepted (GEN-100 to GEN-107), and what is no selector is not (GEN-108), nor who wants what
somebody uses (GEN-109); who is refused is told why (GEN-194). What may forbid a request: ``facts/permission.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

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
from brokerproof.conformance.experiment.operations import is_alone
from brokerproof.conformance.facts.asked import Request
from brokerproof.conformance.facts.facts import Facts
from brokerproof.conformance.facts.marks import KINDS, RESTART, but
from brokerproof.conformance.facts.permission import forbidden
from brokerproof.conformance.facts.rows import Copy, Delivery, Session
from brokerproof.conformance.facts.selectors import is_none
from brokerproof.conformance.rules.rule import Findings, broken, held, rule


def answered(*kinds: type[Event]) -> Callable[[Facts], list[Request]]:
    """Selects requests of these kinds that the broker answered."""

    def selection(facts: Facts) -> list[Request]:
        asked = [one for one in facts.asked if type(one.event) in kinds and one.event.result != "unknown"]
        return [one for one in asked if not is_alone(one.event.refusal)]

    return selection


connections = answered(Connect)


def _accepted(facts: Facts, request: Request) -> Findings:
    event = request.event
    if event.result == "ok":
        yield held("accepted", request.situation)
    elif not forbidden(facts, request):
        yield broken("refused", event, why=f"nothing forbids it; the broker said {event.refusal or 'nothing'!r}")


@rule("GEN-100", over=answered(Send))
def sends_are_accepted(facts: Facts, request: Request) -> Findings:
    """A message that nothing forbids is accepted, with every option that the broker offers, at any time."""
    return _accepted(facts, request)


@rule("GEN-101", over=answered(Subscribe))
def consumers_are_accepted(facts: Facts, request: Request) -> Findings:
    """A consumer that nothing forbids is accepted, with every option that the broker offers, at any time."""
    return _accepted(facts, request)


@rule("GEN-102", over=answered(Ack))
def acknowledgements_are_accepted(facts: Facts, request: Request) -> Findings:
    """An acknowledgement of what its consumer holds is accepted, in a transaction and outside."""
    return _accepted(facts, request)


@rule("GEN-103", over=answered(Nack))
def rejections_are_accepted(facts: Facts, request: Request) -> Findings:
    """A rejection of what its consumer holds is accepted."""
    return _accepted(facts, request)


@rule("GEN-104", over=answered(Begin, Commit, Abort))
def transactions_are_accepted(facts: Facts, request: Request) -> Findings:
    """A connection without an open transaction may begin one, and whoever has one may commit it or roll it back."""
    return _accepted(facts, request)


@rule("GEN-105", over=answered(Unsubscribe))
def durables_can_be_ended(facts: Facts, request: Request) -> Findings:
    """A durable subscription that nobody uses can be ended."""
    return _accepted(facts, request)


#: STOMP names no greatest period. A broker that keeps it in 32 bits may refuse more.
_PERIOD_MAX_MS: Final = 2**31 - 1


def hellos(facts: Facts) -> list[Request | ProbeEvent]:
    """Connections that were answered, and raw peers with a good hello."""
    said = [one for one in facts.probes if not one.said.dialogues]
    good = [one for one in said if one.said.hello == "good" and one.said.hello_ns is not None]
    return [*connections(facts), *good]


@rule("GEN-106", over=hellos)
def whoever_says_hello_is_let_in(facts: Facts, row: Request | ProbeEvent) -> Findings:
    """Whoever connects as the protocol says is let in, at any time."""
    if isinstance(row, Request):
        if not facts.crashes:  # who has gone lets nobody in, and it is seen later than it was (GEN-090)
            yield from _accepted(facts, row)
    elif row.heard.welcome_ns is not None:
        yield held("accepted", "a raw peer")
    elif row.heard.refused and all(0 <= ms <= _PERIOD_MAX_MS for ms in row.said.offer_ms):
        yield broken("refused", row, why=f"nothing forbids it; the broker said {row.heard.refused!r}")


class LeftBehind(NamedTuple):
    """A message that waited on a queue for certain when an operator purged it, or moved what it had, and that came from
    there to who came afterwards.
    """

    operation: Operate
    delivery: Delivery
    marks: int


def obeyed(facts: Facts) -> list[Request | LeftBehind]:
    """What operators asked, and what was left behind; not where memory may hide what waits, nor behind a restart."""
    asked: list[Request | LeftBehind] = [*answered(Operate)(facts)]
    if facts.paged or facts.wild:
        return asked
    for operation in facts.operations:
        dest = facts.destinations.get(operation.dest)
        if dest is None or operation.op not in {"purge", "move"} or operation.result != "ok":
            continue
        back = any(one.op == "move" and one.to == dest.name for one in facts.operations)
        if back or dest.topic or any(session.opened[0] <= operation.t1 for session in dest.sessions):
            continue
        waited = [copy for copy in dest.copies if copy.deliveries and _waited(copy, operation)]
        left = [LeftBehind(operation, copy.deliveries[0], copy.marks & ~RESTART) for copy in waited]
        asked += [one for one in left if not facts.restarted(0, one.delivery.event.t1)]
    return asked


def _waited(copy: Copy, operation: Operate) -> bool:
    send = copy.send
    if operation.op == "move" and send.dest.kind == "virtual":
        return False  # where it is moved to there may be another copy of it, that nobody ever saw
    return send.confirmed and not send.delayed and len(send.copies) == 1 and send.accepted[1] < operation.t0


@rule("GEN-107", over=obeyed, handles=but("restart", "wildcard", "pause", "redelivery", "repeated", "mqsc"))
def operators_are_obeyed(facts: Facts, row: Request | LeftBehind) -> Findings:
    """What an operator asks of a queue that is there is done."""
    if isinstance(row, Request):
        yield from _accepted(facts, row)
    elif row.delivery.dest is row.delivery.copy.dest:
        yield broken("undone", row.operation, row.delivery, why="it had waited there, and nobody consumed")


def with_nonsense(facts: Facts) -> list[Subscribe]:
    """Consumers that asked for messages by a text that is no selector, and were answered."""
    asked = [session.event for session in facts.sessions.values()]
    asked += [browser.event for browser in facts.browsings]
    asked += [one.event for one in facts.asked if isinstance(one.event, Subscribe) and one.event.result == "fail"]
    return [
        one for one in asked if one is not None and one.selector and one.result != "unknown" and is_none(one.selector)
    ]


@rule("GEN-108", over=with_nonsense, handles=KINDS)
def nonsense_is_refused(_facts: Facts, event: Subscribe) -> Findings:
    """A consumer whose selector is none is refused."""
    if event.result == "ok":
        yield broken("accepted", event, why=f"{event.selector!r} is no selector")
    else:
        yield held("refused", "a browser" if event.browser else "durable" if event.durable else "")


def encroaching(facts: Facts) -> list[tuple[Session, Subscribe | Unsubscribe]]:
    """Who wanted a durable subscription, or its end, while a consumer of its used it; and that consumer."""
    users: dict[tuple[str, str], list[Session]] = {}
    for session in facts.sessions.values():
        if session.known and session.event is not None and session.event.durable:
            users.setdefault((session.client.name, session.event.durable), []).append(session)
    if not users:
        return []
    asked: list[Subscribe | Unsubscribe] = [one.event for of in users.values() for one in of if one.event is not None]
    asked += [event for event in facts.durable_ends if event.result == "ok"]
    for one in facts.asked:
        if isinstance(one.event, Subscribe | Unsubscribe) and one.event.result == "fail" and one.connected:
            asked.append(one.event)
    return [
        (user, event)
        for event in asked
        for user in users.get((event.host, event.durable), ())
        if user.event is not event and user.opened[1] <= event.t0 <= user.lost_ns
    ]


@rule("GEN-109", over=encroaching, handles=KINDS)
def what_is_used_is_left_alone(_facts: Facts, row: tuple[Session, Subscribe | Unsubscribe]) -> Findings:
    """A durable subscription that a consumer uses is neither given to another consumer nor ended."""
    user, event = row
    if event.result == "fail":
        yield held("refused", "a second consumer" if isinstance(event, Subscribe) else "its end")
    elif event.t1 <= user.lost_ns:
        yield broken("granted", user, event, why="it was in use")


# -- GEN-194


@rule("GEN-194", over=answered(Send, Subscribe, Ack, Nack, Begin, Commit, Abort, Unsubscribe))
def refusals_say_why(_facts: Facts, request: Request) -> Findings:
    """Who is refused is told why, in words."""
    event = request.event
    if event.result != "fail" or not request.connected or event.refusal is None:
        return
    if event.refusal.removeprefix("refused").strip(": "):
        yield held("told", "a request was refused")
    else:
        yield broken("silent", event, why="the refusal says nothing")
