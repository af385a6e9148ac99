"""Managed: what a queue manager's objects were at each instant.

It follows from the commands of its configuration and its operator's, in the order in which they took effect
(``mqsc.py``). A restart carries out those of the configuration again, and no others.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from brokerproof.conformance.experiment.destinations import DEAD_LETTERS
from brokerproof.conformance.experiment.history import Arrive, Event, History, Operate, Send, Subscribe
from brokerproof.conformance.facts import marks
from brokerproof.conformance.facts.mqsc import ATTRIBUTES, STAGING, Command, Objects, State
from brokerproof.conformance.facts.rows import Send as SendRow
from brokerproof.conformance.facts.spans import NEVER
from brokerproof.conformance.facts.tables import Tables, kind_of

#: What of a queue decides about sends and getters alone; of the staging queue what it has room for does, too.
STILL: Final = {"DEFPSIST", "DEFPRTY", "DEFBIND", "CLUSTER", "STGCLASS"}
#: A queue that takes and gives as a new one does: what it is altered to have of this concerns nothing that is there.
OPEN: Final = {word: ATTRIBUTES["QLOCAL"][word][0] for word in ("PUT", "GET", "MAXDEPTH", "MAXMSGL")}
#: What a message leaves to its queue's definition: property -> (the value that does so, the attribute).
AS_DEFINED: Final = {"JMS_IBM_MQMD_Persistence": (2, "DEFPSIST"), "JMS_IBM_MQMD_Priority": (-1, "DEFPRTY")}
#: What the queues of subscribers are made from.
MODEL: Final = "SYSTEM.NDURABLE.MODEL.QUEUE"
#: How a sender asks for reports, and what none of them is without; and for no dead letter.
REPORT: Final = "JMS_IBM_Report_"
EXCEPTION: Final = "JMS_IBM_Report_Exception"
FEEDBACK: Final = "JMS_IBM_Feedback"
DISCARD: Final = "JMS_IBM_Report_Discard_Msg"
#: What a queue manager writes on a dead letter: why, and what its target was.
REASON: Final = "MQDLH_Reason"
TARGET: Final = "MQDLH_DestQName"


def is_queue_manager(tables: Tables) -> bool:
    """Whether the broker plays one."""
    declared = tables.declared
    return declared.generation.get("delay") == "ibm-mq" or bool(declared.mqsc) or bool(commands(tables))


def commands(tables: Tables) -> list[Operate]:
    """What its operator said and was not refused."""
    return [event for event in tables.operations if event.op == "mqsc" and event.result != "fail"]


def all_commands(tables: Tables) -> list[Command]:
    """What its configuration and its operator said, of what was not refused."""
    return [Command(line) for line in (*tables.declared.mqsc, *(event.command or "" for event in commands(tables)))]


def cancels(tables: Tables) -> list[Operate]:
    """When an operator took, or may have taken, a message off the staging queue."""
    return [event for event in commands(tables) if (event.command or "").lstrip().upper().startswith("DELETE STAGED")]


def may_be_held_up(tables: Tables, name: str, size_bytes: int) -> bool:
    """Whether a queue manager may to the end keep what was to be released to a queue: the processor does not run, or
    the queue takes nothing.
    """
    objects = states(tables)[-1].objects
    if objects is None or not objects.running:
        return True
    row = objects.queue(name)
    full = int(row["MAXDEPTH"]) <= len(tables.sends) or int(row["MAXMSGL"]) < size_bytes
    return full or row["PUT"] == "DISABLED"


def is_report(tables: Tables, event: Arrive) -> bool:
    """Whether a queue manager tells a sender what it asked to be told; without a reply queue, that is a dead letter."""
    return FEEDBACK in event.properties and is_queue_manager(tables) and bool(asking(tables))


def asking(tables: Tables) -> list[SendRow]:
    """The messages whose senders asked for reports."""
    return [send for send in tables.sends.values() if asks(send.event)]


def asks(event: Send) -> bool:
    """Whether whoever sent it asked for a report."""
    return any(name.startswith(REPORT) for name in event.headers)


def states(tables: Tables) -> list[State]:
    """The objects over time, in order; worked out once per run."""
    if tables.managed is None:
        told: list[Event] = [event for event in tables.operations if event.op == "mqsc"]
        tables.managed = _states(tables, [*told, *tables.restarts])
    return tables.managed


def configured(tables: Tables) -> Objects:
    """The objects when the broker has started."""
    objects = Objects()
    for line in tables.declared.mqsc:
        objects.apply(Command(line))
    objects.running = objects.opens()
    return objects


def _states(tables: Tables, changes: Iterable[Event]) -> list[State]:
    """The objects after each of its operator's commands and of its restarts."""
    found = [State(configured(tables))]
    for event in sorted(changes, key=lambda event: event.seq):
        if not isinstance(event, Operate):
            found.append(State(configured(tables), event))
        elif event.result != "fail":
            command, before = Command(event.command or ""), found[-1].objects
            if command.verb == "DISPLAY":
                continue
            after = None if before is None else before.copy()
            # What was carried out and should not have been may have done anything.
            odd = after is not None and (after.apply(command) or event.result == "unknown")
            if odd and command.kind != "STAGED":  # messages, and no object
                after = None
            found.append(State(after, event))
    return found


def may_be_capped(tables: Tables, event: Send) -> bool:
    """Whether a queue manager may shorten the life of what is sent (CAPEXPRY of a queue, an alias, a topic)."""
    if not is_queue_manager(tables):
        return False
    names = tables.names.parts(event.dest)
    return any(
        one is None
        or any(
            row.get("CAPEXPRY") and (kind == "QALIAS" or name in names or row.get("TOPICSTR") in names)
            for (kind, name), row in one.objects.items()
        )
        for one in (between(tables, event) if event.result != "unknown" else [one.objects for one in states(tables)])
    )


def between(tables: Tables, event: Event) -> list[Objects | None]:
    """What the objects may have been while something was asked and answered."""
    all_ = states(tables)
    first = max(place for place, state in enumerate(all_) if state.before(event))
    last = first
    while last + 1 < len(all_) and not all_[last + 1].after(event):
        last += 1
    return [state.objects for state in all_[first : last + 1]]


def during(tables: Tables, from_ns: int, until_ns: int) -> list[Objects | None]:
    """What the objects may have been at some instant of ``[from_ns, until_ns]``."""
    all_ = states(tables)
    first = max(place for place, one in enumerate(all_) if one.event is None or one.event.t1 < from_ns)
    return [one.objects for one in all_[first:] if one.event is None or one.event.t0 <= until_ns]


def mark_commands(tables: Tables, history: History, sends: Iterable[Send]) -> None:
    """Mark where an operator's commands may change what becomes of messages."""
    told = [event for event in history.events if type(event) is Operate and event.op == "mqsc"]
    if not told and not is_queue_manager(tables):
        return
    watched = {
        event.dest: kind_of(event.dest, tables.names) for event in history.events if isinstance(event, Subscribe)
    }
    several = [name for name, kind in watched.items() if kind in {"pattern", "temporary", "dead-letters"}]
    ways = [(send, _ways(tables, send, watched)) for send in sends]
    _mark_resolved(tables, told, ways, several)
    for send, _ in ways:
        if "reply-to" in send.headers and asks(send):
            tables.marks.put(marks.REPEATED, f"~{send.host}", (send.t0, NEVER))  # its reports come there
    waits = [(send, names) for send, names in ways if send.delay_ms or send.deliver_at_ms is not None]
    for send, names in waits:
        # What its subscriber left behind, and the report of which nothing takes, stays where it is.
        for name in names if EXCEPTION in send.headers else ():
            if tables.names.is_topic(name):
                tables.marks.put(marks.MQSC, name, (send.t0, NEVER))
    delayed = [name for _, names in waits for name in names]
    all_ = _states(tables, told)
    for event in told:
        command = Command(event.command or "")
        queue = None if event.result == "fail" else _subject(command)
        if queue is None:
            continue
        places = [*several, *delayed]
        if queue == "" or kind_of(queue, tables.names) == "dead-letters":
            places = [""]
        elif queue == MODEL:
            places += [name for _, names in ways for name in names if tables.names.is_topic(name)]
        elif queue != STAGING:
            places += [queue, *(name for _, names in ways if queue in names for name in names)]
        until_ns = _restored_ns(all_, event, command)
        for place in dict.fromkeys([marks.WHOLE, DEAD_LETTERS, *places, *_own_dead_letters(tables, places)]):
            tables.marks.put(marks.MQSC, place, (event.t0, until_ns))


def _restored_ns(all_: list[State], event: Operate, told: Command) -> int:
    """When the processor runs again for certain after a command that is about nothing else; what is sent from then on
    it does not concern.
    """
    if told.kind not in {"QMGR", "DELAYPROC"} or "DEADQ" in told.attributes:
        return NEVER
    if told.attributes.get("PLATFORM"):
        return NEVER  # the staging queue is another one
    later = (state for state in all_ if state.event is not None and state.event.seq >= event.seq)
    running = (state for state in later if state.objects is not None and state.objects.running)
    return next((state.event.t1 for state in running if state.event is not None), NEVER)


def _mark_resolved(tables: Tables, told: list[Operate], ways: list[tuple[Send, list[str]]], several: list[str]) -> None:
    """Mark where a name that somebody uses, or that dead letters go to, may be another queue's (messages that were sent
    before may come to that one, too), or a queue's definition decides about a message.
    """
    lines = [*tables.declared.mqsc, *(event.command or "" for event in told if event.result != "fail")]
    said = [one for one in map(Command, lines) if one.verb in {"DEFINE", "ALTER"} and not one.wrong]
    aliases = [one.name for one in said if one.kind == "QALIAS"]
    touched = [*aliases, *(str(one.attributes.get("TARGET", "")) for one in said if one.kind == "QALIAS")]
    decided = AS_DEFINED.keys()
    places = [name for send, names in ways for name in names if {*names} & {*touched} or send.headers.keys() & decided]
    letters = _own_dead_letters(tables, [*places, *several])
    dead = {*letters, DEAD_LETTERS, *(str(one.attributes.get("DEADQ")) for one in said)}
    if not places and not dead & {*aliases}:
        return
    for place in dict.fromkeys([*places, *touched, *several, *letters, DEAD_LETTERS, marks.WHOLE]):
        for kind in (marks.RESOLVED, marks.MQSC):
            tables.marks.put(kind, place, (0, NEVER))


def _ways(tables: Tables, send: Send, watched: Iterable[str]) -> list[str]:
    """The name that a message was sent to, its parts, and the queues of virtual topics among them."""
    parts = tables.names.parts(send.dest)
    return [send.dest, *parts, *(name for name in watched if tables.names.virtual_topic(name) in parts)]


def _own_dead_letters(tables: Tables, names: Iterable[str]) -> list[str]:
    queues = [name for name in names if kind_of(name, tables.names) in {"queue", "virtual", "topic"}]
    return [tables.destination(name).applied.own_dead_letters() or DEAD_LETTERS for name in queues]


def _subject(told: Command) -> str | None:
    """The queue or topic whose messages, once they are taken, a command may concern; ``STAGING``: those with a delay;
    "": nobody knows; None: there is none.
    """
    if told.wrong or told.verb == "DISPLAY" or told.kind == "AUTHREC":
        return None
    if told.kind in {"QMGR", "DELAYPROC", "STAGED"}:
        return "" if "DEADQ" in told.attributes else STAGING
    if told.kind not in {"QLOCAL", "QALIAS", "TOPIC"}:
        return ""
    name = str(told.attributes.get("TOPICSTR") or told.name)
    still = STILL | {"MAXDEPTH", "MAXMSGL"} if name == STAGING else STILL
    if told.verb == "ALTER" and told.attributes.keys() <= still:
        return None
    if told.verb == "ALTER" and all(word in still or OPEN.get(word) == one for word, one in told.attributes.items()):
        return STAGING
    return "" if name.startswith("SYSTEM.") and name not in {STAGING, MODEL} else name
