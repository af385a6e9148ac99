"""RabbitMQ is started again with other ports where one was taken meanwhile, and with nothing else wrong."""

from __future__ import annotations

import itertools
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from brokerproof.chaos.brokers import rabbitmq
from brokerproof.chaos.processes import ProcessDiedAtStart
from brokerproof.chaos.tools import ToolFailed

#: What follows is longer than what is shown of a log.
TAKEN = "Failed to start Ranch listener: {error,eaddrinuse}\n" + "\tat somewhere else\n" * 400
BROKEN = "Error during startup: {error,no_such_plugin}"


class Child:
    """One process: the port mapper lives, the server says what it was given to say, or serves."""

    def __init__(self, name: str, log: str) -> None:
        self.name = name
        self.log = log
        self.killed = False
        self.probe: Callable[[], str | None] = lambda: None

    def await_ready(self, probe: Callable[[], str | None], *_: object) -> str:
        """Ready, or dead."""
        self.probe = probe
        if self.log:
            raise ProcessDiedAtStart(self.name, [self.name], 1, self.log)
        return "RabbitMQ/3.10.8"

    def kill(self) -> None:
        """It ends."""
        self.killed = True


class Machine:
    """Servers that say these things, one after the other."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path, *logs: str) -> None:
        self._logs = iter(logs)
        self.children: list[Child] = []
        mapper = folder / "home/usr/lib/erlang/erts-12/bin/epmd"
        mapper.parent.mkdir(parents=True)
        mapper.touch()
        numbers = itertools.count(4001)
        monkeypatch.setattr(rabbitmq, "home", lambda: folder / "home")
        monkeypatch.setattr(rabbitmq, "free_ports", lambda count: [next(numbers) for _ in range(count)])
        supervisor: Any = self
        self.node = rabbitmq.RabbitMQ(supervisor, folder / "node")

    def spawn(self, name: str, *_: object, **__: object) -> Child:
        """A process begins."""
        self.children.append(Child(name, "" if name.endswith("epmd") else next(self._logs)))
        return self.children[-1]


def test_a_port_that_is_free_is_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    machine = Machine(monkeypatch, tmp_path, "")
    machine.node.start()
    assert (machine.node.stomp_port, machine.node.amqp_port) == (4001, 4002)
    assert [child.killed for child in machine.children] == [False, False]


def test_other_ports_where_one_was_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    machine = Machine(monkeypatch, tmp_path, TAKEN, TAKEN, "")
    machine.node.start()
    assert (machine.node.stomp_port, machine.node.amqp_port) == (4009, 4010)
    assert "127.0.0.1:4010" in (tmp_path / "node/rabbitmq.conf").read_text(encoding="ascii")
    assert [child.killed for child in machine.children] == [True] * 4 + [False] * 2


@pytest.mark.parametrize(("logs", "started"), [((BROKEN,), 2), ((TAKEN, BROKEN), 4), ((TAKEN,) * 3, 6)])
def test_whatever_else_is_wrong_is_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, logs: tuple[str, ...], started: int
) -> None:
    machine = Machine(monkeypatch, tmp_path, *logs)
    with pytest.raises(ProcessDiedAtStart):
        machine.node.start()
    assert len(machine.children) == started
    assert all(child.killed for child in machine.children)


def test_packages_without_a_port_mapper(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    machine = Machine(monkeypatch, tmp_path)
    (tmp_path / "home/usr/lib/erlang/erts-12/bin/epmd").unlink()
    with pytest.raises(ToolFailed, match="no epmd"):
        machine.node.start()
    assert machine.children == []


def test_it_serves_when_both_protocols_answer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """STOMP comes first; on a busy machine, or where its AMQP port is taken, AMQP comes late or never."""
    machine = Machine(monkeypatch, tmp_path, "")
    machine.node.start()
    monkeypatch.setattr(rabbitmq, "handshake", lambda _: "RabbitMQ/3.10.8")
    server = socket.create_server(("127.0.0.1", 0))
    machine.node.amqp_port = server.getsockname()[1]

    def answer() -> None:
        for said in (b"AMQP", b"\x01"):  # a version of another protocol's, and a method frame
            line, _ = server.accept()
            with line:
                line.recv(8)
                line.sendall(said)

    broker = threading.Thread(target=answer)
    broker.start()
    assert machine.children[-1].probe() is None
    assert machine.children[-1].probe() == "RabbitMQ/3.10.8"
    broker.join()
    server.close()
    assert machine.children[-1].probe() is None
