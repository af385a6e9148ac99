"""Plays a STOMP transcript against a broker and remembers what arrived. Standard library only: its text is part of
what is exported.

A transcript is plain text. ``>>> HOST`` sends the frame that follows, up to ``^@``, on that host's connection and waits
for its receipt; ``<<< CONSUMER MS`` takes the next message of a subscription, waiting so long for it; ``... MS`` waits;
``xxx HOST`` cuts the connection.
"""

import os
import re
import socket
import time
from collections.abc import Callable


class Player:
    """One run; destinations get its name, so that a broker may be used again."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self.address, self.run = (host, int(port)), f"{os.getpid()}-{time.time_ns()}"
        self.sockets: dict[str, socket.socket] = {}
        self.unread: dict[str, bytes] = {}
        self.waiting: dict[str, list[dict[str, str]]] = {}  # consumer -> what its application has not taken
        self.taken: list[dict[str, str]] = []
        self.arrived: list[dict[str, str]] = []  # headers of each MESSAGE, with "token" and "at" (seconds)
        self.sent: dict[str, dict[str, str]] = {}  # token -> headers of its SEND, with "at"
        self.refused: list[str] = []  # tokens whose SEND was answered by ERROR, or by no receipt
        self.answers: list[dict[str, str]] = []

    def play(self, transcript: str) -> "Player":
        """All of it, then everything is closed."""
        block = r"^>>> (\S+)\n(.*?)\^@$|^<<< (\S+) (\d+)$|^\.\.\. (\d+)$|^xxx (\S+)$"
        try:
            for host, frame, consumer, patience, pause, cut in re.findall(block, transcript, re.DOTALL | re.MULTILINE):
                if frame:
                    self.send(host, frame)
                elif consumer:
                    inbox = self.waiting.setdefault(consumer, [])
                    self.read_until(inbox.__len__, int(patience))
                    self.taken += inbox[:1]
                    del inbox[:1]
                elif pause:
                    self.read_until(lambda: False, int(pause))
                else:
                    self.close(cut)
        finally:
            for name in list(self.sockets):
                self.close(name)
        return self

    def send(self, host: str, frame: str) -> None:
        """One frame, its placeholders filled in."""
        try:
            text = re.sub(r"\{(\w+)([^{}]*)\}", self.value, frame)
        except LookupError:
            return  # it settles what this broker did not deliver
        head, _, body = text.partition("\n\n")
        command, *lines = head.split("\n")
        headers = dict(line.split(":", 1) for line in lines)
        headers["at"] = repr(time.monotonic())
        if command == "CONNECT":
            self.sockets[host], self.unread[host] = socket.create_connection(self.address, 10), b""
        if command == "SEND":
            self.sent[body.split("\n")[0]] = headers
        answered = len(self.answers)
        if host in self.sockets:  # else the broker has hung up
            self.sockets[host].sendall(text.encode() + b"\0")
        if command == "CONNECT" or "receipt" in headers:
            self.read_until(lambda: len(self.answers) > answered or host not in self.sockets, 10_000)
            confirmed = [one for one in self.answers[answered:] if one["command"] in ("CONNECTED", "RECEIPT")]
            if command == "SEND" and not confirmed:
                self.refused.append(body.split("\n")[0])

    def value(self, found: "re.Match[str]") -> str:
        """What stands for a placeholder."""
        word, rest = found[1], found[2].strip()
        if word == "now":  # {now+120000}: the client's wall clock, in milliseconds
            return str(time.time_ns() // 1_000_000 + int(rest or 0))
        if word == "dots":
            return "." * int(rest)
        if word == "env":
            return os.environ.get(rest, "")
        if word == "ack":  # {ack CONSUMER TOKEN}: the header of that name of the delivery that was taken last
            wanted = rest.split(" ")
            return [one["ack"] for one in self.taken if [one["subscription"], one["token"]] == wanted][-1]
        return self.run

    def read_until(self, done: Callable[[], object], patience_ms: int) -> None:
        """Read what comes on all connections until then, or until patience is over."""
        end = time.monotonic() + patience_ms / 1000
        while not done() and (left := end - time.monotonic()) > 0:
            for host, sock in list(self.sockets.items()):
                sock.settimeout(min(left, 0.005))
                try:
                    data = sock.recv(65536)
                except TimeoutError:
                    continue
                except OSError:
                    data = b""
                if not data:
                    self.close(host)
                    continue
                *frames, self.unread[host] = (self.unread[host] + data).split(b"\0")
                for frame in frames:
                    self.receive(frame.decode().lstrip("\n"))
            if not self.sockets:
                time.sleep(min(left, 0.005))

    def receive(self, frame: str) -> None:
        """One frame of the broker's. Of a repeated header the first counts."""
        head, _, body = frame.partition("\n\n")
        command, *lines = head.replace("\r", "").split("\n")
        headers = dict(line.split(":", 1) for line in reversed(lines))
        headers |= {"command": command, "at": repr(time.monotonic()), "token": body.split("\n")[0]}
        if command == "MESSAGE":
            self.arrived.append(headers)
            self.waiting.setdefault(headers["subscription"], []).append(headers)
        else:
            self.answers.append(headers)

    def close(self, host: str) -> None:
        """Cut a connection, without a goodbye."""
        if host in self.sockets:
            self.sockets.pop(host).close()

    def tokens(self, consumer: str) -> list[str]:
        """What its application took, in order."""
        return [one["token"] for one in self.taken if one["subscription"] == consumer]

    def arrivals(self, token: str = "", consumer: str = "") -> list[dict[str, str]]:
        """The headers of each delivery of a message, or to a consumer."""
        return [one for one in self.arrived if token in ("", one["token"]) and consumer in ("", one["subscription"])]

    def first(self, token: str) -> dict[str, str]:
        """The headers of its first delivery; none if it never came."""
        return (self.arrivals(token) or [{}])[0]

    def after_ms(self, token: str) -> float:
        """How long after the begin of its send it arrived first; infinity if it never came."""
        at = self.first(token).get("at", "inf")
        return (float(at) - float(self.sent[token]["at"])) * 1000
