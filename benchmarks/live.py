"""How many random live programs a minute are judged on a broker, and what processor time each takes.

Run: ``python benchmarks/live.py [BROKER …] [--seconds N] [--seed S] [--owners]``. A broker is what ``run --broker``
takes; without one the reference broker is served here and tested by its URL. Programs of the shared class, unless
``--owners``; what begins within the seconds is counted and finished, and the time is until the last one is judged.
Processor time is that of this process and of all below it, the broker included where it is started here. The exit code
is 1 where something is violated.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from brokerproof.conformance.brokers import make_adapter
from brokerproof.conformance.brokers.base import Adapter
from brokerproof.conformance.experiment.program import Program
from brokerproof.conformance.generate.live import live_program
from brokerproof.conformance.requirements.catalogue import default_catalogue
from brokerproof.conformance.running.allowance import Allowance
from brokerproof.conformance.running.live import run_all, violated

_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
_SAMPLE_S = 0.5


class Processors:
    """Processor time of this process and of all below it, those that end meanwhile included."""

    def __init__(self) -> None:
        self._seen: dict[tuple[int, str], float] = {}
        self._over = threading.Event()
        self._sampling = threading.Thread(target=self._sample, daemon=True)
        self._sampling.start()

    def _sample(self) -> None:
        while not self._over.wait(_SAMPLE_S):
            self.look()

    def look(self) -> None:
        """Take in what the kernel tells now."""
        stats: dict[int, list[str]] = {}
        for path in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                stats[int(path.parent.name)] = path.read_text(errors="replace").rpartition(")")[2].split()
        ours = {os.getpid()}
        for pid in sorted(stats):
            if int(stats[pid][1]) in ours:
                ours.add(pid)
        for pid in ours & set(stats):
            fields = stats[pid]
            self._seen[pid, fields[19]] = (int(fields[11]) + int(fields[12])) * _TICK_S

    def seconds(self) -> dict[str, float]:
        """In all, and this process alone."""
        self.look()
        own = sum(s for (pid, _), s in self._seen.items() if pid == os.getpid())
        return {"all": sum(self._seen.values()), "own": own}


def drawn(adapter: Adapter, seed: int, allowance: Allowance, *, owners: bool) -> Iterator[tuple[str, Program]]:
    """Programs of one class that fit, as long as there is time."""
    allowance.begin()
    for number in itertools.count(seed):
        program = adapter.cast(adapter.fitted(live_program(number), number))
        if adapter.owns(program) is owners and not adapter.refusal(program):
            yield f"live-seed-{number}", program
        if allowance.is_over():
            return


def measure(broker: str, seconds: int, seed: int, *, owners: bool) -> int:
    """One line; how many programs violate something."""
    processors = Processors()
    adapter = make_adapter(broker)
    allowance = Allowance(seconds)
    wanted = tuple(one.id for one in default_catalogue().judged())
    before, started = processors.seconds(), time.monotonic()
    kinds: Counter[str] = Counter()
    bad: list[str] = []
    done = decided = 0
    for result in run_all(adapter, (), wanted, None, drawn(adapter, seed, allowance, owners=owners), allowance):
        done += 1
        decided += sum(verdict.decided for verdict in result.verdicts)
        kinds.update(verdict.verdict.value for verdict in result.verdicts)
        bad += [f"{result.name}: {', '.join(sorted(violated(result)))}"] if violated(result) else []
        bad += [f"{result.name}: {result.problem or result.not_run}"] if result.problem or result.not_run else []
    passed_s, after = time.monotonic() - started, processors.seconds()
    each = {name: (after[name] - before[name]) / max(1, done) for name in after}
    print(
        f"{adapter.label}: {done} programs in {passed_s:.1f} s, {done * 60 / passed_s:.0f} a minute; "
        f"processor {each['all']:.3f} s each ({each['own']:.3f} s in the runner), load {os.getloadavg()[0]:.1f}; "
        f"{decided / max(1, done):.0f} rows decided each; {dict(kinds)}",
        flush=True,
    )
    for line in bad:
        print(f"  {line}")
    return len(bad)


def main() -> int:
    """Parse, serve, measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("brokers", nargs="*", metavar="BROKER")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--owners", action="store_true", help="programs that own the broker instead")
    arguments = parser.parse_args()
    bad = 0
    with contextlib.ExitStack() as stack:
        brokers = arguments.brokers or [served(stack)]
        for broker in brokers:
            bad += measure(broker, arguments.seconds, arguments.seed, owners=arguments.owners)
    return int(bad > 0)


def served(stack: contextlib.ExitStack) -> str:
    """The URL of a reference broker that runs until the end."""
    command = [sys.executable, "-m", "brokerproof", "serve", "--port", "0"]
    process = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
    stack.callback(process.terminate)
    assert process.stdout is not None
    return process.stdout.readline().split()[-1]


if __name__ == "__main__":
    sys.exit(main())
