"""Beats that are skipped (``worlds/simulated/keep_alives.py``) change no history and save most of what is played."""

from __future__ import annotations

import pytest

from brokerproof.conformance.corpus import programs
from brokerproof.conformance.experiment.program import Program
from brokerproof.conformance.generate.programs import program_for_seed
from brokerproof.conformance.worlds.simulated import port
from brokerproof.conformance.worlds.simulated.world import SimulatedWorld

pytestmark = pytest.mark.skipif(not port.__file__.endswith(".py"), reason="a compiled module is not patched")
#: Programs of the corpus about monitors, stalls, pauses and slow links: where a beat can matter.
DELICATE = ("inactiv", "monitor", "stall", "pause", "slow", "heart", "beat", "delay", "restart")


def _play(played: list[Program]) -> tuple[list[bytes], int]:
    histories, happened = [], 0
    for program in played:
        world = SimulatedWorld()
        histories.append(world.run(program).encode())
        happened += world.progress()
    return histories, happened


def test_histories_are_equal_with_every_beat_played(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = [program for name, program in programs().items() if any(word in name for word in DELICATE)]
    played = [*chosen, *(program_for_seed(seed) for seed in range(60))]
    histories, happened = _play(played)
    monkeypatch.setattr(port, "skip_beats", lambda *_: None)
    every, played_beats = _play(played)
    assert histories == every
    assert 2 * happened < played_beats
