"""Small programs that show a broker's defect in seconds: each with defects that it was written for."""

from __future__ import annotations

import pytest

from brokerproof.conformance.corpus import programs
from brokerproof.conformance.experiment.verdict import VerdictKind
from brokerproof.conformance.running.engine import run_program
from brokerproof.reference_broker.core.groups import Grouping
from brokerproof.reference_broker.core.queue import Queue


@pytest.mark.parametrize(
    ("name", "mutant", "requirement"),
    [
        ("a-group-among-three-consumers", "group-torn", "GEN-024"),
        ("a-large-transaction", "transaction-loses-last", "GEN-009"),
        ("a-large-transaction", "transaction-sends-at-once", "GEN-060"),
        ("groups-across-a-restart", "group-torn", "GEN-024"),
        ("comes-back-before-the-backlog", "redelivery-unmarked", "RDL-002"),
        ("comes-back-before-the-backlog", "returns-reversed", "RDL-005"),
        ("exclusive-successor-alone", "exclusive-ignored", "GEN-023"),
        ("order-within-a-priority", "order-shuffled", "GEN-003"),
        ("selectors-of-every-form", "selector-unknown-is-true", "GEN-020"),
        ("stored-whatever-it-is", "journal-forgets-message", "GEN-080"),
    ],
)
def test_it_shows_what_it_was_written_for(name: str, mutant: str, requirement: str) -> None:
    program = programs()[name]
    for planted in (None, mutant):
        verdicts = run_program(program, name, mutant=planted).verdicts
        violated = {verdict.requirement for verdict in verdicts if verdict.verdict is VerdictKind.VIOLATED}
        assert (requirement in violated) if planted else not violated


def violated_in(name: str) -> set[str]:
    """What a program of the corpus violates."""
    verdicts = run_program(programs()[name], name).verdicts
    return {verdict.requirement for verdict in verdicts if verdict.verdict is VerdictKind.VIOLATED}


def test_a_closed_group_that_keeps_its_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not violated_in("a-group-that-is-closed")
    monkeypatch.setattr(Grouping, "closes", lambda *_: False)
    assert violated_in("a-group-that-is-closed") == {"GEN-183"}


def test_a_window_for_each_queue_of_a_wildcard(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "one-window-for-all-that-a-wildcard-covers"
    assert not violated_in(name)
    monkeypatch.setattr(Queue, "window_closed", lambda *_: None)
    assert "PRE-001" in violated_in(name)
