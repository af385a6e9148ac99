"""What a message carries, and nothing else (GEN-011, GEN-130, GEN-131, GEN-160)."""

from __future__ import annotations

from typing import Final

from brokerproof.conformance.experiment.history import Send as SendEvent
from brokerproof.conformance.experiment.wire_names import LIFE
from brokerproof.conformance.facts.contents import differences, header_differences
from brokerproof.conformance.facts.facts import Facts
from brokerproof.conformance.facts.marks import KINDS, RESOLVED
from brokerproof.conformance.facts.rows import Delivery, Send
from brokerproof.conformance.rules.rule import Findings, broken, held, rule


def told(facts: Facts) -> list[Send]:
    """Messages whose body was noted, and which arrived."""
    return [send for send in facts.sends.values() if send.event.body is not None and send.seen is not None]


@rule("GEN-011", over=told, handles=KINDS)
def as_it_was_sent(facts: Facts, send: Send) -> Findings:
    """Body and properties arrive as they were sent."""
    event, letter, whole = send.event, False, False
    for delivery in send.arrivals():
        if delivery.event.body is None:
            continue
        wrong = differences(facts, event, delivery.event)
        if wrong:
            yield broken("changed", send, delivery, why=f"it has {', '.join(wrong)}")
            return
        whole = True
        letter = letter or delivery.is_dead_letter
    if whole:
        carries = bool(event.message_kind or event.group)
        yield held("as-sent", "with properties" if carries else "as a dead letter" if letter else "")


#: Properties that protocols, brokers and the suite's own agents put on messages, by their beginnings.
DOCUMENTED: Final = ("JMS", "AMQ_", "_", "x-", "X-", "brokerproof_", "content-", "original", "orignal",
                     "destination-type", "MQDLH_DestQName", "MQDLH_Reason",
                     "dlqDeliveryFailureCause", "redelivery", "scheduledJobId", "transformation")  # fmt: skip


def with_properties(facts: Facts) -> list[Delivery]:
    """What arrived with properties, but for messages that only brokers send. What a real broker writes on its dead
    letters it documents where nobody here has read it.
    """
    return [one for one in facts.deliveries if one.event.properties and (facts.simulated or not one.is_dead_letter)]


def names_sent(facts: Facts) -> list[str]:
    """Properties that any message of the run was sent with."""
    return list(dict.fromkeys(name for send in facts.sends.values() for name in _sent(send.event)))


@rule("GEN-130", over=with_properties, handles=KINDS)
def nothing_is_added(facts: Facts, delivery: Delivery) -> Findings:
    """A message arrives with no property that was not sent, but those that the protocol or the broker documents."""
    sent = _sent(delivery.send.event)
    seen = delivery.event.properties
    more = [one for one in seen if one not in sent and not one.startswith(DOCUMENTED)]
    if more and not facts.simulated:  # it may add what it likes by names of its own, but nothing of another message
        more = [one for one in more if one in facts.rows(names_sent)]
    strange = more + [one for one in seen if one in _unasked(delivery)]
    if strange:
        yield broken("invented", delivery.send, delivery, why=f"nobody sent {', '.join(strange)}")
    elif any(name in sent for name in delivery.event.properties):
        yield held("as-sent", "a dead letter" if delivery.is_dead_letter else "")


def _unasked(delivery: Delivery) -> list[str]:
    """Properties by which a producer asks for something, of which nobody asked."""
    event = delivery.send.event
    asked = {LIFE: event.life_ms, "AMQ_SCHEDULED_DELAY": event.delay_ms}
    return [name for name, value in asked.items() if not value]


def _sent(event: SendEvent) -> list[str]:
    return ["kind", *event.headers] if event.message_kind else [*event.headers]


def with_headers(facts: Facts) -> list[Delivery]:
    """What arrived where somebody looked at what applications alone read, and something was sent or seen."""
    told = [one for one in facts.deliveries if one.event.headers is not None]
    return [one for one in told if one.event.headers or one.send.event.headers]


@rule("GEN-160", over=with_headers, handles=KINDS)
def headers_are_kept(facts: Facts, delivery: Delivery) -> Findings:
    """A message arrives with the correlation id, the type, the address for answers and the properties that it was sent
    with.
    """
    # On its letters a broker writes why, in words that nobody here has read.
    strict = facts.simulated or not delivery.is_dead_letter
    if wrong := header_differences(delivery.send.event, delivery.event, None if strict else facts.rows(names_sent)):
        yield broken("changed", delivery.send, delivery, why=f"it has {'; '.join(wrong)}")
    else:
        yield held("kept", "a dead letter" if delivery.is_dead_letter else "")


def with_modes(facts: Facts) -> list[Delivery]:
    """What arrived with a delivery mode that somebody looked at. A broker may keep letters better than their messages
    asked for, and a queue's definition decides, wherever an operator moves them later.
    """
    told = [one for one in facts.deliveries if one.event.persistent is not None and not one.send.marks & RESOLVED]
    return [one for one in told if one.send.event.persistent or not one.is_dead_letter]


@rule("GEN-131", over=with_modes, handles=KINDS)
def mode_is_kept(_facts: Facts, delivery: Delivery) -> Findings:
    """A message arrives with the delivery mode that it was sent with."""
    sent, seen = delivery.send.event.persistent, delivery.event.persistent
    if sent is not seen:
        yield broken("changed", delivery.send, delivery, why=f"persistent is {seen}, and {sent} was sent")
    else:
        yield held("kept", "not persistent" if not sent else "a dead letter" if delivery.is_dead_letter else "")
