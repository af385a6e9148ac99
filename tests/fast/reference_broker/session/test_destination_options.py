"""Options in the names of destinations, as text and through both protocols."""

from __future__ import annotations

from typing import Any

import pytest

from brokerproof.reference_broker.core.events import Subscribe
from brokerproof.reference_broker.core.instant import Now
from brokerproof.reference_broker.inactivity import GENERATIONS
from brokerproof.reference_broker.openwire.client import ClientSession
from brokerproof.reference_broker.openwire.commands import ConsumerInfo, ProducerMessage
from brokerproof.reference_broker.session.destination_options import OPTIONS, BadOption, plain_name, split_options

NOW = Now(0, 1_700_000_000_000)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("prefetchSize=7", {"prefetch": 7}),
        ("maximumPendingMessageLimit=3", {"pending_limit": 3}),
        ("noLocal=true&consumer.exclusive=false", {"no_local": True, "exclusive": False}),
        ("dispatchAsync=false", {"dispatch_async": False}),
        ("retroactive=true", {"retroactive": True}),
        ("selector=kind%20%3D%20'a%26b'", {"selector": "kind = 'a&b'"}),
        ("selector=a=1", {"selector": "a=1"}),
        ("priority=-5", {"priority": -5}),
    ],
)
def test_what_options_say(text: str, expected: dict[str, Any]) -> None:
    assert split_options(f"queue://A,B?consumer.{text}") == ("queue://A,B", expected)


def test_a_name_without_options_is_itself() -> None:
    assert split_options("queue://A") == ("queue://A", {})
    assert plain_name("topic://A?consumer.priority=1") == "topic://A"


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("consumer.prefetch=1", "did you mean consumer.prefetchSize=...?"),
        ("zzz=1", "one of consumer.prefetchSize, "),
        ("", "one of consumer.prefetchSize, "),
        ("consumer.exclusive", "unknown"),
        ("consumer.exclusive=yes", "must be true or false"),
        ("consumer.priority=128", "whole number from -128 to 127"),
        ("consumer.prefetchSize=-1", "whole number from 0 to"),
        ("consumer.prefetchSize=1e3", "whole number from 0 to"),
        ("consumer.prefetchSize=99999999999999", "whole number from 0 to"),
    ],
)
def test_what_cannot_be_used_is_refused_with_value_and_remedy(text: str, remedy: str) -> None:
    with pytest.raises(BadOption) as refusal:
        split_options(f"queue://A?{text}")
    assert remedy in str(refusal.value)
    assert f"queue://A?{text}" in str(refusal.value)


def test_all_documented_options_are_fields_of_a_subscribe() -> None:
    assert {field for field, _ in OPTIONS.values()} <= set(Subscribe.__slots__)


def client() -> ClientSession:
    session = ClientSession("c", GENERATIONS["documented"]("tcp://b", 0))
    session.connect()
    session.outbox.clear()
    return session


def test_a_library_asks_for_what_the_name_says() -> None:
    session = client()
    session.subscribe("1", "topic://A?consumer.prefetchSize=3&consumer.retroactive=true", prefetch=10)
    info = session.outbox.pop()
    assert isinstance(info, ConsumerInfo)
    assert (info.destination, info.prefetch, info.retroactive) == ("topic://A", 3, True)


def test_a_producer_sends_to_the_plain_name() -> None:
    session = client()
    session.send("queue://A?consumer.priority=3", b"", NOW)
    sent = session.outbox.pop()
    assert isinstance(sent, ProducerMessage)
    assert sent.message.destination == "queue://A"
