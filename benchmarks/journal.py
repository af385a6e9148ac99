"""How much of SQLite's own speed the journal keeps: batches of 10 and 100 messages, one sync each.

Run: ``python benchmarks/journal.py [--seconds N] [--dir DIR]``. Both sides write the same rows into the same tables
under the same pragmas (printed), one transaction per batch. The raw side inserts rows that are ready; the journal gets
messages, encodes them and takes them through its interface. Rounds of both alternate, so that the neighbours' noise
meets both. The exit code is 1 when the journal is slower than half.
"""

from __future__ import annotations

import argparse
import sqlite3
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from brokerproof.reference_broker.core.message import Message
from brokerproof.reference_broker.core.records import MessageAdded, Record
from brokerproof.reference_broker.storage.codec import encode_head
from brokerproof.reference_broker.storage.sqlite import ADD, FILE, PRAGMAS, SqliteJournal

SHARE_PERCENT_MIN = 50
BATCHES = (10, 100)
BODY = b"x" * 200
ROUNDS = 7


def messages(start: int, count: int) -> list[Message]:
    made = []
    for number in range(start, start + count):
        message = Message(f"ID-7-{number}", "queue://orders", BODY, timestamp_ms=1_795_219_200_000, persistent=True)
        message.sequence = number
        made.append(message)
    return made


class Raw:
    """Plain inserts into a database that the journal has made."""

    def __init__(self, directory: Path) -> None:
        SqliteJournal(directory).close()
        self._database = sqlite3.connect(directory / FILE, isolation_level=None)
        for pragma in PRAGMAS:
            self._database.execute(pragma)
        self._next = 0

    def batches(self, size: int, seconds: float) -> float:
        """Messages per second; making the rows does not count."""
        count, spent = 0, 0.0
        while spent < seconds:
            rows = [
                (m.destination, m.message_id, m.sequence, 1_795_219_200_000, 0, encode_head(m), m.body)
                for m in messages(self._next, size)
            ]
            self._next += size
            begun = time.perf_counter()
            self._database.execute("BEGIN IMMEDIATE")
            self._database.executemany(ADD, rows)
            self._database.execute("COMMIT")
            spent += time.perf_counter() - begun
            count += size
        return count / spent


class Ours:
    """The journal, as the node uses it: a batch of records for each event, then a sync."""

    def __init__(self, directory: Path) -> None:
        self._journal = SqliteJournal(directory)
        self._next = 0

    def batches(self, size: int, seconds: float) -> float:
        """Messages per second; making the messages does not count, encoding them does."""
        count, spent = 0, 0.0
        while spent < seconds:
            records: list[Record] = [
                MessageAdded(m, m.sequence, 1_795_219_200_000, 0) for m in messages(self._next, size)
            ]
            self._next += size
            begun = time.perf_counter()
            for record in records:
                self._journal.append([record])
            self._journal.sync()
            spent += time.perf_counter() - begun
            count += size
        return count / spent


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=0.5, help="per round and side")
    parser.add_argument("--dir", type=Path, help="where to write; the disk decides much of the result")
    given = parser.parse_args()
    print(f"SQLite {sqlite3.sqlite_version}; {'; '.join(PRAGMAS)}; bodies of {len(BODY)} bytes")
    good = True
    with tempfile.TemporaryDirectory(dir=given.dir) as directory:
        raw, ours = Raw(Path(directory, "raw")), Ours(Path(directory, "ours"))
        for size in BATCHES:
            pairs = [(raw.batches(size, given.seconds), ours.batches(size, given.seconds)) for _ in range(ROUNDS)]
            share = median(100 * our / their for their, our in pairs)
            print(
                f"batches of {size}: raw {median(r for r, _ in pairs):,.0f}/s, journal "
                f"{median(o for _, o in pairs):,.0f}/s: {share:.0f} % (at least {SHARE_PERCENT_MIN} %)"
            )
            good = good and share >= SHARE_PERCENT_MIN
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
