"""The management site: which path answers what, and to whom. No sockets.

* ``/jolokia`` and ``/api/jolokia``, with or without a last slash: POST only, as the newest releases of ActiveMQ demand,
  and with an ``Origin`` or ``Referer`` whose host is this machine (loopback) or the ``Host`` that was asked for. A page
  of the web that a browser shows can then neither read nor purge anything.
* ``/metrics``: GET, without an Origin, because scrapers send none; one that is sent must be allowed.
* On loopback a ``Host`` that is not loopback is refused: a name that somebody else lets point to 127.0.0.1.
* With users every request needs HTTP Basic. Who may see the site at all is the authenticator's decision.
* Texts are made beside the loop, because they may be long.
"""

from __future__ import annotations

import base64
import binascii
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from brokerproof.reference_broker.management.jolokia import Jolokia, Malformed, failure
from brokerproof.reference_broker.settings.listen_address import is_loopback

if TYPE_CHECKING:
    from brokerproof.reference_broker.management.bean import Json
    from brokerproof.reference_broker.management.metrics import Metrics

JOLOKIA: Final = ("/jolokia", "/api/jolokia")
METRICS: Final = "/metrics"
_PLAIN: Final = "text/plain; charset=utf-8"
_JSON: Final = "application/json; charset=utf-8"
_FORBIDDEN: Final = "java.lang.SecurityException"

#: Does work beside the loop and gives its result to the second, on the loop.
Beside = Callable[[Callable[[], bytes], Callable[[bytes], None]], None]


class Authenticator(ABC):
    """Who decides whether a user may manage the broker."""

    @abstractmethod
    def authenticate(self, user: str, password: str, then: Callable[[bool], None]) -> None:
        """Decide, without blocking, and tell ``then``, at once or later."""


class Response:
    """An answer."""

    __slots__ = ("body", "headers", "status")

    def __init__(self, status: int, body: bytes, kind: str = _PLAIN, **headers: str) -> None:
        self.status = status
        self.body = body
        self.headers = {"Content-Type": kind, "Cache-Control": "no-cache"}
        self.headers |= {name.replace("_", "-"): value for name, value in headers.items()}


Reply = Callable[[Response], None]


class Site:
    """What is to be seen."""

    def __init__(
        self, jolokia: Jolokia, metrics: Metrics, beside: Beside, authenticator: Authenticator | None, *, local: bool
    ) -> None:
        """``local``: it is reached through loopback only. ``authenticator`` None: everybody may."""
        self._jolokia = jolokia
        self._metrics = metrics
        self._beside = beside
        self._authenticator = authenticator
        self._local = local

    def ask(self, method: str, target: str, headers: Mapping[str, str], body: bytes, reply: Reply) -> None:
        """One request; names of headers in lower case. ``reply`` is called once, at once or later."""
        path = target.partition("?")[0]
        if self._local and not is_loopback(_host(headers.get("host", ""))):
            host = headers.get("host", "")
            reply(_refused(f"Host {host!r} is not this machine; ask for 127.0.0.1 or localhost"))
            return
        given = credentials(headers.get("authorization", ""))
        if self._authenticator is None:
            self._serve(method, path, headers, body, reply)
        elif given is None:
            reply(_unknown())
        else:

            def decided(known: bool) -> None:
                if known:
                    self._serve(method, path, headers, body, reply)
                else:
                    reply(_unknown())

            self._authenticator.authenticate(*given, decided)

    def _serve(self, method: str, path: str, headers: Mapping[str, str], body: bytes, reply: Reply) -> None:
        origin = headers.get("origin") or headers.get("referer") or ""
        allowed = _is_allowed(origin, headers.get("host", ""))
        if path == METRICS and method in {"GET", "HEAD"}:
            if origin and not allowed:
                reply(_refused(f"Origin {origin} is not allowed to call this agent"))
            else:
                self._metrics.text(lambda write: self._write(write, self._metrics.content_type, reply))
        elif not path.startswith(JOLOKIA):
            reply(Response(404, f"404 (Not Found)\n\n{path}: ask for /jolokia/ or {METRICS}\n".encode()))
        elif method != "POST":
            text = f"HTTP method {method} is not allowed according to the installed security policy; use POST"
            reply(_refused(text))
        elif not allowed:
            text = f"Origin {origin or 'null'} is not allowed to call this agent; send Origin: http://localhost"
            reply(_refused(text))
        else:
            self._jolokia.ask(body, lambda answer: self._answer(answer, reply))

    def _answer(self, answer: Json | Malformed, reply: Reply) -> None:
        if isinstance(answer, Malformed):
            reply(Response(400, f"400 (Bad Request)\n\n{answer}\n".encode()))
        else:
            self._write(lambda: json.dumps(answer).encode(), _JSON, reply)

    def _write(self, write: Callable[[], bytes], kind: str, reply: Reply) -> None:
        self._beside(write, lambda text: reply(Response(200, text, kind)))


def credentials(header: str) -> tuple[str, str] | None:
    """(user, password) of HTTP Basic; None: there are none."""
    scheme, _, encoded = header.partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        user, colon, password = base64.b64decode(encoded.strip(), validate=True).decode("utf-8").partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return None
    return (user, password) if colon else None


def _refused(text: str) -> Response:
    return Response(403, json.dumps(failure(_FORBIDDEN, text, 403)).encode(), _JSON)


def _unknown() -> Response:
    text = b"401 (Unauthorized)\n\nsend user and password (HTTP Basic)\n"
    return Response(401, text, WWW_Authenticate='Basic realm="brokerproof", charset="UTF-8"')


def _host(header: str) -> str:
    """The host of a Host header or an origin, without its port."""
    try:
        return urlsplit(header if "//" in header else f"//{header}").hostname or ""
    except ValueError:
        return ""


def _is_allowed(origin: str, host: str) -> bool:
    found = _host(origin) if "//" in origin else ""
    return bool(found) and (is_loopback(found) or found == _host(host))
