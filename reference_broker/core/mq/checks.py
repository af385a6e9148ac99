"""What a send with a delay, and any put, is refused for (IBM MQ: "JMS 2.0 delivery delay").

* ``fault`` is a put's view of one queue: inhibited, too long, full. At the send it is asked of the target, as a
  courtesy, and of the staging queue; the refusal names whichever it concerns, or both.
* A delay is refused below command level 800, for a clustered queue that is bound when opened, for retained
  publications, groups and segments, for a life shorter than the delay (by the message or by CAPEXPRY of any object on
  the way), and for a topic that promises more than ALLAVAIL. A life equal to the delay is taken.
* Authority is asked of the real target, at the send and never again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import mypyc_attr

from brokerproof.reference_broker.core.message import TOPIC
from brokerproof.reference_broker.core.mq.definitions import DELAY_LEVEL, STAGING
from brokerproof.reference_broker.core.mq.reasons import refusal
from brokerproof.reference_broker.core.mq.reports import number

if TYPE_CHECKING:
    from brokerproof.reference_broker.core.message import Message
    from brokerproof.reference_broker.core.mq.definitions import Definitions
    from brokerproof.reference_broker.core.mq.mqsc import Value

RETAIN: Final = ("JMS_IBM_Retain", "JMS_IBM_RETAIN")
#: MQMF_SEGMENTATION_ALLOWED, MQMF_MSG_IN_GROUP, _LAST_MSG_IN_GROUP, MQMF_SEGMENT, _LAST_SEGMENT.
MESSAGE_FLAGS: Final = ("JMS_IBM_MQMD_MsgFlags", 0x1F)
#: MQMD fields that IBM's JMS classes let a sender set: 2 and -1 are "as the queue's definition says".
PERSISTENCE: Final = ("JMS_IBM_MQMD_Persistence", 2)
PRIORITY: Final = ("JMS_IBM_MQMD_Priority", -1)
#: The header that a staged message carries beside its body.
HEADER_BYTES: Final = 256
TENTH_MS: Final = 100


@mypyc_attr(allow_interpreted_subclasses=True)
class SendChecks:
    """Policy ``mq_checks``."""

    def fault(self, attributes: dict[str, Value] | None, size_bytes: int, depth: int) -> str:
        """The reason why one queue takes no message now; "" if it does. None: the queue is not there."""
        if attributes is None:
            return "MQRC_UNKNOWN_OBJECT_NAME"
        if attributes["PUT"] == "DISABLED":
            return "MQRC_PUT_INHIBITED"
        if size_bytes > int(attributes["MAXMSGL"]):
            return "MQRC_MSG_TOO_BIG_FOR_Q"
        return "MQRC_Q_FULL" if depth >= int(attributes["MAXDEPTH"]) else ""

    def authority(self, definitions: Definitions, principal: str, message: Message) -> tuple[str, str]:
        """Whether the sender may put to the name that it sends to."""
        name = definitions.path(message.destination)[0][0]
        right = "PUB" if message.destination.startswith(TOPIC) else "PUT"
        if definitions.may(principal, right, name):
            return "", ""
        return refusal(
            "MQRC_NOT_AUTHORIZED", f"{principal!r} has no {right} authority on {name}; SET AUTHREC grants it"
        )

    def entrance(self, definitions: Definitions, principal: str, right: str, name: str) -> bool:
        """Whether somebody may consume from, browse or subscribe to an object."""
        return name != STAGING and definitions.may(principal, right, name)

    def setting(self, level: int, delay_ms: int, life_ms: int) -> tuple[str, str]:
        """What speaks against a producer's delay and time to live (0: for ever), when one of them is set and at the
        send.
        """
        if delay_ms > 0 and level < DELAY_LEVEL:
            text = f"delivery delay needs command level {DELAY_LEVEL}, this is {level}; send without"
            return refusal("MQRC_FUNCTION_NOT_SUPPORTED", text)
        if 0 < life_ms < delay_ms:
            text = (
                f"time to live {life_ms} ms is less than the delay of {delay_ms} ms; lengthen it or shorten the delay"
            )
            return refusal("MQRC_EXPIRY_ERROR", text)
        return "", ""

    def delay(self, definitions: Definitions, message: Message, delay_ms: int, life_ms: int) -> tuple[str, str]:
        """Why a message cannot be delayed, wherever it goes. ``life_ms`` 0: for ever."""
        code, text = self.setting(definitions.number("CMDLEVEL"), delay_ms, life_ms)
        if code:
            return code, text
        for name in RETAIN:
            if number(message, name):
                return refusal("MQRC_OPTIONS_ERROR", f"a retained publication ({name}) cannot be delayed; choose one")
        if message.group_id or number(message, MESSAGE_FLAGS[0]) & MESSAGE_FLAGS[1]:
            return refusal("MQRC_OPTIONS_ERROR", "a message of a group, or a segment, cannot be delayed; choose one")
        return self._path(definitions, message, delay_ms)

    def _path(self, definitions: Definitions, message: Message, delay_ms: int) -> tuple[str, str]:
        for name, attributes in definitions.path(message.destination):
            cap_ms = int(attributes["CAPEXPRY"]) * TENTH_MS
            if 0 < cap_ms < delay_ms:
                text = f"{name} caps the life at {cap_ms} ms (CAPEXPRY), less than the delay of {delay_ms} ms"
                return refusal("MQRC_EXPIRY_ERROR", text)
            if attributes.get("CLUSTER") and attributes["DEFBIND"] != "NOTFIXED":
                text = f"{name} is clustered with DEFBIND({attributes['DEFBIND']}); a delay needs NOTFIXED"
                return refusal("MQRC_OPTIONS_ERROR", text)
            guarantee = "PMSGDLV" if message.persistent else "NPMSGDLV"
            if guarantee in attributes and attributes[guarantee] != "ALLAVAIL":
                text = f"topic {name} has {guarantee}({attributes[guarantee]}); a delay needs ALLAVAIL"
                return refusal("MQRC_PUBLICATION_FAILURE", text)
        return "", ""

    def complete(self, message: Message, first: dict[str, Value]) -> None:
        """Give a message what it leaves to the definition of the queue or alias that it is sent to."""
        if number(message, PERSISTENCE[0]) == PERSISTENCE[1]:
            message.persistent = first["DEFPSIST"] == "YES"
        if number(message, PRIORITY[0]) == PRIORITY[1]:
            message.priority = int(first["DEFPRTY"])

    def room(self, target: str, fault: str, staging_fault: str) -> tuple[str, str]:
        """A refusal for what ails the target, the staging queue, or both; each "" if nothing does."""
        if not fault and not staging_fault:
            return "", ""
        said = [f"{name}: {wrong}" for name, wrong in ((target, fault), (STAGING, staging_fault)) if wrong]
        return refusal(fault or staging_fault, "; ".join(said) + "; send later, or ALTER the queue")
