"""``brokerproof story``: one incident of the founding documents, sick and cured, side by side."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

from brokerproof.conformance.brokers import check_broker, make_adapter
from brokerproof.conformance.brokers.activemq import DEFAULT, DEFAULT_OFFERS, DEFAULT_SPEC
from brokerproof.conformance.experiment.exits import INCONCLUSIVE, OK, VIOLATED, SuiteProblem, UsageError
from brokerproof.conformance.experiment.nearest import suggestion
from brokerproof.conformance.experiment.program import Program
from brokerproof.conformance.experiment.results import REFERENCE, RunResult
from brokerproof.conformance.mutants import check_mutant
from brokerproof.conformance.requirements.catalogue import default_catalogue
from brokerproof.conformance.running.break_even import search
from brokerproof.conformance.running.folder import make_folder
from brokerproof.conformance.running.live import run_all
from brokerproof.conformance.running.telling import Played, check_generation, hastened, play, simulated, unshown
from brokerproof.conformance.stories import Story, stories
from brokerproof.conformance.stories.break_even import POLICIES, BreakEven
from brokerproof.conformance.stories.story import lacking
from brokerproof.reports.render.telling import break_even_text, story_text, waste_text, write_pages

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
    parser.add_argument(
        "--speed",
        type=int,
        default=1,
        metavar="N",
        help="N times faster: in accelerated time where the broker bears it, else with shorter waits in 001 and 004",
    )
    parser.add_argument("--mutant", metavar="ID", help="plant this defect: the story may fail")
    parser.add_argument(
        "--generation", metavar="AREA=NAME", help="another generation than the story's (reference only)"
    )
    parser.add_argument("--break-even", action="store_true", help="find the skew from which on messages are lost")
    parser.add_argument("--out", type=Path, metavar="DIR", help="write a page for each story, and an index, there")
    options = parser.parse_args(argv)
    check_broker(options.broker, options.home, options.mutant)
    if options.list:
        sys.stdout.writelines(_listed(options))
        return OK
    chosen = _chosen(options.names, options.break_even)
    check_mutant(options.mutant)
    live = (options.tier or ("simulated" if options.broker == REFERENCE else "live")) == "live"
    if not live and options.broker != REFERENCE:
        raise UsageError(f"only the reference broker runs in virtual time; --broker {options.broker} needs --tier live")
    if _speed(options.speed) > 1:
        chosen = _faster(options, chosen, live=live)
    if options.out is not None:
        make_folder(options.out)
    generation, told = _generation(options), []
    for story in chosen:
        run = partial(_lively, options, story) if live else simulated(options.mutant)
        played = list(play(story, run, generation))
        told.append((story, played))
        sys.stdout.write(story_text(story, played) + "\n")
        sys.stdout.flush()
    found = _searched(options, generation, live=live) if options.break_even else []
    sys.stdout.write(waste_text(told) + break_even_text(found))
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
    if 1 <= speed <= 100:
        return speed
    raise UsageError(f"--speed {speed} is not possible; give 1 to 100")


def _faster(options: argparse.Namespace, chosen: list[Story], *, live: bool) -> list[Story]:
    """The stories that are not played in accelerated time are made shorter."""
    adapter = make_adapter(options.broker, home=options.home, mutant=options.mutant) if live else None
    if adapter is None:
        return [hastened(story, options.speed) for story in chosen]
    adapter.speed = min(options.speed, adapter.speed_max)
    played = [
        all(adapter.rate(adapter.cast(half.program)).times > 1 for half in story.halves().values()) for story in chosen
    ]
    adapter.close()
    return [story if fast else hastened(story, options.speed) for story, fast in zip(chosen, played, strict=True)]


def _generation(options: argparse.Namespace) -> dict[str, str]:
    if options.generation is None:
        return {}
    area, _, name = options.generation.partition("=")
    if options.broker != REFERENCE:
        raise UsageError(f"--generation {options.generation}: {options.broker} is what it is; leave it out")
    return check_generation(area, name)


def _searched(options: argparse.Namespace, generation: dict[str, str], *, live: bool) -> list[BreakEven]:
    """The break-even skew of every policy."""
    if generation:
        raise UsageError("--break-even is about clocks, whatever the generation; leave --generation out")
    run = partial(_lively, options, None) if live else simulated(options.mutant)
    return [search(policy, run, LIVE_MS if live else 1) for policy in POLICIES]


def _lively(options: argparse.Namespace, story: Story | None, plan: list[tuple[str, Program]]) -> Iterable[RunResult]:
    """Runs in real processes, of a story if it is one's."""
    adapter = make_adapter(options.broker, home=options.home, mutant=options.mutant)
    adapter.speed = min(options.speed, adapter.speed_max)
    cast = [(name, adapter.cast(program)) for name, program in plan]
    refusals = (adapter.refusal(program) for _, program in cast)
    why = next(filter(None, refusals), "") if story is None else unshown(story, adapter)
    needed_ms = max(adapter.real_ms(program) for _, program in cast)
    if needed_ms > REAL_MS_MAX:
        why = why or f"it would take {needed_ms // 1000} s; give a higher --speed"
    if why:
        return [RunResult(name, adapter.label, "live", program, [], None, not_run=why) for name, program in cast]
    wanted = tuple(requirement.id for requirement in default_catalogue().judged())
    return list(run_all(adapter, cast, wanted, options.mutant))


def _listed(options: argparse.Namespace) -> Iterator[str]:
    """The stories, and which of them the broker that is asked for, else ActiveMQ's default release, cannot show."""
    adapter = None if options.broker == REFERENCE else make_adapter(options.broker, home=options.home)
    label = DEFAULT if adapter is None else adapter.label
    yield f"on the reference broker, in virtual time and in processes, and on {label} but for what says otherwise:\n"
    for story in stories().values():
        if adapter is None:
            reasons = (lacking(half, DEFAULT_SPEC, DEFAULT_OFFERS) for half in story.halves().values())
            why = next(filter(None, reasons), "")
        else:
            why = unshown(story, adapter)
        yield f"{story.name:<34}{story.title}\n" + (f"{'':<34}not on {label}: {why}\n" if why else "")
