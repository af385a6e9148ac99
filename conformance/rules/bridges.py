"""Networks of brokers: what a bridge does to what crosses it (GEN-170 to GEN-174, DLY-055)."""

from __future__ import annotations

from itertools import pairwise

from brokerproof.conformance.experiment.history import Arrive
from brokerproof.conformance.experiment.history import Send as SendEvent
from brokerproof.conformance.facts.absence import ended
from brokerproof.conformance.facts.deliveries import repeated
from brokerproof.conformance.facts.expiration import may_die
from brokerproof.conformance.facts.facts import Facts
from brokerproof.conformance.facts.marks import KINDS
from brokerproof.conformance.facts.network import Crossing, crossings
from brokerproof.conformance.facts.presence import rest_after
from brokerproof.conformance.facts.pressure import scarce_ns
from brokerproof.conformance.facts.rows import Session
from brokerproof.conformance.facts.spans import NS_PER_MS, ms
from brokerproof.conformance.rules.rule import Findings, broken, held, rule

#: What stays as it is, of a message that crosses: the same fields of its arrival and of its send.
KEPT = ("priority", "persistent", "body", "delivery_time_ms")


def acknowledged(facts: Facts) -> list[Crossing]:
    """Those that the near broker was told of, and knows."""
    return [crossing for crossing in facts.rows(crossings) if crossing.acknowledged() is not None]


def sent(facts: Facts) -> list[Crossing]:
    """Those that a bridge was seen to send on; of the first time that it was given them."""
    found: dict[str, Crossing] = {}
    for crossing in facts.rows(crossings):
        if crossing.sent is not None and crossing.sent.event.network:
            found.setdefault(crossing.sent.message, crossing)
    return list(found.values())


@rule("GEN-170", over=acknowledged, handles=KINDS, faults=("cut", "stall"))
def confirmed_before_it_is_acknowledged(_facts: Facts, crossing: Crossing) -> Findings:
    """A network bridge acknowledges a message to the near broker only when the far broker has confirmed it."""
    there, told = crossing.sent, crossing.acknowledged()
    assert told is not None
    if there is None:
        yield broken("unconfirmed", crossing.delivery, told, why="nothing was sent to the far broker")
    elif there.event.result == "fail":
        yield broken("unconfirmed", crossing.delivery, told, there, why="the far broker refused it")
    elif there.event.result == "ok" and told.t1 < there.event.t1:
        why = f"it was acknowledged at {ms(told.t1)}, and confirmed at {ms(there.event.t1)}"
        yield broken("unconfirmed", crossing.delivery, told, there, why=why)
    elif there.event.result == "ok":
        yield held("confirmed", "the bridge had broken before" if there.event.again else "")


@rule("GEN-171", over=sent, handles=KINDS, faults=("cut", "stall"))
def crosses_once(_facts: Facts, crossing: Crossing) -> Findings:
    """A message crosses a network bridge at most once, unless the bridge broke before the far broker's confirmation."""
    there, far = crossing.sent, crossing.far
    if there is None or there.event.again or there.event.result != "ok":
        return
    for copy in there.copies.values():
        for first, second in pairwise(copy.deliveries):
            if repeated(far, first, second):
                yield broken("twice", there, first, second, why="the bridge had not broken")
                return
    if ended(far):
        yield held("once")


def _stamps(event: Arrive | SendEvent) -> tuple[int, int]:
    return max(0, event.expiration_ms), event.timestamp_ms or 0


@rule("GEN-172", over=sent, handles=KINDS, faults=("clock",))
def stamps_cross_unchanged(facts: Facts, crossing: Crossing) -> Findings:
    """Expiration and timestamp of a message are the same instants when a network bridge has sent it on, whatever the
    clocks of both brokers say.
    """
    there, here = crossing.sent, crossing.delivery.event
    assert there is not None
    if _stamps(there.event) != _stamps(here):
        yield broken("moved", crossing.delivery, there, why=f"{_stamps(here)} became {_stamps(there.event)}")
        return
    near, far = facts.broker_clock, crossing.far.broker_clock
    skewed = near.known and far.known and _skew_ns(facts, crossing) > NS_PER_MS
    yield held("the-same", "an expiration, and the clocks differ" if here.expiration_ms > 0 and skewed else "")


def _skew_ns(facts: Facts, crossing: Crossing) -> int:
    at = crossing.delivery.event
    (near, _), (far, _) = (one.broker_clock.bounds_ns(at.t0, at.t1) for one in (facts, crossing.far))
    return abs(near - far)


@rule("GEN-173", over=sent, handles=KINDS)
def content_crosses_unchanged(_facts: Facts, crossing: Crossing) -> Findings:
    """A network bridge changes nothing of a message: body, priority, persistence, properties."""
    there, here = crossing.sent, crossing.delivery.event
    assert there is not None
    event = there.event
    before = {name: getattr(here, name) for name in KEPT if getattr(here, name) is not None}
    before |= {"kind": here.message_kind or "", "group": here.group or "", "headers": here.headers or {}}
    after = {name: getattr(event, name, None) for name in before}
    after |= {"kind": event.message_kind, "group": event.group, "headers": event.headers}
    changed = [f"{name} {value!r} became {after[name]!r}" for name, value in before.items() if value != after[name]]
    if changed:
        yield broken("changed", crossing.delivery, there, why="; ".join(changed))
    else:
        yield held("unchanged", "with properties" if here.headers else "")


def publications(facts: Facts) -> list[Crossing]:
    """Publications with a delay that a proxy subscription got, and the far broker confirmed."""
    return [
        one
        for one in facts.rows(sent)
        if one.delivery.send.delayed and one.delivery.dest.topic and one.sent is not None and one.sent.confirmed
    ]


@rule("DLY-055", over=publications, handles=KINDS, faults=("cut", "stall"))
def fanned_out_when_it_has_crossed(_facts: Facts, crossing: Crossing) -> Findings:
    """A publication with a delay that matched a proxy subscription crosses when its delay is over, is not delayed once
    more, and goes to who is subscribed there then, also to who was not when it was sent.
    """
    there, far, began = crossing.sent, crossing.far, crossing.delivery.send
    if there is None or there.event.again or far.restarts:
        return
    late_ns = far.declared.lateness_ms * NS_PER_MS
    if scarce_ns(far, there.dest) <= there.event.t1 + late_ns:
        return
    for session in there.dest.sessions:
        if session.opened[1] >= there.event.t0 or not _takes_all(far, session, there.event.t1, late_ns):
            continue
        found = [one for copy in there.copies.values() for one in copy.deliveries if one.session is session]
        wait_ns = found[0].event.t0 - there.event.t1 if found else 0
        if not found and may_die(far, there):
            continue
        if not found:
            yield broken("missed", there, session, began, why=f"{session.name} was subscribed when it crossed")
        elif far.simulated and wait_ns >= max(began.event.delay_ms * NS_PER_MS, late_ns):
            yield broken("delayed-again", there, found[0], why=f"it came {ms(wait_ns)} after it had crossed")
        else:
            late = session.opened[0] > began.accepted[1]
            yield held("fanned-out", "to who came after the send" if late else "to who was there at the send")


def _takes_all(far: Facts, session: Session, since_ns: int, late_ns: int) -> bool:
    """Whether somebody was there long enough after an instant, with room for everything, over a link that flowed. A
    real machine may be slow: there, until nothing moved any more.
    """
    event, leave = session.event, session.leave
    if event is None or event.no_local or event.selector or session.wild or not session.known:
        return False
    until_ns = since_ns + late_ns
    there = leave is None and not session.end
    if leave is not None:
        there = leave.t0 > until_ns and (far.simulated or leave.t0 >= rest_after(far, since_ns))
    return there and session.least > len(far.sends) and not session.client.stalled(session.opened[0], until_ns)


def answered_in_time(facts: Facts) -> list[Crossing]:
    """Those that the far broker has answered, whose bridge was there to the end and had time enough."""
    end = facts.phases.get("end")
    if end is None or not ended(facts):
        return []
    last_ns = end.t0 - facts.declared.lateness_ms * NS_PER_MS
    found: list[Crossing] = []
    for one in facts.rows(crossings):
        there = one.sent.event if one.sent is not None else None
        if there is not None and there.result != "unknown" and there.t1 <= last_ns and not one.delivery.session.end:
            found.append(one)
    return found


@rule("GEN-174", over=answered_in_time, handles=KINDS, faults=("cut", "stall"))
def carries_on(_facts: Facts, crossing: Crossing) -> Findings:
    """A network bridge settles with the near broker what the far broker has answered."""
    if crossing.delivery.settlement is None:
        yield broken("stuck", crossing.delivery, why="it was never settled")
    else:
        yield held("settled")
