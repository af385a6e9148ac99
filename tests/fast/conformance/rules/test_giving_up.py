"""How often a message is tried again, by its library or by the broker (RDL-007, -012, -013, -023, -024), on
hand-written histories.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from brokerproof.conformance.experiment.configuration import DeadLetterSpec, PolicySpec, RedeliverySpec
from brokerproof.conformance.experiment.verdict import VerdictKind
from brokerproof.conformance.rules.giving_up import pauses
from brokerproof.conformance.rules.judge import judge_history
from tests.fast.conformance.rules.history_builder import DLQ, EPOCH_MS, Builder

HOLDS = VerdictKind.SATISFIED
FAILS = VerdictKind.VIOLATED
SILENT = VerdictKind.NOT_EXERCISED
CTX = "c0/tx1"


def outcome(story: Builder, requirement: str) -> tuple[VerdictKind, str]:
    verdict = story.verdicts(requirement)[requirement]
    return verdict.verdict, verdict.outcome


def kind(story: Builder, requirement: str) -> VerdictKind:
    return outcome(story, requirement)[0]


# -- RDL-007


@pytest.mark.parametrize(
    ("fields", "expected"), [({}, FAILS), ({"expiration_ms": 9}, SILENT), ({"life_ms": 1}, SILENT)]
)
def test_what_dies_after_a_rollback_was_not_given_up(fields: dict[str, int], expected: VerdictKind) -> None:
    story = Builder().connect("p0").connect("c0", via="jms").send("p0/1", **fields).subscribe("c0/1")
    story.arrive("c0/1", "p0/1").consume("c0/1", "p0/1").begin("c0").ack("c0/1", "p0/1", tx=CTX).abort("c0")
    story.leave("c0/1").drain("q0", DLQ).arrive("drain/2", "p0/1", dest=DLQ).end()
    assert outcome(story, "RDL-007")[0] is expected


def rolled_back(times: int, *, dead: bool = True, via: str = "jms", **declared: Any) -> Builder:
    """A message is given to its application and rolled back so often, and has a dead letter or none."""
    story = Builder(**declared).connect("p0").connect("c0", via=via).send("p0/1").subscribe("c0/1")
    story.arrive("c0/1", "p0/1")
    for number in range(times):
        name = f"c0/tx{number}"
        story.consume("c0/1", "p0/1").begin("c0", name).ack("c0/1", "p0/1", tx=name).abort("c0", name)
    story.leave("c0/1").drain("q0", DLQ)
    return (story.arrive("drain/2", "p0/1", original_dest="q0") if dead else story).end()


RETRIED = [PolicySpec(redelivery=RedeliverySpec())]
DISCARDED = [PolicySpec(dead_letter=DeadLetterSpec("discarding"))]


@pytest.mark.parametrize(
    ("story", "expected"),
    [
        (rolled_back(7), (HOLDS, "seven-times")),
        (rolled_back(6), (FAILS, "too-early")),
        (rolled_back(8), (FAILS, "too-often")),
        (rolled_back(7, dead=False), (FAILS, "not-given-up")),
        (rolled_back(6, dead=False), (SILENT, "")),
        (rolled_back(7, via="stomp"), (SILENT, "")),
        (rolled_back(7, dead=False, policies=DISCARDED), (SILENT, "")),
        (rolled_back(7, dead=False, policies=RETRIED), (SILENT, "")),
    ],
)
def test_a_library_gives_up_after_seven_deliveries(story: Builder, expected: tuple[VerdictKind, str]) -> None:
    assert outcome(story, "RDL-007") == expected


# -- RDL-012


@pytest.mark.parametrize(
    ("via", "counters", "expected"),
    [
        ("jms", {"in_flight": 1, "size": 1}, HOLDS),
        ("jms", {"in_flight": 0, "size": 1}, FAILS),
        ("jms", {"in_flight": 1, "size": 0}, FAILS),
        ("stomp", {"in_flight": 0, "size": 0}, SILENT),
    ],
)
@pytest.mark.parametrize("refused", [False, True])
def test_what_was_rolled_back_stays_in_flight(
    via: str, counters: dict[str, int], expected: VerdictKind, refused: bool
) -> None:
    story = Builder().connect("p0").connect("c0", via=via).send("p0/1").subscribe("c0/1").arrive("c0/1", "p0/1")
    story.begin("c0").ack("c0/1", "p0/1", tx=CTX).abort("c0")
    if refused:
        story.begin("c0", "c0/tx2").ack("c0/1", "p0/1", tx="c0/tx2", result="fail")
    assert kind(story.rest("q0", **counters), "RDL-012") is expected
    story.ack("c0/1", "p0/1").rest("q0", in_flight=0, size=0)
    assert kind(story, "RDL-012") is expected, "it was settled in the end"


# -- RDL-013


def batch(*, counts: tuple[int, int], dead: str, nacked: str = "", abort: str = "ok") -> Builder:
    """Two messages, delivered so often before, are rolled back together; one has a dead letter in the end."""
    told = Builder().connect("p0").connect("c0", "jms").send("p0/1").send("p0/2").subscribe("c0/1")
    for number, count in enumerate(counts, start=1):
        told.arrive("c0/1", f"p0/{number}", redelivered=count > 1, delivery_count=count).consume("c0/1", f"p0/{number}")
    told.begin("c0").ack("c0/1", "p0/1", "p0/2", tx="c0/tx1").abort("c0", result=abort)
    if nacked:
        told.nack("c0/1", nacked)
    told.leave("c0/1").drain("q0", DLQ).arrive("drain/2", dead)
    return told.end()


@pytest.mark.parametrize(
    ("options", "verdict"),
    [
        ({"counts": (7, 1), "dead": "p0/1"}, HOLDS),
        ({"counts": (7, 1), "dead": "p0/2"}, FAILS),
        ({"counts": (6, 1), "dead": "p0/1"}, FAILS),
        ({"counts": (7, 1), "dead": "p0/2", "nacked": "p0/2"}, SILENT),
        ({"counts": (7, 1), "dead": "p0/2", "abort": "unknown"}, SILENT),
    ],
)
def test_each_message_of_a_batch_has_its_own_chances(options: dict[str, Any], verdict: VerdictKind) -> None:
    assert kind(batch(**options), "RDL-013") is verdict


def test_dead_letters_that_are_rolled_back_say_nothing() -> None:
    told = Builder().connect("p0").connect("c0", "jms").send("p0/1", result="unknown").subscribe("c0/1", DLQ)
    told.arrive("c0/1", "p0/1", "p0/2", delivery_count=1, original_dest="q0").begin("c0")
    told.ack("c0/1", "p0/1", "p0/2", "p0/3", tx="c0/tx1").abort("c0").leave("c0/1").drain("q0", DLQ)
    assert kind(told.end(), "RDL-013") is SILENT
    told = Builder().connect("p0").connect("c0", "jms").send("p0/1").send("p0/2").subscribe("c0/1", DLQ).begin("c0")
    told.arrive("c0/1", "p0/1", "p0/2").ack("c0/1", "p0/1", "p0/2", tx="c0/tx1").abort("c0").leave("c0/1")
    assert kind(told.drain("q0", DLQ).arrive("drain/2", "p0/1").end(), "RDL-013") is SILENT


# -- RDL-023, RDL-024


@pytest.mark.parametrize(
    ("policy", "wanted"),
    [
        (RedeliverySpec(), [1000, 1000, 1000, 1000]),
        (RedeliverySpec(initial_ms=0, pause_ms=5, multiplier=3), [0, 5, 15, 45]),
        (RedeliverySpec(initial_ms=100, pause_ms=10, multiplier=3, longest_ms=500), [100, 300, 500, 500]),
    ],
)
def test_pauses(policy: RedeliverySpec, wanted: list[int]) -> None:
    assert pauses(policy, 4) == wanted


def retried(
    *gaps_ms: float, dead: bool = True, marked: bool = True, leaves: bool = False, strategy: str = "", **policy: Any
) -> Builder:
    """A message is rejected, and again so long after each rejection was begun; at most twice by default."""
    letters = DeadLetterSpec(strategy) if strategy else None
    spec = RedeliverySpec(**({"maximum": 2, "initial_ms": 100, "pause_ms": 100} | policy))
    told = Builder(policies=[PolicySpec(">", redelivery=spec, dead_letter=letters)])
    told.connect("p0").connect("c0").connect("c1")
    told.send("p0/1").subscribe("c0/1", ack="individual")
    if leaves:
        told.subscribe("c1/1").leave("c1/1")
    told.arrive("c0/1", "p0/1")
    for gap_ms in gaps_ms:
        begun_ms = told.now_ms
        told.nack("c0/1", "p0/1").at(begun_ms + gap_ms).arrive("c0/1", "p0/1", redelivered=marked)
    told.nack("c0/1", "p0/1").drain("q0", DLQ)
    if dead:
        told.arrive("drain/2", "p0/1", original_dest="q0")
    return told.end()


@pytest.mark.parametrize(
    ("story", "pause", "count"),
    [
        (retried(100, 100), HOLDS, HOLDS),
        (retried(100, 99), FAILS, HOLDS),
        (retried(100, 100, marked=False), FAILS, HOLDS),
        (retried(100, 100, 100), HOLDS, FAILS),
        (retried(100), HOLDS, FAILS),
        (retried(100, leaves=True), HOLDS, SILENT),
        (retried(100, 100, dead=False), HOLDS, FAILS),
        (retried(100, 100, dead=False, dead_letter=False), HOLDS, HOLDS),
        (retried(100, 100, dead_letter=False), HOLDS, FAILS),
    ],
)
def test_the_broker_tries_again(story: Builder, pause: VerdictKind, count: VerdictKind) -> None:
    verdicts = story.verdicts("RDL-023", "RDL-024")
    assert (verdicts["RDL-023"].verdict, verdicts["RDL-024"].verdict) == (pause, count)


@pytest.mark.parametrize(
    ("strategy", "dead", "verdict"),
    [
        ("individual", False, SILENT),
        ("individual", True, FAILS),
        ("discarding", False, HOLDS),
        ("discarding", True, FAILS),
    ],
)
def test_after_the_last_chance_the_strategy_decides(strategy: str, dead: bool, verdict: VerdictKind) -> None:
    told = retried(100, 100, dead=dead, strategy=strategy)
    assert kind(told, "RDL-024") is verdict


def test_no_other_rule_takes_another_try_for_a_defect() -> None:
    story = retried(100, 100)
    found = {v.requirement: v for v in judge_history(story.history())}
    assert [name for name, verdict in found.items() if verdict.verdict is FAILS] == []
    assert found["RDL-023"].verdict is HOLDS
    story = retried(100, 100, strategy="individual", dead=False)
    assert [v for v in judge_history(story.history()) if v.verdict is FAILS] == []


def test_a_rejection_may_be_answered_before_it_is_confirmed_and_after_a_rollback() -> None:
    story = Builder(policies=RETRIED).connect("p0").connect("c0").connect("c1").send("p0/1").subscribe("c0/1")
    story.subscribe("c1/1").arrive("c0/1", "p0/1").begin("c0").ack("c0/1", "p0/1", tx=CTX).abort("c0")
    story.request_ms = 10
    begun_ms = story.now_ms
    story.nack("c0/1", "p0/1").at(begun_ms + 5).arrive("c0/1", "p0/1", redelivered=True).wait(10).ack("c0/1", "p0/1")
    found = story.verdicts("GEN-002", "RDL-003")
    assert found["GEN-002"].verdict is HOLDS, "the rejection was of the first delivery"
    assert found["RDL-003"].verdict is HOLDS, "the acknowledgement of the second"
    story.arrive("c1/1", "p0/1", redelivered=True)
    assert kind(story, "GEN-002") is FAILS


def test_what_was_rejected_before_is_not_settled_again_by_an_early_acknowledgement() -> None:
    """The acknowledgement may have been written before the second delivery came, as far as its interval tells."""
    story = Builder(policies=RETRIED).connect("p0").connect("c0").send("p0/1").subscribe("c0/1")
    story.arrive("c0/1", "p0/1").nack("c0/1", "p0/1")
    story.request_ms = 10
    begun_ms = story.now_ms
    story.ack("c0/1", "p0/1").at(begun_ms + 5).arrive("c0/1", "p0/1", redelivered=True)
    found = story.verdicts("GEN-002", "RDL-003")
    assert (found["GEN-002"].verdict, found["RDL-003"].verdict) == (HOLDS, HOLDS)


# -- RDL-026, and what a limit of redeliveries explains


def lost_each_time(times: int, *, dead: bool = True, again: bool = False, **options: Any) -> Builder:
    """So often a consumer had it and lost its link; then it is a dead letter, or there again, or nowhere."""
    told = Builder(options.pop("world", "live"), **options).connect("p0").send("p0/1", persistent=True)
    for number in range(1, times + 1):
        told.connect("c0").subscribe(f"c0/{number}", ack="individual").arrive(
            f"c0/{number}", "p0/1", redelivered=number > 1, delivery_count=None
        )
        told.consume(f"c0/{number}", "p0/1").lose("c0").wait(5)
    told.rest("q0", size=int(again), in_flight=0).drain("q0", DLQ)
    if again:
        told.arrive("drain/1", "p0/1", redelivered=True, delivery_count=None).ack("drain/1", "p0/1")
    elif dead:
        told.arrive("drain/2", "p0/1", delivery_count=None).ack("drain/2", "p0/1")
    return told.end()


@pytest.mark.parametrize(
    ("times", "options", "limit", "explained"),
    [
        (3, {"redeliveries_max": 2}, HOLDS, True),
        (2, {"redeliveries_max": 2}, FAILS, False),
        (3, {"redeliveries_max": 2, "again": True}, FAILS, True),
        (2, {"redeliveries_max": 2, "again": True}, HOLDS, True),
        (3, {"redeliveries_max": 2, "dead": False}, HOLDS, True),
        (2, {"redeliveries_max": 2, "dead": False}, HOLDS, False),
        (9, {"redeliveries_max": -1}, SILENT, False),
        (5, {}, SILENT, True),  # nobody says
        (4, {}, SILENT, False),
        (5, {"world": "simulated"}, SILENT, False),  # ours has none
    ],
)
def test_a_limit_of_redeliveries(times: int, options: dict[str, Any], limit: VerdictKind, explained: bool) -> None:
    story = lost_each_time(times, **options)
    assert kind(story, "RDL-026") is limit
    verdicts = story.verdicts("EXP-002", "GEN-001", "GEN-003", "RDL-002", "RDL-003", "RDL-004", "RDL-017")
    accused = {name for name, verdict in verdicts.items() if verdict.verdict is FAILS}
    lost = {"EXP-002"} if options.get("dead", True) else {"GEN-001", "RDL-002"}
    assert accused == (set() if explained else lost)


@pytest.mark.parametrize(
    ("times", "options", "verdict"),
    [
        (3, {}, HOLDS),
        (3, {"dead": False}, FAILS),
        (2, {"dead": False}, SILENT),
        (3, {"again": True}, SILENT),
        (3, {"dead": False, "policies": [PolicySpec(dead_letter=DeadLetterSpec("discarding"))]}, SILENT),
    ],
)
def test_what_has_reached_the_limit_is_a_dead_letter(times: int, options: dict[str, Any], verdict: VerdictKind) -> None:
    assert kind(lost_each_time(times, redeliveries_max=2, **options), "RDL-028") is verdict


def rejected(times: int, *, tx: bool = False, answers: bool = True, **fields: Any) -> Builder:
    """So often a consumer had rejected it, alone or in a transaction that was committed."""
    story = Builder("live", redeliveries_max=2, transacted_nacks=True).connect("p0")
    story.connect("c0", awaits_receipt=answers)
    story.header = msgspec.structs.replace(story.header, capabilities=[*story.header.capabilities, "requeue"])
    story.send("p0/1", persistent=True, **fields).subscribe("c0/1", ack="individual")
    for number in range(1, times + 1):
        story.arrive("c0/1", "p0/1", redelivered=number > 1, expiration_ms=fields.get("expiration_ms", 0))
        if tx:
            story.begin("c0", f"c0/tx{number}").nack("c0/1", "p0/1", tx=f"c0/tx{number}").commit("c0", f"c0/tx{number}")
        else:
            story.nack("c0/1", "p0/1")
    return story


@pytest.mark.parametrize(("times", "verdict"), [(1, FAILS), (3, HOLDS), (4, FAILS)])
@pytest.mark.parametrize("tx", [False, True])
def test_rejections_count_in_transactions_too(times: int, verdict: VerdictKind, tx: bool) -> None:
    story = rejected(times, tx=tx).rest("q0", size=0, in_flight=0).drain("q0", DLQ)
    assert kind(story.arrive("drain/2", "p0/1").ack("drain/2", "p0/1").end(), "RDL-026") is verdict


@pytest.mark.parametrize(("waited_ms", "expected"), [(5, SILENT), (3000, FAILS)])
def test_who_had_room_while_nothing_moved_was_not_given_it_unseen(waited_ms: int, expected: VerdictKind) -> None:
    """Where losses count, who leaves may have been given it once more."""
    story = rejected(2).wait(waited_ms).rest("q0", size=0, in_flight=0)
    story.header = msgspec.structs.replace(story.header, capabilities=[*story.header.capabilities, "losses-count"])
    story.leave("c0/1").drain("q0", DLQ).arrive("drain/2", "p0/1").ack("drain/2", "p0/1")
    assert kind(story.end(), "RDL-026") is expected


def test_a_rejection_without_an_answer_counts_once_it_comes_again() -> None:
    story = rejected(4, answers=False).rest("q0", size=0, in_flight=0).drain("q0", DLQ)
    assert kind(story.arrive("drain/2", "p0/1").ack("drain/2", "p0/1").end(), "RDL-026") is FAILS


@pytest.mark.parametrize(("life_ms", "expected"), [(1, SILENT), (10_000, FAILS)])
def test_what_was_given_up_before_it_would_have_died_is_a_dead_letter(life_ms: int, expected: VerdictKind) -> None:
    """Whatever its expiration was: its letter has none."""
    story = rejected(3, expiration_ms=EPOCH_MS + life_ms).wait(60_000).rest("q0", size=0, in_flight=0)
    assert kind(story.drain("q0", DLQ).end(), "RDL-028") is expected


def test_the_letter_of_what_was_given_up_does_not_expire() -> None:
    expiration_ms = EPOCH_MS + 600_000
    story = rejected(3, expiration_ms=expiration_ms).rest("q0", size=0, in_flight=0).drain("q0", DLQ)
    assert kind(story.arrive("drain/2", "p0/1", expiration_ms=expiration_ms).end(), "RDL-028") is FAILS


@pytest.mark.parametrize(("other", "expected"), [("q1", FAILS), (None, HOLDS)])
def test_the_letter_of_what_has_reached_the_limit_names_its_queue_where_others_do(
    other: str | None, expected: VerdictKind
) -> None:
    story = Builder("live", redeliveries_max=0).connect("p0").send("p0/1", persistent=True)
    story.send("p0/2", "q1", persistent=True).connect("c0").subscribe("c0/1", ack="individual")
    story.arrive("c0/1", "p0/1").consume("c0/1", "p0/1").lose("c0").wait(5)
    story.connect("c1").subscribe("c1/1", "q1", ack="individual").arrive("c1/1", "p0/2").nack("c1/1", "p0/2")
    story.rest("q0", size=0, in_flight=0).drain("q0", "q1", DLQ)
    story.arrive("drain/3", "p0/1").ack("drain/3", "p0/1")
    story.arrive("drain/3", "p0/2", original_dest=other).ack("drain/3", "p0/2")
    assert kind(story.end(), "RDL-028") is expected


@pytest.mark.parametrize(("most", "expected"), [(0, HOLDS), (1, FAILS)])
def test_an_unseen_delivery_may_have_been_the_last(most: int, expected: VerdictKind) -> None:
    """Whoever may have had it counts against the limit, but only who had it counts as having been given too often."""
    story = Builder("live", redeliveries_max=most).connect("p0").connect("c0").subscribe("c0/1").send("p0/1")
    story.lose("c0").drain("q0", DLQ)
    if most:
        story.arrive("drain/1", "p0/1", redelivered=True, delivery_count=3).ack("drain/1", "p0/1")
    assert kind(story.end(), "RDL-026") is (expected if most else SILENT)
    assert kind(story, "GEN-001") is not FAILS


# -- RDL-029


@pytest.mark.parametrize(
    ("cause", "origin", "expected"),
    [("it was lost too often", "q0", HOLDS), (None, "q0", FAILS), (None, DLQ, SILENT), ("why not", DLQ, SILENT)],
)
@pytest.mark.parametrize("via", ["jms", "stomp"])
def test_a_dead_letter_says_why(cause: str | None, origin: str, expected: VerdictKind, via: str) -> None:
    story = Builder(redeliveries_max=0).connect("p0").connect("c0", via=via).send("p0/1").subscribe("c0/1")
    story.arrive("c0/1", "p0/1").consume("c0/1", "p0/1").lose("c0").drain("q0", DLQ)
    story.arrive("drain/2", "p0/1", original_dest=origin, cause=cause).end()
    assert kind(story, "RDL-029") is expected


def test_who_rejects_need_not_say_why() -> None:
    """Nor does somebody who rejects another message excuse a letter of one that nobody had."""
    story = Builder().connect("p0").connect("c0").send("p0/1").send("p0/2", expiration_ms=9).subscribe("c0/1")
    story.arrive("c0/1", "p0/1").nack("c0/1", "p0/1").leave("c0/1").drain("q0", DLQ)
    story.arrive("drain/2", "p0/1", original_dest="q0")
    assert kind(story, "RDL-029") is SILENT
    story.arrive("drain/2", "p0/2", original_dest="q0").end()
    assert kind(story, "RDL-029") is FAILS


def test_a_dead_letter_says_nothing_where_nobody_promises_it() -> None:
    story = Builder().connect("p0").send("p0/1", expiration_ms=9).drain("q0", DLQ)
    story.arrive("drain/2", "p0/1", original_dest="q0").end()
    kept = [word for word in story.header.capabilities if word != "causes"]
    story.header = msgspec.structs.replace(story.header, capabilities=kept)
    assert kind(story, "RDL-029") is VerdictKind.NOT_APPLICABLE


@pytest.mark.parametrize(
    ("rejects", "words", "expected"), [(True, [], FAILS), (False, [], SILENT), (False, ["losses-count"], FAILS)]
)
def test_where_a_rejection_puts_back_it_is_counted_and_a_loss_of_who_says_so(
    rejects: bool, words: list[str], expected: VerdictKind
) -> None:
    story = Builder("live", redeliveries_max=2).connect("p0").send("p0/1")
    plain = [word for word in story.header.capabilities if word != "dead-letter"]
    story.header = msgspec.structs.replace(story.header, capabilities=[*plain, "requeue", *words])
    for number in range(1, 5):
        story = story.connect("c0").subscribe(f"c0/{number}", prefetch=1, ack="individual")
        story = story.arrive(f"c0/{number}", "p0/1", redelivered=number > 1, delivery_count=number)
        story = story.consume(f"c0/{number}", "p0/1")
        story = story.nack(f"c0/{number}", "p0/1") if rejects else story
        story = story.lose("c0")
    story = story.drain("q0").arrive("drain/1", "p0/1", redelivered=True, delivery_count=5)
    assert kind(story.end(), "RDL-026") is expected


@pytest.mark.parametrize(
    ("persistent", "words", "expected"),
    [
        (True, ["rejections-survive-restarts"], FAILS),
        (False, ["rejections-survive-restarts"], SILENT),
        (True, [], SILENT),
    ],
)
def test_rejections_count_over_a_restart_where_the_broker_promises_it(
    persistent: bool, words: list[str], expected: VerdictKind
) -> None:
    story = Builder("live", redeliveries_max=2).connect("p0").send("p0/1", persistent=persistent)
    plain = [word for word in story.header.capabilities if word != "dead-letter"]
    story.header = msgspec.structs.replace(story.header, capabilities=[*plain, "requeue", *words])
    for number in range(1, 5):
        story = story.connect("c0").subscribe(f"c0/{number}", prefetch=1, ack="individual")
        story = story.arrive(f"c0/{number}", "p0/1", redelivered=number > 1, delivery_count=1)
        story = story.consume(f"c0/{number}", "p0/1").nack(f"c0/{number}", "p0/1").restart("kill")
    assert kind(story.drain("q0").end(), "RDL-026") is expected


@pytest.mark.parametrize(
    ("times", "word", "ends", "expected"),
    [
        (2, "requeue", "", (FAILS, "too-early")),
        (3, "requeue", "", (HOLDS, "given-up")),
        (2, "requeue", "lose", (SILENT, "")),  # whoever was lost may have been given it once more
        (2, "nack", "", (SILENT, "")),  # a rejection alone makes a dead letter
    ],
)
def test_where_a_rejection_puts_back_it_is_given_up_after_as_many_as_promised(
    times: int, word: str, ends: str, expected: tuple[VerdictKind, str]
) -> None:
    story = Builder("live", redeliveries_max=2).connect("p0").send("p0/1")
    plain = [one for one in story.header.capabilities if one != "nack"]
    story.header = msgspec.structs.replace(story.header, capabilities=[*plain, word])
    story.connect("c0").subscribe("c0/1", prefetch=1, ack="individual")
    for number in range(times):
        story.arrive("c0/1", "p0/1", redelivered=number > 0, delivery_count=None).consume("c0/1", "p0/1")
        story.nack("c0/1", "p0/1")
    if ends:
        story.lose("c0")
    story.rest("q0", size=0, in_flight=0).drain("q0", DLQ).arrive("drain/2", "p0/1", delivery_count=None)
    assert outcome(story.end(), "RDL-026") == expected


@pytest.mark.parametrize(("words", "expected"), [([], (FAILS, "too-early")), (["losses-count"], (SILENT, ""))])
def test_who_left_at_the_drain_one_after_another_may_have_lost_it_unseen(
    words: list[str], expected: tuple[VerdictKind, str]
) -> None:
    story = Builder("live", redeliveries_max=2).connect("p0").send("p0/1")
    plain = [one for one in story.header.capabilities if one != "nack"]
    story.header = msgspec.structs.replace(story.header, capabilities=[*plain, "requeue", *words])
    story.connect("c0")
    for number in range(1, 5):
        story.subscribe(f"c0/{number}", prefetch=1, ack="individual")
    story.arrive("c0/1", "p0/1", delivery_count=None).consume("c0/1", "p0/1").nack("c0/1", "p0/1")
    story.phase("heal").rest(None).phase("drain")
    for number in range(1, 5):
        story.leave(f"c0/{number}")
    story.connect("drain").subscribe("drain/1", DLQ, 1000, ack="individual")
    assert outcome(story.arrive("drain/1", "p0/1", delivery_count=None).end(), "RDL-026") == expected


@pytest.mark.parametrize("dest", ["q0", "t0"])
@pytest.mark.parametrize("answers", [True, False])
def test_what_was_rejected_may_come_again_where_that_is_promised(dest: str, answers: bool) -> None:
    """Over AMQP 1.0 a rejection has no answer."""
    story = Builder("live", redeliveries_max=2).connect("p0")
    plain = [one for one in story.header.capabilities if one != "nack"]
    story.header = msgspec.structs.replace(story.header, capabilities=[*plain, "requeue"])
    story.connect("c0", awaits_receipt=answers).subscribe("c0/1", dest, ack="individual").send("p0/1", dest)
    story.arrive("c0/1", "p0/1", dest=dest).nack("c0/1", "p0/1")
    story.arrive("c0/1", "p0/1", dest=dest, redelivered=None).ack("c0/1", "p0/1", mode="individual")
    verdicts = judge_history(story.rest(dest).drain().end().history())
    assert [verdict.requirement for verdict in verdicts if verdict.verdict is FAILS] == []
