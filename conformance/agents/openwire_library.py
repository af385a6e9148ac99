"""JMS as an application uses it, over OpenWire: the library behaves as ActiveMQ's Java client does.

It discards what its own clock calls expired, and says so. ``auto`` acknowledgement happens when the application takes a
message; a transaction holds all that the connection sends and settles.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from zlib import crc32

import msgspec
from mypy_extensions import mypyc_attr

from brokerproof.conformance.agents.library import Library, RefusedError, Stamps
from brokerproof.conformance.agents.message import LAST_MS, OWN_TEMPORARY, make_body, number_in, properties_of
from brokerproof.conformance.experiment import operations as ops
from brokerproof.conformance.experiment import traits
from brokerproof.reference_broker.openwire.requests import DELIVERY_TIME

if TYPE_CHECKING:
    from brokerproof.reference_broker.core.instant import Now
    from brokerproof.reference_broker.core.message import Message
    from brokerproof.reference_broker.openwire.client import ClientSession
    from brokerproof.reference_broker.session.notice import Delivered, Discarded, Notice


@mypyc_attr(allow_interpreted_subclasses=True)
class OpenWireLibrary(Library):
    """See the module's header. It has said hello."""

    def __init__(self, session: ClientSession, *, expiry_check: bool) -> None:
        super().__init__(session)
        self.traits = msgspec.structs.replace(traits.JMS, checks_expiry=expiry_check)
        self._jms = session
        self.hello = session.connect()
        #: Broker's message id -> the suite's; consumer -> the suite's id -> ack id of what its application has taken.
        self._names: dict[str, str] = {}
        self._taken: dict[str, dict[str, str]] = {}
        #: Consumers without a prefetch -> whether the broker owes them an answer.
        self._pulling: dict[str, bool] = {}
        self._sent_last: tuple[Message, ClientSession, bool] | None = None

    def _named(self, destination: str) -> str:
        """A destination by the name that the broker knows."""
        return self._jms.own_queue() if destination == OWN_TEMPORARY else destination

    def send(self, operation: ops.Send, now: Now) -> tuple[str, Stamps]:
        body = make_body(operation.message, operation.size)
        properties = properties_of(operation)
        deliver_at_ms = now.wall_ms + operation.deliver_in_ms if operation.deliver_in_ms else None
        preset_ms = now.wall_ms + operation.preset_in_ms if operation.preset_in_ms else None
        if preset_ms is not None:
            properties[DELIVERY_TIME] = preset_ms
        sent = self._jms.send(
            self._named(operation.dest),
            body,
            now,
            ttl_ms=LAST_MS - now.wall_ms if operation.endless else operation.ttl_ms,
            persistent=operation.persistent,
            priority=operation.priority,
            delay_ms=operation.delay_ms,
            deliver_at_ms=deliver_at_ms or 0,
            disable_timestamp=operation.stamp == "zero",
            transaction=operation.tx,
            group=operation.group,
            properties=properties or None,
            network=operation.network,
            reply_to=self._jms.own_queue() if operation.reply else "",
            correlation_id=str(operation.headers.get("correlation-id", "")),
            jms_type=str(operation.headers.get("type", "")),
            numbered=operation.again,
            receipt=True,
        )
        if operation.again:
            # The broker changes what it has got.
            self._sent_last = sent.copy_to(sent.destination), self._jms, operation.network
        stamps: Stamps = {
            "expiration_ms": sent.expiration_ms,
            "timestamp_ms": sent.timestamp_ms,
            "body": crc32(body),
            "deliver_at_ms": deliver_at_ms,
            "preset_ms": preset_ms,
            "delivery_time_ms": number_in(sent.properties, DELIVERY_TIME),
        }
        return self._jms.last_command, stamps

    def again_after(self, before: Library) -> str:
        assert isinstance(before, OpenWireLibrary)
        assert before._sent_last is not None
        return self._jms.repeat(*before._sent_last)

    def subscribe(self, operation: ops.Subscribe) -> str:
        consumer = operation.consumer
        self._taken[consumer] = {}
        if operation.prefetch == 0 and not operation.browser:
            self._pulling[consumer] = False
        return self._jms.subscribe(
            consumer,
            self._named(operation.dest),
            operation.prefetch,
            dispatch_async=operation.dispatch == "async",
            ack=operation.ack,
            selector=operation.selector,
            durable=operation.durable,
            no_local=operation.no_local,
            exclusive=operation.exclusive,
            priority=operation.priority,
            browser=operation.browser,
            receipt=True,
        )

    def settle(self, operation: ops.Ack | ops.Nack | ops.Acknowledge) -> str:
        consumer, taken = operation.consumer, self._taken.get(operation.consumer, {})
        if not operation.messages or any(message not in taken for message in operation.messages):
            text = f"not all of {operation.messages} were taken by {consumer!r}"
            raise RefusedError("unknown-message", text)
        ids = [taken[message] for message in operation.messages]
        last = ids[-1]
        settled = operation.messages
        if isinstance(operation, ops.Nack):
            for ack_id in ids:
                self._jms.poison(consumer, ack_id, receipt=ack_id is last)
        elif isinstance(operation, ops.Acknowledge):
            settled = operation.settled()
            kind, ends = ops.ACK_TYPES.index(operation.type), operation.ends(ids)
            self._jms.acknowledge_as(consumer, kind, *ends, ids[: len(settled)], count=len(ids), receipt=True)
        elif operation.mode == "individual":
            for ack_id in ids:
                self._jms.acknowledge_one(consumer, ack_id, transaction=operation.tx, receipt=ack_id is last)
        else:
            settled = list(taken)
            self._jms.acknowledge(consumer, transaction=operation.tx, receipt=True)
        for message in settled:
            taken.pop(message, None)
        return self._jms.last_command

    def detach(self, consumer: str) -> None:
        self._taken.pop(consumer, None)
        self._pulling.pop(consumer, None)
        self._jms.close_consumer(consumer)

    def farewell(self) -> None:
        self._jms.disconnect()

    def receive(self, frame: object, now: Now) -> list[Notice]:
        return self._jms.receive(frame, now)

    def arrived(self, item: Delivered, message: str, now: Now) -> None:
        self._names[item.message_id] = message
        self.found_nothing(item.consumer)
        if item.consumer in self.browsers:
            self._jms.take(item.consumer, now)

    def take(self, consumer: str, now: Now) -> tuple[str | None, list[Notice]]:
        if consumer not in self._taken:
            return None, []
        item, notices = self._jms.take(consumer, now)
        if item is None:
            return None, notices
        message = self._names[item.message_id]
        self._taken[consumer][message] = item.ack_id
        return message, notices

    def is_empty(self, consumer: str) -> bool:
        return consumer in self._taken and not self._jms.waiting(consumer)

    def pull(self, consumer: str, deadline_ms: int, now: Now) -> None:
        if self._pulling.get(consumer) is False and not self._jms.waiting(consumer):
            self._pulling[consumer] = True
            self._jms.pull(consumer, deadline_ms or -1, now)

    def pulls(self, consumer: str) -> bool:
        return consumer in self._pulling

    def is_owed(self, consumer: str) -> bool:
        return self._pulling.get(consumer, False)

    def found_nothing(self, consumer: str) -> None:
        if consumer in self._pulling:
            self._pulling[consumer] = False

    def discarded(self, item: Discarded) -> str:
        if item.consumer in self._pulling:
            self._pulling[item.consumer] = True  # the library asks again by itself
        return self._names.get(item.message_id, "")
