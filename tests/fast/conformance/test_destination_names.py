"""What names of destinations mean, and how they are written for a broker."""

from __future__ import annotations

import pytest

from brokerproof.conformance.brokers.translation import logical, physical
from brokerproof.conformance.experiment.destinations import (
    DEAD_LETTERS,
    expiries_of,
    is_aside,
    is_topic,
    own_letters_of,
)

OWN, TOLD = own_letters_of("q0"), expiries_of("q0")


def test_names_that_only_the_broker_fills() -> None:
    assert (OWN, own_letters_of("t0")) == ("ActiveMQ.DLQ.Queue.q0", "ActiveMQ.DLQ.Topic.t0")
    assert TOLD == "ActiveMQ.Advisory.Expired.Queue.q0"
    assert [is_topic(name) for name in (OWN, TOLD)] == [False, True]
    assert [is_aside(name) for name in ("q0", DEAD_LETTERS, OWN, TOLD)] == [False, False, True, True]


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("q0,t1", "queue://q0,topic://t1"),
        ("tv0", "topic://VirtualTopic.v0"),
        ("A.tv0", "queue://Consumer.A.VirtualTopic.v0"),
        (OWN, f"queue://{OWN}"),
        (TOLD, f"topic://{TOLD}"),
    ],
)
def test_names_are_translated_and_back(name: str, meant: str) -> None:
    assert physical(name) == meant
    assert logical(meant) == name
