"""Small programs that show a broker's defect in seconds: each with defects that it was written for."""

from __future__ import annotations

import pytest

from brokerproof.conformance.corpus import programs
from brokerproof.conformance.experiment.verdict import VerdictKind
from brokerproof.conformance.running.engine import run_program


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
