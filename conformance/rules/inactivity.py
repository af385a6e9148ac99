"""Inactivity monitors at both ends of a client's link (INA-001 to -008, -012, -018, -020, -021).

Not judged: brokers whose own end is told to watch otherwise than by what was agreed (``raw_peers.py`` does that);
connections during which a process stood still or the broker was restarted (but INA-021); closes for another reason;
health where a healthy peer may be silent for longer than the limit; anything while two ends race.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from brokerproof.conformance.experiment.configuration import ConnectorSpec, MonitorSpec
from brokerproof.conformance.experiment.history import Closed, Pause
from brokerproof.conformance.experiment.history import Probe as ProbeEvent
from brokerproof.conformance.facts.absence import missing
from brokerproof.conformance.facts.deliveries import came_back
from brokerproof.conformance.facts.facts import Facts
from brokerproof.conformance.facts.links import Connection, Link, Silence, connections_of, gave_up, is_inactivity
from brokerproof.conformance.facts.marks import but
from brokerproof.conformance.facts.negotiation import DEFAULT_OFFER, agreed
from brokerproof.conformance.facts.permission import maybe_without_room
from brokerproof.conformance.facts.presence import rest_after
from brokerproof.conformance.facts.rows import Client, Delivery
from brokerproof.conformance.facts.spans import NEVER, ms, touches
from brokerproof.conformance.facts.strains import strained
from brokerproof.conformance.rules.rule import Findings, broken, held, rule, unsure

#: A link without monitor proves something only when it was silent for so long.
SILENT_NS = 1_000_000_000
#: Messages of this size may take long.
LARGE_BYTES = 64 * 1024


def _as_agreed(facts: Facts) -> bool:
    """Whether the broker's own end watches by what was agreed."""
    connector = facts.declared.connector or ConnectorSpec()
    return connector.use_monitor and connector.use_keep_alive and connector.heart_beat_grace <= 1


def _links(facts: Facts) -> list[Link]:
    found: list[Link] = []
    for client in facts.clients.values():
        monitor = facts.declared.monitor.get(client.name)
        if monitor is not None and monitor.read_ms > 0:
            told = [(one, _ends(one, monitor)) for one in connections_of(facts, client)]
            found += [Link(facts, connection, ends) for connection, ends in told if ends is not None]
    return found


def _ends(connection: Connection, monitor: MonitorSpec) -> tuple[MonitorSpec, MonitorSpec] | None:
    """The monitor of the broker's end and that of the client's; None: there are not both."""
    told, waits_ms = connection.connect.heart_beat_ms, connection.client.traits.broker_waits_ms
    if waits_ms is not None:
        return (MonitorSpec(waits_ms, waits_ms), monitor) if waits_ms else None
    if told is None:
        return monitor, monitor
    serves_ms, asks_ms = told
    broker, client = agreed(monitor, asks_ms), agreed(monitor, serves_ms)
    return None if broker is None or client is None else (broker, client)


def links(facts: Facts) -> list[Link]:
    """Connections with a monitor, during which no process stood still and the broker was not restarted."""
    if not facts.declared.monitor or not _as_agreed(facts):
        return []
    return [link for link in facts.rows(_links) if not _disturbed(facts, link.connection)]


def _disturbed(facts: Facts, connection: Connection) -> bool:
    low, high, close = connection.connect.t0, min(connection.ended_ns, connection.end_ns), connection.broker_close
    if close is not None:  # behind a stall the broker's end outlives a client that is gone
        high = max(high, close.t1)
    paused = any(pause.t0 <= high and (pause.t1 >= low or pause.t1 == pause.t0) for pause in facts.pauses)
    return paused or facts.restarted(low, high) or strained(facts.strains, low, high)


def unmonitored(facts: Facts) -> list[Client]:
    """Hosts whose links have no monitor."""
    if not _as_agreed(facts) or facts.pauses or facts.restarts or facts.strains:
        return []
    monitors = facts.declared.monitor
    return [client for client in facts.clients.values() if not (m := monitors.get(client.name)) or m.read_ms <= 0]


# -- the broker's end


def _judged(link: Link) -> Iterator[tuple[Silence, Closed | None]]:
    """Each silence toward the broker, the last one with the broker's close."""
    silences = link.connection.silences("broker", link.broker)
    for index, silence in enumerate(silences):
        yield silence, link.connection.broker_close if index == len(silences) - 1 else None


def _unnoticed_until(facts: Facts, link: Link, silence: Silence) -> int:
    """By when the broker should have closed and had not; 0: it had no need to, or nobody can tell."""
    connection, limits = link.connection, link.broker
    deadline_ns = silence.high_ns + limits.high_ns + limits.late_ns
    if silence.end_ns < deadline_ns or connection.left_ns < deadline_ns:
        return 0
    close = connection.client_close
    if (close is not None and close.t0 < deadline_ns) or _is_blocked(facts, link, silence.begin_ns):
        return 0
    if silence.resumed_ns == NEVER or rest_after(facts, silence.resumed_ns) == NEVER:
        return 0  # a close may be on its way still
    return deadline_ns


def _is_blocked(facts: Facts, link: Link, at_ns: int) -> bool:
    """Whether a send had not been answered by then: a broker that does not read a link need not watch it either."""
    began_ns, client = link.connection.connect.t1, link.connection.connect.host
    sends = [one.event for one in facts.sends.values() if one.event.host == client and one.event.result == "unknown"]
    return any(began_ns <= one.t1 <= at_ns and maybe_without_room(facts, one) for one in sends)


@rule("INA-001", over=links, faults=("stall",))
def dead_link_is_closed(facts: Facts, link: Link) -> Findings:
    """A link with a monitor from which nothing arrives any more is closed by the broker within the window of its
    generation.
    """
    for silence, close in _judged(link):
        if _is_blocked(facts, link, silence.begin_ns):
            continue
        if close is not None:
            if silence.resumed_ns >= close.t0:
                yield from _in_window(facts, link, silence, close, "broker")
        elif deadline_ns := _unnoticed_until(facts, link, silence):
            why = f"nothing can have arrived since {ms(silence.high_ns)}, and it was not closed by {ms(deadline_ns)}"
            slack_ns = deadline_ns - silence.end_ns
            yield broken("never", link.connection.connect, *silence.stalls, why=why, slack_ns=slack_ns)


@rule("INA-007", over=links, faults=("stall",))
def noticed_in_the_initial_delay(facts: Facts, link: Link) -> Findings:
    """A stall is noticed, too, if it began during the initial delay."""
    for silence, close in _judged(link):
        if not silence.in_delay:
            continue
        if close is None:
            if deadline_ns := _unnoticed_until(facts, link, silence):
                why = f"it was not closed by {ms(deadline_ns)}"
                yield broken("unnoticed", link.connection.connect, *silence.stalls, why=why)
        elif silence.resumed_ns >= close.t0:
            yield held("noticed", _situation(facts, silence, close.t1))


def _longest(link: Link, silence: Silence) -> int:
    """Upper bound of a silence that was lifted: what was held arrives at once, else the next keep-alive does."""
    limits, connection = link.broker, link.connection
    beats_ns = max(silence.byte_high_ns, connection.connect.t1 + limits.beats_after_ns) + limits.gap_ns
    over_ns = max(silence.resumed_ns + connection.latency_ns + limits.late_ns, beats_ns)
    return over_ns - silence.low_ns


@rule("INA-004", over=links, faults=("stall",))
def short_stall_closes_nothing(_facts: Facts, link: Link) -> Findings:
    """A stall that is shorter than the limit closes nothing."""
    limits = link.broker
    for silence, close in _judged(link):
        longest_ns = _longest(link, silence)
        if close is None:
            short = longest_ns < limits.low_ns and silence.end_ns < silence.high_ns + limits.high_ns + limits.late_ns
            if short and silence.resumed_ns < link.connection.end_ns:
                yield held("stays-open", "the stall was shorter than the limit")
        elif longest_ns < limits.low_ns - limits.early_ns:
            why = f"bytes were missing for {ms(longest_ns)} at most; the limit is {ms(limits.low_ns)}"
            yield broken("closed", *silence.stalls, close, why=why, slack_ns=longest_ns - limits.low_ns)


_LATE = "the broker itself had been silent, or nothing had come to it: a machine was late, or a slow line was full"


def _stood_still(facts: Facts, link: Link, close: Closed) -> bool:
    """Whether a machine may have been late when a link was closed in real time: an answer of the broker was; or nothing
    had come out of the line for as long as it waits; or it had itself said nothing for longer than its keep-alives
    allow, and may not have read what had come.
    """
    client, ours = link.connection.client, close.host == facts.broker
    if facts.simulated:
        return False
    if _answered_late(facts, close, (link.broker if ours else link.client).low_ns):
        return True
    if not ours:
        # The client says why, and what came out of the line stands in what was seen at the broker's end.
        there = [one for one in client.closes if one.host == facts.broker and one.who == close.who == "broker"]
        there = [one for one in there if link.connection.connect.t1 <= one.t0 <= close.t1]
        if not there:
            return False
        close = there[-1]
    if (close.idle_ns or 0) >= link.broker.low_ns - link.broker.early_ns:
        return True
    if link.client.low_ns <= 0:
        return False
    seen = [one for one in client.closes if one.host == client.name and one.who == "broker" and one.t1 >= close.t0]
    return bool(seen) and (seen[0].idle_ns or 0) > link.client.gap_ns


def _answered_late(facts: Facts, close: Closed, low_ns: int) -> bool:
    """Whether the broker took half as long as a monitor waits to answer somebody, in the silence before a close."""
    since_ns = close.t0 - max(close.idle_ns or 0, low_ns)
    answered = [one.event for one in facts.asked if one.event.result != "unknown"]
    return any(min(one.t1, close.t1) - max(one.t0, since_ns) >= max(low_ns // 2, 1) for one in answered)


@rule("INA-002", over=links, faults=("stall",))
def healthy_link_stays(facts: Facts, link: Link) -> Findings:
    """A healthy link is not closed for inactivity, by either end."""
    connection = link.connection
    for end, limits, close in link.ends():
        if not limits.watches_health() or connection.silences(end, limits):
            continue
        if close is not None and all(one is not None for _, _, one in link.ends()):
            yield unsure(close, why="both ends heard nothing: what is between them stood still")
        elif close is not None and (_stood_still(facts, link, close) or connection.was_crowded(limits, close)):
            yield unsure(close, why=_LATE)
        elif close is not None:
            why = f"nothing was stalled toward the {end} since the handshake"
            yield broken("closed", connection.connect, close, why=why)
        elif NEVER > connection.end_ns > connection.connect.t1 + limits.delay_ns + limits.high_ns:
            yield held("stays-open", f"a link outlived the limit of the {end}")
    for silence, end_close in _judged(link):
        limits, longest_ns = link.broker, _longest(link, silence)
        flowing_ns = silence.low_ns + longest_ns
        if end_close is None or longest_ns < limits.low_ns - limits.early_ns or end_close.host != facts.broker:
            continue
        if end_close.t0 > flowing_ns + limits.late_ns and limits.watches_health():
            if _stood_still(facts, link, end_close):
                yield unsure(end_close, why=_LATE)
                continue
            why = f"it had been flowing again since {ms(flowing_ns)} at the latest"
            yield broken("closed", *silence.stalls, end_close, why=why)


@rule("INA-003", over=unmonitored, faults=("stall",))
def no_monitor_closes_nothing(_facts: Facts, client: Client) -> Findings:
    """A link without a monitor is never closed for inactivity."""
    # What only began to connect, a broker's end closes when nobody has said so in time.
    vain_ns = min([one.t0 for one in client.connects if one.result != "ok"], default=NEVER)
    for event in client.closes:
        if is_inactivity(event) and event.t1 < vain_ns:
            yield broken("closed", event)
            return
    for stall in client.stalls:
        if stall.end is not None and stall.end.t0 - stall.begin.t1 >= SILENT_NS:
            yield held("stays-open", "the link was stalled for a second or longer")


def _in_window(facts: Facts, link: Link, silence: Silence, close: Closed, end: str) -> Findings:
    """A close while the stall lasted: neither too early nor too late after the monitor's count began."""
    connection = link.connection
    limits = link.client if end == "client" else link.broker
    own = close.host == (connection.client.name if end == "client" else facts.broker)
    byte_low, byte_high = silence.byte_low_ns, silence.byte_high_ns
    t0 = close.t0 if own else close.t0 - connection.latency_ns - limits.late_ns
    idle = close.idle_ns
    if own and idle is not None and byte_low <= close.t1 - idle and close.t0 - idle <= byte_high:
        # What this end says of its last byte agrees with the stall: take it.
        byte_low, byte_high = max(byte_low, close.t0 - idle), min(byte_high, close.t1 - idle)
    low_ns, high_ns = max(byte_low, silence.base_low_ns), max(byte_high, silence.base_high_ns)
    early_ns = close.t1 - low_ns - limits.low_ns
    late_ns = high_ns + limits.high_ns - t0
    # The handshake is an interval: the delay ends no earlier than after its begin, no later than after its end.
    sure_early_ns = t0 - max(byte_high, silence.base_low_ns) - limits.low_ns
    sure_late_ns = max(byte_low, silence.base_high_ns) + limits.high_ns - close.t1
    rows = (connection.connect, *silence.stalls, close)
    due = f"the close was due from {ms(low_ns + limits.low_ns)} to {ms(high_ns + limits.high_ns)}"
    if early_ns < -limits.early_ns:
        yield broken("early", *rows, why=f"too early, {due}", slack_ns=early_ns)
    elif not own and (silence.veiled or touches(link.connection.client.busy, (silence.high_ns, close.t1))):
        return  # when it happened is hidden by the stall, or stood behind what a slow link carried
    elif late_ns < -limits.late_ns:
        yield broken("late", *rows, why=f"too late, {due}", slack_ns=late_ns)
    elif sure_early_ns >= -limits.early_ns and sure_late_ns >= -limits.late_ns:
        slack_ns = min(sure_early_ns, sure_late_ns)
        yield held("in-time", _situation(facts, silence, close.t1), slack_ns=slack_ns)
    else:
        yield unsure(*rows, why=due, width_ns=byte_high - byte_low + close.t1 - t0)


def _situation(facts: Facts, silence: Silence, until_ns: int) -> str:
    if any(silence.begin_ns <= step.t1 <= until_ns for step in facts.clock_steps):
        return "a clock stepped during the silence"
    return "the stall began during the initial delay" if silence.in_delay else "the stall began on a running link"


# -- the client's end


@rule("INA-006", over=links, faults=("stall",))
def client_notices(facts: Facts, link: Link) -> Findings:
    """The client's end notices a dead broker side as well."""
    connection, limits = link.connection, link.client
    close = connection.client_close
    for silence in connection.silences("client", limits):
        if close is not None and silence.begin_ns <= close.t1 <= silence.end_ns:
            yield from _in_window(facts, link, silence, close, "client")
            return
        deadline_ns = silence.high_ns + limits.high_ns + limits.late_ns
        gone_ns = min(connection.left_ns, close.t0 if close is not None else NEVER)
        if deadline_ns <= silence.end_ns < NEVER and gone_ns > deadline_ns:
            why = f"nothing can have arrived since {ms(silence.high_ns)}, and it had not closed by {ms(deadline_ns)}"
            slack_ns = deadline_ns - silence.end_ns
            yield broken("never", connection.connect, *silence.stalls, why=why, slack_ns=slack_ns)


# -- the same once more, where something else might have disturbed it

Judge = Callable[[Facts, Link], Findings]
WINDOWS: tuple[Judge, ...] = (
    dead_link_is_closed,
    short_stall_closes_nothing,
    client_notices,
    noticed_in_the_initial_delay,
)


def _mirrored(facts: Facts, link: Link, judges: tuple[Judge, ...], outcome: str, why: str) -> Findings:
    """What these rules say of a link, under another name."""
    for judge in judges:
        undecided = False
        situation = "a healthy link" if judge is healthy_link_stays else "a silent link"
        for finding in judge(facts, link):
            if finding.holds is False:
                text = f"{why}; {finding.why}" if finding.why else why
                yield broken("other", *finding.witness, why=text, slack_ns=finding.slack_ns)
            undecided = undecided or finding.holds is None
            if finding.holds and not undecided:
                yield held(outcome, situation if outcome == "unmoved" else "a monitor")


def offered(facts: Facts) -> list[Link | Client | ProbeEvent]:
    """Links over which the broker was told to offer something of its own; hosts where either end offered no monitor;
    raw peers that heard an offer, or heart-beats of one that has none, where it is known what the broker is to offer.
    """
    known = facts.simulated or facts.declared.monitor_offer is not None
    found: list[Link | Client | ProbeEvent] = [p for p in facts.probes if p.heard.offer_ms is not None and known]
    if facts.declared.monitor_offer is None:
        return found
    if facts.simulated and facts.declared.monitor_offer.read_ms <= 0:  # real brokers' heart-beats are apart from it
        found += [probe for probe in facts.probes if probe.heard.heart_beat]
    found += [link for link in facts.rows(links) if link.connection.client.via == "jms"]
    return found + [client for client in facts.rows(unmonitored) if client.via == "jms"]


@rule("INA-008", over=offered, faults=("stall",))
def the_shorter_offer_counts(facts: Facts, row: Link | Client | ProbeEvent) -> Findings:
    """Both ends use the shorter of the two offered periods and of the two initial delays."""
    offer = facts.declared.monitor_offer
    if isinstance(row, ProbeEvent):
        wanted, heard = offer or DEFAULT_OFFER, row.heard.offer_ms
        if heard is not None and heard != (wanted.read_ms, wanted.initial_delay_ms) and wanted.read_ms > 0:
            why = f"it offered {heard[0]} and {heard[1]} ms instead of {wanted.read_ms} and {wanted.initial_delay_ms}"
            yield broken("unlike-its-settings", row, why=why)
        elif heard is None and row.heard.heart_beat != "0,0":
            yield broken("unlike-its-settings", row, why=f"it offered {row.heard.heart_beat}, and has no monitor")
        return
    told = "" if offer is None else f"the broker offered {offer.read_ms} and {offer.initial_delay_ms} ms"
    if isinstance(row, Link):
        yield from _mirrored(facts, row, WINDOWS, "the-shorter", told)
        return
    for finding in no_monitor_closes_nothing(facts, row):
        if finding.holds:
            yield held("the-shorter", "no monitor")
        else:
            yield broken("other", *finding.witness, why=told)


def among_others(facts: Facts) -> list[Link]:
    """Links where several hosts have monitors."""
    watched = [
        name for name, monitor in facts.declared.monitor.items() if monitor.read_ms > 0 and name in facts.clients
    ]
    return facts.rows(links) if len(watched) > 1 else []


@rule("INA-018", over=among_others, faults=("stall",))
def monitors_are_independent(facts: Facts, link: Link) -> Findings:
    """Monitors of different connections are independent."""
    for place, judge in enumerate(WINDOWS):
        for finding in _mirrored(facts, link, (judge,), "independent", "beside other links with monitors"):
            if not finding.holds or place == 0:
                yield finding


def stepped(facts: Facts) -> list[Link]:
    """Links of which one end's clock was stepped."""
    targets = [step.target for step in facts.clock_steps]
    if facts.broker in targets:
        return facts.rows(links)
    return [link for link in facts.rows(links) if link.connection.client.name in targets] if targets else []


@rule("INA-020", over=stepped, faults=("stall",))
def clock_steps_move_nothing(facts: Facts, link: Link) -> Findings:
    """A step of the wall clock neither closes healthy links nor keeps dead ones open."""
    return _mirrored(facts, link, (*WINDOWS, healthy_link_stays), "unmoved", "a clock was stepped")


# -- large messages, processes that stand still, what was held


def large(facts: Facts) -> list[Link]:
    """Links over which nothing was stalled toward the broker, where somebody sent a large message."""
    if not any(send.event.size >= LARGE_BYTES for send in facts.sends.values()):
        return []
    quiet = [link for link in facts.rows(links) if link.broker.watches_health()]
    return [link for link in quiet if not link.connection.silences("broker", link.broker)]


@rule("INA-012", over=large, faults=("stall",))
def bytes_are_life(facts: Facts, link: Link) -> Findings:
    """Bytes count as life, also in the middle of a frame, so a slow large message survives."""
    connection, limits, close = link.connection, link.broker, link.connection.broker_close
    for send in facts.sends.values():
        event = send.event
        if send.client is not connection.client or event.size < LARGE_BYTES:
            continue
        if not connection.connect.t1 <= event.t0 < connection.end_ns:
            continue
        if close is not None and event.t0 <= close.t1 <= event.t1:
            yield broken("cut-off", connection.connect, send, close, why=f"{event.size} bytes were on their way")
        elif event.result == "ok" and event.t1 - event.t0 > limits.delay_ns + limits.high_ns:
            yield held("survives", "a message took longer than the limit")


def stood_still(facts: Facts) -> list[tuple[Link, Pause]]:
    """Links over which nothing was stalled, and each time that the broker's process stood still meanwhile."""
    if not facts.pauses or facts.declared.connector is not None:
        return []
    if facts.strains or any(pause.target != facts.broker for pause in facts.pauses):
        return []
    found: list[tuple[Link, Pause]] = []
    for link in facts.rows(_links):
        connection = link.connection
        if not link.broker.watches_health() or connection.silences("broker", link.broker):
            continue
        found += [(link, p) for p in facts.pauses if connection.connect.t1 <= p.t0 <= connection.end_ns]
    return found


@rule("INA-021", over=stood_still, handles=("pause",), faults=("stall",))
def standing_still_closes_nothing(_facts: Facts, row: tuple[Link, Pause]) -> Findings:
    """A process that is stopped and continued does not close its peers."""
    link, pause = row
    connection, limits, close = link.connection, link.broker, link.connection.broker_close
    if close is not None and close.t1 >= pause.t0:
        yield broken("closed", connection.connect, pause, close)
    elif NEVER > connection.end_ns > pause.t1 + limits.delay_ns + limits.high_ns:
        longer = pause.t1 - pause.t0 > limits.high_ns
        yield held("stays-open", "longer than the limit" if longer else "no longer than the limit")


def held_when_closed(facts: Facts) -> list[Delivery]:
    """What consumers of queues held, unsettled, when their link was closed for inactivity."""
    return [
        delivery
        for session in facts.sessions.values()
        if session.closed is not None and session.known and gave_up(facts, session.client, session.closed)
        if not session.dest.topic
        for delivery in session.deliveries
        if came_back(delivery)
    ]


@rule("INA-005", over=held_when_closed, handles=but("operator", "limit", "redelivery", "repeated"), faults=("stall",))
def others_get_what_was_held(facts: Facts, delivery: Delivery) -> Findings:
    """What a consumer held when its link was closed for inactivity is given to others."""
    close = delivery.session.closed
    if delivery.copy.dead_letters or not delivery.is_latest():
        yield held("given-to-others", "the consumer had been given it" if delivery.consumed is not None else "")
    elif missing(facts, delivery.copy) and close is not None:
        yield broken("stuck", delivery, close, why="it was never seen again")
