"""The asyncio edge of one node: its connections, its timer, and the thread that syncs its journal.

* Two clocks, never mixed (``clocks.py``).
* Input that is read in the same turn of the loop as a timer comes due is looked at first (asyncio polls before it runs
  timers), so a process that was stopped for a while does not drop peers whose bytes were waiting.
* The journal is synced by a thread of its own, one sync after the other. Nothing else happens in it.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from brokerproof.reference_broker.core.instant import NS_PER_MS, Now
from brokerproof.reference_broker.server.clocks import loop_s, read_clocks, real_s
from brokerproof.reference_broker.session.actions import (
    Action,
    Answered,
    Authenticate,
    Close,
    Log,
    OutputReady,
    Sync,
    Throttle,
)
from brokerproof.reference_broker.storage.journal import StorageError

if TYPE_CHECKING:
    from brokerproof.reference_broker.node import Node
    from brokerproof.reference_broker.security.identity import Identity
    from brokerproof.reference_broker.server.admin import Admin
    from brokerproof.reference_broker.server.authentication import AsyncAuthenticator
    from brokerproof.reference_broker.server.log import LogWriter
    from brokerproof.reference_broker.settings.configuration import ServerSettings
    from brokerproof.reference_broker.storage.journal import Journal

#: How long to wait before a storage in trouble is tried again.
RETRY_S: Final = 1.0
#: Connections of one life of a storage have numbers below those of the next.
NUMBERS: Final = 1_000_000_000


class Socket(Protocol):
    """What the edge asks of a connection (``connection.py``)."""

    def drain(self, now: Now) -> None: ...
    def finish(self, now: Now, *, at_once: bool) -> None: ...
    def throttle(self, *, blocked: bool) -> None: ...
    def abort(self) -> None: ...
    def is_idle(self, now: Now, limit_ms: int) -> bool: ...


class Edge:
    """One node and its sockets."""

    def __init__(self, settings: ServerSettings, node: Node, log: LogWriter, journal: Journal | None = None) -> None:
        self.settings = settings
        self.node = node
        self.stopping = asyncio.Event()
        #: Who asks for an operator, if the admin port is open.
        self.admin: Admin | None = None
        #: Who checks passwords, if the broker is guarded.
        self.authenticator: AsyncAuthenticator | None = None
        self.connections: dict[int, Socket] = {}
        self._log = log
        self._journal = journal
        self._numbers = 0 if journal is None else journal.incarnation * NUMBERS
        #: One thread: syncs follow one another, and what comes meanwhile goes into the next.
        self._syncer = None if journal is None else ThreadPoolExecutor(1, "journal")
        self._syncing: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._idle_timer: asyncio.TimerHandle | None = None
        #: Connections that were too many, and when that was logged last.
        self._surplus = 0
        self._surplus_logged_s = float("-inf")
        self._timer_ns: int | None = None

    def next_number(self) -> int:
        """A number that no connection has had before."""
        self._numbers += 1
        return self._numbers

    def flush(self, now: Now) -> None:
        """Do what the node wants done, then plan its next tick."""
        while actions := self.node.take_actions():
            for action in actions:
                if isinstance(action, OutputReady):
                    connection = self.connections.get(action.connection)
                    if connection is not None:
                        connection.drain(now)
                else:
                    self._carry_out(action, now)
        self._plan()

    def _carry_out(self, action: Action, now: Now) -> None:
        """What is not of every message."""
        if isinstance(action, Close):
            self.log("INFO", f"connection {action.connection} closed: {action.reason}")
        if isinstance(action, Close | Throttle):
            connection = self.connections.get(action.connection)
            if connection is None:
                return
            if isinstance(action, Close):
                connection.finish(now, at_once=action.inactive)
            else:
                connection.throttle(blocked=action.blocked)
        elif isinstance(action, Authenticate):
            self._authenticate(action)
        elif isinstance(action, Answered):
            if self.admin is not None:
                self.admin.answered(action)
        elif isinstance(action, Sync):
            self._sync()
        elif isinstance(action, Log):
            self.log(action.level, action.text, action.logger)

    def _authenticate(self, action: Authenticate) -> None:
        if self.authenticator is None:
            raise RuntimeError("the node is guarded and nobody checks passwords")
        self.authenticator.ask(action.credentials, partial(self._admit, action.connection))

    def _admit(self, connection: int, identity: Identity | None, text: str) -> None:
        """A password was checked, perhaps in the middle of ``flush``."""
        now = read_clocks()
        if identity is None:
            self.log("WARN", f"connection {connection} is not let in: {text}")
        self.node.admit(connection, identity, text, now)
        self.flush(now)

    # -- limits

    def is_full(self) -> bool:
        """Whether one more connection would be too many."""
        most = self.settings.max_connections
        return bool(most) and len(self.connections) >= most

    def refuse_connection(self, address: str) -> None:
        """A connection was too many. It is logged once a second at most: whoever tries again and again must not fill
        the log as well.
        """
        now_s = time.monotonic()
        self._surplus += 1
        if now_s < self._surplus_logged_s + 1.0:
            return
        self._surplus_logged_s = now_s
        text = f"{address} is one connection too many ({self._surplus} since the start)"
        self.log("WARN", f"{text}; raise max_connections, or the maximumConnections of its connector")

    def watch_idle(self) -> None:
        """Close who has said nothing, and was told nothing, for too long; then again in a while."""
        limit_ms = self.settings.max_idle_ms
        now = read_clocks()
        for number, connection in list(self.connections.items()):
            if connection.is_idle(now, limit_ms):
                text = f"nothing but keep-alives has passed for more than {limit_ms} ms (max_idle_ms); connect again"
                self.node.protocol_error(number, text, now)
        self.flush(now)
        self._idle_timer = asyncio.get_running_loop().call_later(real_s(limit_ms * NS_PER_MS // 4), self.watch_idle)

    # -- the journal

    def _sync(self) -> None:
        """Make the journal safe, beside the loop."""
        if self._syncing is not None or self._syncer is None or self._journal is None:
            return
        loop = asyncio.get_running_loop()
        ticket = self.node.begin_sync()
        self._syncing = loop.run_in_executor(self._syncer, self._journal.sync)
        self._syncing.add_done_callback(lambda done: self._synced(ticket, done))

    def _synced(self, ticket: int, done: asyncio.Future[None]) -> None:
        self._syncing = None
        error = done.exception()
        if error is not None and not isinstance(error, StorageError):
            self.log("WARN", f"the storage failed without saying why ({error!r}); stopping")
            self.stopping.set()
            return
        now = read_clocks()
        self.node.end_sync(0 if error is not None else ticket, now)
        self.flush(now)
        if self.node.is_troubled() and not self.stopping.is_set():
            asyncio.get_running_loop().call_later(RETRY_S, self._sync)

    async def close_journal(self) -> None:
        """The end: what is written is made safe, then the storage is let go."""
        journal, syncer = self._journal, self._syncer
        self._journal = self._syncer = None
        if journal is None or syncer is None:
            return
        with contextlib.suppress(StorageError):  # it has been logged; nobody was promised what is lost now
            await asyncio.get_running_loop().run_in_executor(syncer, journal.sync)
        syncer.shutdown()
        journal.close()

    def log(self, level: str, text: str, logger: str = __name__) -> None:
        """One line of the log."""
        self._log.write(level, text, logger)

    def close(self) -> None:
        """Cut everything."""
        for timer in (self._timer, self._idle_timer):
            if timer is not None:
                timer.cancel()
        if self.authenticator is not None:
            self.authenticator.close()
        for connection in list(self.connections.values()):
            connection.abort()

    def _plan(self) -> None:
        due_ns = self.node.next_due_ns()
        if due_ns == self._timer_ns:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._timer_ns = due_ns
        if due_ns is not None:
            self._timer = asyncio.get_running_loop().call_at(loop_s(due_ns), self._tick)

    def _tick(self) -> None:
        self._timer = self._timer_ns = None
        now = read_clocks()
        self.node.tick(now)
        self.flush(now)
