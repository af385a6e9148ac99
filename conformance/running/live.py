"""The live tier: which corpus programs run on a broker, in which order, and what comes of each.

Rules
* The plan: corpus programs that the broker can run at all and that take little real time, then random ones. The corpus
  is ordered so that brokers can be shared: by settings, then by the broker's clock, never backwards. Where every run
  has a broker of its own, a long program goes beside a short one: the one waits while the other computes.
* A random program that shows a violation is run again; what nobody sees twice is inconclusive.
* A missing tool makes runs *not run*, by name. What the suite or its environment did wrong is a ``problem`` (exit code
  4) and spoils the broker that was in use, so that the next run gets a fresh one.
* Known deviations of the broker are marked after judging; one that no longer fails is a problem too.
"""

from __future__ import annotations

import contextlib
import itertools
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from functools import partial

import msgspec

from brokerproof.chaos.brokers.jolokia import JolokiaFailed
from brokerproof.chaos.channels import ChannelError
from brokerproof.chaos.processes import NotReady, ProcessDiedAtStart, SupervisorGone
from brokerproof.chaos.tools import ToolFailed, ToolMissing
from brokerproof.chaos.toxiproxy import ToxiproxyFailed
from brokerproof.conformance.agents.kinds import STOMP
from brokerproof.conformance.brokers import make_adapter
from brokerproof.conformance.brokers.base import Adapter, NotApplicableError
from brokerproof.conformance.brokers.profiled import ProfileAdapter
from brokerproof.conformance.brokers.proving import check_figures
from brokerproof.conformance.corpus import programs
from brokerproof.conformance.experiment.exits import SuiteProblem
from brokerproof.conformance.experiment.program import Program
from brokerproof.conformance.experiment.results import RunResult
from brokerproof.conformance.experiment.verdict import Verdict, VerdictKind
from brokerproof.conformance.generate.chaos import chaotic
from brokerproof.conformance.generate.live import live_program
from brokerproof.conformance.known import apply_known
from brokerproof.conformance.requirements.catalogue import default_catalogue
from brokerproof.conformance.rules.judge import judge_history, not_offered
from brokerproof.conformance.running.allowance import Allowance
from brokerproof.conformance.running.engine import expected, run_program
from brokerproof.conformance.running.interruption import STOP
from brokerproof.conformance.running.load import Load
from brokerproof.conformance.running.options import SuiteOptions
from brokerproof.conformance.running.quick import covering_plan, exercised, quick_plan, shown
from brokerproof.conformance.worlds.live.collector import NotCollected
from brokerproof.conformance.worlds.live.laboratory import Laboratory
from brokerproof.conformance.worlds.live.port import BUDGET_MS
from brokerproof.conformance.worlds.live.proving import check_entry
from brokerproof.conformance.worlds.live.world import LiveWorld

#: Programs that let more real time pass than this run in the simulated world only.
REAL_MS_MAX = 15_000
#: Real time that the steps of a random program may take: they wait for 2 s (``generate/live.py``).
DRAWN_MS = 30_000
#: How often a random program that showed a violation is run again, to see it again.
AGAIN = 2
#: How the text of such a verdict begins.
SEEN_ONCE = "seen in 1"
#: After so many programs that share the only broker those that own it have their turn.
TOGETHER = 60
#: Of so many drawn programs at least one must fit the broker.
MISFITS = 20
#: What goes wrong around a broker: nobody's verdict.
TROUBLE = (
    SuiteProblem,
    ProcessDiedAtStart,
    NotReady,
    SupervisorGone,
    ChannelError,
    ToolFailed,
    ToxiproxyFailed,
    JolokiaFailed,
    OSError,
)
#: Why a broker cannot be tested at all.
UNTESTABLE = (ToolMissing, *TROUBLE)


class LiveRuns:
    """Runs in real processes: how many there are (0: nobody knows), in which column they belong, the runs themselves,
    and how many come before random ones.
    """

    def __init__(
        self,
        column: str,
        total: int,
        runs: Iterator[RunResult],
        about: Mapping[str, str] | None = None,
        first: int = 0,
    ) -> None:
        self.column = column
        self.total = total
        self.first = first
        #: What reports say of the broker and its programs.
        self.about = dict(about or {})
        self._runs = runs

    def __iter__(self) -> Iterator[RunResult]:
        return self._runs


def live_runs(
    options: SuiteOptions, wanted: tuple[str, ...], shows: Mapping[str, frozenset[str]] | None = None
) -> LiveRuns:
    """The live tier of a suite; ``shows``: what each program of the corpus shows, if only so many are to be played that
    each requirement is shown. Raises ``UsageError`` for a broker that cannot exist.
    """
    started = time.monotonic()
    try:
        adapter = make_adapter(
            options.broker, home=options.home, mutant=options.mutant, client=options.client, speed=options.speed
        )
    except (ToolMissing, ToolFailed) as error:
        plan = list(programs().items())
        return LiveRuns(options.broker, len(plan), _not_run(options, plan, wanted, str(error)))
    adapter.label = options.name or adapter.label
    _check_serves(adapter)
    plan = plan_of(adapter)
    refused = refused_by(adapter)
    about = {**adapter.about(), "programs": f"all {len(plan)} of the corpus that fit, {len(refused)} do not fit"}
    if shows is not None:
        plan, fitting = covering_plan(plan, shows, adapter.real_ms), len(plan)
        about["programs"] = f"{len(plan)} of the {fitting} of the corpus that fit, which show each requirement twice"
    if options.requirement is not None:
        asked = _applicable(adapter, wanted)
        showing = [entry for entry in plan if shown(*entry, asked)] if asked else []
        about["programs"] = f"{len(showing)} of the corpus that show {options.requirement}, {len(refused)} do not fit"
        plan = showing if asked else plan[:1]  # why nothing applies is told by any run
    if options.chaos is not None:
        plan, refused = [], []
        about["programs"] = f"random ones, with faults of the profile {options.chaos}"
    chosen: Iterable[tuple[str, Program]] = plan
    if options.quick_s is not None:
        chosen = quick_plan(plan, _applicable(adapter, wanted), started + options.quick_s, adapter.real_ms)
        about["programs"] = f"a quick selection of {len(plan)} that fit; {len(refused)} do not fit"
    allowance = Allowance(options.budget_s)
    drawn = random_plan(adapter, options, allowance)
    if adapter.single:
        drawn = owners_together(drawn, adapter.owns)
    live = run_all(adapter, chosen, wanted, options.mutant, drawn, allowance)
    unfit = (refused_run(adapter, name, program, why, wanted) for name, program, why in refused if not STOP.is_set())
    # A quick run has something to say at once.
    runs = itertools.chain(unfit, live) if options.quick_s is None else itertools.chain(live, unfit)
    # What a budget lets run is not known beforehand.
    bounded = options.budget_s is None and options.quick_s is None
    first = len(plan) + len(refused) if options.quick_s is None else 0
    return LiveRuns(adapter.label, first + options.live_programs if bounded else 0, runs, about, first)


def _check_serves(adapter: Adapter) -> None:
    """What does not even serve, or is asked wrongly, is nobody's fault in 200 programs. Raises ``SuiteProblem`` or
    ``UsageError``.
    """
    if not isinstance(adapter, ProfileAdapter):
        return
    try:
        if adapter.library(STOMP) != STOMP:
            with Laboratory() as laboratory:
                check_entry(adapter, laboratory)
        elif adapter.located.profile.start is not None and adapter.located.profile.promises.capabilities is not None:
            adapter.servers.give_back(adapter.first(), spoilt=False)
        check_figures(adapter)
    except BaseException:
        adapter.close()
        raise


def _applicable(adapter: Adapter, wanted: tuple[str, ...]) -> list[str]:
    """The requirements of which this broker's runs can say anything."""
    offered, catalogue = set(adapter.capabilities()), default_catalogue()
    known = [catalogue[name] for name in wanted]
    return [one.id for one in known if offered.issuperset(one.needs) and not adapter.unpromised(one)]


def random_plan(adapter: Adapter, options: SuiteOptions, allowance: Allowance) -> Iterator[tuple[str, Program]]:
    """Random programs that fit a broker, until there are as many as were asked for, or the allowance is over. It begins
    with the first one.
    """
    allowance.begin()
    found, seed = 0, options.seed
    # Faults are drawn into programs of one broker.
    networks = "network" in adapter.capabilities() and options.chaos is None
    # A broker that fits none of so many fits none at all.
    while found < options.live_programs and seed < options.seed + MISFITS * (options.live_programs + 1):
        if allowance.is_over():
            return
        program, name = live_program(seed, networks=networks, times=adapter.speed), f"live-seed-{seed}"
        if adapter.rate(program).times < adapter.speed:
            program = live_program(seed, networks=networks)
        if options.chaos is not None:
            program, name = chaotic(program, options.chaos, seed), f"chaos-{options.chaos}-{seed}"
        program = adapter.cast(adapter.fitted(program, seed))
        if not adapter.refusal(program):
            found += 1
            yield name, program
        seed += 1


def owners_together(
    entries: Iterable[tuple[str, Program]], owns: Callable[[Program], bool]
) -> Iterator[tuple[str, Program]]:
    """The same in another order: who owns the broker comes after ``TOGETHER`` others, because all wait for each."""
    owners: list[tuple[str, Program]] = []
    others = 0
    for entry in entries:
        if owns(entry[1]):
            owners.append(entry)
            continue
        yield entry
        others += 1
        if others % TOGETHER == 0:
            yield from owners
            owners.clear()
    yield from owners


def refused_by(adapter: Adapter) -> list[tuple[str, Program, str]]:
    """The corpus programs that a broker cannot run at all, and why."""
    cast = [(name, adapter.cast(program)) for name, program in programs().items()]
    return [(name, program, why) for name, program in cast if (why := adapter.refusal(program))]


def refused_run(adapter: Adapter, name: str, program: Program, why: str, wanted: tuple[str, ...]) -> RunResult:
    """What such a program would have exercised, by the reference broker in virtual time, does not apply here because of
    it; unless another program exercises it, or no program could.
    """
    names = sorted(exercised(run_program(program, name, wanted=wanted).verdicts))
    shown = f"nothing that was played showed it, and a program that would have does not apply: {why}"
    verdicts = _untold(adapter, names, VerdictKind.NOT_APPLICABLE, shown)
    return RunResult(name, adapter.label, LiveWorld.kind, program, verdicts, None, chosen=adapter.chosen)


def plan_of(adapter: Adapter) -> list[tuple[str, Program]]:
    """The corpus programs that run on a broker, in an order in which brokers can be shared."""
    cast = [(name, adapter.cast(program)) for name, program in programs().items()]
    fitting = [
        (name, program)
        for name, program in cast
        if adapter.real_ms(program) <= REAL_MS_MAX and not adapter.refusal(program)
    ]
    if adapter.shares:
        keys = {name: adapter.sharing_key(program) for name, program in fitting}
        in_order = sorted(fitting, key=lambda entry: (keys[entry[0]], entry[1].broker_host().clock.offset_ms, entry[0]))
        if adapter.single:  # all wait for each that owns the only broker
            return sorted(in_order, key=lambda entry: adapter.owns(entry[1]))
        groups = [list(group) for _, group in itertools.groupby(in_order, key=lambda entry: keys[entry[0]])]
        return _dealt(groups, adapter.workers, adapter.real_ms)
    by_length = sorted(fitting, key=lambda entry: (-adapter.real_ms(entry[1]), entry[0]))
    half = (len(by_length) + 1) // 2
    beside = itertools.zip_longest(by_length[:half], reversed(by_length[half:]))
    return [entry for pair in beside for entry in pair if entry is not None]


def _dealt(
    groups: list[list[tuple[str, Program]]], lanes: int, lasts_ms: Callable[[Program], int]
) -> list[tuple[str, Program]]:
    """Groups of programs that can share a broker one after the other, in an order in which as many as there are lanes
    are played side by side, each lane its own ones. A group that would keep one busy for longer than the others is cut.
    """
    lengths = {name: lasts_ms(program) for group in groups for name, program in group}
    share_ms = sum(lengths.values()) // lanes + 1

    def length(entries: list[tuple[str, Program]]) -> int:
        return sum(lengths[name] for name, _ in entries)

    parts: list[list[tuple[str, Program]]] = []
    for group in groups:
        parts.append([])
        for entry in group:
            if parts[-1] and length([*parts[-1], entry]) > share_ms:
                parts.append([])
            parts[-1].append(entry)
    dealt = [list[tuple[str, Program]]() for _ in range(lanes)]
    for part in sorted(parts, key=length, reverse=True):
        min(dealt, key=length).extend(part)
    return [entry for row in itertools.zip_longest(*dealt) for entry in row if entry is not None]


class Bound:
    """What bounds runs: real time for the steps of each, how often a violation is run again, and an allowance."""

    def __init__(self, program_ms: int | None, again: int, allowance: Allowance) -> None:
        self.program_ms = program_ms
        self.again = again
        self.is_over = allowance.is_over
        self.is_over_again = allowance.is_over_again


def run_all(
    adapter: Adapter,
    plan: Iterable[tuple[str, Program]],
    wanted: tuple[str, ...],
    mutant: str | None = None,
    drawn: Iterable[tuple[str, Program]] = (),
    allowance: Allowance | None = None,
) -> Iterator[RunResult]:
    """Run a plan, in its order, then what is ``drawn`` within the allowance; everything is stopped when the iterator
    ends or is closed.

    An adapter whose brokers are cheap lets several programs run side by side: their time is mostly waiting. All happen
    in one laboratory, so that agents are shared. What is drawn is not drawn far ahead, because a budget may end it.
    """
    # The last to come is the first to go: what the adapter keeps is owned by the laboratory's supervisor.
    with contextlib.ExitStack() as laboratories, contextlib.closing(adapter):

        def run(entry: tuple[str, Program], bound: Bound, laboratory: Laboratory) -> RunResult:
            once = partial(run_live, adapter, laboratory, entry[1], entry[0], wanted=wanted, mutant=mutant)
            result, runs = once(budget_ms=bound.program_ms, is_over=bound.is_over), 1
            again = bound.again or (AGAIN if _is_timed(result) else 0)
            while violated(result) and runs <= again and not bound.is_over_again():
                runs += 1
                if _confirms(result, once(budget_ms=bound.program_ms, is_over=bound.is_over_again)):
                    return result
            if again:
                result.verdicts = [_doubted(verdict, runs) for verdict in result.verdicts]
            return result

        lanes, ahead = adapter.workers, 2 * adapter.workers
        if isinstance(plan, list):
            lanes, ahead = min(lanes, len(plan)), len(plan)
        known = (lanes, ahead, iter(plan), Bound(None, 0, Allowance()))
        within = Bound(DRAWN_MS, AGAIN, allowance or Allowance())
        laboratory = None
        for lanes, ahead, entries, bound in (known, (adapter.lanes, 2 * adapter.lanes, iter(drawn), within)):
            first = next(entries, None)
            if first is None or STOP.is_set():
                continue
            laboratory = laboratory or laboratories.enter_context(Laboratory(crowded=adapter.crowds))
            play = partial(run, bound=bound, laboratory=laboratory)
            yield from _side_by_side(lanes, ahead, itertools.chain([first], entries), play, bound)


def _side_by_side(
    lanes: int,
    ahead: int,
    entries: Iterator[tuple[str, Program]],
    run: Callable[[tuple[str, Program]], RunResult],
    bound: Bound,
) -> Iterator[RunResult]:
    """Results in the order of the entries, of which so many are drawn ahead of those that have ended: who takes long
    holds up nobody, and a busy machine begins fewer. When it is over only of those that have begun.
    """

    load = Load()

    def begun(entry: tuple[str, Program]) -> Iterator[RunResult]:
        with load.room(bound.is_over):
            return iter(() if bound.is_over() else (run(entry),))

    with ThreadPoolExecutor(lanes) as pool:
        waiting: deque[Future[Iterator[RunResult]]] = deque()
        try:
            for entry in itertools.takewhile(lambda _: not bound.is_over(), entries):
                waiting.append(pool.submit(begun, entry))
                while len(left := [one for one in waiting if not one.done()]) >= ahead:
                    wait(left, return_when=FIRST_COMPLETED)
                while waiting and waiting[0].done():
                    yield from waiting.popleft().result()
            while waiting:
                yield from waiting.popleft().result()
        finally:
            # Leaving early: what has not begun is not begun any more.
            pool.shutdown(wait=True, cancel_futures=True)


def violated(result: RunResult) -> set[str]:
    """The requirements that a run violates."""
    return {verdict.requirement for verdict in result.verdicts if verdict.verdict is VerdictKind.VIOLATED}


def _is_timed(result: RunResult) -> bool:
    """Whether all that a run violates is about how long something took: a machine that stood still may have done it."""
    found = [verdict for verdict in result.verdicts if verdict.verdict is VerdictKind.VIOLATED]
    return bool(found) and all(verdict.slack_ns is not None for verdict in found)


def _confirms(result: RunResult, second: RunResult) -> bool:
    """Whether a second run shows what the first one did."""
    return not violated(result).isdisjoint(violated(second))


def _doubted(verdict: Verdict, runs: int) -> Verdict:
    """What was seen once only is nobody's fault for certain."""
    if verdict.verdict is not VerdictKind.VIOLATED:
        return verdict
    text = f"{SEEN_ONCE} of {runs} runs: {verdict.text}"
    return msgspec.structs.replace(verdict, verdict=VerdictKind.INCONCLUSIVE, text=text)


def run_live(
    adapter: Adapter,
    laboratory: Laboratory,
    program: Program,
    name: str,
    *,
    wanted: tuple[str, ...],
    seed: int | None = None,
    mutant: str | None = None,
    budget_ms: int | None = None,
    is_over: Callable[[], bool] = lambda: False,
) -> RunResult:
    """Run one program in real processes and judge it. Never raises for what a broker, a tool or an agent did. What its
    steps may take (None: twice what they say), and whether they have no time any more: as in ``LivePort``.
    """
    budget_ms = max(BUDGET_MS, 2 * adapter.real_ms(program)) if budget_ms is None else budget_ms
    started = time.monotonic()
    problem = not_run = ""
    history = None
    verdicts: list[Verdict] = []
    try:
        world = LiveWorld(adapter, laboratory, seed=seed, mutant=mutant, budget_ms=budget_ms, is_over=is_over)
        history = world.run(program)
    except (ToolMissing, NotCollected) as error:
        not_run = str(error)
        verdicts = _untold(adapter, wanted, VerdictKind.NOT_RUN, not_run)
    except NotApplicableError as error:
        verdicts = refused_run(adapter, name, program, str(error), wanted).verdicts
    except TROUBLE as error:
        problem = f"{name} on {adapter.label}: {error}"
        verdicts = _untold(adapter, wanted, VerdictKind.NOT_RUN, problem)
    else:
        judged = [explained(adapter, verdict) for verdict in judge_history(history, wanted=wanted)]
        judged = expected(judged, program.broker.generation) if adapter.chooses_generations else judged
        known = adapter.known()
        # A program that lives faster is played by our own clients.
        known = known.through_openwire() if adapter.rate(program).times > 1 else known
        verdicts, stale = apply_known(name, program, judged, known, history)
        problem = "; ".join(stale)
    return RunResult(
        name,
        adapter.label,
        LiveWorld.kind,
        program,
        verdicts,
        history,
        seed=seed,
        mutant=mutant,
        seconds=time.monotonic() - started,
        problem=problem,
        not_run=not_run,
        chosen=adapter.chosen,
    )


_UNKEPT = {VerdictKind.VIOLATED, VerdictKind.INCONCLUSIVE, VerdictKind.NOT_EXERCISED}


def explained(adapter: Adapter, verdict: Verdict) -> Verdict:
    """A verdict in the light of what the broker promises: what it does not promise does not apply, and what does not
    apply says what would switch it on. Where nobody has said what it claims, only what it keeps counts.
    """
    requirement = default_catalogue()[verdict.requirement]
    why = adapter.unpromised(requirement)
    if not why and verdict.verdict in _UNKEPT and (why := adapter.unclaimed(requirement)):
        why += f", and it does otherwise: {verdict.text}" if verdict.verdict is VerdictKind.VIOLATED else ""
    if why:
        return Verdict(requirement.id, VerdictKind.NOT_APPLICABLE, text=why)
    if verdict.verdict is not VerdictKind.NOT_APPLICABLE:
        return verdict
    offered, lines = adapter.capabilities(), adapter.lines()
    missing = [lines[need] for need in requirement.lacking(offered) if need in lines]
    return msgspec.structs.replace(verdict, text="; ".join(dict.fromkeys([verdict.text, *missing])))


def _untold(adapter: Adapter, names: Sequence[str], kind: VerdictKind, why: str) -> list[Verdict]:
    """What a run that did not happen says of requirements: why; but of what could not apply to the broker, so much,
    unless it is a broker that does not even say what it offers.
    """
    catalogue, found = default_catalogue(), []
    try:
        offered = adapter.capabilities()
        for name in names:
            text = not_offered(catalogue[name], offered)
            one = Verdict(name, VerdictKind.NOT_APPLICABLE if text else kind, text=text or why)
            found.append(explained(adapter, one))
    except TROUBLE:
        return _all(names, kind, why)
    return found


def _not_run(
    options: SuiteOptions, plan: list[tuple[str, Program]], wanted: tuple[str, ...], reason: str
) -> Iterator[RunResult]:
    verdicts = _all(wanted, VerdictKind.NOT_RUN, reason)
    for name, program in plan:
        yield RunResult(name, options.broker, LiveWorld.kind, program, verdicts, None, not_run=reason)


def _all(wanted: Iterable[str], kind: VerdictKind, text: str) -> list[Verdict]:
    return [Verdict(requirement, kind, text=text) for requirement in wanted]
