"""Clients of a queue manager and what they name: calls of producers, and what a name and a definition stand for
(DLY-053, DLY-054).
"""

from __future__ import annotations

import re
from typing import Final

from brokerproof.conformance.experiment.destinations import DEAD_LETTERS
from brokerproof.conformance.experiment.history import Arrive
from brokerproof.conformance.experiment.history import Send as SendEvent
from brokerproof.conformance.facts.absence import drained, is_stuck
from brokerproof.conformance.facts.expiration import may_die
from brokerproof.conformance.facts.facts import Facts
from brokerproof.conformance.facts.managed import (
    AS_DEFINED,
    DISCARD,
    REASON,
    between,
    cancels,
    during,
    may_be_held_up,
    states,
)
from brokerproof.conformance.facts.marks import KINDS
from brokerproof.conformance.facts.mqsc import DELAY_LEVEL, Value
from brokerproof.conformance.facts.presence import settles_unseen
from brokerproof.conformance.facts.queue_managers import EXPIRY, NAMES, OF_A_QUEUE, TENTH_MS, UNKNOWN, UNSUPPORTED
from brokerproof.conformance.facts.releases import number
from brokerproof.conformance.facts.rows import Send
from brokerproof.conformance.facts.spans import NEVER
from brokerproof.conformance.rules.delay_mq import is_managed
from brokerproof.conformance.rules.rule import Findings, broken, held, rule
from brokerproof.conformance.rules.told_by_managers import applies

#: What each façade throws.
THROWS: Final = {"classic": "JMSException", "simplified": "JMSRuntimeException"}
Path = list[tuple[str, dict[str, Value]]]
#: How the refusal of a life below the delay is told.
EXPIRY_TOLD: Final = f"{EXPIRY} {NAMES[EXPIRY]}: "
_THROWN: Final = re.compile(r"(\w+): (\d{4}) (MQRC_\w+): ")


def producers(facts: Facts) -> list[SendEvent]:
    """Sends of producers whose calls are told, by a broker that takes delays."""
    return [send.event for send in facts.sends.values() if send.event.called] if facts.declared.delay_support else []


class Asked:
    """What a producer may refuse. ``early``: its queue manager has no delays. ``managed``: it has a queue manager,
    which demands that a life is not below the delay. ``strict``: the call itself is to refuse, not the send after it.
    """

    def __init__(self, facts: Facts, event: SendEvent, *, early: bool) -> None:
        self.event = event
        self.early = early
        self.managed, self.strict = is_managed(facts), facts.simulated
        self.now = {"life": 0, "delay": 0}

    def reason(self, after: dict[str, int]) -> int:
        """What speaks against a life and a delay; 0: nothing."""
        if after["delay"] and self.early:
            return UNSUPPORTED
        return EXPIRY if 0 < after["life"] < after["delay"] else 0


@rule("DLY-053", over=producers, handles=KINDS)
def setters_refuse(facts: Facts, event: SendEvent) -> Findings:
    """A producer takes its life and its delay in any order of its calls; but that of a queue manager refuses the call
    that asks for a delay which it has not, or after which its life is below its delay. What it refuses changes nothing,
    and it throws what its façade throws.
    """
    levels = between(facts, event) if is_managed(facts) else []
    early = {None if one is None else int(one.qmgr["CMDLEVEL"]) < DELAY_LEVEL for one in levels} or {False}
    if len(early) != 1 or None in early:
        return
    asked = Asked(facts, event, early=True in early)
    for call, value_ms, thrown in event.called:
        if thrown and thrown.partition(":")[0] != THROWS[event.facade]:
            yield broken("another-exception", event, why=f"{event.facade}: {thrown!r} is no {THROWS[event.facade]}")
        elif call == "send":
            yield from _sent(asked, thrown)
        elif thrown:
            yield from _refused(asked, call, value_ms, thrown)
        else:
            yield from _taken(asked, call, value_ms)


def _sent(asked: Asked, thrown: str) -> Findings:
    """What it sends with is what it had taken; and what it had taken against the rules is refused now."""
    now, event = asked.now, asked.event
    if (event.ttl_ms, event.delay_ms) != (now["life"], now["delay"]):
        yield broken("changed", event, why=f"life {now['life']} ms and delay {now['delay']} ms had been set")
    elif asked.managed and asked.reason(now) == EXPIRY and not thrown:
        yield broken("taken", event, why=f"life {now['life']} ms is below the delay of {now['delay']} ms")
    elif asked.managed and asked.reason(now) == EXPIRY and EXPIRY_TOLD in thrown:
        yield held("refused-at-the-send")
    elif now["life"] and now["delay"] and not thrown:
        yield held("taken-together", "the life is below the delay" if now["life"] < now["delay"] else "")


def _refused(asked: Asked, call: str, value_ms: int, thrown: str) -> Findings:
    """A setter that threw: for that reason, which a queue manager names."""
    after = {**asked.now, call: value_ms}
    reason, said = asked.reason(after), _THROWN.match(thrown)
    told = said is not None and int(said[2]) == (reason or EXPIRY) and NAMES[int(said[2])] == said[3]
    if asked.managed and not told:
        yield broken("another-reason", asked.event, why=f"{call} {value_ms} ms: {thrown!r}")
    elif not reason and after["life"] != after["delay"]:  # equal ones are open
        yield broken("in-vain", asked.event, why=f"{call} {value_ms} ms: {thrown!r}")
    else:
        yield held("refused", "there is no delay" if reason == UNSUPPORTED else f"the {call} was set last")


def _taken(asked: Asked, call: str, value_ms: int) -> Findings:
    """A setter that took it. IBM's text lets the send be the call that looks at both."""
    asked.now = {**asked.now, call: value_ms}
    reason = asked.reason(asked.now)
    if reason == UNSUPPORTED or (reason and asked.managed and asked.strict):
        yield broken("taken", asked.event, why=f"{call} {value_ms} ms was to be refused with {reason} {NAMES[reason]}")


class Resolved:
    """A message that a queue manager has taken, of which nobody but its objects decides where it comes from and with
    what: ``paths`` are the objects that its name was resolved through, ``bases`` the queues that it may have stood for
    when the message was to come. None: nobody knows them.
    """

    def __init__(self, facts: Facts, send: Send) -> None:
        name, known = send.dest.name, between(facts, send.event)
        self.send = send
        self.paths = [None if one is None else one.path(name) for one in known]
        self.arrivals = [one.event for one in send.arrivals() if not one.is_dead_letter and not one.is_moved]
        due = facts.delays.due(send) if send.delayed else None
        if due is not None:
            known = during(facts, due.span[0], max((one.t1 for one in self.arrivals), default=NEVER))
        self.bases = [None if one is None else one.path(name)[-1][0] for one in known]


def resolved(facts: Facts) -> list[Resolved]:
    """Those that were sent to a name that was an alias or caps lives, or left something to a queue's definition."""
    moved = any(one.op == "move" for one in facts.operations)
    if not is_managed(facts) or not facts.simulated or facts.restarts or moved:
        return []
    rows = [row for one in states(facts) if one.objects is not None for row in one.objects.objects.items()]
    special = {name for (kind, name), row in rows if kind == "QALIAS" or row.get("CAPEXPRY")}
    plain = [send for send in facts.sends.values() if send.confirmed and send.dest.kind == "queue"]
    return [
        Resolved(facts, send)
        for send in plain
        if not facts.names.virtual_topic(send.dest.name)
        and (send.dest.name in special or any(name in send.event.headers for name in AS_DEFINED))
    ]


@rule("DLY-054", over=resolved, handles=KINDS)
def resolved_twice(facts: Facts, row: Resolved) -> Findings:
    """A message comes to the queue that its name stands for, at the send or when its delay is over; its life is no
    longer than CAPEXPRY allows, and what it leaves to its queue's definition is what that said at the send.
    """
    paths = [path for path in row.paths if path is not None]
    if len(paths) < len(row.paths) or None in row.bases:
        return
    if _is_lost(facts, row, paths):
        yield broken("lost", row.send, why=f"it never came to {' or '.join(sorted(set(map(str, row.bases))))}")
    for letter in row.send.arrivals():
        reason = number((letter.event.headers or {}).get(REASON))
        if letter.is_dead_letter and reason and not _may_apply(facts, row.send, reason):
            yield broken("in-vain", row.send, letter, why=f"{reason} never applied to what its name stood for")
    for event in row.arrivals:
        wrong = _wrong(row.send, paths, event) or _another_life(facts, row.send, paths, event)
        if event.dest not in row.bases:
            yield broken("another-queue", row.send, event, why=f"its name stood for {' or '.join(map(str, row.bases))}")
        elif wrong:
            yield broken("other-defaults", row.send, event, why=wrong)
        else:
            asked = any(name in row.send.event.headers for name in AS_DEFINED)
            capped = any(object_["CAPEXPRY"] for path in paths for _, object_ in path)
            yield held("as-defined", "its queue's defaults" if asked else "a cap on its life" if capped else "an alias")


def _may_apply(facts: Facts, send: Send, reason: int) -> bool:
    """Whether at some time its name may have stood for something that takes no message for that reason."""
    known = [one.objects for one in states(facts)]
    rows = [row for one in known if one is not None for _, row in one.path(send.dest.name)]
    known_reason = reason in OF_A_QUEUE and reason != UNKNOWN
    return None in known or not known_reason or any(applies(row, reason, send.event.size) for row in rows)


def _is_lost(facts: Facts, row: Resolved, paths: list[Path]) -> bool:
    """Whether it came nowhere, though whatever its name stood for was drained, and takes messages in the end."""
    send, final = row.send, states(facts)[-1].objects
    capped = any(object_["CAPEXPRY"] for path in paths for _, object_ in path)
    unclear = send.delayed and facts.delays.due(send) is None
    excused = (
        unclear or capped or may_die(facts, send) or send.event.tx or send.event.headers.get(DISCARD) or cancels(facts)
    )
    if send.arrivals() or excused or final is None:
        return False
    if any(object_["PUT"] == "DISABLED" for _, object_ in final.path(send.dest.name)):
        return False
    dests = [facts.destinations.get(str(base)) for base in row.bases]
    return all(
        dest is not None
        and drained(facts, dest)
        and not (dest.purges or is_stuck(facts, dest) or may_be_held_up(facts, dest.name, send.event.size))
        and not any(settles_unseen(session) for session in dest.sessions)
        for dest in (*dests, facts.destination(DEAD_LETTERS))
    )


def _wrong(send: Send, paths: list[Path], event: Arrive) -> str:
    """What of a message is not what its queue's definition said, or its sender."""
    sent = send.event
    for (name, (left, attribute)), own, came in zip(
        AS_DEFINED.items(), (sent.persistent, sent.priority), (event.persistent, event.priority), strict=True
    ):
        asked = str(sent.headers.get(name, "")) == str(left)
        wanted = [_value(path[0][1][attribute]) for path in paths] if asked else [own]
        if came is not None and came not in wanted:
            return f"{attribute} gave {wanted}, and it came with {came!r}" if asked else f"{own!r} became {came!r}"
    return ""


def _value(value: Value) -> bool | int:
    return value == "YES" if isinstance(value, str) else value


def _another_life(facts: Facts, send: Send, paths: list[Path], event: Arrive) -> str:
    """What its expiration should have been, if it came with another one."""
    sent = send.event
    if facts.declared.timestamping is not None or sent.life_ms or not sent.timestamp_ms or sent.timestamp_ms <= 0:
        return ""
    caps = [[int(object_["CAPEXPRY"]) * TENTH_MS for _, object_ in path if object_["CAPEXPRY"]] for path in paths]
    ends = [[sent.timestamp_ms + cap_ms for cap_ms in some] for some in caps]
    wanted = [min([*some, *([sent.expiration_ms] if sent.expiration_ms > 0 else [])], default=0) for some in ends]
    return "" if event.expiration_ms in wanted else f"its expiration was to be {' or '.join(map(str, wanted))}"
