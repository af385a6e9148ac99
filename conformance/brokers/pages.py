"""One request to a broker's own web pages; credentials may be in the address."""

from __future__ import annotations

import urllib.error
import urllib.request
from typing import Any, NamedTuple
from urllib.parse import urlsplit

TIMEOUT_S = 5.0


class Page(NamedTuple):
    """What was answered: the status of HTTP, and the text."""

    status: int
    text: str


def asked(url: str, method: str = "GET") -> Page:
    """The answer, refusals included. Raises ``OSError`` if nobody answers."""
    parts = urlsplit(url)
    host = f"{parts.hostname}:{parts.port}" if parts.port else str(parts.hostname)
    address = parts._replace(netloc=host).geturl()
    body = b"" if method == "POST" else None
    request = urllib.request.Request(address, data=body, method=method)  # noqa: S310 - the profile names the page
    handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({})]
    if parts.username:
        book = urllib.request.HTTPPasswordMgrWithPriorAuth()
        book.add_password(None, f"{parts.scheme}://{host}", parts.username, parts.password or "", is_authenticated=True)
        handlers.append(urllib.request.HTTPBasicAuthHandler(book))
    try:
        with urllib.request.build_opener(*handlers).open(request, timeout=TIMEOUT_S) as answer:
            return Page(answer.status, answer.read().decode(errors="replace"))
    except urllib.error.HTTPError as error:
        return Page(error.code, error.read().decode(errors="replace"))


def flat(tree: Any, before: str = "") -> dict[str, Any]:
    """A JSON object with the names of its leaves in full."""
    if not isinstance(tree, dict):
        return {before: tree}
    leaves: dict[str, Any] = {}
    for key, value in tree.items():
        leaves |= flat(value, f"{before}.{key}" if before else key)
    return leaves
