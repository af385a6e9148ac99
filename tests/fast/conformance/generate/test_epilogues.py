"""What some random programs have behind everything else."""

from __future__ import annotations

from brokerproof.conformance.experiment.chooser import SeededChooser
from brokerproof.conformance.experiment.configuration import BrokerSpec, HostSpec
from brokerproof.conformance.experiment.destinations import expiries_of, queues, topics
from brokerproof.conformance.experiment.program import FORMAT, Program
from brokerproof.conformance.experiment.steps import Send, Subscribe
from brokerproof.conformance.experiment.verdict import VerdictKind
from brokerproof.conformance.generate.epilogues import AWAY, topics_of, with_dying_backlog
from brokerproof.conformance.rules.areas import RULES
from brokerproof.conformance.rules.judge import judge_history
from brokerproof.conformance.worlds.simulated.world import SimulatedWorld

SEEDS = range(20)


def bare(*names: str) -> Program:
    """Two clients and nothing else."""
    hosts = [HostSpec("b", "broker"), HostSpec("p0", "client"), HostSpec("c0", "client")]
    return Program(FORMAT, BrokerSpec(), hosts, [], [*queues("q0"), *topics(*names)], [])


def test_nobody_publishes_on_topics_of_advisories() -> None:
    program = bare("t0", expiries_of("q0"))
    assert topics_of(program) == [1]
    for seed in SEEDS:
        steps = with_dying_backlog(SeededChooser(seed), program).steps
        assert {step.dest for step in steps if isinstance(step, Send | Subscribe)} == {1}


def test_what_stays_away_finds_one_letter() -> None:
    assert "EXP-026" in RULES
    situations: set[str] = set()
    for seed in SEEDS:
        program = with_dying_backlog(SeededChooser(seed), bare("t0"))
        assert all(step.durable == AWAY for step in program.steps if isinstance(step, Subscribe))
        (verdict,) = judge_history(SimulatedWorld(seed=seed).run(program), wanted=["EXP-026"])
        assert verdict.verdict is VerdictKind.SATISFIED
        situations |= set(verdict.situations)
    assert situations == {"one subscription let it die", "several subscriptions let it die"}
