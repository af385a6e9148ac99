"""Who gets what: loss, duplication, order, ghosts, refusals (GEN-001 to GEN-006, GEN-012, GEN-027)."""

from __future__ import annotations

from itertools import pairwise

from brokerproof.conformance.experiment.destinations import ADVISORIES
from brokerproof.conformance.experiment.history import Arrive
from brokerproof.conformance.facts.absence import ended, missing
from brokerproof.conformance.facts.dead_letters import names_another
from brokerproof.conformance.facts.deliveries import repeated, settled
from brokerproof.conformance.facts.facts import Facts
from brokerproof.conformance.facts.managed import is_report
from brokerproof.conformance.facts.marks import KINDS, but
from brokerproof.conformance.facts.ordering import neighbours
from brokerproof.conformance.facts.rows import RETURNED, Copy, Send, Session
from brokerproof.conformance.facts.spans import ms
from brokerproof.conformance.facts.strains import in_need
from brokerproof.conformance.rules.rule import Findings, broken, held, rule
from brokerproof.conformance.rules.selecting import copies_again, queue_copies, sends


def confirmed(facts: Facts) -> list[Copy]:
    """Copies that a queue has accepted for certain."""
    return [copy for copy in facts.rows(queue_copies) if copy.send.confirmed]


@rule("GEN-001", over=confirmed, handles=KINDS, absence=True)
def nothing_is_lost(facts: Facts, copy: Copy) -> Findings:
    """No message that a queue accepted is lost: it is settled, drained, dead-lettered, or it expires."""
    if missing(facts, copy):
        yield broken("lost", copy, *copy.deliveries[-1:], why="it was never settled, drained or found dead")
    elif (copy.deliveries or copy.dead_letters) and ended(facts):
        situation = "it became a dead letter" if copy.dead_letters else ""
        for delivery in copy.deliveries:
            if delivery.state == RETURNED:
                situation = "its consumer left before settling it"
        yield held("accounted-for", situation)


@rule("GEN-002", over=copies_again, handles=but("operator", "repeated"))
def one_at_a_time(facts: Facts, copy: Copy) -> Findings:
    """A queue gives a message to one consumer at a time: again only if the former holder left, or lost its link, before
    settling it.
    """
    for first, second in pairwise(copy.deliveries):
        if repeated(facts, first, second):
            state = "had settled it" if settled(facts, first) else "still held it"
            yield broken("duplicated", first, second, why=f"{first.session.name} {state}")
            return
        yield held("one-at-a-time", "the first holder left, and another consumer got it")


def unsure_sends(facts: Facts) -> list[Send]:
    """Messages of which nobody knows whether, or by which connection, the broker took them."""
    return [
        send
        for send in facts.sends.values()
        if send.event.tx is None and (send.event.again or send.event.result == "unknown")
    ]


def _taken_once(facts: Facts, send: Send, *, again: bool) -> Findings:
    if send.event.again is not again:
        return
    for copy in send.copies.values():
        durable = copy.subscription is not None and copy.subscription.durable
        for first, second in pairwise(copy.deliveries):
            here = first.session is second.session and not durable and second.event.t1 < first.undone_ns
            twice = here if copy.dest.topic else repeated(facts, first, second)
            if twice:
                yield broken("twice", send, first, second, why="it was taken twice")
                return
    if not ended(facts):
        return
    if again:
        yield held("once", "on a topic" if send.dest.topic else "on a queue")
    else:
        yield held("once-or-never", "it happened" if send.seen is not None else "it did not happen")


@rule("GEN-012", over=unsure_sends, handles=KINDS)
def once_or_never(facts: Facts, send: Send) -> Findings:
    """A send with an unknown result happens once or never, not twice."""
    return _taken_once(facts, send, again=False)


@rule("GEN-027", over=unsure_sends, handles=KINDS)
def repeated_send_is_taken_once(facts: Facts, send: Send) -> Findings:
    """What a producer sends again after a lost connection, under its own name, is taken once."""
    return _taken_once(facts, send, again=True)


def with_arrivals(facts: Facts) -> list[Session]:
    """Consumers at which more than one message arrived."""
    return [s for s in facts.sessions.values() if len(s.deliveries) > 1 and s.dest.kind != "dead-letters"]


ORDERED = but("operator", "redelivery", "repeated")


@rule("GEN-003", over=with_arrivals, handles=ORDERED)
def in_order(facts: Facts, session: Session) -> Findings:
    """What one producer sends to one destination arrives at one consumer in the order of sending."""
    for before, delivery, overtaken in neighbours(facts, session):
        if overtaken:
            yield broken(
                "overtaken", delivery.send, before, delivery, why=f"{delivery.send.client.name} sent it earlier"
            )
            return
        yield held("in-order", "on a topic" if delivery.dest.topic else "on a queue")


def seen(facts: Facts) -> list[Send]:
    """Messages that arrived somewhere."""
    return [send for send in facts.sends.values() if send.arrivals()]


def origins(facts: Facts) -> list[Send | Arrive]:
    """Whatever arrived: messages that were sent, and arrivals of what nobody sent."""
    return [*facts.rows(seen), *facts.ghosts]


@rule("GEN-005", over=origins, handles=KINDS)
def nothing_from_nowhere(facts: Facts, row: Send | Arrive) -> Findings:
    """Nothing arrives that was not sent to that destination before."""
    if isinstance(row, Arrive):
        origin = row.original_dest or ""
        if facts.unnamed and not row.message:
            return
        if row.message or not origin:
            pass
        elif any(one.said.deaf or one.said.dialogues for one in facts.probes) and origin not in facts.destinations:
            return  # what a raw peer sent to a destination of its own may have become a dead letter
        elif origin.rpartition("/")[2].startswith(ADVISORIES):
            return  # so may what a broker tells of itself
        if is_report(facts, row):
            return
        yield broken("ghost", row, why="nobody sent it")
        return
    sent_ns, letter = row.event.t0, False
    for delivery in row.arrivals():
        elsewhere = delivery.dest is not delivery.copy.dest
        if elsewhere:
            letter = letter or delivery.is_dead_letter
            elsewhere = not delivery.is_moved
        if elsewhere and not delivery.is_dead_letter:
            yield broken("misrouted", row, delivery)
            return
        if delivery.event.t1 < sent_ns:
            yield broken("too-early", row, delivery, slack_ns=delivery.event.t1 - sent_ns)
            return
        if elsewhere and names_another(delivery):
            yield broken("misrouted", row, delivery, why="the dead letter names another origin")
            return
    yield held("sent-before", "a dead letter" if letter else "")


def refused(facts: Facts) -> list[Send]:
    """Messages whose sending was refused by a broker that had what it needs."""
    return [send for send in facts.rows(sends) if send.refused and not in_need(facts.strains, send.event)]


@rule("GEN-006", over=refused, handles=KINDS)
def refused_is_never_delivered(facts: Facts, send: Send) -> Findings:
    """A message whose sending was refused is never delivered."""
    if send.seen is not None:
        yield broken("delivered", send, send.seen, why=f"refused at {ms(send.event.t1)}")
    elif ended(facts):
        yield held("never-delivered")
