"""Guard: the catalogue is honest (DESIGN section 4).

A judged requirement has an oracle that exists and claims it, and mutants that exist and name it; seeds' sentences carry
their hash; ids never come back. That the mutants really die is shown by tests/quality/test_mutants.py.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from brokerproof.conformance.mutants import MUTANTS
from brokerproof.conformance.oracles import ORACLES
from brokerproof.conformance.requirements.baseline import BASELINE
from brokerproof.conformance.requirements.catalogue import default_catalogue
from brokerproof.conformance.requirements.sources import stale_sources


def test_judged_requirements_have_oracles_that_claim_them() -> None:
    claimed = {requirement: oracle.name for oracle in ORACLES for requirement in oracle.requirements}
    for requirement in default_catalogue().judged():
        assert claimed.get(requirement.id) == requirement.oracle, (
            f"{requirement.id}: no oracle {requirement.oracle!r} claims it"
        )


def test_oracles_claim_nothing_unknown() -> None:
    judged = {requirement.id for requirement in default_catalogue().judged()}
    for oracle in ORACLES:
        assert set(oracle.requirements) <= judged, f"oracle {oracle.name} claims {set(oracle.requirements) - judged}"


def test_mutants_exist_and_name_requirements() -> None:
    judged = {requirement.id: requirement for requirement in default_catalogue().judged()}
    for requirement in judged.values():
        for mutant in requirement.mutants:
            assert mutant in MUTANTS, f"{requirement.id} names mutant {mutant!r}, which does not exist"
    for mutant in MUTANTS.values():
        assert mutant.requirement in judged, (
            f"mutant {mutant.id} must be caught by {mutant.requirement}, which is not judged"
        )


def test_judged_never_goes_back() -> None:
    """``BASELINE`` lists what is judged, every one; an id is added to it and never taken out."""
    now = {requirement.id for requirement in default_catalogue().judged()}
    assert set(BASELINE) - now == set(), "no longer judged"
    assert now - set(BASELINE) == set(), "judged, and could go back unseen; add it to BASELINE"
    assert list(BASELINE) == sorted(set(BASELINE))


def test_sources_of_seeds_carry_hashes() -> None:
    for requirement in default_catalogue():
        for source in requirement.source:
            if source.seed is not None:
                assert source.sentence is not None, f"{requirement.id}: which sentence of seed {source.seed}?"
                assert source.sha256 is not None, f"{requirement.id}: the sentence's hash is missing"


def test_seeds_still_say_what_is_quoted() -> None:
    """Runs where the seeds are (``BROKERPROOF_SEEDS=folder``); a clean clone checks the form of the hashes only."""
    folder = os.environ.get("BROKERPROOF_SEEDS")
    sources = [source for entry in default_catalogue() for source in entry.source if source.seed is not None]
    assert all(re.fullmatch(r"[0-9a-f]{64}", source.sha256 or "") for source in sources)
    if folder is not None:
        assert stale_sources(list(default_catalogue()), Path(folder)) == []
