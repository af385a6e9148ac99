"""Queue managers: which reasons of its own a broker of generation ``ibm-mq`` may have had to refuse.

Read from the commands that it was given: those of its configuration and its operator's, whenever these took effect. A
command of a form that is not known here may have any effect.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from brokerproof.conformance.experiment.destinations import DEAD_LETTERS
from brokerproof.conformance.experiment.history import Arrive, History, Operate, Send, Subscribe
from brokerproof.conformance.facts import marks
from brokerproof.conformance.facts.spans import NEVER
from brokerproof.conformance.facts.tables import Tables, kind_of

STAGING: Final = "SYSTEM.DDELAY.LOCAL.QUEUE"
#: What the queues of subscribers are made from.
MODEL: Final = "SYSTEM.NDURABLE.MODEL.QUEUE"
#: How a sender asks for reports, and what none of them is without.
REPORT: Final = "JMS_IBM_Report_"
FEEDBACK: Final = "JMS_IBM_Feedback"
#: Depth of a queue that nobody altered (IBM MQ, DEFINE QLOCAL, MAXDEPTH).
DEPTH: Final = 5000
KNOWN: Final = re.compile(
    r"(?:STOP|START) DELAYPROC"
    r"|ALTER QLOCAL\('?([^')]+)'?\) (?:(?:PUT|GET)\((?:ENABLED|DISABLED)\)|MAXDEPTH\(\d+\))"
    r"|ALTER QMGR (?:CMDLEVEL\(\d+\)|DEADQ\('[^']*'\))"
    r"|DEFINE TOPIC\('([^']+)'\) PMSGDLV\(ALLAVAIL\)"
)
_DEPTH: Final = re.compile(r"MAXDEPTH\((\d+)\)")


def is_queue_manager(tables: Tables) -> bool:
    """Whether the broker plays one."""
    return tables.declared.generation.get("delay") == "ibm-mq" or bool(commands(tables))


def commands(tables: Tables) -> list[str]:
    """What it was told, as far as it may have been carried out."""
    told = [event.command or "" for event in tables.operations if event.op == "mqsc" and event.result != "fail"]
    return [*tables.declared.mqsc, *told]


def is_report(tables: Tables, event: Arrive) -> bool:
    """Whether a queue manager tells a sender what it asked to be told; without a reply queue, that is a dead letter."""
    asked = any(name.startswith(REPORT) for send in tables.sends.values() for name in send.event.headers)
    return asked and is_queue_manager(tables) and FEEDBACK in event.properties


def mark_commands(tables: Tables, history: History, sends: Iterable[Send]) -> None:
    """Mark where an operator's commands may change what becomes of messages."""
    told = [event for event in history.events if type(event) is Operate and event.op == "mqsc"]
    if not told:
        return
    watched = {
        event.dest: kind_of(event.dest, tables.names) for event in history.events if isinstance(event, Subscribe)
    }
    several = [name for name, kind in watched.items() if kind in {"pattern", "temporary", "dead-letters"}]
    ways = [(send, _ways(tables, send, watched)) for send in sends]
    delayed = [name for send, names in ways if send.delay_ms or send.deliver_at_ms is not None for name in names]
    for event in told:
        if event.result == "fail":
            continue
        queue = _subject(event.command or "")
        places = [*several, *delayed]
        if queue == "" or kind_of(queue, tables.names) == "dead-letters":
            places = [""]
        elif queue == MODEL:
            places += [name for _, names in ways for name in names if tables.names.is_topic(name)]
        elif queue != STAGING:
            places += [queue, *(name for _, names in ways if queue in names for name in names)]
        for place in dict.fromkeys([marks.WHOLE, DEAD_LETTERS, *places, *_own_dead_letters(tables, places)]):
            tables.marks.put(marks.MQSC, place, (event.t0, NEVER))


def _ways(tables: Tables, send: Send, watched: Iterable[str]) -> list[str]:
    """The name that a message was sent to, its parts, and the queues of virtual topics among them."""
    parts = tables.names.parts(send.dest)
    return [send.dest, *parts, *(name for name in watched if tables.names.virtual_topic(name) in parts)]


def _own_dead_letters(tables: Tables, names: Iterable[str]) -> list[str]:
    queues = [name for name in names if kind_of(name, tables.names) in {"queue", "virtual", "topic"}]
    return [tables.destination(name).applied.own_dead_letters() or DEAD_LETTERS for name in queues]


def _subject(command: str) -> str:
    """The queue or topic whose messages a command may concern; ``STAGING``: those with a delay; "": nobody knows."""
    found = KNOWN.fullmatch(command)
    if found is None or "DEADQ" in command:
        return ""
    name: str = found.group(1) or found.group(2) or STAGING
    return "" if name.startswith("SYSTEM.") and name not in {STAGING, MODEL} else name


def own_reason(tables: Tables, event: Send | Subscribe | Operate) -> str:
    """Why a queue manager may have refused; "" if nothing that it was told excuses that."""
    told = commands(tables)
    strange = [one for one in told if not KNOWN.fullmatch(one)]
    if strange:
        return f"nobody knows what {strange[0]!r} does"
    if isinstance(event, Operate):
        return "" if KNOWN.fullmatch(event.command or "") else "an unknown command"
    parts = tables.names.parts(event.dest)
    if any(_names(one, part) for one in told for part in parts):
        return "its queue was altered"
    if isinstance(event, Subscribe):
        return ""
    if any(len(tables.destination(part).sends) >= DEPTH for part in parts):
        return "its queue may be full"
    return _of_a_delay(tables, event, told) if event.delay_ms or event.deliver_at_ms is not None else ""


def _of_a_delay(tables: Tables, event: Send, told: list[str]) -> str:
    # A protocol whose header tells a time to live has no expiration on what was refused.
    if event.group or event.expiration_ms or event.life_ms or event.ttl_ms or event.deliver_at_ms is not None:
        return "it may not be delayed"
    if any("CMDLEVEL" in one for one in told):
        return "its level may be too low"
    if tables.names.is_topic(event.dest) or tables.names.kind(event.dest) != "queue":
        guaranteed = not event.persistent or f"DEFINE TOPIC('{event.dest}') PMSGDLV(ALLAVAIL)" in told
        if not guaranteed or tables.names.kind(event.dest) != "topic":
            return "nothing guarantees the publication"
    staging = [one for one in told if _names(one, STAGING)]
    depth = min([DEPTH, *(int(found) for one in staging for found in _DEPTH.findall(one))])
    waiting = [send.event for send in tables.delayed if not send.refused and send.event.t0 <= event.t1]
    if sum(_staged(tables, one) for one in [*waiting, event]) > depth or any("PUT(DISABLED)" in one for one in staging):
        return "there may be no room on the staging queue"
    return ""


def _staged(tables: Tables, event: Send) -> int:
    """How many messages at most it is on the staging queue: one for each subscriber of a topic, as of its send."""
    parts = tables.names.parts(event.dest)
    return sum(len(tables.sessions) + len(tables.subscriptions) if tables.names.is_topic(part) else 1 for part in parts)


def _names(command: str, queue: str) -> bool:
    found = KNOWN.fullmatch(command)
    return found is not None and found.group(1) == queue
