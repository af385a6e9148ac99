"""A message as the broker holds it, and the names of destinations.

A destination is written ``queue://NAME`` or ``topic://NAME``, as ActiveMQ writes it (``temp-queue://``,
``temp-topic://`` for those that live as long as a connection). Times are wall-clock milliseconds since the epoch; 0 or
less means "never expires" in ``expiration_ms``, "none was sent" in ``timestamp_ms`` (as in OpenWire).

* The body is never looked into. ``form`` says how it is written, for the protocols: ``OCTETS``, ``TEXT`` (UTF-8), or a
  number of a protocol's own. What else a protocol must keep to give a message back as it came is ``extra``.
* Properties may come ``packed``, as a protocol wrote them; ``properties`` opens them, ``has`` need not.
"""

from __future__ import annotations

from mypy_extensions import mypyc_attr

#: What a message property may be (JMS: boolean, integer, floating point, String). STOMP knows texts only.
Property = str | bool | int | float

QUEUE = "queue://"
TOPIC = "topic://"
TEMP_QUEUE = "temp-queue://"
TEMP_TOPIC = "temp-topic://"
DEAD_LETTER_QUEUE = QUEUE + "ActiveMQ.DLQ"
DEFAULT_PRIORITY = 4

#: Forms of a body that every protocol knows.
OCTETS = 0
TEXT = 1


def property_text(value: Property) -> str:
    """A property as a text, as Java would write it: where a protocol has texts only."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


@mypyc_attr(allow_interpreted_subclasses=True)
class Packed:
    """Properties as a protocol wrote them."""

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data

    def unpack(self) -> dict[str, Property]:
        """All of them, in the order in which they were written."""
        raise NotImplementedError

    def mentions(self, name: str) -> bool:
        """Whether a property may be there; False: it is not."""
        return name.encode() in self.data


class Message:
    """What a producer sent, plus what the broker must remember about it while it is here."""

    __slots__ = ("body", "correlation_id", "delay_ms", "deliver_at_ms", "destination", "expiration_ms", "extra", "form",
                 "group_id", "group_sequence", "jms_type", "message_id", "opened", "original_destination", "packed",
                 "path", "persistent", "priority", "redelivery_count", "reply_to", "sender", "sequence",
                 "timestamp_ms", "ttl_ms")  # fmt: skip

    def __init__(
        self,
        message_id: str,
        destination: str,
        body: bytes,
        *,
        timestamp_ms: int = 0,
        expiration_ms: int = 0,
        delay_ms: int = 0,
        deliver_at_ms: int = 0,
        persistent: bool = False,
        priority: int = DEFAULT_PRIORITY,
        properties: dict[str, Property] | None = None,
        correlation_id: str | None = None,
        reply_to: str = "",
        jms_type: str = "",
        group_id: str = "",
        group_sequence: int = 0,
        form: int = OCTETS,
        packed: Packed | None = None,
        extra: bytes = b"",
        path: tuple[str, ...] = (),
    ) -> None:
        self.message_id = message_id
        self.destination = destination
        self.body = body
        self.timestamp_ms = timestamp_ms
        #: By this broker's clock, whoever computed it; consumers see ``shown_expiration_ms``.
        self.expiration_ms = expiration_ms
        #: Relative delivery delay requested by the producer; 0 is none.
        self.delay_ms = delay_ms
        #: Absolute delivery time on the *sender's* wall clock (JMSDeliveryTime); 0 is none. Turned into a remaining
        #: delay when the broker accepts the message.
        self.deliver_at_ms = deliver_at_ms
        self.persistent = persistent
        self.priority = priority
        #: How the properties came, if a protocol packed them; ``opened`` counts, once it is there.
        self.packed = packed
        self.opened: dict[str, Property] | None = properties if properties is not None or packed is not None else {}
        #: None is none; an empty one is one (JMS tells them apart).
        self.correlation_id = correlation_id
        self.reply_to = reply_to
        self.jms_type = jms_type
        #: JMSXGroupID and JMSXGroupSeq; a sequence of -1 closes the group.
        self.group_id = group_id
        self.group_sequence = group_sequence
        #: How the body is written, and what else belongs to a protocol alone.
        self.form = form
        self.extra = extra
        #: The brokers that it has passed on its way here, in order (``openwire/bridge.py``).
        self.path = path
        #: The connection that sent it, for noLocal; 0: the broker itself, or a connection before a restart.
        self.sender = 0
        #: Broker-relative time to live (``time_to_live.py``); 0 is none. The broker has computed the expiration itself.
        self.ttl_ms = 0
        #: Deliveries attempted before the present one; JMSXDeliveryCount is this plus one.
        self.redelivery_count = 0
        #: Where a dead letter came from; empty for a message that was never moved.
        self.original_destination = ""
        #: Broker-wide arrival number, the tie-break of every ordering.
        self.sequence = 0

    @property
    def properties(self) -> dict[str, Property]:
        """The properties by name."""
        found = self.opened
        if found is None:
            packed = self.packed
            assert packed is not None, "a message that is not opened came packed"
            found = self.opened = packed.unpack()
        return found

    @properties.setter
    def properties(self, values: dict[str, Property]) -> None:
        self.opened = values

    def has(self, name: str) -> bool:
        """Whether there is such a property; opens them only if it may be there."""
        if self.opened is None and self.packed is not None and not self.packed.mentions(name):
            return False
        return name in self.properties

    def copy_to(self, destination: str) -> Message:
        """The same message for another destination, or for one subscriber alone; body and properties are shared."""
        copy = Message(
            self.message_id,
            destination,
            self.body,
            timestamp_ms=self.timestamp_ms,
            expiration_ms=self.expiration_ms,
            delay_ms=self.delay_ms,
            deliver_at_ms=self.deliver_at_ms,
            persistent=self.persistent,
            priority=self.priority,
            properties=self.opened,
            correlation_id=self.correlation_id,
            reply_to=self.reply_to,
            jms_type=self.jms_type,
            group_id=self.group_id,
            group_sequence=self.group_sequence,
            form=self.form,
            packed=self.packed,
            extra=self.extra,
            path=self.path,
        )
        copy.ttl_ms = self.ttl_ms
        copy.sender = self.sender
        copy.redelivery_count = self.redelivery_count
        copy.original_destination = self.original_destination
        copy.sequence = self.sequence
        return copy

    def shown_expiration_ms(self) -> int:
        """The expiration that a consumer is told: 0, never, if only this broker's clock counts."""
        return 0 if self.ttl_ms > 0 else self.expiration_ms

    def __repr__(self) -> str:
        return f"Message({self.message_id!r}, {self.destination!r}, expiration_ms={self.expiration_ms})"
