"""ActiveMQ from Debian: the installed package, or its packages extracted into the cache without root.

Decides: which packages and which of their jars make a broker and a client.
Rules: an installed package is used as it is; otherwise packages are downloaded by apt and unpacked, never installed; if
apt's own package lists are missing or stale, private ones are fetched into the cache, which needs no root either.
Known exceptions: whatever release the machine's distribution carries is what comes; its version is read from the jar's
name.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from brokerproof.chaos.tools import ToolFailed, cache_folder, find_apt, one_at_a_time, run_tool

INSTALLED = Path("/usr/share/java")
PACKAGES = (
    *("activemq", "libactivemq-java", "libactivemq-protobuf-java", "libxbean-java"),
    *(f"libspring-{part}-java" for part in ("aop", "beans", "context", "core", "expression")),
    *(f"libgeronimo-{part}-spec-java" for part in ("jms-1.1", "j2ee-management-1.1", "jta-1.2", "jacc-1.1")),
    *("libhawtbuf-java", "libslf4j-java", "libcommons-net-java", "libcommons-logging-java"),
    *(f"libjackson2-{part}-java" for part in ("core", "databind", "annotations")),
    "libjasypt-java",  # Java 17 starts the broker without it, Java 25 does not
    # Not dependencies of the package: the statistics plug-in needs them to answer over STOMP.
    *("libxstream-java", "libjettison-java", "libxpp3-java"),
)
CLIENT_JARS = (
    "activemq-client",
    "geronimo-jms_1.1_spec",
    "geronimo-j2ee-management-1.1-spec",
    "hawtbuf",
    "slf4j-api",
    "slf4j-jdk14",
)
BROKER_JARS = (
    *(f"activemq-{part}" for part in ("broker", "console", "jaas", "kahadb-store", "openwire-legacy", "stomp")),
    *("activemq-spring", "activemq-protobuf", "geronimo-jta-1.2-spec"),
    *CLIENT_JARS,
    *(f"jackson-{part}" for part in ("core", "databind", "annotations")),
    *("commons-logging", "commons-net", "xbean-spring", "jasypt"),
    *(f"spring3-{part}" for part in ("core", "beans", "context", "aop", "expression")),
    *("xstream", "jettison", "xpp3"),
)
_OPTIONAL_JARS = frozenset({"xstream", "jettison", "xpp3", "commons-net"})
_DOWNLOAD_TIMEOUT_S = 300


def places() -> list[tuple[Path, str]]:
    """Where the jars may be, and what is said of their origin; the installed package first."""
    return [(INSTALLED, "Debian package"), (_root() / "usr" / "share" / "java", "Debian package, extracted")]


def jar_folder() -> tuple[Path, str]:
    """The folder of the broker's jars and where they came from; extracts them first if need be.

    Raises `ToolMissing` (no apt here) or `ToolFailed` (a download).
    """
    for folder, origin in places():
        if not missing_jars(folder):
            return folder, origin
    extract(_root(), PACKAGES, lambda root: not missing_jars(root / "usr" / "share" / "java"))
    lacking = missing_jars(folder)
    if lacking:
        raise ToolFailed("dpkg-deb", ["dpkg-deb", "-x"], f"the packages do not hold {', '.join(lacking)}", "")
    return folder, origin


def release(folder: Path) -> str:
    """The release that a folder of jars holds, from the versioned name of its broker jar."""
    names = (
        re.fullmatch(r"activemq-broker-(\d+(?:\.\d+)+)\.jar", jar.name) for jar in folder.glob("activemq-broker-*")
    )
    return next((found[1] for found in names if found), "unknown")


def missing_jars(folder: Path) -> list[str]:
    """Names of the jars that a broker needs and the folder lacks; a dangling link is no jar."""
    return [name for name in BROKER_JARS if name not in _OPTIONAL_JARS and not (folder / f"{name}.jar").exists()]


def _root() -> Path:
    return cache_folder("debian") / "activemq"


def extract(root: Path, packages: Sequence[str], complete: Callable[[Path], bool]) -> None:
    """Download packages and unpack them into `root`, unless what is there is `complete`; one step, so that a second run
    beside this one waits.
    """
    apt, dpkg = find_apt()
    with one_at_a_time(root.parent):
        if complete(root):
            return
        staging = root.with_name(f".staging.{os.getpid()}")
        folder = staging / "packages"
        folder.mkdir(parents=True)
        try:
            _download(apt, folder, packages)
            for package in sorted(folder.glob("*.deb")):
                run_tool("dpkg-deb", [dpkg, "-x", package, staging / "tree"], 60)
            shutil.rmtree(root, ignore_errors=True)
            (staging / "tree").rename(root)
        finally:
            shutil.rmtree(staging, ignore_errors=True)


def _download(apt: Path, folder: Path, packages: Sequence[str]) -> None:
    # As root apt would drop to a user of its own who cannot write here, and print a warning for it.
    download: list[str | Path] = [apt, "-q", "-o", "APT::Sandbox::User=root"]
    try:
        run_tool("apt-get", [*download, "download", *packages], _DOWNLOAD_TIMEOUT_S, cwd=folder)
    except ToolFailed:
        private = _private_lists()
        run_tool("apt-get", [*download, *private, "update"], _DOWNLOAD_TIMEOUT_S, cwd=folder)
        run_tool("apt-get", [*download, *private, "download", *packages], _DOWNLOAD_TIMEOUT_S, cwd=folder)


def _private_lists() -> list[str]:
    """Options that make apt keep its package lists in our cache instead of the machine's folders."""
    state, cache = cache_folder("debian", "apt", "state"), cache_folder("debian", "apt", "cache")
    (state / "lists" / "partial").mkdir(parents=True, exist_ok=True)
    (cache / "archives" / "partial").mkdir(parents=True, exist_ok=True)
    settings = {"Dir::State": state, "Dir::Cache": cache, "Dir::State::status": Path("/var/lib/dpkg/status")}
    return [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]
