"""Where the broker is that an operator asks about: ``--broker`` of ``diagnose`` and ``clocks``.

Rules
* A name (``activemq``, ``reference``) means its default ports on this machine; anything else is a URL.
* User and password come from the URL, or from the environment (``BROKERPROOF_USER``, ``BROKERPROOF_PASSWORD``), which
  other users of the machine cannot see.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote, urlsplit

from brokerproof.conformance.experiment.exits import UsageError

HTTP: Final = ("http", "https")
STOMP: Final = ("stomp",)
OPENWIRE: Final = ("tcp", "openwire")
#: Scheme -> port where none is given. 8161 is where ActiveMQ has its console.
PORTS: Final[Mapping[str, int]] = {
    "http": 8161,
    "https": 443,
    "stomp": 61613,
    "tcp": 61616,
    "openwire": 61616,
}
#: A broker's name -> its management and its messages, where a default installation has them.
MANAGED: Final[Mapping[str, str]] = {
    "activemq": "http://127.0.0.1:8161/api/jolokia/",
    "reference": "http://127.0.0.1:8161/jolokia/",
}
MESSAGING: Final[Mapping[str, str]] = {
    "activemq": "stomp://127.0.0.1:61613",
    "reference": "stomp://127.0.0.1:61613",
}


@dataclass(frozen=True)
class Address:
    """One endpoint. ``shown`` is it without the password."""

    scheme: str
    host: str
    port: int
    path: str
    credentials: tuple[str, str] | None

    @property
    def shown(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}{self.path}"


def address(text: str, names: Mapping[str, str], schemes: tuple[str, ...]) -> Address:
    """The endpoint that ``--broker`` means. Raises ``UsageError``."""
    url = names.get(text, text)
    example = next(iter(names.values()))
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        shown = _without_password(text)
        raise UsageError(f"--broker {shown!r} is not a URL; give {', '.join(names)} or a URL like {example}") from None
    if parts.scheme not in schemes or not parts.hostname:
        raise UsageError(
            f"--broker {_without_password(text)!r} cannot be asked; give {', '.join(names)} or a URL like {example} "
            f"({', '.join(schemes)})"
        )
    user, password = parts.username, parts.password
    if user is None:
        user, password = os.environ.get("BROKERPROOF_USER"), os.environ.get("BROKERPROOF_PASSWORD")
    credentials = None if user is None else (unquote(user), unquote(password or ""))
    port = PORTS[parts.scheme] if port is None else port
    return Address(parts.scheme, parts.hostname, port, parts.path, credentials)


def _without_password(text: str) -> str:
    head, at, tail = text.rpartition("@")
    return f"{head.partition('//')[0]}//…@{tail}" if at else text
