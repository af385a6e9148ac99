"""Parity: the reference broker in both worlds. A sample of what ``brokerproof parity`` compares, and proof that it can
disagree.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from brokerproof.conformance.brokers.reference import ReferenceAdapter
from brokerproof.conformance.brokers.through import ThroughOpenWire
from brokerproof.conformance.commands.parity import main
from brokerproof.conformance.corpus import programs
from brokerproof.conformance.corpus.chapters import feature_stories
from brokerproof.conformance.corpus.stories import stories
from brokerproof.conformance.experiment.exits import OK
from brokerproof.conformance.experiment.history import Arrive, Skipped
from brokerproof.conformance.experiment.steps.waiting import Advance
from brokerproof.conformance.generate.programs import program_for_seed
from brokerproof.conformance.running.parity import compare, fit_for_parity, paced, parity_programs, run_parity
from brokerproof.conformance.worlds.live.laboratory import Laboratory
from brokerproof.conformance.worlds.live.world import LiveWorld
from brokerproof.conformance.worlds.simulated.world import SimulatedWorld
from tests.live.bench import events, make_laboratory
from tests.tools import at_night

pytestmark = pytest.mark.live


@pytest.fixture(scope="module")
def laboratory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Laboratory]:
    with make_laboratory(tmp_path_factory.mktemp("parity")) as laboratory:
        yield laboratory


@pytest.mark.parametrize("seed", at_night(range(10), but=range(4)))
def test_seeded_programs_agree(laboratory: Laboratory, seed: int) -> None:
    run, _, _ = run_parity(ReferenceAdapter(), laboratory, f"seed-{seed}", fit_for_parity(program_for_seed(seed)), seed)
    assert (run.differences, run.not_compared) == ([], [])


STORIES = ["live-delay", "live-in-flight", "live-redelivery", "live-000-1-stomp", "live-limit"]
STORIES += [story.name for story in feature_stories() if not ReferenceAdapter().refusal(story.program)]


#: What only a client past its library can do, said to a real socket.
PAST_THE_LIBRARY = [
    "a-life-that-overflows",
    "a-temporary-queue-and-its-end",
    "acknowledgements-without-an-end",
    "delivered-opens-slots",
    "every-type-of-acknowledgement",
    "expired-acknowledgement-of-a-range",
    "individual-acknowledgement-on-a-topic",
    "mq-users-with-authorities-of-their-own",
    "over-a-bridge-processed",
    "policy-replaces-the-default",
]


@pytest.mark.parametrize("name", PAST_THE_LIBRARY)
def test_what_only_our_own_client_says_agrees(laboratory: Laboratory, name: str) -> None:
    run, simulated, _ = run_parity(ReferenceAdapter(), laboratory, name, paced(programs()[name]))
    assert (run.differences, run.not_compared) == ([], [])
    skipped = [event.step["do"] for event in simulated.events if isinstance(event, Skipped)]
    assert set(skipped) <= {"leave"}  # the pacing says more goodbyes than there are consumers


def test_temporary_queues_of_jms_hosts_agree(laboratory: Laboratory) -> None:
    program = ThroughOpenWire(ReferenceAdapter()).cast(programs()["a-temporary-queue-and-its-end"])
    run, simulated, _ = run_parity(ReferenceAdapter(), laboratory, "temporary", paced(program))
    assert (run.differences, run.not_compared) == ([], [])
    assert [arrive.message for arrive in events(simulated, Arrive, "p0") if arrive.dest == "~p0"] == ["c0/1", "c0/2"]


def test_what_one_world_skips_is_not_compared(laboratory: Laboratory) -> None:
    run, _, _ = run_parity(ReferenceAdapter(), laboratory, "x", paced(programs()["absolute-delivery-time"]))
    assert run.differences == []
    assert any("deliver_in_ms" in step for step in run.not_compared)


@pytest.mark.parametrize("name", STORIES)
def test_stories_agree(laboratory: Laboratory, name: str) -> None:
    run, _, _ = run_parity(ReferenceAdapter(), laboratory, name, paced(stories()[name].program))
    assert (run.differences, run.not_compared) == ([], [])


def test_commands_to_a_queue_manager_are_about_the_queues_of_the_run(laboratory: Laboratory) -> None:
    program = programs()["mq-target-inhibited-at-the-release"]
    # Each second is a retry: puts are allowed again half-way between two, so that no machine is too late for one.
    steps = [
        msgspec.structs.replace(step, ms=2500) if isinstance(step, Advance) and step.ms == 3000 else step
        for step in program.steps
    ]
    assert steps != program.steps
    run, _, _ = run_parity(ReferenceAdapter(), laboratory, "x", paced(program.with_steps(steps)))
    assert (run.differences, run.not_compared) == ([], [])


def test_a_broker_that_is_set_otherwise_is_found_out(laboratory: Laboratory) -> None:
    """The same program, but only the live broker keeps dead letters of volatile messages."""
    program = paced(stories()["live-000-1-stomp"].program)
    steps = [
        msgspec.structs.replace(step, persistent=False) if hasattr(step, "ttl_ms") else step for step in program.steps
    ]
    volatile = program.with_steps(steps)
    strict = msgspec.structs.replace(
        volatile, broker=msgspec.structs.replace(volatile.broker, dead_letter_non_persistent=False)
    )
    live = LiveWorld(ReferenceAdapter(), laboratory).run(volatile)
    found = compare(SimulatedWorld().run(strict), live)
    assert ("outcome", "p0/1", "gone", "dead-letter") in [(d.what, d.about, d.simulated, d.live) for d in found]


def test_a_mutant_in_one_world_is_found_out(laboratory: Laboratory) -> None:
    program = paced(stories()["live-delay"].program)
    live = LiveWorld(ReferenceAdapter("delay-ignored"), laboratory).run(program)
    whats = {difference.what for difference in compare(SimulatedWorld().run(program), live)}
    assert {"order", "time until arrival"} <= whats


def test_the_programs_are_the_corpus_and_the_seeds() -> None:
    programs = list(parity_programs(3, 40))
    assert [name for name, _, _ in programs[-3:]] == ["seed-40", "seed-41", "seed-42"]
    assert [seed for _, _, seed in programs[-3:]] == [40, 41, 42]
    assert {"live-delay", "live-silent-link"} <= {name for name, _, _ in programs}


def test_the_command_says_so(
    laboratory: Laboratory, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    del laboratory
    whole = parity_programs
    monkeypatch.setattr(
        "brokerproof.conformance.commands.parity.parity_programs",
        lambda count, seed, names: list(whole(count, seed, names))[-count:],
    )
    assert main(["--programs", "2", "--seed", "5", "--json"]) == OK
    lines = [msgspec.json.decode(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["name"] for line in lines] == ["seed-5", "seed-6"]
    assert all(line["differences"] == [] for line in lines)
    assert main(["--programs", "1", "--seed", "7"]) == OK
    assert capsys.readouterr().out.startswith("seed-7: agree (")
