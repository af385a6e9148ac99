"""The server on a real disk: killed at any instant, it has every persistent message that it gave a receipt for.

Method: a producer sends as fast as it can and notes the receipts; the process is killed (SIGKILL) after a number of
receipts that a seed chooses, with more sends on their way; then it starts again on the same directory. Nothing depends
on how far the rest had come.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from brokerproof.reference_broker.storage.sqlite import SqliteJournal
from tests.live.test_server import ROOT, Client, Server

pytestmark = pytest.mark.live

ROUNDS = 4
#: More than any round waits for, so that sends are always on their way when the process dies.
SENDS = 120


def produce(server: Server, round_number: int, receipts: int) -> list[str]:
    """Send without waiting; what had a receipt when enough of them had come."""
    client = Client(server)
    for number in range(SENDS):
        name = f"{round_number}/{number}"
        headers = {"destination": "/queue/q", "persistent": "true", "receipt": name}
        client.send("SEND", headers, name.encode())
    promised = []
    while len(promised) < receipts:
        frame = client.frame()
        assert frame.command == "RECEIPT", frame
        promised.append(frame.headers["receipt-id"])
    return promised


def consume(server: Server, count: int) -> list[str]:
    """Bodies of what comes, in order."""
    client = Client(server)
    client.send("SUBSCRIBE", {"id": "s", "destination": "/queue/q", "ack": "client", "activemq.prefetchSize": "10000"})
    return [client.frame().body.decode() for _ in range(count)]


def test_what_was_promised_survives_kills_at_any_instant(tmp_path: Path) -> None:
    choose = random.Random(20261121)  # noqa: S311 - instants, no secrets
    promised: list[str] = []
    for round_number in range(ROUNDS):
        server = Server("--data", str(tmp_path))
        promised += produce(server, round_number, choose.randrange(1, SENDS - 20))
        server.stop(signal.SIGKILL)
    server = Server("--data", str(tmp_path))
    size = server.counters()["size"]
    got = consume(server, size)
    assert [name for name in got if name in promised] == promised, "each once, in order"
    assert len(set(got)) == len(got), "nothing twice"
    assert server.stop()[0] == 0
    journal = SqliteJournal(tmp_path)
    assert journal.incarnation == ROUNDS + 1
    assert len(list(journal.replay())) == size, "nothing was acknowledged, so nothing is gone"
    journal.close()


def test_what_was_acknowledged_stays_away(tmp_path: Path) -> None:
    server = Server("--data", str(tmp_path))
    client = Client(server)
    for number in range(6):
        headers = {"destination": "/queue/q", "persistent": "true" if number != 3 else "false", "receipt": "r"}
        client.send("SEND", headers, f"m{number}".encode())
        assert client.frame().command == "RECEIPT"
    headers = {"id": "s", "destination": "/queue/q", "ack": "client-individual", "activemq.prefetchSize": "10"}
    client.send("SUBSCRIBE", headers)
    messages = [client.frame() for _ in range(6)]
    for frame in messages[:2]:
        assert client.request("ACK", {"id": frame.headers["ack"]}).command == "RECEIPT"
    server.stop(signal.SIGKILL)
    server = Server("--data", str(tmp_path))
    left = consume(server, server.counters()["size"])
    server.stop()
    assert left == ["m2", "m4", "m5"], "m0 and m1 were acknowledged, m3 is not persistent"


def test_a_directory_in_use_and_a_missing_storage_are_refused(tmp_path: Path) -> None:
    server = Server("--data", str(tmp_path))
    command = [sys.executable, "-m", "brokerproof.reference_broker.server", "--port", "0"]
    second = subprocess.run(
        [*command, "--data", tmp_path], capture_output=True, text=True, timeout=60, cwd=ROOT, check=False
    )
    server.stop()
    assert (second.returncode, second.stdout) == (4, "")
    assert f"in use by another broker (process {server.process.pid}); stop it" in second.stderr
    file = tmp_path / "broker.toml"
    file.write_text("[broker]\npersistent = true\n")
    missing = subprocess.run(
        [*command, "--config", file], capture_output=True, text=True, timeout=60, cwd=ROOT, check=False
    )
    assert missing.returncode == 2
    assert "name a directory with --data or storage.path" in missing.stderr


def test_a_full_storage_refuses_messages_until_consumers_have_made_room(tmp_path: Path) -> None:
    config = tmp_path / "broker.toml"
    config.write_text(f"[storage]\npath = '{tmp_path / 'data'}'\nmax_bytes = 200000\n")
    server = Server("--config", str(config))
    headers = {"destination": "/queue/q", "persistent": "true"}
    body = b"x" * 20_000

    def send_until_refused(most: int) -> tuple[int, str]:
        client = Client(server)
        for number in range(most):
            answer = client.request("SEND", headers, body)
            if answer.command == "ERROR":
                assert answer.headers["code"] == "storage-full"
                return number, answer.body.decode()
        return most, ""

    accepted, text = send_until_refused(50)
    assert 3 < accepted < 12
    assert "of 200000 bytes; consume messages or raise storage.max_bytes" in text
    assert Client(server).request("SEND", {"destination": "/queue/volatile"}, body).command == "RECEIPT"
    consumer = Client(server)
    consumer.send("SUBSCRIBE", {"id": "s", "destination": "/queue/q", "ack": "client-individual"})
    messages = [consumer.frame() for _ in range(accepted)]
    for message in messages:
        assert consumer.request("ACK", {"id": message.headers["ack"]}).command == "RECEIPT"
    again, _ = send_until_refused(3)
    assert again == 3
    server.stop()
