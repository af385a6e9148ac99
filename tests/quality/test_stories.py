"""Every story, simulated, both ways: as documented on the reference broker, and not under what must break it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from brokerproof.chaos.brokers.jars import DEBIAN_VERSION
from brokerproof.conformance.brokers.activemq import ActiveMQAdapter
from brokerproof.conformance.brokers.reference import ReferenceAdapter
from brokerproof.conformance.cli import main
from brokerproof.conformance.experiment.exits import OK, USAGE, VIOLATED
from brokerproof.conformance.experiment.operations import Advance, Operation
from brokerproof.conformance.experiment.program import Program
from brokerproof.conformance.experiment.results import RunResult
from brokerproof.conformance.experiment.steps import Counters, Probe
from brokerproof.conformance.operating.retrospect import compared, diagnosed
from brokerproof.conformance.running.break_even import search
from brokerproof.conformance.running.telling import Runner, breaking, hastened, play, simulated, unshown
from brokerproof.conformance.stories import Half, staging, stories
from brokerproof.conformance.stories.break_even import POLICIES
from brokerproof.conformance.worlds.port import NotOfferedError
from brokerproof.conformance.worlds.simulated.port import SimulatedPort
from brokerproof.reports.render.curves import curves
from tests.tools import at_night

NAMES = sorted(stories())
#: 30,000 messages take a minute of processor time each time that they are told.
LONG = {"003-thirty-thousand"}
DAILY = {*NAMES} - LONG
#: What the commands of operators must say of the worst instant, story by story: answers that are a yes.
STARVING = {"idle-consumers", "no-memory", "broker-memory", "holders", "starvation"}
DEAD = {"clocks-differ", "dead-on-arrival", "ttl"}
DISCARDED = {"clocks-differ", "discarded-by-consumers", "ttl"}
WASTED = {"wasted-dispatches"}
#: Said as well, and nobody's trouble.
BESIDE = {"asynchronous-dispatch"}
#: Document or story, the most exact counts.
DIAGNOSES: dict[str, set[str]] = {
    "002": STARVING,
    "002-slow-neighbour": {"broker-memory", "slowed"},
    "003": {"negative-in-flight", *WASTED},
    "003-wasted-dispatches": WASTED,
    "003-synchronous": WASTED,
    "000-broker-ahead": DEAD,
    "000-longer-life": DEAD,
    "000-a-day": DEAD,
    "000-time-zone": DEAD,
    "000-reply-thrown-away": DISCARDED,
    "000-two-consumers": DISCARDED,
    "000-consumer-ahead-an-hour": DISCARDED,
    "000-discarded": {*DISCARDED, "plug-in"},
    "000-consumer-ahead-plug-in": {*DISCARDED, "plug-in"},
    "000-camel-request-reply": {*DISCARDED, "plug-in"},
    "000-broker-behind": {"lives-longer"},
    "000-ceiling": {"plug-in"},
    "000-network-honours": DEAD,
    "000-network-plug-in": DEAD,
    "000-network-relative": DEAD,
    "004": set(),
    "004-shorter-life": {"ttl"},
    "004-expiry-error": {"ttl"},
    "004-network-delay": DEAD,
}


@pytest.mark.parametrize("name", at_night(NAMES, but=DAILY))
def test_both_halves_behave_as_documented(name: str) -> None:
    for half in play(stories()[name], simulated()):
        assert half.holds, [check for check in half.checks if not check.holds]
        assert half.result.history is not None
        assert curves(half.result.history, stories()[name].curve), "nothing is drawn"


@pytest.mark.parametrize("name", at_night(NAMES, but=DAILY))
def test_it_can_fail(name: str) -> None:
    assert any(half.fails for half in breaking(stories()[name])), stories()[name].breaks


@pytest.mark.parametrize("name", at_night([name for name in NAMES if stories()[name].curve != "links"], but=DAILY))
def test_the_worst_instant_is_diagnosed(name: str) -> None:
    story = stories()[name]
    history = next(play(story, simulated())).result.history
    assert history is not None
    found = compared(history) if story.curve == "clocks" else diagnosed(history, story.curve)
    assert found is not None
    wanted = DIAGNOSES.get(name, DIAGNOSES.get(story.document))
    assert wanted == {answer.id for answer in found[-1] if answer.answer == "yes"} - BESIDE
    counted = [re.search(r"(\d+) dispatched, (\d+) of them", text) for one in found[-1] for text in one.values]
    assert all(int(one[1]) >= int(one[2]) for one in counted if one), counted


def test_the_break_even_skew_is_where_theory_has_it() -> None:
    found = {policy: search(policy, simulated(), 8) for policy in POLICIES[:3]}
    assert all(one.agrees for one in found.values())
    assert [one.broken_ms is None for one in found.values()] == [False, True, False]
    assert not any(search(policy, simulated("expiry-never"), 8).agrees for policy in POLICIES[:1])


def test_speed_shortens_what_does_not_depend_on_clocks() -> None:
    slow, quick = stories()["001-defaults"], hastened(stories()["001-defaults"], 10)
    ends = [next(play(story, simulated())).result.history for story in (slow, quick)]
    lengths = [history.events[-1].t1 for history in ends if history is not None]
    assert lengths[0] > 5 * lengths[1]
    assert hastened(stories()["000-broker-ahead"], 10) is stories()["000-broker-ahead"]


def test_what_shortens_durations_widens_slow_links() -> None:
    story = stories()["001-large-message"]
    slow, quick = (one.cured.program.links for one in (story, hastened(story, 10)))
    assert [link.bytes_per_second * 10 for link in slow] == [link.bytes_per_second for link in quick]
    assert any(link.bytes_per_second for link in slow)


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith(("001", "004"))])
def test_it_is_the_same_story_ten_times_as_fast(name: str) -> None:
    for half in play(hastened(stories()[name], 10), simulated()):
        # Delays that end close together are no order that anybody is held to.
        assert not [one for one in half.checks if one.holds is False and one.found != "not exercised"]


def test_the_list_says_what_activemq_cannot_show(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    jars = SimpleNamespace(version=DEBIAN_VERSION)
    monkeypatch.setattr("brokerproof.conformance.brokers.activemq.obtain", lambda *_: jars)
    why = {name: unshown(story, ActiveMQAdapter()) for name, story in stories().items()}
    assert {name: one for name, one in why.items() if one and name.startswith("00") and "ibm-mq" not in one}.keys() == {
        "000-network-relative",
        "001-shorter-offer-of-the-broker",
        "001-switched-off",
        "001-no-keep-alives",
        "001-large-message-unwatched",
        "001-deaf-peer",
        "002-more-memory",
        "002-rules-of-memory",
        "002-rules-g0",
        "002-rules-g2",
    }
    assert [name for name, one in why.items() if "ibm-mq" in one] == [one.name for one in staging.stories()]
    assert not any(unshown(story, ReferenceAdapter()) for story in stories().values())
    assert why["002-rules-g0"] == "it is about memory=G0, and this broker is G3"
    for words in ([], ["--broker", "activemq"]):
        assert main(["story", "--list", *words]) == OK
        told = re.findall(r"^(00\S+) .*\n +not on activemq 5.17.2: (.*)$", capsys.readouterr().out, re.MULTILINE)
        assert [name for name, _ in told] == [name for name, one in why.items() if one]


def test_a_half_whose_steps_were_not_done_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def check(_: SimulatedPort, operation: Operation) -> None:
        if isinstance(operation, Advance):
            raise NotOfferedError("longer than the run may take")

    monkeypatch.setattr(SimulatedPort, "check", check)
    *_, cured = play(stories()["001-shorter-offer-of-the-client"], simulated())
    assert [(one.found, one.holds) for one in cured.checks] == [("advance: not done", None), ("0", None), ("0", None)]
    assert not cured.fails
    assert not cured.holds


def as_if(world: str, mutant: str | None = None) -> Runner:
    """Runs in virtual time that say they were of this world."""

    def run(plan: list[tuple[str, Program]]) -> Iterator[RunResult]:
        for result in simulated(mutant)(plan):
            result.world = world
            yield result

    return run


@pytest.mark.parametrize(
    ("mutant", "world", "holds"),
    [
        ("monitor-twice-as-patient", "simulated", False),
        ("monitor-twice-as-patient", "live", None),
        (None, "live", True),
    ],
)
def test_what_is_late_on_a_real_machine_decides_nothing(mutant: str | None, world: str, holds: bool | None) -> None:
    sick, _ = play(stories()["001-shorter-offer-of-the-broker"], as_if(world, mutant))
    assert [one.holds for one in sick.checks if one.what == "silent-ms"] == [holds]


@pytest.mark.parametrize("world", ["simulated", "live"])
def test_a_link_that_a_late_peer_loses_is_for_the_rules(world: str) -> None:
    """It is to speak each half second, and its machine lets it do so each third second only."""
    told = stories()["001-no-keep-alives"]
    (late,) = [
        msgspec.structs.replace(one, every_ms=3000) for one in told.cured.program.steps if isinstance(one, Probe)
    ]
    story = replace(told, cured=Half(told.cured.program.with_steps([late]), {"hung-up": 0}))
    _, cured = play(story, as_if(world))
    assert [one.holds for one in cured.checks if one.what == "hung-up"] == [None if world == "live" else False]


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("001")])
def test_it_can_fail_on_a_real_machine_too(name: str) -> None:
    story = stories()[name]
    assert any(half.fails for half in play(story, as_if("live", story.breaks))), story.breaks


@pytest.mark.parametrize("world", ["simulated", "live"])
def test_a_swing_that_no_sample_met_decides_nothing(world: str) -> None:
    story = replace(stories()["003-thirty-thousand"], sick=stories()["003-prefetch-of-a-batch"].cured)
    sampled = story.sick.program.with_steps([*story.sick.program.steps, Counters(count=2, every_ms=5)])
    story = replace(story, sick=Half(sampled, {"lowest:q0": (-1000, -500)}))

    sick = next(play(story, as_if(world)))
    assert [one.holds for one in sick.checks if one.what == "lowest:q0"] == [None if world == "live" else False]


def test_dispatches_in_vain_are_tabled(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["story", "003-prefetch-one", "--out", str(tmp_path)]) == OK
    told = capsys.readouterr().out
    assert re.search(r"003-prefetch-one-sick +1,000 +async +-144 +170 +10 +160\n", told)
    assert re.search(r"003-prefetch-one-cured +1 +async +0 +11 +10 +1\n", told)
    page = (tmp_path / "stories" / "index.html").read_text()
    assert "<td>003-prefetch-one-sick</td><td>1,000</td><td>async</td><td>-144</td>" in page


def test_bad_usage_names_the_remedy(capsys: pytest.CaptureFixture[str]) -> None:
    for words, remedy in (
        (["story"], "story --list"),
        (["story", "002-starvd"], "002-starved"),
        (["story", "000", "--speed", "0"], "1 to 100"),
        (["story", "000", "--generation", "memory=G9"], "G3"),
        (["story", "000", "--generation", "memory=G1", "--broker", "activemq"], "leave it out"),
        (["story", "000", "--broker", "activemq", "--tier", "simulated"], "--tier live"),
        (["story", "000", "--home", "/nowhere"], "reference"),
        (["story", "000", "--broker", "activemq", "--mutant", "expiry-never"], "not in 'activemq'"),
        (["story", "000", "--broker", "activemq@9.9"], "5.17.2"),
        (["story", "000", "--broker", "activemq", "--home", "/nowhere"], "bin/ and lib/"),
    ):
        assert main(words) == USAGE
        assert remedy in capsys.readouterr().err


def test_another_generation_breaks_it() -> None:
    assert main(["story", "002-starved", "--generation", "memory=fair"]) == VIOLATED


def test_break_even_is_printed_and_drawn(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["story", "--break-even", "--out", str(tmp_path)]) == OK
    assert capsys.readouterr().out.count("\u2713") == len(POLICIES)
    assert (tmp_path / "stories" / "index.html").read_text().count("borne up to") == len(POLICIES)


def test_the_command(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["story", "--list"]) == OK
    assert re.findall(r"^00\S+", capsys.readouterr().out, re.MULTILINE) == list(stories())
    assert main(["story", "000-broker-ahead", "--out", str(tmp_path)]) == OK
    text = capsys.readouterr().out
    assert re.search(r"sick: as documented(.|\n)*cured: as documented", text)
    assert "price:" in text
    page = (tmp_path / "stories" / "000-broker-ahead.html").read_text()
    assert page.count('<svg class="plot"') == 2
    assert main(["story", "000-broker-ahead", "--mutant", "expiry-never"]) == VIOLATED
    assert "✗ consumed: 1 (documented: 0)" in capsys.readouterr().out
