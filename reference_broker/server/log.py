"""The broker's log: which lines are written, and how.

``text`` has the order of ActiveMQ's own files (time, level, text, logger), so that lines that the seeds quote can be
found with the same search. ``json`` is one object per line with the same four fields, for machines.

* The time is the process's wall clock in UTC, as the broker sees it: under a faked clock the log shows the faked time.
* One entry is one line: line ends inside a text are written as ``\\n``.
* Formatting happens only for lines that are written.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final, TextIO

LEVELS: Final = ("DEBUG", "INFO", "WARN")
FORMATS: Final = ("text", "json")


class LogWriter:
    """Writes to ``stream``; ``wall_ms`` gives the time of a line."""

    __slots__ = ("_json", "_levels", "_stream", "_wall_ms")

    def __init__(self, stream: TextIO, wall_ms: Callable[[], int], level: str = "INFO", style: str = "text") -> None:
        self._stream = stream
        self._wall_ms = wall_ms
        self._levels = LEVELS[LEVELS.index(level) :]
        self._json = style == "json"

    def write(self, level: str, text: str, logger: str) -> None:
        """One line, if its level is wanted."""
        if level not in self._levels:
            return
        moment = datetime.fromtimestamp(self._wall_ms() / 1000, UTC)
        time = moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        if self._json:
            fields = {"time": time, "level": level, "logger": logger, "text": text}
            line = json.dumps(fields, ensure_ascii=False)
        else:
            line = f"{time} | {level} | {text} | {logger}".replace("\n", "\\n")
        self._stream.write(line + "\n")
