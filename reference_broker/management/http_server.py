"""The socket side of management: HTTP/1.1 by h11 on the broker's own loop.

* One request of a connection is worked on at a time; the next waits in h11's buffer, and the socket is not read.
* Bounds: ``MOST_BODY_BYTES`` for a body (413), h11's own for the head, ``MOST_CONNECTIONS`` at once (more are closed),
  ``IDLE_S`` for a request to arrive (closed). A reader that does not read is closed after that time as well.
* Nothing here blocks the loop: long texts are made in a thread (``site.py``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, cast

import h11

from brokerproof.reference_broker.management.bean_registry import BeanRegistry
from brokerproof.reference_broker.management.broker_view import BrokerView
from brokerproof.reference_broker.management.jolokia import Jolokia, Submit
from brokerproof.reference_broker.management.metrics import Metrics
from brokerproof.reference_broker.management.site import Authenticator, Response, Site

if TYPE_CHECKING:
    from brokerproof.reference_broker.core.instant import Now
    from brokerproof.reference_broker.node import Node

MOST_BODY_BYTES: Final = 1024 * 1024
MOST_CONNECTIONS: Final = 64
IDLE_S: Final = 60.0


def make_site(
    node: Node,
    clocks: Callable[[], Now],
    submit: Submit,
    *,
    connectors: dict[str, str],
    version: str,
    authenticator: Authenticator | None,
    local: bool,
) -> Site:
    """The site of a node; to be called on the running loop."""
    loop = asyncio.get_running_loop()

    def defer(call: Callable[[], None]) -> None:
        loop.call_soon(call)

    def beside(work: Callable[[], bytes], then: Callable[[bytes], None]) -> None:
        future = loop.run_in_executor(None, work)
        future.add_done_callback(lambda done: then(done.result()))

    view = BrokerView(node, clocks, connectors, version)
    return Site(Jolokia(BeanRegistry(view), submit, defer), Metrics(view, defer), beside, authenticator, local=local)


class HttpConnection(asyncio.Protocol):
    """One connection. ``open_ones`` holds the transports of all, for whoever closes the server."""

    def __init__(self, site: Site, open_ones: set[asyncio.Transport]) -> None:
        self._site = site
        self._open_ones = open_ones
        self._http = h11.Connection(h11.SERVER)
        self._request: h11.Request | None = None
        self._body = bytearray()
        self._working = False
        self._transport: asyncio.Transport | None = None
        self._alarm: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Of uvloop's transports not all are subclasses of asyncio's.
        made = cast("asyncio.Transport", transport)
        if len(self._open_ones) >= MOST_CONNECTIONS:
            made.abort()
            return
        self._transport = made
        self._open_ones.add(made)
        self._expect()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - gone is gone
        if self._transport is not None:
            self._open_ones.discard(self._transport)
            self._transport = None
        if self._alarm is not None:
            self._alarm.cancel()

    def data_received(self, data: bytes) -> None:
        self._http.receive_data(data)
        self._read()

    def eof_received(self) -> None:
        self._http.receive_data(b"")
        self._read()

    def _expect(self) -> None:
        """The next request must be there in time, and the last answer read."""
        if self._alarm is not None:
            self._alarm.cancel()
        if self._transport is not None:
            self._alarm = asyncio.get_running_loop().call_later(IDLE_S, self._transport.abort)

    def _read(self) -> None:
        """Go through what has arrived, to the end of one request."""
        try:
            while not self._working:
                event = self._http.next_event()
                if isinstance(event, h11.Request):
                    self._request, self._body = event, bytearray()
                elif isinstance(event, h11.Data):
                    self._body += event.data
                    if len(self._body) > MOST_BODY_BYTES:
                        self._refuse(413, f"the body is longer than {MOST_BODY_BYTES} bytes; send smaller requests")
                        return
                elif isinstance(event, h11.EndOfMessage) and self._request is not None:
                    self._work(self._request)
                elif event is h11.NEED_DATA:
                    self._send_continue()
                    return
                else:
                    self._close()
                    return
        except h11.RemoteProtocolError as error:
            self._refuse(error.error_status_hint, str(error))

    def _send_continue(self) -> None:
        """Some clients ask before they send a long body (curl)."""
        if self._http.they_are_waiting_for_100_continue and self._transport is not None:
            go_on = h11.InformationalResponse(status_code=100, headers=[])
            self._transport.write(self._http.send(go_on) or b"")

    def _work(self, request: h11.Request) -> None:
        self._working = True
        if self._transport is not None:
            self._transport.pause_reading()
        headers = {name.decode("ascii"): value.decode("latin-1") for name, value in request.headers}
        method, target = request.method.decode("ascii"), request.target.decode("latin-1")
        head = method == "HEAD"
        self._site.ask(method, target, headers, bytes(self._body), lambda page: self._answer(page, head=head))

    def _answer(self, page: Response, *, head: bool) -> None:
        self._working = False
        if self._transport is None:
            return
        self._send(page, head=head)
        if self._http.our_state is h11.MUST_CLOSE:
            self._close()
            return
        self._http.start_next_cycle()
        self._transport.resume_reading()
        self._expect()
        # What the peer has sent meanwhile is looked at in a turn of its own: an answer may come at once.
        asyncio.get_running_loop().call_soon(self._read)

    def _send(self, page: Response, *, head: bool = False) -> None:
        assert self._transport is not None
        headers = [*page.headers.items(), ("Content-Length", str(len(page.body)))]
        parts = [h11.Response(status_code=page.status, headers=headers)]
        self._transport.write(b"".join(self._http.send(part) or b"" for part in parts))
        if not head:
            self._transport.write(self._http.send(h11.Data(data=page.body)) or b"")
        self._transport.write(self._http.send(h11.EndOfMessage()) or b"")

    def _refuse(self, status: int, text: str) -> None:
        """What arrived is no request that we serve: say so, hang up."""
        if self._transport is not None and self._http.our_state in {h11.IDLE, h11.SEND_RESPONSE}:
            self._send(Response(status, f"{status}\n\n{text}\n".encode(), Connection="close"))
        self._close()

    def _close(self) -> None:
        if self._transport is not None:
            self._transport.close()
