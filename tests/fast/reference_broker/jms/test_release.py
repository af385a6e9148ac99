"""A put that fails at the release: every ending of the tree, in one unit of work, and crashes at every event."""

from __future__ import annotations

import random
from typing import Any

import pytest

from brokerproof.reference_broker.core.mq.definitions import DURABLE_MODEL, NDURABLE_MODEL
from brokerproof.reference_broker.core.mq.release import LEAVES
from brokerproof.reference_broker.core.records import Record
from brokerproof.reference_broker.jms.client import JMSException
from tests.fast.reference_broker.jms.bench import BOTH_AVAILABLE, DEADQ, REPLY, WITH_DEADQ, Bench, Q, T

INHIBIT = "ALTER QLOCAL({}) PUT(DISABLED)"
ALLOW = "ALTER QLOCAL({}) PUT(ENABLED)"
EXCEPTION = {"JMS_IBM_Report_Exception": 0x01000000}
DISCARD = {"JMS_IBM_Report_Discard_Msg": 0x08000000}

#: properties, persistent, queues that take nothing at the release; then the endings, and what stands on (Q, the
#: dead-letter queue, the reply queue, the staging queue).
QUEUES: list[tuple[dict[str, Any], bool, str, list[str], tuple[int, int, int, int]]] = [
    ({}, True, "", ["put"], (1, 0, 0, 0)),
    ({}, True, "Q", ["dead-lettered"], (0, 1, 0, 0)),
    ({}, True, "Q DEADQ", ["retried"], (0, 0, 0, 1)),
    ({}, False, "Q DEADQ", ["retried"], (0, 0, 0, 1)),
    (EXCEPTION, True, "Q", ["dead-lettered", "reported"], (0, 1, 1, 0)),
    (EXCEPTION, True, "Q REPLY", ["dead-lettered", "report-dead-lettered"], (0, 2, 0, 0)),
    (EXCEPTION, True, "Q DEADQ", ["retried"], (0, 0, 0, 1)),
    (DISCARD, True, "Q", ["discarded-by-option"], (0, 0, 0, 0)),
    ({**DISCARD, **EXCEPTION}, True, "Q", ["discarded-by-option", "reported"], (0, 0, 1, 0)),
    ({**DISCARD, **EXCEPTION}, True, "Q REPLY", ["discarded-by-option", "report-dead-lettered"], (0, 1, 0, 0)),
    ({**DISCARD, **EXCEPTION}, True, "Q REPLY DEADQ", ["discarded-by-option", "backed-out"], (0, 0, 0, 1)),
    ({**DISCARD, **EXCEPTION}, False, "Q REPLY DEADQ", ["discarded-by-option", "report-dropped"], (0, 0, 0, 0)),
]


@pytest.mark.parametrize(("properties", "persistent", "inhibited", "leaves", "depths"), QUEUES)
def test_the_tree_of_a_queue(
    properties: dict[str, Any], persistent: bool, inhibited: str, leaves: list[str], depths: tuple[int, ...]
) -> None:
    b = Bench(*WITH_DEADQ)
    b.send(properties=properties, persistent=persistent, reply_to=REPLY)
    for name in inhibited.split():
        b.manager.mqsc(INHIBIT.format(name))
    b.advance(1000)
    assert b.leaves() == leaves
    assert (b.depth(), b.depth(DEADQ), b.depth(REPLY), b.manager.stage.depth()) == depths
    for name in inhibited.split():
        b.manager.mqsc(ALLOW.format(name))
    b.advance(1000)
    assert b.depth() == (1 if inhibited == "" or depths[3] else 0), "what was backed out comes later, the rest never"


def test_a_report_takes_its_turn_in_a_nearly_full_dead_letter_queue() -> None:
    """One place is left: the message has it, so its report has not; everything is taken back."""
    b = Bench(*WITH_DEADQ)
    b.send(properties=EXCEPTION, reply_to=REPLY)
    for command in (INHIBIT.format("Q"), INHIBIT.format("REPLY"), "ALTER QLOCAL(DEADQ) MAXDEPTH(1)"):
        b.manager.mqsc(command)
    b.advance(1000)
    assert (b.leaves(), b.depth(DEADQ)) == (["dead-lettered", "backed-out"], 0)
    b.manager.mqsc(ALLOW.format("REPLY"))
    b.advance(1000)
    assert (b.depth(DEADQ), b.depth(REPLY), b.manager.stage.depth()) == (1, 1, 0)


def test_the_dead_letter_says_why_and_is_the_original() -> None:
    b = Bench(*WITH_DEADQ)
    sent = b.send(body=b"body", ttl_ms=60_000)
    b.manager.mqsc("ALTER QLOCAL(Q) MAXDEPTH(0)")
    b.advance(1000)
    dead = b.app.receive(DEADQ)
    assert dead is not None
    assert (dead.message.message_id, dead.body, dead.expiry) == (sent, b"body", 590)
    assert dead.message.properties == {"MQDLH_Reason": 2053, "MQDLH_DestQName": "Q"}


@pytest.mark.parametrize(("option", "shown"), [(0x01000000, 0), (0x03000000, 100), (0x07000000, 150)])
def test_an_exception_report_shows_as_much_as_was_asked_for(option: int, shown: int) -> None:
    b = Bench(*WITH_DEADQ)
    body = bytes(range(150))
    sent = b.send(body=body, reply_to=REPLY, properties={"JMS_IBM_Report_Exception": option})
    b.manager.mqsc(INHIBIT.format("Q"))
    b.advance(1000)
    report = b.app.receive(REPLY)
    assert report is not None
    assert (report.body, report.message.correlation_id) == (body[:shown], sent)
    assert report.message.properties["JMS_IBM_Feedback"] == 2051


@pytest.mark.parametrize("passed", [False, True])
def test_a_report_has_ids_of_its_own_or_its_message_s(passed: bool) -> None:
    b = Bench(*WITH_DEADQ)
    own: dict[str, Any] = {"JMS_IBM_Report_Pass_Msg_ID": "128", "JMS_IBM_Report_Pass_Correl_ID": 0x40}
    sent = b.send(properties=EXCEPTION | (own if passed else {}), reply_to=REPLY)
    b.manager.mqsc(INHIBIT.format("Q"))
    b.advance(1000)
    report = b.app.receive(REPLY)
    assert report is not None
    ids = (report.message.message_id, report.message.correlation_id)
    assert ids == ((sent, None) if passed else (f"{sent}-exception", sent))


def test_without_a_dead_letter_queue_it_is_tried_again_and_holds_up_nobody() -> None:
    b = Bench()
    b.send()
    b.send("queue://OTHER")
    b.manager.mqsc(INHIBIT.format("Q"))
    b.advance(10_000)
    assert (b.depth("queue://OTHER"), b.manager.stage.depth(), set(b.leaves())) == (1, 1, {"retried", "put"})
    b.manager.mqsc(ALLOW.format("Q"))
    b.advance(1000)
    assert (b.depth(), b.manager.stage.depth()) == (1, 0)


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("deadq", [False, True])
def test_a_publication_that_cannot_be_put(persistent: bool, durable: bool, deadq: bool) -> None:
    """It becomes a dead letter; where there can be none it is discarded, persistent or not."""
    b = Bench(*BOTH_AVAILABLE, *(WITH_DEADQ if deadq else []))
    names = [b.app.subscribe(T, durable="d" if durable else ""), b.app.subscribe(T, durable="" if durable else "e")]
    b.send(T, persistent=persistent)
    b.manager.mqsc(INHIBIT.format(DURABLE_MODEL if durable else NDURABLE_MODEL))
    b.advance(1000)
    assert sorted(b.leaves()) == sorted(["dead-lettered" if deadq else "publication-discarded", "put"])
    assert (b.depth(DEADQ), b.manager.stage.depth()) == (int(deadq), 0)
    assert [len(b.app.received(name)) for name in names] == [0, 1]


def test_dead_letters_of_several_subscriptions_are_several() -> None:
    b = Bench(*BOTH_AVAILABLE, *WITH_DEADQ)
    b.app.subscribe(T)
    b.app.subscribe(T)
    b.send(T)
    b.manager.mqsc(INHIBIT.format(NDURABLE_MODEL))
    b.advance(1000)
    assert b.depth(DEADQ) == 2


@pytest.mark.parametrize("report", [False, True])
def test_a_subscriber_that_left_is_passed_over_in_silence(report: bool) -> None:
    b = Bench(*BOTH_AVAILABLE, *WITH_DEADQ)
    stays, goes = b.app.subscribe(T), b.app.subscribe(T)
    b.send(T, properties=EXCEPTION if report else None, reply_to=REPLY)
    b.app.close_consumer(goes)
    b.advance(1000)
    assert (len(b.app.received(stays)), b.app.received(goes), b.depth(DEADQ)) == (1, [], 0)
    assert (b.depth(REPLY), "subscriber-gone" in b.leaves()) == (int(report), True)


def test_one_copy_of_a_publication_is_cancelled_alone() -> None:
    b = Bench(*BOTH_AVAILABLE)
    names = [b.app.subscribe(T), b.app.subscribe(T, durable="d")]
    sent = b.send(T)
    b.admin.get_staged(sent)
    assert b.manager.stage.depth() == 1
    b.advance(1000)
    assert [len(b.app.received(name)) for name in names] == [0, 1]


# -- crashes


def journey(seed: int) -> tuple[Bench, dict[str, str]]:
    """A queue manager at random work, and what may have become of each persistent message: where it went to."""
    chance = random.Random(seed)  # noqa: S311 - the same journey for the same seed
    b = Bench(*(WITH_DEADQ if chance.random() < 0.8 else []))
    accepted: dict[str, str] = {}
    for _ in range(chance.randint(10, 25)):
        what = chance.randrange(8)
        if what < 3:
            properties = {**chance.choice([{}, DISCARD]), **chance.choice([{}, EXCEPTION])}
            try:
                sent = b.send(delay_ms=chance.choice([1, 500, 3000]), properties=properties, reply_to=REPLY)
                accepted[sent] = "may be discarded" if DISCARD.items() <= properties.items() else "must be somewhere"
            except JMSException:
                pass  # the queue is inhibited: refused at the send, which changes nothing
        elif what < 6:
            change = chance.choice([INHIBIT, ALLOW])
            for name in chance.choice([["Q"], ["Q", "DEADQ"], ["Q", "REPLY"], ["REPLY", "DEADQ"]]):
                b.manager.mqsc(change.format(name))
        elif what == 6:
            b.manager.mqsc(chance.choice(["STOP DELAYPROC", "START DELAYPROC"]))
        else:
            b.advance(chance.choice([1, 700, 3000]))
    return b, accepted


def survivors(b: Bench) -> list[str]:
    """Ids of sent messages that are somewhere, each as often as it is there."""
    found = [message.message_id for queue in (Q, DEADQ) for message in b.manager.broker.browse(queue) or []]
    return sorted([*found, *(one.correlation_id for one in b.admin.browse_staged())])


def crash_everywhere(seed: int) -> tuple[int, set[str]]:
    """Crash after each event, and inside it: its records are kept together or not at all. (crashes, endings)."""
    b, accepted = journey(seed)
    kept: list[Record] = []
    crashes = 0
    known: set[str] = set()
    for unit in [[], *b.manager.journal]:
        kept += unit
        known |= {message.message_id for message in _added(unit)}
        if unit or not crashes:
            crashes += 1
            again = b.crash(list(kept))
            must = sorted(one for one in accepted if one in known and accepted[one] == "must be somewhere")
            here = [one for one in survivors(again) if one in accepted]
            assert len(here) == len(set(here)), f"seed {seed}: twice after crash {crashes}"
            assert set(must) <= set(here), f"seed {seed}: lost after crash {crashes}"
            again.advance(10_000)
            assert again.manager.stage.depth() == 0
            assert set(must) <= set(survivors(again)), f"seed {seed}: lost later, after crash {crashes}"
    return crashes, set(b.leaves())


def _added(unit: list[Record]) -> list[Any]:
    return [record.message for record in unit if hasattr(record, "message")]


def test_a_crash_at_every_event_loses_nothing_and_doubles_nothing() -> None:
    crashes, endings = 0, set[str]()
    for seed in range(90):
        more, reached = crash_everywhere(seed)
        crashes += more
        endings |= reached
    assert crashes > 300
    assert endings >= {"put", "dead-lettered", "retried", "reported", "report-dead-lettered", "backed-out"}
    assert "discarded-by-option" in endings


def test_a_get_and_a_put_that_are_two_units_are_found_out() -> None:
    """The test above can fail: a crash between the two loses the message."""
    b = Bench(*WITH_DEADQ)
    sent = b.send()
    b.manager.mqsc(INHIBIT.format("Q"))
    b.advance(1000)
    (unit,) = [unit for unit in b.manager.journal[-20:] if len(unit) == 2]
    before = [record for earlier in b.manager.journal for record in earlier if record not in unit]
    assert [survivors(b.crash([*before, *unit[:done]])) for done in (0, 1, 2)] == [[sent], [], [sent]]


def test_all_endings_have_been_seen() -> None:
    """Each name of ``LEAVES`` stands in a test of this file that asserts it."""
    tested = {leaf for row in QUEUES for leaf in row[3]} | {"publication-discarded", "subscriber-gone"}
    assert tested == set(LEAVES)


def test_a_message_to_several_queues_is_released_to_each() -> None:
    b = Bench("DEFINE QLOCAL(FULL) MAXDEPTH(0)")
    b.send("queue://Q,R")
    with pytest.raises(JMSException, match="queue://FULL"):
        b.send("queue://Q,queue://FULL")
    b.advance(1000)
    assert (b.depth(), b.depth("queue://R"), b.manager.stage.depth()) == (1, 1, 0)
