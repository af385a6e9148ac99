"""The whole broker without sockets and clocks: the core, and per connection a session, a monitor and an outbox.

``server.py`` puts sockets around it, the simulation virtual links, so both worlds share every decision. The edge brings
decoded frames and asks for frames to write; it is told what to do through ``take_actions``.

Rules
* Popping is writing. A message leaves the outbox through ``next_output``, and that is the moment at which an
  dispatch is reported to the core as transmitted (seed 003). An edge that cannot write does not pop; what
  waits then is what a stalled reader costs.
* ``OutputReady`` is edge-triggered: it is given once, and given again only after ``next_output`` has emptied the
  outbox. Whoever gets it pops until None or remembers that it stopped before.
* ``Close`` comes last for a connection. The core was told already; the edge writes what ``next_output`` still gives,
  closes, and calls ``disconnect``, which forgets the connection. On an inactivity close there is nothing to write
  (inactivity.md 3.7).
* The core is never entered from inside itself: effects are carried out after ``handle`` has returned.
* A producer that flow control has stopped (``Throttled``) is not listened to: the node keeps what the edge still brings
  and goes on with it, in order, when the producer may go on. ``Throttle`` tells the edge, which stops reading so that
  the peer's transport fills up. Meanwhile the monitor takes the connection for alive, as ActiveMQ's does while a
  command is being worked on.
* An operator's request is answered by the action ``Answered``, not by a return value: the answer may have to wait.
* Connection numbers are the edge's and are never used twice, not even after a restart: message ids and consumer names
  are built from them.
* A persistent broker has a journal, and ``recover`` comes before the first connection. ``Sync`` asks the edge for one
  ``journal.sync()``, between ``begin_sync`` and ``end_sync``; it is given once and again only after that has succeeded.
  An edge whose sync fails, or whose storage ``is_troubled``, tries again after a while. Which answers wait for it is
  said in ``safekeeping.py``.

What must change together: ``actions.py``, the protocols' sessions (``session.py``), and ``server.py`` and the simulated
world for a new action.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Final

from reference_broker.actions import Action, Answered, Close, Log, Sync, Throttle
from reference_broker.core.broker import Broker
from reference_broker.core.config import BrokerConfig, ConfigError
from reference_broker.core.effects import Accepted, Counted, Dispatch, Effect, Logged, NoMessage, Refused, Throttled
from reference_broker.core.events import Disconnect, Event, Operation, StorageChanged, Tick, Transmitted
from reference_broker.core.instant import Now
from reference_broker.core.policies import Policies
from reference_broker.inactivity import FAIL, KEEP_ALIVE, MonitorAction, MonitorFactory, monitor_for
from reference_broker.link import Link
from reference_broker.openwire.broker import BrokerSession as OpenWireSession
from reference_broker.safekeeping import OPERATOR, Safekeeping
from reference_broker.session import MONITOR_LOGGER, Session
from reference_broker.stomp.broker import BrokerSession as StompSession
from reference_broker.storage.journal import Journal, Trouble

TRANSPORT_LOGGER: Final = "org.apache.activemq.broker.TransportConnection.Transport"
PROTOCOLS: Final = ("stomp", "openwire")
STORAGE_LOGGER: Final = "reference_broker.storage"


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
        self._monitor_factory = monitor_factory
        self._links: dict[int, Link] = {}
        self._heap: list[tuple[int, int]] = []
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
        """A socket was accepted. ``protocol`` is "stomp" or "openwire"; ``address`` is the peer's, for the texts."""
        if connection in self._links:
            raise ValueError(f"connection {connection} exists already; never use a number twice")
        session: Session
        if protocol == "stomp":
            session = StompSession(connection, self.config)
        elif protocol == "openwire":
            session = OpenWireSession(connection, self.config)
        else:
            raise ValueError(f"protocol {protocol!r} is unknown; one of {', '.join(PROTOCOLS)}")
        where = address or f"tcp://connection-{connection}"
        link = Link(connection, where, session, self._monitor_factory(self.config, where, now.mono_ns))
        self._links[connection] = link
        self._schedule(link)
        session.open()
        self._after(link, now)

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

    def is_safe(self) -> bool:
        """Whether everything that must outlive the process is in safety."""
        return self._keeping is None or self._keeping.is_safe()

    def is_troubled(self) -> bool:
        """Whether the storage refuses messages; only another sync can tell when it takes them again."""
        return self._keeping is not None and self._keeping.is_troubled()

    def bytes_received(self, connection: int, now: Now) -> None:
        """Any byte arrived."""
        link = self._links.get(connection)
        if link is not None:
            link.monitor.bytes_received(now.mono_ns)

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
            self._handle(event, now)
            if session.closing or link.refusing:
                break  # refused: what the same frame would have caused next does not happen
        if not link.started and session.periods is not None:
            link.started = True
            periods = session.periods
            link.monitor.start(now.mono_ns, periods.read_ms, periods.write_ms, periods.initial_delay_ms)
            self._schedule(link)
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
        heap = self._heap
        while heap and heap[0][0] <= now.mono_ns:
            entry_ns, number = heapq.heappop(heap)
            link = self._links.get(number)
            if link is None or link.due_ns != entry_ns:
                continue
            link.due_ns = -1
            self._check(link, now)
            self._schedule(link)

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
        heap = self._heap
        while heap:
            due_ns, number = heap[0]
            link = self._links.get(number)
            if link is not None and link.due_ns == due_ns:
                core_ns = self.broker.next_due_ns()
                return due_ns if core_ns is None or due_ns < core_ns else core_ns
            heapq.heappop(heap)
        return self.broker.next_due_ns()

    def take_actions(self) -> list[Action]:
        """What is to be done since the last call, in order."""
        actions = self._actions
        if actions:
            self._actions = []
        return actions

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
                link.session.outbox.append(effect)
                if not link.announced:
                    link.announced = True
                    self._actions.append(link.ready)
            elif isinstance(effect, Accepted):
                link = links.get(effect.connection)
                if link is None or link.closed or (keeping is not None and keeping.keeps_back(link, effect)):
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
        elif isinstance(effect, Refused | NoMessage | Throttled):
            link = self._links.get(effect.connection)
            if link is not None and not link.closed:
                self._tell(link, effect)

    def _tell(self, link: Link, effect: Refused | NoMessage | Throttled) -> None:
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
            if session.closing:
                self._doomed.append(link)
        else:
            session.no_message(effect.consumer)
        self._announce(link)

    def _answer_operator(self, effect: Counted | Refused) -> None:
        if isinstance(effect, Counted):
            self._actions.append(Answered(effect.request, effect.count))
        else:
            self._actions.append(Answered(effect.request, 0, effect.code, effect.text))

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
        change = keeping.change()
        if isinstance(change, Trouble):
            self._actions.append(Log("WARN", STORAGE_LOGGER, f"persistent messages are refused: {change.text}"))
            self._handle(StorageChanged(change.code, change.text), now)
        elif change is None:
            self._actions.append(Log("INFO", STORAGE_LOGGER, "the storage takes messages again"))
            self._handle(StorageChanged("", ""), now)

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
        waiting = list(session.outbox)
        session.outbox.clear()
        for item in waiting:
            if not isinstance(item, Dispatch):
                session.outbox.append(item)
            else:
                # Counted as transmitted although it failed, and taken back by the disconnect: a dropped connection ends
                # balanced (AMQ-4248).
                self._handle(Transmitted(item, failed=True), now)
        if session.connected:
            self._handle(Disconnect(link.number, clean), now)

    def _check(self, link: Link, now: Now) -> None:
        """Run this connection's due checks."""
        monitor = link.monitor
        if link.blocked:
            monitor.bytes_received(now.mono_ns)
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

    def _schedule(self, link: Link) -> None:
        """Put the monitor's next due time on the heap, unless it is there."""
        due_ns = link.monitor.next_due_ns()
        if due_ns is None:
            link.due_ns = -1
        elif due_ns != link.due_ns:
            link.due_ns = due_ns
            heapq.heappush(self._heap, (due_ns, link.number))
