"""Does a broker serve AMQP or MQTT yet? A listener answers with bytes."""

from __future__ import annotations

import socket
import threading

import pytest

from brokerproof.chaos.brokers.hello import HELLOS, answers
from brokerproof.chaos.ports import LOOPBACK


def told(protocol: str, answer: bytes) -> tuple[bool | None, bytes]:
    """Whether it serves, and what it was told."""
    heard = []
    with socket.create_server((LOOPBACK, 0)) as listener:

        def serve() -> None:
            line, _ = listener.accept()
            with line:
                heard.append(line.recv(len(HELLOS[protocol][0])))
                line.sendall(answer)

        server = threading.Thread(target=serve)
        server.start()
        found = answers(listener.getsockname()[1], protocol, timeout_ms=5000)
        server.join()
    return found, heard[0]


@pytest.mark.parametrize(
    ("protocol", "answer", "expected"),
    [
        ("mqtt", b"\x20\x06\x00\x00", True),
        ("mqtt", b"\x20\x03\x00\x86\x00", True),  # it wants a password
        ("mqtt", b"HTTP/1.1 400 Bad Request", None),
        ("mqtt", b"", None),
        ("amqp", b"AMQP\x00\x01\x00\x00", True),
        ("amqp", b"AMQP\x03\x01\x00\x00", True),  # SASL first
        ("amqp091", b"\x01\x00\x00\x00\x00\x01\xcd", True),
        ("amqp091", b"AMQP\x00\x00\x09\x01", None),  # it speaks another version
    ],
)
def test_whoever_answers_serves(protocol: str, answer: bytes, expected: bool | None) -> None:
    assert told(protocol, answer) == (expected, HELLOS[protocol][0])


def test_nobody_listens() -> None:
    with socket.socket() as unused:
        unused.bind((LOOPBACK, 0))
        assert answers(unused.getsockname()[1], "mqtt") is None
