"""Queue managers: what they must refuse and do follows from their commands alone (DLY-033, DLY-045 to DLY-054)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from brokerproof.conformance.corpus import programs
from brokerproof.conformance.experiment.configuration import BrokerSpec, HostSpec
from brokerproof.conformance.experiment.destinations import DEAD_LETTERS, topics
from brokerproof.conformance.experiment.history import Arrive, Counters, Event, History, Operate, Send, Subscribe
from brokerproof.conformance.experiment.program import FORMAT, Program
from brokerproof.conformance.experiment.steps import AnyStep
from brokerproof.conformance.experiment.steps import Operate as OperateStep
from brokerproof.conformance.experiment.steps import Send as SendStep
from brokerproof.conformance.experiment.steps import Subscribe as SubscribeStep
from brokerproof.conformance.experiment.verdict import Verdict, VerdictKind
from brokerproof.conformance.facts.mqsc import STAGING, Command, Objects
from brokerproof.conformance.rules.judge import judge_history
from brokerproof.conformance.running.engine import simulate
from brokerproof.reference_broker.core.mq.definitions import Definitions
from brokerproof.reference_broker.core.mq.mqsc import MqscError, parse

NAMES = [name for name in programs() if name.startswith("mq-")]
ROOM, TABLE, MANAGER = "mq-no-room-on-either-queue", "mq-table-of-refusals", "mq-commands-about-the-manager"
CALLS, NAMED = "mq-six-orders-of-calls", "mq-names-that-lead-elsewhere"
ORDERS, USERS = "producer-calls-in-six-orders", "mq-users-with-authorities-of-their-own"
SHOWS, CLOSED = "mq-publications-on-the-staging-queue", "mq-rights-on-everything"


def judged(history: History) -> dict[str, Verdict]:
    return {verdict.requirement: verdict for verdict in judge_history(history)}


def changed(name: str, which: Callable[[Any], bool], **fields: Any) -> dict[str, Verdict]:
    """The verdicts on a corpus program's history, the first event of that kind told otherwise."""
    history = simulate(programs()[name])
    place = next(place for place, event in enumerate(history.events) if which(event))
    events: list[Event] = list(history.events)
    events[place] = msgspec.structs.replace(events[place], **fields)
    return judged(History(history.header, events))


@pytest.mark.parametrize("name", NAMES)
def test_the_sound_broker_is_not_accused(name: str) -> None:
    verdicts = judged(simulate(programs()[name])).values()
    assert [verdict.text for verdict in verdicts if verdict.verdict is VerdictKind.VIOLATED] == []


def refused_with(number: int) -> Callable[[Any], bool]:
    return lambda event: isinstance(event, Send) and (event.refusal or "").startswith(str(number))


def subscribed(event: Any) -> bool:
    return isinstance(event, Subscribe) and event.dest == STAGING


def called(event: Any) -> bool:
    """A producer that refused a call."""
    return isinstance(event, Send) and any(thrown for _, _, thrown in event.called)


def ordered(event: Any) -> bool:
    """A producer that was told both before it sent."""
    return isinstance(event, Send) and [call for call, _, _ in event.called] == ["life", "delay", "send"]


def denied(event: Any) -> bool:
    return isinstance(event, Operate) and event.result == "fail"


@pytest.mark.parametrize(
    ("requirement", "name", "which", "fields"),
    [
        ("DLY-045", TABLE, refused_with(2046), {"result": "ok", "refusal": None}),
        ("DLY-046", ROOM, refused_with(2030), {"result": "ok", "refusal": None}),
        ("DLY-046", ROOM, refused_with(2053), {"result": "ok", "refusal": None}),
        ("DLY-047", TABLE, refused_with(2013), {"refusal": "2014 MQRC_EXPIRY_ERROR: x"}),
        ("DLY-047", TABLE, refused_with(2013), {"refusal": "2046 MQRC_OPTIONS_ERROR: x"}),
        ("DLY-047", ROOM, refused_with(2051), {"refusal": f"2051 MQRC_PUT_INHIBITED: {STAGING}: MQRC_PUT_INHIBITED"}),
        (
            "DLY-048",
            CLOSED,
            lambda e: isinstance(e, Subscribe) and e.dest == STAGING,
            {"result": "ok", "refusal": None},
        ),
        (
            "DLY-049",
            MANAGER,
            lambda e: isinstance(e, Operate) and e.result == "fail",
            {"result": "ok", "refusal": None},
        ),
        ("DLY-049", MANAGER, lambda e: isinstance(e, Operate) and e.command == "STOP DELAYPROC", {"result": "fail"}),
        (
            "DLY-050",
            SHOWS,
            lambda e: isinstance(e, Operate) and "CURDEPTH(6)" in "".join(e.shown),
            {"shown": ["DELAYPROC STATUS(RUNNING) CURDEPTH(1)"]},
        ),
        (
            "DLY-050",
            MANAGER,
            lambda e: isinstance(e, Operate) and e.command == "DISPLAY QMGR",
            {"shown": ["QMGR CMDLEVEL(801) DEADQ() PLATFORM(UNIX)"]},
        ),
        ("DLY-053", CALLS, called, {"called": [("life", 999, ""), ("delay", 1000, ""), ("send", 0, "")]}),
        ("DLY-053", CALLS, called, {"ttl_ms": 0}),
        ("DLY-053", CALLS, called, {"facade": "simplified"}),
        ("DLY-053", CALLS, called, {"called": [("delay", 1000, "JMSException: 2046 MQRC_OPTIONS_ERROR: x")]}),
        ("DLY-053", CALLS, called, {"called": [("delay", 1000, "JMSException: 2013 MQRC_EXPIRY_ERROR: x")]}),
        ("DLY-033", USERS, lambda e: isinstance(e, Send) and e.message == "p0/3", {"result": "ok", "refusal": None}),
        (
            "DLY-048",
            USERS,
            lambda e: isinstance(e, Subscribe) and (e.host, e.dest) == ("c0", "q1"),
            {"result": "ok", "refusal": None},
        ),
        (
            "DLY-047",
            USERS,
            lambda e: isinstance(e, Send) and e.message == "c0/6",
            {"result": "fail", "refusal": "2035 MQRC_NOT_AUTHORIZED: x"},
        ),
        ("DLY-053", ORDERS, ordered, {"delay_ms": 0}),
        ("DLY-053", ORDERS, ordered, {"ttl_ms": 59_999}),
        ("DLY-053", ORDERS, ordered, {"called": [("life", 60_000, "JMSException: no"), ("delay", 700, "")]}),
        ("DLY-053", ORDERS, ordered, {"called": [("life", 60_000, "IllegalArgumentException: no")]}),
        ("DLY-054", NAMED, lambda e: isinstance(e, Arrive) and e.dest == "q1", {"dest": "q0"}),
        (
            "DLY-054",
            NAMED,
            lambda e: isinstance(e, Arrive) and e.message == "p0/2",
            {"dest": DEAD_LETTERS, "original_dest": "q2", "headers": {"MQDLH_Reason": 2053}},
        ),
        (
            "DLY-050",
            "mq-taken-off-before-a-kill",
            lambda e: isinstance(e, Operate) and e.command == "DISPLAY STAGED" and len(e.shown) < 6,
            {"shown": ["STAGED is empty"]},
        ),
        (  # taken off after the kill, not shown then, and there again after the stop
            "DLY-050",
            "mq-taken-off-before-a-kill",
            lambda e: isinstance(e, Operate) and e.command == "DISPLAY STAGED" and e.t0 > 40_000_000,
            {"shown": ["STAGED MSGID(DDELAY.1.2) CORRELID(ID-b-1-1)"]},
        ),
        (
            "DLY-050",
            "mq-endings-of-a-release",
            lambda e: isinstance(e, Operate) and e.shown == ["DELAYPROC STATUS(RUNNING) CURDEPTH(10)"],
            {"shown": ["DELAYPROC STATUS(RUNNING) CURDEPTH(8)"]},
        ),
        ("DLY-054", NAMED, lambda e: isinstance(e, Arrive) and e.priority == 7, {"priority": 4}),
        ("DLY-054", NAMED, lambda e: isinstance(e, Arrive) and e.dest == "q1" and e.persistent, {"persistent": False}),
    ],
)
def test_what_is_told_otherwise_is_found(
    requirement: str, name: str, which: Callable[[Any], bool], fields: dict[str, Any]
) -> None:
    assert changed(name, which, **fields)[requirement].verdict is VerdictKind.VIOLATED


EXPIRED = "JMSException: 2013 MQRC_EXPIRY_ERROR: x"
NO_DELAY = "JMSException: 2298 MQRC_FUNCTION_NOT_SUPPORTED: x"


@pytest.mark.parametrize(
    ("world", "thrown", "sent", "outcome"),
    [
        ("live", "", EXPIRED, "refused-at-the-send"),
        ("live", "", "", "taken"),
        ("simulated", "", EXPIRED, "taken"),
        ("live", EXPIRED, "", "refused"),
        ("live", NO_DELAY, "", "another-reason"),
    ],
)
def test_a_real_client_may_look_at_both_at_the_send(world: str, thrown: str, sent: str, outcome: str) -> None:
    """IBM's text: on calling one setter, the other, or send. Our own client refuses the setter."""
    history = simulate(programs()[CALLS])
    event = next(event for event in history.events if isinstance(event, Send) and event.called)
    taken = 0 if thrown else 1000
    told = [("life", 999, ""), ("delay", 1000, thrown), ("send", 0, sent)]
    only = msgspec.structs.replace(event, called=told, ttl_ms=999, delay_ms=taken)
    header = msgspec.structs.replace(history.header, world=world)
    assert judged(History(header, [only]))["DLY-053"].outcome == outcome


def without(name: str, which: Callable[[Any], bool]) -> dict[str, Verdict]:
    """The verdicts on a corpus program's history of which the first such event is left out."""
    history = simulate(programs()[name])
    events: list[Event] = list(history.events)
    events.remove(next(event for event in events if which(event)))
    return judged(History(history.header, events))


def tells(feedback: int, dest: str = "", *, size: int = 0) -> Callable[[Any], bool]:
    """A report, of what, on which queue, with a body or whatever it has."""

    def which(event: Any) -> bool:
        told = isinstance(event, Arrive) and str((event.headers or {}).get("JMS_IBM_Feedback")) == str(feedback)
        return told and event.dest.startswith(dest) and (not size or event.body != 0)

    return which


def letter(event: Any) -> bool:
    return isinstance(event, Arrive) and "MQDLH_Reason" in (event.headers or {})


@pytest.mark.parametrize(
    ("requirement", "name", "which"),
    [
        ("DLY-032", "mq-target-inhibited-at-the-release", letter),
        ("DLY-052", "mq-reports-of-every-kind", tells(2051, "~p0")),
        ("DLY-052", "mq-reports-of-every-kind", tells(258, "~p0")),
        ("DLY-052", "mq-reports-of-every-kind", tells(259, "~c0")),
        ("DLY-052", "mq-reports-of-every-kind", tells(260)),
    ],
)
def test_what_nobody_told_is_missed(requirement: str, name: str, which: Callable[[Any], bool]) -> None:
    assert without(name, which)[requirement].verdict is VerdictKind.VIOLATED


def test_what_went_to_an_alias_and_came_nowhere_is_lost() -> None:
    history = simulate(programs()[NAMED])
    events: list[Any] = list(history.events)
    kept = [e for e in events if isinstance(e, Send) or getattr(e, "message", "") != "p0/2"]
    verdict = judged(History(history.header, kept))["DLY-054"]
    assert (verdict.verdict, verdict.outcome) == (VerdictKind.VIOLATED, "lost")


@pytest.mark.parametrize(
    ("which", "fields"),
    [
        (tells(259, size=1), {"body": 1}),
        (tells(258, size=1), {"body": 0}),
        (tells(260), {"headers": {"JMS_IBM_Feedback": 261, "JMS_IBM_MsgType": 4, "correlation-id": "x"}}),
        (tells(2051), {"headers": {"JMS_IBM_Feedback": 2053, "JMS_IBM_MsgType": 4, "correlation-id": "x"}}),
        (tells(258, "~c0"), {"priority": 11}),
        (tells(259), {"headers": {"JMS_IBM_Feedback": 259, "JMS_IBM_MsgType": 4}}),
    ],
)
def test_a_report_of_something_else_is_found(which: Callable[[Any], bool], fields: dict[str, Any]) -> None:
    verdicts = changed("mq-reports-of-every-kind", which, **fields)
    assert verdicts["DLY-052"].verdict is VerdictKind.VIOLATED


@pytest.mark.parametrize("named", ["", "a message id", "order-9"])
def test_a_report_names_its_message_as_that_asked(named: str) -> None:
    """By the message's own correlation id, where it asked for that, and where it did not, by anything but that."""
    name = "mq-a-report-keeps-the-correlation"
    headers = {"JMS_IBM_Feedback": 259, "JMS_IBM_MsgType": 4, "correlation-id": named}
    verdicts = changed(name, tells(259), headers=headers)
    assert verdicts["DLY-052"].verdict is VerdictKind.VIOLATED
    assert judged(simulate(programs()[name]))["DLY-052"].verdict is VerdictKind.SATISFIED


@pytest.mark.parametrize("redelivered", [False, True])
def test_a_report_that_its_consumer_did_not_settle_may_come_again(redelivered: bool) -> None:
    history = simulate(programs()["mq-reports-of-every-kind"])
    place, told = next((at, one) for at, one in enumerate(history.events) if tells(259, "~c0", size=1)(one))
    again = msgspec.structs.replace(told, redelivered=redelivered)
    events = [*history.events[: place + 1], again, *history.events[place + 1 :]]
    verdict = judged(History(history.header, events))["DLY-052"]
    assert (verdict.verdict is VerdictKind.VIOLATED) is not redelivered


def test_each_subscriptions_copy_of_a_publication_is_told_of() -> None:
    """Also of one that has ended when it is due."""
    mqsc = ["ALTER QMGR DEADQ('ActiveMQ.DLQ')", "DEFINE TOPIC('t0') PMSGDLV(ALLAVAIL)"]
    broker = BrokerSpec(generation={"delay": "ibm-mq"}, mqsc=mqsc)
    asked = SendStep(delay_ms=60_000, headers={"JMS_IBM_Report_Exception": 117440512})
    hosts = [HostSpec("b", "broker"), HostSpec("c0", "client", via="jms")]
    steps: list[AnyStep] = [SubscribeStep(), SubscribeStep(), asked]
    history = simulate(Program(FORMAT, broker, hosts, destinations=topics("t0"), steps=steps))
    assert len([event for event in history.events if tells(2085)(event)]) == 2
    assert judged(history)["DLY-052"].verdict is VerdictKind.SATISFIED


def test_a_report_has_what_its_message_left_to_the_queue() -> None:
    history = simulate(programs()["mq-reports-of-every-kind"])
    events = [
        msgspec.structs.replace(event, headers=event.headers | {"JMS_IBM_MQMD_Priority": -1})
        if isinstance(event, Send)
        else msgspec.structs.replace(event, priority=7)
        if isinstance(event, Arrive) and tells(2051)(event)
        else event
        for event in history.events
    ]
    assert judged(History(history.header, events))["DLY-052"].verdict is VerdictKind.SATISFIED


ONE, TWO = "STAGED MSGID(m1) CORRELID(c1)", "STAGED MSGID(m2) CORRELID(c2)"


@pytest.mark.parametrize(
    ("told", "wrong"),
    [
        ([("DISPLAY STAGED", [ONE, TWO]), ("DELETE STAGED(2)", [TWO]), ("DISPLAY STAGED", [ONE])], False),
        ([("DISPLAY STAGED", [ONE, TWO]), ("DELETE STAGED(1)", [TWO])], False),  # the first one was released before
        ([("DISPLAY STAGED", [ONE, "STAGED MSGID(m1) CORRELID(c2)"])], True),
        ([("DISPLAY STAGED", [ONE, "STAGED MSGID(c1) CORRELID(c2)"])], True),
        ([("DISPLAY STAGED", [ONE, "STAGED MSGID(m2) CORRELID(c1)"])], True),
        ([("DISPLAY STAGED", ["STAGED CORRELID(c1)"])], True),
        ([("DISPLAY STAGED", [ONE, TWO]), ("DISPLAY STAGED", [TWO, ONE])], True),
        ([("DISPLAY STAGED", [ONE]), ("DISPLAY STAGED", ["STAGED MSGID(m1) CORRELID(c2)"])], True),
        ([("DISPLAY STAGED", [ONE, TWO]), ("DELETE STAGED(2)", [ONE])], True),
        ([("DELETE STAGED(1)", [ONE]), ("DISPLAY STAGED", [ONE])], True),
        ([("DISPLAY STAGED", [ONE, TWO]), ("DELETE STAGED(X)", [ONE])], True),  # which is no number
        ([("DELETE STAGED(0)", [ONE])], True),
        ([("DISPLAY STAGED", [ONE, TWO, "STAGED MSGID(m3) CORRELID(c3)"])], True),
    ],
)
def test_the_staging_queue_shows_each_message_by_an_id_of_its_own(told: list[Any], wrong: bool) -> None:
    """Of two messages with a delay."""
    program = programs()["mq-below-level-800"]
    broker = msgspec.structs.replace(program.broker, mqsc=[])
    steps = [SendStep(delay_ms=5000)] * 2 + [OperateStep(op="mqsc", command=command) for command, _ in told]
    history = simulate(msgspec.structs.replace(program, broker=broker, steps=steps))
    shown = iter([lines for _, lines in told])
    events = [
        msgspec.structs.replace(event, shown=next(shown), result="ok") if isinstance(event, Operate) else event
        for event in history.events
    ]
    assert (judged(History(history.header, events))["DLY-050"].verdict is VerdictKind.VIOLATED) is wrong


def test_what_nothing_forbids_is_to_be_taken() -> None:
    """Commands are known, so that they excuse what follows from them and nothing else."""
    sent = changed(
        ROOM, lambda e: isinstance(e, Send) and e.result == "ok", result="fail", refusal="2053 MQRC_Q_FULL: x"
    )
    assert (sent["GEN-100"].verdict, sent["DLY-047"].verdict) == (VerdictKind.VIOLATED, VerdictKind.VIOLATED)


def carried_out(definitions: Definitions, text: str) -> list[str] | None:
    """What the broker shows; None: it refuses."""
    try:
        command = parse(text)
        if command.verb == "DISPLAY":
            return definitions.shown(command)
        definitions.apply(command)
    except MqscError:
        return None
    return []


def test_commands_mean_the_same_to_facts_and_broker() -> None:
    """Written twice, from the documents: what one takes the other takes, and what one shows the other shows."""
    compared = 0
    for name in NAMES:
        definitions, objects = Definitions(), Objects()
        for text in (getattr(step, "command", "") for step in programs()[name].steps):
            if not text or "DELAYPROC" in text or "STAGED" in text:
                continue
            shown, told = carried_out(definitions, text), Command(text)
            compared += 1
            assert (objects.apply(told) != "") is (shown is None), text
            row = objects.qmgr if told.kind == "QMGR" else objects.objects.get((told.kind, told.name), {})
            if shown:
                texts = {key: str(value) for key, value in row.items()}
                assert dict(re.findall(r" (\w+)\(([^)]*)\)", shown[0])) == texts
    assert compared > 300


@pytest.mark.parametrize(
    "command",
    [
        "STOP DELAYPROC",
        "ALTER QLOCAL('q0') PUT(DISABLED)",
        "ALTER QLOCAL('q0') MAXDEPTH(0)",
        "ALTER QLOCAL('q0') MAXMSGL(1)",
        "ALTER QMGR CMDLEVEL(750)",
        "ALTER QMGR PLATFORM(MVS)",
        f"DELETE QLOCAL({STAGING})",
        "DELETE STAGED(1)",
    ],
)
def test_what_an_operator_keeps_back_to_the_end_is_not_lost(command: str) -> None:
    """A program that ends before he makes it good again, as shrunk ones do."""
    program = programs()["mq-below-level-800"]
    broker = msgspec.structs.replace(program.broker, mqsc=[])
    steps = [SendStep(delay_ms=500), OperateStep(op="mqsc", command=command)]
    verdicts = judged(simulate(msgspec.structs.replace(program, broker=broker, steps=steps)))
    assert [name for name, one in verdicts.items() if one.verdict is VerdictKind.VIOLATED] == []


TAKEN_OFF = "mq-publications-taken-off-in-all-copies"


def counted_at_rest(dest: str, scheduled: int, place: int) -> dict[str, Verdict]:
    """The verdicts on that program, its ``place``-th figures of a destination told otherwise."""
    history = simulate(programs()[TAKEN_OFF])
    events: list[Event] = list(history.events)
    found = [n for n, one in enumerate(events) if isinstance(one, Counters) and one.dest == dest]
    events[found[place]] = msgspec.structs.replace(events[found[place]], scheduled=scheduled)  # type: ignore[call-arg]
    return judged(History(history.header, events))


@pytest.mark.parametrize(
    ("dest", "scheduled", "place", "expected"),
    [
        ("t0", 2, 0, VerdictKind.SATISFIED),  # one of two copies was taken off
        ("t0", 5, 0, VerdictKind.VIOLATED),
        ("t0", 1, 3, VerdictKind.VIOLATED),  # both copies were
        ("q0", 1, 3, VerdictKind.VIOLATED),
        ("q0", 0, 3, VerdictKind.SATISFIED),
    ],
)
def test_what_was_taken_off_in_all_its_copies_is_counted_no_more(
    dest: str, scheduled: int, place: int, expected: VerdictKind
) -> None:
    assert counted_at_rest(dest, scheduled, place)["DLY-038"].verdict is expected


def test_a_publication_that_nobody_matched_may_be_counted() -> None:
    program = programs()[TAKEN_OFF]
    alone = program.with_steps([step for step in program.steps if step.__struct_config__.tag != "subscribe"])
    found = judged(simulate(alone))
    assert found["DLY-038"].verdict is VerdictKind.SATISFIED
