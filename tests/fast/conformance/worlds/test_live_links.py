"""A host's way to the broker, as a live run sees it."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

from brokerproof.chaos.links import LinkEnd, Traffic
from brokerproof.conformance.worlds.live.links import Path


def test_what_is_on_its_way_to_the_broker_moves_too() -> None:
    """A goodbye behind a large message on a slow link was taken for one that had come: what was held seemed lost."""
    proxy: Any = SimpleNamespace(traffic=lambda: Traffic((200_000, 40_000), (5, 5), 0))
    assert (Path(proxy).passed(), Path(None).passed()) == (40_005, 0)


def test_the_end_of_a_connection_that_was_given_up_is_none_of_the_present_one() -> None:
    """A broker that ended one that had never been answered seemed to have ended the one that came after it."""
    ends: list[LinkEnd] = []
    proxy: Any = SimpleNamespace(connections=0, ends=lambda: ends)
    path = Path(proxy)
    path.connects()
    proxy.connections = 1
    told = LinkEnd("broker", "broker", "end", 1, time.monotonic_ns())
    path.connects()
    proxy.connections = 2
    ends += [told, LinkEnd("broker", "broker", "end", 1, time.monotonic_ns())]
    assert path.broker_ends() == [told]  # it had ended before the client gave it up
    ends.append(LinkEnd("broker", "broker", "end", 2, time.monotonic_ns()))
    assert [end.connection for end in path.broker_ends()] == [2]
