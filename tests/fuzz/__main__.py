"""Damage valid frames and give them to the codecs: no exception that is not a protocol error, memory flat.

Run: ``python -m tests.fuzz [--target NAME …] [--frames N] [--seed N] [--engine own|atheris]``. The own engine is a
seeded mutator of valid frames (``targets.py``); atheris is guided by coverage (``pip install 'brokerproof[fuzz]'``; it
counts runs and decides what it calls a frame). Memory is what ``tracemalloc`` sees, which makes the own engine about
four times slower than the codecs are. The exit code is 1 when a target fails, 4 when the
engine is missing. The input that made a target fail is printed, and ``--input HEX`` gives it to the target again.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import subprocess
import sys
import tempfile
import time
import traceback
import tracemalloc

from tests.fuzz.targets import NAMES, Mutator, Target, target

#: Memory may grow by this much from the first tenth to the end, however many frames there are: caches that are bounded.
GROWTH_KIB_MAX = 256


def say(line: str) -> None:
    sys.stdout.write(line + "\n")


def allocated_kib() -> int:
    """What Python's objects take that were made since tracing began and are still reachable.

    Not the resident size of the process: in a test runner that has run a thousand other tests it moves by megabytes for
    reasons of its own.
    """
    gc.collect()
    return tracemalloc.get_traced_memory()[0] // 1024


def own(name: str, frames: int, seed: int) -> list[str]:
    """What was wrong; figures are printed."""
    of = target(name)
    tracemalloc.start()
    try:
        return damage(name, of, frames, seed)
    finally:
        tracemalloc.stop()


def damage(name: str, of: Target, frames: int, seed: int) -> list[str]:
    """What was wrong with one target, while memory is traced."""
    mutator = Mutator(of, seed)
    whole, settled_kib = 0, 0
    start = time.process_time()
    for number in range(frames):
        if number == frames // 10:
            settled_kib = allocated_kib()
        data = mutator.next()
        try:
            whole += of.run(data)
        except Exception:  # noqa: BLE001 - any at all is what is looked for
            traceback.print_exc()
            return [f"{name}: frame {number} of seed {seed}: --target {name} --input {data.hex()}"]
    seconds = time.process_time() - start
    growth_kib = allocated_kib() - settled_kib
    say(
        f"{name}: {frames:,} frames, {whole:,} of them still right, no exception but protocol errors;"
        f" {1e6 * seconds / max(1, frames):.0f} us each, traced; memory grew by {growth_kib:,} KiB"
    )
    return [f"{name}: memory grew by {growth_kib:,} KiB"] if growth_kib > GROWTH_KIB_MAX else []


def atheris(name: str, frames: int, seed: int) -> list[str]:
    """In a process of its own: the library never returns."""
    if importlib.util.find_spec("atheris") is None:
        say(f"{name}: not run: atheris is not installed: pip install 'brokerproof[fuzz]'")
        raise SystemExit(4)
    options = [f"-runs={frames}", f"-seed={seed}", "-rss_limit_mb=1024"]
    with tempfile.TemporaryDirectory(prefix="brokerproof-fuzz-") as corpus:
        words = [sys.executable, "-m", "tests.fuzz.guided", name, corpus, *options]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    lines = [line for line in done.stderr.splitlines() if line.startswith(("#", "Done", "stat::"))]
    say(f"{name}: {lines[-1] if lines else 'nothing was run'}")
    return [f"{name}: atheris\n{done.stderr[-3000:]}"] if done.returncode else []


def main() -> int:
    """Run the engine on the targets."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", nargs="+", choices=NAMES, default=list(NAMES))
    parser.add_argument("--frames", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--engine", choices=("own", "atheris"), default="own")
    parser.add_argument("--input", metavar="HEX", help="one input instead")
    options = parser.parse_args()
    if options.input is not None:
        say(f"read: {target(options.target[0]).run(bytes.fromhex(options.input))}")
        return 0
    engine = own if options.engine == "own" else atheris
    failures = [line for name in options.target for line in engine(name, options.frames, options.seed)]
    for line in failures:
        say(f"failed: {line}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
