"""Arrivals as a live run's observer writes them down."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from brokerproof.conformance.agents import protocol
from brokerproof.conformance.experiment.destinations import Destination, Destinations, queues
from brokerproof.conformance.experiment.history import Arrive
from brokerproof.conformance.worlds.live.hosts import Hosts
from brokerproof.conformance.worlds.port import Recorder

OTHERS = "ID:somebody-1:1"


@pytest.mark.parametrize(
    ("dest", "expected"),
    [("ActiveMQ.Advisory.Consumer.Queue.q0", ["p0/1", ""]), ("~c0", ["p0/1", ""]), ("q0", ["p0/1"])],
)
def test_what_is_not_this_programs_is_heard_where_nobody_else_listens(dest: str, expected: list[str]) -> None:
    """Advisories, and a queue manager's reports without data."""
    temporary = Destination("~c0", "temporary", host="c0")
    state: Any = SimpleNamespace(destinations=Destinations([*queues("q0"), temporary]))
    laboratory: Any = SimpleNamespace(never=set())
    recorder = Recorder()
    adapter: Any = SimpleNamespace(alone=False, separator=".")
    hosts = Hosts(laboratory, state, recorder, adapter)
    hosts.dest_of["c0/1"] = dest
    for token in (hosts.names.on_wire("p0/1"), OTHERS):
        hosts._heard("c0", protocol.Arrive(t0=1, t1=1, consumer="c0/1", message=token))
    assert [event.message for event in recorder.events if isinstance(event, Arrive)] == expected


def test_what_comes_in_pieces_keeps_a_run_from_rest_and_is_no_event() -> None:
    laboratory: Any = SimpleNamespace(never=set())
    state: Any = SimpleNamespace(destinations=Destinations(queues("q0")))
    adapter: Any = SimpleNamespace(alone=False, separator=".")
    hosts = Hosts(laboratory, state, recorder := Recorder(), adapter)
    hosts.last_arrival_ns = 0
    hosts._heard("c0", protocol.Partial(t0=1, t1=1))
    assert hosts.last_arrival_ns > 0
    assert list(recorder.events) == []
