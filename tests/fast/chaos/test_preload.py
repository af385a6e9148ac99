"""chaos/preload.py without a real compiler: what is missing, what fails, what is believed, and that it is made once."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
from pathlib import Path

import pytest

from brokerproof.chaos import preload
from brokerproof.chaos.tools import ToolFailed, ToolMissing


@pytest.fixture
def wheel(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A wheel with a source, and nothing on PATH."""
    source = tmp_path / "libfaketime" / preload._SOURCE
    source.mkdir(parents=True)
    for part in preload._PARTS:
        (source / part).write_text(part)
    spec = importlib.machinery.ModuleSpec("libfaketime", None, origin=str(tmp_path / "libfaketime" / "__init__.py"))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec if name == "libfaketime" else None)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.delenv("CC", raising=False)
    return source


def compiler(tmp_path: Path, script: str) -> Path:
    """A `cc` that notes each call and goes through a script in Python, with the file to be made in `made`."""
    (tmp_path / "bin").mkdir(exist_ok=True)
    path = tmp_path / "bin" / "cc"
    path.write_text(
        f"#!{sys.executable} -I\nimport pathlib, sys\nopen({str(tmp_path / 'calls')!r}, 'a').write('.')\n"
        f"made = pathlib.Path(sys.argv[sys.argv.index('-o') + 1])\n{script}\n"
    )
    path.chmod(0o755)
    return path


def built(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def test_a_missing_wheel_is_a_missing_tool_with_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(ToolMissing, match="pip install libfaketime"):
        preload.library_path()


def test_a_wheel_without_its_source_says_what_is_not_there(wheel: Path, tmp_path: Path) -> None:
    (wheel / "uthash.h").unlink()
    with pytest.raises(ToolMissing, match=r"src/uthash\.h is not there"):
        preload.library_path(tmp_path / "cache")


def test_without_a_compiler_clocks_cannot_be_skewed(wheel: Path, tmp_path: Path) -> None:
    with pytest.raises(ToolMissing, match=r"a C compiler is not available; .*gcc.* pip install ziglang"):
        preload.library_path(tmp_path / "cache")


def test_a_compiler_that_is_named_and_not_there_is_not_replaced_by_another(
    wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler(tmp_path, "")
    monkeypatch.setenv("CC", "my-cc -m64")
    with pytest.raises(ToolMissing, match="CC=my-cc is not available; remedy: unset CC"):
        preload.library_path(tmp_path / "cache")


def test_a_compiler_that_fails_says_what_it_printed_and_leaves_nothing(wheel: Path, tmp_path: Path) -> None:
    compiler(tmp_path, "made.write_text('half'); sys.exit('no stddef.h')")
    with pytest.raises(ToolFailed, match="no stddef"):
        preload.library_path(tmp_path / "cache")
    assert built(tmp_path / "cache") == ["lock"]


def test_what_does_not_skew_a_clock_is_not_believed(wheel: Path, tmp_path: Path) -> None:
    compiler(tmp_path, "made.write_text('no library at all')")
    with pytest.raises(ToolFailed, match="what was built does not skew the clock"):
        preload.library_path(tmp_path / "cache")
    assert built(tmp_path / "cache") == ["lock"]


def test_it_is_made_once_and_again_when_the_source_is_another(
    wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler(tmp_path, "made.write_text('library')")
    monkeypatch.setattr(preload, "_believe", lambda _: None)
    first = preload.library_path(tmp_path / "cache")
    assert preload.library_path(tmp_path / "cache") == first
    assert (tmp_path / "calls").read_text() == "."
    (wheel / "libfaketime.c").write_text("of another release")
    assert preload.library_path(tmp_path / "cache") != first
    assert first.is_file(), "a process may still be running with it"
    assert (tmp_path / "calls").read_text() == ".."
