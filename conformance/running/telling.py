"""A story as it was played: both halves run, and whether each shows what its broker's generation is documented to.

Rules
* A requirement must have the verdict that the story expects, or *known failure* where *violated* is expected. What the
  broker does not offer or promise is left out, and said.
* Any other MUST that is violated, and not known, is a deviation too.
* What is late on a real machine may be the machine's fault, and so may a link that is given up because its other end
  was late: rules judge that (INA, DLY), a measure does not. Nor does the lowest count where it is sampled while
  everything moves: the true one may be lower.
* What could not be run (a tool or the broker is missing) is a problem, never a pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any, Final

import msgspec

from brokerproof.conformance.brokers.base import Adapter
from brokerproof.conformance.experiment.configuration import MonitorSpec
from brokerproof.conformance.experiment.exits import UsageError
from brokerproof.conformance.experiment.history import Closed, History, Skipped
from brokerproof.conformance.experiment.program import Program
from brokerproof.conformance.experiment.results import REFERENCE, RunResult
from brokerproof.conformance.experiment.steps import Counters, Probe, Subscribe
from brokerproof.conformance.experiment.verdict import Verdict, VerdictKind
from brokerproof.conformance.operating.answer import Answer
from brokerproof.conformance.operating.retrospect import compared, diagnosed
from brokerproof.conformance.requirements.catalogue import default_catalogue
from brokerproof.conformance.running.engine import run_program
from brokerproof.conformance.running.measures import before_drain, measure
from brokerproof.conformance.running.outcomes import GONE, outcomes
from brokerproof.conformance.stories import Half, Story, by_generation
from brokerproof.conformance.stories.story import Expects, lacking
from brokerproof.reference_broker.core.config import ConfigError, resolve_generation

#: Runs programs, given by name, in their order.
Runner = Callable[[list[tuple[str, Program]]], Iterable[RunResult]]
NS_PER_MS: Final = 1_000_000
#: What is expected of any other MUST.
UNBROKEN: Final = "not violated"
_UNTOLD = (VerdictKind.NOT_APPLICABLE, VerdictKind.NOT_RUN)
_UNDECIDED = (VerdictKind.INCONCLUSIVE, VerdictKind.NOT_EXERCISED)


@dataclass(frozen=True)
class Check:
    """One thing that was expected. ``holds`` None: this broker cannot show it."""

    what: str
    expected: str
    found: str
    holds: bool | None
    text: str = ""


@dataclass(frozen=True)
class Waste:
    """What a half dispatched, and how much of that no application got."""

    half: str
    prefetch: int
    dispatch: str
    lowest: float
    dispatched: float
    taken: float
    wasted: float


@dataclass(frozen=True)
class Played:
    """One half."""

    half: str
    result: RunResult
    checks: list[Check]
    #: (which messages, what became of them); (the command, where and when; its answers); why links ended.
    ends: list[tuple[str, str]] = field(default_factory=list)
    said: tuple[str, list[Answer]] | None = None
    closings: list[str] = field(default_factory=list)
    #: One, where consumers are and the figures were read.
    waste: list[Waste] = field(default_factory=list)

    @property
    def fails(self) -> bool:
        """Whether it behaved otherwise than documented."""
        return any(one.holds is False for one in self.checks)

    @property
    def holds(self) -> bool:
        """Whether it behaved as documented, as far as this broker can show it, and showed something."""
        return not self.result.problem and not self.fails and any(one.holds for one in self.checks)


def play(story: Story, run: Runner, generation: dict[str, str] | None = None) -> Iterator[Played]:
    """Both halves, on brokers of the ``generation`` (area -> name) where that differs from what the story asks for.

    What is expected stays that of the story's own generation, or of the broker's if it has one that cannot be chosen.
    """
    asked = {half: _asking(told.program, generation or {}) for half, told in story.halves().items()}
    results = run([(f"{story.name}-{half}", program) for half, program in asked.items()])
    for (half, told), result in zip(story.halves().items(), results, strict=True):
        history = result.history
        if history is None:
            yield Played(half, result, [])
            continue
        own = history.header.declared.generation
        if result.broker == REFERENCE:
            own = resolve_generation(told.program.broker.generation)
        checks = _excused(history, _checks(result, by_generation(told.expects, own), own))
        words, vain = said(history, story.curve), wasted(f"{story.name}-{half}", result.program, history)
        yield Played(half, result, checks, ends(history), words, closings(history), vain)


def is_documented(adapter: Adapter) -> bool:
    """Whether anybody says what stories must show of a broker: what they tell is documented of ActiveMQ's kind."""
    classic = next(one for one in default_catalogue().judged() if one.profiles == ["activemq-classic"])
    return not (adapter.unpromised(classic) or adapter.unclaimed(classic))


def unshown(story: Story, adapter: Adapter) -> str:
    """Why a broker cannot show a story; "" if it can."""
    offers = {*adapter.capabilities(), *adapter.operations}
    for half in story.halves().values():
        program = adapter.cast(half.program)
        why = adapter.refusal(program) or lacking(half, adapter.effective(program).broker, offers)
        if why:
            return why
    return ""


def _asking(program: Program, generation: dict[str, str]) -> Program:
    broker = program.broker
    generation = {**broker.generation, **generation}
    return msgspec.structs.replace(program, broker=msgspec.structs.replace(broker, generation=generation))


def check_generation(area: str, name: str) -> dict[str, str]:
    """An area's generation, by name. Raises ``UsageError``."""
    try:
        resolve_generation({area: name})
    except ConfigError as error:
        raise UsageError(f"--generation {area}={name}: {error}") from None
    return {area: name}


def simulated(mutant: str | None = None) -> Runner:
    """Runs on the reference broker in virtual time."""
    return lambda plan: (run_program(program, name, mutant=mutant) for name, program in plan)


def breaking(story: Story) -> Iterator[Played]:
    """The story under what must break it."""
    area, _, name = story.breaks.partition("=")
    return play(story, simulated(), {area: name}) if name else play(story, simulated(area))


def hastened(story: Story, speed: int) -> Story:
    """The same with all durations, and what is measured of them, so many times shorter: of documents 001 and 004, where
    clocks agree; how far they are apart cannot be hastened. A second of grace is left to real timers.
    """
    hosts = [host for half in story.halves().values() for host in half.program.hosts]
    if speed == 1 or story.document not in {"001", "004"} or any(host.clock.offset_ms for host in hosts):
        return story
    halves = [Half(_faster(half.program, speed), _sooner(half.expects, speed)) for half in story.halves().values()]
    return replace(story, sick=halves[0], cured=halves[1])


#: Fields that are durations; a take's deadline is patience.
_DURATIONS = ("ms", "ttl_ms", "delay_ms", "every_ms", "talk_ms")


def _faster(program: Program, speed: int) -> Program:
    steps = []
    for step in program.steps:
        times: dict[str, Any] = {name: getattr(step, name) // speed for name in _DURATIONS if hasattr(step, name)}
        if isinstance(step, Probe) and step.times > 1:
            times = {}  # so many take their time
        elif isinstance(step, Probe):
            times["offer_ms"] = tuple(one // speed for one in step.offer_ms)
        steps.append(msgspec.structs.replace(step, **times) if times else step)
    offer = program.broker.monitor_offer
    ends = program.broker.connector
    if ends is not None:
        ends = msgspec.structs.replace(ends, write_timeout_ms=ends.write_timeout_ms // speed)
    broker = msgspec.structs.replace(program.broker, monitor_offer=offer and _shorter(offer, speed), connector=ends)
    links = [
        msgspec.structs.replace(
            link,
            monitor=link.monitor and _shorter(link.monitor, speed),
            bytes_per_second=link.bytes_per_second * speed,  # or its messages take longer than all that waits for them
        )
        for link in program.links
    ]
    return msgspec.structs.replace(program, broker=broker, links=links, steps=steps)


def _shorter(monitor: MonitorSpec, speed: int) -> MonitorSpec:
    return MonitorSpec(monitor.read_ms // speed, monitor.initial_delay_ms // speed)


def _sooner(expects: Expects, speed: int) -> Expects:
    def sooner(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: sooner(one) for key, one in value.items()}
        return (value[0] // speed, value[1] // speed + 1000) if isinstance(value, tuple) else value

    return {what: sooner(value) if what.endswith("-ms") else value for what, value in expects.items()}


#: Links that an end gave up.
_GIVEN_UP: Final = ("broker-closed", "client-closed", "hung-up")


def _checks(result: RunResult, expects: Expects, generation: dict[str, str]) -> list[Check]:
    assert result.history is not None
    verdicts = {verdict.requirement: verdict for verdict in result.verdicts}
    checks, live = [], result.world != "simulated"
    sampled = any(isinstance(step, Counters) and step.count > 1 for step in result.program.each_step())
    for what, expected in expects.items():
        if expected == "":
            continue
        if what in verdicts:
            checks.append(_judged(verdicts[what], str(expected), live=live))
            continue
        low, high = expected if isinstance(expected, tuple) else (expected, expected)
        found = measure(result.history, what)
        word = what.partition(":")[0]
        may_miss = live and (word.endswith("-ms") or word in _GIVEN_UP or (sampled and word == "lowest"))
        holds = None if found is None or (may_miss and found > high) else low <= found <= high
        words = f"{low:,}" if low == high else f"{low:,} to {high:,}"
        checks.append(Check(what, words, "unknown" if found is None else f"{found:,.0f}", holds))
    return checks + [
        Check(verdict.requirement, UNBROKEN, "violated", holds=False, text=verdict.text)
        for verdict in result.verdicts
        if verdict.verdict is VerdictKind.VIOLATED
        and verdict.requirement not in expects
        and _promised(verdict.requirement, generation)
    ]


def _promised(requirement: str, generation: dict[str, str]) -> bool:
    """Whether a broker of this generation promises it, and must keep that."""
    entry = default_catalogue()[requirement]
    return entry.level == "MUST" and all(entry.expected.get(name) != "violated" for name in generation.values())


#: Steps that depend on what was delivered.
_TAKING = ("take", "ack", "nack")


def _excused(history: History, checks: list[Check]) -> list[Check]:
    """The same, if all was done of the program that could have been; else nobody knows what it would have shown."""
    names = [one.step["do"] for one in history.events if isinstance(one, Skipped) and one.step["do"] not in _TAKING]
    if not names:
        return checks
    told = Check("steps", "done", f"{', '.join(dict.fromkeys(names))}: not done", None)
    return [told, *(one if one.expected == UNBROKEN else replace(one, holds=None) for one in checks)]


def _judged(verdict: Verdict, expected: str, *, live: bool) -> Check:
    """Real clocks and a busy machine may keep a rule from deciding; virtual time may not."""
    found = "violated" if verdict.verdict is VerdictKind.KNOWN_FAILURE else verdict.verdict.value
    open_ = verdict.verdict in _UNTOLD or (live and verdict.verdict in _UNDECIDED)
    return Check(verdict.requirement, expected, found, None if open_ else found == expected, verdict.text)


def ends(history: History) -> list[tuple[str, str]]:
    """What became of every message: (``p0/3 to p0/9``, its end), one row for neighbours with the same end."""
    rows: list[tuple[str, str]] = []
    for end, group in groupby(outcomes(history).items(), key=lambda entry: (entry[0].partition("/")[0], entry[1])):
        names = [name for name, _ in group]
        range_ = names[0] if len(names) == 1 else f"{names[0]} to {names[-1]} ({len(names)})"
        rows.append(
            (range_, "not seen again: neither consumed, nor drained, nor a dead letter" if end[1] == GONE else end[1])
        )
    return rows


def said(history: History, curve: str) -> tuple[str, list[Answer]] | None:
    """What ``diagnose`` or ``clocks`` would have said at the worst instant."""
    if curve in {"memory", "in-flight"}:
        found = diagnosed(history, curve)
        return found and (f"diagnose, {found[0] / NS_PER_MS:,.3f} ms after the start", found[1])
    other = compared(history) if curve == "clocks" else None
    return other and (f"clocks on {other[1]}, {other[0] / NS_PER_MS:,.3f} ms after the start", other[2])


def wasted(name: str, program: Program, history: History) -> list[Waste]:
    """Of the consumers' queue, as the first of them asked."""
    asked = next((one for one in program.each_step() if isinstance(one, Subscribe)), None)
    words = ("lowest", "dispatched", "taken", "wasted")
    lowest, dispatched, taken, vain = (measure(history, f"{word}:q0") for word in words)
    if asked is None or lowest is None or dispatched is None or taken is None or vain is None:
        return []
    return [Waste(name, asked.prefetch, asked.dispatch, lowest, dispatched, taken, vain)]


def closings(history: History) -> list[str]:
    """Why connections ended, in the words of those who ended them, once each."""
    lines = [
        f"{one.t1 / NS_PER_MS:,.3f} ms: {one.who} closed {one.link or one.host}: {one.reason}"
        for one in before_drain(history, Closed)
        if one.reason
    ]
    return list(dict.fromkeys(lines))[:6]
