"""The broker's host in the simulation: the reference broker's node, its timers and its writers.

Each connection has a writer that takes ``WRITE_NS`` per frame, as a socket does, and that stops when the link's buffer
is full. So an asynchronous dispatch really is still on its way when the consumer leaves, which is where negative
in-flight counts come from (seed 003). A producer that flow control has stopped is not read from: what it sends waits
before the broker, its end included.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from brokerproof.conformance.experiment.configuration import LOGIN
from brokerproof.conformance.experiment.history import Closed, Crash
from brokerproof.conformance.worlds.simulated.agenda import Action, Agenda, Party
from brokerproof.conformance.worlds.simulated.clock import VirtualClock
from brokerproof.conformance.worlds.simulated.link import Broken, Ended, Link, Opened, Some
from brokerproof.reference_broker.core.instant import Now
from brokerproof.reference_broker.node import TRANSPORT_LOGGER, Node
from brokerproof.reference_broker.security.authenticator import Authenticator, User, refusal
from brokerproof.reference_broker.security.passwords import Cost, hash_password
from brokerproof.reference_broker.session.actions import Answered, Authenticate, Close, Log, OutputReady, Sync, Throttle
from brokerproof.reference_broker.storage.memory import MemoryJournal

if TYPE_CHECKING:
    from brokerproof.conformance.experiment.configuration import BrokerSpec
    from brokerproof.conformance.worlds.port import Recorder
    from brokerproof.reference_broker.core.events import Operation
    from brokerproof.reference_broker.session.actions import Action as NodeAction

#: Time that the storage needs for one sync: long enough that a program can kill the broker in it.
SYNC_NS = 410_000
#: Time that a broker is down when it is restarted.
DOWN_NS = 20_000_000
#: Time that the broker needs to write one frame. Not a divisor of usual latencies, so that writers and links do not
#: tick together.
WRITE_NS = 130_000
#: What a check of a passcode takes: nothing, for nobody attacks.
_COST = Cost(2, 1, 1)


class Tick(Action):
    """A timer of the node may be due."""

    __slots__ = ("_host",)

    def __init__(self, host: BrokerHost) -> None:
        self._host = host

    def happen(self) -> None:
        self._host.tick()

    def party(self) -> Party:
        return self._host


class Write(Action):
    """A connection's writer finished a frame and takes the next one."""

    __slots__ = ("_connection", "_host", "_link")

    def __init__(self, host: BrokerHost, connection: int, link: Link) -> None:
        self._host = host
        self._connection = connection
        self._link = link

    def happen(self) -> None:
        self._host.write(self._connection, self._link, self)

    def party(self) -> Party:
        return self._host


class Synced(Action):
    """The storage has finished a sync of the broker that began it: ``batches`` are safe."""

    __slots__ = ("_host", "batches", "node", "ticket")

    def __init__(self, host: BrokerHost, node: Node, batches: int) -> None:
        self._host = host
        self.node = node
        self.ticket = node.begin_sync()
        self.batches = batches

    def happen(self) -> None:
        self._host.synced(self)

    def party(self) -> Party:
        return self._host


class BrokerHost:
    """The node with virtual time around it. Whoever makes it gives it the node (``run``)."""

    node: Node

    def __init__(
        self,
        agenda: Agenda,
        recorder: Recorder,
        name: str,
        settings: BrokerSpec,
        clock: VirtualClock,
    ) -> None:
        self._agenda = agenda
        self._recorder = recorder
        self.clock = clock
        self.name = name
        #: None: nothing outlives the broker's process.
        self.journal = MemoryJournal() if settings.persistent else None
        #: Who comes in, and how; () where nobody is asked.
        self.login: tuple[str, ...] = LOGIN if settings.logins else ()
        self._authenticator: Authenticator | None = None
        #: The process has ended, and no other was started yet.
        self.down = False
        #: What an operator was told of connections that were given up.
        self._given_up: list[str] = []
        #: Open connections.
        self._links: dict[int, Link] = {}
        #: Connections whose writer has a ``Write`` on the agenda.
        self._writing: dict[int, bool] = {}
        #: Connections that are not read from, and what has come from them since: frames, or None for the end.
        self._unread: dict[int, list[object | None]] = {}
        #: Answers to operators that nobody has fetched.
        self._answers: dict[int, Answered] = {}
        self._planned_ns = -1
        self._tick = Tick(self)
        #: The process stands still: what has come to it since, and what it was about to write or had given to sync.
        self._still = False
        self._held: list[tuple[Link, int, object]] = []
        self._stopped_writes: list[Action] = []

    def run(self, node: Node) -> None:
        """This is its process from now on."""
        self.node = node
        if self.login:
            node.require_authentication(None)

    def now(self) -> Now:
        """This instant on the broker's host."""
        return self.clock.now(self._agenda.now_ns)

    # -- what links bring

    def arrived(self, link: Link, connection: int, item: object) -> None:
        """Something came over a link; it has to wait while the process stands still."""
        kind = type(item)
        if self._still:
            self._held.append((link, connection, item))
        elif kind is Opened:
            assert isinstance(item, Opened)
            self.accept(connection, link, item.protocol)
        elif kind is Ended:
            self.lose(connection)
        elif kind is Some:
            self.bytes_arrived(connection)
        elif kind is Broken:
            assert isinstance(item, Broken)
            self.broken(connection, item.text, item.receipt)
        else:
            self.receive(connection, item)

    def accept(self, connection: int, link: Link, protocol: str) -> None:
        """A client's socket was accepted."""
        if self.down:
            return
        self._links[connection] = link
        self.node.connect(connection, protocol, self.now(), f"tcp://{link.client}:{connection}")
        self.after()

    def receive(self, connection: int, frame: object) -> None:
        """A frame arrived; frames of connections that are gone are dropped, as a closed socket does."""
        if connection not in self._links:
            return
        if connection in self._unread:
            self._unread[connection].append(frame)
            return
        now, node = self.now(), self.node
        state = node.connection_state(connection)
        idle = state is not None and state.session.is_idle(frame)
        node.bytes_received(connection, now)
        node.receive(connection, frame, now)
        actions = node.take_actions()
        if actions or not idle:  # what only proves that its sender lives moves no timer forward
            self._follow(actions)

    def reports(self, connection: int) -> int:
        """How often an operator was told that this connection was given up."""
        return sum(f":{connection} failed:" in text for text in self._given_up)

    def is_unread(self, connection: int) -> bool:
        """Whether what this connection sends is not read now."""
        return connection in self._unread

    def bytes_arrived(self, connection: int) -> None:
        """Some bytes of a frame arrived."""
        if connection in self._links and connection not in self._unread:
            self.node.bytes_received(connection, self.now())

    def broken(self, connection: int, text: str, receipt: str = "") -> None:
        """Bytes arrived that no decoder accepts."""
        if connection in self._links:
            now = self.now()
            self.node.bytes_received(connection, now)
            self.node.protocol_error(connection, text, now, receipt)
            self.after()

    def counters(self, dest: str | None) -> dict[str, int] | None:
        """What it tells of a destination, or (None) of itself; None: nobody answers."""
        if self.down:
            return None
        broker = self.node.broker
        return (broker.broker_counters() if dest is None else broker.counters(dest, self.now())) or {}

    def operate(self, event: Operation, patience_ns: int) -> Answered | None:
        """An operator asks for something; the broker's answer, None: none came within ``patience_ns``."""
        agenda = self._agenda
        deadline_ns = agenda.now_ns + patience_ns
        if not self.down:
            number = self.node.submit(event, self.now())
            self.after()
            while not self.down:
                if number in self._answers:
                    return self._answers.pop(number)
                if not agenda.step_by(deadline_ns):  # the answer may wait for a sync
                    break
        return None

    def lose(self, connection: int) -> None:
        """The client's end of the socket is gone."""
        if connection in self._unread:
            if not self.node.has_output(connection):
                self._unread[connection].append(None)
                return
            del self._unread[connection]  # who writes to it notices
        if self._links.pop(connection, None) is None:
            return
        self.node.disconnect(connection, self.now())
        self.after()

    # -- the process

    def stand_still(self) -> None:
        """From now on the process does nothing (SIGSTOP)."""
        self._still = True

    def go_on(self) -> None:
        """It goes on: what has come meanwhile is read before any timer is looked at, as the server does."""
        self._still = False
        held, self._held = self._held, []
        for link, connection, item in held:
            self.arrived(link, connection, item)
        stopped, self._stopped_writes = self._stopped_writes, []
        for action in stopped:
            action.happen()
        self._run_timers()

    def go_down(self, how: str) -> dict[str, int]:
        """The process ends, in an orderly way (``stop``) or not (``kill``); what can be seen of it from outside."""
        journal = self.journal
        assert journal is not None, "only a persistent broker is restarted"
        if how == "stop":
            journal.sync()
        connections = len(self._links)
        return {"connections": connections, "batches_lost": self._end()}

    def _end(self) -> int:
        """The process ends; how many batches of the journal are lost."""
        self.down = True
        links, self._links = self._links, {}
        self._unread = {}
        for connection, link in links.items():
            link.end_to_client(connection, "the broker's process ended")
        return self.journal.crash() if self.journal is not None else 0

    def fail(self, how: str, evidence: str) -> None:
        """The process ends, and nobody had asked for it. One that hangs is killed, so that the run can go on."""
        if not self.down:
            now_ns = self._agenda.now_ns
            self._recorder.put(Crash, now_ns, now_ns, self.name, target=self.name, how=how, evidence=evidence)
            self._end()

    def come_up(self, node: Node) -> None:
        """A new process over the same storage."""
        self.down = False
        self.run(node)
        self._planned_ns = -1
        node.recover(self.now())
        self.after()

    def synced(self, sync: Synced) -> None:
        """The storage has finished a sync; one of an earlier process concerns nobody."""
        if self._still:
            self._stopped_writes.append(sync)
            return
        self._agenda.moving -= 1
        if sync.node is not self.node or self.journal is None or self.down:
            return
        self.journal.sync(sync.batches)
        self.node.end_sync(sync.ticket, self.now())
        self.after()

    # -- what time brings

    def tick(self) -> None:
        """Run due timers. What was planned before an earlier one came is nobody's any more."""
        if self._planned_ns == self._agenda.now_ns:
            self._run_timers()

    def _run_timers(self) -> None:
        self._planned_ns = -1
        if not self.down and not self._still:
            self.node.tick(self.now())
            self.after()

    def write(self, connection: int, link: Link, action: Write) -> None:
        """Write one frame, if the connection and the link still take it."""
        if self._still:
            self._stopped_writes.append(action)
            return
        self._agenda.moving -= 1
        self._writing[connection] = False
        if self._links.get(connection) is not link:
            return
        if None in self._unread.get(connection, ()):
            self.lose(connection)
            return
        if link.is_full():
            self.node.write_blocked(connection, self.now())
            self.after()
            return
        frame = self.node.next_output(connection, self.now())
        if frame is not None:
            link.to_client(connection, frame)
        if self.node.has_output(connection):
            self._plan_write(connection, action)
        # Writing starts no timer: expiry and delay begin when a message comes or comes back.
        actions = self.node.take_actions()
        if actions:
            self._act(actions)

    def resume(self, connection: int) -> None:
        """The link takes frames again."""
        link = self._links.get(connection)
        if link is not None:
            self.node.write_resumed(connection)
            if self.node.has_output(connection):
                self._plan_write(connection, Write(self, connection, link))

    def _throttle(self, connection: int, *, blocked: bool) -> None:
        """Stop reading from a connection, or read what has come meanwhile."""
        if blocked:
            self._unread.setdefault(connection, [])
            return
        waiting = self._unread.pop(connection, [])
        for index, frame in enumerate(waiting):
            if connection in self._unread:  # stopped again
                self._unread[connection] += waiting[index:]
                return
            if frame is None:
                self.lose(connection)
            else:
                self.receive(connection, frame)

    def _plan_write(self, connection: int, action: Write) -> None:
        if not self._writing.get(connection, False):
            self._writing[connection] = True
            agenda = self._agenda
            agenda.moving += 1
            agenda.plan(agenda.now_ns + WRITE_NS, action)

    def after(self) -> None:
        """Do what the node asked for, then plan its next timer."""
        self._follow(self.node.take_actions())

    def _follow(self, actions: list[NodeAction]) -> None:
        if actions:
            self._act(actions)
        due_ns = self.node.next_due_ns()
        if due_ns is not None and (self._planned_ns < 0 or due_ns < self._planned_ns):
            self._planned_ns = max(due_ns, self._agenda.now_ns)
            self._agenda.plan(self._planned_ns, self._tick)

    def _act(self, actions: list[NodeAction]) -> None:
        """Do what the node asked for."""
        again = False
        for action in actions:
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
                self._agenda.moving += 1
                assert self.journal is not None, "who syncs has one"
                sync = Synced(self, self.node, len(self.journal.unsafe))
                self._agenda.plan(self._agenda.now_ns + SYNC_NS, sync)
            elif kind is Close:
                assert isinstance(action, Close)
                self._close(action)
                again = True
            elif kind is Log:
                assert isinstance(action, Log)
                if action.logger == TRANSPORT_LOGGER:
                    self._given_up.append(action.text)
            elif kind is Throttle:
                assert isinstance(action, Throttle)
                self._throttle(action.connection, blocked=action.blocked)
                again = True
            elif kind is Authenticate:
                assert isinstance(action, Authenticate)
                self._authenticate(action)
                again = True
        if again:
            # What the end of a connection caused: its messages go to others. Or what a producer had sent meanwhile.
            self.after()

    def _authenticate(self, action: Authenticate) -> None:
        if self._authenticator is None:
            self._authenticator = Authenticator([User(LOGIN[0], hash_password(LOGIN[1], _COST))])
        credentials = action.credentials
        identity = self._authenticator.recall(credentials) or self._authenticator.check(credentials)
        self.node.admit(action.connection, identity, refusal(credentials.user), self.now())

    def _close(self, action: Close) -> None:
        """The broker closes a connection: what is left to write goes first, then the end of the stream."""
        connection = action.connection
        link = self._links.pop(connection, None)
        self._unread.pop(connection, None)
        if link is None:
            return
        frame = self.node.next_output(connection, self.now())
        while frame is not None:
            link.to_client(connection, frame)
            frame = self.node.next_output(connection, self.now())
        if action.inactive and link.is_told:
            now_ns = self._agenda.now_ns
            fields = {"who": "broker", "reason": action.reason, "link": link.client, "idle_ns": action.idle_ns}
            self._recorder.put(Closed, now_ns, now_ns, self.name, **fields)
        link.end_to_client(connection, action.reason)
        self.node.disconnect(connection, self.now())
