"""What a time-stamping broker does to timestamp and expiration, and that any other leaves them alone (TSP-001 to
TSP-012). The rule itself is ``facts/stamping.py``; the broker's clock at acceptance lies within bounds.
"""

from __future__ import annotations

from brokerproof.conformance.experiment.history import Arrive
from brokerproof.conformance.facts.deliveries import at_home, is_own_letter
from brokerproof.conformance.facts.facts import Facts
from brokerproof.conformance.facts.managed import may_be_capped
from brokerproof.conformance.facts.marks import KINDS
from brokerproof.conformance.facts.rows import Delivery, Send
from brokerproof.conformance.facts.spans import NS_PER_MS
from brokerproof.conformance.facts.stamped import Stamped, is_plain, is_scheduled, stamped
from brokerproof.conformance.facts.stamping import INT64_MAX, documented_ms, ttl_ms
from brokerproof.conformance.rules.rule import Findings, broken, held, rule, unsure

#: If the broker's clock is known no better than this at acceptance, a kept timestamp cannot be told from a replaced
#: one.
WIDE_MS = 1000


def arrivals(facts: Facts) -> list[Stamped]:
    """Those of messages whose producer did not disable its timestamp, but for dead letters."""
    found = [row for row in facts.rows(stamped) if not row.delivery.is_dead_letter]
    return [row for row in found if row.send.event.timestamp_ms is None or row.send.event.timestamp_ms > 0]


def touched(facts: Facts) -> list[Stamped | Delivery]:
    """Those that the broker certainly had to stamp; any, if its clock is not known."""
    if facts.declared.timestamping is not None and not facts.broker_clock.known:
        return [delivery for delivery in facts.deliveries if is_plain(facts, delivery)]
    found: list[Stamped | Delivery] = []
    for row in facts.rows(arrivals):
        capped = row.send.event.expiration_ms > 0 and row.divided()
        if row.taken.acts() and not row.unborn() and not capped:
            found.append(row)
    return found


@rule("TSP-001", over=touched, faults=("clock",))
def brokers_time(_facts: Facts, row: Stamped | Delivery) -> Findings:
    """A time-stamping broker replaces the timestamp of every message that it touches by its own time at the moment of
    acceptance.
    """
    if isinstance(row, Delivery):
        yield unsure(row.send, row, why="the broker's clock was never read")
        return
    taken, event, sent = row.taken, row.delivery.event, row.send.event
    if not taken.shown(event.timestamp_ms):
        if row.spec.future_only and sent.expiration_ms <= 0 and event.timestamp_ms == sent.timestamp_ms:
            return  # kept, as the plug-in's page says and ActiveMQ does not; TSP-011
        off_ms = max(taken.low_ms - event.timestamp_ms, event.timestamp_ms - taken.high_ms)
        yield broken("other-time", row.send, row.delivery, why=taken.text(), slack_ns=-off_ms * NS_PER_MS)
    elif event.timestamp_ms == sent.timestamp_ms and taken.high_ms - taken.low_ms > WIDE_MS:
        if sent.result == "ok":  # otherwise nobody knows when it was taken over: no instance
            width_ns = (taken.high_ms - taken.low_ms) * NS_PER_MS
            yield unsure(row.send, row.delivery, why="it may have been replaced by the same", width_ns=width_ns)
    else:
        yield held("broker-time", taken.skew)


def living(facts: Facts) -> list[Stamped]:
    """Arrivals that had to be stamped, of messages with a time to live that fits."""
    found: list[Stamped] = []
    for row in facts.rows(touched):
        if isinstance(row, Delivery):
            break
        event = row.send.event
        if event.expiration_ms <= 0 or event.timestamp_ms is None:
            continue
        if row.taken.high_ms + ttl_ms(row.spec, event.timestamp_ms, event.expiration_ms) <= INT64_MAX:
            found.append(row)
    return found


def _lives(row: Stamped) -> tuple[int, int, int]:
    """Times to live (ms): as it was asked for, as the rule makes it, as it arrived."""
    sent, event = row.send.event, row.delivery.event
    sent_ms = sent.timestamp_ms or 0
    capped_ms = ttl_ms(row.spec, sent_ms, sent.expiration_ms)
    return sent.expiration_ms - sent_ms, capped_ms, event.expiration_ms - event.timestamp_ms


def _other_life(row: Stamped, outcome: str, lived_ms: int, wanted_ms: int) -> Findings:
    why = f"it has {lived_ms} ms to live instead of {wanted_ms} ms"
    yield broken(outcome, row.send, row.delivery, why=why, slack_ns=-abs(lived_ms - wanted_ms) * NS_PER_MS)


@rule("TSP-002", over=living, faults=("clock",))
def life_preserved(_facts: Facts, row: Stamped) -> Findings:
    """Time-stamping preserves the time to live: expiration minus timestamp is what the producer sent, unless a ceiling
    caps it.
    """
    asked_ms, capped_ms, lived_ms = _lives(row)
    if lived_ms != capped_ms and row.spec.ttl_ceiling_ms <= 0:
        yield from _other_life(row, "altered", lived_ms, capped_ms)
    elif lived_ms == capped_ms == asked_ms:
        yield held("preserved", row.taken.skew)


@rule("TSP-004", over=living, faults=("clock",))
def life_capped(_facts: Facts, row: Stamped) -> Findings:
    """With a ttlCeiling, a time to live above it becomes the ceiling, and one at or below it stays as it was."""
    if row.spec.ttl_ceiling_ms <= 0:
        return
    asked_ms, capped_ms, lived_ms = _lives(row)
    if lived_ms != capped_ms:
        yield from _other_life(row, "not-capped", lived_ms, capped_ms)
    else:
        yield held("capped", f"a time to live {'above' if asked_ms > capped_ms else 'at or below'} the ceiling")


def endless(facts: Facts) -> list[Stamped]:
    """Arrivals that had to be stamped, of messages without an expiration."""
    found = [row for row in facts.rows(touched) if isinstance(row, Stamped)]
    return [row for row in found if row.send.event.expiration_ms <= 0]


@rule("TSP-005", over=endless, faults=("clock",))
def override(_facts: Facts, row: Stamped) -> Findings:
    """With a zeroExpirationOverride a message without expiration gets the broker's time plus the override, capped by
    the ceiling; without an override it stays without expiration.
    """
    taken, spec, event = row.taken, row.spec, row.delivery.event
    wanted_ms = ttl_ms(spec, 0, 0)
    if wanted_ms <= 0:
        if event.expiration_ms <= 0:
            yield held("override", "no override was configured")
        else:
            yield broken("other", row.send, row.delivery, why="no override was configured")
        return
    counted = event.expiration_ms - event.timestamp_ms == wanted_ms or event.timestamp_ms == row.send.event.timestamp_ms
    if counted and taken.shown(event.expiration_ms - wanted_ms):
        capped = 0 < spec.ttl_ceiling_ms < spec.zero_expiration_override_ms
        yield held("override", "the ceiling capped the override" if capped else "the override was applied")
    else:
        yield broken("other", row.send, row.delivery, why=f"{taken.text()}, the override is {wanted_ms} ms")


# -- futureOnly


def future(facts: Facts) -> list[Stamped]:
    """Arrivals from a broker that is to move stamps into the future only."""
    spec = facts.declared.timestamping
    return facts.rows(arrivals) if spec is not None and spec.future_only else []


@rule("TSP-003", over=future, faults=("clock",))
def not_lowered(_facts: Facts, row: Stamped) -> Findings:
    """Under futureOnly the broker never lowers an expiration, except where a ceiling caps its time to live."""
    sent, event, before = row.send.event, row.delivery.event, row.before
    if sent.expiration_ms <= 0:
        return
    least_ms = sent.expiration_ms
    if row.spec.ttl_ceiling_ms > 0:
        # Without a timestamp of its own the time to live is not known: nothing is claimed.
        least_ms = 0 if sent.timestamp_ms is None else min(least_ms, sent.timestamp_ms + row.spec.ttl_ceiling_ms)
    if before is not None:
        least_ms = max(least_ms, before.event.expiration_ms)
    slack_ns = (event.expiration_ms - least_ms) * NS_PER_MS
    if event.expiration_ms <= 0 or slack_ns >= 0:
        yield held("not-lowered", row.taken.skew, slack_ns=max(0, slack_ns))
    else:
        earlier = () if before is None else (before,)
        yield broken("lowered", row.send, *earlier, row.delivery, why=f"it had {least_ms} before", slack_ns=slack_ns)


@rule("TSP-010", over=future, faults=("clock",))
def not_later_is_untouched(_facts: Facts, row: Stamped) -> Findings:
    """Under futureOnly a message whose time to live no ceiling caps, and whose recomputed expiration is not later than
    the one it came with, arrives untouched, timestamp included.
    """
    sent, taken = row.send.event, row.taken
    if sent.timestamp_ms is None or sent.expiration_ms <= 0 or row.divided() or taken.acts() is not False:
        return
    if _is_untouched(row.delivery):
        yield held("untouched", _again(row.delivery))
        yield held("untouched", taken.skew)
        if sent.timestamp_ms == taken.high_ms == taken.low_ms:
            yield held("untouched", "both clocks showed the same millisecond")
    else:
        yield broken("changed", row.send, row.delivery, why=taken.text())


@rule("TSP-011", over=future, faults=("clock",))
def not_moved_back(_facts: Facts, row: Stamped) -> Findings:
    """Under futureOnly the timestamp of a message without expiration is not moved backwards."""
    sent, event = row.send.event, row.delivery.event
    if sent.timestamp_ms is None or sent.expiration_ms > 0:
        return
    slack_ns = (event.timestamp_ms - sent.timestamp_ms) * NS_PER_MS
    if slack_ns >= 0:
        yield held("not-moved-back", row.taken.skew, slack_ns=slack_ns)
    else:
        yield broken("moved-back", row.send, row.delivery, why=row.taken.text(), slack_ns=slack_ns)


@rule("TSP-012", over=future, faults=("clock",))
def future_is_capped(_facts: Facts, row: Stamped) -> Findings:
    """ttlCeiling applies under futureOnly as well."""
    sent, taken, shown_ms = row.send.event, row.taken, row.delivery.event.expiration_ms
    if sent.timestamp_ms is None or sent.expiration_ms <= 0 or not row.divided():
        return
    low_ms = documented_ms(row.spec, sent.timestamp_ms, sent.expiration_ms, taken.low_ms)
    high_ms = documented_ms(row.spec, sent.timestamp_ms, sent.expiration_ms, taken.high_ms)
    if high_ms > INT64_MAX:
        return  # the sum does not fit; the expiration stays
    why = f"{taken.text()}, so the ceiling ends at {high_ms}"
    if shown_ms > high_ms:
        yield broken("not-capped", row.send, row.delivery, why=why, slack_ns=(high_ms - shown_ms) * NS_PER_MS)
    elif shown_ms <= low_ms or high_ms - low_ms <= WIDE_MS:
        yield held("capped", taken.skew)
    elif sent.result == "ok":  # otherwise nobody knows when it was taken over: no instance
        yield unsure(row.send, row.delivery, why=why, width_ns=(high_ms - low_ms) * NS_PER_MS)


# -- what is left alone


def _is_untouched(delivery: Delivery) -> bool:
    sent_ms = delivery.send.event.timestamp_ms
    return _lives_as_sent(delivery) and (sent_ms is None or sent_ms == delivery.event.timestamp_ms)


def _lives_as_sent(delivery: Delivery) -> bool:
    sent_ms, came_ms = delivery.send.event.expiration_ms, delivery.event.expiration_ms
    return came_ms == sent_ms or (came_ms <= 0 and sent_ms <= 0)


def _again(delivery: Delivery) -> str:
    if delivery.event.redelivered:
        return "a message was delivered again"
    return "a message with an expiration was delivered" if delivery.send.event.expiration_ms > 0 else ""


def _left_alone(delivery: Delivery) -> Findings:
    if _is_untouched(delivery):
        yield held("untouched", _again(delivery))
    else:
        yield broken("changed", delivery.send, delivery)


def disabled(facts: Facts) -> list[Stamped]:
    """Arrivals of messages whose producer disabled its timestamp."""
    found = [row for row in facts.rows(stamped) if not row.delivery.is_dead_letter]
    told = [row for row in found if row.send.event.timestamp_ms is not None and not _is_given_up(row.send)]
    return [row for row in told if (row.send.event.timestamp_ms or 0) <= 0]


def _is_given_up(send: Send) -> bool:
    """Whether its library may have stamped it after it had told of it: nobody waited for the end of the send."""
    return send.event.result == "unknown" and not send.event.timestamp_ms


@rule("TSP-006", over=disabled, faults=("clock",))
def disabled_is_untouched(_facts: Facts, row: Stamped) -> Findings:
    """A message whose producer disabled its timestamp (0 or less) keeps both timestamp and expiration."""
    return _left_alone(row.delivery)


def unstamped(facts: Facts) -> list[Delivery]:
    """Arrivals from a broker that does not stamp."""
    if facts.declared.timestamping is not None:
        return []
    found: list[Delivery] = []
    for copy in facts.copies:
        if not (is_scheduled(copy.send) or _is_given_up(copy.send) or may_be_capped(facts, copy.send.event)):
            found += [one for one in copy.deliveries if at_home(one) and not is_own_letter(one)]
    return found


@rule("TSP-007", over=unstamped, handles=KINDS, faults=("clock",))
def others_leave_stamps_alone(_facts: Facts, delivery: Delivery) -> Findings:
    """A broker without time-stamping delivers timestamp and expiration as they were sent."""
    # "No timestamp" (0) is a hint (Jakarta Messaging 3.1, 3.4.4): who ignores it fills it in.
    filled = delivery.send.event.timestamp_ms == 0 and delivery.event.timestamp_ms
    if not (filled and _lives_as_sent(delivery)):
        yield from _left_alone(delivery)


# -- dead letters, and messages that were born dead


def stamped_dead_letters(facts: Facts) -> list[Stamped]:
    """Arrivals of dead letters."""
    return [row for row in facts.rows(stamped) if row.delivery.is_dead_letter]


@rule("TSP-008", over=stamped_dead_letters, faults=("clock",))
def dead_letters_keep_stamps(_facts: Facts, row: Stamped) -> Findings:
    """A dead letter made by the broker is not stamped again: it keeps the timestamp that the message had on its queue
    and gets no expiration from an override.
    """
    event, before = row.delivery.event, row.before
    kept = _may_have_had(row, event) if before is None else event.timestamp_ms == before.event.timestamp_ms
    if kept and not (row.spec.zero_expiration_override_ms > 0 and event.expiration_ms > 0):
        yield held("not-stamped", row.taken.skew)
    else:
        earlier = () if before is None else (before,)
        yield broken("stamped-again", row.send, *earlier, row.delivery, why=row.taken.text())


def _may_have_had(row: Stamped, letter: Arrive) -> bool:
    """Whether a message that nobody got may have had this timestamp on its queue."""
    sent_ms, acts = row.send.event.timestamp_ms, row.taken.acts()
    either = acts is None or row.divided()
    if (acts is False or either) and letter.timestamp_ms == sent_ms:
        return True
    return (acts is True or either or sent_ms is None) and row.taken.shown(letter.timestamp_ms)


def unborn(facts: Facts) -> list[Stamped]:
    """Arrivals of messages that were dead for their own producers, and that the broker stamps for certain, or not."""
    found = [row for row in facts.rows(stamped) if row.unborn() and (row.send.event.timestamp_ms or 0) > 0]
    return [row for row in found if row.taken.acts() is not None]


@rule("TSP-009", over=unborn, faults=("clock",))
def unborn_stays_dead(_facts: Facts, row: Stamped) -> Findings:
    """A message whose expiration is not later than its timestamp keeps its expiration; its timestamp becomes the
    broker's.
    """
    taken, sent, event, letter = row.taken, row.send.event, row.delivery.event, row.delivery.is_dead_letter
    right = taken.shown(event.timestamp_ms) if taken.acts() else event.timestamp_ms == sent.timestamp_ms
    if right and (letter or event.expiration_ms == sent.expiration_ms):
        yield held("expiration-kept", "it was dead-lettered" if letter else "it was delivered")
    else:
        yield broken("altered", row.send, row.delivery, why=taken.text())
