"""``brokerproof story``: one incident of the founding documents, sick and cured, side by side."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from brokerproof.conformance.brokers import check_broker, make_adapter
from brokerproof.conformance.experiment.exits import INCONCLUSIVE, OK, VIOLATED, SuiteProblem, UsageError
from brokerproof.conformance.experiment.nearest import suggestion
from brokerproof.conformance.experiment.program import Program
from brokerproof.conformance.experiment.results import REFERENCE, RunResult
from brokerproof.conformance.mutants import check_mutant
from brokerproof.conformance.requirements.catalogue import default_catalogue
from brokerproof.conformance.running.break_even import search
from brokerproof.conformance.running.folder import make_folder
from brokerproof.conformance.running.live import real_ms, run_all
from brokerproof.conformance.running.telling import Played, Runner, check_generation, hastened, play, simulated
from brokerproof.conformance.stories import Story, stories
from brokerproof.conformance.stories.break_even import POLICIES, BreakEven
from brokerproof.reports.render.telling import break_even_text, story_text, write_pages

#: A story that would take longer in real time is not begun.
REAL_MS_MAX = 600_000
#: How exactly a break-even skew is searched for with real clocks.
LIVE_MS = 1000


def main(argv: Sequence[str]) -> int:
    """Tell stories. 0: both halves behave as documented for the broker's generation; 1: not; 3: it cannot show it."""
    parser = argparse.ArgumentParser(prog="brokerproof story", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="a story, or the beginning of several stories' names")
    parser.add_argument("--list", action="store_true", help="what there is to tell")
    parser.add_argument("--broker", default=REFERENCE, metavar="BROKER", help="as for `run`; others run live")
    parser.add_argument("--home", metavar="DIR", help="the broker's home folder, where it is started from one")
    parser.add_argument("--tier", choices=["simulated", "live"], help="which world (default: simulated for reference)")
    parser.add_argument("--speed", type=int, default=1, metavar="N", help="all waits of 001 and 004 N times shorter")
    parser.add_argument("--mutant", metavar="ID", help="plant this defect: the story may fail")
    parser.add_argument(
        "--generation", metavar="AREA=NAME", help="another generation than the story's (reference only)"
    )
    parser.add_argument("--break-even", action="store_true", help="find the skew from which on messages are lost")
    parser.add_argument("--out", type=Path, metavar="DIR", help="write a page for each story, and an index, there")
    options = parser.parse_args(argv)
    if options.list:
        sys.stdout.writelines(f"{story.name:<34}{story.title}\n" for story in stories().values())
        return OK
    chosen = [hastened(story, _speed(options.speed)) for story in _chosen(options.names, options.break_even)]
    check_mutant(options.mutant)
    check_broker(options.broker, options.home)
    if options.out is not None:
        make_folder(options.out)
    live = (options.tier or ("simulated" if options.broker == REFERENCE else "live")) == "live"
    run, generation = _runner(options, live=live), _generation(options)
    told = []
    for story in chosen:
        played = list(play(story, run, generation))
        told.append((story, played))
        sys.stdout.write(story_text(story, played) + "\n")
        sys.stdout.flush()
    found = _searched(run, generation, LIVE_MS if live else 1) if options.break_even else []
    sys.stdout.write(break_even_text(found))
    if options.out is not None:
        sys.stdout.write(f"report: {write_pages(options.out, told, found)}\n")
    troubles = [half.result.problem for _, played in told for half in played if half.result.problem]
    if troubles:
        raise SuiteProblem("; ".join(troubles))
    codes = {_code(played) for _, played in told} | {OK if one.agrees else VIOLATED for one in found}
    return VIOLATED if VIOLATED in codes else INCONCLUSIVE if INCONCLUSIVE in codes else OK


def _code(played: list[Played]) -> int:
    if any(half.fails for half in played):
        return VIOLATED
    return OK if all(half.holds for half in played) else INCONCLUSIVE


def _chosen(names: Sequence[str], none: bool) -> list[Story]:
    table = stories()
    found: list[Story] = []
    for name in names:
        fitting = [table[name]] if name in table else [one for one in table.values() if one.name.startswith(name)]
        if not fitting:
            raise UsageError(
                f"story {name!r} is not known; {suggestion(name, table)}`brokerproof story --list` shows them"
            )
        found += [story for story in fitting if story not in found]
    if not found and not none:
        raise UsageError(
            "which story? Give names, or the beginning of names (000); `brokerproof story --list` shows them"
        )
    return found


def _speed(speed: int) -> int:
    if 1 <= speed <= 60:
        return speed
    raise UsageError(f"--speed {speed} is not possible; give 1 to 60")


def _generation(options: argparse.Namespace) -> dict[str, str]:
    if options.generation is None:
        return {}
    area, _, name = options.generation.partition("=")
    if options.broker != REFERENCE:
        raise UsageError(f"--generation {options.generation}: {options.broker} is what it is; leave it out")
    return check_generation(area, name)


def _searched(run: Runner, generation: dict[str, str], resolution_ms: int) -> list[BreakEven]:
    """The break-even skew of every policy."""
    if generation:
        raise UsageError("--break-even is about clocks, whatever the generation; leave --generation out")
    return [search(policy, run, resolution_ms) for policy in POLICIES]


def _runner(options: argparse.Namespace, *, live: bool) -> Runner:
    if not live:
        if options.broker != REFERENCE:
            raise UsageError(
                f"only the reference broker runs in virtual time; --broker {options.broker} needs --tier live"
            )
        return simulated(options.mutant)
    wanted = tuple(requirement.id for requirement in default_catalogue().judged())

    def lively(plan: list[tuple[str, Program]]) -> Iterable[RunResult]:
        adapter = make_adapter(options.broker, home=options.home, mutant=options.mutant)
        cast = [(name, adapter.cast(program)) for name, program in plan]
        for name, program in cast:
            why = adapter.refusal(program) or unsaid(program, adapter.effective(program))
            if real_ms(program) > REAL_MS_MAX:
                why = why or f"it would take {real_ms(program) // 1000} s; give a higher --speed"
            if why:
                return [
                    RunResult(name, adapter.label, "live", program, [], None, not_run=why) for name, program in cast
                ]
        return list(run_all(adapter, cast, wanted, options.mutant))

    return lively


def unsaid(asked: Program, given: Program) -> str:
    """What the program asks of the broker's own settings that this broker cannot be told."""
    if asked.broker.monitor_offer is not None and given.broker.monitor_offer is None:
        return "what this broker offers on its links cannot be chosen (monitor_offer)"
    return ""
