"""Files of a store, on any file system that pyarrow can write: a local or shared folder, an object store.

Decides what the rest may rely on: a file appears whole or not at all, and ``create`` makes one only if there is none.
Where a file system has no such operation (an object store) ``create`` looks first: of two that come within the same
instant the later one stays, which is as whole as the other.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path
from typing import Any


class StoreError(Exception):
    """A store cannot be used. The text shows where, what is wrong and the remedy."""

    exit_code = 2


class StoreMissing(Exception):
    """A package that a store needs is not installed."""

    exit_code = 4


class Files:
    """Files below ``where``: a folder, or a URI such as ``s3://bucket/folder``. Paths are relative to it.

    Raises ``StoreMissing`` without pyarrow and ``StoreError`` for a place that cannot be used.
    """

    def __init__(self, where: str) -> None:
        try:
            from pyarrow import ArrowException, fs  # an extra, and slow to import
        except ImportError:
            raise StoreMissing("a store needs the package 'pyarrow'; pip install 'brokerproof[spark]'") from None
        #: Absolute, so that processes with another working folder find it.
        self.where = where if "://" in where else str(Path(where).absolute())
        try:
            if "://" in where:
                self.system, self.root = fs.FileSystem.from_uri(where)
            else:
                self.system, self.root = fs.LocalFileSystem(), self.where
        except (ArrowException, OSError, ValueError) as error:
            raise StoreError(f"{where}: no place for a store ({error}); give a folder or a URI") from None
        self.local = isinstance(self.system, fs.LocalFileSystem)

    def path(self, name: str) -> str:
        """As its file system names it."""
        return f"{self.root}/{name}"

    def url(self, name: str) -> str:
        """As Spark names it: Hadoop calls what pyarrow calls s3 s3a."""
        if self.local:
            return f"file:{self.path(name)}"
        scheme, _, rest = self.where.rstrip("/").partition("://")
        return f"{'s3a' if scheme == 's3' else scheme}://{rest.partition('?')[0]}/{name}"

    def read(self, name: str) -> bytes | None:
        """All of it; None if it is not there."""
        try:
            with self.system.open_input_stream(self.path(name)) as stream:
                data: bytes = stream.read()
                return data
        except (FileNotFoundError, NotADirectoryError):
            return None

    def names(self, folder: str) -> list[str]:
        """The files in a folder, sorted; those of a half-written name are none. A folder that is not there is empty."""
        return [name for name, is_file in self._entries(folder) if is_file and not name.startswith(".")]

    def folders(self, folder: str) -> list[str]:
        """The folders in a folder, sorted."""
        return [name for name, is_file in self._entries(folder) if not is_file]

    def _entries(self, folder: str) -> list[tuple[str, bool]]:
        from pyarrow import fs

        found = self.system.get_file_info(fs.FileSelector(self.path(folder), allow_not_found=True))
        return sorted((info.base_name, info.type == fs.FileType.File) for info in found)

    def parent(self, name: str) -> None:
        """Make the folder that a file is to lie in. Raises ``StoreError``."""
        folder = self.path(name).rpartition("/")[0]
        try:
            self.system.create_dir(folder, recursive=True)
        except OSError as error:
            raise StoreError(f"{self.where}: cannot be written ({error}); give another place (--store)") from None

    def write(self, name: str, data: bytes) -> None:
        """Write or replace a file."""
        self.parent(name)
        hidden = self._hidden(name) if self.local else self.path(name)
        with self.system.open_output_stream(hidden) as stream:
            stream.write(data)
        if self.local:
            os.replace(hidden, self.path(name))  # noqa: PTH105 - file systems name places by strings

    def create(self, name: str, data: bytes) -> bool:
        """Write a file if there is none of this name; whether that was so."""
        if self.local:
            self.parent(name)
            hidden = self._hidden(name)
            Path(hidden).write_bytes(data)
            try:
                os.link(hidden, self.path(name))
            except FileExistsError:
                return False
            except OSError:  # no hard links here: as on an object store
                return self._create_unlinked(name, data)
            finally:
                os.unlink(hidden)  # noqa: PTH108 - as above
            return True
        return self._create_unlinked(name, data)

    def _create_unlinked(self, name: str, data: bytes) -> bool:
        if self.read(name) is not None:
            return False
        self.write(name, data)
        return True

    def move(self, name: str, to: str) -> bool:
        """Rename a file; False if it is gone."""
        try:
            self.system.move(self.path(name), self.path(to))
        except FileNotFoundError:
            return False
        return True

    def remove(self, name: str) -> None:
        """Delete a file, if it is there."""
        with contextlib.suppress(FileNotFoundError):
            self.system.delete_file(self.path(name))

    def _hidden(self, name: str) -> str:
        folder, _, last = self.path(name).rpartition("/")
        return f"{folder}/.{last}.{secrets.token_hex(4)}"


def open_parquet(files: Files, name: str, table: str) -> Any:
    """A writer of a file of this table. Raises ``StoreError``."""
    import pyarrow.parquet as pq  # an extra, and slow to import

    from brokerproof.reports.store.tables import INT, STRING, TABLES, arrow_schema

    files.parent(name)
    integers = [column for column, kind in TABLES[table].items() if kind == INT]
    texts = [column for column, kind in TABLES[table].items() if kind == STRING]
    return pq.ParquetWriter(
        files.path(name),
        arrow_schema(table),
        filesystem=files.system,
        compression="zstd",
        use_dictionary=texts,
        column_encoding=dict.fromkeys(integers, "DELTA_BINARY_PACKED"),
    )
