"""Queue managers: what a broker of generation ``ibm-mq`` must, and may, refuse, with which reason.

On a process queues have names of their own, which the commands of a program do not know: there a command that names
one may or may not concern it. So it is with the queues of virtual topics.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

import msgspec

from brokerproof.conformance.experiment.history import Operate, Send, Subscribe
from brokerproof.conformance.facts.due import due_of
from brokerproof.conformance.facts.expiration import may_die
from brokerproof.conformance.facts.managed import asking, between, cancels
from brokerproof.conformance.facts.marks import RESOLVED
from brokerproof.conformance.facts.mqsc import DELAY_LEVEL, STAGING, Command, Objects, Value
from brokerproof.conformance.facts.presence import settles_unseen
from brokerproof.conformance.facts.rows import Copy
from brokerproof.conformance.facts.rows import Send as SendRow
from brokerproof.conformance.facts.spans import NEVER, Span
from brokerproof.conformance.facts.tables import Tables

RETAIN: Final = ("JMS_IBM_Retain", "JMS_IBM_RETAIN")
FLAGS: Final = "JMS_IBM_MQMD_MsgFlags"
#: MQMF_SEGMENTATION_ALLOWED, the two of groups and the two of segments.
APART: Final = 0x1F
#: What a staged message weighs beside its body.
HEADER_BYTES: Final = 256
TENTH_MS: Final = 100
NO_MESSAGE, EXPIRY, TOO_BIG, UNAUTHORISED, OPTIONS = 2033, 2013, 2030, 2035, 2046
INHIBITED, FULL, UNKNOWN, UNSUPPORTED, PUBLICATION = 2051, 2053, 2085, 2298, 2502
#: Of a message that is to be taken off the staging queue.
UNGETTABLE: Final = 2016
NAMES: Final = {
    UNGETTABLE: "MQRC_GET_INHIBITED",
    NO_MESSAGE: "MQRC_NO_MSG_AVAILABLE",
    EXPIRY: "MQRC_EXPIRY_ERROR",
    TOO_BIG: "MQRC_MSG_TOO_BIG_FOR_Q",
    UNAUTHORISED: "MQRC_NOT_AUTHORIZED",
    OPTIONS: "MQRC_OPTIONS_ERROR",
    INHIBITED: "MQRC_PUT_INHIBITED",
    FULL: "MQRC_Q_FULL",
    UNKNOWN: "MQRC_UNKNOWN_OBJECT_NAME",
    UNSUPPORTED: "MQRC_FUNCTION_NOT_SUPPORTED",
    PUBLICATION: "MQRC_PUBLICATION_FAILURE",
}
#: Those of one queue, which a refusal names.
OF_A_QUEUE: Final = (TOO_BIG, INHIBITED, FULL, UNKNOWN)


class Reasons:
    """Why a request must be refused (with one of ``may``), and may be, by reason code; and which queues a refusal for
    want of room names. ``known`` False: anything may be the reason.
    """

    def __init__(self, *, known: bool = True) -> None:
        self.known = known
        self.must: dict[int, bool] = {}
        self.may: dict[int, bool] = {}
        #: Queue -> whether it must be named.
        self.places: dict[str, bool] = {}

    def add(self, reason: int, place: str = "", *, sure: bool = True) -> None:
        """One more."""
        self.may[reason] = True
        if sure:
            self.must[reason] = True
        if place:
            self.places[place] = sure or self.places.get(place, False)


def own_reason(tables: Tables, event: Send | Subscribe | Operate) -> str:
    """Why a queue manager may have refused; "" if nothing that it was told excuses that."""
    if isinstance(event, Operate):
        wrong = wrong_with(tables, event)
        return "nobody knows" if wrong is None else wrong
    found = reasons_of(tables, event)
    if not found.known:
        return "nobody knows what its objects were"
    return f"it may be refused with {', '.join(map(str, found.may))}" if found.may else ""


def wrong_with(tables: Tables, event: Operate) -> str | None:
    """Why a command must be refused, "" if it must not; None: nobody knows."""
    command = Command(event.command or "")
    if command.wrong:
        return command.wrong
    if command.verb == "DELETE" and command.kind == "QLOCAL" and _may_hold(tables, command.name):
        return "it holds messages" if tables.simulated and depth_of(tables, event, command.name)[0] else None
    if command.kind == "STAGED" and command.verb == "DELETE":
        least, most = _staged(tables, event)
        if not 0 < command.place <= most:
            return "there is no such message"
        if command.place > least:
            return None
    told = [None if state is None else state.copy().apply(command) for state in between(tables, event)]
    return told[0] if all((one is None, bool(one)) == (told[0] is None, bool(told[0])) for one in told) else None


def _may_hold(tables: Tables, name: str) -> bool:
    if name == STAGING:
        return bool(tables.delayed)
    return not tables.simulated or name in tables.destinations


def reasons_of(tables: Tables, event: Send | Subscribe) -> Reasons:
    """Why a request must and may be refused, whatever the state was."""
    possible = between(tables, event)
    known = [state for state in possible if state is not None]
    if len(known) < len(possible) or tables.header.at:
        return Reasons(known=False)
    asked = (
        _sending(tables, state, event) if isinstance(event, Send) else _subscribing(tables, state, event)
        for state in known
    )
    each = list(asked)
    if len(each) == 1:
        return each[0]
    all_of = Reasons(known=all(one.known for one in each))
    for one in each:
        for reason in one.may:
            all_of.add(reason, sure=all(other.must for other in each))
        for place in one.places:
            all_of.places[place] = all(other.places.get(place, False) for other in each)
    return all_of


def user_of(tables: Tables, host: str) -> str:
    """As whom a host has logged in; "": as nobody."""
    users = tables.header.users
    return "" if users is msgspec.UNSET else users.get(host, "")


def _subscribing(tables: Tables, state: Objects, event: Subscribe) -> Reasons:
    found = Reasons(known=_is_known(tables, state, event))
    right = "SUB" if tables.names.is_topic(event.dest) else "BROWSE" if event.browser else "GET"
    for part in tables.names.parts(event.dest):
        if part == STAGING or not state.may(right, part, user_of(tables, event.host)):
            found.add(UNAUTHORISED)
    return found


def _is_known(tables: Tables, state: Objects, event: Send | Subscribe) -> bool:
    """Whether the objects that a name stands for are those that commands call so, and the rights are everyone's or
    those of its user: nobody knows how a client without one is called.
    """
    dest, host, sends = event.dest, event.host, isinstance(event, Send)
    if not user_of(tables, host) and any(who != "nobody" and host and who.startswith(host) for who in state.rights):
        return False
    names = [dest, *tables.names.parts(dest)]
    told = [name for kind, name in state.objects if name != STAGING]
    told += [name for mine in state.rights.values() for name in mine]
    plain = tables.simulated and all(tables.destination(name).kind in {"queue", "topic", "composite"} for name in names)
    virtual = any(tables.names.virtual_topic(name) for name in names)
    targets = [str(state.objects[("QALIAS", name)]["TARGET"]) for name in names if ("QALIAS", name) in state.objects]
    return not told or (plain and not virtual and (not targets or (sends and STAGING not in targets)))


def _sending(tables: Tables, state: Objects, event: Send) -> Reasons:
    found = Reasons(known=_is_known(tables, state, event) and event.deliver_at_ms is None)
    if event.delay_ms < 0 or not found.known:
        found.known = False
        return found
    topic, parts = tables.names.is_topic(event.dest), tables.names.parts(event.dest)
    for part in parts:
        if not state.may("PUB" if topic else "PUT", part, user_of(tables, event.host)):
            found.add(UNAUTHORISED)
    if event.delay_ms:
        _of_the_message(state, event, found)
        for part in parts:
            _of_the_target(state, event, found, part, topic=topic)
        _of_a_queue(
            found, STAGING, state.staging(), event.size + HEADER_BYTES, partial(_staged, tables, event), sure=not topic
        )
    for part in parts if not topic else ():
        path = state.path(part)
        base, row = path[-1]
        row = {**row, "PUT": "DISABLED"} if path[0][1]["PUT"] == "DISABLED" else row
        _of_a_queue(found, part, row, event.size, partial(_standing, tables, event, base))
    if len(parts) > 1:  # the first one that takes nothing is named
        found.places = dict.fromkeys(found.places, False)
    return found


def _of_the_message(state: Objects, event: Send, found: Reasons) -> None:
    """What forbids a delay to a message, wherever it goes."""
    if int(state.qmgr["CMDLEVEL"]) < DELAY_LEVEL:
        found.add(UNSUPPORTED)
    if event.group or any(_number(event, name) for name in RETAIN) or _number(event, FLAGS) & APART:
        found.add(OPTIONS)
    sent_ms = event.timestamp_ms or 0
    life_ms = event.expiration_ms - sent_ms
    if event.life_ms or (event.ttl_ms and event.expiration_ms <= 0) or (event.expiration_ms > 0 >= sent_ms):
        found.add(EXPIRY, sure=False)  # whose clock counts is open, or a header said it
    elif event.expiration_ms > 0 and max(1, life_ms) < event.delay_ms:
        found.add(EXPIRY)


def _of_the_target(state: Objects, event: Send, found: Reasons, name: str, *, topic: bool) -> None:
    """What forbids a delay to a destination."""
    for _, row in [(name, state.topic(name))] if topic else state.path(name):
        cap_ms = int(row["CAPEXPRY"]) * TENTH_MS
        if 0 < cap_ms < event.delay_ms:
            found.add(EXPIRY)
        if not topic and row["CLUSTER"] and row["DEFBIND"] != "NOTFIXED":
            found.add(OPTIONS)
        if topic and row["PMSGDLV" if event.persistent else "NPMSGDLV"] != "ALLAVAIL":
            found.add(PUBLICATION)


def _of_a_queue(
    found: Reasons,
    name: str,
    row: dict[str, Value] | None,
    size_bytes: int,
    depth: Callable[[], Span],
    *,
    sure: bool = True,
) -> None:
    """What a put finds in its way on one queue, which holds ``depth`` messages, at least and at most."""
    if row is None:
        found.add(UNKNOWN, name, sure=sure)
    elif row["PUT"] == "DISABLED":
        found.add(INHIBITED, name, sure=sure)
    elif size_bytes > int(row["MAXMSGL"]):
        found.add(TOO_BIG, name, sure=sure)
    else:
        least, most = depth()
        if most >= int(row["MAXDEPTH"]):
            found.add(FULL, name, sure=sure and least >= int(row["MAXDEPTH"]))


def _number(event: Send, name: str) -> int:
    value = event.headers.get(name, 0)
    if isinstance(value, str):
        return int(value) if value.lstrip("-").isdigit() else 0
    return int(value)


def depth_of(tables: Tables, event: Operate, name: str) -> Span:
    """How many messages a queue held when an operator looked: at least, at most."""
    return _staged(tables, event) if name == STAGING else _standing(tables, event, name)


def _standing(tables: Tables, event: Send | Operate, name: str) -> Span:
    """How many messages a queue held when something was asked: at least, at most."""
    dest = tables.destinations.get(name)
    if dest is None:
        return 0, NEVER
    moved = any(one.op == "move" for one in tables.operations) or dest.kind == "dead-letters"
    came = [send for send in _before(tables, event) if name in tables.names.parts(send.event.dest)]
    stays = [copy for copy in dest.copies if _stays(tables, copy, event)]
    aliased = bool(tables.marks.spans(RESOLVED, name))
    unseen = any(settles_unseen(one) and one.opened[0] <= event.t1 for one in dest.sessions)
    simple = tables.simulated and not (tables.restarts or dest.purges or aliased or unseen)
    fed = moved or aliased or asking(tables) or tables.names.virtual_topic(name)
    return len(stays) if simple else 0, NEVER if fed else len(came)


def _stays(tables: Tables, copy: Copy, event: Send | Operate) -> bool:
    """Whether a copy stood on its queue, given to nobody yet, for certain."""
    send = copy.send
    if send.event.seq >= event.seq or not send.confirmed or send.accepted[1] > event.t0 or send.delayed:
        return False
    return not may_die(tables, send) and not any(one.assigned[0] <= event.t1 for one in copy.deliveries)


def _staged(tables: Tables, event: Send | Operate) -> Span:
    """The same of the staging queue, where there is one message for each queue or subscription."""
    least = most = 0
    quiet = tables.simulated and not tables.restarts and not any(one.op != "mqsc" for one in tables.operations)
    for send in _before(tables, event):
        if not send.delayed:
            continue
        topic = tables.names.is_topic(send.event.dest)
        count = len(tables.sessions) if topic else len(tables.names.parts(send.event.dest))
        plain = all(tables.destination(name).kind in {"queue", "topic"} for name in tables.names.parts(send.event.dest))
        sure = quiet and plain and send.confirmed and send.event.tx is None and not send.event.again
        due = due_of(tables, send) if sure else None
        kept = due is not None and send.accepted[1] <= event.t0 and send.event.seq < event.seq
        most += count if due is None or not tables.simulated or not _is_over(tables, send, event) else 0
        if due is not None and kept and not topic and due.span[0] > event.t1 and not may_die(tables, send):
            least += count
    gone = sum(one.seq < event.seq and one.result == "ok" for one in cancels(tables))
    least, most = max(0, least - gone), max(0, most - gone)
    if any(probe.said.dialogues and probe.t0 <= event.t1 for probe in tables.probes):
        return least, NEVER  # a raw peer may have sent something with a delay
    return least, most + (len(tables.sessions) if isinstance(event, Send) and tables.names.is_topic(event.dest) else 0)


def _is_over(tables: Tables, send: SendRow, event: Send | Operate) -> bool:
    """Whether a queue's message had been seen by then, so that it waited no more."""
    one = len(tables.names.parts(send.event.dest)) == 1 and not tables.names.is_topic(send.event.dest)
    return one and send.seen is not None and send.seen.t1 < event.t0


def _before(tables: Tables, event: Send | Operate) -> list[SendRow]:
    """What may have been taken over before something else came."""
    return [
        row for row in tables.sends.values() if not row.refused and row.event.t0 <= event.t1 and row.event is not event
    ]
