"""Expiry by the clocks of clients: producers that stamp, libraries that check and discard, long work,
browsers and durable subscriptions that look at the dead. The broker's own decisions: ``expiry.py``.

The table of EXP-007, per message on a queue:

| by the broker's clock | the consumer's library   | classic-5.14             | documented                  |
|-----------------------|--------------------------|--------------------------|-----------------------------|
| dead on arrival       | never sees it            | dead letter              | dead letter                 |
| alive to the end      | does not check, or alive | delivered                | delivered                   |
| alive to the end      | dead by its clock        | discarded, dead letter   | discarded, stays for others |
| dies while it waits   | any                      | delivered or dead letter | delivered or dead letter    |
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

from brokerproof.conformance.experiment.history import Ack, Discard, Subscribe
from brokerproof.conformance.experiment.wire_names import LIFE
from brokerproof.conformance.facts.absence import ended, missing, unexplained
from brokerproof.conformance.facts.deaths import given_up, letter_is_due, maybe_discarded, otherwise_dead
from brokerproof.conformance.facts.deliveries import is_own_letter, moves, settled
from brokerproof.conformance.facts.expiration import (
    SECOND_MS,
    Death,
    dead,
    maybe_restamped,
    surely_expired,
)
from brokerproof.conformance.facts.facts import Facts
from brokerproof.conformance.facts.marks import KINDS
from brokerproof.conformance.facts.permission import is_behind
from brokerproof.conformance.facts.policy import believes_clients, stamping_of
from brokerproof.conformance.facts.presence import leaving_ns, rest_after
from brokerproof.conformance.facts.resuming import begun
from brokerproof.conformance.facts.rows import LATE, Copy, Delivery, Reading, Send, Session, Subscription
from brokerproof.conformance.facts.spans import NEVER, NS_PER_MS, t0_of
from brokerproof.conformance.facts.stamping import AHEAD, BEHIND, SKEW_MS
from brokerproof.conformance.facts.tally import is_crowded
from brokerproof.conformance.rules.expiry import (
    CLOCKS,
    died_unseen,
    mortal_copies,
    mortal_on_queues,
    relative_lives,
    unread,
)
from brokerproof.conformance.rules.rule import Finding, Findings, broken, held, rule

#: A client's clock may be read so much before the instant that it shows.
SLACK_MS = 1
#: How many sessions of a durable subscription are looked at.
LOOK_BACK = 4


def tabled(facts: Facts) -> list[Copy]:
    """Copies on queues of messages that die, or may."""
    return [copy for copy in facts.rows(mortal_copies) if not copy.dest.topic]


@rule("EXP-007", over=tabled, handles=KINDS, faults=CLOCKS, absence=True)
def the_table_of_three_clocks(facts: Facts, copy: Copy) -> Findings:
    """What becomes of a message with an expiration, delivered, discarded by its consumer's library or dead-lettered, is
    what the table for the three clocks says (producer, broker, consumer; with and without time-stamping; with and
    without a check by the library).
    """
    death = facts.death(copy.send)
    if death is None:
        yield unread(facts, copy.send)
        return
    if copy.called_expired or moves(copy):
        return
    wrong = list(_by_clients(facts, copy))
    yield from wrong
    if "end" not in facts.phases or copy.send.delayed:
        return
    letters, outlived = copy.dead_letters, facts.outlives(copy.send)
    if death.dead_at_first and copy.deliveries:
        yield broken("delivered-dead", copy, copy.deliveries[0])
    elif not letters and _is_kept(copy) and died_unseen(facts, copy) and letter_is_due(facts, copy):
        yield broken("no-letter", copy, why="it died on its queue, nobody got it, and it is not among the dead letters")
    elif outlived and letters and not otherwise_dead(facts, copy, death):
        yield broken("dead-lettered-alive", copy, letters[0], why="it lived to the end, and nobody gave it up")
    elif outlived and not copy.deliveries:
        if not letters and copy.send.confirmed and unexplained(facts, copy):
            yield broken("not-delivered", copy, why="it lived to the end, and nobody got it, not even in the drain")
    elif not wrong and (death.dead_at_first or outlived):
        yield held("as-the-table-says", _story(facts, copy, death))
    elif not wrong and (letters or any(d.consumed is not None for d in copy.deliveries) or copy.discards()):
        yield held("as-the-table-says", "it died while it waited or was on its way")


def _is_kept(copy: Copy) -> bool:
    """Whether its dead letter is kept when it expires: of what is not persistent brokers say different things."""
    return copy.send.event.persistent and copy.dest.applied.keeps_dead_letter(persistent=True, expired=True)


def _by_clients(facts: Facts, copy: Copy) -> Iterator[Finding]:
    """What libraries did with it, by their own clocks."""
    for delivery in copy.deliveries:
        arrival, traits = delivery.event, delivery.session.traits
        clock, dies_ns = facts.clock(arrival.host), (arrival.expiration_ms + 1) * NS_PER_MS
        if not clock.known or not traits.known:
            continue
        for discard in delivery.settlements:
            if not isinstance(discard, Discard):
                continue
            high_ns = clock.bounds_ns(arrival.t0, discard.t1, arrival.seq, discard.seq)[1]
            if not traits.checks_expiry:
                yield broken("discarded-alive", copy, delivery, discard, why="the library checks no expirations")
            elif arrival.expiration_ms <= 0 or high_ns < dies_ns:
                why = f"its consumer's clock read {high_ns // NS_PER_MS} at most"
                yield broken("discarded-alive", copy, delivery, discard, why=why, slack_ns=high_ns - dies_ns)
        consumed = delivery.consumed
        if consumed is not None and traits.checks_expiry and arrival.expiration_ms > 0:
            low_ns = clock.bounds_ns(arrival.t0, consumed.t1, arrival.seq, consumed.seq)[0]
            if low_ns >= dies_ns:
                why = f"its consumer's library checks, and its clock read {low_ns // NS_PER_MS} or more"
                yield broken("consumed-dead", copy, delivery, consumed, why=why, slack_ns=dies_ns - 1 - low_ns)


def _story(facts: Facts, copy: Copy, death: Death) -> str:
    """The row of the seed's stories that this message tells, as a situation; "" if none."""
    spec = stamping_of(facts.declared.timestamping, copy.send.event)
    if death.dead_at_first:
        dead_on_arrival = "the broker's clock was ahead by more than the time to live: dead on arrival"
        return dead_on_arrival if spec is None and death.skew == BEHIND else ""
    first = copy.deliveries[0]
    if copy.discards():
        if spec is not None and not spec.future_only and death.skew == AHEAD:
            return "the broker's clock was behind, and the plug-in made a JMS consumer discard it"
        heals = "" if spec is None else ", which no plug-in heals"
        return f"the consumer's clock was ahead{heals}: discarded by a JMS consumer"
    if spec is not None and death.skew == BEHIND and 0 < copy.send.event.expiration_ms < first.event.timestamp_ms:
        return "the broker's clock was ahead by more than the time to live, and the plug-in rescued it"
    if not first.session.traits.checks_expiry and _is_dead_for(facts, first):
        if spec is None:
            return "the consumer's clock was ahead, but its library does not check: delivered"
        return "the plug-in made it look expired to its consumer, whose library does not check: delivered"
    if death.skew != AHEAD or (spec is not None and not spec.future_only):
        return ""
    if spec is None:
        return "the broker's clock was behind: delivered"
    return "the broker's clock was behind, and futureOnly left it alone: delivered"


def _is_dead_for(facts: Facts, delivery: Delivery) -> bool:
    """Whether it arrived when the clock of its consumer's host was past its expiration."""
    event = delivery.event
    clock = facts.clock(event.host)
    if not clock.known or event.expiration_ms <= 0:
        return False
    return clock.bounds_ms(event.t0, event.t1, event.seq, event.seq)[0] > event.expiration_ms


def discarded(facts: Facts) -> list[Copy]:
    """Copies on queues that a client said it had thrown away."""
    return [copy for copy in facts.rows(mortal_on_queues) if copy.deliveries and copy.discards()]


@rule("EXP-008", over=discarded, handles=KINDS, faults=CLOCKS, absence=True)
def expired_acks_are_believed_or_not(facts: Facts, copy: Copy) -> Findings:
    """When a client reports that it has discarded a message as expired, generation classic-5.14 dead-letters it
    whatever the broker's clock says, and generation documented keeps it for other consumers until the broker's own
    clock agrees.
    """
    death, discard = facts.dies(copy.send), copy.discards()[0]
    if "end" not in facts.phases or copy.rejected or moves(copy):
        return
    others = [delivery for delivery in copy.deliveries if delivery.event.consumer != discard.consumer]
    later = next((delivery for delivery in others if delivery.event.t0 > discard.t1), None)
    if believes_clients(facts.declared):
        if not _got_through(facts, discard):
            return
        if later is not None:
            yield broken("handed-on", copy, discard, later, why="this generation of broker believes its clients")
        elif copy.dead_letters or not copy.dest.applied.keeps_dead_letter(
            persistent=copy.send.event.persistent, expired=True
        ):
            yield held("dead-lettered", death.skew)
        elif copy.send.confirmed and letter_is_due(facts, copy):
            yield broken("lost", copy, discard, why="it has no dead letter")
    elif facts.outlives(copy.send):
        if copy.dead_letters:
            yield broken("buried-alive", copy, discard, copy.dead_letters[0], why="it lived by the broker's clock")
        elif (idle := _withheld_from(facts, copy, discard)) is not None:
            yield broken("lost", copy, discard, *idle, why="it lived by the broker's clock, and was kept from others")
        elif any(delivery.event.t1 > discard.t0 for delivery in others):
            yield held("stays", death.skew)
        elif unexplained(facts, copy):
            yield broken("lost", copy, discard, why="it lived by the broker's clock, and nobody else got it")


def _withheld_from(facts: Facts, copy: Copy, discard: Discard) -> tuple[Session, Reading] | None:
    """Somebody who never had a discarded message, and room for it when nothing moved; nobody else had it then."""
    if not _got_through(facts, discard):
        return None
    for reading in copy.dest.readings:
        event = reading.event
        had = [one.session for one in copy.deliveries if one.event.t0 <= event.t0]
        if not reading.at_rest or event.t0 <= discard.t1 or len(had) > 1 or is_crowded(facts, reading):
            continue
        for window in reading.windows:
            if window.open() and window.session.name != discard.consumer:
                return window.session, reading
    return None


def _got_through(facts: Facts, discard: Discard) -> bool:
    """Whether the expired-ack that follows a discard has certainly reached the broker, and been dealt with."""
    session = facts.sessions[discard.consumer]
    until_ns = discard.t1 + facts.declared.lateness_ms * NS_PER_MS
    if session.uncertain or session.client.stalled(discard.t0, until_ns) or facts.restarted(discard.t0, until_ns):
        return False
    if is_behind(facts, session.client, discard):
        return False
    return session.end in {"", "close"} or leaving_ns(session) > until_ns


@rule("EXP-011", over=mortal_on_queues, handles=KINDS, faults=CLOCKS)
def late_acknowledgements_consume(facts: Facts, copy: Copy) -> Findings:
    """A message that is in flight is not expired by the sweep; acknowledging it after its expiration consumes it."""
    death = facts.dies(copy.send)
    for place, delivery in enumerate(copy.deliveries):
        ack = delivery.settlements[-1] if delivery.settlements else None
        if not isinstance(ack, Ack) or ack.result != "ok" or ack.tx is not None or ack.mode == "auto":
            continue
        if not dead(facts, death, ack.t0, ack.t1, ack.seq, ack.seq):
            continue
        if given_up(copy) or copy.discards():
            return
        sure = settled(facts, delivery)
        later = [one for one in copy.deliveries[place + 1 :] if one.state != LATE]  # it was on its way before
        if later and sure:
            yield broken("again", copy, ack, later[0], why="it was in flight, and acknowledged when it was dead")
        elif copy.dead_letters and sure and not maybe_discarded(facts, copy, death):
            letter = copy.dead_letters[0]
            yield broken("dead-lettered", copy, ack, letter, why="it was in flight, and acknowledged when it was dead")
        elif not later and not copy.dead_letters and "drain" in facts.phases:
            yield held("consumed", "acknowledged after its expiration")
        return


class Look:
    """A browser came to a queue on which a message waited."""

    def __init__(self, browser: Subscribe, copy: Copy) -> None:
        self.browser = browser
        self.copy = copy
        self.marks = copy.marks


def looked_at(facts: Facts) -> list[Look]:
    """Each message that was there, certainly and untouched, when a browser came; with the last such browser."""
    found: list[Look] = []
    browsers: dict[str, list[Subscribe]] = {}
    for browser in facts.browsers.values() if ended(facts) else ():
        if browser.result == "ok":
            browsers.setdefault(browser.dest, []).append(browser)
    for dest, there in browsers.items():
        for copy in facts.destination(dest).copies:
            first_ns = copy.deliveries[0].event.t0 if copy.deliveries else NEVER
            at = bisect_right(there, first_ns, key=t0_of) - 1
            if at >= 0 and copy.send.confirmed and copy.send.accepted[1] <= there[at].t0:
                found.append(Look(there[at], copy))
    return found


@rule("EXP-018", over=looked_at, handles=KINDS, absence=True)
def browsers_remove_nothing(facts: Facts, look: Look) -> Findings:
    """A browser removes nothing, whatever it reports as expired."""
    copy, browser = look.copy, look.browser
    death = facts.death(copy.send)
    if death is None or given_up(copy) or maybe_discarded(facts, copy, death) or not facts.outlives(copy.send):
        return
    if copy.dead_letters or missing(facts, copy):
        what = "it is a dead letter" if copy.dead_letters else "it was never seen again"
        yield broken("removed", copy, browser, *copy.dead_letters[:1], why=f"a browser had looked, and {what}")
    elif copy.deliveries:
        clock, expiration_ms = facts.clock(browser.host), copy.send.event.expiration_ms
        checks = facts.client(browser.host).traits.checks_expiry and expiration_ms > 0 and clock.known
        late = checks and clock.bounds_ms(browser.t0, browser.t1)[0] > expiration_ms
        yield held("left-alone", "the browser's clock called it expired" if late else "")


def shared_by_durables(facts: Facts) -> list[Send]:
    """Messages with an expiration for which several durable subscriptions of their topic have collected."""
    sends = [send for send in facts.dying if send.dest.topic and send.confirmed and not send.delayed]
    return [send for send in sends if not maybe_restamped(facts, send) and len(_collecting(send)) > 1]


def _collecting(send: Send) -> list[Subscription]:
    """The durable subscriptions that were there when it was sent."""
    return [
        one
        for one in send.dest.subscriptions
        if one.durable and one.begin is not None and one.begin.result == "ok" and one.begin.t1 <= send.event.t0
    ]


@rule("EXP-019", over=shared_by_durables, handles=KINDS)
def each_subscription_lets_its_copy_die(facts: Facts, send: Send) -> Findings:
    """Every durable subscription that shares a message expires it from its own backlog."""
    expiration_ms, spared = send.event.expiration_ms, 0
    for subscription in _collecting(send):
        copy = send.copies.get(subscription.name)
        for delivery in copy.deliveries if copy is not None else ():
            came = delivery.session.event
            if came is None or came.t0 < send.accepted[1] or came.result != "ok":
                continue
            if surely_expired(facts, expiration_ms, came.t0, delivery.event.t1):
                why = "several subscriptions had collected it, and it was dead when this one was taken up"
                yield broken("delivered", send, came, delivery, why=why)
                return
        spared += any(_was_spared(facts, send, session) for session in subscription.sessions[-LOOK_BACK:])
    if spared > 1:
        yield held("each-let-it-die", "several came back when it was dead")


def _was_spared(facts: Facts, send: Send, session: Session) -> bool:
    """Whether it was dead when a session came, and had not come to it at rest."""
    came = session.event
    if came is None or came.t0 < send.accepted[1] or send.message in session.seen:
        return False
    rest_ns = rest_after(facts, came.t1)
    return rest_ns < session.lost_ns and surely_expired(facts, send.event.expiration_ms, came.t0, rest_ns)


def with_time_to_live(facts: Facts) -> list[Send]:
    """Messages whose application told its library a time to live, or none."""
    return [
        send
        for send in facts.sends.values()
        if send.event.ttl_ms is not None and send.client.traits.stamps_expiration and not send.event.life_ms
    ]


@rule("EXP-023", over=with_time_to_live, handles=KINDS)
def an_expiration_is_the_send_plus_the_life(facts: Facts, send: Send) -> Findings:
    """JMS: the expiration is the time of the send plus the time to live, by the producer's clock; a negative or zero
    time to live means none.
    """
    sent, clock = send.event, facts.clock(send.event.host)
    ttl_ms, shown_ms = sent.ttl_ms or 0, sent.expiration_ms
    # Its library may have given up before it stamped anything.
    unstamped = sent.result == "unknown" and not sent.timestamp_ms and not shown_ms
    if sent.result == "fail" or unstamped or not clock.known:
        return
    if ttl_ms > 0:
        low_ms, high_ms = clock.bounds_ms(sent.t0, sent.t1)
        low_ms -= 0 if facts.simulated else SLACK_MS
        if not low_ms + ttl_ms <= shown_ms <= high_ms + ttl_ms:
            why = f"by its producer's clock it expires between {low_ms + ttl_ms} and {high_ms + ttl_ms}"
            yield broken("another", send, why=why)
            return
    elif shown_ms > 0:
        yield broken("another", send, why="it was sent without a time to live")
        return
    if not send.delayed and not maybe_restamped(facts, send):
        for copy in send.copies.values():
            found = [d for d in copy.deliveries if d.event.expiration_ms != shown_ms and not is_own_letter(d)]
            changed = found[0] if found else None
            if changed is not None:
                yield broken("another", send, changed, why=f"its producer's library stamped {shown_ms}")
                return
    yield held("send-plus-life", "with a time to live" if ttl_ms > 0 else "without a time to live")


@rule("EXP-025", over=relative_lives, handles=KINDS, faults=CLOCKS)
def a_relative_life_is_not_shown(facts: Facts, copy: Copy) -> Findings:
    """A message with a time to live by the broker's clock arrives without an expiration, but with what is left of its
    life, and no client library discards it as expired.
    """
    for delivery in copy.deliveries:
        event = delivery.event
        if event.expiration_ms > 0:
            if not (facts.simulated or delivery.session.traits.checks_expiry):
                yield held("shown-to-who-does-not-act")  # when the clock of a real broker will end it
                continue
            yield broken("shown", copy, delivery, why=f"its consumer was told {event.expiration_ms}")
            return
        # Where somebody has looked: a real broker may tell it in another way.
        if facts.simulated and event.persistent is not None and LIFE not in event.properties:
            yield broken("untold", copy, delivery, why="its consumer, or the next broker, takes it for immortal")
            return
        if delivery is copy.deliveries[0] and (why := _miscounted(facts, delivery)):
            yield broken("miscounted", copy, delivery, why=why)
            return
        yield held("not-shown", _skew(facts, delivery))
    if not copy.called_expired:
        for discard in copy.discards():
            yield broken("discarded", copy, discard)


def _miscounted(facts: Facts, delivery: Delivery) -> str:
    """What is wrong with what a message says of the rest of its life, if it says anything: the time since the broker
    took it is gone. A broker may count in whole seconds, upwards or downwards.
    """
    (began_ns, event), (low_ns, high_ns) = begun(delivery), delivery.send.accepted
    if event.left_ms is None or high_ns >= NEVER or not facts.broker_clock.known or delivery.send.delayed:
        return ""
    taken, given = facts.broker_clock.bounds_ns(low_ns, high_ns), facts.broker_clock.bounds_ns(began_ns, event.t1)
    least_ms, most_ms = max(0, given[0] - taken[1]) // NS_PER_MS, (given[1] - taken[0]) // NS_PER_MS
    life_ms = delivery.send.event.life_ms
    if life_ms - most_ms - SECOND_MS <= event.left_ms <= max(0, life_ms - least_ms) + SECOND_MS:
        return ""
    return f"it says that {event.left_ms} ms are left, after {least_ms} to {most_ms} ms at the broker"


def _skew(facts: Facts, delivery: Delivery) -> str:
    """How the consumer's clock stood to the broker's, as a situation."""
    event = delivery.event
    mine = facts.wall(event.host, (event.t0, event.t1))
    if mine is None:
        return ""
    low_ns, high_ns = facts.broker_clock.bounds_ns(event.t0, event.t1, event.seq, event.seq)
    if mine[0] > high_ns + SKEW_MS * NS_PER_MS:
        return "the consumer's clock was ahead of the broker's"
    if mine[1] < low_ns - SKEW_MS * NS_PER_MS:
        return "the consumer's clock was behind the broker's"
    return "the consumer's and the broker's clocks agreed"
