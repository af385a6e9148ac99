"""The live stories in the simulated world, on the reference broker: every message must end as the story tells."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

import brokerproof.conformance.corpus
from brokerproof.conformance.brokers.pacing import real_ms
from brokerproof.conformance.corpus import programs
from brokerproof.conformance.corpus.stories import file_text, main, stories
from brokerproof.conformance.experiment.program import check_program
from brokerproof.conformance.running.live import REAL_MS_MAX
from brokerproof.conformance.running.outcomes import outcomes
from brokerproof.conformance.worlds.simulated.world import SimulatedWorld

FOLDER = Path(brokerproof.conformance.corpus.__file__).parent


@pytest.mark.parametrize("name", stories())
def test_it_ends_as_it_is_told(name: str) -> None:
    story = stories()[name]
    check_program(story.program, name)
    assert outcomes(SimulatedWorld().run(story.program)) == story.outcomes


@pytest.mark.parametrize("name", stories())
def test_the_file_is_the_story(name: str) -> None:
    assert (FOLDER / f"{name}.json").read_bytes() == file_text(stories()[name].program), (
        "run: python -m brokerproof.conformance.corpus.stories"
    )
    assert programs()[name] == stories()[name].program


def test_no_live_file_is_left_over() -> None:
    files = {path.stem for path in FOLDER.glob("live-*.json")}
    assert files == set(stories())


def test_writing_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("brokerproof.conformance.corpus.stories.__file__", str(tmp_path / "stories.py"))
    assert main() == 0
    assert sorted(path.name for path in tmp_path.glob("*.json")) == sorted(f"{name}.json" for name in stories())


def test_all_rows_of_the_table_are_there() -> None:
    """The rows that the feasibility study measured on the real broker."""
    rows = {name.removeprefix("live-000-") for name in stories()}
    wanted = {"1", "2", "1-plugin", "2-plugin", "2-future", "2-unchecked", "3", "3-unchecked", "3-stomp", "6", "4", "5"}
    assert wanted | {"7", "8", "9", "12", "13", "14", "1-stomp", "10", "11", "1-volatile"} <= rows


def test_every_story_fits_into_real_time() -> None:
    assert all(real_ms(story.program) <= REAL_MS_MAX for story in stories().values())


def test_an_outcome_can_be_wrong() -> None:
    """The same row on a broker whose clock is right ends otherwise."""
    story = stories()["live-000-1-stomp"]
    hosts = [
        msgspec.structs.replace(host, clock=msgspec.structs.replace(host.clock, offset_ms=0))
        for host in story.program.hosts
    ]
    right = msgspec.structs.replace(story.program, hosts=hosts)
    assert outcomes(SimulatedWorld().run(right)) == {"p0/1": "consumed"}
