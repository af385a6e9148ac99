"""Messages: what a producer wrote, what the core keeps of it, and what a consumer reads.

* The body and the properties pass through untouched, compressed or not: ``content`` is the body, and its kind with the
  compression is ``form``. A null content is an empty body, which is the same to every reader.
* Text that another protocol sent (``TEXT``) becomes a TextMessage, octets a BytesMessage.
* Fields that the core has no name for (user id, text view, blob, droppable …) are packed into ``extra`` if one
  of them says something, and come back from there.
* The scheduler's properties become the message's delay and are gone, as in ActiveMQ. A delay that is not a whole number
  is refused, and so is the rest of the scheduler (period, repeat, cron): it is not offered.
* A consumer reads the broker's numbers: arrival as ``brokerSequenceId``, redeliveries from the dispatch.
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from brokerproof.reference_broker.core.message import OCTETS, TEXT, Message
from brokerproof.reference_broker.openwire.commands import MessageDispatch, ProducerMessage, as_dispatch
from brokerproof.reference_broker.openwire.translation.advisories import data_structure
from brokerproof.reference_broker.openwire.translation.bodies import COMPRESSED, text_content
from brokerproof.reference_broker.openwire.translation.names import (
    Destinations,
    data_of,
    destination_name,
    message_data,
    message_text,
    number,
    producer_text,
    text,
    transaction_text,
)
from brokerproof.reference_broker.openwire.wire import ids
from brokerproof.reference_broker.openwire.wire import messages as kinds
from brokerproof.reference_broker.openwire.wire.codec import Codec
from brokerproof.reference_broker.openwire.wire.kinds import VERSION_MAX, Data, Kind
from brokerproof.reference_broker.openwire.wire.packed import PackedProperties
from brokerproof.reference_broker.openwire.wire.primitives import Long, encode_map

if TYPE_CHECKING:
    from brokerproof.reference_broker.core.message import Property

_KINDS: Final[dict[int, Kind]] = {kind.number: kind for kind in kinds.KINDS}
_SCHEDULER: Final = b"AMQ_SCHEDULED_"
_DELAY: Final = "AMQ_SCHEDULED_DELAY"
_REPEATING: Final = ("AMQ_SCHEDULED_PERIOD", "AMQ_SCHEDULED_REPEAT", "AMQ_SCHEDULED_CRON")
#: What the core calls the first message of a group for its consumer; on the wire it is a field.
FIRST: Final = "JMSXGroupFirstForConsumer"

_PLACE: Final = kinds.BLOB_MESSAGE.index
#: Where those fields stand that only the consumer understands.
_EXTRA: Final = (
    _PLACE["originalTransactionId"],
    _PLACE["dataStructure"],
    _PLACE["targetConsumerId"],
    _PLACE["userID"],
    _PLACE["recievedByDFBridge"],
    _PLACE["droppable"],
    _PLACE["cluster"],
    _PLACE["remoteBlobUrl"],
    _PLACE["mimeType"],
    _PLACE["deletedByBroker"],
)
#: Of those the ones that every message has, to be looked at together; and what they say if they say nothing.
_common: Final = itemgetter(*(place for place in _EXTRA if place < len(kinds.FIELDS)))
_NOTHING: Final = _common(kinds.BLOB_MESSAGE.make().values)
_EXTRA_CODEC: Final = Codec(VERSION_MAX)

# Where a message's fields stand.
_PRODUCER: Final = _PLACE["producerId"]
_DESTINATION: Final = _PLACE["destination"]
_TRANSACTION: Final = _PLACE["transactionId"]
_ORIGINAL: Final = _PLACE["originalDestination"]
_MESSAGE_ID: Final = _PLACE["messageId"]
_GROUP_ID: Final = _PLACE["groupID"]
_GROUP_SEQUENCE: Final = _PLACE["groupSequence"]
_CORRELATION_ID: Final = _PLACE["correlationId"]
_PERSISTENT: Final = _PLACE["persistent"]
_EXPIRATION: Final = _PLACE["expiration"]
_PRIORITY: Final = _PLACE["priority"]
_REPLY_TO: Final = _PLACE["replyTo"]
_TIMESTAMP: Final = _PLACE["timestamp"]
_TYPE: Final = _PLACE["type"]
_CONTENT: Final = _PLACE["content"]
_PROPERTIES: Final = _PLACE["marshalledProperties"]
_STRUCTURE: Final = _PLACE["dataStructure"]
_COMPRESSED: Final = _PLACE["compressed"]
_REDELIVERIES: Final = _PLACE["redeliveryCounter"]
_BROKER_PATH: Final = _PLACE["brokerPath"]
_FIRST: Final = _PLACE["jMSXGroupFirstForConsumer"]


# -- from a producer


def read_message(data: Data) -> ProducerMessage:
    """A message on its way to the broker. Raises ``WireError``."""
    values = data.values
    message = core_message(data)
    command = ProducerMessage(message, transaction=transaction_text(values[_TRANSACTION]))
    command.producer_id = producer_text(values[_PRODUCER])
    command.network = bool(message.path)
    message_id = values[_MESSAGE_ID]
    if isinstance(message_id, Data):
        command.number = number(message_id["producerSequenceId"])
    return command


def core_message(data: Data) -> Message:
    """What the core keeps of it."""
    values: list[Any] = data.values  # of the types that the table says
    properties = values[_PROPERTIES]
    packed = PackedProperties(properties) if properties is not None and len(properties) > 4 else None
    kind = data.kind
    form = kind.number
    if values[_COMPRESSED]:
        form += COMPRESSED
    elif kind is kinds.BYTES_MESSAGE:
        form = OCTETS
    message = Message(
        message_text(values[_MESSAGE_ID]),
        destination_name(values[_DESTINATION]),
        values[_CONTENT] or b"",
        timestamp_ms=values[_TIMESTAMP],
        expiration_ms=values[_EXPIRATION],
        persistent=values[_PERSISTENT],
        priority=values[_PRIORITY],
        correlation_id=values[_CORRELATION_ID],
        reply_to=destination_name(values[_REPLY_TO]),
        jms_type=values[_TYPE] or "",
        group_id=values[_GROUP_ID] or "",
        group_sequence=values[_GROUP_SEQUENCE],
        form=form,
        packed=packed,
        extra=_extra(data),
        path=_path(values[_BROKER_PATH]) if values[_BROKER_PATH] else (),
    )
    if packed is not None and _SCHEDULER in packed.data:
        _schedule(message)
    return message


def _path(brokers: list[object]) -> tuple[str, ...]:
    return tuple(text(data_of(broker, ids.BROKER_ID)["value"]) for broker in brokers)


def _schedule(message: Message) -> None:
    properties = message.properties
    for name in _REPEATING:
        if name in properties:
            raise RefusedMessage(f"{name} is not offered; send one message per delivery")
    if _DELAY in properties:
        delay_ms = properties[_DELAY]
        if isinstance(delay_ms, str) and delay_ms.isascii() and delay_ms.isdigit():
            delay_ms = int(delay_ms)
        if not isinstance(delay_ms, int) or isinstance(delay_ms, bool) or delay_ms < 0:
            raise RefusedMessage(f"{_DELAY} is {delay_ms!r}; set a whole number of milliseconds, 0 or more")
        message.delay_ms = int(delay_ms)
        del properties[_DELAY]


class RefusedMessage(ValueError):
    """A message that is well written and cannot be taken. The text shows the value and the remedy."""


def _extra(data: Data) -> bytes:
    values = data.values
    size = len(values)
    message_id = values[_MESSAGE_ID]
    view = message_id.values[0] if isinstance(message_id, Data) else None
    if view is None and data.kind is not kinds.BLOB_MESSAGE and _common(values) == _NOTHING:
        return b""
    kept = kinds.BLOB_MESSAGE.make()
    for place in _EXTRA:
        if place < size:
            kept.values[place] = values[place]
    kept["correlationId"] = view
    return _EXTRA_CODEC.encode(kept)[4:]


# -- to a consumer


def _kind_and_content(dispatch: MessageDispatch) -> tuple[Kind, bytes | None]:
    form, body = dispatch.form, dispatch.body
    if dispatch.about is not None:
        return kinds.MESSAGE, None
    if form == TEXT:
        return kinds.TEXT_MESSAGE, text_content(body)
    return _KINDS.get(form % COMPRESSED, kinds.BYTES_MESSAGE), body if form == OCTETS else body or None


class Renderer:
    """Messages as one connection writes them; it remembers the structures that they have in common."""

    __slots__ = ("destinations", "producers")

    def __init__(self) -> None:
        self.destinations = Destinations()
        self.producers: dict[str, Data] = {}

    def message(self, dispatch: MessageDispatch) -> Data:
        """The structure of a dispatched message."""
        form = dispatch.form
        kind, body = _kind_and_content(dispatch)
        data = kind.make()
        values = data.values
        view = self._restore(data, dispatch.extra) if dispatch.extra else None
        values[_MESSAGE_ID] = message_id = message_data(dispatch.message_id, dispatch.sequence, view, self.producers)
        values[_PRODUCER] = message_id.values[1]
        values[_DESTINATION] = self.destinations.data(dispatch.destination)
        if dispatch.original_destination:
            values[_ORIGINAL] = self.destinations.data(dispatch.original_destination)
        values[_CONTENT] = body
        values[_COMPRESSED] = form >= COMPRESSED
        values[_PERSISTENT] = dispatch.persistent
        values[_EXPIRATION] = max(dispatch.expiration_ms, 0)
        values[_TIMESTAMP] = dispatch.timestamp_ms
        values[_PRIORITY] = dispatch.priority
        values[_REDELIVERIES] = dispatch.redelivery_count
        if dispatch.path:
            values[_BROKER_PATH] = [Data(ids.BROKER_ID, [broker]) for broker in dispatch.path]
        if dispatch.correlation_id is not None:
            values[_CORRELATION_ID] = dispatch.correlation_id
        if dispatch.reply_to:
            values[_REPLY_TO] = self.destinations.data(dispatch.reply_to)
        if dispatch.jms_type:
            values[_TYPE] = dispatch.jms_type
        if dispatch.group_id:
            values[_GROUP_ID] = dispatch.group_id
            values[_GROUP_SEQUENCE] = dispatch.group_sequence
        if dispatch.about is not None:
            values[_STRUCTURE] = data_structure(dispatch.about, self.original)
        if dispatch.opened is not None:
            self._write_properties(values, dispatch, dispatch.opened)
        elif dispatch.packed is not None:
            values[_PROPERTIES] = dispatch.packed.data
        return data

    def original(self, message: Message) -> Data:
        """The structure of a message as its producer sent it."""
        return self.message(written_message(message))

    def _write_properties(
        self, values: list[object], dispatch: MessageDispatch, properties: dict[str, Property]
    ) -> None:
        if FIRST in properties:
            properties = {name: value for name, value in properties.items() if name != FIRST}
            values[_FIRST] = True
        if isinstance(dispatch.packed, PackedProperties):
            values[_PROPERTIES] = dispatch.packed.repacked(properties)
        elif properties:
            values[_PROPERTIES] = encode_map(dict(properties))

    def _restore(self, data: Data, extra: bytes) -> str | None:
        kept = _EXTRA_CODEC.decode(extra)
        if kept is None:
            return None
        size = len(data.values)
        for place in _EXTRA:
            if place < size:
                data.values[place] = kept.values[place]
        view = kept["correlationId"]
        return view if isinstance(view, str) else None


def written_message(message: Message) -> MessageDispatch:
    """A producer's message, as the renderer takes it."""
    written = as_dispatch(message)
    if message.delay_ms:
        written.opened = message.properties | {_DELAY: Long(message.delay_ms)}
    return written
