"""Messages as an operator sees them: what ``browse()`` of a queue's bean answers, in the words of ActiveMQ's open data.

Rules: nothing is taken, loaded or counted; at most the policy entry's ``max_browse_page_size`` messages are shown, from
the oldest. A body that is not UTF-8 is shown as its length and its first bytes.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from brokerproof.reference_broker.core.queue import Queue
from brokerproof.reference_broker.core.selector import BadSelector, parse
from brokerproof.reference_broker.management.bean import Json, OperationRefused

if TYPE_CHECKING:
    from brokerproof.reference_broker.core.message import Message
    from brokerproof.reference_broker.management.broker_view import BrokerView

INVALID_SELECTOR: Final = "javax.jms.InvalidSelectorException"
#: How much of a body that is no text is shown.
PREVIEW_BYTES: Final = 255
_INT_MOST: Final = 2**31
_TABLES: Final = ("Boolean", "Byte", "Double", "Float", "Int", "Long", "Short", "String")


def browse(view: BrokerView, name: str, selector_text: str = "") -> list[Json]:
    """The messages of a queue that match. Raises ``OperationRefused``."""
    queue = view.region.destinations.get(name)
    if not isinstance(queue, Queue):
        return []
    try:
        selector = parse(selector_text)
    except BadSelector as error:
        raise OperationRefused(INVALID_SELECTOR, str(error)) from None
    shown = view.node.broker.browse(name, queue.policy.max_browse_page_size) or []
    return [_message(message) for message in shown if selector is None or selector.selects(message)]


def _message(message: Message) -> Json:
    fields: dict[str, Json] = {
        "JMSCorrelationID": message.correlation_id,
        "JMSDeliveryMode": "PERSISTENT" if message.persistent else "NON-PERSISTENT",
        "JMSDestination": message.destination,
        "JMSExpiration": max(message.shown_expiration_ms(), 0),
        "JMSMessageID": message.message_id,
        "JMSPriority": message.priority,
        "JMSRedelivered": message.redelivery_count > 0,
        "JMSReplyTo": message.reply_to or None,
        "JMSTimestamp": _instant(message.timestamp_ms),
        "JMSType": message.jms_type or None,
        "JMSXGroupID": message.group_id or None,
        "JMSXGroupSeq": message.group_sequence,
        "OriginalDestination": message.original_destination or None,
        "PropertiesText": "{" + ", ".join(f"{name}={value}" for name, value in message.properties.items()) + "}",
    }
    for table in _TABLES:
        fields[f"{table}Properties"] = {
            name: value for name, value in message.properties.items() if _table_of(value) == table
        }
    try:
        fields["Text"] = message.body.decode("utf-8")
    except UnicodeDecodeError:
        fields["BodyLength"] = len(message.body)
        fields["BodyPreview"] = list(message.body[:PREVIEW_BYTES])
    return fields


def _table_of(value: object) -> str:
    if isinstance(value, bool):
        return "Boolean"
    if isinstance(value, int):
        return "Int" if -_INT_MOST <= value < _INT_MOST else "Long"
    return "Double" if isinstance(value, float) else "String"


def _instant(wall_ms: int) -> str:
    try:
        return datetime.fromtimestamp(wall_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (OverflowError, ValueError, OSError):
        return str(wall_ms)
