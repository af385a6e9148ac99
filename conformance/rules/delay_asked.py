"""Delivery delay: what a sender may ask for, and what both ends read of it (DLY-013, DLY-014, DLY-029 to DLY-031)."""

from __future__ import annotations

from brokerproof.conformance.facts.delays import Awaited
from brokerproof.conformance.facts.facts import Facts
from brokerproof.conformance.facts.marks import KINDS
from brokerproof.conformance.facts.rows import Delivery, Send
from brokerproof.conformance.facts.spans import NS_PER_MS
from brokerproof.conformance.rules.delay import FAULTS, delayed, in_time
from brokerproof.conformance.rules.rule import Findings, broken, held, rule


def timed(facts: Facts) -> list[Delivery]:
    """Arrivals of messages whose producer read, or had set, a delivery time."""
    return [
        delivery
        for send in facts.sends.values()
        if send.event.delivery_time_ms is not None or send.event.preset_ms is not None
        for copy in send.copies.values()
        for delivery in copy.deliveries
        if delivery.dest is copy.dest
    ]


def _fits(facts: Facts, send: Send, delivery_ms: int) -> bool | None:
    """Whether a delivery time is what the sender's clock showed at the send plus the delay; None: nobody knows."""
    event, clock = send.event, facts.clock(send.event.host)
    if not clock.known:
        return None
    low, high = clock.bounds_ns(event.t0, event.t1, event.seq, event.seq)
    return low - NS_PER_MS < (delivery_ms - max(0, event.delay_ms)) * NS_PER_MS <= high


@rule("DLY-013", over=timed, handles=KINDS, faults=FAULTS)
def same_at_both_ends(facts: Facts, delivery: Delivery) -> Findings:
    """The delivery time that a receiver reads is the one that the sender read, and lies within the send plus the
    delay.
    """
    send, read_ms = delivery.send, delivery.event.delivery_time_ms
    sent_ms = send.event.delivery_time_ms
    unread = read_ms is None and not facts.simulated and delivery.session.client.via != "jms"
    if sent_ms is None or unread:  # only JMS has such a field; our own broker writes a property
        return
    fits = _fits(facts, send, sent_ms) if send.event.delay_ms > 0 else None
    if read_ms != sent_ms:
        yield broken("changed", send, delivery, why=f"the sender read {sent_ms}, the receiver {read_ms}")
    elif fits is False:
        yield broken("otherwise", send, delivery, why=f"{sent_ms} is not the time of the send plus the delay")
    else:
        yield held("as-sent", "the delay was added to the time of the send" if fits else "")


@rule("DLY-014", over=timed, handles=KINDS, faults=FAULTS)
def preset_is_overwritten(facts: Facts, delivery: Delivery) -> Findings:
    """A delivery time set by the client on the message is ignored and overwritten."""
    send, event = delivery.send, delivery.send.event
    preset_ms = event.preset_ms
    if preset_ms is None or event.deliver_at_ms is not None or _fits(facts, send, preset_ms) is not False:
        return
    if preset_ms in (delivery.event.delivery_time_ms, event.delivery_time_ms):
        yield broken("kept", send, delivery, why=f"its application had set {preset_ms}")
    else:
        yield held("ignored", "with a delay" if event.delay_ms else "without a delay")


def asked(facts: Facts) -> list[Send]:
    """Messages that were to wait, outside of transactions, and are known to be taken or refused."""
    return [send for send in facts.rows(delayed) if send.event.tx is None and (send.refused or send.confirmed)]


def _refused(send: Send, where: str) -> Findings:
    if send.refused:
        yield held("refused", "refused")
    else:
        yield broken("taken", send, why=f"{where} took it")


@rule("DLY-030", over=asked, handles=KINDS, faults=FAULTS)
def too_long_is_refused(facts: Facts, send: Send) -> Findings:
    """A delay beyond the declared maximum is refused, not truncated and not ignored."""
    if facts.declared.delay_support and 0 < facts.declared.delay_max_ms < send.event.delay_ms:
        yield from _refused(send, f"a broker that declares a maximum of {facts.declared.delay_max_ms} ms")


@rule("DLY-031", over=asked, handles=KINDS, faults=FAULTS)
def unsupported_is_refused(facts: Facts, send: Send) -> Findings:
    """A send with a delay that the broker does not support is refused; immediate delivery is a failure."""
    if not facts.declared.delay_support and send.event.delay_ms >= 0:  # a negative one may be none (DLY-029)
        yield from _refused(send, "a broker that declares to know no delays")


def negatives(facts: Facts) -> list[Send]:
    """Messages with a negative delay."""
    return [send for send in facts.rows(asked) if send.event.delay_ms < 0] if facts.declared.delay_support else []


@rule("DLY-029", over=negatives, handles=KINDS, faults=FAULTS)
def negative_never_wraps(facts: Facts, send: Send) -> Findings:
    """A negative delay is refused or taken as none, and never wraps."""
    due = facts.delays.due(send)
    if send.refused:
        yield held("refused", "refused")
    elif due is not None and not send.dest.topic:
        row = Awaited(due, send.dest, due.visible[1] + facts.declared.lateness_ms * NS_PER_MS)
        if facts.delays.await_it(row):
            yield from in_time(row, "taken-as-none", "taken as none", late="wrapped")
