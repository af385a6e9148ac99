"""A host's way to the broker, as a live run sees it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from brokerproof.chaos.links import Traffic
from brokerproof.conformance.worlds.live.links import Path


def test_what_is_on_its_way_to_the_broker_moves_too() -> None:
    """A goodbye behind a large message on a slow link was taken for one that had come: what was held seemed lost."""
    proxy: Any = SimpleNamespace(traffic=lambda: Traffic((200_000, 40_000), (5, 5), 0))
    assert (Path(proxy).passed(), Path(None).passed()) == (40_005, 0)
