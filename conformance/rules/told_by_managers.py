"""What a queue manager tells of messages that it could not put: dead letters that say why, and reports (DLY-051,
DLY-052).
"""

from __future__ import annotations

from collections import Counter
from typing import Final
from zlib import crc32

from brokerproof.conformance.experiment.destinations import DEAD_LETTERS
from brokerproof.conformance.experiment.history import Ack, Arrive
from brokerproof.conformance.facts.absence import drained
from brokerproof.conformance.facts.expiration import alive, dead, death_of
from brokerproof.conformance.facts.facts import Facts
from brokerproof.conformance.facts.managed import AS_DEFINED, FEEDBACK, REASON, TARGET, asking, states
from brokerproof.conformance.facts.marks import KINDS, LIMIT, MEMORY
from brokerproof.conformance.facts.mqsc import Objects, Value
from brokerproof.conformance.facts.queue_managers import FULL, INHIBITED, NAMES, OF_A_QUEUE, TOO_BIG
from brokerproof.conformance.facts.releases import PLENTY, PUT, STAYS, Ending, endings_of, number, takes_letters
from brokerproof.conformance.facts.rows import Copy, Delivery, Send
from brokerproof.conformance.facts.spans import NEVER, NS_PER_MS
from brokerproof.conformance.rules.delay_mq import is_managed
from brokerproof.conformance.rules.rule import Findings, broken, held, rule

KIND: Final = "JMS_IBM_MsgType"
#: Asks that a report have its message's own correlation id.
PASSED: Final = "JMS_IBM_Report_Pass_Correl_ID"
PASSES: Final = 0x40
CORRELATION: Final = "correlation-id"
#: MQMT_REPORT, and the feedback of an expiration, an arrival and a delivery.
REPORTS: Final = 4
OTHERS: Final = {258: "JMS_IBM_Report_Expiration", 259: "JMS_IBM_Report_COA", 260: "JMS_IBM_Report_COD"}
#: What asks for a report, with its option without data; with data it is 3, with full data 7 times that.
PLAIN: Final = {
    "JMS_IBM_Report_Exception": 0x01000000,
    "JMS_IBM_Report_Expiration": 0x00200000,
    "JMS_IBM_Report_COA": 0x100,
    "JMS_IBM_Report_COD": 0x800,
}
ASKED: Final = tuple(PLAIN)
SOME_BYTES: Final = 100
#: Longer than a retry.
RETRY_NS: Final = 2_000_000_000


def letters(facts: Facts) -> list[Delivery]:
    """Dead letters of a queue manager's processor, where somebody looked."""
    found = (one for send in facts.sends.values() for copy in send.copies.values() for one in copy.dead_letters)
    return [one for one in found if REASON in (one.event.headers or {})] if is_managed(facts) else []


def applies(row: dict[str, Value], reason: int, size_bytes: int) -> bool:
    """Whether a queue with these attributes may not take a message for that reason."""
    if reason == INHIBITED:
        return row["PUT"] == "DISABLED"
    if reason == TOO_BIG:
        return size_bytes > int(row.get("MAXMSGL", NEVER))
    return reason == FULL and int(row.get("MAXDEPTH", PLENTY)) < PLENTY


@rule("DLY-051", over=letters, handles=KINDS)
def letters_say_why(facts: Facts, letter: Delivery) -> Findings:
    """A message that could not be put to its target is a dead letter with the reason, which was one, and the target's
    name.
    """
    headers, send = letter.event.headers or {}, letter.send
    reason = number(headers[REASON])
    origin = letter.event.original_dest
    if reason not in OF_A_QUEUE:
        yield broken("another-reason", letter, why=f"{REASON} {headers[REASON]!r} is no reason of a queue")
    elif facts.simulated and send.dest.kind in {"queue", "topic"} and origin not in facts.names.parts(send.event.dest):
        yield broken("another-target", letter, why=f"its original destination is {origin!r}")
    elif not send.dest.topic and send.dest.kind == "queue" and facts.simulated:
        known: list[Objects | None] = [state.objects for state in states(facts)]
        if headers.get(TARGET) != send.dest.name:
            yield broken("another-target", letter, why=f"{TARGET} {headers.get(TARGET)!r} is not its target")
        elif any(one is None or applies(one.queue(send.dest.name), reason, send.event.size) for one in known):
            yield held("it-says-why", NAMES[reason])
        else:
            yield broken("another-reason", letter, why=f"{NAMES[reason]} never applied to {send.dest.name}")


def _is_dead_when_due(facts: Facts, send: Send) -> bool:
    """Whether it had expired, for certain, when its delay was over at the earliest."""
    due, death = facts.delays.due(send), death_of(facts, send)
    return facts.simulated and due is not None and death is not None and dead(facts, death, *due.span)


class Told:
    """The reports of one run, and who may have asked for them. ``owed``: kind and reply queue (``DEAD_LETTERS``: there
    is none) -> the messages of which such a report was put somewhere, for certain; ``endings``: of all that asked for
    exception reports, None where one of them is open.
    """

    def __init__(self, facts: Facts) -> None:
        self.asked = [one for one in asking(facts) if not one.refused]
        #: But for those that were given up at their reply queue, and came there before.
        told = [one for one in facts.ghosts if FEEDBACK in (one.headers or {})]
        self.reports = [one for one in told if one.original_dest is None or REASON in (one.headers or {})]
        self.owed: dict[tuple[str, str], list[Send]] = {}
        #: Reply queue -> how often each reason is told there, for certain.
        self.reasons: dict[str, Counter[int]] = {}
        self.marks = 0
        endings: list[Ending | None] = []
        for send in self.asked:
            mine = endings_of(facts, send)
            asks = "reply-to" in send.event.headers
            place = f"~{send.event.host}" if asks and not _is_left(facts, send) else DEAD_LETTERS
            for kind in ASKED[:1] if asks and place == DEAD_LETTERS else ASKED:
                if _is_seen(facts, send, kind, place) and _wants(send, kind) and _happened(facts, send, kind, mine):
                    self.owed.setdefault((kind, place), []).append(send)
                    if kind == ASKED[0]:
                        why = [ending.reason for ending in mine if ending is not None and ending.told]
                        self.reasons.setdefault(place, Counter()).update(why)
            if _wants(send, ASKED[0]):
                endings += mine or [None]
        open_ = facts.restarts or any(ending is None or ending.ends == STAYS for ending in endings)
        self.endings = None if open_ else [ending for ending in endings if ending is not None]


def _is_left(facts: Facts, send: Send) -> bool:
    """Whether its sender's reply queue had gone with his connection, for certain, before its delay was over, and his
    reports are dead letters.
    """
    due = facts.delays.due(send)
    if not facts.simulated or due is None or facts.pauses or not takes_letters(facts, send.event.size):
        return False
    since_ns, until_ns, client = send.accepted[1], due.span[0] - RETRY_NS, send.client
    gone = [one for one in (*client.ends, *client.closes) if since_ns < one.t0 and one.t1 < until_ns]
    return bool(gone) and not client.stalls


def _is_seen(facts: Facts, send: Send, kind: str, place: str) -> bool:
    """Whether there was room for a report of that kind, and somebody saw whatever came there and whose it was."""
    if facts.declared.limits_disk:
        return False
    if place != DEAD_LETTERS:
        return _soon(facts, send)
    if not facts.simulated and number(send.event.headers.get(kind)) <= PLAIN[kind]:
        return False  # on a real broker nobody knows whose letter one is that shows nothing of a body
    return kind == ASKED[0] or takes_letters(facts, send.event.size)


def _soon(facts: Facts, send: Send) -> bool:
    """Whether its delay, and a retry, were over before the drain, in which nobody listens to his reply queue, and that
    queue was there until then: it goes with the connection that made it.
    """
    due, drain, client = facts.delays.due(send), facts.phases.get("drain"), send.client
    if due is None or drain is None or send.event.again:
        return False
    gone = [one for one in (*client.ends, *client.closes) if one.t1 >= send.event.t0 and one.t0 < drain.t0]
    return due.span[1] + RETRY_NS < drain.t0 and not gone


def _wants(send: Send, kind: str) -> bool:
    return number(send.event.headers.get(kind)) & PLAIN[kind] > 0


def _happened(facts: Facts, send: Send, kind: str, endings: list[Ending | None]) -> bool:
    """Whether what a message wants to be told of has happened, for certain, and before nobody listened any more."""
    if kind == ASKED[0]:
        return any(ending is not None and ending.told for ending in endings)
    copies = list(send.copies.values()) if send.dest.kind == "queue" and send.event.tx is None else []
    drain = facts.phases.get("drain")  # its target may have taken it that late, or nobody have looked at it before
    soon_ns = NEVER if drain is None or "reply-to" not in send.event.headers else drain.t0 - RETRY_NS
    if kind == ASKED[1]:
        letters_ = [(copy, letter.event) for copy in copies for letter in copy.dead_letters]
        died = [(copy, one) for copy, one in letters_ if "xpired" in (one.cause or "")]
        return any(one.t1 < soon_ns or _is_swept(facts, copy, soon_ns) for copy, one in died)
    if kind == ASKED[2]:
        death = death_of(facts, send)
        living = death is not None and alive(facts, death, *send.accepted)  # what has died before does not arrive
        now = send.confirmed and not send.delayed and len(copies) == 1 and living
        came = now or any(one.event.t1 < soon_ns for copy in copies for one in copy.deliveries)
        return bool(copies) and (came or any(ending is not None and ending.ends == PUT for ending in endings))
    # What an operator took away meanwhile is not there to be deleted.
    kept = [copy for copy in copies if not copy.dest.purges]
    ended = [one for copy in kept for delivery in copy.deliveries for one in delivery.settlements]
    return "reply-to" not in send.event.headers and any(
        isinstance(one, Ack) and one.result == "ok" and one.tx is None for one in ended
    )


def _is_swept(facts: Facts, copy: Copy, until_ns: int) -> bool:
    """Whether a sweep had come to a message by then that had died on its queue, for certain, and in memory."""
    period_ns, death = copy.dest.applied.expire_period_ms * NS_PER_MS, death_of(facts, copy.send)
    from_ns = until_ns - 2 * period_ns
    if period_ns <= 0 or from_ns < copy.send.accepted[1] or death is None or copy.deliveries:
        return False
    scarce = facts.marks.on(copy.dest.name, (copy.send.event.t0, until_ns)) & (MEMORY | LIMIT)
    return not scarce and dead(facts, death, from_ns, from_ns)


def run(facts: Facts) -> list[Told]:
    """The run, if its broker is a queue manager that somebody asked for reports."""
    told = [Told(facts)] if is_managed(facts) else []
    return [one for one in told if one.asked or one.reports]


@rule("DLY-052", over=run, handles=KINDS)
def reports_are_made(facts: Facts, told: Told) -> Findings:
    """Who asked for an exception report of a message that could not be put gets one, with the reason, and nobody else
    does; where it cannot be put, it is a dead letter.
    """
    for report in told.reports:
        why = _wrong(facts, told, report)
        if why:
            yield broken("otherwise", report, why=why)
            return
    mine = [one for one in told.reports if _kind(one) == ASKED[0]]
    for (kind, place), owed in told.owed.items():
        there = [one for one in told.reports if _kind(one) == kind and one.dest == place]
        several = len(owed) - len(there)
        if several > 0 and _looked(facts, place):
            yield broken(
                "untold", *owed[:1], why=f"{several} of {len(owed)} messages have no report of {kind} at {place}"
            )
            return
        if kind == ASKED[0]:
            untold = told.reasons[place] - Counter(number((one.headers or {})[FEEDBACK]) for one in there)
            if untold and _looked(facts, place):
                yield broken("untold", *owed[:1], why=f"{NAMES[min(untold)]} is not told often enough at {place}")
                return
        more = Counter(shown for send in owed if (shown := _shown(send, kind)) is not None)
        more.subtract(one.body for one in there if one.body is not None)
        if any(count > 0 for count in more.values()) and not _unseen(there) and _looked(facts, place):
            yield broken("otherwise", *owed[:1], *there[:1], why=f"a report of {kind} shows not what was asked for")
            return
    if told.endings is not None:
        more = Counter(number((one.headers or {})[FEEDBACK]) for one in mine)
        more.subtract(ending.reason for ending in told.endings if ending.told)
        for reason in (reason for reason, count in more.items() if count > 0):
            yield broken("otherwise", *mine[:1], why=f"{NAMES[reason]} is told {more[reason]} times too often")
            return
    if told.reports:
        yield held("told", "a dead letter" if any(one.dest == DEAD_LETTERS for one in mine) else "a report")


def _unseen(reports: list[Arrive]) -> bool:
    return any(one.body is None for one in reports)


def _looked(facts: Facts, name: str) -> bool:
    """Whether somebody took all that came to a queue."""
    dest = facts.destinations.get(name)
    if dest is None or dest.purges or facts.restarts:
        return False
    if dest.kind != "temporary":
        return drained(facts, dest)
    wide = [
        one for one in facts.sessions.values() if one.dest is dest and one.known and one.prefetch > len(facts.sends)
    ]
    drain = facts.phases.get("drain")
    return any(drain is not None and (one.ended_ns is None or one.ended_ns >= drain.t0) for one in wide)


def _kind(report: Arrive) -> str:
    """What a report tells."""
    feedback = number((report.headers or {}).get(FEEDBACK))
    return ASKED[0] if feedback in OF_A_QUEUE else OTHERS.get(feedback, "")


def _wrong(facts: Facts, told: Told, report: Arrive) -> str:
    headers, kind = report.headers or {}, _kind(report)
    if not kind:
        return f"{FEEDBACK} {headers[FEEDBACK]!r} tells nothing"
    asked = [one for one in told.asked if number(one.event.headers.get(kind)) & PLAIN[kind] == PLAIN[kind]]
    if report.message:
        asked = [one for one in asked if one.message == report.message]
    if not asked:
        return f"nobody had asked for it with {kind}"
    if kind == ASKED[0] and all(_is_dead_when_due(facts, one) for one in asked):
        return "it tells of a put, of a message whose life was over when its delay was"
    if number(headers.get(KIND)) != REPORTS:
        return f"{KIND} is {headers.get(KIND)!r}"
    if not any(_names(report, one) for one in asked):
        return f"its correlation id, {headers.get(CORRELATION)!r}, names none of these messages"
    if lacks := _lacks(asked, report):
        return f"none of these messages had its {lacks}"
    again = [one for one in told.reports if (one.message, _kind(one)) == (report.message, kind)]
    # Its consumer may have left before it settled one, or before its application was given it.
    several = max(Counter(one.consumer for one in again if not one.redelivered).values(), default=0)
    # Of a publication each subscription's copy is told of, also of one that has ended since.
    counted = report.message and not asked[0].dest.topic and not facts.restarts
    if counted and several > max(1, len(asked[0].copies)):
        return f"it was told {several} times"
    return "" if any(_shows(one, report, kind) for one in asked) else "it shows not as much as was asked for"


def _names(report: Arrive, send: Send) -> bool:
    """Whether a report's correlation id is what its message asked for: that message's own, or else its id, which nobody
    but the broker knows.
    """
    told, own = ((one or {}).get(CORRELATION) or "" for one in (report.headers, send.event.headers))
    return told == own if number(send.event.headers.get(PASSED)) & PASSES else told not in {"", own}


def _lacks(asked: list[Send], report: Arrive) -> str:
    """What of a report is none of these messages'; what one leaves to its queue's definition, DLY-054 judges."""
    persistence, priority = AS_DEFINED
    told = [one.event for one in asked]
    modes = {report.persistent if persistence in one.headers else one.persistent for one in told}
    if _kind(report) == ASKED[3]:  # what was delivered may be its dead letter, whose mode is the broker's
        copies = [copy for one in asked for copy in one.copies.values()]
        modes |= {letter.event.persistent for copy in copies for letter in copy.dead_letters}
    if report.persistent not in {None, *modes}:
        return "delivery mode"
    priorities = {report.priority if priority in one.headers else one.priority for one in told}
    return "" if report.priority in {None, *priorities} else "priority"


def _shows(send: Send, report: Arrive, kind: str) -> bool:
    """Whether a report has as much of the body as its message asked for."""
    shown = _shown(send, kind)
    return report.body is None or shown is None or report.body == shown


def _shown(send: Send, kind: str) -> int | None:
    """What a report has of the body, by what its message asked for: none, 100 bytes, all; None: nobody knows."""
    option, event = number(send.event.headers[kind]) & 7 * PLAIN[kind], send.event
    if option not in {3 * PLAIN[kind], 7 * PLAIN[kind]}:
        return 0
    if option == 7 * PLAIN[kind] or event.size <= SOME_BYTES:
        return event.body
    # A body of the suite's is its message's name, an end of line, and dots; one that is not is anybody's guess.
    whole = f"{send.message}\n".encode().ljust(event.size, b".")
    return crc32(whole[:SOME_BYTES]) if crc32(whole) == event.body else None
