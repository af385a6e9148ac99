"""ActiveMQ Classic's jars: which releases can be had, from where, and which class paths work.

Decides: the source of each release, its class path for the broker and for a JMS client, and what the JVM must be told
to log. Rules (brokers-launch.md sections 2.1 and 2.2, each class path started there and here):
* the Debian release comes from the installed package, else from packages extracted without root into the cache; a home
  folder from its own `lib`; other releases from Maven, exact versions only, because the registry has gaps;
* jars are named one by one where the folder holds dangling links or several logging back ends.
Known exceptions: a home folder without Maven at hand runs without a logging back end, so its log is short.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from brokerproof.chaos.brokers import debian
from brokerproof.chaos.brokers.archives import obtained
from brokerproof.chaos.tools import (
    ToolFailed,
    ToolMissing,
    cache_folder,
    find_java,
    find_maven,
    java_home,
    maven_copy,
    maven_file,
    one_at_a_time,
    run_tool,
)

DEBIAN_VERSION = "5.17.2"
JOLOKIA = "org.jolokia:jolokia-agent-jvm:2.6.0:jar:javaagent"
_GROUP = "org.apache.activemq"
# Without them STOMP consumers are told no advisories.
_ADVISORIES = (
    "com.thoughtworks.xstream:xstream:1.4.21",
    "io.github.x-stream:mxparser:1.2.2",
    "xmlpull:xmlpull:1.1.3.1",
    "org.codehaus.jettison:jettison:1.5.4",
)
# One jar with everything; the old lines with the oldest memory and expiry rules.
_ALL_IN_ONE: dict[str, tuple[str, ...]] = {
    "5.8.0": (
        *(
            f"org.springframework:spring-{part}:4.1.9.RELEASE"
            for part in ("core", "beans", "context", "aop", "expression")
        ),
        "org.apache.xbean:xbean-spring:4.2",
        "commons-logging:commons-logging:1.2",
        "com.thoughtworks.xstream:xstream:1.4.21",  # without it every STOMP connection hangs without an answer
    ),
    "5.9.1": (
        *(
            f"org.springframework:spring-{part}:4.1.9.RELEASE"
            for part in ("core", "beans", "context", "aop", "expression")
        ),
        "org.apache.xbean:xbean-spring:4.2",
        "commons-logging:commons-logging:1.2",
    ),
    "5.12.3": _ADVISORIES,
    "5.13.4": _ADVISORIES,
}
# Complete archives, each with the release of the logging back end that fits its slf4j.
_ARCHIVES: dict[str, str] = {
    "5.14.5": "1.7.25",
    "5.15.8": "1.7.25",
    "5.15.16": "1.7.36",
    "5.16.7": "1.7.36",
    "5.17.6": "2.0.16",
    "5.18.3": "2.0.16",
}
# Releases without an archive, put together from their modules, each with the Spring release that reads their XML.
_ASSEMBLED: dict[str, str] = {"6.1.8": "6.1.21", "6.3.1": "6.2.18"}
_MODULES = ("broker", "client", "openwire-legacy", "stomp", "amqp", "kahadb-store", "spring", "console")
_LOGGING_BACK_ENDS = re.compile(r".*(log4j|insight|logback|reload4j)|slf4j-(?!api)")


def _order(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]


#: Oldest first.
RELEASES = tuple(sorted((DEBIAN_VERSION, *_ALL_IN_ONE, *_ARCHIVES, *_ASSEMBLED), key=_order))


class UnknownRelease(Exception):
    """A release that nobody has tried; the registry's gaps make guessing useless."""

    exit_code = 2

    def __init__(self, version: str) -> None:
        super().__init__(f"ActiveMQ release {version!r} is not known; known: {', '.join(RELEASES)}")
        self.version = version


class NotAHome(Exception):
    """A folder given as ActiveMQ's home that holds no broker."""

    exit_code = 2

    def __init__(self, home: Path, lacks: str) -> None:
        super().__init__(f"{home} is not an ActiveMQ home: {lacks}; give the folder that holds bin/ and lib/")
        self.home = home


@dataclass(frozen=True)
class BrokerJars:
    """What it takes to start one release: class paths for the broker and for a JMS client, and who logs."""

    version: str
    origin: str
    class_path: tuple[Path, ...]
    client_class_path: tuple[Path, ...]
    logging: str = "jul"  # "jul" (java.util.logging through slf4j-jdk14) or "log4j" (1.2, inside the jar)


def obtain(version: str | None = None, home: Path | None = None) -> BrokerJars:
    """The jars of a release, or of a home folder; without either the Debian release.

    Raises `UnknownRelease`, `NotAHome`, `ToolMissing` (apt, Maven, Java) or `ToolFailed` (a download).
    """
    if home is not None:
        return _from_home(home)
    wanted = version or DEBIAN_VERSION
    if wanted == DEBIAN_VERSION:
        return _from_debian()
    if wanted in _ALL_IN_ONE:
        return _from_one_jar(wanted)
    if wanted in _ARCHIVES:
        return _from_archive(wanted)
    if wanted in _ASSEMBLED:
        return _from_modules(wanted)
    raise UnknownRelease(wanted)


def client_class_path(version: str | None = None, home: Path | None = None) -> list[Path]:
    """Jars of the stock JMS client (`javax.jms`; `jakarta.jms` from 6.0 on) for a JVM, such as a JPype agent's."""
    return list(obtain(version, home).client_class_path)


def jolokia_agent() -> Path:
    """The Jolokia JVM agent (one jar, from Maven); raises `ToolMissing` or `ToolFailed`."""
    return maven_copy(JOLOKIA, cache_folder("jars"))


def jolokia_agent_path(folder: Path) -> Path:
    """Where the agent is kept in a folder of jars; it need not exist."""
    return folder / maven_file(JOLOKIA)


def _from_debian() -> BrokerJars:
    folder, origin = debian.jar_folder()
    jars = [folder / f"{name}.jar" for name in debian.BROKER_JARS]
    client = tuple(folder / f"{name}.jar" for name in debian.CLIENT_JARS)
    return BrokerJars(debian.release(folder), origin, tuple(jar for jar in jars if jar.exists()), client)


def _from_one_jar(version: str) -> BrokerJars:
    folder = cache_folder("jars")
    names = (f"{_GROUP}:activemq-all:{version}", *_ALL_IN_ONE[version])
    jars = tuple(maven_copy(name, folder) for name in names)
    return BrokerJars(version, "Maven, activemq-all", jars, jars[:1], logging="log4j")


def _from_archive(version: str) -> BrokerJars:
    home = obtained(f"maven:{_GROUP}:apache-activemq:{version}:tar.gz:bin")
    return _from_home(home, version, "Maven, archive")


def _from_home(home: Path, version: str | None = None, origin: str = "home folder") -> BrokerJars:
    library = home.absolute() / "lib"
    if not library.is_dir():
        raise NotAHome(home, "it has no folder lib")
    found = sorted(library.glob("*.jar")) + sorted((library / "optional").glob("*.jar"))
    # `exists`, because a packaged lib folder contains links to jars that are not installed.
    jars = [jar for jar in found if jar.exists() and not _LOGGING_BACK_ENDS.match(jar.name)]
    broker = _version_of("activemq-broker", jars)
    if broker is None and not any(jar.name.startswith("activemq-all") for jar in jars):
        raise NotAHome(home, "its lib has no activemq-broker jar")
    wanted = version or broker or "unknown"
    back_end = _ARCHIVES.get(wanted) or _version_of("slf4j-api", jars)
    if back_end is not None:
        with contextlib.suppress(ToolMissing, ToolFailed):  # it runs without; only its log is short
            jars.append(maven_copy(f"org.slf4j:slf4j-jdk14:{back_end}", cache_folder("jars")))
    return BrokerJars(wanted, origin, tuple(jars), tuple(jars))


def _version_of(name: str, jars: Sequence[Path]) -> str | None:
    """The version in the file name of a jar, if it is among them."""
    matches = (re.fullmatch(rf"{name}-(\d[\w.]*)\.jar", jar.name) for jar in jars)
    return next((match[1] for match in matches if match), None)


def _from_modules(version: str) -> BrokerJars:
    folder = cache_folder("activemq", version)
    library = folder / "lib"
    with one_at_a_time(folder):
        if not library.is_dir():
            maven = find_maven()
            (folder / "pom.xml").write_text(_project(version), encoding="utf-8")
            staging = folder / f".lib.{os.getpid()}"
            argv: list[str | Path] = [maven, "-q", "-B", "dependency:copy-dependencies", "-DincludeScope=runtime"]
            env = {**os.environ, "JAVA_HOME": str(java_home(find_java()))}
            try:
                run_tool("Maven", [*argv, f"-DoutputDirectory={staging}"], 300, env=env, cwd=folder)
                staging.rename(library)
            finally:
                shutil.rmtree(staging, ignore_errors=True)
    jars = tuple(sorted(library.glob("*.jar")))
    return BrokerJars(version, "Maven, modules", jars, jars)


def _project(version: str) -> str:
    """A Maven project whose runtime dependencies are one release's broker and client."""
    dependencies = [
        *(f"{_GROUP}:activemq-{module}:{version}" for module in _MODULES),
        # Optional in activemq-spring, and needed to read the configuration.
        f"org.springframework:spring-context:{_ASSEMBLED[version]}",
        "org.slf4j:slf4j-jdk14:2.0.16",
        # What the statistics plug-in needs to answer over STOMP; without them it costs the connection.
        "com.thoughtworks.xstream:xstream:1.4.21",
        "org.codehaus.jettison:jettison:1.5.4",
    ]
    entries = "".join(_dependency(*name.split(":")) for name in dependencies)
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>brokerproof</groupId><artifactId>activemq-runtime</artifactId><version>1</version>"
        f"<packaging>pom</packaging><dependencies>{entries}</dependencies></project>\n"
    )


def _dependency(group: str, artifact: str, version: str) -> str:
    inside = f"<groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>"
    return f"<dependency>{inside}</dependency>"
