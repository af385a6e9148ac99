"""Known deviations: marked, never hidden, and stale when they no longer fail."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

import brokerproof.conformance.known
from brokerproof.conformance.corpus import programs
from brokerproof.conformance.experiment.configuration import PolicySpec
from brokerproof.conformance.experiment.exits import SuiteProblem
from brokerproof.conformance.experiment.verdict import Verdict, VerdictKind, Violation
from brokerproof.conformance.known import apply_known, load_known, parse_known
from brokerproof.conformance.requirements.catalogue import default_catalogue
from tests.fast.conformance.rules.history_builder import Builder

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
        (["policy memory_limit_bytes"], False),
        (["policy expire_period_ms!=0"], True),
        (["policy expire_period_ms!=1000"], False),
        (["restart | send"], True),
        (["restart | subscribe durable"], False),
    ],
)
def test_an_entry_excuses_only_programs_that_have_what_it_needs(needs: list[str], is_excused: bool) -> None:
    known = parse_known(LIST + f"needs = {needs}".encode(), "x.toml")
    bad = Verdict("TSP-009", VerdictKind.VIOLATED)
    (marked,), _ = apply_known("another", PROGRAM, [bad], known)
    assert (marked.verdict is VerdictKind.KNOWN_FAILURE) is is_excused


@pytest.mark.parametrize("need", ["sent", "send dlay_ms", "send dlay_ms=1", "send dlay_ms!=1", "", "send | sent"])
def test_what_no_program_can_have_is_not_needed(need: str) -> None:
    with pytest.raises(
        SuiteProblem,
        match=rf"x\.toml: .*needs: '{need.rpartition(' | ')[2]}' names no step or part of a program, or no field of it",
    ):
        parse_known(LIST + f"needs = ['{need}']".encode(), "x.toml")


def test_an_entry_may_need_a_part_of_a_policy() -> None:
    known = parse_known(LIST + b"needs = ['policy send_fail_if_no_space', 'policy memory_limit_bytes=16384']", "x.toml")
    bad = Verdict("TSP-009", VerdictKind.VIOLATED)
    for settings, kind in (
        ({"memory_limit_bytes": 16384}, VerdictKind.VIOLATED),
        ({"memory_limit_bytes": 16384, "send_fail_if_no_space": True}, VerdictKind.KNOWN_FAILURE),
    ):
        broker = msgspec.structs.replace(PROGRAM.broker, policies=[PolicySpec(), PolicySpec("q0", **settings)])
        program = msgspec.structs.replace(PROGRAM, broker=broker)
        assert apply_known("another", program, [bad], known)[0][0].verdict is kind


def test_an_entry_excuses_only_verdicts_that_show_what_it_shows() -> None:
    known = parse_known(LIST + b"shows = ', delay '", "x.toml")
    for text, kind in (("p0/1, delay 5 ms", VerdictKind.KNOWN_FAILURE), ("p0/1", VerdictKind.VIOLATED)):
        bad = Verdict("TSP-009", VerdictKind.VIOLATED, text=text)
        assert apply_known("live-future-only", PROGRAM, [bad], known)[0][0].verdict is kind


REFUSES = programs()["delays-end-while-a-queue-refuses"]


@pytest.mark.parametrize(
    ("match", "text", "is_excused"),
    [
        ("q0", "p0/1 sent to q0 (ok) in 1 ms", True),
        (">", "p0/1 sent to q0 (ok) in 1 ms", True),
        ("q1", "p0/1 sent to q0 (ok) in 1 ms", False),  # it has nothing to do with the message
        ("q1", "p0/1 sent to q7 (ok) in 1 ms", True),  # nobody knows where that is
        ("q1", "it is gone", True),
    ],
)
def test_the_policy_of_another_destination_excuses_nothing(match: str, text: str, is_excused: bool) -> None:
    (deviation,) = parse_known(LIST + b'needs = ["policy send_fail_if_no_space"]', "x.toml").deviations
    other = [PolicySpec(), PolicySpec(match, send_fail_if_no_space=True)] if match != ">" else REFUSES.broker.policies
    program = msgspec.structs.replace(REFUSES, broker=msgspec.structs.replace(REFUSES.broker, policies=other))
    assert deviation.excuses("another", program, text) is is_excused


def test_what_came_before_is_no_cause() -> None:
    (deviation,) = parse_known(LIST + b'needs = ["send delay_ms", "commit"]\nordered = true', "x.toml").deviations
    assert deviation.excuses("another", REFUSES)
    steps = sorted(REFUSES.steps, key=lambda step: step.__struct_config__.tag != "commit")
    assert not deviation.excuses("another", REFUSES.with_steps(steps))


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
    assert load_known("activemq 6.3.1", tmp_path).deviations == []
    assert load_known("reference", tmp_path).deviations == []


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
    for deviation in known.deviations:
        assert deviation.requirement in default_catalogue()
        assert default_catalogue()[deviation.requirement].status == "judged"
        assert deviation.programs, f"{deviation.requirement} must name the programs in which it shows"
        assert set(deviation.programs) <= set(programs())
        assert deviation.reason
        assert deviation.source


SECOND = LIST.replace(b"it does", b"another cause") + b"needs = ['restart']\n"
THIRD = LIST.replace(b"it does", b"a third") + b"needs = ['send']\n"


def test_two_causes_of_one_requirement_are_told_apart_by_what_they_need() -> None:
    known = parse_known(SECOND + THIRD, "x.toml")
    bad, good = (Verdict("TSP-009", kind) for kind in (VerdictKind.VIOLATED, VerdictKind.SATISFIED))
    (marked,), _ = apply_known("another", PROGRAM, [bad], known)
    assert (marked.verdict, marked.text) == (VerdictKind.KNOWN_FAILURE, " (known: a third)")
    assert apply_known("another", PROGRAM, [bad], parse_known(SECOND, "x.toml"))[0] == [bad]
    assert len(apply_known("live-future-only", PROGRAM, [good], known)[1]) == 1
    assert [one.reason for one in known.of("TSP-009")] == ["another cause", "a third"]
    assert known.of("TSP-001") == []


def test_who_names_the_program_is_its_cause() -> None:
    other = THIRD.replace(b"live-future-only", b"live-delay")
    known = parse_known(other + LIST, "x.toml")
    bad = Verdict("TSP-009", VerdictKind.VIOLATED)
    texts = [apply_known(name, PROGRAM, [bad], known)[0][0].text for name in ("live-future-only", "live-delay")]
    assert texts == [" (known: it does)", " (known: a third)"]


@pytest.mark.parametrize(
    ("releases", "release", "is_seen"),
    [
        ("5.16..5.17", "5.16.7", True),
        ("5.16..5.17", "5.17.6", True),
        ("5.16..5.17", "5.18.3", False),
        ("5.16..5.17", "5.15.16", False),
        ("5.16.7..", "6.3.1", True),
        ("..5.16", "5.16.7", True),
        ("..5.16", "5.2.0", True),
        ("", "5.16.7", False),
    ],
)
def test_a_release_without_a_list_has_the_entries_that_were_seen_on_it(
    tmp_path: Path, releases: str, release: str, is_seen: bool
) -> None:
    (tmp_path / "activemq-5.12.toml").write_bytes(LIST)
    (tmp_path / "activemq-jms-5.16.toml").write_bytes(LIST)
    (tmp_path / "activemq-5.99.toml").write_bytes(LIST + f"releases = '{releases}'".encode())
    known = load_known(f"activemq {release}", tmp_path)
    assert (known.name, len(known.deviations)) == (("activemq-5.99.toml", 1) if is_seen else ("", 0))
    own = load_known("activemq 5.12.3", tmp_path)
    assert (own.name.split(", ")[-1], len(own.deviations)) == ("activemq-5.12.toml", 1)


def test_a_release_with_a_list_has_those_entries_beside_it(tmp_path: Path) -> None:
    (tmp_path / "activemq-6.1.toml").write_bytes(LIST)
    other = LIST.replace(b"TSP-009", b"TSP-002") + b"releases = '5.12..6.1'"
    (tmp_path / "activemq-5.17.toml").write_bytes(LIST.replace(b"it does", b"otherwise") + other)
    known = load_known("activemq 6.1.8", tmp_path)
    assert {entry.requirement: entry.reason for entry in known.deviations} == {
        "TSP-009": "it does",
        "TSP-002": "it does",
    }
    assert load_known("activemq 5.17.2", tmp_path).deviations[0].reason == "otherwise"


@pytest.mark.parametrize("releases", ["5.16", "5.16-5.17", "a..b", ".."])
def test_what_is_no_range_of_releases_is_refused(releases: str) -> None:
    with pytest.raises(SuiteProblem, match=rf"x\.toml: .*releases: '{releases}' is no range; write such as"):
        parse_known(LIST + f"releases = '{releases}'".encode(), "x.toml")


def test_what_is_known_hides_no_other_violation_of_the_same_run() -> None:
    known = parse_known(LIST + b"shows = 'moved back'", "x.toml")
    other = Violation("not moved at all", "never", [4], -7)
    bad = Verdict("TSP-009", VerdictKind.VIOLATED, "back", "violated", text="moved back by 5 ms", further=[other])
    (marked,), _ = apply_known("any program", PROGRAM, [bad], known)
    assert (marked.verdict, marked.text, marked.outcome) == (VerdictKind.VIOLATED, "not moved at all", "never")
    assert (marked.witness, marked.slack_ns) == ([4], -7)
    assert [one.text for one in marked.further] == ["moved back by 5 ms"]
    alike = msgspec.structs.replace(bad, further=[Violation("moved back by 9 ms")])
    (marked,), _ = apply_known("any program", PROGRAM, [alike], known)
    assert marked.verdict is VerdictKind.KNOWN_FAILURE


@pytest.mark.parametrize(
    ("text", "is_excused"),
    [
        ("lost: p0/1 arrived at c0/1 from q0 at 5 ms", True),
        ("lost: p0/1 arrived at c0/2 from q0 at 5 ms", False),
        ("c0/2 had settled it: p0/1 arrived at drain/1 from q0 at 5 ms", False),
        ("ack of p0/1 by c0/1 (unknown) at 5 ms", True),
        ("it was never settled: p0/1 sent to q0 (ok) in 1 ms to 2 ms", True),
        ("it was never settled: p0/1 sent to q1 (ok) in 1 ms to 2 ms", False),
    ],
)
def test_an_entry_about_a_kind_of_consumer_excuses_what_such_consumers_met(text: str, is_excused: bool) -> None:
    story = Builder("live").connect("c0").subscribe("c0/1", "q0", ack="individual").subscribe("c0/2", "q1", ack="auto")
    story.subscribe("drain/1", "q1", ack="individual")
    for consumer in ("ack=individual", "ack!=auto"):
        known = parse_known(LIST + f"consumer = '{consumer}'".encode(), "x.toml")
        bad = Verdict("TSP-009", VerdictKind.VIOLATED, text=text)
        (marked,), _ = apply_known("any program", PROGRAM, [bad], known, story.history())
        assert (marked.verdict is VerdictKind.KNOWN_FAILURE) is is_excused


@pytest.mark.parametrize("consumer", ["ack", "acks=client", "ack="])
def test_no_consumer_has_what_no_subscription_has(consumer: str) -> None:
    with pytest.raises(SuiteProblem, match=rf"x\.toml: .*consumer: '{consumer}' names no field of a subscription"):
        parse_known(LIST + f"consumer = '{consumer}'".encode(), "x.toml")
