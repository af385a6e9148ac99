"""Random programs for real processes."""

from __future__ import annotations

from brokerproof.conformance.brokers.casting import owns
from brokerproof.conformance.experiment.configuration import BrokerSpec, ClockSpec
from brokerproof.conformance.experiment.destinations import DEAD_LETTERS
from brokerproof.conformance.experiment.steps import Clock, Operate, Pause, Probe, Restart, Send
from brokerproof.conformance.generate.live import OPERATIONS_MIN, OWNERS, WAITS_MS, live_program, shared, waits_ms
from brokerproof.conformance.generate.programs import program_for_seed

SEEDS = range(300)


def test_they_are_quick_and_do_something() -> None:
    for seed in SEEDS:
        program = live_program(seed)
        steps = list(program.each_step())
        assert waits_ms(program) <= WAITS_MS + len(steps)
        assert all(step.delay_ms <= WAITS_MS for step in steps if isinstance(step, Send))
        assert len(steps) >= OPERATIONS_MIN


def test_nine_of_ten_leave_the_broker_alone() -> None:
    for seed in SEEDS:
        program = live_program(seed)
        if seed % OWNERS == OWNERS - 1:
            continue
        assert program.broker == BrokerSpec()
        assert program.broker_host().clock == ClockSpec()
        at = program.hosts.index(program.broker_host())
        for step in program.steps:
            assert not isinstance(step, Operate | Pause | Probe | Restart)
            assert not isinstance(step, Clock) or step.host % len(program.hosts) != at


def test_one_of_ten_owns_it() -> None:
    owners = [live_program(seed) for seed in SEEDS if seed % OWNERS == OWNERS - 1]
    assert any(one.broker != BrokerSpec() for one in owners)
    assert any(one.broker_host().clock.offset_ms for one in owners)


def test_clocks_keep_their_distance_to_the_brokers() -> None:
    for seed in SEEDS:
        plain = program_for_seed(seed)
        away = [host.clock.offset_ms - plain.broker_host().clock.offset_ms for host in plain.hosts]
        assert [host.clock.offset_ms for host in shared(plain).hosts] == away


def test_who_shares_a_broker_leaves_the_dead_letters_of_others_alone() -> None:
    drawn = [program_for_seed(seed) for seed in range(200)]
    plain = [program for program in drawn if DEAD_LETTERS in [dest.name for dest in program.destinations]]
    assert plain
    for program in plain:
        names = [dest.name for dest in shared(program).destinations]
        assert DEAD_LETTERS not in names
        assert len(set(names)) == len(names) == len(program.destinations)
    assert not any(owns(live_program(seed)) for seed in SEEDS if seed % OWNERS != OWNERS - 1)
