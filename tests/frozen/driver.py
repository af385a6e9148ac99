"""What runs inside the pinned tree: programs in the old simulated world, judged by the old judge, kept as records.

Run by ``making.py`` as a script with ``PYTHONPATH`` = the pinned tree, hence the old import names, and nothing imported
from here: ``driver.py list`` prints the mutants' names; ``driver.py OUT TASK …`` makes one file per task (``corpus``,
``seeds FIRST COUNT``, ``mutant ID SEEDS``). A file's first line is its summary, each further line one run.
"""

from __future__ import annotations

import gc
import gzip
import hashlib
import json
import resource
import signal
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

from conformance.engine import seldom_collected
from conformance.judge import judge_history
from conformance.program import Program

# Names of the pinned tree: how they sort would change with the folders of this one.
# isort: off
from conformance.corpus import programs
from conformance.generate.programs import program_for_seed
from conformance.mutants import MUTANTS
from conformance.worlds.simulated.world import SimulatedWorld

# isort: on

#: A run takes about 25 ms; a mutant that needs a thousand times as long (of processor time) hangs.
HANGS_AFTER_S = 20.0
#: A mutant that loops may also fill the memory: then it raises ``MemoryError`` here and the machine lives.
MEMORY_BYTES_MAX = 6 << 30
TRIVIAL = frozenset({"not exercised", "not applicable"})
GZIP_LEVEL = 3

Run = tuple[str, Program, int | None]


class Hung(BaseException):
    """A run used up its time. Not an ``Exception``, so that no handler in the broker swallows it."""


def seeds(first: int, count: int) -> Iterator[Run]:
    """Name, program and seed of each."""
    for seed in range(first, first + count):
        yield str(seed), _program(seed), seed


def corpus() -> Iterator[Run]:
    """The same of the named programs, which have no seed."""
    for name, program in programs().items():
        yield name, program, None


@cache
def _program(seed: int) -> Program:
    return program_for_seed(seed)


@cache
def sound(out: Path) -> dict[str, bytes]:
    """Digest of the sound broker's events, by name, of runs without a violation: a mutant that does not differ there
    need not be judged.
    """
    digests: dict[str, bytes] = {}
    for path in [out / "corpus.jsonl.gz", *sorted(out.glob("seeds-*.jsonl.gz"))]:
        with gzip.open(path, "rb") as lines:
            next(lines)
            for record in map(json.loads, lines):
                if all(verdict["verdict"] != "violated" for verdict in record["verdicts"]):
                    digests[record["key"].partition("/")[2]] = _digest(record["history"].encode())
    return digests


def _digest(history: bytes) -> bytes:
    return hashlib.sha256(history.partition(b"\n")[2]).digest()  # without the header, which names the mutant


def record(prefix: str, run: Run, mutant: str | None, same: bytes | None) -> dict[str, Any] | None:
    """One run as a record; None for a mutant in whose run nothing is violated."""
    name, program, seed = run
    with seldom_collected():
        history = SimulatedWorld(mutant=mutant, seed=seed).run(program)
        text = history.encode()
        if same is not None and _digest(text) == same:
            return None
        verdicts = judge_history(history)
    if mutant is not None and all(verdict.verdict != "violated" for verdict in verdicts):
        return None
    kept = [
        {key: getattr(verdict, key) for key in ("requirement", "verdict", "outcome", "witness", "text")}
        for verdict in verdicts
        if verdict.verdict not in TRIVIAL
    ]
    return {
        "key": f"{prefix}/{name}",
        "trivial": len(verdicts) - len(kept),
        "verdicts": kept,
        "history": text.decode(),
    }


def perform(out: Path, task: str) -> None:
    """Make the file of one task."""
    group, *words = task.split()
    mutant, same, prefix = None, dict[str, bytes](), group
    if group == "corpus":
        runs, path = list(corpus()), out / "corpus.jsonl.gz"
    elif group == "seeds":
        runs, path = list(seeds(int(words[0]), int(words[1]))), out / f"seeds-{int(words[0]):05}.jsonl.gz"
    else:
        mutant, same, prefix = words[0], sound(out), f"mutants/{words[0]}"
        runs, path = [*corpus(), *seeds(0, int(words[1]))], out / "mutants" / f"{mutant}.jsonl.gz"
    kept, raised, hung = [], list[str](), list[str]()
    for run in runs:
        signal.setitimer(signal.ITIMER_VIRTUAL, HANGS_AFTER_S)
        try:
            one = record(prefix, run, mutant, same.get(run[0]))
        except Hung:
            hung.append(run[0])
        except Exception as error:  # noqa: BLE001 - a mutant may raise anything; the run is skipped and counted
            raised.append(f"{run[0]}: {type(error).__name__}: {error}")
        else:
            kept += [one] if one is not None else []
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    summary = {"task": task, "runs": len(runs), "kept": len(kept), "raised": raised, "hung": hung}
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(".part")
    with gzip.open(beside, "wb", GZIP_LEVEL) as file:
        for line in (summary, *kept):
            file.write(json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")
    beside.replace(path)
    sys.stdout.write(json.dumps(summary) + "\n")
    sys.stdout.flush()


def _hang(number: int, frame: FrameType | None) -> None:
    raise Hung


def main(argv: list[str]) -> None:
    """See the header."""
    if argv == ["list"]:
        sys.stdout.write("\n".join(MUTANTS) + "\n")
        return
    signal.signal(signal.SIGVTALRM, _hang)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))
    gc.freeze()
    for task in argv[1:]:
        perform(Path(argv[0]), task)


if __name__ == "__main__":
    main(sys.argv[1:])
