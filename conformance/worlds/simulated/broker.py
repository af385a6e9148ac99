"""The broker's host in the simulation: the reference broker's node, its timers and its writers.

Each connection has a writer that takes ``WRITE_NS`` per frame, as a socket does, and that stops when the link's buffer
is full. So an asynchronous dispatch really is still on its way when the consumer leaves, which is where negative
in-flight counts come from (seed 003).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from conformance.history import Closed
from conformance.worlds.simulated.agenda import Action
from conformance.worlds.simulated.clock import NS_PER_MS
from reference_broker.actions import Answered, Close, OutputReady, Sync
from reference_broker.core.instant import Now
from reference_broker.node import Node

if TYPE_CHECKING:
    from conformance.worlds.simulated.link import Link
    from conformance.worlds.simulated.stage import Stage
    from reference_broker.core.events import Operation
    from reference_broker.storage.memory import MemoryJournal

#: Time that the storage needs for one sync: long enough that a program can kill the broker in it.
SYNC_NS = 410_000
#: Time that a broker is down when it is restarted.
DOWN_NS = 20_000_000
#: Time that the broker needs to write one frame. Not a divisor of usual latencies, so that writers and links do not
#: tick together.
WRITE_NS = 130_000


class Tick(Action):
    """A timer of the node may be due."""

    __slots__ = ("_host",)

    def __init__(self, host: BrokerHost) -> None:
        self._host = host

    def happen(self) -> None:
        self._host.tick()


class Write(Action):
    """A connection's writer finished a frame and takes the next one."""

    __slots__ = ("_connection", "_host", "_link")

    def __init__(self, host: BrokerHost, connection: int, link: Link) -> None:
        self._host = host
        self._connection = connection
        self._link = link

    def happen(self) -> None:
        self._host.write(self._connection, self._link, self)


class Synced(Action):
    """The storage has finished a sync of the broker that began it."""

    __slots__ = ("_host", "_node", "_ticket")

    def __init__(self, host: BrokerHost, node: Node) -> None:
        self._host = host
        self._node = node
        self._ticket = node.begin_sync()

    def happen(self) -> None:
        self._host.synced(self._node, self._ticket)


class BrokerHost:
    """The node with virtual time around it."""

    __slots__ = (
        "_agenda",
        "_answers",
        "_clock",
        "_down",
        "_journal",
        "_links",
        "_planned_ns",
        "_tick",
        "_world",
        "_writing",
        "name",
        "node",
    )

    def __init__(self, world: Stage, name: str, node: Node, journal: MemoryJournal | None) -> None:
        self._world = world
        self._agenda = world.agenda
        self._clock = world.broker_clock
        self.name = name
        self.node = node
        #: None: nothing outlives the broker's process.
        self._journal = journal
        #: Between two lives of the process.
        self._down = False
        #: Open connections.
        self._links: dict[int, Link] = {}
        #: Connections whose writer has a ``Write`` on the agenda.
        self._writing: dict[int, bool] = {}
        #: Answers to operators that nobody has fetched.
        self._answers: dict[int, Answered] = {}
        self._planned_ns = -1
        self._tick = Tick(self)

    def now(self) -> Now:
        """This instant on the broker's host."""
        true_ns = self._agenda.now_ns
        return Now(true_ns, self._clock.wall_ns(true_ns) // NS_PER_MS)

    # -- what links bring

    def accept(self, connection: int, link: Link, protocol: str) -> None:
        """A client's socket was accepted."""
        if self._down:
            return
        self._links[connection] = link
        self.node.connect(connection, protocol, self.now(), f"tcp://{link.client}:{connection}")
        self.after()

    def receive(self, connection: int, frame: object) -> None:
        """A frame arrived; frames of connections that are gone are dropped, as a closed socket does."""
        if connection not in self._links:
            return
        now = self.now()
        node = self.node
        node.bytes_received(connection, now)
        node.receive(connection, frame, now)
        self.after()

    def bytes_arrived(self, connection: int) -> None:
        """Some bytes of a frame arrived."""
        if connection in self._links:
            self.node.bytes_received(connection, self.now())

    def operate(self, event: Operation) -> Answered:
        """An operator asks for something; the broker's answer. Raises ``TypeError`` for what it does not know."""
        number = self.node.submit(event, self.now())
        self.after()
        while number not in self._answers:
            self._agenda.step()  # the answer waits for a sync
        return self._answers.pop(number)

    def lose(self, connection: int) -> None:
        """The client's end of the socket is gone."""
        if self._links.pop(connection, None) is None:
            return
        self.node.disconnect(connection, self.now())
        self.after()

    # -- the process

    def go_down(self, how: str) -> dict[str, int]:
        """The process ends, in an orderly way (``stop``) or not (``kill``); what can be seen of it from outside."""
        journal = self._journal
        assert journal is not None, "only a persistent broker is restarted"
        self._down = True
        if how == "stop":
            journal.sync()
        lost = journal.crash()
        for connection, link in self._links.items():
            link.end_to_client(connection, "the broker's process ended")
        seen = {"connections": len(self._links), "batches_lost": lost}
        self._links = {}
        return seen

    def come_up(self, node: Node) -> None:
        """A new process over the same storage."""
        self._down = False
        self.node = node
        self._planned_ns = -1
        node.recover(self.now())
        self.after()

    def synced(self, node: Node, ticket: int) -> None:
        """The storage has finished a sync; one of an earlier process concerns nobody."""
        self._world.moving -= 1
        if node is not self.node or self._journal is None or self._down:
            return
        self._journal.sync()
        node.end_sync(ticket, self.now())
        self.after()

    # -- what time brings

    def tick(self) -> None:
        """Run due timers."""
        self._planned_ns = -1
        if not self._down:
            self.node.tick(self.now())
            self.after()

    def write(self, connection: int, link: Link, action: Write) -> None:
        """Write one frame, if the connection and the link still take it."""
        self._world.moving -= 1
        self._writing[connection] = False
        if self._links.get(connection) is not link or link.is_full():
            return
        frame = self.node.next_output(connection, self.now())
        if frame is not None:
            link.to_client(connection, frame)
        if self.node.has_output(connection):
            self._plan_write(connection, action)
        # Writing starts no timer: expiry and delay begin when a message comes or comes back.
        self._act()

    def resume(self, connection: int) -> None:
        """The link takes frames again."""
        link = self._links.get(connection)
        if link is not None and self.node.has_output(connection):
            self._plan_write(connection, Write(self, connection, link))

    def _plan_write(self, connection: int, action: Write) -> None:
        if not self._writing.get(connection, False):
            self._writing[connection] = True
            self._world.moving += 1
            self._world.agenda.plan(self._world.agenda.now_ns + WRITE_NS, action)

    def after(self) -> None:
        """Do what the node asked for, then plan its next timer."""
        self._act()
        due_ns = self.node.next_due_ns()
        if due_ns is not None and (self._planned_ns < 0 or due_ns < self._planned_ns):
            self._planned_ns = due_ns
            self._agenda.plan(due_ns, self._tick)

    def _act(self) -> None:
        """Do what the node asked for."""
        closed = False
        for action in self.node.take_actions():
            kind = type(action)
            if kind is OutputReady:
                assert isinstance(action, OutputReady)
                link = self._links.get(action.connection)
                if link is not None:
                    self._plan_write(action.connection, Write(self, action.connection, link))
            elif kind is Answered:
                assert isinstance(action, Answered)
                self._answers[action.request] = action
            elif kind is Sync:
                self._world.moving += 1
                self._agenda.plan(self._agenda.now_ns + SYNC_NS, Synced(self, self.node))
            elif kind is Close:
                assert isinstance(action, Close)
                self._close(action)
                closed = True
        if closed:
            # What the end of a connection caused: its messages go to others.
            self.after()

    def _close(self, action: Close) -> None:
        """The broker closes a connection: what is left to write goes first, then the end of the stream."""
        connection = action.connection
        link = self._links.pop(connection, None)
        if link is None:
            return
        frame = self.node.next_output(connection, self.now())
        while frame is not None:
            link.to_client(connection, frame)
            frame = self.node.next_output(connection, self.now())
        if action.inactive:
            world = self._world
            now_ns = world.agenda.now_ns
            event = Closed(
                world.recorder.next_seq(),
                now_ns,
                now_ns,
                self.name,
                "broker",
                action.reason,
                link.client,
                action.idle_ns,
            )
            world.recorder.record(event)
        link.end_to_client(connection, action.reason)
        self.node.disconnect(connection, self.now())
