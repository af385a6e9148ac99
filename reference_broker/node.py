"""The whole broker without sockets and clocks: the core, and per connection a session, a monitor and an outbox.

Its *edge* (sockets in ``server/``, virtual links in the simulation) brings frames, asks for frames, does the actions.
* Popping is writing: only a message that leaves through ``next_output`` is reported to the core as transmitted.
* ``OutputReady`` is edge-triggered: it is given again only after ``next_output`` has emptied the outbox.
* ``Close`` comes last for a connection: the edge writes what ``next_output`` still gives, closes, and ``disconnect``s.
* While ``Throttled`` a producer is not listened to: its frames are kept in order, and its monitor takes it for alive.
* Connection numbers are never used twice, not even after a restart: message ids and consumer names contain them.
* ``recover`` comes before the first connection; ``Sync`` asks for one ``journal.sync()`` between ``begin_sync`` and
  ``end_sync``, and again after a while if that failed or the storage ``is_troubled`` (``storage/group_commit.py``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from mypy_extensions import mypyc_attr

from brokerproof.reference_broker.core.broker import Broker
from brokerproof.reference_broker.core.config import BrokerConfig, ConfigError
from brokerproof.reference_broker.core.effects import (
    Accepted,
    Counted,
    Dispatch,
    Effect,
    Logged,
    Refused,
    Throttled,
    ToConnection,
)
from brokerproof.reference_broker.core.events import Disconnect, Event, Operation, Tick, Transmitted
from brokerproof.reference_broker.core.instant import Now, earlier
from brokerproof.reference_broker.core.policies import Policies
from brokerproof.reference_broker.inactivity import FAIL, KEEP_ALIVE, MonitorAction, MonitorFactory, monitor_for
from brokerproof.reference_broker.openwire.broker import BrokerSession as OpenWireSession
from brokerproof.reference_broker.openwire.translation.maps import MapEncoder
from brokerproof.reference_broker.security.authority import Authority
from brokerproof.reference_broker.security.identity import Identity
from brokerproof.reference_broker.session.actions import Action, Answered, Close, Log, Sync, Throttle
from brokerproof.reference_broker.session.admission import Admission, objection
from brokerproof.reference_broker.session.connection_state import ConnectionState
from brokerproof.reference_broker.session.detection import AUTO, Undecided
from brokerproof.reference_broker.session.monitor_timers import MonitorTimers
from brokerproof.reference_broker.session.session import MONITOR_LOGGER, Session
from brokerproof.reference_broker.stomp.broker import BrokerSession as StompSession
from brokerproof.reference_broker.storage.group_commit import OPERATOR, STORAGE_LOGGER, GroupCommitGate
from brokerproof.reference_broker.storage.journal import Journal

SessionFactory = Callable[[int, BrokerConfig], Session]
#: ``auto`` is a connection before its first bytes.
SESSIONS: Final[dict[str, SessionFactory]] = {"stomp": StompSession, "openwire": OpenWireSession, AUTO: Undecided}
TRANSPORT_LOGGER: Final = "org.apache.activemq.broker.TransportConnection.Transport"
#: Makes the core; a planted defect that no single policy can enact replaces it.
BrokerFactory = Callable[[BrokerConfig, Policies | None], Broker]


@mypyc_attr(allow_interpreted_subclasses=True)
class Node:
    """A broker with its connections. See the module's header for the rules that an edge follows."""

    def __init__(
        self,
        config: BrokerConfig,
        policies: Policies | None = None,
        monitor_factory: MonitorFactory = monitor_for,
        broker_factory: BrokerFactory = Broker,
        journal: Journal | None = None,
    ) -> None:
        if config.persistent and journal is None:
            raise ConfigError("broker.persistent = true needs a storage; name one or set it to false")
        self.config = config
        self._gate = GroupCommitGate(journal) if config.persistent and journal is not None else None
        self.broker = broker_factory(config, policies)
        if (statistics := self.broker.region().statistics) is not None:
            statistics.encoder = MapEncoder()
        self._monitor_factory = monitor_factory
        self._connections: dict[int, ConnectionState] = {}
        self._timers = MonitorTimers(self._connections)
        #: What new connections have to pass.
        self._admission: Admission | None = None
        self._actions: list[Action] = []
        #: Dispatches to connections that are gone, to be reported as failed.
        self._undeliverable: list[Dispatch] = []
        #: Connections that a refusal has doomed while effects were being carried out.
        self._closing: list[ConnectionState] = []
        #: Connections that flow control lets go on.
        self._resumed: list[ConnectionState] = []
        self._requests = 0

    # -- what the edge tells

    def connect(self, connection: int, protocol: str, now: Now, address: str = "") -> None:
        """A socket was accepted. ``protocol`` is "stomp", "openwire" or "auto"; ``address`` is the peer's."""
        if connection in self._connections:
            raise ValueError(f"connection {connection} exists already; never use a number twice")
        session = self.make_session(protocol, connection)
        where = address or f"tcp://connection-{connection}"
        state = ConnectionState(connection, where, session, self._monitor_factory(self.config, where, now.mono_ns))
        state.admitted = self._admission is None
        self._connections[connection] = state
        self._timers.plan(state)
        session.open()
        self._after(state, now)

    def protocol_detected(self, connection: int, protocol: str, now: Now) -> None:
        """A connection that was ``auto`` speaks this."""
        state = self._connections.get(connection)
        if state is not None and not state.closed:
            state.session = self.make_session(protocol, connection)
            state.session.open()
            self._after(state, now)

    def require_authentication(self, authority: Authority | None) -> None:
        """From now on a peer must be let in (``admit``) before its frames are worked on."""
        self._admission = Admission(authority, self.broker.has)

    def admit(self, connection: int, identity: Identity | None, text: str, now: Now) -> None:
        """The answer to ``Authenticate``: who the peer is; None: it may not come in, and ``text`` says why."""
        state = self._connections.get(connection)
        if self._admission is not None and state is not None and not (state.admitted or state.closed):
            self._admission.answer(state, identity, text, self._actions)
            self._resumed.append(state)
            self._after(state, now)

    def make_session(self, protocol: str, connection: int) -> Session:
        """The broker's end of a new connection. Raises ``ValueError`` for a protocol that does not exist."""
        make = SESSIONS.get(protocol)
        if make is None:
            raise ValueError(f"protocol {protocol!r} is unknown; one of {', '.join(SESSIONS)}")
        return make(connection, self.config)

    def recover(self, now: Now) -> None:
        """Build the broker again from its journal. Raises ``StorageError`` if it cannot be read."""
        if (gate := self._gate) is not None:
            if gate.record(self.broker.restore(gate.journal.replay(), now), None, {}):
                self._actions.append(Sync())
            self._report_storage(gate, now)

    def begin_sync(self) -> int:
        """The journal is going to be synced; give the number back to ``end_sync``."""
        return 0 if self._gate is None else self._gate.begin_sync()

    def end_sync(self, ticket: int, now: Now) -> None:
        """The sync is over; ``ticket`` 0: it failed. What waited for it leaves."""
        gate = self._gate
        if gate is None:
            return
        if ticket:
            gate.end_sync(ticket)
        self._report_storage(gate, now)
        while (given := gate.release()) is not None:
            waiter, answer = given
            if isinstance(answer, Counted | Refused) and waiter is gate.operator:
                self._answer_operator(answer)
            elif isinstance(waiter, ConnectionState) and not waiter.closed:
                self._release_answer(waiter, answer, now)
        if gate.wants_sync():
            self._actions.append(Sync())

    def is_troubled(self) -> bool:
        """Whether the storage refuses messages; only another sync can tell when it takes them again."""
        return self._gate is not None and self._gate.is_troubled()

    def bytes_received(self, connection: int, now: Now) -> None:
        """Any byte arrived."""
        state = self._connections.get(connection)
        if state is not None:
            state.monitor.bytes_received(now.mono_ns)

    def write_blocked(self, connection: int, now: Now) -> None:
        """The connection's transport takes nothing more for now."""
        state = self._connections.get(connection)
        if state is not None and not state.closed:
            state.monitor.write_blocked(now.mono_ns)
            self._timers.plan(state)

    def write_resumed(self, connection: int) -> None:
        """It has taken what it was given."""
        state = self._connections.get(connection)
        if state is not None:
            state.monitor.write_resumed()

    def receive(self, connection: int, frame: object, now: Now) -> None:
        """One decoded frame or command, keep-alives included. What comes after a close is ignored."""
        state = self._connections.get(connection)
        if state is None or state.closed:
            return
        session = state.session
        if frame is session.beat:
            return
        state.monitor.frame_received(now.mono_ns)
        if session.closing:
            return  # its last answers wait
        if (
            not state.admitted
            and self._admission is not None
            and self._admission.holds_back(state, frame, self._actions)
        ):
            return
        if state.blocked or state.refusing or state.held:
            state.held.append(frame)
        elif session.outbox or not session.is_idle(frame):
            self._process(state, frame, now)

    def _process(self, state: ConnectionState, frame: object, now: Now) -> None:
        session = state.session
        mark = len(session.outbox)
        events = session.receive(frame, now)
        self._withhold(state, mark)
        for event in events:
            if (refusal := objection(state, event)) is not None:
                self._notify(state, refusal)
                break
            self._handle(event, now)
            if session.closing or state.refusing:
                break  # refused: what the same frame would have caused next does not happen
        if not state.started and session.periods is not None:
            state.started = True
            periods = session.periods
            state.monitor.start(now.mono_ns, periods.read_ms, periods.write_ms, periods.initial_delay_ms)
            self._timers.plan(state)
        self._after(state, now)

    def protocol_error(self, connection: int, text: str, now: Now, receipt: str = "") -> None:
        """The peer's bytes are no frames: tell it, then close."""
        state = self._connections.get(connection)
        if state is None or state.closed:
            return
        mark = len(state.session.outbox)
        state.session.fail(text, receipt)
        self._withhold(state, mark)
        self._after(state, now)

    def disconnect(self, connection: int, now: Now) -> None:
        """The socket is gone. Also the end of a connection that was closed by us; its number is forgotten."""
        state = self._connections.get(connection)
        if state is None:
            return
        if not state.closed:
            self._release(state, now)
            self._settle(now)
        del self._connections[connection]

    def submit(self, operation: Operation, now: Now) -> int:
        """An operator's request. Returns the number under which ``Answered`` tells what became of it."""
        self._requests += 1
        operation.request = self._requests
        self._handle(operation, now)
        self._settle(now)
        return operation.request

    def tick(self, now: Now) -> None:
        """Time has passed: run what is due in the core and in the monitors."""
        due = self.broker.next_due_ns()
        if due is not None and due <= now.mono_ns:
            self._handle(Tick(), now)
            self._settle(now)
        for state in self._timers.due(now.mono_ns):
            self._check(state, now)
            self._timers.plan(state)

    # -- what the edge asks

    def has_output(self, connection: int) -> bool:
        """True while ``next_output`` has something to look at.

        It may still give None: the consumer of a waiting message may have left.
        """
        state = self._connections.get(connection)
        return state is not None and bool(state.session.outbox)

    def next_output(self, connection: int, now: Now) -> object | None:
        """Pop the next frame to write. Popping is writing: call it only when the transport takes the frame."""
        state = self._connections.get(connection)
        if state is None:
            return None
        session = state.session
        outbox = session.outbox
        while outbox:
            item = outbox.popleft()
            frame: object | None = item
            if isinstance(item, Dispatch):
                # Rendered first: the core may settle or change the message as soon as it is told.
                frame = session.render(item)
                self._handle(Transmitted(item), now)
                self._settle(now)
                if frame is None:
                    continue
            if frame is not session.keep_alive:
                state.monitor.frame_sent(now.mono_ns)
            if not outbox:
                state.announced = False
            return frame
        state.announced = False
        return None

    def next_due_ns(self) -> int | None:
        """Elapsed time at which ``tick`` is wanted; None: nothing is planned."""
        return earlier(self._timers.next_due_ns(), self.broker.next_due_ns())

    def resources(self) -> dict[str, int]:
        """What connections cost this process: how many there are, and planned times of monitors."""
        return {"connections": len(self._connections), "timers": len(self._timers)}

    def take_actions(self) -> list[Action]:
        """What is to be done since the last call, in order."""
        actions = self._actions
        if actions:
            self._actions = []
        return actions

    def connections(self) -> list[ConnectionState]:
        """The connections, oldest first, for who reads about them."""
        return list(self._connections.values())

    def connection_state(self, connection: int) -> ConnectionState | None:
        """One connection; None if it is gone."""
        return self._connections.get(connection)

    # -- inside

    def _handle(self, event: Event, now: Now) -> None:
        """Let the core handle one event and hand its effects to their connections."""
        connections = self._connections
        effects = self.broker.handle(event, now)
        gate = self._gate
        if gate is not None and gate.record(effects, event, connections):
            self._actions.append(Sync())
        for effect in effects:
            if isinstance(effect, Dispatch):
                state = connections.get(effect.connection)
                if state is None or state.closed:
                    self._undeliverable.append(effect)
                    continue
                (state.held_messages if state.pending_subscribes else state.session.outbox).append(effect)
                self._announce(state)
            elif isinstance(effect, Accepted):
                state = connections.get(effect.connection)
                if state is None or state.closed:
                    continue
                if gate is not None and gate.keeps_back(state, effect):
                    state.await_subscribe(event, effect.request)
                    continue
                state.session.accepted(effect.request)
                self._announce(state)
            else:
                self._carry_out(effect)

    def _carry_out(self, effect: Effect) -> None:
        """The effects that are not of every message."""
        if isinstance(effect, Logged):
            self._actions.append(Log(effect.level, effect.logger, effect.text))
        elif isinstance(effect, Counted) or (isinstance(effect, Refused) and effect.connection == OPERATOR):
            if self._gate is None or not self._gate.keeps_back(self._gate.operator, effect):
                self._answer_operator(effect)
        elif isinstance(effect, ToConnection):
            state = self._connections.get(effect.connection)
            if state is not None and not state.closed:
                self._notify(state, effect)

    def _notify(self, state: ConnectionState, effect: ToConnection) -> None:
        if isinstance(effect, Throttled):
            state.blocked = effect.blocked
            self._actions.append(Throttle(state.number, effect.blocked))
            if not effect.blocked:
                self._resumed.append(state)
            return
        session = state.session
        if isinstance(effect, Refused):
            if self._gate is not None and self._gate.keeps_back(state, effect):
                return
            session.refused(effect)
        else:
            state.tell(effect)
        if session.closing:
            self._closing.append(state)
        self._announce(state)

    def _answer_operator(self, effect: Counted | Refused) -> None:
        said = (effect.count, "", "", effect.shown) if isinstance(effect, Counted) else (0, effect.code, effect.text)
        self._actions.append(Answered(effect.request, *said))

    # -- what waits for the journal

    def _withhold(self, state: ConnectionState, mark: int) -> None:
        """Keep back what the session has said by itself if it must wait."""
        gate = self._gate
        if gate is not None and gate.waits(state):
            gate.withhold(state, state.session.outbox, mark, state.session.keep_alive)

    def _release_answer(self, state: ConnectionState, answer: object, now: Now) -> None:
        """An answer need not wait any longer."""
        session = state.session
        if isinstance(answer, Accepted):
            session.accepted(answer.request)
            state.answered(answer.request)
        elif isinstance(answer, Refused):
            session.refused(answer)
            state.refusing = False
            self._resumed.append(state)
        else:
            session.outbox.append(answer)
        self._announce(state)
        if session.closing and (state.pending_answers == 0 or isinstance(answer, Refused)):
            self._close(state, now)
        self._settle(now)

    def _report_storage(self, gate: GroupCommitGate, now: Now) -> None:
        """Tell the core whether the storage takes messages."""
        status_change = gate.status_change()
        if status_change is not None:
            level, text, change = status_change
            self._actions.append(Log(level, STORAGE_LOGGER, text))
            self._handle(change, now)

    # -- endings

    def _settle(self, now: Now) -> None:
        """Finish what effects have left behind: dispatches to nobody, connections that must close or may go on."""
        while self._undeliverable or self._closing or self._resumed:
            if self._undeliverable:
                self._handle(Transmitted(self._undeliverable.pop(0), failed=True), now)
            elif self._closing:
                self._close(self._closing.pop(0), now)
            else:
                state = self._resumed.pop(0)
                while state.held and not (state.blocked or state.refusing or state.closed):
                    self._process(state, state.held.popleft(), now)

    def _after(self, state: ConnectionState, now: Now) -> None:
        """The common end of everything that a peer can cause."""
        if not state.session.closing:
            self._announce(state)
        elif state.pending_answers == 0:
            self._close(state, now)
        self._settle(now)

    def _announce(self, state: ConnectionState) -> None:
        if not state.announced and state.session.outbox:
            state.announced = True
            self._actions.append(state.ready)

    def _close(self, state: ConnectionState, now: Now) -> None:
        """The session wants to end: the core first, then the edge. Its last frames stay on the outbox."""
        if state.closed:
            return
        session = state.session
        self._release(state, now)
        self._announce(state)
        self._actions.append(Close(state.number, session.closing, state.monitor.idle_ns(now.mono_ns), inactive=False))

    def _release(self, state: ConnectionState, now: Now) -> None:
        """Flush undelivered messages as failed, then tell the core that the connection is gone.

        Other frames stay on the outbox.
        """
        state.closed = True
        state.due_ns = -1  # its monitor is asked no more
        session = state.session
        waiting = state.take_undelivered()
        for item in waiting:
            if isinstance(item, Dispatch):
                # Counted as transmitted although it failed, and taken back by the disconnect: a dropped connection ends
                # balanced (AMQ-4248).
                self._handle(Transmitted(item, failed=True), now)
            else:
                session.outbox.append(item)
        if session.connected:
            self._handle(Disconnect(state.number), now)

    def _check(self, state: ConnectionState, now: Now) -> None:
        """Run this connection's due checks."""
        monitor = state.monitor
        if state.blocked:
            monitor.working(now.mono_ns)
        due_ns = monitor.next_due_ns()
        while due_ns is not None and due_ns <= now.mono_ns:
            action = monitor.tick(now.mono_ns)
            for text in action.debug:
                self._actions.append(Log("DEBUG", MONITOR_LOGGER, text))
            if action.kind == FAIL:
                self._fail_inactive(state, action, now)
                return
            # A frame that already waits proves as much as a keep-alive, and a reader that stalls must not collect them
            # without end.
            if action.kind == KEEP_ALIVE and not state.session.outbox:
                state.session.outbox.append(state.session.keep_alive)
                self._announce(state)
            due_ns = monitor.next_due_ns()

    def _fail_inactive(self, state: ConnectionState, action: MonitorAction, now: Now) -> None:
        """The monitor has given the peer up: nothing more is sent."""
        self._actions.append(Log(action.level, TRANSPORT_LOGGER, action.failure))
        self._release(state, now)
        state.session.outbox.clear()
        self._actions.append(Close(state.number, action.reason, action.idle_ns, inactive=True))
        self._settle(now)
