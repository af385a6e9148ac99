"""What a profile says it needs to start a broker: a Maven artifact, Debian packages or Python distributions, got once
into the cache.

Rules: exact versions only, because the registry has gaps; nothing is installed. An archive is unpacked and stands for
the one folder inside it, a jar for itself, packages for the root that they were extracted into, distributions for a
folder to put on Python's path.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tarfile
from pathlib import Path

from brokerproof.chaos.brokers.debian import extract
from brokerproof.chaos.tools import ToolFailed, cache_folder, maven_copy, one_at_a_time, run_tool

MAVEN, DEBIAN, PYPI = "maven:", "debian:", "pypi:"
_MAVEN = re.compile(r"maven:[\w.-]+:[\w.-]+:[\w.-]+(:[\w.]+(:[\w.-]+)?)?")
_DEBIAN = re.compile(r"debian:[a-z0-9+.-]+( [a-z0-9+.-]+)*")
_PYPI = re.compile(r"pypi:[\w.-]+==[\w.]+( [\w.-]+==[\w.]+)*")
#: The forms, for texts.
FORMS = "maven:GROUP:ARTIFACT:VERSION[:TYPE[:CLASSIFIER]], debian:PACKAGE PACKAGE or pypi:NAME==VERSION NAME==VERSION"


def is_wanted(text: str) -> bool:
    """Whether it has one of the ``FORMS``."""
    return any(form.fullmatch(text) for form in (_MAVEN, _DEBIAN, _PYPI))


def obtained(text: str) -> Path:
    """The file or folder of what is wanted. Raises ``ToolMissing`` (Maven, apt) or ``ToolFailed`` (a download)."""
    if text.startswith(PYPI):
        return _distributions(text.removeprefix(PYPI).split())
    if text.startswith(DEBIAN):
        packages = text.removeprefix(DEBIAN).split()
        root = cache_folder("debian") / packages[0]
        mark = root / "usr" / "share" / "doc"
        extract(root, packages, lambda _: all((mark / name).exists() for name in packages))
        return root
    artifact = text.removeprefix(MAVEN)
    found = maven_copy(artifact, cache_folder("jars"))
    return _unpacked(found) if found.name.endswith(".tar.gz") else found


def _distributions(names: list[str]) -> Path:
    """Distributions of Python and what they depend on, in a folder of their own."""
    folder = cache_folder("pypi")
    home = folder / "+".join(names)
    with one_at_a_time(folder):
        if not home.is_dir():
            staging = folder / f".{home.name}.{os.getpid()}"
            pip: list[str | Path] = [sys.executable, "-m", "pip", "install", "--quiet", "--no-input"]
            try:
                run_tool("pip", [*pip, "--target", staging, *names], 300)
                staging.rename(home)
            finally:
                shutil.rmtree(staging, ignore_errors=True)
    return home


def _unpacked(archive: Path) -> Path:
    folder = cache_folder("archives")
    home = folder / archive.name.removesuffix(".tar.gz")
    with one_at_a_time(folder):
        if not home.is_dir():
            staging = folder / f".{home.name}.{os.getpid()}"
            try:
                with tarfile.open(archive) as tar:
                    tar.extractall(staging, filter="data")
                (inside,) = staging.iterdir()
                inside.rename(home)
            except (OSError, ValueError, tarfile.TarError) as error:
                raise ToolFailed("tar", ["tar", "-xf", str(archive)], str(error), "") from None
            finally:
                shutil.rmtree(staging, ignore_errors=True)
    return home
