"""Links: the connections of a run, when nothing can have crossed them, and when a monitor must notice.

Rules
* A connection begins with a ``connect`` and ends with the first of: a close seen at either end, its host's drop or
  kill, a restart of the broker, the end of the run.
* The time of the last byte before a stall is bounded by what must have crossed: a healthy peer is silent for ``gap_ns``
  at most, and what the broker confirmed did cross. What was on its way when the stall began may still arrive, for no
  longer than the handshake took. Stalls between which a healthy peer need not have sent anything are one silence.
* Windows, from the last byte or, if later, from the end of the initial delay: *documented* [R, 1.1 R], silent at most
  R/3 when healthy; *classic* [2R, 3R], at most 2R/3; over STOMP classic [R, 3R], because a bare newline is no command,
  and a peer may be silent for 2R. A broker of unknown generation is given [R, 3R].
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from brokerproof.conformance.experiment.configuration import MonitorSpec
from brokerproof.conformance.experiment.history import Closed, Connect, Event
from brokerproof.conformance.facts.rows import Client
from brokerproof.conformance.facts.spans import NEVER, NS_PER_MS, touches
from brokerproof.conformance.facts.stalls import Stall
from brokerproof.conformance.facts.tables import Tables

#: Words by which a close says that it is about silence.
REASONS: Final = ("inactiv", "heart", "idle")
#: What is noted of a broker's end of a connection about which the broker has said nothing.
UNSAID: Final = ("end", "reset", "")
#: How late and how early a real timer may be, beyond the window.
LATE_NS: Final = 500 * NS_PER_MS
#: How often at least a broker looks whose protocol says when a silence is too long.
TICK_MS: Final = 1000
EARLY_NS: Final = 50 * NS_PER_MS
#: For so many heart-beat intervals a client of AMQP 0-9-1 hears nothing before it gives its broker up (4.2.7).
INTERVALS: Final = 2


def is_inactivity(event: Closed) -> bool:
    """Whether a close gives silence as its reason."""
    reason = event.reason.lower()
    return any(word in reason for word in REASONS)


def gave_up(tables: Tables, client: Client, event: Closed) -> bool:
    """Whether an end gave a connection up because of silence: it says so; or the broker says nothing (STOMP has no word
    for it) while nothing can come to it over a link with a monitor, and nothing was asked that it may have refused.
    """
    if is_inactivity(event):
        return True
    monitor = tables.declared.monitor.get(client.name)
    if event.who != "broker" or event.host != tables.broker or event.reason not in UNSAID or client.via != "stomp":
        return False
    if monitor is None or monitor.read_ms <= 0:
        return False
    cut = any(
        stall.toward != "client" and stall.begin.t1 <= event.t0 and (stall.end is None or event.t0 < stall.end.t0)
        for stall in client.stalls
    )
    asked = [one for one in tables.asked if one.client is client and one.event.result != "ok"]
    return cut and not any(one.event.t0 <= event.t1 for one in asked)


class Limits:
    """What a monitor with read period R promises (ns); ``early_ns`` and ``late_ns`` are granted to timers of machines
    (``Tables.rate``).
    """

    def __init__(
        self,
        monitor: MonitorSpec,
        generation: str,
        via: str,
        rate: int,
        jitter_ns: int = 0,
        grace: float | None = None,
        *,
        beats_twice: bool = False,
        in_seconds: bool = False,
    ) -> None:
        """``grace``: after how many periods of STOMP or AMQP 0-9-1 silence is enough, if its documentation says so.
        ``beats_twice``: so the other end does, in each period that it promised. ``in_seconds``: as in AMQP 0-9-1.
        """
        read_ms, read_ns = monitor.read_ms, monitor.read_ms * NS_PER_MS
        third_ms = read_ms // 3 if read_ms > 3 else read_ms
        self.delay_ns = monitor.initial_delay_ms * NS_PER_MS
        # STOMP's own heart-beats know no initial delay, some brokers do.
        self.delay_low_ns = 0 if via == "stomp" and not generation else self.delay_ns
        #: Keep-alives of the other end begin after it.
        self.beats_after_ns = self.delay_ns
        self.early_ns = EARLY_NS * rate
        self.late_ns = LATE_NS * rate
        self.low_ns, self.high_ns = read_ns, 3 * read_ns
        if generation == "documented":
            self.high_ns = read_ns + read_ns // 10
            # STOMP beats twice per promised period, which is half of R.
            self.gap_ns = max(third_ms, (read_ms // 2 + 1) // 2) * NS_PER_MS
        elif in_seconds:
            beat_ns = max(1, round(monitor.initial_delay_ms / 1000)) * 1000 * NS_PER_MS
            self.delay_ns = self.delay_low_ns = self.beats_after_ns = 0
            self.gap_ns = beat_ns // (1 + beats_twice)
            self.low_ns, self.high_ns = int((grace or 1) * beat_ns), 3 * beat_ns
        elif via == "jms":
            self.gap_ns = 2 * third_ms * NS_PER_MS
            self.low_ns = 2 * read_ns if generation == "classic" else read_ns
        else:
            self.gap_ns = 2 * read_ns if generation == "classic" else read_ns
            if grace is not None or not generation:
                # STOMP asks for tolerance and names no figure.
                self.low_ns = int((grace or 1) * self.delay_ns)
                self.high_ns = max(self.high_ns, 3 * self.low_ns)
                if beats_twice:
                    self.gap_ns = (self.delay_ns + 1) // 2
                    self.beats_after_ns = 0
        self.gap_ns += jitter_ns

    def close_by(self, silent_ms: int | None) -> None:
        """So long a silence has to end a connection, if its protocol says so, which then knows no initial delay; a
        broker may look once a second.
        """
        if silent_ms is not None:
            self.delay_ns = self.delay_low_ns = self.beats_after_ns = 0
            self.high_ns = (silent_ms + TICK_MS) * NS_PER_MS

    def watches_health(self) -> bool:
        """Whether a healthy link is safe for certain: its longest pause is shorter than the limit."""
        return self.gap_ns + self.late_ns < self.low_ns


def surely_beats(tables: Tables, client: Client) -> bool:
    """Whether what a client says of itself came in time for certain, so that no broker may take it for silent."""
    monitor, traits, declared = tables.declared.monitor.get(client.name), client.traits, tables.declared
    if monitor is None or not traits.beats_twice or client.stalls or tables.pauses or tables.strains:
        return False
    limits = Limits(
        monitor, declared.generation.get("monitor", ""), client.via, tables.rate, 0, declared.heart_beat_grace,
        beats_twice=True, in_seconds=traits.beats_in_seconds,
    )  # fmt: skip
    late = any(one.event.t1 - one.event.t0 > limits.late_ns for one in tables.asked if one.client is client)
    return limits.watches_health() and not late  # a machine


class Silence:
    """Stalls of one direction that make one silence. ``byte_low_ns``, ``byte_high_ns`` bound the arrival of the last
    byte; ``base_low_ns``, ``base_high_ns`` the end of the initial delay. The monitor counts from the later of the two.
    """

    def __init__(self, stall: Stall, byte_low_ns: int, byte_high_ns: int, base_low_ns: int, base_high_ns: int) -> None:
        self.begin_ns = stall.begin.t1
        self.byte_low_ns = byte_low_ns
        self.byte_high_ns = byte_high_ns
        self.base_low_ns = base_low_ns
        self.base_high_ns = base_high_ns
        self.stalls = [stall.begin]
        #: Bounds of its end; ``NEVER``: it was not lifted.
        self.end_ns = NEVER
        self.resumed_ns = NEVER
        #: Both directions were stalled, so that a close at one end is not seen at the other.
        self.veiled = False
        self.extend(stall, byte_high_ns)

    @property
    def low_ns(self) -> int:
        """The earliest instant from which the monitor can have counted."""
        return max(self.byte_low_ns, self.base_low_ns)

    @property
    def high_ns(self) -> int:
        """The latest."""
        return max(self.byte_high_ns, self.base_high_ns)

    @property
    def in_delay(self) -> bool:
        """It began before monitoring did."""
        return self.begin_ns <= self.base_high_ns

    def extend(self, stall: Stall, byte_high_ns: int) -> None:
        """One more stall, without a certain sign of life before it; something may have come until ``byte_high_ns``."""
        self.byte_high_ns = byte_high_ns
        self.end_ns = stall.end.t0 if stall.end is not None else NEVER
        self.resumed_ns = stall.end.t1 if stall.end is not None else NEVER
        self.veiled = self.veiled or stall.toward == "both"


class Connection:
    """One connection of a host. Times are those at which the broker's or the client's end can have changed."""

    def __init__(self, client: Client, connect: Connect, jitter_ns: int = 0) -> None:
        """``jitter_ns``: how much later than others something may be."""
        self.jitter_ns = jitter_ns
        self.client = client
        self.connect = connect
        #: The broker, or the client, gave it up because of silence.
        self.broker_close: Closed | None = None
        self.client_close: Closed | None = None
        #: The client's end went for another reason (or the run ended), and the first end of any sort.
        self.left_ns = NEVER
        self.end_ns = NEVER
        #: By when it had ended for certain.
        self.ended_ns = NEVER
        #: More than one way: the handshake went there and back.
        self.latency_ns = connect.t1 - connect.t0 + 2 * jitter_ns
        self.marks = 0

    def leave(self, at_ns: int) -> None:
        """It may have ended then, for a reason that is not known."""
        self.end_ns = min(self.end_ns, at_ns)
        self.left_ns = min(self.left_ns, at_ns)

    def take(self, event: Event, tables: Tables) -> None:
        """One end of this connection, in order."""
        self.end_ns = min(self.end_ns, event.t0)
        self.ended_ns = min(self.ended_ns, event.t1)
        if not isinstance(event, Closed) or not gave_up(tables, self.client, event):
            self.left_ns = min(self.left_ns, event.t0)
        elif event.who == "client":
            if event.host != tables.broker and self.client_close is None:
                self.client_close = event
        elif self.broker_close is None:
            self.broker_close = event

    def was_crowded(self, limits: Limits, close: Closed) -> bool:
        """Whether a line of limited bandwidth was busy, until its end, for as long as a monitor waits."""
        long = [one for one in self.client.busy if one[1] - one[0] >= limits.low_ns]
        return touches(long, (self.connect.t0, close.t1))

    def silences(self, toward: str, limits: Limits) -> list[Silence]:
        """What was silent in one direction, oldest first."""
        found: list[Silence] = []
        base_low = self.connect.t0 + limits.delay_low_ns
        base_high = self.connect.t1 + limits.delay_ns
        beats_from_ns = self.connect.t1 + limits.beats_after_ns
        slack_ns = limits.gap_ns + self.latency_ns + limits.late_ns
        for stall in self.client.stalls:
            elsewhen = stall.begin.t1 < self.connect.t0 or stall.begin.t0 > self.ended_ns
            if elsewhen or stall.toward not in {toward, "both"}:
                continue
            life_ns = stall.last_request_ns if toward == "broker" else stall.last_heard_ns
            before = found[-1] if found else None
            if before is not None and before.resumed_ns > life_ns and stall.begin.t0 <= before.resumed_ns + slack_ns:
                before.stalls.append(stall.begin)
                before.extend(stall, stall.begin.t1 + self.latency_ns)
                continue
            # Until keep-alives begin the last byte may be as old as the connection.
            beating = stall.begin.t0 > beats_from_ns + slack_ns
            byte_low = stall.begin.t0 - limits.gap_ns - limits.late_ns if beating else self.connect.t0
            found.append(Silence(stall, max(byte_low, life_ns), stall.begin.t1 + self.latency_ns, base_low, base_high))
        return found


def _came_to_nothing(connection: Connection, before: Event) -> bool:
    """Whether it is an earlier attempt that nobody at the client's end waited for, on a stalled link."""
    tried = connection.connect
    return tried.seq < before.seq and tried.result != "ok" and connection.client.stalled(tried.t0, tried.t1)


def connections_of(tables: Tables, client: Client) -> list[Connection]:
    """The connections of a host that came about, oldest first, each with its ends.

    Attempts with an unknown result are told apart from them: the broker may have accepted such a one, and closes it. So
    it may one that came to nothing on a stalled link, long after its client has gone on.
    """
    jitter_ns = 2000 * tables.declared.jitter_us.get(client.name, 0)
    found = [Connection(client, connect, jitter_ns) for connect in client.connects]
    ends: list[Event] = sorted([*client.closes, *client.ends], key=lambda event: event.seq)
    for event in ends:
        owner: Connection | None = None
        ambiguous = False
        for connection in found:
            if connection.connect.seq < event.seq:
                owner = connection
            elif connection.connect.t0 < event.t1:
                ambiguous = True  # another attempt was under way: whose end it is cannot be told
        late = isinstance(event, Closed) and event.host == tables.broker and event.who == "broker"
        ambiguous = ambiguous or (late and any(_came_to_nothing(one, event) for one in found))
        if owner is not None and ambiguous:
            owner.leave(event.t0)
        elif owner is not None:
            owner.take(event, tables)
    for connection, following in pairwise(found):
        connection.leave(following.connect.t0)  # one connection at a time
    end = tables.phases.get("end")
    for connection in found:
        for restart in tables.restarts:
            if restart.t1 >= connection.connect.t0:
                connection.leave(restart.t0)
        if end is not None:
            connection.leave(end.t0)
    return [connection for connection in found if connection.connect.result == "ok"]


class Link:
    """A connection with the limits of the broker's end and of the client's, whose library may follow either generation.
    ``ends``: the monitors that they agreed on.
    """

    def __init__(self, tables: Tables, connection: Connection, ends: tuple[MonitorSpec, MonitorSpec]) -> None:
        via, generation, grace = connection.client.via, _generation(tables), tables.declared.heart_beat_grace
        self.connection, (ours, theirs) = connection, ends
        rate, jitter_ns, traits = tables.rate, connection.jitter_ns, connection.client.traits
        twice, seconds = traits.beats_twice, traits.beats_in_seconds
        self.broker = Limits(ours, generation, via, rate, jitter_ns, grace, beats_twice=twice, in_seconds=seconds)
        self.broker.close_by(traits.broker_closes_ms)
        own, patience = generation if tables.simulated else "", INTERVALS if seconds else None
        twice = twice and not seconds  # a library of AMQP 1.0 asks for half of what it waits (2.4.5)
        self.client = Limits(theirs, own, via, rate, jitter_ns, patience, beats_twice=twice, in_seconds=seconds)
        if via == "stomp" and generation == "classic" and not tables.simulated:
            # Such a broker looks once in each period whether it has written anything (InactivityMonitor, writeCheck).
            self.client.gap_ns = 2 * theirs.initial_delay_ms * NS_PER_MS + jitter_ns

    def ends(self) -> Iterator[tuple[str, Limits, Closed | None]]:
        """(which end, its limits, its close for silence)."""
        yield "broker", self.broker, self.connection.broker_close
        yield "client", self.client, self.connection.client_close


def _generation(tables: Tables) -> str:
    return tables.declared.generation.get("monitor", "documented" if tables.simulated else "")
