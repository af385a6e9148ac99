"""Fresh: judges MEM-015, what a broker that has just come back keeps in memory, and what it must have forgotten.

Analyses:

1. The first settle after a restart, before anybody sent, consumed or asked for anything and before a sweep was due,
   finds no memory in use. Runs in which a message was ever delayed are left out: it may become visible at once.
2. A message that was sent as non-persistent, and confirmed, before a restart does not arrive afterwards, except as a
   dead letter, which is a persistent message of its own.

Not checked: that persistent messages are there (GEN-080).
"""

from __future__ import annotations

from brokerproof.conformance.experiment.destinations import DEAD_LETTERS
from brokerproof.conformance.experiment.history import (
    Abort,
    Arrive,
    Commit,
    Counters,
    Event,
    Fault,
    Header,
    Operate,
    Send,
    Subscribe,
)
from brokerproof.conformance.oracles.base import NS_PER_MS, Oracle
from brokerproof.conformance.oracles.wall import WallClocks


class FreshOracle(Oracle):
    """A fold over restarts."""

    name = "fresh"
    requirements = ("MEM-015",)
    kinds = ("fault", "send", "subscribe", "operate", "commit", "abort", "counters", "arrive")
    faults = ("restart",)

    def __init__(self, clocks: WallClocks) -> None:
        super().__init__(clocks)
        self._period_ns = 0
        self._restart: Fault | None = None
        self._quiet = False
        self._delayed = False
        #: Confirmed non-persistent messages; those that were so when the broker went down.
        self._volatile: dict[str, bool] = {}
        self._gone: dict[str, bool] = {}
        #: Consumers that came after the last restart.
        self._later: dict[str, bool] = {}

    def start(self, header: Header) -> None:
        periods = [entry.expire_period_ms for entry in header.declared.destinations if entry.expire_period_ms > 0]
        self._period_ns = min(periods, default=0) * NS_PER_MS

    def feed(self, event: Event) -> None:
        if isinstance(event, Counters):
            self._read(event)
        elif isinstance(event, Arrive):
            self._arrive(event)
        elif isinstance(event, Fault):
            if event.fault == "restart":
                self._restart = event
                self._quiet = True
                self._gone.update(self._volatile)
                self._later.clear()
        else:
            self._quiet = False
            if isinstance(event, Send):
                self._delayed = self._delayed or event.delay_ms > 0 or event.deliver_at_ms is not None
                # One that is due later may be kept by a scheduler of its own (DLY-025).
                due = event.delay_ms <= 0 and event.deliver_at_ms is None
                if event.result == "ok" and not event.persistent and event.tx is None and due:
                    self._volatile[event.message] = True
            elif isinstance(event, Subscribe):
                self._later[event.consumer] = True
            else:
                assert isinstance(event, Operate | Commit | Abort)

    def _read(self, event: Counters) -> None:
        restart = self._restart
        if restart is None or not self._quiet or self._delayed or not event.at_rest or event.memory_bytes is None:
            return
        if self._period_ns and event.t1 - restart.t0 >= self._period_ns:
            return
        claim = self.claims["MEM-015"]
        who = event.dest or "the broker"
        if event.memory_bytes:
            text = f"{who} uses {event.memory_bytes} bytes of memory after a restart ({restart.how}), untouched since"
            claim.fail(text, [restart.seq, event.seq], outcome="in-use")
        elif event.size:
            claim.hold("messages were in the store", outcome="fresh")

    def _arrive(self, event: Arrive) -> None:
        restart = self._restart
        if restart is None or event.message not in self._gone or event.consumer not in self._later:
            return
        if event.dest != DEAD_LETTERS and not event.original_dest:
            text = (
                f"{event.message} is not persistent and had been confirmed before the broker was restarted "
                f"({restart.how}); it arrived at {event.consumer} all the same"
            )
            self.claims["MEM-015"].fail(text, [restart.seq, event.seq], outcome="came-back")

    def conclude(self) -> None:
        if self._gone:
            self.claims["MEM-015"].hold("a message that is not persistent was lost", outcome="fresh")
