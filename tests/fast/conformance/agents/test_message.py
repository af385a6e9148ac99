"""What is told of a message that arrived."""

from __future__ import annotations

import pytest

from brokerproof.conformance.agents.message import arrival_of
from brokerproof.reference_broker.session.notice import Delivered


@pytest.mark.parametrize(
    ("reply_to", "told"),
    [
        ("temp-queue://1:1", "temporary"),
        ("/temp-queue/mine", "temporary"),
        ("/remote-temp-queue/1:1", "/remote-temp-queue/1:1"),
        ("queue://answers", "queue://answers"),
    ],
)
def test_an_address_that_was_not_understood_is_told_as_it_came(reply_to: str, told: str) -> None:
    item = Delivered(
        "c0/1",
        "ID:1",
        "queue://q0",
        b"",
        expiration_ms=0,
        timestamp_ms=0,
        priority=4,
        persistent=True,
        redelivered=False,
        delivery_count=1,
        original_destination="",
        properties={},
        ack_id="ID:1",
        reply_to=reply_to,
    )
    assert arrival_of(item)["headers"] == {"reply-to": told}
