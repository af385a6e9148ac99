"""The journal on disk: one SQLite database in a directory of its own.

It keeps the *state*, not a log: adding is an insert, removing a delete, so nothing has to be compacted and recovery is
a select. SQLite's write-ahead log makes each sync one transaction and one fsync (``synchronous=FULL``).

* The broker's thread encodes and queues (``append``); whoever calls ``sync`` writes. They share only ``_pending``,
  under a lock, never the connection.
* A message that is added and removed between two syncs is not written at all.
* One broker per directory: ``lock`` is held with flock for as long as the process lives, so a killed broker leaves
  nothing to clean up.
* New messages are refused (``trouble``) while the disk has less than ``RESERVE_BYTES`` left, or ``max_bytes`` are used;
  the reserve is for what removals write.
* After a failure other than "full" the connection is opened anew: nobody knows what the old one still believes.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import threading
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from brokerproof.reference_broker.core.records import (
    DestinationRemoved,
    MessageAdded,
    MessageRemoved,
    Record,
    SubscriptionAdded,
    SubscriptionRemoved,
)
from brokerproof.reference_broker.storage.codec import decode, encode_head, key, name
from brokerproof.reference_broker.storage.journal import FAILED, FULL, Journal, StorageError, Trouble

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SCHEMA_VERSION: Final = 1
#: "bpj" and a digit: tells our files from other people's.
APPLICATION_ID: Final = 0x62706A31
RESERVE_BYTES: Final = 4 * 1024 * 1024
FILE: Final = "journal.sqlite"
#: What every connection is set to; a measurement that compares with us uses the same.
PRAGMAS: Final = ("PRAGMA journal_mode=WAL", "PRAGMA synchronous=FULL", "PRAGMA temp_store=MEMORY")

_SCHEMA: Final = (
    """CREATE TABLE message (number INTEGER PRIMARY KEY, destination NOT NULL, id NOT NULL, place INTEGER NOT NULL,
    accepted_wall_ms INTEGER NOT NULL, due_wall_ms INTEGER NOT NULL, head TEXT NOT NULL, body BLOB NOT NULL)""",
    "CREATE UNIQUE INDEX message_by_name ON message (destination, id)",
    """CREATE TABLE holder (key NOT NULL, destination NOT NULL, id NOT NULL, PRIMARY KEY (key, destination, id))
    WITHOUT ROWID""",
    "CREATE INDEX holder_by_message ON holder (destination, id)",
    """CREATE TABLE subscription (key PRIMARY KEY, client NOT NULL, destination NOT NULL, selector NOT NULL,
    no_local INTEGER NOT NULL)""",
    "CREATE TABLE meta (incarnation INTEGER NOT NULL)",
    "INSERT INTO meta VALUES (0)",
    f"PRAGMA application_id={APPLICATION_ID}",
    f"PRAGMA user_version={SCHEMA_VERSION}",
)
ADD: Final = (
    "INSERT INTO message (destination, id, place, accepted_wall_ms, due_wall_ms, head, body)"
    " VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (destination, id) DO UPDATE SET place=excluded.place,"
    " accepted_wall_ms=excluded.accepted_wall_ms, due_wall_ms=excluded.due_wall_ms, head=excluded.head,"
    " body=excluded.body"
)
_HOLD: Final = "INSERT OR IGNORE INTO holder (key, destination, id) VALUES (?, ?, ?)"
_REMOVE: Final = "DELETE FROM message WHERE destination=? AND id=?"
_RELEASE_ALL: Final = "DELETE FROM holder WHERE destination=? AND id=?"
_RELEASE: Final = "DELETE FROM holder WHERE key=? AND destination=? AND id=?"
_REMOVE_FREE: Final = (
    "DELETE FROM message WHERE destination=? AND id=? AND NOT EXISTS"
    " (SELECT 1 FROM holder WHERE holder.destination=message.destination AND holder.id=message.id)"
)
_CLEAR: Final = "DELETE FROM message WHERE destination=?"
_CLEAR_HOLDERS: Final = "DELETE FROM holder WHERE destination=?"
_SUBSCRIBE: Final = (
    "INSERT OR REPLACE INTO subscription (key, client, destination, selector, no_local) VALUES (?, ?, ?, ?, ?)"
)
_UNSUBSCRIBE: Final = "DELETE FROM subscription WHERE key=?"
_FORGET_MESSAGES: Final = (
    "DELETE FROM message WHERE (destination, id) IN (SELECT destination, id FROM holder WHERE key=?) AND NOT EXISTS"
    " (SELECT 1 FROM holder WHERE holder.destination=message.destination AND holder.id=message.id AND key<>?)"
)
_FORGET: Final = "DELETE FROM holder WHERE key=?"

#: What ends messages, one by one; destination and id are the last columns.
_REMOVALS: Final = (_REMOVE, _RELEASE, _RELEASE_ALL, _REMOVE_FREE)

_Operation = tuple[str, tuple[Any, ...]]
#: A name as a column; destination and id.
_Key = str | bytes
_Name = tuple[_Key, _Key]


class SqliteJournal(Journal):
    """See the module's header. ``max_bytes`` 0: no limit but the disk's. Raises ``StorageError``."""

    def __init__(self, directory: Path, max_bytes: int = 0) -> None:
        self._directory = directory
        self._max_bytes = max_bytes
        self._pending: list[_Operation | None] = []
        #: Where in ``_pending`` a message is added that no sync has seen, and who still waits for it (topics).
        self._fresh: dict[_Name, tuple[int, dict[_Key, None]]] = {}
        self._mutex = threading.Lock()
        self._trouble: Trouble | None = None
        self._lock = _lock(directory)
        self._database: sqlite3.Connection | None = None
        try:
            self._database = self._open()
            self.incarnation = self._count_start(self._database)
            self._has_holders = self._database.execute("SELECT 1 FROM holder LIMIT 1").fetchone() is not None
            self._look(self._database)
        except sqlite3.Error as error:
            self.close()
            raise StorageError(f"{self._path()} cannot be opened ({error}); {_remedy(error)}", _code(error)) from None
        except StorageError:
            self.close()
            raise

    # -- the interface

    def append(self, batch: Sequence[Record]) -> None:
        with self._mutex:
            for record in batch:
                self._translate(record)

    def sync(self) -> None:
        with self._mutex:
            work, self._pending, self._fresh = self._pending, [], {}
        try:
            database = self._database
            if database is None:
                database = self._database = self._open()
            if work:
                self._write(database, work)
            self._look(database)
        except (sqlite3.Error, StorageError, OSError) as error:
            code = _code(error)
            if code != FULL:
                self._drop_connection()
            with self._mutex:
                again, self._pending, self._fresh = work + self._pending, [], {}
                for operation in again:
                    if operation is not None:
                        self._queue(operation)
            text = f"{self._path()} cannot be written ({error}); {_remedy(error)}"
            self._trouble = Trouble(code, text)
            raise StorageError(text, code) from None

    def replay(self) -> Iterator[Record]:
        database = self._database
        if database is None:
            raise StorageError(f"{self._path()} is closed; open it again")
        try:
            yield from _read(database)
        except sqlite3.Error as error:
            raise StorageError(f"{self._path()} cannot be read ({error}); {_remedy(error)}", _code(error)) from None

    def trouble(self) -> Trouble | None:
        return self._trouble

    def close(self) -> None:
        self._drop_connection()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    # -- inside

    def _path(self) -> Path:
        return self._directory / FILE

    def _open(self) -> sqlite3.Connection:
        database = sqlite3.connect(self._path(), isolation_level=None, check_same_thread=False)
        try:
            for pragma in PRAGMAS:
                database.execute(pragma)
            (page_bytes,) = database.execute("PRAGMA page_size").fetchone()
            if self._max_bytes:
                database.execute(f"PRAGMA max_page_count={(self._max_bytes + RESERVE_BYTES) // page_bytes}")
            self._check_schema(database)
        except BaseException:
            database.close()
            raise
        return database

    def _check_schema(self, database: sqlite3.Connection) -> None:
        """Make the tables in an empty file; refuse a file that is not ours."""
        (application,) = database.execute("PRAGMA application_id").fetchone()
        (version,) = database.execute("PRAGMA user_version").fetchone()
        (tables,) = database.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        if tables == 0:
            database.execute("BEGIN IMMEDIATE")
            for statement in _SCHEMA:
                database.execute(statement)
            database.execute("COMMIT")
        elif application != APPLICATION_ID:
            raise StorageError(f"{self._path()} is a database of another program; choose another directory")
        elif version != SCHEMA_VERSION:
            raise StorageError(
                f"{self._path()} has schema version {version}, this release reads {SCHEMA_VERSION}; "
                "open it with the release that wrote it"
            )

    def _count_start(self, database: sqlite3.Connection) -> int:
        (incarnation,) = database.execute("SELECT incarnation FROM meta").fetchone()
        database.execute("UPDATE meta SET incarnation=incarnation+1")
        return int(incarnation)

    def _translate(self, record: Record) -> None:
        """Queue the statements for one record."""
        pending = self._pending
        if isinstance(record, MessageAdded):
            message = record.message
            destination, identity = key(message.destination), key(message.message_id)
            row = (destination, identity, record.order, record.accepted_wall_ms, record.due_wall_ms)
            self._queue((ADD, (*row, encode_head(message), message.body)))
            if record.holders or self._has_holders:
                self._has_holders = True
                pending.append((_RELEASE_ALL, (destination, identity)))
                for waiting in record.holders:
                    self._queue((_HOLD, (key(waiting), destination, identity)))
        elif isinstance(record, MessageRemoved):
            destination, identity = key(record.destination), key(record.message_id)
            if record.holder:
                self._queue((_RELEASE, (key(record.holder), destination, identity)))
                pending.append((_REMOVE_FREE, (destination, identity)))
                return
            self._queue((_REMOVE, (destination, identity)))
            if self._has_holders:
                pending.append((_RELEASE_ALL, (destination, identity)))
        elif isinstance(record, DestinationRemoved):
            pending.append((_CLEAR, (key(record.destination),)))
            pending.append((_CLEAR_HOLDERS, (key(record.destination),)))
        elif isinstance(record, SubscriptionAdded):
            names = (key(record.key), key(record.client_id), key(record.destination), key(record.selector))
            pending.append((_SUBSCRIBE, (*names, int(record.no_local))))
        elif isinstance(record, SubscriptionRemoved):
            holder = key(record.key)
            pending.append((_FORGET_MESSAGES, (holder, holder)))
            self._queue((_FORGET, (holder,)))
            pending.append((_UNSUBSCRIBE, (holder,)))
        else:
            raise TypeError(f"{type(record).__name__} is a record that this storage cannot keep")

    def _queue(self, operation: _Operation) -> None:
        """Queue a statement. A message that nobody waits for any more, and that is not written yet, never will be."""
        statement, row = operation
        fresh, pending = self._fresh, self._pending
        if statement in (ADD, _REMOVE):
            unwritten = fresh.pop((row[0], row[1]), None)
            if unwritten is not None:
                pending[unwritten[0]] = None
            if statement == ADD:
                fresh[row[0], row[1]] = (len(pending), {})
        elif statement == _HOLD:
            held = fresh.get((row[1], row[2]))
            if held is not None:
                held[1][row[0]] = None
        elif statement == _RELEASE:
            self._let_go(row[0], (row[1], row[2]))
        elif statement == _FORGET:
            for message in [message for message, (_, holders) in fresh.items() if row[0] in holders]:
                self._let_go(row[0], message)
        pending.append(operation)

    def _let_go(self, holder: _Key, message: _Name) -> None:
        """A durable subscription waits for a message no longer."""
        held = self._fresh.get(message)
        if held is not None and holder in held[1]:
            del held[1][holder]
            if not held[1]:
                self._pending[held[0]] = None
                del self._fresh[message]

    def _write(self, database: sqlite3.Connection, work: list[_Operation | None]) -> None:
        """One transaction. If there is no room for it, once more with its removals first: they may make the room."""
        operations = [operation for operation in work if operation is not None]
        try:
            self._transact(database, operations)
        except sqlite3.Error as error:
            if _code(error) != FULL:
                raise
            self._transact(database, _removals_first(operations))

    def _transact(self, database: sqlite3.Connection, operations: list[_Operation]) -> None:
        database.execute("BEGIN IMMEDIATE")
        try:
            for statement, group in groupby(operations, _statement):
                database.executemany(statement, [row for _, row in group])
            database.execute("COMMIT")
        except sqlite3.Error:
            if database.in_transaction:
                database.execute("ROLLBACK")
            raise

    def _look(self, database: sqlite3.Connection) -> None:
        """Measure what is left."""
        self._trouble = None
        if self._max_bytes:
            (pages,) = database.execute("PRAGMA page_count").fetchone()
            (free,) = database.execute("PRAGMA freelist_count").fetchone()
            (page_bytes,) = database.execute("PRAGMA page_size").fetchone()
            used_bytes = (pages - free) * page_bytes
            if used_bytes >= self._max_bytes:
                self._trouble = Trouble(
                    FULL,
                    f"the storage holds {used_bytes} of {self._max_bytes} bytes; consume messages or raise "
                    "storage.max_bytes",
                )
                return
        disk = os.statvfs(self._directory)
        free_bytes = disk.f_bavail * disk.f_frsize
        if free_bytes < RESERVE_BYTES:
            self._trouble = Trouble(
                FULL,
                f"{self._directory} has {free_bytes} bytes left, the storage keeps {RESERVE_BYTES} in reserve; "
                "make room on the disk",
            )

    def _drop_connection(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None


def _statement(operation: _Operation) -> str:
    return operation[0]


def _removals_first(operations: list[_Operation]) -> list[_Operation]:
    """The same effect in an order that needs less room: removals of messages that nothing earlier touches, then the
    rest.
    """
    first: list[_Operation] = []
    rest: list[_Operation] = []
    touched: set[_Name] = set()
    for statement, row in operations:
        if statement in _REMOVALS and (row[-2], row[-1]) not in touched:
            first.append((statement, row))
            continue
        if statement == ADD:
            touched.add((row[0], row[1]))
        rest.append((statement, row))
    return first + rest


def _read(database: sqlite3.Connection) -> Iterator[Record]:
    """All that is stored: subscriptions, then messages in the order of their places."""
    for holder, client, destination, selector, no_local in database.execute(
        "SELECT key, client, destination, selector, no_local FROM subscription ORDER BY rowid"
    ):
        yield SubscriptionAdded(name(holder), name(client), name(destination), name(selector), bool(no_local))
    holders: dict[tuple[Any, Any], list[str]] = {}
    for holder, destination, identity in database.execute("SELECT key, destination, id FROM holder"):
        holders.setdefault((destination, identity), []).append(name(holder))
    for destination, identity, place, accepted_ms, due_ms, head, body in database.execute(
        "SELECT destination, id, place, accepted_wall_ms, due_wall_ms, head, body FROM message"
        " ORDER BY destination, place, number"
    ):
        message = decode(name(destination), name(identity), head, body)
        held_by = tuple(holders.get((destination, identity), ()))
        yield MessageAdded(message, place, accepted_ms, due_ms, held_by)


def _lock(directory: Path) -> int:
    """Hold the directory; the descriptor. Raises ``StorageError`` if another process holds it."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StorageError(
            f"{directory} cannot be used ({error.strerror}); name a directory that can be written"
        ) from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        owner = os.read(descriptor, 20).decode("ascii", "replace").strip() or "unknown"
        os.close(descriptor)
        raise StorageError(
            f"{directory} is in use by another broker (process {owner}); stop it or choose another directory"
        ) from None
    os.ftruncate(descriptor, 0)
    os.write(descriptor, f"{os.getpid()}\n".encode())
    return descriptor


def _code(error: Exception) -> str:
    if isinstance(error, StorageError):
        return error.code
    return FULL if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_FULL else FAILED


def _remedy(error: Exception) -> str:
    if _code(error) == FULL:
        return "make room on the disk or raise storage.max_bytes"
    if isinstance(error, sqlite3.DatabaseError) and not isinstance(error, sqlite3.OperationalError):
        return "restore a backup or choose an empty directory"
    return "check the disk and the permissions of the directory"
