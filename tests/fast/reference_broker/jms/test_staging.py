"""The staging queue, its processor, both resolutions, expiry across the stage, units of work, publications."""

from __future__ import annotations

import pytest

from brokerproof.reference_broker.core.config import ConfigError
from brokerproof.reference_broker.core.mq.mqsc import MqscError
from brokerproof.reference_broker.jms.client import JMSException
from tests.fast.reference_broker.jms.bench import BOTH_AVAILABLE, STAGING, Bench, Q, T

DEFINED = f"DEFINE QLOCAL({STAGING}) MAXDEPTH(10)"


def test_a_staged_message_has_a_new_id_and_its_own_as_correlation_id() -> None:
    b = Bench()
    sent = [b.send(), b.send()]
    staged = b.admin.browse_staged()
    assert [one.correlation_id for one in staged] == sent
    assert len({one.message_id for one in staged} | set(sent)) == 4
    b.admin.get_staged(sent[0])
    with pytest.raises(JMSException) as gone:
        b.admin.get_staged(sent[0])
    assert gone.value.reason == 2033
    b.advance(5000)
    received = b.app.receive(Q)
    assert received is not None
    assert (received.message.message_id, b.app.receive(Q)) == (sent[1], None)


@pytest.mark.parametrize(
    ("platform", "commands", "states"),
    [
        ("UNIX", [f"ALTER QLOCAL({STAGING}) PUT(DISABLED)", f"ALTER QLOCAL({STAGING}) PUT(ENABLED)"], "RR"),
        ("UNIX", [f"ALTER QLOCAL({STAGING}) GET(DISABLED)", f"ALTER QLOCAL({STAGING}) GET(ENABLED)"], "SR"),
        ("UNIX", ["STOP DELAYPROC", "START DELAYPROC"], "SR"),
        ("UNIX", ["ALTER QMGR CMDLEVEL(750)", "START DELAYPROC", "ALTER QMGR CMDLEVEL(800)"], "AAR"),
        ("UNIX", [f"DELETE QLOCAL({STAGING})", f"DEFINE QLOCAL({STAGING})"], "SR"),
        ("MVS", [DEFINED], "R"),
        ("MVS", [DEFINED + " GET(DISABLED)", f"ALTER QLOCAL({STAGING}) GET(ENABLED)"], "SR"),
        ("MVS", [DEFINED, f"ALTER QLOCAL({STAGING}) PUT(DISABLED)", f"ALTER QLOCAL({STAGING}) PUT(ENABLED)"], "RSR"),
        ("MVS", [DEFINED, f"ALTER QLOCAL({STAGING}) GET(DISABLED)", f"ALTER QLOCAL({STAGING}) GET(ENABLED)"], "RSR"),
        ("MVS", [DEFINED, "STOP DELAYPROC", f"ALTER QLOCAL({STAGING}) MAXDEPTH(9)"], "RSS"),
        (
            "MVS",
            [
                DEFINED,
                "STOP DELAYPROC",
                f"ALTER QLOCAL({STAGING}) PUT(DISABLED)",
                f"ALTER QLOCAL({STAGING}) PUT(ENABLED)",
            ],
            "RSSR",
        ),
    ],
)
def test_states_of_the_processor(platform: str, commands: list[str], states: str) -> None:
    b = Bench(f"ALTER QMGR PLATFORM({platform})")
    seen = ""
    for command in commands:
        b.manager.mqsc(command)
        seen += b.manager.mqsc("DISPLAY DELAYPROC")[0].split("(")[1][0]
    assert seen == states


def test_while_it_is_stopped_nothing_comes_and_nothing_is_lost() -> None:
    b = Bench()
    b.send()
    b.send(delay_ms=9000)
    b.manager.mqsc("STOP DELAYPROC")
    b.advance(5000)
    assert (b.depth(), b.manager.stage.depth(), b.manager.broker.next_due_ns()) == (0, 2, None)
    b.manager.mqsc("START DELAYPROC")
    b.advance(0)
    assert b.depth() == 1
    b.advance(4000)
    assert b.depth() == 2


def test_a_queue_manager_that_went_back_leaves_them_marooned_and_gettable() -> None:
    b = Bench()
    sent = [b.send(), b.send()]
    b.manager.mqsc("ALTER QMGR CMDLEVEL(750)")
    b.advance(100_000)
    assert (b.depth(), b.manager.stage.depth()) == (0, 2)
    b.admin.get_staged(sent[0])
    b.manager.mqsc("ALTER QMGR CMDLEVEL(800)")
    b.advance(0)
    assert b.depth() == 1


@pytest.mark.parametrize("wrong", ["INDXTYPE(MSGID)", "MSGDLVSQ(PRIORITY)"])
def test_on_zos_wrong_attributes_of_the_staging_queue_are_refused(wrong: str) -> None:
    b = Bench("ALTER QMGR PLATFORM(MVS)")
    with pytest.raises(MqscError, match=wrong[:8]):
        b.manager.mqsc(f"{DEFINED} {wrong}")
    b.manager.mqsc(DEFINED)
    with pytest.raises(MqscError, match=wrong[:8]):
        b.manager.mqsc(f"ALTER QLOCAL({STAGING}) {wrong}")
    b.send()
    with pytest.raises(MqscError, match="holds 1 messages"):
        b.manager.mqsc(f"DELETE QLOCAL({STAGING})")


def test_the_target_is_resolved_twice_and_the_defaults_once() -> None:
    b = Bench("DEFINE QALIAS(A) TARGET(Q) DEFPSIST(YES) DEFPRTY(7)")
    as_defined: dict[str, str | bool | int | float] = {"JMS_IBM_MQMD_Persistence": 2, "JMS_IBM_MQMD_Priority": -1}
    b.send("queue://A", persistent=False, properties=as_defined)
    b.manager.mqsc("ALTER QALIAS(A) TARGET(OTHER) DEFPSIST(NO) DEFPRTY(1)")
    b.advance(1000)
    (message,) = b.manager.broker.browse("queue://OTHER") or []
    assert (b.depth(), message.persistent, message.priority) == (0, True, 7)


def test_expiry_runs_on_across_the_stage() -> None:
    """The example of the document: 20 s of life, 5 s of delay, got 10 s after that: 50 tenths are left."""
    b = Bench()
    b.send(delay_ms=5000, ttl_ms=20_000)
    b.advance(15_000)
    received = b.app.receive(Q)
    assert received is not None
    assert received.expiry == 50
    b.send(delay_ms=0)
    forever = b.app.receive(Q)
    assert forever is not None
    assert forever.expiry == -1


def test_a_capped_life_is_what_counts() -> None:
    b = Bench("DEFINE QLOCAL(Q) CAPEXPRY(30)")
    b.send(ttl_ms=60_000)
    b.send()
    b.advance(2000)
    assert [r.expiry for r in (b.app.receive(Q), b.app.receive(Q)) if r is not None] == [10, 10]


@pytest.mark.parametrize(("option", "shown"), [(0x00200000, 0), (0x00600000, 100), (0x00E00000, 150)])
def test_expired_on_the_stage_is_reported_as_it_was_sent(option: int, shown: int) -> None:
    b = Bench()
    body = bytes(range(150))
    sent = b.send(
        body=body, ttl_ms=2000, reply_to="queue://REPLY", properties={"JMS_IBM_Report_Expiration": str(option)}
    )
    b.manager.mqsc("STOP DELAYPROC")
    b.advance(40_000)
    report = b.app.receive("queue://REPLY")
    assert report is not None
    assert (report.body, report.message.correlation_id) == (body[:shown], sent)
    assert report.message.properties == {"JMS_IBM_MsgType": 4, "JMS_IBM_Feedback": 258}
    assert b.manager.stage.depth() == 0


def test_confirmations_wait_for_the_real_target() -> None:
    b = Bench()
    asked: dict[str, str | bool | int | float] = {
        "JMS_IBM_Report_COA": 0x100,
        "JMS_IBM_Report_COD": 0x800,
        "JMS_IBM_Report_PAN": 1,
        "JMS_IBM_Report_NAN": 2,
        "JMS_IBM_MQMD_Report": 4,  # MQRO_ACTIVITY
    }
    b.send(reply_to="queue://REPLY", properties=asked)
    assert b.depth("queue://REPLY") == 0
    b.advance(1000)
    arrived = b.app.receive("queue://REPLY")
    assert arrived is not None
    assert (arrived.message.properties["JMS_IBM_Feedback"], b.depth("queue://REPLY")) == (259, 0)
    received = b.app.receive(Q)
    assert received is not None
    assert received.message.properties == asked
    delivered = b.app.receive("queue://REPLY")
    assert delivered is not None
    assert delivered.message.properties["JMS_IBM_Feedback"] == 260


@pytest.mark.parametrize("delay_ms", [0, 1000])
def test_own_uncommitted_messages(delay_ms: int) -> None:
    """Can be got in the same unit of work; a delayed one is not even on the staging queue, however long it lasts."""
    b = Bench()
    b.app.begin()
    b.send(delay_ms=delay_ms)
    b.advance(2000)
    assert (b.manager.stage.depth(), b.app.receive(Q) is None) == (0, delay_ms > 0)
    b.app.commit()
    assert b.manager.stage.depth() == (1 if delay_ms else 0)
    b.advance(0)
    assert b.depth() == (1 if delay_ms else 0)


def test_a_unit_of_work_rolled_back_is_staged_never() -> None:
    b = Bench()
    b.app.begin()
    b.send()
    b.app.rollback()
    b.advance(5000)
    assert (b.manager.stage.depth(), b.depth()) == (0, 0)


@pytest.mark.parametrize("transacted", [False, True])
def test_subscriptions_are_matched_at_the_send_a_copy_each(transacted: bool) -> None:
    b = Bench(*BOTH_AVAILABLE)
    early = [b.app.subscribe(T), b.app.subscribe(T, durable="d")]
    if transacted:
        b.app.begin()
    sent = b.send(T)
    late = b.app.subscribe(T)
    if transacted:
        b.app.commit()
    staged = b.admin.browse_staged()
    assert [one.correlation_id for one in staged] == [sent, sent]
    assert len({one.message_id for one in staged}) == 2
    b.advance(1000)
    assert [len(b.app.received(name)) for name in (*early, late)] == [1, 1, 0]


def test_a_publication_needs_room_for_each_copy() -> None:
    b = Bench(*BOTH_AVAILABLE, f"ALTER QLOCAL({STAGING}) MAXDEPTH(1)")
    b.app.subscribe(T)
    b.send(T)
    b.admin.get_staged(b.admin.browse_staged()[0].correlation_id)
    b.app.subscribe(T)
    with pytest.raises(JMSException, match="2053"):
        b.send(T)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "empty"),
        ("FETCH QLOCAL(Q)", "'FETCH' is unknown"),
        ("DEFINE", "of what"),
        ("DEFINE CHANNEL(C)", "not offered"),
        ("DEFINE QLOCAL", "needs a name"),
        ("DEFINE QLOCAL(Q) MAXDEPTH(x)", "no number"),
        ("DEFINE QLOCAL(Q) PUT(MAYBE)", "PUT"),
        ("DEFINE QLOCAL(Q) COLOUR(RED)", "no attribute COLOUR"),
        ("DEFINE QLOCAL(Q) PUT", "needs a value"),
        ("DEFINE QLOCAL(Q) ((", "cannot be read"),
        (f"DEFINE QLOCAL({STAGING})", "exists already"),
        ("ALTER TOPIC(T) PMSGDLV(ALL)", "does not exist"),
        ("DISPLAY QALIAS(T)", "does not exist"),
        ("DEFINE QALIAS(A)", "no local queue"),
        ("SET AUTHREC PROFILE(Q)", "PRINCIPAL"),
        ("SET AUTHREC PROFILE(Q) PRINCIPAL(P) AUTHADD(FLY)", "'FLY' is unknown"),
    ],
)
def test_commands_that_are_refused(text: str, says: str) -> None:
    b = Bench()
    with pytest.raises(MqscError, match=says):
        b.manager.mqsc(text)
    with pytest.raises(ConfigError, match=says):
        Bench(text)


def test_a_command_is_read_as_mqsc_is() -> None:
    b = Bench()
    b.manager.mqsc("def ql(lower) maxdepth(3) capexpry(nolimit)")
    b.manager.mqsc("define qlocal( 'it''s' ) put(disabled)")
    assert "QLOCAL(LOWER) PUT(ENABLED)" in b.manager.mqsc("dis ql(lower)")[0]
    assert "PUT(DISABLED)" in b.manager.mqsc("DISPLAY QLOCAL('it''s')")[0]
    assert "CMDLEVEL(800)" in b.manager.mqsc("DISPLAY QMGR")[0]
