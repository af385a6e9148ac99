"""The text of a failure (DESIGN section 8): one function, used by the terminal, pytest, JUnit and the evidence pages.

Order, always the same: requirement id and sentence; acceptable outcomes; what was observed; the program; the clocks
side by side; the line that replays it; whose fault it is. Every value is shown.
"""

from __future__ import annotations

import shlex

import msgspec

from brokerproof.conformance.experiment.history import ClockSample, Event, Fault, History
from brokerproof.conformance.experiment.program import Program
from brokerproof.conformance.experiment.results import RunResult
from brokerproof.conformance.experiment.steps import Parallel, Step
from brokerproof.conformance.experiment.verdict import Verdict, VerdictKind
from brokerproof.conformance.requirements.catalogue import Catalogue, Requirement

NS_PER_MS = 1_000_000
#: Steps printed before the rest is summed up; a shrunk program has three to six.
STEPS_SHOWN = 40


def failure_text(result: RunResult, verdict: Verdict, catalogue: Catalogue, replay: str = "") -> str:
    """The whole text for one verdict of one run. ``replay`` is the command line; the default is that of
    ``replay_line``.
    """
    requirement = catalogue[verdict.requirement]
    parts = [
        f"{requirement.id} ({requirement.level}) {requirement.sentence}",
        "",
        *_expected(requirement),
        f"  observed:   {verdict.outcome or verdict.verdict.value}: {verdict.text}",
        *_slack(verdict),
        "",
        "  program:",
        *(f"    {line}" for line in program_lines(result.program)),
    ]
    if result.history is not None:
        parts += ["", "  clocks (offset of each host's wall clock from true time):"]
        parts += [f"    {line}" for line in clock_lines(result.history, verdict.witness)]
        parts += ["", "  witness:", *(f"    {line}" for line in witness_lines(result.history, verdict.witness))]
    parts += ["", f"  replay:     {replay or replay_line(result)}", f"  culprit:    {culprit(result, verdict)}"]
    return "\n".join(parts)


def headline(verdict: Verdict) -> str:
    """The requirement and what was observed, in a line."""
    return f"{verdict.requirement}: {verdict.outcome or verdict.verdict.value}: {verdict.text}"


class RequirementFailure(AssertionError):
    """Told to pytest: ``headline`` is the line of its summary, the text everything."""

    def __init__(self, headline: str, text: str) -> None:
        super().__init__(text)
        self.headline = headline


def culprit(result: RunResult, verdict: Verdict) -> str:
    """Whose fault it is: the broker's, the suite's or the environment's."""
    if result.problem:
        return f"suite ({result.problem})"
    if verdict.verdict is VerdictKind.NOT_RUN or result.not_run:
        return f"environment ({result.not_run or verdict.text})"
    return f"broker ({result.broker}{', mutant ' + result.mutant if result.mutant else ''}, {result.world} world)"


def replay_line(result: RunResult, **chosen: str | None) -> str:
    """One line that runs this program again, in its world and with its mutant. ``chosen`` are further options of
    ``replay`` by name (``machine="expiry"``); one that is None is left out.
    """
    options = {**chosen, "mutant": result.mutant}
    what = [result.name] if result.seed is None else ["--seed", str(result.seed)]
    given = [] if result.world == "simulated" else ["--tier", result.world, *result.chosen]
    given += [word for name, value in options.items() if value is not None for word in (f"--{name}", value)]
    return shlex.join(["brokerproof", "replay", *what, *given])


def _expected(requirement: Requirement) -> list[str]:
    good = [outcome for outcome in requirement.outcomes if outcome.grade != "violated"]
    lines = []
    for number, outcome in enumerate(good):
        label = "  acceptable: " if number == 0 else "              "
        lines.append(f"{label}{outcome.name}{'' if outcome.grade == 'ok' else ' (' + outcome.grade + ')'}")
    return lines


def _slack(verdict: Verdict) -> list[str]:
    if verdict.slack_ns is None:
        return []
    return [f"  slack:      {verdict.slack_ns / NS_PER_MS:+.3f} ms"]


def program_lines(program: Program) -> list[str]:
    """The program as a person reads it: settings that differ from the defaults, hosts, then numbered steps."""
    settings = msgspec.to_builtins(program.broker)
    lines = [f"broker  {', '.join(f'{key}={value}' for key, value in settings.items()) or 'defaults'}"]
    for host in program.hosts:
        drift = f" drift {host.clock.drift_ppm:+d} ppm" if host.clock.drift_ppm else ""
        drift += f" {host.clock.zone}" if host.clock.zone else ""
        via = " ".join(["", "via", host.via, *filter(None, [host.version])]) if host.role == "client" else ""
        via += f" at {host.at}" if host.at else ""
        via += f" to {host.to}" if host.to else ""
        lines.append(f"host    {host.name} ({host.role}{via}) clock {host.clock.offset_ms:+d} ms{drift}")
    for link in program.links:
        monitor = (
            f", monitor read {link.monitor.read_ms} ms after {link.monitor.initial_delay_ms} ms" if link.monitor else ""
        )
        rate = f", {link.bytes_per_second} bytes/s" if link.bytes_per_second else ""
        jitter = f", jitter {link.jitter_us} us" if link.jitter_us else ""
        slices = f", slices of {link.slice_bytes} bytes" if link.slice_bytes else ""
        lines.append(f"link    {link.client} latency {link.latency_us} us{rate}{jitter}{slices}{monitor}")
    lines.append(f"dests   {', '.join([dest.name for dest in program.destinations])}")
    for number, step in enumerate(program.steps[:STEPS_SHOWN], start=1):
        lines.append(f"{number:4d}    {step_line(step, 'of')}")
        if isinstance(step, Parallel):
            lines += [f"        at once: {'; '.join(map(step_line, steps))}" for steps in step.of]
    if len(program.steps) > STEPS_SHOWN:
        lines.append(f"        … and {len(program.steps) - STEPS_SHOWN} more steps")
    return lines


def step_line(step: Step, *hidden: str) -> str:
    """A step as a person reads it: what differs from the defaults."""
    fields = msgspec.to_builtins(step)
    return " ".join([fields.pop("do"), *(f"{key}={value}" for key, value in fields.items() if key not in hidden)])


def clock_lines(history: History, witness: list[int]) -> list[str]:
    """A table: true time, then one column per host with its wall clock's offset in milliseconds; ``*`` marks the
    witness events.
    """
    hosts: list[str] = []
    for event in history.events:
        if isinstance(event, ClockSample) and event.host not in hosts:
            hosts.append(event.host)
    if not hosts:
        return ["no clock samples"]
    rows = [f"{'true ms':>14}  " + "  ".join(f"{host:>16}" for host in hosts)]
    offsets: dict[str, int] = {}
    origin = _origin_ms(history)
    shown = ""
    for event in history.events:
        if isinstance(event, ClockSample):
            offsets[event.host] = _offset_ms(event, origin)
        marked = event.seq in witness
        if not marked and not (isinstance(event, Fault) and event.fault == "clock") and event is not history.events[-1]:
            continue
        cells = "  ".join(f"{offsets.get(host, 0):>+13} ms" for host in hosts)
        line = f"{event.t1 / NS_PER_MS:>14.3f}  {cells}"
        note = f"  * {_name(event)} (event {event.seq})" if marked else ""
        if line != shown or note:
            rows.append(line + note)
        shown = line
    return rows


def _offset_ms(sample: ClockSample, origin_ms: int) -> int:
    wall_ns = (sample.wall_ms - origin_ms) * NS_PER_MS + sample.beyond_ns
    return round((wall_ns - (sample.t0 + sample.t1) // 2) / NS_PER_MS)


def _origin_ms(history: History) -> int:
    """The wall time that counts as true at the start: the least of the first samples' whole offsets is as good as any,
    and steady; a known epoch is better.
    """
    firsts: dict[str, int] = {}
    for event in history.events:
        if isinstance(event, ClockSample) and event.host not in firsts:
            firsts[event.host] = event.wall_ms - (event.t0 + event.t1) // 2 // NS_PER_MS
    drain = firsts.get("drain")
    if drain is not None:
        return drain
    return sorted(firsts.values())[len(firsts) // 2]


def witness_lines(history: History, witness: list[int]) -> list[str]:
    """The events that prove the verdict, one line each."""
    wanted = set(witness)
    return [event_line(event) for event in history.events if event.seq in wanted] or ["none recorded"]


def event_line(event: Event) -> str:
    """One event as text: number, interval, host, kind, fields."""
    fields = msgspec.to_builtins(event)
    for key in ("seq", "t0", "t1", "host", "kind"):
        fields.pop(key, None)
    values = " ".join(f"{key}={value}" for key, value in fields.items()).replace("\n", "\n        ")
    interval = (
        f"{event.t0 / NS_PER_MS:.3f}"
        if event.t0 == event.t1
        else f"{event.t0 / NS_PER_MS:.3f}..{event.t1 / NS_PER_MS:.3f}"
    )
    return f"[{event.seq}] {interval} ms  {event.host or 'observer'}  {_name(event)}  {values}"


def _name(event: Event) -> str:
    return str(type(event).__struct_config__.tag)
