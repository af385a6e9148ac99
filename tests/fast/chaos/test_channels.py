"""chaos/channels.py over a socket pair: lines, pieces of lines, nonsense, silence, the end."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pytest

from brokerproof.chaos.channels import Channel, ChannelClosed, ChannelGarbage, ChannelTimeout

Pair = tuple[Channel, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield Channel(ours, "agent-p0"), theirs


def test_objects_go_out_as_lines_and_come_in_as_objects(pair: Pair) -> None:
    channel, peer = pair
    channel.send({"id": 1, "do": "hello"})
    assert peer.recv(100) == b'{"id":1,"do":"hello"}\n'
    peer.sendall(b'{"id": 1}\n{"id": 2}\n{"id"')
    assert channel.receive(1000) == {"id": 1}
    assert channel.has_line()
    assert channel.receive(0) == {"id": 2}
    assert not channel.has_line()
    peer.sendall(b": 3}\n")
    assert channel.receive(1000) == {"id": 3}


def test_silence_is_a_timeout_that_names_the_peer_and_loses_nothing(pair: Pair) -> None:
    channel, peer = pair
    peer.sendall(b'{"half"')
    with pytest.raises(ChannelTimeout, match="agent-p0"):
        channel.receive(0)
    peer.sendall(b": 1}\n")
    assert channel.receive(1000) == {"half": 1}


@pytest.mark.parametrize("line", [b"Traceback (most recent call last):", b"[1, 2]", b""])
def test_nonsense_is_the_peers_fault_and_is_shown(pair: Pair, line: bytes) -> None:
    channel, peer = pair
    peer.sendall(line + b"\n")
    with pytest.raises(ChannelGarbage) as caught:
        channel.receive(1000)
    assert repr(line.decode()) in str(caught.value)


def test_what_came_before_the_end_is_still_read(pair: Pair) -> None:
    channel, peer = pair
    peer.sendall(b'{"last": 1}\nrest')
    peer.close()
    assert channel.receive(1000) == {"last": 1}
    assert channel.has_line()  # the end is something to be read
    with pytest.raises(ChannelClosed, match="rest"):
        channel.receive(1000)
    with pytest.raises(ChannelClosed):
        channel.send({})


def test_a_peer_that_reads_nothing_does_not_hold_us_beyond_the_deadline(pair: Pair) -> None:
    channel, _ = pair
    with pytest.raises(ChannelTimeout, match="reads nothing"):
        channel.send({"text": "x" * 10_000_000}, timeout_ms=10)


def test_a_line_without_end_is_given_up(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    channel, peer = pair
    monkeypatch.setattr("brokerproof.chaos.channels.MAX_LINE_BYTES", 1000)
    peer.sendall(b"x" * 1001)
    with pytest.raises(ChannelGarbage, match="longer than 1000 bytes"):
        channel.receive_line(time.monotonic_ns() + 1_000_000_000)
