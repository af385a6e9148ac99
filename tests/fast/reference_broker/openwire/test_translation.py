"""Between the core's messages and OpenWire's structures, both ways."""

from __future__ import annotations

import pytest

from brokerproof.reference_broker.openwire.translation.messages import Renderer, core_message, written_message
from brokerproof.reference_broker.openwire.translation.names import destination_data
from brokerproof.reference_broker.openwire.wire import messages as kinds


@pytest.mark.parametrize("correlation_id", [None, "", "c"])
def test_an_empty_correlation_id_is_not_none(correlation_id: str | None) -> None:
    sent = kinds.TEXT_MESSAGE.make(destination=destination_data("queue://q"), correlationId=correlation_id)
    message = core_message(sent)
    assert message.correlation_id == correlation_id
    assert Renderer().message(written_message(message))["correlationId"] == correlation_id
