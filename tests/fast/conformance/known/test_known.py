"""Known deviations: marked, never hidden, and stale when they no longer fail."""

from __future__ import annotations

from pathlib import Path

import pytest

import brokerproof.conformance.known
from brokerproof.conformance.corpus import programs
from brokerproof.conformance.experiment.exits import SuiteProblem
from brokerproof.conformance.experiment.verdict import Verdict, VerdictKind
from brokerproof.conformance.known import apply_known, load_known, parse_known
from brokerproof.conformance.requirements.catalogue import default_catalogue

FOLDER = Path(brokerproof.conformance.known.__file__).parent
LIST = b"""
[[deviation]]
requirement = "TSP-009"
programs = ["live-future-only"]
reason = "it does"
source = "seen"
"""
PROGRAM = programs()["live-future-only"]


def test_a_violation_that_is_known_does_not_turn_the_run_red() -> None:
    known = parse_known(LIST, "x.toml")
    bad = Verdict("TSP-009", VerdictKind.VIOLATED, "moved-back", "violated", text="moved back by 5 ms")
    other = Verdict("TSP-001", VerdictKind.VIOLATED)
    marked, stale = apply_known("any program", PROGRAM, [bad, other], known)
    assert [verdict.verdict for verdict in marked] == [VerdictKind.KNOWN_FAILURE, VerdictKind.VIOLATED]
    assert marked[0].text == "moved back by 5 ms (known: it does)"
    assert stale == []


@pytest.mark.parametrize(
    ("needs", "is_excused"),
    [
        (["send"], True),
        (["send ttl_ms", "broker timestamping"], True),
        (["send", "restart"], False),
        (["host role=broker"], True),
        (["link monitor"], False),
        (["send count=77"], False),
        (["send count"], False),
        (["subscribe durable"], False),
    ],
)
def test_an_entry_excuses_only_programs_that_have_what_it_needs(needs: list[str], is_excused: bool) -> None:
    known = parse_known(LIST + f"needs = {needs}".encode(), "x.toml")
    bad = Verdict("TSP-009", VerdictKind.VIOLATED)
    (marked,), _ = apply_known("another", PROGRAM, [bad], known)
    assert (marked.verdict is VerdictKind.KNOWN_FAILURE) is is_excused


@pytest.mark.parametrize("need", ["sent", "send dlay_ms", "send dlay_ms=1", ""])
def test_what_no_program_can_have_is_not_needed(need: str) -> None:
    with pytest.raises(
        SuiteProblem, match=rf"x\.toml: .*needs: '{need}' names no step or part of a program, or no field of it"
    ):
        parse_known(LIST + f"needs = ['{need}']".encode(), "x.toml")


def test_what_no_longer_fails_is_stale_only_where_it_must_fail() -> None:
    known = parse_known(LIST, "x.toml")
    good = Verdict("TSP-009", VerdictKind.SATISFIED)
    assert apply_known("another", PROGRAM, [good], known) == ([good], [])
    marked, stale = apply_known("live-future-only", PROGRAM, [good], known)
    assert marked == [good]
    assert len(stale) == 1
    assert "x.toml" in stale[0]
    assert "TSP-009" in stale[0]
    assert "live-future-only" in stale[0]


@pytest.mark.parametrize("kind", [VerdictKind.NOT_RUN, VerdictKind.NOT_EXERCISED, VerdictKind.INCONCLUSIVE])
def test_what_was_not_decided_is_not_stale(kind: VerdictKind) -> None:
    assert apply_known("live-future-only", PROGRAM, [Verdict("TSP-009", kind)], parse_known(LIST, "x.toml"))[1] == []


def test_the_most_exact_list_counts(tmp_path: Path) -> None:
    for stem in ("activemq-5", "activemq-5.17", "activemq-5.17.9"):
        (tmp_path / f"{stem}.toml").write_bytes(LIST.replace(b"it does", stem.encode()))
    names = [load_known(label, tmp_path).name for label in ("activemq 5.17.2", "activemq 5.17.9", "activemq 5.18.3")]
    assert names == ["activemq-5.17.toml", "activemq-5.17.9.toml", "activemq-5.toml"]
    assert load_known("activemq 6.3.1", tmp_path).by_requirement == {}
    assert load_known("reference", tmp_path).by_requirement == {}


@pytest.mark.parametrize(
    ("data", "shows"),
    [
        (b"[[deviation]]\nrequirement = 5\n", "requirement"),
        (LIST + b"colour = 'red'\n", "colour"),
        (LIST + LIST, "twice"),
        (b"= nothing", "bad.toml"),
    ],
)
def test_a_bad_list_is_refused_by_name(data: bytes, shows: str) -> None:
    with pytest.raises(SuiteProblem, match=r"bad\.toml") as caught:
        parse_known(data, "bad.toml")
    assert shows in str(caught.value)


def test_what_shows_sometimes_is_never_stale_and_excuses_its_own_programs_only() -> None:
    known = parse_known(LIST + b"sometimes = true", "list.toml")
    bad, good = (Verdict("TSP-009", kind) for kind in (VerdictKind.VIOLATED, VerdictKind.SATISFIED))
    (marked,), stale = apply_known("live-future-only", PROGRAM, [bad], known)
    assert (marked.verdict, stale) == (VerdictKind.KNOWN_FAILURE, [])
    assert apply_known("live-future-only", PROGRAM, [good], known) == ([good], [])
    assert apply_known("another", PROGRAM, [bad], known) == ([bad], [])


def test_what_another_client_shows_must_fail_there_only() -> None:
    ours = parse_known(LIST, "list.toml")
    theirs = parse_known(LIST + b'client = "openwire"', "list.toml")
    bad, good = (Verdict("TSP-009", kind) for kind in (VerdictKind.VIOLATED, VerdictKind.SATISFIED))
    for known, stale_entries in (
        (ours, 1),
        (ours.through_openwire(), 0),
        (theirs, 0),
        (theirs.through_openwire(), 1),
    ):
        assert apply_known("another", PROGRAM, [bad], known)[0][0].verdict is VerdictKind.KNOWN_FAILURE
        assert len(apply_known("live-future-only", PROGRAM, [good], known)[1]) == stale_entries


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.toml")), ids=lambda path: path.stem)
def test_every_entry_names_things_that_exist(path: Path) -> None:
    known = parse_known(path.read_bytes(), path.name)
    for deviation in known.by_requirement.values():
        assert deviation.requirement in default_catalogue()
        assert default_catalogue()[deviation.requirement].status == "judged"
        assert deviation.programs, f"{deviation.requirement} must name the programs in which it shows"
        assert set(deviation.programs) <= set(programs())
        assert deviation.reason
        assert deviation.source
