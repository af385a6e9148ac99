"""``brokerproof run``: the conformance suite against one broker, the table on the terminal, the report in a folder.

Exit codes as everywhere: violated beats inconclusive beats clean; a MUST that fell silent counts as inconclusive,
whatever the allowance; an interrupted run (Ctrl-C, SIGTERM) reports what was judged, with the code of that, or 4 if
nothing was; a problem of the suite or its environment is 4, under ``CI=true`` also a program that could not
run.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from brokerproof.conformance.brokers import CLIENTS, check_broker
from brokerproof.conformance.brokers.chosen import Chosen, hidden
from brokerproof.conformance.commands.globs import Globs
from brokerproof.conformance.commands.judge import INCONCLUSIVE_PERCENT_MAX, exit_code
from brokerproof.conformance.experiment.exits import INCONCLUSIVE, OK, SUITE, UsageError, reader_may_leave, under_ci
from brokerproof.conformance.experiment.results import REFERENCE, RunFinished, SuiteFinished, Writer
from brokerproof.conformance.generate.chaos import PROFILES, check_chaos
from brokerproof.conformance.mutants import check_mutant
from brokerproof.conformance.requirements.catalogue import Catalogue, default_catalogue
from brokerproof.conformance.running.interruption import interruptible
from brokerproof.conformance.running.options import PROGRAMS, SuiteOptions, budget_s
from brokerproof.conformance.running.suite import run_suite
from brokerproof.reports.commands.suite_report import OUT, ReportWriter
from brokerproof.reports.commands.suite_store import StoreWriter
from brokerproof.reports.render.formats import failure_of
from brokerproof.reports.render.markdown import write_job_summary
from brokerproof.reports.render.progress import FirstVerdict, ProgressWriter
from brokerproof.reports.render.terminal import make_console, print_report
from brokerproof.reports.store.schema import Report

#: How long a quick run goes on starting programs, in seconds: with the report after it, less than a minute.
QUICK_S = 30
#: All cells.
PERCENT_MAX = 100
#: Random programs of a live run that is bounded by its budget only.
UNBOUNDED = 100_000


def main(argv: Sequence[str]) -> int:
    """Parse, run, report."""
    options = _parse(argv)
    catalogue = default_catalogue()
    suite = _suite_options(options)
    catalogue.select(options.requirement)
    report_writer = ReportWriter(options.out, catalogue)
    writers: list[Writer] = [report_writer, ProgressWriter()]
    if suite.quick_s is not None and not options.json and not options.quiet:
        writers.append(FirstVerdict())
    if options.store is not None:
        command = shlex.join(["brokerproof", "run", *argv])
        writers.append(StoreWriter(options.store, catalogue, command, options.seed))
    digest = _written(suite, writers)
    report = report_writer.report
    assert report is not None
    code = _exit_code(report, report_writer.brokers, options.inconclusive_max, catalogue)
    if os.environ.get("GITHUB_STEP_SUMMARY"):
        write_job_summary(Path(os.environ["GITHUB_STEP_SUMMARY"]), report, report_writer.brokers)
    with reader_may_leave():
        if options.json:
            for cell in report.cells:
                if cell.broker in report_writer.brokers:
                    sys.stdout.write(msgspec.json.encode(cell).decode() + "\n")
            sys.stderr.write(f"verdict digest: {digest}\n")
        else:
            print_report(
                make_console(),
                report,
                report_writer.brokers,
                folder=options.out,
                failure=lambda cell: failure_of(options.out, report, cell, catalogue),
                digest=digest,
                more=_wider(suite),
                verbose=options.verbose,
                quiet=options.quiet,
            )
    return code


def _written(suite: SuiteOptions, writers: list[Writer]) -> str:
    """Run the suite into the writers, to its end or an interruption; the verdict digest."""
    digest, runs = "", 0
    with interruptible() as stopped:
        for event in run_suite(suite):
            runs += isinstance(event, RunFinished)
            if isinstance(event, SuiteFinished):
                digest = event.digest
                if stopped.is_set():
                    sys.stderr.write(f"brokerproof run: interrupted; the report is of the {runs} runs that ended\n")
            for writer in writers:
                writer.handle(event)
    return digest


def _exit_code(report: Report, brokers: list[str], inconclusive_max: float, catalogue: Catalogue) -> int:
    columns = [column for column in report.columns if column.broker in brokers]
    missing = under_ci() and any(column.not_run for column in columns)
    # Interrupted before anything was judged: nothing is known of the broker.
    if not columns or missing or any(column.problems for column in columns):
        return SUITE
    code = exit_code([cell.verdict for cell in report.cells if cell.broker in brokers], inconclusive_max)
    silent = [one for column in columns for one in column.silent if catalogue[one.requirement].level == "MUST"]
    return INCONCLUSIVE if code == OK and silent else code


def _wider(suite: SuiteOptions) -> list[str]:
    """After a quick run and the main job: the lines that see more."""
    if suite.covering:
        return ["to play the whole corpus on real processes, too: brokerproof run --full"]
    if suite.quick_s is None:
        return []
    broker = shlex.join([*Chosen(suite.broker).words(), *(("--name", suite.name) if suite.name else ())])
    return [
        "this was a quick run; to see more:",
        f"  brokerproof run {broker} --full",
        f"  brokerproof profile init {shlex.quote(hidden(suite.broker))} --out my-broker.toml",
        "  brokerproof run --broker my-broker.toml",
    ]


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="brokerproof run", description=__doc__)
    parser.add_argument("address", nargs="?", metavar="BROKER", help="as --broker: `run stomp://127.0.0.1:61613`")
    parser.add_argument("--store", metavar="DIR", help="add all runs to this store, too (docs/store.md)")
    _ask_for_broker(parser)
    parser.add_argument(
        "--tier", choices=["simulated", "live", "both"], default="both", help="which worlds (default both)"
    )
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="first seed of the seeded driver")
    parser.add_argument(
        "--programs",
        type=int,
        metavar="N",
        help=f"random programs (default {PROGRAMS} in virtual time; live none, or as many as --budget allows)",
    )
    parser.add_argument(
        "--guided",
        action="store_true",
        help="draw the random programs of the simulated tier from those that met something new",
    )
    parser.add_argument(
        "--chaos",
        metavar="PROFILE",
        help=f"only random programs, with faults drawn into them, as wild as {', '.join(PROFILES)}",
    )
    so_long = "random programs for so long: in virtual time from the start on, live after the corpus"
    parser.add_argument("--budget", type=budget_s, metavar="TIME", help=so_long)
    parser.add_argument(
        "--requirement",
        action=Globs,
        metavar="GLOB",
        help="judge only requirements that match ('EXP-*', or 'EXP-*,TSP-001'), and play live only what shows one",
    )
    parser.add_argument("--out", type=Path, default=OUT, metavar="DIR", help=f"where the report goes (default {OUT})")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="processes of the simulated tier (default 2)")
    parser.add_argument("--mutant", metavar="ID", help="plant this defect in the reference broker")
    parser.add_argument(
        "--inconclusive-max",
        type=float,
        default=INCONCLUSIVE_PERCENT_MAX,
        metavar="PERCENT",
        help=f"more inconclusive cells than this is exit code 3 (default {INCONCLUSIVE_PERCENT_MAX})",
    )
    parser.add_argument(
        "--full",
        action="store_true",
        help="all programs of the corpus, also on a broker of which only the URL is known (else a selection that ends "
        f"within {QUICK_S} s) and in the live tier of the main job (else those that show each requirement twice)",
    )
    parser.add_argument("--name", metavar="NAME", help="the broker's column in the report, for example mybroker-2.1")
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument("--verbose", action="store_true", help="a line per requirement instead of per area")
    shown.add_argument("--quiet", action="store_true", help="print only what is wrong")
    shown.add_argument("--json", action="store_true", help="one cell per line on stdout, as JSON, instead of the table")
    options = parser.parse_args(argv)
    if options.address and options.broker and options.address != options.broker:
        raise UsageError(f"two brokers: {options.address} and --broker {options.broker}; give one")
    options.broker = options.broker or options.address or REFERENCE
    return options


def _ask_for_broker(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--broker",
        metavar="BROKER",
        help="a name (`brokerproof list brokers`), NAME@RELEASE, a profile FILE.toml, or the URL of a running broker "
        f"(default {REFERENCE})",
    )
    parser.add_argument("--home", metavar="DIR", help="the broker's home folder, where it is started from one")
    parser.add_argument(
        "--client",
        choices=list(CLIENTS),
        default="as-written",
        help="who plays the hosts of the live world (default as-written; openwire: brokerproof's own JMS client)",
    )
    parser.add_argument(
        "--speed",
        type=int,
        metavar="N",
        help="play live programs whose durations bear it in accelerated time, N times as fast as the machine",
    )


def _suite_options(options: argparse.Namespace) -> SuiteOptions:
    check_broker(options.broker, options.home, options.mutant)
    check_mutant(options.mutant)
    check_chaos(options.chaos)
    if options.client != "as-written" and options.tier != "live" and options.broker == REFERENCE:
        raise UsageError(f"--client {options.client} is for the live world; add --tier live")
    if options.speed is not None and options.tier == "simulated":
        raise UsageError(f"--speed {options.speed}: virtual time waits for nothing; leave it out, or add --tier live")
    live = options.tier == "live" or options.broker != REFERENCE
    drawn = options.programs
    if drawn is None:
        drawn = (UNBOUNDED if options.budget is not None else 0) if live else PROGRAMS
    if drawn < 0 or options.jobs < 1:
        raise UsageError(f"--programs {drawn} must be at least 0 and --jobs {options.jobs} at least 1")
    if options.guided and (live or drawn == 0):
        raise UsageError("--guided is for random programs in virtual time; drop --tier live, or give --programs N")
    if options.chaos is not None and (options.guided or not drawn):
        remedy = "leave --guided out" if options.guided else "give --budget SECONDS or --programs N"
        raise UsageError(f"--chaos {options.chaos} is for random programs, with faults drawn into them; {remedy}")
    if options.budget is not None and not options.budget >= 0:
        raise UsageError(f"--budget {options.budget} must be a number of seconds, 0 or more")
    if not 0 <= options.inconclusive_max <= PERCENT_MAX:
        raise UsageError(f"--inconclusive-max {options.inconclusive_max} must be a percentage, 0 to {PERCENT_MAX}")
    if options.tier == "simulated" and options.broker != REFERENCE:
        raise UsageError(f"only the reference broker runs in virtual time; {options.broker!r} needs --tier live")
    if options.name is not None and (options.broker == REFERENCE or not options.name.strip() or "/" in options.name):
        raise UsageError(
            f"--name {options.name!r}: name a broker that is not ours, without a slash: --name mybroker-2.1"
        )
    quick = "://" in options.broker and not (options.full or options.budget is not None or options.programs)
    main_job = options.broker == REFERENCE and options.tier == "both"
    apart = options.full or any((options.requirement, options.mutant, options.chaos, options.budget is not None))
    return SuiteOptions(
        broker=options.broker,
        guided=options.guided,
        chaos=options.chaos,
        tier=options.tier,
        seed=options.seed,
        programs=0 if live else drawn,
        live_programs=drawn if live else 0,
        budget_s=options.budget,
        requirement=options.requirement,
        jobs=options.jobs,
        mutant=options.mutant,
        home=options.home,
        client=options.client,
        speed=options.speed,
        quick_s=QUICK_S if quick else None,
        covering=main_job and not apart,
        name=options.name or "",
    )
