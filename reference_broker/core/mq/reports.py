"""Report messages: what a sender may ask to be told, and what it is told.

* A message asks by properties of IBM's JMS classes (``JMS_IBM_Report_Exception`` …) or their MQRO numbers; the report
  goes to its JMSReplyTo, its correlation id is the message's id, its persistence and priority the message's. With
  ``JMS_IBM_Report_Pass_Msg_ID`` it has the message's own id, with ``…_Pass_Correl_ID`` its correlation id.
* It shows nothing of the body, its first 100 bytes (WITH_DATA), or all of it (WITH_FULL_DATA): of the message as it was
  sent, without the header of the staging queue.
* Exception and expiration reports are made where a message waits; confirmations (COA, COD) only at its real target;
  PAN, NAN and ACTIVITY are for applications, and passed on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import mypyc_attr

from brokerproof.reference_broker.core.message import Message, Property

if TYPE_CHECKING:
    from brokerproof.reference_broker.core.instant import Now

#: kind -> (property, MQRO without data, WITH_DATA, WITH_FULL_DATA).
KINDS: Final[dict[str, tuple[str, int, int, int]]] = {
    "exception": ("JMS_IBM_Report_Exception", 0x01000000, 0x03000000, 0x07000000),
    "expiration": ("JMS_IBM_Report_Expiration", 0x00200000, 0x00600000, 0x00E00000),
    "coa": ("JMS_IBM_Report_COA", 0x100, 0x300, 0x700),
    "cod": ("JMS_IBM_Report_COD", 0x800, 0x1800, 0x3800),
}
#: MQRO_PASS_MSG_ID, MQRO_PASS_CORREL_ID.
OWN_ID: Final = ("JMS_IBM_Report_Pass_Msg_ID", 0x80)
OWN_CORRELATION: Final = ("JMS_IBM_Report_Pass_Correl_ID", 0x40)
DISCARD: Final = ("JMS_IBM_Report_Discard_Msg", 0x08000000)
DATA_BYTES: Final = 100
#: MQMT_REPORT, and the feedback of reports that have no reason code.
REPORT: Final = 4
FEEDBACK: Final = {"expiration": 258, "coa": 259, "cod": 260}


def number(message: Message, name: str) -> int:
    """A property that is a number, also as STOMP's text; 0: it is not there, or something else."""
    value = message.properties.get(name, 0)
    if isinstance(value, str):
        return int(value) if value.isascii() and value.lstrip("-").isdigit() else 0
    return int(value)


def discards(message: Message) -> bool:
    """Whether the message is to be thrown away when it cannot be put; else it is a dead letter."""
    return bool(number(message, DISCARD[0]) & DISCARD[1])


@mypyc_attr(allow_interpreted_subclasses=True)
class Reports:
    """Policy ``mq_reports``."""

    def wanted(self, message: Message, kind: str) -> int | None:
        """How many bytes of the body a report of that kind shows; None: none was asked for."""
        name, plain, some, full = KINDS[kind]
        asked = number(message, name) & full
        if asked == full:
            return len(message.body)
        if asked == some:
            return min(DATA_BYTES, len(message.body))
        return 0 if asked & plain == plain else None

    def make(self, message: Message, kind: str, feedback: int, now: Now) -> Message | None:
        """The report; None if nobody asked for it."""
        shown = self.wanted(message, kind)
        if shown is None:
            return None
        passed = number(message, OWN_CORRELATION[0]) & OWN_CORRELATION[1] > 0
        told: dict[str, Property] = {"JMS_IBM_MsgType": REPORT, "JMS_IBM_Feedback": feedback or FEEDBACK[kind]}
        return Message(
            message.message_id if number(message, OWN_ID[0]) & OWN_ID[1] else f"{message.message_id}-{kind}",
            message.reply_to,
            message.body[:shown],
            timestamp_ms=now.wall_ms,
            persistent=message.persistent,
            priority=message.priority,
            properties=told,
            correlation_id=message.correlation_id if passed else message.message_id,
            form=message.form,
        )
