"""STOMP as an application uses it. Nothing here ever looks at an expiration; ``auto`` is the broker's doing."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

import msgspec
from mypy_extensions import mypyc_attr

from brokerproof.conformance.agents.library import Library, RefusedError, Stamps
from brokerproof.conformance.agents.message import LAST_MS, OWN_TEMPORARY, make_body, properties_of
from brokerproof.conformance.experiment import operations as ops
from brokerproof.conformance.experiment import traits
from brokerproof.reference_broker.session.notice import Delivered
from brokerproof.reference_broker.stomp.frames import V12, StompProtocolError

if TYPE_CHECKING:
    from brokerproof.reference_broker.core.instant import Now
    from brokerproof.reference_broker.session.notice import Notice
    from brokerproof.reference_broker.stomp.client import ClientSession

_ACKS: Final = {"auto": "auto", "client": "client", "individual": "client-individual"}


def said(**options: Any) -> dict[str, Any]:
    """What is asked for; for what is not, the library's own defaults are relied upon."""
    return {name: value for name, value in options.items() if value}


@mypyc_attr(allow_interpreted_subclasses=True)
class StompLibrary(Library):
    """See the module's header."""

    def __init__(self, session: ClientSession, *, lacks: frozenset[str] = frozenset()) -> None:
        super().__init__(session)
        self.lacks = lacks
        self.traits = msgspec.structs.replace(traits.STOMP, beats_twice=True, anonymous="client_id" in lacks)
        self._stomp = session
        self._inboxes: dict[str, deque[tuple[Delivered, str]]] = {}
        #: Consumers that have been asked for on this connection; what is on its way to one that left still comes.
        self._subscribed: set[str] = set()
        #: (consumer, message) -> the deliveries that its application took and that an acknowledgement may name, oldest
        #: first: of a message with several copies each is named once; the last one stays, for a rollback may undo that.
        self._taken: dict[tuple[str, str], list[Delivered]] = {}
        self._named: set[tuple[str, str]] = set()

    @property
    def ends_after_error(self) -> bool:
        return self._stomp.version == V12

    def send(self, operation: ops.Send, now: Now) -> tuple[str, Stamps]:
        ttl_ms = operation.ttl_ms
        expiration_ms = LAST_MS if operation.endless else now.wall_ms + ttl_ms if ttl_ms else 0
        timestamp_ms = {"client": now.wall_ms, "none": None, "zero": 0}[operation.stamp]
        if "timestamp" in self.lacks:
            timestamp_ms = None
        body = make_body(operation.message, operation.size)
        receipt = self._stomp.send(
            operation.dest,
            body,
            timestamp_ms=timestamp_ms,
            priority=operation.priority,
            transaction=operation.tx,
            group=operation.group,
            reply_to=OWN_TEMPORARY if operation.reply else "",
            correlation_id=str(operation.headers.get("correlation-id", "")),
            jms_type=str(operation.headers.get("type", "")),
            properties=properties_of(operation) or None,
            receipt=True,
            **said(expiration_ms=expiration_ms, persistent=operation.persistent, delay_ms=operation.delay_ms),
        )
        return receipt, {"expiration_ms": expiration_ms, "timestamp_ms": timestamp_ms, "body": crc32(body)}

    def subscribe(self, operation: ops.Subscribe) -> str:
        self._inboxes[operation.consumer] = deque()
        self._subscribed.add(operation.consumer)
        return self._stomp.subscribe(
            operation.consumer,
            operation.dest,
            ack=_ACKS[operation.ack],
            prefetch=operation.prefetch,
            selector=operation.selector,
            durable=operation.durable,
            receipt=True,
            **({} if operation.dispatch == "async" else {"dispatch_async": False}),
            **said(
                no_local=operation.no_local,
                exclusive=operation.exclusive,
                priority=operation.priority,
                browser=operation.browser,
            ),
        )

    def settle(self, operation: ops.Ack | ops.Nack | ops.Acknowledge) -> str:
        if isinstance(operation, ops.Acknowledge):
            raise RefusedError("unsupported", f"STOMP knows no acknowledgement of type {operation.type}")
        keys = [(operation.consumer, message) for message in operation.messages]
        if not keys or not all(self._taken.get(key) for key in keys):
            text = f"not all of {operation.messages} were delivered to {operation.consumer!r}"
            raise RefusedError("unknown-message", text)
        ranged = isinstance(operation, ops.Ack) and operation.mode == "cumulative"
        known = [self._next(key, ranged=ranged) for key in keys]
        if isinstance(operation, ops.Nack):
            for delivery in known[:-1]:
                self._stomp.nack(delivery, transaction=operation.tx)
            return self._stomp.nack(known[-1], transaction=operation.tx, receipt=True)
        if operation.mode == "individual":
            for delivery in known[:-1]:
                self._stomp.ack(delivery, transaction=operation.tx)
        return self._stomp.ack(known[-1], transaction=operation.tx, receipt=True)

    def _next(self, key: tuple[str, str], *, ranged: bool) -> Delivered:
        """The delivery that the next acknowledgement of a message names; a range ends with the last."""
        taken = self._taken[key]
        if ranged:
            del taken[:-1]
        if len(taken) > 1:
            return taken.pop(0)
        self._named.add(key)
        return taken[0]

    def detach(self, consumer: str) -> None:
        self._inboxes.pop(consumer, None)
        self._stomp.unsubscribe(consumer)

    def farewell(self) -> None:
        self._stomp.disconnect()

    def receive(self, frame: object, now: Now) -> list[Notice]:
        found = self._stomp.receive(frame, now.mono_ns)
        for one in found:
            if isinstance(one, Delivered) and one.consumer not in self._subscribed:
                raise StompProtocolError(f"a MESSAGE came for the subscription {one.consumer!r}, which was never made")
        return found

    def arrived(self, item: Delivered, message: str, now: Now) -> None:  # noqa: ARG002 - it has no clock to look at
        if item.consumer in self._inboxes and item.consumer not in self.browsers:
            self._inboxes[item.consumer].append((item, message))
            if (item.consumer, message) in self._named:  # the broker may not know the one before any more
                self._takes(item.consumer, message, item)

    def _takes(self, consumer: str, message: str, item: Delivered) -> None:
        """An acknowledgement of this message may name that delivery from now on."""
        taken = self._taken.setdefault((consumer, message), [])
        if (consumer, message) in self._named and item not in taken:
            self._named.discard((consumer, message))
            taken.clear()
        if item not in taken:
            taken.append(item)

    def take(self, consumer: str, now: Now) -> tuple[str | None, list[Notice]]:  # noqa: ARG002
        inbox = self._inboxes.get(consumer)
        if not inbox:
            return None, []
        item, message = inbox.popleft()
        self._takes(consumer, message, item)
        return message, []

    def is_empty(self, consumer: str) -> bool:
        return not self._inboxes.get(consumer)
