"""The version of a profile's broker: written down, said by a command, or told in its greeting."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from brokerproof.conformance.brokers.placeholders import filled

if TYPE_CHECKING:
    from brokerproof.conformance.brokers.probing import Found
    from brokerproof.conformance.brokers.profile import Located

_COMMAND_S: Final = 30
#: A greeting that may be anything, also nothing.
ANY: Final = "*"


def version_of(located: Located, found: Callable[[], Found]) -> str:
    """The version, for the head of a column. ``found``: asks the broker. Raises ``UsageError``."""
    version = located.profile.version
    if isinstance(version, str):
        return version
    if version.command is not None:
        return _matched(located, version.pattern, _said_by(located, version.command), "version.pattern")
    server = found().server
    if version.greeting == ANY:
        return server.replace("/", " ") if server else ""
    return _matched(located, version.greeting or version.pattern, server and f"server:{server}", "version.greeting")


def _said_by(located: Located, command: list[str]) -> str:
    values = {"python": sys.executable, "here": str(located.here)}
    argv = [filled(word, values, located, "version.command") for word in command]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=_COMMAND_S, check=False)
    except (OSError, subprocess.SubprocessError) as error:
        raise located.wrong("version.command", f"{argv[0]!r} cannot be run: {error}") from None
    return done.stdout + done.stderr


def _matched(located: Located, pattern: str, text: str, line: str) -> str:
    try:
        found = re.search(pattern, text)
    except re.error as error:
        raise located.wrong(line, f"{pattern!r} is no pattern: {error}") from None
    if found is None:
        raise located.wrong(line, f"{pattern!r} is not in {text.strip()[:200]!r}; mend the pattern")
    return found[found.lastindex or 0].strip().partition("/")[2] or found[found.lastindex or 0].strip()
