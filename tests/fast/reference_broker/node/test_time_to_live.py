"""Broker-relative time to live: only the broker's clock counts; consumers discard nothing; bridges pass on the rest."""

from __future__ import annotations

import pytest

from brokerproof.reference_broker.core.config import RELATIVE_TTL, BrokerConfig, ConfigError, TimeStamping
from brokerproof.reference_broker.core.events import Send
from brokerproof.reference_broker.core.instant import Now
from brokerproof.reference_broker.core.message import Message, Property
from brokerproof.reference_broker.core.time_to_live import MAX_TTL_MS
from brokerproof.reference_broker.inactivity import DocumentedMonitor
from brokerproof.reference_broker.openwire.broker import BrokerSession as OpenWireSession
from brokerproof.reference_broker.openwire.client import ClientSession
from brokerproof.reference_broker.openwire.commands import ConnectionInfo, ConsumerInfo, WireFormatInfo
from brokerproof.reference_broker.stomp.broker import BrokerSession as StompSession
from brokerproof.reference_broker.stomp.codec import Frame
from tests.fast.reference_broker.core.driver import DLQ, START_MS, Driver, Q, config_of

TTL = 180_000


def asked(value: Property = TTL) -> dict[str, str]:
    return {RELATIVE_TTL: value}  # type: ignore[dict-item]  # a driver's properties are texts, a client's are not


@pytest.mark.parametrize("ahead_ms", [-86_400_000, 0, 86_400_000])
def test_the_producers_clock_does_not_matter(ahead_ms: int) -> None:
    d = Driver()
    message = d.send(properties=asked(), timestamp_ms=START_MS + ahead_ms, expiration_ms=START_MS + ahead_ms + 1)
    assert (message.expiration_ms, message.shown_expiration_ms()) == (START_MS + TTL, 0)
    assert message.properties == {}
    d.advance(TTL)
    d.subscribe()
    assert d.got() == ["m1"]


def test_it_dies_a_millisecond_later() -> None:
    d = Driver()
    d.send(properties=asked())
    d.advance(TTL + 1)
    d.subscribe()
    assert d.got() == []
    assert d.counter("expired") == 1
    (dead_letter,) = d.dead_letters()
    assert (dead_letter.expiration_ms, dead_letter.ttl_ms) == (0, 0)
    assert dead_letter.properties["originalExpiration"] == START_MS + TTL


@pytest.mark.parametrize("value", ["", "3 min", "-1", -1, True, 1.5, "1_000", "\u0661", MAX_TTL_MS + 1, "9" * 30])
def test_what_is_no_duration_is_refused(value: Property) -> None:
    d = Driver()
    message = Message("m", Q, b"", timestamp_ms=START_MS, properties=asked(value))  # type: ignore[arg-type]  # see asked
    assert d.ask(Send(1, message, request=d.request())) == "bad-ttl"
    assert d.counter("enqueued") in (0, None)
    assert message.properties == asked(value)


@pytest.mark.parametrize("value", [0, "0"])
def test_zero_is_none(value: Property) -> None:
    message = Driver().send(properties=asked(value), expiration_ms=START_MS + 7)
    assert (message.ttl_ms, message.shown_expiration_ms()) == (0, START_MS + 7)


def test_the_largest_value() -> None:
    assert Driver().send(properties=asked(str(MAX_TTL_MS))).expiration_ms == START_MS + MAX_TTL_MS


@pytest.mark.parametrize(
    ("settings", "lives_ms"),
    [
        (TimeStamping(), TTL),
        (TimeStamping(ttl_ceiling_ms=TTL + 1), TTL),
        (TimeStamping(ttl_ceiling_ms=1000), 1000),
        (TimeStamping(future_only=True), TTL),
        (TimeStamping(future_only=True, ttl_ceiling_ms=1000), 1000),
        (TimeStamping(zero_expiration_override_ms=5), TTL),
    ],
)
def test_with_the_time_stamping_plug_in(settings: TimeStamping, lives_ms: int) -> None:
    for ahead_ms in (-300_000, 300_000):
        d = Driver(config_of(timestamping=settings))
        message = d.send(properties=asked(), timestamp_ms=START_MS + ahead_ms)
        assert message.expiration_ms == START_MS + lives_ms


def test_it_counts_from_the_send_in_spite_of_a_delay() -> None:
    d = Driver()
    d.subscribe()
    d.send(properties=asked(1000), delay_ms=600)
    d.send(properties=asked(1000), delay_ms=1001)
    d.advance(600)
    assert [dispatch.remaining_ttl_ms for dispatch in d.dispatches] == [400]
    d.advance(500)
    assert d.got() == ["m1"]
    assert [dead_letter.message_id for dead_letter in d.dead_letters()] == ["m2"]


def test_a_bridge_hands_on_the_rest_to_a_broker_with_another_clock() -> None:
    """The message lives the whole time and no longer, however far apart the brokers' clocks are."""
    for apart_ms in (-3_600_000, 3_600_000):
        near, far = Driver(), Driver()
        far.wall_ms += apart_ms
        near.subscribe("bridge")
        near.advance(100)
        near.send(properties=asked(1000))
        near.subscribe("late")
        (first,) = near.dispatches
        assert first.remaining_ttl_ms == 1000
        near.advance(400)
        far.advance(400)
        near.leave("bridge")
        second = near.dispatches[-1]
        assert (second.consumer, second.remaining_ttl_ms) == ("late", 600)
        passed_on = {**second.message.properties, RELATIVE_TTL: second.remaining_ttl_ms}
        far.send(properties=passed_on, timestamp_ms=second.message.timestamp_ms, network=True)  # type: ignore[arg-type]  # see asked
        far.subscribe("c", prefetch=0)
        far.advance(600)
        assert far.counter("expired") == 0
        far.advance(1)
        far.advance(30_000)
        assert far.counter("expired") == 1


def test_what_is_left_is_never_shown_as_none() -> None:
    d = Driver()
    d.send(properties=asked(10))
    d.advance(10)
    d.subscribe()
    assert [dispatch.remaining_ttl_ms for dispatch in d.dispatches] == [1]


def test_other_names_have_to_be_listed() -> None:
    assert Driver().send(properties={"ttl": "1000"}).ttl_ms == 0
    d = Driver(config_of(relative_ttl_names=["ttl", RELATIVE_TTL]))
    assert d.send(properties={"ttl": "1000"}).ttl_ms == 1000
    assert d.send(properties=asked(2000)).ttl_ms == 2000
    off = Driver(config_of(relative_ttl_names=[])).send(properties=asked(5))
    assert (off.ttl_ms, off.expiration_ms, off.properties) == (0, 0, asked(5))


@pytest.mark.parametrize("name", ["expires", "JMSExpiration", ""])
def test_names_with_a_field_of_their_own_are_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="relative_ttl_names"):
        BrokerConfig(relative_ttl_names=[name])


def test_a_dead_letter_of_it_starts_no_new_life() -> None:
    d = Driver()
    d.send(properties=asked(5))
    d.advance(30_000)
    assert d.counter("size", DLQ) == 1
    d.advance(TTL)
    assert d.counter("size", DLQ) == 1


# -- at the edges

NOW = Now(0, START_MS)


def stomp_headers() -> dict[str, str]:
    """A MESSAGE for a STOMP consumer, of a message that lives another 400 ms."""
    session = StompSession(1, BrokerConfig())
    session.receive(Frame("CONNECT", {"accept-version": "1.2", "host": "h"}), NOW)
    (subscribe,) = session.receive(Frame("SUBSCRIBE", {"id": "s", "destination": "/queue/q"}), NOW)
    (send,) = session.receive(Frame("SEND", {"destination": "/queue/q", RELATIVE_TTL: "1000"}), NOW)
    d = Driver()
    d.subscribe(subscribe.consumer)  # type: ignore[attr-defined]  # the event of a SUBSCRIBE
    d.handle(Send(1, send.message))  # type: ignore[attr-defined]  # the event of a SEND
    (dispatch,) = d.dispatches
    dispatch.remaining_ttl_ms = 400
    frame = session.render(dispatch)
    assert frame is not None
    return frame.headers


def test_a_stomp_consumer_sees_the_rest_and_no_expiration() -> None:
    headers = stomp_headers()
    assert (headers["expires"], headers[RELATIVE_TTL]) == ("0", "400")


def test_a_jms_consumer_whose_clock_is_a_day_ahead_does_not_discard_it() -> None:
    session = OpenWireSession(1, BrokerConfig())
    session.receive(WireFormatInfo(0, 0), NOW)
    session.receive(ConnectionInfo("c", 1), NOW)
    (subscribe,) = session.receive(ConsumerInfo("c", Q, 10), NOW)
    d = Driver()
    d.subscribe(subscribe.consumer)  # type: ignore[attr-defined]  # the event of a ConsumerInfo
    d.send(properties=asked(1000))
    command = session.render(d.dispatches[0])
    assert command is not None
    client = ClientSession("c", DocumentedMonitor("b", 0))
    client.connect()
    client.subscribe("c", Q)
    ahead = Now(0, START_MS + 86_400_000)
    client.receive(command, ahead)
    delivered, notices = client.take("c", ahead)
    assert notices == []
    assert delivered is not None
    assert (delivered.expiration_ms, delivered.properties[RELATIVE_TTL]) == (0, 1000)
