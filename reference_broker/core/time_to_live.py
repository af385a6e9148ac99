"""Broker-relative time to live: the producer gives a duration, and only the broker's clock decides when it is over
(seed 000: "send along a long value, say 180000").

A property of the message asks for it, by default ``brokerproof_ttl_ms`` (a name that no broker gives another meaning);
``BrokerConfig.relative_ttl_names`` lists the names that count.

* The expiration is the broker's wall clock at acceptance plus the value, whatever stamps the producer sent. If both a
  relative and an absolute one are given the relative one counts, because it does not depend on whose clock is right. A
  ``ttl_ceiling_ms`` of the time-stamping plug-in caps it; an override does not touch it.
* From then on it is an ordinary expiration for this broker: sweep, dispatch, dead letter (``expiry.py``). In a
  transaction and with a delay it counts from the send.
* Consumers see *no* expiration (0), so a client that compares with its own clock cannot discard the message. They see
  the property with what is left when the message was assigned to them, at least 1.
* So a bridge that sends on what it received, properties and all, hands on the rest: the next broker counts it on its
  own clock, however the clocks of the two differ. Time on the wire between them is not counted. Time-stamping leaves
  what came over a bridge alone (unless told otherwise); a relative one is counted all the same.
* 0 is none. Anything but a whole number from 0 to ``MAX_TTL_MS`` is refused (``bad-ttl``): a message that its producer
  wanted to die must not live for ever because of a typing error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import mypyc_attr

if TYPE_CHECKING:
    from brokerproof.reference_broker.core.message import Message, Property

#: Declared maximum: a hundred years of 366 days.
MAX_TTL_MS = 3_162_240_000_000

BAD_TTL = "bad-ttl"
#: A text that is longer than any good value.
DIGITS = 20


@mypyc_attr(allow_interpreted_subclasses=True)
class RelativeTtl:
    """Policy ``relative_ttl``."""

    def __init__(self, names: list[str]) -> None:
        self.names = names

    def asked(self, message: Message) -> str:
        """The name under which the message asks for it; "" if it does not."""
        for name in self.names:
            if message.has(name):
                return name
        return ""

    def objection(self, message: Message) -> str:
        """What is wrong with the value; "" if nothing is, or if there is none."""
        name = self.asked(message)
        if not name:
            return ""
        value = message.properties[name]
        ttl_ms = milliseconds(value)
        if 0 <= ttl_ms <= MAX_TTL_MS:
            return ""
        return f"{name} is {str(value)[:40]!r}; give a whole number of milliseconds from 0 to {MAX_TTL_MS}"

    def take(self, message: Message) -> None:
        """Move the value from the properties to the message; it has been found good."""
        name = self.asked(message)
        if name:
            message.ttl_ms = milliseconds(message.properties.pop(name))

    def expiration_ms(self, message: Message, ceiling_ms: int, wall_ms: int) -> int:
        """When the message dies, by the broker's clock that reads ``wall_ms`` now; a ceiling of 0 or less is none."""
        ttl_ms = min(message.ttl_ms, ceiling_ms) if ceiling_ms > 0 else message.ttl_ms
        return wall_ms + ttl_ms

    def remaining_ms(self, message: Message, wall_ms: int) -> int:
        """What is left, as a consumer is told."""
        return max(1, message.expiration_ms - wall_ms)


def milliseconds(value: Property) -> int:
    """A property as a number; -1 if it is none."""
    if isinstance(value, str):
        return int(value) if value.isascii() and value.isdigit() and len(value) < DIGITS else -1
    return value if isinstance(value, int) and not isinstance(value, bool) else -1
