"""How the suite's words are said on a wire, on a broker with conventions of its own.

STOMP's defaults are ActiveMQ's, the others' those of the protocol's own documents. A word that a protocol has no choice
about (a priority, a group) is not in its table.
"""

from __future__ import annotations

import re
from typing import Final, Literal, NamedTuple, Self

import msgspec

from brokerproof.conformance.experiment.destinations import own_dead_letters_of

#: The property that says how long a message lives by the broker's clock, for brokers that know it (docs/agents.md).
LIFE: Final = "brokerproof_ttl_ms"
#: The suite's word -> the header that ActiveMQ has for it. ``life`` is a time to live by the broker's clock.
HEADERS: dict[str, str] = {
    "expiration": "expires",
    "life": LIFE,
    "timestamp": "timestamp",
    "delay": "AMQ_SCHEDULED_DELAY",
    "persistent": "persistent",
    "priority": "priority",
    "group": "JMSXGroupID",
    "redelivered": "redelivered",
    "delivery_count": "redeliveryCounter",
    "original_destination": "original-destination",
    "prefetch": "activemq.prefetchSize",
    "client_id": "client-id",
    "durable": "activemq.subscriptionName",
    "selector": "selector",
    "exclusive": "activemq.exclusive",
    "no_local": "activemq.noLocal",
    "consumer_priority": "activemq.priority",
    "dispatch_async": "activemq.dispatchAsync",
    "browser": "browser",
    "browser_end": "browser: end",
}
#: The word of JMS 2.0 for a delay; any other is the name of a property with milliseconds.
API = "setDeliveryDelay"
#: Protocol -> the suite's words that have a name there, and that name unless a profile says another.
WORDS: dict[str, dict[str, str]] = {
    "stomp": HEADERS,
    "amqp": {
        "expiration": "absolute-expiry-time",
        "life": "ttl",
        "delay": "x-opt-delivery-delay",
        "original_destination": "",
        "no_local": "",
        "correlation-id": "correlation-id",
        "type": "subject",
    },
    "amqp091": {
        "expiration": "",
        "life": "expiration",
        "delay": "",
        "original_destination": "x-first-death-queue",
        "delivery_count": "",
        "no_local": "",
        "correlation-id": "correlation-id",
        "type": "type",
    },
    "mqtt": {
        "expiration": "",
        "life": "message-expiry-interval",
        "delay": "",
        "no_local": "",
        "correlation-id": "correlation-data",
        "type": "type",
    },
    "jms": {
        "expiration": "JMSExpiration",
        "life": "",
        "delay": API,
        "original_destination": "",
        "delivery_count": "JMSXDeliveryCount",
    },
}
#: Words whose header says yes or no, in the broker's own values if need be.
CHOICES: Final = frozenset(
    {"persistent", "redelivered", "exclusive", "no_local", "dispatch_async", "browser", "browser_end"}
)
#: A colon cannot stand in a header's name.
_CHOICE: Final = re.compile(r"([^\s:]+)(?:\s*:\s*([^\s|]+)(?:\s*\|\s*([^\s|]+))?)?")
_NUMBER: Final = re.compile(r"([^\s:]+)(?:\s+([->])\s+(\d+))?")
_QUEUE, _TOPIC = "queue://", "topic://"
#: The suite's name of the queue of all dead letters.
_DEAD = "queue://ActiveMQ.DLQ"
#: How those of one queue's alone begin.
_APART = _QUEUE + own_dead_letters_of("")
#: The queue whose dead letters stand for all where there is no queue for all: nobody sends there.
NOBODY: Final = "none"


class Saying(NamedTuple):
    """How a STOMP header says a word: ``yes`` and ``no`` are its values for "true" and "false" ("": there is no header
    then; ``both``: it is always said); a number is ``less`` than what the header holds, or "true" if that is ``above``.
    """

    header: str
    yes: str = "true"
    no: str = "false"
    both: bool = False
    less: int = 0
    above: int | None = None

    @classmethod
    def of(cls, word: str, text: str) -> Self:
        """``NAME``, ``NAME: YES``, ``NAME: YES | NO``; of a delivery count ``NAME - N``; of what comes again
        ``NAME > N``. Raises ``ValueError``.
        """
        if (found := _CHOICE.fullmatch(text)) and (":" not in text or word in CHOICES):
            return cls(found[1], found[2], found[3] or "", bool(found[3])) if found[2] else cls(found[1])
        found = _NUMBER.fullmatch(text)
        if found is None or (word, found[2]) not in {("delivery_count", "-"), ("redelivered", ">")}:
            raise ValueError(text)
        number = int(found[3])
        return cls(found[1], less=number) if found[2] == "-" else cls(found[1], above=number)

    def written(self, value: str) -> str:
        """The broker's value for the suite's."""
        return {"true": self.yes, "false": self.no}.get(value, value)

    def read(self, value: str) -> str:
        """The suite's value for the broker's."""
        if self.above is None and not self.less:
            return {self.yes: "true", self.no: "false"}.get(value, "false" if self.no != "false" else value)
        if not value.isdecimal():
            return ""
        number = int(value)
        return str(max(number - self.less, 0)) if self.above is None else "true" if number > self.above else "false"


#: The header fields that selectors ask for, as JMS calls them.
SELECTED: Final = (
    "JMSPriority",
    "JMSDeliveryMode",
    "JMSTimestamp",
    "JMSMessageID",
    "JMSCorrelationID",
    "JMSType",
    "JMSXGroupID",
    "JMSExpiration",
)


class WireNames(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """``headers``: the suite's word (``HEADERS``) -> the broker's header (STOMP's: ``Saying``); "": there is none.
    ``correlation-id`` and ``type`` of AMQP and MQTT are a field of the protocol's own, or else a property of that name.
    ``identifiers``: JMS header field -> what STOMP's selectors call it there; "": they cannot ask for it.
    ``arguments``: what AMQP 0-9-1 declares every queue with. ``queue`` "": there are none. ``reject``: AMQP 1.0's
    outcome, or 0-9-1's ``requeue``, of a NACK.
    ``wildcards`` of STOMP and MQTT: for one part of a topic's name, and for all that follow.
    STOMP's ``nack``: what each NACK says, too; ``unsubscribe``: an UNSUBSCRIBE that ends a durable subscription.
    ``dead_letters`` with ``{name}``: each queue's are in a queue of its own.
    """

    queue: str = "/queue/{name}"
    topic: str = "/topic/{name}"
    dead_letters: str = "/queue/ActiveMQ.DLQ"
    headers: dict[str, str] = {}
    identifiers: dict[str, str] = {}
    arguments: dict[str, str | int | bool] = {}
    wildcards: tuple[str, str] = ("*", ">")
    nack: dict[str, str] = {}
    unsubscribe: dict[str, str] = {}
    reject: Literal["rejected", "released", "modified", "requeue", "discard"] = "rejected"

    @property
    def apart(self) -> bool:
        """Whether each queue has dead letters of its own."""
        return "{name}" in self.dead_letters

    def address(self, dest: str) -> str:
        """``queue://q0`` as the broker writes it."""
        if dest == _DEAD:
            return self.dead_letters.replace("{name}", NOBODY)
        if self.apart and dest.startswith(_APART):
            return self.dead_letters.replace("{name}", dest.removeprefix(_APART))
        template = self.topic if dest.startswith(_TOPIC) else self.queue
        one, rest = self.wildcards
        name = dest.removeprefix(_TOPIC).removeprefix(_QUEUE).replace("*", one).replace(">", rest)
        return template.replace("{name}", name)

    def called(self, address: str) -> str:
        """What the broker writes, as the suite calls it: ``queue://q0``; where nothing tells, a queue."""
        return self.known(address) or _QUEUE + address

    def known(self, address: str) -> str:
        """The same; where nothing tells, ""."""
        if address == self.address(_DEAD):
            return _DEAD
        kinds = ((_APART, self.dead_letters if self.apart else ""), (_QUEUE, self.queue), (_TOPIC, self.topic))
        found = dict[int, str]()  # how much of a template is not the name -> the name; of equal ones the first
        for kind, template in kinds:
            before, there, after = template.partition("{name}")
            if there and address.startswith(before) and address.endswith(after):
                found.setdefault(len(before + after), kind + address.removeprefix(before).removesuffix(after))
        return found[max(found)] if found else ""


#: Protocol -> what is called how there, unless a profile says otherwise.
DEFAULTS: dict[str, WireNames] = {
    "stomp": WireNames(),
    "amqp": WireNames(queue="{name}", topic="{name}", dead_letters="DLQ"),
    "amqp091": WireNames(queue="{name}", topic="{name}", dead_letters="DLQ", reject="discard"),
    "mqtt": WireNames(queue="", topic="{name}", dead_letters="", wildcards=("+", "#")),
    "jms": WireNames(queue="{name}", topic="{name}", dead_letters="DLQ"),
}
