"""The plan of a campaign: seeds become parts, parts that are made are not made again, the whole is proved."""

from __future__ import annotations

import msgspec
import pytest

from brokerproof.conformance.experiment.exits import SuiteProblem
from brokerproof.conformance.experiment.results import combined_digest
from brokerproof.conformance.experiment.verdict import Verdict, VerdictKind
from brokerproof.reports.campaign.plan import PART_MAX, Plan, check_seeds, digest_of, missing, part_name, parts_for
from brokerproof.reports.render.page import bound_text, percentiles_text
from brokerproof.reports.store.estimates import unseen_share, violation_bound
from brokerproof.reports.store.manifests import Manifest
from brokerproof.reports.store.schema import Cell, WorldCount


@pytest.mark.parametrize("programs", [1, 2, 7, 249, 2000, 100_001])
@pytest.mark.parametrize("slots", [1, 2, 16])
def test_every_seed_is_in_exactly_one_part(programs: int, slots: int) -> None:
    plan = Plan("x", "one", 40, programs, parts_for(programs, slots))
    ranges = [plan.seeds(part) for part in range(plan.parts)]
    assert [seed for seeds in ranges for seed in seeds] == list(range(40, 40 + programs))
    sizes = {len(seeds) for seeds in ranges}
    assert max(sizes) - min(sizes) <= 1
    assert 1 <= min(sizes) <= max(sizes) <= PART_MAX


def test_parts_are_neither_tiny_nor_few() -> None:
    assert parts_for(2000, 2) == 8
    assert parts_for(1_000_000, 2) == 1000
    assert parts_for(100, 2) == 2
    assert parts_for(1, 2) == 1


PLAN = Plan("x", "one", 10, 8, 4)
DIGESTS = [f"{number:064x}" for number in range(10, 18)]


def manifests() -> list[Manifest]:
    """Of all parts, and of the start: runs 10 to 17, with a digest each."""
    made = [Manifest("one", "start", "a", [])]
    for part in range(4):
        total = sum(int(digest, 16) for digest in DIGESTS[2 * part : 2 * part + 2])
        made.append(
            Manifest("one", part_name(part), "a", [], first=10 + 2 * part, runs=2, digest=f"{total:064x}", digested=2)
        )
    return made


def test_only_what_is_missing_is_run_again() -> None:
    made = manifests()
    assert missing(PLAN, made) == []
    assert missing(PLAN, [made[0], made[2]]) == [0, 2, 3]
    assert missing(PLAN, []) == [0, 1, 2, 3]


def test_the_digest_of_the_parts_is_that_of_the_runs() -> None:
    assert digest_of(PLAN, manifests()) == combined_digest(reversed(DIGESTS))
    assert digest_of(PLAN, manifests()) != combined_digest(DIGESTS[1:])
    assert combined_digest(DIGESTS) != combined_digest([*DIGESTS, DIGESTS[0]]), "twice is not once"


def test_no_digest_without_all_seeds() -> None:
    made = manifests()
    with pytest.raises(SuiteProblem, match=r"part-000001 has .* None, the plan has \(12, 2\); resume it"):
        digest_of(PLAN, [made[0], made[1], *made[3:]])
    short = [*made[:-1], msgspec.structs.replace(made[-1], runs=1)]
    with pytest.raises(SuiteProblem, match=r"part-000003 has .* \(16, 1\), the plan has \(16, 2\)"):
        digest_of(PLAN, short)


@pytest.mark.parametrize("rows", [[{"runs": 8, "seeds": 7}], [{"runs": 7, "seeds": 7}], []])
def test_tables_that_lost_or_doubled_a_seed_are_refused(rows: list[dict[str, int]]) -> None:
    check_seeds(PLAN, [{"runs": 8, "seeds": 8}])
    with pytest.raises(SuiteProblem, match="the plan has 8; no digest can be given"):
        check_seeds(PLAN, rows)


def test_a_page_says_how_much_could_still_be_violated() -> None:
    def cell(verdict: VerdictKind, satisfied: int) -> Cell:
        return Cell("b", Verdict("A-1", verdict), [WorldCount("simulated", {VerdictKind.SATISFIED: satisfied})])

    text = "None of 3,000 runs violated it: with 95 % confidence fewer than 0.10% of such runs do."
    assert bound_text(cell(VerdictKind.SATISFIED, 3000)) == text
    assert not bound_text(cell(VerdictKind.VIOLATED, 3000))
    assert not bound_text(cell(VerdictKind.SATISFIED, 29))
    assert not percentiles_text([])
    told = percentiles_text([-1_000_000, 0, 2_000_000_000])
    assert told == "1 % of the runs came to \u22121 ms or less, half to 0 ms or less, 99 % to 2 s or less"


def test_what_many_runs_allow_to_say() -> None:
    assert violation_bound(3000) == pytest.approx(0.001)
    assert violation_bound(2) == violation_bound(0) == 1
    assert unseen_share([1, 1, 8]) == pytest.approx(0.2)
    assert unseen_share([4, 6]) == 0
    assert unseen_share([]) == 1
