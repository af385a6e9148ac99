"""Figures of a profile's broker, in the words of a history.

Rules: a figure that the broker does not tell is absent, never 0; only queues are asked for. A Python class in ``kind``
is a ``Figures``, made with the profile, the broker's ports and its way in.
"""

from __future__ import annotations

import json
import re
import secrets
import shlex
import subprocess
import threading
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from brokerproof.conformance.brokers.line import Line, ProbeError
from brokerproof.conformance.brokers.pages import TIMEOUT_S, asked, flat
from brokerproof.conformance.brokers.placeholders import filled
from brokerproof.conformance.brokers.profile import revealed
from brokerproof.reference_broker.core.message import QUEUE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from brokerproof.conformance.brokers.base import Access
    from brokerproof.conformance.brokers.profile import Located

#: How long after its receipt a request for statistics may wait for its answer.
_LATE_MS = 100


#: A figure of ``counters.map``, and whether it is added or taken away.
_TERM = re.compile(r"([+-]) ((?:(?! [+-] ).)+)")


class Figures(ABC):
    """How a broker is asked."""

    def __init__(self, located: Located, values: Mapping[str, str], access: Access) -> None:
        self.located = located
        self.values = values
        self.access = access
        table = located.profile.counters
        assert table is not None, "a profile without them asks nobody"
        self.at = table.at
        self.map = table.map
        self.broker = table.broker

    @abstractmethod
    def ask(self, name: str) -> dict[str, Any] | None:
        """What the broker says of a queue, in its own words; None: nothing. Raises ``OSError`` or ``ProbeError``."""

    def whole(self) -> dict[str, Any] | None:
        """What it says of itself."""
        return None

    def counters(self, dest: str | None) -> dict[str, int] | None:
        """Figures of a destination, of the broker if that is None; None: it is no queue, or nobody answers."""
        if (dest is None and self.broker is None) or (dest is not None and not dest.startswith(QUEUE)):
            return None
        try:
            told = self.whole() if dest is None else self.ask(dest.removeprefix(QUEUE))
        except (OSError, ProbeError, ValueError, subprocess.SubprocessError):
            return None
        if told is None:
            return {}
        found: dict[str, int] = {}
        words = self.broker.map if dest is None and self.broker is not None else self.map
        for ours, theirs in words.items():
            # "MessageCount - ScheduledCount", "acked + expired": a figure may hold more than ours, or less.
            parts = [(sign, told.get(name)) for sign, name in _TERM.findall(f"+ {theirs}")]
            if all(_is_number(figure) for _, figure in parts):
                found[ours] = sum(int(f"{sign}1") * int(float(str(figure))) for sign, figure in parts)
        return found

    def place(self, name: str) -> str:
        """``counters.at`` for a queue. Raises ``UsageError``."""
        return self._filled(self.at, "counters.at", name=name)

    def place_of_broker(self) -> str:
        """``counters.broker.at``. Raises ``UsageError``."""
        assert self.broker is not None, "else nobody asks"
        return self._filled(self.broker.at, "counters.broker.at")

    def _filled(self, text: str, line: str, **more: str) -> str:
        return revealed(filled(text, {**self.values, **more}, self.located, line), self.located, line)

    def close(self) -> None:  # noqa: B027 - few kinds keep a connection
        """Hang up."""


class StatisticsFigures(Figures):
    """``stomp-statistics``: a message to a name with a reply-to, answered by a map as JSON (ActiveMQ's plug-in)."""

    def __init__(self, located: Located, values: Mapping[str, str], access: Access) -> None:
        super().__init__(located, values, access)
        self._lock = threading.Lock()
        self._line: Line | None = None
        self._reply = f"/temp-queue/{secrets.token_hex(4)}"
        self._requests = 0

    def ask(self, name: str) -> dict[str, Any] | None:
        with self._lock:
            try:
                return self._asked(name)
            except (OSError, ProbeError):
                self.close()  # the broker may have been restarted
                return self._asked(name)

    def _asked(self, name: str) -> dict[str, Any] | None:
        if self._line is None:
            self._line = Line(self.access)
            self._line.subscribe(self._reply, transformation="jms-map-json")
        self._requests += 1
        request = str(self._requests)
        self._line.send(self.place(name), "", **{"reply-to": self._reply, "correlation-id": request})
        while (answer := self._line.message(_LATE_MS)) is not None:
            if answer.headers.get("correlation-id") == request:
                return _entries(json.loads(answer.body))
        return None  # of what does not exist nothing is told

    def close(self) -> None:
        line, self._line = self._line, None
        if line is not None:
            line.__exit__()


class HttpFigures(Figures):
    """``http``, ``rabbitmq`` and ``jolokia``: a page that answers with JSON; ``at`` is its URL. Figures of tables
    within tables are named with points.
    """

    def ask(self, name: str) -> dict[str, Any] | None:
        return _object(self.place(quote(name, safe="")))

    def whole(self) -> dict[str, Any] | None:
        return _object(self.place_of_broker())


class PrometheusFigures(Figures):
    """``prometheus``: a page of samples; ``map`` names metrics, which have the queue's name in one of their labels."""

    def ask(self, name: str) -> dict[str, Any] | None:
        found: dict[str, Any] = {}
        for line in (_page(self.place(name)) or "").splitlines():
            sample = _SAMPLE.fullmatch(line)
            if sample is not None and f'"{name}"' in (sample[2] or ""):
                found[sample[1]] = sample[3]
        return found


class CommandFigures(Figures):
    """``command``: ``at`` is a command that prints one JSON object, or a line ``figure value`` for each figure."""

    def ask(self, name: str) -> dict[str, Any] | None:
        return self._printed([self._filled(word, "counters.at", name=name) for word in shlex.split(self.at)])

    def whole(self) -> dict[str, Any] | None:
        assert self.broker is not None, "else nobody asks"
        return self._printed([self._filled(word, "counters.broker.at") for word in shlex.split(self.broker.at)])

    def _printed(self, argv: list[str]) -> dict[str, Any]:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=TIMEOUT_S, check=True)
        text = done.stdout.strip()
        if text.startswith("{"):
            return flat(json.loads(text))
        return dict(line.split(None, 1) for line in text.splitlines() if " " in line)


_SAMPLE = re.compile(r"([A-Za-z_:][\w:]*)(\{.*\})?\s+(\S+)(?:\s+\d+)?")
KINDS: dict[str, Callable[[Located, Mapping[str, str], Access], Figures]] = {
    "stomp-statistics": StatisticsFigures,
    "http": HttpFigures,
    "jolokia": HttpFigures,
    "rabbitmq": HttpFigures,
    "prometheus": PrometheusFigures,
    "command": CommandFigures,
}


def _object(url: str) -> dict[str, Any] | None:
    """The one object of a page, its fields by their paths; None: there is no such page. Raises ``OSError``."""
    text = _page(url)
    return None if text is None else flat(json.loads(text))


def _page(url: str) -> str | None:
    """A page's text; None: there is no such page. Raises ``OSError``."""
    page = asked(url)
    if page.status == 404:
        return None
    if page.status >= 400:
        raise OSError(f"{url} answers {page.status}")
    return page.text


def _entries(answer: Any) -> dict[str, Any]:
    """The entries of a map, in the form that XStream gives them, or plain."""
    rows = answer.get("map", answer).get("entry", answer) if isinstance(answer, dict) else {}
    if isinstance(rows, dict):
        return rows
    found: dict[str, Any] = {}
    for row in rows:
        name, *values = row.pop("string") if isinstance(row.get("string"), list) else [row.pop("string", "")]
        found[str(name)] = values[0] if values else next(iter(row.values()), None)
    return found


def _is_number(value: object) -> bool:
    try:
        float(str(value))
    except ValueError:
        return False
    return not isinstance(value, bool)
