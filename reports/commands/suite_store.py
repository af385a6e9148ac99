"""All runs of a suite into a store, from its stream of results: whatever the broker, whatever the world."""

from __future__ import annotations

import time

import msgspec

from brokerproof.conformance.experiment.results import RunFinished, SuiteEvent, SuiteFinished, SuiteStarted, Writer
from brokerproof.conformance.requirements.catalogue import Catalogue
from brokerproof.reports.campaign.driver import new_campaign
from brokerproof.reports.store.manifests import END, START, Store
from brokerproof.reports.store.provenance import provenance
from brokerproof.reports.store.rows import SAMPLE, Row
from brokerproof.reports.store.schema import column_name
from brokerproof.reports.store.writer import PartWriter

#: Runs, and seconds, after which a part is committed: what a killed suite loses at most.
PART_RUNS, PART_S = 500, 60


class StoreWriter(Writer):
    """A campaign of its own; ``campaign`` is its id. Raises ``StoreError`` and ``StoreMissing`` before any run."""

    def __init__(self, where: str, catalogue: Catalogue, command: str, seed: int) -> None:
        self.campaign = new_campaign()
        self._store = Store(where, make=True)
        self._catalogue = catalogue
        about = {"campaign": self.campaign, "kind": "run", "command": command, "seed": seed, "keep": SAMPLE}
        self._row: Row = {**about, **msgspec.structs.asdict(provenance(catalogue))}
        self._part: PartWriter | None = None
        self._broker, self._parts, self._runs, self._in_part, self._begun_s = "", 0, 0, 0, 0.0

    def handle(self, event: SuiteEvent) -> None:
        """Begin, add, commit what is full, end."""
        if isinstance(event, SuiteStarted):
            start = PartWriter(self._store, self.campaign, START)
            start.put_catalogue(self._catalogue)
            self._put(start, "running")
        elif isinstance(event, RunFinished):
            broker = column_name(event.result.broker, event.result.mutant)
            if broker != self._broker or self._in_part >= PART_RUNS or time.monotonic() - self._begun_s > PART_S:
                self._commit()
                self._begin(broker)
            assert self._part is not None, "it has begun"
            self._part.add(event.result, 0)
            self._in_part += 1
        elif isinstance(event, SuiteFinished):
            self._commit()
            self._row |= {"runs": self._runs, "digest": event.digest, "parts": self._parts}
            self._put(PartWriter(self._store, self.campaign, END, self._broker), "finished")

    def _begin(self, broker: str) -> None:
        self._part = PartWriter(self._store, self.campaign, f"part-{self._parts:06d}", broker, SAMPLE)
        self._broker, self._in_part, self._begun_s = broker, 0, time.monotonic()
        self._parts += 1

    def _commit(self) -> None:
        if self._part is not None:
            self._part.commit()
            self._runs += self._in_part
        self._part = None

    def _put(self, writer: PartWriter, state: str) -> None:
        writer.put("campaigns", [{**self._row, "state": state, "at_ms": time.time_ns() // 1_000_000}])
        writer.commit()
