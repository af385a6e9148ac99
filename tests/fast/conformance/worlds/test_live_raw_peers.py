"""Raw peers of the live world: what is let go of when something goes wrong. Their sockets are real, nobody listens."""

from __future__ import annotations

import socket
import time
from types import SimpleNamespace
from typing import Any

import pytest

from brokerproof.chaos.rates import REAL
from brokerproof.conformance.agents.dialogue import WayIn
from brokerproof.conformance.agents.raw_peer import RawPeer
from brokerproof.conformance.brokers.base import Access
from brokerproof.conformance.experiment.operations import Probe
from brokerproof.conformance.experiment.peers import Heard
from brokerproof.conformance.worlds.live import raw_peers
from brokerproof.conformance.worlds.port import Outcome
from brokerproof.reference_broker.stomp.frames import HEARTBEAT, Frame
from brokerproof.reference_broker.stomp.framing import StompFraming


def test_a_peer_that_ends_before_it_was_listened_to_is_let_go() -> None:
    with socket.socket() as line:
        gone: Any = SimpleNamespace(socket=line, peer=SimpleNamespace(is_over=lambda: True), speak=lambda: None)
        hosts: Any = SimpleNamespace(now_ns=time.monotonic_ns, pump=lambda _until_ns: None, rate=REAL)
        raw_peers._attend(hosts, [gone], 60_000)


@pytest.mark.parametrize("ends", [0, 1, 3])
@pytest.mark.parametrize("late_ms", [0, 9])
def test_ends_of_lines_behind_a_frame_are_no_beats(ends: int, late_ms: int) -> None:
    """They may come a little later than their frame, which a network or a broker has cut."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        heard: list[object] = []
        now = [10**9]
        peer: Any = SimpleNamespace(conversation=None, hear=lambda item, _ns: heard.append(item) or [])
        peer.hear_end_of_line = lambda _ns: heard.append("alive")
        reader: Any = SimpleNamespace(socket=ours, peer=peer, now_ns=lambda: now[0], flush=lambda: None)
        reader._framing, reader._put, reader._framed_ns = StompFraming(), lambda _: None, -raw_peers.BEHIND_NS
        for frame in (b"CONNECTED\nversion:1.2\n\n\0", b"RECEIPT\nreceipt-id:1\n\n\0"):
            pieces = [frame, b"\r\n" * ends] if late_ms else [frame + b"\r\n" * ends]
            for piece in filter(None, pieces):
                theirs.sendall(piece)
                raw_peers.PeerSocket._read(reader)
                now[0] += late_ms * 1_000_000
        now[0] += raw_peers.BEHIND_NS
        theirs.sendall(b"\n")
        raw_peers.PeerSocket._read(reader)
        told = [getattr(one, "command", one) for one in heard]
        assert told == ["CONNECTED", *["alive"] * ends, "RECEIPT", *["alive"] * ends, HEARTBEAT]


def saw(peer: RawPeer, second: int) -> Heard:
    return peer.saw(second * 10**9, reports=None, closed=0, left=None)[1]


def test_an_end_of_line_is_life_and_no_beat() -> None:
    peer = RawPeer(Probe(offer_ms=(0, 1000), ms=5000), WayIn())
    connected = Frame("CONNECTED", {"version": "1.2", "heart-beat": "1000,0"})
    receipt = Frame("RECEIPT", {"receipt-id": "1"})
    peer.hear(connected, 1 * 10**9)
    peer.hear_end_of_line(2 * 10**9)
    assert saw(peer, 2).first_ns is None, "CONNECTED's own"
    peer.hear(receipt, 3 * 10**9)
    peer.hear_end_of_line(4 * 10**9)
    peer.hear(receipt, 5 * 10**9)
    seen = saw(peer, 6)
    assert (seen.first_ns, seen.beats, seen.closest_ns, seen.gap_ns) == (3 * 10**9, 0, None, 10**9)


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
