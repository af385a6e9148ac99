"""Permission: what may rightly have kept a broker from granting a request, or from answering it. Nothing else may.

A refusal needs a reason that follows from what was asked and from what was so when it was: an option that the broker
does not offer, an illegal value, no connection, no open transaction, nothing held, a name in use, no room. What cannot
be judged is taken for such a reason.
"""

from __future__ import annotations

from typing import Final

from brokerproof.conformance.experiment.destinations import is_pattern
from brokerproof.conformance.experiment.history import (
    Abort,
    Ack,
    Acknowledge,
    Begin,
    Commit,
    Connect,
    Event,
    Nack,
    Operate,
    Send,
    Subscribe,
    Unsubscribe,
)
from brokerproof.conformance.facts import marks
from brokerproof.conformance.facts.asked import Request
from brokerproof.conformance.facts.epochs import OVERHEAD_MAX_BYTES
from brokerproof.conformance.facts.managed import is_queue_manager
from brokerproof.conformance.facts.presence import disturbed, gone_ns, is_bereft, kept_connection, rest_after
from brokerproof.conformance.facts.pressure import scarce, scarce_ns, surely_has_room
from brokerproof.conformance.facts.queue_managers import own_reason
from brokerproof.conformance.facts.rows import Client, Destination, Transaction
from brokerproof.conformance.facts.selectors import read
from brokerproof.conformance.facts.spans import NEVER, NS_PER_MS
from brokerproof.conformance.facts.strains import in_need
from brokerproof.conformance.facts.tables import Tables

#: Bodies beyond this size may be more than a broker takes.
LARGE_BYTES: Final = 1024 * 1024
#: More sends of one client than these may not wait beside what else it asks: they fill the memory that there is not.
WAITING_MAX: Final = 100
#: Destinations that not everybody may use, or that only the broker writes to.
RESERVED: Final = {"temporary", "advisory", "dead-letters"}


def forbidden(tables: Tables, request: Request) -> str:
    """Why a request may rightly have been refused; "" if nothing speaks against it."""
    event = request.event
    if not request.connected:
        return "not connected"
    if in_need(tables.strains, event):
        return "the broker had too little of something"
    lacking = [word for word, asked in _options(tables, request).items() if asked and not _offers(tables, word)]
    if lacking:
        return f"not offered: {', '.join(lacking)}"
    if isinstance(event, Send):
        return _send(tables, event, begun=request.begun)
    if isinstance(event, Subscribe):
        return _subscribe(tables, event, request)
    if isinstance(event, Ack | Acknowledge | Nack):
        return _settle(tables, request)
    if isinstance(event, Begin):
        return "" if request.clear else "a transaction is open"
    if isinstance(event, Commit | Abort):
        transaction = tables.transactions.get(event.tx)
        mixed = _is_mixed(transaction)
        if transaction is not None and any(send.event.deliver_at_ms is not None for send in transaction.sends):
            return "by now a delivery time may be too far away"
        return "" if request.begun and not mixed else "the transaction may not be open, or not whole"
    if isinstance(event, Unsubscribe):
        return "" if _is_free(tables, request, event.durable, sure=True) else "it may be in use, or not be there"
    if isinstance(event, Operate):
        return _operate(tables, event)
    return _connect(tables, request, event)


def _offers(tables: Tables, capability: str) -> bool:
    return capability in tables.header.capabilities


def _options(tables: Tables, request: Request) -> dict[str, bool]:
    """Capability -> whether the request needs it."""
    event = request.event
    needed = {"transactions": getattr(event, "tx", None) is not None, "nack": isinstance(event, Nack)}
    if isinstance(event, Send | Subscribe):
        needed["topics"] = tables.names.is_topic(event.dest)
    if isinstance(event, Send):
        kind = tables.names.kind(event.dest)
        return needed | {
            "ttl": event.expiration_ms != 0,
            "broker-ttl": event.life_ms != 0,
            "delay": event.delay_ms != 0 or event.deliver_at_ms is not None,
            "absolute-delay": event.deliver_at_ms is not None or event.preset_ms is not None,
            "groups": event.group != "",
            "composites": kind == "composite",
            "virtual-topics": kind == "virtual",
        }
    if isinstance(event, Subscribe):
        return needed | {
            "selectors": event.selector != "",
            "durables": event.durable != "",
            "jms-semantics": event.durable != "" and _goes_over(tables, request, event),
            "browsers": event.browser,
            "exclusive": event.exclusive or event.priority != 0,
            "wildcards": is_pattern(event.dest),
            "pull": event.prefetch == 0,
            "sync-dispatch": event.dispatch == "sync",
        }
    ends = isinstance(event, Unsubscribe)
    return needed | {"durables": ends, "ends-durables": ends, "operator": isinstance(event, Operate)}


def _send(tables: Tables, event: Send, *, begun: bool) -> str:
    declared, names = tables.declared, tables.names
    if not begun and event.tx is not None:
        return "the transaction may not be open"
    if any(tables.destination(part).kind in RESERVED for part in names.parts(event.dest)):
        return "not everybody may send there"
    longest_ms = declared.delay_max_ms or NEVER
    delayed = event.delay_ms != 0 or event.deliver_at_ms is not None
    # How far off an instant is for the broker is known less well than a delay: beside a limit it may be too far.
    fits = (
        0 < event.delay_ms <= longest_ms if event.delay_ms else longest_ms == NEVER and (event.deliver_at_ms or 0) > 0
    )
    if delayed and not (declared.delay_support and fits):
        return "such a delay may be refused"
    if is_queue_manager(tables) and (reason := own_reason(tables, event)):
        return reason
    if event.forged or event.preset_ms is not None or event.size > LARGE_BYTES:
        return "an unusual message"
    return "there may have been no room" if maybe_without_room(tables, event) else ""


def maybe_without_room(tables: Tables, event: Send) -> bool:
    """Whether memory or the disk may have been full, so that a send is refused, or waits."""
    if tables.declared.limits_disk:
        return True
    if not tables.throttles:
        return False
    places = [tables.destination(part) for part in tables.names.parts(event.dest)]
    places += [queue for place in places for queue in tables.virtual_queues.get(place.name, ())]
    if all(surely_has_room(tables, place, event) for place in places):
        return False
    return any(scarce_ns(tables, place) <= event.t1 or _may_be_full_of_uncommitted(tables, place) for place in places)


def _may_be_full_of_uncommitted(tables: Tables, dest: Destination) -> bool:
    """Whether what transactions sent there may fill its memory before anybody knows whether it stays."""
    limits = [one for one in (tables.declared.memory_limit_bytes, dest.applied.memory_limit_bytes) if one > 0]
    sizes = [send.event.size + OVERHEAD_MAX_BYTES for send in dest.sends if send.event.tx is not None]
    return bool(limits) and sum(sizes) > min(limits)


def is_behind(tables: Tables, client: Client, event: Event) -> bool:
    """Whether an earlier message of its may wait for room, until when the broker reads no further."""
    if _awaits_all(tables, client) and not (tables.declared.limits_disk and tables.throttles):
        return False
    for other in tables.asked:
        before = other.event
        if other.client is not client or before is event or before.t0 > event.t0 or not isinstance(before, Send):
            continue
        if before.result == "unknown" and maybe_without_room(tables, before):
            return True
    return False


def _awaits_all(tables: Tables, client: Client) -> bool:
    """Whether a client waits for an answer to each message: one that waits for memory then holds up nothing else, nor,
    in the generation "fair", one that waits for the disk. A real library may itself keep back what follows.
    """
    if not tables.simulated:
        return False
    sends = [send.event for send in tables.sends.values() if send.client is client]
    few = sum(one.result == "unknown" for one in sends) <= WAITING_MAX
    return few and all((one.persistent or client.traits.awaits_receipt) and one.tx is None for one in sends)


def _subscribe(tables: Tables, event: Subscribe, request: Request) -> str:
    dest, topic = tables.destination(event.dest), tables.names.is_topic(event.dest)
    if dest.kind == "temporary" or (dest.kind == "advisory" and not _offers(tables, "advisories")):
        return "not everybody may consume from there"
    if is_queue_manager(tables) and (reason := own_reason(tables, event)):
        return reason
    if not request.clear:
        return "the name is in use"
    if event.selector and read(event.selector) is None:
        return "nobody knows what this selector says"
    queue_only = event.browser or event.exclusive or event.prefetch == 0
    if (topic and queue_only) or (event.no_local and not topic) or event.priority < 0:
        return "the options do not fit"
    if dest.kind == "advisory" and event.durable:
        return "nobody need keep advisories"
    if is_pattern(event.dest) and (event.browser or event.durable or event.exclusive):
        return "the options do not fit"
    if event.exclusive and any(other.event is not None and other.event.exclusive for other in dest.sessions):
        return "another one may have the right"
    return "" if not event.durable or _is_free(tables, request, event.durable) else "it may be in use"


def _goes_over(tables: Tables, request: Request, event: Subscribe) -> bool:
    """Whether a durable subscription of that name may have been one of another topic, or to other messages."""
    own = [one.begin for one in tables.subscriptions if one.client is request.client and one.durable == event.durable]
    return any(one is not None and (one.dest, one.selector) != (event.dest, event.selector) for one in own)


def _is_free(tables: Tables, request: Request, durable: str, *, sure: bool = False) -> bool:
    """Whether nobody uses a durable subscription, for certain; ``sure``: and it is there."""
    event, client = request.event, request.client
    own = [one for one in tables.subscriptions if one.client is client and one.durable == durable]
    began = [one for one in own if one.begin is not None and one.begin.t1 <= event.t0]
    if sure and not any(not one.doubtful and event.t1 <= one.sure_ns for one in began):
        return False
    # Whose coming may have been before: intervals of one host may overlap.
    for session in (session for one in own for session in one.sessions if session.opened[0] < event.t1):
        same = session.end == "close" and session.end_connection == (client.connection if client is not None else -1)
        if session.leave is None or session.leave.t0 >= event.t0 or session.leave.seq > event.seq:
            return False
        if not same and gone_ns(tables, session) > event.t0:
            return False
    return True


def _settle(tables: Tables, request: Request) -> str:
    event = request.event
    if not request.held or (not request.begun and getattr(event, "tx", None) is not None):
        return "it may not have held all of them"
    for delivery in request.held:
        if delivery.send.event.mortal() or delivery.dest.kind in RESERVED - {"dead-letters"}:
            return "it may be gone"
        if tables.marks.on(delivery.dest.name, (delivery.event.t0, event.t1)) & marks.OPERATOR:
            return "an operator may have taken it"
        if is_bereft(delivery.session, event.t1):
            return "its subscription has been ended"
    return ""


def _is_mixed(transaction: Transaction | None) -> bool:
    """Whether some part of it was refused, or may be missing."""
    if transaction is None or transaction.mixed:
        return True
    return any(part.result != "ok" for part in (*(send.event for send in transaction.sends), *transaction.acks))


def _operate(tables: Tables, event: Operate) -> str:
    if event.op == "mqsc":
        return own_reason(tables, event) if is_queue_manager(tables) else "it is no queue manager"
    for name in (event.dest, event.to) if event.op == "move" else (event.dest,) if event.dest else ():
        dest = tables.destinations.get(name)
        aliased = tables.marks.spans(marks.RESOLVED, name)
        if dest is None or dest.topic or dest.kind != "queue" or aliased or not _is_there(tables, dest, event):
            return "the queue may not be there"
    return ""


def _is_there(tables: Tables, dest: Destination, event: Operate) -> bool:
    """Whether somebody had sent to a destination, or consumed from it, since the last start of the broker that the
    operator may have met.
    """
    since_ns = max([restart.t1 for restart in tables.restarts if restart.t0 <= event.t1], default=0)
    spans = [(send.event.t0, send.accepted[1]) for send in dest.sends]
    spans += [session.opened for session in dest.sessions if session.known and not session.wild]
    return any(since_ns <= low and high < event.t0 for low, high in spans)


def _connect(tables: Tables, request: Request, event: Connect) -> str:
    client = request.client
    if client is None or disturbed(tables, client, event.t0, event.t1):
        return "it may not have been heard"
    earlier = [one for one in client.connects if one.t1 <= event.t0]
    if earlier and rest_after(tables, max(earlier[-1].t1, _ended_ns(client, event.t0))) > event.t0:
        return "its former connection may still be there"
    return ""


def _ended_ns(client: Client, before_ns: int) -> int:
    """The last end of a connection of its that was seen before."""
    return max([end.t1 for end in (*client.closes, *client.ends) if end.t1 <= before_ns], default=0)


def kept_back(tables: Tables, request: Request) -> str:
    """Why a request may rightly not have been answered while its client looked; "" if nothing excuses that."""
    event, client = request.event, request.client
    if client is None or not request.connected or event.t1 - event.t0 < tables.declared.lateness_ms * NS_PER_MS:
        return "nobody waited long enough"
    if disturbed(tables, client, event.t0, event.t1):
        return "the link or the broker stood still"
    if not kept_connection(tables, client, event.t0, event.t1):
        return "the connection ended"
    if isinstance(event, Send) and (event.size > LARGE_BYTES or event.again):
        return "it may be on its way"
    if tables.declared.limits_disk and (tables.throttles or isinstance(event, Send) or not _awaits_all(tables, client)):
        return "there may have been no room"
    if tables.throttles and scarce(tables, event.t1) and not _awaits_all(tables, client):
        return "there may have been no room"
    if is_behind(tables, client, event):
        return "it may be behind a message that waits for room"
    return "" if not isinstance(event, Send) or not maybe_without_room(tables, event) else "there may have been no room"
