"""``brokerproof mutants --automatic``: how many defects that nobody wrote by hand the suite finds."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import msgspec

from brokerproof.conformance.experiment.exits import OK, SUITE, UsageError
from brokerproof.conformance.mutants.automatic.mutations import all_mutations, sample_of, source_files
from brokerproof.conformance.running.automatic import coverage
from brokerproof.conformance.running.automatic.sample import Score, Trial, try_all
from brokerproof.conformance.running.folder import make_folder

#: Seeded programs beside the corpus.
PROGRAMS = 1000
#: Characters of an event that are shown.
SHOWN = 200


def measure(options: argparse.Namespace) -> int:
    """Try a sample of automatic mutants; exit 4 if the suite could not cope with one. There is no threshold."""
    programs = PROGRAMS if options.programs is None else options.programs
    if options.sample is not None and options.sample < 1:
        raise UsageError(f"--sample {options.sample} must be at least 1; leave it out for all mutants")
    if not programs and options.random_only:
        raise UsageError("--random-only with --programs 0 leaves no program to run")
    files = source_files(options.file)
    make_folder(options.out)
    known = coverage.load(programs, options.jobs, options.out, corpus=not options.random_only)
    sample = sample_of(all_mutations(files), options.sample, options.seed)
    scores: dict[str, Score] = {"all files": Score()}
    trials = []
    for trial in try_all(sample, known, options.jobs):
        trials.append(trial)
        for name in (trial.file, "all files"):
            scores.setdefault(name, Score()).add(trial)
        sys.stdout.write(msgspec.json.encode(trial).decode() + "\n" if options.json else _line(trial))
        sys.stdout.flush()
    if options.json:
        sys.stdout.write(msgspec.json.encode({name: score.counts for name, score in scores.items()}).decode() + "\n")
    else:
        _report(trials, scores, known, files, len(sample))
    return SUITE if scores["all files"].counts["defect"] else OK


def _line(trial: Trial) -> str:
    what = f"{trial.kind:<12}  {trial.file}:{trial.line} {trial.operator}"
    if trial.kind == "defect":
        return f"{what}: {trial.reason}\n"
    if trial.by:
        return f"{what} by {', '.join(trial.by)} after {trial.programs} programs ({trial.program})\n"
    return f"{what} ({trial.reached} programs reach it)\n"


def _report(
    trials: list[Trial], scores: dict[str, Score], known: coverage.Coverage, files: list[str], size: int
) -> None:
    write = sys.stdout.write
    for trial in trials:
        if trial.kind == "survived":
            write(f"\n{_survivor(trial)}\n")
    head = ("killed", "crashed", "hung", "survived", "(changed)", "equivalent", "not executed", "defect", "score")
    write(f"\n{'':<40}" + "".join(f"{word:>13}" for word in head) + f"{'lines reached':>15}\n")
    for name in [*sorted(scores, key=lambda name: name == "all files")]:
        score, counts = scores[name], scores[name].counts
        reached, lines = known.reached(files if name == "all files" else [name])
        cells: list[object] = [counts["killed"], counts["crashed"], counts["hung"], counts["survived"], score.changed]
        cells += [counts["equivalent"], counts["not executed"], counts["defect"]]
        cells.append("-" if score.percent is None else f"{score.percent:.0f} %")
        write(f"{name:<40}" + "".join(f"{cell:>13}" for cell in cells) + f"{100 * reached / max(1, lines):>13.1f} %\n")
    total = scores["all files"]
    share = "none" if total.percent is None else f"{total.percent:.1f} %"
    write(f"{size} mutants, {len(known.rows)} programs; killed by a promise: {total.counts['killed']} of ")
    write(f"{total.rated} that run, neither fail nor hang, and are not equivalent: {share}\n")


def _survivor(trial: Trial) -> str:
    lines = [f"{trial.file}:{trial.line} in {trial.function or 'the module'}, key {trial.key}", trial.diff]
    if not trial.changed:
        return "\n".join([*lines, f"no history differs ({trial.reached} programs reach it)"])
    sound, here = (text[:SHOWN] or "nothing" for text in trial.difference)
    lines += [f"{trial.program} differs: {sound}", f"{'here':>{len(trial.program) + 8}}: {here}"]
    return "\n".join([*lines, trial.reason] if trial.reason else lines)


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of ``mutants --automatic``."""
    parser.add_argument("--automatic", action="store_true", help="mutants made from the reference broker's source")
    parser.add_argument("--sample", type=int, metavar="N", help="so many of them, drawn by --seed (default all)")
    parser.add_argument("--file", metavar="GLOB", help="of these files only, for example 'core/*'")
    parser.add_argument("--random-only", action="store_true", help="with seeded programs alone, without the corpus")
    parser.add_argument(
        "--out", type=Path, default=Path("brokerproof-out"), metavar="DIR", help="where it keeps what programs reach"
    )
