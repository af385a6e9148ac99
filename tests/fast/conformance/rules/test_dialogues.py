"""Dialogues of raw peers: what is said, what is written down of the answers, and what the rules make of it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from brokerproof.conformance.agents.dialogue import Conversation, OpenWireWords, StompWords, WayIn
from brokerproof.conformance.experiment import operations as ops
from brokerproof.conformance.experiment.configuration import BrokerSpec, HostSpec, PolicySpec, TimeStampingSpec
from brokerproof.conformance.experiment.dialogues import HELLO, PATIENCE_NS, choices, dialogues
from brokerproof.conformance.experiment.history import History
from brokerproof.conformance.experiment.history import Probe as Probed
from brokerproof.conformance.experiment.peers import Reply
from brokerproof.conformance.experiment.program import FORMAT, Program
from brokerproof.conformance.experiment.steps import Advance, AnyStep, Operate, Probe
from brokerproof.conformance.rules.judge import judge_history
from brokerproof.conformance.running.engine import simulate

RULES = (*(f"GEN-{number}" for number in range(180, 186)), "GEN-190", "GEN-191", "GEN-195")
ECHO = "a header with a colon and a backslash"


def run(*names: str, via: Any = "stomp", version: Any = "1.2", **broker: Any) -> History:
    return run_all([Probe(via=via, version=version, dialogues=names, ms=10_000)], **broker)


def run_all(steps: list[AnyStep], **broker: Any) -> History:
    hosts = [HostSpec("b", "broker"), HostSpec("c0", "client")]
    return simulate(Program(FORMAT, BrokerSpec(**broker), hosts, steps=steps))


def verdicts(history: History) -> dict[str, str]:
    found = {one.requirement: one.verdict.name.lower() for one in judge_history(history)}
    return {name: found[name] for name in RULES if found[name] != "not_exercised"}


def probed(history: History) -> Probed:
    return next(event for event in history.events if isinstance(event, Probed))


def with_replies(history: History, change: Any) -> dict[str, str]:
    """The verdicts if the last turn that wants something had been answered otherwise."""
    event = probed(history)
    turn = [one for one in event.heard.turns if one.replies][-1]
    turn.replies = change(turn.replies)
    return verdicts(history)


@pytest.mark.parametrize(
    ("via", "version"), [("stomp", "1.2"), ("stomp", "1.1"), ("stomp", "1.0"), ("openwire", "1.2")]
)
def test_every_turn_of_every_dialogue_is_said_and_answered(via: Any, version: Any) -> None:
    logins = via == "stomp"
    names = [*choices(via, version, greets=False), *choices(via, version, greets=True)]
    names += choices(via, version, greets=True, logins=True)
    known = dialogues(via)
    said_each = [Probe(via=via, version=version, dialogues=(name,), ms=10_000) for name in names]
    history = run_all(said_each, logins=logins)
    events = [event for event in history.events if isinstance(event, Probed)]
    for name, event in zip(names, events, strict=True):
        said = [turn.dialogue for turn in event.heard.turns]
        hello = 0 if known[name].greets else len(known[HELLO].turns)
        assert said == [HELLO] * hello + [name] * len(known[name].turns)
    rules = {"GEN-184"} if via == "openwire" else set(RULES) - {"GEN-184"}
    silent = {"1.2": set(), "1.1": {"GEN-185"}, "1.0": {"GEN-185", "GEN-190", "GEN-191"}}[version]
    assert verdicts(history) == dict.fromkeys(rules - silent, "satisfied")


def test_ids_are_compared_over_all_that_a_peer_was_given() -> None:
    history = run(ECHO, "an empty body", "a body with NUL")
    assert {one.requirement: one.verdict.name for one in judge_history(history)}["GEN-192"] == "SATISFIED"
    for turn in probed(history).heard.turns[-4:]:  # of the last two
        turn.replies = [msgspec.structs.replace(reply, lines=["message-id:1"]) for reply in turn.replies]
    assert {one.requirement: one.verdict.name for one in judge_history(history)}["GEN-192"] == "VIOLATED"


def test_a_dialogue_is_judged_by_what_it_is_about() -> None:
    assert verdicts(run(ECHO)) == {"GEN-181": "satisfied", "GEN-191": "satisfied"}
    assert verdicts(run("an unknown command")) == {
        "GEN-180": "satisfied",
        "GEN-181": "satisfied",
        "GEN-185": "satisfied",
    }
    assert verdicts(run("SUBSCRIBE with a bad option"))["GEN-182"] == "satisfied"
    assert verdicts(run("a priority above the highest"))["GEN-183"] == "satisfied"


@pytest.mark.parametrize(
    "change",
    [
        lambda replies: replies[:1],
        lambda replies: [*replies, replies[0]],
        lambda replies: [replies[0], msgspec.structs.replace(replies[1], lines=replies[1].lines[:-1])],
        lambda replies: [replies[0], msgspec.structs.replace(replies[1], body="hello!")],
        lambda replies: [replies[0], msgspec.structs.replace(replies[1], what="ERROR")],
    ],
    ids=["missing", "too many", "without a header", "with another body", "of another name"],
)
def test_another_answer_is_a_violation(change: Any) -> None:
    assert with_replies(run(ECHO), change)["GEN-181"] == "violated"


@pytest.mark.parametrize(
    ("lines", "verdict"), [([], "violated"), (["receipt-id:None"], "violated"), (None, "satisfied")]
)
def test_a_receipt_that_nobody_asked_for_is_a_violation(lines: list[str] | None, verdict: str) -> None:
    def change(replies: list[Any]) -> list[Any]:
        told = replies[0]
        return [*replies, msgspec.structs.replace(told, lines=told.lines if lines is None else lines)]

    assert with_replies(run("a message that asks for no receipt"), change)["GEN-191"] == verdict


@pytest.mark.parametrize("name", ["a transaction is committed once", "a transaction that was aborted is not committed"])
def test_what_is_over_is_not_committed(name: str) -> None:
    def change(replies: list[Any]) -> list[Any]:
        return [msgspec.structs.replace(replies[0], what="MESSAGE", lines=["message-id:1"], body="hello")]

    assert verdicts(run(name))["GEN-191"] == "satisfied"
    assert with_replies(run(name), change)["GEN-191"] == "violated"


def test_the_order_of_answers_is_free() -> None:
    assert with_replies(run(ECHO), lambda replies: replies[::-1])["GEN-181"] == "satisfied"


@pytest.mark.parametrize(("world", "verdict"), [("live", "satisfied"), ("simulated", "violated")])
def test_who_does_not_offer_temporary_topics_is_not_judged_by_what_they_bring(world: Any, verdict: str) -> None:
    history = run(ECHO)  # our own broker does
    history = History(msgspec.structs.replace(history.header, world=world), history.events)
    event = probed(history)
    event.heard.turns[1].replies[:] = [msgspec.structs.replace(event.heard.turns[1].replies[0], what="ERROR")]
    del event.heard.turns[2:]
    assert verdicts(history)["GEN-181"] == verdict  # satisfied: of the hello alone


def test_a_broker_without_room_or_one_that_restamps_may_answer_otherwise() -> None:
    def decided(**broker: Any) -> list[int]:
        found = judge_history(run("the headers of JMS", **broker))
        return [one.decided for one in found if one.requirement == "GEN-183"]

    assert decided() == [2]
    assert decided(memory_limit_bytes=16 * 1024) == [0]
    assert decided(timestamping=TimeStampingSpec(future_only=True)) == [0]


@pytest.mark.parametrize(("before", "decided"), [(True, 0), (False, 2)])
def test_an_operator_may_leave_no_room_from_then_on(before: bool, decided: int) -> None:
    limit, probe = Operate(op="limit", limit_bytes=16 * 1024), Probe(fault=0, ms=10_000, dialogues=(ECHO,))
    found = judge_history(run_all([limit, probe] if before else [probe, Advance(ms=20_000), limit]))
    assert [one.decided for one in found if one.requirement == "GEN-191"] == [decided]


@pytest.mark.parametrize("limits", [{"memory_limit_bytes": 16 * 1024}, {"pending_message_limit": 3}])
def test_only_the_entry_that_applies_may_leave_no_room(limits: dict[str, int]) -> None:
    def decided(match: str) -> list[int]:
        found = judge_history(run(ECHO, policies=[PolicySpec(), PolicySpec(match=match, **limits)]))
        return [one.decided for one in found if one.requirement == "GEN-191"]

    assert decided("queue://q0") == decided("unused") == [2]
    assert decided("*") == [0]


def test_an_operator_decides_who_may_do_what() -> None:
    told = ["SET AUTHREC PROFILE('q0') PRINCIPAL('nobody') AUTHADD(PUT, GET, BROWSE)"]
    names = ("a consumer of a session that is not there", "a message of a producer that is not there")
    plain = run(*names, via="openwire", generation={"delay": "ibm-mq"})
    assert verdicts(plain)["GEN-184"] == "satisfied"
    assert "GEN-184" not in verdicts(run(*names, via="openwire", generation={"delay": "ibm-mq"}, mqsc=told))
    said = ["ALTER QMGR CMDLEVEL(750)", "DEFINE QLOCAL('q0') PUT(DISABLED)", "DEFINE QALIAS(ASIDE) TARGET(BASE)"]
    assert verdicts(run(*names, via="openwire", generation={"delay": "ibm-mq"}, mqsc=said))["GEN-184"] == "satisfied"


@pytest.mark.parametrize(
    ("change", "verdict"),
    [
        (lambda replies: replies[::-1], "satisfied"),
        (lambda replies: [replies[0], msgspec.structs.replace(replies[1], body="hello!")], "violated"),
        (lambda replies: [msgspec.structs.replace(one, lines=[*one.lines, "more:x"]) for one in replies], "satisfied"),
        (lambda replies: [msgspec.structs.replace(one, lines=one.lines[:-1]) for one in replies], "violated"),
        (lambda replies: [msgspec.structs.replace(replies[0], what="ERROR")], "satisfied"),
        (lambda replies: [*replies, replies[0]], "satisfied"),
    ],
    ids=["another order", "another body", "more headers", "without a header", "refused", "too many"],
)
def test_of_any_broker_only_what_the_specification_says_is_expected(change: Any, verdict: str) -> None:
    assert with_replies(run(ECHO), change)["GEN-191"] == verdict  # a refused one is judged by the hello alone


def heard_for(history: History, wait_ns: int) -> dict[str, str]:
    """The verdicts if the last turn had been answered by nothing for so long."""
    place = next(place for place, event in enumerate(history.events) if isinstance(event, Probed))
    event = probed(history)
    last = event.heard.turns[-1]
    last.replies.clear()
    heard = msgspec.structs.replace(event.heard, ended_ns=None)
    history.events[place] = msgspec.structs.replace(event, t1=last.at[1] + wait_ns, heard=heard)
    return verdicts(history)


@pytest.mark.parametrize(("name", "rule"), [(ECHO, "GEN-191"), ("an escape that does not exist", "GEN-190")])
def test_who_is_not_waited_for_is_not_accused(name: str, rule: str) -> None:
    assert heard_for(run(name), PATIENCE_NS)[rule] == "violated"
    assert heard_for(run(name), PATIENCE_NS - 1).get(rule) != "violated"


def test_a_version_that_is_not_spoken_is_nobodys_fault() -> None:
    history = run_all([Probe(dialogues=("hello with all versions",), ms=10_000)])
    probed(history).heard.turns[0].replies[0].lines[:] = ["version:1.1"]
    assert "GEN-191" not in verdicts(history)


def test_a_peer_says_who_it_is_and_does_not_write_it_down() -> None:
    way = WayIn(topic="/exchange/x-{me}-{n}", host="/", login="user", passcode="secret")
    peer = Conversation(ops.Probe(dialogues=(ECHO,)), way)
    assert b"\nhost:/\nlogin:user\npasscode:secret\n\n" in peer.speak(5)
    assert b"destination:/exchange/x-5-1\n" in peer.hear(b"CONNECTED\nversion:1.2\n\n\0", 6)
    assert "secret" not in str(peer.spoken)


def test_an_error_after_which_the_connection_stays() -> None:
    history = run("an unknown command")
    place = next(place for place, event in enumerate(history.events) if isinstance(event, Probed))
    event = probed(history)
    heard = msgspec.structs.replace(event.heard, ended_ns=None)
    later = msgspec.structs.replace(event, t1=event.t1 + PATIENCE_NS, heard=heard)
    history.events[place] = later
    found = verdicts(history)
    assert (found["GEN-180"], found["GEN-185"]) == ("satisfied", "violated")


def test_the_next_turn_is_said_when_enough_was_heard_or_patience_ends() -> None:
    peer = Conversation(ops.Probe(dialogues=(ECHO,)))
    assert peer.speak(0).startswith(b"CONNECT\naccept-version:1.2\n")
    assert peer.hear(b"CONNECTED\nversion:1.2\n", 1) == b""
    assert peer.hear(b"\n\0\n", 2).startswith(b"SUBSCRIBE\nid:s1\n")
    assert peer.next_due_ns() == 2 + PATIENCE_NS
    assert peer.speak(2 + PATIENCE_NS).startswith(b"SEND\n")
    assert peer.hear(b"ERROR\nmessage:no\n\n\0", 5) == b""
    assert peer.speak(6) == b""
    assert peer.next_due_ns() is None


def test_stomp_is_read_byte_by_byte_as_it_comes() -> None:
    data = b"\nMESSAGE\nx:a\\c\nx:b\ncontent-length:3\n\na\0b\0\r\nRECEIPT\nreceipt-id:1\n\n\0"
    for size in (1, 2, 7, len(data)):
        ear = StompWords()
        found = [one for start in range(0, len(data), size) for one in ear.read(data[start : start + size])]
        assert [(what, lines, body) for what, lines, body, _ in found] == [
            ("MESSAGE", ["x:a\\c", "x:b", "content-length:3"], "a\0b"),
            ("RECEIPT", ["receipt-id:1"], ""),
        ]
        assert found[0][3]["x"] == "a\\c"


def test_lines_of_stomp_may_end_in_cr_lf() -> None:
    data = b"RECEIPT\r\nx:1\r\nreceipt-id:2\r\n\r\n\0\r\n\nMESSAGE\nx:a\r\n\nhello\r\n\r\n\0"
    for size in (1, len(data)):
        ear = StompWords()
        found = [one for start in range(0, len(data), size) for one in ear.read(data[start : start + size])]
        assert [(what, lines, body) for what, lines, body, _ in found] == [
            ("RECEIPT", ["x:1", "receipt-id:2"], ""),
            ("MESSAGE", ["x:a\r"], "hello\r\n\r\n"),  # a CR that is no end of a line
        ]


def test_openwire_that_cannot_be_read_is_written_down() -> None:
    assert OpenWireWords().read(b"\0\0\0\2\xff\0")[0][0] == "unreadable"


ENDINGS = [
    (f"a subscription to a {kind} ends by its {how}", version)
    for kind in ("topic", "queue")
    for how, versions in (("id", ("1.2", "1.1", "1.0")), ("destination", ("1.0",)))
    for version in versions
]


@pytest.mark.parametrize(("name", "version"), ENDINGS)
def test_a_subscription_that_has_ended_is_given_nothing(name: str, version: str) -> None:
    assert verdicts(run(name, version=version))["GEN-191"] == "satisfied"
    assert name not in choices("stomp", version, greets=False)  # seeds stay what they are


@pytest.mark.parametrize(("name", "version"), ENDINGS)
def test_who_gives_a_subscription_more_after_its_end_is_found(name: str, version: str) -> None:
    history = run(name, version=version)
    *_, last, tidying = [*probed(history).heard.turns, None] if "topic" in name else probed(history).heard.turns
    assert last is not None
    lines = [f"subscription:s{last.words['n']}"] if "by its id" in name else []
    last.replies.append(msgspec.structs.replace(last.replies[0], what="MESSAGE", lines=lines, body="there"))
    assert verdicts(history)["GEN-191"] == "violated"
    last.replies[-1].lines[:] = ["subscription:another"]  # of a subscription that has not ended
    assert verdicts(history)["GEN-191"] == ("satisfied" if "by its id" in name else "violated")
    last.replies.pop()
    if tidying is not None:
        tidying.replies.clear()  # what queues keep is not what this is about
    assert verdicts(history)["GEN-191"] == "satisfied"


@pytest.mark.parametrize(("name", "version"), ENDINGS)
def test_nobody_may_refuse_to_end_a_subscription(name: str, version: str) -> None:
    history = run(name, version=version)
    turns = probed(history).heard.turns
    del turns[3:]
    turns[-1].replies[:] = [msgspec.structs.replace(turns[-1].replies[0], what="ERROR", lines=["message:no"])]
    assert verdicts(history)["GEN-191"] == "violated"


def test_who_tells_no_version_speaks_the_first_one() -> None:
    history = run(ENDINGS[3][0], version="1.0")
    hello = probed(history).heard.turns[0].replies[0]
    told = [*hello.lines]
    for lines, judged in ((told, True), ([], True), (["version:1.1"], False)):
        hello.lines[:] = lines
        assert ("GEN-191" in verdicts(history)) is judged


def test_a_client_of_the_first_version_needs_to_name_none() -> None:
    name, other = "hello of the first version", ENDINGS[3][0]
    probes = [Probe(version="1.0", dialogues=(one,), ms=10_000) for one in (name, other)]
    history = run_all([*probes])
    assert verdicts(history)["GEN-191"] == "satisfied"
    assert name not in choices("stomp", "1.0", greets=True)
    hello = probed(history).heard.turns[0]
    hello.replies[:] = [msgspec.structs.replace(hello.replies[0], what="ERROR", lines=["message:no"])]
    assert verdicts(history)["GEN-191"] == "violated"


@pytest.mark.parametrize("version", ["1.2", "1.1", "1.0"])
def test_nobody_is_let_in_without_login_and_passcode(version: Any) -> None:
    for name in choices("stomp", version, greets=True, logins=True):
        found = run(name, version=version, logins=True)
        assert verdicts(found)["GEN-195"] == "satisfied", name
        assert probed(found).heard.ended_ns is not None
        welcome = [Reply(probed(found).t0, "CONNECTED", [], "")]
        assert with_replies(found, lambda _, said=welcome: said)["GEN-195"] == "violated", name
        # Nothing is said to who asks for no login, and so nothing judged.
        assert not any(isinstance(event, Probed) for event in run(name, version=version).events)


def test_who_knows_the_passcode_is_let_in_and_what_was_not_answered_is_not_judged() -> None:
    name = choices("stomp", "1.2", greets=True, logins=True)[0]
    found = run("hello with all versions", "ACK without an id", logins=True)
    assert verdicts(found) == dict.fromkeys(("GEN-180", "GEN-181", "GEN-185"), "satisfied")
    silent = run(name, logins=True)
    probed(silent).heard = msgspec.structs.replace(probed(silent).heard, ended_ns=None)
    assert "GEN-195" not in with_replies(silent, lambda _: [])
    assert not any(isinstance(event, Probed) for event in run(HELLO, via="openwire", logins=True).events)
