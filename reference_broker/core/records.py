"""What a journal keeps: the facts from which a broker is built again after it died.

Records are plain data: a storage knows no broker and the broker no storage. The core emits them as ``Journalled``
effects (only if ``persistent`` is configured) and takes them back in ``Broker.restore``.

* Only what must survive is recorded: persistent messages, durable subscriptions, and what ends them. Counters, windows,
  non-persistent messages, open transactions and in-flight states are not; a restart begins with every message waiting.
* A message on a topic is recorded once, with the keys of the durable subscriptions that owe an acknowledgement.
* A name (destination, message id) identifies a message: no destination holds two with one id.
* Replaying a journal twice gives the same as replaying it once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import mypyc_attr

if TYPE_CHECKING:
    from brokerproof.reference_broker.core.message import Message


@mypyc_attr(allow_interpreted_subclasses=True)
class Record:
    """Base of all records."""

    __slots__ = ()


class MessageAdded(Record):
    """A persistent message was accepted. ``order`` is its place on the destination. ``accepted_wall_ms`` is the
    broker's wall clock at acceptance, ``due_wall_ms`` the wall time of its delivery (0: at once). ``holders``:
    durable subscriptions that get it (topics only).
    """

    __slots__ = ("accepted_wall_ms", "due_wall_ms", "holders", "message", "order")

    def __init__(
        self, message: Message, order: int, accepted_wall_ms: int, due_wall_ms: int, holders: tuple[str, ...] = ()
    ) -> None:
        self.message = message
        self.order = order
        self.accepted_wall_ms = accepted_wall_ms
        self.due_wall_ms = due_wall_ms
        self.holders = holders


class MessageRemoved(Record):
    """A message has come to its end: for ``holder`` (a durable subscription) or, "" , altogether."""

    __slots__ = ("destination", "holder", "message_id")

    def __init__(self, destination: str, message_id: str, holder: str = "") -> None:
        self.destination = destination
        self.message_id = message_id
        self.holder = holder


class DestinationRemoved(Record):
    """A destination is gone, with everything that was on it."""

    __slots__ = ("destination",)

    def __init__(self, destination: str) -> None:
        self.destination = destination


class SubscriptionAdded(Record):
    """A durable subscription exists, or exists now with these attributes. ``key`` is ``client id:name``;
    ``destination`` is as its client wrote it.
    """

    __slots__ = ("client_id", "destination", "key", "no_local", "selector")

    def __init__(self, key: str, client_id: str, destination: str, selector: str, no_local: bool) -> None:
        self.key = key
        self.client_id = client_id
        self.destination = destination
        self.selector = selector
        self.no_local = no_local


class SubscriptionRemoved(Record):
    """A durable subscription has ended."""

    __slots__ = ("key",)

    def __init__(self, key: str) -> None:
        self.key = key
