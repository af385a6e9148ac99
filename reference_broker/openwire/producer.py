"""Producers as JMS programs know them: ``MessageProducer`` (classic, checked exceptions) and ``JMSProducer`` (JMS 2.0's
simplified API: setters that return the producer, unchecked exceptions). Both send through a client's session.

Rules (Jakarta Messaging 3.1, 3.4.9 to 3.4.13, 7.8, 7.9)
* Delay, time to live, mode, priority and the timestamp switch are properties of the producer: they count for the sends
  that come after, in whatever order they were set. A send never changes them, and nothing set later changes a message.
* Delivery time and expiration count from the same send: ``send + delay`` and ``send + time to live``. A time to live
  that is not longer than the delay is no error, in no order of the calls: such a message expires while it waits.
* There is no delay per send; ``MessageProducer.send`` takes mode, priority and time to live.
* A setter refuses what makes no sense when it is called: a negative delay, a negative time to live, a priority outside
  0 to 9. A refused setter changes nothing. A negative time to live of a *send* means none, as in ActiveMQ.
* A producer of a destination sends there only; one without needs a destination at every send. A closed one does
  nothing.

The two differ in the exceptions only: ``JMSError`` and its kinds, and ``JMSRuntimeError`` and its kinds, each named by
``kind`` as Java names it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Self

from mypy_extensions import mypyc_attr

from brokerproof.reference_broker.core.message import DEFAULT_PRIORITY

if TYPE_CHECKING:
    from brokerproof.reference_broker.core.instant import Now
    from brokerproof.reference_broker.core.message import Message, Property
    from brokerproof.reference_broker.openwire.requests import Requests

#: What can be wrong -> (Java's checked exception, its unchecked one).
INVALID: Final = ("JMSException", "JMSRuntimeException")
CLOSED: Final = ("IllegalStateException", "IllegalStateRuntimeException")
NOWHERE: Final = ("InvalidDestinationException", "InvalidDestinationRuntimeException")
UNSUPPORTED: Final = ("UnsupportedOperationException", "UnsupportedOperationException")


class JMSError(Exception):
    """What a classic producer raises; ``kind`` is Java's class."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


@mypyc_attr(native_class=False)
class JMSRuntimeError(RuntimeError):
    """What a JMS 2.0 producer raises; ``kind`` is Java's class."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


class _Producer:
    """What both share: the settings and what speaks against them."""

    def __init__(self, session: Requests) -> None:
        self._session = session
        self._delay_ms = 0
        self._ttl_ms = 0
        self._persistent = True
        self._priority = DEFAULT_PRIORITY
        self._disable_timestamp = False

    def _wrong(self, kind: tuple[str, str], text: str) -> Exception:
        raise NotImplementedError

    @property
    def delivery_delay_ms(self) -> int:
        """0 is none, and the default."""
        return self._delay_ms

    @property
    def time_to_live_ms(self) -> int:
        """0 is for ever, and the default."""
        return self._ttl_ms

    def _delay(self, ms: int) -> None:
        if ms < 0:
            raise self._wrong(INVALID, f"delivery delay {ms} ms is negative; set 0 or more")
        self._delay_ms = ms

    def _live(self, ms: int) -> None:
        if ms < 0:
            raise self._wrong(CLOSED, f"time to live {ms} ms is negative; set 0 (for ever) or more")
        self._ttl_ms = ms

    def _rank(self, priority: int) -> int:
        if not 0 <= priority <= 9:
            raise self._wrong(INVALID, f"priority {priority} is outside 0 to 9")
        return priority

    def _send(
        self,
        destination: str,
        body: bytes,
        now: Now,
        ttl_ms: int,
        persistent: bool,
        priority: int,
        properties: dict[str, Property] | None,
    ) -> Message:
        if not destination:
            raise self._wrong(NOWHERE, "there is no destination; name one, such as queue://orders")
        return self._session.send(
            destination,
            body,
            now,
            ttl_ms=ttl_ms,
            delay_ms=self._delay_ms,
            persistent=persistent,
            priority=priority,
            disable_timestamp=self._disable_timestamp,
            properties=properties,
            receipt=True,
        )


class MessageProducer(_Producer):
    """The classic producer. ``destination`` "" : every send names one."""

    def __init__(self, session: Requests, destination: str = "") -> None:
        super().__init__(session)
        self._destination = destination
        self._closed = False

    def _wrong(self, kind: tuple[str, str], text: str) -> Exception:
        return JMSError(kind[0], text)

    def _check_open(self) -> None:
        if self._closed:
            raise self._wrong(CLOSED, "the producer is closed; create another one")

    def set_delivery_delay(self, ms: int) -> None:
        """Of the sends that come after."""
        self._check_open()
        self._delay(ms)

    def set_time_to_live(self, ms: int) -> None:
        """Of the sends that come after; 0 is for ever."""
        self._check_open()
        self._live(ms)

    def set_persistent(self, persistent: bool) -> None:
        """DeliveryMode."""
        self._check_open()
        self._persistent = persistent

    def set_priority(self, priority: int) -> None:
        """0 to 9."""
        self._check_open()
        self._priority = self._rank(priority)

    def set_disable_message_timestamp(self, disabled: bool) -> None:
        """Messages go out with timestamp 0; expirations are not affected."""
        self._check_open()
        self._disable_timestamp = disabled

    def send(
        self,
        body: bytes,
        now: Now,
        *,
        destination: str = "",
        persistent: bool | None = None,
        priority: int | None = None,
        ttl_ms: int | None = None,
        properties: dict[str, Property] | None = None,
    ) -> Message:
        """Send, with the producer's settings where none are given."""
        self._check_open()
        if destination and self._destination:
            text = (
                f"the producer sends to {self._destination} only, not to {destination}; use one without a destination"
            )
            raise self._wrong(UNSUPPORTED, text)
        return self._send(
            destination or self._destination,
            body,
            now,
            self._ttl_ms if ttl_ms is None else max(0, ttl_ms),
            self._persistent if persistent is None else persistent,
            self._priority if priority is None else self._rank(priority),
            properties,
        )

    def close(self) -> None:
        """Closing twice is no error."""
        self._closed = True


class JMSProducer(_Producer):
    """The producer of a JMSContext: light, without a destination, never closed by itself."""

    def _wrong(self, kind: tuple[str, str], text: str) -> Exception:
        return JMSRuntimeError(kind[1], text)

    def set_delivery_delay(self, ms: int) -> Self:
        """Of the sends that come after."""
        self._delay(ms)
        return self

    def set_time_to_live(self, ms: int) -> Self:
        """Of the sends that come after; 0 is for ever."""
        self._live(ms)
        return self

    def set_persistent(self, persistent: bool) -> Self:
        """DeliveryMode."""
        self._persistent = persistent
        return self

    def set_priority(self, priority: int) -> Self:
        """0 to 9."""
        self._priority = self._rank(priority)
        return self

    def set_disable_message_timestamp(self, disabled: bool) -> Self:
        """Messages go out with timestamp 0; expirations are not affected."""
        self._disable_timestamp = disabled
        return self

    def send(self, destination: str, body: bytes, now: Now, *, properties: dict[str, Property] | None = None) -> Self:
        """Send with the producer's settings."""
        self._send(destination, body, now, self._ttl_ms, self._persistent, self._priority, properties)
        return self
