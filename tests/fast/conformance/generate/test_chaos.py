"""Faults drawn into random programs: how wild, healed, told in the history, and shrunk with the program."""

from __future__ import annotations

import pytest

from brokerproof.conformance.experiment import history as events
from brokerproof.conformance.experiment.exits import UsageError
from brokerproof.conformance.experiment.program import Program
from brokerproof.conformance.experiment.steps import (
    Clock,
    Cut,
    Exhaust,
    Freeze,
    Leave,
    Pause,
    Relieve,
    Reset,
    Restart,
    Resume,
    Stall,
    Thaw,
)
from brokerproof.conformance.experiment.steps.scarcity import KINDS, LEFT
from brokerproof.conformance.generate.chaos import PROFILES, chaotic, check_chaos
from brokerproof.conformance.generate.programs import program_for_seed
from brokerproof.conformance.generate.shrink import shrink
from brokerproof.conformance.worlds.simulated.world import SimulatedWorld

SEEDS = range(150)
OF_BROKER = (Pause, Restart)
OF_PROCESSES = (Exhaust, Relieve)
FAULTS = (Clock, Freeze, Thaw, Stall, Resume, Reset, *OF_BROKER)


def quiet(seed: int) -> Program:
    """A random program without faults of its own, and without steps that hide some."""
    program = program_for_seed(seed)
    of_its_own = (*FAULTS, *OF_PROCESSES, Cut, Leave)
    return program.with_steps([step for step in program.steps if not isinstance(step, of_its_own)])


def put_away(program: Program) -> list[int]:
    """How far each host's clock is from true time in the end, drift aside."""
    found = [host.clock.offset_ms for host in program.hosts]
    for step in program.steps:
        if isinstance(step, Clock):
            found[step.host % len(found)] += step.jump_ms
    return found


@pytest.mark.parametrize("profile", PROFILES)
def test_what_went_wrong_is_healed_in_the_end(profile: str) -> None:
    for seed in SEEDS:
        plain = quiet(seed)
        program = chaotic(plain, profile, seed)
        assert program == chaotic(plain, profile, seed)
        assert put_away(program) == put_away(plain)
        stalled = frozen = 0
        scarce: list[str] = []
        for step in program.steps:
            stalled += isinstance(step, Stall) - isinstance(step, Resume)
            frozen += isinstance(step, Freeze) - isinstance(step, Thaw)
            assert frozen >= 0
            if isinstance(step, Exhaust):
                assert step.what not in scarce
                scarce.append(step.what)
            elif isinstance(step, Relieve):
                scarce.remove(step.what)
            assert stalled <= PROFILES[profile].together
        assert stalled == frozen == len(scarce) == 0


def test_how_wild_it_is() -> None:
    def drawn(profile: str) -> list[type]:
        return [type(step) for seed in SEEDS for step in chaotic(quiet(seed), profile, seed).steps]

    kinds = {profile: drawn(profile) for profile in PROFILES}
    assert not set(kinds["calm"]) & set(OF_BROKER)
    assert {*FAULTS, Leave} <= set(kinds["nightly"])
    assert set(OF_PROCESSES) <= set(kinds["cruel"])
    assert not set(OF_PROCESSES) & set(kinds["nightly"])
    taken = {(step.what, step.left) for seed in range(400) for step in chaotic(quiet(seed), "cruel", seed).steps
             if isinstance(step, Exhaust)}  # fmt: skip
    assert taken == {(what, left) for what in KINDS for left in LEFT[what]}
    counts = [sum(kind in FAULTS for kind in found) for found in kinds.values()]
    assert counts[0] < counts[1] < counts[2]
    lasting = [chaotic(quiet(seed), "nightly", seed) for seed in SEEDS]
    assert any(link.bytes_per_second for program in lasting for link in program.links)
    assert any(link.jitter_us for program in lasting for link in program.links)
    assert any(link.slice_bytes for program in lasting for link in program.links)
    assert any(host.clock.drift_ppm for program in lasting for host in program.hosts)


def test_the_history_has_what_was_asked_and_what_took_effect() -> None:
    for seed in range(40):
        program = chaotic(quiet(seed), "cruel", seed)
        asked = [step for step in program.steps if isinstance(step, (*FAULTS, *OF_PROCESSES))]
        history = SimulatedWorld().run(program)
        worked = history.events[
            : next(e.seq for e in history.events if isinstance(e, events.Phase) and e.name == "heal")
        ]
        tags = {step.__struct_config__.tag for step in asked}
        refused = [e for e in worked if isinstance(e, events.Skipped) and e.step["do"] in tags]
        told = [e for e in worked if isinstance(e, events.Fault)]
        told = [e for e in told if e.fault not in ("jitter", "slice")]
        severed = [e for e in told if e.fault == "reset" and e.after_bytes is not None]
        assert len(severed) <= sum(e.fault == "limit" for e in told)
        faults = [e for e in told if e not in severed]
        pauses = [e for e in worked if isinstance(e, events.Pause)]
        assert len(asked) == len(refused) + len(faults) + len(pauses)
        assert all(fault.evidence is not None for fault in faults)
        assert all(pause.t1 - pause.t0 >= (pause.asked_ms or 0) * 1_000_000 > 0 for pause in pauses)


def test_faults_shrink_with_the_program() -> None:
    def stands_still(program: Program) -> bool:
        found = [event for event in SimulatedWorld().run(program).events if isinstance(event, events.Pause)]
        return any(event.t1 - event.t0 >= 100_000_000 for event in found)

    wild = next(
        program
        for program in (chaotic(quiet(seed), "cruel", seed) for seed in SEEDS)
        if stands_still(program) and any(link.bytes_per_second for link in program.links)
    )
    small = shrink(wild, stands_still)
    assert small.steps == [Pause(ms=100)]
    assert not any(link.bytes_per_second for link in small.links)
    assert not any(put_away(small))


def test_a_profile_that_does_not_exist() -> None:
    with pytest.raises(UsageError, match="'wild' is no profile; one of calm, nightly, cruel"):
        check_chaos("wild")
    check_chaos("cruel")
