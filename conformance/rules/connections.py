"""Connections stay while nobody ends them; what a broker says on them can be understood (GEN-143, GEN-144)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from brokerproof.conformance.experiment.history import (
    PROTOCOL_BROKEN,
    READ_TO_THE_END,
    Closed,
    Connect,
    Event,
    Leave,
    Send,
    Subscribe,
)
from brokerproof.conformance.facts import marks
from brokerproof.conformance.facts.asked import Request
from brokerproof.conformance.facts.facts import Facts
from brokerproof.conformance.facts.links import is_inactivity, surely_beats
from brokerproof.conformance.facts.permission import forbidden
from brokerproof.conformance.facts.presence import is_bereft
from brokerproof.conformance.facts.rows import Client, Delivery, Session
from brokerproof.conformance.facts.spans import Span
from brokerproof.conformance.rules.rule import Findings, broken, held, rule

#: So long after it was asked for something a broker has ended a connection for what it refuses, for certain.
QUIET_NS: Final = 5_000_000_000
#: Real brokers end connections on which nothing was agreed about heart-beats, and nothing came for so long (Artemis
#: after 60 s); no program means to wait as long in real time.
SILENT_NS: Final = 30_000_000_000


def hosts(facts: Facts) -> list[Client]:
    """Hosts that had a connection, or heard something of one."""
    return [client for client in facts.clients.values() if client.closes or _connected(client)]


def _connected(client: Client) -> bool:
    return any(one.result == "ok" for one in client.connects)


@rule("GEN-143", over=hosts)
def connections_stay(facts: Facts, client: Client) -> Findings:
    """A broker ends a connection only for a cause: a request that it refused, silence, or its own end."""
    for event in client.closes:
        cause = _cause(facts, client, event) if event.who == "broker" else "its client ended it"
        if not cause:
            why = f"nothing had been refused, and nobody had been silent; it said: {event.reason or 'nothing'}"
            yield broken("ended", event, why=why)
            return
        if cause in {"a request was refused", "the broker ended"}:
            yield held("ended-for-a-cause", cause)
    if _connected(client):
        yield held("kept")


def _cause(facts: Facts, client: Client, event: Closed) -> str:
    """Why the broker may have ended a connection; "" if nothing that was seen is a cause."""
    begun = [one for one in client.connects if one.seq < event.seq]
    if event.reason.startswith(PROTOCOL_BROKEN):
        return "its client ended it"  # it could not read on (GEN-144)
    # The words of a real broker's monitor may be others.
    watched = client.name in facts.declared.monitor and not facts.simulated and not surely_beats(facts, client)
    silent = is_inactivity(event) or watched
    if not begun or begun[-1].result != "ok" or silent:
        return "a peer was silent, or nobody saw it begin"
    span = (begun[-1].t0, event.t1)
    if any(one.fault == "reset" and _within(one.t0, one.t1, span) for one in client.resets):
        return "the network ended it"
    if facts.restarted(*span) or facts.crashes:
        return "the broker ended"
    if any(one.client is client and _within(one.event.t0, one.event.t1, span) and _may_be_refused(facts, event, one)
           for one in facts.asked):  # fmt: skip
        return "a request was refused"
    own = [one for one in facts.sessions.values() if one.client is client and one.opened[1] >= span[0]]
    if any(is_bereft(one, event.t1) for one in own):
        return "a subscription was ended while it was used"
    # It may have been seen to end before its client was told that its goodbye was over.
    for one in client.ends:
        # Noted beside the end that its agent saw; the broker may have ended it earlier.
        is_the_loss = isinstance(one, Leave) and one.how == "drop" and one.t1 == event.t1
        if begun[-1].seq < one.seq and (one.seq < event.seq or one.t0 < event.t1) and not is_the_loss:
            return "its client ended it"
    if (
        not facts.simulated
        and client.name not in facts.declared.monitor
        and _quiet_ns(facts, client, event) > SILENT_NS
    ):
        return "it had been silent for long"
    if facts.blocks and len(begun) > 1:
        return "what had waited for room on its former connection may have kept that there"
    given = [delivery for session in own for delivery in session.deliveries]
    quiet = _quiet_ns(facts, client, event, given) > QUIET_NS * max(1, facts.rate)
    if quiet and not _is_disturbed(facts, client, span):
        return ""
    past = any(one.host == client.name for one in facts.acknowledges)
    again = any(send.event.again for send in facts.sends.values() if send.event.host == client.name)
    if past or again or _is_disturbed(facts, client, span) or not _is_answered(facts, client, own):
        return "something that nobody was told the end of"
    return ""


def _is_disturbed(facts: Facts, client: Client, span: Span) -> bool:
    """Whether something else may have ended it: a link or a process that stood still, an operator, a limit."""
    paused = facts.marks.on(marks.WHOLE, span) & (marks.PAUSE | marks.MQSC)
    return client.stalled(*span) or paused != 0 or facts.declared.connector is not None


def _quiet_ns(facts: Facts, client: Client, end: Closed, given: Sequence[Delivery] = ()) -> int:
    """How long before the end all that a client had done, and that it was given, was over: what a broker refuses
    without an answer, it refuses at once.
    """
    sessions = [session for session in facts.sessions.values() if session.client is client]
    done: list[Event | None] = [*client.connects, *(session.event for session in sessions)]
    done += [one.event for one in facts.asked if one.client is client]
    done += [send.event for send in facts.sends.values() if send.client is client]
    done += [one.end for one in facts.transactions.values() if one.client is client]
    done += [one for delivery in given for one in (delivery.event, delivery.consumed, delivery.settlement)]
    done += [one for one in client.ends if one.t1 < end.t1]  # not what this end was to it
    busy = [one.t1 for one in done if one is not None and one.t0 <= end.t1]
    return end.t1 - max(busy)


def _is_answered(facts: Facts, client: Client, own: list[Session]) -> bool:
    """Whether a broker answers all that a client did in that time. A library that does not wait for answers may have
    been refused something unseen, as soon as it settles, leaves, or sends what need not be kept.
    """
    if client.traits.awaits_receipt:
        return True
    if not facts.simulated or any(one.client is client for one in facts.transactions.values()):
        return False
    kept = all(one.event.persistent for one in facts.sends.values() if one.client is client)
    known = all(isinstance(one.event, Connect | Subscribe | Send) for one in facts.asked if one.client is client)
    return kept and known and not any(one.deliveries or one.end not in {"", "closed"} for one in own)


def _may_be_refused(facts: Facts, end: Closed, request: Request) -> bool:
    """Whoever sends on may never read what a broker said before it closed, unless all was read to the end; in virtual
    time nothing of it is lost. But somebody may have closed before it came.
    """
    result, whole = request.event.result, facts.simulated or end.reason == READ_TO_THE_END
    return result == "fail" or (result == "unknown" and (not whole or forbidden(facts, request) != ""))


def _within(t0: int, t1: int, span: tuple[int, int]) -> bool:
    return t0 <= span[1] and t1 >= span[0]


@rule("GEN-144", over=hosts)
def what_it_says_can_be_understood(_facts: Facts, client: Client) -> Findings:
    """What a broker sends keeps the protocol of its connection."""
    for event in client.closes:
        if event.reason.startswith(PROTOCOL_BROKEN):
            yield broken("broke-the-protocol", event, why=event.reason.removeprefix(PROTOCOL_BROKEN))
            return
    if _connected(client):
        yield held("kept-the-protocol")
