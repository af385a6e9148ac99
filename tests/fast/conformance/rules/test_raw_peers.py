"""INA-009 to -025 on hand-written probes, to the millisecond.

R = 1000 ms, D = 500 ms, W = 333 ms over OpenWire; the hello is written at 0 and the peer says nothing more.
"""

from __future__ import annotations

from typing import Any

import pytest

from brokerproof.conformance.experiment.configuration import ConnectorSpec, MonitorSpec
from brokerproof.conformance.experiment.peers import Heard, Said
from brokerproof.conformance.experiment.verdict import VerdictKind
from tests.fast.conformance.rules.history_builder import NS_PER_MS, Builder

HOLDS = VerdictKind.SATISFIED
FAILS = VerdictKind.VIOLATED
SILENT = VerdictKind.NOT_EXERCISED
INSTANTS = ("opened", "welcome", "ended", "first", "gap", "closest", "flooded")


def probed(
    requirement: str,
    *,
    until_ms: float = 20_000,
    generation: str = "documented",
    world: str = "simulated",
    connector: dict[str, Any] | None = None,
    offer: MonitorSpec | None = None,
    last_ms: float = 0,
    **seen: Any,
) -> tuple[VerdictKind, str]:
    """The verdict about one probe. Instants are given in ms, under their names without ``_ns``."""
    declared = {"connector": ConnectorSpec(**connector)} if connector is not None else {}
    story = Builder(world, generation={"monitor": generation}, monitor_offer=offer, **declared)
    fields: dict[str, Any] = {"via": "openwire", "hello": "good", "offer_ms": (1000, 500), "welcome": 0, "first": 833}
    fields |= seen
    for name in INSTANTS:
        value = fields.pop(name, None)
        if value is not None:
            fields[f"{name}_ns"] = round(value * NS_PER_MS)
    at_ns = round(last_ms * NS_PER_MS)
    fields |= {"hello_ns": (0, 0), "last_ns": (at_ns, at_ns)}
    said = Said(**{name: value for name, value in fields.items() if name in Said.__struct_fields__})
    offered = fields.pop("heard_offer", None)
    heard = Heard(
        offer_ms=offered, **{name: value for name, value in fields.items() if name not in Said.__struct_fields__}
    )
    found = story.probe(until_ms, said, heard).verdicts(requirement)[requirement]
    return found.verdict, found.outcome


STOMP = {"via": "stomp", "offer_ms": (1000, 500), "heart_beat": "500,1000", "first": 750}
DEAF = {"via": "stomp", "deaf": True, "says": "beats", "every_ms": 100, "flooded": 1000, "last_ms": 15_000}
REAL = {"generation": "", "world": "live"}
BLOCKED = {**STOMP, "deaf": True, "says": "beats", "every_ms": 100}
WRITES = {"write_timeout_ms": 2000}


@pytest.mark.parametrize(
    ("ended_ms", "outcome"),
    [(1499.9, "early"), (1500, "in-time"), (1600, "in-time"), (1600.1, "late"), (None, "never")],
)
@pytest.mark.parametrize(
    ("requirement", "fields"),
    [
        ("INA-010", {"connector": {"use_keep_alive": False}}),
        ("INA-013", {"says": "part", "every_ms": 100}),
        ("INA-023", {"connector": {"read_timeout_ms": 250}}),
        ("INA-024", {**STOMP, "offer_ms": (500, 500), "heart_beat": "500,500"}),
        ("INA-024", {**STOMP, "connector": {"heart_beat_grace": 2.0}, "offer_ms": (500, 500), "heart_beat": "500,500"}),
    ],
)
def test_silence_is_noticed_in_its_window(
    requirement: str, fields: dict[str, Any], ended_ms: float | None, outcome: str
) -> None:
    assert probed(requirement, ended=ended_ms, **fields)[1] == outcome


@pytest.mark.parametrize(
    ("requirement", "expected", "fields"),
    [
        # the classic windows
        ("INA-023", (FAILS, "early"), {"generation": "classic", "connector": {"read_timeout_ms": 9}, "ended": 2499}),
        ("INA-023", (HOLDS, "in-time"), {"generation": "classic", "connector": {"read_timeout_ms": 9}, "ended": 2500}),
        ("INA-013", (HOLDS, "in-time"), {"generation": "classic", "says": "part", "every_ms": 9, "ended": 1500}),
        # an unknown broker, real timers
        (
            "INA-013",
            (HOLDS, "in-time"),
            {**REAL, "says": "part", "every_ms": 9, "ended": 1460},
        ),
        ("INA-013", (FAILS, "late"), {**REAL, "says": "part", "every_ms": 9, "ended": 4001}),
        # over STOMP nobody has to wait for an initial delay, nor for more than a period
        ("INA-024", (HOLDS, "in-time"), {**STOMP, **REAL, "offer_ms": (500, 0), "heart_beat": "0,500", "ended": 510}),
        ("INA-024", (FAILS, "early"), {**STOMP, **REAL, "offer_ms": (500, 0), "heart_beat": "0,500", "ended": 440}),
        # no monitor here, or none agreed on
        ("INA-010", (SILENT, ""), {"connector": {"use_keep_alive": False, "use_monitor": False}}),
        ("INA-010", (SILENT, ""), {"connector": {"use_keep_alive": False}, "offer_ms": (0, 500)}),
        ("INA-024", (HOLDS, "in-time"), {**STOMP, "first": 250, "offer_ms": (0, 500), "heart_beat": "500,0"}),
        ("INA-024", (FAILS, "broken"), {**STOMP, "offer_ms": (0, 500), "heart_beat": "500,0", "ended": 9000}),
        ("INA-024", (FAILS, "broken"), {**STOMP, "heart_beat": "soon"}),
        # it may have been given up between two of its own words
        ("INA-013", (SILENT, ""), {"says": "part", "every_ms": 1000, "last_ms": 3000, "ended": 1500}),
        # extreme periods
        ("INA-022", (HOLDS, "in-time"), {"offer_ms": (100, 500), "ended": 600}),
        ("INA-022", (FAILS, "never"), {"offer_ms": (1, 500)}),
        ("INA-022", (SILENT, ""), {"offer_ms": (101, 500), "ended": 601}),
        ("INA-022", (HOLDS, "stays-open"), {"offer_ms": (2**40, 0), "offer": MonitorSpec(2**60, 0)}),
        ("INA-022", (FAILS, "early"), {"offer_ms": (2**40, 0), "offer": MonitorSpec(2**60, 0), "ended": 9000}),
        # what the broker writes
        ("INA-009", (HOLDS, "kept"), {"beats": 3, "gap": 666, "closest": 333, "ended": 1500}),
        ("INA-009", (FAILS, "silent"), {"beats": 3, "gap": 672, "ended": 1500}),
        ("INA-009", (FAILS, "silent"), {"first": 1172, "ended": 1500}),
        ("INA-009", (FAILS, "silent"), {"first": None}),
        # a broker that tells of itself within the initial delay
        ("INA-009", (HOLDS, "kept"), {"first": 1, "beats": 2, "gap": 1171, "ended": 1500}),
        ("INA-009", (FAILS, "silent"), {"first": 1, "beats": 2, "gap": 1172, "ended": 1500}),
        ("INA-009", (FAILS, "needless"), {"beats": 3, "gap": 333, "closest": 332, "ended": 1500}),
        ("INA-009", (HOLDS, "kept"), {"generation": "", "beats": 3, "gap": 333, "closest": 1, "ended": 1500}),
        ("INA-009", (SILENT, ""), {"connector": {"use_keep_alive": False}}),
        ("INA-010", (FAILS, "broken"), {"connector": {"use_keep_alive": False}, "beats": 1, "ended": 1500}),
        ("INA-024", (FAILS, "broken"), {**STOMP, "offer_ms": (1000, 0), "heart_beat": "0,1000", "beats": 1}),
        # the header has two positive numbers: STOMP 1.2, Heart-beating
        ("INA-024", (SILENT, ""), {**STOMP, "offer_ms": (-1, -1), "heart_beat": "500,500", "beats": 2, "ended": 1500}),
        # answers
        ("INA-011", (HOLDS, "as-asked"), {"says": "asks", "every_ms": 9, "asked": 3, "answers": 3}),
        ("INA-011", (FAILS, "unanswered"), {"says": "asks", "every_ms": 9, "asked": 3, "answers": 2}),
        ("INA-011", (SILENT, ""), {"says": "asks", "every_ms": 9, "asked": 3, "answers": 2, "until_ms": 400}),
        ("INA-011", (HOLDS, "as-asked"), {"says": "beats", "every_ms": 9}),
        ("INA-011", (FAILS, "unasked"), {"says": "beats", "every_ms": 9, "answers": 1}),
        # how it ends
        ("INA-017", (HOLDS, "silently"), {"ended": 1500, "reports": 1}),
        ("INA-017", (HOLDS, "silently"), {"ended": 1500}),
        ("INA-017", (FAILS, "not-reported-once"), {"ended": 1500, "reports": 2}),
        ("INA-017", (FAILS, "not-reported-once"), {"ended": 1500, "reports": 0}),
        ("INA-017", (FAILS, "said-something"), {"ended": 1500, "last": "error", "refused": "too quiet"}),
        # no hello
        ("INA-014", (HOLDS, "in-time"), {"hello": "none", "ended": 30_000, "until_ms": 40_000}),
        ("INA-014", (FAILS, "early"), {"hello": "half", "ended": 29_999, "until_ms": 40_000}),
        ("INA-014", (FAILS, "late"), {"hello": "early", "ended": 30_001, "until_ms": 40_000}),
        ("INA-014", (FAILS, "never"), {"hello": "none", "until_ms": 40_000}),
        ("INA-014", (SILENT, ""), {"hello": "none", "until_ms": 29_000}),
        ("INA-014", (HOLDS, "stays-open"), {"hello": "none", "connector": {"connect_timeout_ms": 0}}),
        ("INA-014", (FAILS, "closed-all-the-same"), {"hello": "none", "connector": {"use_monitor": False}, "ended": 9}),
        ("INA-014", (HOLDS, "refused"), {"hello": "early", "ended": 1}),
        ("INA-014", (HOLDS, "refused"), {"hello": "early", "ended": 1, "connector": {"connect_timeout_ms": 0}}),
        ("INA-015", (HOLDS, "refused"), {"hello": "bad", "fault": "x", "ended": 500}),
        ("INA-015", (FAILS, "late"), {"hello": "bad", "fault": "x", "ended": 501}),
        ("INA-015", (FAILS, "tolerated"), {"hello": "bad", "fault": "x"}),
        ("INA-014", (SILENT, ""), {**REAL, "hello": "none", "ended": 9}),
        # what the broker was heard to offer
        ("INA-022", (HOLDS, "in-time"), {"heard_offer": (80, 0), "ended": 80}),
        ("INA-022", (SILENT, ""), {"heard_offer": (0, 0), "ended": 80}),
        # a peer that does not read
        ("INA-016", (FAILS, "early"), {**DEAF, "connector": WRITES, "ended": 1999}),
        ("INA-016", (HOLDS, "in-time"), {**DEAF, "connector": WRITES, "ended": 2000}),
        ("INA-016", (HOLDS, "in-time"), {**DEAF, "connector": WRITES, "ended": 8100}),
        ("INA-016", (FAILS, "late"), {**DEAF, "connector": WRITES, "ended": 8101}),
        ("INA-016", (FAILS, "never"), {**DEAF, "connector": WRITES}),
        ("INA-016", (SILENT, ""), {**DEAF, "connector": WRITES, "last_ms": 8000}),
        ("INA-016", (SILENT, ""), DEAF),
        # a producer that the broker has stopped
        ("INA-019", (HOLDS, "kept"), BLOCKED),
        ("INA-019", (FAILS, "dropped"), {**BLOCKED, "ended": 9000}),
        ("INA-019", (SILENT, ""), {**BLOCKED, "until_ms": 1800}),
        ("INA-019", (SILENT, ""), {**BLOCKED, **REAL, "ended": 9000}),
        ("INA-019", (SILENT, ""), {**BLOCKED, "ended": 9000, "connector": WRITES}),
        ("INA-019", (SILENT, ""), {**BLOCKED, "offer_ms": (0, 500), "heart_beat": "500,0"}),
        # many
        ("INA-025", (HOLDS, "nothing-left"), {"times": 9, "closed": 9, "left": {"timers": 0}}),
        ("INA-025", (FAILS, "left-behind"), {"times": 9, "closed": 9, "left": {"timers": 1}}),
        ("INA-025", (HOLDS, "nothing-left"), {"world": "live", "times": 90, "closed": 90, "left": {"sockets": 9}}),
        ("INA-025", (FAILS, "left-behind"), {"world": "live", "times": 90, "closed": 90, "left": {"sockets": 10}}),
        ("INA-025", (SILENT, ""), {"times": 9, "closed": 8, "left": {"timers": 1}}),
        ("INA-025", (SILENT, ""), {"times": 9, "closed": 9}),
    ],
)
def test_what_a_visit_proves(requirement: str, expected: tuple[VerdictKind, str], fields: dict[str, Any]) -> None:
    assert probed(requirement, **fields) == expected


@pytest.mark.parametrize(
    ("world", "offer", "heard", "verdict"),
    [
        ("simulated", None, (30_000, 10_000), VerdictKind.NOT_EXERCISED),
        ("simulated", None, (30_001, 10_000), VerdictKind.VIOLATED),
        ("live", None, (30_001, 10_000), VerdictKind.NOT_EXERCISED),
        ("live", MonitorSpec(500, 0), (500, 0), VerdictKind.NOT_EXERCISED),
        ("live", MonitorSpec(500, 0), (500, 1), VerdictKind.VIOLATED),
        ("simulated", MonitorSpec(0, 0), (30_000, 10_000), VerdictKind.NOT_EXERCISED),
    ],
)
def test_a_broker_offers_what_it_was_told(
    world: str, offer: MonitorSpec | None, heard: tuple[int, int], verdict: VerdictKind
) -> None:
    assert probed("INA-008", world=world, offer=offer, heard_offer=heard)[0] is verdict


@pytest.mark.parametrize(
    ("world", "read_ms", "heart_beat", "verdict"),
    [
        ("simulated", 0, "0,500", VerdictKind.VIOLATED),
        ("simulated", 0, "0,0", VerdictKind.NOT_EXERCISED),
        ("simulated", 500, "0,500", VerdictKind.NOT_EXERCISED),
        ("live", 0, "0,500", VerdictKind.NOT_EXERCISED),
    ],
)
def test_a_broker_without_a_monitor_offers_no_heart_beats(
    world: str, read_ms: int, heart_beat: str, verdict: VerdictKind
) -> None:
    offer = MonitorSpec(read_ms, 0)
    assert probed("INA-008", world=world, via="stomp", offer=offer, heart_beat=heart_beat)[0] is verdict
