"""Commands over several brokers and releases: which they are, what is said of each, and the exit code."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from brokerproof.conformance.brokers import releases_of
from brokerproof.conformance.cli import main as brokerproof
from brokerproof.conformance.experiment.exits import INCONCLUSIVE, OK, SUITE, USAGE, VIOLATED
from brokerproof.reports.commands import bisect, matrix

KNOWN = ["1.0", "1.1", "1.2", "2.0", "2.1"]


@pytest.mark.parametrize(
    ("codes", "code"),
    [
        ({}, OK),
        ({"mosquitto": VIOLATED, "artemis": INCONCLUSIVE}, VIOLATED),
        ({"artemis": INCONCLUSIVE}, INCONCLUSIVE),
        ({"artemis": SUITE}, OK),
        ({"artemis": SUITE, "mosquitto": SUITE, "activemq@5.12.3": SUITE}, SUITE),
    ],
)
def test_each_broker_runs_and_the_worst_counts(
    codes: dict[str, int], code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ran = []

    def run(words: Sequence[str]) -> tuple[int, str]:
        ran.append(words[2])
        assert words[words.index("--budget") + 1] == "5.0"
        assert words[words.index("--requirement") + 1] == "EXP-*"
        return codes.get(words[2], OK), "noise\nno Java\n"

    brokers = ["artemis", "mosquitto", "activemq@5.12.3"]
    assert matrix.main([*brokers, "--out", str(tmp_path), "--budget", "5", "--requirement", "EXP-*"], run) == code
    assert ran == brokers
    told = capsys.readouterr().out
    for broker in brokers:
        assert (f"not run: {broker}: no Java" in told) == (codes.get(broker) == SUITE)


def test_everything_has_all_releases_and_no_broker_twice() -> None:
    names = matrix.everything()
    assert len(names) == len(set(names))
    assert {f"activemq@{release}" for release in releases_of("activemq")} <= set(names)
    assert {"artemis", "reference"} <= set(names)
    assert len(names) >= 14


@pytest.mark.parametrize(
    ("deviating", "untold", "said"),
    [
        ({"2.0", "2.1"}, set(), "2.0 is the first release that deviates; 1.2 holds"),
        ({"2.1"}, set(), "2.1 is the first release that deviates; 2.0 holds"),
        ({"1.0", "1.1"}, set(), "1.2 is the first release that holds again; 1.1 deviates"),
        (set(), set(), "1.0 and 2.1 hold alike"),
        (set(KNOWN), set(), "1.0 and 2.1 deviate alike"),
        ({"2.0", "2.1"}, {"1.2"}, "2.0 is the first release that deviates; 1.1 holds (1.2 could not be told)"),
        (
            {"2.0", "2.1"},
            {"1.0", "2.1"},
            "2.0 is the first release that deviates; 1.2 holds (1.0, 2.1 could not be told)",
        ),
        (set(), set(KNOWN), "none of 1.0, 1.1, 1.2, 2.0, 2.1 can be told"),
    ],
)
def test_the_first_release_that_deviates(deviating: set[str], untold: set[str], said: str) -> None:
    answer, found = bisect.first_deviating(KNOWN, lambda one: (None if one in untold else one in deviating, ""))
    assert answer == said
    assert found == (untold != set(KNOWN))


def test_no_release_is_played_twice() -> None:
    played: list[str] = []
    bisect.first_deviating(KNOWN, lambda one: (played.append(one) is None and one > "1.1", ""))
    assert len(played) == len(set(played)) < len(KNOWN)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["DLY-006", "--broker", "artemis"], "no releases to choose from"),
        (["DLY-006", "--releases", "5.12.3"], "5.12.3"),
        (["DLY-006", "--releases", "6.1.8..5.12.3"], "write for example 5.8.0..6.3.1"),
        (["DLY-999"], "is unknown"),
    ],
)
def test_bad_input_says_what_is_right(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert brokerproof(["bisect", *words]) == USAGE
    assert said in capsys.readouterr().err


def test_a_release_that_leaves_no_report_is_not_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["DLY-006", "--releases", "5.8.0..5.12.3", "--out", str(tmp_path)]
    assert bisect.main(words, lambda _: (SUITE, "Maven is not here\n")) == SUITE
    assert "5.9.1: Maven is not here" in capsys.readouterr().out
