"""The two journals: what was synced is there again, exactly, and what cannot be written is refused clearly.

The fold in ``core/recovery.py`` says what a sequence of records means; Hypothesis compares every journal with it, and
cuts SQLite's write-ahead log at any byte.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokerproof.reference_broker.core.message import Message
from brokerproof.reference_broker.core.records import (
    DestinationRemoved,
    MessageAdded,
    MessageRemoved,
    Record,
    SubscriptionAdded,
    SubscriptionRemoved,
)
from brokerproof.reference_broker.core.recovery import Recovered
from brokerproof.reference_broker.storage import codec, sqlite
from brokerproof.reference_broker.storage.journal import FAILED, FULL, Journal, StorageError
from brokerproof.reference_broker.storage.memory import MemoryJournal
from brokerproof.reference_broker.storage.sqlite import SqliteJournal
from tests.tools import examples

Q = "queue://q"


def added(identity: str, place: int = 1, destination: str = Q, holders: tuple[str, ...] = (), size: int = 1) -> Record:
    message = Message(identity, destination, b"x" * size, timestamp_ms=5, persistent=True)
    return MessageAdded(message, place, 1000, 0, holders)


def left(records: Recovered) -> object:
    """A recovered state as plain data, for comparing."""
    messages = sorted(
        (
            m.message.destination,
            m.order,
            m.message.message_id,
            m.accepted_wall_ms,
            m.due_wall_ms,
            sorted(m.holders),
            codec.encode_head(m.message),
            m.message.body,
        )
        for m in records.messages.values()
    )
    return messages, {
        k: (s.client_id, s.destination, s.selector, s.no_local) for k, s in sorted(records.subscriptions.items())
    }


def content(journal: Journal) -> object:
    return left(Recovered(journal.replay()))


# -- codec


def test_every_attribute_of_a_message_is_kept_or_named_as_not_kept() -> None:
    assert sorted(Message.__slots__) == sorted([*codec.FIELDS, *codec.NOT_KEPT, *codec.SPECIAL])
    fresh = Message("m", Q, b"", persistent=True)
    assert {name: getattr(fresh, name) for name in codec.FIELDS} == codec.FIELDS


texts = st.text(alphabet=st.characters(), max_size=8)
properties = st.dictionaries(texts, texts | st.booleans() | st.integers() | st.floats(allow_nan=False), max_size=3)


@settings(deadline=None)
@given(
    name=texts,
    props=properties,
    body=st.binary(max_size=9),
    number=st.integers(),
    text=texts,
    correlation=st.none() | texts,
)
def test_a_message_survives_the_codec(
    name: str, props: dict[str, str | bool | int | float], body: bytes, number: int, text: str, correlation: str | None
) -> None:
    message = Message(name, Q, body, timestamp_ms=number, properties=props, group_id=text, reply_to=text)
    message.correlation_id = correlation
    message.sequence = 7
    again = codec.decode(Q, codec.name(codec.key(name)), codec.encode_head(message), body)
    assert (again.message_id, again.body, again.persistent) == (name, body, True)
    for field in codec.FIELDS:
        assert getattr(again, field) == getattr(message, field)
        assert type(getattr(again, field)) is type(getattr(message, field))
    assert {k: type(v) for k, v in again.properties.items()} == {k: type(v) for k, v in props.items()}


def test_an_unpaired_surrogate_survives_a_database(tmp_path: Path) -> None:
    """Java's strings may hold one; SQLite's text may not."""
    journal = SqliteJournal(tmp_path)
    journal.append([added("\ud800"), added("\ud801", 2)])
    journal.append([MessageRemoved(Q, "\ud800")])
    journal.sync()
    assert [r.message.message_id for r in journal.replay() if isinstance(r, MessageAdded)] == ["\ud801"]
    journal.close()


@pytest.mark.parametrize(("head", "word"), [("{", "damaged"), ("[1", "damaged"), ('{"colour":1}', "colour")])
def test_a_head_that_is_not_ours_is_refused(head: str, word: str) -> None:
    with pytest.raises(StorageError, match=word):
        codec.decode(Q, "m", head, b"")


# -- journals against the fold

DESTINATIONS = st.sampled_from((Q, "queue://r", "topic://t"))
IDS = st.sampled_from("abc")
KEYS = st.sampled_from(("c:1", "c:2"))
RECORDS = st.one_of(
    st.builds(
        lambda i, place, d, h: added(i, place, d, tuple(sorted(h)) if d.startswith("topic") else ()),
        IDS,
        st.integers(0, 5),
        DESTINATIONS,
        st.sets(KEYS, min_size=1),
    ),
    st.builds(MessageRemoved, DESTINATIONS, IDS),
    st.builds(lambda i, k: MessageRemoved("topic://t", i, k), IDS, KEYS),
    st.builds(DestinationRemoved, DESTINATIONS),
    st.builds(
        SubscriptionAdded, KEYS, st.just("c"), st.just("topic://t"), st.sampled_from(("", "a = 1")), st.booleans()
    ),
    st.builds(SubscriptionRemoved, KEYS),
)
BATCHES = st.lists(st.tuples(st.lists(RECORDS, min_size=1, max_size=3), st.booleans()), max_size=8)


@settings(max_examples=examples(25), deadline=None)
@given(batches=BATCHES)
def test_both_journals_keep_what_the_fold_says(batches: list[tuple[list[Record], bool]]) -> None:
    expected = Recovered()
    with TemporaryDirectory() as directory:
        disk, memory = SqliteJournal(Path(directory)), MemoryJournal()
        for batch, sync in batches:
            for record in batch:
                expected.feed(record)
            for journal in (disk, memory):
                journal.append(batch)
                if sync:
                    journal.sync()
        disk.sync()
        memory.sync()
        assert content(memory) == left(expected)
        disk.close()
        again = SqliteJournal(Path(directory))
        assert content(again) == left(expected)
        assert content(again) == left(expected), "replaying twice gives the same"
        again.close()


def test_what_was_not_synced_is_lost_and_nothing_else(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path)
    journal.append([added("a")])
    journal.sync()
    journal.append([added("b", 2), MessageRemoved(Q, "a")])
    journal.close()
    journal = SqliteJournal(tmp_path)
    assert content(journal) == left(Recovered([added("a")]))
    journal.close()


@settings(max_examples=examples(12), deadline=None)
@given(data=st.data())
def test_a_torn_log_gives_the_state_after_some_sync_and_never_an_earlier_one_than_its_last_whole(
    data: st.DataObject,
) -> None:
    """The write-ahead log is cut anywhere after the first of its syncs that is promised."""
    with TemporaryDirectory() as directory:
        source, copy = Path(directory, "source"), Path(directory, "copy")
        journal = SqliteJournal(source)
        states, sizes, fold = [], [], Recovered()
        log = source / (sqlite.FILE + "-wal")
        for number in range(4):
            batch = [
                added(f"m{number}", number + 1, size=data.draw(st.sampled_from((1, 5000)))),
                added(f"n{number}", 9),
            ]
            journal.append(batch)
            journal.append([MessageRemoved(Q, f"n{number - 1}")])
            for record in [*batch, MessageRemoved(Q, f"n{number - 1}")]:
                fold.feed(record)
            journal.sync()
            sizes.append(log.stat().st_size)
            states.append(left(fold))
        promised = data.draw(st.integers(0, 3))
        cut = data.draw(st.integers(sizes[promised], sizes[-1]))
        copy.mkdir()
        for path in (source / sqlite.FILE, log):
            shutil.copy(path, copy)
        os.truncate(copy / log.name, cut)
        journal.close()
        torn = SqliteJournal(copy)
        assert content(torn) in states[promised:]
        torn.close()


def test_a_message_consumed_before_the_sync_is_never_written(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path)
    journal.append([added("a", size=100_000)])
    journal.append([MessageRemoved(Q, "a")])
    journal.sync()
    assert content(journal) == ([], {})
    assert (tmp_path / (sqlite.FILE + "-wal")).stat().st_size < 100_000
    journal.close()


def test_incarnations_count_up(tmp_path: Path) -> None:
    counts = []
    for _ in range(3):
        journal = SqliteJournal(tmp_path)
        counts.append(journal.incarnation)
        journal.close()
    assert counts == [0, 1, 2]


# -- what goes wrong


def test_a_second_broker_is_refused_and_told_who_has_it(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from brokerproof.reference_broker.storage.sqlite import SqliteJournal;"
        " SqliteJournal(Path(sys.argv[1]))"
    )
    journal = SqliteJournal(tmp_path)
    second = subprocess.run([sys.executable, "-c", script, tmp_path], capture_output=True, text=True, check=False)
    assert f"is in use by another broker (process {os.getpid()}); stop it" in second.stderr
    with pytest.raises(StorageError, match="in use by another broker"):
        SqliteJournal(tmp_path)
    journal.close()
    SqliteJournal(tmp_path).close()


def test_a_full_storage_refuses_more_loses_nothing_and_recovers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "RESERVE_BYTES", 40_000)
    journal = SqliteJournal(tmp_path, max_bytes=100_000)
    assert journal.trouble() is None
    journal.append([added("a", size=90_000)])
    journal.sync()
    trouble = journal.trouble()
    assert trouble is not None
    assert (trouble.code, "raise storage.max_bytes" in trouble.text) == (FULL, True)
    # Whoever goes on all the same meets SQLite's own limit.
    journal.append([added("b", 2, size=90_000)])
    for _ in range(2):
        with pytest.raises(StorageError, match="make room") as full:
            journal.sync()
        assert full.value.code == FULL
    assert content(journal) == left(Recovered([added("a", size=90_000)]))
    # A removal is carried out before the message that did not fit: it makes the room.
    journal.append([MessageRemoved(Q, "a")])
    journal.sync()
    assert content(journal) == left(Recovered([added("b", 2, size=90_000)]))
    journal.close()


def test_a_message_that_does_not_fit_and_is_consumed_blocks_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "RESERVE_BYTES", 40_000)
    journal = SqliteJournal(tmp_path, max_bytes=50_000)
    journal.append([added("a", size=200_000)])
    with pytest.raises(StorageError):
        journal.sync()
    journal.append([MessageRemoved(Q, "a"), added("b")])
    journal.sync()
    assert content(journal) == left(Recovered([added("b")]))
    journal.close()


def test_removals_still_fit_when_messages_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "RESERVE_BYTES", 40_000)
    journal = SqliteJournal(tmp_path, max_bytes=100_000)
    journal.append([added(f"m{number}", number, size=9_000) for number in range(8)])
    journal.sync()
    assert journal.trouble() is not None
    journal.append([MessageRemoved(Q, f"m{number}") for number in range(6)])
    journal.sync()
    assert journal.trouble() is None
    journal.close()


def test_a_disk_with_less_than_the_reserve_counts_as_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = SqliteJournal(tmp_path)
    monkeypatch.setattr(sqlite, "RESERVE_BYTES", 2**62)
    journal.sync()
    trouble = journal.trouble()
    assert trouble is not None
    assert (trouble.code, "make room on the disk" in trouble.text) == (FULL, True)
    monkeypatch.undo()
    journal.sync()
    assert journal.trouble() is None
    journal.close()


def test_an_error_of_the_disk_keeps_the_batch_for_the_next_sync(tmp_path: Path) -> None:
    """Another process holds the database's write lock: the nearest thing to a broken disk that needs no root."""
    journal = SqliteJournal(tmp_path)
    other = sqlite3.connect(tmp_path / sqlite.FILE, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    journal.append([added("a")])
    database = journal._database
    assert database is not None
    database.execute("PRAGMA busy_timeout=1")
    with pytest.raises(StorageError, match="check the disk") as failed:
        journal.sync()
    assert failed.value.code == FAILED
    trouble = journal.trouble()
    assert trouble is not None
    assert trouble.code == FAILED
    other.execute("ROLLBACK")
    other.close()
    journal.sync()
    assert journal.trouble() is None
    assert content(journal) == left(Recovered([added("a")]))
    journal.close()


@pytest.mark.parametrize(
    ("statement", "word"),
    [
        ("PRAGMA user_version=99", "schema version 99, this release reads 1"),
        ("PRAGMA application_id=7", "another program"),
    ],
)
def test_a_file_that_we_cannot_understand_is_refused(tmp_path: Path, statement: str, word: str) -> None:
    SqliteJournal(tmp_path).close()
    with sqlite3.connect(tmp_path / sqlite.FILE) as database:
        database.execute(statement)
    with pytest.raises(StorageError, match=word):
        SqliteJournal(tmp_path)


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / sqlite.FILE).write_bytes(b"not a database at all" * 100)
    with pytest.raises(StorageError, match="restore a backup or choose an empty directory"):
        SqliteJournal(tmp_path)


def test_a_directory_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="name a directory that can be written"):
        SqliteJournal(tmp_path / "file" / "data")


TOPIC_NAME = "topic://t"


def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, holders: tuple[str, ...]) -> SqliteJournal:
    """A storage with durable subscriptions that holds one message for them, and room for no second one."""
    monkeypatch.setattr(sqlite, "RESERVE_BYTES", 40_000)
    journal = SqliteJournal(tmp_path, max_bytes=120_000)
    journal.append([SubscriptionAdded(holder, "c", TOPIC_NAME, "", False) for holder in holders])
    journal.append([added("a", 1, TOPIC_NAME, holders, size=90_000)])
    journal.sync()
    return journal


@pytest.mark.parametrize("holders", [("c:one",), ("c:one", "c:two")])
def test_what_durable_subscriptions_acknowledge_makes_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, holders: tuple[str, ...]
) -> None:
    journal = small(tmp_path, monkeypatch, holders)
    journal.append([added("b", 2, TOPIC_NAME, holders, size=90_000)])
    with pytest.raises(StorageError, match="make room"):
        journal.sync()
    journal.append([DestinationRemoved("queue://none"), SubscriptionRemoved("c:none")])
    journal.append([MessageRemoved(TOPIC_NAME, "a", holder) for holder in holders])
    journal.sync()
    assert [record.message.message_id for record in journal.replay() if isinstance(record, MessageAdded)] == ["b"]
    journal.close()


@pytest.mark.parametrize("way", ["acknowledged", "unsubscribed", "acknowledged meanwhile"])
def test_what_does_not_fit_and_no_durable_subscription_waits_for_blocks_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    holders = ("c:one", "c:two")
    journal = small(tmp_path, monkeypatch, holders)
    gone: list[Record] = [MessageRemoved(TOPIC_NAME, "b", holder) for holder in holders]
    if way == "unsubscribed":
        gone = [MessageRemoved(TOPIC_NAME, "b", "c:one"), SubscriptionRemoved("c:two")]
    journal.append([added("b", 2, TOPIC_NAME, holders, size=200_000)])
    if way == "acknowledged meanwhile":
        write = journal._write

        def slow(*arguments: Any) -> None:
            if gone:
                journal.append(gone)
                gone.clear()
            write(*arguments)

        monkeypatch.setattr(journal, "_write", slow)
    with pytest.raises(StorageError, match="make room"):
        journal.sync()
    journal.append(gone)
    journal.sync()
    left_over = ("c:one",) if way == "unsubscribed" else holders
    expected = Recovered([SubscriptionAdded(holder, "c", TOPIC_NAME, "", False) for holder in left_over])
    expected.feed(added("a", 1, TOPIC_NAME, left_over, size=90_000))
    assert content(journal) == left(expected)
    journal.close()


def test_a_queues_message_that_does_not_fit_and_is_consumed_meanwhile_blocks_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = small(tmp_path, monkeypatch, ("c:one",))
    write = journal._write
    gone: list[Record] = [MessageRemoved(Q, "b")]

    def slow(*arguments: Any) -> None:
        journal.append(gone)
        gone.clear()
        write(*arguments)

    monkeypatch.setattr(journal, "_write", slow)
    journal.append([added("b", size=200_000)])
    with pytest.raises(StorageError, match="make room"):
        journal.sync()
    journal.sync()
    assert [record.message.message_id for record in journal.replay() if isinstance(record, MessageAdded)] == ["a"]
    journal.close()
