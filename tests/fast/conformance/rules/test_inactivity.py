"""INA-001 to INA-007, INA-020, INA-021 on hand-written histories, to the millisecond.

R = 1000 ms, D = 500 ms. The handshake takes from 0 to 1 ms, so the initial delay ends between 500 and 501 ms.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from brokerproof.conformance.experiment.configuration import ConnectorSpec, MonitorSpec
from brokerproof.conformance.experiment.history import Connect
from brokerproof.conformance.experiment.traits import STOMP
from brokerproof.conformance.experiment.verdict import Verdict, VerdictKind
from brokerproof.conformance.rules.judge import judge_history
from tests.fast.conformance.rules.history_builder import Builder

HOLDS = VerdictKind.SATISFIED
FAILS = VerdictKind.VIOLATED
SILENT = VerdictKind.NOT_EXERCISED
UNSURE = VerdictKind.INCONCLUSIVE
NOT_RUN = VerdictKind.NOT_RUN
REQUIREMENTS = [f"INA-{number:03d}" for number in (1, 2, 3, 4, 5, 6, 7, 8, 12, 18, 20, 21)]


def link(
    world: str = "simulated",
    generation: str = "documented",
    via: str = "stomp",
    told: tuple[int, int] | None = None,
    **fields: Any,
) -> Builder:
    """c0 is connected at 0 to 1 ms, with a monitor. ``told``: what heart-beats the broker says it sends and wants."""
    monitor = {"c0": MonitorSpec(1000, 500)}
    story = Builder(world, monitor=monitor, generation={"monitor": generation}, **fields)
    return story.connect("c0", via, beats=told)


def judge(story: Builder) -> dict[str, Verdict]:
    return story.verdicts(*REQUIREMENTS)


def kind(story: Builder, requirement: str) -> VerdictKind:
    return judge(story)[requirement].verdict


def outcome(story: Builder, requirement: str) -> tuple[VerdictKind, str]:
    verdict = judge(story)[requirement]
    return verdict.verdict, verdict.outcome


# -- INA-001, INA-007: silent since the handshake


def silent(closed_ms: float | None, **fields: Any) -> Builder:
    """Stalled from 100 ms to 5000 ms; the broker closes, or does not."""
    story = link(**fields).at(100).stall("c0")
    story = story if closed_ms is None else story.at(closed_ms).closed("c0")
    return story.at(5000).resume("c0").at(6000).rest(None).phase("end")


@pytest.mark.parametrize(
    ("closed_ms", "expected"),
    [
        (1499.999, (FAILS, "early")),
        (1500, (HOLDS, "in-time")),
        (1550, (HOLDS, "in-time")),
        (1601, (HOLDS, "in-time")),
        (1601.001, (FAILS, "late")),
        (None, (FAILS, "never")),
    ],
)
def test_a_link_that_is_silent_since_the_handshake(closed_ms: float | None, expected: tuple[VerdictKind, str]) -> None:
    assert outcome(silent(closed_ms), "INA-001") == expected


def unsaid(closed_ms: float, reason: str = "end", **fields: Any) -> Builder:
    """A broker over STOMP, which has no word for silence, closes a link that is stalled from 100 ms on."""
    story = link("live", "", **fields).at(50).send("c0/1").at(100).stall("c0", "both")
    story = story.at(closed_ms).closed("c0", reason=reason, idle_ms=closed_ms - 100)
    return story.at(5000).resume("c0").at(6000).rest(None).phase("end")


def test_a_close_without_a_word_over_a_silent_link_is_for_silence() -> None:
    assert outcome(unsaid(1300), "INA-001") == (HOLDS, "in-time")
    assert outcome(unsaid(1300, via="jms"), "INA-001") == (SILENT, "")
    assert outcome(unsaid(1300, reason="too many connections"), "INA-001") == (SILENT, "")


def test_over_stomp_nobody_has_to_wait_for_an_initial_delay() -> None:
    assert outcome(unsaid(1140), "INA-001") == (HOLDS, "in-time")
    assert outcome(unsaid(400), "INA-001") == (FAILS, "early")


@pytest.mark.parametrize(
    ("grace", "closed_ms", "expected"),
    [
        (None, 610, "in-time"),
        (1.0, 610, "in-time"),
        (1.5, 750, "early"),
        (1.5, 860, "in-time"),
        (4.0, 1900, "early"),
        (4.0, 4900, "in-time"),
    ],
)
def test_how_tolerant_it_is_a_broker_may_say(grace: float | None, closed_ms: float, expected: str) -> None:
    """A client's period is 500 ms, and STOMP names no figure."""
    assert judge(unsaid(closed_ms, heart_beat_grace=grace))["INA-001"].outcome == expected


@pytest.mark.parametrize(
    ("told", "closed_ms", "expected"),
    [
        ((500, 500), 4700, (FAILS, "late")),
        ((1000, 1500), 4700, (HOLDS, "in-time")),
        ((1000, 1500), 1400, (FAILS, "early")),
        ((0, 500), 400, (SILENT, "")),
        ((500, 0), 400, (SILENT, "")),
    ],
)
def test_the_slower_of_promise_and_wish_is_the_period(
    told: tuple[int, int], closed_ms: float, expected: tuple[VerdictKind, str]
) -> None:
    assert outcome(unsaid(closed_ms, told=told), "INA-001") == expected


@pytest.mark.parametrize(
    ("waits_ms", "closed_ms", "expected"),
    [
        (3000, 1300, (FAILS, "early")),
        (3000, 4000, (HOLDS, "in-time")),
        (3000, 14_000, (FAILS, "late")),
        (1000, 1300, (HOLDS, "in-time")),
        (0, 1300, (SILENT, "")),
    ],
)
def test_a_broker_that_names_its_own_limit_goes_by_that(
    waits_ms: int, closed_ms: float, expected: tuple[VerdictKind, str]
) -> None:
    story = Builder("live", monitor={"c0": MonitorSpec(2000, 1000)}).connect("c0", broker_waits_ms=waits_ms)
    story = story.at(50).send("c0/1").at(100).stall("c0", "both")
    story = story.at(closed_ms).closed("c0", reason="end", idle_ms=closed_ms - 100)
    assert outcome(story.at(20_000).resume("c0").at(21_000).rest(None).phase("end"), "INA-001") == expected


def test_what_a_broker_may_have_refused_explains_its_close() -> None:
    story = link("live", "").at(100).stall("c0", "both").at(200).send("c0/1", result="unknown")
    story = story.at(400).closed("c0", reason="end").at(5000).resume("c0").at(6000).rest(None).phase("end")
    assert outcome(story, "INA-001") == (SILENT, "")


def test_the_slack_says_how_far_from_the_border_it_was() -> None:
    assert judge(silent(1499))["INA-001"].slack_ns == -1_000_000
    assert judge(silent(1510))["INA-001"].slack_ns == 10_000_000


@pytest.mark.parametrize(
    ("closed_ms", "expected"), [(2499, "early"), (2500, "in-time"), (3501, "in-time"), (3502, "late")]
)
def test_the_classic_window(closed_ms: float, expected: str) -> None:
    assert judge(silent(closed_ms, generation="classic", via="jms"))["INA-001"].outcome == expected


def test_a_broker_of_unknown_generation_has_both_windows() -> None:
    for closed_ms, expected in ((400, "early"), (700, "in-time"), (1600, "in-time"), (3400, "in-time"), (4200, "late")):
        assert judge(silent(closed_ms, world="live", generation=""))["INA-001"].outcome == expected


def test_real_timers_are_granted_lateness() -> None:
    for closed_ms, expected in ((1440, "early"), (1460, "in-time"), (2000, "in-time"), (2200, "late")):
        assert judge(silent(closed_ms, world="live"))["INA-001"].outcome == expected


def test_a_stall_that_began_in_the_initial_delay_is_noticed() -> None:
    assert kind(silent(1550), "INA-007") is HOLDS
    assert kind(silent(4000), "INA-007") is HOLDS  # INA-001 says that it is late
    assert outcome(silent(None), "INA-007") == (FAILS, "unnoticed")
    assert kind(running(2000), "INA-007") is SILENT


def test_never_needs_a_rest_after_the_stall() -> None:
    story = link().at(100).stall("c0").at(5000).resume("c0").phase("end")
    assert kind(story, "INA-001") is SILENT


def test_a_stall_that_ends_in_time_proves_nothing() -> None:
    story = link().at(100).stall("c0").at(1300).resume("c0").at(6000).rest(None).phase("end")
    assert kind(story, "INA-001") is SILENT


def test_a_client_that_left_first_hides_the_broker() -> None:
    story = link().at(100).stall("c0").at(1400).lose("c0").at(5000).resume("c0").at(6000).rest(None).phase("end")
    assert kind(story, "INA-001") is SILENT


# -- INA-001: a running link


def running(closed_ms: float, idle_ms: float | None = None, **fields: Any) -> Builder:
    """Something was confirmed at 1000 ms, and the link stalls at 1100 ms."""
    story = link(**fields).at(1000).send("c0/1").at(1100).stall("c0").at(closed_ms)
    return story.closed("c0", idle_ms=idle_ms).at(5000).resume("c0").at(6000).rest(None).phase("end")


def test_the_last_byte_lies_between_the_last_sign_of_life_and_the_stall() -> None:
    # It arrived at 1000 to 1101 ms, so the window is 2000 to 2201 ms, and certain from 2101 to 2100 ms: never.
    assert judge(running(1999.999))["INA-001"].outcome == "early"
    assert kind(running(2000), "INA-001") is UNSURE
    assert kind(running(2150), "INA-001") is UNSURE
    assert kind(running(2201), "INA-001") is UNSURE
    assert judge(running(2201.001))["INA-001"].outcome == "late"


def test_what_the_brokers_end_says_of_its_last_byte_decides() -> None:
    assert judge(running(2050, 1000))["INA-001"].outcome == "in-time"
    assert judge(running(2050, 1050))["INA-001"].outcome == "in-time"
    assert judge(running(2060, 999))["INA-001"].outcome == "early"
    assert judge(running(2150, 1101))["INA-001"].outcome == "late"


def test_what_it_says_is_not_believed_against_the_stall() -> None:
    # A last byte at 1900 ms cannot have crossed a link that was stalled since 1100 ms.
    assert judge(running(2900, 1000))["INA-001"].outcome == "late"


def test_two_stalls_without_a_sign_of_life_between_them_are_one_silence() -> None:
    def story(between: bool) -> Builder:
        told = link().at(1000).send("c0/1").at(1100).stall("c0").at(1400).resume("c0")
        told = told.at(1450).send("c0/2") if between else told
        return told.at(1500).stall("c0").at(2200).closed("c0").at(5000).resume("c0").at(6000).rest(None).phase("end")

    assert kind(story(between=False), "INA-001") is UNSURE
    assert judge(story(between=True))["INA-001"].outcome == "early"


def test_a_step_of_a_clock_is_a_situation() -> None:
    story = (
        link().at(100).stall("c0").at(700).jump("b", 60_000).at(1550).closed("c0").at(5000).resume("c0").phase("end")
    )
    assert judge(story)["INA-001"].situations == ["a clock stepped during the silence"]


def test_a_close_that_only_the_client_saw_is_late_by_the_way_back() -> None:
    def story(toward: str, closed_ms: float) -> Builder:
        told = link("live").at(100).stall("c0", toward).at(closed_ms).closed("c0", host="c0")
        return told.at(5000).resume("c0").at(6000).rest(None).phase("end")

    assert judge(story("broker", 2600))["INA-001"].outcome == ""
    assert judge(story("broker", 2700))["INA-001"].outcome == "late"
    # With both directions stalled it may have happened at any time before.
    assert kind(story("both", 2700), "INA-001") is SILENT
    assert judge(story("both", 1400))["INA-001"].outcome == "early"


# -- INA-002


def test_a_healthy_link_stays_open() -> None:
    assert kind(link().at(1602).phase("end"), "INA-002") is HOLDS
    assert kind(link().at(1500).phase("end"), "INA-002") is SILENT
    assert kind(link().at(3000).closed("c0"), "INA-002") is FAILS
    assert kind(link().at(3000).closed("c0", "client", "c0"), "INA-002") is FAILS
    both = link().at(3000).closed("c0", "client", "c0").at(3400).closed("c0")
    assert kind(both, "INA-002") is UNSURE, "a machine that stood still (live seed 7721104)"


@pytest.mark.parametrize(("generation", "expected"), [("classic", SILENT), ("", FAILS)])
def test_a_broker_that_looks_once_a_period_whether_it_wrote_is_silent_for_two(
    generation: str, expected: VerdictKind
) -> None:
    """A client that waits for two had heard nothing for 8192 ms of 8000 (live seed 11760121 of ActiveMQ)."""
    twice = msgspec.structs.replace(STOMP, beats_twice=True)
    told = {"monitor": generation} if generation else {}
    story = Builder("live", monitor={"c0": MonitorSpec(4000, 4000)}, generation=told).connect("c0", beats=(4000, 4000))
    story.events = [
        msgspec.structs.replace(event, traits=twice) if isinstance(event, Connect) else event for event in story.events
    ]
    story.at(20_000).closed("c0", "client", "c0", idle_ms=8192)
    assert kind(story.phase("end"), "INA-002") is expected


@pytest.mark.parametrize(
    ("world", "idle_ms", "expected"),
    [("live", 300, FAILS), ("live", 960, UNSURE), ("live", None, FAILS), ("simulated", 960, FAILS)],
)
def test_nothing_came_out_of_the_line_for_as_long_as_a_broker_waits(
    world: str, idle_ms: float | None, expected: VerdictKind
) -> None:
    """The client's machine was late (live seed 10603052 of a broker by somebody else, at a load of 10)."""
    assert (
        kind(link(world, via="jms").at(4000).closed("c0", idle_ms=idle_ms).at(6000).phase("end"), "INA-002") is expected
    )


@pytest.mark.parametrize(
    ("world", "stalled", "idle_ms", "expected"),
    [
        ("live", False, 200, FAILS),
        ("live", False, 926, UNSURE),
        ("live", True, 200, FAILS),
        ("live", True, 926, UNSURE),
        ("simulated", False, 926, FAILS),
    ],
)
def test_a_broker_that_was_silent_itself_may_not_have_read_what_had_come(
    world: str, stalled: bool, idle_ms: float, expected: VerdictKind
) -> None:
    """On a machine at a load of 19 (live seed 10201841)."""
    story = link(world, via="jms")
    story = story.at(600).stall("c0").at(1400).resume("c0") if stalled else story
    story = story.at(5000).closed("c0").closed("c0", host="c0", reason="closed behind a relay", idle_ms=idle_ms)
    assert kind(story.at(6000).phase("end"), "INA-002") is expected


@pytest.mark.parametrize(
    ("world", "late_ms", "expected"),
    [("live", 1500, UNSURE), ("live", 100, FAILS), ("simulated", 1500, FAILS)],
)
def test_a_broker_that_answers_somebody_late_may_close_late(world: str, late_ms: float, expected: VerdictKind) -> None:
    """On a machine at a load of 17 (live chaos seed 11100602): a SUBSCRIBE was answered after 1.5 s."""
    story = link(world, via="jms").connect("p0").at(5000)
    story.request_ms = late_ms
    story.send("p0/1")
    assert kind(story.closed("c0", idle_ms=300).at(9000).phase("end"), "INA-002") is expected


def test_only_inactivity_counts() -> None:
    assert kind(link().at(3000).closed("c0", reason="protocol error"), "INA-002") is HOLDS
    assert kind(link().at(3000).closed("c0", reason=""), "INA-002") is HOLDS


def test_a_stall_toward_one_end_leaves_the_other_healthy() -> None:
    story = link().at(1000).stall("c0", "client").at(3000).closed("c0")
    assert kind(story, "INA-002") is FAILS
    story = link().at(1000).stall("c0", "client").at(3000).closed("c0", "client", "c0")
    assert kind(story, "INA-002") is HOLDS  # of the broker's end


def test_a_link_that_flows_again_is_healthy_again() -> None:
    story = link().at(1000).stall("c0").at(1900).resume("c0").at(4000).closed("c0").phase("end")
    assert kind(story, "INA-002") is FAILS


def test_classic_stomp_may_close_healthy_links() -> None:
    assert kind(link(generation="classic").at(3000).closed("c0"), "INA-002") is SILENT


def test_a_pause_after_the_client_is_gone_delays_its_close() -> None:
    half_open = link().at(1000).stall("c0").at(1010).lose("c0")
    assert kind(half_open.at(2900).closed("c0"), "INA-001") is FAILS
    half_open = link().at(1000).stall("c0").at(1010).lose("c0")
    assert kind(half_open.at(1100).pause("b", 1790).at(2900).closed("c0"), "INA-001") is SILENT


def test_paused_processes_and_restarted_brokers_are_not_judged() -> None:
    assert kind(link().at(1000).pause("c0").at(3000).closed("c0"), "INA-002") is SILENT
    assert kind(link().send("c0/1").at(1000).kill("b").at(3000).closed("c0"), "INA-002") is SILENT


def test_an_attempt_to_connect_that_failed_may_be_closed() -> None:
    story = link().at(10).lose("c0").at(1000)
    story.request_ms = 1000
    story.connect("c0", result="unknown")
    story.request_ms = 1
    assert kind(story.closed("c0").at(2500).connect("c0").at(3000).phase("end"), "INA-002") is SILENT


# -- INA-020, INA-021


def test_a_step_of_a_clock_changes_nothing() -> None:
    def stepped(host: str, closed_ms: float | None) -> Builder:
        story = link().at(1000).jump(host, 60_000)
        story = story if closed_ms is None else story.at(closed_ms).closed("c0")
        return story.at(9000).phase("end")

    assert outcome(stepped("b", None), "INA-020") == (HOLDS, "unmoved")
    assert judge(stepped("c0", None))["INA-020"].situations == ["a healthy link"]
    assert outcome(stepped("b", 1100), "INA-020") == (FAILS, "other")
    assert kind(stepped("c1", 1100), "INA-020") is SILENT
    assert kind(link().at(9000).phase("end"), "INA-020") is SILENT
    story = link().at(100).stall("c0").at(700).jump("b", -60_000)
    assert outcome(story.at(5000).resume("c0").at(6000).rest(None).phase("end"), "INA-020") == (FAILS, "other")


def test_a_broker_that_stood_still_closes_no_healthy_link() -> None:
    def stood(target: str, ms: float, closed_ms: float | None = None) -> Builder:
        story = link().at(1000).pause(target, ms)
        story = story if closed_ms is None else story.at(closed_ms).closed("c0")
        return story.at(9000).phase("end")

    assert judge(stood("b", 1500))["INA-021"].situations == ["longer than the limit"]
    assert judge(stood("b", 500))["INA-021"].situations == ["no longer than the limit"]
    assert outcome(stood("b", 1500, 2501), "INA-021") == (FAILS, "closed")
    assert kind(stood("c0", 1500, 2501), "INA-021") is SILENT
    assert kind(link(generation="classic").at(1000).pause("b", 9).at(2501).closed("c0"), "INA-021") is SILENT
    stalled = link().at(1000).stall("c0").pause("b", 500).at(2501).closed("c0").at(9000).phase("end")
    assert kind(stalled, "INA-021") is SILENT


@pytest.mark.parametrize(("idle_ms", "expected"), [(1400, UNSURE), (100, FAILS)])
def test_a_client_that_was_late_itself_may_be_given_up(idle_ms: int, expected: VerdictKind) -> None:
    """The reason stands in what the client was told, and its silence in what was seen at the broker's end."""
    story = link("live").at(2500).closed("c0", reason="end", idle_ms=idle_ms)
    story = story.at(2501).closed("c0", host="c0", reason="heart-beat missing", idle_ms=1).at(9000).phase("end")
    assert kind(story, "INA-002") is expected


# -- INA-003


def test_a_link_without_monitor_is_never_closed_for_inactivity() -> None:
    def story(last_ms: float) -> Builder:
        return Builder().connect("c0").at(100).stall("c0", "both").at(last_ms).resume("c0")

    assert kind(story(1100), "INA-003") is HOLDS
    assert kind(story(1000), "INA-003") is SILENT
    assert kind(story(99_000).closed("c0"), "INA-003") is FAILS
    assert kind(story(99_000).closed("c0", reason="protocol error"), "INA-003") is HOLDS
    again = story(99_000).connect("c0", result="unknown").closed("c0")
    assert kind(again, "INA-003") is HOLDS, "what nobody said in time that it wants to connect"


# -- INA-004


def short(resumed_ms: float, closed_ms: float | None = None) -> Builder:
    """Stalled from 1100 ms, after a sign of life at 1000 ms."""
    story = link().at(1000).send("c0/1").at(1100).stall("c0").at(resumed_ms).resume("c0")
    story = story if closed_ms is None else story.at(closed_ms).closed("c0")
    return story.at(6000).rest(None).phase("end")


def test_a_short_stall_closes_nothing() -> None:
    assert kind(short(1900), "INA-004") is HOLDS
    assert kind(short(1900, 1950), "INA-004") is FAILS
    # Just below and just above the limit: 1000 ms from the sign of life, and a millisecond for the way.
    assert kind(short(1998.9), "INA-004") is HOLDS
    assert kind(short(1999), "INA-004") is SILENT


def test_a_close_during_a_stall_that_proved_short_is_wrong_too() -> None:
    story = link().at(1000).send("c0/1").at(1100).stall("c0").at(1600).closed("c0").at(1900).resume("c0").phase("end")
    assert kind(story, "INA-004") is FAILS


@pytest.mark.parametrize(("twice", "expected"), [(True, (HOLDS, FAILS)), (False, (SILENT, SILENT))])
def test_a_client_that_beats_twice_a_period_is_never_silent_for_one(
    twice: bool, expected: tuple[VerdictKind, VerdictKind]
) -> None:
    """The broker's generation is unknown, and the period of its heart-beats 3 s."""

    def verdicts(requirement: str, *, paused: bool = False) -> tuple[VerdictKind, ...]:
        def story(closed_ms: float | None) -> Builder:
            begun = Builder("live", monitor={"c0": MonitorSpec(6000, 3000)}).connect("c0", beats_twice=twice)
            begun = begun.at(1000).send("c0/1").at(1100)
            begun = begun.pause("b", 400) if paused else begun.stall("c0").at(1500).resume("c0")
            begun = begun if closed_ms is None else begun.at(closed_ms).closed("c0")
            return begun.at(25_000).rest(None).phase("end")

        return kind(story(None), requirement), kind(story(1700), requirement)

    assert verdicts("INA-021", paused=True) == expected
    assert verdicts("INA-004") == expected


@pytest.mark.parametrize(("closed_ms", "expected"), [(2500, FAILS), (None, HOLDS)])
def test_heart_beats_of_whole_seconds(closed_ms: float | None, expected: VerdictKind) -> None:
    """Those of AMQP 0-9-1: its client hears one a second, or gives up after two."""
    story = Builder("live", monitor={"c0": MonitorSpec(1000, 500)})
    story = story.connect("c0", beats_twice=True, beats_in_seconds=True)
    story = story if closed_ms is None else story.at(closed_ms).closed("c0", host="c0", who="client", reason="inactive")
    assert kind(story.at(25_000).rest(None).phase("end"), "INA-002") is expected


@pytest.mark.parametrize(("period_ms", "expected"), [(3000, FAILS), (800, SILENT)])
def test_a_client_of_amqp_that_hears_nothing_for_twice_what_it_asked_for(period_ms: int, expected: VerdictKind) -> None:
    """Nothing is wrong in its direction: the other one is stalled. Of short periods a machine may be the cause."""
    story = Builder("live", monitor={"c0": MonitorSpec(2 * period_ms, period_ms)}).connect("c0", beats_twice=True)
    story = story.at(100).stall("c0").at(100 + period_ms)
    story = story.closed("c0", host="c0", who="client", reason="local-idle-timeout expired")
    assert kind(story.at(20_000).resume("c0").at(25_000).rest(None).phase("end"), "INA-002") is expected


@pytest.mark.parametrize(
    ("closed_ms", "expected"), [(4900, FAILS), (5100, HOLDS), (9000, HOLDS), (9200, FAILS), (None, FAILS)]
)
def test_a_silence_that_is_too_long_by_the_protocol(closed_ms: float | None, expected: VerdictKind) -> None:
    """MQTT's: one and a half times 5 s; the broker looks once a second, and may be half a second late."""
    story = Builder("live", monitor={"c0": MonitorSpec(10_000, 5000)}).connect("c0", broker_closes_ms=7500)
    story = story.at(100).stall("c0")
    story = story if closed_ms is None else story.at(closed_ms).closed("c0")
    assert kind(story.at(20_000).resume("c0").at(25_000).rest(None).phase("end"), "INA-001") is expected


# -- INA-005


def held() -> Builder:
    story = link().connect("c1").send("c1/1").subscribe("c0/1").arrive("c0/1", "c1/1").consume("c0/1", "c1/1")
    return story.at(100).stall("c0").at(1550).closed("c0").at(2000).resume("c0")


def test_the_messages_of_a_closed_link_go_to_others() -> None:
    assert kind(held().subscribe("c1/1").arrive("c1/1", "c1/1", redelivered=True), "INA-005") is HOLDS
    assert outcome(held().drain("q0").end(), "INA-005") == (FAILS, "stuck")
    assert kind(held(), "INA-005") is SILENT


# -- INA-006


def deaf(closed_ms: float | None, idle_ms: float | None = None) -> Builder:
    """Nothing reaches the client from 100 ms to 5000 ms."""
    story = link().at(100).stall("c0", "client")
    story = story if closed_ms is None else story.at(closed_ms).closed("c0", "client", "c0", idle_ms)
    return story.at(5000).resume("c0").at(6000).rest(None).phase("end")


@pytest.mark.parametrize(
    ("closed_ms", "expected"), [(1499, "early"), (1500, "in-time"), (1601, "in-time"), (1602, "late")]
)
def test_the_clients_end_notices_a_dead_broker(closed_ms: float, expected: str) -> None:
    assert judge(deaf(closed_ms))["INA-006"].outcome == expected


def test_a_client_that_never_notices() -> None:
    assert outcome(deaf(None), "INA-006") == (FAILS, "never")
    left = link().at(100).stall("c0", "client").at(1400).lose("c0").at(5000).resume("c0").phase("end")
    assert kind(left, "INA-006") is SILENT


# -- evidence


def test_a_broker_that_was_told_to_watch_otherwise_is_left_to_the_visits() -> None:
    plain = link().at(3000).closed("c0", "client", "c0")
    assert kind(plain, "INA-002") is FAILS
    for option in ({"use_keep_alive": False}, {"use_monitor": False}, {"heart_beat_grace": 2.0}):
        story = link(connector=ConnectorSpec(**option)).at(3000).closed("c0", "client", "c0")  # type: ignore[arg-type]  # a flag or a number
        assert kind(story, "INA-002") is SILENT


def test_a_stall_without_evidence_makes_every_verdict_not_run() -> None:
    def story(*, evidence: bool) -> Builder:
        told = link().at(100).stall("c0", evidence=evidence).at(1550).closed("c0")
        return told.at(5000).resume("c0").at(6000).rest(None).phase("end")

    wanted = REQUIREMENTS
    proved = {verdict.requirement: verdict for verdict in judge_history(story(evidence=True).history(), wanted=wanted)}
    assert proved["INA-001"].verdict is HOLDS
    plain = {verdict.requirement: verdict for verdict in judge_history(story(evidence=False).history(), wanted=wanted)}
    assert plain["INA-001"].verdict is NOT_RUN
    assert plain["INA-007"].verdict is NOT_RUN
    assert "no evidence" in plain["INA-001"].text
    assert HOLDS not in {verdict.verdict for verdict in plain.values()}


@pytest.mark.parametrize(("stalled", "expected"), [(True, SILENT), (False, FAILS)])
def test_a_close_may_be_that_of_an_attempt_that_came_to_nothing_on_a_stalled_link(
    stalled: bool, expected: VerdictKind
) -> None:
    """The broker had accepted it, and closes it when the client is connected anew (ActiveMQ, chaos seed 161052)."""
    story = Builder("live", monitor={"c0": MonitorSpec(1000, 500)}, generation={"monitor": "classic"}).at(100)
    story = story.stall("c0", "client") if stalled else story
    story = story.at(200).connect("c0", "jms", result="fail").at(2000)
    story = story.resume("c0") if stalled else story
    story = story.at(2100).connect("c0", "jms").at(2150).closed("c0").at(2200).rest(None).phase("end")
    assert kind(story, "INA-002") is expected
