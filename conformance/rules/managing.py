"""Queue managers of IBM MQ: what they refuse, for which reason and of which object, and whether they do and show what
their operator says (DLY-033, DLY-038, DLY-040, DLY-041, DLY-044 to DLY-050).
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Final

from brokerproof.conformance.experiment.history import Operate, Subscribe
from brokerproof.conformance.facts.expiration import may_die
from brokerproof.conformance.facts.facts import Facts
from brokerproof.conformance.facts.managed import between, cancels, states
from brokerproof.conformance.facts.marks import KINDS, RESOLVED
from brokerproof.conformance.facts.mqsc import DELAY_LEVEL, STAGING, Command, Objects, Value
from brokerproof.conformance.facts.queue_managers import (
    EXPIRY,
    INHIBITED,
    NAMES,
    OF_A_QUEUE,
    OPTIONS,
    PUBLICATION,
    UNAUTHORISED,
    UNSUPPORTED,
    Reasons,
    depth_of,
    reasons_of,
    user_of,
    wrong_with,
)
from brokerproof.conformance.facts.releases import STAYS, ending_of
from brokerproof.conformance.facts.rows import Reading, Send
from brokerproof.conformance.facts.spans import NEVER
from brokerproof.conformance.facts.staged import most_staged
from brokerproof.conformance.rules.delay_mq import is_managed
from brokerproof.conformance.rules.rule import Findings, broken, held, rule

_SAID: Final = re.compile(r"\b(\d{4}) (MQRC_\w+): (.*)")
_STAGED: Final = re.compile(r"STAGED MSGID\((\S+)\) CORRELID\((\S+)\)")
_SHOWN: Final = re.compile(r"([A-Z]+)\(([^)]*)\)")


class Put:
    """A send to a queue manager, outside of transactions, that was taken or refused, and why it may be refused."""

    def __init__(self, send: Send, reasons: Reasons) -> None:
        self.send = send
        self.reasons = reasons
        self.marks = send.marks & ~RESOLVED  # what an alias stands for is known


def puts(facts: Facts) -> list[Put]:
    """All of them of which that is known."""
    if not is_managed(facts):
        return []
    longest_ms = facts.declared.delay_max_ms or NEVER
    sends = [send for send in facts.sends.values() if send.event.tx is None and send.event.delay_ms <= longest_ms]
    found = [Put(send, reasons_of(facts, send.event)) for send in sends if send.refused or send.confirmed]
    return [put for put in found if put.reasons.known]


def _said(text: str | None) -> tuple[int, str, str] | None:
    """Number, name and the rest of a refusal; None: it gives no reason of a queue manager."""
    match = _SAID.search(text or "")
    return None if match is None else (int(match[1]), match[2], match[3])


def _refused(put: Put, reason: str) -> Findings:
    if put.send.refused:
        yield held("refused", reason)
    else:
        yield broken("taken", put.send, why=f"it was to be refused: {reason}")


@rule("DLY-033", over=puts, handles=KINDS)
def authority_at_the_send(facts: Facts, put: Put) -> Findings:
    """Authority is checked at the send, on the real target."""
    if UNAUTHORISED in put.reasons.must and put.send.event.delay_ms:
        own = user_of(facts, put.send.event.host)
        yield from _refused(put, "a user with authorities of his own" if own else "refused")


@rule("DLY-045", over=puts, handles=KINDS)
def options_that_exclude_a_delay(_facts: Facts, put: Put) -> Findings:
    """A retained publication, a segment, what goes to a clustered queue whose DEFBIND is not NOTFIXED, and what
    CAPEXPRY lets live for less than its delay cannot have one: the send is refused.
    """
    event = put.send.event
    if OPTIONS in put.reasons.must and not event.group:
        yield from _refused(put, "options")
    if EXPIRY in put.reasons.must and not event.mortal():
        yield from _refused(put, "a cap on its life")


@rule("DLY-040", over=puts, handles=KINDS)
def guarantees_are_refused(_facts: Facts, put: Put) -> Findings:
    """A persistent publication cannot have a delay unless its topic is configured with PMSGDLV(ALLAVAIL)."""
    if PUBLICATION in put.reasons.must:
        yield from _refused(put, "refused")


@rule("DLY-041", over=puts, handles=KINDS)
def early_levels_refuse(_facts: Facts, put: Put) -> Findings:
    """A queue manager of a command level below 800 refuses every delay with MQRC_FUNCTION_NOT_SUPPORTED."""
    if UNSUPPORTED in put.reasons.must:
        yield from _refused(put, "refused")


@rule("DLY-046", over=puts, handles=KINDS)
def no_room_for_a_put(_facts: Facts, put: Put) -> Findings:
    """A send is refused while its target or, if it has a delay, the staging queue cannot take it: inhibited, too small
    for it, full, or not there.
    """
    for reason in OF_A_QUEUE:
        if reason in put.reasons.must:
            yield from _refused(put, NAMES[reason])


@rule("DLY-044", over=puts, handles=KINDS)
def inhibited_targets_refuse(_facts: Facts, put: Put) -> Findings:
    """A message with a delay is refused with MQRC_PUT_INHIBITED while PUT of its target is disabled."""
    if INHIBITED in put.reasons.must and put.reasons.places.get(put.send.dest.name) and put.send.event.delay_ms:
        yield from _refused(put, "refused")


@rule("DLY-047", over=puts, handles=KINDS)
def the_reason_that_applies(_facts: Facts, put: Put) -> Findings:
    """A refusal of a queue manager carries the number and the name of a reason that applies, and names the queues that
    it concerns: the target, the staging queue, or both.
    """
    said, reasons = _said(put.send.event.refusal), put.reasons
    if not put.send.refused or said is None:
        return
    number, name, text = said
    if NAMES.get(number) != name:
        yield broken("another-reason", put.send, why=f"{number} is not {name}")
    elif number not in reasons.may:
        applies = ", ".join(NAMES[one] for one in reasons.may) or "nothing"
        yield broken("another-reason", put.send, why=f"{name} does not apply: {applies} does")
    elif number not in OF_A_QUEUE:
        yield held("it-applies", name)
    else:
        places = reasons.places
        silent = [place for place, sure in places.items() if sure and place not in text]
        wrong = [place for place in (put.send.dest.name, STAGING) if place not in places and _names(text, place)]
        for place in silent:
            yield broken("another-object", put.send, why=f"{place} takes nothing, and {text!r} does not say so")
        for place in wrong:
            yield broken("another-object", put.send, why=f"{place} takes it, and {text!r} names it")
        if not silent and not wrong:
            yield held("it-applies", "both queues are named" if len(places) > 1 else name)


def _names(text: str, place: str) -> bool:
    return any(part.strip().startswith((f"{place}:", f"queue://{place}:")) for part in text.split(";"))


def entrances(facts: Facts) -> list[Subscribe]:
    """Attempts to consume or to browse that a queue manager answered."""
    if not is_managed(facts):
        return []
    taken = [session.event for session in facts.sessions.values() if session.event is not None]
    denied = [one.event for one in facts.asked if isinstance(one.event, Subscribe) and one.event.result == "fail"]
    browsers = list(facts.browsers.values())
    events = {event.seq: event for event in (*taken, *denied, *browsers) if event.result != "unknown"}
    return [event for event in events.values() if event.refusal != "not connected"]


@rule("DLY-048", over=entrances, handles=KINDS)
def who_may_not_get(facts: Facts, event: Subscribe) -> Findings:
    """Nobody without authority consumes or browses; of the staging queue administrators alone have it."""
    reasons = reasons_of(facts, event)
    if not reasons.known:
        return
    if event.result == "ok":
        if reasons.must:
            yield broken("let-in", event, why=f"it was to be refused with {', '.join(map(str, reasons.must))}")
        return
    said = _said(event.refusal)
    if said is None:
        return
    if said[0] not in reasons.may or NAMES[said[0]] != said[1]:
        yield broken("another-reason", event, why=f"{said[0]} {said[1]} does not apply")
    elif said[0] == UNAUTHORISED:
        own = "a user with authorities of his own" if user_of(facts, event.host) else "another queue"
        yield held("refused", "the staging queue" if event.dest == STAGING else own)


def told(facts: Facts) -> list[Operate]:
    """Commands that a queue manager answered."""
    return [e for e in facts.operations if e.op == "mqsc" and e.result != "unknown"] if is_managed(facts) else []


@rule("DLY-049", over=told, handles=KINDS)
def commands_are_carried_out(facts: Facts, event: Operate) -> Findings:
    """A command that the queue manager's language has, about objects that are there, is carried out; any other is
    refused.
    """
    wrong, said = wrong_with(facts, event), _said(event.refusal)
    if said is not None and NAMES.get(said[0]) != said[1]:
        yield broken("another-reason", event, why=f"{said[0]} is not {said[1]}")
    elif wrong is None:
        return
    elif bool(wrong) is (event.result == "fail"):
        yield held("as-it-was-said", "refused" if wrong else Command(event.command or "").verb.lower())
    elif wrong:
        yield broken("carried-out", event, why=f"it was to be refused: {wrong}")
    else:
        yield broken("refused", event, why=f"nothing is wrong with it; the broker said {event.refusal!r}")


@rule("DLY-050", over=told, handles=KINDS)
def what_is_shown(facts: Facts, event: Operate) -> Findings:
    """What a queue manager shows of its objects is what commands have made of them, and the staging queue's depth is
    one message for each queue and each subscription that a message waits for.
    """
    command, known = Command(event.command or ""), between(facts, event)
    state = known[0]
    if command.kind == "STAGED":
        yield from _of_the_stage(facts, event, command)
        return
    if event.result == "fail" or len(known) != 1 or state is None or not event.shown:
        return
    shown = dict(_SHOWN.findall(event.shown[0]))
    wrong = [f"{name}({value})" for name, value in _wanted(state, command).items() if shown.get(name) != str(value)]
    named = f"{command.kind}({command.name}) " if command.name else f"{command.kind} "
    if facts.simulated and command.verb == "DISPLAY" and not event.shown[0].startswith(named):
        wrong.append(named)
    if wrong:
        yield broken("otherwise", event, why=f"it is {' '.join(wrong)}, and not {event.shown[0]!r}")
        return
    depth = _counted(facts, event, command)
    most = _most(facts, event, command)
    if depth is not None and most < int(shown.get("CURDEPTH", "0")):
        yield broken("another-depth", event, why=f"MAXDEPTH was {most} at most, and {event.shown[0]!r} is there")
        return
    if depth is not None and not depth[0] <= int(shown.get("CURDEPTH", "0")) <= depth[1]:
        yield broken(
            "another-depth", event, why=f"{depth[0]} to {depth[1]} messages were there, not {event.shown[0]!r}"
        )
    else:
        yield held("as-it-is", command.kind.lower())


def _of_the_stage(facts: Facts, event: Operate, command: Command) -> Findings:
    """What is shown of the messages on the staging queue, or taken off it."""
    if event.result == "fail" or not facts.simulated:
        return
    if command.verb == "DISPLAY" and (gone := _vanished(facts, event)):
        yield broken("otherwise", event, why=f"{gone} is there no more, and nobody took it off: {event.shown!r}")
        return
    if facts.restarts:
        if why := _came_again(facts, event):
            yield broken("otherwise", event, why=f"{why}: {event.shown!r}")
        return
    rows, least_most = _rows(event), depth_of(facts, event, STAGING)
    wrong = "a line is no message" if rows is None else _strange(rows, one_each=not _several(facts))
    wrong = "it names no place" if command.verb == "DELETE" and not command.place else wrong
    for earlier in told(facts) if rows is not None and not wrong else []:
        before = _rows(earlier) if earlier.seq < event.seq and earlier.result == "ok" else None
        if before is not None and not wrong:
            wrong = _contradiction(before, rows or [], (Command(earlier.command or ""), command))
    if wrong:
        yield broken("otherwise", event, why=f"{wrong}: {event.shown!r}")
    elif command.verb == "DISPLAY" and not least_most[0] <= len(rows or []) <= least_most[1]:
        yield broken(
            "another-depth", event, why=f"{least_most[0]} to {least_most[1]} were there, not {len(rows or [])}"
        )
    else:
        yield held("as-it-is", "staged")


def _vanished(facts: Facts, event: Operate) -> str:
    """What an earlier answer had, though nobody has taken it off and nothing can have been due or have died since."""
    if facts.probes or facts.header.at or any(one.op != "mqsc" for one in facts.operations):
        return ""
    left: dict[tuple[str, str], bool] = {}
    since = event
    for one in told(facts):
        rows = _rows(one) if one.seq < event.seq and one.result == "ok" else None
        if rows is not None and Command(one.command or "").verb == "DISPLAY":
            left, since = dict.fromkeys(rows, True), one
        for row in rows or ():
            if Command(one.command or "").verb == "DELETE":
                left.pop(row, None)
    gone = [row for row in left if row not in (_rows(event) or [])]
    again = any(since.seq < one.seq < event.seq for one in facts.restarts)
    sure = gone and not again and all(_keeps(facts, send, since, event) for send in facts.delayed)
    return gone[0][0] if sure else ""


def _keeps(facts: Facts, send: Send, since: Operate, event: Operate) -> bool:
    """Whether a message cannot have left the staging queue by itself between two answers."""
    due = facts.delays.due(send)
    left = send.seen is not None and send.seen.t1 < since.t0
    waits = due is not None and due.span[0] > event.t1 and not may_die(facts, send)
    return send.refused or left or waits or send.event.t0 > event.t1


def _came_again(facts: Facts, event: Operate) -> str:
    """Why something cannot be shown, though a restart may have given it another id: more of one message than there were
    when the staging queue was last shown, but for those that were taken off.
    """
    left: Counter[str] | None = None
    for one in told(facts):
        rows = _rows(one) if one.seq <= event.seq and one.result == "ok" else None
        shown = Counter(original for _, original in rows or [])
        if rows is None:
            continue
        if Command(one.command or "").verb != "DELETE":
            if one is event and left is not None and any(shown[original] > count for original, count in left.items()):
                return "more of a message is there than was left of it"
            taken = [original for original, count in (left or {}).items() if count <= 0]
            left = shown
            left.update(dict.fromkeys(taken, 0))  # which no restart brings back, also after it was not shown once
        elif one is not event and left is not None:
            left.subtract(shown)
    return ""


def _several(facts: Facts) -> bool:
    """Whether one message may be several on the staging queue."""
    return any(send.dest.topic or len(facts.names.parts(send.event.dest)) > 1 for send in facts.delayed)


def _rows(event: Operate) -> list[tuple[str, str]] | None:
    """Message and correlation ids that an answer about the staging queue shows; None: it is none, or shows no such."""
    if Command(event.command or "").kind != "STAGED":
        return None
    found = [_STAGED.fullmatch(line) for line in event.shown if line != "STAGED is empty"]
    return None if None in found else [(one[1], one[2]) for one in found if one is not None]


def _strange(rows: list[tuple[str, str]], *, one_each: bool) -> str:
    """What cannot be so of the staging queue at any time."""
    ids, originals = [row[0] for row in rows], [row[1] for row in rows]
    if len(set(ids)) < len(ids) or set(ids) & set(originals):
        return "a message has no id of its own there"
    return "a message is there twice" if one_each and len(set(originals)) < len(rows) else ""


def _contradiction(
    before: list[tuple[str, str]], rows: list[tuple[str, str]], commands: tuple[Command, Command]
) -> str:
    """Why something cannot be shown after something else was."""
    earlier, now = commands
    if earlier.verb == "DELETE":
        return "it was taken off before" if set(before) & set(rows) else ""
    originals = dict(before)
    if any(originals.get(name, original) != original for name, original in rows):
        return "a message has another original"
    known = [before.index(row) for row in rows if row in before]
    if known != sorted(known):
        return "their order has changed"
    if now.verb == "DELETE" and known and known[0] < now.place - 1:
        return f"it stood at {known[0] + 1} at most"
    return ""


def _wanted(state: Objects, command: Command) -> dict[str, Value]:
    """What is to be shown of an object."""
    if command.kind == "DELAYPROC":
        after = state.copy()
        after.apply(command)
        early = int(after.qmgr["CMDLEVEL"]) < DELAY_LEVEL
        return {"STATUS": "RUNNING" if after.running else "ABSENT" if early else "STOPPED"}
    if command.verb != "DISPLAY":
        return {}
    return state.qmgr if command.kind == "QMGR" else state.objects.get((command.kind, command.name), {})


def _most(facts: Facts, event: Operate, command: Command) -> int:
    """What a queue never holds more of, by its definition, where messages come to it in no other way than by a put."""
    known = [state.objects for state in states(facts) if state.event is None or state.event.t0 <= event.t1]
    other = any(one.op != "mqsc" for one in facts.operations) or any(send.event.tx for send in facts.sends.values())
    dies = any(send.mortal for send in facts.sends.values()) or any(copy.rejected for copy in facts.copies)
    if command.name == STAGING or other or dies:
        return NEVER
    return max((NEVER if one is None else int(one.queue(command.name)["MAXDEPTH"]) for one in known), default=NEVER)


def _counted(facts: Facts, event: Operate, command: Command) -> tuple[int, int] | None:
    """How many messages may have been on the queue that is shown; None: there is none, or nobody knows."""
    if not facts.simulated:
        return None  # other programs may have left something there, and its queues have other names
    if command.kind == "DELAYPROC" or (command.verb == "DISPLAY" and command.kind == "QLOCAL"):
        name = STAGING if command.kind == "DELAYPROC" else command.name
        least, most = depth_of(facts, event, name)
        return least + (_kept(facts, event) if name == STAGING else 0), most
    return None


def _kept(facts: Facts, event: Operate) -> int:
    """How many messages were due, and stay on the staging queue for certain, because nothing takes them."""
    found = [(send, ending_of(facts, copy)) for send in facts.delayed for copy in send.copies.values()]
    return sum(
        ending.ends == STAYS and _is_over(facts, send, event) and (ending.until is None or event.seq < ending.until.seq)
        for send, ending in found
        if ending is not None
    )


def _is_over(facts: Facts, send: Send, event: Operate) -> bool:
    due = facts.delays.due(send)
    return due is not None and due.span[1] < event.t0


def taken(facts: Facts) -> list[Operate]:
    """Messages that were taken off the staging queue."""
    return [event for event in cancels(facts) if event.result == "ok"] if is_managed(facts) else []


def taken_or_counted(facts: Facts) -> list[Operate | Reading]:
    """The same, and how many messages still waited then."""
    found = taken(facts)
    told = [one for one in facts.readings if found and one.at_rest and one.dest is not None]
    return [*found, *(one for one in told if one.event.scheduled is not None and one.event.seq > found[0].seq)]


@rule("DLY-038", over=taken_or_counted, handles=KINDS)
def what_is_cancelled_stays_gone(facts: Facts, row: Operate | Reading) -> Findings:
    """A waiting message can be removed by the declared handle, and then stays gone."""
    if facts.simulated:  # else it may have been another program's
        yield from _still_counted(facts, row) if isinstance(row, Reading) else _gone(facts, row)


def _still_counted(facts: Facts, reading: Reading) -> Findings:
    dest, count = reading.destination, reading.event.scheduled or 0
    again = dest.virtual or dest.applied.entry.redelivery is not None or dest.kind not in {"queue", "topic"}
    most = NEVER if again else most_staged(facts, dest, reading)
    if count > most:
        yield broken("still-counted", reading, why=f"{most} messages were left at most, as its operator was shown")
    elif most < NEVER:
        yield held("gone")


def _gone(facts: Facts, event: Operate) -> Findings:
    candidates = [send for send in facts.delayed if not send.refused and send.event.t0 <= event.t1]
    candidates = [send for send in candidates if send.seen is None or send.seen.t1 >= event.t0]
    # Of what goes to several queues one may have been taken off, while another one came.
    whole = [send for send in candidates if not send.dest.topic and len(facts.names.parts(send.event.dest)) == 1]
    came = [send for send in whole if send.seen is not None]
    if len(came) == len(candidates):
        yield broken("it-came", event, *came[:1], why="nothing that may have been waiting stayed away")
    elif len(event.shown) == 1 and "CORRELID" in event.shown[0]:
        yield held("gone", "it was taken off the staging queue")
