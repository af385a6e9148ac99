"""What the types of acknowledgements past the library do to counters and windows (INF-009, INF-015, INF-017, PRE-005).

``EFFECTS`` is the table: what a type takes off its consumer's list, and how that counts. Between two readings at rest
with nothing but one acknowledgement (and what is dispatched because of it) the difference of the counters is its
effect: removed from the lists = dispatched - in flight.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

from brokerproof.conformance.experiment.history import Acknowledge
from brokerproof.conformance.facts.facts import Facts
from brokerproof.conformance.facts.marks import KINDS
from brokerproof.conformance.facts.policy import surely_believes_clients
from brokerproof.conformance.facts.pressure import pressed
from brokerproof.conformance.facts.rows import Reading, Session, Window
from brokerproof.conformance.facts.tally import is_crowded
from brokerproof.conformance.facts.widening import Widening, widenings
from brokerproof.conformance.rules.rule import Findings, broken, held, rule

#: Type -> (does it take its messages off the list, and do they count as dequeued; as expired).
EFFECTS: Final[dict[str, tuple[bool, bool]]] = {
    "delivered": (False, False),
    "poison": (True, False),
    "standard": (True, False),
    "redelivered": (False, False),
    "individual": (True, False),
    "unmatched": (False, False),
    "expired": (True, True),
}


def around_acknowledgements(facts: Facts) -> list[Reading]:
    """Readings at rest of destinations at which one acknowledgement was all that happened since the reading before."""
    if not facts.acknowledges:
        return []
    found = [one for one in facts.readings if one.at_rest and one.ledger.act is not None and not one.ledger.stirred]
    found = [one for one in found if not one.ledger.unaccounted]  # what an operator took may have been on its way
    return [one for one in found if one.base is not None and facts.tally.is_calm(one.destination, one)]


def _differences(reading: Reading) -> tuple[int, int, int] | None:
    """What was removed from the lists, dequeued, and expired since the reading before; None: it was not read."""
    after, before = reading.event, reading.base.event if reading.base is not None else reading.event
    rises: list[int] = []
    for name in ("dispatched", "in_flight", "dequeued", "expired"):
        one, other = getattr(before, name), getattr(after, name)
        if one is None or other is None:
            return None
        rises.append(other - one)
    return rises[0] - rises[1], rises[2], rises[3]


def _effect(reading: Reading, act: Acknowledge, outcome: str, situation: str = "") -> Findings:
    takes, expires = EFFECTS[act.type]
    count = len(act.messages) if takes and not act.wrong_end else 0
    found, wanted = _differences(reading), (count, count, count if expires else 0)
    if found is None or reading.base is None or act.result == "unknown":
        return
    if found != wanted or (act.wrong_end and act.result == "ok"):
        end = " with a last message that does not exist" if act.wrong_end else ""
        said = f"{act.type.upper()} of {len(act.messages)} by {act.consumer}{end} ({act.result})"
        why = f"{said}: removed, dequeued, expired {found}; wanted {wanted}"
        yield broken("otherwise", reading.base, act, reading, why=why)
    elif act.result == "ok" or act.wrong_end:
        yield held(outcome, situation)


def _is_single(act: Acknowledge, reading: Reading) -> bool:
    return act.type == "individual" and act.open_start and reading.destination.topic


@rule("INF-009", over=around_acknowledgements, handles=KINDS)
def types_do_what_they_say(facts: Facts, reading: Reading) -> Findings:
    """Each type of acknowledgement changes the counters as its definition says, for one message and for a range."""
    act = reading.ledger.act
    if act is None or act.wrong_end or _is_single(act, reading):
        return
    if act.type != "expired" or surely_believes_clients(facts.declared, simulated=facts.simulated):
        yield from _effect(reading, act, "as-defined", act.type + (" of a range" if len(act.messages) > 1 else ""))


@rule("INF-015", over=around_acknowledgements, handles=KINDS)
def individual_is_one(_facts: Facts, reading: Reading) -> Findings:
    """On a non-durable topic an individual acknowledgement settles one message, not everything before it."""
    act = reading.ledger.act
    if act is not None and not act.wrong_end and _is_single(act, reading):
        yield from _effect(reading, act, "as-defined")


@rule("INF-017", over=around_acknowledgements, handles=KINDS)
def wrong_end_has_no_effect(_facts: Facts, reading: Reading) -> Findings:
    """An acknowledgement whose range has a wrong end is refused without effect, whatever its type."""
    act = reading.ledger.act
    if act is not None and act.wrong_end:
        yield from _effect(reading, act, "no-effect")


def widening(facts: Facts) -> list[Session]:
    """Consumers of queues that reported messages DELIVERED, past their library, and take any message."""
    names = {event.consumer: True for event in facts.acknowledges if event.type == "delivered"}
    found = [facts.sessions[name] for name in names if name in facts.sessions]
    plain = [one for one in found if one.known and one.prefetch and not one.selective and not one.wild]
    return [session for session in plain if not session.dest.topic and session.ack == "individual"]


@rule("PRE-005", over=widening, handles=KINDS)
def delivered_opens_slots(facts: Facts, session: Session) -> Findings:
    """A DELIVERED acknowledgement of c messages opens exactly c more slots, and settlements close them again."""
    history, dest = widenings(facts, session), session.dest
    seqs = [one.seq for one in history]
    first = next((event.seq for event in facts.acknowledges if event.consumer == session.name), 0)
    for reading in dest.readings:
        window = next((one for one in reading.windows if one.session is session), None)
        if window is None or window.doubted or reading.event.seq < first or window.held >= dest.applied.page:
            continue
        if not pressed(facts, dest, reading) and facts.tally.is_calm(dest, reading) and not reading.ledger.disturbed:
            yield from _slots(facts, reading, window, history[bisect_left(seqs, reading.event.seq) - 1])


def _slots(facts: Facts, reading: Reading, window: Window, now: Widening) -> Findings:
    if now.extension is None:
        return
    slots, event = window.session.prefetch + now.extension, reading.event
    why = f"it is widened by {now.extension} and holds {window.held}"
    if window.held > slots:
        yield broken("too-many", window.session, reading, why=why)
    elif window.held == slots:
        yield held("exact", "it was widened" if now.extension else "it was widened, and is no longer")
    elif event.size is not None and event.in_flight is not None and not event.scheduled:
        waiting = event.size - event.in_flight - now.discarded
        if waiting > 0 and not is_crowded(facts, reading):
            yield broken("too-few", window.session, reading, why=f"{why}, and {waiting} wait")
