"""What of a history is shown for a verdict: the events that matter, and every host's clock beside them.

Decides: which events are relevant to a witness, what counts as true wall time, and what each clock read at the moments
that matter. No drawing here (``render/clocks.py``), no judging.

Rules:

* The witness is always shown. Around it: every event of the same messages and consumers, every fault, every phase,
  every connection that ended; for a counter, the traffic of its destination. Without a witness: the first events.
* Clocks are read with the judge's own ``Clock``, so the page cannot disagree with the verdict.
* True wall time is that of the drain host, whose clock is never touched, where there is one; else the median of the
  hosts' first samples (a definition, and said so).
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from brokerproof.conformance.experiment.configuration import HostSpec
from brokerproof.conformance.experiment.history import (
    ClockSample,
    Closed,
    Counters,
    Event,
    Fault,
    History,
    Leave,
    Phase,
    Skipped,
    Subscribe,
)
from brokerproof.conformance.experiment.program import Program
from brokerproof.conformance.facts.clock import Clock

NS_PER_MS = 1_000_000
DRAIN = "drain"
#: Events shown at most, and events shown when nothing points at any.
EVENTS_MAX = 120
EVENTS_FIRST = 40


class Mark(msgspec.Struct, frozen=True):
    """One event of the table and the drawing.

    ``host`` is the lane it belongs to; ``wall_ns`` bounds are None where the host's clock is unknown.
    """

    seq: int
    t0_ns: int
    t1_ns: int
    host: str
    kind: str
    summary: str
    witness: bool
    messages: list[str]
    good: bool
    wall_ns: tuple[int, int] | None


class ClockPoint(msgspec.Struct, frozen=True):
    """A host's wall clock against true wall time at one instant; ``jump`` says that it was stepped there."""

    true_ns: int
    offset_ns: int
    error_ns: int
    jump: bool = False


class Lane(msgspec.Struct, frozen=True):
    """One host: its clock as points, and the intervals in which its link was stalled (end None: to the end)."""

    host: str
    role: str
    points: list[ClockPoint]
    stalls: list[tuple[int, int | None]]


class Reading(msgspec.Struct, frozen=True):
    """What all clocks read at one moment.

    Host -> (offset from true time, wall time, plus or minus); None where unknown.
    """

    true_ns: int
    label: str
    witness: bool
    clocks: dict[str, tuple[int, int, int] | None]


class Timeline(msgspec.Struct, frozen=True):
    """Everything that the drawing and the tables need."""

    lanes: list[Lane]
    marks: list[Mark]
    readings: list[Reading]
    end_ns: int
    total: int
    origin: str
    #: What all clocks read at the end of each mark.
    instants: list[dict[str, tuple[int, int, int] | None]]


def build_timeline(program: Program, history: History, witness: list[int]) -> Timeline:
    """Select and read. An empty history gives an empty timeline."""
    events = history.events
    chosen = select_events(events, witness)
    clocks = _clocks(events)
    origin_ns, origin = _origin(history)
    hosts = _hosts(program, events, chosen)
    lanes = [_lane(host, role, events, clocks, origin_ns) for host, role in hosts]
    marks = [_mark(event, set(witness), clocks) for event in chosen]
    readings = _readings(marks, events, [host for host, _ in hosts], clocks, origin_ns)
    end_ns = max((mark.t1_ns for mark in marks), default=0)
    instants = [{host: _read(clocks, host, mark.t1_ns, origin_ns) for host, _ in hosts} for mark in marks]
    return Timeline(lanes, marks, readings, end_ns, len(events), origin, instants)


def select_events(events: list[Event], witness: list[int]) -> list[Event]:
    """The events that matter, in order; see the module's rules."""
    wanted = set(witness)
    pointed = [event for event in events if event.seq in wanted]
    if not pointed:
        return [event for event in events if not isinstance(event, ClockSample)][:EVENTS_FIRST]
    messages = {message for event in pointed for message in messages_of(event)}
    consumers = {str(getattr(event, "consumer", None)) for event in pointed} - {"None"}
    dests = set() if messages else {str(event.dest) for event in pointed if isinstance(event, Counters)}
    last_ns = max(event.t1 for event in pointed)
    relevant = [
        event
        for event in events
        if event.seq in wanted or (event.t0 <= last_ns and _matters(event, messages, consumers, dests))
    ]
    if len(relevant) <= EVENTS_MAX:
        return relevant
    spare = EVENTS_MAX - len(pointed)
    around = [event for event in relevant if event.seq not in wanted]
    first = min(event.seq for event in pointed)
    nearest = sorted(around, key=lambda event: abs(event.seq - first))[: max(0, spare)]
    return sorted([*pointed, *nearest], key=lambda event: event.seq)


def messages_of(event: Event) -> list[str]:
    """The messages that an event is about."""
    single = getattr(event, "message", None)
    return [single] if isinstance(single, str) else list(getattr(event, "messages", ()))


def kind_of(event: Event) -> str:
    """The event's tag."""
    return str(type(event).__struct_config__.tag)


def _matters(event: Event, messages: set[str], consumers: set[str], dests: set[str]) -> bool:
    if isinstance(event, Fault | Phase | Closed):
        return True
    if isinstance(event, Leave):
        return event.consumer is None or event.consumer in consumers or bool(dests)
    if isinstance(event, Subscribe):
        return event.consumer in consumers or event.dest in dests
    if messages.intersection(messages_of(event)):
        return True
    return not isinstance(event, Counters | ClockSample) and getattr(event, "dest", None) in dests


def _clocks(events: Iterable[Event]) -> dict[str, Clock]:
    """Host -> its clock, of those that were read."""
    clocks: dict[str, Clock] = {}
    for event in events:
        if isinstance(event, ClockSample):
            clocks.setdefault(event.host, Clock(event.host)).sample(event)
        elif isinstance(event, Fault) and event.fault == "clock" and event.target is not None:
            clocks.setdefault(event.target, Clock(event.target)).jump(event)
    return {host: clock for host, clock in clocks.items() if clock.known}


def _origin(history: History) -> tuple[int, str]:
    """Wall time minus true time of a clock that counts as right, and which that is."""
    firsts: dict[str, int] = {}
    for event in history.events:
        if isinstance(event, ClockSample) and event.host not in firsts:
            firsts[event.host] = _wall_ns(event) - (event.t0 + event.t1) // 2
    if DRAIN in firsts:
        return firsts[DRAIN], "the observer's clock"
    if not firsts:
        return 0, "no clock was sampled"
    return sorted(firsts.values())[len(firsts) // 2], "the median of the hosts' clocks at the start"


def _wall_ns(event: ClockSample) -> int:
    return event.wall_ms * NS_PER_MS + event.beyond_ns


def _hosts(program: Program, events: list[Event], chosen: list[Event]) -> list[tuple[str, str]]:
    roles = {spec.name: _role(spec) for spec in program.hosts}
    sampled = {event.host for event in events if isinstance(event, ClockSample)}
    for event in chosen:
        if event.host and event.host not in roles:
            roles[event.host] = "observer's consumer" if event.host == DRAIN else "host"
    shown = {event.host for event in chosen}
    return [(host, role) for host, role in roles.items() if host in sampled or host in shown]


def _role(spec: HostSpec) -> str:
    words = [spec.role, spec.via if spec.role == "client" else "", spec.clock.zone]
    return " · ".join(word for word in words if word)


def _lane(host: str, role: str, events: list[Event], clocks: dict[str, Clock], origin_ns: int) -> Lane:
    points: list[ClockPoint] = []
    stalls: list[tuple[int, int | None]] = []
    pending_jump = False
    for event in events:
        if isinstance(event, Fault):
            if event.fault == "clock" and event.target == host:
                pending_jump = True
            elif event.link == host and event.fault == "stall":
                stalls.append((event.t1, None))
            elif event.link == host and event.fault == "resume" and stalls and stalls[-1][1] is None:
                stalls[-1] = (stalls[-1][0], event.t0)
        elif isinstance(event, ClockSample) and event.host == host:
            middle = (event.t0 + event.t1) // 2
            offset = _wall_ns(event) - middle - origin_ns
            points.append(ClockPoint(middle, offset, event.plus_minus_ns + (event.t1 - event.t0) // 2, pending_jump))
            pending_jump = False
    if host not in clocks:
        points = []
    return Lane(host, role, _thinned(points), stalls)


def _thinned(points: list[ClockPoint]) -> list[ClockPoint]:
    """Samples that say nothing new go: an agent samples with every reply, a reader wants the bends."""
    kept: list[ClockPoint] = []
    for index, point in enumerate(points):
        last = index == len(points) - 1
        if (
            not kept
            or last
            or point.jump
            or points[index + 1].jump
            or abs(point.offset_ns - kept[-1].offset_ns) > NS_PER_MS
        ):
            kept.append(point)
    return kept


def _mark(event: Event, witness: set[int], clocks: dict[str, Clock]) -> Mark:
    host = _lane_of(event)
    wall = clocks[host].bounds_ns(event.t0, event.t1, event.seq, event.seq) if host in clocks else None
    good = getattr(event, "result", "ok") == "ok"
    return Mark(
        event.seq,
        event.t0,
        event.t1,
        host,
        _tag(event),
        summary_of(event),
        event.seq in witness,
        messages_of(event),
        good,
        wall,
    )


def _lane_of(event: Event) -> str:
    if isinstance(event, Fault):
        return event.target or event.link or event.host
    return event.host


def _tag(event: Event) -> str:
    return event.fault if isinstance(event, Fault) else kind_of(event)


def _readings(
    marks: list[Mark], events: list[Event], hosts: list[str], clocks: dict[str, Clock], origin_ns: int
) -> list[Reading]:
    """One row per witness event and per clock jump up to the last of them, plus the start."""
    moments: dict[tuple[int, str], bool] = {(0, "start"): False}
    for event in events:
        if isinstance(event, Fault) and event.fault == "clock":
            moments[(event.t1, f"clock of {event.target} jumps (event {event.seq})")] = False
    for mark in marks:
        if mark.witness:
            moments[(mark.t1_ns, f"{mark.kind} (event {mark.seq})")] = True
    rows = []
    for (true_ns, label), witness in sorted(moments.items(), key=lambda item: item[0][0]):
        readings = {host: _read(clocks, host, true_ns, origin_ns) for host in hosts}
        rows.append(Reading(true_ns, label, witness, readings))
    return rows


def _read(clocks: dict[str, Clock], host: str, true_ns: int, origin_ns: int) -> tuple[int, int, int] | None:
    if host not in clocks:
        return None
    low, high = clocks[host].bounds_ns(true_ns, true_ns)
    wall = (low + high) // 2
    return wall - true_ns - origin_ns, wall, (high - low + 1) // 2


#: Fields that a summary never repeats: they have columns of their own.
_COLUMNS = ("seq", "t0", "t1", "host", "kind")


def summary_of(event: Event) -> str:
    """The event's own fields, in order: ``message=p0/1 dest=q0 …``."""
    if isinstance(event, Skipped):
        return msgspec.json.encode(event.step).decode()
    fields = msgspec.to_builtins(event)
    return " ".join(f"{name}={_value(value)}" for name, value in fields.items() if name not in _COLUMNS)


def _value(value: object) -> str:
    if isinstance(value, list):
        return ",".join(str(item) for item in value) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ",".join(f"{key}={item}" for key, item in value.items())
    return str(value)
