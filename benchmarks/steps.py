"""How many steps per second: the seeded driver with broker, world and all rules; and Hypothesis with the same rules
against an empty machine.

Run: ``python benchmarks/steps.py [--programs N] [--rounds N]``. CPU seconds of this process are what counts: on a
shared machine wall time says more about the neighbours. The mix is ``mix.json``. Limits are compared in the same run;
the exit code is 1 when one is missed.

* seeded driver >= 15,000 steps per second and core (100,000 is where this is going);
* Hypothesis on the reference broker, model and judge included, >= 50 % of an empty machine with the same rules.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from statistics import median

from hypothesis import seed
from hypothesis.stateful import RuleBasedStateMachine, initialize, run_state_machine_as_test

from brokerproof.conformance.experiment.chooser import SeededChooser
from brokerproof.conformance.experiment.configuration import BrokerSpec, HostSpec, LinkSpec
from brokerproof.conformance.experiment.destinations import queues
from brokerproof.conformance.experiment.program import FORMAT, Program
from brokerproof.conformance.experiment.steps import (
    Ack,
    AnyStep,
    Clock,
    Leave,
    Resume,
    Send,
    Stall,
    Subscribe,
    Take,
)
from brokerproof.conformance.generate.strategies import frames
from brokerproof.conformance.machines.inflight import InFlightModel
from brokerproof.conformance.machines.search import Search, machine_rules, profile, simulated
from brokerproof.conformance.running.engine import run_program

MIX = json.loads((Path(__file__).parent / "mix.json").read_text())
KINDS = ("send", "deliver", "clock", "churn", "fault")
STEPS = 400
DRIVER_MIN = 15_000
HYPOTHESIS_PERCENT_MIN = 50


class Mixer:
    """Draws steps in the committed mix. It remembers who consumes and what is stalled: every step is possible."""

    def __init__(self, seed: int) -> None:
        self._chooser = SeededChooser(seed)
        self._consumers = {1: True, 2: True}
        self._stalled = False

    def step(self) -> list[AnyStep]:
        """One step of the benchmark: one operation, but for ``deliver``, which takes a message and acknowledges it."""
        chooser = self._chooser
        value = chooser.below(sum(MIX[kind] for kind in KINDS))
        for kind in KINDS:
            value -= MIX[kind]
            if value < 0:
                break
        if kind == "send":
            return [Send(host=chooser.below(3), dest=chooser.below(2), ttl_ms=120_000 if chooser.flag(50) else 0)]
        if kind == "deliver":
            host = chooser.below(2)
            return [Take(host=host), Ack(host=host)]
        if kind == "clock":
            return [Clock(host=chooser.below(4), jump_ms=(1000, -1000, 60_000, -60_000)[chooser.below(4)])]
        if kind == "churn":
            return [self._churn(1 + chooser.below(2))]
        self._stalled = not self._stalled
        return [Stall(link=chooser.below(3), toward="client") if self._stalled else Resume()]

    def _churn(self, host: int) -> AnyStep:
        attached = self._consumers[host]
        self._consumers[host] = not attached
        # Ordinals of ``leave`` count the clients that have a consumer.
        index = host - 1 if all(self._consumers.values()) or not attached else 0
        return Leave(host=index) if attached else Subscribe(host=host, dest=self._chooser.below(2), prefetch=10)


def mixed_program(number: int) -> tuple[Program, int]:
    """A program of ``STEPS`` steps in the committed mix, and how many steps in the benchmark's sense it has."""
    clients = [HostSpec("p0", "client"), HostSpec("c0", "client"), HostSpec("c1", "client", "jms")]
    links = [LinkSpec(client.name) for client in clients]
    program = Program(FORMAT, BrokerSpec(), [HostSpec("b", "broker"), *clients], links, queues("q0", "q1"), [])
    steps: list[AnyStep] = [Subscribe(host=1, prefetch=10), Subscribe(host=2, dest=1, prefetch=10)]
    mixer = Mixer(number)
    for _ in range(STEPS):
        steps += mixer.step()
    return program.with_steps(steps), STEPS


def driver_rate(programs: int) -> float:
    """Steps per CPU second: generate, run, judge."""
    begun = time.process_time()
    steps = 0
    for number in range(programs):
        program, count = mixed_program(number)
        run_program(program, f"mixed-{number}", seed=number)
        steps += count
    return steps / (time.process_time() - begun)


class EmptyMachine(RuleBasedStateMachine):
    """The same rules as the real machine, doing nothing."""

    def perform(self, step: AnyStep) -> None:
        """Nothing."""

    @initialize(frame=frames())
    def start(self, frame: Program) -> None:
        """Nothing."""


Empty = type("Empty", (EmptyMachine,), machine_rules(InFlightModel.kinds))


def empty_seconds(examples: int) -> float:
    """CPU seconds for a number of examples of the empty machine."""
    begun = time.process_time()
    run_state_machine_as_test(seed(0)(Empty), settings=profile(examples))
    return time.process_time() - begun


def machine_seconds(examples: int) -> float:
    """The same for the real machine, model and judge included."""
    begun = time.process_time()
    assert Search(InFlightModel, simulated(), examples=examples).run() is None, (
        "the reference broker keeps its promises"
    )
    return time.process_time() - begun


def main() -> int:
    """Print the figures and compare them with the limits."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=30)
    parser.add_argument("--examples", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    driver_rate(3)
    rates, ratios = [], []
    for _ in range(options.rounds):
        rates.append(driver_rate(options.programs))
        empty = empty_seconds(options.examples)
        ratios.append(100 * empty / machine_seconds(options.examples))
    rate, ratio = median(rates), median(ratios)
    print(f"seeded driver: {rate:,.0f} steps/CPU s ({min(rates):,.0f} to {max(rates):,.0f}); limit {DRIVER_MIN:,}")
    print(
        f"Hypothesis: {ratio:.0f} % of an empty machine ({min(ratios):.0f} to {max(ratios):.0f}); "
        f"limit {HYPOTHESIS_PERCENT_MIN} %"
    )
    return 0 if rate >= DRIVER_MIN and ratio >= HYPOTHESIS_PERCENT_MIN else 1


if __name__ == "__main__":
    sys.exit(main())
