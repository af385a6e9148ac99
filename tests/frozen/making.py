"""Making the records: the pinned tree, taken out of the repository, runs and judges; one file per task, made once."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from tests.frozen.records import Missing, Summary, read_summary

#: The last commit at which the old judge was the judge of all requirements.
COMMIT = "834f15a"
REPOSITORY = Path(__file__).parents[2]
OUT = REPOSITORY / "brokerproof-out"
DRIVER = Path(__file__).with_name("driver.py")
#: Seeds per file, and mutants per process (which reads the sound runs once for all of them).
SEEDS_CHUNK = 250
MUTANTS_CHUNK = 4


def pinned_tree() -> Path:
    """The sources at ``COMMIT``, below ``OUT``. Raises ``Missing`` if this clone does not have that commit."""
    tree = OUT / f"frozen-tree-{COMMIT}"
    if tree.is_dir():
        return tree
    parts = ["conformance", "chaos", "reference_broker"]
    command = ["git", "-C", str(REPOSITORY), "archive", "--format=tar", COMMIT, *parts]
    try:
        done = subprocess.run(command, capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        said = error.stderr.decode().strip() if isinstance(error, subprocess.CalledProcessError) else error
        raise Missing(
            f"commit {COMMIT} cannot be read from {REPOSITORY} ({said}); it takes git and a clone that holds the"
            " commit: in a shallow one `git fetch --unshallow` brings it"
        ) from None
    beside = tree.with_name(f"{tree.name}.{os.getpid()}")
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extractall(beside, filter="data")
    beside.rename(tree)
    return tree


def drive(tree: Path, *words: str) -> list[str]:
    """Run the driver in the pinned tree; its lines of output. Raises ``CalledProcessError`` with what it said."""
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    done = subprocess.run(
        [sys.executable, str(DRIVER), *words], env=environment, stdout=subprocess.PIPE, text=True, check=True
    )
    return done.stdout.splitlines()


def make(out: Path, *, seeds: int, mutant_seeds: int, mutants: Sequence[str] | None = None, jobs: int = 2) -> str:
    """Make what is not there yet, all mutants unless named; the summary. Raises ``Missing`` as ``pinned_tree``."""
    began = time.monotonic()
    tree = pinned_tree()
    names = drive(tree, "list") if mutants is None else mutants
    made: list[Summary] = []
    chunks = [f"seeds {first} {min(SEEDS_CHUNK, seeds - first)}" for first in range(0, seeds, SEEDS_CHUNK)]
    plan = {"corpus": out / "corpus.jsonl.gz"} | {
        task: out / f"seeds-{int(task.split()[1]):05}.jsonl.gz" for task in chunks
    }
    planned = {f"mutant {name} {mutant_seeds}": out / "mutants" / f"{name}.jsonl.gz" for name in names}
    # The mutants are compared with the sound runs, so these come first.
    for tasks, size in ((plan, 1), (planned, MUTANTS_CHUNK)):
        made += _perform(tree, out, tasks, size, jobs)
    skipped = [f"{one.task}: {line}" for one in made for line in (*one.raised, *(f"{run}: hung" for run in one.hung))]
    size_mb = sum(path.stat().st_size for path in (*plan.values(), *planned.values())) / 1e6
    return (
        f"{len(made)} files, {sum(one.runs for one in made)} runs, {sum(one.kept for one in made)} kept,"
        f" {len(skipped)} raised or hung, {size_mb:.1f} MB in {out}, {time.monotonic() - began:.0f} s"
        + "".join(f"\n  skipped {line}" for line in skipped[:20])
    )


def _perform(tree: Path, out: Path, tasks: dict[str, Path], size: int, jobs: int) -> Iterator[Summary]:
    todo = []
    for task, path in tasks.items():
        present = read_summary(path)
        if present is not None and present.task == task:
            yield present
        else:
            todo.append(task)
    with ThreadPoolExecutor(jobs) as pool:
        batches = [todo[first : first + size] for first in range(0, len(todo), size)]
        pending = [pool.submit(drive, tree, str(out), *batch) for batch in batches]
        try:
            for done, future in enumerate(as_completed(pending), start=1):
                for line in future.result():
                    one = Summary(**json.loads(line))
                    sys.stderr.write(f"[{done}/{len(pending)}] {one.task}: {one.kept} of {one.runs} runs kept\n")
                    yield one
        finally:
            for future in pending:
                future.cancel()
