"""INF-010 and RDL-007 on hand-written histories."""

from __future__ import annotations

import pytest

from brokerproof.conformance.experiment.verdict import VerdictKind
from brokerproof.conformance.oracles.transactions import TransactionOracle
from tests.fast.chronicle import Chronicle

HOLDS = VerdictKind.SATISFIED
FAILS = VerdictKind.VIOLATED
SILENT = VerdictKind.NOT_EXERCISED
CTX = "c0/tx1"


def outcome(story: Chronicle, requirement: str) -> tuple[VerdictKind, str]:
    verdict = story.judge(TransactionOracle)[requirement]
    return verdict.verdict, verdict.outcome


def pledged(count: int = 2, dest: str = "q0") -> Chronicle:
    """A consumer has acknowledged what it holds in a transaction that is still open."""
    story = Chronicle().connect("p0").connect("c0").connect("c1")
    names = [f"p0/{number}" for number in range(1, count + 1)]
    for name in names:
        story.send(name, dest)
    story.subscribe("c0/1", dest).arrive("c0/1", *names).consume("c0/1", *names).begin("c0")
    return story.ack("c0/1", *names, tx=CTX)


# -- INF-010


@pytest.mark.parametrize("undone", [False, True])
@pytest.mark.parametrize(("figures", "expected"), [((3, 3), HOLDS), ((2, 2), HOLDS), ((1, 3), FAILS), ((3, 1), FAILS)])
def test_acknowledgements_have_no_effect_before_the_commit(
    undone: bool, figures: tuple[int, int], expected: VerdictKind
) -> None:
    story = pledged()
    if undone:
        story.abort("c0")
    assert outcome(story.rest(in_flight=figures[0], size=figures[1]), "INF-010")[0] is expected


@pytest.mark.parametrize("excuse", ["committed", "purged", "left", "topic", "again"])
def test_figures_that_may_be_lower(excuse: str) -> None:
    story = pledged(dest="t0" if excuse == "topic" else "q0")
    if excuse == "committed":
        story.commit("c0")
    elif excuse == "purged":
        story.operate("purge")
    elif excuse == "left":
        story.leave("c0/1")
    elif excuse == "again":
        story.abort("c0").ack("c0/1", "p0/1", "p0/2")
    assert outcome(story.rest("t0" if excuse == "topic" else "q0", in_flight=0, size=0), "INF-010")[0] is SILENT
