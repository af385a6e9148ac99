"""The codecs under damage: a small run of each engine (``python -m tests.fuzz`` does a million frames).

Method: the same targets for Hypothesis, which shrinks what it finds, for the seeded mutator and for atheris, which
looks for new branches. That the mutator reaches both the right and the wrong is asserted, so that it cannot rot.
"""

from __future__ import annotations

import importlib.util

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz.__main__ import atheris, own
from tests.fuzz.targets import NAMES, Mutator, Target, target
from tests.tools import not_run

FRAMES = 5000
TARGETS = {name: target(name) for name in NAMES}


def damaged(of: Target) -> st.SearchStrategy[bytes]:
    """A sample with up to three places written over, or anything at all."""
    change = st.tuples(st.floats(0, 1), st.integers(0, 4), st.binary(max_size=4) | st.sampled_from(of.words))

    def apply(sample: bytes, changes: list[tuple[float, int, bytes]]) -> bytes:
        data = bytearray(sample)
        for place, length, new in changes:
            at = int(place * len(data))
            data[at : at + length] = new
        return bytes(data)

    return st.builds(apply, st.sampled_from(of.samples), st.lists(change, max_size=3)) | st.binary(max_size=80)


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
@settings(max_examples=500, deadline=None)
def test_whatever_hypothesis_thinks_of(name: str, data: st.DataObject) -> None:
    of = TARGETS[name]
    of.run(data.draw(damaged(of)))


@pytest.mark.parametrize("name", NAMES)
def test_damaged_frames(name: str) -> None:
    assert own(name, FRAMES, seed=3) == []


def test_what_stays_in_memory_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A codec that keeps eighty bytes of every frame is found out."""
    of = TARGETS["stomp"]
    kept: list[bytes] = []

    def leaking(data: bytes) -> bool:
        kept.append(bytes(80))
        return of.run(data)

    monkeypatch.setattr("tests.fuzz.__main__.target", lambda _: Target(leaking, of.samples, of.words))
    (found,) = own("stomp", FRAMES, seed=3)
    assert "memory grew by" in found


@pytest.mark.parametrize("name", NAMES)
def test_the_mutator_reaches_right_and_wrong(name: str) -> None:
    of = TARGETS[name]
    assert sum(of.run(sample) for sample in of.samples) > len(of.samples) / 4
    mutator = Mutator(of, 1)
    found = [of.run(mutator.next()) for _ in range(300)]
    assert 0.02 < sum(found) / len(found) < 0.9


@pytest.mark.parametrize("name", NAMES)
def test_branches_that_atheris_finds(name: str) -> None:
    if importlib.util.find_spec("atheris") is None:
        not_run("atheris is not installed: pip install 'brokerproof[fuzz]'")
    assert atheris(name, 2000, seed=1) == []
