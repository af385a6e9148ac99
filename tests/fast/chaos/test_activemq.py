"""ActiveMQ serves when its own process does: who has taken its port may answer as well."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from brokerproof.chaos.brokers.activemq import ActiveMQ
from brokerproof.chaos.ports import LOOPBACK


@pytest.fixture
def polite() -> Iterator[int]:
    """The port of somebody who greets each STOMP client until the listener is closed."""

    def greet() -> None:
        while True:
            try:
                client, _ = server.accept()
            except OSError:
                return
            with client:
                client.recv(1000)
                client.sendall(b"CONNECTED\nversion:1.2\nserver:other\n\n\0")

    with socket.create_server((LOOPBACK, 0)) as server:
        greeting = threading.Thread(target=greet)
        greeting.start()
        yield int(server.getsockname()[1])
        server.shutdown(socket.SHUT_RDWR)
        greeting.join()


@pytest.mark.parametrize(("own", "greeting"), [(True, "other"), (False, None)])
def test_an_answer_counts_from_its_own_process_alone(polite: int, own: bool, greeting: str | None) -> None:
    pid = os.getpid() if own else os.getppid()
    broker = ActiveMQ.__new__(ActiveMQ)
    broker.stomp_port = broker.openwire_port = polite
    broker._process = SimpleNamespace(pid=pid, log_tail=lambda _: "")  # type: ignore[assignment]  # all that is asked
    assert broker._serving() == greeting
