"""How many defects of a Python broker by somebody else the live suite finds: automatic mutants of its source, the same
operators as ``brokerproof mutants --automatic``.

Run: ``python benchmarks/mutants.py [--profile FILE] [--sample 60] [--seed S] [--seconds 20] [--file GLOB]``. The
profile (default CoilMQ's) gets the broker with ``pypi:NAME==VERSION``. Each mutant is a copy of that package with one
edit, started as the profile says. Known deviations are not applied.

Rules
* Mutated is what the sound broker executes in these programs, as its interpreter's tracing tells.
* A mutant meets the programs of the corpus that together show all that the corpus shows on the reference broker, then
  random ones for so many seconds; the first requirement that it violates, and the sound broker in the same program
  (``SOUND`` runs) does not, ends it: *killed*. *crashed*: it does not start, or the suite could not play. Else
  *survived*.
* A survivor is for a person to read: its edit is printed. There is no threshold.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import closing
from fnmatch import fnmatchcase
from itertools import chain
from pathlib import Path

import msgspec

from brokerproof.chaos.brokers.archives import obtained
from brokerproof.conformance.brokers.profile import Located, read_profile
from brokerproof.conformance.brokers.profiled import ProfileAdapter
from brokerproof.conformance.experiment.program import Program
from brokerproof.conformance.experiment.results import RunResult
from brokerproof.conformance.known import Known
from brokerproof.conformance.mutants.automatic.mutations import Mutation, mutations_of, sample_of
from brokerproof.conformance.requirements.catalogue import default_catalogue
from brokerproof.conformance.running.allowance import Allowance
from brokerproof.conformance.running.interruption import STOP
from brokerproof.conformance.running.live import plan_of, random_plan, run_all, violated
from brokerproof.conformance.running.options import SuiteOptions
from brokerproof.conformance.running.quick import quick_plan

Entry = tuple[str, Program]
PROFILE = Path(__file__).parent.parent / "conformance" / "brokers" / "coilmq.toml"
#: Of a broker that no client reaches: configuration, command line, other stores and who may come in.
ASIDE = ("*/start.py", "*/config/*", "*/auth/*", "*/store/dbm.py", "*/store/rds.py", "*/exception.py")
SOUND = 6
#: Programs of the corpus that take longer on the sound broker are left out.
LONGEST_S = 15.0
#: Written beside the package while its lines are recorded: each place, when it is first executed.
TRACER = """
import sys, threading
found, out = set(), open({out!r}, "a", buffering=1)
def trace(frame, event, argument):
    if not frame.f_code.co_filename.startswith({folder!r}):
        return None
    place = frame.f_code.co_filename, frame.f_lineno
    if place not in found:
        found.add(place)
        out.write("%s:%d\\n" % place)
    return trace
threading.settrace(trace)
sys.settrace(trace)
"""


class Unexcused(ProfileAdapter):
    """The broker of a profile, started from a folder with its package; nothing is known of it."""

    def __init__(self, located: Located, folder: Path) -> None:
        start = located.profile.start
        assert start is not None, "a broker that is mutated is started"
        start = msgspec.structs.replace(start, get={}, env={**start.env, "PYTHONPATH": str(folder)})
        super().__init__(Located(msgspec.structs.replace(located.profile, start=start), located.place, located.here))

    def known(self) -> Known:
        return Known("", [])


class Bench:
    """The sound broker, and what is played on it and on its mutants."""

    def __init__(self, options: argparse.Namespace, work: Path) -> None:
        self.options = options
        self.work = work
        self.located = read_profile(options.profile)
        start = self.located.profile.start
        assert start is not None
        self.source = obtained(next(iter(start.get.values())))
        self.package = self.located.profile.name
        self.wanted = tuple(default_catalogue().select(None))
        sound = Unexcused(self.located, self.source)
        plan = plan_of(sound)
        self.cover = list(quick_plan(plan, self.wanted, float("inf"), sound.real_ms))
        self._reds: dict[str, set[str]] = {}

    def runs(self, folder: Path, cover: list[Entry], seconds: float) -> Generator[RunResult, None, None]:
        """The results of these programs, then of random ones."""
        adapter, allowance = Unexcused(self.located, folder), Allowance(seconds)
        drawn = random_plan(adapter, SuiteOptions(live_programs=10**6, seed=self.options.seed), allowance)
        yield from run_all(adapter, cover, self.wanted, None, drawn if seconds else (), allowance)

    def sound_reds(self, entry: Entry) -> set[str]:
        """What the sound broker violates in a program."""
        if entry[0] not in self._reds:
            self._reds[entry[0]] = set().union(*(violated(one) for one in self.runs(self.source, SOUND * [entry], 0)))
        return self._reds[entry[0]]

    def mutations(self) -> tuple[list[Mutation], int]:
        """A sample of those that are executed, and how many there are of all."""
        lines, traced = self.work / "lines", self.work / "traced"
        shutil.copytree(self.source / self.package, traced / self.package)
        (traced / "sitecustomize.py").write_text(TRACER.format(out=str(lines), folder=str(traced / self.package)))
        seconds = {
            one.run.rpartition("/")[2]: one.seconds for one in self.runs(traced, self.cover, self.options.seconds)
        }
        # What is quick goes first.
        able = [one for one in self.cover if seconds.get(one[0], LONGEST_S) < LONGEST_S]
        self.cover = sorted(able, key=lambda one: seconds[one[0]])
        reached = set(lines.read_text().split())
        found: list[Mutation] = []
        for path in sorted((self.source / self.package).rglob("*.py")):
            file = path.relative_to(self.source).as_posix()
            if fnmatchcase(file, self.options.file) and not any(fnmatchcase(file, one) for one in ASIDE):
                found += mutations_of(file, path.read_text("utf-8"))
        executed = [one for one in found if one.edit.function and self._is_reached(one, traced, reached)]
        return sample_of(executed, self.options.sample, self.options.seed), len(found)

    @staticmethod
    def _is_reached(one: Mutation, traced: Path, reached: set[str]) -> bool:
        return any(f"{traced / one.file}:{node.lineno}" in reached for node in (one.edit.node, one.edit.statement))

    def trial(self, one: Mutation) -> dict[str, object]:
        """What becomes of a mutant."""
        folder, started = Path(tempfile.mkdtemp(dir=self.work)), time.monotonic()
        shutil.copytree(self.source / self.package, folder / self.package)
        (folder / one.file).write_text(one.mutated(), "utf-8")
        told: dict[str, object] = {"kind": "survived", "by": [], "program": ""}
        # One by itself, for those that do not even start.
        first, others = self.runs(folder, self.cover[:1], 0), self.runs(folder, self.cover[1:], self.options.seconds)
        with closing(others):
            for result in chain(first, others):
                name = result.run.rpartition("/")[2]
                by = violated(result)
                by = by and by - self.sound_reds((name, result.program))
                if by or result.problem:
                    told = {"kind": "killed" if by else "crashed", "by": sorted(by), "program": name}
                    STOP.set()  # what is running ends soon
                    break
        STOP.clear()
        shutil.rmtree(folder)
        seconds = round(time.monotonic() - started)
        place = {"file": one.file, "line": one.line, "operator": one.edit.operator, "key": one.key}
        return {**place, **told, "seconds": seconds, "diff": one.diff()}


def main() -> int:
    """See the module's header."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--profile", type=Path, default=PROFILE)
    parser.add_argument("--sample", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--file", default="*")
    parser.add_argument("--part", default="1/1", help="of the sample; parts may run side by side")
    with tempfile.TemporaryDirectory() as work:
        bench = Bench(parser.parse_args(), Path(work))
        sample, size = bench.mutations()
        part, parts = map(int, bench.options.part.split("/"))
        sample = sample[part - 1 :: parts]
        sys.stdout.write(f"{size} mutants, {len(sample)} of those that are executed; {len(bench.cover)} programs\n")
        counts = dict.fromkeys(("killed", "crashed", "survived"), 0)
        for one in sample:
            told = bench.trial(one)
            counts[str(told["kind"])] += 1
            sys.stdout.write(json.dumps(told) + "\n")
            sys.stdout.flush()
    sys.stdout.write(json.dumps(counts) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
