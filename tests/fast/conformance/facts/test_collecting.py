"""The garbage collector waits while facts are found and judged, and goes on afterwards."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from brokerproof.conformance.facts.collecting import uncollected
from brokerproof.conformance.facts.facts import Facts
from brokerproof.conformance.rules.judge import judge_facts
from tests.fast.conformance.rules.history_builder import Builder


@pytest.fixture(autouse=True)
def _collected() -> Iterator[None]:
    yield
    gc.enable()


def test_it_waits_inside_and_goes_on_afterwards() -> None:
    with uncollected():
        assert not gc.isenabled()
        with uncollected():
            pass
        assert not gc.isenabled(), "who found it stopped must not let it go on"
    assert gc.isenabled()


def test_it_goes_on_after_an_error() -> None:
    with pytest.raises(ZeroDivisionError), uncollected():
        1 / 0  # noqa: B018  # it is to raise
    assert gc.isenabled()


def test_it_stays_stopped_where_the_caller_stopped_it() -> None:
    gc.disable()
    judge_facts(Facts(Builder().history()))
    assert not gc.isenabled()


def test_the_judge_does_not_wake_it(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bool] = []
    monkeypatch.setattr("brokerproof.conformance.facts.facts.tighten", lambda facts: seen.append(gc.isenabled()))
    judge_facts(Facts(Builder().history()))
    assert seen == [False]
    assert gc.isenabled()
