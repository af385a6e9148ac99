"""What producers are told when there is no room (MEM-005, MEM-012, MEM-018, MEM-027 to MEM-030).

A persistent message needs room in the store, any other one in memory or in temporary files. A send that finds none
waits or is refused, and whoever needs something else goes on.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import accumulate
from typing import Final, NamedTuple

from brokerproof.conformance.experiment.history import Send as SendEvent
from brokerproof.conformance.facts import marks
from brokerproof.conformance.facts.absence import ended, missing
from brokerproof.conformance.facts.backlog import Stay, full_spans, lies_in, spooled, stays
from brokerproof.conformance.facts.epochs import OVERHEAD_MAX_BYTES
from brokerproof.conformance.facts.facts import Facts
from brokerproof.conformance.facts.managed import is_queue_manager
from brokerproof.conformance.facts.marks import KINDS
from brokerproof.conformance.facts.permission import LARGE_BYTES, is_behind
from brokerproof.conformance.facts.policy import gets_expiration
from brokerproof.conformance.facts.presence import disturbed, gone_ns, kept_connection
from brokerproof.conformance.facts.pressure import exceedable, freed_ns, limit_at
from brokerproof.conformance.facts.publishing import taken
from brokerproof.conformance.facts.rows import Copy, Destination, Reading, Send
from brokerproof.conformance.facts.spans import NEVER, NS_PER_MS, Span, ms
from brokerproof.conformance.facts.starvation import server, waits
from brokerproof.conformance.facts.strains import in_need
from brokerproof.conformance.rules.rule import Findings, broken, held, rule
from brokerproof.conformance.rules.selecting import reasoned, sends

#: From which share of a limit on producers wait, or are refused.
FULL_PERCENT: Final = 100
#: Words by which a refusal says that it is about memory.
REFUSALS: Final = ("memory", "space", "limit", "full", "usage", "resource")


def names_room(send: Send) -> bool:
    """Whether a send was refused for want of room, if no queue manager gives a reason of its own."""
    reason = (send.event.refusal or "").lower() if send.event.result == "fail" else ""
    return not reasoned(send) and any(word in reason for word in REFUSALS)


def without_room(facts: Facts) -> list[Send]:
    """Sends that were refused for want of room, by a broker whose process had what it needs."""
    found = [send for send in facts.sends.values() if send.event.result == "fail" and names_room(send)]
    return [send for send in found if not in_need(facts.strains, send.event)]


# -- memory


def beyond_memory(facts: Facts) -> list[Send | Copy]:
    """Persistent messages to queues which were refused for want of memory, or accepted when a limit was exceeded."""
    refused = [send for send in facts.rows(without_room) if send.event.persistent and not send.dest.topic]
    beyond = [copy for copy in facts.copies if copy.accepted_beyond] if exceedable(facts) else []
    return [*refused, *(copy for copy in beyond if copy.send.event.persistent and not copy.send.dest.topic)]


@rule("MEM-005", over=beyond_memory, handles=KINDS, absence=True)
def accepted_beyond_memory(facts: Facts, row: Send | Copy) -> Findings:
    """Persistent messages beyond a memory limit are accepted, and none of them is lost."""
    if isinstance(row, Send):
        if not row.dest.applied.entry.send_fail_if_no_space:
            yield broken("refused", row)
    elif missing(facts, row):
        yield broken("lost", row, why="more than a limit holds had been accepted, and it was never seen again")
    elif row.deliveries or row.dead_letters:
        yield held("kept", "more had been accepted than the limit holds")


def unlimited(facts: Facts) -> list[Send | Reading]:
    """What happened where there is no limit: refusals, and readings."""
    declared = facts.declared
    if declared.memory_limit_bytes:
        return []
    rows: list[Send | Reading] = [] if declared.limits_disk else [*facts.rows(without_room)]
    return [*rows, *facts.readings]


@rule("MEM-012", over=unlimited, handles=KINDS)
def zero_is_no_limit(facts: Facts, row: Send | Reading) -> Findings:
    """A limit of 0 is no limit."""
    if isinstance(row, Send):
        parts = facts.parts(row.event)
        unseen = [queue for part in parts for queue in facts.virtual_queues.get(part.name, ())]
        limited = any(dest.applied.memory_limit_bytes for dest in (row.dest, *parts, *unseen))
        if not limited and not _limited_by(facts, row.event.t1):
            yield broken("refused", row)
        return
    dest, event = row.dest, row.event
    own = dest is not None and dest.applied.memory_limit_bytes
    if own or event.memory_limit_bytes or _limited_by(facts, event.t1):
        return
    if event.memory_percent:
        yield broken("limited", row, why=f"{event.memory_percent} % of a limit that does not exist")
    elif event.memory_bytes and event.memory_percent is not None:
        yield held("unlimited", "memory was in use")
    session = server(row) if row.waiting and dest is not None and not dest.topic else None
    copy = waits(facts, row) if session is not None else None
    if session is not None and copy is not None and not _pages_are_full(row):
        yield broken("held-up", copy, session, row)


def _pages_are_full(reading: Reading) -> bool:
    """Whether as many messages are unsettled as a broker loads at once."""
    held_now = sum(window.held + window.doubted for window in (*reading.windows, *reading.wild))
    return reading.destination.applied.page <= held_now


def _limited_by(facts: Facts, until_ns: int) -> bool:
    """Whether an operator may have changed the limits by then."""
    return bool(facts.limits) and facts.limits[0].t0 <= until_ns


def large(facts: Facts) -> list[tuple[Send, bool]]:
    """Messages larger than the broker's limit, and whether memory may have been scarce without them."""
    limit, declared = facts.declared.memory_limit_bytes, facts.declared
    if not 0 < limit < facts.epoch.largest or declared.limits_disk:
        return []
    spans = facts.marks.spans(marks.MEMORY, "")
    sends = [send for send in facts.sends.values() if send.event.size > limit]
    return [(send, any(low < send.event.t0 <= high for low, high in spans)) for send in sends]


@rule("MEM-018", over=large)
def large_messages_pass(facts: Facts, row: tuple[Send, bool]) -> Findings:
    """A message larger than the whole limit is accepted while there is space, delivered and forgotten."""
    send, scarce = row
    if _limited_by(facts, send.event.t1):
        return
    if send.event.result == "fail":
        if not scarce and names_room(send):
            yield broken("refused", send, why="the broker was empty")
    elif any(missing(facts, copy) for copy in send.copies.values()):
        yield broken("lost", send, why="it was accepted and never seen again")
    elif any(copy.deliveries for copy in send.copies.values()):
        yield held("delivered", "larger than the broker's memory")


class Overfilled(NamedTuple):
    """A send that went through at once when nothing was moving and memory was full, as its reading says."""

    send: Send
    reading: Reading
    marks: int


def overfilled(facts: Facts) -> list[Overfilled]:
    """All of them, to queues whose producers wait for memory or are refused; no timer can have made room."""
    full = [one for one in facts.readings if one.at_rest and (one.event.memory_percent or 0) >= FULL_PERCENT]
    if not facts.paged or not full or facts.mortal or gets_expiration(facts.declared):
        return []
    found: list[Overfilled] = []
    for send in facts.sends.values():
        event, dest = send.event, send.dest
        plain = dest.kind == "queue" and send.transaction is None and not send.timed and not event.network
        if plain and taken(send) and dest.applied.entry.producer_flow_control:
            before = [one for one in full if send.after_seq < one.event.seq < event.seq and one.event.t1 <= event.t0]
            found += [Overfilled(send, one, send.marks) for one in before if one.dest in {None, dest}][:1]
    return found


class Needless(NamedTuple):
    """A send that found no room right after readings at rest of its queue and of the broker that show some."""

    send: Send
    reading: Reading
    whole: Reading
    marks: int


def needless(facts: Facts) -> list[Needless]:
    """All of them, in virtual time: a real broker may count a message twice for a moment. Not where a sweep may have
    read what was stored meanwhile.
    """
    found: list[Needless] = []
    if not facts.paged or not facts.simulated or facts.declared.limits_disk:
        return found
    refused = [send for send in facts.rows(without_room) if send.event.tx is None]
    unknown = [send for send in facts.sends.values() if send.event.result == "unknown"]
    for send in (*refused, *(one for one in unknown if _was_kept_waiting(facts, one))):
        plain = send.dest.kind == "queue" and not send.event.network
        whole = _rest_before(facts.readings, send, None) if plain else None
        own = _rest_before(send.dest.readings, send, send.dest) if whole is not None else None
        if whole is not None and own is not None and (_is_loaded(whole) or not _sweeps(facts)):
            found.append(Needless(send, own, whole, send.marks))
    return found


def _sweeps(facts: Facts) -> bool:
    return any(dest.applied.expire_period_ms > 0 for dest in facts.destinations.values())


def _is_loaded(whole: Reading) -> bool:
    """Whether all that is there is in memory for certain."""
    charged, kept = sum(part.charged for part in whole.parts), sum(part.kept for part in whole.parts)
    return whole.event.size == kept and (whole.event.memory_bytes or 0) >= charged


def _rest_before(readings: list[Reading], send: Send, dest: Destination | None) -> Reading | None:
    """What was read at rest before a send, and nothing has changed since; ``dest`` None: of the broker. What is not
    there yet shows nothing.
    """
    first = bisect_right(readings, send.still_seq, key=lambda one: one.event.seq)
    for one in readings[first:]:
        if one.event.seq > send.event.seq:
            return None
        if one.dest is dest and one.at_rest:
            told = one.event.memory_bytes is not None or (dest is not None and one.event.size is None)
            return one if told else None
    return None


def kept_waiting(facts: Facts) -> list[Send | Overfilled | Needless]:
    """Messages that were refused for want of room, or of which nobody knows, where producers may have to wait; those
    that went through where they had to, and those that had to although there was room.
    """
    declared = facts.declared
    wait = facts.paged
    wait = wait or declared.store_limit_bytes > 0 or declared.temp_limit_bytes > 0
    unknown = [send for send in facts.rows(sends) if send.event.result == "unknown"] if wait else []
    return [*facts.rows(without_room), *unknown, *overfilled(facts), *needless(facts)]


@rule("MEM-027", over=kept_waiting, handles=KINDS, absence=True)
def blocked_sends_happen_once(facts: Facts, row: Send | Overfilled | Needless) -> Findings:
    """A full broker blocks or refuses producers as configured, and every blocked send happens exactly once or never."""
    if isinstance(row, Overfilled):
        yield broken("accepted", row.send, row.reading, why="memory was full, and nothing had left it")
        return
    if isinstance(row, Needless):
        yield from _found_room(facts, row)
        return
    send = row
    seen = [delivery for copy in send.copies.values() for delivery in (*copy.deliveries, *copy.dead_letters)]
    if send.event.result == "unknown":
        if len(seen) == 1 and seen[0].event.t0 > send.event.t1:
            yield held("exactly-once-or-never", "a send waited for memory")
        elif _was_to_fail(facts, send):
            waited = ms(send.event.t1 - send.event.t0)
            yield broken("waits", send, why=f"it was to be refused where there is no room, and waited {waited}")
    elif seen:
        if not send.event.again:  # then what was sent first may have been accepted
            yield broken("kept", send, seen[0])
    elif ended(facts):
        yield held("exactly-once-or-never", "a send was refused")


def _found_room(facts: Facts, row: Needless) -> Findings:
    """Nothing was full, to the byte."""
    own, whole = row.reading.event, row.whole.event
    limits = (own.memory_limit_bytes or 0, limit_at(facts, row.whole))
    used = (own.memory_bytes or 0, whole.memory_bytes or 0)
    if all(limit == 0 or used_bytes < limit for limit, used_bytes in zip(limits, used, strict=True)):
        outcome = "waits" if row.send.event.result == "unknown" else "refused"
        why = f"{used[0]} of {limits[0]} bytes were in use by its queue, {used[1]} of {limits[1]} by all"
        yield broken(outcome, row.send, row.reading, row.whole, why=why)


def _was_to_fail(facts: Facts, send: Send) -> bool:
    """Whether nobody but a broker that was told to refuse what finds no room can have kept the answer back."""
    entry = send.dest.applied.entry
    return entry.send_fail_if_no_space and send.dest.kind == "queue" and _was_kept_waiting(facts, send)


def _was_kept_waiting(facts: Facts, send: Send) -> bool:
    """Whether nobody but the broker can have kept the answer back, for long, and nothing else that it was sent."""
    event = send.event
    request = next((one for one in facts.asked if one.event is event), None)
    if event.result != "unknown" or event.network or request is None:
        return False
    late = event.t1 - event.t0 >= facts.declared.lateness_ms * NS_PER_MS
    if not late or not request.connected or event.size > LARGE_BYTES or event.again:
        return False
    kept = kept_connection(facts, send.client, event.t0, event.t1)
    return kept and not disturbed(facts, send.client, event.t0, event.t1) and not is_behind(facts, send.client, event)


# -- the disk


class Asked(NamedTuple):
    """A send outside transactions: ``full``: what it needs was full all the time that it took, in files
    alone; ``surely``: in memory, too; ``other_full``: what it does not need was full; ``before``: the most that may
    have been there of its kind; ``spooled``: the most that may have been in temporary files. ``files``: it needs these
    (in virtual time), and backlogs of topics filled them, or queues, memory included.
    """

    send: Send
    before: int
    spooled: int
    full: bool
    surely: bool
    other_full: bool
    files: bool


def rooms(facts: Facts) -> tuple[int, int]:
    """What temporary files and what the store have room for; 0: no limit."""
    declared = facts.declared
    return declared.temp_limit_bytes, declared.store_limit_bytes if declared.persistent else 0


def asked(facts: Facts) -> list[Asked]:
    """All such sends, where there are limits of the disk."""
    room, memory = rooms(facts), facts.declared.memory_limit_bytes
    if not any(room):
        return []
    kept = [stay for stay in stays(facts) if stay.copy.dest.kind != "temporary"]
    full: list[list[Span]] = [_full(kept, room[kind], persistent=bool(kind)) for kind in (0, 1)]
    beyond = room[0] + memory + facts.epoch.largest if room[0] and memory > 0 else 0
    surely = [_full(kept, beyond, persistent=False), full[1]]
    published = full_spans(spooled(facts), room[0]) if room[0] else []
    sent = _sent(facts)
    found: list[Asked] = []
    for send in facts.sends.values():
        event, kind = send.event, int(send.event.persistent)
        # What is sent to a temporary queue is kept in no store, nor what a topic keeps for nobody.
        stored = _is_stored(send)
        if (stored or send.dest.kind == "topic") and event.tx is None and send.dest.kind != "temporary":
            span = (event.t0, event.t1)
            states = [stored and lies_in(spans, span) for spans in (full[kind], surely[kind], full[1 - kind])]
            before = [of.before(event, _charge(facts, event)) for of in sent]
            files = facts.simulated and any(lies_in(spans, span) for spans in (surely[0], published))
            states.append(files and (not event.persistent or _is_spooled(send)))
            found.append(Asked(send, before[kind], before[0], *states))
    return found


def _is_stored(send: Send) -> bool:
    """Whether it is kept on the disk where it goes, for certain."""
    if not send.dest.topic:
        return True
    there = [one for one in send.dest.subscriptions if one.durable and one.begin is not None and not one.doubtful]
    there = [one for one in there if send.event.t1 < one.sure_ns]
    sure = any(one.begin.result == "ok" and one.begin.t1 < send.event.t0 for one in there if one.begin is not None)
    return send.event.persistent and send.dest.kind == "topic" and sure


def _is_spooled(send: Send) -> bool:
    """Whether somebody waits for it, for certain, whose backlog is in temporary files."""
    event, there = send.event, [one for one in send.dest.sessions if one.known and not one.durable()]
    return send.dest.kind == "topic" and any(one.opened[1] < event.t0 and event.t1 < one.lost_ns for one in there)


class _Steps:
    """Bytes over time."""

    def __init__(self) -> None:
        self._steps: list[tuple[int, int]] = []
        self._totals: list[int] = []

    def add(self, at_ns: int, size: int) -> None:
        """So many more from then on."""
        self._steps.append((at_ns, size))

    def until(self, at_ns: int) -> int:
        """How many by then."""
        if not self._totals:
            self._steps.sort()
            self._totals = list(accumulate((size for _, size in self._steps), initial=0))
        return self._totals[bisect_left(self._steps, (at_ns + 1,))]


class _Sent:
    """Bytes that sends may take, in temporary files or in the store, and that had certainly left there."""

    def __init__(self) -> None:
        self._come, self._gone = _Steps(), _Steps()

    def add(self, event: SendEvent, charge: int, gone_ns: int) -> None:
        """One more."""
        self._come.add(event.t0, charge)
        if gone_ns < NEVER:
            self._gone.add(gone_ns, charge)

    def before(self, event: SendEvent, charge: int) -> int:
        """What others that had begun may have taken by this one's end, which itself takes ``charge``, and had not left
        before it began.
        """
        return self._come.until(event.t1) - self._gone.until(event.t0) - charge


def _left_ns(facts: Facts, send: Send) -> int:
    """By when it had certainly left the disk: what was there makes room at once."""
    dest = send.dest
    letter = dest.kind == "topic" and (send.mortal or dest.applied.entry.pending_message_limit is not None)
    if send.event.again or send.delayed or letter:
        return NEVER
    if dest.kind != "topic" or not (send.confirmed or send.refused):
        return freed_ns(send)
    if dest.subscriptions and any(one.durable or one.sessions[0].wild for one in dest.subscriptions):
        return NEVER
    return max([send.event.t1, *(gone_ns(facts, session) for session in dest.sessions)])


def _charge(facts: Facts, event: SendEvent) -> int:
    """The most that it takes; each queue of a virtual topic may have been there already."""
    copies = sum(1 + len(facts.virtual_queues.get(part, ())) for part in facts.names.parts(event.dest))
    return copies * (event.size + OVERHEAD_MAX_BYTES)


def _keeps_volatile_letters(facts: Facts) -> bool:
    """Whether dead letters of what is not persistent may be kept anywhere."""
    entries = [entry.dead_letter for entry in facts.declared.policies if entry.dead_letter is not None]
    return facts.declared.dead_letter_non_persistent or any(entry.process_non_persistent for entry in entries)


def _sent(facts: Facts) -> tuple[_Sent, _Sent]:
    """What was sent into temporary files, and into the store."""
    files, store = _Sent(), _Sent()
    letters = _keeps_volatile_letters(facts)
    managed = is_queue_manager(facts)  # whose queues say what is kept, and where what is staged is
    for send in facts.sends.values():
        event, left_ns = send.event, _left_ns(facts, send)
        if event.persistent or letters or managed:  # which are kept in the store, whatever they were
            store.add(event, _charge(facts, event), left_ns)
        if not event.persistent or not facts.declared.persistent or managed or _may_be_spooled(facts, send):
            files.add(event, _charge(facts, event), left_ns)
    return files, store


def _may_be_spooled(facts: Facts, send: Send) -> bool:
    """Whether somebody may wait for it whose backlog is in temporary files, whatever its delivery mode: a subscriber to
    a topic that is not durable.
    """
    if send.dest.kind != "topic":
        return send.dest.kind != "queue"
    there = [*send.dest.sessions, *(one for one in facts.wild if one.dest.topic)]
    return any(one.wild or (not one.durable() and one.opened[0] <= send.accepted[1]) for one in there)


def _full(kept: list[Stay], room: int, *, persistent: bool) -> list[Span]:
    """When messages of one kind filled their room."""
    return full_spans([stay for stay in kept if stay.copy.send.event.persistent is persistent], room) if room else []


def _keeps_advisories(facts: Facts) -> bool:
    """Whether the broker keeps messages of its own for somebody: who knows how large they are."""
    return any(dest.kind == "advisory" and dest.sessions for dest in facts.destinations.values())


def _was_flooded(facts: Facts, send: Send) -> bool:
    """Whether raw peers may have left something: what they sent nobody recorded. One that reads nothing sends to a
    topic of its own, so that nothing of that is there any more when it has gone.
    """
    event, before = send.event, [probe for probe in facts.probes if probe.t0 <= send.event.t1]
    since_ns = (event.t0 if event.result == "fail" else event.t1) - facts.declared.lateness_ms * NS_PER_MS
    wild = [one for one in facts.wild if one.dest.topic and one.opened[0] < event.t1]
    # What dies there, or has no room there, however volatile, may leave dead letters.
    limited = any(entry.pending_message_limit is not None for entry in facts.declared.policies)
    stays = wild or (_keeps_volatile_letters(facts) and (limited or gets_expiration(facts.declared)))
    return any(one.said.dialogues or (one.said.deaf and (stays or since_ns < one.t1)) for one in before)


def _admitted(one: Asked) -> Findings:
    result = one.send.event.result
    if result == "ok" and one.surely:
        yield broken("accepted", one.send, why="what was kept all the time had no room beside it")
    elif result != "ok" and one.full:
        yield held("not-accepted", "a send was refused" if result == "fail" else "a send waited")


@rule("MEM-028", over=asked, handles=KINDS)
def full_stores_accept_nothing(_facts: Facts, one: Asked) -> Findings:
    """A persistent message is not accepted while the store is full."""
    if one.send.event.persistent:
        yield from _admitted(one)


@rule("MEM-029", over=asked, handles=KINDS)
def full_files_accept_nothing(_facts: Facts, one: Asked) -> Findings:
    """A message that is not persistent is not accepted while temporary files are full."""
    if one.files and one.send.event.result == "ok":
        yield broken("accepted", one.send, why="what waited in the files all the time had filled them")
    elif not one.send.event.persistent:
        yield from _admitted(one)


@rule("MEM-030", over=asked, handles=KINDS)
def only_what_is_needed_counts(facts: Facts, one: Asked) -> Findings:
    """A send is refused for want of room on the disk only if what it needs is full."""
    event = one.send.event
    files, store = rooms(facts)
    room, spools = store if event.persistent else files, is_queue_manager(facts) or _may_be_spooled(facts, one.send)
    untold = facts.paged or _was_flooded(facts, one.send)
    untold = untold or ((spools or not event.persistent) and _keeps_advisories(facts))
    fits = one.before + event.size < room or (not room and event.persistent and one.send.dest.topic)
    if event.persistent and spools:
        fits = fits and (not files or one.spooled + event.size < files)
    if not untold and fits and (names_room(one.send) or _was_kept_waiting(facts, one.send)):
        outcome = "refused" if event.result == "fail" else "waits"
        yield broken(outcome, one.send, why=f"at most {one.before} of {room or 'all'} bytes were there")
    elif event.result == "ok" and one.other_full:
        yield held("went-through", "temporary files were full" if event.persistent else "the store was full")
