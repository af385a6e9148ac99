"""Guard: the catalogue is honest (DESIGN section 4).

A judged requirement has a rule whose docstring is its sentence, and mutants that exist and name it; sentences of seeds
carry their hash; ids never come back. That mutants really die is shown by tests/quality/test_mutants.py.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from brokerproof.conformance.mutants import MUTANTS
from brokerproof.conformance.requirements.baseline import BASELINE
from brokerproof.conformance.requirements.catalogue import default_catalogue
from brokerproof.conformance.requirements.sources import stale_sources
from brokerproof.conformance.rules.areas import RULES


def test_every_judged_requirement_has_a_rule_and_no_other_has() -> None:
    assert sorted(RULES) == sorted(requirement.id for requirement in default_catalogue().judged())


def test_docstrings_are_the_catalogues_sentences() -> None:
    sentences = {requirement.id: requirement.sentence for requirement in default_catalogue()}
    assert {name: rule.sentence for name, rule in RULES.items()} == {name: sentences[name] for name in RULES}


def test_what_is_not_judged_says_why() -> None:
    unsaid = [one.id for one in default_catalogue() if bool(one.reason) is (one.status == "judged")]
    assert unsaid == []


def test_mutants_exist_and_name_requirements() -> None:
    judged = {requirement.id: requirement for requirement in default_catalogue().judged()}
    for requirement in judged.values():
        for mutant in requirement.mutants:
            assert mutant in MUTANTS, f"{requirement.id} names mutant {mutant!r}, which does not exist"
    for mutant in MUTANTS.values():
        assert mutant.requirement in judged, (
            f"mutant {mutant.id} must be caught by {mutant.requirement}, which is not judged"
        )
        listed = judged[mutant.requirement].mutants
        assert mutant.id in listed, f"{mutant.requirement} does not list its mutant {mutant.id}"


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
