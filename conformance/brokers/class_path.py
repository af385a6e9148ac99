"""The class path of a profile's JMS provider: jars, folders of them, and Maven artifacts with all that they need."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from brokerproof.chaos.brokers.archives import MAVEN, is_wanted, obtained
from brokerproof.chaos.tools import NoSuchArtifact, maven_class_path
from brokerproof.conformance.brokers.placeholders import filled

if TYPE_CHECKING:
    from brokerproof.conformance.brokers.profile import Located

LINE = "endpoints.jms.classpath"


def class_path(located: Located) -> str:
    """The jars, separated as in a class path. ``{NAME}`` is what ``start.get`` got.

    Raises ``UsageError`` for what is not there, ``ToolMissing`` or ``ToolFailed`` where Maven cannot be asked.
    """
    jms, start = located.profile.endpoints.jms, located.profile.start
    assert jms is not None, "who asks has one"
    values = {"here": str(located.here)}
    for name, text in start.get.items() if start is not None else ():
        if any(f"{{{name}}}" in entry for entry in jms.classpath):
            values[name] = str(obtained(text))
    jars = [jar for entry in jms.classpath for jar in _jars(filled(entry, values, located, LINE), located)]
    if not jars:
        raise located.wrong(LINE, "it is empty; give jars, folders of jars, or maven:GROUP:ARTIFACT:VERSION")
    return os.pathsep.join(map(str, jars))


def _jars(entry: str, located: Located) -> list[Path]:
    if entry.startswith(MAVEN):
        if not is_wanted(entry) or entry.count(":") != 3:
            raise located.wrong(LINE, f"{entry!r} is not maven:GROUP:ARTIFACT:VERSION")
        try:
            return maven_class_path(entry.removeprefix(MAVEN))
        except NoSuchArtifact as error:
            raise located.wrong(LINE, f"{entry!r} is not to be had: {error}; check group, name and version") from None
    path = located.here / entry
    found = sorted(path.glob("*.jar")) if path.is_dir() else [path]
    if not found or not all(one.is_file() for one in found):
        raise located.wrong(LINE, f"{entry!r}: there is no jar and no folder with jars at {path}")
    return found
