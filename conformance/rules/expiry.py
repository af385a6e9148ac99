"""Expiry by the broker's clock, message by message: who gets it, what becomes of it, what its dead letter says.

A claim exists only where its premise is certain: a message that may or may not have been dead on arrival is no case of
EXP-001. That keeps programs that aim at the very millisecond from drowning in doubt. The lives of delayed messages
before their release are the delay's affair (DLY-006). Counters: ``expiry_counters.py``.
"""

from __future__ import annotations

from typing import Final

from brokerproof.conformance.experiment.destinations import DEAD_LETTERS
from brokerproof.conformance.experiment.history import Ack, Arrive, Nack
from brokerproof.conformance.facts.absence import drained, ended, unexplained
from brokerproof.conformance.facts.clock import NO_EVENT, RATE_PPM
from brokerproof.conformance.facts.contents import differences
from brokerproof.conformance.facts.dead_letters import maybe_rejected, names_another
from brokerproof.conformance.facts.deaths import (
    given_up,
    letter_is_due,
    otherwise_dead,
)
from brokerproof.conformance.facts.deliveries import moves
from brokerproof.conformance.facts.expiration import (
    Death,
    alive,
    dead,
    death_if,
    may_die,
    maybe_restamped,
)
from brokerproof.conformance.facts.facts import Facts
from brokerproof.conformance.facts.marks import KINDS, RESTART
from brokerproof.conformance.facts.presence import leaving_ns
from brokerproof.conformance.facts.resuming import begun, is_resumed
from brokerproof.conformance.facts.rows import DOUBTFUL, LATE, RETURNED, Copy, Delivery, Send
from brokerproof.conformance.facts.spans import NS_PER_HOUR, NS_PER_MS
from brokerproof.conformance.rules.rule import Finding, Findings, broken, held, rule, unsure
from brokerproof.conformance.rules.selecting import reasoned

CLOCKS: Final = ("clock", "stall")


def came_dead(facts: Facts) -> list[Send]:
    """Messages that were dead on arrival, or may have been: the broker's clock was never read."""
    deaths = [(send, facts.death(send)) for send in facts.dying if not send.delayed]
    return [send for send, death in deaths if death is None or death.dead_at_first]


def mortal_copies(facts: Facts) -> list[Copy]:
    """Their copies, on queues and of subscriptions."""
    return [copy for send in facts.dying for copy in send.copies.values()]


def mortal_on_queues(facts: Facts) -> list[Copy]:
    """Their copies on queues."""
    return [copy for copy in facts.rows(mortal_copies) if not copy.dest.topic and facts.death(copy.send) is not None]


def first_delivery(send: Send) -> Delivery | None:
    """The first that no operator explains, of the first copy that has one."""
    return next((copy.deliveries[0] for copy in send.copies.values() if copy.deliveries and not moves(copy)), None)


def unread(facts: Facts, send: Send) -> Finding:
    """Nothing can be said without the clock that decides."""
    return unsure(send, why=f"the clock of broker host {facts.broker!r} was never sampled")


@rule("EXP-001", over=came_dead, handles=KINDS, faults=CLOCKS)
def dead_on_arrival_is_not_delivered(facts: Facts, send: Send) -> Findings:
    """A message that has expired by the broker's clock when it arrives, after any time-stamping, is delivered to no
    consumer.
    """
    death = facts.death(send)
    if death is None:
        yield unread(facts, send)
        return
    got = first_delivery(send)
    if got is not None:
        low_ns = facts.broker_clock.bounds_ns(*death.taken, send.event.seq, death.seq)[0]
        why = f"{(low_ns - death.low_ns) // NS_PER_MS + 1} ms too late when the broker took it over"
        yield broken("delivered", send, got, why=why, slack_ns=death.high_ns - 1 - low_ns)
    elif "drain" in facts.phases:
        yield held("not-delivered", death.skew)


def immortals(facts: Facts) -> list[Copy]:
    """Copies of messages without an expiration that arrived, or are dead letters."""
    copies = [copy for copy in facts.copies if copy.deliveries or copy.dead_letters]
    return [copy for copy in copies if copy.dest.kind != "dead-letters" and _is_immortal(facts, copy.send)]


def _is_immortal(facts: Facts, send: Send) -> bool:
    """Whether a message that somebody saw cannot die, for certain."""
    if not may_die(facts, send):
        return not send.refused
    death = facts.death(send)
    return death is not None and not death.mortal


@rule("EXP-002", over=immortals, handles=KINDS, faults=CLOCKS, absence=True)
def without_expiration_it_lives(facts: Facts, copy: Copy) -> Findings:
    """A message without expiration (0 or less) never expires: it is delivered or stays, and is never dead-lettered as
    expired.
    """
    death = facts.death(copy.send) if copy.dead_letters else None
    if death is not None and not otherwise_dead(facts, copy, death):
        yield broken("dead-lettered", copy, copy.dead_letters[0], why="it has no expiration")
        return
    if not copy.deliveries:
        return
    period_ns = copy.dest.applied.expire_period_ms * NS_PER_MS
    outlived = 0 < period_ns < copy.deliveries[0].event.t0 - copy.send.event.t1
    yield held("delivered", "a message without expiration waited for longer than a sweep's period" if outlived else "")


def handed_out(facts: Facts) -> list[Delivery | Send]:
    """Deliveries of messages that die, and such messages that nobody got."""
    found: list[Delivery | Send] = []
    for send in facts.dying:
        if not send.delayed:
            copies = send.copies.values()
            if any(copy.deliveries for copy in copies):
                found += [delivery for copy in copies if not moves(copy) for delivery in copy.deliveries]
            else:
                found.append(send)
    return found


@rule("EXP-004", over=handed_out, handles=KINDS, faults=CLOCKS)
def the_dead_are_not_dispatched(facts: Facts, row: Delivery | Send) -> Findings:
    """A message that expired by the broker's clock while it was waiting is not dispatched afterwards, whether or not a
    sweep has met it.
    """
    send = row.send if isinstance(row, Delivery) else row
    death = facts.death(send)
    if death is None:
        yield unread(facts, send)
    elif isinstance(row, Send):
        if not death.dead_at_first and facts.dead_in_drain(send):
            there = any(session.opened[0] < facts.phases["drain"].t0 for session in send.dest.sessions)
            full = "a consumer's window was full, or it came late"
            yield held("alive-or-not-dispatched", full if there else "nobody was subscribed while the message lived")
    elif not death.dead_at_first:
        found = assigned(facts, row, death, "alive-or-not-dispatched", "dispatched-dead")
        event, client, lateness_ns = row.event, row.session.client, facts.declared.lateness_ms * NS_PER_MS
        if found is not None:
            yield found
        elif is_resumed(row):
            return
        elif dead(facts, death, event.t0 - lateness_ns, event.t1) and not client.stalled(row.assigned[0], event.t1):
            why = "it had been dead for long when it arrived over a link that was not stalled"
            yield unsure(send, row, why=why, width_ns=event.t1 - row.assigned[0])


def assigned(facts: Facts, delivery: Delivery, death: Death, ok: str, wrong: str) -> Finding | None:
    """Whether it lived when its delivery began; None: nobody knows."""
    from_ns, event = begun(delivery)
    low_ns = facts.broker_clock.bounds_ns(from_ns, event.t1, NO_EVENT, event.seq)[0]
    if low_ns >= death.high_ns:
        why = f"the broker's clock read {low_ns // NS_PER_MS} or more when it can have been assigned"
        return broken(wrong, delivery.send, delivery, why=why, slack_ns=death.high_ns - 1 - low_ns)
    if alive(facts, death, from_ns, event.t1, NO_EVENT, event.seq):
        return held(ok, slack_ns=death.low_ns - low_ns)
    return None


def died_unseen(facts: Facts, copy: Copy) -> bool:
    """Whether it died on its queue for certain, and nobody got it."""
    waited = not copy.deliveries and copy.send.confirmed and ended(facts) and facts.dead_in_drain(copy.send)
    return waited and unexplained(facts, copy, facts.dies(copy.send))


@rule("EXP-005", over=mortal_on_queues, handles=KINDS, faults=CLOCKS, absence=True)
def one_dead_letter(facts: Facts, copy: Copy) -> Findings:
    """An expired persistent message of a queue is copied to the dead-letter queue exactly once, without expiration and
    with its original destination; a non-persistent one is not, unless the broker is set to do so.
    """
    applied, letters = copy.dest.applied, copy.dead_letters
    if not letters and copy.deliveries:
        return
    persistent = copy.send.event.persistent
    kept = applied.keeps_dead_letter(persistent=persistent, expired=True)
    died = "a persistent message died" if persistent else "a non-persistent message died"
    if moves(copy):
        return
    if not letters:
        if not died_unseen(facts, copy):
            return
        if not kept:
            yield held("no-copy", died)
        elif letter_is_due(facts, copy):
            yield broken("missing", copy, why="it died on its queue, nobody got it, and it has no dead letter")
        return
    event = letters[0].event
    if not kept and maybe_rejected(copy):
        return
    if not kept or event.dest != (applied.own_dead_letters() or DEAD_LETTERS):
        yield broken("uninvited", copy, letters[0], why="the strategy keeps no such dead letter there")
    elif event.expiration_ms > 0 or event.original_dest is None or names_another(letters[0]):
        yield broken("wrong-fields", copy, letters[0])
    elif len(letters) > 1 and letters[1].event.redelivered is False and not _is_back(facts, *letters[:2]):
        yield broken("duplicate", copy, *letters[:2])
    else:
        yield held("one-copy", died)


def _is_back(facts: Facts, letter: Delivery, second: Delivery) -> bool:
    """Whether a dead letter came back from the consumer that had it, or may have, or died once more there. That it was
    written to a consumer that acknowledges nothing need not have been stored when the broker stopped.
    """
    session, between = letter.session, (letter.event.t0, second.event.t0)
    if isinstance(letter.settlement, Nack) or (session.auto and facts.marks.on(letter.dest.name, between) & RESTART):
        return True
    late = letter.state == LATE and session.ack != "auto"  # it had left when it got it
    doubtful = letter.state == DOUBTFUL and session.end != ""
    return late or doubtful or letter.state == RETURNED or not session.known


def dead_sends(facts: Facts) -> list[Send]:
    """Messages whose producers were answered, and that were dead on arrival; but for refusals that living ones met."""
    found: list[Send] = []
    living: dict[str, bool] = {}
    for send in facts.sends.values():
        if reasoned(send):
            continue
        if send.event.result != "fail":
            if send.event.result == "unknown" or not may_die(facts, send):
                continue
            death = facts.death(send)
        else:
            death = death_if(facts, send, (send.event.t0, send.event.t1), send.event.seq)
        waits = send.event.result == "ok" and send.delayed
        if death is not None and death.dead_at_first and not waits and send.dest.kind != "dead-letters":
            found.append(send)
        elif send.event.result == "fail":
            living[_refusal(send)] = True
    return [send for send in found if send.event.result == "ok" or _is_telling(send) or _refusal(send) not in living]


def _refusal(send: Send) -> str:
    return send.event.refusal or ""


def _is_telling(send: Send) -> bool:
    """Whether its refusal speaks of expiry."""
    return "expir" in _refusal(send).lower()


@rule("EXP-006", over=dead_sends, handles=KINDS, faults=CLOCKS, absence=True)
def sending_the_dead_does_not_fail(facts: Facts, send: Send) -> Findings:
    """The send of a message that is expired on arrival does not fail."""
    if send.event.result == "ok":
        death = facts.death(send)
        yield held("accepted", death.skew if death is not None else "")
    elif _is_telling(send):
        yield broken("failed", send)
    else:
        yield unsure(send, why="it was dead on arrival, and its refusal does not say why")


def under_future_only(facts: Facts) -> list[Delivery]:
    """Deliveries of messages that die, where the broker stamps what would die earlier, and its clock was read."""
    spec = facts.declared.timestamping
    if spec is None or not spec.future_only or not facts.broker_clock.known:
        return []
    return [row for row in facts.rows(handed_out) if isinstance(row, Delivery)]


@rule("EXP-010", over=under_future_only, handles=KINDS, faults=CLOCKS)
def future_only_bounds_a_life(facts: Facts, row: Delivery) -> Findings:
    """Under futureOnly a message is not delivered later, in elapsed time since its acceptance, than its time to live
    plus the lead that its producer's clock had over the broker's.
    """
    clock = facts.broker_clock
    send, (from_ns, event) = row.send, begun(row)
    sent, death = send.event, facts.dies(send)
    stamp_ms = sent.timestamp_ms
    if death.dead_at_first or sent.result != "ok" or sent.tx is not None or clock.jump_between(sent.t0, event.t1) < 0:
        return
    if stamp_ms is None or not 0 < stamp_ms < sent.expiration_ms:
        return
    lead_ms = max(0, stamp_ms - clock.bounds_ms(sent.t0, sent.t1, sent.seq, sent.seq)[0])
    limit_ns = (sent.expiration_ms - stamp_ms + lead_ms + 1) * NS_PER_MS
    least_ns, most_ns = from_ns - sent.t1, event.t1 - sent.t0
    why = f"its time to live and the producer's lead of {lead_ms} ms were over"
    if least_ns - least_ns * RATE_PPM // 1_000_000 >= limit_ns:
        yield broken("longer", send, row, why=why, slack_ns=limit_ns - least_ns)
    elif most_ns < limit_ns:
        yield held("within", death.skew, slack_ns=limit_ns - most_ns)
    elif (
        event.t0 - sent.t1 - facts.declared.lateness_ms * NS_PER_MS >= limit_ns
        and not row.session.client.stalled(from_ns, event.t1)
    ):  # fmt: skip
        yield unsure(send, row, why=why, width_ns=event.t1 - from_ns)


def with_their_own_end(facts: Facts) -> list[Copy]:
    """Copies on queues of messages that die, but for delayed ones that arrived with another expiration than they were
    sent with (DLY-006).
    """
    found: list[Copy] = []
    for copy in facts.rows(mortal_on_queues):
        asked_ms = copy.send.event.expiration_ms if copy.send.delayed else 0
        if not asked_ms or all(delivery.event.expiration_ms == asked_ms for delivery in copy.deliveries):
            found.append(copy)
    return found


@rule("EXP-012", over=with_their_own_end, handles=KINDS, faults=CLOCKS)
def what_died_with_its_consumer_stays_dead(facts: Facts, copy: Copy) -> Findings:
    """If a consumer leaves with messages that expired meanwhile, no other consumer receives them."""
    drain, end = facts.phases.get("drain"), facts.phases.get("end")
    if not copy.deliveries or copy.deliveries[0].state != RETURNED or drain is None or end is None or moves(copy):
        return
    first, death = copy.deliveries[0], facts.dies(copy.send)
    session = first.session
    from_ns = leaving_ns(session)
    if session.uncertain or any(delivery.settlement for delivery in copy.deliveries):
        return
    if not first.event.t1 <= from_ns < drain.t0 or not dead(facts, death, from_ns, end.t1):
        return
    later = next((delivery for delivery in copy.deliveries if delivery.session is not session), None)
    if later is None:
        if drained(facts, copy.dest):
            how = session.end in {"close", "drop", "kill"}
            yield held("to-nobody", f"its consumer left: {session.end}" if how else "")
    elif not later.session.client.stalled(copy.send.event.t0, later.event.t1):
        low_ns = facts.broker_clock.bounds_ns(from_ns, later.event.t1, NO_EVENT, later.event.seq)[0]
        slack_ns = death.high_ns - 1 - low_ns
        yield broken("handed-on", copy, first, later, why="it was dead when its consumer left", slack_ns=slack_ns)


def beside_local_time(facts: Facts) -> list[Copy]:
    """Copies of messages that die, at a broker whose local time is not UTC."""
    return facts.rows(mortal_copies) if facts.declared.zones.get(facts.broker) else []


@rule("EXP-029", over=beside_local_time, handles=KINDS, faults=CLOCKS, absence=True)
def zones_make_no_difference(facts: Facts, copy: Copy) -> Findings:
    """Time zones make no difference: a message lives and dies by instants, whatever the local time of the broker's
    host says.
    """
    death, clock = facts.death(copy.send), facts.broker_clock
    if death is None or copy.send.delayed or moves(copy):
        return
    zone_ns = facts.declared.zones[facts.broker] * NS_PER_HOUR
    way = f"the broker's local time was {'ahead of' if zone_ns > 0 else 'behind'} UTC"
    if copy.deliveries:
        delivery = copy.deliveries[0]
        from_ns, event = begun(delivery)
        low_ns, high_ns = clock.bounds_ns(from_ns, event.t1, NO_EVENT, event.seq)
        if is_resumed(delivery):
            return
    elif copy.dead_letters and not otherwise_dead(facts, copy, death):
        delivery = copy.dead_letters[0]
        event = delivery.event
        low_ns = clock.bounds_ns(event.t1, event.t1, event.seq, event.seq)[0]
        high_ns = clock.bounds_ns(copy.send.event.t0, event.t1, copy.send.event.seq, event.seq)[1]
    else:
        return
    lived, dead_by_zone = high_ns < death.low_ns, low_ns + zone_ns >= death.high_ns
    died, alive_by_zone = low_ns >= death.high_ns, high_ns + zone_ns < death.low_ns
    if (lived and dead_by_zone) or (died and alive_by_zone):
        if bool(copy.deliveries) == lived:
            yield held("by-instants", way)
        else:
            yield broken("by-local-time", copy, delivery, why=way)


def found_dead(facts: Facts) -> list[Copy]:
    """Copies that have dead letters, of messages that were to die."""
    return [copy for copy in facts.copies if copy.dead_letters and copy.send.mortal]


@rule("EXP-015", over=found_dead, handles=KINDS, absence=True)
def dead_letters_tell_when_and_why(facts: Facts, copy: Copy) -> Findings:
    """Dead letters of expired messages carry originalExpiration, dlqDeliveryFailureCause, timestamp, priority, body
    and properties as documented.
    """
    transacted = any(isinstance(d.settlement, Ack) and d.settlement.tx is not None for d in copy.deliveries)
    letters = [letter for letter in copy.dead_letters if letter.event.body is not None]
    if copy.send.event.body is None or transacted or not letters or given_up(copy):
        return
    for letter in letters:
        wrong = _faults(facts, copy.send, letter.event)
        if wrong:
            yield broken("incomplete", copy, letter, why=f"it has {', '.join(wrong)}")
            return
    yield held("complete", "a client had seen it expire" if copy.deliveries else "the broker found it")


def _faults(facts: Facts, send: Send, letter: Arrive) -> list[str]:
    """What is wrong with a dead letter, in words."""
    sent, expiration_ms = send.event, letter.original_expiration_ms
    stamped = send.delayed or maybe_restamped(facts, send)
    # That a group is told at all is GEN-011's.
    told = facts.simulated or bool(letter.group)
    wrong = [one for one in differences(facts, sent, letter) if told or not one.startswith("group ")]
    if not expiration_ms:
        wrong.append("no originalExpiration")
    elif not stamped and expiration_ms != sent.expiration_ms:
        wrong.append(f"originalExpiration {expiration_ms} instead of {sent.expiration_ms}")
    if expiration_ms and str(expiration_ms) not in (letter.cause or ""):
        wrong.append(f"cause {letter.cause!r}, which does not name {expiration_ms}")
    if not stamped and sent.timestamp_ms and letter.timestamp_ms != sent.timestamp_ms:
        wrong.append(f"timestamp {letter.timestamp_ms} instead of {sent.timestamp_ms}")
    return wrong


def sent_to_dead_letters(facts: Facts) -> list[Copy]:
    """What was sent to a dead-letter queue itself, with an expiration; not where its policy gives it one of its own."""
    sent = [copy for copy in facts.copies if copy.dest.kind == "dead-letters" and copy.send.event.expiration_ms > 0]
    return [copy for copy in sent if not copy.dest.applied.own_dead_letters()]


@rule("EXP-017", over=sent_to_dead_letters, handles=KINDS)
def no_dead_letter_of_a_dead_letter(facts: Facts, copy: Copy) -> Findings:
    """A message that expires on the dead-letter queue itself disappears without a second copy."""
    sent = copy.send.event
    if maybe_restamped(facts, copy.send) or given_up(copy):
        return
    for delivery in [*copy.deliveries, *copy.dead_letters]:
        if delivery.event.expiration_ms != sent.expiration_ms or delivery.event.original_dest:
            yield broken("copied", copy, delivery)
            return
    if not copy.deliveries and copy.send.confirmed and drained(facts, copy.dest) and facts.dead_in_drain(copy.send):
        yield held("gone", "nobody took it in time")


def transacted(facts: Facts) -> list[Send]:
    """Messages that die, and were sent in a transaction that was committed."""
    return [send for send in facts.dying if send.transaction is not None and send.confirmed and not send.delayed]


@rule("EXP-022", over=transacted, handles=KINDS, faults=CLOCKS)
def dead_before_its_commit(facts: Facts, send: Send) -> Findings:
    """A transacted send that expires before the commit is delivered to nobody."""
    death, end = facts.death(send), facts.phases.get("end")
    commit = send.transaction.end if send.transaction is not None else None
    if commit is None or death is None or end is None or not dead(facts, death, commit.t0, end.t1, commit.seq):
        return
    got = first_delivery(send)
    if got is None:
        yield held("to-nobody", "it died before the commit")
    else:
        yield broken("delivered", send, commit, got)


def relative_lives(facts: Facts) -> list[Copy]:
    """Copies of messages with a time to live by the broker's clock, on queues and of durable subscriptions."""
    copies = [copy for copy in facts.rows(mortal_copies) if copy.send.event.life_ms > 0]
    known = [copy for copy in copies if facts.death(copy.send) is not None]
    return [
        copy for copy in known if not copy.dest.topic or (copy.subscription is not None and copy.subscription.durable)
    ]


@rule("EXP-024", over=relative_lives, handles=KINDS, faults=CLOCKS, absence=True)
def a_life_by_the_brokers_clock(facts: Facts, copy: Copy) -> Findings:
    """A message with a time to live by the broker's clock is given to consumers while that clock has advanced by no
    more than that since acceptance, and not afterwards, whatever the clocks of producer and consumer say.
    """
    death, send = facts.dies(copy.send), copy.send
    if moves(copy):
        return
    # To a subscription that goes on, MQTT sends again what it had begun to, however long ago.
    for delivery in copy.deliveries[:1] if copy.dest.topic else copy.deliveries:
        found = assigned(facts, delivery, death, "while-it-lived", "delivered-dead")
        if found is not None:
            found.situation = death.skew if found.holds else ""
            yield found
    if copy.dead_letters and not given_up(copy) and not copy.discards():
        letter, sent = copy.dead_letters[0], send.event
        high_ns = facts.broker_clock.bounds_ns(sent.t0, letter.event.t1, sent.seq, letter.event.seq)[1]
        if high_ns < death.low_ns:
            yield broken("died-early", send, letter, why="its time was not over", slack_ns=high_ns - death.low_ns)
        else:
            yield held("while-it-lived", "it died while it waited")
    unseen = not copy.deliveries and not copy.dead_letters and send.confirmed and not send.delayed
    if unseen and not copy.dest.topic and facts.outlives(send) and unexplained(facts, copy):
        yield broken("died-early", send, why="its time was longer than the run, and nobody got it")
