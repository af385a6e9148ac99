"""A client's address: ActiveMQ's option names, what they do to a connection, and what is refused."""

from __future__ import annotations

import pytest

from brokerproof.reference_broker.core.config import ConfigError
from brokerproof.reference_broker.core.instant import Now
from brokerproof.reference_broker.openwire.broker_url import client_address
from brokerproof.reference_broker.openwire.client import ClientSession
from brokerproof.reference_broker.openwire.commands import ConnectionInfo, ConsumerInfo, WireFormatInfo

NOW = Now(0, 1_800_000_000_000)


def session(options: str) -> ClientSession:
    made = client_address(f"tcp://broker:1?{options}").session("me", "ID:me", 0)
    made.connect()
    return made


def written(client: ClientSession) -> list[object]:
    """What is on the outbox when the broker has said hello."""
    client.receive(WireFormatInfo(), NOW)
    return list(client.outbox)


@pytest.mark.parametrize(
    ("options", "prefetches"),
    [
        ("", [1000, 32767, 100, 500]),
        ("jms.prefetchPolicy.all=7", [7, 7, 7, 7]),
        ("jms.prefetchPolicy.queuePrefetch=1&amp;jms.prefetchPolicy.all=7", [1, 7, 7, 7]),
        ("jms.prefetchPolicy.durableTopicPrefetch=3&jms.prefetchPolicy.queueBrowserPrefetch=4", [1000, 32767, 3, 4]),
        ("jms.prefetchPolicy.topicPrefetch=0", [1000, 0, 100, 500]),
    ],
)
def test_prefetches(options: str, prefetches: list[int]) -> None:
    client = session(options)
    client.subscribe("q", "queue://q")
    client.subscribe("t", "topic://t")
    client.subscribe("d", "topic://t", durable="d")
    client.subscribe("b", "queue://q", browser=True)
    assert [one.prefetch for one in client.outbox if isinstance(one, ConsumerInfo)] == prefetches


def test_a_consumer_that_says_something_is_believed() -> None:
    client = session("jms.prefetchPolicy.all=7&jms.dispatchAsync=false")
    client.subscribe("a", "queue://q", 3, dispatch_async=True)
    client.subscribe("b", "queue://q")
    first, second = [one for one in client.outbox if isinstance(one, ConsumerInfo)]
    assert (first.prefetch, first.dispatch_async, second.prefetch, second.dispatch_async) == (3, True, 7, False)


def test_who_it_is() -> None:
    client = session("jms.clientID=other&jms.userName=u&jms.password=p")
    info = next(one for one in client.outbox if isinstance(one, ConnectionInfo))
    assert (info.client_id, info.user_name, info.password) == ("other", "u", "p")
    assert next(one for one in session("").outbox if isinstance(one, ConnectionInfo)).client_id == "me"


def test_values_may_be_encoded() -> None:
    found = client_address("tcp://b:1?jms.userName=a%26b&jms.password=p%3D").texts
    assert found == {"userName": "a&b", "password": "p="}


def test_stamps() -> None:
    client = session("jms.disableTimeStampsByDefault=true")
    assert client.send("queue://q", b"", NOW).timestamp_ms == 0
    assert client.send("queue://q", b"", NOW, disable_timestamp=False).timestamp_ms == NOW.wall_ms


def test_redeliveries() -> None:
    address = client_address("tcp://b:1?jms.redeliveryPolicy.maximumRedeliveries=2")
    assert address.redelivery.maximum_redeliveries == 2


@pytest.mark.parametrize(("options", "watches"), [("", True), ("useInactivityMonitor=false", False)])
def test_the_monitor(options: str, watches: bool) -> None:
    client = session(f"wireFormat.maxInactivityDuration=900&{options}".rstrip("&"))
    hello = client.next_output(0)
    assert isinstance(hello, WireFormatInfo)
    assert hello.max_inactivity_duration_ms == 900
    assert client.next_output(0) is None, "nothing else is written before the broker's hello"
    written(client)
    assert (client.next_due_ns() is not None) is watches


def test_what_it_offers_to_speak() -> None:
    text = "wireFormat.tightEncodingEnabled=false&wireFormat.cacheEnabled=false&wireFormat.version=9"
    offer = client_address(f"tcp://b:1?{text}&wireFormat.stackTraceEnabled=false&wireFormat.maxFrameSize=5000").offer
    assert (offer.tight, offer.cache_size, offer.version, offer.stack_traces, offer.frame_max) == (
        False,
        0,
        9,
        False,
        5000,
    )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("jms.prefetchPolicy.all=many", ["jms.prefetchPolicy.all=many", "whole number"]),
        ("jms.prefetchPolicy.al=1", ["did you mean jms.prefetchPolicy.all"]),
        ("jms.dispatchAsync=yes", ["jms.dispatchAsync=yes", "true or false"]),
        ("jms.dispatchAsync=true&jms.dispatchAsync=true", ["given once"]),
        ("jms.useCompression=true", ["jms.useCompression is unknown"]),
        ("jms.redeliveryPolicy.maximumRedeliveries=-7", ["maximumRedeliveries is -7"]),
        ("wireFormat.cacheSize=50", ["wireFormat.cacheSize=50 hangs a Java peer"]),
        ("wireFormat.version=13", ["wireFormat.version=13 is not spoken"]),
        ("wireFormat.cacheSize=20000", ["wireFormat.cacheSize=20000", "0 or 101 to 16383"]),
        ("soTimeout=500", ["soTimeout is an option of the Java client that this one does not offer"]),
        ("transport.useInactivityMonitor=false", ["Invalid connect parameters"]),
        ("nonsense=1", ["'nonsense' is unknown"]),
    ],
)
def test_nothing_is_ignored(options: str, words: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        client_address(f"tcp://b:1?{options}")
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_another_protocol_is_no_address() -> None:
    with pytest.raises(ConfigError, match="write tcp://HOST:PORT"):
        client_address("stomp://b:1")
