"""What a send with a delay is refused for: the reason, the object named, nothing stored; both façades, all orders."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from brokerproof.reference_broker.core.mq.definitions import STAGING
from brokerproof.reference_broker.jms.client import JMSException, JMSRuntimeException
from tests.fast.reference_broker.jms.bench import BOTH_AVAILABLE, Bench, Q, T

CLUSTERED = "DEFINE QLOCAL(Q) CLUSTER(C) DEFBIND"
#: commands, destination, delay, arguments of the send, reason, objects that the text names.
TABLE: list[tuple[list[str], str, int, dict[str, Any], int, list[str]]] = [
    ([f"{CLUSTERED}(OPEN)"], Q, 1, {}, 2046, ["Q is clustered", "DEFBIND(OPEN)"]),
    ([f"{CLUSTERED}(GROUP)"], Q, 1, {}, 2046, ["DEFBIND(GROUP)"]),
    ([], Q, 1, {"properties": {"JMS_IBM_Retain": 1}}, 2046, ["JMS_IBM_Retain"]),
    ([], Q, 1, {"properties": {"JMS_IBM_RETAIN": "1"}}, 2046, ["JMS_IBM_RETAIN"]),
    ([], Q, 1, {"group": "g"}, 2046, ["group"]),
    ([], Q, 1, {"properties": {"JMS_IBM_MQMD_MsgFlags": 2}}, 2046, ["segment"]),
    ([], Q, 1000, {"ttl_ms": 999}, 2013, ["999 ms", "1000 ms"]),
    (["DEFINE QLOCAL(Q) CAPEXPRY(9)"], Q, 1000, {}, 2013, ["Q caps", "900 ms"]),
    (["DEFINE QALIAS(Q) TARGET(B)", "DEFINE QLOCAL(B) CAPEXPRY(9)"], Q, 1000, {}, 2013, ["B caps"]),
    (["DEFINE QALIAS(Q) TARGET(B) CAPEXPRY(9)"], Q, 1000, {}, 2013, ["Q caps"]),
    (["DEFINE TOPIC(T) PMSGDLV(ALLAVAIL) CAPEXPRY(9)"], T, 1000, {}, 2013, ["T caps"]),
    ([], T, 1, {}, 2502, ["T has PMSGDLV(ALLDUR)"]),
    (["DEFINE TOPIC(OBJECT) TOPICSTR('T') PMSGDLV(ALL)"], T, 1, {}, 2502, ["PMSGDLV(ALL)"]),
    (["DEFINE TOPIC(T) NPMSGDLV(ALLDUR)"], T, 1, {"persistent": False}, 2502, ["T has NPMSGDLV(ALLDUR)"]),
    (["DEFINE QALIAS(Q) TARGET(B)", "DEFINE QLOCAL(B) PUT(DISABLED)"], Q, 1, {}, 2051, ["MQRC_PUT_INHIBITED"]),
    (["DEFINE QALIAS(Q) TARGET(B)", "DEFINE QLOCAL(B) MAXMSGL(0)"], Q, 1, {}, 2030, ["MQRC_MSG_TOO_BIG_FOR_Q"]),
    (["DEFINE QALIAS(Q) TARGET(B)", "DEFINE QLOCAL(B) MAXDEPTH(0)"], Q, 1, {}, 2053, ["MQRC_Q_FULL"]),
    (
        [f"ALTER QLOCAL({STAGING}) MAXMSGL(256)", "DEFINE QLOCAL(Q) MAXMSGL(0)"],
        Q,
        1,
        {},
        2030,
        ["queue://Q: MQRC_MSG_TOO_BIG_FOR_Q", f"{STAGING}: MQRC_MSG_TOO_BIG_FOR_Q"],
    ),
    (["SET AUTHREC PROFILE(Q) PRINCIPAL('app') AUTHADD(GET)"], Q, 1, {}, 2035, ["'app'", "PUT", "Q"]),
    ([*BOTH_AVAILABLE, "SET AUTHREC PROFILE(T) PRINCIPAL('app') AUTHADD(SUB)"], T, 1, {}, 2035, ["PUB", "T"]),
    (["DEFINE QLOCAL(Q) PUT(DISABLED)"], Q, 1, {}, 2051, ["queue://Q: MQRC_PUT_INHIBITED"]),
    (["DEFINE QALIAS(Q) TARGET(B) PUT(DISABLED)"], Q, 1, {}, 2051, ["queue://Q"]),
    (["DEFINE QLOCAL(Q) MAXMSGL(0)"], Q, 1, {}, 2030, ["queue://Q"]),
    (["DEFINE QLOCAL(Q) MAXDEPTH(0)"], Q, 1, {}, 2053, ["queue://Q"]),
    ([f"ALTER QLOCAL({STAGING}) PUT(DISABLED)"], Q, 1, {}, 2051, [f"{STAGING}: MQRC_PUT_INHIBITED"]),
    ([f"ALTER QLOCAL({STAGING}) MAXMSGL(256)"], Q, 1, {}, 2030, [f"{STAGING}: MQRC_MSG_TOO_BIG_FOR_Q"]),
    ([f"ALTER QLOCAL({STAGING}) MAXDEPTH(0)"], Q, 1, {}, 2053, [f"{STAGING}: MQRC_Q_FULL"]),
    (
        [f"ALTER QLOCAL({STAGING}) MAXDEPTH(0)", "DEFINE QLOCAL(Q) PUT(DISABLED)"],
        Q,
        1,
        {},
        2051,
        ["queue://Q: MQRC_PUT_INHIBITED", f"{STAGING}: MQRC_Q_FULL"],
    ),
    (["ALTER QMGR PLATFORM(MVS)"], Q, 1, {}, 2085, [STAGING]),
]


@pytest.mark.parametrize(("mqsc", "destination", "delay_ms", "options", "reason", "named"), TABLE)
def test_every_row_on_both_facades(
    mqsc: list[str], destination: str, delay_ms: int, options: dict[str, Any], reason: int, named: list[str]
) -> None:
    b = Bench(*mqsc)
    old, new = b.app.create_producer(destination), b.app.create_context_producer()
    old.set_delivery_delay(delay_ms)
    new.set_delivery_delay(delay_ms)
    old.persistent = new.persistent = options.get("persistent", True)
    options = {name: value for name, value in options.items() if name != "persistent"}
    with pytest.raises(JMSException) as classic:
        old.send(b"x", **options)
    with pytest.raises(JMSRuntimeException) as simplified:
        new.send(destination, b"x", **options)
    assert not isinstance(classic.value, JMSRuntimeException)
    for raised in (classic.value, simplified.value):
        assert raised.reason == reason
        assert str(raised).startswith(f"{reason} {raised.code}: ")
        assert all(name in str(raised) for name in named), str(raised)
    b.advance(10_000)
    assert (b.manager.stage.depth(), b.depth(), [unit for unit in b.manager.journal if unit]) == (0, 0, [])


def reason_of(call: Callable[[], object], failure: type[JMSException] = JMSException) -> int:
    """The reason code with which a call fails; 0 if it does not."""
    try:
        call()
    except JMSException as error:
        return error.reason if type(error) is failure else -1
    return 0


ORDERS = list(itertools.permutations(["ttl", "delay", "send"]))


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("simplified", [False, True])
def test_six_orders_of_calls(order: tuple[str, ...], simplified: bool) -> None:
    """Whichever of the two setters comes last is refused and changes nothing; a send before it is not."""
    b = Bench()
    producer: Any = b.app.create_context_producer() if simplified else b.app.create_producer(Q)
    calls = {
        "ttl": lambda: producer.set_time_to_live(500),
        "delay": lambda: producer.set_delivery_delay(1000),
        "send": lambda: producer.send(*([Q] if simplified else []), b"x"),
    }
    second = [call for call in order if call != "send"][1]
    failure = JMSRuntimeException if simplified else JMSException
    assert [reason_of(calls[call], failure) for call in order] == [2013 if call == second else 0 for call in order]
    assert (producer.time_to_live_ms, producer.delivery_delay_ms) == ((0, 1000) if second == "ttl" else (500, 0))


@pytest.mark.parametrize(("ttl_ms", "reason"), [(0, 0), (999, 2013), (1000, 0), (1001, 0)])
@pytest.mark.parametrize("at_send", [False, True])
def test_life_against_delay(ttl_ms: int, reason: int, at_send: bool) -> None:
    """At the setter, or at a send that is given a life itself. A life that ends with the delay is taken."""
    producer = Bench().app.create_producer(Q)
    producer.set_delivery_delay(1000)
    assert reason_of(lambda: producer.send(b"x", ttl_ms=ttl_ms) if at_send else producer.set_time_to_live(ttl_ms)) == (
        reason
    )


def test_below_level_800_the_setter_fails_and_a_send_by_other_ways_too() -> None:
    b = Bench("ALTER QMGR CMDLEVEL(750)")
    producer = b.app.create_producer(Q)
    producer.set_delivery_delay(0)
    with pytest.raises(JMSException) as at_setter:
        producer.set_delivery_delay(1)
    producer.delivery_delay_ms = 1  # what a client without this check would send
    with pytest.raises(JMSException) as at_send:
        producer.send(b"x")
    assert (at_setter.value.reason, at_send.value.reason) == (2298, 2298)
    assert b.manager.stage.depth() == 0


@pytest.mark.parametrize("delay_ms", [0, 1000])
def test_what_needs_no_delay_is_taken(delay_ms: int) -> None:
    """Not clustered with NOTFIXED, nor for ALLAVAIL; and groups, retained ones and ALLDUR without a delay."""
    b = Bench(f"{CLUSTERED}(NOTFIXED)", *BOTH_AVAILABLE)
    b.send(Q, delay_ms=delay_ms)
    b.send(T, delay_ms=delay_ms)
    b.send("topic://U", delay_ms=delay_ms, persistent=False)
    b.send(Q, delay_ms=0, group="g", properties={"JMS_IBM_Retain": 1})
    b.send("topic://U", delay_ms=0)


@pytest.mark.parametrize("size", [0, 1])
def test_the_staging_queue_counts_its_header(size: int) -> None:
    b = Bench(f"ALTER QLOCAL({STAGING}) MAXMSGL({256 + size}) MAXDEPTH(2)")
    b.send(body=b"x" * size)
    with pytest.raises(JMSException, match="2030"):
        b.send(body=b"x" * (size + 1))
    b.send(body=b"x" * size)
    with pytest.raises(JMSException, match="2053"):
        b.send(body=b"x" * size)
    b.advance(1000)
    b.send(body=b"x" * size)


def test_the_staging_queue_is_closed_to_all_but_administrators() -> None:
    b = Bench()
    b.send()
    name = f"queue://{STAGING}"
    assert reason_of(lambda: b.send(name, delay_ms=0), JMSRuntimeException) == 2035
    assert reason_of(lambda: b.app.receive(name)) == 2035
    assert reason_of(b.app.browse_staged) == 2035
    assert reason_of(lambda: b.app.get_staged("x")) == 2035
    assert len(b.admin.browse_staged()) == 1


def test_authority_is_asked_at_the_send_only() -> None:
    b = Bench()
    b.send()
    b.manager.mqsc("SET AUTHREC PROFILE(OTHER) PRINCIPAL('app') AUTHADD(PUT)")
    with pytest.raises(JMSException, match="2035"):
        b.send()
    b.advance(1000)
    assert b.depth() == 1
    b.manager.mqsc("SET AUTHREC PROFILE(Q) PRINCIPAL('app') AUTHADD(PUT)")
    b.send()
