"""What a profile says it needs to start a broker: a Maven artifact, or Debian packages, got once into the cache.

Rules: exact versions only, because the registry has gaps; nothing is installed. An archive is unpacked and stands for
the one folder inside it, a jar for itself, packages for the root that they were extracted into.
"""

from __future__ import annotations

import os
import re
import shutil
import tarfile
from pathlib import Path

from brokerproof.chaos.brokers.debian import extract
from brokerproof.chaos.tools import ToolFailed, cache_folder, maven_copy, one_at_a_time

MAVEN, DEBIAN = "maven:", "debian:"
_MAVEN = re.compile(r"maven:[\w.-]+:[\w.-]+:[\w.-]+(:[\w.]+(:[\w.-]+)?)?")
_DEBIAN = re.compile(r"debian:[a-z0-9+.-]+( [a-z0-9+.-]+)*")


def is_wanted(text: str) -> bool:
    """Whether it is ``maven:GROUP:ARTIFACT:VERSION[:TYPE[:CLASSIFIER]]`` or ``debian:PACKAGE PACKAGE``."""
    return bool(_MAVEN.fullmatch(text) or _DEBIAN.fullmatch(text))


def obtained(text: str) -> Path:
    """The file or folder of what is wanted. Raises ``ToolMissing`` (Maven, apt) or ``ToolFailed`` (a download)."""
    if text.startswith(DEBIAN):
        packages = text.removeprefix(DEBIAN).split()
        root = cache_folder("debian") / packages[0]
        mark = root / "usr" / "share" / "doc"
        extract(root, packages, lambda _: all((mark / name).exists() for name in packages))
        return root
    artifact = text.removeprefix(MAVEN)
    found = maven_copy(artifact, cache_folder("jars"))
    return _unpacked(found) if found.name.endswith(".tar.gz") else found


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
