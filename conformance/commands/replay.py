"""``brokerproof replay``: run one program again, exactly, and say what it shows."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from brokerproof.conformance.brokers import check_broker
from brokerproof.conformance.brokers.translation import broker_config
from brokerproof.conformance.commands.globs import Globs
from brokerproof.conformance.commands.judge import exit_code
from brokerproof.conformance.experiment.exits import SuiteProblem, UsageError
from brokerproof.conformance.experiment.nearest import suggestion
from brokerproof.conformance.experiment.program import Program, read_program
from brokerproof.conformance.experiment.results import REFERENCE, RunResult, verdict_digest
from brokerproof.conformance.experiment.verdict import VerdictKind, concluded
from brokerproof.conformance.generate.programs import program_for_seed
from brokerproof.conformance.known import apply_known, load_known
from brokerproof.conformance.machines import MODELS
from brokerproof.conformance.machines.model import Model, contradiction
from brokerproof.conformance.mutants import check_mutant
from brokerproof.conformance.requirements.catalogue import default_catalogue
from brokerproof.conformance.running.engine import run_program
from brokerproof.conformance.running.failure import failure_text, replay_line
from brokerproof.conformance.running.folder import make_folder, write_program
from brokerproof.conformance.running.shrinking import shrink_violation
from brokerproof.reference_broker.core.config import ConfigError

#: Where a shrunk program goes unless ``--out`` says otherwise.
OUT = Path("brokerproof-out")
PROGRAM = "program.json"
AS_WRITTEN = "as-written"


def main(argv: Sequence[str]) -> int:
    """Replay a program file, a corpus program or a seed: in virtual time, or live on any broker."""
    parser = argparse.ArgumentParser(prog="brokerproof replay", description=__doc__)
    parser.add_argument("program", nargs="?", metavar="FILE", help="a program.json, or the name of a corpus program")
    parser.add_argument("--seed", type=int, help="the program of this seed instead of a file")
    parser.add_argument(
        "--tier", choices=["simulated", "live"], default="simulated", help="which world (default simulated)"
    )
    parser.add_argument(
        "--broker", default=REFERENCE, metavar="BROKER", help="as for `run`; others than reference need --tier live"
    )
    parser.add_argument("--home", metavar="DIR", help="the broker's home folder, where it is started from one")
    parser.add_argument("--client", default=AS_WRITTEN, metavar="WHO", help="as for `run`; needs --tier live")
    parser.add_argument("--speed", type=int, metavar="N", help="as for `run`; needs --tier live")
    parser.add_argument("--mutant", metavar="ID", help="plant this defect (`brokerproof list mutants`)")
    parser.add_argument("--requirement", action=Globs, metavar="GLOB", help="judge only requirements that match")
    parser.add_argument("--machine", choices=MODELS, help="let the model of this state machine watch, too")
    parser.add_argument("--shrink", action="store_true", help="shrink the program if something is violated")
    parser.add_argument("--out", type=Path, metavar="DIR", help="write program.json and history.jsonl there")
    parser.add_argument("--json", action="store_true", help="one verdict per line, as JSON")
    options = parser.parse_args(argv)
    check_mutant(options.mutant)
    check_broker(options.broker, options.home, options.mutant)
    name, program = _program(options.program, options.seed)
    catalogue = default_catalogue()
    wanted = catalogue.select(options.requirement)
    if options.tier == "simulated" and options.broker != REFERENCE:
        raise UsageError(f"only the reference broker runs in virtual time; --broker {options.broker} needs --tier live")
    if options.tier == "simulated" and options.client != AS_WRITTEN:
        raise UsageError(f"--client {options.client} is for the live world; add --tier live")
    if options.tier == "simulated" and options.speed is not None:
        raise UsageError(f"--speed {options.speed}: virtual time waits for nothing; leave it out, or add --tier live")
    if options.machine is not None and options.shrink:
        raise UsageError(
            f"--shrink goes by the judge; leave out --machine {options.machine}, or edit the program by hand"
        )
    if options.out is not None:
        make_folder(options.out)
    result = _run(name, program, options, tuple(wanted))
    if result.problem or result.not_run:
        raise SuiteProblem(result.problem or f"not run: {result.not_run}")
    out: Path | None = options.out
    replay = _same_line(result, options)
    if options.machine is not None:
        _watch(result, MODELS[options.machine], wanted)
    smaller = _shrunk(result, wanted) if options.shrink else None
    if smaller is not None:
        result = smaller
        out = out if out is not None else OUT / f"shrunk-{result.program.digest()[7:15]}"
        result.name = str(out / PROGRAM)
        replay = replay_line(result)
    if out is not None:
        _write(out, result)
    _print(result, replay, as_json=options.json)
    return exit_code([concluded(verdict, catalogue[verdict.requirement].level) for verdict in result.verdicts])


def _run(name: str, program: Program, options: argparse.Namespace, wanted: tuple[str, ...]) -> RunResult:
    if options.tier == "simulated":
        return run_program(program, name, seed=options.seed, mutant=options.mutant, wanted=wanted)
    from brokerproof.conformance.brokers import make_adapter
    from brokerproof.conformance.brokers.chosen import Chosen
    from brokerproof.conformance.running.live import run_all

    more = {"client": options.client, "speed": options.speed}
    adapter = make_adapter(options.broker, home=options.home, mutant=options.mutant, **more)
    program = adapter.cast(program)
    if refusal := adapter.refusal(program):
        adapter.close()
        raise UsageError(f"{name} cannot be played on {adapter.label}: {refusal}")
    result = next(iter(run_all(adapter, [(name, program)], wanted, options.mutant)))
    result.seed = options.seed
    result.chosen = Chosen(options.broker, home=options.home, **more).words()
    return result


def _watch(result: RunResult, model: type[Model], wanted: Sequence[str]) -> None:
    """What a model finds comes before what the judge says."""
    assert result.history is not None, "it has run"
    verdict = contradiction(model, result.program, result.history, wanted)
    if verdict is not None:
        found, _ = apply_known(result.name, result.program, [verdict], load_known(result.broker), result.history)
        result.verdicts = [*found, *result.verdicts]


def _same_line(result: RunResult, options: argparse.Namespace) -> str:
    """The line that was given, without what concerns only its output."""
    return replay_line(result, machine=options.machine)


def _program(name: str | None, seed: int | None) -> tuple[str, Program]:
    if (name is None) == (seed is None):
        raise UsageError("give either a program (file or corpus name) or --seed N")
    if seed is not None:
        return f"seed-{seed}", program_for_seed(seed)
    assert name is not None
    return read_named(name)


def read_named(name: str) -> tuple[str, Program]:
    """A program by its file or its name in the corpus. Raises ``UsageError``."""
    from brokerproof.conformance.corpus import programs

    corpus = programs()
    if name in corpus:
        return name, corpus[name]
    if not Path(name).exists() and "/" not in name and not name.endswith(".json"):
        raise UsageError(
            f"{name!r} is neither a file nor a corpus program; {suggestion(name, corpus)}"
            "`brokerproof list programs` shows the corpus"
        )
    program = read_program(Path(name))
    try:
        broker_config(program)
    except ConfigError as error:
        raise UsageError(f"{name}: {error}") from None
    return name, program


def _shrunk(result: RunResult, wanted: Sequence[str]) -> RunResult | None:
    """Path (a): the same violation in virtual time, made small. None where virtual time does not show it."""
    violated = {verdict.requirement for verdict in result.verdicts if verdict.verdict is VerdictKind.VIOLATED}
    if violated and result.world != "simulated":
        result = run_program(result.program, result.name, mutant=result.mutant, wanted=wanted)
    for verdict in result.verdicts:
        if verdict.verdict is VerdictKind.VIOLATED and verdict.requirement in violated:
            shrunk = shrink_violation(result.program, verdict.requirement, result.mutant)
            sys.stderr.write(f"shrunk {verdict.requirement}: {shrunk.path}, {shrunk.tried} runs\n")
            return run_program(shrunk.result.program, result.name, mutant=result.mutant, wanted=wanted)
    if violated:
        sys.stderr.write(f"not shrunk: in virtual time the reference broker keeps {', '.join(sorted(violated))}\n")
    return None


def _write(out: Path, result: RunResult) -> None:
    out.mkdir(parents=True, exist_ok=True)
    write_program(result.program, out / PROGRAM)
    if result.history is not None:
        result.history.write(out / "history.jsonl")


def _print(result: RunResult, replay: str, *, as_json: bool) -> None:
    catalogue = default_catalogue()
    for verdict in result.verdicts:
        if as_json:
            sys.stdout.write(msgspec.json.encode(verdict).decode() + "\n")
        elif verdict.verdict is VerdictKind.VIOLATED:
            sys.stdout.write(failure_text(result, verdict, catalogue, replay) + "\n\n")
        elif verdict.verdict is VerdictKind.KNOWN_FAILURE:
            sys.stdout.write(f"{verdict.requirement} {verdict.outcome}: {verdict.text}\n\n")
    if not as_json:
        counts: dict[VerdictKind, int] = {}
        for verdict in result.verdicts:
            counts[verdict.verdict] = counts.get(verdict.verdict, 0) + 1
        sys.stdout.write("  ".join(f"{count} {kind.value}" for kind, count in sorted(counts.items())) + "\n")
        digest = verdict_digest([(result.run, result.program.digest(), result.verdicts)])
        sys.stdout.write(f"verdict digest: {digest}\n")
