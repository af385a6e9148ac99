"""Several hosts at once on real processes: the incident of seed 003 (sentences 5 to 18)."""

from __future__ import annotations

import socket
import time
from pathlib import Path

import pytest

from brokerproof.chaos.links import PlainForwarder
from brokerproof.conformance.brokers.reference import ReferenceAdapter
from brokerproof.conformance.corpus import programs
from brokerproof.conformance.experiment.history import Arrive, Counters, Send
from brokerproof.conformance.experiment.verdict import VerdictKind
from brokerproof.conformance.rules.judge import judge_history
from brokerproof.conformance.worlds.live.world import LiveWorld
from tests.live.bench import activemq, events, make_laboratory


@pytest.mark.parametrize("broker", ["reference", "activemq"])
@pytest.mark.parametrize(("dispatch", "negative"), [("", True), ("-synchronous", False)])
def test_ten_consumers_that_reconnect_at_once(broker: str, dispatch: str, negative: bool, tmp_path: Path) -> None:
    adapter = ReferenceAdapter() if broker == "reference" else activemq()
    with make_laboratory(tmp_path) as laboratory:
        history = LiveWorld(adapter, laboratory).run(programs()[f"seed-003-ten-consumers{dispatch}"])
        adapter.close()
    counts = [event.in_flight for event in events(history, Counters) if event.in_flight is not None]
    assert (min(counts) < 0) is negative
    assert len({event.host for event in events(history, Arrive)} - {"drain"}) == 10
    violated = {v.requirement: v.text for v in judge_history(history) if v.verdict is VerdictKind.VIOLATED}
    assert violated == {}


def test_requests_of_several_hosts_overlap(tmp_path: Path) -> None:
    with make_laboratory(tmp_path) as laboratory:
        history = LiveWorld(ReferenceAdapter(), laboratory).run(programs()["producers-overlap-and-a-kill"])
    sends = events(history, Send)
    assert any(a.host != b.host and a.t0 < b.t1 and b.t0 < a.t1 for a in sends for b in sends)


def test_a_limited_link_lets_through_what_it_may() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, PlainForwarder("l", server.getsockname()[1]) as link:
        link.limit(200_000)
        with socket.create_connection(("127.0.0.1", link.port)) as client:
            broker, _ = server.accept()
            begun = time.monotonic()
            with broker:
                broker.sendall(bytes(60_000))
            got = 0
            while part := client.recv(65536):
                got += len(part)
            assert got == 60_000
            assert 0.25 < time.monotonic() - begun < 5
