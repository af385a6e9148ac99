"""Delivery delay as IBM MQ has it (generation ``ibm-mq``): what is refused, with which reason, and what becomes of a
message whose target cannot take it (DLY-016, DLY-032, DLY-039, DLY-042, DLY-043).
"""

from __future__ import annotations

from brokerproof.conformance.experiment.destinations import DEAD_LETTERS
from brokerproof.conformance.facts.absence import drained, missing
from brokerproof.conformance.facts.facts import Facts
from brokerproof.conformance.facts.managed import DISCARD, REASON, commands, during
from brokerproof.conformance.facts.marks import KINDS
from brokerproof.conformance.facts.queue_managers import INHIBITED, NAMES
from brokerproof.conformance.facts.releases import GONE, PUT, STAYS, Ending, ending_of
from brokerproof.conformance.facts.rows import Copy, Delivery, Send
from brokerproof.conformance.facts.spans import NEVER, NS_PER_MS
from brokerproof.conformance.rules.delay import FAULTS, first_arrivals, queued
from brokerproof.conformance.rules.delay_asked import asked
from brokerproof.conformance.rules.rule import Findings, broken, held, rule
from brokerproof.conformance.rules.selecting import reasoned


def managed(facts: Facts) -> list[Send]:
    """Messages with a delay, none beyond the declared maximum, that were sent to a queue manager."""
    longest_ms = facts.declared.delay_max_ms or NEVER
    return [send for send in facts.rows(asked) if 0 < send.event.delay_ms <= longest_ms] if is_managed(facts) else []


def is_managed(facts: Facts) -> bool:
    """Whether the broker is one of generation ``ibm-mq`` that takes delays at all."""
    return facts.declared.delay_support and facts.declared.generation.get("delay") == "ibm-mq"


def _refused(send: Send, reason: int) -> Findings:
    said = send.event.refusal or ""
    if not send.refused:
        yield broken("taken", send, why=f"it was to be refused with {reason}")
    elif str(reason) in said:
        yield held("refused", "refused")
    elif not reasoned(send) and said != "not connected":  # one of several reasons, and which one is named, is open
        yield broken("another-reason", send, why=f"it was to be refused with {reason}, not {said!r}")


@rule("DLY-016", over=managed, handles=KINDS, faults=FAULTS)
def life_below_the_delay(_facts: Facts, send: Send) -> Findings:
    """A time to live below the delay is rejected, dropped or delivered, as declared."""
    event = send.event
    sent_ms = event.timestamp_ms or 0  # a life that was over before is one, too
    if event.expiration_ms > 0 < sent_ms and max(1, event.expiration_ms - sent_ms) < event.delay_ms:
        yield from _refused(send, 2013)


@rule("DLY-039", over=managed, handles=KINDS, faults=FAULTS)
def groups_are_refused(_facts: Facts, send: Send) -> Findings:
    """A message of a group cannot have a delay: the send is refused with MQRC_OPTIONS_ERROR."""
    if send.event.group:
        yield from _refused(send, 2046)


def managed_waits(facts: Facts) -> list[Copy]:
    """Delayed messages on queues of a queue manager whose operator changed something."""
    return facts.rows(queued) if is_managed(facts) and commands(facts) else []


@rule("DLY-032", over=managed_waits, handles=KINDS, faults=FAULTS)
def a_failing_put_loses_nothing(facts: Facts, copy: Copy) -> Findings:
    """A message whose target cannot take it at its delivery time is accounted for: dead-lettered, discarded by request,
    or tried again.
    """
    ending = ending_of(facts, copy)
    if ending is not None and (why := _otherwise(facts, copy, ending) or _still_staged(facts, copy, ending)):
        yield broken("otherwise", copy, why=why)
    elif copy.deliveries or copy.dead_letters:
        yield held("accounted-for", "tried again" if copy.deliveries else "dead-lettered")
    elif copy.send.event.headers.get(DISCARD):
        return  # it may be thrown away, and nobody is told
    elif missing(facts, copy):
        yield broken("lost", copy, why="it was neither delivered nor dead-lettered")


def _otherwise(facts: Facts, copy: Copy, ending: Ending) -> str:
    """In what something else became of a message; "": nothing did."""
    letters = [letter.event for letter in copy.dead_letters if REASON in (letter.event.headers or {})]
    came = [delivery.event for delivery in copy.deliveries]
    name = NAMES.get(ending.reason, "")
    if ending.ends == PUT:
        return "it is a dead letter, though its target took everything" if letters else ""
    if ending.ends == STAYS:
        until_ns = NEVER if ending.until is None else ending.until.t0
        early = [event for event in (*came, *letters) if event.t1 < until_ns]
        return (
            f"it left the staging queue, though neither its target ({name}) nor a dead letter could be put"
            if early
            else ""
        )
    if came:
        return f"it came, though its target could not take it ({name})"
    if ending.ends == GONE:
        return "it is a dead letter, though it was to be thrown away" if letters else ""
    if any(str((event.headers or {})[REASON]) != str(ending.reason) for event in letters):
        return f"its dead letter gives another reason than {ending.reason} {name}"
    dead = facts.destinations.get(DEAD_LETTERS)
    whole = dead is not None and drained(facts, dead) and not dead.purges
    return f"it is no dead letter, though its target could not take it ({name})" if whole and not letters else ""


def _still_staged(facts: Facts, copy: Copy, ending: Ending) -> str:
    """Whether more waits on its queue, at rest, than the other messages with a delay."""
    due = facts.delays.due(copy.send)
    if ending.ends == STAYS or due is None or copy.dest.applied.entry.redelivery is not None:
        return ""
    over_ns = due.visible[1] + facts.declared.lateness_ms * NS_PER_MS
    for reading in facts.queue_readings:
        waiting = reading.event.scheduled if reading.dest is copy.dest and reading.at_rest else None
        if waiting is not None and reading.event.t0 > over_ns and waiting >= len(facts.delayed):
            return f"{waiting} messages wait on its queue, of {len(facts.delayed)} with a delay"
    return ""


def managed_arrivals(facts: Facts) -> list[Delivery]:
    """First arrivals of delayed messages from a queue manager whose operator changed something."""
    return facts.rows(first_arrivals) if is_managed(facts) and commands(facts) else []


@rule("DLY-042", over=managed_arrivals, handles=KINDS, faults=FAULTS)
def a_stopped_processor_releases_nothing(facts: Facts, delivery: Delivery) -> Findings:
    """While the delivery delay processor is stopped no delayed message reaches a consumer, however late it is."""
    due = facts.delays.due(delivery.send)
    if due is None:
        return
    possible = during(facts, due.span[0], delivery.event.t1)
    running = [objects is None or objects.running for objects in possible]
    if not any(running):
        yield broken("while-stopped", delivery.send, delivery, why="the processor had been stopped before it was due")
    elif not running[0]:
        yield held("when-started", "it came after the start")


@rule("DLY-043", over=managed_waits, handles=KINDS, faults=FAULTS)
def inhibited_targets_get_nothing(facts: Facts, copy: Copy) -> Findings:
    """A delayed message is not put to a queue whose PUT is disabled when its delay is over."""
    ending = ending_of(facts, copy)
    if ending is None or ending.reason != INHIBITED or copy.dest.topic:
        return
    until_ns = NEVER if ending.until is None else ending.until.t0
    if copy.deliveries and copy.deliveries[0].event.t1 < until_ns:
        why = f"PUT of {copy.dest.name} had been disabled before it was due"
        yield broken("put", copy, copy.deliveries[0], why=why)
    elif copy.deliveries or copy.dead_letters:
        yield held("not-put", "it was enabled again" if copy.deliveries else "it became a dead letter")
