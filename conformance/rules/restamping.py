"""Time-stamping where it must not act, cannot, acts again, or comes first (TSP-013 to TSP-016)."""

from __future__ import annotations

from brokerproof.conformance.facts.absence import drained, maybe_swallowed
from brokerproof.conformance.facts.deliveries import may_be_given_up
from brokerproof.conformance.facts.expiration import Death, alive
from brokerproof.conformance.facts.facts import Facts
from brokerproof.conformance.facts.marks import KINDS, RESTART
from brokerproof.conformance.facts.pressure import scarce
from brokerproof.conformance.facts.rows import Copy, Delivery
from brokerproof.conformance.facts.stamped import is_plain, is_scheduled, taken_ms
from brokerproof.conformance.facts.stamping import INT64_MAX
from brokerproof.conformance.rules.rule import Findings, broken, held, rule


def stamped_sends(facts: Facts) -> list[Delivery]:
    """Arrivals, but for dead letters, of confirmed sends with a timestamp, from a broker that stamps."""
    if facts.declared.timestamping is None or not facts.broker_clock.known:
        return []
    found: list[Delivery] = []
    for delivery in facts.deliveries:
        event = delivery.send.event
        if event.result == "ok" and (event.timestamp_ms or 0) > 0 and not delivery.is_dead_letter:
            found.append(delivery)
    return found


def bridged(facts: Facts) -> list[Delivery]:
    """Those that a network bridge sent."""
    return [
        delivery for delivery in facts.rows(stamped_sends) if delivery.send.event.network and is_plain(facts, delivery)
    ]


@rule("TSP-013", over=bridged, handles=KINDS, faults=("clock",))
def bridged_as_configured(facts: Facts, delivery: Delivery) -> Findings:
    """Messages that came over a network bridge are stamped only if processNetworkMessages is set."""
    spec, sent, event = facts.declared.timestamping, delivery.send.event, delivery.event
    assert spec is not None
    low_ms, high_ms = taken_ms(facts, delivery.send, sent)
    if not spec.process_network_messages:
        if event.timestamp_ms == sent.timestamp_ms and max(0, event.expiration_ms) == max(0, sent.expiration_ms):
            yield held("as-configured", "left alone")
        else:
            yield broken("stamped", delivery.send, delivery)
    elif low_ms <= event.timestamp_ms <= high_ms:
        yield held("as-configured", "processed")
    elif not spec.future_only:
        yield broken("not-stamped", delivery.send, delivery, why=f"the broker's clock read {low_ms} to {high_ms}")


def longest(facts: Facts) -> list[Delivery]:
    """Those whose expiration cannot be moved to the broker's time."""
    spec = facts.declared.timestamping
    if spec is None or spec.future_only or spec.ttl_ceiling_ms > 0:
        return []
    found: list[Delivery] = []
    for delivery in facts.rows(stamped_sends):
        event = delivery.send.event
        if event.expiration_ms < INT64_MAX // 2 or event.network or not is_plain(facts, delivery):
            continue
        life_ms = event.expiration_ms - (event.timestamp_ms or 0)
        if taken_ms(facts, delivery.send, event)[0] + life_ms > INT64_MAX:
            found.append(delivery)
    return found


@rule("TSP-015", over=longest, handles=KINDS, faults=("clock",))
def overflow_leaves_expiration(_facts: Facts, delivery: Delivery) -> Findings:
    """A time to live that overflows when the broker's time is added leaves the expiration unchanged."""
    if delivery.event.expiration_ms == delivery.send.event.expiration_ms:
        yield held("unchanged", "it overflowed")
    else:
        yield broken("changed", delivery.send, delivery)


def moved_lives(facts: Facts) -> list[Delivery]:
    """Arrivals of mortal messages elsewhere than where they were sent to."""
    spec = facts.declared.timestamping
    if spec is None or spec.future_only:
        return []
    found: list[Delivery] = []
    for delivery in facts.rows(stamped_sends):
        send = delivery.send
        if delivery.dest is delivery.copy.dest or is_scheduled(send) or send.event.network or send.event.tx is not None:
            continue
        life_ms = send.event.expiration_ms - (send.event.timestamp_ms or 0)
        if life_ms > 0 and not 0 < spec.ttl_ceiling_ms < life_ms:
            found.append(delivery)
    return found


@rule("TSP-016", over=moved_lives, handles=KINDS, faults=("clock",))
def moved_as_declared(facts: Facts, delivery: Delivery) -> Findings:
    """Moving or retrying a message by management restarts its time to live, or does not, as declared."""
    spec, sent, event = facts.declared.timestamping, delivery.send.event, delivery.event
    here = delivery.dest.name
    moves = [m for m in delivery.dest.purges if m.op == "move" and m.to == here and sent.t1 <= m.t0 <= event.t1]
    if len(moves) != 1 or spec is None or sent.expiration_ms == INT64_MAX:
        return  # (or a stamp would overflow)
    move = moves[0]
    first = taken_ms(facts, delivery.send, sent)
    second = facts.broker_clock.bounds_ms(move.t0, move.t1, move.seq, move.seq)
    if first[0] <= second[1] and second[0] <= first[1]:
        return  # the clock says the same of both
    low_ms, high_ms = second if spec.restamp_moved else first
    lived = event.expiration_ms - event.timestamp_ms == sent.expiration_ms - (sent.timestamp_ms or 0)
    if lived and low_ms <= event.timestamp_ms <= high_ms:
        yield held("as-declared", "restarted" if spec.restamp_moved else "kept")
    else:
        why = f"declared is a timestamp of {low_ms} to {high_ms}"
        yield broken("otherwise", delivery.send, move, delivery, why=why)


def rescued(facts: Facts) -> list[Copy]:
    """Copies on queues of messages whose stamps called them dead when they came, though they had a life."""
    found: list[Copy] = []
    clock = facts.broker_clock
    if facts.declared.timestamping is None or not clock.known:
        return found
    for copy in facts.copies:
        event = copy.send.event
        if copy.dest.topic or is_scheduled(copy.send) or not 0 < (event.timestamp_ms or 0) < event.expiration_ms:
            continue
        death = facts.death(copy.send)
        if death is None or not death.mortal:
            continue
        if clock.bounds_ms(death.taken[0], death.taken[1], event.seq, death.seq)[0] > event.expiration_ms:
            found.append(copy)
    return found


@rule("TSP-014", over=rescued, handles=KINDS, faults=("clock",))
def stamped_before_it_is_looked_at(facts: Facts, copy: Copy) -> Findings:
    """Time-stamping precedes the arrival check: a message that is expired by its stamps but not by its time to live is
    rescued.
    """
    death, event = facts.death(copy.send), copy.send.event
    if death is None:
        return
    if copy.deliveries:
        yield held("rescued", "its own stamps called it dead")
    elif copy.dead_letters:
        letter = copy.dead_letters[0]
        high_ns = facts.broker_clock.bounds_ns(event.t0, letter.event.t1, event.seq, letter.event.seq)[1]
        if high_ns < death.low_ns and not may_be_given_up(copy):
            yield broken("dead-on-arrival", copy, letter, why="by the broker's clock it was alive")
    elif _owed(facts, copy, death):
        yield broken("dead-on-arrival", copy, why="nobody got it, and it lives longer than the run")


def _owed(facts: Facts, copy: Copy, death: Death) -> bool:
    """Whether somebody must have got it by the end."""
    event, dest = copy.send.event, copy.dest
    if not copy.send.confirmed or not drained(facts, dest) or scarce(facts, event.t0) or copy.marks & RESTART:
        return False
    if any(operation.dest == dest.name and event.t0 <= operation.t1 for operation in dest.purges):
        return False
    return alive(facts, death, event.t0, facts.end_ns, event.seq) and not maybe_swallowed(facts, copy)
