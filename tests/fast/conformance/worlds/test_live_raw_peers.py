"""Raw peers of the live world: what is let go of when something goes wrong. Their sockets are real, nobody listens."""

from __future__ import annotations

import socket
import time
from types import SimpleNamespace
from typing import Any

import pytest

from brokerproof.chaos.rates import REAL
from brokerproof.conformance.brokers.base import Access
from brokerproof.conformance.experiment.operations import Probe
from brokerproof.conformance.worlds.live import raw_peers
from brokerproof.conformance.worlds.port import Outcome
from brokerproof.reference_broker.stomp.framing import StompFraming


def test_a_peer_that_ends_before_it_was_listened_to_is_let_go() -> None:
    with socket.socket() as line:
        gone: Any = SimpleNamespace(socket=line, peer=SimpleNamespace(is_over=lambda: True), speak=lambda: None)
        hosts: Any = SimpleNamespace(now_ns=time.monotonic_ns, pump=lambda _until_ns: None, rate=REAL)
        raw_peers._attend(hosts, [gone], 60_000)


@pytest.mark.parametrize("ends", [0, 1, 3])
def test_ends_of_lines_behind_a_frame_are_no_beats(ends: int) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        heard: list[object] = []
        peer: Any = SimpleNamespace(conversation=None, hear=lambda item, _ns: heard.append(item) or [])
        reader: Any = SimpleNamespace(socket=ours, peer=peer, now_ns=time.monotonic_ns, flush=lambda: None)
        reader._framing, reader._put = StompFraming(), lambda _: None
        for frame in (b"CONNECTED\nversion:1.2\n\n\0", b"RECEIPT\nreceipt-id:1\n\n\0"):
            theirs.sendall(frame + b"\r\n" * ends)
            raw_peers.PeerSocket._read(reader)
        theirs.sendall(b"\n")
        raw_peers.PeerSocket._read(reader)
        assert [getattr(one, "command", "beat") for one in heard] == ["CONNECTED", "RECEIPT", "beat"]


def test_peers_that_have_come_go_when_the_next_one_cannot_come(monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[socket.socket] = []

    def come(*_arguments: object) -> SimpleNamespace:
        if len(lines) == 2:
            raise ConnectionRefusedError("nobody listens")
        lines.append(socket.socket())
        return SimpleNamespace(socket=lines[-1], begin=lambda: None)

    monkeypatch.setattr(raw_peers, "PeerSocket", come)
    endpoint = SimpleNamespace(access=lambda _via: Access(port=1), library=lambda via: via, resources=lambda: None)
    hosts: Any = SimpleNamespace(
        endpoint=endpoint,
        now_ns=time.monotonic_ns,
        run_ns=lambda at_ns: at_ns,
        start_ns=0,
        rate=REAL,
        has_crashed=lambda _ms: False,
    )
    operation = Probe(via="stomp", hello="good", times=5, ms=60_000)
    with pytest.raises(ConnectionRefusedError):
        raw_peers.probe(hosts, operation, Outcome(t0=0, t1=0))
    assert [line.fileno() for line in lines] == [-1, -1]
