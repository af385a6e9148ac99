"""How many programs and recorded events a second: generate, play in the simulated world, judge; and what costs most.

Run: ``python benchmarks/pipeline.py [--programs N] [--rounds N] [--profile]``. CPU seconds of this process count, the
best of the rounds. Everything is a ratio within the same run: to the bare core (``core.bare_rate``: a message a cycle
and no broker around it) and to an empty program, which costs what setting up a world and a judge costs. ``--profile``
names the three modules that cost most; it is a run of its own, because a profiler slows calls down unevenly.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import pstats
import sys
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path

from brokerproof.conformance.experiment.configuration import BrokerSpec, HostSpec, LinkSpec
from brokerproof.conformance.experiment.destinations import queues
from brokerproof.conformance.experiment.history import History
from brokerproof.conformance.experiment.program import FORMAT, Program
from brokerproof.conformance.experiment.steps import Ack, AnyStep, Send, Subscribe, Take
from brokerproof.conformance.facts.facts import Facts
from brokerproof.conformance.generate.programs import program_for_seed
from brokerproof.conformance.rules.judge import judge_facts
from brokerproof.conformance.worlds.simulated.world import SimulatedWorld

sys.path.insert(0, str(Path(__file__).parent))
from core import bare_rate

PARTS = ("generate", "world", "facts", "rules")
#: Time per event of the judge in a history of 100,000 events, against one of 1,000.
GROWTH_MAX = 1.5
LARGEST = 3


class Costs:
    """CPU seconds per part, and what was made meanwhile."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(PARTS, 0.0)
        self.events = 0
        self.programs = 0

    def play(self, program: Program, seed: int, generated_s: float = 0.0) -> History:
        """One program, from the world to the verdicts."""
        times = [time.process_time()]
        history = SimulatedWorld(seed=seed).run(program)
        times.append(time.process_time())
        facts = Facts(history)
        times.append(time.process_time())
        judge_facts(facts)
        times.append(time.process_time())
        spent = [generated_s, *(after - before for before, after in pairwise(times))]
        for part, seconds in zip(PARTS, spent, strict=True):
            self.seconds[part] += seconds
        self.events += len(history.events)
        self.programs += 1
        return history

    def total(self) -> float:
        """CPU seconds of all parts."""
        return sum(self.seconds.values())


def sweep(programs: int) -> Costs:
    """What a campaign does with that many seeds."""
    costs = Costs()
    for seed in range(programs):
        begun = time.process_time()
        program = program_for_seed(seed)
        costs.play(program, seed, time.process_time() - begun)
    return costs


def empty(programs: int) -> Costs:
    """The same of programs without a step: set-up alone."""
    costs = Costs()
    frames = [program_for_seed(seed).with_steps([]) for seed in range(programs)]
    for seed, program in enumerate(frames):
        costs.play(program, seed)
    return costs


def judged_us(messages: int, rounds: int) -> tuple[int, float]:
    """A history of that many messages, sent, taken and acknowledged one by one: its events, and what the judge needs
    for one of them (us).
    """
    hosts = [HostSpec("b", "broker"), HostSpec("p", "client"), HostSpec("c", "client")]
    steps: list[AnyStep] = [Subscribe(host=1, prefetch=10)]
    for _ in range(messages):
        steps += [Send(host=0), Take(host=1), Ack(host=1)]
    program = Program(FORMAT, BrokerSpec(), hosts, [LinkSpec("p"), LinkSpec("c")], queues("q"), steps)
    history = SimulatedWorld().run(program)
    times: list[float] = []
    for _ in range(rounds):
        begun = time.process_time()
        judge_facts(Facts(history))
        times.append(time.process_time() - begun)
    return len(history.events), 1e6 * min(times) / len(history.events)


def largest(programs: int) -> list[str]:
    """The modules that cost most, what they call apart, in the world and in the judge."""
    drawn = [program_for_seed(seed) for seed in range(programs)]
    histories = [SimulatedWorld(seed=seed).run(program) for seed, program in enumerate(drawn)]
    works = {
        "world": lambda: [SimulatedWorld(seed=seed).run(program) for seed, program in enumerate(drawn)],
        "judge": lambda: [judge_facts(Facts(history)) for history in histories],
    }
    found: list[str] = []
    for part, work in works.items():
        profile = cProfile.Profile()
        profile.runcall(work)
        seconds: Counter[str] = Counter()
        for (file, _, _), row in pstats.Stats(profile).stats.items():  # type: ignore[attr-defined]  # not in its stub
            seconds["/".join(Path(file).parts[-2:])] += row[2]
        whole = sum(seconds.values())
        found += [f"{part}: {100 * spent / whole:.0f} % {name}" for name, spent in seconds.most_common(LARGEST)]
    return found


def best(rounds: list[Costs]) -> Costs:
    """The quickest round."""
    return min(rounds, key=Costs.total)


def main() -> int:
    """Print all figures; exit code 1 when the judge's time per event grows too much."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--programs", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--messages", type=int, default=25_000, help="of the long history (about 4 events each)")
    parser.add_argument("--profile", action="store_true", help="also name the largest costs")
    options = parser.parse_args()
    sweep(20)
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000)
    bare = bare_rate(200_000)
    costs = best([sweep(options.programs) for _ in range(options.rounds)])
    frame = best([empty(options.programs) for _ in range(options.rounds)])
    rate = costs.events / costs.total()
    print(f"{costs.programs} programs, {costs.events} recorded events")
    print(f"programs a second: {costs.programs / costs.total():,.0f}; recorded events a second: {rate:,.0f}")
    judge_s = costs.seconds["facts"] + costs.seconds["rules"]
    print(f"judge alone: {costs.events / judge_s:,.0f} events a second")
    print(f"one recorded event costs {bare / rate:.1f} cycles of the bare core")
    print(f"an empty program costs {100 * frame.total() / costs.total():.0f} % of a drawn one")
    for part in PARTS:
        share = 100 * costs.seconds[part] / costs.total()
        print(f"  {part}: {share:.0f} %, {1e6 * costs.seconds[part] / costs.events:.1f} us per event")
    for text in largest(min(options.programs, 100)) if options.profile else ():
        print(f"  {text}")
    (few, small_us), (many, large_us) = (judged_us(count, options.rounds) for count in (250, options.messages))
    growth = large_us / small_us
    print(f"judge: {large_us:.1f} us per event of {many:,}, {small_us:.1f} of {few:,}: growth {growth:.2f}")
    return int(growth > GROWTH_MAX)


if __name__ == "__main__":
    sys.exit(main())
