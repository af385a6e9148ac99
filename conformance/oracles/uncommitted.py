"""Uncommitted: what open transactions are known to have sent where.

Rules:

* A confirmed send in a transaction counts from then on until its commit or rollback is confirmed.
* Where the broker's view may differ from the client's, the destination is *unsure* for the rest of the run: a send or
  an end of unknown result, a connection that went with its transaction open, a restart of the broker.

What must change together: ``books.py``, who feeds it, and the oracles that count memory.
"""

from __future__ import annotations

from brokerproof.conformance.experiment.history import (
    Abort,
    Closed,
    Commit,
    Connect,
    Event,
    Fault,
    Kill,
    Leave,
    Send,
    Stop,
)


class Uncommitted:
    """One run's open transactions."""

    __slots__ = ("_hosts", "_open", "bytes", "counts", "undone", "unsure")

    def __init__(self) -> None:
        #: Transaction -> destination -> what was sent: messages, bytes of their bodies.
        self._open: dict[str, dict[str, tuple[int, int]]] = {}
        #: Transaction -> whose it is.
        self._hosts: dict[str, str] = {}
        self.counts: dict[str, int] = {}
        self.bytes: dict[str, int] = {}
        self.unsure: dict[str, bool] = {}
        #: Destination -> the first confirmed rollback of something that was sent there.
        self.undone: dict[str, int] = {}

    def feed(self, event: Event) -> None:
        """Take one event that is no send; most concern no transaction."""
        if isinstance(event, Commit | Abort):
            if isinstance(event, Abort) and event.result == "ok":
                for dest in self._open.get(event.tx, ()):
                    self.undone.setdefault(dest, event.seq)
            self._end(event.tx, sure=event.result == "ok")
        elif isinstance(event, Closed):
            self._gone(event.link or event.host)
        elif isinstance(event, Connect):
            self._gone(event.host)
        elif isinstance(event, Leave):
            if event.how != "close" or event.consumer is None:
                self._gone(event.host)
        elif isinstance(event, Kill | Stop):
            self._gone(event.target)
        elif isinstance(event, Fault) and event.fault == "restart":
            self._gone("")

    def count(self, dest: str | None) -> int:
        """Messages for a destination; None: for all."""
        return sum(self.counts.values()) if dest is None else self.counts.get(dest, 0)

    def is_unsure(self, dest: str | None) -> bool:
        """Whether there may be other ones; None: anywhere."""
        return bool(self.unsure) if dest is None else dest in self.unsure

    def send(self, event: Send) -> None:
        """A send in a transaction."""
        tx = event.tx
        if tx is None or event.result == "fail":
            return
        if event.result != "ok":
            self.unsure[event.dest] = True
            return
        sent = self._open.setdefault(tx, {})
        count, size = sent.get(event.dest, (0, 0))
        sent[event.dest] = (count + 1, size + event.size)
        self._hosts[tx] = event.host
        self._change(event.dest, 1, event.size)

    def _end(self, tx: str, *, sure: bool) -> None:
        self._hosts.pop(tx, None)
        for dest, (count, size) in self._open.pop(tx, {}).items():
            self._change(dest, -count, -size)
            if not sure:
                self.unsure[dest] = True

    def _gone(self, host: str) -> None:
        """A host's connection has ended, or everybody's ("")."""
        for tx in [tx for tx, whose in self._hosts.items() if host in {"", whose}]:
            self._end(tx, sure=False)

    def _change(self, dest: str, count: int, size: int) -> None:
        self.counts[dest] = self.counts.get(dest, 0) + count
        self.bytes[dest] = self.bytes.get(dest, 0) + size
