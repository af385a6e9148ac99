"""The store without Spark: what is committed is there once, the rest has never been, and who works on it is known."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import msgspec
import pytest

from brokerproof.reports.store import lease as leases
from brokerproof.reports.store.files import Files, StoreError
from brokerproof.reports.store.lease import Held, Holder, Lease, born, is_held
from brokerproof.reports.store.manifests import Manifest, Store, TableFile, table_files
from brokerproof.reports.store.tables import VERSION
from brokerproof.reports.store.writer import PartWriter
from tests.fast.reports.store import samples
from tests.fast.reports.store.test_tables import need_pyarrow


@pytest.fixture(params=["local", "object store"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """Empty: in a folder, and on a file system that can neither link nor rename."""
    need_pyarrow()
    made = Store(str(tmp_path / "store"), make=True)
    made.files.local = request.param == "local"
    return made


def part(store: Store, seed: int = 1) -> PartWriter:
    """An attempt at a part with one run."""
    writer = PartWriter(store, "one", "part-0", "reference")
    writer.add(samples.result(f"seed-{seed}", [samples.early()], seed=seed), 5)
    return writer


def files_of(store: Store) -> set[str]:
    """All Parquet files that lie there, whoever wrote them."""
    root = Path(store.files.root)
    return {path.relative_to(root).as_posix() for path in root.rglob("*.parquet")}


def test_of_two_attempts_the_first_to_commit_counts(store: Store) -> None:
    first, second = part(store), part(store)
    assert first.commit(1)
    made = store.manifests("one")
    assert not second.commit(1)
    assert store.manifests("one") == made
    assert files_of(store) == {file.name for file in made[0].files}, "the other one left nothing"
    assert (made[0].runs, made[0].digested, made[0].first) == (1, 1, 1)


def test_what_is_not_committed_has_never_been(store: Store) -> None:
    dead = part(store)
    dead._flush()
    assert files_of(store), "it had begun to write"
    assert store.manifests("one") == []
    assert store.manifest("one", "part-0") is None
    assert part(store).commit(1)
    named = {file.name for files in table_files(store.manifests("one")).values() for file in files}
    assert named < files_of(store)
    dead.abandon()
    assert files_of(store) == named


def test_a_commit_races_with_itself(store: Store) -> None:
    """Sixteen at once: on a local file system one of them has made it, and is what is read."""
    manifests = [Manifest("one", "part-0", str(number), []) for number in range(16)]
    made: list[str] = []
    threads = [
        threading.Thread(target=lambda one=one: made.append(one.attempt) if store.commit(one) else None)
        for one in manifests
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if store.files.local:
        assert [manifest.attempt for manifest in store.manifests("one")] == made
    else:
        assert len(store.manifests("one")) == 1


def test_a_folder_without_hard_links_is_no_trouble(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need_pyarrow()

    def refused(*_: str) -> None:
        raise PermissionError("no hard links")

    monkeypatch.setattr(os, "link", refused)
    files = Files(str(tmp_path))
    assert files.create("a", b"1")
    assert not files.create("a", b"2")
    assert files.read("a") == b"1"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_place_without_a_store_is_refused(tmp_path: Path) -> None:
    need_pyarrow()
    with pytest.raises(StoreError, match=r"no store is here \(store.json is missing\)"):
        Store(str(tmp_path))
    (tmp_path / "store.json").write_text('{"format": "brokerproof/store/9"}', encoding="utf-8")
    with pytest.raises(StoreError, match="format is 'brokerproof/store/9'; this release reads"):
        Store(str(tmp_path), make=True)
    with pytest.raises(StoreError, match="no place for a store"):
        Store("nonsense://x/y")
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match=r"cannot be written .*--store"):
        Store(str(tmp_path / "file" / "below"), make=True)


def test_newer_tables_are_refused(store: Store) -> None:
    store.commit(Manifest("one", "part-0", "a", [TableFile("runs", "x", 1)], version=VERSION + 1))
    with pytest.raises(StoreError, match=f"tables of version {VERSION + 1}, newer than {VERSION}"):
        store.manifests("one")


def test_a_broken_manifest_is_named(store: Store) -> None:
    store.files.write("manifests/one/part-0.json", b"{")
    with pytest.raises(StoreError, match=r"part-0\.json is no manifest"):
        store.manifests("one")


def test_spark_gets_urls() -> None:
    need_pyarrow()
    files = Files("/data/store")
    assert files.url("runs/x") == "file:/data/store/runs/x"
    files.local, files.where = False, "s3://bucket/store?region=eu-west-1"
    assert files.url("runs/x") == "s3a://bucket/store/runs/x"


# -- the lease ---------------------------------------------------------------------------------------------------------


def lease(store: Store) -> Lease:
    """On campaign one."""
    return Lease(store.files, "lease", "campaign one", "wait")


def leave(store: Store, **changes: object) -> None:
    """Somebody else's lease."""
    fields = {"token": "t", "machine": "elsewhere", "process": 7, "born": "1", "until_s": time.time() + 60}
    store.files.write("lease", msgspec.json.encode({**fields, **changes}))


def test_who_comes_second_is_refused(store: Store) -> None:
    with (
        lease(store),
        pytest.raises(Held, match=rf"campaign one is being worked on by process {os.getpid()} on .*wait"),
    ):
        lease(store).__enter__()
    assert store.files.read("lease") is None
    with lease(store):
        pass


def test_the_dead_are_not_waited_for(store: Store) -> None:
    leave(store)
    with pytest.raises(Held, match="process 7 on elsewhere"):
        lease(store).__enter__()
    leave(store, until_s=time.time() - 1)
    with lease(store):
        held = msgspec.json.decode(store.files.read("lease") or b"", type=Holder)
        assert held.process == os.getpid()


def test_a_process_is_known_by_its_start() -> None:
    me = born(os.getpid())
    assert me
    holder = Holder("t", "here", os.getpid(), me, 0)
    assert is_held(holder, 100, "here"), "it lives, however late its renewal"
    assert not is_held(msgspec.structs.replace(holder, born="1"), -100, "here"), "another one has its number"
    assert not is_held(holder, 100, "elsewhere")


def test_a_lease_is_renewed(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "RENEW_S", 0.001)
    with lease(store):
        before = store.files.read("lease")
        deadline = time.monotonic() + 10
        while store.files.read("lease") == before:
            assert time.monotonic() < deadline
