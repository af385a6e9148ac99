"""Whoever asks is answered, every wait ends (GEN-110 to GEN-113). What may have kept an answer back:
``facts/permission.py``.
"""

from __future__ import annotations

from typing import Final

from brokerproof.conformance.experiment.history import (
    Abort,
    Ack,
    Acknowledge,
    Begin,
    Browse,
    Commit,
    Connect,
    Event,
    Nack,
    Operate,
    Poll,
    Subscribe,
    Unsubscribe,
)
from brokerproof.conformance.experiment.history import Send as SendEvent
from brokerproof.conformance.facts.absence import absent
from brokerproof.conformance.facts.asked import Request
from brokerproof.conformance.facts.deaths import consumed_ns
from brokerproof.conformance.facts.expiration import dead
from brokerproof.conformance.facts.facts import Facts
from brokerproof.conformance.facts.ledger import Browser
from brokerproof.conformance.facts.marks import LIMIT, MQSC
from brokerproof.conformance.facts.permission import is_behind, kept_back
from brokerproof.conformance.facts.presence import disturbed, kept_connection
from brokerproof.conformance.facts.pressure import scarce_ns
from brokerproof.conformance.facts.rows import Client, Copy, Send
from brokerproof.conformance.facts.slow_links import longest_ns
from brokerproof.conformance.facts.spans import NEVER, NS_PER_MS, ms
from brokerproof.conformance.rules.rule import Findings, broken, held, rule

#: What a request was about.
KINDS: Final[dict[type[Event], str]] = {
    Connect: "a connection",
    SendEvent: "a message",
    Subscribe: "a consumer",
    Unsubscribe: "a consumer",
    Ack: "a settlement",
    Acknowledge: "a settlement",
    Nack: "a settlement",
    Begin: "a transaction",
    Commit: "a transaction",
    Abort: "a transaction",
}


def requests(facts: Facts) -> list[Request]:
    """What clients asked: one of each kind that was answered, and all that were not."""
    return [one for one in facts.asked if not isinstance(one.event, Operate)]


@rule("GEN-110", over=requests)
def requests_are_answered(facts: Facts, request: Request) -> Findings:
    """Every request is answered, with a receipt or with a refusal."""
    event = request.event
    if event.result != "unknown":
        yield held("answered", KINDS[type(event)])
    elif not kept_back(facts, request):
        yield broken("unanswered", event, why=f"no answer in {ms(event.t1 - event.t0)}, over a link that flowed")


def polls(facts: Facts) -> list[Poll]:
    """What consumers without a prefetch asked for, where the time that the broker had is known."""
    return [poll for poll in facts.polls if poll.timeout_ms is not None]


@rule("GEN-111", over=polls)
def pulls_are_answered(facts: Facts, poll: Poll) -> Findings:
    """A consumer that asks for a message is given one, or told that there is none when its time is over."""
    if poll.answered:
        yield held("answered", "there was none" if poll.message is None else "there was one")
        return
    client = facts.client(poll.host)
    patience_ns = ((poll.timeout_ms or 0) + facts.declared.lateness_ms) * NS_PER_MS
    session = facts.sessions.get(poll.consumer)
    if session is None or not session.known or not session.opened[1] <= poll.t0 <= poll.t1 < session.lost_ns:
        return
    patience_ns += longest_ns(facts, client, session.dest)
    if poll.t1 - poll.t0 < patience_ns or disturbed(facts, client, poll.t0, poll.t1):
        return
    if kept_connection(facts, client, poll.t0, poll.t1) and not is_behind(facts, client, poll):
        yield broken("unanswered", poll, why=f"no answer in {ms(poll.t1 - poll.t0)}, {poll.timeout_ms} ms were asked")


def browses(facts: Facts) -> list[tuple[Browser, Browse | None]]:
    """Browsers that were let in, and how they were told that this was all; none if this observer may not see that."""
    told = {event.consumer: event for event in facts.browses if event.complete} if facts.browsings else {}
    if not told and facts.header.world == "external":
        return []
    return [(one, told.get(one.event.consumer)) for one in facts.browsings if one.event.result == "ok"]


@rule("GEN-112", over=browses)
def browses_end(facts: Facts, row: tuple[Browser, Browse | None]) -> Findings:
    """A browser is told when it has seen everything."""
    browser, told = row
    event, dest = browser.event, facts.destination(browser.event.dest)
    if told is not None:
        yield held("told", "it was shown some" if browser.shown else "")
        return
    client = facts.client(event.host)
    until_ns = event.t1 + facts.declared.lateness_ms * NS_PER_MS + longest_ns(facts, client, dest)
    watched = until_ns <= min(browser.left_ns, facts.end_ns) and scarce_ns(facts, dest) > until_ns
    most = max(len(dest.sends), len(dest.copies))  # virtual topics and composites add some
    room = event.ack == "auto" or (not dest.purges and most < event.prefetch)
    if not watched or not room or dest.kind == "pattern" or disturbed(facts, client, event.t0, until_ns):
        return
    if kept_connection(facts, client, event.t0, until_ns):
        yield broken("never-told", event, why=f"not told in {facts.declared.lateness_ms} ms that it has seen all")


def _is_all_gone(facts: Facts) -> bool:
    """Whether the broker said in the end that it has nothing, not even scheduled: what has room took it from nobody."""
    last = facts.broker_readings[-1] if facts.broker_readings else None
    if last is None or last.event.size is None:
        return not facts.delayed
    return last.event.seq > facts.drain_seq and last.empty


#: More than any broker is known to charge for a message beside its body.
_CHARGE_BYTES: Final = 4096


def _purged_ns(copy: Copy) -> int:
    """By when an operator had purged it from its queue, for certain; ``NEVER``: nobody knows of it."""
    send = copy.send
    if not send.confirmed or send.delayed or send.event.tx is not None or copy.deliveries:
        return NEVER
    purges = [one.t1 for one in copy.dest.purges if one.result == "ok" and one.t0 > send.accepted[1]]
    return min(purges, default=NEVER)


def _is_left_waiting(facts: Facts, send: Send, client: Client) -> bool:
    """Whether it was not answered although its queue, the only full one, had been empty for the lateness, or full to
    less than half: whatever else had come was settled, purged, or met dead by a sweep. A broker with ActiveMQ's memory
    may not sweep then.
    """
    event, dest, applied = send.event, send.dest, send.dest.applied
    by_ns = event.t1 - facts.declared.lateness_ms * NS_PER_MS
    own_ms = applied.expire_period_ms + facts.declared.lateness_ms
    swept_ns = by_ns - own_ms * NS_PER_MS if applied.expire_period_ms > 0 else -1
    room, ever = facts.declared.memory_limit_bytes, 2 * sum(one.event.size for one in facts.sends.values())
    if facts.paged or 0 < room <= ever or 2 * event.size >= applied.memory_limit_bytes:
        return False
    if dest.kind != "queue" or event.tx is not None or by_ns <= event.t0 or facts.clock_steps:
        return False
    limited = facts.marks.on(dest.name, (event.t0, event.t1)) & LIMIT
    if limited or any(one.op != "purge" for one in dest.purges):
        return False

    def gone(copy: Copy) -> bool:
        death = facts.death(copy.send)
        plain = swept_ns > copy.send.accepted[1] and copy.send.event.tx is None and not copy.deliveries
        dies = plain and death is not None and dead(facts, death, swept_ns, swept_ns)
        return dies or consumed_ns(facts, copy) <= by_ns or _purged_ns(copy) <= by_ns

    others = [copy for copy in dest.copies if copy.send is not send and copy.send.event.t0 <= event.t1]
    left = [copy for copy in others if not (copy.send.refused or gone(copy))]
    taken = sum(2 * copy.send.event.size + _CHARGE_BYTES for copy in left)
    if len(left) == len(others) or 2 * taken > applied.memory_limit_bytes or is_behind(facts, client, event):
        return False
    return not disturbed(facts, client, event.t0, event.t1) and kept_connection(facts, client, event.t0, event.t1)


def blocked(facts: Facts) -> list[Request]:
    """Sends outside of transactions that were not answered in time where producers may have to wait for room."""
    declared = facts.declared
    if not facts.throttles and not declared.store_limit_bytes and not declared.temp_limit_bytes:
        return []
    return [one for one in facts.asked if isinstance(one.event, SendEvent) and one.event.result == "unknown"]


@rule("GEN-113", over=blocked, absence=True)
def blocked_sends_go_on(facts: Facts, request: Request) -> Findings:
    """A send that waits for room goes through when there is room again."""
    event, client, drain = request.event, request.client, facts.phases.get("drain")
    send = facts.sends.get(event.message) if isinstance(event, SendEvent) else None
    if send is None or client is None or drain is None or not request.connected or send.event is not event:
        return
    if _is_left_waiting(facts, send, client):
        yield broken("waits-for-ever", send, why="all else on its queue had been gone for long")
        return
    if send.seen is not None:
        if send.seen.t0 > event.t1:
            yield held("went-through", "it came later")
        return
    # A queue manager may refuse it when its turn comes.
    fails = send.dest.applied.entry.send_fail_if_no_space or send.marks & MQSC
    fails = fails or event.tx is not None or event.mortal() or event.again
    # What stands before it may be refused when its turn comes, in the drain, and end the connection.
    undisturbed = not disturbed(facts, client, event.t0, drain.t1) and kept_connection(facts, client, event.t0, NEVER)
    if fails or not undisturbed or drain.t0 - event.t0 < facts.declared.lateness_ms * NS_PER_MS:
        return
    if _is_all_gone(facts) and send.copies and all(absent(facts, copy) for copy in send.copies.values()):
        yield broken("waits-for-ever", send, why="its destination was emptied, and it never came")
