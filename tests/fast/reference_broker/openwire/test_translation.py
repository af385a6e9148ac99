"""Between the core's messages and OpenWire's structures, both ways."""

from __future__ import annotations

import pytest

from brokerproof.reference_broker.core.connection_registry import (
    ConsumerAdvisory,
    DestinationAdvisory,
    ProducerAdvisory,
)
from brokerproof.reference_broker.openwire.translation.advisories import data_structure
from brokerproof.reference_broker.openwire.translation.messages import Renderer, core_message, written_message
from brokerproof.reference_broker.openwire.translation.names import destination_data, destination_name, producer_data
from brokerproof.reference_broker.openwire.wire import messages as kinds
from brokerproof.reference_broker.openwire.wire.kinds import Data


def written(about: object) -> Data:
    """What an advisory holds."""
    found = data_structure(about, lambda message: Renderer().original(message))
    assert found is not None
    return found


@pytest.mark.parametrize("correlation_id", [None, "", "c"])
def test_an_empty_correlation_id_is_not_none(correlation_id: str | None) -> None:
    sent = kinds.TEXT_MESSAGE.make(destination=destination_data("queue://q"), correlationId=correlation_id)
    message = core_message(sent)
    assert message.correlation_id == correlation_id
    assert Renderer().message(written_message(message))["correlationId"] == correlation_id


def test_an_advisory_of_a_producer_names_it_and_its_destination() -> None:
    came, went = (written(ProducerAdvisory("4.ID:c:1:2", "queue://q", 1, gone)) for gone in (False, True))
    assert (came.kind.name, went.kind.name) == ("ProducerInfo", "RemoveInfo")
    assert came["producerId"] == went["objectId"] == producer_data("ID:c:1:2")
    assert destination_name(came["destination"]) == "queue://q"


def test_an_advisory_of_a_consumer_has_its_selector() -> None:
    selectors = [
        written(ConsumerAdvisory("4.ID:c:1:2", "queue://q", 7, 1, False, selector=selector))["selector"]
        for selector in ("", "n = 1")
    ]
    assert selectors == [None, "n = 1"]


@pytest.mark.parametrize(("name", "owner"), [("queue://a:b", ""), ("topic://t", ""), ("temp-queue://ID:c:1", "ID:c")])
def test_an_advisory_of_a_destination_names_whose_it_is(name: str, owner: str) -> None:
    about = written(DestinationAdvisory(name, False))
    assert (destination_name(about["destination"]), about["connectionId"]["value"]) == (name, owner)
