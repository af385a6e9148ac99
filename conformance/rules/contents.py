"""What a message carries (GEN-011)."""

from __future__ import annotations

from brokerproof.conformance.facts.contents import differences
from brokerproof.conformance.facts.facts import Facts
from brokerproof.conformance.facts.marks import KINDS
from brokerproof.conformance.facts.rows import Send
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
