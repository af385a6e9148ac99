"""The whole broker without sockets and clocks: the core, and per connection a session, a monitor and an outbox.

The server puts sockets around it (``server/edge.py``), the simulation virtual links, so both worlds share every
decision. Whoever does is the *edge*: it brings decoded frames, asks for frames to write, and carries out the actions.
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
from brokerproof.reference_broker.session.admission import Door, objection
from brokerproof.reference_broker.session.connection_state import Link
from brokerproof.reference_broker.session.detection import AUTO, Undecided
from brokerproof.reference_broker.session.monitor_timers import Alarms
from brokerproof.reference_broker.session.session import MONITOR_LOGGER, Session
from brokerproof.reference_broker.stomp.broker import BrokerSession as StompSession
from brokerproof.reference_broker.storage.group_commit import OPERATOR, STORAGE_LOGGER, Safekeeping
from brokerproof.reference_broker.storage.journal import Journal

SessionFactory = Callable[[int, BrokerConfig], Session]
#: ``auto`` is a connection before its first bytes.
SESSIONS: Final[dict[str, SessionFactory]] = {"stomp": StompSession, "openwire": OpenWireSession, AUTO: Undecided}
TRANSPORT_LOGGER: Final = "org.apache.activemq.broker.TransportConnection.Transport"
#: Makes the core; a planted defect that no single policy can enact replaces it.
BrokerFactory = Callable[[BrokerConfig, Policies | None], Broker]


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
        self._keeping = Safekeeping(journal) if config.persistent and journal is not None else None
        self.broker = broker_factory(config, policies)
        statistics = self.broker.region().statistics
        if statistics is not None:
            statistics.encoder = MapEncoder()
        self._monitor_factory = monitor_factory
        self._links: dict[int, Link] = {}
        self._alarms = Alarms(self._links)
        #: What new connections have to pass.
        self._door: Door | None = None
        self._actions: list[Action] = []
        #: Dispatches to connections that are gone, to be reported as failed.
        self._strays: list[Dispatch] = []
        #: Connections that a refusal has doomed while effects were being carried out.
        self._doomed: list[Link] = []
        #: Connections that flow control lets go on.
        self._released: list[Link] = []
        self._requests = 0

    # -- what the edge tells

    def connect(self, connection: int, protocol: str, now: Now, address: str = "") -> None:
        """A socket was accepted. ``protocol`` is "stomp", "openwire" or "auto"; ``address`` is the peer's."""
        if connection in self._links:
            raise ValueError(f"connection {connection} exists already; never use a number twice")
        session = self.make_session(protocol, connection)
        where = address or f"tcp://connection-{connection}"
        link = Link(connection, where, session, self._monitor_factory(self.config, where, now.mono_ns))
        link.admitted = self._door is None
        self._links[connection] = link
        self._alarms.plan(link)
        session.open()
        self._after(link, now)

    def decide(self, connection: int, protocol: str, now: Now) -> None:
        """A connection that was ``auto`` speaks this."""
        link = self._links.get(connection)
        if link is not None and not link.closed:
            link.session = self.make_session(protocol, connection)
            link.session.open()
            self._after(link, now)

    def guard(self, authority: Authority | None) -> None:
        """From now on a peer must be let in (``admit``) before its frames are worked on."""
        self._door = Door(authority, self.broker.has)

    def admit(self, connection: int, identity: Identity | None, text: str, now: Now) -> None:
        """The answer to ``Authenticate``: who the peer is; None: it may not come in, and ``text`` says why."""
        link = self._links.get(connection)
        if self._door is not None and link is not None and not (link.admitted or link.closed):
            self._door.answer(link, identity, text, self._actions)
            self._released.append(link)
            self._after(link, now)

    def make_session(self, protocol: str, connection: int) -> Session:
        """The broker's end of a new connection. Raises ``ValueError`` for a protocol that does not exist."""
        make = SESSIONS.get(protocol)
        if make is None:
            raise ValueError(f"protocol {protocol!r} is unknown; one of {', '.join(SESSIONS)}")
        return make(connection, self.config)

    def recover(self, now: Now) -> None:
        """Build the broker again from its journal. Raises ``StorageError`` if it cannot be read."""
        keeping = self._keeping
        if keeping is not None:
            if keeping.record(self.broker.restore(keeping.journal.replay(), now), None, {}):
                self._actions.append(Sync())
            self._hear_trouble(keeping, now)

    def begin_sync(self) -> int:
        """The journal is going to be synced; give the number back to ``end_sync``."""
        return 0 if self._keeping is None else self._keeping.begin_sync()

    def end_sync(self, ticket: int, now: Now) -> None:
        """The sync is over; ``ticket`` 0: it failed. What waited for it leaves."""
        keeping = self._keeping
        if keeping is None:
            return
        if ticket:
            keeping.end_sync(ticket)
        self._hear_trouble(keeping, now)
        while (given := keeping.release()) is not None:
            waiter, answer = given
            if isinstance(answer, Counted | Refused) and waiter is keeping.operator:
                self._answer_operator(answer)
            elif isinstance(waiter, Link) and not waiter.closed:
                self._give(waiter, answer, now)
        if keeping.wants_sync():
            self._actions.append(Sync())

    def is_troubled(self) -> bool:
        """Whether the storage refuses messages; only another sync can tell when it takes them again."""
        return self._keeping is not None and self._keeping.is_troubled()

    def bytes_received(self, connection: int, now: Now) -> None:
        """Any byte arrived."""
        link = self._links.get(connection)
        if link is not None:
            link.monitor.bytes_received(now.mono_ns)

    def write_blocked(self, connection: int, now: Now) -> None:
        """The connection's transport takes nothing more for now."""
        link = self._links.get(connection)
        if link is not None and not link.closed:
            link.monitor.write_blocked(now.mono_ns)
            self._alarms.plan(link)

    def write_resumed(self, connection: int) -> None:
        """It has taken what it was given."""
        link = self._links.get(connection)
        if link is not None:
            link.monitor.write_resumed()

    def receive(self, connection: int, frame: object, now: Now) -> None:
        """One decoded frame or command, keep-alives included. What comes after a close is ignored."""
        link = self._links.get(connection)
        if link is None or link.closed:
            return
        session = link.session
        if frame is session.beat:
            return
        link.monitor.frame_received(now.mono_ns)
        if session.closing:
            return  # its last answers wait
        if not link.admitted and self._door is not None and self._door.stops(link, frame, self._actions):
            return
        if link.blocked or link.refusing or link.held:
            link.held.append(frame)
        else:
            self._work(link, frame, now)

    def _work(self, link: Link, frame: object, now: Now) -> None:
        session = link.session
        mark = len(session.outbox)
        events = session.receive(frame, now)
        self._withhold(link, mark)
        for event in events:
            if link.rights is not None and (refusal := objection(link, event)) is not None:
                self._tell(link, refusal)
                break
            self._handle(event, now)
            if session.closing or link.refusing:
                break  # refused: what the same frame would have caused next does not happen
        if not link.started and session.periods is not None:
            link.started = True
            periods = session.periods
            link.monitor.start(now.mono_ns, periods.read_ms, periods.write_ms, periods.initial_delay_ms)
            self._alarms.plan(link)
        self._after(link, now)

    def protocol_error(self, connection: int, text: str, now: Now, receipt: str = "") -> None:
        """The peer's bytes are no frames: tell it, then close."""
        link = self._links.get(connection)
        if link is None or link.closed:
            return
        mark = len(link.session.outbox)
        link.session.fail(text, receipt)
        self._withhold(link, mark)
        self._after(link, now)

    def disconnect(self, connection: int, now: Now) -> None:
        """The socket is gone. Also the end of a connection that was closed by us; its number is forgotten."""
        link = self._links.get(connection)
        if link is None:
            return
        if not link.closed:
            self._release(link, clean=False, now=now)
            self._settle(now)
        del self._links[connection]

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
        for link in self._alarms.due(now.mono_ns):
            self._check(link, now)
            self._alarms.plan(link)

    # -- what the edge asks

    def has_output(self, connection: int) -> bool:
        """True while ``next_output`` has something to look at.

        It may still give None: the consumer of a waiting message may have left.
        """
        link = self._links.get(connection)
        return link is not None and bool(link.session.outbox)

    def next_output(self, connection: int, now: Now) -> object | None:
        """Pop the next frame to write. Popping is writing: call it only when the transport takes the frame."""
        link = self._links.get(connection)
        if link is None:
            return None
        session = link.session
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
                link.monitor.frame_sent(now.mono_ns)
            if not outbox:
                link.announced = False
            return frame
        link.announced = False
        return None

    def next_due_ns(self) -> int | None:
        """Elapsed time at which ``tick`` is wanted; None: nothing is planned."""
        return earlier(self._alarms.next_due_ns(), self.broker.next_due_ns())

    def resources(self) -> dict[str, int]:
        """What connections cost this process: how many there are, and planned times of monitors."""
        return {"connections": len(self._links), "timers": len(self._alarms)}

    def take_actions(self) -> list[Action]:
        """What is to be done since the last call, in order."""
        actions = self._actions
        if actions:
            self._actions = []
        return actions

    def links(self) -> list[Link]:
        """The connections, oldest first, for who reads about them."""
        return list(self._links.values())

    def link(self, connection: int) -> Link | None:
        """One connection; None if it is gone."""
        return self._links.get(connection)

    # -- inside

    def _handle(self, event: Event, now: Now) -> None:
        """Let the core handle one event and hand its effects to their connections."""
        links = self._links
        effects = self.broker.handle(event, now)
        keeping = self._keeping
        if keeping is not None and keeping.record(effects, event, links):
            self._actions.append(Sync())
        for effect in effects:
            if isinstance(effect, Dispatch):
                link = links.get(effect.connection)
                if link is None or link.closed:
                    self._strays.append(effect)
                    continue
                (link.parked if link.greeting else link.session.outbox).append(effect)
                if not link.announced:
                    link.announced = True
                    self._actions.append(link.ready)
            elif isinstance(effect, Accepted):
                link = links.get(effect.connection)
                if link is None or link.closed:
                    continue
                if keeping is not None and keeping.keeps_back(link, effect):
                    link.waits_to(event, effect.request)
                    continue
                link.session.accepted(effect.request)
                self._announce(link)
            else:
                self._carry_out(effect)

    def _carry_out(self, effect: Effect) -> None:
        """The effects that are not of every message."""
        if isinstance(effect, Logged):
            self._actions.append(Log(effect.level, effect.logger, effect.text))
        elif isinstance(effect, Counted) or (isinstance(effect, Refused) and effect.connection == OPERATOR):
            if self._keeping is None or not self._keeping.keeps_back(self._keeping.operator, effect):
                self._answer_operator(effect)
        elif isinstance(effect, ToConnection):
            link = self._links.get(effect.connection)
            if link is not None and not link.closed:
                self._tell(link, effect)

    def _tell(self, link: Link, effect: ToConnection) -> None:
        if isinstance(effect, Throttled):
            link.blocked = effect.blocked
            self._actions.append(Throttle(link.number, effect.blocked))
            if not effect.blocked:
                self._released.append(link)
            return
        session = link.session
        if isinstance(effect, Refused):
            if self._keeping is not None and self._keeping.keeps_back(link, effect):
                return
            session.refused(effect)
        else:
            link.tell(effect)
        if session.closing:
            self._doomed.append(link)
        self._announce(link)

    def _answer_operator(self, effect: Counted | Refused) -> None:
        count, code, text = (effect.count, "", "") if isinstance(effect, Counted) else (0, effect.code, effect.text)
        self._actions.append(Answered(effect.request, count, code, text))

    # -- what waits for the journal

    def _withhold(self, link: Link, mark: int) -> None:
        """Keep back what the session has said by itself if it must wait."""
        keeping = self._keeping
        if keeping is not None and keeping.waits(link):
            keeping.withhold(link, link.session.outbox, mark, link.session.keep_alive)

    def _give(self, link: Link, answer: object, now: Now) -> None:
        """An answer need not wait any longer."""
        session = link.session
        if isinstance(answer, Accepted):
            session.accepted(answer.request)
            link.has_answered(answer.request)
        elif isinstance(answer, Refused):
            session.refused(answer)
            link.refusing = False
            self._released.append(link)
        else:
            session.outbox.append(answer)
        self._announce(link)
        if session.closing and (link.owed == 0 or isinstance(answer, Refused)):
            self._close(link, now)
        self._settle(now)

    def _hear_trouble(self, keeping: Safekeeping, now: Now) -> None:
        """Tell the core whether the storage takes messages."""
        news = keeping.news()
        if news is not None:
            level, text, change = news
            self._actions.append(Log(level, STORAGE_LOGGER, text))
            self._handle(change, now)

    # -- endings

    def _settle(self, now: Now) -> None:
        """Finish what effects have left behind: dispatches to nobody, connections that must close or may go on."""
        while self._strays or self._doomed or self._released:
            if self._strays:
                self._handle(Transmitted(self._strays.pop(0), failed=True), now)
            elif self._doomed:
                self._close(self._doomed.pop(0), now)
            else:
                link = self._released.pop(0)
                while link.held and not (link.blocked or link.refusing or link.closed):
                    self._work(link, link.held.popleft(), now)

    def _after(self, link: Link, now: Now) -> None:
        """The common end of everything that a peer can cause."""
        if not link.session.closing:
            self._announce(link)
        elif link.owed == 0:
            self._close(link, now)
        if self._strays or self._doomed or self._released:
            self._settle(now)

    def _announce(self, link: Link) -> None:
        if not link.announced and link.session.outbox:
            link.announced = True
            self._actions.append(link.ready)

    def _close(self, link: Link, now: Now) -> None:
        """The session wants to end: the core first, then the edge. Its last frames stay on the outbox."""
        if link.closed:
            return
        session = link.session
        self._release(link, clean=session.clean, now=now)
        self._announce(link)
        self._actions.append(Close(link.number, session.closing, link.monitor.idle_ns(now.mono_ns), inactive=False))

    def _release(self, link: Link, *, clean: bool, now: Now) -> None:
        """Flush undelivered messages as failed, then tell the core that the connection is gone.

        Other frames stay on the outbox.
        """
        link.closed = True
        link.held.clear()
        link.monitor.stop()
        link.due_ns = -1
        session = link.session
        waiting = link.left_over()
        for item in waiting:
            if isinstance(item, Dispatch):
                # Counted as transmitted although it failed, and taken back by the disconnect: a dropped connection ends
                # balanced (AMQ-4248).
                self._handle(Transmitted(item, failed=True), now)
            else:
                session.outbox.append(item)
        if session.connected:
            self._handle(Disconnect(link.number, clean), now)

    def _check(self, link: Link, now: Now) -> None:
        """Run this connection's due checks."""
        monitor = link.monitor
        if link.blocked:
            monitor.working(now.mono_ns)
        due_ns = monitor.next_due_ns()
        while due_ns is not None and due_ns <= now.mono_ns:
            action = monitor.tick(now.mono_ns)
            for text in action.debug:
                self._actions.append(Log("DEBUG", MONITOR_LOGGER, text))
            if action.kind == FAIL:
                self._fail_inactive(link, action, now)
                return
            # A frame that already waits proves as much as a keep-alive, and a reader that stalls must not collect them
            # without end.
            if action.kind == KEEP_ALIVE and not link.session.outbox:
                link.session.outbox.append(link.session.keep_alive)
                self._announce(link)
            due_ns = monitor.next_due_ns()

    def _fail_inactive(self, link: Link, action: MonitorAction, now: Now) -> None:
        """The monitor has given the peer up: nothing more is sent."""
        self._actions.append(Log(action.level, TRANSPORT_LOGGER, action.failure))
        self._release(link, clean=False, now=now)
        link.session.outbox.clear()
        self._actions.append(Close(link.number, action.reason, action.idle_ns, inactive=True))
        self._settle(now)
