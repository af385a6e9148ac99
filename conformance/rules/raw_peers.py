"""What a peer with a bare socket sees of the broker's end (INA-009 to -011, -013 to -017, -019, -022 to -025).

Not judged: peers that were refused although their hello was good; INA-014 and INA-019 where nobody declares the
broker's connector.
"""

from __future__ import annotations

from brokerproof.conformance.experiment.configuration import ConnectorSpec
from brokerproof.conformance.experiment.history import Probe as ProbeEvent
from brokerproof.conformance.experiment.policies import PREFIXES
from brokerproof.conformance.facts.facts import Facts
from brokerproof.conformance.facts.negotiation import Agreement, agreement
from brokerproof.conformance.facts.spans import NS_PER_MS, ms
from brokerproof.conformance.rules.rule import Findings, broken, held, rule

#: "At once" is no more than this.
AT_ONCE_NS = 500_000_000
#: How long links without a promise must have lasted to prove something.
SILENT_NS = 1_000_000_000
#: ActiveMQ looks for blocked writes every so often.
WRITE_CHECK_NS = 5_000_000_000
SMALL_MS = 100
LARGE_MS = 2**31


class Probe:
    """One raw peer's stay, with how the broker's end is set. ``terms`` None: its answer cannot be understood, or there
    was no good hello.
    """

    def __init__(self, facts: Facts, event: ProbeEvent) -> None:
        declared = facts.declared
        generation = declared.generation.get("monitor", "documented" if facts.simulated else "")
        self.event = event
        self.said = event.said
        self.heard = event.heard
        self.declared = declared
        #: Whether anybody knows how the broker's end is set; the simulated broker's defaults are known.
        self.known = facts.simulated or declared.connector is not None
        self.connector = declared.connector or ConnectorSpec()
        self.early_ns, self.late_ns = 50 * NS_PER_MS * facts.rate, 500 * NS_PER_MS * facts.rate
        self.terms: Agreement | None = None
        if event.said.hello == "good":
            self.terms = agreement(event, declared, self.connector, generation)


def _probes(facts: Facts) -> list[Probe]:
    probes = [event for event in facts.probes if event.said.times == 1 and not event.said.dialogues]
    return [Probe(facts, event) for event in probes]


def _in_window(probe: Probe, low_ns: int, high_ns: int, situation: str) -> Findings:
    """The broker hangs up between two instants, the earliest and the latest."""
    event, ended_ns = probe.event, probe.heard.ended_ns
    due = f"due from {ms(low_ns)} to {ms(high_ns)}"
    if ended_ns is None:
        if event.t1 > high_ns + probe.late_ns:
            why = f"still connected at {ms(event.t1)}; the end was {due}"
            yield broken("never", event, why=why, slack_ns=high_ns - event.t1)
    elif ended_ns < low_ns - probe.early_ns:
        yield broken("early", event, why=f"hung up on at {ms(ended_ns)}, {due}", slack_ns=ended_ns - low_ns)
    elif ended_ns > high_ns + probe.late_ns:
        yield broken("late", event, why=f"hung up on at {ms(ended_ns)}, {due}", slack_ns=high_ns - ended_ns)
    else:
        yield held("in-time", situation, slack_ns=min(ended_ns - low_ns, high_ns - ended_ns))


# -- no hello, or a bad one


def without_hello(facts: Facts) -> list[Probe]:
    """Peers that sent nothing that is a hello, to a broker whose connect timeout is known."""
    return [probe for probe in facts.rows(_probes) if probe.said.hello not in {"good", "bad"} and probe.known]


@rule("INA-014", over=without_hello)
def no_hello_is_ended(_facts: Facts, probe: Probe) -> Findings:
    """A connection that never says hello is closed after the connect timeout."""
    event, ended_ns = probe.event, probe.heard.ended_ns
    timeout_ns = probe.connector.connect_timeout_ms * NS_PER_MS
    timed = probe.connector.use_monitor and timeout_ns > 0
    if probe.heard.refused:
        return
    due = timed and ended_ns is not None and ended_ns >= event.t0 + timeout_ns - probe.early_ns
    if probe.said.hello == "early" and ended_ns is not None and not due:
        # Something else than a hello may be refused as soon as it is seen, as a listener does that guesses the
        # protocol by the first bytes.
        yield held("refused", "early instead of a hello")
    elif timed:
        situation = f"{probe.said.hello} instead of a hello"
        yield from _in_window(probe, event.t0 + timeout_ns, probe.said.opened_ns + timeout_ns, situation)
    elif ended_ns is not None:
        yield broken("closed-all-the-same", event, why=f"hung up on at {ms(ended_ns)}; there is no connect timeout")
    elif event.t1 - event.t0 >= SILENT_NS:
        yield held("stays-open", "there was no timeout")


def bad_hellos(facts: Facts) -> list[Probe]:
    """Peers whose hello must be refused."""
    return [probe for probe in facts.rows(_probes) if probe.said.hello == "bad" and probe.said.hello_ns is not None]


@rule("INA-015", over=bad_hellos)
def bad_hello_is_refused(_facts: Facts, probe: Probe) -> Findings:
    """A bad handshake is refused at once."""
    said_ns = probe.said.hello_ns
    latest_ns = AT_ONCE_NS + (said_ns[1] if said_ns is not None else 0)
    ended_ns, event = probe.heard.ended_ns, probe.event
    why = f"the hello was bad ({probe.said.fault})"
    if ended_ns is None:
        if event.t1 > latest_ns + probe.late_ns:
            yield broken("tolerated", event, why=f"{why}; still connected at {ms(event.t1)}")
    elif ended_ns > latest_ns + probe.late_ns:
        yield broken("late", event, why=f"{why}; hung up on at {ms(ended_ns)}", slack_ns=latest_ns - ended_ns)
    else:
        yield held("refused", probe.said.fault, slack_ns=latest_ns - ended_ns)


# -- silence after a good hello


def welcomed(facts: Facts) -> list[Probe]:
    """Peers with a good hello that was answered, and that read what they got."""
    return [
        probe
        for probe in facts.rows(_probes)
        if probe.terms is not None
        and not probe.said.deaf
        and probe.heard.welcome_ns is not None
        and probe.said.hello_ns is not None
        and probe.said.last_ns is not None
    ]


def silent(facts: Facts) -> list[Probe]:
    """Those of them that were not refused, where the broker watches: each fell silent."""
    return [
        probe
        for probe in facts.rows(welcomed)
        if probe.connector.use_monitor and not (probe.heard.refused and probe.heard.last != "error")
    ]


def _deadlines(probe: Probe) -> tuple[int, int] | None:
    """When the broker may and must hang up on a silent peer; None: never, or while it was still talked to."""
    terms, said = probe.terms, probe.said
    if terms is None or terms.read_ns <= 0 or said.last_ns is None or said.hello_ns is None:
        return None
    if said.says != "nothing" and said.every_ms * NS_PER_MS >= terms.low_ns(said.says) - probe.late_ns:
        return None
    low_ns = max(said.last_ns[0], said.hello_ns[0] + terms.delay_low_ns) + terms.low_ns(said.says)
    return low_ns, max(said.last_ns[1], said.hello_ns[1] + terms.delay_ns) + terms.high_ns


def _silence(probe: Probe, situation: str) -> Findings:
    deadlines = _deadlines(probe)
    if deadlines is not None:
        yield from _in_window(probe, *deadlines, situation)


@rule("INA-010", over=silent)
def closes_without_keep_alives(_facts: Facts, probe: Probe) -> Findings:
    """Without keep-alives of its own an end still closes silent links."""
    if probe.connector.use_keep_alive or probe.terms is None:
        return
    yield from _silence(probe, f"over {probe.said.via}")
    if probe.heard.beats and probe.terms.write_ns > 0:
        yield broken("broken", probe.event, why=f"{probe.heard.beats} keep-alives came, though none are sent")


@rule("INA-013", over=silent)
def closes_in_mid_frame(_facts: Facts, probe: Probe) -> Findings:
    """A link that dies in the middle of a frame is closed."""
    if probe.said.says == "part":
        yield from _silence(probe, f"over {probe.said.via}")


@rule("INA-022", over=silent)
def extreme_periods_work(_facts: Facts, probe: Probe) -> Findings:
    """Very small and very large periods work."""
    terms, said = probe.terms, probe.said
    read_ms = terms.read_ns // NS_PER_MS if terms is not None else 0
    if 0 < read_ms <= SMALL_MS:
        yield from _silence(probe, "a period of 100 ms or less")
    elif read_ms > LARGE_MS and _deadlines(probe) is not None:
        yield from _silence(probe, "a period beyond 2^31 ms")
        last_ns = said.last_ns[1] if said.last_ns is not None else probe.event.t1
        if probe.heard.ended_ns is None and probe.event.t1 - last_ns >= SILENT_NS:
            yield held("stays-open", "a period beyond 2^31 ms")


@rule("INA-023", over=silent)
def read_timeout_defeats_no_monitor(_facts: Facts, probe: Probe) -> Findings:
    """A read timeout of the socket does not defeat the monitor."""
    read_ns = probe.terms.read_ns if probe.terms is not None else 0
    if 0 < probe.connector.read_timeout_ms * NS_PER_MS < read_ns:
        yield from _silence(probe, f"over {probe.said.via}")


@rule("INA-017", over=silent)
def hangs_up_silently(_facts: Facts, probe: Probe) -> Findings:
    """Nothing is sent when a link is closed for inactivity, and the reason is reported once."""
    heard, deadlines = probe.heard, _deadlines(probe)
    if deadlines is None or heard.ended_ns is None or heard.ended_ns < deadlines[0] - probe.early_ns:
        return
    if heard.last == "error":
        yield broken("said-something", probe.event, why=f"it said before: {heard.refused!r}")
    elif heard.reports is not None and heard.reports != 1:
        yield broken("not-reported-once", probe.event, why=f"reported {heard.reports} times")
    else:
        yield held("silently", "" if heard.reports is None else "its report was seen")


def over_stomp(facts: Facts) -> list[Probe]:
    """Peers that speak STOMP, with a good hello: its numbers are none below 0, or nothing is specified."""
    peers = (p for p in facts.rows(_probes) if p.said.via == "stomp" and p.said.hello == "good" and not p.said.deaf)
    return [p for p in peers if min(p.said.offer_ms) >= 0]


@rule("INA-024", over=over_stomp)
def heart_beats_are_kept(_facts: Facts, probe: Probe) -> Findings:
    """STOMP heart-beats are negotiated, answered and kept as the header says."""
    terms, heard, said = probe.terms, probe.heard, probe.said
    if terms is None:
        why = f"CONNECTED says heart-beat:{heard.heart_beat}; two numbers were expected"
        yield broken("broken", probe.event, why=why)
        return
    if heard.welcome_ns is None or said.last_ns is None:
        return
    yield from _writes(probe, terms, "in-time", "broken")
    refused = heard.refused and heard.last != "error"
    if refused or not probe.connector.use_monitor:
        return
    if terms.read_ns > 0:
        yield from _silence(probe, "a client's beats were promised")
    elif heard.ended_ns is not None:
        yield broken("broken", probe.event, why=f"hung up on at {ms(heard.ended_ns)}, though nothing was owed")
    elif probe.event.t1 - said.last_ns[1] >= SILENT_NS:
        yield held("in-time", "no beats were promised")


# -- what the broker writes


def _writes(probe: Probe, terms: Agreement, good: str, bad: str) -> Findings:
    """Between two things that the broker writes there is never more than it may be silent."""
    heard, said = probe.heard, probe.said
    if not probe.connector.use_keep_alive or not probe.connector.use_monitor or terms.write_ns <= 0:
        told_none = terms.write_ns > 0 and not probe.connector.use_keep_alive
        if heard.beats and not told_none and bad == "broken":
            yield broken("broken", probe.event, why=f"{heard.beats} keep-alives came, though none were promised")
        return
    end_ns = heard.ended_ns if heard.ended_ns is not None else probe.event.t1
    first_ns = (heard.first_ns if heard.first_ns is not None else end_ns) - (heard.welcome_ns or 0)
    first_limit_ns = terms.delay_ns + terms.own_gap_ns
    # Something may come in the initial delay already, an answer or what a broker tells of itself, and then nothing
    # until it is over.
    limit_ns = terms.own_gap_ns + (terms.delay_ns if heard.answers or first_ns < terms.delay_ns else 0)
    if first_ns > first_limit_ns + probe.late_ns:
        why = f"nothing came for {ms(first_ns)} after the welcome; the limit is {ms(first_limit_ns)}"
        yield broken(bad, probe.event, why=why, slack_ns=first_limit_ns - first_ns)
    elif heard.gap_ns is not None and heard.gap_ns > limit_ns + probe.late_ns:
        why = f"nothing came for {ms(heard.gap_ns)}; the limit is {ms(limit_ns)}"
        yield broken(bad, probe.event, why=why, slack_ns=limit_ns - heard.gap_ns)
    elif heard.beats or heard.answers > 1:
        traffic = said.says == "asks" and said.every_ms * NS_PER_MS < terms.write_ns
        yield held(good, "traffic" if traffic else "idle")


@rule("INA-009", over=welcomed)
def keep_alives_are_sent(facts: Facts, probe: Probe) -> Findings:
    """An idle end sends keep-alives; traffic replaces them."""
    terms, closest_ns = probe.terms, probe.heard.closest_ns
    if terms is None:
        return
    early_ns = 0 if facts.simulated else probe.late_ns
    findings = list(_writes(probe, terms, "kept", "silent"))
    writes = probe.connector.use_keep_alive and probe.connector.use_monitor and terms.write_ns > 0
    needless = terms.sure_write and closest_ns is not None and closest_ns < terms.write_ns - early_ns
    if writes and needless and not any(finding.holds is False for finding in findings):
        why = f"a keep-alive came {ms(closest_ns or 0)} after something else; the write period is {ms(terms.write_ns)}"
        yield broken("needless", probe.event, why=why)
    else:
        yield from findings


@rule("INA-011", over=welcomed)
def keep_alives_are_answered(_facts: Facts, probe: Probe) -> Findings:
    """A keep-alive that asks for an answer gets one, and one that does not gets none."""
    said, heard = probe.said, probe.heard
    if said.via != "openwire" or said.last_ns is None or said.says not in {"asks", "beats"}:
        return
    if said.says == "beats":
        if heard.answers:
            yield broken("unasked", probe.event, why=f"{heard.answers} answers came, and none was asked for")
        else:
            yield held("as-asked", "no answers were asked for")
        return
    over_ns = heard.ended_ns if heard.ended_ns is not None else probe.event.t1
    if heard.answers == said.asked:
        yield held("as-asked", "answers were asked for")
    elif over_ns > said.last_ns[1] + AT_ONCE_NS + probe.late_ns or heard.answers > said.asked:
        why = f"{said.asked} keep-alives asked for an answer, and {heard.answers} came"
        yield broken("unanswered", probe.event, why=why)


# -- peers that do not read, and many at once


def deaf(facts: Facts) -> list[Probe]:
    """Peers that went on sending and read nothing after the broker's welcome."""
    return [
        probe
        for probe in facts.rows(_probes)
        if probe.said.hello == "good"
        and probe.said.deaf
        and probe.heard.welcome_ns is not None
        and probe.said.last_ns is not None
        and probe.said.says in {"beats", "asks"}
    ]


@rule("INA-016", over=deaf)
def write_timeout_ends_it(_facts: Facts, probe: Probe) -> Findings:
    """A peer that sends but does not read is ended by a write timeout if one is set."""
    said, timeout_ns = probe.said, probe.connector.write_timeout_ms * NS_PER_MS
    if not said.flooded_ns or timeout_ns <= 0 or said.last_ns is None:
        return
    entries = [entry for entry in probe.declared.policies if not entry.match.startswith(PREFIXES)]
    limited = probe.declared.memory_limit_bytes > 0 or any(entry.memory_limit_bytes for entry in entries)
    refusing = limited and any(entry.send_fail_if_no_space for entry in entries)
    if refusing or any(entry.pending_message_limit is not None for entry in entries):
        return  # what it sends to its temporary topic may be refused, or dropped before it fills a buffer
    terms, ended_ns = probe.terms, probe.heard.ended_ns
    if terms is not None and terms.read_ns > 0 and (ended_ns or 0) >= said.last_ns[0] + terms.low_ns(said.says):
        return  # it had said nothing for so long that the monitor may have ended it
    # It notices the end when it next says something; the buffers are full as soon as it has written all.
    high_ns = said.flooded_ns + timeout_ns + WRITE_CHECK_NS + said.every_ms * NS_PER_MS
    if probe.heard.ended_ns is not None or high_ns <= said.last_ns[1]:
        yield from _in_window(probe, (probe.heard.welcome_ns or 0) + timeout_ns, high_ns, "the buffers were full")


@rule("INA-019", over=deaf)
def blocked_producer_is_kept(_facts: Facts, probe: Probe) -> Findings:
    """A broker that blocks a producer does not drop it, and a slow application does not trip the monitor."""
    terms = probe.terms
    refusing = any(entry.send_fail_if_no_space for entry in probe.declared.policies)
    if probe.said.flooded_ns or terms is None or terms.read_ns <= 0 or refusing or not probe.known:
        return
    if probe.connector.write_timeout_ms > 0:
        return
    if probe.heard.ended_ns is not None:
        why = f"hung up on at {ms(probe.heard.ended_ns)}, though the broker had stopped reading from it"
        yield broken("dropped", probe.event, why=why)
    elif probe.event.t1 - (probe.heard.welcome_ns or 0) > terms.delay_ns + terms.high_ns + probe.late_ns:
        yield held("kept", "a producer was blocked for longer than the limit")


def many(facts: Facts) -> list[ProbeEvent]:
    """Many peers, all of which the broker hung up on; where no bridge comes and goes."""
    if facts.beyond:
        return []
    return [e for e in facts.probes if e.said.times > 1 and e.heard.left is not None and e.heard.closed >= e.said.times]


@rule("INA-025", over=many)
def nothing_is_left_behind(facts: Facts, event: ProbeEvent) -> Findings:
    """A thousand inactivity closes leave no threads, sockets or timers behind."""
    left = event.heard.left or {}
    # In real processes others may come and go: growth by less than a tenth of the peers is no leak.
    allowed = 0 if facts.simulated else event.said.times // 10
    grown = [f"{more} {what}" for what, more in left.items() if more > allowed]
    if grown:
        yield broken("left-behind", event, why=f"{', '.join(grown)} more than before after {event.said.times} peers")
    else:
        yield held("nothing-left", f"{', '.join(left)} were counted")
