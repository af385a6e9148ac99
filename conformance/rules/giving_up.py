"""How often a message is tried again, by its library or by the broker, and what then becomes of it (RDL-007, -012,
-013, -023 to -026, -028, -029).
"""

from __future__ import annotations

from typing import Final

from brokerproof.conformance.experiment.configuration import RedeliverySpec
from brokerproof.conformance.experiment.destinations import DEAD_LETTERS
from brokerproof.conformance.experiment.history import Abort, Discard, Nack
from brokerproof.conformance.experiment.traits import JMS_DELIVERIES
from brokerproof.conformance.facts.absence import drained, unexplained
from brokerproof.conformance.facts.dead_letters import collected, is_told, lacks_origin, owed, rejected_during
from brokerproof.conformance.facts.deliveries import moves
from brokerproof.conformance.facts.expiration import may_die, maybe_timed_out
from brokerproof.conformance.facts.facts import Facts
from brokerproof.conformance.facts.managed import is_queue_manager
from brokerproof.conformance.facts.marks import KINDS, RESTART, but
from brokerproof.conformance.facts.policy import gets_expiration
from brokerproof.conformance.facts.presence import first_from, roomy_ns, sessions_of
from brokerproof.conformance.facts.rows import RETURNED, Copy, Delivery, Reading, Transaction
from brokerproof.conformance.facts.settling import failures
from brokerproof.conformance.facts.spans import NEVER, NS_PER_MS
from brokerproof.conformance.rules.rule import Findings, broken, held, rule

# -- by the library


def rolled_back(facts: Facts) -> list[Delivery]:
    """The only deliveries of immortal messages of queues, at sessions whose library gives up what was rolled back too
    often, and a broker that does not try again.
    """
    found: list[Delivery] = []
    for transaction in facts.transactions.values():
        for delivery in transaction.settled if isinstance(transaction.end, Abort) else ():
            copy, applied = delivery.copy, delivery.dest.applied
            if not delivery.rollbacks or not delivery.session.traits.gives_up_after or delivery.dest.topic:
                continue
            alone = len(copy.deliveries) == 1 and copy.deliveries[0] is delivery and not moves(copy)
            # A consumer that never saw it may have been given it before, and that counts.
            alone = alone and delivery.event.redelivered is False
            if alone and applied.entry.redelivery is None and not may_die(facts, copy.send):
                found.append(delivery)
    return found


@rule("RDL-007", over=rolled_back, handles=KINDS)
def given_up_after_seven(facts: Facts, delivery: Delivery) -> Findings:
    """A JMS consumer that rolls back always sees a message seven times by default, then it becomes a dead letter."""
    copy, most = delivery.copy, delivery.session.traits.gives_up_after
    why = f"its application was given it {delivery.given} times"
    if delivery.given > most:
        yield broken("too-often", copy, delivery, why=why)
    elif copy.dead_letters:
        if delivery.given < most:
            if not copy.rejected and not copy.called_expired:
                yield broken("too-early", copy, delivery, copy.dead_letters[0], why=why)
        elif delivery.rollbacks >= most:
            yield held("seven-times", "it became a dead letter")
    elif delivery.rollbacks >= most and delivery.consumed is not None:
        made = (delivery.consumed.t0, facts.end_ns)
        if collected(facts, copy, owed(facts, copy, made[1]), made):
            yield broken("not-given-up", copy, delivery, why=why)


def after_rollbacks(facts: Facts) -> list[Reading]:
    """Readings of queues at rest, while sessions of libraries that keep what was rolled back hold some of that."""
    found: list[Reading] = []
    for reading in facts.readings:
        if reading.dest is None or reading.dest.topic:
            continue
        if any(window.undone and window.session.traits.gives_up_after for window in reading.windows):
            found.append(reading)
    return found


@rule("RDL-012", over=after_rollbacks, handles=but("operator"))
def redelivered_settles_nothing(_facts: Facts, reading: Reading) -> Findings:
    """A REDELIVERED acknowledgement changes no counter."""
    least = sum(window.undone for window in reading.windows if window.session.known)
    for figure in (reading.event.in_flight, reading.event.size):
        if figure is not None and figure < least:
            yield broken("took-effect", reading, why=f"{least} messages were rolled back and are held")
            return
    if least:
        yield held("no-effect", "a transaction had been rolled back")


def batches(facts: Facts) -> list[Transaction]:
    """Transactions that were rolled back with several messages, each of which can be accounted for."""
    found: list[Transaction] = []
    for transaction in facts.transactions.values():
        end = transaction.end
        if isinstance(end, Abort) and end.result == "ok" and len(transaction.settled) > 1:
            found.append(transaction)
    return [one for one in found if all(_is_counted(facts, delivery.copy) for delivery in one.settled)]


@rule("RDL-013", over=batches, handles=KINDS)
def each_has_its_own_chances(facts: Facts, transaction: Transaction) -> Findings:
    """Whether a batch is poison is decided by each message, not by the newest one."""
    copies = [delivery.copy for delivery in transaction.settled]
    for copy in copies:
        count = _deliveries(copy)
        if copy.dead_letters and count < JMS_DELIVERIES:
            yield broken("condemned", transaction, copy, copy.dead_letters[0], why=f"it was delivered {count} times")
    dead = sum(bool(copy.dead_letters) for copy in copies)
    if 0 < dead < len(copies) and drained(facts, facts.destination(DEAD_LETTERS)):
        yield held("divided", "one was given up, another one was not")


def _is_counted(facts: Facts, copy: Copy) -> bool:
    """Its deliveries can be counted, and nothing but a library that gave it up explains a dead letter."""
    if copy.rejected or not copy.deliveries or moves(copy) or copy.marks & RESTART:
        return False
    if maybe_timed_out(facts, copy, facts.end_ns):
        return False
    for delivery in copy.deliveries:
        if delivery.event.seq > facts.drain_seq:
            break
        if not delivery.session.traits.gives_up_after or delivery.event.delivery_count is None:
            return False
        for event in delivery.settlements:
            if isinstance(event, Discard | Nack):
                return False
            if event.tx is not None and (event.result != "ok" or _is_open(facts, event.tx)):
                return False
    return True


def _is_open(facts: Facts, name: str) -> bool:
    """Nobody knows how a transaction ended."""
    transaction = facts.transactions.get(name)
    return transaction is None or transaction.committed is None


def _deliveries(copy: Copy) -> int:
    """How often an application was given it: what an arrival had counted before it, and each rollback since."""
    return max((one.event.delivery_count or 1) - 1 + one.rollbacks for one in copy.deliveries)


# -- by the broker


def tried_again(facts: Facts) -> list[Copy]:
    """Rejected copies of queues whose broker itself tries again."""
    found: list[Copy] = []
    for copy in facts.copies:
        policy = copy.dest.applied.entry.redelivery if copy.rejected and not copy.dest.topic else None
        if policy is not None and not moves(copy):
            found.append(copy)
    return found


def _rejections(copy: Copy) -> list[Nack]:
    """Its rejections, one after each delivery but perhaps the last; [] if anything else happened to it."""
    found: list[Nack] = []
    last = copy.deliveries[-1] if copy.deliveries else None
    for delivery in copy.deliveries:
        settlement, session = delivery.settlement, delivery.session
        if not isinstance(settlement, Nack):
            return found if delivery is last else []
        if settlement.result != "ok" or settlement.tx is not None or not session.traits.awaits_receipt:
            return []
        if not session.known:
            return []
        found.append(settlement)
    return found


def pauses(policy: RedeliverySpec, count: int) -> list[int]:
    """The first pauses, in milliseconds."""
    found: list[int] = []
    for number in range(count):
        before_ms = found[-1] if found else 0
        pause_ms = policy.pause_ms if number else policy.initial_ms
        if number and policy.multiplier > 1 and before_ms > 0:
            pause_ms = before_ms * policy.multiplier
            if 0 <= policy.longest_ms < pause_ms:
                pause_ms = max(policy.longest_ms, policy.pause_ms)
        found.append(pause_ms)
    return found


def tried_again_unbroken(facts: Facts) -> list[Copy]:
    """The same, of a broker that went on: one that restarts need not remember when and how often."""
    return [copy for copy in facts.rows(tried_again) if not copy.marks & RESTART]


@rule("RDL-023", over=tried_again_unbroken, handles=KINDS)
def not_before_the_pause(_facts: Facts, copy: Copy) -> Findings:
    """A rejected message that the broker itself redelivers comes again marked, and not before its pause has passed."""
    policy = copy.dest.applied.entry.redelivery
    rejections = _rejections(copy)
    if policy is None or not rejections or copy.deliveries[0].event.redelivered is not False:
        return  # marked at first: its first pause is not the policy's first
    wanted = zip(rejections, pauses(policy, len(rejections)), copy.deliveries[1:], strict=False)
    for number, (rejection, pause_ms, delivery) in enumerate(wanted):
        slack_ns = delivery.event.t1 - rejection.t0 - pause_ms * NS_PER_MS
        if slack_ns < 0:
            yield broken("early", rejection, delivery, why=f"the pause is {pause_ms} ms", slack_ns=slack_ns)
        elif delivery.event.redelivered is False:
            yield broken("unmarked", rejection, delivery)
        else:
            yield held("after-the-pause", "a later time" if number else "the first time", slack_ns=slack_ns)


@rule("RDL-024", over=tried_again_unbroken, handles=KINDS)
def as_often_as_allowed(facts: Facts, copy: Copy) -> Findings:
    """The broker redelivers a rejected message as often as its policy says, and then makes a dead letter of it, or
    drops it, as the policy says.
    """
    policy, rejections = copy.dest.applied.entry.redelivery, _rejections(copy)
    if policy is None or not rejections:
        return
    last, again = rejections[-1], len(copy.deliveries) - 1
    over = 0 <= policy.maximum < len(rejections)
    why = f"it was rejected {len(rejections)} times, came again {again} times, and may {policy.maximum} times"
    if 0 <= policy.maximum < again:
        yield broken("too-often", last, copy.deliveries[-1], why=why)
    elif not over:
        if facts.redeliveries_max < NEVER:
            return  # whatever was rejected counts against that limit, too
        if copy.dead_letters and _stayed(facts, copy) and not maybe_timed_out(facts, copy, facts.end_ns):
            yield broken("too-soon", last, copy.dead_letters[0], why=why)
    elif copy.send.event.persistent:
        yield from _end(facts, copy, last, wanted=policy.dead_letter)


def _end(facts: Facts, copy: Copy, last: Nack, *, wanted: bool) -> Findings:
    """What becomes of a message that was tried as often as it may be."""
    applied = copy.dest.applied
    own = applied.own_dead_letters()
    place = (own or DEAD_LETTERS) if wanted and applied.dead_letter.strategy != "discarding" else ""
    found = [letter.dest.name for letter in copy.dead_letters if is_told(letter)]
    if any(name != place for name in found):
        yield broken(
            "wrong-end",
            last,
            copy.dead_letters[0],
            why=f"its dead letters belong {f'on {place}' if place else 'nowhere'}",
        )
    elif found:
        yield held("as-often-as-allowed", "it became a dead letter")
    elif not place:
        if drained(facts, facts.destination(DEAD_LETTERS)):
            yield held("as-often-as-allowed", "it vanished")
    elif collected(facts, copy, owed(facts, copy, last.t1), (last.t0, last.t1)):
        yield broken("wrong-end", last, why=f"no dead letter of it came to {place}")


def _stayed(facts: Facts, copy: Copy) -> bool:
    """Whether its queue had sessions alone that neither left before the drain (that counts as a delivery, too) nor have
    a library that gives a message up, or discards it.
    """
    drain = facts.phases.get("drain")
    return drain is not None and all(
        session.ended_ns >= drain.t0 and session.traits.awaits_receipt and not session.traits.gives_up_after
        for session in copy.dest.sessions
    )


def _is_due(facts: Facts, rejection: Nack, pause_ms: int) -> int:
    """By when a rejected message is due again; after a restart its pause may have begun anew. ``NEVER``: not known."""
    later = [restart.t1 for restart in facts.restarts if restart.t1 >= rejection.t0]
    stepped = any(fault.target == facts.broker and fault.t1 >= rejection.t0 for fault in facts.clock_steps)
    return NEVER if stepped else max(rejection.t1, *later, 0) + pause_ms * NS_PER_MS


@rule("RDL-025", over=tried_again, handles=but("pause"))
def comes_again_in_time(facts: Facts, copy: Copy) -> Findings:
    """A rejected message that the broker itself redelivers comes again when its pause is over, and is not lost."""
    policy, rejections = copy.dest.applied.entry.redelivery, _rejections(copy)
    if policy is None or not rejections or copy.deliveries[0].event.redelivered is not False:
        return
    waits, again = pauses(policy, len(rejections)), copy.deliveries[1:]
    late_ns = facts.declared.lateness_ms * NS_PER_MS
    for rejection, pause_ms, delivery in zip(rejections, waits, again, strict=False):
        due_ns, event = _is_due(facts, rejection, pause_ms), delivery.event
        if event.t0 <= due_ns + late_ns:
            yield held("comes-again", "after a restart" if facts.restarted(rejection.t0, event.t1) else "")
        elif facts.credit.waited_for(delivery, due_ns):
            why = f"the pause is {pause_ms} ms, and a consumer was waiting"
            yield broken("late", rejection, delivery, why=why, slack_ns=due_ns + late_ns - event.t0)
    if len(again) < len(rejections) and not 0 <= policy.maximum < len(rejections) and not copy.dead_letters:
        over_ns = _is_due(facts, rejections[-1], waits[-1]) + late_ns
        there = facts.end_ns < over_ns or maybe_timed_out(facts, copy, facts.end_ns)
        if not there and unexplained(facts, copy, rejected=True):
            yield broken("lost", rejections[-1], copy, why=f"the pause is {waits[-1]} ms, and nobody has seen it since")


# -- by the broker, whoever the client

#: Who promises this counts confirmed rejections of a persistent message over its restarts.
_OVER_RESTARTS: Final = "rejections-survive-restarts"
#: Who promises this counts what is lost with its consumer's connection as what is rejected.
_LOSSES: Final = "losses-count"


def limited(facts: Facts) -> list[Copy]:
    """Copies of queues that arrived, where the broker promises a limit of redeliveries, and no policy another one; not
    over a restart, unless that takes nothing from what the broker has counted.
    """
    if facts.declared.redeliveries_max is None or facts.redeliveries_max >= NEVER:
        return []
    plain = [one for one in facts.copies if not one.dest.topic and one.dest.applied.entry.redelivery is None]
    kept = {_OVER_RESTARTS, "requeue"}.issubset(facts.header.capabilities)
    plain = [one for one in plain if not one.marks & RESTART or (kept and one.send.event.persistent)]
    return [one for one in plain if one.deliveries and not moves(one)]


def _failed(facts: Facts, delivery: Delivery) -> bool:
    """It was in vain, as the broker counts: it was rejected, where that puts it back, and a loss counts of who says so;
    else its application had it when its link or its process was lost.
    """
    rejected = delivery.requeued or _rejection(facts, delivery) is not None
    if "requeue" in facts.header.capabilities and (rejected or _LOSSES not in facts.header.capabilities):
        return rejected
    lost = delivery.session.end in {"drop", "kill", "closed"}
    return lost and delivery.state == RETURNED and not delivery.settlements and delivery.consumed is not None


def _rejection(facts: Facts, delivery: Delivery) -> Nack | None:
    """The rejection that put it back for certain, by itself or with a transaction."""
    nacks = [event for event in delivery.settlements if isinstance(event, Nack)]
    committed = _committed(facts, delivery)
    return committed[-1] if committed else nacks[-1] if delivery.requeued or _came_after(delivery, nacks) else None


def _committed(facts: Facts, delivery: Delivery) -> list[Nack]:
    """Its rejections in transactions that were committed."""
    nacks = [event for event in delivery.settlements if isinstance(event, Nack) and event.tx is not None]
    return [one for one in nacks if facts.transactions[one.tx or ""].committed]


def _came_after(delivery: Delivery, nacks: list[Nack]) -> bool:
    """Whether its copy was delivered again while the session that rejected it stayed: also a rejection without an
    answer, as in AMQP, had been taken then.
    """
    later = delivery.copy.deliveries[delivery.copy.deliveries.index(delivery) + 1 :]
    plain = bool(nacks) and nacks[-1].tx is None and nacks == delivery.settlements
    stayed = bool(later) and later[0].event.t1 < delivery.session.ended_ns
    return plain and stayed and nacks[-1].t0 < later[0].event.t0


@rule("RDL-026", over=limited, handles=KINDS)
def given_up_at_the_limit(facts: Facts, copy: Copy) -> Findings:
    """A broker that promises to give a message up after so many redeliveries, whoever the client, gives it up then:
    neither earlier nor later.
    """
    most, failed = facts.redeliveries_max, 0
    told = not copy.send.event.headers and "requeue" not in facts.header.capabilities  # which may count losses, too
    for delivery in copy.deliveries:
        count = max(failed + 1, delivery.event.delivery_count or 0 if told else 0)
        if count > most + 1:
            why = f"that is delivery number {count}, and {most + 1} are promised at most"
            yield broken("too-often", copy, delivery, why=why)
            return
        failed += _failed(facts, delivery)
    if failed and not copy.dead_letters:
        yield held("tried-again")
    elif copy.dead_letters and failed > most:
        yield held("given-up", "as often as promised")
    elif copy.dead_letters and (count := _in_vain(facts, copy)) <= most:
        why = f"it was delivered in vain {count} times at most, and {most + 1} times are promised"
        yield broken("too-early", copy, copy.deliveries[-1], copy.dead_letters[0], why=why)


def spent(facts: Facts) -> list[tuple[Copy, Delivery]]:
    """Copies that were lost with their consumers once more often than the broker promises to deliver them again, and
    the last of these deliveries.
    """
    found = [(copy, [one for one in copy.deliveries if _failed(facts, one)]) for copy in limited(facts)]
    return [(copy, failed[-1]) for copy, failed in found if len(failed) > facts.redeliveries_max]


@rule("RDL-028", over=spent, handles=but("restart"))
def given_up_leaves_a_letter(facts: Facts, row: tuple[Copy, Delivery]) -> Findings:
    """What a broker gives up because it was delivered in vain too often becomes a dead letter, if its kind does,
    without an expiration, and names its queue, if others do.
    """
    copy, last = row
    if letters := copy.dead_letters:
        if letters[0].event.expiration_ms > 0 and not gets_expiration(facts.declared):
            yield broken("expires", copy, letters[0], why="a dead letter that nobody looks at in time is gone")
        elif is_told(letters[0]) and lacks_origin(facts, letters[0]):
            yield broken("without-origin", copy, letters[0], why="it does not say where it comes from")
        else:
            yield held("dead-lettered", "as often as promised")
        return
    nack = _rejection(facts, last)
    made = (last.session.lost_ns, facts.end_ns) if nack is None else rejected_during(facts, nack)
    by_ns = min(made[1] + facts.declared.lateness_ms * NS_PER_MS, facts.end_ns)
    gone = copy.deliveries[-1] is last and unexplained(facts, copy, rejected=True)
    if gone and not maybe_timed_out(facts, copy, by_ns) and collected(facts, copy, owed(facts, copy, by_ns), made):
        yield broken("vanished", copy, last, why="it was delivered in vain as often as is promised")


def _rejects(copy: Copy) -> bool:
    """Whether a program may have rejected a copy, or called it expired, past its library and without a word."""
    if copy.called_expired:
        return True
    held_by = {delivery.session for delivery in copy.deliveries} if copy.rejected else ()
    return any(isinstance(event, Nack) for one in held_by for d in one.deliveries for event in d.settlements)


def lettered(facts: Facts) -> list[Copy]:
    """Copies with dead letters, of messages of which nobody rejected a copy; what a bridge does nobody sees."""
    if facts.header.at or is_queue_manager(facts):
        return []
    dead = [copy for copy in facts.copies if copy.dead_letters and not moves(copy)]
    return [copy for copy in dead if not any(_rejects(one) for one in copy.send.copies.values())]


@rule("RDL-029", over=lettered, handles=KINDS)
def dead_letters_say_why(facts: Facts, copy: Copy) -> Findings:
    """A dead letter of what nobody rejected says why it is one."""
    for letter in copy.dead_letters:
        if letter.event.original_dest != copy.dest.name or moves(letter.copy):
            continue  # it may have died once more
        if not letter.event.cause:
            yield broken("says-nothing", copy, letter)
        elif may_die(facts, copy.send):
            yield held("says-why", "it was to die")
        else:
            yield held("says-why", "a subscriber was slow" if copy.dest.topic else "it was given up")


def _in_vain(facts: Facts, copy: Copy) -> int:
    """How often at most it was delivered in vain; ``NEVER`` where somebody else than the broker may have given it up.

    Where a rejection puts back, each delivery fails once at most, and who left before the drain may have been given it
    unseen; where losses count, so may who left at its beginning, one after another. Not so who had room while nothing
    moved, some time after the last rejection.
    """
    settlements = [event for one in copy.deliveries for event in one.settlements]
    traits = [session.traits for session in copy.dest.sessions]
    if any(isinstance(event, Discard) for event in settlements) or maybe_timed_out(facts, copy, facts.end_ns):
        return NEVER
    if any(one.gives_up_after or not one.known for one in traits):
        return NEVER
    if not copy.rejected and not any(isinstance(event, Nack) for event in settlements):
        return failures(copy)
    drain, unseen = facts.phases.get("drain"), any(one.seen_when_taken for one in traits)
    again = any(one.rollbacks > len(_committed(facts, one)) for one in copy.deliveries)
    if "requeue" not in facts.header.capabilities or drain is None or unseen or again:
        return NEVER
    until_ns = copy.dead_letters[0].event.t1 if _LOSSES in facts.header.capabilities else drain.t0
    left = [one for one in sessions_of(copy) if one.ended_ns < until_ns or not one.known]
    back_ns = max(one.settlements[-1].t1 if one.settlements else one.session.ended_ns for one in copy.deliveries)
    quiet_ns = back_ns + facts.declared.lateness_ms * NS_PER_MS
    return len(copy.deliveries) + sum(first_from(roomy_ns(facts, one), quiet_ns) == NEVER for one in left)
