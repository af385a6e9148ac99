"""Manifests: what counts as written. Readers of a store follow them and nothing else.

Rules:

* A *part* is a piece of a campaign: its ``start``, a range of seeds, its ``end``. An attempt at a part writes files of
  its own, under names that no other attempt has; then it creates the manifest of the part, which names them. The first
  attempt that does so has made the part. What the others wrote is never read.
* A store lies at ``store.json``; manifests at ``manifests/<campaign>/<part>.json``; the files of a table at
  ``<table>/campaign=<campaign>/broker=<slug>/<part>.<attempt>.parquet``.
* Nothing is ever changed or deleted, so a reader that has read the manifests sees one state of the store for good.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from typing import Any

import msgspec

from brokerproof.reports.store.files import Files, StoreError
from brokerproof.reports.store.tables import TABLES, VERSION

FORMAT = "brokerproof/store/1"
MARK = "store.json"
#: Where it is unless another place is given.
STORE = "brokerproof-out/store"
START, END = "start", "end"


class TableFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file of one table: where, and how many rows."""

    table: str
    name: str
    rows: int


class Manifest(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one attempt wrote for one part.

    ``version``: of the schemas. ``first``, ``runs``: its seeds; ``digest``: the ``part`` of a ``DigestSum`` over those
    ``digested``: a seed that gave no result has none.
    """

    campaign: str
    part: str
    attempt: str
    files: list[TableFile]
    version: int = VERSION
    first: int = 0
    runs: int = 0
    digest: str = ""
    digested: int = 0
    problems: int = 0
    processor_us: int = 0


class Store:
    """A store at a place; ``make``: it may be made there. Raises ``StoreError`` where there is none, or something else,
    or one of a newer release.
    """

    def __init__(self, where: str, *, make: bool = False) -> None:
        self.files = Files(where)
        told = self.files.read(MARK)
        if told is None:
            if not make:
                raise StoreError(f"{where}: no store is here ({MARK} is missing); `campaign --store` makes one")
            self.files.create(MARK, msgspec.json.encode({"format": FORMAT}))
        elif (found := _format(told)) != FORMAT:
            raise StoreError(f"{where}: format is {found!r}; this release reads {FORMAT!r}; install a newer one")

    def campaigns(self) -> list[str]:
        """The ids of all campaigns, oldest first."""
        return self.files.folders("manifests")

    def manifests(self, campaign: str) -> list[Manifest]:
        """What was written for a campaign, by part. Raises ``StoreError``."""
        place = f"manifests/{campaign}"
        return [self._read(f"{place}/{name}") for name in self.files.names(place) if name.endswith(".json")]

    def manifest(self, campaign: str, part: str) -> Manifest | None:
        """That of a part; None: nobody has made it yet."""
        name = _place(campaign, part)
        return self._read(name) if self.files.read(name) is not None else None

    def rows(self, manifest: Manifest, table: str) -> list[dict[str, Any]]:
        """All rows of a small table that a part has."""
        import pyarrow.parquet as pq  # an extra, and slow to import

        names = [file.name for file in manifest.files if file.table == table]
        return [
            row
            for name in names
            for row in pq.read_table(self.files.path(name), filesystem=self.files.system, partitioning=None).to_pylist()
        ]

    def commit(self, manifest: Manifest) -> bool:
        """Make a part; False if another attempt has made it."""
        return self.files.create(_place(manifest.campaign, manifest.part), msgspec.json.encode(manifest))

    def _read(self, name: str) -> Manifest:
        try:
            found = msgspec.json.decode(self.files.read(name) or b"", type=Manifest)
        except msgspec.DecodeError as error:
            raise StoreError(f"{self.files.where}: {name} is no manifest ({error}); remove its campaign") from None
        if found.version > VERSION:
            raise StoreError(f"{self.files.where}: {name} has tables of version {found.version}, newer than {VERSION}")
        return found


def table_files(manifests: Iterable[Manifest]) -> dict[str, list[TableFile]]:
    """Table -> its files, sorted by name."""
    found: dict[str, list[TableFile]] = {table: [] for table in TABLES}
    for manifest in manifests:
        for file in manifest.files:
            found[file.table].append(file)
    return {table: sorted(files, key=lambda file: file.name) for table, files in found.items()}


def new_attempt() -> str:
    """A name that no other attempt has."""
    return secrets.token_hex(6)


def _place(campaign: str, part: str) -> str:
    return f"manifests/{campaign}/{part}.json"


def _format(told: bytes) -> object:
    try:
        return msgspec.json.decode(told, type=dict[str, str]).get("format")
    except msgspec.DecodeError:
        return "no JSON"
