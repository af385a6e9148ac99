"""What a broker writes, as the suite calls it."""

from __future__ import annotations

import pytest

from brokerproof.conformance.experiment.wire_names import WireNames


@pytest.mark.parametrize(
    ("queue", "topic", "address", "name"),
    [
        ("{name}", "topic/{name}", "topic/t0", "topic://t0"),
        ("{name}", "topic/{name}", "q0", "queue://q0"),
        ("q/{name}", "{name}", "q/q0", "queue://q0"),
        ("q/{name}", "{name}", "t0", "topic://t0"),
        ("{name}", "{name}", "t0", "queue://t0"),
        ("/queue/{name}", "/topic/{name}", "t0", "queue://t0"),
    ],
)
def test_an_address_is_what_says_most_of_it(queue: str, topic: str, address: str, name: str) -> None:
    """Of two that say nothing, a queue."""
    assert WireNames(queue=queue, topic=topic, dead_letters="DLQ").called(address) == name
    assert WireNames(queue=queue, topic=topic, dead_letters="DLQ").called("DLQ") == "queue://ActiveMQ.DLQ"
