"""Stage: what the simulated world stands on: one agenda, the broker's host, the clients' hosts, their clocks.

Rules
* A request is lock-step: it is written, then virtual time runs until its answer has come or ``REQUEST_NS`` has passed
  (result ``unknown``).
* Clock samples are exact: in this world the observer owns the clocks.

What the steps mean is in ``world.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from brokerproof.conformance.brokers.translation import CAPABILITIES, broker_config
from brokerproof.conformance.experiment.history import ClockSample, Connect, Event, Header, Result
from brokerproof.conformance.experiment.program import Program
from brokerproof.conformance.experiment.state import ClientState
from brokerproof.conformance.mutants import build
from brokerproof.conformance.worlds.base import Recorder, World
from brokerproof.conformance.worlds.beginning import state_of
from brokerproof.conformance.worlds.simulated.agenda import Agenda
from brokerproof.conformance.worlds.simulated.broker import BrokerHost
from brokerproof.conformance.worlds.simulated.clock import VirtualClock
from brokerproof.conformance.worlds.simulated.host import REQUEST_NS, ClientHost
from brokerproof.conformance.worlds.simulated.libraries import JmsHost, StompHost
from brokerproof.conformance.worlds.simulated.link import Ended, Link, Opened, Some
from brokerproof.reference_broker.storage.memory import MemoryJournal

if TYPE_CHECKING:
    from collections.abc import Callable

    from brokerproof.reference_broker.node import Node

NS_PER_MS = 1_000_000


class Stage(World):
    """See the module's header. ``mutant`` plants a defect in the broker; ``listener`` hears events as they are
    recorded.
    """

    kind = "simulated"

    def __init__(
        self, *, mutant: str | None = None, seed: int | None = None, listener: Callable[[Event], None] | None = None
    ) -> None:
        self._mutant = mutant
        self._seed = seed
        self._listener = listener
        self.moving = 0

    # -- the loop

    def open(self, program: Program) -> None:
        self.program = program
        self.state = state_of(program)
        self.recorder = Recorder(self._listener)
        self.agenda = Agenda()
        self._connections = 0
        self.moving = 0
        #: When the last delayed message that was accepted becomes due.
        self.due_ns = 0
        #: The longest delay of a message that was sent, which a restart may begin anew at most.
        self.longest_ns = 0
        self.broker_clock = VirtualClock(program.broker_host().clock)
        self.parts = build(self._mutant, broker_config(program))
        #: What outlives the broker's process; None: nothing does.
        self.journal = MemoryJournal() if program.broker.persistent else None
        self.broker = BrokerHost(self, self.state.broker.name, self.parts.node(self.journal), self.journal)
        self.hosts: dict[str, ClientHost] = {client.name: make_host(self, client) for client in self.state.clients}
        for host in self.state.hosts:
            self.sample(host.name)
        self.phase("work")

    def shut(self) -> None:
        """Nothing to stop: no process, no socket, no thread."""

    def header(self) -> Header:
        return self.make_header(self.program, "reference", CAPABILITIES, self._seed, self._mutant)

    def true_ns(self) -> int:
        return self.agenda.now_ns

    def phase(self, name: str) -> None:
        if name != "work":
            for host in self.state.hosts:
                self.sample(host.name)
        super().phase(name)

    def next_connection(self) -> int:
        """A connection number that was never used."""
        self._connections += 1
        return self._connections

    def new_node(self) -> Node:
        """The broker's process, started again: the same configuration, the same storage."""
        self.parts = build(self._mutant, broker_config(self.program))
        return self.parts.node(self.journal)

    # -- what links bring

    def at_broker(self, link: Link, connection: int, item: object) -> None:
        """Something arrived at the broker's host."""
        if self.broker.holds(link, connection, item):
            return
        if isinstance(item, Opened):
            self.broker.accept(connection, link, item.protocol)
        elif isinstance(item, Ended):
            self.broker.lose(connection)
        elif isinstance(item, Some):
            self.broker.bytes_arrived(connection)
        else:
            self.broker.receive(connection, item)

    def at_client(self, client: str, connection: int, item: object) -> None:
        """Something arrived at a client's host."""
        self.hosts[client].receive(connection, item)

    # -- waiting

    def await_answer(self, host: ClientHost, connection: int, receipt: str) -> tuple[Result, str | None]:
        """Run until the receipt has come; (result, refusal)."""
        agenda = self.agenda
        deadline_ns = agenda.now_ns + REQUEST_NS + host.link.busy_ns()
        answers = host.answers
        while receipt not in answers:
            if host.connection != connection:
                return "unknown", None
            if not agenda.step_by(deadline_ns):
                return "unknown", None
        refusal = answers.pop(receipt)
        return ("fail", refusal) if refusal else ("ok", None)

    def make_sure_connected(self, host: ClientHost) -> bool:
        """Connect if necessary; whether there is a connection now."""
        if host.connected:
            return True
        t0 = self.agenda.now_ns
        host.dial()
        connected = self.is_let_in(host)
        self.record_connect(host, t0, connected=connected)
        return connected

    def is_let_in(self, host: ClientHost) -> bool:
        """Wait until a host that has dialled is connected; whether it is."""
        connection = host.connection
        deadline_ns = self.agenda.now_ns + REQUEST_NS
        while not host.connected and host.connection == connection:
            if not self.agenda.step_by(deadline_ns):
                break
        if not host.connected:
            host.hang_up()
        return host.connected

    def record_connect(self, host: ClientHost, t0: int, *, connected: bool) -> None:
        """A host has tried to connect since ``t0``."""
        spec = host.state.spec
        event = Connect(
            self.recorder.next_seq(),
            t0,
            self.agenda.now_ns,
            host.state.name,
            "ok" if connected else "unknown",
            spec.via,
            spec.via == "jms" and spec.expiry_check,
        )
        self.recorder.record(event)

    # -- clocks

    def clock_of(self, host: str) -> VirtualClock:
        return self.broker_clock if host == self.state.broker.name else self.hosts[host].clock

    def sample(self, host: str) -> int:
        """Record an exact clock sample; returns the wall clock in milliseconds."""
        now_ns = self.agenda.now_ns
        wall_ms, beyond_ns = divmod(self.clock_of(host).wall_ns(now_ns), NS_PER_MS)
        recorder = self.recorder
        recorder.record(ClockSample(recorder.next_seq(), now_ns, now_ns, host, wall_ms, 0, beyond_ns))
        return wall_ms


def make_host(world: Stage, client: ClientState) -> ClientHost:
    """A client's host with the library that it speaks through."""
    return JmsHost(world, client) if client.via == "jms" else StompHost(world, client)
