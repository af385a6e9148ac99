"""Messages that become several, and queues that live as long as a connection (GEN-047 to GEN-049, GEN-193)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import pairwise

from brokerproof.conformance.experiment.history import Event
from brokerproof.conformance.facts.absence import ended, missing
from brokerproof.conformance.facts.deliveries import repeated
from brokerproof.conformance.facts.facts import Facts
from brokerproof.conformance.facts.managed import is_queue_manager
from brokerproof.conformance.facts.marks import KINDS, but
from brokerproof.conformance.facts.presence import rest_after
from brokerproof.conformance.facts.rows import LATE, Client, Copy, Delivery, Send
from brokerproof.conformance.facts.spans import t1_of
from brokerproof.conformance.rules.rule import Findings, broken, held, rule

#: What an observer of one copy can see past.
PAST = but("operator", "repeated", "redelivery")


def temporary(facts: Facts) -> list[Send | Delivery]:
    """What was sent to temporary queues alone, and what arrived from them."""
    rows: list[Send | Delivery] = []
    for dest in facts.destinations.values():
        if dest.kind == "temporary":
            rows += [send for send in dest.sends if send.dest is dest]
            rows += [one for session in dest.sessions for one in session.deliveries if one.dest is dest]
    return rows


@rule("GEN-047", over=temporary, handles=KINDS)
def its_own_and_gone(facts: Facts, row: Send | Delivery) -> Findings:
    """A temporary destination is consumed from by its own connection only, and is gone when that is."""
    owner = facts.client(facts.names.owner(row.dest.name))
    if isinstance(row, Send):
        if row.client is owner or not _is_gone(facts, owner, row.event):
            return
        if row.event.result == "ok":
            yield broken("outlived", row, why=f"the connection of {owner.name} had gone before")
        elif row.event.result == "fail":
            yield held("gone", "its connection was gone")
    elif row.session.client is not owner:
        yield broken("foreign", row)
    elif row.state != LATE and row.send.confirmed and row.send.accepted[1] < _began_ns(owner, row.event.t0):
        yield broken("outlived", row.send, row, why="it was sent on an earlier connection")
    else:
        yield held("its-own", "others sent to it" if row.send.client is not owner else "")


def _began_ns(client: Client, at_ns: int) -> int:
    """When its connection of that time began; 0 if nobody saw that."""
    place = bisect_right(client.connects, at_ns, key=t1_of)
    return client.connects[place - 1].t0 if place else 0


def _is_gone(facts: Facts, client: Client, event: Event) -> bool:
    """Whether its connection had gone before a request, as the broker knew, and there was no other, for certain."""
    last: list[Event] = []
    for ends in (client.closes, client.ends):
        last += ends[: bisect_right(ends, event.t0, key=t1_of)][-1:]
    if not last:
        return False
    left = max(last, key=t1_of)
    again = bisect_left(client.connects, left.t0, key=t1_of)
    if again < len(client.connects) and client.connects[again].t0 < event.t1:
        return False
    return rest_after(facts, left.t1) <= event.t0


def copied(facts: Facts, kind: str) -> list[Copy]:
    """Copies on queues of what was sent to composite or virtual destinations."""
    return [copy for copy in facts.copies if copy.send.dest.kind == kind and not copy.dest.topic]


def of_virtual_topics(facts: Facts) -> list[Copy]:
    """Copies on queues that consume from a virtual topic."""
    return copied(facts, "virtual")


@rule("GEN-048", over=of_virtual_topics, handles=PAST)
def one_for_each_queue(facts: Facts, copy: Copy) -> Findings:
    """A virtual topic hands a copy of every message to each of its queues."""
    if not copy.deliveries and missing(facts, copy):
        yield broken("missed", copy, copy.dest, why="its queue never got it")
    elif copy.deliveries and ended(facts):
        several = sum(not other.dest.topic for other in copy.send.copies.values()) > 1
        yield held("each", "several queues" if several else "one queue")


def of_composites(facts: Facts) -> list[Copy]:
    """Copies on the queues among several names."""
    return copied(facts, "composite")


@rule("GEN-049", over=of_composites, handles=PAST, absence=True)
def each_or_nowhere(facts: Facts, copy: Copy) -> Findings:
    """A message that is sent to several names arrives at each of them, or its sending is refused and it arrives
    nowhere.
    """
    send = copy.send
    if send.refused:
        if copy.deliveries:
            yield broken("half-refused", send, copy.deliveries[0])
        elif ended(facts):
            yield held("nowhere", "refused")
        return
    for first, second in pairwise(copy.deliveries):
        if repeated(facts, first, second):
            yield broken("twice", send, first, second)
            return
    if not copy.deliveries and missing(facts, copy):
        yield broken("missed", copy, copy.dest)
    elif copy.deliveries and ended(facts):
        yield held("each", "queues")


def named(facts: Facts) -> list[Delivery]:
    """What arrived from where its producer had sent it, or from where a copy of it went. Not dead letters, not what an
    operator may have moved, which name where they had been, and not what a queue manager had put aside.
    """
    if facts.beyond or is_queue_manager(facts):
        return []
    return [one for one in facts.deliveries if _is_at_home(one) and not _is_disturbed(one)]


def _is_at_home(delivery: Delivery) -> bool:
    dest, sent = delivery.dest, delivery.send.dest
    spread = sent.kind in {"composite", "virtual"} and sent.kind != dest.kind
    return dest is delivery.copy.dest and dest.kind != "dead-letters" and (dest is sent or spread)


def _is_disturbed(delivery: Delivery) -> bool:
    return delivery.is_moved or any(operation.op == "move" for operation in delivery.dest.purges)


@rule("GEN-193", over=named, handles=KINDS)
def copies_name_their_origin(_facts: Facts, delivery: Delivery) -> Findings:
    """A copy names the destination that its message was sent to as its original destination, and a message that is no
    copy names none.
    """
    sent, told = delivery.send.dest.name, delivery.event.original_dest or ""
    copied = delivery.dest is not delivery.send.dest
    if told == (sent if copied else ""):
        if copied:
            yield held("named", "of several names" if "," in sent else "of a virtual topic")
        return
    if copied:
        yield broken("otherwise", delivery.send, delivery, why=f"it names {told or 'none'}, and was sent to {sent}")
    else:
        yield broken("invented", delivery.send, delivery, why=f"it names {told}, and nothing was copied")
