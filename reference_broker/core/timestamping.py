"""TimeStampingBrokerPlugin: the broker's clock replaces the producer's, once per send, before the arrival expiry
check (seed 000).

It decides the timestamp and the expiration of an arriving message. The table of its edges is
``tests/fast/test_core_timestamping.py``.

Rules, in order:

1. Left alone: a message without a timestamp (``timestamp_ms <= 0``), a dead-letter copy made by this broker (those
   never come here), and a message that came over a network bridge unless ``process_network_messages``.
2. Its time to live is ``expiration - timestamp`` if it has an expiration (> 0), else ``zero_expiration_override_ms``;
   then capped at ``ttl_ceiling_ms`` if that is > 0.
3. The new expiration is the broker's time + that time to live, in 64-bit arithmetic that wraps as Java's does.
4. Under ``future_only`` a message is left alone unless the new expiration is *later* than the one it came with.
5. Otherwise the expiration is replaced if both the time to live and the new expiration are > 0, and the timestamp is
   replaced in any case.

Exceptions, kept because today's ActiveMQ does the same and an operator expects it:

* ``future_only`` and no expiration: an absent expiration is 0, every new value is later, so the timestamp is replaced
  even if that moves it backwards.
* ``future_only`` switches the ceiling off whenever capping would lower the expiration: rule 4 sees the capped value.
* A message that is expired for its own producer (``expiration <= timestamp``) gets the broker's timestamp and keeps
  its expiration: it may be expired on arrival.

Change together: requirements TSP-*, and the known deviations listed for ActiveMQ.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import mypyc_attr

if TYPE_CHECKING:
    from reference_broker.core.config import TimeStamping
    from reference_broker.core.message import Message

LOGGER = "org.apache.activemq.broker.util.TimeStampingBrokerPlugin"


def wrap_int64(value: int) -> int:
    """``value`` as a signed 64-bit integer, overflow wrapping."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


@mypyc_attr(allow_interpreted_subclasses=True)
class Stamping:
    """Policy ``timestamping``. ``settings`` None: the plug-in is not installed, messages pass untouched."""

    def __init__(self, settings: TimeStamping | None) -> None:
        self.settings = settings

    def applies(self, message: Message, network: bool) -> bool:
        """Rule 1."""
        settings = self.settings
        return settings is not None and message.timestamp_ms > 0 and (settings.process_network_messages or not network)

    def ttl_ms(self, message: Message, settings: TimeStamping) -> int:
        """Rule 2."""
        ttl = settings.zero_expiration_override_ms
        if message.expiration_ms > 0:
            ttl = message.expiration_ms - message.timestamp_ms
        if 0 < settings.ttl_ceiling_ms < ttl:
            ttl = settings.ttl_ceiling_ms
        return ttl

    def stamp(self, message: Message, wall_ms: int, network: bool) -> bool:
        """Rewrite the message in place by the broker's clock; True if it acted (then ActiveMQ logs one line)."""
        settings = self.settings
        if settings is None or not self.applies(message, network):
            return False
        ttl_ms = self.ttl_ms(message, settings)
        expiration_ms = wrap_int64(ttl_ms + wall_ms)
        if settings.future_only and expiration_ms <= message.expiration_ms:
            return False
        if ttl_ms > 0 and expiration_ms > 0:
            message.expiration_ms = expiration_ms
        message.timestamp_ms = wall_ms
        return True
