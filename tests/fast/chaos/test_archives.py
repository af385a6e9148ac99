"""What a profile's ``start.get`` names, and where distributions of Python are put."""

from __future__ import annotations

from pathlib import Path

import pytest

from brokerproof.chaos.brokers import archives
from brokerproof.chaos.tools import ToolFailed


@pytest.mark.parametrize(
    "text", ["pypi:coilmq==1.1.0", "pypi:a-b==1 c.d==2.0rc1", "debian:a b", "maven:a.b:c:1:tar.gz"]
)
def test_what_can_be_got(text: str) -> None:
    assert archives.is_wanted(text)


@pytest.mark.parametrize("text", ["pypi:coilmq", "pypi:", "pypi:a==1,b==2", "pypi:../a==1", "npm:a"])
def test_what_cannot(text: str) -> None:
    assert not archives.is_wanted(text)


def test_distributions_are_got_once_and_never_half(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[list[str]] = []

    def pip(tool: str, argv: list[str | Path], timeout_s: int) -> None:
        calls.append(list(map(str, argv)))
        target = Path(argv[argv.index("--target") + 1])
        target.mkdir()
        (target / "half").touch()
        if len(calls) == 1:
            raise ToolFailed(tool, calls[0], "no such version", "")

    monkeypatch.setattr(archives, "cache_folder", lambda *_: tmp_path)
    monkeypatch.setattr(archives, "run_tool", pip)
    with pytest.raises(ToolFailed, match="no such version"):
        archives.obtained("pypi:one==1 two==2")
    assert not [path for path in tmp_path.iterdir() if path.is_dir()]
    home = archives.obtained("pypi:one==1 two==2")
    assert archives.obtained("pypi:one==1 two==2") == home == tmp_path / "one==1+two==2"
    assert calls[1][-2:] == ["one==1", "two==2"]
    assert len(calls) == 2
